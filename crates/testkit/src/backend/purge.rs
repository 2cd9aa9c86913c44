//! What is promised of overwriting, the one exception to "nothing is overwritten".

use kenning_model::{Entry, PURGED_TEXT, Record, Tombstone, Triple, TxId};
use kenning_storage::{Backend, EntryFilter, LogItem, LogRow, TripleFilter, View};
use serde_json::{Value, json};

use super::documents::{document, section};
use super::scopes::Log;
use super::{ALL, ELSEWHERE, HERE, assert_sound, entry, id, reader, remembered, triple};

/// What must not be found any more.
const CANARY: &str = "canary";

/// Versions of every kind, live ones and closed ones, among others that stay.
fn write_everything(backend: &dyn Backend) {
    let said = |version| Entry { topic: CANARY.to_owned(), ..entry(CANARY, HERE, version) };
    let fact = |scope| Record::Triple(Triple { scope, ..triple(CANARY, CANARY, CANARY) });
    let mut log = Log::new(backend);
    log.write(&[(1, Some(Record::Entry(said(1)))), (2, Some(fact(HERE))), (3, Some(fact(ELSEWHERE)))]);
    log.write(&[(4, Some(document(HERE, CANARY, "a.md", CANARY))), (5, Some(section(4)))]);
    log.write(&[
        (6, Some(Record::Entry(entry("kept", HERE, 1)))),
        (7, Some(Record::Triple(triple("a", "is", "b")))),
    ]);
    log.write(&[(1, Some(Record::Entry(said(2)))), (3, None)]);
    log.write(&[(2, Some(fact(ELSEWHERE)))]);
}

/// The rows of these ids with nothing in them that somebody wrote.
fn tombstones(backend: &dyn Backend, numbers: &[u64]) -> Vec<LogRow> {
    let (reader, mut rows) = (reader(backend), Vec::new());
    for (tx, number) in (1..=5).flat_map(|tx| numbers.iter().map(move |number| (tx, *number))) {
        for of in kenning_model::EntityType::ALL {
            let stored = reader.record(of, id(number), TxId(tx)).expect("an answer");
            let Some(stored) = stored.filter(|stored| stored.tx_id == TxId(tx)) else { continue };
            let log_rows = reader.log_rows(&[TxId(tx)], usize::MAX).expect("rows").remove(0);
            let row = log_rows.into_iter().find(|row| row.id == id(number).as_str()).expect("its row");
            let tombstone = Tombstone { by: TxId(6), hash: "hash".to_owned() };
            let body = match stored.record.purged(tombstone).expect("it can be purged") {
                Record::Entry(entry) => json!(entry),
                Record::Triple(triple) => json!(triple),
                Record::Document(document) => json!(document),
                Record::Section(section) => json!(section),
                other => panic!("{other:?}"),
            };
            let LogItem::Row(row) =
                LogItem::change(TxId(tx), row.seq, of, id(number), Some(body.to_string()))
            else {
                unreachable!("a change is a row");
            };
            rows.push(row);
        }
    }
    rows
}

pub fn what_is_overwritten_is_gone_everywhere(backend: &dyn Backend) {
    write_everything(backend);
    let before = backend.info().expect("what tells it from others");
    let rows = tombstones(backend, &[1, 2, 3, 4, 5]);
    assert_eq!(rows.len(), 7, "two versions of an entry and of a triple, one of each other");
    let mut pending = backend.begin().expect("a write begins");
    pending.remember("a", "key", &remembered(1)).expect("it is remembered");
    pending.overwrite(&rows).expect("it is overwritten");
    pending.renew().expect("it is another store");
    drop(pending);
    assert_eq!(backend.info().expect("the same"), before, "what was not committed has no effect");
    assert_eq!(entries_of(backend, CANARY), 1);
    let mut pending = backend.begin().expect("a write begins");
    pending.overwrite(&rows).expect("it is overwritten");
    pending.renew().expect("it is another store");
    pending.commit().expect("it is committed");
    backend.scrub().expect("what is left of it is removed");
    assert!(!backend.has_remains().expect("an answer"));

    assert_sound(backend, 5);
    let standing = reader(backend).standing().expect("a standing");
    let after = backend.info().expect("what tells it from others");
    assert!(after.id != before.id && after.secret != before.secret && standing.store == after.id);
    let reader = reader(backend);
    assert_eq!(reader.store_id().expect("an id"), after.id);
    for at in (1..=5).map(TxId) {
        let entries = EntryFilter { scopes: &[HERE, ELSEWHERE], at, visible_at: None };
        let texts = reader.entries(&entries, ALL).expect("a page");
        let counted = reader.count_entries(&entries).expect("a count");
        assert_eq!(counted, texts.len() as u64, "it was there all the same");
        let all =
            TripleFilter { scopes: &[HERE, ELSEWHERE], at, subject: None, predicate: None, object: None };
        for predicate in [CANARY, PURGED_TEXT] {
            let some = TripleFilter { predicate: Some(predicate), ..all };
            let found = reader.triples(&some, ALL).expect("a page").len() as u64;
            assert_eq!(reader.count_triples(&some).expect("a count"), found, "{predicate} as of {at}");
            assert!(predicate != CANARY || found == 0, "as of {at}");
        }
        let topics = reader.topics(&entries, "", 10).expect("topics");
        let names = reader.triple_names(&[HERE, ELSEWHERE], at, 100).expect("names");
        let sources = reader.document_sources(HERE, at).expect("sources");
        let transaction =
            reader.transaction(at, at, View::WHOLE).expect("an answer").expect("it is in the history");
        let rows = reader.log_rows(&[at], usize::MAX).expect("rows");
        let said = format!("{texts:?} {topics:?} {names:?} {sources:?} {transaction:?} {rows:?}");
        assert!(!said.contains(CANARY), "as of {at}: {said}");
        assert!(!transaction.changes.is_empty(), "and says which ids");
    }
    let kept = reader.latest(kenning_model::EntityType::Entry, id(6)).expect("an answer").expect("it stays");
    assert_eq!(kept.record.as_entry().map(|entry| entry.topic.as_str()), Some("kept"));
    let body = reader.log_rows(&[TxId(1)], usize::MAX).expect("rows")[0][1].body.clone().expect("a version");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["actor"], &body["purged"]["by"]), (&json!("tester"), &json!(6)));
}

fn entries_of(backend: &dyn Backend, topic: &str) -> usize {
    let filter = EntryFilter { scopes: &[HERE], at: TxId(5), visible_at: None };
    reader(backend).topics(&filter, topic, 10).expect("topics").len()
}
