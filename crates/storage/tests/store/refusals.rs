//! Stores that this program must not open are refused and left unchanged, and stores of older versions are
//! migrated.

use std::fs;
use std::path::Path;

use kenning_model::{EntityType, ScopeId, TxId};
use kenning_storage::{
    DocumentKinds, Embedded, EntryFilter, Error, Follows, NewDocument, NewEntry, NewTriple, OnConflict,
    Request, STORE_FILE, Storage, Touched, Write,
};
use kenning_testkit::TempStore;
use kenning_testkit::damage::closed_store;
use rusqlite::Connection;

#[test]
fn a_newer_store_is_refused_and_left_untouched() {
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    fs::write(&path, closed_store()).expect("the store is written");
    {
        let conn = Connection::open(&path).expect("the store opens");
        conn.pragma_update(None, "user_version", 99).expect("the version is set");
    }
    let before = fs::read(&path).expect("the store is read");
    let error = refused(store.path());
    assert!(matches!(error, Error::NewerSchema { found: 99, known: 7 }), "{error:?}");
    assert_eq!(files(store.path()), [STORE_FILE]);
    assert!(fs::read(&path).expect("the store is read") == before, "the newer store was changed");
}

#[test]
fn a_store_from_before_there_were_scopes_is_taken_over() {
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    {
        let storage = store.storage();
        let write = |write| {
            let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "test".into());
            storage.commit(Request { principal, tool, write, keyed: None }).expect("it is written").tx
        };
        let scope = ScopeId::GLOBAL_DEFAULT;
        let id = write(Write::Store(NewEntry::new(scope, "deploys", "Blue-green."))).changes[0].id;
        let fact = |object: &str| NewTriple {
            scope,
            subject: "api".into(),
            predicate: "runs on".into(),
            object: object.into(),
            source: None,
            confidence: None,
        };
        write(Write::Relate { triple: fact("nomad"), on_conflict: OnConflict::KeepBoth });
        write(Write::Relate { triple: fact("kubernetes"), on_conflict: OnConflict::Replace });
        write(Write::Delete { entity_type: EntityType::Entry, id });
    }
    {
        let conn = Connection::open(&path).expect("the store opens");
        let before = format!(
            "{WITHOUT_PINNED}; DROP TABLE namespace; DROP TABLE scope; DROP TABLE closure; DROP TABLE touched; DROP TABLE document; DROP TABLE section; PRAGMA user_version = 1"
        );
        conn.execute_batch(&before).expect("it is as it was");
    }
    // SQLite itself has just written to the file, without checksums of pages. The first process that opens
    // the store repairs that.
    drop(store.storage());
    let storage = store.storage();
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("it can be verified");
    assert_eq!(damages, []);
    let seen = [ScopeId::GLOBAL_DEFAULT];
    let touched = Touched {
        reach: &kenning_storage::Reach::Everything,
        entity_type: Some(EntityType::Entry),
        scopes: Some(&seen),
        own: None,
        range: TxId(1)..TxId(9),
    };
    let reader = storage.reader().expect("a reader");
    assert_eq!(reader.transactions_with(&touched, 0..9).expect("a page"), [TxId(4), TxId(1)]);
}

#[test]
fn a_store_from_before_there_were_patterns_is_taken_over() {
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    {
        let storage = store.storage();
        let [source, page, title] = ["docs", "guide.md", "Guide"].map(str::to_owned);
        let document = NewDocument {
            scope: ScopeId::GLOBAL_DEFAULT,
            doc_tag: source.clone(),
            default_tag: source.clone(),
            source,
            path: page,
            title,
            tags: Vec::new(),
            repository: None,
            environment: None,
            updated: None,
            root: String::new(),
            catalogue: false,
            pattern: None,
            hash: "hash".to_owned(),
            sections: Vec::new(),
        };
        let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "ingest".into());
        let write = Write::PutDocument(Box::new(document));
        storage.commit(Request { principal, tool, write, keyed: None }).expect("it is written");
    }
    {
        let conn = Connection::open(&path).expect("the store opens");
        let before = format!(
            "{WITHOUT_PINNED}; DROP INDEX document_pattern; ALTER TABLE document DROP COLUMN pattern; PRAGMA user_version = 3"
        );
        conn.execute_batch(&before).expect("it is as it was");
    }
    // SQLite itself has just written to the file, without checksums of pages. The first process that opens
    // the store repairs that.
    drop(store.storage());
    let storage = store.storage();
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("it can be verified");
    assert_eq!(damages, []);
    let kinds =
        storage.reader().and_then(|reader| reader.document_kinds(TxId(1), None)).expect("it is known");
    assert_eq!(kinds, DocumentKinds { plain: true, ..DocumentKinds::default() });
}

/// Takes a store back to the version before entries could be pinned.
const WITHOUT_PINNED: &str =
    "DROP TABLE tally; DROP INDEX touched_spread; ALTER TABLE touched DROP COLUMN spread;
    DROP INDEX entry_scope; DROP INDEX entry_window; DROP INDEX triple_scope; DROP INDEX triple_predicate;
    CREATE INDEX triple_predicate ON triple (predicate_key);
    DROP INDEX entry_pinned; ALTER TABLE entry DROP COLUMN pinned; ALTER TABLE touched DROP COLUMN origin";

#[test]
fn a_store_from_before_entries_were_pinned_is_taken_over() {
    let store = TempStore::new();
    let scope = ScopeId::GLOBAL_DEFAULT;
    let write = |storage: &Storage, entry| {
        let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "store".into());
        let write = Write::Store(entry);
        storage.commit(Request { principal, tool, write, keyed: None }).expect("it is written").tx
    };
    let old = write(&store.storage(), NewEntry::new(scope, "deploys", "Blue-green.")).changes[0].id;
    {
        let conn = Connection::open(store.path().join(STORE_FILE)).expect("the store opens");
        let body: String =
            conn.query_row("SELECT body FROM log WHERE seq = 1", [], |row| row.get(0)).expect("a row");
        assert!(!body.contains("pinned") && !body.contains("follows"), "the row is as it always was: {body}");
        conn.execute_batch(&format!("{WITHOUT_PINNED}; PRAGMA user_version = 4")).expect("it is as it was");
    }
    // SQLite itself has just written to the file, without checksums of pages. The first process that opens
    // the store repairs that.
    drop(store.storage());
    let storage = store.storage();
    let pinned = NewEntry {
        pinned: true,
        follows: Some(Follows::Entry(old)),
        ..NewEntry::new(scope, "deploys", "Never on Fridays.")
    };
    let new = write(&storage, pinned).changes[0].id;
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("it can be verified");
    assert_eq!(damages, []);
    let reader = storage.reader().expect("a reader");
    let read = |id| reader.record(EntityType::Entry, id, TxId(2)).expect("an answer").expect("a record");
    let read = |id| read(id).record.as_entry().map(|entry| (entry.pinned, entry.follows));
    assert_eq!([read(old), read(new)], [Some((false, None)), Some((true, Some(old)))]);
    let filter = EntryFilter { scopes: &[scope], at: TxId(2), visible_at: None };
    let pinned: Vec<_> =
        reader.pinned(&filter, 9).expect("a list").into_iter().map(|stored| stored.id).collect();
    assert_eq!(pinned, [new]);
}

#[test]
fn another_programs_database_is_refused_and_left_untouched() {
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    {
        let conn = Connection::open(&path).expect("a database opens");
        conn.execute_batch(
            "CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('https://example.com')",
        )
        .expect("the other program writes");
    }
    let before = fs::read(&path).expect("the file is read");
    let error = refused(store.path());
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert_eq!(files(store.path()), [STORE_FILE]);
    assert!(fs::read(&path).expect("the file is read") == before, "another program's database was changed");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_untouched() {
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    let before = "not a database\n".repeat(1000);
    fs::write(&path, &before).expect("the file is written");
    let error = refused(store.path());
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).expect("the file is read"), before);
}

#[cfg(unix)]
#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    for mode in [0o770, 0o707, 0o777, 0o720, 0o702] {
        let store = TempStore::new();
        fs::set_permissions(store.path(), fs::Permissions::from_mode(mode)).expect("the mode is set");
        let error = refused(store.path());
        assert!(matches!(error, Error::Forbidden { .. }), "{mode:o}: {error:?}");
        assert_eq!(files(store.path()), [""; 0], "nothing was created with mode {mode:o}");
    }
    for mode in [0o700, 0o750, 0o755] {
        let store = TempStore::new();
        fs::set_permissions(store.path(), fs::Permissions::from_mode(mode)).expect("the mode is set");
        Embedded::open(store.path()).expect("a directory that only others may read is opened");
    }
}

fn refused(dir: &Path) -> Error {
    Embedded::open(dir).err().expect("the store is refused")
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("the directory is read");
    names.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}
