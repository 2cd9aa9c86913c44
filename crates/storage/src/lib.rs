//! The transaction log and the tables derived from it.
//!
//! `Storage` holds the rules that are the same on every backend: what a write may do, how an undo is planned, how
//! concurrent writers share one durable commit. A backend only stores and finds.

mod backend;
mod embedded;
mod error;
mod group;
mod reach;
mod tree;
mod write;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use kenning_model::{EntityType, Id, Timestamp, Transaction, TxId};

pub use backend::{
    At, Backend, Damage, DocumentKind, DocumentKinds, DocumentSource, EntryFilter, KnownDocument,
    LOG_PAGE_BYTES, LogChange, LogPage, Pending, Position, Reader, RecordKey, Remembered, StoreId, StoreInfo,
    Stored, Touched, TripleFilter, Verified, View,
};
pub use embedded::{Embedded, STORE_FILE, back_up, restore};
pub use error::{Applied, Error, Missing};
pub use reach::Reach;
pub use tree::{DEPTH_MAX, Tree, find_scope, renamed_scope};
pub use write::{
    Committed, EntryPatch, Follows, Keyed, NamespacePatch, NewDocument, NewEntry, NewNamespace, NewScope,
    NewSection, NewTriple, OnConflict, Request, ScopePatch, UndoPlan, UndoTarget, UndoWish, Write,
};

/// How long an idempotency key is kept at least, by the clock and by the log. Either alone could be wrong: a clock may jump, and
/// a load writes much in little time.
pub const KEY_KEPT: jiff::SignedDuration = jiff::SignedDuration::from_hours(7 * 24);
const KEY_KEPT_TRANSACTIONS: u64 = 1_000;
/// So much of the oldest keys goes at a time.
const KEYS_FORGOTTEN: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Time and randomness, passed in so that a test can fix them.
#[derive(Clone)]
pub struct Sources {
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub id: Arc<dyn Fn() -> Id + Send + Sync>,
}

pub struct Storage {
    backend: Box<dyn Backend>,
    sources: Sources,
    group: group::Group,
}

impl Storage {
    /// Opens the embedded store of a directory and creates it if there is none.
    pub fn open(dir: &Path, sources: Sources) -> Result<Storage, Error> {
        Ok(Storage::on(Box::new(Embedded::open(dir)?), sources))
    }

    pub fn on(backend: Box<dyn Backend>, sources: Sources) -> Storage {
        Storage { backend, sources, group: group::Group::default() }
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub fn now(&self) -> Timestamp {
        (self.sources.now)()
    }

    pub fn reader(&self) -> Result<Box<dyn Reader + '_>, Error> {
        self.backend.reader()
    }

    /// Commits one write, together with whatever other threads want written at the same moment. When this
    /// returns, the write is durable and every reader of the store sees it.
    pub fn commit(&self, request: Request) -> Result<Committed, Error> {
        self.commit_and_tell(request, || (), |_| ())
    }

    /// As `commit`; `queued` is told when the write has its place in the queue, before it is committed, and `seen` of
    /// every new transaction of the group before anyone gets an answer, in the order of their numbers.
    pub fn commit_and_tell(
        &self,
        request: Request,
        queued: impl FnOnce(),
        seen: impl Fn(&Transaction),
    ) -> Result<Committed, Error> {
        self.group.commit(request, queued, |batch| {
            let answers = write::run(&*self.backend, &self.sources, batch);
            answers
                .iter()
                .flatten()
                .filter(|committed| committed.is_new)
                .for_each(|committed| seen(&committed.tx));
            answers
        })
    }

    /// What an undo would do now, and nothing done.
    pub fn plan_undo(&self, request: &UndoPlan<'_>) -> Result<Transaction, Error> {
        let reader = self.backend.reader()?;
        write::preview_undo(&*reader, &self.sources, request)
    }

    /// Transactions of the history, newest first, and how many there are.
    pub fn history(
        &self,
        query: &HistoryQuery<'_>,
        page: Range<u64>,
    ) -> Result<(Vec<Transaction>, u64), Error> {
        let reader = self.backend.reader()?;
        let range = query.since.next()..query.at.next();
        let (ids, total) = match (query.id, query.entity_type, query.view.scopes) {
            (Some(id), entity_type, scopes) => {
                let mut ids = Vec::new();
                for touched in EntityType::ALL {
                    if entity_type.is_none_or(|wanted| wanted == touched) {
                        ids.extend(reader.touches(touched, id, scopes)?);
                        if let (Some(own), Some(_)) = (query.view.own, scopes) {
                            ids.extend(own_touches(&*reader, touched, id, own)?);
                        }
                    }
                }
                ids.retain(|tx| range.contains(tx));
                ids.sort_unstable();
                ids.dedup();
                ids.reverse();
                if !query.view.reach.is_everything() {
                    // Of an id that is out of reach there is no transaction.
                    let mut seen = Vec::new();
                    for id in ids {
                        let tx = reader.transaction(id, query.at, query.view)?;
                        seen.extend(tx.filter(|tx| !tx.changes.is_empty()).map(|tx| tx.id));
                    }
                    ids = seen;
                }
                let total = ids.len() as u64;
                let page = ids.into_iter().skip(page.start as usize).take((page.end - page.start) as usize);
                (page.collect(), total)
            }
            // Ids are dense, so a page of the whole history needs no look-up.
            (None, None, None) if query.view.reach.is_everything() => {
                let total = range.end.0.saturating_sub(range.start.0);
                let newest = range.end.0 - page.start.min(total);
                let oldest = range.end.0 - page.end.min(total);
                ((oldest..newest).rev().map(TxId).collect(), total)
            }
            (None, entity_type, scopes) => {
                let own = query.view.own;
                let touched = Touched { reach: query.view.reach, entity_type, scopes, own, range };
                (reader.transactions_with(&touched, page)?, reader.count_transactions_with(&touched)?)
            }
        };
        let mut transactions = Vec::with_capacity(ids.len());
        for id in ids {
            let found = reader.transaction(id, query.at, query.view)?;
            transactions.push(found.ok_or_else(|| Error::damaged(format!("transaction {id} is missing")))?);
        }
        Ok((transactions, total))
    }
}

/// The transactions of this origin that touched an id, in whatever scope it was.
fn own_touches(reader: &dyn Reader, entity_type: EntityType, id: Id, own: &str) -> Result<Vec<TxId>, Error> {
    let head = reader.head()?;
    let mut ids = Vec::new();
    for tx in reader.touches(entity_type, id, None)? {
        if reader.transaction(tx, head, View::HEADER)?.is_some_and(|header| header.origin == own) {
            ids.push(tx);
        }
    }
    Ok(ids)
}

pub struct HistoryQuery<'a> {
    pub id: Option<Id>,
    pub entity_type: Option<EntityType>,
    /// Only transactions after this one.
    pub since: TxId,
    pub at: TxId,
    pub view: View<'a>,
}
