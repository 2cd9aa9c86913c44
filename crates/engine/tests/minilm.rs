//! A sentence encoder in place of the table: vectors are made in the background, questions are answered by
//! words until then and the replies say so, and changing the encoder mixes up nothing.

#[path = "../../retrieval/tests/minilm/tiny.rs"]
#[allow(dead_code)]
mod tiny;

use std::path::Path;
use std::time::{Duration, Instant};

use kenning_engine::{By, Embedder, Engine, Found, Question};
use kenning_model::{Id, ScopeId};
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::TempStore;

const SCOPES: [ScopeId; 1] = [ScopeId::GLOBAL_DEFAULT];
const WORDS: [&str; 12] =
    ["cat", "dog", "bird", "fish", "tree", "house", "river", "road", "server", "disk", "night", "year"];

fn engine(store: &TempStore, model: Option<&Path>) -> Engine {
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    match model {
        Some(dir) => engine.with_embedder(Embedder::minilm(dir).expect("a model")),
        None => engine,
    }
}

fn store(engine: &Engine, numbers: std::ops::Range<usize>) {
    let entry = |number: usize| {
        let word = |step: usize| WORDS[number * step % WORDS.len()];
        let content = format!("the {} is {} to a {} number{number}", word(1), word(5), word(7));
        NewEntry::new(ScopeId::GLOBAL_DEFAULT, format!("old {}", word(3)), content)
    };
    let (principal, tool) = (kenning_model::Principal::owner("test", "test").into(), "store".into());
    let write = Write::StoreAll(numbers.map(entry).collect());
    engine.commit(Request { principal, tool, write, keyed: None }).expect("a write");
}

fn ask(engine: &Engine, text: &str) -> Found {
    let content = Some(text);
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let sight = snapshot.sight_of(SCOPES.to_vec());
    let question = Question {
        sight: &sight,
        topic: None,
        content,
        tags: &[],
        visible_at: None,
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: true,
    };
    snapshot.search(&question, 0..1000).expect("an answer")
}

fn shown(found: &Found) -> Vec<(Id, f64, f64)> {
    let why = |hit: &kenning_engine::EntryHit| hit.explanation.clone().expect("it was asked for");
    found.hits.iter().map(|hit| (hit.stored.id, why(hit).total, why(hit).dense)).collect()
}

/// Asks until all vectors are made.
fn settled(engine: &Engine, text: &str) -> Found {
    let since = Instant::now();
    loop {
        let found = ask(engine, text);
        if !found.is_degraded {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the vectors never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_embedder_can_be_changed_while_questions_go_on() {
    let model = tiny::Tiny::new().write();
    let place = TempStore::in_memory();
    let table = engine(&place, None);
    store(&table, 0..700);
    let by_table = ask(&table, "a cat in the house");
    assert!(!by_table.is_degraded && by_table.total > 0);
    drop(table);

    let encoder = engine(&place, Some(model.path()));
    let at_first = ask(&encoder, "a cat in the house");
    assert!(at_first.is_degraded, "700 texts can't be embedded before the first answer");
    assert!(at_first.total > 0 && shown(&at_first).iter().all(|(_, _, dense)| *dense == 0.0));
    let by_encoder = settled(&encoder, "a cat in the house");
    assert!(shown(&by_encoder).iter().any(|(_, _, dense)| *dense > 0.0));
    assert_ne!(shown(&by_encoder), shown(&by_table));

    // A single new text is embedded before the next question is answered; many are found by words until their
    // vectors are made.
    store(&encoder, 700..701);
    let after_one = ask(&encoder, "number700");
    assert_eq!((after_one.total > 0, after_one.is_degraded), (true, false));
    store(&encoder, 701..800);
    assert!(ask(&encoder, "number799").total > 0);
    let after_many = settled(&encoder, "a cat in the house");
    drop(encoder);

    // The second process finds all vectors made.
    let again = engine(&place, Some(model.path()));
    assert_eq!(shown(&settled(&again, "a cat in the house")), shown(&after_many));
    drop(again);
    // The vectors of the table are unchanged for the texts that it had.
    let table = engine(&place, None);
    let fresh = TempStore::in_memory();
    std::fs::copy(place.path().join("store.db"), fresh.path().join("store.db")).expect("a copy");
    let from_nothing = engine(&fresh, None);
    let ids = |found: &Found| found.hits.iter().map(|hit| hit.stored.id).collect::<Vec<_>>();
    assert_eq!(ids(&settled(&table, "dog")), ids(&ask(&from_nothing, "dog")));
}

#[test]
fn whoever_is_interrupted_goes_on_where_it_was() {
    let model = tiny::Tiny::new().write();
    let place = TempStore::in_memory();
    store(&engine(&place, None), 0..900);
    let whole = settled(&engine(&place, Some(model.path())), "the dog");
    let other = TempStore::in_memory();
    std::fs::copy(place.path().join("store.db"), other.path().join("store.db")).expect("a copy");
    for _ in 0..20 {
        // Each run is stopped almost at once.
        drop(ask(&engine(&other, Some(model.path())), "the dog"));
    }
    assert_eq!(shown(&settled(&engine(&other, Some(model.path())), "the dog")), shown(&whole));
}
