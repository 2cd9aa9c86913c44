//! Which labelled pairs count as contradictions, and which as duplicates. `-- --nocapture` prints the
//! figures.

use kenning_engine::{Similar, collisions};
use kenning_model::{Change, Entry, Record, ScopeId};
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::TempStore;

struct Pair {
    label: &'static str,
    texts: [&'static str; 2],
}

fn pairs() -> Vec<Pair> {
    let lines =
        include_str!("collisions.tsv").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [label, one, other] => Pair { label, texts: [one, other] },
            _ => panic!("not a pair: {line}"),
        })
        .collect()
}

/// The number of pairs with this label that are found, and the number of all pairs with it.
fn count(pairs: &[Pair], label: &str, found: impl Fn(&Pair) -> bool) -> (usize, usize) {
    let labelled: Vec<&Pair> = pairs.iter().filter(|pair| pair.label == label).collect();
    (labelled.iter().filter(|pair| found(pair)).count(), labelled.len())
}

fn share((found, all): (usize, usize)) -> f64 {
    found as f64 / all as f64
}

#[test]
fn contradictions_are_named_and_other_matters_are_not() {
    let pairs = pairs();
    let entry = |text: &str| {
        let store = TempStore::in_memory();
        let new = NewEntry::new(ScopeId::GLOBAL_DEFAULT, "", text);
        stored(&store.engine(), new)
    };
    let contradict = |pair: &Pair| {
        let [one, other] = pair.texts.map(entry);
        !collisions(&[&one, &other]).is_empty()
    };
    let [found, apart, same] = ["collision", "apart", "same"].map(|label| count(&pairs, label, contradict));
    eprintln!("contradictions named: {found:?}, other matters: {apart:?}, duplicates: {same:?}");
    assert!(share(found) >= 0.5, "{found:?} contradictions are found");
    assert!(share(apart) <= 0.04, "{apart:?} that are about other matters");
    // A duplicate in other words may count as a contradiction, since resolving it does no harm.
    assert!(share(same) <= 0.2, "{same:?} that say the same");
}

#[test]
fn duplicates_and_contradictions_are_similar_and_other_matters_are_not() {
    let pairs = pairs();
    let similar = |pair: &Pair| {
        let store = TempStore::in_memory();
        let engine = store.engine();
        stored(&engine, NewEntry::new(ScopeId::GLOBAL_DEFAULT, "", pair.texts[0]));
        let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("readable");
        let sight = snapshot.sight_of(vec![ScopeId::GLOBAL_DEFAULT]);
        let asked = Similar { sight: &sight, topic: "", content: pair.texts[1], except: &[] };
        !engine.similar(&snapshot, &asked).expect("readable").is_empty()
    };
    let [collision, apart, same] = ["collision", "apart", "same"].map(|label| count(&pairs, label, similar));
    eprintln!("similar: contradictions {collision:?}, other matters {apart:?}, duplicates {same:?}");
    assert!(share(same) >= 0.95, "{same:?} duplicates are found");
    assert!(share(collision) >= 0.5, "{collision:?} contradictions are found");
    // Half of these pairs share most of their words; reporting one of them does no harm.
    assert!(share(apart) <= 0.1, "{apart:?} that are about other matters");
}

#[test]
fn the_same_subject_is_seen_in_related_words() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    stored(&engine, NewEntry::new(ScopeId::GLOBAL_DEFAULT, "", "Expense reports are due on Fridays"));
    let first = NewEntry::new(ScopeId::GLOBAL_DEFAULT, "Token lifetime", "15 minutes");
    let first = change(&engine, first).id;
    for in_segments in [false, true] {
        if in_segments {
            engine.rebuild().expect("it can be built");
        }
        let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("readable");
        let sight = snapshot.sight_of(vec![ScopeId::GLOBAL_DEFAULT]);
        let similar = |topic, content| {
            let asked = Similar { sight: &sight, topic, content, except: &[] };
            engine.similar(&snapshot, &asked).expect("readable")
        };
        assert_eq!(similar("", "Token expiry: 30 minutes"), [first]);
        assert_eq!(similar("Token expiry", "30 minutes"), [first]);
        assert_eq!(similar("Passwords", "They have twelve characters"), []);
    }
}

#[test]
fn the_two_lifetimes_collide_and_the_expense_reports_do_not() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let texts = [
        "Token lifetime is 15 minutes",
        "Expense reports are due on Fridays",
        "Token lifetime is 60 minutes",
    ];
    let entries = texts.map(|text| stored(&engine, NewEntry::new(ScopeId::GLOBAL_DEFAULT, "", text)));
    assert_eq!(collisions(&entries.each_ref()), [[0, 2]]);
}

fn stored(engine: &kenning_engine::Engine, new: NewEntry) -> Entry {
    match change(engine, new).after {
        Some(Record::Entry(entry)) => entry,
        other => panic!("no entry was stored but {other:?}"),
    }
}

fn change(engine: &kenning_engine::Engine, new: NewEntry) -> Change {
    let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "store".into());
    let request = Request { principal, tool, write: Write::Store(new), keyed: None };
    engine.commit(request).expect("it is stored").tx.changes.remove(0)
}
