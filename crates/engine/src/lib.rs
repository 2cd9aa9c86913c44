//! The engine. `commit` appends to the log, `snapshot` answers as of one transaction, `watch` reports when
//! any process has appended to the log. All data that the engine keeps in memory is a cache of the log and is
//! filled only from it.

mod catalogue;
mod duplicates;
mod elsewhere;
mod graph_reading;
mod indexed;
mod ingest;
mod likeness;
mod order;
mod purge;
mod reading;
mod search;
mod sight;
mod snapshot;
mod task;
mod text;
mod watch;

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use kenning_model::{EntityType, Id, Principal, Timestamp, TxId};
use kenning_storage::{Committed, Damage, EntryLimit, Head, Reach, Request, Storage, Verified, View};
use sha2::{Digest, Sha256};
use tokio::sync::watch::Sender;

pub use catalogue::{Counts, FoundPatterns, OfOneId, Overview, PatternQuestion};
pub use duplicates::Similar;
pub use elsewhere::Elsewhere;
pub use ingest::{Intake, IntakeError, Prepared, root_of};
pub use kenning_documents::Format;
pub use kenning_documents::pattern::{Piece, SectionKind, pieces};
pub use kenning_graph as graph;
pub use kenning_retrieval::evidence::{
    FoundText, PassageScore, Quote, QuoteLimits, Rarity, lead, sentences, unseen,
};
pub use kenning_retrieval::excerpt::{GAP, excerpt};
pub use kenning_retrieval::windows::Evidence;
pub use kenning_retrieval::{By, Embedder, Unseen, highlight, passage_ranges};
pub use kenning_storage::{
    DocumentKind, DocumentSource, Error, KnownDocument, Location, Sources, StoreId, Stored,
};
pub use likeness::collisions;
pub use order::{CallKind, Order, Ticket};
pub use purge::{PURGED_FILE, PurgeNote, PurgedId, brought_back, is_same_log, purge_notes};
pub use search::{
    EntryHit, Explanation, Found, FoundPassages, PassageHit, Question, Scoring, SectionLabel, SectionQuestion,
};
pub use sight::Sight;
pub use snapshot::{Content, Snapshot, TriplesFrom};
pub use task::{QueryMatch, QueryMatches, TaskMatch, TaskMatches};

/// The directory of the index within the data directory. It can be deleted, since it is built from the log.
pub const INDEX_DIR: &str = "index";

pub struct Engine {
    location: Location,
    /// A directory of this machine for caches and for settings that concern this machine alone. It can be
    /// lost.
    cache_dir: PathBuf,
    sources: Sources,
    embedder: Arc<Embedder>,
    /// Whether opening creates a store if there is none. A process that only reads creates none.
    creates: bool,
    /// Whether this process keeps the index up to date for later questions.
    keeps_index: bool,
    shared: Arc<Shared>,
    /// The newest transaction that snapshots may show.
    as_of: Option<TxId>,
    /// The moment after which nobody waits for the answer; a search then ends with an error.
    deadline: Option<Instant>,
}

/// The state that all copies of an engine share.
struct Shared {
    /// Opened by the first call that needs the store: a client that only lists the tools touches no file.
    opened: OnceLock<OpenStore>,
    opening: Mutex<()>,
    /// The newest transaction known in this process; see `watch`.
    head: Sender<TxId>,
    watching: AtomicBool,
    /// The limit on the entries of a namespace, which is set before the store is opened.
    entry_limit: Arc<EntryLimit>,
}

struct OpenStore {
    storage: Arc<Storage>,
    duplicates: Mutex<duplicates::Duplicates>,
    indexed: Arc<indexed::Indexed>,
    sections: Arc<indexed::Indexed>,
    patterns: Arc<indexed::Indexed>,
    catalogue: reading::Reading<catalogue::Catalogue>,
    graph: graph_reading::GraphReading,
}

/// The result of `Engine::rebuild`.
pub struct Rebuilt {
    /// The transaction up to which the index goes.
    pub at: TxId,
    pub versions: u64,
    pub live: u64,
}

impl OpenStore {
    fn stop(&self) {
        self.indexed.stop();
        self.sections.stop();
        self.patterns.stop();
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Engine {
    /// An engine on the embedded store of a directory, with its caches in the same place.
    pub fn new(dir: PathBuf, sources: Sources) -> Engine {
        Engine::open(Location::Directory(dir.clone()), dir, sources)
    }

    /// An engine on the store of a location, with its caches in a directory of this machine. The store is opened by the
    /// first call that needs it.
    pub fn open(location: Location, cache_dir: PathBuf, sources: Sources) -> Engine {
        let shared = Shared {
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            head: Sender::new(TxId::EMPTY),
            watching: AtomicBool::new(false),
            entry_limit: Arc::default(),
        };
        let (embedder, shared) = (Arc::default(), Arc::new(shared));
        Engine {
            location,
            cache_dir,
            sources,
            embedder,
            creates: true,
            keeps_index: true,
            shared,
            as_of: None,
            deadline: None,
        }
    }

    /// A copy of the engine for a reader to whom this transaction is the newest.
    pub fn as_of(&self, newest: TxId) -> Engine {
        Engine { as_of: Some(newest), ..self.copy() }
    }

    /// A copy of the engine for a call whose answer nobody waits for after this moment.
    pub fn until(&self, deadline: Instant) -> Engine {
        Engine { deadline: Some(deadline), ..self.copy() }
    }

    fn copy(&self) -> Engine {
        Engine {
            location: self.location.clone(),
            cache_dir: self.cache_dir.clone(),
            sources: self.sources.clone(),
            embedder: self.embedder.clone(),
            creates: self.creates,
            keeps_index: self.keeps_index,
            shared: self.shared.clone(),
            as_of: self.as_of,
            deadline: self.deadline,
        }
    }

    /// Like `new`, for a store that must exist.
    pub fn existing(dir: PathBuf, sources: Sources) -> Engine {
        Engine { creates: false, ..Engine::new(dir, sources) }
    }

    /// Like `open`, for a store that must exist.
    pub fn open_existing(location: Location, cache_dir: PathBuf, sources: Sources) -> Engine {
        Engine { creates: false, ..Engine::open(location, cache_dir, sources) }
    }

    /// The engine for a process that ends after one answer: it starts no thread, writes no segment, and
    /// answers from the newest records if the index is far behind the log.
    pub fn for_one_answer(self) -> Engine {
        Engine { keeps_index: false, ..self }
    }

    /// The engine with another source of vectors.
    pub fn with_embedder(self, embedder: Embedder) -> Engine {
        Engine { embedder: Arc::new(embedder), ..self }
    }

    /// The directory of the files that this machine keeps beside the store.
    pub fn dir(&self) -> &Path {
        &self.cache_dir
    }

    /// The clock and the random ids of an ordinary process.
    pub fn real_sources() -> Sources {
        Sources { now: Arc::new(now), id: Arc::new(|| Id::from_bits(rand::random::<u64>())) }
    }

    /// A name for this process in the log that no other process has: 128 random bits.
    pub fn new_origin() -> String {
        format!("{:032x}", rand::random::<u128>())
    }

    /// A name that nobody can guess: 150 random bits.
    pub fn new_handle(&self) -> String {
        (0..3).map(|_| (self.sources.id)().to_string()).collect()
    }

    pub fn now(&self) -> Timestamp {
        (self.sources.now)()
    }

    /// The secret of the store, which signs cursors in every process that opens it.
    pub fn secret(&self) -> Result<[u8; 32], Error> {
        Ok(self.opened()?.storage.backend().info()?.secret)
    }

    /// A secret for one purpose, derived from that of the store. Somebody who learns it can't derive the
    /// others.
    pub fn secret_for(&self, purpose: &str) -> Result<[u8; 32], Error> {
        Ok(Sha256::new()
            .chain_update(purpose)
            .chain_update([0])
            .chain_update(self.secret()?)
            .finalize()
            .into())
    }

    /// Limits the live entries of a namespace for all writes of this process from now on.
    pub fn limit_entries(&self, max: Option<NonZeroU64>) {
        self.shared.entry_limit.set(max);
    }

    pub fn storage(&self) -> Result<&Storage, Error> {
        Ok(&self.opened()?.storage)
    }

    /// The part of the store that a principal may see, as of its newest transaction. Every transaction that
    /// was acknowledged anywhere before this call is included.
    pub fn snapshot(&self, principal: &Principal) -> Result<Snapshot<'_>, Error> {
        self.snapshot_at(principal, None)
    }

    /// A snapshot as of an earlier transaction. The rights are those of today.
    pub fn snapshot_at(&self, principal: &Principal, at: Option<TxId>) -> Result<Snapshot<'_>, Error> {
        let opened = self.opened()?;
        let reader = opened.storage.reader()?;
        let Head { store, tx: head } = reader.standing()?;
        let head = self.as_of.map_or(head, |newest| newest.min(head));
        let at = at.unwrap_or(head);
        if at > head {
            return Err(Error::UnknownTx { tx: at, head });
        }
        let reach = Reach::of(principal, &*reader)?;
        Ok(Snapshot::new(opened, reader, store, at, self.deadline, reach))
    }

    /// The newest transaction at or before a moment. The times in the log increase with the numbers, as far
    /// as the clock did.
    pub fn newest_at(&self, moment: Timestamp) -> Result<TxId, Error> {
        let reader = self.opened()?.storage.reader()?;
        let head = reader.head()?;
        // Everything up to `known` is at or before the moment; everything from `later` on is after it.
        let (mut known, mut later) = (0, head.0 + 1);
        while known + 1 < later {
            let middle = TxId(known + (later - known) / 2);
            let header = reader.transaction(middle, head, View::HEADER)?;
            match header.is_some_and(|header| header.at <= moment) {
                true => known = middle.0,
                false => later = middle.0,
            }
        }
        Ok(TxId(known))
    }

    /// Commits a write. When it returns, the write is durable and visible to every later snapshot of every
    /// process.
    pub fn commit(&self, request: Request) -> Result<Committed, Error> {
        self.commit_when_queued(request, || ())
    }

    /// Like `commit`, after the writes that the same client sent before this one.
    pub fn commit_in_turn(&self, request: Request, turn: &Ticket) -> Result<Committed, Error> {
        turn.enter(self)?;
        let committed = self.commit_when_queued(request, || turn.entered())?;
        turn.committed(committed.tx.id);
        Ok(committed)
    }

    fn commit_when_queued(&self, request: Request, queued: impl FnOnce()) -> Result<Committed, Error> {
        let opened = self.opened()?;
        opened.storage.commit_and_tell(request, queued, |tx| {
            locked(&opened.duplicates).apply_next(tx);
            opened.indexed.committed(tx);
            opened.sections.committed(tx);
            opened.patterns.committed(tx);
            self.announce(tx.id);
        })
    }

    /// Up to three visible entries that say nearly the same.
    pub fn similar(&self, snapshot: &Snapshot<'_>, question: &Similar<'_>) -> Result<Vec<Id>, Error> {
        let asked = duplicates::SketchedText::new(question);
        let opened = self.opened()?;
        let (marked, segments_end) = opened.indexed.marked(snapshot, question.sight, &asked.marks())?;
        // Every writer takes this lock, so it is held only for the look-up.
        let mut candidates = {
            let mut duplicates = locked(&opened.duplicates);
            duplicates.catch_up(snapshot, segments_end)?;
            duplicates.candidates(&asked)
        };
        candidates.extend(duplicates::likeliest(marked));
        let mut known = HashSet::new();
        candidates.retain(|id| known.insert(*id));
        asked.choose(candidates, snapshot, self.now())
    }

    /// The kinds of content that a principal can see, now or as of a transaction.
    pub fn content(&self, principal: &Principal, at: Option<TxId>) -> Result<Content, Error> {
        // Asking for the content must not create a store.
        match self.is_there() {
            true => self.snapshot_at(principal, at)?.content(),
            false => Ok(Content::default()),
        }
    }

    /// Whether the store exists.
    pub fn is_there(&self) -> bool {
        self.shared.opened.get().is_some() || self.location.has_store()
    }

    pub fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
        self.storage()?.backend().verify(report)
    }

    /// Builds the data derived from the log again after damage was found. False if that does not help.
    pub fn mend(&self) -> bool {
        let Some(opened) = self.shared.opened.get() else { return false };
        let _mending = locked(&self.shared.opening);
        tracing::warn!("the store is damaged: what is derived from its log is made anew");
        let mended = opened.storage.backend().mend();
        match &mended {
            Ok(true) => tracing::warn!("the store is whole again: its log was sound"),
            Ok(false) => tracing::warn!("the log of the store is damaged too; `kenning verify` says where"),
            Err(error) => tracing::warn!(%error, "the store can't be mended; restore a backup"),
        }
        matches!(mended, Ok(true))
    }

    /// Ends background work and moves the write-ahead log into the store's one file, before the process ends.
    pub fn close(&self) {
        let Some(opened) = self.shared.opened.get() else { return };
        opened.stop();
        if let Err(error) = opened.storage.backend().checkpoint() {
            tracing::warn!(%error, "the store's write-ahead log stays beside it");
        }
    }

    /// Whether all vectors of entries are in memory. Until then questions read them from the disk, which is
    /// slower.
    pub fn is_warm(&self) -> bool {
        self.shared.opened.get().is_some_and(|opened| opened.indexed.is_warm())
    }

    /// Starts filling the index of a store in a database in the background, before anyone asks.
    pub fn prepare(&self) -> Result<(), Error> {
        let opened = self.opened()?;
        [&opened.indexed, &opened.sections, &opened.patterns].into_iter().for_each(|index| index.prepare());
        Ok(())
    }

    /// Whether the index is being filled. Until that is done, questions are answered from the newest records.
    pub fn is_preparing(&self) -> bool {
        self.shared.opened.get().is_some_and(|opened| {
            [&opened.indexed, &opened.sections, &opened.patterns]
                .into_iter()
                .any(|index| index.is_beginning())
        })
    }

    /// Builds the search index again from the log. It is a cache, so no answer changes.
    pub fn rebuild(&self) -> Result<Rebuilt, Error> {
        let opened = self.opened()?;
        let reader = opened.storage.reader()?;
        let mut all = Rebuilt { at: TxId(u64::MAX), versions: 0, live: 0 };
        for index in [&opened.indexed, &opened.sections, &opened.patterns] {
            let rebuilt = index.rebuild(&*reader)?;
            all.at = all.at.min(rebuilt.at);
            all.versions += rebuilt.versions;
            all.live += rebuilt.live;
        }
        Ok(all)
    }

    /// Brings the index on the disk up to date with all documents after many were written; otherwise the next
    /// question has to do it.
    pub fn settle(&self) -> Result<(), Error> {
        let opened = self.opened()?;
        let reader = opened.storage.reader()?;
        opened.sections.settle(&*reader)?;
        match reader.document_kinds(reader.head()?, None)?.patterns {
            true => opened.patterns.settle(&*reader),
            false => Ok(()),
        }
    }

    fn opened(&self) -> Result<&OpenStore, Error> {
        if let Some(opened) = self.shared.opened.get() {
            return Ok(opened);
        }
        // One thread opens the store, the others wait. A failure is not remembered, since the next call may
        // succeed.
        let _opening = locked(&self.shared.opening);
        if let Some(opened) = self.shared.opened.get() {
            return Ok(opened);
        }
        let sources = self.sources.clone();
        let storage =
            if self.creates { self.location.open(sources) } else { self.location.open_existing(sources) };
        let storage = Arc::new(storage?.with_entry_limit(self.shared.entry_limit.clone()));
        let opened = self.opened_on(storage);
        if self.keeps_index {
            purge::finish_if_needed(&opened);
        }
        Ok(self.shared.opened.get_or_init(|| opened))
    }

    fn opened_on(&self, storage: Arc<Storage>) -> OpenStore {
        let duplicates = Mutex::new(duplicates::Duplicates::default());
        let index = |of: EntityType, name: &str| {
            let dir = self.cache_dir.join(INDEX_DIR).join(name);
            let (storage, embedder) = (storage.clone(), self.embedder.clone());
            let leaves_files = self.creates && self.keeps_index;
            Arc::new(indexed::Indexed::new(of, storage, dir, embedder, self.keeps_index, leaves_files))
        };
        let indexed = index(EntityType::Entry, "entries");
        let sections = index(EntityType::Section, "passages");
        let patterns = index(EntityType::Document, "patterns");
        OpenStore {
            storage,
            duplicates,
            indexed,
            sections,
            patterns,
            catalogue: reading::Reading::default(),
            graph: reading::Reading::default(),
        }
    }
}

fn now() -> Timestamp {
    // The log stores times in milliseconds.
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).expect("the present is in range")
}

/// Takes a lock. The guarded values are only replaced whole, so a panic elsewhere leaves them valid.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
