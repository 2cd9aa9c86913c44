//! The change notifications that a client gets, in both protocol eras, when its own process and others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, ClientError, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::{call, number, start, start_in, text};

pub const TRANSACTIONS: &str = "knowledge://history/transactions";
const ENTRIES: &str = "knowledge://entries";
const TRIPLES: &str = "knowledge://graph/triples";

/// A notification comes within a moment; a busy machine may take longer.
pub const SOON: Duration = Duration::from_secs(10);
/// How long no notification must come to conclude that none is sent; several times what one takes.
const QUIET: Duration = Duration::from_millis(400);

/// Subscribes, and returns what a modern client needs to end the subscription.
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

/// Ends a subscription: after this call the client gets no more notifications. Earlier ones are discarded.
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
            // A cancellation has no answer. The answer to the next request shows that the cancellation was
            // read.
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

        // Own commits and those of others are notified in the same way, and only to subscribers of the
        // changed resource.
        let stored = call(&mut other, "store", json!({"topic": "b", "content": "of another process"}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 2, "upsert", &[&stored["id"]]));
        call(&mut watcher, "delete", json!({"id": stored["id"]}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 3, "delete", &[&stored["id"]]));
        call(&mut other, "undo", json!({"tx_id": 3, "any_actor": true}));
        assert_eq!(next_change(&mut watcher), change(ENTRIES, 4, "upsert", &[&stored["id"]]));

        // A change of an entry is notified for the entry's own URI and for the list of entries.
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
        // A write that changes nothing is no transaction, and a read sends no notification.
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

/// A host may subscribe again by mistake; it still gets each transaction once.
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
    let filter = json!({"notifications": {"resourceSubscriptions": uris, "promptsListChanged": true}});
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

#[test]
fn a_client_can_not_be_subscribed_without_end() {
    let store = TempStore::new();
    let mut legacy = start(store.path(), Era::Legacy, "legacy");
    let uri = |number: usize| json!({"uri": format!("knowledge://entries/K7H9M2P{:03}", number).replace(['0', '1'], "Z")});
    let mut taken = std::collections::BTreeSet::new();
    let refused = (222..1000).find_map(|number| {
        let asked = uri(number);
        let done = legacy.request("resources/subscribe", asked.clone());
        taken.insert(asked.to_string());
        done.err().map(|refused| (number, refused))
    });
    let (_, refused) = refused.expect("there is a limit");
    assert!(
        matches!(&refused, ClientError::Refused { code: -32602, message } if message.contains("100")),
        "{refused:?}"
    );
    assert_eq!(taken.len(), 101);
    legacy.request("resources/unsubscribe", uri(222)).expect("it ends");
    legacy.request("resources/subscribe", uri(999)).expect("there is room again");
}

/// `acme:web` sees itself, `acme:platform`, `acme:default` and `global:default`; not `acme:mobile`, and nothing of `beta`.
const SEEN: [&str; 4] = ["acme:web", "acme:platform", "acme:default", "global:default"];
const UNSEEN: [&str; 2] = ["acme:mobile", "beta:default"];

/// A watching server that was started for `acme:web`, and another one that writes.
struct Watched {
    watcher: Client,
    other: Client,
    _store: TempStore,
}

impl Watched {
    fn start(era: Era) -> Watched {
        let store = TempStore::new();
        let mut other = start(store.path(), Era::Modern, "other");
        for name in ["acme", "beta"] {
            call(&mut other, "create_namespace", json!({"name": name, "description": "a namespace"}));
        }
        for (name, parents) in
            [("platform", json!([])), ("web", json!(["acme:platform"])), ("mobile", json!(["acme:platform"]))]
        {
            let scope = format!("acme:{name}");
            call(
                &mut other,
                "create_scope",
                json!({"scope": scope, "description": "a scope", "parents": parents}),
            );
        }
        let mut watcher = start_in(store.path(), era, "watcher", "acme:web");
        subscribe(&mut watcher, era, &[ENTRIES, TRIPLES]);
        Watched { watcher, other, _store: store }
    }

    fn write(&mut self, tool: &str, arguments: Value) -> Value {
        call(&mut self.other, tool, arguments)
    }

    fn store(&mut self, scope: &str) -> Value {
        self.write("store", json!({"topic": "t", "content": format!("in {scope}"), "scope": scope}))
    }

    fn relate(&mut self, scope: &str) -> Value {
        self.write("relate", json!({"subject": "s", "predicate": "p", "object": scope, "scope": scope}))
    }

    /// The next notifications, those of entries before those of triples. For older clients these are two
    /// subscriptions, whose order is not defined.
    fn told(&mut self, many: usize) -> Vec<Value> {
        let mut told: Vec<Value> = (0..many).map(|_| next_change(&mut self.watcher)).collect();
        told.sort_by_key(|change| text(&change["resource_uri"]).len());
        told
    }

    /// Expects one notification for each resource, saying that everything may have changed. A second one
    /// would be noticed by the next check.
    fn assert_all_may_have_changed(&mut self, written: &Value) {
        let everything = |uri: &str| {
            let mut change = change(uri, number(&written["tx_id"]), "upsert", &[]);
            change["truncated"] = json!(true);
            change
        };
        assert_eq!(self.told(2), [ENTRIES, TRIPLES].map(everything));
    }

    fn assert_told_of_entry(&mut self, change_type: &str, written: &Value, id: &Value) {
        let tx = number(&written["tx_id"]);
        assert_eq!(next_change(&mut self.watcher), change(ENTRIES, tx, change_type, &[id]));
    }
}

#[test]
fn a_server_is_told_of_what_its_scope_sees() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        for scope in UNSEEN {
            let stored = watched.store(scope);
            watched.write("update", json!({"id": stored["id"], "content": "changed"}));
            watched.write("delete", json!({"id": stored["id"]}));
            watched.relate(scope);
        }
        watched.write("create_namespace", json!({"name": "gamma", "description": "a namespace"}));
        watched.write("update_scope", json!({"scope": "acme:web", "description": "in other words"}));
        watched.write("delete_scope", json!({"scope": "acme:mobile"}));
        watched.write("delete_namespace", json!({"name": "gamma"}));
        assert_quiet(&mut watched.watcher);
        for scope in SEEN {
            let stored = watched.store(scope);
            watched.assert_told_of_entry("upsert", &stored, &stored["id"]);
            let deleted = watched.write("delete", json!({"id": stored["id"]}));
            watched.assert_told_of_entry("delete", &deleted, &stored["id"]);
            let related = watched.relate(scope);
            let told = next_change(&mut watched.watcher);
            assert_eq!(told, change(TRIPLES, number(&related["tx_id"]), "upsert", &[&related["id"]]));
        }
        assert_quiet(&mut watched.watcher);
    }
}

#[test]
fn another_name_or_another_parent_may_concern_everything() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        watched.store("acme:platform");
        watched.told(1);
        for (tool, arguments) in [
            ("update_namespace", json!({"name": "acme", "new_name": "ajax"})),
            ("update_scope", json!({"scope": "ajax:platform", "new_scope": "ajax:base"})),
            ("update_scope", json!({"scope": "ajax:web", "new_scope": "ajax:site"})),
            ("update_scope", json!({"scope": "ajax:site", "parents": []})),
            ("update_scope", json!({"scope": "ajax:site", "parents": ["ajax:mobile"]})),
            // A scope inherits from the parents of its parents too.
            ("update_scope", json!({"scope": "ajax:mobile", "parents": []})),
            // Clients also keep names of scopes that are not in sight.
            ("update_namespace", json!({"name": "beta", "new_name": "gamma"})),
        ] {
            let written = watched.write(tool, arguments);
            watched.assert_all_may_have_changed(&written);
            let undone = watched.write("undo", json!({"tx_id": written["tx_id"]}));
            watched.assert_all_may_have_changed(&undone);
            let again = watched.write("undo", json!({"tx_id": undone["tx_id"]}));
            watched.assert_all_may_have_changed(&again);
        }
        // The scope is followed to its new name.
        let stored = watched.store("ajax:site");
        watched.assert_told_of_entry("upsert", &stored, &stored["id"]);
        let stored = watched.store("ajax:mobile");
        watched.assert_told_of_entry("upsert", &stored, &stored["id"]);
        watched.store("ajax:base");
        assert_quiet(&mut watched.watcher);
    }
}

/// Reads go by the name of the scope, so notifications do too.
#[test]
fn a_scope_that_takes_the_name_is_the_one_that_is_watched() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        let deleted = watched.write("delete_scope", json!({"scope": "acme:web"}));
        assert_eq!(number(&deleted["knowledge_deleted"]), 0);
        watched.store("global:default");
        assert_quiet(&mut watched.watcher);
        let created = watched.write("create_scope", json!({"scope": "acme:web", "description": "the next"}));
        watched.assert_all_may_have_changed(&created);
        let stored = watched.store("acme:web");
        watched.assert_told_of_entry("upsert", &stored, &stored["id"]);
    }
}

#[test]
fn what_goes_with_its_namespace_is_told_by_its_ids() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        let [entries, triples]: [Vec<Value>; 2] = {
            let seen =
                SEEN.map(|scope| [watched.store(scope), watched.relate(scope)].map(|it| it["id"].clone()));
            // The last scope is not in the namespace.
            let of_namespace = &seen[..3];
            [0, 1].map(|at| of_namespace.iter().map(|ids| ids[at].clone()).collect())
        };
        watched.told(2 * SEEN.len());
        for scope in UNSEEN {
            watched.store(scope);
            watched.relate(scope);
        }
        let deleted = watched.write("delete_namespace", json!({"name": "acme"}));
        let told = |uri: &str, written: &Value, change_type: &str, ids: &[Value]| {
            let mut ids: Vec<&Value> = ids.iter().collect();
            ids.sort_by_key(|id| text(id));
            change(uri, number(&written["tx_id"]), change_type, &ids)
        };
        let sorted = |mut change: Value| {
            change["changed_ids"].as_array_mut().expect("ids").sort_by_key(|id| text(id).to_owned());
            change
        };
        let changes: Vec<Value> = watched.told(2).into_iter().map(sorted).collect();
        assert_eq!(
            changes,
            [told(ENTRIES, &deleted, "delete", &entries), told(TRIPLES, &deleted, "delete", &triples)]
        );
        assert_quiet(&mut watched.watcher);

        // The content that the scope inherits from elsewhere is in sight again too, and is not listed one by
        // one.
        let undone = watched.write("undo", json!({"tx_id": deleted["tx_id"]}));
        let changes: Vec<Value> = watched.told(2).into_iter().map(sorted).collect();
        let mut expected =
            [told(ENTRIES, &undone, "upsert", &entries), told(TRIPLES, &undone, "upsert", &triples)];
        expected.iter_mut().for_each(|change| change["truncated"] = json!(true));
        assert_eq!(changes, expected);
        assert_quiet(&mut watched.watcher);
    }
}

#[test]
fn what_goes_with_a_parent_is_told_by_its_ids() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        let stored = watched.store("acme:platform");
        watched.told(1);
        let deleted = watched.write("delete_scope", json!({"scope": "acme:platform"}));
        let tx = number(&deleted["tx_id"]);
        let told = watched.told(3);
        let mut all = [ENTRIES, TRIPLES].map(|uri| change(uri, tx, "upsert", &[]));
        all.iter_mut().for_each(|change| change["truncated"] = json!(true));
        let [all_entries, all_triples] = all;
        assert_eq!(told, [all_entries, change(ENTRIES, tx, "delete", &[&stored["id"]]), all_triples]);
        assert_quiet(&mut watched.watcher);
    }
}

#[test]
fn suppressing_and_restoring_is_an_upsert() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        let [one, other] = ["acme:web", "acme:platform"].map(|scope| watched.store(scope)["id"].clone());
        watched.told(2);
        let resolve =
            |active: &Value, suppressed: &Value| json!({"active_id": active, "suppressed_ids": [suppressed]});
        let suppressed = watched.write("resolve_knowledge_collision", resolve(&one, &other));
        watched.assert_told_of_entry("upsert", &suppressed, &other);
        let undone = watched.write("undo", json!({"tx_id": suppressed["tx_id"]}));
        watched.assert_told_of_entry("upsert", &undone, &other);
        let again = watched.write("undo", json!({"tx_id": undone["tx_id"]}));
        watched.assert_told_of_entry("upsert", &again, &other);
        let turned = watched.write("resolve_knowledge_collision", resolve(&other, &one));
        let both = change(ENTRIES, number(&turned["tx_id"]), "upsert", &[&other, &one]);
        assert_eq!(next_change(&mut watched.watcher), both);
        let active = json!({"active_id": one, "suppressed_ids": []});
        let restored = watched.write("resolve_knowledge_collision", active);
        watched.assert_told_of_entry("upsert", &restored, &one);
        assert_quiet(&mut watched.watcher);
    }
}

#[test]
fn moving_out_of_sight_is_a_delete_and_into_sight_an_upsert() {
    for era in [Era::Modern, Era::Legacy] {
        let mut watched = Watched::start(era);
        let id = watched.store("acme:mobile")["id"].clone();
        for (tool, scope, change_type) in [
            ("update_knowledge", "acme:web", "upsert"),
            ("update", "acme:platform", "upsert"),
            ("update_knowledge", "beta:default", "delete"),
            ("update", "global:default", "upsert"),
            ("update", "acme:mobile", "delete"),
        ] {
            let moved = watched.write(tool, json!({"id": id, "scope": scope}));
            watched.assert_told_of_entry(change_type, &moved, &id);
        }
        watched.write("update_knowledge", json!({"id": id, "scope": "beta:default"}));
        assert_quiet(&mut watched.watcher);
    }
}

/// Another process that writes continuously.
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
