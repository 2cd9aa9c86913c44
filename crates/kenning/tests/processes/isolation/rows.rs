//! The calls for each listed item, with every way to ask, and how far their answers may reach.

use serde_json::{Value, json};

use super::world::{
    COMMON, ENVIRONMENT, Kind, Mark, Moment, PREDICATE, REPOSITORY, Reach, SECOND_OBJECT, SECOND_PREDICATE,
    SENTENCE, TAG, World,
};

/// An item that a server lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    Tool(String),
    Resource(String),
    Template(String),
    Prompt(String),
    /// An argument of a prompt, or a variable of a template.
    Completion(String),
}

pub struct Row {
    pub item: Item,
    pub answers: Answers,
}

pub enum Answers {
    /// Answers contain stored text: these calls check how far they reach.
    Stored(for<'a> fn(&'a World, &Asker) -> Vec<Call<'a>>),
    /// Like `Stored`, but only for the scope that the server was started in.
    OfServer(for<'a> fn(&'a World, &Asker) -> Vec<Call<'a>>),
    /// A tool that writes, and whose reply contains nothing that was stored; with the reason.
    OwnWordsOnly(&'static str),
}

/// The caller, who asks from the scope with this name.
pub struct Asker {
    pub name: String,
    /// The scope is the server's own, so calls do not name it.
    pub is_default: bool,
    /// The passages that this caller's searches have found.
    pub passages: Vec<Passage>,
    /// The passages that another caller, whose server still runs, has found.
    pub of_others: Vec<Passage>,
    /// The URIs of result sets of this caller, each with the kind of its rows.
    pub sets: Vec<(String, Kind)>,
}

/// A section that is kept for the caller that found it.
#[derive(Clone)]
pub struct Passage {
    pub handle: String,
    pub uri: String,
    /// The diagnostics id of the search that found it.
    pub trace: String,
}

pub struct Call<'a> {
    pub method: &'static str,
    pub params: Value,
    pub reach: Reach,
    pub shows: Shows<'a>,
}

/// How much of what is in reach the answer must contain.
#[derive(Clone, Copy)]
pub enum Shows<'a> {
    /// All texts of these kinds.
    All(&'static [Kind]),
    /// At least one text of this kind, if there is any.
    One(Kind),
    /// The record with this id, or a refusal.
    Of(&'a str),
    /// Any part of it, or nothing.
    Some,
    /// Always a refusal.
    Refusal,
}

const ENTRIES: Shows<'_> = Shows::All(&[Kind::Entry]);
const TRIPLES: Shows<'_> = Shows::All(&[Kind::Triple]);
const DOCUMENTS: Shows<'_> = Shows::All(&[Kind::Document]);
const SECTIONS: Shows<'_> = Shows::All(&[Kind::Section]);
/// A history names documents but contains none of their text.
const CHANGED: Shows<'_> = Shows::All(&[Kind::Entry, Kind::Triple, Kind::Document]);
const NOW: Option<u64> = None;
const LONG_AGO: &str = "2001-01-01T00:00:00Z";
const FAR_AWAY: &str = "2101-01-01T00:00:00Z";
/// At most this many queries are answered in one call.
const QUERIES_MAX: usize = 15;
/// Why the replies of tools that take an id contain nothing stored.
const IDS_AND_NUMBERS: &str = "it returns ids, names of scopes, versions and transaction numbers";
/// Why the replies of tools for namespaces and scopes contain nothing that must stay hidden.
const NAMES: &str =
    "it returns names and descriptions, which are seen from everywhere, and how many entries went";

pub fn rows() -> Vec<Row> {
    use Answers::{OfServer, OwnWordsOnly, Stored};
    use Item::{Completion, Prompt, Resource, Template, Tool};
    let row = |item: fn(String) -> Item, name: &str, answers| Row { item: item(name.to_owned()), answers };
    vec![
        row(Tool, "query", Stored(query)),
        row(Tool, "query_graph", Stored(query_graph)),
        row(Tool, "history", Stored(history)),
        row(Tool, "get_task_context", Stored(get_task_context)),
        row(Tool, "get_namespaces", Stored(get_namespaces)),
        row(Tool, "undo", Stored(undo)),
        row(Tool, "read_rows", OfServer(read_rows)),
        row(Tool, "search_patterns", OfServer(search_patterns)),
        row(Tool, "get_pattern", OfServer(get_pattern)),
        row(Tool, "kb_search", OfServer(kb_search)),
        row(Tool, "kb_retrieve_evidence", OfServer(kb_retrieve_evidence)),
        row(Tool, "kb_read_excerpt", OfServer(kb_read_excerpt)),
        row(Tool, "kb_expand_excerpt", OfServer(kb_expand_excerpt)),
        row(Tool, "kb_extract_evidence", OfServer(kb_extract_evidence)),
        row(Tool, "graph_describe", OfServer(graph_describe)),
        row(Tool, "graph_expand", OfServer(graph_expand)),
        row(Tool, "graph_paths", OfServer(graph_paths)),
        row(Tool, "graph_parents", OfServer(graph_parents)),
        row(Tool, "graph_children", OfServer(graph_children)),
        row(Tool, "graph_entities_for_sections", OfServer(graph_entities_for_sections)),
        row(Tool, "graph_sections_for_entities", OfServer(graph_sections_for_entities)),
        row(Tool, "update", OwnWordsOnly(IDS_AND_NUMBERS)),
        row(Tool, "delete", OwnWordsOnly(IDS_AND_NUMBERS)),
        row(Tool, "delete_knowledge", OwnWordsOnly(IDS_AND_NUMBERS)),
        row(Tool, "resolve_knowledge_collision", OwnWordsOnly(IDS_AND_NUMBERS)),
        row(Tool, "create_namespace", OwnWordsOnly(NAMES)),
        row(Tool, "update_namespace", OwnWordsOnly(NAMES)),
        row(Tool, "delete_namespace", OwnWordsOnly(NAMES)),
        row(Tool, "create_scope", OwnWordsOnly(NAMES)),
        row(Tool, "update_scope", OwnWordsOnly(NAMES)),
        row(Tool, "delete_scope", OwnWordsOnly(NAMES)),
        row(Resource, "knowledge://entries", Stored(entries)),
        row(Resource, "knowledge://graph/triples", Stored(triples)),
        row(Resource, "knowledge://history/transactions", Stored(transactions)),
        row(Template, ENTRIES_TEMPLATE, Stored(entries_with_parameters)),
        row(
            Template,
            "knowledge://graph/triples{?limit,cursor,scope,as_of_tx_id}",
            Stored(triples_with_parameters),
        ),
        row(
            Template,
            "knowledge://history/transactions{?limit,cursor,scope,as_of_tx_id,since_tx_id}",
            Stored(transactions_with_parameters),
        ),
        row(Template, "knowledge://entries/{id}", Stored(entry)),
        row(Template, "kenning://rows/{id}{?offset,limit,sort}", OfServer(rows_of_sets)),
        row(Template, "kenning://scratch/{session_id}/{passage_id}", OfServer(scratch)),
        row(Template, "kenning://diagnostics/{diagnostic_id}", OfServer(diagnostics)),
        row(Prompt, "ingest_memory", Stored(|_, asker| vec![prompt("ingest_memory", "text", asker)])),
        row(Prompt, "retrieve_context", Stored(|_, asker| vec![prompt("retrieve_context", "task", asker)])),
        row(
            Prompt,
            "correct_stale_facts",
            Stored(|_, asker| vec![prompt("correct_stale_facts", "topic", asker)]),
        ),
        row(Completion, "topic", Stored(topics)),
        row(Completion, "scope", Stored(|_, asker| completions("scope", asker))),
        row(Completion, "text", Stored(|_, asker| completions("text", asker))),
        row(Completion, "task", Stored(|_, asker| completions("task", asker))),
        row(Completion, "id", Stored(|_, asker| completions("id", asker))),
        row(Completion, "session_id", Stored(|_, asker| completions("session_id", asker))),
        row(Completion, "passage_id", Stored(|_, asker| completions("passage_id", asker))),
        row(Completion, "diagnostic_id", Stored(|_, asker| completions("diagnostic_id", asker))),
        row(Completion, "offset", Stored(|_, asker| completions("offset", asker))),
        row(Completion, "sort", Stored(|_, asker| completions("sort", asker))),
        row(Completion, "limit", Stored(|_, asker| completions("limit", asker))),
        row(Completion, "cursor", Stored(|_, asker| completions("cursor", asker))),
        row(Completion, "content", Stored(|_, asker| completions("content", asker))),
        row(Completion, "tags", Stored(|_, asker| completions("tags", asker))),
        row(Completion, "as_of_tx_id", Stored(|_, asker| completions("as_of_tx_id", asker))),
        row(Completion, "since_tx_id", Stored(|_, asker| completions("since_tx_id", asker))),
        row(Completion, "include_suppressed", Stored(|_, asker| completions("include_suppressed", asker))),
        // These calls write, which makes histories longer, so they come last.
        row(Tool, "store", Stored(store)),
        row(Tool, "store_many", Stored(store_many)),
        row(Tool, "write_knowledge", Stored(write_knowledge)),
        row(Tool, "update_knowledge", OfServer(update_knowledge)),
        row(Tool, "relate", Stored(relate)),
    ]
}

const ENTRIES_TEMPLATE: &str =
    "knowledge://entries{?limit,cursor,scope,topic,content,tags,as_of_tx_id,include_suppressed}";

fn tool<'a>(name: &str, asker: &Asker, mut arguments: Value, reach: Reach, shows: Shows<'a>) -> Call<'a> {
    if !asker.is_default {
        arguments["scope"] = json!(asker.name);
    }
    Call { method: "tools/call", params: json!({"name": name, "arguments": arguments}), reach, shows }
}

fn of_kind(world: &World, kind: Kind) -> impl Iterator<Item = &Mark> {
    world.marks.iter().filter(move |mark| mark.kind == kind)
}

fn query<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments: Value, reach, shows| tool("query", asker, arguments, reach, shows);
    let (live, suppressed_too) = (Reach::Live(NOW), Reach::LiveOrSuppressed(NOW));
    let mut calls = vec![
        ask(json!({}), live, ENTRIES),
        ask(json!({"limit": 4}), live, ENTRIES),
        ask(json!({"content": COMMON, "limit": 200}), live, ENTRIES),
        ask(json!({"content": COMMON, "limit": 5, "explain": true}), live, ENTRIES),
        ask(json!({"topic": COMMON}), live, ENTRIES),
        ask(json!({"topic": COMMON, "content": SENTENCE, "tags": [TAG]}), live, Shows::One(Kind::Entry)),
        ask(json!({"tags": [TAG]}), live, Shows::One(Kind::Entry)),
        ask(json!({"include_suppressed": true}), suppressed_too, ENTRIES),
        ask(json!({"content": COMMON, "include_suppressed": true, "explain": true}), suppressed_too, ENTRIES),
        ask(json!({"detail": "full"}), live, ENTRIES),
        ask(json!({"content": SENTENCE, "detail": "full", "explain": true, "limit": 3}), live, ENTRIES),
        ask(json!({"since": LONG_AGO, "until": FAR_AWAY}), live, ENTRIES),
        ask(json!({"content": COMMON, "since": world.moments[0].time}), live, Shows::Some),
        ask(json!({"content": COMMON, "until": LONG_AGO}), live, Shows::Some),
        // The result depends on who wrote the entries, but never reaches further.
        ask(json!({"own_only": true}), live, Shows::Some),
        ask(json!({"own_only": true, "content": COMMON, "detail": "full"}), live, Shows::Some),
    ];
    for Moment { tx, time } in &world.moments {
        let at = Some(*tx);
        let (live, suppressed_too) = (Reach::Live(at), Reach::LiveOrSuppressed(at));
        calls.extend([
            ask(json!({"as_of": time}), live, ENTRIES),
            ask(json!({"as_of": time, "content": COMMON, "detail": "full"}), live, ENTRIES),
            ask(json!({"as_of_tx_id": at}), live, ENTRIES),
            ask(json!({"as_of_tx_id": at, "content": COMMON, "limit": 5}), live, ENTRIES),
            ask(json!({"as_of_tx_id": at, "tags": [TAG]}), live, Shows::One(Kind::Entry)),
            ask(json!({"as_of_tx_id": at, "include_suppressed": true}), suppressed_too, ENTRIES),
        ]);
    }
    // A sample of the entries is enough.
    for Mark { id, .. } in of_kind(world, Kind::Entry).step_by(3) {
        for Moment { tx, .. } in &world.moments {
            let reach = Reach::LiveOrSuppressed(Some(*tx));
            calls.push(ask(json!({"ids": [id], "as_of_tx_id": tx, "detail": "full"}), reach, Shows::Of(id)));
        }
    }
    for Mark { key, id, .. } in of_kind(world, Kind::Entry) {
        calls.push(ask(json!({"ids": [id]}), suppressed_too, Shows::Of(id)));
        // When a search without suppressed entries finds nothing, the reply says where else there are
        // entries.
        calls.push(ask(json!({"content": key}), live, Shows::Some));
        calls.push(ask(json!({"content": key, "include_suppressed": true}), suppressed_too, Shows::Some));
        calls.push(ask(json!({"tags": [key], "include_suppressed": true}), suppressed_too, Shows::Some));
    }
    calls
}

/// Asks for full items unless the arguments say otherwise, because lean items leave out some of the fields
/// that contain marks.
fn whole(mut arguments: Value) -> Value {
    if arguments["detail"].is_null() {
        arguments["detail"] = json!("full");
    }
    arguments
}

fn query_graph<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments: Value, reach, shows| tool("query_graph", asker, whole(arguments), reach, shows);
    let live = Reach::Live(NOW);
    let one = Shows::One(Kind::Triple);
    let mut calls = vec![
        ask(json!({}), live, TRIPLES),
        ask(json!({"limit": 3}), live, TRIPLES),
        ask(json!({"detail": "lean"}), live, one),
        ask(json!({"subject": COMMON}), live, one),
        ask(json!({"predicate": PREDICATE}), live, one),
        ask(json!({"object": SECOND_OBJECT}), live, one),
        ask(json!({"predicate": SECOND_PREDICATE, "object": SECOND_OBJECT, "limit": 2}), live, one),
        ask(json!({"predicate": SECOND_PREDICATE, "object": SECOND_OBJECT, "max_hops": 3}), live, one),
        ask(json!({"predicate": PREDICATE, "subject": COMMON, "max_hops": 4, "limit": 2}), live, one),
    ];
    for Moment { tx, time } in &world.moments {
        let at = Some(*tx);
        calls.push(ask(json!({"as_of": time}), Reach::Live(at), TRIPLES));
        let far =
            json!({"as_of": time, "predicate": SECOND_PREDICATE, "object": SECOND_OBJECT, "max_hops": 2});
        calls.push(ask(far, Reach::Live(at), one));
        calls.push(ask(json!({"as_of_tx_id": at}), Reach::Live(at), TRIPLES));
        calls.push(ask(json!({"as_of_tx_id": at, "subject": COMMON}), Reach::Live(at), Shows::Some));
    }
    let subjects = of_kind(world, Kind::Triple).map(|mark| json!({"subject": mark.key}));
    calls.extend(subjects.map(|subject| ask(subject, live, Shows::Some)));
    // The second hop of this path would be in another scope.
    let far = of_kind(world, Kind::Triple)
        .map(|mark| json!({"subject": mark.key, "predicate": SECOND_PREDICATE, "max_hops": 4}));
    calls.extend(far.map(|far| ask(far, live, Shows::Some)));
    calls
}

fn history<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let changes = Reach::Changes(NOW);
    let ask = |arguments: Value, shows| tool("history", asker, whole(arguments), changes, shows);
    let mut calls = vec![
        ask(json!({}), CHANGED),
        ask(json!({"limit": 3}), CHANGED),
        ask(json!({"detail": "lean"}), Shows::Some),
        ask(json!({"limit": 100, "since_tx_id": world.moments[0].tx}), Shows::Some),
        ask(json!({"entity_type": "entry"}), ENTRIES),
        ask(json!({"entity_type": "triple"}), TRIPLES),
        ask(json!({"entity_type": "document"}), DOCUMENTS),
        ask(json!({"entity_type": "scope"}), Shows::Some),
        ask(json!({"entity_type": "namespace"}), Shows::Some),
    ];
    calls.extend(world.marks.iter().map(|mark| ask(json!({"id": mark.id}), Shows::Of(&mark.id))));
    calls.extend(world.now().names().map(|name| ask(json!({"id": name}), Shows::Some)));
    calls.push(ask(json!({"id": "acme", "entity_type": "namespace"}), Shows::Some));
    for Moment { tx, time } in &world.moments {
        let then = whole(json!({"as_of": time, "limit": 100}));
        calls.push(tool("history", asker, then, Reach::Changes(Some(*tx)), CHANGED));
    }
    calls
}

fn get_task_context<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments: Value, shows| tool("get_task_context", asker, arguments, Reach::Live(NOW), shows);
    let mut calls = vec![
        ask(json!({"queries": [SENTENCE], "max_tokens": 16_000}), ENTRIES),
        ask(json!({"queries": [COMMON, SENTENCE], "task_size": "S", "max_tokens": 16_000}), ENTRIES),
        // Entries that do not fit are named, and those must be in sight too.
        ask(json!({"queries": [SENTENCE], "max_tokens": 200}), Shows::Some),
    ];
    let keys: Vec<&str> = of_kind(world, Kind::Entry).map(|mark| mark.key.as_str()).collect();
    calls.extend(keys.chunks(QUERIES_MAX).map(|queries| ask(json!({"queries": queries}), Shows::Some)));
    calls
}

/// Reads the rows of result sets, which are those of the lists that the sets belong to.
fn read_rows<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("read_rows", arguments, Reach::Live(NOW), shows);
    let none = json!({"resource": "kenning://rows/none", "offset": 0, "limit": 1, "sort": {"field": "id"}});
    let mut calls = vec![kb("read_rows", none, Reach::Nothing, Shows::Refusal)];
    for (uri, kind) in &asker.sets {
        calls.push(ask(json!({"resource": uri, "limit": 1000}), shows_of(*kind)));
        let sort = match kind {
            Kind::Section => json!({"field": "score", "order": "desc"}),
            _ => json!({"field": "id"}),
        };
        calls.push(ask(json!({"resource": uri, "limit": 1000, "sort": sort}), shows_of(*kind)));
        calls.push(ask(json!({"resource": uri, "offset": 1, "limit": 1}), Shows::Some));
    }
    calls
}

fn rows_of_sets<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let read = |uri: String, reach, shows| Call {
        method: "resources/read",
        params: json!({"uri": uri}),
        reach,
        shows,
    };
    let mut calls = vec![read("kenning://rows/none".to_owned(), Reach::Nothing, Shows::Refusal)];
    for (uri, kind) in &asker.sets {
        calls.push(read(format!("{uri}?limit=1000"), Reach::Live(NOW), shows_of(*kind)));
        calls.push(read(format!("{uri}?offset=1&limit=1&sort="), Reach::Live(NOW), Shows::Some));
    }
    calls
}

/// What the rows of a kind must show. The path of a document may contain a word of its first title, which no
/// row contains.
fn shows_of<'a>(kind: Kind) -> Shows<'a> {
    match kind {
        Kind::Entry => ENTRIES,
        Kind::Triple => TRIPLES,
        Kind::Section => SECTIONS,
        Kind::Document => ANY_DOCUMENT,
    }
}

/// Every document of the world is a pattern too.
fn search_patterns<'a>(world: &'a World, _: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("search_patterns", arguments, Reach::Live(NOW), shows);
    let mut calls = vec![
        ask(json!({"q": COMMON, "difficulty": "beginner", "includeProvenancePanel": true}), DOCUMENTS),
        ask(
            json!({"q": COMMON, "difficulty": "beginner", "limit": 2, "limitCards": 10, "format": "both"}),
            ANY_DOCUMENT,
        ),
        ask(json!({"q": COMMON, "format": "json"}), Shows::Some),
        // The reply asks for what is missing, and offers what is similar.
        ask(json!({}), Shows::Some),
        ask(json!({"q": "giraffes"}), ANY_DOCUMENT),
    ];
    for Mark { key, .. } in of_kind(world, Kind::Document) {
        calls.push(ask(json!({"q": COMMON, "category": key}), Shows::Some));
        calls.push(ask(json!({"q": key}), Shows::Some));
    }
    calls
}

fn get_pattern<'a>(world: &'a World, _: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments| kb("get_pattern", arguments, Reach::Live(NOW), Shows::Some);
    let all = of_kind(world, Kind::Document).map(|mark| ask(json!({"id": mark.key, "format": "both"})));
    all.chain([ask(json!({})), ask(json!({"id": "keydocument"}))]).collect()
}

fn kb_search<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("kb_search", arguments, Reach::Live(NOW), shows);
    let all = json!({"max_per_doc": 0, "include_scores": true, "max_snippet_chars": 500});
    let mut calls = vec![
        ask(json!({"query": COMMON, "top_k": 20, "page_size": 20, "options": all}), SECTIONS),
        ask(json!({"query": SENTENCE, "top_k": 20, "page_size": 2}), SECTIONS),
        ask(json!({"query": SENTENCE, "options": {"scoring": "overlap"}}), ANY_SECTION),
    ];
    for (scope, filters) in narrowed(world) {
        calls.push(ask(json!({"query": COMMON, "scope": scope, "filters": filters}), Shows::Some));
    }
    calls.push(ask(json!({"query": COMMON, "scope": tight(), "filters": wide()}), ANY_SECTION));
    for Mark { key, .. } in of_kind(world, Kind::Section) {
        calls.push(ask(json!({"query": key}), Shows::Some));
    }
    calls.extend(elsewhere(asker, "kb_search", json!({"query": COMMON})));
    // This tool's old name is not listed.
    calls.push(kb("search_sections", json!({"query": COMMON}), Reach::Live(NOW), SECTIONS));
    calls
}

fn kb_retrieve_evidence<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("kb_retrieve_evidence", arguments, Reach::Live(NOW), shows);
    let most = json!({
        "question": SENTENCE, "top_k": 20, "max_quotes": 12, "max_quote_tokens": 200,
        "include_context_tokens": 200, "options": {"max_per_doc": 0},
    });
    let mut calls = vec![ask(json!({"question": COMMON}), ANY_SECTION), ask(most, SECTIONS)];
    // A sample is enough, because the search is the same as that of `kb_search`.
    for (scope, filters) in narrowed(world).step_by(5) {
        calls.push(ask(json!({"question": SENTENCE, "scope": scope, "filters": filters}), Shows::Some));
    }
    for Mark { key, .. } in of_kind(world, Kind::Section) {
        calls.push(ask(json!({"question": key}), Shows::Some));
    }
    calls.extend(elsewhere(asker, "kb_retrieve_evidence", json!({"question": COMMON})));
    calls
}

fn kb_read_excerpt<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let more =
        json!({"max_tokens": 800, "start_char": 0, "scope": {}, "options": {"include_citation": true}});
    let mut calls = of_passages("kb_read_excerpt", asker, |passage| {
        let mut more = more.clone();
        more["passage_id"] = json!(passage);
        vec![json!({"passage_id": passage}), more]
    });
    for Mark { id, .. } in of_kind(world, Kind::Section) {
        calls.push(kb("kb_read_excerpt", json!({"passage_id": id}), Reach::Live(NOW), Shows::Of(id)));
        calls.push(kb("get_section_text", json!({"section_ids": [id]}), Reach::Live(NOW), Shows::Some));
    }
    calls
}

fn graph_describe<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("graph_describe", arguments, Reach::Live(NOW), shows);
    let mut calls = vec![ask(json!({"node_ids": [COMMON], "fields": ["title"]}), Shows::Some)];
    let sections: Vec<&str> = ids(world, Kind::Section).collect();
    calls.extend(sections.chunks(50).map(|ids| ask(json!({"node_ids": ids, "scope": tight()}), Shows::Some)));
    calls.extend(ids(world, Kind::Document).map(|id| ask(json!({"node_ids": [id]}), Shows::Some)));
    calls.extend(of_kind(world, Kind::Triple).map(|mark| ask(json!({"node_ids": [mark.key]}), Shows::Some)));
    calls.extend(elsewhere(asker, "graph_describe", json!({"node_ids": [COMMON]})));
    calls
}

fn graph_expand<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("graph_expand", arguments, Reach::Live(NOW), shows);
    // Every fact, section and document is two hops from the word that all texts contain.
    let mut calls = vec![
        ask(json!({"node_ids": [COMMON]}), ANY_TRIPLE),
        ask(json!({"node_ids": [COMMON], "direction": "in", "include_snippet": true}), SECTIONS),
        ask(json!({"node_ids": [COMMON], "max_hops": 3, "page_size": 3}), ANY_DOCUMENT),
        ask(json!({"node_ids": [COMMON], "rel_types": [PREDICATE], "direction": "out"}), ANY_TRIPLE),
        ask(json!({"node_ids": [COMMON], "scope": tight()}), ANY_SECTION),
        kb("expand_neighbors", json!({"node_ids": [COMMON]}), Reach::Live(NOW), ANY_SECTION),
    ];
    let nodes = ids(world, Kind::Section).chain(ids(world, Kind::Document));
    calls.extend(nodes.map(|id| ask(json!({"node_ids": [id], "max_hops": 2}), Shows::Some)));
    calls.extend(elsewhere(asker, "graph_expand", json!({"node_ids": [COMMON]})));
    calls
}

fn graph_paths<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("graph_paths", arguments, Reach::Live(NOW), shows);
    let documents: Vec<&str> = ids(world, Kind::Document).collect();
    let mut calls: Vec<Call<'a>> = documents
        .chunks(10)
        .map(|ids| ask(json!({"a_ids": ids, "b_ids": [COMMON], "max_hops": 5, "max_paths": 50}), Shows::Some))
        .collect();
    calls.extend(ids(world, Kind::Section).map(|id| {
        let along = ["mentions", "child_of"];
        ask(json!({"a_ids": [id], "b_ids": [COMMON], "rel_types": along, "scope": tight()}), Shows::Some)
    }));
    calls.extend(elsewhere(asker, "graph_paths", json!({"a_ids": [COMMON], "b_ids": [COMMON]})));
    calls
}

fn graph_parents<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("graph_parents", arguments, Reach::Live(NOW), shows);
    let sections: Vec<&str> = ids(world, Kind::Section).collect();
    let mut calls = vec![ask(json!({"section_ids": sections, "scope": tight()}), ANY_DOCUMENT)];
    calls.extend(sections.iter().map(|id| ask(json!({"section_ids": [id]}), Shows::Some)));
    calls.extend(elsewhere(asker, "graph_parents", json!({"section_ids": [COMMON]})));
    calls
}

fn graph_children<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments, shows| kb("graph_children", arguments, Reach::Live(NOW), shows);
    let parents = ids(world, Kind::Document).chain(ids(world, Kind::Section));
    let mut calls: Vec<Call<'a>> = parents
        .map(|id| ask(json!({"parent_id": id, "page_size": 1, "scope": tight()}), Shows::Some))
        .collect();
    calls.extend(elsewhere(asker, "graph_children", json!({"parent_id": COMMON})));
    calls
}

fn graph_entities_for_sections<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let name = "graph_entities_for_sections";
    let ask = |arguments, shows| kb(name, arguments, Reach::Live(NOW), shows);
    let sections: Vec<&str> = ids(world, Kind::Section).collect();
    let all = json!({"section_ids": sections, "max_per_section": 100, "scope": tight()});
    let code = json!({"section_ids": sections, "labels": ["code"]});
    let mut calls = vec![ask(all, ANY_SECTION), ask(code, Shows::Some)];
    calls.extend(sections.iter().map(|id| ask(json!({"section_ids": [id]}), Shows::Some)));
    calls.extend(elsewhere(asker, name, json!({"section_ids": [COMMON]})));
    calls
}

fn graph_sections_for_entities<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let name = "graph_sections_for_entities";
    let ask = |arguments, shows| kb(name, arguments, Reach::Live(NOW), shows);
    let mut calls = vec![
        ask(json!({"entity_ids": [COMMON], "max_per": 100, "scope": tight()}), ANY_DOCUMENT),
        ask(json!({"entity_ids": [SECOND_OBJECT]}), Shows::Some),
    ];
    calls.extend(elsewhere(asker, name, json!({"entity_ids": [COMMON]})));
    calls
}

/// Diagnostics of a search are only for the caller that searched; these belong to another caller.
fn diagnostics<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let read = |id: &str, shows| Call {
        method: "resources/read",
        params: json!({"uri": format!("kenning://diagnostics/{id}")}),
        reach: Reach::Nothing,
        shows,
    };
    let mut calls = vec![read("usage", Shows::Some), read("none", Shows::Refusal)];
    calls.extend(asker.of_others.iter().map(|other| read(&other.trace, Shows::Refusal)));
    calls
}

fn ids(world: &World, kind: Kind) -> impl Iterator<Item = &str> {
    of_kind(world, kind).map(|mark| mark.id.as_str())
}

fn kb_expand_excerpt<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    of_passages("kb_expand_excerpt", asker, |passage| {
        vec![json!({"passage_id": passage, "before_tokens": 800, "after_tokens": 800, "scope": {}})]
    })
}

fn kb_extract_evidence<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let own: Vec<&str> = asker.passages.iter().map(|passage| passage.handle.as_str()).collect();
    of_passages("kb_extract_evidence", asker, |passage| {
        let most = json!({
            "question": SENTENCE, "passage_ids": [passage], "max_quotes": 12, "max_quote_tokens": 200,
            "include_context_tokens": 200, "scope": {}, "options": {"scoring": "overlap"},
        });
        // An unknown passage among known ones is refused too.
        let mut among = own.clone();
        among.push(passage);
        among.truncate(20);
        vec![most, json!({"question": SENTENCE, "passage_ids": among})]
    })
}

fn scratch<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let read = |uri: &str, reach, shows| Call {
        method: "resources/read",
        params: json!({"uri": uri}),
        reach,
        shows,
    };
    let mut calls = Vec::new();
    for own in &asker.passages {
        calls.push(read(&own.uri, Reach::Live(NOW), ANY_SECTION));
        if let Some(other) = asker.of_others.first() {
            calls.push(read(&own.uri.replace(&own.handle, &other.handle), Reach::Nothing, Shows::Refusal));
            calls.push(read(&other.uri.replace(&other.handle, &own.handle), Reach::Nothing, Shows::Refusal));
        }
    }
    calls.extend(asker.of_others.iter().map(|other| read(&other.uri, Reach::Nothing, Shows::Refusal)));
    calls
}

const ANY_SECTION: Shows<'_> = Shows::One(Kind::Section);
const ANY_TRIPLE: Shows<'_> = Shows::One(Kind::Triple);
/// The path of a document may contain a word of its first title, but no title does.
const ANY_DOCUMENT: Shows<'_> = Shows::One(Kind::Document);

fn kb<'a>(name: &str, arguments: Value, reach: Reach, shows: Shows<'a>) -> Call<'a> {
    Call { method: "tools/call", params: json!({"name": name, "arguments": arguments}), reach, shows }
}

/// Own passages are read; for passages of other callers the reply is the same as for unknown ones.
fn of_passages<'a>(name: &str, asker: &Asker, arguments: impl Fn(&str) -> Vec<Value>) -> Vec<Call<'a>> {
    let calls = |passages: &[Passage], reach, shows| -> Vec<Call<'a>> {
        let arguments = passages.iter().flat_map(|passage| arguments(&passage.handle));
        arguments.map(|arguments| kb(name, arguments, reach, shows)).collect()
    };
    let own = calls(&asker.passages, Reach::Live(NOW), ANY_SECTION);
    own.into_iter().chain(calls(&asker.of_others, Reach::Nothing, Shows::Refusal)).collect()
}

/// Pairs of a scope and filters that name each document of the store, whether it is in sight or not.
fn narrowed(world: &World) -> impl Iterator<Item = (Value, Value)> {
    of_kind(world, Kind::Document).flat_map(|mark| {
        let word = &mark.word;
        [
            (json!({"doc_tags": [word]}), json!({})),
            (json!({}), json!({"doc_tag": [word]})),
            (json!({}), json!({"path_prefix": word})),
        ]
    })
}

/// A scope that matches every document.
fn tight() -> Value {
    json!({"repositories": [REPOSITORY], "environment": ENVIRONMENT})
}

fn wide() -> Value {
    json!({"updated_after": "2026-01-01T00:00:00Z"})
}

/// Asks for other projects than the server's own.
fn elsewhere<'a>(asker: &Asker, name: &str, arguments: Value) -> Vec<Call<'a>> {
    let own = asker.name.split(':').next();
    let others = ["acme", "beta", "omega", "global", "gone"].into_iter().filter(|it| Some(*it) != own);
    let ask = |project: &str| {
        let mut arguments = arguments.clone();
        arguments["scope"] = json!({"project_id": project});
        kb(name, arguments, Reach::Nothing, Shows::Refusal)
    };
    others.map(ask).collect()
}

/// The tool takes no scope: the names of namespaces and scopes are seen from everywhere, but not their
/// content.
fn get_namespaces<'a>(_: &'a World, _: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments: Value| Call {
        method: "tools/call",
        params: json!({"name": "get_namespaces", "arguments": arguments}),
        reach: Reach::Nothing,
        shows: Shows::Some,
    };
    let styles = ["short", "long", "details"].map(|style| ask(json!({"style": style})));
    styles.into_iter().chain([ask(json!({"namespace": "acme", "style": "details"}))]).collect()
}

/// The entries that the reply calls similar were stored by others.
fn store<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let new = json!({"topic": COMMON, "content": SENTENCE});
    let more = json!({
        "topic": COMMON, "content": SENTENCE, "tags": [TAG], "context": COMMON, "task_sizes": ["M"], "source": COMMON,
        "confidence": 0.5, "valid_from": LONG_AGO, "valid_to": FAR_AWAY, "pinned": true,
    });
    // The tool looks at a few candidates from all scopes, so those in sight may not be among them.
    let ask = |new: Value| tool("store", asker, new, Reach::Live(NOW), Shows::Some);
    let after = |id: &str| ask(json!({"topic": COMMON, "content": SENTENCE, "follows": id}));
    // A sample is enough: the new entry follows each one that is in the scope itself, and is undone
    // afterwards.
    let followed = ids(world, Kind::Entry).step_by(3).map(after);
    [ask(new), ask(more)].into_iter().chain(followed).collect()
}

/// Like `store`, for a list of entries.
fn store_many<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let new = json!({"entries": [{"topic": COMMON, "content": SENTENCE}]});
    let pair = json!({"entries": [
        {"topic": COMMON, "content": SENTENCE, "pinned": true, "tags": [TAG], "context": COMMON},
        {"topic": COMMON, "content": SENTENCE, "follows": 0},
    ]});
    let ask = |new: Value| tool("store_many", asker, new, Reach::Live(NOW), Shows::Some);
    let after = |id: &str| ask(json!({"entries": [{"topic": COMMON, "content": SENTENCE, "follows": id}]}));
    let followed = ids(world, Kind::Entry).step_by(7).map(after);
    [ask(new), ask(pair)].into_iter().chain(followed).collect()
}

/// Like `store`.
fn write_knowledge<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let new = json!({"topic": COMMON, "content": SENTENCE, "context": COMMON});
    let more = json!({"content": SENTENCE, "context": COMMON, "task_sizes": ["L"], "pinned": true});
    [new, more].map(|new| tool("write_knowledge", asker, new, Reach::Live(NOW), Shows::Some)).into()
}

/// Like `store`, for the new text of an entry. The entry may be of any scope, and similar entries in the
/// reply must be in sight of the server's own scope. The call names no scope, because that would move the
/// entry there, into the histories of callers that see that scope.
fn update_knowledge<'a>(world: &'a World, _: &Asker) -> Vec<Call<'a>> {
    let ask = |arguments: Value| kb("update_knowledge", arguments, Reach::Live(NOW), Shows::Some);
    // A sample is enough: each entry is changed and the change is undone.
    let changed = ids(world, Kind::Entry).step_by(3);
    let changes = changed.flat_map(|id| {
        [
            json!({"id": id, "topic": COMMON, "content": SENTENCE, "context": COMMON, "pinned": true}),
            json!({"id": id, "content": SENTENCE, "task_sizes": ["S"]}),
        ]
    });
    changes.map(ask).collect()
}

/// The reply names other facts beside the new one, and the fact that exists already; others have written
/// these.
fn relate<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |fact: [&str; 3], on_conflict: &str, shows| {
        let [subject, predicate, object] = fact;
        let arguments =
            json!({"subject": subject, "predicate": predicate, "object": object, "on_conflict": on_conflict});
        tool("relate", asker, arguments, Reach::Live(NOW), shows)
    };
    let new = [COMMON, PREDICATE, "nobody"];
    // A sample is enough: each fact that does not exist is written, and undone afterwards.
    let known = of_kind(world, Kind::Triple).step_by(7);
    let known = known.map(|mark| [&*mark.key, SECOND_PREDICATE, SECOND_OBJECT]);
    let mut calls: Vec<Call> = known.map(|fact| ask(fact, "keep_both", Shows::Some)).collect();
    calls.push(ask(new, "keep_both", Shows::One(Kind::Triple)));
    calls.push(ask(new, "reject", Shows::Some));
    calls
}

/// A dry run lists what it would change. A real undo returns only ids: `World` has one among its writes.
fn undo<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |mut arguments: Value| {
        (arguments["dry_run"], arguments["any_actor"]) = (json!(true), json!(true));
        tool("undo", asker, arguments, Reach::Changes(NOW), Shows::Some)
    };
    let mut calls: Vec<Call> = (1..=world.head).map(|tx| ask(json!({"tx_id": tx}))).collect();
    calls.push(ask(json!({"count": 1})));
    calls.push(ask(json!({"count": 5})));
    calls
}

fn read<'a>(uri: &str, parameters: &str, asker: &Asker, reach: Reach, shows: Shows<'a>) -> Call<'a> {
    let scope = if asker.is_default { String::new() } else { format!("scope={}", asker.name) };
    let parameters: Vec<&str> = [&*scope, parameters].into_iter().filter(|it| !it.is_empty()).collect();
    let uri = match parameters.is_empty() {
        true => uri.to_owned(),
        false => format!("{uri}?{}", parameters.join("&")),
    };
    Call { method: "resources/read", params: json!({"uri": uri}), reach, shows }
}

fn entries<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    vec![read("knowledge://entries", "", asker, Reach::Live(NOW), ENTRIES)]
}

fn triples<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    vec![read("knowledge://graph/triples", "", asker, Reach::Live(NOW), TRIPLES)]
}

fn transactions<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    vec![read("knowledge://history/transactions", "", asker, Reach::Changes(NOW), CHANGED)]
}

fn entries_with_parameters<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |parameters: &str, reach, shows| read("knowledge://entries", parameters, asker, reach, shows);
    let (live, suppressed_too) = (Reach::Live(NOW), Reach::LiveOrSuppressed(NOW));
    let mut calls = vec![
        ask("limit=2", live, ENTRIES),
        ask(&format!("content={COMMON}"), live, ENTRIES),
        ask(&format!("topic={COMMON}&limit=3"), live, ENTRIES),
        ask(&format!("tags={TAG}"), live, Shows::One(Kind::Entry)),
        ask("include_suppressed=true", suppressed_too, ENTRIES),
        ask(&format!("content={COMMON}&include_suppressed=true"), suppressed_too, ENTRIES),
    ];
    for Moment { tx: at, .. } in &world.moments {
        calls.push(ask(&format!("as_of_tx_id={at}"), Reach::Live(Some(*at)), ENTRIES));
        calls.push(ask(&format!("as_of_tx_id={at}&content={COMMON}"), Reach::Live(Some(*at)), ENTRIES));
    }
    calls
}

fn triples_with_parameters<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |parameters: &str, reach| read("knowledge://graph/triples", parameters, asker, reach, TRIPLES);
    let as_of = world
        .moments
        .iter()
        .map(|Moment { tx: at, .. }| ask(&format!("as_of_tx_id={at}"), Reach::Live(Some(*at))));
    as_of.chain([ask("limit=3", Reach::Live(NOW))]).collect()
}

fn transactions_with_parameters<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let ask = |parameters: &str, reach, shows| {
        read("knowledge://history/transactions", parameters, asker, reach, shows)
    };
    let as_of = world
        .moments
        .iter()
        .map(|Moment { tx: at, .. }| ask(&format!("as_of_tx_id={at}"), Reach::Changes(Some(*at)), CHANGED));
    let since = ask(&format!("since_tx_id={}", world.moments[0].tx), Reach::Changes(NOW), Shows::Some);
    as_of.chain([ask("limit=3", Reach::Changes(NOW), CHANGED), since]).collect()
}

fn entry<'a>(world: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    for mark in of_kind(world, Kind::Entry) {
        let uri = format!("knowledge://entries/{}", mark.id);
        // By its URI an entry can be read even if it is suppressed.
        calls.push(read(&uri, "", asker, Reach::LiveOrSuppressed(NOW), Shows::Of(&mark.id)));
        for Moment { tx: at, .. } in &world.moments {
            let reach = Reach::LiveOrSuppressed(Some(*at));
            calls.push(read(&uri, &format!("as_of_tx_id={at}"), asker, reach, Shows::Of(&mark.id)));
        }
    }
    calls
}

/// A prompt returns prepared instructions around its arguments; it reads nothing from the store.
fn prompt(name: &str, argument: &str, asker: &Asker) -> Call<'static> {
    let mut arguments = json!({argument: COMMON});
    if !asker.is_default {
        arguments["scope"] = json!(asker.name);
    }
    let params = json!({"name": name, "arguments": arguments});
    Call { method: "prompts/get", params, reach: Reach::Nothing, shows: Shows::Some }
}

fn topics<'a>(_: &'a World, asker: &Asker) -> Vec<Call<'a>> {
    let (prefix, live) = (&COMMON[..3], Reach::Live(NOW));
    vec![
        completion("topic", "", asker, live, ENTRIES),
        completion("topic", prefix, asker, live, ENTRIES),
        completion("topic", COMMON, asker, live, ENTRIES),
    ]
}

/// The completions of an argument, none of which may come from an entry.
fn completions(argument: &str, asker: &Asker) -> Vec<Call<'static>> {
    ["", "l", COMMON].map(|typed| completion(argument, typed, asker, Reach::Nothing, Shows::Some)).into()
}

/// The completion of an argument. The caller adds the prompt or template that has the argument.
fn completion(
    argument: &str,
    typed: &str,
    asker: &Asker,
    reach: Reach,
    shows: Shows<'static>,
) -> Call<'static> {
    let mut params = json!({"argument": {"name": argument, "value": typed}});
    if !asker.is_default {
        params["context"] = json!({"arguments": {"scope": asker.name}});
    }
    Call { method: "completion/complete", params, reach, shows }
}
