//! Unwanted writes are found by their author and taken back in one transaction, which can itself be undone.

use std::path::Path;
use std::process::{Command, Output};

use kenning_testkit::TempStore;
use serde_json::{Value, json};

fn kenning(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.args(arguments).arg("--data-dir").arg(dir).current_dir(dir);
    for name in ["DATA_DIR", "SCOPE", "ACTOR", "READ_ONLY"] {
        command.env_remove(format!("KENNING_{name}"));
    }
    command.output().expect("the program runs")
}

fn good(dir: &Path, arguments: &[&str]) -> Value {
    let done = kenning(dir, arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

fn call(dir: &Path, actor: &str, tool: &str, arguments: Value) -> Value {
    good(dir, &["--actor", actor, "call", tool, &arguments.to_string(), "--json"])
}

fn topics(dir: &Path) -> Vec<String> {
    let found = call(dir, "reader", "query", json!({}));
    let mut topics: Vec<String> =
        found["items"].as_array().expect("a list").iter().map(|item| item["topic"].to_string()).collect();
    topics.sort();
    topics
}

#[test]
fn everything_of_an_author_goes_and_comes_back() {
    let store = TempStore::new();
    let dir = store.path();
    let entry = |topic: &str| json!({"topic": topic, "content": format!("What is to be known of {topic}.")});
    let kept = call(dir, "alice", "store", entry("kept"));
    for topic in ["first", "second", "third"] {
        call(dir, "mallory", "store", entry(topic));
    }
    call(dir, "mallory", "relate", json!({"subject": "a", "predicate": "is", "object": "b"}));
    let all = topics(dir);

    let planned = good(dir, &["undo", "--by", "mallory", "--since", "1h", "--dry-run", "--json"]);
    assert_eq!((&planned["undone"], &planned["tx_id"]), (&json!([5, 4, 3, 2]), &Value::Null));
    assert_eq!(topics(dir), all, "a dry run writes nothing");
    let nothing = kenning(dir, &["undo", "--by", "mallory", "--since", "2999-01-01T00:00:00Z"]);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    assert_eq!(kenning(dir, &["quarantine", "nobody"]).status.code(), Some(3));
    assert_eq!(kenning(dir, &["undo", "--by", "mallory", "--since", "soon"]).status.code(), Some(2));

    let hidden = good(dir, &["quarantine", "mallory", "--json"]);
    assert_eq!(hidden["changed_ids"].as_array().map(Vec::len), Some(3), "{hidden}");
    assert_eq!(topics(dir), ["\"kept\""]);
    assert_eq!(kenning(dir, &["undo", &hidden["tx_id"].to_string()]).status.code(), Some(0));
    assert_eq!(topics(dir), all);

    let undone = good(dir, &["undo", "--by", "mallory", "--json"]);
    assert_eq!(undone["undone"], json!([5, 4, 3, 2]));
    assert_eq!(topics(dir), ["\"kept\""]);
    let facts = call(dir, "reader", "query_graph", json!({}));
    assert_eq!(facts["total_count"], 0);
    assert_eq!(kenning(dir, &["undo", &undone["tx_id"].to_string()]).status.code(), Some(0));
    assert_eq!(topics(dir), all);

    // An undo does not take back what others have built on it.
    let id = kept["id"].as_str().expect("an id");
    call(dir, "mallory", "update", json!({"id": id, "content": "Turned round."}));
    call(dir, "alice", "update", json!({"id": id, "content": "Set right again."}));
    let refused = kenning(dir, &["undo", "--by", "mallory"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("kenning quarantine"), "{refused:?}");
    let hidden = good(dir, &["quarantine", "mallory", "--json"]);
    assert_eq!(hidden["changed_ids"].as_array().map(Vec::len), Some(3), "what alice set right stays");
}

/// A store with an entry that is purged and one that stays, and copies from before.
struct Purged {
    store: TempStore,
    copies: TempStore,
    id: String,
}

const SECRET: &str = "hunter-2-secret";

impl Purged {
    fn new() -> Purged {
        let (store, copies) = (TempStore::new(), TempStore::new());
        let dir = store.path();
        let secret = json!({"topic": "secret", "content": format!("It is {SECRET}.")});
        let id = call(dir, "alice", "store", secret)["id"].as_str().expect("an id").to_owned();
        call(dir, "alice", "store", json!({"topic": "kept", "content": "Stays."}));
        let purged = Purged { store, copies, id };
        for arguments in [["backup", "-"], ["export", "-o"]] {
            let path = purged.copy(if arguments[0] == "backup" { "backup" } else { "log.jsonl" });
            let all: Vec<&str> = arguments.iter().filter(|argument| **argument != "-").copied().collect();
            let done = kenning(purged.dir(), &[&all[..], &[&path]].concat());
            assert!(done.status.success(), "{done:?}");
        }
        purged
    }

    fn dir(&self) -> &Path {
        self.store.path()
    }

    fn copy(&self, name: &str) -> String {
        self.copies.path().join(name).display().to_string()
    }

    fn purge(&self) {
        let plan = good(self.dir(), &["purge", &self.id, "--json"]);
        let token = plan["token"].as_str().expect("a token");
        good(self.dir(), &["purge", &self.id, "--confirm", token, "--json"]);
    }

    fn has_secret(&self, dir: &Path) -> bool {
        let exported = kenning(dir, &["export"]);
        assert!(exported.status.success(), "{exported:?}");
        String::from_utf8_lossy(&exported.stdout).contains(SECRET)
    }
}

#[test]
fn a_copy_from_before_a_purge_does_not_bring_it_back_unnoticed() {
    let purged = Purged::new();
    let dir = purged.dir();
    assert!(purged.has_secret(dir));
    purged.purge();
    assert!(!purged.has_secret(dir));
    assert_eq!(topics(dir), ["\"kept\""]);
    let noted = std::fs::read_to_string(dir.join("purged.jsonl")).expect("a note");
    assert!(
        noted.contains(&purged.id) && !noted.contains(SECRET) && !noted.contains("\"secret\""),
        "{noted}"
    );

    let backup = purged.copy("backup");
    let refused = kenning(dir, &["restore", &backup, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(said.contains(&purged.id) && said.contains("--purge-again"), "{said}");
    assert!(!purged.has_secret(dir), "nothing was restored");
    good(dir, &["restore", &backup, "--yes", "--purge-again", "--json"]);
    assert_eq!(topics(dir), ["\"kept\""]);
    assert!(!purged.has_secret(dir));
    let bytes = std::fs::read(dir.join("store.db")).expect("a store");
    assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    assert!(kenning(dir, &["verify"]).status.success());

    // An export into a store that is not empty, and into one that is.
    let log = purged.copy("log.jsonl");
    assert_eq!(kenning(dir, &["import", &log]).status.code(), Some(2));
    let report = good(dir, &["import", &log, "--purge-again", "--json"]);
    assert_eq!((&report["entries"], &report["unchanged"]), (&json!(0), &json!(1)), "{report}");
    let empty = TempStore::new();
    std::fs::copy(dir.join("purged.jsonl"), empty.path().join("purged.jsonl")).expect("copied");
    assert_eq!(kenning(empty.path(), &["import", &log]).status.code(), Some(2));
    assert!(!empty.path().join("store.db").exists());
    good(empty.path(), &["import", &log, "--purge-again", "--json"]);
    assert!(!purged.has_secret(empty.path()));
    assert_eq!(topics(empty.path()), ["\"kept\""]);

    good(dir, &["restore", &backup, "--yes", "--with-purged", "--json"]);
    assert_eq!(topics(dir), ["\"kept\"", "\"secret\""], "it was asked for");
    // Text that is written to the same id after the purge is not affected.
    purged.purge();
    let after = purged.copy("after");
    assert!(kenning(dir, &["backup", &after]).status.success());
    good(dir, &["restore", &after, "--yes", "--json"]);
}

#[test]
fn a_folder_follows_a_purge() {
    let purged = Purged::new();
    let dir = purged.dir();
    let folder = purged.copy("folder");
    let mirror = || good(dir, &["mirror", &folder, "--json"]);
    assert_eq!(mirror()["written"], 2);
    purged.purge();
    let report = mirror();
    assert_eq!(
        (&report["removed"], &report["created"], &report["conflicts"]),
        (&json!(1), &json!(0), &json!(0)),
        "{report}"
    );
    assert_eq!(topics(dir), ["\"kept\""]);
    assert!(!purged.has_secret(dir));
}

#[test]
fn a_purge_names_what_it_would_remove_and_how() {
    let purged = Purged::new();
    let dir = purged.dir();
    let shown = kenning(dir, &["purge", "--by", "alice", "--since", "1h"]);
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && said.contains("2 entries: 2 versions of 2 transactions"), "{said}");
    assert!(said.contains(&purged.id) && said.contains("secret") && !said.contains(SECRET), "{said}");
    let command = said.lines().last().expect("a line").trim();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert_eq!(words[..3], ["purge", "--by", "alice"], "{command}");
    let done = kenning(dir, &words);
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).starts_with("Removed for good: 2 entries"), "{done:?}");
    assert_eq!(topics(dir), [""; 0]);
    for (arguments, code) in [
        (&["purge"][..], 2),
        (&["purge", "K7H9M2PQX8"], 3),
        (&["purge", "nonsense"], 3),
        (&["purge", "--by", "nobody"], 3),
        (&["purge", &purged.id], 3),
        (&["purge", &purged.id, "--source", "x"], 2),
    ] {
        assert_eq!(kenning(dir, arguments).status.code(), Some(code), "{arguments:?}");
    }
}
