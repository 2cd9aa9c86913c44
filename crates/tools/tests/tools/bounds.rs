//! Every reply is bounded, also with the largest entries that may be stored and as many as a page may hold,
//! in every list.

use kenning_engine::Engine;
use kenning_presentation::budget::REPLY_BYTES_MAX;
use kenning_presentation::{Block, Reply};
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const CONTENT_BYTES: usize = 32 * 1024;

fn call(engine: &Engine, tool: &str, arguments: Value) -> Reply {
    let caller = Caller::new(Some("alice"), "session".to_owned(), "global:default".to_owned());
    let arguments = arguments.as_object().expect("arguments are an object").clone();
    let reply = dispatch(engine, &caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
    let text = reply.content_bytes();
    let structured = reply.structured.to_string().len();
    assert!(
        text <= REPLY_BYTES_MAX && structured <= REPLY_BYTES_MAX,
        "{tool}: {text} and {structured} bytes"
    );
    reply
}

/// Reads all pages of a list and returns the number of items.
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
    // Plain text; characters that take two bytes in JSON or three in UTF-8; and backticks, which make fences
    // long.
    let fillings = ["word ", "\n", "\"", "\\", "語", "`"];
    for number in 0..30 {
        let filling = fillings[number % fillings.len()];
        let content = format!("entry{number}{}", filling.repeat((CONTENT_BYTES - 16) / filling.len()));
        let tags: Vec<String> = (0..32).map(|tag| format!("{tag:02}{}", "t".repeat(62))).collect();
        let stored = call(
            &engine,
            "store",
            json!({
                "topic": "\"".repeat(512), "content": content, "context": "\n\"".repeat(2047) + "x", "tags": tags,
                "source": "s".repeat(512), "task_sizes": ["XS", "S", "M", "L", "XL"],
            }),
        );
        assert!(!stored.is_error, "{}", stored.text());
        let object = "\"".repeat(1024);
        let subject = format!("{number}{}", "s".repeat(1000));
        call(&engine, "relate", json!({"subject": subject, "predicate": "p".repeat(1024), "object": object}));
    }
    assert_eq!(count(&engine, "query", &json!({"limit": 200})), 30);
    assert_eq!(count(&engine, "query", &json!({"limit": 200, "content": "entry", "explain": true})), 30);
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
fn many_contradictions_are_counted_and_few_are_named() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let relate = |object: String, on_conflict: &str| {
        let fact = json!({
            "subject": "\"".repeat(1024), "predicate": "\"".repeat(1024), "object": object, "on_conflict": on_conflict,
        });
        call(&engine, "relate", fact).structured
    };
    let object = |number: usize| format!("{number}{}", "\"".repeat(1000));
    let first = relate(object(0), "keep_both");
    (1..1100).for_each(|number| drop(relate(object(number), "keep_both")));
    let again = relate(object(0), "keep_both");
    assert_eq!((&again["id"], &again["written"]), (&first["id"], &json!(false)), "it is found among 1,100");
    let named = again["conflicts"].as_array().expect("a list").len() as u64;
    assert_eq!(named + again["conflicts_left_out"].as_u64().expect("more than are named"), 1099);
    let refused = relate("another".to_owned(), "reject");
    assert!(refused["error"]["message"].as_str().expect("a message").contains("1100 triples"), "{refused}");
    relate(object(0), "replace");
    assert_eq!(call(&engine, "query_graph", json!({"limit": 1})).structured["total_count"], 1);
    count(&engine, "history", &json!({"limit": 1, "since_tx_id": 1099}));
}

#[test]
fn an_error_is_short_and_shows_no_hidden_characters() {
    let store = TempStore::new();
    let engine = store.engine();
    let long = format!("\u{1b}[31m{}", "x".repeat(200_000));
    for (tool, arguments) in [
        ("query", json!({"limit": long})),
        ("query", json!({long.clone(): 1})),
        ("query", json!({"scope": long})),
        ("history", json!({"entity_type": long})),
        ("delete", json!({"id": long})),
        ("store", json!({"topic": "t", "content": "c", "task_sizes": vec!["XL"; 30_000]})),
        ("store", json!({"topic": "\u{200b}", "content": "c"})),
    ] {
        let reply = call(&engine, tool, arguments);
        assert!(reply.is_error && reply.text().len() < 1000, "{tool}: {}", reply.text());
        assert!(!reply.text().contains('\u{1b}'));
    }
}

#[test]
fn the_address_of_a_query_reads_the_same_listing() {
    let store = TempStore::new();
    let engine = store.engine();
    let address = |arguments: Value| {
        let reply = call(&engine, "query", arguments);
        reply.blocks.into_iter().find_map(|block| match block {
            Block::Resource { uri, .. } => Some(uri),
            _ => None,
        })
    };
    let checks = [
        (json!({}), "knowledge://entries"),
        (json!({"topic": "deployment"}), "knowledge://entries?topic=deployment"),
        (json!({"content": "a b", "tags": ["x,y", "z"]}), "knowledge://entries?content=a%20b&tags=x%2Cy,z"),
        (
            json!({"as_of_tx_id": 0, "include_suppressed": true}),
            "knowledge://entries?as_of_tx_id=0&include_suppressed=true",
        ),
        (json!({"content": "x".repeat(2000)}), "knowledge://entries"),
    ];
    for (arguments, expected) in checks {
        assert_eq!(address(arguments).as_deref(), Some(expected));
    }
}

#[test]
fn a_duplicate_is_found_however_long_ago_it_was_stored() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let fact = json!({"topic": "lunch", "content": "The canteen on floor two serves soup at noon."});
    let first = call(&engine, "store", fact.clone()).structured;
    for number in 0..600 {
        call(
            &engine,
            "store",
            json!({"topic": format!("topic {number}"), "content": format!("Fact {number} of many.")}),
        );
    }
    // The same in a process that has just started.
    for engine in [&engine, &Engine::new(store.path().to_owned(), Engine::real_sources())] {
        let similar = call(engine, "store", fact.clone()).structured["similar"].clone();
        assert!(
            similar.as_array().expect("a list").iter().any(|entry| entry["id"] == first["id"]),
            "{similar}"
        );
        call(engine, "undo", json!({"count": 1}));
    }
}

#[test]
fn two_processes_give_the_same_bytes() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let words =
        ["deploy", "release", "rollback", "banana", "apple", "token", "session", "friday", "cache", "index"];
    for number in 0..60 {
        let content: Vec<&str> = (0..9).map(|at| words[(number * 7 + at * at * 3) % words.len()]).collect();
        call(&engine, "store", json!({"topic": words[number % 10], "content": content.join(" ")}));
    }
    for question in ["deploy release token friday cache", "banana apple rollback index session"] {
        let ask = |engine: &Engine| {
            call(engine, "query", json!({"content": question, "explain": true, "limit": 50}))
        };
        let first = ask(&engine);
        for _ in 0..3 {
            assert_eq!(ask(&store.engine()).structured["items"], first.structured["items"]);
        }
    }
}

#[test]
fn what_does_not_show_hides_no_word() {
    let store = TempStore::new();
    let engine = store.engine();
    call(&engine, "store", json!({"topic": "pass\u{200b}word", "content": "Kept in the vault."}));
    call(&engine, "store", json!({"topic": "IT", "content": "The department on floor three."}));
    call(&engine, "relate", json!({"subject": "a\u{200b}pi", "predicate": "uses", "object": "vault"}));
    let total =
        |tool: &str, arguments: Value| call(&engine, tool, arguments).structured["total_count"].clone();
    assert_eq!(total("query", json!({"topic": "password"})), 1);
    assert_eq!(total("query", json!({"topic": "it"})), 1);
    assert_eq!(total("query_graph", json!({"subject": "api"})), 1);
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

#[test]
fn a_context_keeps_to_its_tokens_and_names_what_it_leaves_out() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    call(&engine, "create_namespace", json!({"name": "acme", "description": "ACME"}));
    let fillings = ["rule ", "\n", "\"", "語", "`"];
    for number in 0..60usize {
        let scope = ["acme:default", "global:default"][number % 2];
        let content = format!("Deploy rule {number}: {}", fillings[number % 5].repeat(number * 4));
        call(
            &engine,
            "write_knowledge",
            json!({"content": content, "context": "deploy rules", "scope": scope}),
        );
    }
    for tokens in [100, 101, 150, 250, 399, 400, 1_000, 4_000, 16_000u64] {
        let asked = json!({"queries": ["deploy rule"], "scope": "acme:default", "max_tokens": tokens});
        let reply = call(&engine, "get_task_context", asked);
        let bytes = [reply.structured.to_string().len(), reply.text().len()];
        assert!(bytes.iter().all(|bytes| *bytes as u64 <= 4 * tokens), "{tokens} tokens: {bytes:?} bytes");
        let shown: usize = scopes(&reply)
            .iter()
            .filter(|(key, _)| key.contains(':'))
            .filter_map(|(_, it)| it.as_object())
            .map(serde_json::Map::len)
            .sum();
        let about = &reply.meta["io.kenning/context"];
        let left_out = reply.structured["left_out"].as_object().map_or(0, serde_json::Map::len);
        assert!(shown + left_out > 0, "{tokens} tokens: something is shown or named");
        assert_eq!(left_out > 0, tokens <= 400, "{tokens} tokens: what does not fit is named");
        assert_eq!(about["provenance"].as_object().map(serde_json::Map::len), Some(shown));
        if tokens <= 1_000 {
            let nearest = scopes(&reply).keys().find(|key| key.contains(':')).map(String::as_str);
            assert!(
                nearest.is_none_or(|scope| scope == "acme:default"),
                "{tokens} tokens: the nearer comes first"
            );
        }
    }
}

fn scopes(reply: &Reply) -> &serde_json::Map<String, Value> {
    reply.structured.as_object().expect("a reply by scope")
}

#[test]
fn hundreds_of_scopes_fit_into_a_reply_or_are_counted() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    const SCOPES: usize = 360;
    let description = "\"".repeat(512);
    call(&engine, "create_namespace", json!({"name": "acme", "description": description}));
    let name = |number: usize| format!("acme:scope-{number:04}-{}", "x".repeat(50));
    for number in 0..SCOPES {
        let parents: Vec<String> =
            (number.saturating_sub(8)..number).map(name).filter(|_| number % 100 < 9).collect();
        let made = call(
            &engine,
            "create_scope",
            json!({"scope": name(number), "description": description, "parents": parents}),
        );
        assert!(!made.is_error, "{}", made.text());
    }
    for style in ["short", "long", "details"] {
        let reply = call(&engine, "get_namespaces", json!({"style": style}));
        let shown = reply.structured["namespaces"]["acme"]["scopes"]
            .as_object()
            .map_or(SCOPES + 1, serde_json::Map::len);
        let left_out = reply.meta["io.kenning/context"]["left_out"]["count"].as_u64().unwrap_or(0) as usize;
        assert_eq!(shown + left_out, SCOPES + 1, "{style}");
        assert!(shown > 200, "{style}: {shown}");
    }
    let renamed = call(&engine, "update_namespace", json!({"name": "acme", "new_name": "acme-corp"}));
    assert_eq!(renamed.structured["scopes_left_out"], SCOPES + 1 - 50);
}
