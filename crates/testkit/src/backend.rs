//! The contract of backends, as one function per rule. A backend is tested by running all of them, each on an
//! empty store of its own.

mod counts;
mod documents;
mod purge;
mod scopes;

use std::ops::Range;
use std::time::Duration;

use jiff::SignedDuration;
use kenning_model::{
    Change, DEFAULT, EntityType, Entry, Id, Record, ScopeId, ScopeNames, Status, Timestamp, Transaction,
    Triple, TxId, Version,
};
use kenning_storage::{
    At, Backend, EntryFilter, Head, LOG_PAGE_BYTES, Position, Reader, RecordKey, Remembered, StoreId, Stored,
    Touched, TripleFilter, View,
};

use self::scopes::{namespace, scope};
use crate::{fixed_start, scrambled};

pub type Promise = (&'static str, fn(&dyn Backend));

pub const PROMISES: &[Promise] = &[
    ("an empty store has nothing", an_empty_store_has_nothing),
    ("a transaction reads back whole", a_transaction_reads_back_whole),
    ("ids are dense and in commit order", ids_are_dense_and_in_commit_order),
    ("a read at a transaction never changes", a_read_at_a_transaction_never_changes),
    ("a dropped pending write leaves nothing", a_dropped_pending_write_leaves_nothing),
    ("a pending write is seen by itself alone", a_pending_write_is_seen_by_itself_alone),
    ("a deleted id keeps its history", a_deleted_id_keeps_its_history),
    ("an undo stands until it is undone", an_undo_stands_until_it_is_undone),
    ("listings come newest first in pages", listings_come_newest_first_in_pages),
    ("listings keep to their scopes and their moment", listings_keep_to_their_scopes_and_their_moment),
    ("pinned entries come by scope", pinned_entries_come_by_scope),
    ("changes come in the order of the log", changes_come_in_the_order_of_the_log),
    ("changes come in pages, and the store can be asked between them", changes_come_in_pages),
    ("records come in the order of their keys", records_come_in_the_order_of_their_keys),
    ("triples are found by folded values", triples_are_found_by_folded_values),
    ("topics come in order and once", topics_come_in_order_and_once),
    ("the newest transaction of an origin is found", the_newest_transaction_of_an_origin_is_found),
    ("a scope is found by the name it has", scopes::a_scope_is_found_by_the_name_it_has),
    ("the scope that had a name last is found", scopes::the_scope_that_had_a_name_last_is_found),
    ("scopes are called what they were called", scopes::scopes_are_called_what_they_were_called),
    ("a scope sees the nearest first", scopes::a_scope_sees_the_nearest_first),
    ("a scope number is given once", scopes::a_scope_number_is_given_once),
    ("live records come oldest first", scopes::live_records_come_oldest_first),
    ("things are counted where they are", scopes::things_are_counted_where_they_are),
    ("counts are those of the lists", counts::counts_are_those_of_the_lists),
    ("touches keep to their scopes", scopes::touches_keep_to_their_scopes),
    ("a view shows what is in its scopes", scopes::a_view_shows_what_is_in_its_scopes),
    ("transactions are found by scope", scopes::transactions_are_found_by_scope),
    ("sources are what their newest document says", documents::sources_are_what_their_newest_document_says),
    ("a section knows its document", documents::a_section_knows_its_document),
    ("patterns are told from other documents", documents::patterns_are_told_from_other_documents),
    ("keys are remembered and forgotten", keys_are_remembered_and_forgotten),
    ("verify finds nothing in a sound store", verify_finds_nothing_in_a_sound_store),
    ("the secret stays the same", id_and_secret_stay_the_same),
    ("who waits is told of a commit", who_waits_is_told_of_a_commit),
    ("what is overwritten is gone everywhere", purge::what_is_overwritten_is_gone_everywhere),
];

const HERE: ScopeId = ScopeId(1);
const ELSEWHERE: ScopeId = ScopeId(2);
const ALL: Range<u64> = 0..1000;

pub fn an_empty_store_has_nothing(backend: &dyn Backend) {
    let reader = reader(backend);
    assert_eq!(reader.head().expect("a head"), TxId::EMPTY);
    assert_eq!(reader.transaction(TxId(1), TxId(1), View::WHOLE).expect("an answer"), None);
    assert_eq!(StoreState::at(&*reader, TxId::EMPTY), StoreState::default());
}

pub fn a_transaction_reads_back_whole(backend: &dyn Backend) {
    let full = Entry {
        context: Some("why".to_owned()),
        tags: vec!["a".to_owned(), "ü".to_owned()],
        task_sizes: vec![kenning_model::TaskSize::XL],
        source: Some("https://example.com".to_owned()),
        confidence: Some(0.1 + 0.2),
        valid_from: Some(moment(-5)),
        valid_to: Some(moment(5)),
        status: Status::Suppressed,
        pinned: true,
        follows: Some(id(4)),
        ..entry("Ünïcode \u{1f980}", HERE, 1)
    };
    let changes = vec![
        created(1, Record::Entry(full)),
        created(2, Record::Triple(triple("a", "is", "b"))),
        created(3, Record::Entry(Entry { content: "long ".repeat(5000), ..entry("long", HERE, 1) })),
        created(4, Record::Entry(Entry { content: String::new(), ..entry("empty", HERE, 1) })),
    ];
    let written = transaction(1, changes);
    commit(backend, std::slice::from_ref(&written));
    let reader = reader(backend);
    assert_eq!(reader.transaction(TxId(1), TxId(1), View::WHOLE).expect("an answer"), Some(written.clone()));
    for change in written.changes {
        let found = reader.record(change.entity_type, change.id, TxId(1)).expect("an answer");
        assert_eq!(found.map(|stored| stored.record), change.after);
    }
}

pub fn ids_are_dense_and_in_commit_order(backend: &dyn Backend) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 8;
    let committed: Vec<Vec<TxId>> = std::thread::scope(|scope| {
        let write =
            |writer: u64| move || (0..EACH).map(|number| append_next(backend, writer, number)).collect();
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(write(writer))).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect()
    });
    for ids in &committed {
        assert!(ids.is_sorted(), "a writer's own transactions are in its order: {ids:?}");
    }
    let mut ids = committed.concat();
    ids.sort_unstable();
    assert_eq!(ids, (1..=WRITERS * EACH).map(TxId).collect::<Vec<_>>(), "no gap and no number twice");
    let reader = reader(backend);
    for id in ids {
        assert!(
            reader.transaction(id, id, View::WHOLE).expect("an answer").is_some(),
            "transaction {id} is there"
        );
    }
}

/// Takes the next transaction number inside the write transaction, as `Storage` does.
fn append_next(backend: &dyn Backend, writer: u64, number: u64) -> TxId {
    let mut pending = backend.begin().expect("a write begins");
    let id = pending.reader().head().expect("a head").next();
    let record = Record::Entry(entry("concurrent", HERE, 1));
    pending.append(&transaction(id.0, vec![created(writer << 8 | number, record)])).expect("it is appended");
    pending.commit().expect("it is committed");
    id
}

pub fn a_read_at_a_transaction_never_changes(backend: &dyn Backend) {
    let mut before = Vec::new();
    for tx in mixed_history() {
        let at = tx.id;
        commit(backend, &[tx]);
        before.push((at, StoreState::at(&*reader(backend), at)));
    }
    for (at, seen) in before {
        assert_eq!(StoreState::at(&*reader(backend), at), seen, "as of transaction {at}");
    }
}

pub fn a_dropped_pending_write_leaves_nothing(backend: &dyn Backend) {
    commit(backend, &[transaction(1, vec![created(1, Record::Entry(entry("kept", HERE, 1)))])]);
    let seen = StoreState::at(&*reader(backend), TxId(9));
    {
        let mut pending = backend.begin().expect("a write begins");
        let dropped = transaction(2, vec![created(2, Record::Entry(entry("dropped", HERE, 1)))]);
        pending.append(&dropped).expect("it is appended");
        pending.remember("actor", "key", &remembered(0)).expect("it is remembered");
    }
    let reader = reader(backend);
    assert_eq!(StoreState::at(&*reader, TxId(9)), seen);
    assert_eq!(reader.recall("actor", "key").expect("an answer"), None);
    assert_eq!(reader.latest(EntityType::Entry, id(2)).expect("an answer"), None);
    commit(backend, &[transaction(2, vec![created(2, Record::Entry(entry("next", HERE, 1)))])]);
    assert_sound(backend, 2);
}

pub fn a_pending_write_is_seen_by_itself_alone(backend: &dyn Backend) {
    let mut pending = backend.begin().expect("a write begins");
    pending
        .append(&transaction(1, vec![created(1, Record::Entry(entry("new", HERE, 1)))]))
        .expect("it is appended");
    assert_eq!(pending.reader().head().expect("a head"), TxId(1));
    assert!(pending.reader().record(EntityType::Entry, id(1), TxId(1)).expect("an answer").is_some());
    let outside = reader(backend);
    assert_eq!(outside.head().expect("a head"), TxId::EMPTY);
    pending.commit().expect("it is committed");
    // A reader that was made before the commit sees what was acknowledged since.
    assert_eq!(outside.head().expect("a head"), TxId(1));
}

pub fn a_deleted_id_keeps_its_history(backend: &dyn Backend) {
    commit(backend, &mixed_history()[..4]);
    let reader = reader(backend);
    let touches = reader.touches(EntityType::Entry, id(1), None).expect("an answer");
    assert_eq!(touches, [TxId(1), TxId(2), TxId(4)], "oldest first");
    assert_eq!(reader.record(EntityType::Entry, id(1), TxId(4)).expect("an answer"), None);
    let latest = reader.latest(EntityType::Entry, id(1)).expect("an answer").expect("the closed version");
    assert_eq!((latest.tx_id, latest.record.version()), (TxId(2), 2));
    let deleted =
        reader.transaction(TxId(4), TxId(4), View::WHOLE).expect("an answer").expect("transaction 4");
    assert_eq!(deleted.changes[0].before.as_ref(), Some(&Version::from(latest)));
}

pub fn an_undo_stands_until_it_is_undone(backend: &dyn Backend) {
    commit(backend, &mixed_history());
    let reader = reader(backend);
    let standing = |of: u64, at: u64| reader.undone_by(TxId(of), TxId(at)).expect("an answer");
    assert_eq!([4, 5, 6].map(|at| standing(4, at)), [None, Some(TxId(5)), None]);
    assert_eq!([5, 6].map(|at| standing(5, at)), [None, Some(TxId(6))]);
    let told = reader.transaction(TxId(4), TxId(5), View::WHOLE).expect("an answer").expect("transaction 4");
    assert_eq!(told.undone_by, Some(TxId(5)));
}

pub fn listings_come_newest_first_in_pages(backend: &dyn Backend) {
    const MANY: u64 = 7;
    // Each transaction has two changes; of the two, the later one is the newer.
    for tx in 1..=MANY {
        let both = [2 * tx, 2 * tx + 1].map(|number| created(number, Record::Entry(entry("t", HERE, 1))));
        commit(backend, &[transaction(tx, both.to_vec())]);
    }
    let reader = reader(backend);
    let filter = EntryFilter { scopes: &[HERE], at: TxId(MANY), visible_at: None };
    let page = |range| -> Vec<Id> {
        let rows = reader.entries(&filter, range).expect("a page");
        rows.into_iter().map(|stored| stored.id).collect()
    };
    let newest_first: Vec<Id> = (2..2 * MANY + 2).rev().map(id).collect();
    assert_eq!(page(ALL), newest_first);
    assert_eq!([page(0..5), page(5..10), page(10..99)].concat(), newest_first);
    assert_eq!(reader.count_entries(&filter).expect("a count"), 2 * MANY);

    let with = |entity_type, scopes| Touched {
        reach: &kenning_storage::Reach::Everything,
        entity_type,
        scopes,
        own: None,
        range: TxId(2)..TxId(6),
    };
    let page = |touched: &Touched<'_>| reader.transactions_with(touched, 1..3).expect("a page");
    let count = |touched: &Touched<'_>| reader.count_transactions_with(touched).expect("a count");
    for touched in [with(Some(EntityType::Entry), None), with(None, Some(&[HERE])), with(None, None)] {
        assert_eq!(page(&touched), [TxId(4), TxId(3)]);
        assert_eq!(count(&touched), 4);
    }
    for touched in [with(Some(EntityType::Triple), None), with(None, Some(&[ELSEWHERE]))] {
        assert_eq!(count(&touched), 0);
    }
}

pub fn listings_keep_to_their_scopes_and_their_moment(backend: &dyn Backend) {
    let changes = vec![
        created(1, Record::Entry(entry("here", HERE, 1))),
        created(2, Record::Entry(entry("elsewhere", ELSEWHERE, 1))),
        created(3, Record::Entry(Entry { status: Status::Suppressed, ..entry("suppressed", HERE, 1) })),
        created(4, Record::Entry(Entry { valid_from: Some(moment(9)), ..entry("not yet", HERE, 1) })),
        created(5, Record::Entry(Entry { valid_to: Some(moment(0)), ..entry("no longer", HERE, 1) })),
    ];
    commit(backend, &[transaction(1, changes)]);
    let reader = reader(backend);
    let ids = |scopes: &[ScopeId], visible_at| -> Vec<Id> {
        let filter = EntryFilter { scopes, at: TxId(1), visible_at };
        let rows = reader.entries(&filter, ALL).expect("a page");
        let mut ids: Vec<Id> = rows.into_iter().map(|stored| stored.id).collect();
        assert_eq!(reader.count_entries(&filter).expect("a count"), ids.len() as u64);
        ids.sort_unstable();
        ids
    };
    let expected = |numbers: &[u64]| {
        let mut ids: Vec<Id> = numbers.iter().map(|number| id(*number)).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&[HERE], Some(moment(0))), expected(&[1]));
    assert_eq!(ids(&[HERE, ELSEWHERE], Some(moment(0))), expected(&[1, 2]));
    assert_eq!(ids(&[HERE], Some(moment(9))), expected(&[1, 4]));
    assert_eq!(ids(&[HERE], None), expected(&[1, 3, 4, 5]));
    assert_eq!(ids(&[], None), expected(&[]));
}

pub fn pinned_entries_come_by_scope(backend: &dyn Backend) {
    let pinned = |topic, scope| Entry { pinned: true, ..entry(topic, scope, 1) };
    let first = pinned("first", HERE);
    let changes = vec![
        created(1, Record::Entry(first.clone())),
        created(2, Record::Entry(entry("not pinned", HERE, 1))),
        created(3, Record::Entry(pinned("elsewhere", ELSEWHERE))),
        created(4, Record::Entry(Entry { status: Status::Suppressed, ..pinned("suppressed", HERE) })),
        created(5, Record::Entry(Entry { valid_to: Some(moment(0)), ..pinned("no longer", HERE) })),
        created(6, Record::Entry(pinned("second", HERE))),
    ];
    let unpinned = Change {
        entity_type: EntityType::Entry,
        id: id(1),
        before: Some(Version { tx_id: TxId(1), record: Record::Entry(first) }),
        after: Some(Record::Entry(entry("first", HERE, 2))),
    };
    commit(backend, &[transaction(1, changes), transaction(2, vec![unpinned])]);
    let reader = reader(backend);
    let ids = |scopes: &[ScopeId], at, visible_at, limit| -> Vec<Id> {
        let rows = reader.pinned(&EntryFilter { scopes, at: TxId(at), visible_at }, limit).expect("a list");
        rows.into_iter().map(|stored| stored.id).collect()
    };
    let now = Some(moment(0));
    assert_eq!(ids(&[HERE, ELSEWHERE], 1, now, 9), [id(6), id(1), id(3)]);
    assert_eq!(ids(&[ELSEWHERE, HERE], 1, now, 9), [id(3), id(6), id(1)]);
    assert_eq!(ids(&[ELSEWHERE, HERE], 1, now, 2), [id(3), id(6)]);
    assert_eq!(ids(&[HERE], 1, None, 9), [id(6), id(5), id(4), id(1)]);
    assert_eq!(ids(&[HERE], 2, now, 9), [id(6)]);
    assert_eq!(ids(&[], 2, now, 9), []);
}

pub fn changes_come_in_the_order_of_the_log(backend: &dyn Backend) {
    let first = Record::Entry(entry("first", HERE, 1));
    let second = Record::Triple(triple("second", "follows", "first"));
    let closed = Change {
        entity_type: EntityType::Entry,
        id: id(1),
        before: Some(Version { tx_id: TxId(1), record: first.clone() }),
        after: None,
    };
    let written = [vec![created(1, first.clone())], vec![created(2, second.clone())], vec![closed]];
    commit(backend, &[1, 2, 3].map(|number: u64| transaction(number, written[number as usize - 1].clone())));
    let reader = reader(backend);
    let read = |types: &[EntityType], range: Range<TxId>| {
        let page = reader.changes(types, Position::before(range.start), range.end, 100).expect("the log");
        assert_eq!(page.next, None, "everything is on one page");
        page.changes.into_iter().map(|it| (it.tx, it.entity_type, it.id, it.after)).collect::<Vec<_>>()
    };
    let (entry, triple) = (EntityType::Entry, EntityType::Triple);
    let all = [
        (TxId(1), entry, id(1), Some(first)),
        (TxId(2), triple, id(2), Some(second)),
        (TxId(3), entry, id(1), None),
    ];
    let everything = TxId(1)..TxId(4);
    assert_eq!(read(&[triple, entry], everything.clone()), all);
    assert_eq!(read(&[triple, entry], TxId(2)..TxId(3)), all[1..2]);
    assert_eq!(read(&[triple], everything.clone()), all[1..2]);
    assert_eq!(read(&[EntityType::Section], everything), []);
}

pub fn changes_come_in_pages(backend: &dyn Backend) {
    let entries = |numbers: Range<u64>| {
        let one = |number| created(number, Record::Entry(entry(&format!("entry {number}"), HERE, 1)));
        numbers.map(one).collect::<Vec<_>>()
    };
    let fact = created(99, Record::Triple(triple("a", "is", "b")));
    let written = [entries(1..6), vec![fact], entries(6..8), entries(8..9)];
    commit(backend, &(1..).zip(written).map(|(tx, changes)| transaction(tx, changes)).collect::<Vec<_>>());
    let reader = reader(backend);
    let mut pages = Vec::new();
    let mut from = Some(Position::before(TxId(1)));
    while let Some(position) = from {
        let page = reader.changes(&[EntityType::Entry], position, TxId(4), 2).expect("a page of the log");
        // The page owns its changes, so the store can be queried and written to meanwhile.
        for change in &page.changes {
            let stored = reader.record(change.entity_type, change.id, change.tx).expect("an answer");
            assert_eq!(stored.map(|stored| stored.record), change.after);
        }
        let next = reader.head().expect("a head").next();
        commit(backend, &[transaction(next.0, entries(100 + next.0..101 + next.0))]);
        pages.push(page.changes.iter().map(|change| (change.tx.0, change.id)).collect::<Vec<_>>());
        from = page.next;
    }
    let all = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (3, 6), (3, 7)].map(|(tx, number)| (tx, id(number)));
    assert_eq!(pages, all.chunks(2).map(<[_]>::to_vec).collect::<Vec<_>>());
    // Large records make short pages.
    let large = Entry { content: "x".repeat(LOG_PAGE_BYTES / 2), ..entry("large", HERE, 1) };
    let large = (200..203).map(|number| created(number, Record::Entry(large.clone()))).collect();
    let last = reader.head().expect("a head").next();
    commit(backend, &[transaction(last.0, large)]);
    let kinds = [EntityType::Entry];
    let page = reader.changes(&kinds, Position::before(last), last.next(), 100).expect("a page of the log");
    assert_eq!((page.changes.len(), page.next), (2, Some(Position { tx: last, seq: 3 })));
}

pub fn records_come_in_the_order_of_their_keys(backend: &dyn Backend) {
    commit(backend, &mixed_history());
    let reader = reader(backend);
    let key = |entity_type, number: u64, at| RecordKey { entity_type, id: id(number), at };
    let (entry, triple) = (EntityType::Entry, EntityType::Triple);
    let keys = [
        key(entry, 1, At::Live(TxId(3))),
        key(triple, 2, At::Live(TxId(2))),
        key(triple, 2, At::Newest),
        key(entry, 1, At::Newest),
        key(entry, 1, At::ClosedBy(TxId(2))),
        key(entry, 1, At::ClosedBy(TxId(3))),
        key(entry, 7, At::Newest),
        key(entry, 1, At::Live(TxId(3))),
    ];
    let found = reader.records(&keys).expect("an answer");
    let written = |stored: &Option<Stored>| stored.as_ref().map(|stored| (stored.id, stored.tx_id.0));
    let (one, two) = (id(1), id(2));
    assert_eq!(
        found.iter().map(written).collect::<Vec<_>>(),
        [Some((one, 2)), None, Some((two, 3)), Some((one, 5)), Some((one, 1)), None, None, Some((one, 2))]
    );
    assert_eq!(reader.records(&[]).expect("an answer"), []);
}

pub fn triples_are_found_by_folded_values(backend: &dyn Backend) {
    let facts = [(" API ", "Runs On", "Nomad"), ("api", "runs on", "k8s"), ("web", "runs on", "NOMAD")];
    let changes = (1..).zip(facts).map(|(number, (subject, predicate, object))| {
        created(number, Record::Triple(triple(subject, predicate, object)))
    });
    commit(backend, &[transaction(1, changes.collect())]);
    let reader = reader(backend);
    let found = |subject, predicate, object| -> Vec<Id> {
        let filter = TripleFilter { scopes: &[HERE], at: TxId(1), subject, predicate, object };
        let rows = reader.triples(&filter, ALL).expect("a page");
        assert_eq!(reader.count_triples(&filter).expect("a count"), rows.len() as u64);
        rows.into_iter().map(|stored| stored.id).collect()
    };
    assert_eq!(found(Some("api"), None, None), [id(2), id(1)]);
    assert_eq!(found(None, None, Some("nomad")), [id(3), id(1)]);
    assert_eq!(found(Some("api"), Some("runs on"), Some("nomad")), [id(1)]);
    assert_eq!(found(None, None, None), [id(3), id(2), id(1)]);
    assert_eq!(found(Some("ap"), None, None), [], "values are whole");
}

pub fn topics_come_in_order_and_once(backend: &dyn Backend) {
    let topics = ["deploys", "Databases", "DEPLOYS", "owners"];
    for (number, topic) in (1..).zip(topics) {
        commit(backend, &[transaction(number, vec![created(number, Record::Entry(entry(topic, HERE, 1)))])]);
    }
    let reader = reader(backend);
    let filter = EntryFilter { scopes: &[HERE], at: TxId(4), visible_at: None };
    let found = |prefix, limit| reader.topics(&filter, prefix, limit).expect("topics");
    assert_eq!(found("d", 9), ["Databases", "DEPLOYS"], "as spelt last");
    assert_eq!(found("", 9), ["Databases", "DEPLOYS", "owners"]);
    assert_eq!(found("", 1), ["Databases"]);
    assert_eq!(found("x", 9), [""; 0]);
}

pub fn the_newest_transaction_of_an_origin_is_found(backend: &dyn Backend) {
    for (number, origin) in (1..).zip(["mine", "yours", "mine", "yours"]) {
        let changes = vec![created(number, Record::Entry(entry("t", HERE, 1)))];
        commit(backend, &[Transaction { origin: origin.to_owned(), ..transaction(number, changes) }]);
    }
    let reader = reader(backend);
    let newest = |origin, before| reader.newest_of(origin, TxId(before)).expect("an answer");
    assert_eq!([5, 3, 1].map(|before| newest("mine", before)), [Some(TxId(3)), Some(TxId(1)), None]);
    assert_eq!(newest("nobody", 5), None);
}

pub fn keys_are_remembered_and_forgotten(backend: &dyn Backend) {
    let change = |write: &dyn Fn(&mut dyn kenning_storage::Pending)| {
        let mut pending = backend.begin().expect("a write begins");
        write(&mut *pending);
        pending.commit().expect("it is committed");
    };
    let recall = |actor, key| reader(backend).recall(actor, key).expect("an answer");
    change(&|pending| {
        pending.remember("a", "old", &remembered(1)).expect("it is remembered");
        pending.remember("a", "new", &remembered(2)).expect("it is remembered");
        pending.remember("b", "new", &remembered(3)).expect("it is remembered");
    });
    assert_eq!(recall("a", "old"), Some(remembered(1)));
    assert_eq!(recall("b", "new"), Some(remembered(3)), "a key belongs to its actor");
    assert_eq!(recall("b", "old"), None);
    change(&|pending| pending.forget_before(moment(2)).expect("it is forgotten"));
    assert_eq!(recall("a", "old"), None);
    assert_eq!(recall("a", "new"), Some(remembered(2)), "what is as old as the limit stays");
    change(&|pending| pending.remember("a", "new", &remembered(4)).expect("it is remembered"));
    assert_eq!(recall("a", "new"), Some(remembered(4)), "a later use replaces the value");
    assert_sound(backend, 0);
}

pub fn verify_finds_nothing_in_a_sound_store(backend: &dyn Backend) {
    assert_sound(backend, 0);
    let history = mixed_history();
    commit(backend, &history);
    assert_sound(backend, history.len() as u64);
}

pub fn id_and_secret_stay_the_same(backend: &dyn Backend) {
    let info = backend.info().expect("what tells it from others");
    assert_ne!(info.secret, [0; 32]);
    assert_ne!(info.id, StoreId::default());
    commit(backend, &mixed_history());
    assert_eq!(backend.info().expect("what tells it from others"), info);
}

pub fn who_waits_is_told_of_a_commit(backend: &dyn Backend) {
    let long = Duration::from_secs(30);
    let empty = backend.wait(None, long).expect("a head that was not seen before comes at once");
    assert_eq!(empty, Head { store: backend.info().expect("an id").id, tx: TxId::EMPTY });
    let short = Duration::from_millis(5);
    assert_eq!(backend.wait(Some(empty), short).expect("patience ends"), empty);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| backend.wait(Some(empty), long).expect("a hint"));
        commit(backend, &mixed_history()[..1]);
        assert_eq!(waiting.join().expect("the waiting thread ends"), Head { tx: TxId(1), ..empty });
    });
}

/// A history with a create, an update, a triple, a delete, the undo of it, and the undo of that; and a
/// namespace with two scopes, one of which is renamed, and the deletion of all three.
fn mixed_history() -> Vec<Transaction> {
    let first = entry("Deploys", HERE, 1);
    let second = Entry { content: "Canary.".to_owned(), ..entry("Deploys", ELSEWHERE, 2) };
    let third = Entry { version: 3, updated_at: Some(moment(5)), ..second.clone() };
    let change = |before: Option<(u64, &Entry)>, after: Option<&Entry>| Change {
        entity_type: EntityType::Entry,
        id: id(1),
        before: before.map(|(tx, entry)| Version { tx_id: TxId(tx), record: Record::Entry(entry.clone()) }),
        after: after.map(|entry| Record::Entry(entry.clone())),
    };
    let undo = |number, of, changes| Transaction { undoes: vec![TxId(of)], ..transaction(number, changes) };
    let places = [namespace("acme"), scope(2, 3, DEFAULT, &[]), scope(3, 3, "web", &[])];
    let site = scope(3, 3, "site", &[]).again(2, moment(8));
    let closed = |number: u64, tx: u64, record: &Record| Change {
        entity_type: record.entity_type(),
        id: id(number),
        before: Some(Version { tx_id: TxId(tx), record: record.clone() }),
        after: None,
    };
    vec![
        transaction(1, vec![change(None, Some(&first))]),
        transaction(2, vec![change(Some((1, &first)), Some(&second))]),
        transaction(3, vec![created(2, Record::Triple(triple("a", "is", "b")))]),
        transaction(4, vec![change(Some((2, &second)), None)]),
        undo(5, 4, vec![change(None, Some(&third))]),
        undo(6, 5, vec![change(Some((5, &third)), None)]),
        transaction(7, (3..).zip(places.clone()).map(|(number, place)| created(number, place)).collect()),
        transaction(8, vec![Change { after: Some(site.clone()), ..closed(5, 7, &places[2]) }]),
        transaction(9, vec![closed(3, 7, &places[0]), closed(4, 7, &places[1]), closed(5, 8, &site)]),
    ]
}

/// The answers to all questions as of one transaction.
#[derive(Debug, Default, PartialEq)]
struct StoreState {
    transactions: Vec<Transaction>,
    records: Vec<Stored>,
    entries: Vec<Stored>,
    triples: Vec<Stored>,
    counts: (u64, u64),
    places: Vec<Stored>,
    closures: Vec<ScopeId>,
    names: ScopeNames,
}

impl StoreState {
    fn at(reader: &dyn Reader, at: TxId) -> StoreState {
        let scopes = &[HERE, ELSEWHERE];
        let entries = EntryFilter { scopes, at, visible_at: None };
        let triples = TripleFilter { scopes, at, subject: None, predicate: None, object: None };
        let mut seen = StoreState {
            entries: reader.entries(&entries, ALL).expect("a page"),
            triples: reader.triples(&triples, ALL).expect("a page"),
            counts: (
                reader.count_entries(&entries).expect("a count"),
                reader.count_triples(&triples).expect("a count"),
            ),
            names: reader.scope_names(&[ELSEWHERE, ScopeId(3)], at).expect("names"),
            ..StoreState::default()
        };
        for scope in [ELSEWHERE, ScopeId(3)] {
            seen.closures.extend(reader.closure(scope, at).expect("a closure"));
        }
        for number in 1..=at.0 {
            seen.transactions.extend(reader.transaction(TxId(number), at, View::WHOLE).expect("an answer"));
        }
        for entity_type in EntityType::ALL {
            for number in 1..=5 {
                seen.records.extend(reader.record(entity_type, id(number), at).expect("an answer"));
            }
        }
        for entity_type in [EntityType::Namespace, EntityType::Scope] {
            seen.places.extend(reader.live(entity_type, at).expect("places"));
        }
        seen
    }
}

fn assert_sound(backend: &dyn Backend, transactions: u64) {
    let mut damages = Vec::new();
    let verified = backend.verify(&mut |damage| damages.push(damage)).expect("the store can be verified");
    assert_eq!(damages, []);
    assert_eq!(verified.transactions, transactions);
}

fn reader(backend: &dyn Backend) -> Box<dyn Reader + '_> {
    backend.reader().expect("a reader")
}

fn commit(backend: &dyn Backend, transactions: &[Transaction]) {
    let mut pending = backend.begin().expect("a write begins");
    for tx in transactions {
        pending.append(tx).expect("it is appended");
    }
    pending.commit().expect("it is committed");
}

fn transaction(number: u64, changes: Vec<Change>) -> Transaction {
    Transaction {
        id: TxId(number),
        at: moment(number as i64),
        actor: "tester".into(),
        origin: "here".into(),
        tool: "test".to_owned(),
        undoes: Vec::new(),
        undone_by: None,
        changes,
        left_out: 0,
    }
}

fn created(number: u64, record: Record) -> Change {
    Change { entity_type: record.entity_type(), id: id(number), before: None, after: Some(record) }
}

fn entry(topic: &str, scope: ScopeId, version: u32) -> Entry {
    Entry {
        scope,
        topic: topic.to_owned(),
        content: format!("about {topic}"),
        context: None,
        tags: Vec::new(),
        task_sizes: Vec::new(),
        source: None,
        actor: "tester".to_owned(),
        confidence: None,
        valid_from: None,
        valid_to: None,
        status: Status::Active,
        pinned: false,
        follows: None,
        version,
        recorded_at: moment(0),
        updated_at: None,
        purged: None,
    }
}

fn triple(subject: &str, predicate: &str, object: &str) -> Triple {
    Triple {
        scope: HERE,
        subject: subject.to_owned(),
        predicate: predicate.to_owned(),
        object: object.to_owned(),
        source: None,
        actor: "tester".to_owned(),
        confidence: None,
        version: 1,
        recorded_at: moment(0),
        updated_at: None,
        purged: None,
    }
}

fn remembered(number: i64) -> Remembered {
    Remembered {
        tool: "store".to_owned(),
        digest: format!("digest {number}"),
        reply: format!("reply {number}"),
        at: moment(number),
    }
}

fn id(number: u64) -> Id {
    Id::from_bits(scrambled(number))
}

fn moment(seconds: i64) -> Timestamp {
    fixed_start() + SignedDuration::from_secs(seconds)
}
