//! The contract of the catalogue: every tool, in every format, with every outcome; and hosts that show one
//! channel only.

use std::collections::BTreeSet;
use std::path::Path;

use kenning_engine::Engine;
use kenning_presentation::{Block, Reply};
use kenning_tools::{Access, definitions, dispatch_answered, find};
use serde_json::{Map, Value, json};

use crate::session::Session;

/// Ingests the catalogue that the transcripts search.
pub fn take_catalogue_in(engine: &Engine) {
    for path in ["errors/circuit-breaker.md", "errors/retry-backoff.mdx", "streams/bounded-queue.md"] {
        let text =
            std::fs::read_to_string(Path::new("tests/patterns/catalogue").join(path)).expect("a pattern");
        kenning_testkit::take_in_pattern(engine, "catalogue", path, &text);
    }
}

fn session() -> Session {
    let session = Session::new();
    take_catalogue_in(&session.engine);
    session
}

/// Ingests `many` patterns that all match `common`, half of them in each of two categories.
fn many(session: &Session, many: usize) {
    for number in 0..many {
        let (category, difficulty) = if number % 2 == 0 { ("even", "beginner") } else { ("odd", "advanced") };
        let text = format!(
            "---\nid: p{number}\ntitle: Pattern {number}\ncategory: {category}\ndifficulty: {difficulty}\n---\nThe common way, number {number}.\n"
        );
        kenning_testkit::take_in_pattern(&session.engine, "many", &format!("{number}.md"), &text);
    }
}

const OUTCOMES: [(&str, &str, &str, &str); 10] = [
    ("search_patterns", "found", r#"{"q": "retry a failed call"}"#, "patternSearchResults:v1"),
    (
        "search_patterns",
        "with its panel",
        r#"{"q": "resilience", "includeProvenancePanel": true, "limitCards": 1}"#,
        "patternSearchResults:v1",
    ),
    ("search_patterns", "nothing found", r#"{"q": "giraffes and zebras"}"#, "patternSearchResults:v1"),
    ("search_patterns", "unknown category", r#"{"q": "retry", "category": "no"}"#, "patternSearchResults:v1"),
    ("search_patterns", "no query", r#"{"q": " "}"#, "needsInput:v1"),
    ("search_patterns", "too broad", r#"{"q": "common way"}"#, "needsInput:v1"),
    ("search_patterns", "refused", r#"{"q": "x", "limit": 0}"#, "toolError:v1"),
    ("get_pattern", "found", r#"{"id": "retry-backoff"}"#, "patternDetails:v1"),
    ("get_pattern", "unknown id", r#"{"id": "retry-backof"}"#, "needsInput:v1"),
    ("get_pattern", "refused", r#"{"id": "x", "what": 1}"#, "toolError:v1"),
];

#[test]
fn every_tool_keeps_the_contract_in_every_format_for_every_outcome() {
    let session = session();
    many(&session, 21);
    for (tool, outcome, arguments, kind) in OUTCOMES {
        for format in [None, Some("markdown"), Some("json"), Some("both")] {
            let mut arguments: Value = serde_json::from_str(arguments).expect("JSON");
            if let Some(format) = format {
                arguments["format"] = json!(format);
            }
            let reply = session.call(tool, arguments);
            let what = format!("{tool}, {outcome}, {format:?}");
            assert_eq!(reply.structured["kind"], kind, "{what}: {}", reply.structured);
            assert_eq!(reply.is_error, kind == "toolError:v1", "{what}");
            let format = format.unwrap_or("markdown");
            check_blocks(&what, &reply, format);
            check_markers(&what, &reply, tool, format);
            check_fields(&what, &reply.structured);
            let schema = Value::Object(find(tool).expect("a tool").output_schema.clone());
            let errors: Vec<String> = jsonschema::validator_for(&schema)
                .expect("a good schema")
                .iter_errors(&reply.structured)
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{what}: {errors:?}");
        }
    }
}

/// Checks the blocks of a reply: a program finds the JSON by trying to parse each block, from the last to the
/// first.
fn check_blocks(what: &str, reply: &Reply, format: &str) {
    let json: Vec<&String> = reply
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Json(text) => Some(text),
            _ => None,
        })
        .collect();
    match format {
        "markdown" => assert!(json.is_empty(), "{what}"),
        _ => {
            assert_eq!(json, [&reply.structured.to_string()], "{what}: minified, and the structured reply");
            assert!(matches!(reply.blocks.last(), Some(Block::Json(_))), "{what}: it comes last");
        }
    }
    let others = reply.blocks.len() - json.len();
    assert_eq!(others > 0, format != "json", "{what}");
    for text in shown_to_people(reply) {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{what}: no JSON among what people read");
        let told: Vec<&str> = definitions()
            .iter()
            .map(|tool| tool.name)
            .filter(|name| name.contains(['_', '.']) && text.contains(name))
            .collect();
        assert!(told.is_empty(), "{what}: people need not read of {told:?} in {text}");
        for word in ["cursor", "I will", "Let me", "Calling", "Tool ", "tool "] {
            assert!(!text.contains(word), "{what}: {word} in {text}");
        }
    }
}

/// The blocks that a host which respects audiences shows to people.
fn shown_to_people(reply: &Reply) -> impl Iterator<Item = &str> {
    reply.blocks.iter().filter_map(|block| match block {
        Block::Markdown(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Checks the markers by counting them in the text as a program would, not as the server does.
fn check_markers(what: &str, reply: &Reply, tool: &str, format: &str) {
    let text = reply.text();
    let count = |marker: &str| shown_to_people(reply).map(|text| text.matches(marker).count()).sum::<usize>();
    let (index, cards) = (count("<!-- kind:pattern-index:v1 -->"), count("<!-- kind:pattern-card:v1 -->"));
    if tool == "get_pattern" {
        let is_card = reply.structured["kind"] == "patternDetails:v1" && format != "json";
        assert_eq!((index, cards), (0, usize::from(is_card)), "{what}: {text}");
    }
    let Some(metadata) = reply.structured.get("metadata") else { return };
    let ids = |list: &Value| list.as_array().expect("a list").clone();
    let rendered = ids(&metadata["renderedCardIds"]);
    let patterns: Vec<Value> =
        ids(&reply.structured["patterns"]).iter().map(|pattern| pattern["id"].clone()).collect();
    assert_eq!(
        metadata["contractMarkers"],
        json!({"index": index, "cards": cards, "version": "v1"}),
        "{what}"
    );
    assert_eq!(
        (metadata["renderedCards"].as_u64(), cards),
        (Some(rendered.len() as u64), rendered.len()),
        "{what}"
    );
    assert_eq!(rendered[..], patterns[..rendered.len()], "{what}: the first of all are the cards");
    assert_eq!(index == 1, format != "json" && !patterns.is_empty(), "{what}");
    assert_eq!(rendered.is_empty(), format == "json" || patterns.is_empty(), "{what}");
}

/// Checks that absent fields are left out and that times are ISO 8601 in UTC.
fn check_fields(what: &str, value: &Value) {
    match value {
        Value::Null => panic!("{what}: a null"),
        Value::Array(values) => values.iter().for_each(|value| check_fields(what, value)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "timestamp" {
                    let moment = value.as_str().expect("a text");
                    assert!(
                        moment.parse::<jiff::Timestamp>().is_ok() && moment.ends_with('Z'),
                        "{what}: {moment}"
                    );
                }
                check_fields(what, value);
            }
        }
        _ => {}
    }
}

/// Two hosts: one gives its model the blocks, the other the structured reply. Both models get the same facts.
#[test]
fn a_host_of_either_channel_can_answer_the_same_questions() {
    let session = session();
    many(&session, 21);
    let content_only = |reply: &Reply| reply.text();
    let structured_only =
        |reply: &Reply| serde_json::to_string_pretty(&reply.structured).expect("plain data");
    let unquoted = |text: &str| text.replace("\\n", "\n").replace("\\\"", "\"");
    for (tool, arguments, facts) in [
        (
            "search_patterns",
            json!({"q": "retry a failed call"}),
            &[
                "retry-backoff",
                "circuit-breaker",
                "Retry with backoff",
                "error-handling",
                "intermediate",
                "is not kept down",
                "2",
            ][..],
        ),
        (
            "search_patterns",
            json!({"q": "resilience", "includeProvenancePanel": true}),
            &["errors/retry-backoff.mdx", "catalogue", "global:default", "testkit"],
        ),
        (
            "search_patterns",
            json!({"q": "giraffes"}),
            &["0", "even", "odd", "error-handling", "streams", "bounded-queue"],
        ),
        (
            "search_patterns",
            json!({"q": "common way"}),
            &["21 patterns", "category", "difficulty", "even", "odd", "beginner"],
        ),
        ("search_patterns", json!({"q": ""}), &["What pattern are you looking for?", "resilience"]),
        (
            "search_patterns",
            json!({"q": "common way", "category": "even", "limit": 2}),
            &["11", "p0", "cursor"],
        ),
        (
            "get_pattern",
            json!({"id": "retry-backoff"}),
            &[
                "Retry with backoff",
                "error-handling",
                "intermediate",
                "A call fails now and then",
                "The call is not idempotent.",
                "Schedule.recurs(5)",
                "while (true) await call()",
                "circuit-breaker",
                "errors/retry-backoff.mdx",
                "global:default",
            ],
        ),
        ("get_pattern", json!({"id": "retry-backof"}), &["retry-backof", "retry-backoff", "id"]),
        ("get_pattern", json!({"id": 1}), &["CLIENT_ERROR", "`id`", "expected a string"]),
    ] {
        let reply = session.call(tool, arguments.clone());
        for (host, text) in [("content", content_only(&reply)), ("structured", structured_only(&reply))] {
            for fact in facts {
                let is_told = fact.split('|').any(|fact| unquoted(&text).contains(fact));
                assert!(is_told, "{tool} {arguments}: a host of {host} does not know {fact}\n{text}");
            }
        }
    }
}

#[test]
fn more_than_twenty_without_a_filter_are_too_many_to_show() {
    let session = session();
    many(&session, 20);
    let kind =
        |arguments: Value| session.good("search_patterns", arguments)["kind"].as_str().map(str::to_owned);
    let (results, needs) = (Some("patternSearchResults:v1".to_owned()), Some("needsInput:v1".to_owned()));
    assert_eq!(kind(json!({"q": "common way"})), results, "twenty are not");
    many(&session, 21);
    assert_eq!(kind(json!({"q": "common way"})), needs);
    assert_eq!(kind(json!({"q": "common way", "limit": 3})), needs, "whatever the limit");
    assert_eq!(kind(json!({"q": "common way", "difficulty": "beginner"})), results);
    let named = session.good("search_patterns", json!({"q": "pattern 7", "format": "json"}));
    assert_eq!(named["patterns"][0]["id"], "p7", "whoever names one means that one");
    let asked = session.good("search_patterns", json!({"q": "common way"}));
    assert_eq!(asked["bestMatches"].as_array().map(Vec::len), Some(10));
    assert_eq!(
        asked["needsInput"]["suggestions"],
        json!({"category": ["even", "odd"], "difficulty": ["beginner", "advanced"]})
    );
    assert_eq!(
        asked["options"][0],
        json!({"label": "even", "value": "even", "description": "Filter by even category (11)", "field": "category"})
    );
}

#[test]
fn an_answer_brings_the_result_and_is_not_asked_for_twice() {
    let session = session();
    many(&session, 30);
    let answered = |tool: &str, arguments: Value, answer: Value| {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let tool = find(tool).expect("a tool");
        dispatch_answered(
            &session.engine,
            &session.caller,
            Access::ReadOnly,
            tool,
            map(arguments),
            map(answer),
        )
    };
    let ask = session.call("search_patterns", json!({})).ask.expect("a question");
    assert_eq!(
        ask.fields.iter().map(|field| (field.name, field.is_required)).collect::<Vec<_>>(),
        [("q", true)]
    );
    let found = answered("search_patterns", json!({}), json!({"q": "retry"})).structured;
    assert_eq!(
        (&found["query"]["q"], &found["patterns"][0]["id"]),
        (&json!("retry"), &json!("retry-backoff"))
    );

    let ask = session.call("search_patterns", json!({"q": "common way"})).ask.expect("a question");
    assert_eq!(ask.fields.iter().map(|field| field.choices.len()).collect::<Vec<_>>(), [2, 2]);
    let narrowed =
        answered("search_patterns", json!({"q": "common way"}), json!({"category": "odd", "difficulty": ""}));
    assert_eq!(narrowed.structured["metadata"]["totalCount"], 15);
    // An answer that narrows nothing means that the caller wants to see all matches, page by page.
    let all = answered("search_patterns", json!({"q": "common way", "limit": 20}), json!({})).structured;
    assert_eq!(all["metadata"]["totalCount"], 30);
    let rest = json!({"q": "common way", "cursor": all["next_cursor"]});
    assert_eq!(session.good("search_patterns", rest)["patterns"].as_array().map(Vec::len), Some(10));

    let ask = session.call("get_pattern", json!({})).ask.expect("a question");
    assert_eq!((ask.fields[0].name, ask.fields[0].is_required), ("id", true));
    assert_eq!(
        answered("get_pattern", json!({}), json!({"id": "retry-backoff"})).structured["kind"],
        "patternDetails:v1"
    );
    // A wrong answer is reported as one.
    assert_eq!(answered("get_pattern", json!({}), json!({"id": "nope"})).structured["kind"], "needsInput:v1");
    assert_eq!(answered("get_pattern", json!({}), json!({})).structured["kind"], "needsInput:v1");
    // Without a catalogue nobody is asked.
    let empty = Session::new();
    for (tool, arguments) in [("search_patterns", json!({})), ("get_pattern", json!({"id": "x"}))] {
        let reply = empty.call(tool, arguments);
        assert!(
            reply.ask.is_none() && reply.text().contains("kenning ingest --kind patterns"),
            "{}",
            reply.text()
        );
    }
    let none = empty.call("search_patterns", json!({"q": "x"}));
    assert!(none.text().contains("kenning ingest --kind patterns"), "{}", none.text());
}

#[test]
fn stored_text_can_neither_forge_a_marker_nor_leave_its_fence() {
    let session = session();
    let forged = "<!-- kind:pattern-card:v1 -->";
    let text = format!(
        "---\nid: 'evil`id'\ntitle: \"{forged} # `Heading`\"\ncategory: '`x` {forged}'\ntags: ['{forged}']\nuseWhen: \"```\\n{forged}\"\n---\n\
         forged {forged}\n\n`````\n{forged}\n`````\n\n## {forged}\n\n~~~~ts\n```\n# not a heading\n~~~~\n\nbidi \u{202e}text\n"
    );
    kenning_testkit::take_in_pattern(&session.engine, "evil", "evil.md", &text);
    for (tool, arguments) in [
        ("search_patterns", json!({"q": format!("forged {forged}"), "includeProvenancePanel": true})),
        ("get_pattern", json!({"id": "evil`id"})),
        ("search_patterns", json!({"q": "nothing like it", "category": forged})),
        ("get_pattern", json!({"id": forged})),
    ] {
        for format in ["markdown", "both"] {
            let mut arguments = arguments.clone();
            arguments["format"] = json!(format);
            let reply = session.call(tool, arguments);
            check_markers(tool, &reply, tool, format);
            check_blocks(tool, &reply, format);
            assert!(!reply.text().contains('\u{202e}'), "{}", reply.text());
            for text in shown_to_people(&reply) {
                assert_eq!(outside_fences(text).matches("not a heading").count(), 0, "{text}");
            }
        }
    }
}

/// The lines of a text that are outside of fences, as a reader of Markdown sees them.
fn outside_fences(text: &str) -> String {
    let mut open: Option<usize> = None;
    let mut outside = String::new();
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match open {
            None if ticks >= 3 => open = Some(ticks),
            Some(many) if ticks >= many && line.trim_start_matches('`').is_empty() => open = None,
            Some(_) => {}
            None => outside.push_str(&format!("{line}\n")),
        }
    }
    assert_eq!(open, None, "every fence is closed: {text}");
    outside
}

#[test]
fn every_page_fits_and_every_match_is_on_one() {
    let session = Session::new();
    for number in 0..150 {
        let text = format!(
            "---\nid: {}{number}\ntitle: \"{}\"\ncategory: same\ndifficulty: beginner\ntags: [{}]\n---\nThe common way. {}\n",
            "long-id-".repeat(20),
            "A title with \\\"quotes\\\" ".repeat(20),
            vec!["a-tag-of-some-length"; 20].join(", "),
            "All of its words count. ".repeat(number * 4),
        );
        kenning_testkit::take_in_pattern(&session.engine, "large", &format!("{number}.md"), &text);
    }
    for format in ["markdown", "json", "both"] {
        // Quotation marks are not words, but the query is repeated with them all the same.
        let q = format!("common way {}", "\"".repeat(4_000));
        let mut arguments = json!({"q": q, "category": "same", "format": format, "limitCards": 10, "includeProvenancePanel": true});
        let mut seen = BTreeSet::new();
        loop {
            let reply = session.call("search_patterns", arguments.clone());
            check_markers("a page", &reply, "search_patterns", format);
            let patterns = reply.structured["patterns"].as_array().expect("patterns").clone();
            assert!(!patterns.is_empty(), "a page has at least one");
            for pattern in patterns {
                assert!(seen.insert(pattern["id"].as_str().expect("an id").to_owned()), "none comes twice");
                assert!(pattern["description"].as_str().expect("a text").ends_with(['.', '…']));
            }
            match reply.structured.get("next_cursor") {
                Some(cursor) => arguments["cursor"] = cursor.clone(),
                None => break,
            }
        }
        assert_eq!(seen.len(), 150, "{format}");
    }
}

#[test]
fn pages_do_not_shift_while_others_write() {
    let session = session();
    many(&session, 30);
    let arguments = json!({"q": "common way", "category": "even", "limit": 10, "format": "json"});
    let first = session.good("search_patterns", arguments.clone());
    many(&session, 40);
    let mut next = arguments;
    next["cursor"] = first["next_cursor"].clone();
    let second = session.good("search_patterns", next.clone());
    assert_eq!(second["metadata"]["totalCount"], 15);
    assert_eq!(second["patterns"].as_array().map(Vec::len), Some(5));
    assert_eq!(second["as_of_tx_id"], first["as_of_tx_id"]);
    next["q"] = json!("another");
    let refused = session.call("search_patterns", next);
    assert_eq!(refused.structured["code"], "CLIENT_ERROR");
}

#[test]
fn of_a_pattern_larger_than_a_reply_the_beginning_is_whole_and_the_rest_can_be_read() {
    let session = Session::new();
    let code = |lines: usize| format!("```rust\n{}```\n\n", "let \"quoted\" = 1;\n".repeat(lines));
    let parts = |many: usize, lines: usize| -> String {
        (0..many).map(|number| format!("## Part {number}\n\nSome words. {}", code(lines))).collect()
    };
    for (id, text) in [
        ("long-example", format!("Text.\n\n## Example\n\n{}", code(20_000))),
        ("many-parts", parts(200, 50)),
        ("many-tiny", (0..3_000).map(|number| format!("## P{number}\n\n`x`\n\n")).collect()),
        ("many-fences", parts(1_500, 1)),
        ("long-words", format!("{}\n", "\"\\".repeat(200_000))),
    ] {
        let front = format!("id: {id}\ntitle: {id}\ncategory: c\nrelated: [{}]", vec!["r"; 300].join(", "));
        kenning_testkit::take_in_pattern(
            &session.engine,
            "large",
            &format!("{id}.md"),
            &format!("---\n{front}\n---\n{text}"),
        );
        for format in ["markdown", "json", "both"] {
            let reply = session.call("get_pattern", json!({"id": id, "format": format}));
            let truncated = &reply.structured["truncated"];
            assert!(truncated.is_object(), "{id}: {}", reply.text());
            check_markers(id, &reply, "get_pattern", format);
            let people: String = shown_to_people(&reply).collect();
            assert!(
                format == "json" || people.contains("longer than a reply") || people.contains("so cut:"),
                "{id}: {people}"
            );
            let [shown, total] = [
                reply.structured["sections"].as_array().map(Vec::len),
                truncated["sections"].as_u64().map(|many| many as usize),
            ];
            if shown < total {
                // The tools over documents can read on where the pattern was cut.
                let next = json!({"passage_id": truncated["nextSectionId"]});
                let next = session.good("kb.read_excerpt", next);
                assert!(next["citation"]["title"].as_str().is_some_and(|title| title.contains(id)), "{next}");
            }
        }
    }
    let parts = session.good("get_pattern", json!({"id": "many-parts"}));
    let sections = parts["sections"].as_array().expect("sections");
    assert!(sections.len() > 10, "{} are there", sections.len());
    assert!(
        sections.iter().all(|section| section["content"].as_str().is_some_and(|text| text.ends_with("```"))),
        "each whole"
    );
    assert_eq!(parts["examples"].as_array().map(Vec::len), Some(sections.len()), "with its examples");
    let example = session.good("get_pattern", json!({"id": "long-example"}));
    assert!(
        example["examples"].to_string().contains("...")
            || example["sections"].as_array().map(Vec::len) == Some(1)
    );
}

#[test]
fn categories_are_counted_whatever_their_case_and_however_many() {
    let session = Session::new();
    let take = |id: &str, category: &str| {
        let text = format!("---\nid: {id}\ntitle: {id}\ncategory: \"{category}\"\n---\nThe common way.\n");
        kenning_testkit::take_in_pattern(&session.engine, "c", &format!("{id}.md"), &text);
    };
    for (id, category) in [("a", "errors"), ("b", "Errors"), ("c", "errors"), ("d", "ERRORS")] {
        take(id, category);
    }
    let found = session.good("search_patterns", json!({"q": "common way", "format": "json"}));
    assert_eq!(found["metadata"]["categories"], json!({"errors": 4}));
    for number in 0..130 {
        take(&format!("p{number}"), &format!("category-{number}"));
    }
    let none = session.call("search_patterns", json!({"q": "zebras", "category": "category-129"}));
    assert!(!none.text().contains("There is no category"), "{}", none.text());
    let none = session.call("search_patterns", json!({"q": "zebras", "category": "category-130"}));
    assert!(none.text().contains("There is no category `category-130`"), "{}", none.text());
    // If there are more categories than a list may have, the field is not restricted to a list.
    let broad = session.call("search_patterns", json!({"q": "common way"}));
    let ask = broad.ask.expect("a question");
    assert!(ask.fields.iter().all(|field| field.choices.is_empty()), "{ask:?}");
    assert!(ask.fields[0].about.contains("for example errors"), "{ask:?}");
}

#[test]
fn what_cannot_be_narrowed_is_shown() {
    let session = Session::new();
    for number in 0..30 {
        let text = format!(
            "---\nid: p{number}\ntitle: P{number}\ncategory: {}\n---\nThe common way.\n",
            "long ".repeat(40)
        );
        kenning_testkit::take_in_pattern(&session.engine, "c", &format!("{number}.md"), &text);
    }
    let found = session.good("search_patterns", json!({"q": "common way"}));
    assert_eq!(found["metadata"]["totalCount"], 30);
}

#[test]
fn a_page_says_where_it_lies_and_how_to_go_on() {
    let session = session();
    many(&session, 30);
    let first = session.call("search_patterns", json!({"q": "common way", "category": "even", "limit": 4}));
    assert!(first.text().contains("; here are 1 to 4."), "{}", first.text());
    let hint = first.text();
    let (_, next) = hint.split_once("call again with ").expect("a hint");
    let next: Value =
        serde_json::from_str(next.trim().trim_end_matches('.')).expect("the arguments of the next call");
    let second = session.call("search_patterns", next);
    assert!(
        second.text().contains("; here are 5 to 8.") && second.text().contains("\n5. "),
        "{}",
        second.text()
    );
    let alone = session.call("search_patterns", json!({"cursor": first.structured["next_cursor"]}));
    assert_eq!((&alone.structured["code"], alone.ask.is_none()), (&json!("CLIENT_ERROR"), true));
}

#[test]
fn errors_have_the_spelling_of_the_family() {
    let session = Session::new();
    let refused = |arguments: Value| session.call("search_patterns", arguments).structured;
    assert_eq!(refused(json!({"q": "x", "limit": "one"}))["code"], "CLIENT_ERROR");
    let mut lost = Session::new();
    lost.caller.scope = "acme:gone".to_owned();
    let missing = lost.call("search_patterns", json!({"q": "x", "format": "both"}));
    assert_eq!(missing.structured["code"], "NOT_FOUND");
    assert_eq!(missing.structured["retryable"], false);
    let [Block::Plain(line), Block::Json(json)] = &missing.blocks[..] else { panic!("{:?}", missing.blocks) };
    assert!(
        line.starts_with("NOT_FOUND (fix the arguments and call again): there is no scope `acme:gone`"),
        "{line}"
    );
    let parsed: Map<String, Value> = serde_json::from_str(json).expect("JSON");
    assert_eq!(Value::Object(parsed), missing.structured);
}

#[test]
fn a_word_in_many_texts_is_not_too_broad_and_the_best_ten_are_named_where_it_is() {
    let session = session();
    for number in 0..25 {
        let text = format!(
            "---\nid: t{number}\ntitle: Thing {number}\nsummary: Number {number}.\ncategory: c{number}\n---\nText.\n\n## More\n\nSprockets turn.\n"
        );
        kenning_testkit::take_in_pattern(&session.engine, "things", &format!("{number}.md"), &text);
    }
    // Every text has the word, but no title, summary, tag or category has it.
    let found = session.call("search_patterns", json!({"q": "sprockets"})).structured;
    assert_eq!(
        (&found["kind"], &found["metadata"]["totalCount"]),
        (&json!("patternSearchResults:v1"), &json!(25))
    );
    let broad = session.call("search_patterns", json!({"q": "thing"})).structured;
    assert_eq!(broad["kind"], "needsInput:v1", "{broad}");
    assert_eq!(broad["bestMatches"].as_array().map(Vec::len), Some(10), "{broad}");
    assert_eq!(broad["options"].as_array().map(Vec::len), Some(10), "{broad}");
}

#[test]
fn people_are_not_asked_for_what_a_model_mistyped() {
    let session = session();
    assert!(session.call("get_pattern", json!({"id": "retry-backof"})).ask.is_none());
    assert!(session.call("get_pattern", json!({"id": ""})).ask.is_some());
}
