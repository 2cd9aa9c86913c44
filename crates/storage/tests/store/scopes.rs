//! Scopes by name, and what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kenning_model::{Id, ScopeId, ScopeName, Transaction, TxId};
use kenning_storage::{
    EntryFilter, Error, Missing, NamespacePatch, NewEntry, NewNamespace, NewScope, Request, ScopePatch,
    Sources, Storage, TripleFilter, UndoTarget, UndoWish, Write, find_scope,
};
use kenning_testkit::{TempStore, fixed_sources, scrambled};

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
        let error = find_scope(&*reader, &name(text), head(&storage)).expect_err("it is gone");
        let is_told = |missing: &Missing| *missing == Missing::Deleted { by: deletion };
        assert!(matches!(&error, Error::UnknownScope { missing, .. } if is_told(missing)), "{error:?}");
    }
    wrote(&storage, undo(deletion));
    assert_eq!(scope_of(&storage, "emca:site"), ScopeId(3));
}

/// A store as one of several processes opens it. No two draw the same ids.
pub fn open(store: &TempStore, process: u64) -> Storage {
    let drawn = AtomicU64::new(process << 32);
    let id = Arc::new(move || Id::from_bits(scrambled(drawn.fetch_add(1, Ordering::Relaxed))));
    Storage::open(store.path(), Sources { id, ..fixed_sources() }).expect("the store opens")
}

pub fn commit(storage: &Storage, write: Write) -> Result<Transaction, Error> {
    commit_as(storage, "tester", write)
}

pub fn commit_as(storage: &Storage, who: &str, write: Write) -> Result<Transaction, Error> {
    let (actor, origin, tool) = (who.to_owned(), who.to_owned(), "test".to_owned());
    storage.commit(Request { actor, origin, tool, write, keyed: None }).map(|done| done.tx)
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

pub fn undo(tx: TxId) -> Write {
    Write::Undo(UndoWish { target: UndoTarget::Tx(tx), any_actor: false, within: None })
}

pub fn name(text: &str) -> ScopeName {
    ScopeName::parse(text).expect("two names")
}

pub fn scope_of(storage: &Storage, text: &str) -> ScopeId {
    let reader = storage.reader().expect("a reader");
    find_scope(&*reader, &name(text), head(storage)).expect("the scope is there")
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
