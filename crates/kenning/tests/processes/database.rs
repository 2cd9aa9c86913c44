//! `--database`: commands and servers on one store of a database. Each has a data directory of its own, as if
//! it ran on another machine.

use std::path::Path;
use std::process::{Command, Output};

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::{call, number, server, text, with_store, without_settings};

fn kenning(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    without_settings(&mut command).args(arguments).output().expect("kenning runs")
}

fn is_asked_for() -> bool {
    let is_asked_for = std::env::var_os("KENNING_TEST_DATABASE").is_some();
    if !is_asked_for {
        eprintln!(
            "not asked for: KENNING_TEST_DATABASE is not set; run scripts/with-postgres scripts/test-database"
        );
    }
    is_asked_for
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_password_of_a_database_is_never_printed() {
    const URL: &str = "postgres://me:s3cret@127.0.0.1:1/team";
    let store = TempStore::new();
    let dir = store.path().to_str().expect("UTF-8");
    for arguments in [
        &["--help"][..],
        &["history"],
        &["verify"],
        &["backup", "file"],
        &["restore", "file"],
        &["history", "--store", "No Name"],
        &["migrate", "--from", dir, "--to", URL],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        without_settings(&mut command).env("KENNING_DATABASE", URL).env("KENNING_LOG", "debug");
        let output = command.arg("--data-dir").arg(dir).args(arguments).output().expect("kenning runs");
        assert!(!said(&output).contains("s3cret"), "{arguments:?}: {}", said(&output));
        assert_eq!(output.status.success(), arguments == ["--help"], "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_wrong_database_is_a_wrong_argument() {
    for (arguments, what) in [
        (&["history", "--store", "web"][..], "name the database"),
        (&["history", "--database", "mysql://me@host/x"], "postgres://user@host/database"),
        (&["history", "--database", "postgres://me@host/x?sslmode=never"], "there is no sslmode"),
        (&["backup", "f", "--database", "postgres://me@host/x"], "pg_dump"),
    ] {
        let output = kenning(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(what), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn servers_on_one_database_are_one_memory() {
    if !is_asked_for() {
        return;
    }
    let store = TempStore::new();
    let machines = [TempStore::new(), TempStore::new(), TempStore::new()];
    let start = |machine: &Path| {
        let mut command = server(machine);
        with_store(&mut command, store.path());
        Client::start(command, Era::Modern, "team").expect("the server starts")
    };
    let mut clients: Vec<Client> = machines.iter().map(|machine| start(machine.path())).collect();
    for round in 0..9 {
        let topic = format!("release {round}");
        let content = format!("The release number {round} goes out by canary.");
        let stored = call(&mut clients[round % 3], "store", json!({"topic": topic, "content": content}));
        assert_eq!(number(&stored["tx_id"]), round as u64 + 1, "{stored}");
        for client in &mut clients {
            let found = call(client, "query", json!({"content": content, "limit": 1}));
            assert_eq!(found["items"][0]["topic"], json!(topic), "{found}");
        }
    }
    // An idempotency key is valid on every server of the store.
    let keyed = json!({"topic": "once", "content": "Written once.", "idempotency_key": "the same"});
    let replies: Vec<Value> = clients.iter_mut().map(|client| call(client, "store", keyed.clone())).collect();
    assert_eq!(text(&replies[0]["id"]), text(&replies[1]["id"]));
    assert_eq!(text(&replies[0]["id"]), text(&replies[2]["id"]));
    // A cursor from one server can be continued on another.
    let page = call(&mut clients[0], "history", json!({"limit": 4}));
    let next = call(&mut clients[1], "history", json!({"limit": 4, "cursor": page["next_cursor"]}));
    assert_eq!(number(&next["items"][0]["tx_id"]), 6, "{next}");
    clients.into_iter().for_each(|client| drop(client.finish()));
    let mut verify = Command::new(env!("CARGO_BIN_EXE_kenning"));
    let verify = without_settings(&mut verify).arg("--data-dir").arg(machines[0].path()).arg("verify");
    let verified = with_store(verify, store.path()).output().expect("kenning runs");
    assert!(
        said(&verified).contains("10 transactions") && said(&verified).contains("all sound"),
        "{}",
        said(&verified)
    );
}

#[test]
fn a_store_moves_into_a_database_and_back() {
    if !is_asked_for() {
        return;
    }
    let [from, back, name] = [TempStore::new(), TempStore::new(), TempStore::new()];
    let url = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
    let store = kenning_testkit::test_database(name.path()).expect("a database");
    let url = format!("{url}?kenning_store={}", store.store());
    let [from, back] = [&from, &back].map(|store| store.path().to_str().expect("UTF-8"));
    let local = |arguments: &[&str]| kenning(&[&["--data-dir", from], arguments].concat());
    local(&["call", "create_namespace", r#"{"name": "acme", "description": "A company"}"#]);
    for number in 0..5 {
        let entry = json!({
            "topic": format!("topic {number}"), "content": "as it was", "scope": "acme:default",
            "idempotency_key": format!("key {number}"),
        });
        let stored = local(&["call", "store", &entry.to_string()]);
        assert!(stored.status.success(), "{}", said(&stored));
    }
    let undone = local(&["call", "undo", r#"{"tx_id": 4, "any_actor": true}"#]);
    assert!(undone.status.success(), "{}", said(&undone));
    let into = kenning(&["migrate", "--from", from, "--to", &url, "--json"]);
    assert!(into.status.success(), "{}", said(&into));
    let report: Value = serde_json::from_slice(&into.stdout).expect("JSON");
    assert_eq!((number(&report["copied"]), number(&report["idempotency_keys"])), (7, 5), "{report}");
    // A second run copies only what was written since the first.
    local(&["call", "store", r#"{"topic": "later", "content": "after the first run"}"#]);
    let again = kenning(&["migrate", "--from", from, "--to", &url, "--json"]);
    let report: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!((number(&report["copied"]), number(&report["already_there"])), (1, 7), "{report}");
    let returned = kenning(&["migrate", "--from", &url, "--to", back]);
    assert!(said(&returned).contains("all sound"), "{}", said(&returned));
    let history = |arguments: &[&str]| said(&kenning(&[arguments, &["history", "--all", "--json"]].concat()));
    let original = history(&["--data-dir", from]);
    assert_eq!(history(&["--data-dir", back]), original);
    assert_eq!(history(&["--data-dir", back, "--database", &url]), original);
    // A store with another log is refused as the target.
    kenning(&["--data-dir", back, "call", "store", r#"{"topic": "elsewhere", "content": "on its own"}"#]);
    local(&["call", "store", r#"{"topic": "here", "content": "on its own too"}"#]);
    let mixed = kenning(&["migrate", "--from", from, "--to", back]);
    assert_eq!(mixed.status.code(), Some(2), "{}", said(&mixed));
    assert!(said(&mixed).contains("not the beginning"), "{}", said(&mixed));
}
