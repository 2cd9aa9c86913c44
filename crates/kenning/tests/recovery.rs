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
