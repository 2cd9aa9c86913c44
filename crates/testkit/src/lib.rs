//! Helpers for tests: stores in temporary directories, a fixed clock, ids in a fixed order, the contract of
//! backends, a disk that fails on demand, and texts and clocks for measurements.

pub mod backend;
pub mod catalogue;
pub mod corpus;
pub mod damage;
#[cfg(unix)]
pub mod fault;
pub mod fuzz;
pub mod measure;
pub mod transcript;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use kenning_engine::{DocumentKind, Engine, Format, Intake, Sources};
use kenning_model::{Id, Principal, ScopeId, ScopeName};
use kenning_storage::{DatabaseUrl, Location, NewNamespace, NewScope, Request, Storage, Write};
use tempfile::TempDir;

/// A clock that starts on 1 January 2026 and moves by one second each time it is read, and ids from a fixed
/// sequence.
pub fn fixed_sources() -> Sources {
    let looks = AtomicU64::new(0);
    let drawn = AtomicU64::new(0);
    Sources {
        now: Arc::new(move || {
            fixed_start() + SignedDuration::from_secs(looks.fetch_add(1, Ordering::Relaxed) as i64)
        }),
        id: Arc::new(move || Id::from_bits(scrambled(drawn.fetch_add(1, Ordering::Relaxed)))),
    }
}

/// The owner of the stores of tests.
pub fn owner() -> Principal {
    Principal::owner("testkit", "testkit")
}

pub fn fixed_start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a good moment")
}

/// The settings for ingesting files into the scope that all others see.
pub fn intake(source: &str) -> Intake {
    Intake {
        principal: owner().into(),
        scope: ScopeId::GLOBAL_DEFAULT,
        source: source.to_owned(),
        kind: DocumentKind::Plain,
        doc_tag: source.to_owned(),
        root: String::new(),
    }
}

/// Ingests one file, in the format that its name tells.
pub fn take_in(engine: &Engine, source: &str, path: &str, text: &str) {
    take_in_with(engine, &intake(source), path, text);
}

/// As `take_in`, as a pattern of a catalogue.
pub fn take_in_pattern(engine: &Engine, source: &str, path: &str, text: &str) {
    take_in_with(engine, &Intake { kind: DocumentKind::Pattern, ..intake(source) }, path, text);
}

pub fn take_in_with(engine: &Engine, intake: &Intake, path: &str, text: &str) {
    let format = Format::of(Path::new(path)).expect("the name of a document");
    let prepared =
        intake.prepare(path, format, text.as_bytes().to_vec(), &|_| None, None).expect("a good document");
    intake.put(engine, prepared.expect("nothing is known of it").document).expect("it is taken in");
}

/// Makes the scopes with the numbers up to `last`, all in one namespace, in a store that has none.
pub fn make_scopes(engine: &Engine, last: u32) {
    let tree = engine.snapshot(&owner()).and_then(|snapshot| snapshot.tree()).expect("the store can be read");
    if last < 2 || tree.namespace("test").is_some() {
        return;
    }
    let commit = |write: Write| {
        let (principal, tool) = (owner().into(), "test".into());
        let request = Request { principal, tool, write, keyed: None };
        engine.commit(request).expect("the scope is made");
    };
    let description = "for a test".to_owned();
    commit(Write::CreateNamespace(NewNamespace { name: "test".into(), description: description.clone() }));
    for number in 3..=last {
        let name = ScopeName::new("test", &format!("s{number}"));
        let (description, parents) = (description.clone(), Vec::new());
        commit(Write::CreateScope(NewScope { name, description, parents }));
    }
}

/// SplitMix64: neighbouring numbers give very different results, which are the same on every machine.
pub fn scrambled(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The database on which tests run instead of the embedded store, if `KENNING_TEST_DATABASE` names one;
/// `scripts/with-postgres` makes it. Every test directory has a store of its own there, which is dropped with
/// the database.
pub fn test_database(dir: &Path) -> Option<DatabaseUrl> {
    let url = std::env::var("KENNING_TEST_DATABASE").ok()?;
    let name = dir.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Names of temporary directories differ at their end, so the end becomes the store's name.
    let name = format!("test-{}", &name[name.len().saturating_sub(40)..]);
    Some(DatabaseUrl::parse(&url).and_then(|url| url.with_store(&name)).expect("a good test database"))
}

/// A directory for a store; it is removed when the value is dropped.
pub struct TempStore {
    dir: TempDir,
}

impl TempStore {
    #[allow(clippy::new_without_default)]
    pub fn new() -> TempStore {
        TempStore { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A store in memory, if the system has a place for that. For tests that write much and simulate no power
    /// failure.
    pub fn in_memory() -> TempStore {
        let dir = match Path::new("/dev/shm").is_dir() {
            true => tempfile::tempdir_in("/dev/shm"),
            false => tempfile::tempdir(),
        };
        TempStore { dir: dir.expect("a temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The location of the store: the directory, or the test database.
    pub fn location(&self) -> Location {
        let dir = || Location::Directory(self.path().to_owned());
        test_database(self.path()).map_or_else(dir, Location::Database)
    }

    /// An engine with the fixed sources. A second one on the same store represents a second process.
    pub fn engine(&self) -> Engine {
        self.engine_with(fixed_sources())
    }

    pub fn engine_with(&self, sources: Sources) -> Engine {
        Engine::open(self.location(), self.path().to_owned(), sources)
    }

    pub fn storage(&self) -> Storage {
        self.location().open(fixed_sources()).expect("a fresh store opens")
    }
}
