//! Removing for good: what a selection names, when a token fits, and what is left, on both backends.

use std::sync::atomic::{AtomicU64, Ordering};

use kenning_model::{EntityType, Grants, Id, PURGED_TEXT, Principal, ScopeId, TxId};
use kenning_storage::{
    Author, Embedded, EntryPatch, Error, Keyed, Location, NewDocument, NewEntry, NewSection, NewTriple,
    OnConflict, Postgres, PurgeSelection, Request, Storage, UndoTarget, UndoWish, View, Write,
};
use kenning_testkit::{TempStore, fixed_sources};

use crate::database::{database, new_store};

const CANARY: &str = "canary-7f3a";

struct Written {
    storage: Storage,
    entry: Id,
    triple: Id,
    document: Id,
}

fn owner(actor: &str) -> Principal {
    Principal::owner(actor, "here")
}

impl Written {
    fn on(storage: Storage) -> Written {
        let here = ScopeId(1);
        let new = |topic: &str, content: String| NewEntry::new(here, topic.to_owned(), content);
        let nobody = Id::from_bits(0);
        let mut written = Written { storage, entry: nobody, triple: nobody, document: nobody };
        written.entry =
            written.write("alice", Write::Store(new("secrets", format!("The key is {CANARY}."))))[0];
        written
            .write("bob", Write::StoreAll(vec![new("kept", "Stays.".into()), new("mixed", "Too.".into())]));
        let patch =
            EntryPatch { content: Some(format!("The new key is {CANARY}2.")), ..EntryPatch::default() };
        written.write("bob", Write::Update { id: written.entry, patch, expected_version: None });
        let triple = NewTriple {
            scope: here,
            subject: CANARY.to_owned(),
            predicate: format!("{CANARY} opens"),
            object: "the door".to_owned(),
            source: Some(CANARY.to_owned()),
            confidence: None,
        };
        let relate = Write::Relate { triple, on_conflict: OnConflict::KeepBoth };
        written.triple = written.write("alice", relate)[0];
        written.document = written.put_document("one", &["First", "Second"]);
        written.put_document("two", &["First"]);
        written
    }

    fn write(&self, actor: &str, write: Write) -> Vec<Id> {
        let committed = self.storage.commit(self.request(actor, write)).expect("it is written");
        committed.tx.changes.iter().map(|change| change.id).collect()
    }

    fn request(&self, actor: &str, write: Write) -> Request {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let keyed = Keyed {
            key: format!("key {}", KEYS.fetch_add(1, Ordering::Relaxed)),
            digest: "digest".to_owned(),
            reply: Box::new(|committed| format!("{committed:?}")),
        };
        Request { principal: owner(actor).into(), tool: "test".to_owned(), write, keyed: Some(keyed) }
    }

    fn put_document(&self, hash: &str, headings: &[&str]) -> Id {
        let section = |heading: &&str| NewSection {
            level: 1,
            heading_path: vec![CANARY.to_owned(), (*heading).to_owned()],
            anchor: heading.to_lowercase(),
            text: format!("{heading} of {CANARY}, {hash}."),
            parent: None,
            links: Vec::new(),
            mentions: Vec::new(),
        };
        let new = NewDocument {
            scope: ScopeId(1),
            source: "letters".to_owned(),
            path: format!("{CANARY}.md"),
            title: CANARY.to_owned(),
            doc_tag: "letters".to_owned(),
            tags: vec![CANARY.to_owned()],
            repository: None,
            environment: None,
            updated: None,
            root: String::new(),
            default_tag: String::new(),
            catalogue: false,
            pattern: None,
            hash: hash.to_owned(),
            sections: headings.iter().map(section).collect(),
        };
        self.write("carol", Write::PutDocument(Box::new(new)))[0]
    }

    fn head(&self) -> TxId {
        self.storage.reader().and_then(|reader| reader.head()).expect("a head")
    }

    /// The ids that a selection names, and its token.
    fn plan(&self, selection: &PurgeSelection) -> (Vec<(EntityType, Id, usize)>, String) {
        let (plan, token) = self.storage.plan_purge(selection).expect("there is something");
        (plan.items.iter().map(|item| (item.entity_type, item.id, item.written_by.len())).collect(), token)
    }

    fn purge(&self, selection: &PurgeSelection, token: &str) -> Result<TxId, Error> {
        let purged = self.storage.purge(selection, token, &owner("dora"), |_| Ok(()))?;
        self.storage.backend().scrub()?;
        Ok(purged.tx_id)
    }

    fn verified(&self) {
        let mut damages = Vec::new();
        self.storage.backend().verify(&mut |damage| damages.push(damage)).expect("it can be verified");
        assert_eq!(damages, []);
    }

    /// Everything that the log says.
    fn said(&self) -> String {
        let reader = self.storage.reader().expect("a reader");
        let head = reader.head().expect("a head");
        let ids: Vec<TxId> = (1..=head.0).map(TxId).collect();
        let rows = reader.log_rows(&ids, usize::MAX).expect("rows");
        let transactions = reader.transactions(&ids, head, View::WHOLE).expect("transactions");
        let keys = reader.kept_keys(None, 100).expect("keys");
        format!("{rows:?} {transactions:?} {keys:?}")
    }

    fn undo(&self, tx: TxId) -> Result<Vec<Id>, Error> {
        let wish = UndoWish { target: UndoTarget::Tx(tx), any_actor: true, within: None };
        let committed = self.storage.commit(self.request("alice", Write::Undo(wish)))?;
        Ok(committed.tx.changes.iter().map(|change| change.id).collect())
    }
}

fn on_embedded(check: impl Fn(Written)) {
    let store = TempStore::new();
    let backend = Embedded::open(store.path()).expect("a fresh store opens");
    check(Written::on(Storage::on(Box::new(backend), fixed_sources())));
}

fn on_database(check: impl Fn(Written)) {
    let Some(url) = database() else { return };
    let backend = Postgres::open(&new_store(&url)).expect("a fresh store opens");
    check(Written::on(Storage::on(Box::new(backend), fixed_sources())));
}

#[test]
fn a_selection_is_planned_and_then_removed_for_good() {
    on_embedded(everything_goes);
}

#[test]
fn database_a_selection_is_planned_and_then_removed_for_good() {
    on_database(everything_goes);
}

fn everything_goes(written: Written) {
    let Written { entry, triple, document, .. } = written;
    let of_ids = |ids: &[Id]| PurgeSelection::Ids(ids.to_vec());
    let author = |name: &str| PurgeSelection::By(Author { name: name.to_owned(), since: None });
    let (by_id, _) = written.plan(&of_ids(&[triple, document, entry, entry]));
    let sections: Vec<Id> = by_id.iter().skip(3).map(|(_, id, _)| *id).collect();
    assert_eq!(
        by_id[..3],
        [(EntityType::Entry, entry, 2), (EntityType::Triple, triple, 1), (EntityType::Document, document, 2)]
    );
    assert_eq!(sections.len(), 2, "also the one that the document has no more");
    assert_eq!(written.plan(&PurgeSelection::Source("letters".into())).0, by_id[2..]);
    assert_eq!(written.plan(&author("alice")).0, by_id[..2], "both things that she wrote to");
    assert_eq!(written.plan(&author("carol")).0, by_id[2..], "with all sections");
    for nothing in [author("nobody"), PurgeSelection::Source("other".into()), of_ids(&sections[..1])] {
        assert!(matches!(written.storage.plan_purge(&nothing), Err(Error::Invalid { .. })), "{nothing:?}");
    }
    let unknown = written.storage.plan_purge(&of_ids(&[Id::from_bits(77)]));
    assert!(matches!(unknown, Err(Error::UnknownId { .. })));

    let all = of_ids(&[entry, triple, document]);
    let (_, token) = written.plan(&all);
    let (_, of_another) = written.plan(&of_ids(&[entry]));
    let (head, before) = (written.head(), written.said());
    let confined = Principal { grants: Grants::Namespaces(Default::default()), ..owner("dora") };
    let refused = written.storage.purge(&all, &token, &confined, |_| Ok(()));
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
    for wrong in ["", &of_another, &token[1..]] {
        assert!(matches!(written.purge(&all, wrong), Err(Error::Invalid { .. })), "{wrong}");
    }
    let refused = written.storage.purge(&all, &token, &owner("dora"), |_| Err(Error::OutOfTime));
    assert!(matches!(refused, Err(Error::OutOfTime)), "who can't note it does not do it");
    assert!(written.head() == head && written.said() == before, "and nothing has changed");

    // Somebody writes to one of them meanwhile, and somebody else to another thing.
    let patch = EntryPatch { topic: Some("moved".to_owned()), ..EntryPatch::default() };
    written.write("bob", Write::Update { id: entry, patch, expected_version: None });
    assert!(matches!(written.purge(&all, &token), Err(Error::Invalid { .. })), "there is more of it now");
    let (_, token) = written.plan(&all);
    written.write("bob", Write::Store(NewEntry::new(ScopeId(1), "other", "Another thing.")));
    let tx = written.purge(&all, &token).expect("it is removed");

    let said = written.said();
    assert!(!said.contains(CANARY), "{said}");
    assert!(said.contains("Stays.") && said.contains("Another thing."));
    written.verified();
    let reader = written.storage.reader().expect("a reader");
    let purge = reader.transaction(tx, tx, View::WHOLE).expect("an answer").expect("it is in the history");
    assert_eq!((purge.actor.as_str(), purge.tool.as_str(), purge.changes.len()), ("dora", "purge", 4));
    let first =
        reader.transaction(TxId(1), tx, View::WHOLE).expect("an answer").expect("it is in the history");
    assert_eq!((first.actor.as_str(), first.changes[0].id), ("alice", entry));
    let then = reader.record(EntityType::Entry, entry, TxId(1)).expect("an answer").expect("it was there");
    assert_eq!(then.record.as_entry().map(|entry| entry.content.as_str()), Some(PURGED_TEXT));
    assert_eq!(then.record.tombstone().map(|tombstone| tombstone.by), Some(tx));
    assert!(reader.record(EntityType::Entry, entry, tx).expect("an answer").is_none());
    assert!(matches!(written.purge(&all, &token), Err(Error::Invalid { .. })), "nothing is left");

    // What is gone stays gone, and is not in the way of others.
    for gone in [TxId(1), TxId(3), tx] {
        let refused = written.undo(gone).expect_err("nothing can bring it back").to_string();
        assert!(refused.contains("removed for good"), "{refused}");
    }
    let restore = Write::Restore { entity_type: EntityType::Entry, id: entry };
    assert!(matches!(written.storage.commit(written.request("alice", restore)), Err(Error::Invalid { .. })));
    assert_eq!(written.undo(TxId(2)).expect("what else there is can be undone").len(), 2);
    let newest = UndoWish { target: UndoTarget::Newest(1), any_actor: true, within: None };
    let undone =
        written.storage.commit(written.request("alice", Write::Undo(newest))).expect("the one before it");
    assert_eq!(undone.tx.undoes, [TxId(tx.0 - 1)], "a purge is passed over");

    // The same file may be taken in again; its ids are those that it had.
    let again = written.put_document("one", &["First", "Second"]);
    assert_eq!(again, document);
    assert_eq!(written.plan(&of_ids(&[document])).0.len(), 3);
    written.verified();
}

#[test]
fn a_log_with_tombstones_is_copied_as_it_is() {
    on_embedded(|written| {
        let all = PurgeSelection::Ids(vec![written.entry, written.triple, written.document]);
        let (_, token) = written.plan(&all);
        written.purge(&all, &token).expect("it is removed");
        let other = TempStore::new();
        let copy = Location::Directory(other.path().to_owned()).open(fixed_sources()).expect("a store");
        let migrated =
            kenning_storage::migrate(&written.storage, &copy, &mut |_, _| ()).expect("it is copied");
        assert_eq!(migrated.transactions, written.head().0);
    });
}

/// A process that purges ends before it has removed what the disk still has.
#[test]
fn what_the_disk_still_has_is_known_until_it_is_removed() {
    let store = TempStore::new();
    let contains_canary = || {
        let files =
            std::fs::read_dir(store.path()).expect("a directory").map(|file| file.expect("a file").path());
        files.into_iter().any(|file| {
            let bytes = std::fs::read(&file).expect("readable");
            bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
        })
    };
    {
        let written = Written::on(Storage::open(store.path(), fixed_sources()).expect("a store"));
        let all = PurgeSelection::Ids(vec![written.entry, written.triple, written.document]);
        let (_, token) = written.plan(&all);
        written.storage.purge(&all, &token, &owner("dora"), |_| Ok(())).expect("it is removed from the log");
    }
    assert!(contains_canary(), "the log beside the store has it still");
    let storage = Storage::open(store.path(), fixed_sources()).expect("a store");
    assert!(storage.backend().has_remains().expect("an answer"));
    storage.backend().scrub().expect("it is removed from the disk");
    assert!(!storage.backend().has_remains().expect("an answer"));
    assert!(!contains_canary(), "no file has it");
}
