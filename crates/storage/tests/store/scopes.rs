//! Scopes that other processes change between the look-up of a scope and a write into it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use kenning_model::{Id, Right, ScopeId, ScopeName, Transaction, TxId};
use kenning_storage::{
    EntryFilter, EntryPatch, Error, Missing, NamespacePatch, NewEntry, NewNamespace, NewScope, NewTriple,
    OnConflict, Request, ScopePatch, Sources, Storage, TripleFilter, UndoTarget, UndoWish, Write, find_scope,
};
use kenning_testkit::{TempStore, fixed_sources, scrambled};

#[test]
fn a_write_into_a_scope_that_went_meanwhile_is_refused_and_leaves_nothing() {
    let store = TempStore::new();
    let [mine, other] = [0, 1].map(|process| open(&store, process));
    make_namespace(&mine, "acme");
    make_scope(&mine, "acme:web");
    let outside = wrote(&mine, entry_in(ScopeId::GLOBAL_DEFAULT)).changes[0].id;
    let scope = scope_of(&mine, "acme:web");
    wrote(&other, Write::DeleteScope { name: name("acme:web") });
    let before = head(&mine);
    let moved = EntryPatch { scope: Some(scope), ..EntryPatch::default() };
    let late = vec![
        entry_in(scope),
        Write::StoreAll(vec![new_entry(ScopeId::GLOBAL_DEFAULT), new_entry(scope)]),
        Write::Update { id: outside, patch: moved, expected_version: None },
        relation_in(scope),
    ];
    for write in late {
        let error = commit(&mine, write).expect_err("the scope is gone");
        assert!(matches!(&error, Error::Unsound { what } if what.contains("`acme:web`")), "{error:?}");
    }
    assert_eq!(head(&mine), before);
    check_sound(&mine);
}

#[test]
fn what_is_written_while_its_scope_is_deleted_is_in_it_before_or_not_at_all() {
    const ROUNDS: usize = 20;
    const WRITES: usize = 6;
    let store = TempStore::in_memory();
    let [mine, other] = [0, 1].map(|process| open(&store, process));
    make_namespace(&mine, "acme");
    let (mut written, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let text = format!("acme:round-{round}");
        make_scope(&mine, &text);
        let scope = scope_of(&mine, &text);
        let start = Barrier::new(3);
        std::thread::scope(|threads| {
            // Two threads of one process share commits; the other process makes its own.
            let write = |storage| {
                start.wait();
                (0..WRITES).map(|_| commit(storage, entry_in(scope))).collect::<Vec<_>>()
            };
            let writers = [&mine, &other].map(|storage| threads.spawn(move || write(storage)));
            start.wait();
            wrote(&mine, Write::DeleteScope { name: name(&text) });
            for outcome in writers.into_iter().flat_map(|writer| writer.join().expect("a writer ends")) {
                match outcome {
                    Ok(_) => written += 1,
                    Err(Error::Unsound { .. }) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        assert_eq!(count_in(&mine, scope), 0, "the scope {round} is gone with all that was in it");
    }
    assert_eq!(written + refused, ROUNDS * 2 * WRITES);
    assert_eq!(head(&mine).0 as usize, 1 + 2 * ROUNDS + written, "what was refused left nothing");
    check_sound(&mine);
}

#[test]
fn of_two_processes_that_make_one_name_one_is_told_that_it_is_taken() {
    const ROUNDS: usize = 20;
    let store = TempStore::in_memory();
    let processes = [0, 1].map(|process| open(&store, process));
    make_namespace(&processes[0], "acme");
    for round in 0..ROUNDS {
        let name_of_round = format!("round-{round}");
        let namespace = || Write::CreateNamespace(new_namespace(&name_of_round));
        let scope = || Write::CreateScope(new_scope(&format!("acme:{name_of_round}")));
        for write in [&namespace as &(dyn Fn() -> Write + Sync), &scope] {
            let start = Barrier::new(processes.len());
            let outcomes = std::thread::scope(|threads| {
                let makers = processes.each_ref().map(|storage| {
                    let start = &start;
                    threads.spawn(move || {
                        start.wait();
                        commit(storage, write())
                    })
                });
                makers.map(|maker| maker.join().expect("a maker ends"))
            });
            let lost = match outcomes {
                [Ok(_), lost] | [lost, Ok(_)] => lost,
                neither => panic!("nobody made it: {neither:?}"),
            };
            assert!(matches!(lost, Err(Error::NameTaken { .. })), "{lost:?}");
        }
    }
    assert_eq!(head(&processes[0]), TxId(1 + 2 * ROUNDS as u64));
    check_sound(&processes[0]);
}

#[test]
fn the_number_of_a_scope_that_is_gone_is_never_given_again() {
    let store = TempStore::new();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    let made = |storage: &Storage, text: &str| {
        make_scope(storage, text);
        scope_of(storage, text).0
    };
    let mut numbers = vec![scope_of(&storage, "acme:default").0, made(&storage, "acme:web")];
    wrote(&storage, Write::DeleteScope { name: name("acme:web") });
    numbers.push(made(&storage, "acme:web"));
    wrote(&storage, undo(head(&storage)));
    numbers.push(made(&storage, "acme:web"));
    let deletion = wrote(&storage, Write::DeleteNamespace { name: "acme".to_owned() }).id;
    make_namespace(&storage, "emca");
    numbers.push(scope_of(&storage, "emca:default").0);
    drop(storage);
    let storage = open(&store, 1);
    numbers.push(made(&storage, "emca:web"));
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
    wrote(&storage, undo(deletion));
    assert_eq!(["acme:default", "acme:web"].map(|text| scope_of(&storage, text).0), [2, 5]);
    check_sound(&storage);
}

#[test]
fn a_new_scope_is_planned_from_those_alone_that_it_inherits_from() {
    let store = TempStore::in_memory();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    (0..20).for_each(|number| drop(make_scope(&storage, &format!("acme:project-{number}"))));
    let below = |text: &str, parents: &[&str]| {
        let parents = parents.iter().map(|parent| name(parent)).collect();
        Write::CreateScope(NewScope { parents, ..new_scope(text) })
    };
    wrote(&storage, below("acme:left", &["acme:project-3"]));
    wrote(&storage, below("acme:right", &["acme:project-4", "acme:project-3"]));
    let write = below("acme:web", &["acme:left", "acme:right"]);
    let (principal, tool) = (kenning_model::Principal::owner("tester", "tester").into(), "test".to_owned());
    let made = storage.commit(Request { principal, tool, write, keyed: None });
    let tree = made.expect("the scope is made").tree.expect("the scopes are told");
    let names: Vec<String> = tree.names().0.into_values().map(|name| name.to_string()).collect();
    let near = ["acme:default", "acme:left", "acme:project-3", "acme:project-4", "acme:right", "acme:web"];
    let mut read: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| *name != "global:default").collect();
    read.sort_unstable();
    assert_eq!(read, near);
    let sees = ["web", "left", "right", "project-3", "project-4", "default"];
    let mut sees: Vec<ScopeId> =
        sees.iter().map(|name| scope_of(&storage, &format!("acme:{name}"))).collect();
    sees.push(ScopeId::GLOBAL_DEFAULT);
    let reader = storage.reader().expect("the store can be read");
    assert_eq!(reader.closure(sees[0], head(&storage)).expect("a closure"), sees);
    drop(reader);
    check_sound(&storage);
}

#[test]
fn a_scope_that_is_gone_tells_what_brings_it_back_by_whichever_name_it_is_asked_for() {
    let store = TempStore::new();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    make_scope(&storage, "acme:web");
    let patch = ScopePatch { name: Some(name("acme:site")), ..ScopePatch::default() };
    wrote(&storage, Write::UpdateScope { name: name("acme:web"), patch });
    let patch = NamespacePatch { name: Some("emca".to_owned()), description: None };
    wrote(&storage, Write::UpdateNamespace { name: "acme".to_owned(), patch });
    let deletion = wrote(&storage, Write::DeleteScope { name: name("emca:site") }).id;
    for text in ["acme:web", "acme:site", "emca:site"] {
        let reader = storage.reader().expect("a reader");
        let error = find_scope(&*reader, &name(text), head(&storage), &kenning_storage::Reach::Everything)
            .expect_err("it is gone");
        let is_told = |missing: &Missing| *missing == Missing::Deleted { by: deletion };
        assert!(matches!(&error, Error::UnknownScope { missing, .. } if is_told(missing)), "{error:?}");
    }
    wrote(&storage, undo(deletion));
    assert_eq!(scope_of(&storage, "emca:site"), ScopeId(3));
    // Every former name of the scope leads to it, until another scope gets that name.
    for text in ["acme:web", "acme:site"] {
        assert_eq!(scope_of(&storage, text), ScopeId(3), "{text}");
    }
    make_namespace(&storage, "acme");
    make_scope(&storage, "acme:web");
    assert_ne!(scope_of(&storage, "acme:web"), ScopeId(3));
    assert_eq!(scope_of(&storage, "acme:site"), ScopeId(3));
}

#[test]
fn whoever_may_delete_a_namespace_may_take_that_back() {
    let store = TempStore::new();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    let default = scope_of(&storage, "acme:default");
    wrote(&storage, entry_in(default));
    let reader = storage.reader().expect("a reader");
    let acme = reader.namespace_once_named("acme").expect("an answer").expect("the namespace is there");
    drop(reader);
    let administrator = |write: Write| {
        let principal = kenning_model::Principal::confined("member", "member", [(acme, Right::Admin)].into());
        let request = Request { principal: principal.into(), tool: "test".to_owned(), write, keyed: None };
        storage.commit(request).map(|done| done.tx)
    };
    let delete = || Write::DeleteNamespace { name: "acme".to_owned() };
    let deletion = administrator(delete()).expect("an administrator may delete it");
    administrator(undo(deletion.id)).expect("and have it back");
    assert_eq!(count_in(&storage, default), 1);
    // Another name is for the owner, and so is a namespace of the same name.
    let patch = NamespacePatch { name: Some("emca".to_owned()), description: None };
    let rename = Write::UpdateNamespace { name: "acme".to_owned(), patch };
    let new = Write::CreateNamespace(new_namespace("more"));
    for write in [rename, new] {
        let error = administrator(write).expect_err("that is for the owner");
        assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    }
    let deletion = administrator(delete()).expect("an administrator may delete it");
    make_namespace(&storage, "acme");
    let error = administrator(undo(deletion.id)).expect_err("the name is taken");
    assert!(matches!(error, Error::Unsound { .. }), "{error:?}");
    check_sound(&storage);
}

/// Opens the store as one of several processes, each of which draws other ids.
pub fn open(store: &TempStore, process: u64) -> Storage {
    let drawn = AtomicU64::new(process << 32);
    let id = Arc::new(move || Id::from_bits(scrambled(drawn.fetch_add(1, Ordering::Relaxed))));
    Storage::open(store.path(), Sources { id, ..fixed_sources() }).expect("the store opens")
}

pub fn commit(storage: &Storage, write: Write) -> Result<Transaction, Error> {
    commit_as(storage, "tester", write)
}

pub fn commit_as(storage: &Storage, who: &str, write: Write) -> Result<Transaction, Error> {
    let (principal, tool) = (kenning_model::Principal::owner(who, who).into(), "test".to_owned());
    storage.commit(Request { principal, tool, write, keyed: None }).map(|done| done.tx)
}

pub fn wrote(storage: &Storage, write: Write) -> Transaction {
    commit(storage, write).expect("it is written")
}

pub fn make_namespace(storage: &Storage, name: &str) -> Transaction {
    wrote(storage, Write::CreateNamespace(new_namespace(name)))
}

pub fn make_scope(storage: &Storage, text: &str) -> Transaction {
    wrote(storage, Write::CreateScope(new_scope(text)))
}

pub fn new_namespace(name: &str) -> NewNamespace {
    NewNamespace { name: name.to_owned(), description: "for a test".to_owned() }
}

pub fn new_scope(text: &str) -> NewScope {
    NewScope { name: name(text), description: "for a test".to_owned(), parents: Vec::new() }
}

pub fn new_entry(scope: ScopeId) -> NewEntry {
    NewEntry::new(scope, "deploys", "Blue-green.")
}

pub fn entry_in(scope: ScopeId) -> Write {
    Write::Store(new_entry(scope))
}

pub fn relation_in(scope: ScopeId) -> Write {
    let [subject, predicate, object] = ["api", "runs on", "nomad"].map(str::to_owned);
    let triple = NewTriple { scope, subject, predicate, object, source: None, confidence: None };
    Write::Relate { triple, on_conflict: OnConflict::KeepBoth }
}

pub fn undo(tx: TxId) -> Write {
    Write::Undo(UndoWish { target: UndoTarget::Tx(tx), any_actor: false, within: None })
}

pub fn name(text: &str) -> ScopeName {
    ScopeName::parse(text).expect("two names")
}

pub fn scope_of(storage: &Storage, text: &str) -> ScopeId {
    let reader = storage.reader().expect("a reader");
    find_scope(&*reader, &name(text), head(storage), &kenning_storage::Reach::Everything)
        .expect("the scope is there")
}

pub fn count_in(storage: &Storage, scope: ScopeId) -> u64 {
    let (reader, scopes, at) = (storage.reader().expect("a reader"), &[scope], head(storage));
    let entries = EntryFilter { scopes, at, visible_at: None };
    let triples = TripleFilter { scopes, at, subject: None, predicate: None, object: None };
    reader.count_entries(&entries).expect("a count") + reader.count_triples(&triples).expect("a count")
}

pub fn head(storage: &Storage) -> TxId {
    storage.reader().and_then(|reader| reader.head()).expect("a head")
}

pub fn check_sound(storage: &Storage) {
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("the store can be verified");
    assert_eq!(damages, []);
}
