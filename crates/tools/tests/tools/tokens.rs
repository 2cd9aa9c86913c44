//! The cost of lists for a model, in each channel, on a store in the state in which agents leave it: texts of
//! all lengths, corrections, deletions, an undo.

use std::sync::Arc;

use kenning_engine::Engine;
use kenning_presentation::{Content, Reply};
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, ResultSets, SetStore, dispatch, find};
use serde_json::{Value, json};

/// The entries of the store, some with a later correction.
const ENTRIES: [(&str, &str, Option<&str>); 16] = [
    ("deploys", "We deploy blue-green and never on Fridays.", None),
    (
        "money",
        "Amounts are integers in cents with a currency code, never floats.",
        Some(
            "Amounts are integers in the smallest unit of the currency, with its ISO 4217 code, never floats.",
        ),
    ),
    (
        "refund endpoint",
        "Refunds go through POST /v2/refunds with an idempotency key; the old /refund endpoint is closed since March.",
        None,
    ),
    (
        "buttons",
        "A button that moves money asks for confirmation and is disabled after the first click.",
        None,
    ),
    (
        "api errors",
        "User-facing errors say what happened and what to do next. Codes go to the log, together with the request id; a stack trace never leaves the server. Clients may retry what has `retryable: true` and nothing else.",
        Some(
            "User-facing errors say what happened and what to do next. Codes go to the log, together with the trace id; a stack trace never leaves the server. Clients may retry what has `retryable: true` and nothing else.",
        ),
    ),
    ("tests", "Every endpoint has a contract test; the web has a Playwright test per flow.", None),
    (
        "postgres upgrade",
        "Upgrading PostgreSQL takes three steps.\n1. Stop the writers with `ops drain web`.\n2. Run `pg_upgrade --link` and start the new server on the same port.\n3. Analyse all tables before the writers come back: the planner has no statistics after an upgrade and chose sequential scans for eleven minutes last time.",
        Some(
            "Upgrading PostgreSQL takes four steps.\n1. Stop the writers with `ops drain web`.\n2. Take a base backup.\n3. Run `pg_upgrade --link` and start the new server on the same port.\n4. Analyse all tables before the writers come back: the planner has no statistics after an upgrade and chose sequential scans for eleven minutes last time.",
        ),
    ),
    (
        "naming",
        "Branches are `team/ticket-words`, services are nouns, topics of the message bus are `domain.event.v1`.",
        None,
    ),
    (
        "alerts",
        "The pager rings for symptoms (error rate, latency at the edge, a queue that grows for ten minutes) and for nothing else; causes are on the dashboard.",
        None,
    ),
    (
        "secrets",
        "Secrets come from the vault at start-up and are never written to disk, to the log, or into an environment file of the repository.",
        None,
    ),
    (
        "feature flags",
        "A flag has an owner and an end date; the linter fails a build with a flag that is past its date.",
        Some(
            "A flag has an owner and an end date at most 90 days away; the linter fails a build with a flag that is past its date.",
        ),
    ),
    (
        "search index",
        "The product index is rebuilt at night from the catalogue and follows changes through the outbox during the day. A reader tolerates an index that is up to two minutes behind; whoever needs the price of this moment asks the pricing service. Rebuilding takes forty minutes and needs twice the disk while it runs, so the volume alarm is silenced from two to three.",
        None,
    ),
    ("time", "Times are stored in UTC and shown in the shop's zone.", None),
    (
        "code review",
        "Two people read what touches money; one reads the rest. Reviews are done within a working day, and small changes are preferred to complete ones.",
        None,
    ),
    (
        "cache",
        "The edge caches product pages for sixty seconds by path and currency.",
        Some("The edge caches product pages for sixty seconds, by path, currency and customer group."),
    ),
    ("logging", "Log lines are JSON with level, message, trace id and tenant.", None),
];

const FACTS: [(&str, &str, &str); 12] = [
    ("checkout", "depends on", "payments"),
    ("checkout", "depends on", "pricing"),
    ("payments", "depends on", "ledger"),
    ("ledger", "depends on", "postgres-main"),
    ("pricing", "depends on", "postgres-main"),
    ("search", "reads", "product-outbox"),
    ("Mara Lindqvist", "owns", "payments"),
    ("Jonas Weber", "owns", "search"),
    ("payments", "runs on", "cluster eu-west"),
    ("catalogue import", "writes", "product-outbox"),
    ("storefront", "calls", "checkout"),
    ("ledger", "has runbook", "runbooks/ledger-rebuild.md"),
];

struct Shop {
    engine: Arc<Engine>,
    caller: Caller,
    _store: TempStore,
}

impl Shop {
    /// The session of a host that gets text and structured content, with everything in the store.
    fn open() -> Shop {
        let store = TempStore::in_memory();
        let engine = Arc::new(store.engine());
        let sets = Arc::new(ResultSets::new(SetStore::new(engine.clone(), None), None));
        let caller = Caller::new(Some("claude-code"), "a session".to_owned(), "acme:web".to_owned());
        let caller = Caller { content: Content::Text, sets: Some(sets), ..caller };
        let shop = Shop { engine, caller, _store: store };
        shop.fill();
        shop
    }

    fn call(&self, tool: &str, arguments: Value) -> Reply {
        let shown = arguments.to_string();
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let reply =
            dispatch(&self.engine, &self.caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
        assert!(!reply.is_error, "{tool} {shown}: {}", reply.text());
        reply
    }

    fn fill(&self) {
        self.call("create_namespace", json!({"name": "acme", "description": "ACME Corporation"}));
        self.call("create_scope", json!({"scope": "acme:web", "description": "The web shop"}));
        let mut ids = Vec::new();
        for (number, (topic, content, _)) in ENTRIES.iter().enumerate() {
            let mut entry = json!({"topic": topic, "content": content});
            if number % 3 == 0 {
                entry["tags"] = json!(["rule", "backend"]);
            }
            if number % 4 == 1 {
                entry["scope"] = json!("acme:default");
            }
            let stored = self.call("store", entry).structured;
            ids.push(stored["id"].as_str().expect("an id").to_owned());
        }
        for (id, (_, _, corrected)) in ids.iter().zip(ENTRIES) {
            if let Some(content) = corrected {
                self.call("update", json!({"id": id, "content": content}));
            }
        }
        for (subject, predicate, object) in FACTS {
            self.call("relate", json!({"subject": subject, "predicate": predicate, "object": object}));
        }
        self.call("delete", json!({"id": ids[12]}));
        self.call("delete", json!({"id": ids[7]}));
        self.call("undo", json!({}));
        self.call("update", json!({"id": ids[3], "tags": ["rule", "web"], "confidence": 0.9}));
    }
}

/// The number of bytes in a reply that are stored text: topics, contents, names.
fn stored_bytes(value: &Value, is_stored: bool) -> usize {
    const STORED: [&str; 12] = [
        "topic",
        "content",
        "excerpt",
        "tags",
        "subject",
        "predicate",
        "object",
        "fact",
        "name",
        "description",
        "parents",
        "contradictions",
    ];
    match value {
        Value::String(text) if is_stored => text.len(),
        Value::Array(values) => values.iter().map(|value| stored_bytes(value, is_stored)).sum(),
        Value::Object(fields) => {
            // The entries of a task context are grouped under the name of their scope, which has a colon.
            let is_text = |name: &str| STORED.contains(&name) || name.contains(':');
            fields.iter().map(|(name, value)| stored_bytes(value, is_stored || is_text(name))).sum()
        }
        _ => 0,
    }
}

fn items(reply: &Value) -> usize {
    match reply["items"].as_array() {
        Some(items) => items.len(),
        None => {
            let scopes = reply.as_object().expect("an object").iter().filter(|(name, _)| name.contains(':'));
            scopes.map(|(_, entries)| entries.as_object().map_or(0, |entries| entries.len())).sum()
        }
    }
}

/// The calls whose replies are bounded.
fn bounded() -> Vec<(&'static str, Value)> {
    vec![
        ("query", json!({"content": "which rules hold for money and errors"})),
        ("query", json!({"limit": 3})),
        ("query", json!({"limit": 50})),
        ("query", json!({"topic": "postgres"})),
        ("query_graph", json!({})),
        ("query_graph", json!({"limit": 5})),
        ("query_graph", json!({"subject": "payments"})),
        ("query_graph", json!({"object": "postgres-main", "predicate": "depends on", "max_hops": 4})),
        ("history", json!({"limit": 100})),
        ("history", json!({})),
        ("history", json!({"entity_type": "entry", "limit": 100})),
        ("history", json!({"entity_type": "triple"})),
        ("get_task_context", json!({"queries": ["refund button", "amounts of money", "errors of the api"]})),
        ("get_task_context", json!({"queries": ["upgrade the database"], "task_size": "S"})),
    ]
}

#[test]
fn a_list_costs_little_more_than_the_text_in_it() {
    let shop = Shop::open();
    for (tool, arguments) in bounded() {
        let reply = shop.call(tool, arguments.clone());
        let stored = stored_bytes(&reply.structured, false) as f64 / 4.0;
        // The clock of the tests has whole seconds; a real time has four more bytes, which are one token per
        // entry.
        let each = if tool == "query" { 19.0 } else { 20.0 };
        let bound = 1.6 * stored + each * items(&reply.structured) as f64 + 60.0;
        let sizes = [reply.text().len(), reply.structured.to_string().len()];
        let [text, structured] = sizes.map(|bytes| bytes / 4);
        eprintln!(
            "{tool} {arguments}: stored {stored:.0}, text {text}, structured {structured}, at most {bound:.0}"
        );
        for (channel, bytes) in ["text", "structured"].into_iter().zip(sizes) {
            let tokens = bytes as f64 / 4.0;
            assert!(
                tokens <= bound,
                "{tool} {arguments}: {tokens} tokens of {channel}, at most {bound}:\n{}",
                match channel {
                    "text" => reply.text(),
                    _ => reply.structured.to_string(),
                }
            );
        }
    }
}

#[test]
fn everything_is_there_for_who_asks_for_it() {
    let shop = Shop::open();
    let item = |tool: &str, arguments| shop.call(tool, arguments).structured["items"][0].clone();
    let whole = item("history", json!({"limit": 1, "detail": "full"}));
    let after = &whole["changes"][0]["after"];
    assert_eq!(
        (&after["version"], &after["status"], &after["topic"]),
        (&json!(2), &json!("active"), &json!("buttons"))
    );
    let lean = item("history", json!({"limit": 1}));
    assert_eq!(lean["changes"][0]["before"], json!({"tags": ["rule", "backend"]}));
    assert_eq!(lean["changes"][0]["after"], json!({"tags": ["rule", "web"], "confidence": 0.9}));
    let whole = item("query_graph", json!({"limit": 1, "detail": "full"}));
    assert_eq!((&whole["actor"], &whole["version"]), (&json!("claude-code"), &json!(1)));
    let lean = item("query_graph", json!({"limit": 1}));
    let fields: Vec<&String> = lean.as_object().expect("an item").keys().collect();
    assert_eq!(fields, ["id", "subject", "predicate", "object"]);
    // A result set has every field, whatever the reply with its link shows.
    for tool in ["query", "query_graph", "history"] {
        let reply = shop.call(tool, json!({"limit": 1})).structured;
        let rows = shop.call("read_rows", json!({"resource": reply["resource"]["uri"]})).structured;
        let row = &rows["data"][0];
        assert!(row["actor"].is_string() && row["tx_id"].is_number(), "{tool}: {rows}");
    }
}

#[test]
fn that_no_scope_is_configured_is_said_with_the_first_write_alone() {
    let shop = Shop::open();
    let caller = Caller::new(Some("claude-code"), "another".to_owned(), "global:default".to_owned());
    let caller = Caller { has_scope: false, ..caller };
    let store = |arguments: Value| {
        let arguments = arguments.as_object().expect("an object").clone();
        dispatch(&shop.engine, &caller.clone(), Access::ReadWrite, find("store").expect("a tool"), arguments)
    };
    let failed = store(
        json!({"topic": "door", "content": "Code 1234.", "valid_from": "2026-02-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}),
    );
    assert!(failed.is_error, "{}", failed.text());
    let notes = ["one", "two", "three"].map(|topic| store(json!({"topic": topic, "content": "Some text."})));
    let has_note = |reply: &Reply| {
        (reply.structured["note"].is_string(), reply.text().contains("No scope is configured"))
    };
    assert_eq!(notes.each_ref().map(has_note), [(true, true), (false, false), (false, false)]);
}
