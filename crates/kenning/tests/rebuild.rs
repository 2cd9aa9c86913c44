//! `kenning rebuild` in a script: what it prints, its exit codes, and that no answer changes.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kenning_engine::{Engine, INDEX_DIR};
use kenning_model::{EntityType, ScopeId};
use kenning_storage::{EntryPatch, NewEntry, Request, STORE_FILE, Write};
use kenning_testkit::TempStore;

#[test]
fn what_was_rebuilt_is_printed() {
    let store = filled();
    let output = run(store.path(), &["rebuild"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let line = printed(&output);
    let expected = "rebuilt the index up to transaction 4: 2 live entries, 4 versions, in ";
    assert!(line.starts_with(expected) && line.trim_end().ends_with(" s"), "{line}");
}

#[test]
fn a_program_reads_it_as_json() {
    let store = filled();
    let output = run(store.path(), &["rebuild", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&printed(&output)).expect("one JSON value");
    assert_eq!(report["as_of_tx_id"], 4);
    assert_eq!(report["live_entries"], 2);
    assert_eq!(report["versions"], 4);
    assert!(report["elapsed_ms"].is_u64(), "{report}");
}

#[test]
fn no_answer_changes() {
    let store = filled();
    let search =
        || printed(&run(store.path(), &["search", "deploy", "on", "fridays", "--explain", "--json"]));
    let before = search();
    assert!(before.contains("Never on Fridays"), "{before}");
    for _ in 0..2 {
        assert_eq!(run(store.path(), &["rebuild"]).status.code(), Some(0));
        assert_eq!(search(), before);
    }
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let store = TempStore::new();
    let output = run(store.path(), &["rebuild"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no store in"), "{output:?}");
    assert_eq!(fs::read_dir(store.path()).expect("readable").count(), 0);
}

#[test]
fn another_that_writes_the_index_is_waited_for() {
    let store = filled();
    let index = store.path().join(INDEX_DIR).join("entries");
    fs::create_dir_all(&index).expect("writable");
    let lock = File::create(index.join("lock")).expect("writable");
    lock.lock().expect("nobody has it");
    let mut rebuild = command(store.path(), &["rebuild"]).stdout(Stdio::piped()).spawn().expect("it runs");
    // The store is open, so the next step is the lock, which `rebuild` waits for.
    while !store.path().join(format!("{STORE_FILE}-wal")).exists() {
        assert_eq!(rebuild.try_wait().expect("it runs"), None, "it waits");
    }
    assert!(!index.join("manifest").exists());
    drop(lock);
    let output = rebuild.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(index.join("manifest").exists());
}

#[test]
fn where_the_index_can_not_be_written_the_exit_code_is_5() {
    let store = filled();
    fs::write(store.path().join(INDEX_DIR), "in the way").expect("writable");
    let output = run(store.path(), &["rebuild"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the index was not rebuilt: "), "{output:?}");
}

/// Three entries were stored, one of them changed and one deleted. Nothing was queried yet, so there is no
/// index.
fn filled() -> TempStore {
    let store = TempStore::new();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    let commit = |write| {
        let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "test".into());
        engine.commit(Request { principal, tool, write, keyed: None }).expect("a write").tx
    };
    let entry = |topic, content| NewEntry::new(ScopeId::GLOBAL_DEFAULT, topic, content);
    let many = vec![entry("deployment", "Blue-green."), entry("lunch", "At noon, in the yard.")];
    let id = commit(Write::StoreAll(many)).changes[0].id;
    let patch = EntryPatch { content: Some("Never on Fridays.".into()), ..EntryPatch::default() };
    commit(Write::Update { id, patch, expected_version: None });
    let id = commit(Write::Store(entry("mistake", "To be deleted."))).changes[0].id;
    commit(Write::Delete { entity_type: EntityType::Entry, id });
    store
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().expect("the binary runs")
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.args(arguments).arg("--data-dir").arg(dir);
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
