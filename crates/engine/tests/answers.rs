//! An answer depends on nothing that is out of sight, and takes no longer than the caller allows.

use std::time::Instant;

use kenning_engine::{By, Engine, EntryHit, Error, Question};
use kenning_model::ScopeId;
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::{TempStore, make_scopes};

const HERE: ScopeId = ScopeId(2);
const ELSEWHERE: ScopeId = ScopeId(3);

fn store(engine: &Engine, scope: ScopeId, topic: &str, content: &str) {
    let (principal, tool) = (kenning_model::Principal::owner("test", "test").into(), "store".into());
    let write = Write::Store(NewEntry::new(scope, topic, content));
    engine.commit(Request { principal, tool, write, keyed: None }).expect("a write");
}

fn search(engine: &Engine, by: By, words: &str) -> Result<(Vec<EntryHit>, u64), Error> {
    let snapshot = engine.snapshot(&kenning_testkit::owner())?;
    let sight = snapshot.sight_of(vec![HERE]);
    let question = Question {
        sight: &sight,
        topic: None,
        content: Some(words),
        tags: &[],
        visible_at: None,
        by,
        known_words_only: false,
        explain: true,
    };
    let found = snapshot.search(&question, 0..50)?;
    Ok((found.hits, found.total))
}

/// The number of matches, and their topics, exact scores and reasons as text.
fn answer(engine: &Engine, by: By, words: &str) -> String {
    let (hits, total) = search(engine, by, words).expect("an answer");
    let shown: Vec<String> = hits
        .iter()
        .map(|hit| {
            let topic = &hit.stored.record.as_entry().expect("an entry").topic;
            format!("{topic}: {:?}", hit.explanation)
        })
        .collect();
    format!("{total} {shown:#?}")
}

#[test]
fn words_of_other_scopes_change_no_answer() {
    let guessed = ["merger", "merger with initech", "mergr", "harbour merger", "initech harbour lights"];
    let answers = |secrets: &[&str]| -> Vec<String> {
        let store_of_both = TempStore::in_memory();
        let engine = store_of_both.engine();
        make_scopes(&engine, 3);
        for number in 0..40 {
            store(&engine, HERE, &format!("harbour {number}"), "The lights of the harbour are green.");
            for secret in secrets {
                store(&engine, ELSEWHERE, &format!("plan {number}"), secret);
            }
        }
        store(&engine, HERE, "note", "A merger of two branches.");
        let ask = |words: &&str| {
            [By::Words, By::Meaning, By::WordsAndMeaning].map(|by| answer(&engine, by, words)).join("\n")
        };
        guessed.iter().map(ask).collect()
    };
    let without = answers(&[]);
    let with =
        answers(&["The merger with Initech is signed.", "Merger merger mergers initech harbour lights."]);
    for ((words, without), with) in guessed.iter().zip(&without).zip(&with) {
        assert_eq!(without, with, "{words}");
    }
    assert!(!without[0].starts_with("0 "), "the question finds something to compare");
}

#[test]
fn a_search_ends_at_its_deadline() {
    let temporary = TempStore::in_memory();
    let engine = temporary.engine();
    make_scopes(&engine, 2);
    store(&engine, HERE, "harbour", "The lights of the harbour are green.");
    let late = engine.until(Instant::now());
    for by in [By::Words, By::Meaning, By::WordsAndMeaning] {
        assert!(matches!(search(&late, by, "harbour"), Err(Error::OutOfTime)), "{by:?}");
    }
    let in_time = engine.until(Instant::now() + std::time::Duration::from_secs(60));
    assert_eq!(search(&in_time, By::Words, "harbour").expect("an answer").1, 1);
}

/// If `before744` is stored, `before74` is another name and not a misspelling. A name that is not stored may
/// be mistyped.
#[test]
fn a_word_with_digits_stands_for_itself() {
    let place = TempStore::in_memory();
    let engine = place.engine();
    make_scopes(&engine, 2);
    for number in 0..=744 {
        store(&engine, HERE, "order", &format!("Says before{number}."));
        store(&engine, HERE, "order", &format!("Says after{number}."));
    }
    let found = |words: &str| -> Vec<String> {
        let (hits, _) = search(&engine, By::WordsAndMeaning, words).expect("an answer");
        let content = |hit: &EntryHit| hit.stored.record.as_entry().expect("an entry").content.clone();
        hits.iter().map(content).collect()
    };
    for number in [7, 74, 99, 300, 744] {
        assert_eq!(found(&format!("before{number}"))[0], format!("Says before{number}."));
    }
    for number in 0..4 {
        store(&engine, HERE, "calls", &format!("From parallel{number}."));
    }
    assert_eq!(found("parallel3")[0], "From parallel3.");
    assert!(found("before7443").contains(&"Says before744.".to_owned()));
}
