//! Counts how often a call waits for a remote database. It runs only if `KENNING_TEST_DATABASE` names one.

use kenning_testkit::transcript::Player;
use serde_json::{Value, json};

use crate::transcripts::InProcess;

/// The round trips of a query that finds twenty entries: the head of the store, the news in the log, and the
/// records.
const QUERY_MAX: u64 = 3;
/// After a write, the query reads the new part of the log.
const QUERY_AFTER_WRITE_MAX: u64 = 3;

#[test]
fn a_call_makes_few_round_trips() {
    if std::env::var_os("KENNING_TEST_DATABASE").is_none() {
        eprintln!(
            "not asked for: KENNING_TEST_DATABASE is not set; run scripts/with-postgres scripts/test-database"
        );
        return;
    }
    let mut player = InProcess::new();
    let mut call = |tool: &str, arguments: Value| {
        let before = player.round_trips();
        let arguments = arguments.as_object().expect("an object").clone();
        let reply = player.call("alice", tool, arguments);
        assert!(!reply.is_error, "{}", reply.text());
        (player.round_trips() - before, reply)
    };
    for number in 0..30 {
        let content = format!("Note {number} of many: the release goes out by canary, step {number}.");
        call("store", json!({"topic": format!("release {number}"), "content": content}));
    }
    let asked = json!({"content": "canary release", "limit": 20});
    let (_, warm) = call("query", asked.clone());
    assert_eq!(warm.structured["items"].as_array().map_or(0, Vec::len), 20, "{}", warm.structured);
    let (query, _) = call("query", asked.clone());
    let (store, _) =
        call("store", json!({"topic": "one more", "content": "Something else entirely, about lamps."}));
    let (after_write, _) = call("query", asked);
    eprintln!("round trips: query {query}, query after a write {after_write}, store {store}");
    assert!(query <= QUERY_MAX, "a query makes {query} round trips");
    assert!(after_write <= QUERY_AFTER_WRITE_MAX, "a query after a write makes {after_write} round trips");
}
