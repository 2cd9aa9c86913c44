//! `get_task_context`: the entries that matter for a task, found by several queries, nearest scope first.

use std::collections::{BTreeSet, HashMap, HashSet};

use kenning_engine::{Rarity, Sight, Snapshot, TaskMatches, excerpt};
use kenning_model::{Entry, Id, Record, ScopeId, ScopeName, ScopeNames, TaskSize};
use kenning_presentation::Answer;
use kenning_presentation::budget::json_bytes;
use kenning_presentation::text::{clean, cut};
use kenning_storage::Stored;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::arguments::{NAME_BYTES_MAX, Queries, Text, Whole};
use crate::code::counted;
use crate::elsewhere::elsewhere;
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
    /// Whose knowledge; default the project's scope.
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Leaves out entries that are tagged for other sizes.
    task_size: Option<Size>,
    /// Most tokens of the reply; default 4000.
    max_tokens: Option<Whole<TOKENS_MIN, TOKENS_MAX>>,
}

const TOKENS_MIN: u64 = 100;
const TOKENS_MAX: u64 = 16_000;
const TOKENS_DEFAULT: u64 = 4_000;
const BYTES_PER_TOKEN: u64 = 4;

/// If all entries in sight together take no more bytes than this, the reply has all of them, whatever the
/// queries are.
const LITTLE_BYTES: usize = 300 * 4;
/// The same limit if at least one query matches an entry.
const LITTLE_BYTES_MATCHED: usize = 1000 * 4;
/// With more entries than this the reply has only matching ones, however short the entries are.
const LITTLE_ENTRIES: u64 = 120;
/// Pinned entries take at most one part in this many of the budget.
const PINNED_PART: usize = 4;
const PINNED_MAX: usize = 100;
/// The largest number of entries in a reply, because each needs its provenance too.
const ENTRIES_MAX: usize = 200;
/// The number of entries in a reply that are compared with each other to find contradictions.
const COMPARED_MAX: usize = 64;
const CONTRADICTIONS_MAX: usize = 10;
const LEFT_OUT_MAX: usize = 20;
/// The text of a contradicting entry is cut to this length.
const CONTRADICTION_BYTES: usize = 160;
const QUERY_BYTES: usize = 120;
/// An entry is left out rather than cut to fewer bytes than this.
const PARTS_BYTES_MIN: usize = 160;
/// The bytes of the text channel for the first line, the fence and the headings of the last lines, without
/// the name of the scope.
const TEXT_AROUND: usize = 280;
/// Contradictions and the list of left out entries may take one part in this many of the budget.
const NOTES_PART: usize = 8;

/// A map of strings, left out of the reply if it is empty.
type Notes = Vec<(String, String)>;

pub(crate) struct Output {
    /// The content of each entry by its id, grouped by scope, nearest scope first.
    scopes: Keyed<Keyed<String, ById>, ByScope>,
    contradictions: Notes,
    left_out: Notes,
    nothing_for: Notes,
    elsewhere: Notes,
    scope: ScopeName,
    queries: usize,
    as_of_tx_id: u64,
    provenance: Map<String, Value>,
    is_everything: bool,
    is_degraded: bool,
}

/// The keys of the reply that stand beside the scopes. They can't be taken for scopes, because the name of a
/// scope has a colon.
const NOTES: [&str; 4] = ["contradictions", "left_out", "nothing_for", "elsewhere"];

impl Output {
    fn notes(&self) -> [(&'static str, &Notes); 4] {
        let [contradictions, left_out, nothing_for, elsewhere] = NOTES;
        [
            (contradictions, &self.contradictions),
            (left_out, &self.left_out),
            (nothing_for, &self.nothing_for),
            (elsewhere, &self.elsewhere),
        ]
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (scope, entries) in &self.scopes.0 {
            map.serialize_entry(scope, entries)?;
        }
        for (name, notes) in self.notes().into_iter().filter(|(_, notes)| !notes.is_empty()) {
            let notes: Map<String, Value> =
                notes.iter().map(|(key, note)| (key.clone(), json!(note))).collect();
            map.serialize_entry(name, &notes)?;
        }
        map.end()
    }
}

impl JsonSchema for Output {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskContext".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Keyed::<Keyed<String, ById>, ByScope>::json_schema(generator);
        let note = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let notes: Map<String, Value> = NOTES.iter().map(|name| ((*name).to_owned(), note.clone())).collect();
        schema.insert("properties".to_owned(), notes.into());
        schema
    }
}

impl Tool for GetTaskContext {
    const NAME: &'static str = "get_task_context";
    const ABOUT: &'static str = "The rules and facts to work by. Use before you start on a task: \
        split it into 1 to 15 queries (\"git commit message rules\", \"git push branch safety\"). \
        Do not use to look something up or list entries (`query`) or for links between things (`query_graph`). \
        Returns content by scope and id, the nearest scope first, where entries differ the nearer holds; \
        `contradictions`, `left_out`, `nothing_for`, `elsewhere` when there are any; at most `max_tokens` (4000).";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let snapshot = ctx.snapshot()?;
        let sight = sight(&snapshot, &scope)?;
        let now = ctx.engine.now();
        let queries = &input.queries.0;
        let matches = snapshot.task_matches(&sight, queries, now)?;
        let task = Task { snapshot: &snapshot, sight: &sight, size: input.task_size.map(TaskSize::from) };
        let pinned = task.fitting(snapshot.pinned(&sight, now, PINNED_MAX)?);
        let matched = task.matched(&matches, &pinned)?;
        let little =
            task.little(snapshot.newest_entries(&sight, now, LITTLE_ENTRIES + 1)?, !matched.is_empty());
        let is_everything = little.is_some();
        let rest = task.rest(little.unwrap_or_default(), &pinned, &matched);
        let nothing_for: Notes = matches
            .nothing_for
            .iter()
            .map(|query| (cut(&clean(&queries[*query]), QUERY_BYTES), "no entry is about this".to_owned()))
            .collect();
        let names = task.names(pinned.iter().chain(&matched).chain(&rest))?;
        let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
        let elsewhere = elsewhere(&snapshot, &sight, &scope, &texts, now)?;
        let max_tokens = input.max_tokens.map_or(TOKENS_DEFAULT, |tokens| tokens.0);
        let mut page = ContextReply {
            names: &names,
            sight: &sight,
            budget: Budget::new(max_tokens, &scope, [&nothing_for, &elsewhere]),
            words: snapshot.rarities(&sight, &texts)?,
            shown: Vec::new(),
            left_out: Vec::new(),
        };
        let pinned_room = page.budget.part(PINNED_PART);
        page.take(pinned, Some(pinned_room));
        page.take(task.nearest_first(matched, &matches), None);
        page.take(rest, None);
        ctx.record_shown(page.shown.iter().map(|(candidate, _)| candidate.id));
        let (queries, at) = (queries.len(), snapshot.at().0);
        let output =
            page.output(TaskQuestion { scope, matches, queries, is_everything, nothing_for, elsewhere, at });
        Ok(Answer { meta: output.meta(), ..Answer::text(output, text) })
    }
}

fn text(output: &Output) -> String {
    let Output { scope, as_of_tx_id: at, .. } = output;
    let queries = counted(output.queries, "query");
    let mut text = if output.scopes.0.is_empty() {
        let hint = if output.left_out.is_empty() {
            " `query` lists weaker matches; keep what you learn with `write_knowledge`."
        } else {
            ""
        };
        format!("Nothing for {queries} in what `{scope}` sees, as of transaction {at}.{hint}")
    } else {
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
        let all = if output.is_everything { " (all there are)" } else { "" };
        let data = as_data(&lines.join("\n"));
        format!("{many}{all} for {queries}, as of transaction {at}, nearest scope first. {data}")
    };
    output.push_notes(&mut text);
    text
}

impl Output {
    fn meta(&self) -> Map<String, Value> {
        let about = json!({
            "as_of_tx_id": self.as_of_tx_id,
            "scope": self.scope.to_string(),
            "provenance": self.provenance,
        });
        let mut meta = degraded(self.is_degraded);
        meta.insert("io.kenning/context".to_owned(), about);
        meta
    }

    /// Adds the notes beside the entries to the text of the reply, as sentences.
    fn push_notes(&self, text: &mut String) {
        let pairs = |notes: &Notes, between: &str| {
            notes.iter().map(|(key, note)| format!("{key}{between}{note}")).collect::<Vec<_>>().join("; ")
        };
        if !self.contradictions.is_empty() {
            let ids = self
                .contradictions
                .iter()
                .map(|(id, note)| format!("{id} and {}", note.split(':').next().unwrap_or_default()));
            let ids: Vec<String> = ids.collect();
            text.push_str(&format!(
                "\nLikely contradictions (the nearer scope holds; in one scope settle with `resolve_knowledge_collision`): {}.",
                ids.join("; ")
            ));
        }
        if !self.left_out.is_empty() {
            let what = pairs(&self.left_out, " ");
            text.push_str(&format!("\nLeft out or cut, `query` with `ids` has them: {what}."));
        }
        if !self.nothing_for.is_empty() {
            let what: Vec<&str> = self.nothing_for.iter().map(|(query, _)| query.as_str()).collect();
            text.push_str(&format!("\nNo entry is about: {}.", what.join("; ")));
        }
        if !self.elsewhere.is_empty() {
            text.push_str(&format!("\nElsewhere: {}.", pairs(&self.elsewhere, ": ")));
        }
    }
}

/// An entry that may become part of the reply.
#[derive(Clone)]
struct Candidate {
    id: Id,
    tx_id: u64,
    entry: Entry,
}

struct Task<'a> {
    snapshot: &'a Snapshot<'a>,
    sight: &'a Sight,
    size: Option<TaskSize>,
}

impl Task<'_> {
    /// The entries that are meant for tasks of this size.
    fn fitting(&self, stored: impl IntoIterator<Item = Stored>) -> Vec<Candidate> {
        let candidate = |stored: Stored| match stored.record {
            Record::Entry(entry) => Some(Candidate { id: stored.id, tx_id: stored.tx_id.0, entry }),
            _ => None,
        };
        let fits = |candidate: &Candidate| {
            let sizes = &candidate.entry.task_sizes;
            self.size.is_none_or(|size| sizes.is_empty() || sizes.contains(&size))
        };
        stored.into_iter().filter_map(candidate).filter(fits).collect()
    }

    fn matched(&self, matches: &TaskMatches, pinned: &[Candidate]) -> Result<Vec<Candidate>, Stop> {
        let pinned: HashSet<Id> = pinned.iter().map(|candidate| candidate.id).collect();
        let mut stored = Vec::with_capacity(matches.entries.len());
        for found in matches.entries.iter().filter(|found| !pinned.contains(&found.id)) {
            stored.extend(self.snapshot.entry(found.id)?);
        }
        Ok(self.fitting(stored))
    }

    /// Sorts the entries by the distance of their scope, then by rank.
    fn nearest_first(&self, mut matched: Vec<Candidate>, matches: &TaskMatches) -> Vec<Candidate> {
        let ranks: HashMap<Id, usize> =
            matches.entries.iter().enumerate().map(|(rank, found)| (found.id, rank)).collect();
        matched.sort_by_key(|candidate| {
            (self.sight.distance(candidate.entry.scope), ranks.get(&candidate.id).copied())
        });
        matched
    }

    /// All entries in sight, if together they are few and short enough.
    fn little(&self, all: Vec<Stored>, has_match: bool) -> Option<Vec<Candidate>> {
        if all.len() as u64 > LITTLE_ENTRIES {
            return None;
        }
        let all = self.fitting(all);
        let bytes: usize = all.iter().map(|candidate| cost(&content(&candidate.entry))).sum();
        let room = if has_match { LITTLE_BYTES_MATCHED } else { LITTLE_BYTES };
        (bytes <= room).then_some(all)
    }

    fn rest(&self, all: Vec<Candidate>, pinned: &[Candidate], matched: &[Candidate]) -> Vec<Candidate> {
        let known: HashSet<Id> = pinned.iter().chain(matched).map(|candidate| candidate.id).collect();
        let mut rest: Vec<Candidate> =
            all.into_iter().filter(|candidate| !known.contains(&candidate.id)).collect();
        rest.sort_by_key(|candidate| self.sight.distance(candidate.entry.scope));
        rest
    }

    fn names<'c>(&self, candidates: impl Iterator<Item = &'c Candidate>) -> Result<ScopeNames, Stop> {
        let scopes: BTreeSet<ScopeId> = candidates.map(|candidate| candidate.entry.scope).collect();
        Ok(self.snapshot.scope_names(&scopes.into_iter().collect::<Vec<_>>())?)
    }
}

/// The question, and what is known about it before the entries are chosen.
struct TaskQuestion {
    scope: ScopeName,
    matches: TaskMatches,
    queries: usize,
    is_everything: bool,
    nothing_for: Notes,
    elsewhere: Notes,
    at: u64,
}

/// The reply while it is filled.
struct ContextReply<'a> {
    names: &'a ScopeNames,
    sight: &'a Sight,
    budget: Budget,
    words: Vec<Rarity>,
    shown: Vec<(Candidate, String)>,
    left_out: Vec<(Id, String)>,
}

impl ContextReply<'_> {
    /// Adds candidates while there is room. A content that does not fit whole is shortened to its best parts;
    /// an entry with no room at all is listed as left out.
    fn take(&mut self, candidates: Vec<Candidate>, most: Option<usize>) {
        let mut spent = 0;
        for candidate in candidates {
            let (scope, content) = (self.names.of(candidate.entry.scope), content(&candidate.entry));
            let allowed = most.map_or(usize::MAX, |most| most.saturating_sub(spent));
            let note = |what: &str| {
                let tokens = content.len().div_ceil(BYTES_PER_TOKEN as usize);
                (candidate.id, format!("{scope}, {tokens} tokens{what}"))
            };
            let room = self.budget.room(&scope).min(allowed);
            if self.shown.len() == ENTRIES_MAX || room < cost(&content).min(PARTS_BYTES_MIN) {
                self.left_out.push(note(""));
                continue;
            }
            let mut shown = content.clone();
            if cost(&content) > room {
                shown = excerpt(&self.words, &content, room / 2);
                self.left_out.push(note(", cut"));
            }
            spent += self.budget.spend(&scope, &shown);
            self.shown.push((candidate, shown));
        }
    }

    fn output(mut self, asked: TaskQuestion) -> Output {
        let TaskQuestion { scope, matches, queries, is_everything, nothing_for, elsewhere, at } = asked;
        // Scopes are written nearest first; the sort is stable, so the order within a scope is kept.
        let sight = self.sight;
        self.shown.sort_by_key(|(candidate, _)| sight.distance(candidate.entry.scope));
        let contradictions = self.budget.fitting(contradictions(&self.shown), CONTRADICTIONS_MAX);
        let left_out = self.left_out.iter().map(|(id, note)| (id.to_string(), note.clone())).collect();
        let left_out = self.budget.fitting(left_out, LEFT_OUT_MAX);
        let provenance =
            self.shown.iter().map(|(candidate, _)| (candidate.id.to_string(), candidate.provenance()));
        let provenance = provenance.collect();
        let mut groups: Vec<(String, Keyed<String, ById>)> = Vec::new();
        for (candidate, content) in self.shown {
            let key = self.names.of(candidate.entry.scope);
            if groups.last().is_none_or(|(open, _)| *open != key) {
                groups.push((key, Keyed::new(Vec::new())));
            }
            if let Some((_, entries)) = groups.last_mut() {
                entries.0.push((candidate.id.to_string(), content));
            }
        }
        Output {
            scopes: Keyed::new(groups),
            contradictions,
            left_out,
            nothing_for,
            elsewhere,
            scope,
            queries,
            as_of_tx_id: at,
            provenance,
            is_everything,
            is_degraded: matches.is_degraded,
        }
    }
}

impl Candidate {
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

/// The content, with the topic before it if the content lacks a word of the topic.
fn content(entry: &Entry) -> String {
    let (topic, content) = (clean(&entry.topic), clean(&entry.content));
    let lower = content.to_lowercase();
    let topic_words = topic.to_lowercase();
    let has_all = topic_words.split_whitespace().all(|word| lower.contains(word));
    if has_all { content } else { format!("{topic}: {content}") }
}

/// The bytes that an entry takes in the larger of the two channels, text and JSON.
fn cost(content: &str) -> usize {
    let text = content.len() + 2 * content.matches('\n').count() + " \n".len();
    let json = json_bytes(&content) + r#""":,"#.len();
    Id::LEN + text.max(json)
}

/// The pairs of entries that most likely contradict each other: the id of the nearer entry with the id and
/// the text of the other.
fn contradictions(shown: &[(Candidate, String)]) -> Notes {
    let compared: Vec<&Entry> =
        shown.iter().take(COMPARED_MAX).map(|(candidate, _)| &candidate.entry).collect();
    let note = |[one, other]: [usize; 2]| {
        let ((one, _), (other, text)) = (&shown[one], &shown[other]);
        (one.id.to_string(), format!("{}: {}", other.id, cut(text, CONTRADICTION_BYTES)))
    };
    let mut notes = Notes::new();
    for (id, text) in kenning_engine::collisions(&compared).into_iter().map(note) {
        match notes.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.push_str(&format!("; {text}")),
            None => notes.push((id, text)),
        }
    }
    notes
}

/// The bytes that are left of the requested tokens, counted in the larger of the two channels.
struct Budget {
    left: usize,
    /// The bytes reserved for contradictions and for the list of left out entries.
    notes: usize,
    opened: HashSet<String>,
}

impl Budget {
    fn new(tokens: u64, scope: &ScopeName, notes: [&Notes; 2]) -> Budget {
        let bytes = (tokens * BYTES_PER_TOKEN) as usize;
        let said: usize = notes.into_iter().flatten().map(note_bytes).sum();
        let around = (TEXT_AROUND + scope.to_string().len() + said).min(bytes / 2);
        let notes = bytes / NOTES_PART;
        Budget { left: bytes.saturating_sub(around + notes), notes, opened: HashSet::new() }
    }

    fn part(&self, part: usize) -> usize {
        self.left / part
    }

    /// The bytes that an entry in this scope may take.
    fn room(&self, scope: &str) -> usize {
        self.left.saturating_sub(self.opening(scope))
    }

    /// The bytes for the name of a scope, if this is its first entry in the reply.
    fn opening(&self, scope: &str) -> usize {
        if self.opened.contains(scope) { 0 } else { scope.len() + r#""":{},"#.len() }
    }

    fn spend(&mut self, scope: &str, content: &str) -> usize {
        let bytes = self.opening(scope) + cost(content);
        self.opened.insert(scope.to_owned());
        self.left = self.left.saturating_sub(bytes);
        bytes
    }

    /// The first notes, as many as there is room for.
    fn fitting(&mut self, notes: Notes, most: usize) -> Notes {
        let mut kept = Notes::new();
        for note in notes.into_iter().take(most) {
            let bytes = note_bytes(&note);
            if bytes > self.notes {
                break;
            }
            self.notes -= bytes;
            kept.push(note);
        }
        kept
    }
}

fn note_bytes((key, note): &(String, String)) -> usize {
    json_bytes(key) + json_bytes(note) + ":,".len()
}
