//! The tools over documents at their bounds: every cap, at the cap and one above; replies with the largest
//! sections and names; a server without a graph; and records that belong to another principal.

use std::sync::Arc;

use kenning_tools::{Caller, Definition, Family, definitions, find};
use serde_json::{Map, Value, json};

use crate::session::Session;

/// The caps of the design, which the schemas have to state.
const CAPS: &[(&str, &str, u64)] = &[
    ("kb.search", "top_k", 20),
    ("kb.search", "page_size", 20),
    ("kb.search", "options.max_snippet_chars", 500),
    ("kb.search", "options.max_per_doc", 20),
    ("kb.read_excerpt", "max_tokens", 800),
    ("kb.expand_excerpt", "before_tokens", 800),
    ("kb.expand_excerpt", "after_tokens", 800),
    ("kb.extract_evidence", "max_quotes", 12),
    ("kb.extract_evidence", "max_quote_tokens", 200),
    ("kb.extract_evidence", "include_context_tokens", 200),
    ("kb.retrieve_evidence", "top_k", 20),
    ("kb.retrieve_evidence", "max_quotes", 12),
    ("kb.retrieve_evidence", "max_quote_tokens", 200),
    ("kb.retrieve_evidence", "include_context_tokens", 200),
    ("graph.describe", "node_ids", 50),
    ("graph.expand", "max_hops", 3),
    ("graph.expand", "page_size", 100),
    ("graph.paths", "max_hops", 5),
    ("graph.paths", "max_paths", 50),
    ("graph.children", "page_size", 100),
    ("search_sections", "page_size", 100),
    ("get_section_text", "max_bytes_per", 32_768),
    ("expand_neighbors", "max_hops", 3),
    ("expand_neighbors", "page_size", 100),
    ("get_paths_between", "max_hops", 5),
    ("get_paths_between", "max_paths", 50),
    ("list_children", "page_size", 100),
];

#[test]
fn the_caps_of_the_design_are_the_caps_of_the_schemas() {
    for (tool, argument, cap) in CAPS {
        let tool = find(tool).expect("a tool");
        let mut schema = Value::Object(tool.input_schema.clone());
        for name in argument.split('.') {
            schema = schema["properties"][name].clone();
        }
        let stated = schema.get("maximum").or(schema.get("maxItems")).and_then(Value::as_u64);
        assert_eq!(stated, Some(*cap), "{} {argument}", tool.name);
    }
}

#[test]
fn every_cap_holds_at_the_cap_and_one_above() {
    let session = Session::new();
    session.take_in("a.md", "# Snapshots\n\nA snapshot is a copy of a volume.");
    let mut checked = 0;
    let of_documents =
        |tool: &&Definition| matches!(tool.family, Family::Kb | Family::Graph | Family::Legacy);
    for tool in definitions().iter().filter(of_documents) {
        for (path, at_cap, above) in bounds(&tool.input_schema) {
            let message = |value: &Value| -> String {
                let mut arguments = required(&tool.input_schema);
                set(&mut arguments, &path, value.clone());
                let reply = session.call(tool.name, Value::Object(arguments));
                reply.structured["error"]["message"].as_str().unwrap_or_default().to_owned()
            };
            let (held, over) = (message(&at_cap), message(&above));
            let names_cap =
                |message: &str| message.contains("cap of") || message.contains("is not a whole number");
            assert!(!names_cap(&held), "{} {path:?} at its cap: {held}", tool.name);
            assert!(
                names_cap(&over) && over.contains(&path[path.len() - 1]),
                "{} {path:?}: {over}",
                tool.name
            );
            checked += 1;
        }
    }
    eprintln!("{checked} caps");
    assert!(checked > 150);
}

/// Every bounded argument at every depth: its path, its largest valid value, and a value that is too large.
fn bounds(schema: &Map<String, Value>) -> Vec<(Vec<String>, Value, Value)> {
    let mut found = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, property) in &properties {
        let text = |bytes: u64| json!("x".repeat(bytes as usize));
        let number = |field: &str| property.get(field).and_then(Value::as_u64);
        let mut add = |held: Value, over: Value| found.push((vec![name.clone()], held, over));
        if let Some(max) = number("maximum") {
            add(json!(max), json!(max + 1));
        }
        if let Some(max) = number("maxLength") {
            add(text(max), text(max + 1));
        }
        if let Some(max) = number("maxItems") {
            let items = |many: u64| json!(vec!["y"; many as usize]);
            add(items(max), items(max + 1));
            let inner = property["items"]["maxLength"].as_u64().expect("texts are bounded");
            add(json!([text(inner)]), json!([text(inner + 1)]));
        }
        if let Some(object) = property.as_object().filter(|object| object.contains_key("properties")) {
            for (path, held, over) in bounds(object) {
                found.push(([vec![name.clone()], path].concat(), held, over));
            }
        }
    }
    found
}

fn required(schema: &Map<String, Value>) -> Map<String, Value> {
    let names = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("array") => json!(["snapshot"]),
        _ => json!("snapshot"),
    };
    names.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect()
}

fn set(arguments: &mut Map<String, Value>, path: &[String], value: Value) {
    let (name, rest) = path.split_first().expect("a path");
    match rest.is_empty() {
        true => {
            arguments.insert(name.clone(), value);
        }
        false => {
            let inner = arguments.entry(name.clone()).or_insert_with(|| json!({}));
            set(inner.as_object_mut().expect("an object"), rest, value);
        }
    }
}

#[test]
fn excerpts_and_quotes_keep_to_their_budgets_whatever_the_text() {
    let session = Session::new();
    let fillings = ["word and word. ", "語。", "\"quoted\" ", "\\ ", "`code` "];
    for (number, filling) in fillings.iter().enumerate() {
        let body = filling.repeat(200_000 / filling.len());
        session.take_in(
            &format!("{number}.md"),
            &format!("# Snapshot {number}\n\n{body}\n\nThe snapshot is here."),
        );
    }
    let found = session.good("kb.search", json!({"query": "where is the snapshot", "top_k": 20}));
    let results = found["results"].as_array().expect("results");
    assert_eq!(results.len(), fillings.len());
    for result in results {
        let passage = result["passage_id"].clone();
        assert!(result["preview"].as_str().expect("a preview").chars().count() <= 280);
        let read = session.good("kb.read_excerpt", json!({"passage_id": passage, "max_tokens": 800}));
        let excerpt = read["excerpt"].as_str().expect("an excerpt");
        assert!(excerpt.len() <= 800 * 4 && !excerpt.is_empty());
        assert_eq!(read["truncated"], true);
        for _ in 0..30 {
            let grown = json!({"passage_id": passage, "before_tokens": 800, "after_tokens": 800});
            let grown = session.good("kb.expand_excerpt", grown);
            assert!(grown["excerpt"].as_str().expect("an excerpt").len() <= 32 * 1024);
        }
    }
    let asked = json!({"question": "where is the snapshot", "max_quotes": 12, "max_quote_tokens": 200, "include_context_tokens": 200});
    let quoted = session.good("kb.retrieve_evidence", asked);
    for quote in quoted["quotes"].as_array().expect("quotes") {
        assert!(quote["quote"].as_str().expect("a quote").chars().count() <= 500);
    }
    let ids: Vec<&Value> = results.iter().map(|result| &result["section_id"]).collect();
    let read = session.good("get_section_text", json!({"section_ids": ids, "max_bytes_per": 32768}));
    assert_eq!(read["limit_reason"], "byte_cap", "{}", read["meta"]);
}

#[test]
fn reading_on_reaches_the_end_and_misses_nothing() {
    let session = Session::new();
    let text: String = (0..2_000).map(|number| format!("Sentence {number} é. ")).collect();
    session.take_in("long.md", &format!("# Long\n\n{text}"));
    let found = session.good("kb.search", json!({"query": "long sentence"}));
    let passage = found["results"][0]["passage_id"].clone();
    let (mut read, mut start) = (String::new(), json!(0));
    while !start.is_null() {
        let piece = session.good("kb.read_excerpt", json!({"passage_id": passage, "start_char": start}));
        read += piece["excerpt"].as_str().expect("an excerpt");
        assert_eq!(piece["truncated"], !piece["next_start_char"].is_null());
        start = piece["next_start_char"].clone();
    }
    assert_eq!(read.trim(), text.trim());
}

#[test]
fn a_heading_may_come_a_thousand_times() {
    let session = Session::new();
    let changes: String =
        (0..1_000).map(|number| format!("## Fixed\n\nDefect {number} is gone.\n\n")).collect();
    session.take_in("changes.md", &format!("# Changes\n\n{changes}"));
    let found = session.good("kb.search", json!({"query": "defect 777"}));
    assert!(
        found["results"][0]["preview"].as_str().is_some_and(|preview| preview.contains("777")),
        "{found}"
    );
    let id = &found["results"][0]["section_id"];
    let parent = session.good("graph.parents", json!({"section_ids": [id]}))["nodes"][0]["id"].clone();
    let mut page = json!({"parent_id": parent, "page_size": 100});
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let children = session.good("graph.children", page.clone());
        let nodes = children["nodes"].as_array().expect("nodes");
        seen.extend(nodes.iter().map(|node| node["id"].as_str().expect("an id").to_owned()));
        match children["next_cursor"].as_str() {
            Some(cursor) => page["cursor"] = json!(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), 1_000);
}

#[test]
fn the_longest_names_fit_into_every_reply_of_the_graph() {
    let session = Session::new();
    let long = |number: usize| format!("{number} {}", "\"語\" ".repeat(160));
    for number in 0..120 {
        let triple = json!({"subject": "hub", "predicate": long(number), "object": long(number)});
        session.good("relate", triple);
    }
    let mut arguments = json!({"node_ids": ["hub"], "page_size": 100});
    let mut seen = 0;
    loop {
        let page = session.good("graph.expand", arguments.clone());
        let many = page["nodes"].as_array().expect("nodes").len();
        assert!(many > 0);
        seen += many;
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => break,
        }
    }
    assert_eq!(seen, 120, "pages that end early go on");
    let paths = json!({"a_ids": [long(1), long(2), long(3)], "b_ids": [long(4), long(5)], "max_paths": 50});
    assert_eq!(session.good("graph.paths", paths)["paths"].as_array().map(Vec::len), Some(6));
    let ids: Vec<String> = (0..50).map(long).collect();
    session.good("graph.describe", json!({"node_ids": ids}));
}

#[test]
fn without_a_graph_searches_go_by_words_and_meaning_and_say_so() {
    let mut session = Session::new();
    session.take_in("a.md", "# Garbage\n\nGarbage is collected at night. See [restoring](b.md).");
    session.take_in("b.md", "# Restoring\n\nMount the volume first.");
    let asked = json!({"query": "garbage is collected"});
    let sources = |reply: &Value| -> Vec<Value> {
        reply["results"].as_array().expect("results").iter().map(|found| found["source"].clone()).collect()
    };
    let with = session.call("kb.search", asked.clone());
    assert_eq!(sources(&with.structured), ["hybrid", "graph_expanded"]);
    assert!(!with.meta.contains_key("io.kenning/graph_disabled"));
    session.caller.has_graph = false;
    let without = session.call("kb.search", asked);
    assert_eq!(sources(&without.structured), ["hybrid"]);
    assert_eq!(without.meta["io.kenning/graph_disabled"], true);
    let forced = json!({"query": "garbage", "options": {"mode": "hybrid_local"}});
    assert!(session.refused("kb.search", forced).contains("--no-graph"));
    for tool in definitions().iter().filter(|tool| tool.family == Family::Graph) {
        let arguments = Value::Object(required(&tool.input_schema));
        assert!(session.refused(tool.name, arguments).contains("--no-graph"), "{}", tool.name);
    }
    session.good("query_graph", json!({"subject": "garbage"}));
}

#[test]
fn a_passage_is_for_who_found_it() {
    let mut session = Session::new();
    session.take_in("a.md", "# Garbage\n\nGarbage is collected at night.");
    let passage = session.good("kb.search", json!({"query": "garbage"}))["results"][0]["passage_id"].clone();
    session.good("kb.read_excerpt", json!({"passage_id": passage}));
    let scratch = session.caller.scratch.clone();
    session.caller = Caller {
        scratch,
        ..Caller::new(Some("alice"), "another session".to_owned(), "global:default".to_owned())
    };
    for tool in ["kb.read_excerpt", "kb.expand_excerpt"] {
        assert!(session.refused(tool, json!({"passage_id": passage})).contains("there is no passage"));
    }
    let evidence = json!({"question": "when", "passage_ids": [passage]});
    assert!(session.refused("kb.extract_evidence", evidence).contains("there is no passage"));
}

#[test]
fn what_is_found_again_has_its_handle_already() {
    let session = Session::new();
    session.take_in("a.md", "---\ntags: [kubernetes]\n---\n# Garbage\n\nGarbage is collected at night.");
    let handle =
        |query: &str| session.good("kb.search", json!({"query": query}))["results"][0]["passage_id"].clone();
    let first = handle("garbage");
    assert_eq!(handle("collected at night"), first);
    assert_eq!(handle("kubernetes"), first, "tags are words too");
    let quoted = session.good("kb.retrieve_evidence", json!({"question": "when is garbage collected?"}));
    assert_eq!(quoted["quotes"][0]["passage_id"], first);
    session.take_in("a.md", "# Garbage\n\nGarbage is collected at noon.");
    let second = handle("garbage");
    assert_ne!(second, first);
    for (passage, when) in [(first, "at night"), (second, "at noon")] {
        let read = session.good("kb.read_excerpt", json!({"passage_id": passage}));
        assert!(read["excerpt"].as_str().is_some_and(|text| text.contains(when)), "{read}");
    }
}

#[test]
fn every_reply_says_what_it_costs_and_is_counted() {
    let session = Session::new();
    session.take_in(
        "a.md",
        "# Garbage\n\nGarbage is collected at night.\n\n## More garbage\n\nGarbage is heavy.",
    );
    let reply = session.call("kb.search", json!({"query": "garbage"}));
    let bytes = reply.structured.to_string().len();
    let usage = json!({"tokens_estimate": bytes.div_ceil(4), "bytes_returned": bytes, "content_bytes": reply.content_bytes(), "duplicates_suppressed": 1});
    assert_eq!(reply.meta["io.kenning/usage"], usage);
    let first = json!({"query": "garbage", "page_size": 1, "options": {"max_per_doc": 0}});
    let mut second = first.clone();
    second["cursor"] = session.good("kb.search", first)["next_cursor"].clone();
    session.good("kb.search", second);
    session.refused("kb.search", json!({}));
    session.good("store", json!({"topic": "t", "content": "c"}));
    let counted = session.caller.usage.counted();
    let search = counted["kb.search"];
    assert_eq!((search.calls, search.errors, search.cursors_taken), (4, 1, 1));
    assert_eq!((search.truncated, search.duplicates_suppressed), (1, 1));
    assert!(search.bytes_largest >= bytes as u64 && search.bytes_returned > search.bytes_largest);
    assert_eq!(counted["store"].calls, 1);
    assert_eq!(Arc::strong_count(&session.caller.usage), 1);
}

#[test]
fn a_heading_without_text_is_no_hit() {
    let session = Session::new();
    session.take_in("widget.md", "# Widget tuning\n\n## Steps\n\nTurn the screw by half.\n");
    session.take_in("other.md", "# Gears\n\nSee [the widget](widget.md) before the gears are oiled.\n");
    let found = session.good("kb.search", json!({"query": "widget tuning"}));
    assert_eq!(found["results"][0]["title"], "Widget tuning > Steps", "{found}");
    assert_eq!(found["results"][0]["preview"], "Turn the screw by half.", "{found}");
    // A link to a page leads to its title, which has no text either.
    let found = session.good("kb.search", json!({"query": "oiled gears"}));
    assert_eq!(found["results"][1]["source"], "graph_expanded", "{found}");
    assert_eq!(found["results"][1]["title"], "Widget tuning > Steps", "{found}");
}

#[test]
fn bullets_keep_to_the_cap_and_reading_on_misses_nothing() {
    let session = Session::new();
    let text: String = (0..900).map(|number| format!("Is {number}. ")).collect();
    session.take_in("long.md", &format!("# Long\n\n{text}"));
    let found = session.good("kb.search", json!({"query": "long"}));
    let passage = found["results"][0]["passage_id"].clone();
    let (mut read, mut start) = (Vec::new(), json!(0));
    while !start.is_null() {
        let options = json!({"format": "bullets"});
        let asked =
            json!({"passage_id": passage, "start_char": start, "max_tokens": 100, "options": options});
        let piece = session.good("kb.read_excerpt", asked);
        let excerpt = piece["excerpt"].as_str().expect("an excerpt");
        assert!(excerpt.len() <= 400, "{} bytes", excerpt.len());
        read.extend(excerpt.lines().map(str::to_owned));
        start = piece["next_start_char"].clone();
    }
    let wanted: Vec<String> = (0..900).map(|number| format!("- Is {number}.")).collect();
    assert_eq!(read, wanted);
}

#[test]
fn a_date_is_the_beginning_of_its_day() {
    let session = Session::new();
    session.take_in("old.md", "---\ndate: 2025-12-31\n---\n# Old\n\nThe pump is blue.");
    session.take_in("new.md", "---\ndate: 2026-01-02\n---\n# New\n\nThe pump is red.");
    let asked = json!({"query": "pump", "filters": {"updated_after": "2026-01-01"}});
    let found = session.good("kb.search", asked);
    let titles: Vec<&str> = found["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter_map(|one| one["title"].as_str())
        .collect();
    assert_eq!(titles, ["New"]);
}

#[test]
fn what_most_likely_answers_nothing_is_said_in_both_channels() {
    let session = Session::new();
    session
        .take_in("pump.md", "# Pumps\n\nThe pump is restarted with `pumpctl restart`. It takes two minutes.");
    let doubted = |question: &str| {
        let reply = session.call("kb.retrieve_evidence", json!({"question": question}));
        assert!(!reply.structured["quotes"].as_array().expect("quotes").is_empty());
        let text = format!("{:?}", reply.blocks);
        let is_told = text.contains("most likely do not answer");
        assert_eq!(is_told, reply.structured.get("doubt").is_some(), "{text}");
        is_told
    };
    assert!(!doubted("how is a pump restarted?"));
    assert!(doubted("which Kubernetes liveness probe restarted our nginx ingress controller deployment?"));
}

#[test]
fn a_citation_stands_once_for_all_quotes_of_a_passage() {
    let session = Session::new();
    let filler = "Nothing of it is said in these words. ".repeat(12);
    let text = format!("# Pumps\n\nA pump has a valve.\n\n{filler}\n\nThe valve of a pump is red.\n");
    session.take_in("pump.md", &text);
    let asked = json!({"question": "valve of a pump", "max_quote_tokens": 20});
    let reply = session.call("kb.retrieve_evidence", asked);
    assert!(reply.structured["quotes"].as_array().expect("quotes").len() >= 2, "{}", reply.structured);
    assert_eq!(format!("{:?}", reply.blocks).matches("pump.md").count(), 1);
}

/// If the search did not look everywhere, the reply "there is no path" would be wrong.
#[test]
fn a_path_that_would_take_too_much_looking_is_refused() {
    let session = Session::new();
    let page = |name: &str| -> String {
        (0..26_000).map(|number| format!("## {number}\n\nSee `{name}_hub`.\n")).collect()
    };
    session.take_in("left.md", &page("left"));
    session.take_in("right.md", &page("right"));
    let ends = json!({"a_ids": ["left_hub"], "b_ids": ["right_hub"], "max_hops": 5});
    let error = session.call("graph.paths", ends).structured["error"].clone();
    assert_eq!(error["code"], "BUDGET_EXCEEDED", "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("rel_types")), "{error}");
}

/// All arguments that the server accepts also pass the schema by which clients may check calls.
#[test]
fn null_for_an_optional_argument_passes_the_published_schema() {
    for tool in definitions() {
        let schema = Value::Object(tool.published_schema());
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let mut arguments = required(&tool.input_schema);
        for name in schema["properties"].as_object().expect("an object").keys() {
            arguments.entry(name.clone()).or_insert(Value::Null);
        }
        let arguments = Value::Object(arguments);
        let errors: Vec<String> = validator.iter_errors(&arguments).map(|error| error.to_string()).collect();
        let about_null = |error: &&String| error.starts_with("null");
        assert_eq!(errors.iter().find(about_null), None, "{}: {arguments}", tool.name);
    }
}

#[test]
fn replies_about_documents_say_their_version() {
    for tool in definitions() {
        let is_of_documents = matches!(tool.family, Family::Kb | Family::Graph | Family::Legacy);
        let said = tool.output_schema.get("$comment").and_then(Value::as_str);
        assert_eq!(said, is_of_documents.then_some("version 1"), "{}", tool.name);
    }
}
