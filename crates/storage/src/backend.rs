//! The one trait that every place for the log implements. It uses only the types of the model.
//!
//! The promises of a backend; each has a test function in `testkit::backend`:
//! - a transaction is stored completely or not at all, and survives a crash once `commit` has returned;
//! - transaction numbers are dense and in the order of the commits, also with several processes on one store;
//! - a read as of a transaction gives the same answer forever, whatever is written later;
//! - the derived tables equal a replay of the log, and `verify` names every place where they do not.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use kenning_model::{
    EntityType, Id, Record, ScopeId, ScopeName, ScopeNames, Timestamp, Transaction, TxId, Version,
};

use crate::history::{self, UndoChains};
use crate::log_row::{LogRow, rows_of};
use crate::{Error, Reach};

pub trait Backend: Send + Sync {
    /// A connection for reading. Each read names the transaction as of which it is answered, so a reader
    /// needs no transaction of its own and may be kept for as long as a request takes.
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Error>;

    /// Begins the one write transaction of the store. Waits while another process holds it.
    fn begin(&self) -> Result<Box<dyn Pending + '_>, Error>;

    /// Replays the log and reports every place where the store differs from the log.
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error>;

    /// The identity of this store. It changes when the content of another store replaces that of this one, and when
    /// something is purged.
    fn info(&self) -> Result<StoreInfo, Error>;

    /// Waits until the head differs from `seen`, at most for the time `patience`, and returns the head. It is
    /// only a hint that there may be something new: the log itself decides.
    fn wait(&self, seen: Option<Head>, patience: Duration) -> Result<Head, Error>;

    /// Writes the derived tables anew from the log, after damage to them was found. False if they are not the
    /// problem, or if the log itself can't be read.
    fn mend(&self) -> Result<bool, Error>;

    /// Copies everything that was acknowledged into the main file, from which copies of the store are taken.
    /// Open readers may delay a part of it.
    fn checkpoint(&self) -> Result<(), Error>;

    /// Removes the text that `Pending::overwrite` has replaced from free pages and from files beside the store, as far
    /// as the backend can.
    fn scrub(&self) -> Result<(), Error>;

    /// Whether a scrub is still needed, because the process that purged something ended before its scrub.
    fn has_remains(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Leaves files in the store for other processes. They replace the set with the same name. `read` returns a range of a
    /// file, or `None` to give up. False if nothing was left: another process is leaving a set or did so a moment ago, the set
    /// is too large, or the processes that share this kind of store also share a directory.
    fn leave_files(&self, _set: &FileSet, _read: ReadFile<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    /// The newest set with this name.
    fn left_files(&self, _name: &str) -> Result<Option<FileSet>, Error> {
        Ok(None)
    }

    /// Passes the content of a file to `take`, in order. False if the file no longer exists because another set has replaced
    /// this one.
    fn read_left_file(
        &self,
        _set: &FileSet,
        _file: &LeftFile,
        _take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<bool, Error> {
        Ok(false)
    }

    /// Removes a set that turned out to be unusable.
    fn forget_left_files(&self, _set: &FileSet) -> Result<(), Error> {
        Ok(())
    }

    /// Whether this kind of store keeps such files.
    fn keeps_files(&self) -> bool {
        false
    }

    /// How many answers from another machine were waited for since the store was opened. On a database this
    /// is the main cost of a call.
    fn round_trips(&self) -> u64 {
        0
    }
}

/// A unique name of a store: 128 random bits that are drawn when the store is created or restored, and when something
/// is purged from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The newest transaction of a store. A restore makes another store of it, whose log may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub store: StoreId,
    pub tx: TxId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    pub id: StoreId,
    /// The key that signs cursors in every process that opens the store.
    pub secret: [u8; 32],
}

/// Files that a process has derived from the log and left in the store, so that other processes need not derive them again. The
/// store does not know what they contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// The kind of process that can use the files; it contains the version of their format.
    pub name: String,
    /// The last transaction that they cover.
    pub at: TxId,
    /// A text about the files, written by the process that left them.
    pub manifest: String,
    pub files: Vec<LeftFile>,
}

/// A file of a set. No two files of one name have different content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    pub name: String,
    pub bytes: u64,
}

/// Reads a range of a file; `None` if the process that leaves it has to stop.
pub type ReadFile<'a> = &'a dyn Fn(&LeftFile, Range<u64>) -> Option<Vec<u8>>;

/// The part of a document that suffices to see whether its file has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDocument {
    pub id: Id,
    pub path: String,
    pub hash: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Plain,
    /// A document of a catalogue.
    Pattern,
}

/// The kinds of documents that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentKinds {
    pub plain: bool,
    pub patterns: bool,
    /// Documents of a catalogue that are not patterns.
    pub beside_patterns: bool,
}

/// The documents that were taken in together, and the settings of the newest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    pub name: String,
    pub documents: u64,
    pub root: String,
    pub default_tag: String,
    /// The kind that its files were taken in as.
    pub kind: DocumentKind,
    pub changed_at: Timestamp,
}

/// The questions that the store answers. `at` is the transaction as of which the answer holds.
pub trait Reader {
    fn head(&self) -> Result<TxId, Error>;

    /// The store that is read.
    fn store_id(&self) -> Result<StoreId, Error>;

    /// The store and its head in one question.
    fn standing(&self) -> Result<Head, Error> {
        Ok(Head { store: self.store_id()?, tx: self.head()? })
    }

    /// The checksum of a transaction in the log; none if there is no such transaction. Together with the
    /// store's id it tells whether something was read from this log or from another one: a copy that was put
    /// back continues with other transactions.
    fn log_checksum(&self, tx: TxId) -> Result<Option<u32>, Error>;

    /// The version that each key names, in the order of the keys; none if there is none. A caller that needs
    /// several versions should ask for all of them at once, because on a remote database every call is a
    /// round trip.
    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Stored>>, Error>;

    /// The version of an id that was live at a transaction.
    fn record(&self, entity_type: EntityType, id: Id, at: TxId) -> Result<Option<Stored>, Error> {
        Ok(self.records(&[RecordKey { entity_type, id, at: At::Live(at) }])?.pop().flatten())
    }

    /// The newest version of an id, live or closed.
    fn latest(&self, entity_type: EntityType, id: Id) -> Result<Option<Stored>, Error> {
        Ok(self.records(&[RecordKey { entity_type, id, at: At::Newest }])?.pop().flatten())
    }

    /// Whether any record ever had this id.
    fn is_taken(&self, id: Id) -> Result<bool, Error>;

    /// Every transaction that touched the id, oldest first. With scopes, only those transactions by which the
    /// id entered or left one of the scopes, or changed inside one.
    fn touches(
        &self,
        entity_type: EntityType,
        id: Id,
        scopes: Option<&[ScopeId]>,
    ) -> Result<Vec<TxId>, Error>;

    /// Every live record of this type, oldest first; for types with few records.
    fn live(&self, entity_type: EntityType, at: TxId) -> Result<Vec<Stored>, Error>;

    /// The kinds of documents that are live in these scopes, or in any scope.
    fn document_kinds(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<DocumentKinds, Error>;
    /// Every live record of this type in these scopes, newest first.
    fn all_in(&self, entity_type: EntityType, scopes: &[ScopeId], at: TxId) -> Result<Vec<Stored>, Error>;
    /// One page of the same list.
    fn page_in(
        &self,
        entity_type: EntityType,
        scopes: &[ScopeId],
        at: TxId,
        page: Range<u64>,
    ) -> Result<Vec<Stored>, Error>;
    /// The live document of a source in a scope at a path.
    fn document_at(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Option<Stored>, Error>;
    /// The live documents of a source in a scope, at a path and below it, ordered by path. An empty path
    /// means all documents.
    fn documents_below(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Vec<KnownDocument>, Error>;
    /// The sources that have live documents in a scope, by name. The settings of a source are those of its
    /// newest version, live or closed, because a run that ends early leaves the other documents unchanged.
    fn document_sources(&self, scope: ScopeId, at: TxId) -> Result<Vec<DocumentSource>, Error>;
    /// The document of a live section, without reading the section's text.
    fn document_of(&self, section: Id, at: TxId) -> Result<Option<Id>, Error>;
    /// The live sections of a document, in order.
    fn sections_of(&self, document: Id, at: TxId) -> Result<Vec<Stored>, Error>;

    /// The live scope of this name.
    fn scope_named(&self, name: &ScopeName, at: TxId) -> Result<Option<ScopeId>, Error>;
    /// The scope that had this name last, and the last transaction that touched that scope. If the scope is
    /// not live, this is the transaction that deleted it.
    fn scope_once_named(&self, name: &ScopeName) -> Result<Option<(ScopeId, TxId)>, Error>;
    /// The id of the scope with this number, live or not.
    fn scope_id(&self, scope: ScopeId) -> Result<Option<Id>, Error>;
    /// The namespace that had this name last, live or not.
    fn namespace_once_named(&self, name: &str) -> Result<Option<Id>, Error>;
    /// The transaction that deleted the namespace which had this name last; none if that namespace still
    /// lives under another name.
    fn namespace_deleted_by(&self, name: &str) -> Result<Option<TxId>, Error>;
    /// The names of these scopes. Deleted scopes have their last name.
    fn scope_names(&self, scopes: &[ScopeId], at: TxId) -> Result<ScopeNames, Error>;
    /// The closure of a scope: the scopes that it sees, nearest first. Empty if the scope is not live.
    fn closure(&self, scope: ScopeId, at: TxId) -> Result<Vec<ScopeId>, Error>;
    /// Every scope that these namespaces have or ever had, with its namespace. The built-in scope is in no
    /// table and is left out.
    fn scopes_ever(&self, namespaces: &[Id]) -> Result<Vec<(ScopeId, Id)>, Error>;
    /// The number for the next new scope: one more than the largest number so far.
    fn next_scope(&self) -> Result<ScopeId, Error>;

    /// Live entries, newest first.
    fn entries(&self, filter: &EntryFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error>;
    /// Pinned live entries, in the order of the filter's scopes, and newest first in each scope.
    fn pinned(&self, filter: &EntryFilter<'_>, limit: usize) -> Result<Vec<Stored>, Error>;
    fn count_entries(&self, filter: &EntryFilter<'_>) -> Result<u64, Error>;
    /// How many entries are live now in these scopes, with suppressed ones, from counters: the time does not
    /// grow with their number.
    fn live_entries(&self, scopes: &[ScopeId]) -> Result<u64, Error>;
    /// How many live entries or triples each scope has itself, with suppressed ones.
    fn count_by_scope(&self, entity_type: EntityType, at: TxId) -> Result<BTreeMap<ScopeId, u64>, Error>;
    /// Topics of live entries that begin with the folded prefix, in alphabetical order. Each topic comes
    /// once, in its newest spelling.
    fn topics(&self, filter: &EntryFilter<'_>, prefix: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Live triples, newest first.
    fn triples(&self, filter: &TripleFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error>;
    /// Whether there is any live triple in these scopes, or anywhere.
    fn has_triples(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<bool, Error>;
    /// Folded subjects and objects of the newest live triples, of at most `limit` triples.
    fn triple_names(&self, scopes: &[ScopeId], at: TxId, limit: usize) -> Result<Vec<[String; 2]>, Error>;
    fn count_triples(&self, filter: &TripleFilter<'_>) -> Result<u64, Error>;

    /// The changes of these types from a position up to, but not including, the transaction `end`, in the
    /// order of the log. A page has at most `limit` changes, or fewer if they are large, and says where the
    /// next page begins. The page owns its data, so the store can be asked again while the page is processed.
    fn changes(
        &self,
        entity_types: &[EntityType],
        from: Position,
        end: TxId,
        limit: usize,
    ) -> Result<LogPage, Error>;

    /// The rows of each of these transactions in the order of the log, at most `rows_max` of each: first the
    /// header, then the changes. A transaction that does not exist has no rows.
    fn log_rows(&self, ids: &[TxId], rows_max: usize) -> Result<Vec<Vec<LogRow>>, Error>;
    /// The undos of these transactions, the undos of those undos, and so on, as pairs: the undone
    /// transaction, then the one that undid it.
    fn undo_edges(&self, targets: &[TxId]) -> Result<Vec<(TxId, TxId)>, Error>;

    /// Transactions as of `at`, in the requested order, with the changes that the view shows.
    fn transactions(
        &self,
        ids: &[TxId],
        at: TxId,
        view: View<'_>,
    ) -> Result<Vec<Option<Transaction>>, Error> {
        history::transactions(self, ids, at, view)
    }
    /// A single transaction, as of `at` and as the view shows it.
    fn transaction(&self, id: TxId, at: TxId, view: View<'_>) -> Result<Option<Transaction>, Error> {
        Ok(self.transactions(&[id], at, view)?.pop().flatten())
    }
    /// The transactions in the range that match `touched`, newest first.
    fn transactions_with(&self, touched: &Touched<'_>, page: Range<u64>) -> Result<Vec<TxId>, Error>;
    fn count_transactions_with(&self, touched: &Touched<'_>) -> Result<u64, Error>;
    /// The newest transaction of this origin before `before`.
    fn newest_of(&self, origin: &str, before: TxId) -> Result<Option<TxId>, Error>;
    /// The undo of this transaction that is in effect as of `at`.
    fn undone_by(&self, id: TxId, at: TxId) -> Result<Option<TxId>, Error> {
        Ok(UndoChains::read(self, &[id])?.standing(id, at))
    }

    fn recall(&self, actor: &str, key: &str) -> Result<Option<Remembered>, Error>;
    /// The idempotency keys that are still kept, in the order of their owners and keys, after this pair.
    fn kept_keys(&self, after: Option<(&str, &str)>, limit: usize) -> Result<Vec<KeptKey>, Error>;
    /// When the oldest idempotency key that is still kept was used.
    fn oldest_key(&self) -> Result<Option<Timestamp>, Error>;
}

/// Names one version of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKey {
    pub entity_type: EntityType,
    pub id: Id,
    pub at: At,
}

/// Selects a version of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The version that was live at this transaction.
    Live(TxId),
    /// The newest version, live or closed.
    Newest,
    /// The version that this transaction closed.
    ClosedBy(TxId),
}

/// A place in the log: before the change with this number in this transaction. The first change has number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub tx: TxId,
    pub seq: u32,
}

impl Position {
    /// The place before the first change of a transaction.
    pub fn before(tx: TxId) -> Position {
        Position { tx, seq: 0 }
    }
}

/// One change as the log has it: the new version of an id, or none if the id was deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct LogChange {
    pub tx: TxId,
    pub entity_type: EntityType,
    pub id: Id,
    pub after: Option<Record>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    pub changes: Vec<LogChange>,
    /// The start of the next page; none on the last page.
    pub next: Option<Position>,
}

/// A page of the log ends after this many bytes of records, even if it has fewer changes than requested.
pub const LOG_PAGE_BYTES: usize = 4 << 20;

/// A write transaction in progress. Its reader sees its own writes. If it is dropped without a commit,
/// nothing is stored.
pub trait Pending {
    fn reader(&self) -> &dyn Reader;
    /// Appends a transaction together with its rows for the log.
    fn append_rows(&mut self, rows: &[LogRow], tx: &Transaction) -> Result<(), Error>;
    fn append(&mut self, tx: &Transaction) -> Result<(), Error> {
        self.append_rows(&rows_of(tx), tx)
    }
    fn remember(&mut self, actor: &str, key: &str, value: &Remembered) -> Result<(), Error>;
    fn forget_before(&mut self, at: Timestamp) -> Result<(), Error>;
    /// Puts these rows in the places of those that have their numbers, in the log and in what is derived from it. They change the
    /// same ids, in the same scopes, and say nothing else about life and visibility.
    fn overwrite(&mut self, rows: &[LogRow]) -> Result<(), Error>;
    /// Gives the store a new id and a new secret.
    fn renew(&mut self) -> Result<(), Error>;
    fn commit(self: Box<Self>) -> Result<(), Error>;
}

/// A record with its id and the transaction that wrote this version.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub id: Id,
    pub tx_id: TxId,
    pub record: Record,
}

impl From<Stored> for Version {
    fn from(stored: Stored) -> Version {
        Version { tx_id: stored.tx_id, record: stored.record }
    }
}

/// How much of a transaction is read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The scopes and namespaces that may be seen at all, whatever else is requested.
    pub reach: &'a Reach,
    /// Only versions in these scopes, and records that belong to no scope.
    pub scopes: Option<&'a [ScopeId]>,
    /// For transactions of this origin, everything in reach is shown, whatever its scope.
    pub own: Option<&'a str>,
    /// At most this many changes are returned; the others are only counted.
    pub changes_max: usize,
}

impl View<'_> {
    pub const WHOLE: View<'static> =
        View { reach: &Reach::Everything, scopes: None, own: None, changes_max: usize::MAX };
    /// Only the header: author, time, and the transactions that it undid.
    pub const HEADER: View<'static> = View { changes_max: 0, ..View::WHOLE };
}

/// Selects transactions by what they touched.
pub struct Touched<'a> {
    /// What may be seen at all. Of namespaces and scopes, only changes of those in reach count.
    pub reach: &'a Reach,
    pub entity_type: Option<EntityType>,
    /// Only transactions that touched these scopes, or records that belong to no scope.
    pub scopes: Option<&'a [ScopeId]>,
    /// Also the transactions of this origin, whatever scope they touched.
    pub own: Option<&'a str>,
    pub range: Range<TxId>,
}

pub struct EntryFilter<'a> {
    pub scopes: &'a [ScopeId],
    pub at: TxId,
    /// The moment at which validity is judged. `None` includes suppressed and expired entries.
    pub visible_at: Option<Timestamp>,
}

#[derive(Clone, Copy)]
pub struct TripleFilter<'a> {
    pub scopes: &'a [ScopeId],
    pub at: TxId,
    /// The folded value that the field must have as a whole.
    pub subject: Option<&'a str>,
    pub predicate: Option<&'a str>,
    pub object: Option<&'a str>,
}

/// The record of a write with an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    pub tool: String,
    pub digest: String,
    pub reply: String,
    pub at: Timestamp,
}

/// An idempotency key, its owner, and the record of its write.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptKey {
    pub owner: String,
    pub key: String,
    pub value: Remembered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The table or file, and the row if it is known.
    pub place: String,
    pub what: String,
}

/// What a verification has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub transactions: u64,
    pub log_rows: u64,
    pub derived_rows: u64,
}
