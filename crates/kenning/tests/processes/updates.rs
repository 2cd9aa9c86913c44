//! Several processes read, change and write back the same entry at once.

use std::thread;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::json;

use crate::{call, number, read, start, text};

const CLIENTS: u64 = 8;
const UPDATES: u64 = 50;

#[test]
fn no_update_is_lost() {
    let store = TempStore::new();
    let mut first = start(store.path(), Era::Modern, "first");
    let stored = call(&mut first, "store", json!({"topic": "counter", "content": "0"}));
    let uri = format!("knowledge://entries/{}", text(&stored["id"]));
    let counting: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut client = start(store.path(), Era::Modern, &format!("client {client}"));
            let uri = uri.clone();
            thread::spawn(move || (0..UPDATES).map(|_| count_up(&mut client, &uri)).sum::<u64>())
        })
        .collect();
    let conflicts: u64 = counting.into_iter().map(|thread| thread.join().expect("a count")).sum();
    let item = read(&mut first, &uri)["items"][0].take();
    assert_eq!(number(&item["version"]), 1 + CLIENTS * UPDATES, "one version for each success");
    assert_eq!(text(&item["content"]), (CLIENTS * UPDATES).to_string(), "each saw what the one before wrote");
    eprintln!("updates: {} successes, {conflicts} conflicts, no update lost", CLIENTS * UPDATES);
}

/// Adds one to the number in the entry, with as many attempts as needed. Returns how often another process
/// was faster.
fn count_up(client: &mut Client, uri: &str) -> u64 {
    let mut conflicts = 0;
    loop {
        let item = read(client, uri)["items"][0].take();
        let version = number(&item["version"]);
        let content: u64 = text(&item["content"]).parse().expect("the entry holds a number");
        let arguments =
            json!({"id": item["id"], "content": (content + 1).to_string(), "expected_version": version});
        let reply = client.call("update", arguments).expect("the server answers");
        if reply["error"].is_null() {
            assert_eq!(reply["version"], version + 1);
            return conflicts;
        }
        assert_eq!(reply["error"]["code"], "CONFLICT", "{reply}");
        assert!(number(&reply["error"]["details"]["current_version"]) > version, "{reply}");
        conflicts += 1;
    }
}
