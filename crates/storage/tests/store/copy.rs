//! A copied log is identical to the original; an unsound log is refused as a whole.

use kenning_model::{EntityType, Id, TxId};
use kenning_storage::{Error, LogItem, Storage, read_log};
use kenning_testkit::TempStore;

use crate::script::{Acknowledged, STEPS};

fn scripted() -> (TempStore, Storage) {
    let store = TempStore::in_memory();
    let storage = store.storage();
    let mut acknowledged = Acknowledged::default();
    for step in 0..STEPS {
        let committed = storage.commit(acknowledged.request(step)).expect("every step is good");
        acknowledged.txs.push(committed.tx);
    }
    (store, storage)
}

fn items(storage: &Storage) -> Vec<LogItem> {
    let reader = storage.reader().expect("a reader");
    let mut items = Vec::new();
    let all = read_log(&*reader, reader.head().expect("a head"), |item| {
        items.push(item);
        Ok::<(), Error>(())
    });
    all.expect("the log is sound");
    items
}

fn append(storage: &Storage, items: Vec<LogItem>) -> Result<TxId, Error> {
    let mut items = items.into_iter();
    storage.append_log(|| Ok(items.next()))
}

fn shown(items: &[LogItem]) -> Vec<String> {
    let show = |item: &LogItem| match item {
        LogItem::Row(row) => format!("{row:?}"),
        LogItem::Key(kept) => format!("{kept:?}"),
    };
    items.iter().map(show).collect()
}

fn head(storage: &Storage) -> TxId {
    storage.reader().and_then(|reader| reader.head()).expect("a head")
}

#[test]
fn a_copy_is_the_same_to_the_byte() {
    let (_from, original) = scripted();
    let to = TempStore::in_memory();
    let copy = to.storage();
    assert_eq!(append(&copy, items(&original)).expect("it is sound"), TxId(STEPS as u64));
    assert_eq!(shown(&items(&copy)), shown(&items(&original)));
    assert!(shown(&items(&copy)).iter().any(|item| item.starts_with("KeptKey")));
    let mut damages = Vec::new();
    let verified = copy.backend().verify(&mut |damage| damages.push(damage)).expect("it can be verified");
    assert_eq!((damages, verified.transactions), (Vec::new(), STEPS as u64));
    // The copy has transactions now, so no further log can be appended to it.
    let (_, further) = scripted();
    assert!(matches!(append(&copy, items(&further)), Err(Error::Invalid { .. })), "it is not empty any more");
    assert_eq!(head(&copy), TxId(STEPS as u64));
}

#[test]
fn a_log_that_is_not_sound_is_refused_whole() {
    let (_from, original) = scripted();
    type Harm = fn(&mut Vec<LogItem>);
    let harms: [(&str, Harm); 7] = [
        ("a row is missing", |items| drop(items.remove(1))),
        ("a transaction is missing", |items| drop(items.drain(0..2))),
        ("a change comes twice", |items| {
            let LogItem::Row(row) = &items[1] else { return };
            let again = LogItem::Row(row.clone());
            items.insert(1, again);
        }),
        ("a header is nonsense", |items| items[0] = LogItem::header(TxId(1), "x", "{}".to_owned())),
        ("a body is nonsense", |items| {
            let id = Id::parse("ZZZZZZZZZZ").expect("an id");
            items[1] = LogItem::change(TxId(1), 1, EntityType::Entry, id, Some("{}".to_owned()));
        }),
        ("what is not there is deleted", |items| {
            let id = Id::parse("ZZZZZZZZZZ").expect("an id");
            items[1] = LogItem::change(TxId(1), 1, EntityType::Entry, id, None);
        }),
        ("a scope is not there", |items| {
            let LogItem::Row(row) = &items[1] else { return };
            let id = Id::parse(&row.id).expect("an id");
            let body = row.body.as_ref().map(|body| body.replacen(r#""scope":1"#, r#""scope":77"#, 1));
            items[1] = LogItem::change(TxId(1), 1, EntityType::Entry, id, body);
        }),
    ];
    for (what, harm) in harms {
        let to = TempStore::in_memory();
        let copy = to.storage();
        let mut harmed = items(&original);
        harm(&mut harmed);
        let refused = append(&copy, harmed);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{what}: {refused:?}");
        assert_eq!(head(&copy), TxId::EMPTY, "{what}");
    }
}
