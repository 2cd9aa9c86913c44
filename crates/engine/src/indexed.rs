//! The index of entries, of sections of documents, or of patterns, which follows the log. It holds every
//! version, so it answers as of any earlier transaction as it would have answered then.
//!
//! Segments on the disk are written from the log alone, by one process at a time, in the background. Each
//! process keeps the later changes in memory, read from the log before the question that needs them. So there
//! is one way to fill the index, whether a process has just started, another process has written, or the
//! directory was lost.

mod handover;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kenning_model::{EntityType, Id, Record, Status, Timestamp, Transaction, TxId};
use kenning_retrieval::Error::Damaged;
use kenning_retrieval::evidence::Rarity;
use kenning_retrieval::{
    By, Directory, Document, Embedder, Hit, Index, Known, Limits, Reached, Version, Writer,
};
use kenning_storage::{Applied, At, Error, LogChange, Reader, RecordKey, Storage, StoreId, Stored};

use crate::duplicates;
use crate::reading::{PAGE, follow};
use crate::search::{Asked, Explanation};
use crate::text::IndexedText;
use crate::{Rebuilt, Sight, Snapshot, locked};

/// With this number of changes in memory a segment is written.
const TAIL_MAX: usize = 512;
/// An index that is further behind the log than this catches up by writing segments, not in memory.
const BEHIND_MAX: u64 = 2_000;
/// The approximate number of changes in one segment, so that building the index does not hold everything in
/// memory.
const SEGMENT_CHANGES: usize = 16_384;
/// Bounds for the number of transactions that are read at a time; within them it depends on the size of the
/// previous ones.
const STRIDE_MIN: u64 = 16;
const STRIDE_MAX: u64 = 4_096;
/// A transaction with this number of changes is part of a bulk load, which is indexed while it goes on.
const LOAD_CHANGES: usize = 64;
/// With this number of unread changes the log is read in the background, and one step reads this number of
/// transactions, so that a question that arrives meanwhile waits a short time only.
const FOLLOWED: usize = 64;
/// The most transactions that are read into memory while another process writes segments of them, instead of
/// waiting for it.
const IN_MEMORY_MAX: u64 = 20_000;
/// After a load this number of transactions is worth a segment: a document has about eight sections.
const SETTLED_MIN: u64 = TAIL_MAX as u64 / 8;
/// Fewer transactions are worth a segment if they have this much text: one file can be one section of
/// thousands of passages.
const SETTLED_BYTES: usize = 256 * 1024;
/// A question waits for the vectors of at most this number of new texts when the embedder is slow.
const EMBEDDED_AT_ONCE: usize = 8;
/// How long a command waits for another process that is building the index.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a question waits for another process that is building the index, and for how long it then
/// searches the newest records instead. The other process may be stopped, and nobody should wait longer than
/// a second for an answer.
const PATIENCE_TO_ASK: Duration = Duration::from_millis(200);
const LOOKED_THROUGH_FOR: Duration = Duration::from_millis(400);
/// How long a question reads what is new in the log itself, after which it searches the newest records instead: in a load of a
/// million entries the index may be a minute behind. And the number of transactions that it reads at a time.
const PATIENCE_TO_READ: Duration = Duration::from_secs(5);
const READ_AT_ONCE: u64 = 16;
/// The number of records that are read at a time in such a search.
const LOOKED_THROUGH: u64 = 256;
/// How long a question waits for the writer lock in order to repair an index that can't be read.
const PATIENCE_TO_MEND: Duration = Duration::from_secs(1);
/// The shortest time between two attempts to get the writer lock in the background.
const ASK_EVERY: Duration = Duration::from_millis(250);

pub(crate) struct Indexed {
    /// The type of the records in the index: entries, sections of documents, or documents that are patterns.
    of: EntityType,
    storage: Arc<Storage>,
    embedder: Arc<Embedder>,
    /// Whether segments are written and threads started; a process that ends after one answer does neither.
    is_kept: bool,
    /// Whether segments are left in the store for other servers.
    leaves_files: bool,
    directory: Directory,
    state: RwLock<Option<State>>,
    worker: Mutex<Worker>,
    /// The number of changes of large transactions that are not in a segment yet.
    loaded: AtomicUsize,
    /// The number of single changes since the log was last read in the background.
    unfollowed: AtomicUsize,
    stop: AtomicBool,
    /// Set when the directory can't be used: the whole index is then kept in memory.
    memory_only: AtomicBool,
    /// How often the index was discarded.
    thrown_away: AtomicUsize,
    /// The thread that leaves segments in the store, of which there is one at most.
    leaver: Mutex<Option<JoinHandle<()>>>,
    /// The last transaction of the segments that were left in the store, as far as this process knows.
    left_at: AtomicU64,
    /// Whether the directory is being filled before anyone has asked.
    is_beginning: AtomicBool,
}

struct State {
    /// The store whose log was read. A restore puts another store in its place.
    store: StoreId,
    at: TxId,
    index: Index,
    segments_end: TxId,
}

/// The thread that writes segments; there is at most one.
#[derive(Default)]
struct Worker {
    thread: Option<JoinHandle<()>>,
    asked: Option<Instant>,
}

/// One page of matches, and the total number of matches.
pub(crate) struct Matches {
    pub hits: Vec<Match>,
    pub total: u64,
    pub is_degraded: bool,
    pub is_meaningful: bool,
}

pub(crate) struct Match {
    pub id: Id,
    /// The number of the passage within the section; an entry is a single passage.
    pub passage: usize,
    pub score: f32,
    /// As in `kenning_retrieval::Hit`.
    pub cosine: f32,
    pub has_word: bool,
    pub explanation: Option<Explanation>,
}

/// The part that could not be read.
enum Failed {
    Index(kenning_retrieval::Error),
    Store(Error),
    /// Another process is building the index.
    Busy,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Store(error) => error,
            Failed::Index(kenning_retrieval::Error::OutOfTime) => Error::OutOfTime,
            Failed::Index(error) => Error::Unavailable {
                applied: Applied::No,
                reason: format!("search is not possible: {error}"),
            },
            Failed::Busy => Error::Unavailable {
                applied: Applied::No,
                reason: "another process is making the index".to_owned(),
            },
        }
    }
}

impl From<kenning_retrieval::Error> for Failed {
    fn from(error: kenning_retrieval::Error) -> Failed {
        Failed::Index(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}

impl Indexed {
    pub(crate) fn new(
        of: EntityType,
        storage: Arc<Storage>,
        dir: PathBuf,
        embedder: Arc<Embedder>,
        is_kept: bool,
        leaves_files: bool,
    ) -> Indexed {
        Indexed {
            of,
            storage,
            is_kept,
            leaves_files,
            directory: Directory::new(dir, embedder.clone()),
            embedder,
            state: RwLock::default(),
            worker: Mutex::default(),
            loaded: AtomicUsize::new(0),
            unfollowed: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            memory_only: AtomicBool::new(false),
            thrown_away: AtomicUsize::new(0),
            leaver: Mutex::default(),
            left_at: AtomicU64::new(0),
            is_beginning: AtomicBool::new(false),
        }
    }

    /// Answers as of the transaction of the sight, after the index has read the log at least that far.
    pub(crate) fn search(
        self: &Arc<Self>,
        reader: &dyn Reader,
        deadline: Option<Instant>,
        question: &Asked<'_>,
        page: Range<u64>,
    ) -> Result<Matches, Error> {
        let search = |index: &Index| matches(index, deadline, question, page.clone());
        let is_degraded = |found: &Matches| found.is_degraded;
        let at = question.sight.at;
        let found =
            self.until_read(|| unless_busy(self.ask_index(reader, at, deadline, search, is_degraded)))?;
        match found {
            Some(found) => Ok(found),
            None => Ok(self.search_log(reader, deadline, question, page)?),
        }
    }

    /// Searches for several texts at once: for each, the best matches by words and meaning and the best by
    /// meaning alone. The text and `by` of `question` are ignored.
    pub(crate) fn search_texts(
        self: &Arc<Self>,
        reader: &dyn Reader,
        deadline: Option<Instant>,
        question: &Asked<'_>,
        texts: &[&str],
        most: u64,
    ) -> Result<Vec<[Matches; 2]>, Error> {
        let search = |index: &Index| {
            let groups = question.sight.groups();
            let asked = question.of_index(&groups);
            let results = index.search_texts_until(texts, &asked, most, deadline)?;
            Ok(results.into_iter().map(|it| [it.by_both, it.by_meaning].map(Matches::from)).collect())
        };
        let is_degraded = |found: &Vec<[Matches; 2]>| found.iter().any(|[by_both, _]| by_both.is_degraded);
        let at = question.sight.at;
        let found =
            self.until_read(|| unless_busy(self.ask_index(reader, at, deadline, search, is_degraded)))?;
        if let Some(found) = found {
            return Ok(found);
        }
        let mut found = Vec::with_capacity(texts.len());
        for text in texts {
            let by_both = Asked { text: Some(text), by: By::WordsAndMeaning, ..question.clone() };
            let by_meaning = Asked { by: By::Meaning, known_words_only: false, ..by_both.clone() };
            let ask = |asked: &Asked<'_>| self.search_log(reader, deadline, asked, 0..most);
            found.push([ask(&by_both)?, ask(&by_meaning)?]);
        }
        Ok(found)
    }

    /// Searches the newest records, as many as can be read within the time limit.
    fn search_log(
        self: &Arc<Self>,
        reader: &dyn Reader,
        deadline: Option<Instant>,
        question: &Asked<'_>,
        page: Range<u64>,
    ) -> Result<Matches, Failed> {
        {
            let mut worker = locked(&self.worker);
            if self.is_kept && worker.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                self.start(&mut worker, Indexed::read_all);
            }
        }
        // Half of the remaining time is for reading, the other half for searching what was read.
        let now = Instant::now();
        let left =
            deadline.map_or(LOOKED_THROUGH_FOR, |deadline| deadline.saturating_duration_since(now) / 2);
        let until = now + LOOKED_THROUGH_FOR.min(left);
        let Sight { at, scopes } = question.sight;
        let (mut read, mut newest) = (0, Vec::new());
        while Instant::now() < until {
            let records = reader.page_in(self.of, scopes, *at, read..read + LOOKED_THROUGH)?;
            read += records.len() as u64;
            let mut batch = Vec::with_capacity(records.len());
            for Stored { id, tx_id, record } in records {
                batch.push(Change { tx: tx_id, id, before: 0, after: Some(IndexedText::from(record)) });
            }
            if batch.is_empty() {
                break;
            }
            complete(reader, &mut batch)?;
            let prepared = prepare(&batch, &self.embedder)?;
            newest.extend(batch.iter().map(|change| (change.tx, change.id)).zip(prepared));
        }
        let mut index = Index::empty(self.embedder.clone());
        for ((tx, id), versions) in newest.into_iter().rev() {
            for (passage, version) in versions.into_iter().enumerate() {
                index.change(tx.0, key(id, passage), false, Some(version))?;
            }
        }
        Ok(Matches { is_degraded: true, ..matches(&index, deadline, question, page)? })
    }

    /// Reads the whole log into memory, for the case that another process makes no progress with the index.
    fn read_all(&self) -> Result<(), Failed> {
        yield_to_others();
        let reader = self.storage.reader()?;
        let mut new = self.open(&*reader, None)?;
        let head = reader.head()?;
        while new.at < head {
            if self.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            let to = TxId(head.0.min(new.at.0 + STRIDE_MAX));
            new.catch_up(&*reader, self.of, to, &self.embedder)?;
        }
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.as_ref().is_none_or(|state| state.store != new.store || state.at < new.at) {
            *state = Some(new);
        }
        Ok(())
    }

    /// Runs a read, and repairs the index if it fails. The index is a cache of the log: an index that can't
    /// be read is discarded and built again, first in the directory and then in memory only. Only a store
    /// that can't be read is an error.
    fn until_read<T>(&self, read: impl Fn() -> Result<T, Failed>) -> Result<T, Error> {
        let before = self.thrown_away.load(Ordering::Acquire);
        match read() {
            Err(Failed::Index(error)) if error.is_about_files() && self.is_kept => {
                // Another question may have met the same damage; then the index was rebuilt already.
                if self.thrown_away.load(Ordering::Acquire) == before {
                    self.throw_away(&error);
                }
            }
            done => return Ok(done?),
        }
        match read() {
            Err(Failed::Index(error)) if error.is_about_files() => self.leave_directory(&error),
            done => return Ok(done?),
        }
        Ok(read()?)
    }

    /// The terms of a question and how rare each is in sight.
    pub(crate) fn rarities(
        self: &Arc<Self>,
        reader: &dyn Reader,
        deadline: Option<Instant>,
        sight: &Sight,
        text: &str,
    ) -> Result<Vec<Rarity>, Error> {
        let groups = sight.groups();
        let within =
            kenning_retrieval::Sight { at: sight.at.0, groups: &groups, labels: &[], valid_at: None };
        let rarities = self.until_read(|| {
            let Some(state) = unless_busy(self.level(reader, sight.at, deadline))? else { return Ok(None) };
            Ok(match &*state {
                Some(State { index, .. }) => Some(index.rarities(text, &within)?),
                None => None,
            })
        });
        Ok(rarities?.unwrap_or_default())
    }

    /// Searches the index as of a transaction. Starts background work if the tail is long or the result is
    /// degraded.
    fn ask_index<T>(
        self: &Arc<Self>,
        reader: &dyn Reader,
        at: TxId,
        deadline: Option<Instant>,
        search: impl Fn(&Index) -> Result<T, Failed>,
        is_degraded: impl Fn(&T) -> bool,
    ) -> Result<T, Failed> {
        let state = self.level(reader, at, deadline)?;
        let Some(State { index, .. }) = &*state else {
            return Err(Error::Bug { what: "no index".into() }.into());
        };
        let found = search(index)?;
        let is_wanting = index.tail().changes() >= TAIL_MAX || is_degraded(&found);
        drop(state);
        if is_wanting {
            self.work();
        }
        Ok(found)
    }

    /// The index after it has read the log up to `at` at least.
    fn level(
        self: &Arc<Self>,
        reader: &dyn Reader,
        at: TxId,
        deadline: Option<Instant>,
    ) -> Result<RwLockReadGuard<'_, Option<State>>, Failed> {
        let store = reader.store_id()?;
        // The guarded value is a cache of the log. If a panic left it half filled, it is discarded below.
        if let Ok(state) = self.state.read()
            && state.as_ref().is_some_and(|state| state.at >= at && state.store == store)
        {
            return Ok(state);
        }
        self.wait_for_beginning(at, deadline)?;
        let mut guard = self.state.write().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            *state = None;
            state
        });
        // The state is put back only after it has caught up with the log, so an error leaves no half-built
        // index behind.
        let is_first = guard.is_none();
        let mut state = match guard.take().filter(|state| state.store == store) {
            Some(state) => state,
            None => self.open(reader, None)?,
        };
        let is_behind = |state: &State| self.is_far(at.0, state.at.0);
        // Another process may have written segments of transactions that this one has not read.
        if !is_first && is_behind(&state) {
            state = self.open(reader, Some(&state.index.known()))?;
        }
        if is_behind(&state) && !self.is_kept {
            return Err(Failed::Busy);
        }
        let waits_until = deadline.map(|deadline| {
            let now = Instant::now();
            now + (deadline.saturating_duration_since(now) / 2).min(PATIENCE_TO_READ)
        });
        let is_late = || waits_until.is_some_and(|until| Instant::now() >= until);
        if is_behind(&state) {
            match self.build(reader, at, PATIENCE_TO_ASK, waits_until) {
                Ok(true) => state = self.open(reader, Some(&state.index.known()))?,
                Ok(false) => {}
                Err(Failed::Busy) if is_late() => return self.leave_to_worker(guard, state),
                Err(error) => return Err(error),
            }
        }
        if is_first && self.is_kept && !self.embedder.is_slow() {
            self.embed(reader, &state.index.known())?;
        }
        while state.at < at {
            if is_late() {
                return self.leave_to_worker(guard, state);
            }
            let to = TxId(at.0.min(state.at.0 + READ_AT_ONCE));
            state.catch_up(reader, self.of, to, &self.embedder)?;
        }
        *guard = Some(state);
        if is_first {
            self.work();
        }
        Ok(RwLockWriteGuard::downgrade(guard))
    }

    /// Keeps an index that is behind the log. The next question goes on from here, and the worker does so meanwhile.
    fn leave_to_worker<T>(
        self: &Arc<Self>,
        mut guard: RwLockWriteGuard<'_, Option<State>>,
        state: State,
    ) -> Result<T, Failed> {
        *guard = Some(state);
        drop(guard);
        self.work();
        Err(Failed::Busy)
    }

    /// The records in the segments and in sight that have any of these marks, each with the number of marks,
    /// and the transaction up to which the segments go.
    pub(crate) fn marked(
        self: &Arc<Self>,
        snapshot: &Snapshot<'_>,
        sight: &Sight,
        marks: &[u32],
    ) -> Result<(Vec<(Id, usize)>, TxId), Error> {
        let groups = sight.groups();
        self.until_read(|| {
            // While another process builds the index, no similar entries are reported.
            let Some((segments, end)) = unless_busy(self.segments(snapshot))? else {
                return Ok((Vec::new(), snapshot.at()));
            };
            let found = segments.marked(marks, &groups)?;
            Ok((found.into_iter().map(|(key, many)| (Id::from_bits(key), many)).collect(), end))
        })
    }

    /// The segments, and the transaction up to which they go. The first call may have to write them.
    fn segments(self: &Arc<Self>, snapshot: &Snapshot<'_>) -> Result<(Known, TxId), Failed> {
        let store = snapshot.store();
        let of = |state: &Option<State>| {
            let state = state.as_ref().filter(|state| state.store == store)?;
            Some((state.index.known(), state.segments_end))
        };
        if let Some(segments) = of(&self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner())) {
            return Ok(segments);
        }
        Ok(of(&*self.level(snapshot.reader(), snapshot.at(), snapshot.deadline())?).unwrap_or_default())
    }

    /// The index as it is in the directory.
    fn open(&self, reader: &dyn Reader, known: Option<&Known>) -> Result<State, Failed> {
        let store = reader.store_id()?;
        if self.memory_only.load(Ordering::Acquire) {
            let (at, index) = (TxId::EMPTY, Index::empty(self.embedder.clone()));
            return Ok(State { store, at, index, segments_end: at });
        }
        let (index, reached) = self.directory.open(known)?;
        check_source(reader, &reached)?;
        let at = TxId(reached.at);
        Ok(State { store, at, index, segments_end: at })
    }

    /// Computes missing vectors, unless another process is writing: then search uses words alone until that
    /// is done.
    fn embed(&self, reader: &dyn Reader, segments: &Known) -> Result<(), Failed> {
        if segments.has_vectors() {
            return Ok(());
        }
        if let Some(writer) = self.lock_within(PATIENCE_TO_MEND).map_err(kenning_retrieval::Error::from)? {
            self.directory.attach_vectors(segments)?;
            match writer.embed(segments, &|key, from, take| text_of(reader, self.of, key, from, take)) {
                // If no vectors can be written, search uses words alone, which are intact.
                Err(kenning_retrieval::Error::Io(error)) => {
                    tracing::warn!(%error, "no vectors could be written")
                }
                made => made?,
            }
        }
        Ok(())
    }

    /// Writes segments up to `to`, or waits for another process that may be doing so. False if no segments
    /// could be written.
    fn build(
        &self,
        reader: &dyn Reader,
        to: TxId,
        patience: Duration,
        until: Option<Instant>,
    ) -> Result<bool, Failed> {
        let since = Instant::now();
        while !self.memory_only.load(Ordering::Acquire) {
            match self.directory.lock(&self.stop) {
                Ok(Some(writer)) => {
                    let written = self.take_left(reader, &writer).and_then(|_| {
                        append(&writer, reader, self.of, to, &self.embedder, &self.stop, until)
                    });
                    match written {
                        // A full disk must not prevent questions.
                        Err(Failed::Index(error)) => {
                            tracing::warn!(%error, "no segment could be written");
                            return Ok(false);
                        }
                        done => return done.map(|()| true),
                    }
                }
                Ok(None) if self.directory.at()? >= to.0 => return Ok(true),
                Ok(None) if to.0 - self.directory.at()? <= IN_MEMORY_MAX => return Ok(false),
                Ok(None) if since.elapsed() > patience => return Err(Failed::Busy),
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Discards the index and keeps it in memory from now on.
    fn leave_directory(&self, error: &kenning_retrieval::Error) {
        tracing::warn!(%error, "the index is kept in memory");
        self.forget(true);
    }

    /// Discards the index. It is built again in the directory if that can be cleared, else in memory.
    fn throw_away(&self, error: &kenning_retrieval::Error) {
        tracing::warn!(%error, "the index is made again from the log");
        let cleared = match self.lock_within(PATIENCE_TO_MEND) {
            Ok(Some(writer)) => writer.clear().is_ok(),
            _ => false,
        };
        self.forget(!cleared);
    }

    /// Drops the state. The next question opens the directory again, or reads the whole log into memory.
    fn forget(&self, memory_only: bool) {
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.memory_only.store(memory_only, Ordering::Release);
        self.thrown_away.fetch_add(1, Ordering::AcqRel);
        *state = None;
    }

    fn lock_within(&self, patience: Duration) -> io::Result<Option<Writer<'_>>> {
        let since = Instant::now();
        loop {
            match self.directory.lock(&self.stop)? {
                None if since.elapsed() < patience => std::thread::sleep(Duration::from_millis(20)),
                lock => return Ok(lock),
            }
        }
    }

    /// Removes the index from the disk, because it contains text that was purged. The next question builds it
    /// again.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let unavailable = |reason: String| Error::Unavailable { applied: Applied::No, reason };
        if self.directory.is_there() {
            // Another process that is writing a segment may have read the log before the purge.
            let lock = self.lock_within(PATIENCE).map_err(|error| unavailable(error.to_string()))?;
            let writer =
                lock.ok_or_else(|| unavailable("another process is writing the index".to_owned()))?;
            writer.clear().map_err(|error| unavailable(error.to_string()))?;
        }
        self.forget(false);
        Ok(())
    }

    /// Discards the index and builds it again from the log.
    pub(crate) fn rebuild(&self, reader: &dyn Reader) -> Result<Rebuilt, Error> {
        let busy = |reason: String| Error::Unavailable { applied: Applied::No, reason };
        let lock = self.lock_within(PATIENCE).map_err(|error| busy(error.to_string()))?;
        let writer = lock.ok_or_else(|| busy("another process is writing the index".into()))?;
        writer.clear().map_err(|error| busy(error.to_string()))?;
        let to = reader.head()?;
        append(&writer, reader, self.of, to, &self.embedder, &self.stop, None)?;
        writer.merge_all(&Known::default()).map_err(Failed::from)?;
        let (index, reached) = self.directory.open(None).map_err(|error| busy(error.to_string()))?;
        self.forget(false);
        Ok(Rebuilt { at: TxId(reached.at), versions: index.versions(), live: index.live() })
    }

    /// Counts the changes of a commit. A bulk load is indexed while it goes on; single writes are read in the
    /// background, some at a time.
    pub(crate) fn committed(self: &Arc<Self>, tx: &Transaction) {
        let changes = tx.changes.iter().filter(|change| change.entity_type == self.of).count();
        if changes >= LOAD_CHANGES {
            let loaded = self.loaded.fetch_add(changes, Ordering::AcqRel) + changes;
            if loaded >= SEGMENT_CHANGES && self.work() {
                self.loaded.store(0, Ordering::Release);
            }
        } else if self.unfollowed.fetch_add(changes, Ordering::AcqRel) + changes >= FOLLOWED && self.follow()
        {
            self.unfollowed.store(0, Ordering::Release);
        }
    }

    /// Writes segments up to the end of the log, if the next question would otherwise take noticeably long.
    pub(crate) fn settle(&self, reader: &dyn Reader) -> Result<(), Error> {
        let head = reader.head()?;
        let settled = self.directory.at().map_err(Failed::from).and_then(|at| {
            if head.0.saturating_sub(at) >= SETTLED_MIN || self.has_much_text(reader, TxId(at), head)? {
                self.build(reader, head, PATIENCE, None)?;
            }
            Ok(())
        });
        match settled {
            // The next question repairs an index that can't be read, or answers without it.
            Err(Failed::Index(error)) => {
                tracing::warn!(%error, "the index could not be written");
                Ok(())
            }
            Err(Failed::Busy) => Ok(()),
            settled => Ok(settled?),
        }
    }

    /// Whether the sections that changed after `at` have so much text that reading it takes noticeably long.
    fn has_much_text(&self, reader: &dyn Reader, at: TxId, head: TxId) -> Result<bool, Error> {
        let mut bytes = 0;
        follow(reader, reader.store_id()?, &[self.of], at, head, |changes| {
            for change in &changes {
                if let Some(Record::Section(section)) = &change.after {
                    bytes += section.text.len();
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(bytes >= SETTLED_BYTES)
    }

    /// Starts writing segments in the background. False if a thread is at work or was started a moment ago.
    fn work(self: &Arc<Self>) -> bool {
        if !self.is_kept {
            return false;
        }
        let mut worker = locked(&self.worker);
        let is_busy = worker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_busy || worker.asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
            return false;
        }
        worker.asked = Some(Instant::now());
        self.start(&mut worker, Indexed::refresh)
    }

    /// Starts reading the log in the background, at low priority. False if a thread is at work.
    fn follow(self: &Arc<Self>) -> bool {
        let mut worker = locked(&self.worker);
        let is_busy = worker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        // A slow embedder makes vectors for texts that a question waits for, or for many texts together, so
        // it is left out here.
        !is_busy && !self.embedder.is_slow() && self.start(&mut worker, Indexed::keep_level)
    }

    fn start(self: &Arc<Self>, worker: &mut Worker, job: fn(&Indexed) -> Result<(), Failed>) -> bool {
        let indexed = self.clone();
        // If no thread can be started, nothing changes until the next attempt.
        worker.thread = std::thread::Builder::new()
            .name("kenning-index".into())
            .spawn(move || {
                match job(&indexed) {
                    // A damaged segment would make every later attempt fail.
                    Err(Failed::Index(error @ Damaged { .. })) => indexed.throw_away(&error),
                    Err(Failed::Index(error)) if !indexed.stop.load(Ordering::Acquire) => {
                        tracing::warn!(%error, "no segment could be written");
                    }
                    _ => {}
                }
                indexed.leave();
            })
            .ok();
        worker.thread.is_some()
    }

    /// Reads the log step by step until the index has caught up, and writes segments on the way. Preparing
    /// the texts, which is nearly all of the work, holds no lock.
    fn keep_level(&self) -> Result<(), Failed> {
        yield_to_others();
        let reader = self.storage.reader()?;
        while !self.stop.load(Ordering::Acquire) {
            let store = reader.store_id()?;
            let at = match &*self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
                Some(state) if state.store == store => state.at,
                // No question has come yet; the first one opens the index.
                _ => return Ok(()),
            };
            let to = TxId(reader.head()?.0.min(at.0 + FOLLOWED as u64));
            if to.0 < at.0 + FOLLOWED as u64 / 2 {
                return Ok(());
            }
            let mut changes = Vec::new();
            let source = Source { reader: &*reader, store, of: self.of };
            source.feed(at, to, &self.embedder, &mut |tx, key, ends, after| {
                changes.push((tx, key, ends, after));
                Ok(())
            })?;
            self.take_in(store, at, to, changes)?;
            if self.is_tail_long() {
                self.refresh()?;
            }
        }
        Ok(())
    }

    /// Puts prepared changes after `at` into the index, unless a question has done so meanwhile.
    fn take_in(&self, store: StoreId, at: TxId, to: TxId, changes: Vec<Prepared>) -> Result<(), Failed> {
        let mut guard = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(mut state) = guard.take_if(|state| state.at == at && state.store == store) else {
            return Ok(());
        };
        // The state is put back only at the end, so an error leaves no half-filled index behind.
        for (tx, key, ends, after) in changes {
            state.index.change(tx.0, key, ends, after)?;
        }
        state.at = to;
        *guard = Some(state);
        Ok(())
    }

    /// Moves the tail from memory into segments: writes them, or opens those that another process has
    /// written.
    fn refresh(&self) -> Result<(), Failed> {
        if self.memory_only.load(Ordering::Acquire) {
            return Ok(());
        }
        let reader = self.storage.reader()?;
        let known = match &*self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(state) => state.index.known(),
            None => Known::default(),
        };
        self.directory.attach_vectors(&known)?;
        known.load_vectors(&self.stop)?;
        let head = reader.head()?;
        let is_behind = |at: u64| head.0.saturating_sub(at) as usize >= TAIL_MAX;
        if let Ok(Some(writer)) = self.directory.lock(&self.stop) {
            if self.is_tail_long() || is_behind(self.directory.at()?) {
                append(&writer, &*reader, self.of, head, &self.embedder, &self.stop, None)?;
            }
            let known = self.directory.open(Some(&known))?.0.known();
            if !known.has_vectors() {
                // Search is degraded already, so the new segments are opened before their vectors are made,
                // which is slow.
                if self.embedder.is_slow() && self.is_degraded() {
                    self.take_over(&*reader, &known)?;
                }
                writer.embed(&known, &|key, from, take| text_of(&*reader, self.of, key, from, take))?;
            }
            writer.merge(&known)?;
        }
        if self.directory.is_newer(&known)? {
            self.take_over(&*reader, &known)?;
        }
        Ok(())
    }

    /// Opens the current segments and continues with them.
    fn take_over(&self, reader: &dyn Reader, known: &Known) -> Result<(), Failed> {
        let before = self.thrown_away.load(Ordering::Acquire);
        let mut new = self.open(reader, Some(known))?;
        new.index.known().load_vectors(&self.stop)?;
        let store = new.store;
        let of_it = |state: &&State| state.store == store;
        let at = |state: &Option<State>| state.as_ref().filter(of_it).map_or(TxId::EMPTY, |state| state.at);
        let now = at(&self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner()));
        new.catch_up(reader, self.of, now.max(new.at), &self.embedder)?;
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A question may have read further meanwhile.
        let now = at(&state);
        new.catch_up(reader, self.of, now.max(new.at), &self.embedder)?;
        // If the index was discarded meanwhile, the new one may be the one that could not be read.
        if self.thrown_away.load(Ordering::Acquire) == before {
            *state = Some(new);
        }
        Ok(())
    }

    pub(crate) fn is_warm(&self) -> bool {
        let state = self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.as_ref().is_some_and(|state| state.index.known().is_loaded())
    }

    fn is_tail_long(&self) -> bool {
        let state = self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let tail = state.as_ref().map(|state| state.index.tail());
        tail.is_some_and(|tail| tail.changes() >= TAIL_MAX || !tail.has_vectors())
    }

    fn is_degraded(&self) -> bool {
        let state = self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let index = state.as_ref().map(|state| &state.index);
        index.is_none_or(|index| !index.tail().has_vectors() || !index.known().has_vectors())
    }

    /// Ends the background work. A segment that is half written is not in the manifest, so it has no effect.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let worker = locked(&self.worker).thread.take();
        if let Some(thread) = worker {
            let _ = thread.join();
        }
        let leaver = locked(&self.leaver).take();
        if let Some(thread) = leaver {
            let _ = thread.join();
        }
    }
}

/// `None` while another process builds the index.
fn unless_busy<T>(done: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match done {
        Err(Failed::Busy) => Ok(None),
        done => done.map(Some),
    }
}

/// One page of the matches of a question in an index.
fn matches(
    index: &Index,
    deadline: Option<Instant>,
    question: &Asked<'_>,
    page: Range<u64>,
) -> Result<Matches, Failed> {
    let groups = question.sight.groups();
    Ok(index.search_until(&question.of_index(&groups), page, deadline)?.into())
}

impl From<kenning_retrieval::Results> for Matches {
    fn from(results: kenning_retrieval::Results) -> Matches {
        let found = |hit: &Hit| Match {
            id: Id::from_bits(hit.key),
            passage: (hit.key >> PASSAGE_SHIFT) as usize,
            score: hit.score,
            cosine: hit.cosine,
            has_word: hit.has_word,
            explanation: hit.why.as_ref().map(|why| Explanation::new(hit.score, why)),
        };
        let hits = results.hits.iter().map(found).collect();
        let kenning_retrieval::Results { total, is_degraded, is_meaningful, .. } = results;
        Matches { hits, total, is_degraded, is_meaningful }
    }
}

/// Lowers the priority of this thread, so that following the log does not slow down writes. At 10 the thread
/// still gets about a tenth of a busy core, which is enough. At 19 it gets nothing on a busy machine, and the
/// next question has thousands of writes to read.
fn yield_to_others() {
    // On other systems the priority belongs to the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        tracing::debug!(%error, "the index is made at the usual priority");
    }
}

/// Writes the changes of the log after the last segment as more segments. `Busy` if that takes longer than until the given
/// time; what was written by then stays.
fn append(
    writer: &Writer<'_>,
    reader: &dyn Reader,
    of: EntityType,
    to: TxId,
    embedder: &Embedder,
    stop: &AtomicBool,
    until: Option<Instant>,
) -> Result<(), Failed> {
    let store = reader.store_id()?;
    let (mut tail, reached) = writer.begin()?;
    check_source(reader, &reached)?;
    let mut at = reached.at;
    let mut stride = STRIDE_MIN;
    while at < to.0 {
        let before = tail.changes();
        let end = TxId(to.0.min(at + stride));
        let log = Source { reader, store, of };
        log.feed(TxId(at), end, embedder, &mut |tx, key, ends, after| {
            if stop.load(Ordering::Acquire) {
                return Err(kenning_retrieval::Error::Stopped.into());
            }
            tail.change(tx.0, key, ends, after);
            Ok(())
        })?;
        // Transactions with one change each are read by the thousand, those of a bulk load one at a time.
        let per_tx = (tail.changes() - before) as u64 / (end.0 - at);
        stride = (SEGMENT_CHANGES as u64 / 4 / per_tx.max(1)).clamp(1, STRIDE_MAX);
        at = end.0;
        if tail.changes() >= SEGMENT_CHANGES || at == to.0 {
            let source = source(reader, TxId(at))?;
            // Each restore changes the store's id, so an equal id shows that all changes came from one log.
            if reader.store_id()? != store {
                return Err(Damaged { what: "the store was restored while it was read" }.into());
            }
            writer.append(&tail, Reached { at, source })?;
            tail = writer.begin()?.0;
            if at < to.0 && until.is_some_and(|until| Instant::now() >= until) {
                return Err(Failed::Busy);
            }
        }
    }
    Ok(())
}

/// Identifies, in the manifest, the log that the segments were written from: the store's id and the checksum
/// of the last transaction.
fn source(reader: &dyn Reader, at: TxId) -> Result<String, Failed> {
    let sum = reader.log_checksum(at)?;
    let sum = sum.ok_or(Damaged { what: "it tells of transactions that the log does not have" })?;
    Ok(format!("{} {sum:08x}", reader.store_id()?))
}

/// Fails if the log is not the one that the segments were written from: it may have been replaced by another
/// log, or by an older copy that has continued differently.
fn check_source(reader: &dyn Reader, reached: &Reached) -> Result<(), Failed> {
    if reached.at > 0 && source(reader, TxId(reached.at))? != reached.source {
        return Err(Damaged { what: "it was written from another log" }.into());
    }
    Ok(())
}

impl State {
    fn catch_up(
        &mut self,
        reader: &dyn Reader,
        of: EntityType,
        to: TxId,
        embedder: &Embedder,
    ) -> Result<(), Failed> {
        if self.at < to {
            let source = Source { reader, store: self.store, of };
            source.feed(self.at, to, embedder, &mut |tx, key, ends, after| {
                Ok(self.index.change(tx.0, key, ends, after)?)
            })?;
            self.at = to;
        }
        Ok(())
    }
}

/// A change: the transaction, the key, whether a version ends, and the version that begins.
type Prepared = (TxId, u64, bool, Option<Version>);

/// The function that receives each change.
type Take<'a> = &'a mut dyn FnMut(TxId, u64, bool, Option<Version>) -> Result<(), Failed>;

/// A key holds the id in its lower fifty bits, and the number of the passage above them.
const PASSAGE_SHIFT: u32 = 50;

fn key(id: Id, passage: usize) -> u64 {
    id.bits() | (passage as u64) << PASSAGE_SHIFT
}

struct Change {
    tx: TxId,
    id: Id,
    /// The number of passages of the version that ends.
    before: usize,
    after: Option<IndexedText>,
}

/// The log that an index is built from.
struct Source<'a> {
    reader: &'a dyn Reader,
    store: StoreId,
    of: EntityType,
}

impl Source<'_> {
    /// Hands the changes after one transaction and up to another to `take`, prepared for the index.
    fn feed(&self, after: TxId, to: TxId, embedder: &Embedder, take: Take<'_>) -> Result<(), Failed> {
        follow(self.reader, self.store, &[self.of], after, to, |changes| {
            let mut batch = Vec::with_capacity(changes.len().min(PAGE));
            for LogChange { tx, id, after, .. } in changes {
                batch.push(Change { tx, id, before: 0, after: after.map(IndexedText::from) });
            }
            self.count_passages(&mut batch)?;
            complete(self.reader, &mut batch)?;
            let prepared = prepare(&batch, embedder)?;
            for (change, after) in batch.into_iter().zip(prepared) {
                let many = change.before.max(after.len());
                let mut after = after.into_iter();
                for passage in 0..many {
                    take(change.tx, key(change.id, passage), passage < change.before, after.next())?;
                }
            }
            Ok(())
        })
    }

    /// Counts the passages of the versions that end. Those versions are read together.
    fn count_passages(&self, batch: &mut [Change]) -> Result<(), Error> {
        // The first version of an id ends no earlier version.
        let ends_one = |change: &Change| change.after.as_ref().is_none_or(|text| text.record.version() > 1);
        let ending: Vec<&mut Change> = batch.iter_mut().filter(|change| ends_one(change)).collect();
        let key = |change: &&mut Change| RecordKey {
            entity_type: self.of,
            id: change.id,
            at: At::Live(TxId(change.tx.0 - 1)),
        };
        let found = self.reader.records(&ending.iter().map(key).collect::<Vec<_>>())?;
        for (change, before) in ending.into_iter().zip(found) {
            change.before = before.map_or(0, |stored| IndexedText::from(stored.record).texts().len());
        }
        Ok(())
    }
}

/// Reads the records that the texts of a batch need in addition to their own.
fn complete(reader: &dyn Reader, batch: &mut [Change]) -> Result<(), Error> {
    let mut following = Vec::new();
    let mut keys = Vec::new();
    for Change { tx, id, after, .. } in batch {
        let Some(text) = after else { continue };
        text.read_sections(reader, *id, *tx)?;
        if let Some(key) = text.neighbour_key(*tx) {
            keys.push(key);
            following.push(text);
        }
    }
    for (text, neighbour) in following.into_iter().zip(reader.records(&keys)?) {
        text.set_neighbour(neighbour);
    }
    Ok(())
}

/// Prepares the versions of a batch on several threads: splitting texts into words and making vectors is most
/// of the work, and the texts are independent.
fn prepare(batch: &[Change], embedder: &Embedder) -> Result<Vec<Vec<Version>>, Failed> {
    static THREADS: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    let one = |change: &Change| prepare_one(change, embedder, batch.len() <= EMBEDDED_AT_ONCE);
    if batch.len() < 2 * *THREADS {
        return batch.iter().map(one).collect();
    }
    std::thread::scope(|scope| {
        let shares: Vec<_> = batch
            .chunks(batch.len().div_ceil(*THREADS))
            .map(|share| scope.spawn(move || share.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let joined = shares.into_iter().flat_map(|share| match share.join() {
            Ok(prepared) => prepared,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// The passages of the version that begins with a change.
fn prepare_one(change: &Change, embedder: &Embedder, embed_now: bool) -> Result<Vec<Version>, Failed> {
    let Some(text) = &change.after else { return Ok(Vec::new()) };
    let record = &text.record;
    let (mut limits, mut marks) = (Limits::NONE, Vec::new());
    if let Record::Entry(entry) = record {
        limits = Limits {
            suppressed: entry.status == Status::Suppressed,
            valid_from: entry.valid_from.map_or(i64::MIN, Timestamp::as_millisecond),
            valid_to: entry.valid_to.map_or(i64::MAX, Timestamp::as_millisecond),
        };
        if entry.status == Status::Active {
            marks = duplicates::marks(&entry.topic, &entry.content);
        }
    }
    let group = record.scope().map_or(0, |scope| scope.0);
    let mut after = Vec::new();
    for text in text.texts() {
        let mut prepared = text.prepared(embedder);
        if embedder.is_slow() && embed_now {
            prepared = prepared.embedded(&text.document(), embedder)?;
        }
        after.push(Version { group, limits, marks: marks.clone(), prepared });
    }
    Ok(after)
}

/// Hands the text of a version to `take`.
fn text_of(
    reader: &dyn Reader,
    of: EntityType,
    key: u64,
    from: u64,
    take: &mut dyn FnMut(&Document<'_>),
) -> bool {
    let said = IndexedText::read(reader, of, Id::from_bits(key), TxId(from));
    let text =
        said.ok().flatten().and_then(|said| said.texts().into_iter().nth((key >> PASSAGE_SHIFT) as usize));
    let Some(text) = text else { return false };
    take(&text.document());
    true
}
