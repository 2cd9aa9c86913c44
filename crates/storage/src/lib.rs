//! The transaction log and the tables derived from it.
//!
//! `Storage` has the rules that are the same on every backend: what a write may do, how an undo is planned,
//! and how concurrent writers share one durable commit. A backend only stores and finds rows.

mod backend;
mod copy;
mod derive;
mod embedded;
mod error;
mod group;
mod history;
mod log_row;
mod migrate;
mod postgres;
mod purge;
mod reach;
mod replay;
mod tree;
mod write;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kenning_model::{EntityType, Id, Principal, ScopeId, Timestamp, Transaction, TxId};

pub use backend::{
    At, Backend, Damage, DocumentKind, DocumentKinds, DocumentSource, EntryFilter, FileSet, Head, KeptKey,
    KnownDocument, LOG_PAGE_BYTES, LeftFile, LogChange, LogPage, Pending, Position, ReadFile, Reader,
    RecordKey, Remembered, StoreId, StoreInfo, Stored, Touched, TripleFilter, Verified, View,
};
pub use copy::{LogItem, read_log};
pub use embedded::{Embedded, STORE_FILE, back_up, restore, restore_checked};
pub use error::{Applied, Error, Missing};
pub use log_row::LogRow;
pub use migrate::{Migrated, migrate};
pub use postgres::{DEFAULT_STORE, DatabaseUrl, Postgres};
pub use purge::{PurgeItem, PurgePlan, PurgeSelection, Purged};
pub use reach::Reach;
pub use tree::{DEPTH_MAX, Tree, find_scope, renamed_scope};
pub use write::{
    Author, Batch, Committed, EntryDeletion, EntryLimit, EntryPatch, EntryUpdate, Follows, Keyed,
    NamespacePatch, NewDocument, NewEntry, NewNamespace, NewScope, NewSection, NewTriple, OnConflict,
    Request, ScopePatch, UndoPlan, UndoTarget, UndoWish, Write,
};

/// An idempotency key is kept at least this long, by the clock and also by the number of transactions. Each
/// alone could be wrong: a clock may jump, and an import writes many transactions in little time.
pub const KEY_KEPT: jiff::SignedDuration = jiff::SignedDuration::from_hours(7 * 24);
const KEY_KEPT_TRANSACTIONS: u64 = 1_000;
/// At most this much time of the oldest keys is deleted at once.
const KEYS_FORGOTTEN: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// The sources of time and randomness, passed in so that a test can fix them.
#[derive(Clone)]
pub struct Sources {
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub id: Arc<dyn Fn() -> Id + Send + Sync>,
}

/// The location of a store and how to open it. Creating a location opens nothing.
#[derive(Clone, Debug)]
pub enum Location {
    /// The embedded store of a directory.
    Directory(PathBuf),
    /// One of the stores in a PostgreSQL database.
    Database(DatabaseUrl),
}

impl Location {
    /// Whether the store exists. For a database that does not answer this returns true; the error comes when
    /// the store is opened.
    pub fn has_store(&self) -> bool {
        match self {
            Location::Directory(dir) => dir.join(STORE_FILE).exists(),
            Location::Database(url) => Postgres::is_there(url).unwrap_or(true),
        }
    }

    /// Opens the store and creates it if there is none.
    pub fn open(&self, sources: Sources) -> Result<Storage, Error> {
        match self {
            Location::Directory(dir) => Storage::open(dir, sources),
            Location::Database(url) => Ok(Storage::on(Box::new(Postgres::open(url)?), sources)),
        }
    }

    /// Opens a store that must exist already.
    pub fn open_existing(&self, sources: Sources) -> Result<Storage, Error> {
        match self {
            Location::Directory(_) if self.has_store() => self.open(sources),
            Location::Directory(_) => {
                let reason = "there is no store in the data directory yet".to_owned();
                Err(Error::Unavailable { applied: Applied::No, reason })
            }
            Location::Database(url) => Ok(Storage::on(Box::new(Postgres::open_existing(url)?), sources)),
        }
    }
}

pub struct Storage {
    backend: Box<dyn Backend>,
    sources: Sources,
    group: group::Group,
    entry_limit: Arc<EntryLimit>,
}

impl Storage {
    /// Opens the embedded store of a directory and creates it if there is none.
    pub fn open(dir: &Path, sources: Sources) -> Result<Storage, Error> {
        Ok(Storage::on(Box::new(Embedded::open(dir)?), sources))
    }

    pub fn on(backend: Box<dyn Backend>, sources: Sources) -> Storage {
        Storage { backend, sources, group: group::Group::default(), entry_limit: Arc::default() }
    }

    /// The same store, whose writes keep within a limit.
    pub fn with_entry_limit(self, entry_limit: Arc<EntryLimit>) -> Storage {
        Storage { entry_limit, ..self }
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

    /// Commits one write, together with the writes that other threads request at the same moment. When this
    /// returns, the write is durable and every reader of the store sees it.
    pub fn commit(&self, request: Request) -> Result<Committed, Error> {
        self.commit_and_tell(request, || (), |_| ())
    }

    /// Like `commit`. `queued` is called when the write is in the queue, before it is committed. `seen` is
    /// called for every new transaction of the group, in the order of their numbers, before any caller gets
    /// its answer.
    pub fn commit_and_tell(
        &self,
        request: Request,
        queued: impl FnOnce(),
        seen: impl Fn(&Transaction),
    ) -> Result<Committed, Error> {
        self.group.commit(request, queued, |batch| {
            let answers = write::run(&*self.backend, &self.sources, &self.entry_limit, batch);
            answers
                .iter()
                .flatten()
                .filter(|committed| committed.is_new)
                .for_each(|committed| seen(&committed.tx));
            answers
        })
    }

    /// The transaction that an undo would commit now. Nothing is changed.
    pub fn plan_undo(&self, request: &UndoPlan<'_>) -> Result<Transaction, Error> {
        let reader = self.backend.reader()?;
        write::preview_undo(&*reader, &self.sources, &self.entry_limit, request)
    }

    /// The transaction that a quarantine would commit now. Nothing is changed.
    pub fn plan_quarantine(&self, author: &Author, principal: &Principal) -> Result<Transaction, Error> {
        let reader = self.backend.reader()?;
        write::preview_quarantine(&*reader, &self.sources, author, principal)
    }

    /// A page of the history's transactions, newest first, and how many there are in total.
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
                // An id that is out of reach takes as long as one that does not exist, so no more of it is read.
                let within_reach = query.view.reach.scopes();
                for touched in EntityType::ALL {
                    if entity_type.is_none_or(|wanted| wanted == touched) {
                        ids.extend(reader.touches(touched, id, scopes)?);
                        if let (Some(own), Some(_)) = (query.view.own, scopes) {
                            ids.extend(own_touches(&*reader, touched, id, own, within_reach.as_deref())?);
                        }
                    }
                }
                ids.retain(|tx| range.contains(tx));
                ids.sort_unstable();
                ids.dedup();
                ids.reverse();
                if !query.view.reach.is_everything() {
                    // For an id that is out of reach, no transaction is returned.
                    let found = reader.transactions(&ids, query.at, query.view)?.into_iter().flatten();
                    ids = found.filter(|tx| !tx.changes.is_empty()).map(|tx| tx.id).collect();
                }
                let total = ids.len() as u64;
                let page = ids.into_iter().skip(page.start as usize).take((page.end - page.start) as usize);
                (page.collect(), total)
            }
            // Transaction numbers are dense, so a page of the whole history needs no look-up.
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
        let found = reader.transactions(&ids, query.at, query.view)?.into_iter().zip(ids);
        let missing = |id: TxId| Error::damaged(format!("transaction {id} is missing"));
        let found = found.map(|(tx, id)| tx.ok_or_else(|| missing(id)));
        Ok((found.collect::<Result<_, _>>()?, total))
    }
}

/// The transactions of this origin that touched an id, in any of these scopes.
fn own_touches(
    reader: &dyn Reader,
    entity_type: EntityType,
    id: Id,
    own: &str,
    scopes: Option<&[ScopeId]>,
) -> Result<Vec<TxId>, Error> {
    let head = reader.head()?;
    let touches = reader.touches(entity_type, id, scopes)?;
    if touches.is_empty() {
        return Ok(touches);
    }
    let headers = reader.transactions(&touches, head, View::HEADER)?.into_iter().flatten();
    Ok(headers.filter(|header| header.origin == own).map(|header| header.id).collect())
}

pub struct HistoryQuery<'a> {
    pub id: Option<Id>,
    pub entity_type: Option<EntityType>,
    /// Only transactions after this one.
    pub since: TxId,
    pub at: TxId,
    pub view: View<'a>,
}
