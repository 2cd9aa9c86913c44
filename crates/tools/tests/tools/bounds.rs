//! Every reply is bounded: the largest entries that may be stored, as many as a page may hold, in every list.

use kenning_engine::Engine;
use kenning_presentation::budget::REPLY_BYTES_MAX;
use kenning_presentation::{Block, Reply};
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const CONTENT_BYTES: usize = 32 * 1024;

fn call(engine: &Engine, tool: &str, arguments: Value) -> Reply {
    let caller = Caller {
        actor: "alice".to_owned(),
        origin: "session".to_owned(),
        scope: "global:default".to_owned(),
    };
    let arguments = arguments.as_object().expect("arguments are an object").clone();
    let reply = dispatch(engine, &caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
    let text: usize = reply
        .blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.len(),
            Block::Resource { uri, json } => uri.len() + json.len(),
        })
        .sum();
    let structured = reply.structured.to_string().len();
    assert!(
        text <= REPLY_BYTES_MAX && structured <= REPLY_BYTES_MAX,
        "{tool}: {text} and {structured} bytes"
    );
    reply
}

/// Pages through a list and gives how many items there were.
fn count(engine: &Engine, tool: &str, arguments: &Value) -> u64 {
    let mut arguments = arguments.clone();
    let mut items = 0;
    loop {
        let reply = call(engine, tool, arguments.clone()).structured;
        let page = reply["items"].as_array().unwrap_or_else(|| panic!("{tool}: {reply}")).len() as u64;
        assert!(page > 0, "{tool}: a page has at least one item");
        items += page;
        match reply["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => {
                assert_eq!(reply["total_count"], items, "{tool}: every item was paged to");
                return items;
            }
        }
    }
}

#[test]
fn the_largest_entries_fit_and_every_one_is_paged_to() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    // Plain text, and what takes twice its bytes in JSON, and what takes three in UTF-8.
    let fillings = ["word ", "\n", "\"", "\\", "語"];
    for number in 0..30 {
        let filling = fillings[number % fillings.len()];
        let content = format!("entry{number}{}", filling.repeat((CONTENT_BYTES - 16) / filling.len()));
        let tags: Vec<String> = (0..32).map(|tag| format!("{tag:02}{}", "t".repeat(62))).collect();
        let stored = call(
            &engine,
            "store",
            json!({
                "topic": "\"".repeat(512), "content": content, "context": "\n\"".repeat(2047) + "x", "tags": tags,
                "source": "s".repeat(512),
            }),
        );
        assert!(!stored.is_error, "{}", stored.text());
        let object = "\"".repeat(1024);
        let subject = format!("{number}{}", "s".repeat(1000));
        call(&engine, "relate", json!({"subject": subject, "predicate": "p".repeat(1024), "object": object}));
    }
    assert_eq!(count(&engine, "query", &json!({"limit": 200})), 30);
    assert_eq!(
        count(&engine, "query", &json!({"limit": 200, "content": "word entry3", "explain": true})),
        30
    );
    assert_eq!(count(&engine, "query_graph", &json!({"limit": 200})), 30);
    assert_eq!(count(&engine, "history", &json!({"limit": 100})), 60);
    let plan = call(&engine, "undo", json!({"count": 50, "dry_run": true}));
    assert_eq!(plan.structured["changed_ids"].as_array().expect("ids").len(), 50);
    assert!(!call(&engine, "undo", json!({"count": 50})).is_error);
    assert_eq!(count(&engine, "history", &json!({"limit": 100})), 61);
}

#[test]
fn two_hundred_small_entries_are_all_in_the_text() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    for number in 0..200 {
        call(
            &engine,
            "store",
            json!({"topic": format!("topic {number}"), "content": format!("Fact {number}.")}),
        );
    }
    let reply = call(&engine, "query", json!({"limit": 200}));
    let text = reply.text();
    let items = reply.structured["items"].as_array().expect("items").clone();
    for item in &items {
        let (id, topic) = (item["id"].as_str().expect("an id"), item["topic"].as_str().expect("a topic"));
        assert!(text.contains(&format!("{id} v1 {topic}")), "{id} is not in the text");
    }
    assert_eq!(count(&engine, "query", &json!({"limit": 200})), 200);
}

#[test]
fn arguments_above_their_caps_are_refused_by_name() {
    let store = TempStore::new();
    let engine = store.engine();
    let text = |bytes: usize| "x".repeat(bytes);
    let caps = [
        ("topic", json!(text(512)), json!(text(513))),
        ("content", json!(text(32 * 1024)), json!(text(32 * 1024 + 1))),
        ("context", json!(text(4096)), json!(text(4097))),
        ("tags", json!(vec!["t"; 32]), json!(vec!["t"; 33])),
        ("tags", json!([text(64)]), json!([text(65)])),
    ];
    for (name, at_cap, above) in caps {
        let mut arguments = json!({"topic": "t", "content": "c"});
        arguments[name] = at_cap;
        assert!(!call(&engine, "store", arguments.clone()).is_error, "{name} at its cap");
        arguments[name] = above;
        let refused = call(&engine, "store", arguments).structured;
        let message = refused["error"]["message"].as_str().expect("a message");
        assert_eq!(refused["error"]["code"], "INVALID_ARGUMENT");
        assert!(message.contains(name) && message.contains("cap"), "{message}");
    }
    for name in ["subject", "predicate", "object"] {
        let mut arguments = json!({"subject": "s", "predicate": "p", "object": "o"});
        arguments[name] = json!(text(1024));
        assert!(!call(&engine, "relate", arguments.clone()).is_error, "{name} at its cap");
        arguments[name] = json!(text(1025));
        assert!(call(&engine, "relate", arguments).is_error, "{name} above its cap");
    }
}
