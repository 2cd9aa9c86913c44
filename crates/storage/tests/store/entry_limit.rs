//! The limit on the entries of a namespace: what it refuses, what it never refuses, and that several writers
//! keep it together. On both backends.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kenning_model::{EntityType, Id, Principal, Right, ScopeId, Transaction};
use kenning_storage::{
    Backend, Batch, Embedded, EntryDeletion, EntryLimit, EntryPatch, Error, NewEntry, Request, Sources,
    Storage, UndoTarget, UndoWish, Write,
};
use kenning_testkit::{TempStore, fixed_sources, scrambled};

use crate::scopes::{
    check_sound, commit, count_in, entry_in, head, make_namespace, make_scope, name, new_entry, relation_in,
    scope_of, undo, wrote,
};

/// Opens a store as the process with this number, and with a limit of its own.
type Open<'a> = dyn Fn(u64) -> (Storage, Arc<EntryLimit>) + 'a;

fn limited(backend: Box<dyn Backend>, process: u64) -> (Storage, Arc<EntryLimit>) {
    let drawn = AtomicU64::new(process << 32);
    let id = Arc::new(move || Id::from_bits(scrambled(drawn.fetch_add(1, Ordering::Relaxed))));
    let limit = Arc::new(EntryLimit::default());
    let storage = Storage::on(backend, Sources { id, ..fixed_sources() });
    (storage.with_entry_limit(limit.clone()), limit)
}

fn on_embedded(check: impl Fn(&Open<'_>)) {
    let store = TempStore::new();
    check(&|process| limited(Box::new(Embedded::open(store.path()).expect("the store opens")), process));
}

#[test]
fn a_full_namespace_takes_no_more_entries() {
    on_embedded(a_full_namespace);
}

#[test]
fn a_deletion_in_a_full_namespace_is_taken_back_by_administrators() {
    on_embedded(taking_back);
}

#[test]
fn writers_of_several_processes_keep_the_limit_together() {
    on_embedded(several_writers);
}

mod database {
    use kenning_storage::Postgres;

    use super::{Open, limited};
    use crate::database::{database, new_store};

    fn on_database(check: impl Fn(&Open<'_>)) {
        let Some(url) = database() else { return };
        let url = new_store(&url);
        check(&|process| limited(Box::new(Postgres::open(&url).expect("the store opens")), process));
    }

    #[test]
    fn a_full_namespace_takes_no_more_entries() {
        on_database(super::a_full_namespace);
    }

    #[test]
    fn a_deletion_in_a_full_namespace_is_taken_back_by_administrators() {
        on_database(super::taking_back);
    }

    #[test]
    fn writers_of_several_processes_keep_the_limit_together() {
        on_database(super::several_writers);
    }
}

fn set(limit: &EntryLimit, max: u64) {
    limit.set(NonZeroU64::new(max));
}

/// A write that the limit refuses: how many entries the namespace has, how many would be added, and the limit.
fn refused(storage: &Storage, write: Write) -> (String, u64, u64, u64) {
    let before = head(storage);
    let error = commit(storage, write).expect_err("there are too many entries");
    assert_eq!(head(storage), before, "nothing was written");
    match error {
        Error::TooManyEntries { namespace, present, added, max } => (namespace, present, added, max),
        error => panic!("{error:?}"),
    }
}

fn of_acme(present: u64, added: u64, max: u64) -> (String, u64, u64, u64) {
    ("acme".to_owned(), present, added, max)
}

fn a_full_namespace(open: &Open<'_>) {
    let (storage, limit) = open(0);
    make_namespace(&storage, "acme");
    make_scope(&storage, "acme:web");
    make_namespace(&storage, "other");
    let [web, default, other] =
        ["acme:web", "acme:default", "other:default"].map(|text| scope_of(&storage, text));
    set(&limit, 3);
    let first = wrote(&storage, entry_in(web)).changes[0].id;
    let second = wrote(&storage, entry_in(default)).changes[0].id;
    // A list is written as a whole or not at all.
    assert_eq!(refused(&storage, Write::StoreAll(vec![new_entry(web), new_entry(web)])), of_acme(2, 2, 3));
    wrote(&storage, entry_in(web));
    assert_eq!(refused(&storage, entry_in(default)), of_acme(3, 1, 3));
    // The other namespaces, facts, and the built-in namespace have nothing to do with it.
    wrote(&storage, relation_in(web));
    wrote(&storage, entry_in(ScopeId::GLOBAL_DEFAULT));
    let elsewhere = wrote(&storage, entry_in(other)).changes[0].id;

    // What adds nothing goes on at the limit: corrections, moves within the namespace, an exchange.
    let update = |id, scope| {
        let patch = EntryPatch { scope, content: Some("Canary.".to_owned()), ..EntryPatch::default() };
        Write::Update { id, patch, expected_version: None }
    };
    wrote(&storage, update(first, None));
    wrote(&storage, update(second, Some(web)));
    assert_eq!(refused(&storage, update(elsewhere, Some(web))), of_acme(3, 1, 3));
    let exchange = |entries: Vec<NewEntry>, deleted: &[(Id, u32)]| {
        let deletion = |(id, expected_version): &(Id, u32)| EntryDeletion {
            id: *id,
            expected_version: *expected_version,
        };
        let deletions = deleted.iter().map(deletion).collect();
        Write::Batch(Box::new(Batch { entries, deletions, ..Batch::default() }))
    };
    wrote(&storage, exchange(vec![new_entry(default)], &[(first, 2)]));
    let two = vec![new_entry(web), new_entry(web)];
    assert_eq!(refused(&storage, exchange(two, &[(second, 2)])), of_acme(3, 1, 3));
    wrote(&storage, Write::Delete { entity_type: EntityType::Entry, id: second });
    wrote(&storage, update(elsewhere, Some(web)));
    assert_eq!(refused(&storage, entry_in(web)), of_acme(3, 1, 3));

    // A limit below what there is refuses only what adds to it.
    set(&limit, 1);
    wrote(&storage, update(elsewhere, None));
    wrote(&storage, Write::Delete { entity_type: EntityType::Entry, id: elsewhere });
    assert_eq!(refused(&storage, entry_in(web)), of_acme(2, 1, 1));
    limit.set(None);
    wrote(&storage, Write::StoreAll(vec![new_entry(web), new_entry(default)]));
    set(&limit, 2);
    for _ in 0..2 {
        commit(&storage, entry_in(ScopeId::GLOBAL_DEFAULT)).map(drop).unwrap_or_else(|error| {
            let Error::TooManyEntries { namespace, .. } = error else { panic!("{error:?}") };
            assert_eq!(namespace, "global");
        });
    }
    assert_eq!(count_in(&storage, ScopeId::GLOBAL_DEFAULT), 2);
    check_sound(&storage);
}

fn taking_back(open: &Open<'_>) {
    let (storage, limit) = open(0);
    make_namespace(&storage, "acme");
    make_scope(&storage, "acme:web");
    let (web, acme) = (scope_of(&storage, "acme:web"), namespace_of(&storage, "acme"));
    let with = |right: Right, write: Write| -> Result<Transaction, Error> {
        let rights = [(acme, right)].into();
        let principal = Arc::new(Principal::confined("member", "member", rights));
        storage.commit(Request { principal, tool: "test".to_owned(), write, keyed: None }).map(|done| done.tx)
    };
    set(&limit, 2);
    let id = with(Right::Write, entry_in(web)).expect("there is room").changes[0].id;
    with(Right::Write, entry_in(web)).expect("there is room");
    let deletion =
        with(Right::Write, Write::Delete { entity_type: EntityType::Entry, id }).expect("a deletion");
    with(Right::Write, entry_in(web)).expect("there is room again");
    // Otherwise whoever may write could fill the namespace without end: delete, fill up, undo.
    for write in [undo(deletion.id), Write::Restore { entity_type: EntityType::Entry, id }] {
        let error = with(Right::Write, write).expect_err("there are too many entries");
        assert!(matches!(error, Error::TooManyEntries { present: 2, added: 1, max: 2, .. }), "{error:?}");
    }
    let plan = |right| {
        let principal = Principal::confined("member", "member", [(acme, right)].into());
        let wish = UndoWish { target: UndoTarget::Tx(deletion.id), any_actor: false, within: None };
        storage
            .plan_undo(&kenning_storage::UndoPlan { wish, principal: &principal })
            .map(|tx| tx.changes.len())
    };
    assert!(matches!(plan(Right::Write), Err(Error::TooManyEntries { .. })), "the preview says so too");
    assert_eq!(plan(Right::Admin).expect("an administrator may"), 1);
    with(Right::Admin, undo(deletion.id)).expect("an administrator may");
    assert_eq!(count_in(&storage, web), 3);
    // A scope comes back with its entries, and deleting one is never refused.
    let gone = wrote(&storage, Write::DeleteScope { name: name("acme:web") });
    assert_eq!(count_in(&storage, web), 0);
    let default = scope_of(&storage, "acme:default");
    wrote(&storage, Write::StoreAll(vec![new_entry(default), new_entry(default)]));
    wrote(&storage, undo(gone.id));
    assert_eq!((count_in(&storage, web), count_in(&storage, default)), (3, 2));
    assert_eq!(refused(&storage, entry_in(web)), of_acme(5, 1, 2));
    check_sound(&storage);
}

fn several_writers(open: &Open<'_>) {
    const MAX: u64 = 25;
    let processes = [open(0), open(1)];
    let (storage, _) = &processes[0];
    make_namespace(storage, "acme");
    let scope = scope_of(storage, "acme:default");
    processes.iter().for_each(|(_, limit)| set(limit, MAX));
    let stored: u64 = std::thread::scope(|threads| {
        let write =
            |storage: &Storage| (0..10).filter(|_| commit(storage, entry_in(scope)).is_ok()).count() as u64;
        let writers: Vec<_> = processes
            .iter()
            .cycle()
            .take(8)
            .map(|(storage, _)| threads.spawn(move || write(storage)))
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).sum()
    });
    assert_eq!((stored, count_in(storage, scope)), (MAX, MAX));
    check_sound(storage);
}

fn namespace_of(storage: &Storage, name: &str) -> Id {
    let reader = storage.reader().expect("a reader");
    reader.namespace_once_named(name).expect("an answer").expect("the namespace is there")
}
