//! Attacks from outside on the files of a store and on the clock: no acknowledged write is lost, and no
//! answer is wrong.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::SignedDuration;
use kenning_model::{ScopeId, TxId};
use kenning_storage::{
    Applied, Backend, Embedded, EntryFilter, Error, Keyed, NewEntry, Reader, Request, STORE_FILE, Sources,
    Storage, Write, back_up, restore,
};
use kenning_testkit::damage::closed_store;
use kenning_testkit::{TempStore, fixed_sources, fixed_start, scrambled};
use rusqlite::Connection;

use crate::{on_every_core, seed};

const PAGE: usize = 4096;

fn request(number: usize) -> Request {
    let (topic, content) = (format!("Topic {number}"), format!("content {number}"));
    let entry = NewEntry::new(ScopeId(1), topic, content);
    let (principal, tool) = (kenning_model::Principal::owner("tester", "here").into(), "store".to_owned());
    Request { principal, tool, write: Write::Store(entry), keyed: None }
}

fn head(storage: &Storage) -> u64 {
    storage.reader().and_then(|reader| reader.head()).expect("the store answers").0
}

fn beside(store: &TempStore, suffix: &str) -> PathBuf {
    store.path().join(format!("{STORE_FILE}{suffix}"))
}

#[test]
fn a_write_after_a_file_was_removed_or_replaced_is_refused() {
    for suffix in ["", "-wal", "-shm"] {
        for is_replaced in [false, true] {
            let store = TempStore::new();
            let storage = store.storage();
            storage.commit(request(1)).expect("the first write");
            let path = beside(&store, suffix);
            let bytes = fs::read(&path).expect("the file is there");
            fs::remove_file(&path).expect("removable");
            if is_replaced {
                fs::write(&path, bytes).expect("writable");
            }
            let refused = storage.commit(request(2));
            assert!(
                matches!(&refused, Err(Error::Unavailable { applied: Applied::No, reason })
                    if reason.contains(if is_replaced { "replaced" } else { "removed" })),
                "`{suffix}`, replaced {is_replaced}: {refused:?}"
            );
        }
    }
}

#[test]
fn what_others_may_read_is_closed_when_the_store_is_opened() {
    let store = TempStore::new();
    store.storage().commit(request(1)).expect("a write");
    let index = store.path().join("index/entries");
    fs::create_dir_all(&index).expect("a directory");
    fs::write(index.join("manifest"), "words").expect("a file");
    fs::write(store.path().join("rows.db"), "rows").expect("a file");
    let all = [
        store.path().to_owned(),
        store.path().join(STORE_FILE),
        store.path().join("index"),
        index.clone(),
        index.join("manifest"),
        store.path().join("rows.db"),
    ];
    for path in &all {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }
    let _open = store.storage();
    for path in &all {
        let mode = fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    // A directory that everybody can write to is not made private but refused.
    let shared = TempStore::new();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).expect("ours");
    assert!(matches!(Embedded::open(shared.path()), Err(Error::Forbidden { .. })));
}

#[test]
fn a_clock_that_jumps_ahead_once_forgets_no_key() {
    let store = TempStore::in_memory();
    let ahead = Arc::new(AtomicI64::new(0));
    let (clock, ids) = (ahead.clone(), fixed_sources().id);
    let now = move || fixed_start() + SignedDuration::from_secs(clock.fetch_add(1, Ordering::Relaxed));
    let storage = Storage::open(store.path(), Sources { now: Arc::new(now), id: ids }).expect("a store");
    let keyed = |number: usize| {
        let reply = Box::new(|_: &_| "done".to_owned());
        let keyed = Keyed { key: format!("key {number}"), digest: "same".to_owned(), reply };
        Request { keyed: Some(keyed), ..request(number) }
    };
    let day = 24 * 60 * 60;
    for number in 0..10 {
        storage.commit(keyed(number)).expect("a write");
    }
    ahead.fetch_add(8 * day, Ordering::Relaxed);
    storage.commit(keyed(10)).expect("the write with the wrong clock");
    ahead.fetch_sub(8 * day, Ordering::Relaxed);
    let is_known = |number: usize| {
        let reader = storage.reader().expect("the store answers");
        reader.recall("tester", &format!("key {number}")).expect("readable").is_some()
    };
    assert!((0..10).all(is_known), "keys were forgotten");

    // Once the keys are old by the log too, they are deleted, one day of them at a time.
    for number in 0..1_000 {
        storage.commit(request(100 + number)).expect("a write");
    }
    ahead.fetch_add(2 * day, Ordering::Relaxed);
    storage.commit(keyed(11)).expect("a write");
    ahead.fetch_add(7 * day, Ordering::Relaxed);
    storage.commit(keyed(12)).expect("a write");
    assert!(!(0..10).any(is_known), "old keys were kept");
    assert!(is_known(10) && is_known(11), "more than a day of keys was forgotten");
}

#[test]
fn a_backup_is_whole_while_others_write_and_a_restore_is_noticed() {
    let (store, other) = (TempStore::new(), TempStore::new());
    let storage = store.storage();
    (0..50).for_each(|number| drop(storage.commit(request(number)).expect("a write")));
    let file = other.path().join("backup.db");
    let verified = back_up(store.path(), &file).expect("a backup");
    assert_eq!(verified.transactions, 50);
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
    assert!(
        matches!(back_up(store.path(), &file), Err(Error::Invalid { .. })),
        "a backup is not written over"
    );

    (50..80).for_each(|number| drop(storage.commit(request(number)).expect("a write")));
    let before = storage.backend().info().expect("an id");
    restore(store.path(), &file).expect("a restore");
    assert_eq!(head(&storage), 50, "a process that had the store open sees what was restored");
    let after = storage.backend().info().expect("an id");
    assert!(before.id != after.id && before.secret != after.secret, "the store is another one");
    storage.commit(request(99)).expect("and goes on with it");
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("readable");
    assert_eq!(damages, []);

    // An unsound backup changes nothing.
    let mut bytes = fs::read(&file).expect("readable");
    bytes[9 * PAGE + 100] ^= 1;
    fs::write(&file, &bytes).expect("writable");
    assert!(restore(store.path(), &file).is_err());
    fs::write(&file, "no database").expect("writable");
    assert!(restore(store.path(), &file).is_err());
    assert_eq!(head(&storage), 51);
}

#[test]
fn a_damaged_store_is_put_aside_by_a_restore() {
    let (store, other) = (TempStore::new(), TempStore::new());
    store.storage().commit(request(1)).expect("a write");
    let file = other.path().join("backup.db");
    back_up(store.path(), &file).expect("a backup");
    fs::write(beside(&store, ""), "not a store any more".repeat(999)).expect("writable");
    restore(store.path(), &file).expect("a restore");
    assert_eq!(head(&store.storage()), 1);
    assert!(beside(&store, ".damaged").exists());
}

#[test]
fn everything_is_in_the_one_file_after_a_checkpoint() {
    let (store, copy) = (TempStore::new(), TempStore::new());
    let storage = store.storage();
    (0..200).for_each(|number| drop(storage.commit(request(number)).expect("a write")));
    storage.backend().checkpoint().expect("a checkpoint");
    fs::copy(beside(&store, ""), beside(&copy, "")).expect("copied");
    assert_eq!(head(&copy.storage()), 200);
}

#[test]
fn a_store_of_the_last_schema_opens_and_gets_an_id_and_checksums() {
    let store = TempStore::new();
    let path = beside(&store, "");
    let old = Connection::open(&path).expect("a file");
    old.execute_batch(include_str!("fixtures/schema-5.sql")).expect("the old store");
    drop(old);
    let storage = store.storage();
    assert_eq!(head(&storage), 4);
    let info = storage.backend().info().expect("it has an id");
    let mut damages = Vec::new();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("readable");
    assert_eq!(damages, []);
    storage.commit(request(1)).expect("it can be written");
    drop(storage);
    assert_eq!(store.storage().backend().info().expect("an id"), info, "the id stays");
    let mut bytes = fs::read(&path).expect("readable");
    assert_eq!(bytes[20], 4, "pages end in a checksum");
    let page = bytes.len() / PAGE / 2;
    bytes[page * PAGE + 3_000] ^= 1;
    fs::write(&path, bytes).expect("writable");
    let storage = store.storage();
    storage.backend().verify(&mut |damage| damages.push(damage)).expect("readable");
    assert_ne!(damages, [], "a changed byte is found");
}

#[test]
fn a_store_that_another_program_has_written_to_is_sound() {
    let store = TempStore::new();
    let killed = TempStore::new();
    {
        let storage = store.storage();
        (0..50).for_each(|number| drop(storage.commit(request(number)).expect("a write")));
        for suffix in ["", "-wal"] {
            fs::copy(beside(&store, suffix), beside(&killed, suffix)).expect("copied");
        }
    }
    // A look at the store with SQLite's own shell checkpoints the write-ahead log that a killed process has
    // left, without checksums of pages.
    let shell = Connection::open(beside(&killed, "")).expect("it opens");
    let many: i64 = shell.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).expect("readable");
    drop(shell);
    assert_eq!(many, 100);
    let storage = Storage::open(killed.path(), crate::script::later_sources()).expect("it opens");
    assert_eq!(head(&storage), 50);
    let reader = storage.reader().expect("it answers");
    assert_eq!(told(&*reader).expect("it answers").0.len(), {
        let whole = store.storage();
        told(&*whole.reader().expect("it answers")).expect("it answers").0.len()
    });
    drop(reader);
    storage.commit(request(50)).expect("and goes on");
}

/// A sample of the answers of a store.
#[derive(Debug, PartialEq)]
struct Told(Vec<String>);

fn told(reader: &dyn Reader) -> Result<Told, Error> {
    let at = reader.head()?;
    let mut all = vec![format!("{at}")];
    let scopes: Vec<ScopeId> = (0..6).map(ScopeId).collect();
    let filter = EntryFilter { scopes: &scopes, at, visible_at: None };
    let entries = reader.entries(&filter, 0..1_000)?;
    all.push(format!("{} {}", reader.count_entries(&filter)?, entries.len()));
    for entry in &entries {
        all.push(format!("{entry:?}"));
        all.push(format!("{:?}", reader.record(kenning_model::EntityType::Entry, entry.id, at)?));
        all.push(format!("{:?}", reader.touches(kenning_model::EntityType::Entry, entry.id, None)?));
    }
    all.push(format!("{:?}", reader.pinned(&filter, 100)?));
    for entity_type in kenning_model::EntityType::ALL {
        all.push(format!("{:?}", reader.live(entity_type, at)?));
    }
    for scope in &scopes {
        all.push(format!("{:?} {:?}", reader.closure(*scope, at)?, reader.document_sources(*scope, at)?));
    }
    all.push(format!("{:?}", reader.scope_names(&scopes, at)?));
    for tx in 1..=at.0 {
        all.push(format!("{:?}", reader.transaction(TxId(tx), at, kenning_storage::View::WHOLE)?));
    }
    all.push(format!("{:?}", reader.recall("tester", "key 10")?));
    Ok(Told(all))
}

enum Harm {
    Bit(usize, u8),
    Swapped(usize, usize),
    Zeroed(usize),
    Copied(usize, usize),
    Noise(usize, u64),
    Cut(usize),
}

fn harmed(sound: &[u8], harm: &Harm) -> Vec<u8> {
    let page = |number: usize| number * PAGE..(number + 1) * PAGE;
    let mut bytes = sound.to_vec();
    match *harm {
        Harm::Bit(at, bit) => bytes[at] ^= 1 << bit,
        Harm::Swapped(one, other) => {
            bytes[page(one)].copy_from_slice(&sound[page(other)]);
            bytes[page(other)].copy_from_slice(&sound[page(one)]);
        }
        Harm::Zeroed(one) => bytes[page(one)].fill(0),
        Harm::Copied(from, to) => bytes.copy_within(page(from), page(to).start),
        Harm::Noise(at, seed) => {
            let end = (at + 64).min(bytes.len());
            (at..end).for_each(|at| bytes[at] = scrambled(seed ^ at as u64) as u8);
        }
        Harm::Cut(length) => bytes.truncate(length),
    }
    bytes
}

enum Answered {
    Right,
    Mended,
    Error,
    Wrong(String),
}

fn answer(dir: &Path, truth: &Told) -> Answered {
    let backend = match Embedded::open(dir) {
        Ok(backend) => backend,
        Err(_) => return Answered::Error,
    };
    let ask = || backend.reader().and_then(|reader| told(&*reader));
    let judged = |told: Told, sound: Answered| {
        let differing = told.0.iter().zip(&truth.0).find(|(a, b)| a != b);
        if told == *truth { sound } else { Answered::Wrong(format!("{differing:?}")) }
    };
    match ask() {
        Ok(told) => judged(told, Answered::Right),
        Err(_) => match backend.mend() {
            Ok(true) => ask().map_or(Answered::Error, |told| judged(told, Answered::Mended)),
            _ => Answered::Error,
        },
    }
}

/// `DAMAGED_STORES=1000` runs the long form.
#[test]
fn a_damaged_store_is_mended_or_says_so_and_never_answers_wrongly() {
    let many = std::env::var("DAMAGED_STORES").map_or(150, |many| many.parse().expect("a number"));
    let sound = closed_store();
    let truth = {
        let store = TempStore::in_memory();
        fs::write(beside(&store, ""), &sound).expect("writable");
        let backend = Embedded::open(store.path()).expect("it opens");
        let reader = backend.reader().expect("it answers");
        told(&*reader).expect("it answers")
    };
    let pages = sound.len() / PAGE;
    let seed = seed();
    let cases: Vec<Harm> = (0..many)
        .map(|case: u64| {
            let random = |what: u64| scrambled(seed ^ case << 8 ^ what) as usize;
            match case % 6 {
                0 => Harm::Bit(random(0) % sound.len(), (random(1) % 8) as u8),
                1 => Harm::Swapped(random(0) % pages, random(1) % pages),
                2 => Harm::Zeroed(random(0) % pages),
                3 => Harm::Copied(random(0) % pages, random(1) % pages),
                4 => Harm::Noise(random(0) % sound.len(), random(1) as u64),
                _ => Harm::Cut(random(0) % sound.len()),
            }
        })
        .collect();
    let answers = on_every_core(&cases, |harm| {
        let store = TempStore::in_memory();
        fs::write(beside(&store, ""), harmed(&sound, harm)).expect("writable");
        // An empty file is a valid new store.
        if matches!(harm, Harm::Cut(0)) { Answered::Error } else { answer(store.path(), &truth) }
    });
    let count = |wanted: fn(&Answered) -> bool| answers.iter().filter(|one| wanted(one)).count();
    println!(
        "damaged stores: {many}, SEED={seed}: {} answered rightly, {} mended, {} said so, {} wrong",
        count(|one| matches!(one, Answered::Right)),
        count(|one| matches!(one, Answered::Mended)),
        count(|one| matches!(one, Answered::Error)),
        count(|one| matches!(one, Answered::Wrong(_))),
    );
    assert!(count(|one| matches!(one, Answered::Mended)) > 0, "what is derived can be made anew");
    let wrong =
        answers.iter().filter_map(|one| if let Answered::Wrong(why) = one { Some(why) } else { None });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}
