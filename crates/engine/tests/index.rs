//! The index in the data directory is a cache of the log. Every question gets the answer of a newly built
//! index, whatever happens to the index files, whatever other processes write, and whenever the index is
//! built again.

// A long run prints figures.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use kenning_engine::{By, Engine, Error, Explanation, INDEX_DIR, Question, Similar, Sources};
use kenning_model::{EntityType, Id, ScopeId, Timestamp, TxId};
use kenning_storage::{
    EntryPatch, NewEntry, NewTriple, OnConflict, Request, STORE_FILE, UndoTarget, UndoWish, Write,
};
use kenning_testkit::{TempStore, fixed_start, make_scopes, scrambled, take_in};

/// With this number of changes in memory a segment is written; see `indexed.rs`.
const SEGMENT_WORTH: usize = 512;
/// An index this many transactions behind the log catches up by writing segments; see `indexed.rs`.
const FAR_BEHIND: usize = 2_000;
/// A bound for all waiting; nothing takes this long.
const LONG: Duration = Duration::from_secs(60);
/// The page size of the index files.
const PAGE: usize = 4096;

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "deploy release rollback server database index query cache memory disk network timeout retry failure backup \
     restore key secret login password invoice payment refund customer order shipping warehouse garden tomato apple \
     banana bread coffee kitchen window river mountain forest weather rain train station ticket journey holiday \
     doctor medicine hospital school teacher lesson music piano guitar painting museum football swimming bicycle \
     engine getUserName parse_config HttpClient retryCount"
        .split_whitespace()
        .collect()
});
const TAGS: [&str; 4] = ["ops", "billing", "Home", "travel"];
const SCOPES: &[ScopeId] = &[ScopeId(1), ScopeId(2), ScopeId(3)];

/// Writes the same texts on every run, in three scopes.
struct Author<'a> {
    engine: &'a Engine,
    random: u64,
    /// The entries that were stored and not deleted.
    ids: Vec<Id>,
    written: usize,
}

impl<'a> Author<'a> {
    fn new(engine: &'a Engine, seed: u64) -> Author<'a> {
        make_scopes(engine, SCOPES.len() as u32);
        Author { engine, random: scrambled(seed), ids: Vec::new(), written: 0 }
    }

    fn below(&mut self, many: usize) -> usize {
        self.random = scrambled(self.random);
        (self.random >> 16) as usize % many
    }

    fn commit(&self, write: Write) -> (TxId, Vec<Id>) {
        let (principal, tool) = (kenning_model::Principal::owner("author", "here").into(), "test".into());
        let request = Request { principal, tool, write, keyed: None };
        let tx = self.engine.commit(request).expect("the write is accepted").tx;
        (tx.id, tx.changes.iter().map(|change| change.id).collect())
    }

    /// Some words are common and some are rare; now and then a text is long enough for several passages.
    fn text(&mut self) -> String {
        let many = if self.below(100) == 0 { 200 } else { 3 + self.below(5) };
        let word = |_| WORDS[self.below(WORDS.len()).min(self.below(WORDS.len()))];
        let words: Vec<&str> = (0..many).map(word).collect();
        self.written += 1;
        format!("{} number{}", words.join(" "), self.written)
    }

    fn entry(&mut self) -> NewEntry {
        let scope = SCOPES[self.below(SCOPES.len())];
        let topic = format!("{} {}", WORDS[self.below(WORDS.len())], WORDS[self.below(WORDS.len())]);
        let mut entry = NewEntry::new(scope, topic, self.text());
        if self.written.is_multiple_of(40) {
            let more = format!(" {}", self.written);
            (entry.topic, entry.content) = ("again".into(), repeated(self.written / 40) + &more);
        }
        entry.tags = TAGS.iter().filter(|_| self.below(3) == 0).map(|tag| (*tag).to_owned()).collect();
        entry.valid_to = (self.below(10) == 0).then(|| minutes(self.below(120)));
        entry
    }

    /// Stores this number of entries in one transaction.
    fn load(&mut self, many: usize) {
        let entries = (0..many).map(|_| self.entry()).collect();
        let (_, ids) = self.commit(Write::StoreAll(entries));
        self.ids.extend(ids);
    }

    /// Makes this number of transactions that change, move, delete, store and undo.
    fn edit(&mut self, many: usize) {
        let mut last = None;
        for _ in 0..many {
            let at = self.below(self.ids.len());
            let id = self.ids[at];
            match (self.below(10), last.take()) {
                (0..4, Some(tx)) => {
                    let (_, changed) = self.commit(Write::Undo(UndoWish {
                        target: UndoTarget::Tx(tx),
                        any_actor: true,
                        within: None,
                    }));
                    // The undo of a delete restores the entry under its id.
                    let back: Vec<Id> = changed.into_iter().filter(|id| !self.ids.contains(id)).collect();
                    self.ids.extend(back);
                }
                (0..6, _) => {
                    let scope = (self.below(4) == 0).then(|| SCOPES[self.below(SCOPES.len())]);
                    let patch = EntryPatch { scope, content: Some(self.text()), ..EntryPatch::default() };
                    last = Some(self.commit(Write::Update { id, patch, expected_version: None }).0);
                }
                (6..8, _) => {
                    self.ids.swap_remove(at);
                    last = Some(self.commit(Write::Delete { entity_type: EntityType::Entry, id }).0);
                }
                _ => {
                    let entry = self.entry();
                    let (_, ids) = self.commit(Write::Store(entry));
                    self.ids.extend(ids);
                }
            }
        }
    }
}

/// A text of twelve words. The test writes each of these texts several times with another number; different
/// ones have little in common.
fn repeated(which: usize) -> String {
    let word = |at: usize| format!("w{}", scrambled((which % REPEATED * 31 + at) as u64) % 5000);
    (0..12).map(word).collect::<Vec<_>>().join(" ")
}

const REPEATED: usize = 16;

/// A separate engine on the store, as another process has one. Each `number` gives other ids.
fn engine(dir: &Path, number: u64) -> Engine {
    let drawn = AtomicU64::new(number << 32);
    let id = Arc::new(move || Id::from_bits(scrambled(drawn.fetch_add(1, Ordering::Relaxed))));
    Engine::new(dir.to_owned(), Sources { now: Arc::new(fixed_start), id })
}

fn minutes(many: usize) -> Timestamp {
    Timestamp::from_millisecond(fixed_start().as_millisecond() + 60_000 * many as i64 + 1).expect("in range")
}

#[derive(Debug)]
struct EntrySearch {
    scopes: &'static [ScopeId],
    topic: Option<&'static str>,
    content: Option<&'static str>,
    tags: &'static [&'static str],
    /// In minutes; `None` also finds entries that are not valid.
    visible_at: Option<usize>,
    page: Range<u64>,
}

const USUAL: EntrySearch =
    EntrySearch { scopes: SCOPES, topic: None, content: None, tags: &[], visible_at: Some(60), page: 0..20 };

/// Questions by words, by meaning, by a misspelt word, by tags, and in several scopes.
const QUESTIONS: [EntrySearch; 7] = [
    EntrySearch { content: Some("deploy the server"), ..USUAL },
    EntrySearch { content: Some("bananna"), scopes: &[ScopeId(2)], ..USUAL },
    EntrySearch { content: Some("a fruit for breakfast"), visible_at: None, page: 0..100, ..USUAL },
    EntrySearch {
        content: Some("index disk"),
        topic: Some("cache memory"),
        scopes: &[ScopeId(1), ScopeId(3)],
        ..USUAL
    },
    EntrySearch { tags: &["ops", "home"], scopes: &[ScopeId(3), ScopeId(1)], page: 0..200, ..USUAL },
    EntrySearch { content: Some("rain on the journey"), tags: &["travel"], ..USUAL },
    EntrySearch { content: Some("retry count of the HTTP client"), page: 1..9, ..USUAL },
];

#[derive(Debug, PartialEq)]
struct Answer {
    hits: Vec<(Id, TxId, Option<Explanation>)>,
    total: u64,
    is_degraded: bool,
}

fn ask(engine: &Engine, wanted: &EntrySearch, at: Option<TxId>) -> Answer {
    try_to_ask(engine, wanted, at).expect("a question is answered")
}

fn try_to_ask(engine: &Engine, wanted: &EntrySearch, at: Option<TxId>) -> Result<Answer, Error> {
    let tags: Vec<String> = wanted.tags.iter().map(|tag| (*tag).to_owned()).collect();
    let (topic, content, visible_at) = (wanted.topic, wanted.content, wanted.visible_at.map(minutes));
    let snapshot = engine.snapshot_at(&kenning_testkit::owner(), at).expect("a transaction that is there");
    let sight = snapshot.sight_of(wanted.scopes.to_vec());
    let question = Question {
        sight: &sight,
        topic,
        content,
        tags: &tags,
        visible_at,
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: true,
    };
    let found = snapshot.search(&question, wanted.page.clone())?;
    let hits = found.hits.into_iter().map(|hit| (hit.stored.id, hit.stored.tx_id, hit.explanation)).collect();
    Ok(Answer { hits, total: found.total, is_degraded: found.is_degraded })
}

#[derive(Debug, PartialEq)]
struct Answers {
    /// The answers to every question, today and as of two earlier transactions.
    found: Vec<Answer>,
    /// The entries that are similar to each of the repeated texts.
    similar: Vec<Vec<Id>>,
}

fn answers(engine: &Engine) -> Answers {
    let head = engine.head().expect("readable").0;
    let each = |at: u64| QUESTIONS.iter().map(move |wanted| ask(engine, wanted, Some(TxId(at))));
    let found = [head, head * 6 / 10, head / 15].into_iter().flat_map(each).collect();
    let similar = |which| {
        let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("readable");
        let sight = snapshot.sight_of(SCOPES.to_vec());
        let wanted = Similar { sight: &sight, topic: "again", content: &repeated(which), except: &[] };
        engine.similar(&snapshot, &wanted).expect("a question is answered")
    };
    Answers { found, similar: (0..REPEATED).map(similar).collect() }
}

#[track_caller]
fn assert_same(found: &Answers, expected: &Answers, what: &str) {
    for (number, (found, expected)) in found.found.iter().zip(&expected.found).enumerate() {
        let wanted = &QUESTIONS[number % QUESTIONS.len()];
        assert_eq!(found.is_degraded, expected.is_degraded, "{what}: {wanted:?}");
        assert_eq!(found.total, expected.total, "{what}: {wanted:?}");
        assert_eq!(found.hits, expected.hits, "{what}: {wanted:?}");
    }
    assert_eq!(found.similar, expected.similar, "{what}");
}

/// The answers from a copy of the store without an index.
fn answers_from_nothing(dir: &Path) -> Answers {
    let copy = TempStore::in_memory();
    fs::copy(dir.join(STORE_FILE), copy.path().join(STORE_FILE)).expect("a closed store is one file");
    answers(&engine(copy.path(), 9))
}

/// A closed store. Its index has two segments, both with versions that have ended, and is some transactions
/// behind the log.
struct Closed {
    store: Vec<u8>,
    /// The files of the index with their names.
    index: Vec<(String, Vec<u8>)>,
    answers: Answers,
}

static CLOSED: LazyLock<Closed> = LazyLock::new(|| {
    let store = TempStore::in_memory();
    let engine = engine(store.path(), 1);
    let mut author = Author::new(&engine, 1);
    author.load(60);
    author.edit(60);
    engine.rebuild().expect("it can be built");
    author.load(360);
    author.edit(200);
    wait_for_segment(&engine, store.path());
    author.edit(40);
    let answers = answers(&engine);
    drop(engine);
    assert_eq!(segments(store.path()).len(), 2);
    let mut today = answers.found.iter().zip(&QUESTIONS);
    assert!(today.all(|(answer, wanted)| answer.total > wanted.page.start), "every question finds something");
    assert!(answers.similar.iter().any(|similar| !similar.is_empty()), "something is repeated");
    let index = files(&entries(store.path()));
    Closed { store: fs::read(store.path().join(STORE_FILE)).expect("readable"), index, answers }
});

impl Closed {
    fn copy(&self) -> Copied<'_> {
        let copied = Copied { closed: self, store: TempStore::in_memory() };
        fs::write(copied.dir().join(STORE_FILE), &self.store).expect("writable");
        copied.put_back();
        copied
    }

    /// The segments and the manifest, without the lock file, which is empty.
    fn written(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.index.iter().filter(|(name, _)| name != "lock")
    }
}

/// A copy of the closed store, to be damaged.
struct Copied<'a> {
    closed: &'a Closed,
    store: TempStore,
}

impl Copied<'_> {
    fn dir(&self) -> &Path {
        self.store.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        entries(self.dir()).join(name)
    }

    /// Restores the index to its original files.
    fn put_back(&self) {
        let index = self.dir().join(INDEX_DIR);
        match index.is_dir() {
            true => fs::remove_dir_all(&index).expect("removable"),
            false => drop(fs::remove_file(&index)),
        }
        fs::create_dir_all(entries(self.dir())).expect("writable");
        for (name, bytes) in &self.closed.index {
            fs::write(self.file(name), bytes).expect("writable");
        }
    }

    /// Compares the answers of a process that starts now.
    #[track_caller]
    fn check(&self, what: &str) {
        assert_same(&answers(&engine(self.dir(), 2)), &self.closed.answers, what);
    }

    /// Also compares the answers of the process after it, which finds the files that the first process has
    /// left.
    #[track_caller]
    fn check_twice(&self, what: &str) {
        self.check(what);
        self.check(&format!("after that: {what}"));
    }
}

fn entries(dir: &Path) -> PathBuf {
    dir.join(INDEX_DIR).join("entries")
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let file = |file: fs::DirEntry| {
        let name = file.file_name().into_string().expect("plain names");
        (name, fs::read(file.path()).expect("readable"))
    };
    let mut files: Vec<_> =
        fs::read_dir(dir).expect("readable").map(|found| file(found.expect("readable"))).collect();
    files.sort();
    files
}

/// The names of the segments in the directory, whether or not the manifest names them.
fn segments(dir: &Path) -> BTreeSet<String> {
    let Ok(files) = fs::read_dir(entries(dir)) else { return BTreeSet::new() };
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(".words")?.to_owned())).collect()
}

/// Asks questions until the tail has become a segment.
fn wait_for_segment(engine: &Engine, dir: &Path) {
    let manifest = || fs::read(entries(dir).join("manifest")).ok();
    let (before, since) = (manifest(), Instant::now());
    while manifest() == before {
        ask(engine, &QUESTIONS[0], None);
        assert!(since.elapsed() < LONG, "no segment was written");
    }
}

fn with_a_flipped_bit_in_every_page(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte ^= 1);
    bytes
}

#[test]
fn a_lost_index_is_no_loss() {
    let copied = CLOSED.copy();
    copied.check_twice("reopened");
    fs::remove_dir_all(copied.dir().join(INDEX_DIR)).expect("removable");
    copied.check_twice("without an index");
    for (name, _) in &CLOSED.index {
        copied.put_back();
        fs::remove_file(copied.file(name)).expect("removable");
        copied.check_twice(&format!("without {name}"));
    }
}

#[test]
fn a_file_cut_short_is_no_loss() {
    let copied = CLOSED.copy();
    for (name, bytes) in CLOSED.written() {
        let length = bytes.len();
        for cut in [0, length / 3, length - 1] {
            copied.put_back();
            fs::write(copied.file(name), &bytes[..cut]).expect("writable");
            copied.check(&format!("{name} cut to {cut} of {length}"));
        }
    }
}

/// `FLIP_STEP=1` flips a bit in every page.
#[test]
fn a_flipped_bit_anywhere_is_no_loss() {
    let step = std::env::var("FLIP_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(5);
    let copied = CLOSED.copy();
    let mut flipped = 0;
    for (name, bytes) in CLOSED.written() {
        // One byte in every few pages, every third byte of each file's end, and one byte in every few of a
        // short file.
        let end = bytes.len().saturating_sub(24);
        let step = if end < PAGE { step } else { step * PAGE };
        let within = |from: usize| from + scrambled(from as u64) as usize % step.min(bytes.len() - from);
        let places = (0..end).step_by(step).map(within).chain((end..bytes.len()).step_by(3));
        for (at, nth) in places.zip(0..) {
            copied.put_back();
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (nth % 8);
            fs::write(copied.file(name), bytes).expect("writable");
            copied.check(&format!("{name} with another bit in byte {at}"));
            flipped += 1;
        }
    }
    eprintln!("{flipped} bits flipped, one at a time");
}

#[test]
fn whatever_is_in_the_way_is_no_loss() {
    let copied = CLOSED.copy();
    let put_directory = |path: PathBuf| {
        let _ = fs::remove_file(&path);
        fs::create_dir(path).expect("writable");
    };
    let garbage: Vec<u8> = (0..5000).map(|at| scrambled(at) as u8).collect();
    fs::write(copied.file("manifest"), garbage).expect("writable");
    copied.check_twice("garbage for a manifest");
    for name in ["manifest", "manifest.new", "lock"] {
        copied.put_back();
        put_directory(copied.file(name));
        copied.check_twice(&format!("a directory for {name}"));
    }
    copied.put_back();
    CLOSED.written().for_each(|(name, _)| put_directory(copied.file(name)));
    copied.check_twice("directories for all files");
    for dir in [entries(copied.dir()), copied.dir().join(INDEX_DIR)] {
        copied.put_back();
        fs::remove_dir_all(&dir).expect("removable");
        fs::write(&dir, "in the way").expect("writable");
        copied.check_twice(&format!("a file for {}", dir.display()));
    }
    let engine = engine(copied.dir(), 2);
    assert_same(&answers(&engine), &CLOSED.answers, "in memory");
    assert!(engine.rebuild().is_err(), "there is a file in the way");
    fs::remove_file(copied.dir().join(INDEX_DIR)).expect("removable");
    engine.rebuild().expect("nothing is in the way any more");
    assert_same(&answers(&engine), &CLOSED.answers, "on the disk again");
}

#[test]
fn far_behind_where_nothing_can_be_written_is_no_loss() {
    let copied = CLOSED.copy();
    let writer = engine(copied.dir(), 3);
    let author = Author::new(&writer, 3);
    for number in 0..=FAR_BEHIND {
        let (subject, predicate, object) = (format!("host {number}"), "is".into(), "up".into());
        let (scope, source, confidence) = (ScopeId(1), None, None);
        let triple = NewTriple { scope, subject, predicate, object, source, confidence };
        author.commit(Write::Relate { triple, on_conflict: OnConflict::KeepBoth });
    }
    drop(writer);
    let expected = answers_from_nothing(copied.dir());
    fs::create_dir(copied.file("manifest.new")).expect("writable");
    assert_same(&answers(&engine(copied.dir(), 2)), &expected, "no manifest can be written");
}

#[test]
fn an_older_log_that_is_put_back_is_believed() {
    let copied = CLOSED.copy();
    let first = engine(copied.dir(), 3);
    let mut author = Author::new(&first, 3);
    author.load(SEGMENT_WORTH);
    wait_for_segment(&first, copied.dir());
    drop(first);
    fs::write(copied.dir().join(STORE_FILE), &CLOSED.store).expect("writable");
    let second = engine(copied.dir(), 4);
    let mut author = Author::new(&second, 4);
    assert_same(&answers(&second), &CLOSED.answers, "as it was");
    author.load(20);
    author.edit(20);
    let found = answers(&second);
    drop(second);
    assert_same(&found, &answers_from_nothing(copied.dir()), "written since");
}

/// A function that damages a file, given its bytes.
type Damage<'a> = &'a dyn Fn(&Path, &[u8]);

#[test]
fn damage_under_an_open_index_is_no_loss() {
    let copied = CLOSED.copy();
    let overwrite = |path: &Path, bytes: &[u8]| {
        fs::write(path, with_a_flipped_bit_in_every_page(bytes)).expect("writable");
    };
    let cut = |path: &Path, bytes: &[u8]| {
        let file = OpenOptions::new().write(true).open(path).expect("writable");
        file.set_len(bytes.len() as u64 / 2).expect("writable");
    };
    let remove = |path: &Path, _: &[u8]| fs::remove_file(path).expect("removable");
    let damages: [(&str, Damage); 3] =
        [("overwritten", &overwrite), ("cut in half", &cut), ("removed", &remove)];
    for ((what, damage), is_warm) in damages.into_iter().zip([true, false, true]) {
        for (name, bytes) in CLOSED.written() {
            copied.put_back();
            let engine = engine(copied.dir(), 2);
            ask(&engine, &QUESTIONS[0], None);
            while is_warm && !engine.is_warm() {
                std::thread::yield_now();
            }
            damage(&copied.file(name), bytes);
            let what = format!("{name} {what} under an open index");
            std::thread::scope(|scope| {
                scope.spawn(|| assert_same(&answers(&engine), &CLOSED.answers, &what));
                assert_same(&answers(&engine), &CLOSED.answers, &what);
            });
            drop(engine);
            copied.check(&format!("reopened after {what}"));
        }
    }
}

#[test]
fn a_manifest_damaged_under_an_open_index_is_written_again() {
    let copied = CLOSED.copy();
    let engine = engine(copied.dir(), 3);
    let mut author = Author::new(&engine, 3);
    ask(&engine, &QUESTIONS[0], None);
    fs::write(copied.file("manifest"), "garbage").expect("writable");
    author.load(SEGMENT_WORTH);
    wait_for_segment(&engine, copied.dir());
    let found = answers(&engine);
    drop(engine);
    assert_same(&found, &answers_from_nothing(copied.dir()), "the manifest was damaged");
}

#[test]
fn whoever_leaves_early_leaves_nothing_behind() {
    let copied = CLOSED.copy();
    let first = engine(copied.dir(), 3);
    Author::new(&first, 3).load(SEGMENT_WORTH);
    drop(first);
    for _ in 0..10 {
        ask(&engine(copied.dir(), 4), &QUESTIONS[0], None);
        let left = segments(copied.dir()).len();
        assert!(left <= 3, "{left} segments are left");
    }
}

#[test]
fn what_is_written_over_a_damaged_index_is_found() {
    for (name, bytes) in CLOSED.written() {
        let copied = CLOSED.copy();
        fs::write(copied.file(name), with_a_flipped_bit_in_every_page(bytes)).expect("writable");
        let engine = engine(copied.dir(), 3);
        let mut author = Author::new(&engine, 3);
        author.load(SEGMENT_WORTH);
        ask(&engine, &QUESTIONS[0], None);
        author.edit(20);
        let found = answers(&engine);
        drop(engine);
        assert_same(&found, &answers_from_nothing(copied.dir()), &format!("{name} was damaged"));
    }
}

#[test]
fn two_that_write_in_turns_find_what_the_other_wrote() {
    // Segments are written and merged in the background, which may not get to it on a busy machine, nor on a fast one that has done all
    // turns before the background is asked for the second time. So now and then questions are asked for a moment, until one is written.
    const ROUNDS: usize = 10;
    const MOMENT: Duration = Duration::from_millis(600);
    let mut counts = (0, 0);
    for _ in 0..ROUNDS {
        let store = TempStore::in_memory();
        let mut seen = BTreeSet::new();
        write_in_turns(store.path(), 24, &mut |turn| {
            let (before, since) = (segments(store.path()), Instant::now());
            if turn % 4 == 3 {
                let observer = engine(store.path(), 3);
                while segments(store.path()) == before && since.elapsed() < MOMENT {
                    ask(&observer, &QUESTIONS[0], None);
                }
            }
            seen.extend(segments(store.path()));
        });
        counts = (seen.len(), segments(store.path()).len());
        if counts.0 > counts.1 {
            break;
        }
    }
    let (many, left) = counts;
    assert!(many > left, "{many} segments were seen and {left} are left: none were merged");
    eprintln!("in turns: {many} segments were seen, {left} are left");
}

#[test]
fn an_index_that_is_removed_again_and_again_is_no_loss() {
    let store = TempStore::in_memory();
    write_in_turns(store.path(), 16, &mut |turn| match turn % 4 {
        0 => drop(fs::remove_dir_all(store.path().join(INDEX_DIR))),
        2 => {
            let files = fs::read_dir(entries(store.path())).into_iter().flatten();
            files.for_each(|file| drop(fs::remove_file(file.expect("readable").path())));
        }
        _ => {}
    });
}

/// Two engines write in turns. Each write is found by the next question of both engines.
fn write_in_turns(dir: &Path, turns: u64, after_each: &mut dyn FnMut(u64)) {
    let engines = [1, 2].map(|number| engine(dir, number));
    let mut authors = [Author::new(&engines[0], 11), Author::new(&engines[1], 12)];
    for turn in 0..turns {
        let (writer, reader) = ((turn % 2) as usize, ((turn + 1) % 2) as usize);
        authors[writer].load(120);
        authors[writer].edit(20);
        let word = format!("turn{}", scrambled(turn));
        let entry = NewEntry::new(SCOPES[turn as usize % 3], "turns", format!("It is {word} now"));
        let (tx, ids) = authors[writer].commit(Write::Store(entry));
        for engine in [&engines[reader], &engines[writer]] {
            let (topic, content, tags, visible_at) = (None, Some(word.as_str()), &[], None);
            let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("readable");
            let sight = snapshot.sight_of(SCOPES.to_vec());
            let question = Question {
                sight: &sight,
                topic,
                content,
                tags,
                visible_at,
                by: By::WordsAndMeaning,
                known_words_only: false,
                explain: false,
            };
            let found = snapshot.search(&question, 0..1).expect("readable");
            let hit = found.hits.first().map(|hit| (hit.stored.id, hit.stored.tx_id));
            assert_eq!(hit, Some((ids[0], tx)), "turn {turn}");
        }
        after_each(turn);
    }
    let found = engines.each_ref().map(answers);
    drop(engines);
    let expected = answers_from_nothing(dir);
    assert_same(&found[0], &expected, "the first");
    assert_same(&found[1], &expected, "the second");
    assert_same(&answers(&engine(dir, 3)), &expected, "a third");
}

#[test]
fn answers_stay_the_same_while_another_rebuilds() {
    let copied = CLOSED.copy();
    let [asking, rebuilding] = [2, 3].map(|number| engine(copied.dir(), number));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut rounds = 0;
            while !is_done.load(Ordering::Acquire) {
                assert_same(&answers(&asking), &CLOSED.answers, "while another rebuilds");
                copied.check("opened while another rebuilds");
                rounds += 1;
            }
            rounds
        });
        for _ in 0..8 {
            let rebuilt = rebuilding.rebuild().expect("it can be built");
            assert_eq!(rebuilt.at, rebuilding.head().expect("readable"));
            assert_same(&answers(&rebuilding), &CLOSED.answers, "after a rebuild");
        }
        is_done.store(true, Ordering::Release);
        assert!(asking.join().expect("no panic") > 0);
    });
}

/// A copy of an older log that was continued differently is another log, though its transaction numbers are
/// the same.
#[test]
fn an_older_log_that_goes_on_otherwise_is_another() {
    let copied = CLOSED.copy();
    let first = engine(copied.dir(), 3);
    let mut author = Author::new(&first, 3);
    author.load(SEGMENT_WORTH);
    author.edit(40);
    first.rebuild().expect("it can be built");
    drop(first);
    fs::write(copied.dir().join(STORE_FILE), &CLOSED.store).expect("writable");
    // More transactions than the index covers, so that all of its numbers exist in this log too.
    let second = engine(copied.dir(), 4);
    let mut author = Author::new(&second, 4);
    author.load(20);
    author.edit(100);
    let found = answers(&second);
    drop(second);
    assert_same(&found, &answers_from_nothing(copied.dir()), "written since");
}

/// The log of the other store is longer than the one that the index was built from.
#[test]
fn another_stores_log_is_another() {
    let (copied, other) = (CLOSED.copy(), TempStore::in_memory());
    {
        let engine = engine(other.path(), 5);
        let mut author = Author::new(&engine, 5);
        author.load(200);
        author.edit(300);
    }
    fs::copy(other.path().join(STORE_FILE), copied.dir().join(STORE_FILE)).expect("copied");
    assert_same(&answers(&engine(copied.dir(), 6)), &answers_from_nothing(other.path()), "the other store");
}

/// An engine that has the store open answers from the restored store, in every cache that it has.
#[test]
fn a_restore_under_an_open_index_is_noticed() {
    let copied = CLOSED.copy();
    let running = engine(copied.dir(), 3);
    assert_same(&answers(&running), &CLOSED.answers, "before");
    let backup = TempStore::new();
    let file = backup.path().join("backup");
    kenning_storage::back_up(copied.dir(), &file).expect("a backup");
    let mut author = Author::new(&running, 3);
    author.load(SEGMENT_WORTH);
    author.edit(20);
    drop(answers(&running));
    let secret = running.secret().expect("a secret");
    kenning_storage::restore(copied.dir(), &file).expect("a restore");
    assert_same(&answers(&running), &CLOSED.answers, "restored");
    assert_ne!(running.secret().expect("a secret"), secret, "old cursors do not hold any more");
    let mut author = Author::new(&running, 4);
    author.load(20);
    author.edit(20);
    let found = answers(&running);
    drop(running);
    assert_same(&found, &answers_from_nothing(copied.dir()), "written since");
}

/// `DAMAGED_INDEXES=1000` runs it longer.
#[test]
fn no_damaged_index_answers_wrongly() {
    let many = std::env::var("DAMAGED_INDEXES").map_or(40, |many| many.parse().expect("a number"));
    let seed = std::env::var("SEED").map_or(1, |text| text.parse().expect("SEED is a number"));
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= many {
                        break;
                    }
                    damage_and_ask(seed, case);
                }
            });
        }
    });
    println!("damaged indexes: {many}, SEED={seed}: 0 wrong, 0 endless");
}

fn damage_and_ask(seed: u64, case: u64) {
    let random = |what: u64| scrambled(seed << 40 ^ case << 8 ^ what) as usize;
    let copied = CLOSED.copy();
    let (name, bytes) = &CLOSED.index[random(0) % CLOSED.index.len()];
    let mut bytes = bytes.clone();
    if bytes.is_empty() {
        bytes.push(0);
    }
    let pages = bytes.len().div_ceil(PAGE);
    let page = |number: usize| number * PAGE..((number + 1) * PAGE).min(bytes.len());
    let (at, one, other) = (random(1) % bytes.len(), page(random(2) % pages), page(random(3) % pages));
    match case % 5 {
        0 => bytes[at] ^= 1 << (random(4) % 8),
        1 if one.len() == other.len() => {
            let copy = bytes[one.clone()].to_vec();
            bytes.copy_within(other.clone(), one.start);
            bytes[other].copy_from_slice(&copy);
        }
        2 => bytes[one].fill(0),
        3 => bytes.truncate(at),
        _ => one.for_each(|at| bytes[at] = scrambled(at as u64 ^ case) as u8),
    }
    fs::write(entries(copied.dir()).join(name), bytes).expect("writable");
    assert_same(&answers(&engine(copied.dir(), 2)), &CLOSED.answers, &format!("case {case}, {name}"));
}

/// The process that holds the writer lock may have been stopped for an unknown time.
#[test]
fn a_builder_that_stands_still_holds_no_question_up() {
    // More transactions than are read into memory while a question waits; see `indexed.rs`.
    const TRANSACTIONS: usize = 20_100;
    let store = TempStore::in_memory();
    {
        let engine = engine(store.path(), 1);
        let mut author = Author::new(&engine, 1);
        author.load(50);
        for number in author.engine.head().expect("readable").0 as usize..TRANSACTIONS {
            let triple = NewTriple {
                scope: ScopeId(1),
                subject: format!("host {number}"),
                predicate: "runs".to_owned(),
                object: "it".to_owned(),
                source: None,
                confidence: None,
            };
            author.commit(Write::Relate { triple, on_conflict: OnConflict::KeepBoth });
        }
    }
    let expected = answers_from_nothing(store.path());
    let dir = entries(store.path());
    fs::create_dir_all(&dir).expect("a directory");
    let lock = OpenOptions::new().create(true).append(true).open(dir.join("lock")).expect("a file");
    lock.try_lock().expect("nobody else has it");

    let second = engine(store.path(), 2);
    let since = Instant::now();
    let found = ask(&second, &QUESTIONS[0], None);
    let elapsed = since.elapsed();
    assert!(elapsed < Duration::from_secs(1), "the answer took {elapsed:?}");
    assert!(found.is_degraded, "it says that it is not all");
    let ids = |answer: &Answer| answer.hits.iter().map(|hit| hit.0).collect::<Vec<_>>();
    assert_eq!(ids(&found), ids(&expected.found[0]), "what there is in the log is found all the same");
    // The process reads the log in the background, and its answers are then as good as those of an index.
    let since = Instant::now();
    while ask(&second, &QUESTIONS[0], None).is_degraded {
        assert!(since.elapsed() < LONG, "the log is never read");
    }
    assert_same(&answers(&second), &expected, "with the builder still standing");
}

/// After a large load the index is behind by more than can be read in the time of one question.
#[test]
fn a_question_with_little_time_finds_what_can_be_read_in_it() {
    let store = TempStore::in_memory();
    {
        let engine = engine(store.path(), 1);
        let mut author = Author::new(&engine, 1);
        (0..400).for_each(|_| author.load(100));
    }
    let expected = answers_from_nothing(store.path());
    let second = engine(store.path(), 2);
    // How much time is little depends on the machine: each question has twice that of the one before, which left it less to read.
    let mut hurried =
        (7..).map(|doublings| second.until(Instant::now() + Duration::from_millis(1 << doublings)));
    let found = hurried.find_map(|hurried| try_to_ask(&hurried, &QUESTIONS[0], None).ok());
    let found = found.expect("there is no end of time");
    assert!(found.is_degraded, "it says that it is not all");
    assert!(found.total > 0, "the newest entries are found");
    let whole = ask(&second, &QUESTIONS[0], None);
    let expected = &expected.found[0];
    assert_eq!((whole.is_degraded, whole.total, &whole.hits), (false, expected.total, &expected.hits));
}

#[test]
fn one_long_file_is_in_the_index_on_disk_before_anyone_asks() {
    let store = TempStore::in_memory();
    let engine = engine(store.path(), 1);
    let passages = || store.path().join(INDEX_DIR).join("passages").join("manifest").exists();
    take_in(&engine, "docs", "short.md", "# Tomatoes\n\nThey want sun.\n");
    engine.settle().expect("the index can be written");
    assert!(!passages(), "a few words are read when somebody asks");
    // One transaction and one section, which is as long as 300 passages.
    take_in(&engine, "docs", "long.md", &"They want sun and water.\n".repeat(12_000));
    engine.settle().expect("the index can be written");
    assert!(passages(), "the next question would have to read all of it");
}
