//! An idempotency key makes a write happen only once, even if the process that got the first request was
//! killed.

use kenning_server::client::Era;
use kenning_testkit::TempStore;
use serde_json::json;

use crate::{call, start, start_in, text};

#[test]
fn a_key_is_good_after_kill_9() {
    for era in [Era::Modern, Era::Legacy] {
        let store = TempStore::new();
        let arguments =
            json!({"topic": "deploys", "content": "Blue-green.", "tags": ["ops"], "idempotency_key": "k1"});
        let mut first = start(store.path(), era, "agent");
        let told = call(&mut first, "store", arguments.clone());
        first.kill();

        let mut second = start(store.path(), era, "agent");
        let again = call(&mut second, "store", arguments.clone());
        assert_eq!(again.to_string(), told.to_string(), "the first reply, byte for byte");

        let mut other = arguments.clone();
        other["content"] = json!("Canaries.");
        let refused = second.call("store", other).expect("the server answers");
        assert_eq!(refused["error"]["code"], "CONFLICT", "{refused}");
        assert_eq!(refused["error"]["details"]["outcome"], "not_applied", "{refused}");
        let update = json!({"id": told["id"], "content": "Canaries.", "idempotency_key": "k1"});
        let refused = second.call("update", update).expect("the server answers");
        assert_eq!(refused["error"]["code"], "CONFLICT", "another tool is another call: {refused}");
        assert_eq!(call(&mut second, "query", json!({}))["total_count"], 1, "there was one effect");

        let mut stranger = start(store.path(), era, "another agent");
        let theirs = call(&mut stranger, "store", arguments.clone());
        assert_ne!(theirs["id"], told["id"], "a key belongs to its actor");
        assert_eq!(call(&mut second, "query", json!({}))["total_count"], 2);
        assert_eq!(call(&mut second, "store", arguments).to_string(), told.to_string(), "and stays good");
    }
}

/// The same words from another scope are another call, because they would be written to that scope; similar
/// entries in the first scope must not be mentioned.
#[test]
fn a_key_is_of_the_scope_that_it_was_used_in() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "agent");
    call(&mut client, "create_namespace", json!({"name": "acme", "description": "a namespace"}));
    call(&mut client, "create_scope", json!({"scope": "acme:web", "description": "a scope"}));
    let mut from = |scope: &str| start_in(store.path(), Era::Modern, "agent", scope);
    let [mut web, mut acme] = ["acme:web", "acme:default"].map(&mut from);
    let entry = json!({"topic": "deploys", "content": "Blue-green, by the release train on Thursdays."});
    let similar = call(&mut web, "store", entry.clone());
    for (tool, mut arguments) in [
        ("store", entry.clone()),
        ("write_knowledge", json!({"content": "Thursdays.", "context": "release train"})),
        ("relate", json!({"subject": "deploys", "predicate": "are on", "object": "Thursdays"})),
    ] {
        arguments["idempotency_key"] = json!(tool);
        let told = call(&mut web, tool, arguments.clone());
        let again = call(&mut from("acme:web"), tool, arguments.clone());
        assert_eq!(again.to_string(), told.to_string(), "the first reply, byte for byte");
        let refused = acme.call(tool, arguments).expect("the server answers");
        assert_eq!(refused["error"]["code"], "CONFLICT", "{refused}");
        assert!(!refused.to_string().contains(text(&similar["id"])), "{refused}");
    }
    assert_eq!(call(&mut acme, "query", json!({}))["total_count"], 0);
}

/// Two processes get the same call at the same moment, as when a host gives up on one and starts another.
#[test]
fn a_key_that_is_used_twice_at_once_writes_once() {
    let store = TempStore::new();
    for round in 0..20 {
        let asking: Vec<_> = (0..4)
            .map(|_| {
                let mut client = start(store.path(), Era::Modern, "agent");
                let key = format!("round {round}");
                let arguments = json!({"topic": "t", "content": key, "idempotency_key": key});
                std::thread::spawn(move || call(&mut client, "store", arguments))
            })
            .collect();
        let told: Vec<_> = asking.into_iter().map(|asked| asked.join().expect("an answer")).collect();
        assert!(told.iter().all(|reply| *reply == told[0]), "all are told the same: {told:?}");
        assert_eq!(told[0]["tx_id"], round + 1, "each round is one transaction");
    }
}
