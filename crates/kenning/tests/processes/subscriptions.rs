//! What a client is told of changes, in both protocol eras, when its own process and others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, ClientError, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::{call, number, start, text};

pub const TRANSACTIONS: &str = "knowledge://history/transactions";
const ENTRIES: &str = "knowledge://entries";
const TRIPLES: &str = "knowledge://graph/triples";

/// A notice comes within a moment; a crowded machine may take longer.
pub const SOON: Duration = Duration::from_secs(10);
/// How long nothing must come to be sure that nothing does; several times what a notice takes.
const QUIET: Duration = Duration::from_millis(400);

/// Subscribes, and gives what a modern client needs to end it.
pub fn subscribe(client: &mut Client, era: Era, uris: &[&str]) -> Value {
    match era {
        Era::Legacy => {
            for uri in uris {
                client.request("resources/subscribe", json!({"uri": uri})).expect("a subscription");
            }
            Value::Null
        }
        Era::Modern => {
            let filter = json!({"notifications": {"resourceSubscriptions": uris}});
            let id = client.begin("subscriptions/listen", filter).expect("the server lives");
            let accepted = client.receive(SOON).expect("an acknowledgement");
            assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
            assert_eq!(
                accepted["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id,
                "{accepted}"
            );
            assert_eq!(
                accepted["params"]["notifications"]["resourceSubscriptions"],
                json!(uris),
                "{accepted}"
            );
            json!(id)
        }
    }
}

/// After this the client is told nothing more. What came before it is thrown away.
fn unsubscribe(client: &mut Client, era: Era, subscription: &Value, uris: &[&str]) {
    match era {
        Era::Legacy => {
            for uri in uris {
                client.request("resources/unsubscribe", json!({"uri": uri})).expect("the subscription ends");
            }
        }
        Era::Modern => {
            let cancelled = json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": subscription},
            });
            client.send_line(cancelled.to_string().as_bytes()).expect("the server lives");
            // A cancellation has no answer. That of the next request shows that it was read.
            client.request("prompts/list", json!({})).expect("the server answers");
        }
    }
    client.earlier_notices();
}

pub fn change_of(notice: &Value) -> &Value {
    assert_eq!(notice["method"], "notifications/resources/updated", "{notice}");
    let change = &notice["params"]["_meta"]["io.kenning/change"];
    assert_eq!(notice["params"]["uri"], change["resource_uri"], "{notice}");
    change
}

fn next_change(client: &mut Client) -> Value {
    change_of(&client.notice(SOON).expect("the server lives").expect("a notice")).clone()
}

fn assert_quiet(client: &mut Client) {
    let notice = client.notice(QUIET).expect("the server lives");
    assert_eq!(notice, None, "nothing more is told");
}

fn change(uri: &str, tx: u64, change_type: &str, ids: &[&Value]) -> Value {
    json!({"resource_uri": uri, "tx_id": tx, "change_type": change_type, "changed_ids": ids})
}

#[test]
fn a_notice_says_what_has_changed_whoever_wrote() {
    for era in [Era::Modern, Era::Legacy] {
        let store = TempStore::new();
        let mut watcher = start(store.path(), era, "watcher");
        let mut other = start(store.path(), Era::Modern, "other");
        let before = call(&mut other, "store", json!({"topic": "a", "content": "before"}));
        let own_entry = format!("{ENTRIES}/{}", text(&before["id"]));
        subscribe(&mut watcher, era, &[ENTRIES, TRIPLES, &own_entry]);

        // Own commits and those of others are told alike, and only to whom they concern.
        let stored = call(&mut other, "store", json!({"topic": "b", "content": "of another process"}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 2, "upsert", &[&stored["id"]]));
        call(&mut watcher, "delete", json!({"id": stored["id"]}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 3, "delete", &[&stored["id"]]));
        call(&mut other, "undo", json!({"tx_id": 3, "any_actor": true}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 4, "upsert", &[&stored["id"]]));

        // One entry has an address of its own, and is also one of the entries.
        call(&mut other, "update", json!({"id": before["id"], "content": "after"}));
        let mut told = [next_change(&mut watcher), next_change(&mut watcher)];
        told.sort_by_key(|change| text(&change["resource_uri"]).len());
        assert_eq!(told[0], change(ENTRIES, 5, "upsert", &[&before["id"]]));
        assert_eq!(told[1], change(&own_entry, 5, "upsert", &[&before["id"]]));

        let relate = |object: &str| json!({"subject": "s", "predicate": "p", "object": object, "on_conflict": "replace"});
        let old = call(&mut other, "relate", relate("old"));
        assert_eq!(next_change(&mut watcher), change(TRIPLES, 6, "upsert", &[&old["id"]]));
        let new = call(&mut other, "relate", relate("new"));
        assert_eq!(next_change(&mut watcher), change(TRIPLES, 7, "upsert", &[&new["id"]]), "upsert first");
        assert_eq!(next_change(&mut watcher), change(TRIPLES, 7, "delete", &[&old["id"]]), "then delete");
        // Writes that change nothing are no transactions, and reads tell nobody.
        call(&mut other, "relate", relate("new"));
        call(&mut other, "query", json!({}));
        assert_quiet(&mut watcher);
    }
}

#[test]
fn a_commit_of_another_process_is_told_soon() {
    for era in [Era::Modern, Era::Legacy] {
        let store = TempStore::new();
        let mut watcher = start(store.path(), era, "watcher");
        let mut other = start(store.path(), Era::Modern, "other");
        subscribe(&mut watcher, era, &[ENTRIES]);
        let mut slowest = Duration::ZERO;
        for nth in 0..20 {
            call(&mut other, "store", json!({"topic": "news", "content": format!("news {nth}")}));
            let acknowledged = Instant::now();
            next_change(&mut watcher);
            slowest = slowest.max(acknowledged.elapsed());
        }
        assert!(slowest < Duration::from_secs(2), "{era:?}: {slowest:?}");
        eprintln!(
            "subscriptions: {era:?}, slowest notice of another process after {} ms",
            slowest.as_millis()
        );
    }
}

#[test]
fn nothing_comes_after_the_end_of_a_subscription() {
    for era in [Era::Modern, Era::Legacy] {
        let store = TempStore::new();
        let mut watcher = start(store.path(), era, "watcher");
        let busy = Busy::start(&store);
        for _ in 0..30 {
            let subscription = subscribe(&mut watcher, era, &[TRANSACTIONS]);
            next_change(&mut watcher);
            unsubscribe(&mut watcher, era, &subscription, &[TRANSACTIONS]);
            let notice = watcher.notice(Duration::from_millis(50)).expect("the server lives");
            assert_eq!(notice, None, "{era:?}: a notice came after the end");
        }
        busy.stop();
        call(&mut watcher, "store", json!({"topic": "own", "content": "also own commits"}));
        assert_quiet(&mut watcher);
    }
}

/// A host that lost count subscribes again; it is told each transaction once all the same.
#[test]
fn subscribing_twice_neither_repeats_nor_skips() {
    let store = TempStore::new();
    let mut watcher = start(store.path(), Era::Legacy, "watcher");
    let busy = Busy::start(&store);
    subscribe(&mut watcher, Era::Legacy, &[TRANSACTIONS]);
    let mut last = number(&next_change(&mut watcher)["tx_id"]);
    for _ in 0..30 {
        subscribe(&mut watcher, Era::Legacy, &[TRANSACTIONS]);
        for notice in watcher.earlier_notices() {
            last += 1;
            assert_eq!(change_of(&notice)["tx_id"], last);
        }
        last += 1;
        assert_eq!(next_change(&mut watcher)["tx_id"], last);
    }
    busy.stop();
    watcher.request("resources/unsubscribe", json!({"uri": TRANSACTIONS})).expect("one end is enough");
    watcher.earlier_notices();
    call(&mut watcher, "store", json!({"topic": "own", "content": "after the end"}));
    assert_quiet(&mut watcher);
}

#[test]
fn two_subscriptions_of_a_modern_client_are_apart() {
    let store = TempStore::new();
    let mut watcher = start(store.path(), Era::Modern, "watcher");
    let entries = subscribe(&mut watcher, Era::Modern, &[ENTRIES]);
    let triples = subscribe(&mut watcher, Era::Modern, &[TRIPLES]);
    let subscription =
        |notice: &Value| notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();

    let triple = json!({"subject": "s", "predicate": "p", "object": "o"});
    call(&mut watcher, "relate", triple);
    let notice = watcher.notice(SOON).expect("the server lives").expect("a notice");
    assert_eq!(
        (subscription(&notice), &change_of(&notice)["resource_uri"]),
        (triples.clone(), &json!(TRIPLES))
    );

    unsubscribe(&mut watcher, Era::Modern, &triples, &[]);
    call(
        &mut watcher,
        "delete",
        json!({"id": change_of(&notice)["changed_ids"][0], "entity_type": "triple"}),
    );
    call(&mut watcher, "store", json!({"topic": "t", "content": "c"}));
    let notice = watcher.notice(SOON).expect("the server lives").expect("a notice");
    assert_eq!((subscription(&notice), &change_of(&notice)["resource_uri"]), (entries, &json!(ENTRIES)));
    assert_quiet(&mut watcher);
}

#[test]
fn an_address_that_nothing_is_told_of_is_left_out_or_refused() {
    const UNSUPPORTED: [&str; 4] =
        ["knowledge://entries/no-such-form", "knowledge://entries?limit=5", "file:///x", ""];
    let store = TempStore::new();
    let mut modern = start(store.path(), Era::Modern, "modern");
    let mut uris = UNSUPPORTED.to_vec();
    uris.push(ENTRIES);
    let filter = json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}});
    modern.begin("subscriptions/listen", filter).expect("the server lives");
    let accepted = modern.receive(SOON).expect("an acknowledgement");
    assert_eq!(
        accepted["params"]["notifications"],
        json!({"resourceSubscriptions": [ENTRIES]}),
        "{accepted}"
    );

    let mut legacy = start(store.path(), Era::Legacy, "legacy");
    for uri in UNSUPPORTED {
        match legacy.request("resources/subscribe", json!({"uri": uri})) {
            Err(ClientError::Refused { code, message }) => assert_eq!(code, -32602, "{uri}: {message}"),
            other => panic!("{uri}: {other:?}"),
        }
    }
}

/// Another process that writes all the time.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Busy {
    fn start(store: &TempStore) -> Busy {
        let mut client = start(store.path(), Era::Modern, "busy");
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                call(&mut client, "store", json!({"topic": "busy", "content": "once more"}));
            }
        });
        Busy { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the busy writer ends well");
    }
}
