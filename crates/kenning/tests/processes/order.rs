//! Calls that a client sends together take effect in the order in which it sent them.

use std::collections::HashMap;
use std::time::Duration;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::{call, number, start, text};

const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How many pairs of each kind are tested; `KENNING_ORDER_PAIRS=1000` asks for more.
fn pairs() -> u64 {
    let asked = std::env::var("KENNING_ORDER_PAIRS").ok().and_then(|many| many.parse().ok());
    asked.unwrap_or(100)
}

/// Sends calls together, and returns their structured replies in the order of the calls.
fn together(client: &mut Client, calls: Vec<(&str, Value)>) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut ids = Vec::new();
    for (tool, arguments) in calls {
        let (id, message) = client.message("tools/call", json!({"name": tool, "arguments": arguments}));
        lines.push(message.to_string());
        ids.push(id);
    }
    client.send_line(lines.join("\n").as_bytes()).expect("the server lives");
    let mut replies = HashMap::new();
    while replies.len() < ids.len() {
        let mut message = client.receive(ANSWER_MAX).expect("the server answers");
        if let Some(id) = message["id"].as_u64() {
            assert!(message["error"].is_null(), "{message}");
            replies.insert(id, message["result"]["structuredContent"].take());
        }
    }
    ids.into_iter().map(|id| replies.remove(&id).expect("each has a reply")).collect()
}

#[test]
fn an_undo_takes_back_the_write_that_was_sent_before_it() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "order");
    for pair in 0..pairs() {
        let fact = json!({"topic": "order", "content": format!("Fact {pair}.")});
        let [stored, undone] = two(together(&mut client, vec![("store", fact), ("undo", json!({}))]));
        assert_eq!(undone["undone"], json!([stored["tx_id"]]), "pair {pair}: {undone}");
    }
}

#[test]
fn the_later_of_two_updates_stays() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Legacy, "order");
    let stored = call(&mut client, "store", json!({"topic": "order", "content": "First."}));
    for pair in 0..pairs() {
        let content = |which: &str| format!("{which} of pair {pair}.");
        let update = |which: &str| ("update", json!({"id": stored["id"], "content": content(which)}));
        let [first, second] = two(together(&mut client, vec![update("First"), update("Second")]));
        assert_eq!(number(&second["version"]), number(&first["version"]) + 1, "pair {pair}");
        let found = call(&mut client, "query", json!({"limit": 1}));
        assert_eq!(text(&found["items"][0]["content"]), content("Second"));
    }
}

#[test]
fn a_scope_is_made_in_the_namespace_that_was_sent_before_it() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "order");
    for pair in 0..pairs() {
        let (name, scope) = (format!("acme-{pair}"), format!("acme-{pair}:web"));
        let replies = together(
            &mut client,
            vec![
                ("create_namespace", json!({"name": name, "description": "A namespace."})),
                ("create_scope", json!({"scope": scope, "description": "A scope."})),
                ("store", json!({"scope": scope, "topic": "order", "content": "In the new scope."})),
            ],
        );
        assert!(replies.iter().all(|reply| reply["error"].is_null()), "pair {pair}: {replies:?}");
        assert_eq!(replies[2]["scope"], json!(scope));
    }
}

#[test]
fn a_query_sees_what_was_sent_before_it_and_nothing_that_was_sent_after_it() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "order");
    for pair in 0..pairs() {
        let (before, after) = (format!("before{pair}"), format!("after{pair}"));
        let fact = |word: &str| ("store", json!({"topic": "order", "content": format!("Says {word}.")}));
        let query = |word: &str| ("query", json!({"content": word, "limit": 1}));
        let replies = together(
            &mut client,
            vec![query(&before), fact(&before), query(&before), query(&after), fact(&after)],
        );
        let says = |reply: &Value, word: &str| {
            reply["items"][0]["content"].as_str().is_some_and(|content| content.contains(word))
        };
        assert!(!says(&replies[0], &before), "pair {pair}: {}", replies[0]);
        assert!(says(&replies[2], &before), "pair {pair}: {}", replies[2]);
        assert!(!says(&replies[3], &after), "pair {pair}: {}", replies[3]);
    }
}

#[test]
fn a_subscription_tells_of_the_write_that_was_sent_after_it() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Legacy, "order");
    for pair in 0..pairs().min(100) {
        let uri = json!({"uri": "knowledge://entries"});
        let (_, subscribe) = client.message("resources/subscribe", uri.clone());
        let fact = json!({"topic": "order", "content": format!("Fact {pair}.")});
        let (id, store) = client.message("tools/call", json!({"name": "store", "arguments": fact}));
        client.send_line(format!("{subscribe}\n{store}").as_bytes()).expect("the server lives");
        let (mut stored, mut told) = (Value::Null, Vec::new());
        while stored.is_null() || !told.contains(&stored["tx_id"]) {
            let message = client.receive(ANSWER_MAX).expect("the server answers");
            if message["id"] == json!(id) {
                stored = message["result"]["structuredContent"].clone();
            } else if message["method"] == "notifications/resources/updated" {
                told.push(message["params"]["_meta"]["io.kenning/change"]["tx_id"].clone());
            }
        }
        client.request("resources/unsubscribe", uri).expect("it ends");
    }
}

fn two(replies: Vec<Value>) -> [Value; 2] {
    replies.try_into().expect("two replies")
}
