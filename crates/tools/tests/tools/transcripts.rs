//! Plays the transcripts `tests/<family>/<tool>.md` in process, with a fixed clock and fixed ids.
//! `UPDATE_EXPECT=1` rewrites them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jsonschema::Validator;
use kenning_engine::{Engine, Sources};
use kenning_presentation::Reply;
use kenning_presentation::budget::REPLY_BYTES_MAX;
use kenning_testkit::TempStore;
use kenning_testkit::transcript::{Call, Player, Transcript};
use kenning_tools::{Access, Caller, ResultSets, Scratch, SetStore, definitions, dispatch, find};
use serde_json::{Map, Value, json};

use crate::patterns::take_catalogue_in;

/// Plays calls on a temporary store; its clock advances by a minute with each call.
pub(crate) struct InProcess {
    engine: Arc<Engine>,
    scratch: Arc<Scratch>,
    sets: Arc<ResultSets>,
    minutes: Arc<AtomicI64>,
    _store: TempStore,
}

impl InProcess {
    pub(crate) fn new() -> InProcess {
        let store = TempStore::new();
        let minutes = Arc::new(AtomicI64::new(0));
        let clock = minutes.clone();
        let now = move || {
            let passed = jiff::SignedDuration::from_mins(clock.load(Ordering::Relaxed));
            kenning_testkit::fixed_start() + passed
        };
        let sources = Sources { now: Arc::new(now), ..kenning_testkit::fixed_sources() };
        let engine = Arc::new(store.engine_with(sources));
        let sets = Arc::new(ResultSets::new(SetStore::new(engine.clone(), None), None));
        InProcess { engine, scratch: Arc::default(), sets, minutes, _store: store }
    }

    /// The number of times that a call has waited for the database so far.
    pub(crate) fn round_trips(&self) -> u64 {
        self.engine.storage().expect("an open store").backend().round_trips()
    }
}

impl Player for InProcess {
    fn call(&mut self, actor: &str, tool: &str, arguments: Map<String, Value>) -> Reply {
        self.minutes.fetch_add(1, Ordering::Relaxed);
        let origin = format!("session of {actor}");
        let caller = Caller {
            // Bob works in a project for which no scope is configured.
            has_scope: actor != "bob",
            scratch: self.scratch.clone(),
            sets: Some(self.sets.clone()),
            ..Caller::new(Some(actor), origin, "global:default".to_owned())
        };
        let tool = find(tool).unwrap_or_else(|| panic!("there is no tool `{tool}`"));
        dispatch(&self.engine, &caller, Access::ReadWrite, tool, arguments)
    }
}

/// Lists every transcript once and makes a test of each, so that a failure names its transcript.
macro_rules! transcripts {
    ($($family:ident: $($tool:ident),+;)+) => {
        const TRANSCRIPTS: &[(&str, &str)] = &[$($((stringify!($family), stringify!($tool))),+),+];
        $(mod $family {
            $(#[test]
            fn $tool() {
                super::replies_are_as_written(stringify!($family), stringify!($tool));
            })+
        })+
    };
}

transcripts! {
    memory: delete, history, query, query_graph, read_rows, relate, store, store_many, undo, update;
    knowledge: create_namespace, create_scope, delete_knowledge, delete_namespace, delete_scope, get_namespaces, get_task_context, resolve_knowledge_collision, update_knowledge, update_namespace, update_scope, write_knowledge;
    patterns: get_pattern, search_patterns;
    kb: expand_excerpt, extract_evidence, read_excerpt, retrieve_evidence, search;
    graph: children, describe, entities_for_sections, expand, parents, paths, sections_for_entities;
    legacy: describe_nodes, expand_neighbors, get_entities_for_sections, get_paths_between, get_section_text, get_sections_for_entities, list_children, list_parents, search_sections;
}

#[test]
fn every_tool_has_a_transcript_and_every_transcript_a_tool() {
    let tools: BTreeSet<PathBuf> = definitions()
        .iter()
        .map(|tool| path_of(tool.family.as_str(), tool.name.rsplit('.').next().unwrap_or(tool.name)))
        .collect();
    let files: BTreeSet<PathBuf> = files().into_iter().collect();
    assert_eq!(tools, files);
    let played: BTreeSet<PathBuf> = TRANSCRIPTS.iter().map(|(family, tool)| path_of(family, tool)).collect();
    assert_eq!(played, files, "a transcript is not in the list above, so nothing plays it");
}

fn path_of(family: &str, tool: &str) -> PathBuf {
    Path::new("tests").join(family).join(format!("{tool}.md"))
}

fn replies_are_as_written(family: &str, tool: &str) {
    let path = path_of(family, tool);
    let transcript = Transcript::read(&path);
    assert!(!transcript.calls.is_empty(), "{}: no call", path.display());
    let mut player = InProcess::new();
    match family {
        "kb" | "graph" | "legacy" => take_in(&player.engine, Path::new("tests/kb/documents")),
        "patterns" => take_catalogue_in(&player.engine),
        _ => {}
    }
    let played = transcript.play(&mut player);
    let rewritten = transcript.rewritten(&played);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &rewritten).expect("the transcript can be rewritten");
    }
    let written = std::fs::read_to_string(&path).expect("readable");
    let shown = path.display();
    assert!(
        rewritten.trim_end() == written.trim_end(),
        "{shown}: run with UPDATE_EXPECT=1 and read the difference:\n{rewritten}"
    );
    for (call, played) in transcript.calls.iter().zip(&played) {
        check_reply(call, &played.reply);
    }
}

/// Checks that a reply fits its schema and its budget, and that the schema would notice a missing field.
fn check_reply(call: &Call, reply: &Reply) {
    let tool = find(&call.tool).expect("played already");
    let schema = Value::Object(tool.output_schema.clone());
    let validator = jsonschema::validator_for(&schema).expect("a good schema");
    let errors: Vec<String> =
        validator.iter_errors(&reply.structured).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{}: {errors:?}\n{}", call.line, reply.structured);
    let sizes = [reply.structured.to_string().len(), reply.content_bytes()];
    assert!(sizes.iter().all(|size| *size <= REPLY_BYTES_MAX), "{}: {sizes:?}", call.line);
    // A reply whose keys are data may be empty, so an error reply whose `error` was removed is valid too.
    let may_be_empty = schema["oneOf"][0].get("patternProperties").is_some();
    for gone in without_one_required(&reply.structured, &schema) {
        if may_be_empty && gone == json!({}) {
            continue;
        }
        assert!(!validator.is_valid(&gone), "{}: the schema takes {gone}", call.line);
    }
    check_closed(&validator, call, &reply.structured);
}

/// A field that is not in the schema must be refused too, because otherwise the schema could lack a field
/// unnoticed.
fn check_closed(validator: &Validator, call: &Call, reply: &Value) {
    let mut more = reply.clone();
    more["not_in_the_schema"] = Value::Null;
    assert!(!validator.is_valid(&more), "{}: the schema takes fields that it does not name", call.line);
}

/// The reply with each of its required fields removed in turn, at every depth.
fn without_one_required(reply: &Value, schema: &Value) -> Vec<Value> {
    let mut results = Vec::new();
    let branches = schema["oneOf"].as_array().expect("branches");
    let mut is_known = false;
    for branch in branches {
        if branch_of(reply, branch) {
            is_known = true;
            remove_each(reply, branch, &mut |changed| results.push(changed));
        }
    }
    assert!(is_known, "no branch of the schema is for {reply}");
    results
}

fn branch_of(reply: &Value, branch: &Value) -> bool {
    match branch["properties"]["kind"].get("const") {
        Some(kind) => reply["kind"] == *kind,
        None => reply.get("error").is_some() == branch["properties"].get("error").is_some(),
    }
}

fn remove_each(value: &Value, schema: &Value, found: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(object) => {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let mut changed = object.clone();
                changed.remove(name).unwrap_or_else(|| panic!("required `{name}` is missing"));
                found(Value::Object(changed));
            }
            for (name, inner) in object {
                let mut wrap = |changed: Value| {
                    let mut whole = object.clone();
                    whole.insert(name.clone(), changed);
                    found(Value::Object(whole));
                };
                let by_key =
                    schema["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
                remove_each(inner, by_key.unwrap_or(&schema["properties"][name]), &mut wrap);
            }
        }
        Value::Array(values) => {
            if let Some(first) = values.first() {
                let mut wrap = |changed: Value| {
                    let mut whole = values.clone();
                    whole[0] = changed;
                    found(Value::Array(whole));
                };
                remove_each(first, &schema["items"], &mut wrap);
            }
        }
        _ => {}
    }
}

/// Ingests the documents that the transcripts search.
fn take_in(engine: &Engine, dir: &Path) {
    for path in ["billing.html", "guide/restore.md", "guide/snapshots.md"] {
        let text = std::fs::read_to_string(dir.join(path)).expect("a document");
        kenning_testkit::take_in(engine, "handbook", path, &text);
    }
}

fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for family in std::fs::read_dir("tests").expect("the tests").flatten() {
        if family.path().is_dir() {
            let inside = std::fs::read_dir(family.path()).expect("a family").flatten();
            files.extend(
                inside.map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "md")),
            );
        }
    }
    files.sort();
    files
}
