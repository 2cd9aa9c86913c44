//! A folder and a scope that are edited at random on both sides lose nothing, and a second run changes
//! nothing.

use std::collections::BTreeSet;
use std::fs;

use kenning_storage::{EntryDeletion, EntryPatch, EntryUpdate, NewEntry};
use kenning_testkit::{TempStore, owner, scrambled};

use super::*;

struct Place {
    store: TempStore,
    engine: Engine,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let store = TempStore::in_memory();
        let engine = Engine::new(store.path().to_owned(), kenning_testkit::fixed_sources());
        Place { store, engine, folder: tempfile::tempdir().expect("a directory") }
    }

    fn run(&self) -> Run<'_> {
        Run {
            engine: &self.engine,
            principal: owner().into(),
            scope: ScopeId::GLOBAL_DEFAULT,
            root: self.folder.path().canonicalize().expect("a path"),
            state: self.store.path().join("state.json"),
            dry_run: false,
            yes: false,
        }
    }

    fn synchronize(&self) -> Report {
        Run { yes: true, ..self.run() }.synchronize().expect("a run")
    }

    fn commit(&self, batch: Batch) {
        let write = Write::Batch(Box::new(batch));
        let request = Request { principal: owner().into(), tool: "test".to_owned(), write, keyed: None };
        self.engine.commit(request).expect("a write");
    }

    fn store_entries(&self, contents: &[String]) {
        let new = |(number, content): (usize, &String)| {
            NewEntry::new(ScopeId::GLOBAL_DEFAULT, format!("topic {number}"), content.clone())
        };
        self.commit(Batch { entries: contents.iter().enumerate().map(new).collect(), ..Batch::default() });
    }

    fn entries(&self) -> BTreeMap<Id, Stored> {
        self.run().stored().expect("entries")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> BTreeMap<String, EntryFile> {
        let read = Folder::read(&self.run().root).expect("a folder").files;
        read.into_iter().map(|(path, file)| (path, file.read.expect("a good file"))).collect()
    }

    /// The contents of the scope, after checking that the folder has the same.
    #[track_caller]
    fn both(&self) -> BTreeSet<String> {
        let entries: BTreeMap<Id, EntryFile> =
            self.entries().into_iter().map(|(id, stored)| (id, stored.file)).collect();
        let files = self.files();
        assert_eq!(files.len(), entries.len());
        for file in files.values() {
            assert_eq!(file.id.and_then(|id| entries.get(&id)), Some(file));
        }
        entries.into_values().map(|file| file.content).collect()
    }
}

fn edit(path: &Path, content: &str) {
    let text = fs::read_to_string(path).expect("a file");
    let mut file = EntryFile::read(&text, "x").expect("a good file");
    file.content = content.to_owned();
    fs::write(path, file.text(None)).expect("it is written");
}

fn update(id: Id, stored: &Stored, content: &str) -> EntryUpdate {
    let patch = EntryPatch { content: Some(content.to_owned()), ..EntryPatch::default() };
    EntryUpdate { id, expected_version: stored.version, patch }
}

#[test]
fn a_thousand_files_that_are_edited_on_both_sides_lose_nothing() {
    let place = Place::new();
    place.store_entries(&(0..1_000).map(|number| format!("content {number}")).collect::<Vec<_>>());
    let first = place.synchronize();
    assert_eq!((first.written, first.created, first.tx_id), (1_000, 0, None));
    assert_eq!(place.both().len(), 1_000);

    let (entries, files) = (place.entries(), place.files());
    let mut batch = Batch::default();
    // Every text that one side has written and that nobody has deleted.
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for (number, (path, file)) in files.iter().enumerate() {
        let id = file.id.expect("an id");
        let (stored, at) = (&entries[&id], place.file(path));
        let (of_file, of_store) = (format!("file says {number}"), format!("store says {number}"));
        let roll = scrambled(number as u64);
        let (on_disk, in_store) = (roll % 5, roll / 5 % 4);
        match on_disk {
            0 => edit(&at, &of_file),
            1 => fs::remove_file(&at).expect("it was there"),
            2 => fs::rename(&at, place.file(&format!("renamed {number}.md"))).expect("it was there"),
            3 => {
                fs::create_dir_all(place.file("deeper/still")).expect("a directory");
                fs::rename(&at, place.file(&format!("deeper/still/{number}.md"))).expect("it was there");
                edit(&place.file(&format!("deeper/still/{number}.md")), &of_file);
            }
            _ => {}
        }
        match in_store {
            0 => batch.updates.push(update(id, stored, &of_store)),
            1 => batch.deletions.push(EntryDeletion { id, expected_version: stored.version }),
            _ => {}
        }
        let is_edited = matches!(on_disk, 0 | 3);
        if is_edited {
            wanted.insert(of_file);
        }
        if in_store == 0 {
            wanted.insert(of_store);
        }
        if !is_edited && on_disk != 1 && in_store > 1 {
            wanted.insert(file.content.clone());
        }
    }
    for number in 0..50 {
        fs::write(place.file(&format!("new {number}.md")), format!("# New {number}\n\nnew text {number}\n"))
            .expect("a file");
        wanted.insert(format!("# New {number}\n\nnew text {number}"));
        batch.entries.push(NewEntry::new(ScopeId::GLOBAL_DEFAULT, "", format!("stored meanwhile {number}")));
        wanted.insert(format!("stored meanwhile {number}"));
    }
    place.commit(batch);
    let head = place.engine.head().expect("a head");

    let stopped = place.run().synchronize().expect_err("too many would go");
    assert!(stopped.to_string().contains("`--yes` goes ahead"), "{stopped}");
    assert_eq!(place.engine.head().expect("a head"), head, "nothing was written");
    let would = Run { dry_run: true, ..place.run() }.synchronize().expect("a run");
    assert_eq!(place.engine.head().expect("a head"), head, "nothing was written");

    let report = place.synchronize();
    assert_eq!(Report { tx_id: None, ..report }, would, "it does what it said it would");
    assert!(would.conflicts > 20 && would.deleted > 20 && would.removed > 20, "{would:?}");
    assert_eq!(place.engine.head().expect("a head"), head.next(), "one run is one transaction");
    assert_eq!(place.both(), wanted);
    let again = place.synchronize();
    assert!(again.is_level() && again.tx_id.is_none(), "{again:?}");
    assert_eq!(place.both(), wanted);
}

#[test]
fn a_run_that_ended_half_way_is_finished_by_the_next() {
    let place = Place::new();
    fs::write(place.file("note.md"), "A fact.\n").expect("a file");
    place.synchronize();
    // The entry exists, but the file never got its id and the state was never written.
    fs::write(place.file("note.md"), "A fact.\n").expect("a file");
    fs::remove_file(place.run().state).expect("a state");
    let report = place.synchronize();
    assert_eq!((report.created, report.written, place.both().len()), (0, 1, 1), "{report:?}");
}

#[test]
fn copies_get_ids_of_their_own_and_foreign_files_are_left_alone() {
    let place = Place::new();
    place.store_entries(&["one".to_owned()]);
    place.synchronize();
    let (name, file) = place.files().pop_first().expect("a file");
    fs::copy(place.file(&name), place.file("a copy.md")).expect("a copy");
    edit(&place.file("a copy.md"), "other");
    fs::write(place.file("picture.png"), "png").expect("a file");
    fs::write(place.file(".hidden.md"), "hidden").expect("a file");
    let report = place.synchronize();
    assert_eq!((report.created, report.updated), (1, 0), "{report:?}");
    assert_eq!(place.files()[&name].id, file.id, "the first stays");
    assert_eq!(place.both(), BTreeSet::from(["one".to_owned(), "other".to_owned()]));
    assert_eq!(fs::read_to_string(place.file("picture.png")).expect("a file"), "png");
    assert_eq!(fs::read_to_string(place.file(".hidden.md")).expect("a file"), "hidden");
}

#[cfg(unix)]
#[test]
fn links_and_files_that_can_not_be_read_are_left_alone_and_their_entries_stay() {
    let place = Place::new();
    place.store_entries(&["one".to_owned(), "two".to_owned(), "three".to_owned()]);
    place.synchronize();
    let names: Vec<String> = place.files().into_keys().collect();
    let secret = place.store.path().join("secret.md");
    fs::write(&secret, "secret").expect("a file");
    fs::remove_file(place.file(&names[0])).expect("it was there");
    std::os::unix::fs::symlink(&secret, place.file(&names[0])).expect("a link");
    fs::write(place.file(&names[1]), "---\nid: [\n---\nbroken").expect("a file");
    fs::write(place.file("bytes.md"), b"\xff\xfe").expect("a file");
    let report = place.synchronize();
    assert_eq!(report.refused.len(), 3, "{report:?}");
    assert_eq!((report.is_level(), place.entries().len()), (true, 3), "{report:?}");
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "secret");
}
