//! Measures whether an agent gets the rules that its task needs: the organisations of `crates/eval/recall`,
//! queried with the tools that agents call.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use anyhow::Context;
use kenning_presentation::Reply;
use kenning_tools::briefing::Briefing;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::library::{Library, text_of};

#[derive(Deserialize)]
pub struct Organisation {
    pub name: String,
    scopes: Vec<Scope>,
    rules: Vec<Rule>,
    tasks: Vec<Task>,
    pub questions: Vec<Question>,
    off_topic: Vec<OffTopic>,
}

#[derive(Deserialize)]
struct Scope {
    scope: String,
    description: String,
    #[serde(default)]
    parents: Vec<String>,
}

#[derive(Deserialize)]
pub struct Rule {
    pub id: String,
    scope: String,
    #[serde(default)]
    pub topic: String,
    pub content: String,
    #[serde(default)]
    pub context: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    task_sizes: Vec<String>,
}

#[derive(Deserialize)]
struct Task {
    scope: String,
    /// The text that the person has typed.
    request: String,
    queries: Vec<String>,
    feature: String,
    feature_words: String,
    must: BTreeSet<String>,
    #[serde(default)]
    unseen: bool,
}

#[derive(Deserialize)]
pub struct Question {
    scope: String,
    pub question: String,
    pub rule: String,
    #[serde(default)]
    unseen: bool,
}

#[derive(Deserialize)]
struct OffTopic {
    scope: String,
    queries: Vec<String>,
    shares: Shares,
    #[serde(default)]
    unseen: bool,
}

/// Whether a task that is unrelated to the stored rules has words in common with them.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Shares {
    None,
    Some,
}

/// The form of a query: unchanged, or with the name of the feature that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Plain,
    IdentifierBefore,
    IdentifierAfter,
    WordsBefore,
    WordsAfter,
}

impl Form {
    const ALL: [Form; 5] =
        [Form::Plain, Form::IdentifierBefore, Form::IdentifierAfter, Form::WordsBefore, Form::WordsAfter];

    fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::IdentifierBefore => "identifier before",
            Form::IdentifierAfter => "identifier after",
            Form::WordsBefore => "words before",
            Form::WordsAfter => "words after",
        }
    }

    fn of(self, query: &str, task: &Task) -> String {
        match self {
            Form::Plain => query.to_owned(),
            Form::IdentifierBefore => format!("{} {query}", task.feature),
            Form::IdentifierAfter => format!("{query} for {}", task.feature),
            Form::WordsBefore => format!("{} {query}", task.feature_words),
            Form::WordsAfter => format!("{query} {}", task.feature_words),
        }
    }
}

/// The figures of one organisation, for the seen or the unseen part of its tasks.
#[derive(Debug, Default, Serialize)]
pub struct RecallScores {
    pub tasks: usize,
    /// The share of the required rules that tasks get, by the form of the queries.
    pub recall: BTreeMap<&'static str, f64>,
    /// The median of the tokens of a reply, in the text and in the structured channel.
    pub text_tokens_p50: usize,
    pub structured_tokens_p50: usize,
    pub questions: usize,
    /// The share of the questions without a common word that have the rule among the first five of `query`.
    pub first_five: f64,
    /// The same share for `get_task_context`.
    pub in_context: f64,
    /// The shares of unrelated tasks that get nothing: of those without and with common words.
    pub silent_none: f64,
    pub silent_some: f64,
    /// Each rule that a task lacks in the plain form, with the task's queries.
    #[serde(skip)]
    pub missed: Vec<String>,
}

impl Organisation {
    pub fn read(path: &Path) -> anyhow::Result<Organisation> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The rule that answers a question.
    pub fn rule(&self, question: &Question) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == question.rule)
    }
}

/// Stores the rules, asks for every task and question, and counts the rules in the replies. `others` is the
/// number of entries in other namespaces; no figure may depend on it.
pub fn evaluate_recall(
    organisation: &Organisation,
    unseen: bool,
    others: usize,
) -> anyhow::Result<RecallScores> {
    let store = OrganisationStore::new(organisation, others)?;
    let mut scores = RecallScores::default();
    let tasks: Vec<&Task> = organisation.tasks.iter().filter(|task| task.unseen == unseen).collect();
    scores.tasks = tasks.len();
    let (mut text, mut structured) = (Vec::new(), Vec::new());
    for form in Form::ALL {
        let (mut got, mut all) = (0, 0);
        for task in &tasks {
            let queries: Vec<String> = task.queries.iter().map(|query| form.of(query, task)).collect();
            let reply = store.task_context(&queries, &task.scope)?;
            let came = store.rules_in(&reply.structured);
            got += task.must.iter().filter(|rule| came.contains(rule.as_str())).count();
            all += task.must.len();
            if form == Form::Plain {
                let lacks = task.must.iter().filter(|rule| !came.contains(rule.as_str()));
                scores.missed.extend(lacks.map(|rule| format!("{rule} for {:?}", task.queries)));
                text.push(text_of(&reply).len() / 4);
                structured.push(reply.structured.to_string().len() / 4);
            }
        }
        scores.recall.insert(form.name(), share(got, all));
    }
    scores.text_tokens_p50 = median(text);
    scores.structured_tokens_p50 = median(structured);
    let questions: Vec<&Question> = organisation.questions.iter().filter(|it| it.unseen == unseen).collect();
    scores.questions = questions.len();
    let (mut first_five, mut in_context) = (0, 0);
    for asked in &questions {
        let arguments = json!({"content": asked.question, "scope": asked.scope, "limit": 5});
        let found = store.library.call("query", arguments)?.structured;
        let ids = found["items"].as_array().into_iter().flatten().filter_map(|item| item["id"].as_str());
        first_five += usize::from(ids.filter_map(|id| store.rules.get(id)).any(|rule| *rule == asked.rule));
        let reply = store.task_context(std::slice::from_ref(&asked.question), &asked.scope)?;
        in_context += usize::from(store.rules_in(&reply.structured).contains(asked.rule.as_str()));
    }
    scores.first_five = share(first_five, questions.len());
    scores.in_context = share(in_context, questions.len());
    for (shares, figure) in [(Shares::None, &mut scores.silent_none), (Shares::Some, &mut scores.silent_some)]
    {
        let asked = organisation.off_topic.iter().filter(|it| it.unseen == unseen && it.shares == shares);
        let (mut silent, mut all) = (0, 0);
        for off_topic in asked {
            let reply = store.task_context(&off_topic.queries, &off_topic.scope)?;
            silent += usize::from(store.rules_in(&reply.structured).is_empty());
            all += 1;
        }
        *figure = share(silent, all);
    }
    Ok(scores)
}

/// The figures of a hook, without a call of the agent, for the seen or the unseen part of the tasks.
#[derive(Debug, Default, Serialize)]
pub struct HookScores {
    pub tasks: usize,
    /// The share of the required rules that come beside the request as it was typed,
    pub by_request: f64,
    /// beside the queries of the task as one prompt,
    pub by_queries: f64,
    /// and beside the request followed by the queries, as in a longer prompt.
    pub by_both: f64,
    /// The median of the characters of a briefing.
    pub chars_p50: usize,
    pub chars_max: usize,
    /// The number of unrelated prompts, and the shares of them that get an empty briefing: of those without
    /// and with common words.
    pub off_topic: usize,
    pub silent_none: f64,
    pub silent_some: f64,
    #[serde(skip)]
    pub missed: Vec<String>,
}

/// As `evaluate_recall`, but without any action of an agent: the prompt alone.
pub fn evaluate_recall_hook(organisation: &Organisation, unseen: bool) -> anyhow::Result<HookScores> {
    let store = OrganisationStore::new(organisation, 0)?;
    let mut scores = HookScores::default();
    let tasks: Vec<&Task> = organisation.tasks.iter().filter(|task| task.unseen == unseen).collect();
    scores.tasks = tasks.len();
    let mut all_chars = Vec::new();
    let forms: [fn(&Task) -> String; 3] = [
        |task| task.request.clone(),
        |task| task.queries.join(". "),
        |task| format!("{} Mind: {}.", task.request, task.queries.join("; ")),
    ];
    let mut recalls = [0.0; 3];
    for (form, recall) in forms.iter().zip(&mut recalls) {
        let (mut got, mut all) = (0, 0);
        for task in &tasks {
            let prompt = form(task);
            let briefing = store.library.beside_prompt(&task.scope, &prompt)?;
            all_chars.push(briefing.text.chars().count());
            let came = store.rules_of(&briefing);
            got += task.must.iter().filter(|rule| came.contains(rule.as_str())).count();
            all += task.must.len();
            let lacks = task.must.iter().filter(|rule| !came.contains(rule.as_str()));
            scores.missed.extend(lacks.map(|rule| format!("{rule} for {prompt}")));
        }
        *recall = share(got, all);
    }
    [scores.by_request, scores.by_queries, scores.by_both] = recalls;
    scores.chars_max = all_chars.iter().copied().max().unwrap_or_default();
    scores.chars_p50 = median(all_chars);
    for (shares, figure) in [(Shares::None, &mut scores.silent_none), (Shares::Some, &mut scores.silent_some)]
    {
        let asked = organisation.off_topic.iter().filter(|it| it.unseen == unseen && it.shares == shares);
        let (mut silent, mut all) = (0, 0);
        for off_topic in asked {
            let prompt = off_topic.queries.join(". ");
            let briefing = store.library.beside_prompt(&off_topic.scope, &prompt)?;
            silent += usize::from(briefing.text.is_empty());
            if !briefing.text.is_empty() {
                scores.missed.push(format!("said {:?} for {prompt}", store.rules_of(&briefing)));
            }
            all += 1;
        }
        scores.off_topic += all;
        *figure = share(silent, all);
    }
    Ok(scores)
}

/// An organisation in a store.
struct OrganisationStore {
    library: Library,
    /// The names of the rules by the ids of their entries.
    rules: HashMap<String, String>,
}

impl OrganisationStore {
    fn new(organisation: &Organisation, others: usize) -> anyhow::Result<OrganisationStore> {
        let library = Library::default();
        let namespace = &organisation.name;
        library.call("create_namespace", json!({"name": namespace, "description": namespace}))?;
        for Scope { scope, description, parents } in &organisation.scopes {
            if !scope.ends_with(":default") {
                let arguments = json!({"scope": scope, "description": description, "parents": parents});
                library.call("create_scope", arguments)?;
            }
        }
        let mut stored = OrganisationStore { library, rules: HashMap::new() };
        stored.fill_others(organisation, others)?;
        for rule in &organisation.rules {
            let context = [&rule.context].into_iter().chain(&rule.tags).map(String::as_str);
            let context: Vec<&str> = context.filter(|text| !text.is_empty()).collect();
            // The tool requires search words; a full stop has none.
            let context = if context.is_empty() { ".".to_owned() } else { context.join(" ") };
            let mut arguments = json!({"content": rule.content, "context": context, "scope": rule.scope});
            if !rule.topic.is_empty() {
                arguments["topic"] = json!(rule.topic);
            }
            if !rule.task_sizes.is_empty() {
                arguments["task_sizes"] = json!(rule.task_sizes);
            }
            let reply = stored.library.call("write_knowledge", arguments)?.structured;
            let id = reply["id"].as_str().context("a write names the entry")?;
            stored.rules.insert(id.to_owned(), rule.id.clone());
        }
        Ok(stored)
    }

    /// Adds entries in another namespace, made of the words of this one in another order.
    fn fill_others(&self, organisation: &Organisation, many: usize) -> anyhow::Result<()> {
        if many == 0 {
            return Ok(());
        }
        self.library.call("create_namespace", json!({"name": "elsewhere", "description": "others"}))?;
        let words: Vec<&str> = organisation.rules.iter().flat_map(|rule| rule.content.split(' ')).collect();
        let entry = |number: usize| {
            let text: Vec<&str> = (0..30).map(|at| words[(number * 31 + at * 17) % words.len()]).collect();
            json!({"topic": "other", "content": text.join(" ")})
        };
        let numbers: Vec<usize> = (0..many).collect();
        for some in numbers.chunks(100) {
            let entries: Vec<Value> = some.iter().map(|number| entry(*number)).collect();
            self.library.call("store_many", json!({"entries": entries, "scope": "elsewhere:default"}))?;
        }
        Ok(())
    }

    fn task_context(&self, queries: &[String], scope: &str) -> anyhow::Result<Reply> {
        self.library.call("get_task_context", json!({"queries": queries, "scope": scope}))
    }

    fn rules_of(&self, briefing: &Briefing) -> HashSet<&str> {
        let rules = briefing.said.iter().filter_map(|(id, _)| self.rules.get(&id.to_string()));
        rules.map(String::as_str).collect()
    }

    /// The rules in a reply of `get_task_context`.
    fn rules_in(&self, structured: &Value) -> HashSet<&str> {
        let scopes = structured.as_object().into_iter().flatten().filter(|(key, _)| key.contains(':'));
        let ids = scopes.flat_map(|(_, entries)| entries.as_object().into_iter().flatten()).map(|(id, _)| id);
        ids.filter_map(|id| self.rules.get(id)).map(String::as_str).collect()
    }
}

fn share(some: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { some as f64 / all as f64 }
}

fn median(mut numbers: Vec<usize>) -> usize {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}
