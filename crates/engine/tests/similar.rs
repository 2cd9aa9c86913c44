//! An entry that a new one nearly repeats is found wherever it is stored: in memory, in a segment of this
//! process or of another.

use kenning_engine::{Engine, Similar};
use kenning_model::{Id, ScopeId};
use kenning_storage::{EntryPatch, NewEntry, Request, Write};
use kenning_testkit::{TempStore, make_scopes};

const SCOPES: [ScopeId; 1] = [ScopeId::GLOBAL_DEFAULT];

fn commit(engine: &Engine, write: Write) -> Vec<Id> {
    let (principal, tool) = (kenning_model::Principal::owner("test", "test").into(), "store".into());
    let done = engine.commit(Request { principal, tool, write, keyed: None }).expect("a write");
    done.tx.changes.iter().map(|change| change.id).collect()
}

/// Different numbers give entries with little in common.
fn entry(number: usize) -> NewEntry {
    let word = |at: usize| format!("w{}", kenning_testkit::scrambled((number * 31 + at) as u64) % 5000);
    let content: Vec<String> = (0..12).map(word).collect();
    NewEntry::new(ScopeId::GLOBAL_DEFAULT, format!("topic {number}"), content.join(" "))
}

fn similar(engine: &Engine, new: &NewEntry) -> Vec<Id> {
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let sight = snapshot.sight_of(SCOPES.to_vec());
    let asked = Similar { sight: &sight, topic: &new.topic, content: &new.content, except: &[] };
    engine.similar(&snapshot, &asked).expect("an answer")
}

#[test]
fn wherever_it_lies() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let mut ids = Vec::new();
    for batch in 0..30 {
        ids.extend(commit(&engine, Write::StoreAll((batch * 100..batch * 100 + 100).map(entry).collect())));
    }
    engine.rebuild().expect("it can be built");
    // Some entries are changed or deleted after the segments were written, some are new.
    commit(&engine, Write::Delete { entity_type: kenning_model::EntityType::Entry, id: ids[7] });
    let patch = EntryPatch { content: Some("something else entirely".into()), ..EntryPatch::default() };
    commit(&engine, Write::Update { id: ids[8], patch, expected_version: None });
    ids.extend(commit(&engine, Write::StoreAll((3000..3010).map(entry).collect())));
    let check = |engine: &Engine| {
        for number in [0, 1, 6, 7, 8, 9, 1234, 2999, 3000, 3009] {
            let mut again = entry(number);
            again.content.push_str(" more");
            let expected: Vec<Id> = if [7, 8].contains(&number) { Vec::new() } else { vec![ids[number]] };
            assert_eq!(similar(engine, &again), expected, "{number}");
        }
        assert_eq!(similar(engine, &entry(100_000)), Vec::new());
    };
    check(&engine);
    check(&store.engine());
    // The same without an index.
    std::fs::remove_dir_all(store.path().join(kenning_engine::INDEX_DIR)).expect("it is there");
    check(&store.engine());
}

#[test]
fn what_is_out_of_sight_hides_nothing_that_is_in_sight() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    make_scopes(&engine, 2);
    let seen = commit(&engine, Write::Store(entry(1)))[0];
    let unseen = |_| NewEntry { scope: ScopeId(2), ..entry(1) };
    commit(&engine, Write::StoreAll((0..40).map(unseen).collect()));
    assert_eq!(similar(&engine, &entry(1)), [seen]);
    engine.rebuild().expect("it can be built");
    assert_eq!(similar(&store.engine(), &entry(1)), [seen]);
}
