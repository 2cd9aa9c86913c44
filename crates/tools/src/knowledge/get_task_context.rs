//! `get_task_context`: what is known for a task, asked in several queries, nearest scope first.

use std::collections::{BTreeSet, HashMap};

use kenning_engine::{Question, Snapshot};
use kenning_model::{Entry, Id, Record, ScopeId, ScopeName, TaskSize, Timestamp};
use kenning_presentation::budget::json_bytes;
use kenning_presentation::text::clean;
use kenning_storage::Stored;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::arguments::{NAME_BYTES_MAX, Queries, Text, Whole};
use crate::code::counted;
use crate::keyed::{ById, ByScope, Keyed};
use crate::memory::item::{Size, as_data, moment};
use crate::memory::query::degraded;
use crate::tool::{Effect, Tool, sight};
use crate::{Context, Stop};

pub(crate) struct GetTaskContext;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Each a few words on one side of the task.
    queries: Queries,
    scope: Option<Text<NAME_BYTES_MAX>>,
    task_size: Option<Size>,
    max_tokens: Option<Whole<TOKENS_MIN, TOKENS_MAX>>,
}

const TOKENS_MIN: u64 = 100;
const TOKENS_MAX: u64 = 16_000;
const TOKENS_DEFAULT: u64 = 4_000;
const BYTES_PER_TOKEN: u64 = 4;

/// So many of the best of each query are looked at: which of them are near, and meant for the size of the task, is known
/// only then.
const BEST: u64 = 400;
/// So many entries a reply has at most; each has its provenance beside it.
const ENTRIES_MAX: usize = 200;
/// So many of them are compared with each other.
const COMPARED_MAX: usize = 64;
const COLLISIONS_MAX: usize = 20;
/// What the first line and the fence take in the text, the scope's name aside.
const HEAD_BYTES: usize = 200;
/// What the lines after the entries take. Who asks for less than `TAIL_FROM` gets them only if there is room left.
const TAIL_BYTES: usize = 480;
const TAIL_FROM: usize = 1600;
/// How many were left out, if nothing else.
const TAIL_SHORT_BYTES: usize = 30;

pub(crate) struct Output {
    /// By scope, nearest first, each entry's content by its id.
    scopes: Keyed<Keyed<String, ById>, ByScope>,
    scope: ScopeName,
    queries: usize,
    as_of_tx_id: u64,
    provenance: Map<String, Value>,
    collisions: Vec<Collision>,
    left_out: Vec<Id>,
    max_tokens: u64,
    is_degraded: bool,
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.scopes.serialize(serializer)
    }
}

impl JsonSchema for Output {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskContext".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Keyed::<Keyed<String, ById>, ByScope>::json_schema(generator)
    }
}

impl Tool for GetTaskContext {
    const NAME: &'static str = "get_task_context";
    const ABOUT: &'static str = "What is known for a task, by scope, the nearest first; where entries differ, the nearer holds. \
        Use before you start on a task: split it into 1 to 15 queries (\"git commit message rules\", \"git push branch safety\"). \
        Do not use for lists or links (`query`, `query_graph`). \
        Returns only what is relevant, within `max_tokens` (default 4000); likely contradictions are named.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Output, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let snapshot = ctx.engine.snapshot()?;
        let sight = sight(&snapshot, &scope)?;
        let scopes = sight.scopes.clone();
        let (ranks, is_degraded) = ranked(&snapshot, &input.queries.0, &sight, ctx.engine.now())?;
        let found = found(&snapshot, ranks, &scopes, input.task_size.map(TaskSize::from))?;
        let max_tokens = input.max_tokens.map_or(TOKENS_DEFAULT, |tokens| tokens.0);
        let own: BTreeSet<ScopeId> = found.iter().map(|found| found.entry.scope).collect();
        let names = snapshot.scope_names(&own.into_iter().collect::<Vec<_>>())?;
        let mut budget = Budget::new(max_tokens, &scope);
        let (mut shown, mut left_out) = (Vec::new(), Vec::new());
        let mut groups: Vec<(String, Keyed<String, ById>)> = Vec::new();
        for found in found {
            let (key, content) = (names.of(found.entry.scope), content(&found.entry));
            let is_open = groups.last().is_some_and(|(open, _)| *open == key);
            if shown.len() == ENTRIES_MAX || !budget.take((!is_open).then_some(&key), &content) {
                left_out.push(found.id);
                continue;
            }
            if !is_open {
                groups.push((key, Keyed::new(Vec::new())));
            }
            groups.last_mut().expect("one is open").1.0.push((found.id.to_string(), content));
            shown.push(found);
        }
        Ok(Output {
            scopes: Keyed::new(groups),
            scope,
            queries: input.queries.0.len(),
            as_of_tx_id: snapshot.at().0,
            provenance: shown.iter().map(|found| (found.id.to_string(), found.provenance())).collect(),
            collisions: collisions(&shown),
            left_out,
            max_tokens,
            is_degraded,
        })
    }

    fn text(output: &Output) -> String {
        let Output { scope, as_of_tx_id: at, .. } = output;
        let queries = counted(output.queries, "query");
        let left_out = output.left_out_line();
        if output.scopes.0.is_empty() {
            if !output.left_out.is_empty() {
                let many = counted(output.left_out.len(), "relevant entry");
                return format!(
                    "No relevant entry fits {} tokens; left out of what `{scope}` sees as of transaction {at}: {many}, {}. \
                     Ask for more tokens, or read `knowledge://entries/ID`.",
                    output.max_tokens,
                    output.left_out_ids()
                );
            }
            let hint = " `query` also lists weaker matches; keep what you learn with `write_knowledge`.";
            let queries = if output.queries == 1 { "query" } else { "queries" };
            return format!(
                "Nothing is relevant to the {queries} in what `{scope}` sees, as of transaction {at}.{hint}"
            );
        }
        let entry = |(id, content): &(String, String)| format!("{id} {}", content.replace('\n', "\n  "));
        let lines: Vec<String> = output
            .scopes
            .0
            .iter()
            .flat_map(|(scope, entries)| {
                std::iter::once(format!("{scope}:")).chain(entries.0.iter().map(entry))
            })
            .collect();
        let many = counted(output.provenance.len(), "entry");
        let data = as_data(&lines.join("\n"));
        let mut text = format!(
            "Found {many} for {queries} in what `{scope}` sees, nearest scope first, as of transaction {at}. {data}"
        );
        let room = (output.max_tokens * BYTES_PER_TOKEN) as usize;
        for lines in [[output.collisions_line(), String::new()], [left_out, output.left_out_short()]] {
            if let Some(line) = lines.iter().find(|line| text.len() + line.len() <= room) {
                text.push_str(line);
            }
        }
        text
    }

    fn meta(output: &Output) -> Map<String, Value> {
        let ids = |ids: &[Id]| ids.iter().map(Id::to_string).collect::<Vec<_>>();
        let collisions: Vec<Value> = output
            .collisions
            .iter()
            .map(|it| json!({"ids": ids(&it.ids), "across_scopes": it.is_across}))
            .collect();
        let about = json!({
            "as_of_tx_id": output.as_of_tx_id,
            "scope": output.scope.to_string(),
            "provenance": output.provenance,
            "collisions": collisions,
            "left_out": {"ids": ids(&output.left_out[..output.left_out.len().min(ENTRIES_MAX)]), "count": output.left_out.len()},
        });
        let mut meta = degraded(output.is_degraded);
        meta.insert("io.kenning/context".to_owned(), about);
        meta
    }
}

impl Output {
    /// Which entries most likely contradict each other. Of two in different scopes the nearer holds; nothing is to be
    /// settled there, since the other may hold elsewhere.
    fn collisions_line(&self) -> String {
        const NAMED_MAX: usize = 3;
        let (across, within): (Vec<&Collision>, Vec<&Collision>) =
            self.collisions.iter().partition(|collision| collision.is_across);
        let named = |collisions: &[&Collision]| {
            let pairs: Vec<String> = collisions
                .iter()
                .take(NAMED_MAX)
                .map(|it| format!("{} and {}", it.ids[0], it.ids[1]))
                .collect();
            let more = match collisions.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more}", pairs.join("; "))
        };
        let mut line = String::new();
        if !across.is_empty() {
            line.push_str(&format!(
                "\nLikely contradictions, where the first and nearer holds here: {}.",
                named(&across)
            ));
        }
        if !within.is_empty() {
            let settle = "settle with `resolve_knowledge_collision`";
            line.push_str(&format!("\nLikely contradictions in one scope, to {settle}: {}.", named(&within)));
        }
        line
    }

    fn left_out_line(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let many = counted(self.left_out.len(), "relevant entry");
        let ids = self.left_out_ids();
        format!("\n{many} did not fit {} tokens: {ids}. Ask for more, or more narrowly.", self.max_tokens)
    }

    fn left_out_short(&self) -> String {
        match self.left_out.len() {
            0 => String::new(),
            many => format!("\n{many} more did not fit."),
        }
    }

    fn left_out_ids(&self) -> String {
        const NAMED_MAX: usize = 5;
        let ids: Vec<String> = self.left_out.iter().take(NAMED_MAX).map(Id::to_string).collect();
        format!("{}{}", ids.join(", "), if self.left_out.len() > NAMED_MAX { ", ..." } else { "" })
    }
}

/// Two entries that most likely contradict each other, the nearer first.
struct Collision {
    ids: [Id; 2],
    /// They are in different scopes.
    is_across: bool,
}

/// The best rank of each entry over all queries, and the query that gave it.
type Ranks = HashMap<Id, (usize, usize)>;

/// The queries are answered one by one. Tells also whether words alone decided.
fn ranked(
    snapshot: &Snapshot<'_>,
    queries: &[String],
    sight: &kenning_engine::Sight,
    now: Timestamp,
) -> Result<(Ranks, bool), Stop> {
    let mut ranks = Ranks::new();
    let mut is_degraded = false;
    for (number, query) in queries.iter().enumerate() {
        let question = Question {
            sight,
            topic: None,
            content: Some(query),
            tags: &[],
            visible_at: Some(now),
            by: kenning_engine::By::WordsAndMeaning,
            known_words_only: true,
            explain: false,
        };
        let (ids, by_words) = snapshot.ranked(&question, BEST)?;
        is_degraded |= by_words;
        for (rank, id) in ids.into_iter().map(|e| e.id).enumerate() {
            let best = ranks.entry(id).or_insert((rank, number));
            *best = (*best).min((rank, number));
        }
    }
    Ok((ranks, is_degraded))
}

struct Found {
    id: Id,
    tx_id: u64,
    entry: Entry,
}

/// The entries that are meant for tasks of this size, nearest scope first, then by rank.
fn found(
    snapshot: &Snapshot<'_>,
    ranks: Ranks,
    scopes: &[ScopeId],
    size: Option<TaskSize>,
) -> Result<Vec<Found>, Stop> {
    let mut found = Vec::with_capacity(ranks.len());
    for (id, rank) in ranks {
        let Some(Stored { tx_id, record: Record::Entry(entry), .. }) = snapshot.entry(id)? else { continue };
        let fits = size.is_none_or(|size| entry.task_sizes.is_empty() || entry.task_sizes.contains(&size));
        if let (Some(distance), true) = (scopes.iter().position(|scope| *scope == entry.scope), fits) {
            found.push((distance, rank, Found { id, tx_id: tx_id.0, entry }));
        }
    }
    found.sort_by_key(|(distance, rank, found)| (*distance, *rank, found.id));
    Ok(found.into_iter().map(|(_, _, found)| found).collect())
}

impl Found {
    fn provenance(&self) -> Value {
        let entry = &self.entry;
        let mut about = json!({
            "actor": clean(&entry.actor),
            "recorded_at": moment(entry.recorded_at),
            "version": entry.version,
            "tx_id": self.tx_id,
        });
        if let Some(source) = &entry.source {
            about["source"] = json!(clean(source));
        }
        if let Some(updated_at) = entry.updated_at {
            about["updated_at"] = json!(moment(updated_at));
        }
        about
    }
}

/// The content, led by what it is about if that is known and not said in it.
fn content(entry: &Entry) -> String {
    let (topic, content) = (clean(&entry.topic), clean(&entry.content));
    match topic.is_empty() || content.to_lowercase().contains(&topic.to_lowercase()) {
        true => content,
        false => format!("{topic}: {content}"),
    }
}

/// Pairs that most likely contradict each other, the nearer first.
fn collisions(shown: &[Found]) -> Vec<Collision> {
    let compared: Vec<&Entry> = shown.iter().take(COMPARED_MAX).map(|found| &found.entry).collect();
    let pairs = kenning_engine::collisions(&compared).into_iter().take(COLLISIONS_MAX);
    let collision = |[one, other]: [usize; 2]| Collision {
        ids: [shown[one].id, shown[other].id],
        is_across: shown[one].entry.scope != shown[other].entry.scope,
    };
    pairs.map(collision).collect()
}

/// What is left of the tokens, in each channel.
struct Budget {
    json: usize,
    text: usize,
}

impl Budget {
    fn new(tokens: u64, scope: &ScopeName) -> Budget {
        let bytes = (tokens * BYTES_PER_TOKEN) as usize;
        let tail = if bytes < TAIL_FROM { TAIL_SHORT_BYTES } else { TAIL_BYTES };
        let around = HEAD_BYTES + scope.to_string().len() + tail;
        Budget { json: bytes - "{}".len(), text: bytes.saturating_sub(around) }
    }

    /// Takes an entry, and the scope that it opens, if there is room in both.
    fn take(&mut self, opens: Option<&String>, content: &str) -> bool {
        let (mut json, mut text) = (json_bytes(&content), content.len() + 2 * content.matches('\n').count());
        // The id, and what stands around it.
        json += Id::LEN + r#""":,"#.len();
        text += Id::LEN + " \n".len();
        if let Some(scope) = opens {
            json += scope.len() + r#""":{},"#.len();
            text += scope.len() + ":\n".len();
        }
        let fits = json <= self.json && text <= self.text;
        if fits {
            self.json -= json;
            self.text -= text;
        }
        fits
    }
}
