//! Searches all entries in the background for pairs that contradict or repeat each other, and follows new
//! writes. The result is a cache; the next process finds it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kenning_engine::{By, Engine, Error, Question, Similar, Snapshot, StoreId, collisions};
use kenning_model::{EntityType, Entry, Id, Principal, ScopeId, TxId};

use crate::request::PageContext;
use crate::show::hidden_why;

/// The number of entries that are read at a time.
const PAGE: u64 = 500;
/// The number of transactions that are read at a time.
const TRANSACTIONS: usize = 50;
/// The interval between two looks at the log.
const LOOK: Duration = Duration::from_millis(300);
/// The pause after a page, which leaves the processor to others.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Contradiction,
    Duplicate,
}

/// Two entries, the smaller id first.
pub(crate) type Pair = (Id, Id);

#[derive(Default)]
struct ReviewState {
    store: StoreId,
    /// The transaction up to which everything was examined, once the first pass is over.
    at: TxId,
    pairs: BTreeMap<Pair, Kind>,
    looked_at: u64,
    total: u64,
    is_whole: bool,
}

pub(crate) struct Review {
    engine: Weak<Engine>,
    has_begun: AtomicBool,
    found: Mutex<ReviewState>,
}

/// The progress of the review.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) looked_at: u64,
    pub(crate) total: u64,
    pub(crate) is_whole: bool,
}

/// Two entries that wait for somebody's decision, the newer first.
pub(crate) struct Waiting {
    pub(crate) kind: Kind,
    pub(crate) entries: [(Id, TxId, Entry); 2],
}

impl Review {
    pub(crate) fn of(engine: &Arc<Engine>) -> Arc<Review> {
        let (has_begun, found) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Review { engine: Arc::downgrade(engine), has_begun, found })
    }

    /// Starts the background thread, if it is not running. It is started by the first visit, so a console
    /// that nobody opens costs nothing.
    fn begin(self: &Arc<Review>) {
        if self.has_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let review = Arc::downgrade(self);
        // The thread ends with the console. A killed process leaves nothing behind.
        let thread =
            std::thread::Builder::new().name("kenning-review".into()).spawn(move || keep_up(&review));
        self.has_begun.store(thread.is_ok(), Ordering::Release);
    }

    pub(crate) fn progress(self: &Arc<Review>) -> Progress {
        self.begin();
        let found = self.found();
        Progress { looked_at: found.looked_at, total: found.total, is_whole: found.is_whole }
    }

    /// The first of the open pairs, limited to those of which the visitor may read both entries.
    pub(crate) fn waiting(
        self: &Arc<Review>,
        ctx: &PageContext<'_>,
        kind: Kind,
        max: usize,
    ) -> Result<Vec<Waiting>, Error> {
        self.begin();
        let pairs: Vec<Pair> = {
            let found = self.found();
            let of_kind = found.pairs.iter().filter(|(_, known)| **known == kind);
            of_kind.map(|(pair, _)| *pair).collect()
        };
        let mut waiting = Vec::new();
        for some in pairs.chunks(PAGE as usize) {
            let ids: Vec<Id> = some.iter().flat_map(|(one, other)| [*one, *other]).collect();
            let records = ctx.snapshot.records(EntityType::Entry, &ids)?;
            let mut entries = records.into_iter().map(|stored| {
                let stored = stored?;
                let entry = stored.record.as_entry()?.clone();
                hidden_why(&entry, ctx.judged_at).is_none().then_some((stored.id, stored.tx_id, entry))
            });
            while let (Some(one), Some(other)) = (entries.next(), entries.next()) {
                let (Some(one), Some(other)) = (one, other) else { continue };
                let entries = if one.1 >= other.1 { [one, other] } else { [other, one] };
                waiting.push(Waiting { kind, entries });
            }
            if waiting.len() >= max {
                break;
            }
        }
        waiting.sort_by_key(|pair| std::cmp::Reverse(pair.entries[0].1));
        waiting.truncate(max);
        Ok(waiting)
    }

    fn found(&self) -> MutexGuard<'_, ReviewState> {
        // Every change under this lock is complete, so a panic elsewhere leaves the value sound.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Examines every live entry, the newest first.
    fn look_through(&self, engine: &Engine) -> Result<(), Error> {
        let snapshot = engine.snapshot(&reviewer())?;
        let scopes: Vec<ScopeId> = snapshot.tree()?.names().0.into_keys().collect();
        let everywhere = snapshot.sight_of(scopes);
        *self.found() = ReviewState { store: snapshot.store(), at: snapshot.at(), ..ReviewState::default() };
        let question = Question {
            sight: &everywhere,
            topic: None,
            content: None,
            tags: &[],
            visible_at: Some(engine.now()),
            by: By::Words,
            known_words_only: false,
            explain: false,
        };
        for page in 0.. {
            let found = snapshot.search(&question, page * PAGE..(page + 1) * PAGE)?;
            if found.hits.is_empty() {
                break;
            }
            self.found().total = found.total;
            for hit in &found.hits {
                let Some(entry) = hit.stored.record.as_entry() else { continue };
                self.look_at(engine, &snapshot, hit.stored.id, entry)?;
            }
            self.found().looked_at += found.hits.len() as u64;
            std::thread::sleep(PAUSE);
        }
        self.found().is_whole = true;
        Ok(())
    }

    /// Examines the entries that were written since the last look.
    fn look_at_news(&self, engine: &Engine) -> Result<(), Error> {
        let since = self.found().at;
        let news = engine.transactions_after(&reviewer(), since, TRANSACTIONS)?;
        let Some(last) = news.last().map(|tx| tx.id) else { return Ok(()) };
        let changed: BTreeSet<Id> = news
            .iter()
            .flat_map(|tx| &tx.changes)
            .filter(|change| change.entity_type == EntityType::Entry)
            .map(|change| change.id)
            .collect();
        let snapshot = engine.snapshot(&reviewer())?;
        self.found().pairs.retain(|(one, other), _| !changed.contains(one) && !changed.contains(other));
        for id in changed {
            let Some(stored) = snapshot.entry(id)? else { continue };
            if let Some(entry) = stored.record.as_entry() {
                self.look_at(engine, &snapshot, id, entry)?;
            }
        }
        self.found().at = last;
        Ok(())
    }

    /// Records the entries that an entry contradicts or repeats. Two entries that no scope sees together are
    /// no pair.
    fn look_at(&self, engine: &Engine, snapshot: &Snapshot<'_>, id: Id, entry: &Entry) -> Result<(), Error> {
        if hidden_why(entry, engine.now()).is_some() {
            return Ok(());
        }
        let pairs = alike(engine, snapshot, id, entry)?;
        self.found().pairs.extend(pairs);
        Ok(())
    }
}

/// The entries that an entry contradicts or repeats.
pub(crate) fn alike(
    engine: &Engine,
    snapshot: &Snapshot<'_>,
    id: Id,
    entry: &Entry,
) -> Result<Vec<(Pair, Kind)>, Error> {
    let sight = snapshot.sight(entry.scope)?;
    let except: HashSet<Id> = entry.follows.into_iter().chain([id]).collect();
    let except: Vec<Id> = except.into_iter().collect();
    let question = Similar { sight: &sight, topic: &entry.topic, content: &entry.content, except: &except };
    let others = engine.similar(snapshot, &question)?;
    let mut pairs = Vec::new();
    for stored in snapshot.records(EntityType::Entry, &others)?.into_iter().flatten() {
        let Some(other) = stored.record.as_entry() else { continue };
        if other.follows == Some(id) || hidden_why(other, engine.now()).is_some() {
            continue;
        }
        let kind = match collisions(&[entry, other]).is_empty() {
            true => Kind::Duplicate,
            false => Kind::Contradiction,
        };
        pairs.push(((id.min(stored.id), id.max(stored.id)), kind));
    }
    Ok(pairs)
}

/// The principal of the review. It may read everything; its results are shown only to visitors who may read
/// both entries.
fn reviewer() -> Principal {
    Principal::owner("", "console review")
}

fn keep_up(review: &Weak<Review>) {
    while let Some(review) = review.upgrade() {
        let Some(engine) = review.engine.upgrade() else { return };
        let (is_whole, store) = {
            let found = review.found();
            (found.is_whole, found.store)
        };
        // After a restore the store has another log.
        let is_same = engine.snapshot(&reviewer()).is_ok_and(|snapshot| snapshot.store() == store);
        let done = match is_whole && is_same {
            true => review.look_at_news(&engine),
            false => review.look_through(&engine),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "entries can't be looked through at the moment");
        }
        drop((review, engine));
        std::thread::sleep(LOOK);
    }
}
