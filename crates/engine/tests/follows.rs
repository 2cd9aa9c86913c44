//! An entry is found by some words of the entry that it follows, but by no word from a scope that is out of
//! its sight.

use kenning_engine::{By, Engine, Question};
use kenning_model::{Id, ScopeId};
use kenning_storage::{EntryPatch, Follows, NewEntry, Request, Write};
use kenning_testkit::{TempStore, make_scopes};

const HERE: ScopeId = ScopeId(2);
const ELSEWHERE: ScopeId = ScopeId(3);

fn commit(engine: &Engine, write: Write) -> Id {
    let (principal, tool) = (kenning_model::Principal::owner("test", "test").into(), "store".into());
    let done = engine.commit(Request { principal, tool, write, keyed: None }).expect("a write");
    done.tx.changes[0].id
}

/// The entries that a search for one word finds.
fn found(engine: &Engine, scope: ScopeId, word: &str) -> Vec<Id> {
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let sight = snapshot.sight_of(vec![scope]);
    let question = Question {
        sight: &sight,
        topic: None,
        content: Some(word),
        tags: &[],
        visible_at: None,
        by: By::Words,
        known_words_only: false,
        explain: false,
    };
    let found = snapshot.search(&question, 0..10).expect("an answer");
    found.hits.iter().map(|hit| hit.stored.id).collect()
}

#[test]
fn an_entry_that_went_elsewhere_lends_no_words() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    make_scopes(&engine, 3);
    let first = commit(&engine, Write::Store(NewEntry::new(HERE, "question", "Where is the harbour?")));
    let answer =
        NewEntry { follows: Some(Follows::Entry(first)), ..NewEntry::new(HERE, "answer", "Downhill.") };
    let answer = commit(&engine, Write::Store(answer));
    assert!(found(&engine, HERE, "harbour").contains(&answer), "it has the words of the one before");
    let scope = Some(ELSEWHERE);
    let patch = EntryPatch { scope, content: Some("The zeppelin lands.".into()), ..EntryPatch::default() };
    commit(&engine, Write::Update { id: first, patch, expected_version: None });
    let patch = EntryPatch { tags: Some(vec!["changed".into()]), ..EntryPatch::default() };
    commit(&engine, Write::Update { id: answer, patch, expected_version: None });
    assert_eq!(found(&engine, ELSEWHERE, "zeppelin"), [first]);
    assert_eq!(found(&engine, HERE, "zeppelin"), [], "the word is in another scope");
}
