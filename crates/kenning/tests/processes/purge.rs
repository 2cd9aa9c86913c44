//! Purged text is in no byte of the data directory afterwards, and servers that have the store open go on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::http::{HttpClient, HttpServer};
use crate::{call, start, with_store, without_settings};

/// One word to the tokenizer, and nothing that anybody else says.
const CANARY: &str = "zqcanaryxv";

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.args(arguments).arg("--data-dir").arg(dir).current_dir(dir);
    with_store(without_settings(&mut command), dir);
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().expect("the program runs")
}

#[track_caller]
fn json_of(dir: &Path, arguments: &[&str]) -> Value {
    let done = run(dir, arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// The files below a directory that have the canary, in whatever case.
fn files_with_canary(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(dir).expect("a directory") {
        let path = file.expect("a file").path();
        if path.is_dir() {
            found.extend(files_with_canary(&path));
            continue;
        }
        let bytes = fs::read(&path).expect("readable").to_ascii_lowercase();
        if bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    found
}

/// A store with the canary in everything that a store has. The ids of what has it.
fn fill(dir: &Path, client: &mut Client) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..4 {
        let content = format!("The {CANARY} of place {number} is hidden.");
        let key = format!("key {number}");
        let entry = json!({"topic": format!("{CANARY} {number}"), "content": content, "idempotency_key": key, "tags": [CANARY]});
        ids.push(call(client, "store", entry)["id"].as_str().expect("an id").to_owned());
    }
    call(
        client,
        "update",
        json!({"id": ids[0], "content": format!("Another {CANARY} now."), "idempotency_key": "u"}),
    );
    call(client, "delete", json!({"id": ids[1]}));
    let fact = call(
        client,
        "relate",
        json!({"subject": "door", "predicate": format!("opened by {CANARY}"), "object": "key"}),
    );
    ids.push(fact["id"].as_str().expect("an id").to_owned());
    call(client, "store", json!({"topic": "kept", "content": "What stays."}));
    let docs = tempfile::tempdir().expect("a directory");
    let text = format!("# Letter\n\nDear {CANARY}.\n\n## Greeting of {CANARY}\n\nYours, {CANARY}.\n");
    fs::write(docs.path().join("letter.md"), text).expect("a file");
    fs::write(docs.path().join("other.md"), "# Other\n\nNothing about it.\n").expect("a file");
    let path = docs.path().to_str().expect("a path");
    assert!(run(dir, &["ingest", path, "--source", "letters"]).status.success());
    assert!(run(dir, &["rebuild"]).status.success());
    ids
}

#[test]
fn what_is_purged_is_on_no_byte_and_servers_go_on() {
    let store = TempStore::new();
    let dir = store.path();
    let audit = dir.join("audit.jsonl");
    let http = HttpServer::start(dir, &["--audit-log", audit.to_str().expect("a path")]);
    let mut remote = HttpClient::connect(&http, Era::Modern, None);
    let mut client = start(dir, Era::Legacy, "a-program");
    let ids = fill(dir, &mut client);
    // Caches of all kinds have it too: an index, a result set with the question, a passage, a sorted set.
    let set = call(&mut client, "query", json!({"content": CANARY, "limit": 1}));
    let set = set["resource"]["uri"].as_str().expect("a set").to_owned();
    call(&mut client, "read_rows", json!({"resource": set, "sort": {"field": "topic"}}));
    remote.call("query", json!({"content": CANARY}));
    let found = call(&mut client, "kb_search", json!({"query": CANARY}));
    let passage = found["results"][0]["passage_id"].as_str().expect("a passage").to_owned();
    call(&mut client, "kb_read_excerpt", json!({"passage_id": passage}));
    let cursor = call(&mut client, "query", json!({"content": CANARY, "limit": 1}))["next_cursor"].clone();
    let before = files_with_canary(dir);
    assert!(before.iter().any(|file| file.contains("/index/")), "{before:?}");

    let documents = json_of(dir, &["purge", "--source", "letters", "--json"]);
    assert_eq!(
        documents["items"].as_array().map(Vec::len),
        Some(5),
        "two documents with three sections: {documents}"
    );
    let letter = &documents["items"].as_array().expect("a list")[0];
    assert_eq!((&letter["type"], &letter["topic"]), (&json!("document"), &json!("letter.md")));
    let mut arguments = vec!["purge"];
    arguments.extend(ids.iter().map(String::as_str));
    let id = letter["id"].as_str().expect("an id");
    arguments.extend([id, "--json"]);
    let plan = json_of(dir, &arguments);
    assert!(!plan.to_string().contains("hidden"), "nothing beyond the topic is shown: {plan}");
    assert_eq!(plan["versions"], 9);
    let token = plan["token"].as_str().expect("a token").to_owned();
    let state = || {
        (fs::read(dir.join("store.db")).expect("a store"), json_of(dir, &["call", "history", "{}", "--json"]))
    };
    let unchanged = state();
    for wrong in ["0000", documents["token"].as_str().expect("a token")] {
        let refused = run(dir, &[&arguments[..], &["--confirm", wrong]].concat());
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing was removed"), "{refused:?}");
    }
    assert_eq!(
        run(dir, &[&arguments[..], &["--confirm", &token, "--read-only"]].concat()).status.code(),
        Some(2)
    );
    assert_eq!(state().1, unchanged.1);
    call(&mut client, "update", json!({"id": ids[2], "content": format!("Also {CANARY}, later.")}));
    let stale = run(dir, &[&arguments[..], &["--confirm", &token]].concat());
    assert_eq!(stale.status.code(), Some(1), "there is more to be removed now: {stale:?}");
    let token = json_of(dir, &arguments)["token"].as_str().expect("a token").to_owned();
    let done = json_of(dir, &[&arguments[..], &["--confirm", &token]].concat());
    assert_eq!((&done["remains"], &done["versions"]), (&json!([]), &json!(10)), "{done}");
    assert_eq!(files_with_canary(dir), [""; 0]);

    // The running servers go on with what is left.
    let entries = call(&mut client, "query", json!({"content": CANARY}));
    assert_eq!(entries["total_count"], 0, "{entries}");
    assert_eq!(remote.call("query", json!({"content": CANARY}))["structuredContent"]["total_count"], 0);
    assert_eq!(call(&mut client, "query", json!({"content": "stays"}))["items"][0]["topic"], "kept");
    let sections = call(&mut client, "kb_search", json!({"query": CANARY}));
    assert!(!sections.to_string().contains("Dear"), "{sections}");
    for (tool, arguments) in [
        ("kb_read_excerpt", json!({"passage_id": passage})),
        ("read_rows", json!({"resource": set})),
        ("read_rows", json!({"resource": set, "sort": {"field": "topic"}})),
        ("query", json!({"content": CANARY, "limit": 1, "cursor": cursor})),
        ("undo", json!({"tx_id": 1, "any_actor": true})),
    ] {
        let refused = client.call(tool, arguments.clone()).expect("an answer");
        assert!(refused["error"].is_object(), "{tool} {arguments}: {refused}");
    }
    let history = call(&mut client, "history", json!({"id": ids[0]}));
    assert!(history["total_count"].as_u64() > Some(2), "{history}");
    assert!(!history.to_string().contains(CANARY), "{history}");
    let then = call(&mut client, "query", json!({"as_of_tx_id": 2, "detail": "full"}));
    assert!(then["total_count"] == 2 && !then.to_string().contains(CANARY), "{then}");
    let again = json!({"topic": "written", "content": "Written since.", "idempotency_key": "key 0"});
    let written = call(&mut client, "store", again)["tx_id"].as_u64();
    assert!(written > done["tx_id"].as_u64(), "{written:?}");
    let exported = run(dir, &["export"]);
    assert!(
        exported.status.success()
            && !String::from_utf8_lossy(&exported.stdout).to_lowercase().contains(CANARY)
    );
    assert!(run(dir, &["verify"]).status.success());
    let nothing = run(dir, &arguments);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    drop((client, http));
    // Only the questions that were asked since.
    let since = files_with_canary(dir);
    assert!(since.iter().all(|file| file.contains("rows.db")), "{since:?}");
}

/// A purge that is killed is done or not, and whoever opens the store next removes what it has left on the disk.
#[test]
fn a_killed_purge_is_done_or_not() {
    let full = TempStore::new();
    let mut client = start(full.path(), Era::Legacy, "a-program");
    let mut ids = fill(full.path(), &mut client);
    client.finish().expect("it ends");
    let documents = json_of(full.path(), &["purge", "--source", "letters", "--json"]);
    ids.push(documents["items"][0]["id"].as_str().expect("an id").to_owned());
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let plan = json_of(full.path(), &[&["purge", "--json"], &names[..]].concat());
    let token = plan["token"].as_str().expect("a token");
    let (mut done, mut not_done) = (0, 0);
    for round in 0..12 {
        let copy = TempStore::new();
        copy_all(full.path(), copy.path());
        let dir = copy.path();
        let mut purge = command(dir, &[&["purge", "--confirm", token], &names[..]].concat());
        let mut purge = purge.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(4 * round));
        let _ = purge.kill();
        let _ = purge.wait();
        let verified = run(dir, &["verify"]);
        assert!(verified.status.success(), "round {round}: {verified:?}");
        let entries = json_of(dir, &["call", "query", "{}", "--json"])["total_count"].as_u64();
        let with_canary: Vec<String> =
            files_with_canary(dir).into_iter().filter(|file| !file.contains("rows.db")).collect();
        match entries {
            Some(4) => not_done += 1,
            Some(1) => {
                assert_eq!(with_canary, [""; 0], "round {round}");
                done += 1;
            }
            other => panic!("round {round}: {other:?} entries are left"),
        }
    }
    assert_eq!(done + not_done, 12);
    eprintln!("killed purges: {done} done, {not_done} not done");
}

fn copy_all(from: &Path, to: &Path) {
    for file in fs::read_dir(from).expect("a directory") {
        let path = file.expect("a file").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir_all(&target).expect("a directory");
            copy_all(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}
