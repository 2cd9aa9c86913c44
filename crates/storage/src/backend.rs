//! The one trait that every place for the log implements, in model types only.
//!
//! What a backend promises, each promise a function in `testkit::backend`:
//! - a transaction is there whole or not at all, and once `commit` has returned it survives a crash;
//! - ids are dense and in the order of commit, also with several processes on one store;
//! - a read at a transaction gives the same answer forever, whatever is written later;
//! - what is derived from the log equals a replay of it, and `verify` names every place where it does not.

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
    /// A connection to read with. Reads name the transaction at which they look, so a reader needs no
    /// transaction of its own and may be kept for as long as a request takes.
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Error>;

    /// Begins the store's one write transaction and waits while another process holds it.
    fn begin(&self) -> Result<Box<dyn Pending + '_>, Error>;

    /// Replays the log and reports every place where the store is not what the log says.
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error>;

    /// What tells this store from every other. It changes when another store's content takes the place of this one's.
    fn info(&self) -> Result<StoreInfo, Error>;

    /// Waits until the store has another head than the one that was seen, or for as long as `patience`, and returns the head.
    /// It is a hint that there may be something to read: the log is the truth.
    fn wait(&self, seen: Option<Head>, patience: Duration) -> Result<Head, Error>;

    /// Makes what is derived from the log anew, after damage to it was met. False if that is not what is wrong, or the
    /// log itself can't be read.
    fn mend(&self) -> Result<bool, Error>;

    /// Brings everything that was acknowledged to where a copy of the store is taken from, as far as others who read
    /// allow it.
    fn checkpoint(&self) -> Result<(), Error>;

    /// Leaves files in the store for other processes, in the place of the set that has the same name; `read` gives a stretch of a
    /// file, or none to give up. False if nothing was left: because another process is leaving a set at the moment or did so just now,
    /// because it is too large, or because processes that share this kind of store share a directory too.
    fn leave_files(&self, _set: &FileSet, _read: ReadFile<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    /// The set of this name that was left last.
    fn left_files(&self, _name: &str) -> Result<Option<FileSet>, Error> {
        Ok(None)
    }

    /// Hands the content of a file of a set to `take`, from the beginning to the end. False if the file is not there any more, since
    /// another set has taken the place of this one.
    fn read_left_file(
        &self,
        _set: &FileSet,
        _file: &LeftFile,
        _take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<bool, Error> {
        Ok(false)
    }

    /// Takes a set away that turned out to be of no use.
    fn forget_left_files(&self, _set: &FileSet) -> Result<(), Error> {
        Ok(())
    }

    /// Whether this kind of store keeps such files.
    fn keeps_files(&self) -> bool {
        false
    }

    /// How often an answer from another machine was waited for since the store was opened: what a call costs on a database.
    fn round_trips(&self) -> u64 {
        0
    }
}

/// A name that no other store has: 128 random bits, made when the store was made or restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// How far the log of which store goes. After a restore the store is another one, and its log may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub store: StoreId,
    pub tx: TxId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    pub id: StoreId,
    /// Signs cursors in every process that opens the store.
    pub secret: [u8; 32],
}

/// Files that a process has derived from the log and left in the store, so that others need not derive them again. What is in them is
/// known to those alone who leave and take them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Who can use the files; contains the version of their format.
    pub name: String,
    /// The last transaction that they cover.
    pub at: TxId,
    /// A text that whoever left the files has written about them.
    pub manifest: String,
    pub files: Vec<LeftFile>,
}

/// A file of a set. No two files of one name have different content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    pub name: String,
    pub bytes: u64,
}

/// Reads a stretch of a file; none if whoever leaves it has to stop.
pub type ReadFile<'a> = &'a dyn Fn(&LeftFile, Range<u64>) -> Option<Vec<u8>>;

/// Enough of a document to see whether a file is another by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDocument {
    pub id: Id,
    pub path: String,
    pub hash: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Plain,
    /// Of a catalogue.
    Pattern,
}

/// What there is of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentKinds {
    pub plain: bool,
    pub patterns: bool,
    /// Of a catalogue, and no pattern.
    pub beside_patterns: bool,
}

/// Documents that were taken in together, and how the last of them was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    pub name: String,
    pub documents: u64,
    pub root: String,
    pub default_tag: String,
    /// What its run took files for.
    pub kind: DocumentKind,
    pub changed_at: Timestamp,
}

/// What can be asked of the store. `at` is the transaction as of which the answer holds.
pub trait Reader {
    fn head(&self) -> Result<TxId, Error>;

    /// The store that is read.
    fn store_id(&self) -> Result<StoreId, Error>;

    /// Both in one question: how far which store goes.
    fn standing(&self) -> Result<Head, Error> {
        Ok(Head { store: self.store_id()?, tx: self.head()? })
    }

    /// The checksum of a transaction as the log has it; none if there is no such transaction. With the store's id it tells whether
    /// something was read from this log or from another: a copy that was put back goes on with other transactions.
    fn log_checksum(&self, tx: TxId) -> Result<Option<u32>, Error>;

    /// The version that each key names, in the order of the keys, or none. Whoever needs several versions asks once for all
    /// of them: on a database that is elsewhere every call is a round trip.
    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Stored>>, Error>;

    /// The version of an id that was live at a transaction.
    fn record(&self, entity_type: EntityType, id: Id, at: TxId) -> Result<Option<Stored>, Error> {
        Ok(self.records(&[RecordKey { entity_type, id, at: At::Live(at) }])?.pop().flatten())
    }

    /// The newest version of an id, live or closed.
    fn latest(&self, entity_type: EntityType, id: Id) -> Result<Option<Stored>, Error> {
        Ok(self.records(&[RecordKey { entity_type, id, at: At::Newest }])?.pop().flatten())
    }

    /// Whether anything ever had this id.
    fn is_taken(&self, id: Id) -> Result<bool, Error>;

    /// Every transaction that touched the id, oldest first; with scopes, only those in which the id came to be in one
    /// of them or went from there.
    fn touches(
        &self,
        entity_type: EntityType,
        id: Id,
        scopes: Option<&[ScopeId]>,
    ) -> Result<Vec<TxId>, Error>;

    /// Every live record of this type, oldest first: for types of which there are few.
    fn live(&self, entity_type: EntityType, at: TxId) -> Result<Vec<Stored>, Error>;

    /// What documents are live in these scopes, or anywhere.
    fn document_kinds(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<DocumentKinds, Error>;
    /// Every live record of this type in these scopes, newest first.
    fn all_in(&self, entity_type: EntityType, scopes: &[ScopeId], at: TxId) -> Result<Vec<Stored>, Error>;
    /// A page of the same.
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
    /// The live documents of a source in a scope at a path and below it (all for an empty one), by path.
    fn documents_below(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Vec<KnownDocument>, Error>;
    /// The sources of which a scope has live documents, by name. How a source is taken in is what its newest version
    /// says, live or closed, since a run that ends early leaves the others as they were.
    fn document_sources(&self, scope: ScopeId, at: TxId) -> Result<Vec<DocumentSource>, Error>;
    /// The document of a live section, without reading what the section says.
    fn document_of(&self, section: Id, at: TxId) -> Result<Option<Id>, Error>;
    /// The live sections of a document, in order.
    fn sections_of(&self, document: Id, at: TxId) -> Result<Vec<Stored>, Error>;

    /// The live scope of this name.
    fn scope_named(&self, name: &ScopeName, at: TxId) -> Result<Option<ScopeId>, Error>;
    /// The scope that had this name last, and the last transaction that touched it: if it is not live, the one that
    /// deleted it.
    fn scope_once_named(&self, name: &ScopeName) -> Result<Option<(ScopeId, TxId)>, Error>;
    /// The id of a scope of this number, live or not.
    fn scope_id(&self, scope: ScopeId) -> Result<Option<Id>, Error>;
    /// The namespace that had this name last, live or not.
    fn namespace_once_named(&self, name: &str) -> Result<Option<Id>, Error>;
    /// The transaction that deleted the namespace which had this name last; none if it lives on under another.
    fn namespace_deleted_by(&self, name: &str) -> Result<Option<TxId>, Error>;
    /// What these scopes are called; deleted ones by their last name.
    fn scope_names(&self, scopes: &[ScopeId], at: TxId) -> Result<ScopeNames, Error>;
    /// What a scope sees, nearest first; nothing if it is not live.
    fn closure(&self, scope: ScopeId, at: TxId) -> Result<Vec<ScopeId>, Error>;
    /// Every scope that these namespaces have or ever had, with its namespace. The built-in one is in no table.
    fn scopes_ever(&self, namespaces: &[Id]) -> Result<Vec<(ScopeId, Id)>, Error>;
    /// The number of the next new scope: one more than any scope ever had.
    fn next_scope(&self) -> Result<ScopeId, Error>;

    /// Live entries, newest first.
    fn entries(&self, filter: &EntryFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error>;
    /// Pinned live entries, by scope in the order of the filter, newest first in each.
    fn pinned(&self, filter: &EntryFilter<'_>, limit: usize) -> Result<Vec<Stored>, Error>;
    fn count_entries(&self, filter: &EntryFilter<'_>) -> Result<u64, Error>;
    /// How many live entries or triples each scope has in itself, suppressed ones too.
    fn count_by_scope(&self, entity_type: EntityType, at: TxId) -> Result<BTreeMap<ScopeId, u64>, Error>;
    /// Topics of live entries that begin with the folded prefix, in order, each once, as spelt last.
    fn topics(&self, filter: &EntryFilter<'_>, prefix: &str, limit: usize) -> Result<Vec<String>, Error>;

    /// Live triples, newest first.
    fn triples(&self, filter: &TripleFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error>;
    /// Whether there is any live triple in these scopes, or anywhere.
    fn has_triples(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<bool, Error>;
    /// Folded subjects and objects of the newest live triples, so many triples at most.
    fn triple_names(&self, scopes: &[ScopeId], at: TxId, limit: usize) -> Result<Vec<[String; 2]>, Error>;
    fn count_triples(&self, filter: &TripleFilter<'_>) -> Result<u64, Error>;

    /// The changes of these types from a position on and before the transaction `end`, in the order of the log. A page has at
    /// most `limit` changes, fewer if they are large, and says where the next page begins. The page owns what it has, so
    /// the store can be asked again while the page is worked through.
    fn changes(
        &self,
        entity_types: &[EntityType],
        from: Position,
        end: TxId,
        limit: usize,
    ) -> Result<LogPage, Error>;

    /// The rows of each of these transactions in the order of the log, at most so many of each: the header, then its changes. A
    /// transaction that does not exist has none.
    fn log_rows(&self, ids: &[TxId], rows_max: usize) -> Result<Vec<Vec<LogRow>>, Error>;
    /// Which transactions took these back, and which took those back in turn, and so on: the one that was taken back, then the
    /// one that did it.
    fn undo_edges(&self, targets: &[TxId]) -> Result<Vec<(TxId, TxId)>, Error>;

    /// Transactions as of `at`, in the order asked for, as far as the view shows them.
    fn transactions(
        &self,
        ids: &[TxId],
        at: TxId,
        view: View<'_>,
    ) -> Result<Vec<Option<Transaction>>, Error> {
        history::transactions(self, ids, at, view)
    }
    /// One of them.
    fn transaction(&self, id: TxId, at: TxId, view: View<'_>) -> Result<Option<Transaction>, Error> {
        Ok(self.transactions(&[id], at, view)?.pop().flatten())
    }
    /// The transactions in the range that touched what is asked for, newest first.
    fn transactions_with(&self, touched: &Touched<'_>, page: Range<u64>) -> Result<Vec<TxId>, Error>;
    fn count_transactions_with(&self, touched: &Touched<'_>) -> Result<u64, Error>;
    /// The newest transaction of this origin before `before`.
    fn newest_of(&self, origin: &str, before: TxId) -> Result<Option<TxId>, Error>;
    /// The undo of this transaction that still stands as of `at`.
    fn undone_by(&self, id: TxId, at: TxId) -> Result<Option<TxId>, Error> {
        Ok(UndoChains::read(self, &[id])?.standing(id, at))
    }

    fn recall(&self, actor: &str, key: &str) -> Result<Option<Remembered>, Error>;
    /// The idempotency keys that are still kept, in the order of their owners and then of the keys, after this pair.
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

/// Which version of an id is meant.
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
    /// Where the next page begins; none after the last.
    pub next: Option<Position>,
}

/// A page of the log ends after so many bytes of records, whatever number of changes was asked for.
pub const LOG_PAGE_BYTES: usize = 4 << 20;

/// The write transaction under way. Its reader sees what it has written. Dropped, it leaves nothing.
pub trait Pending {
    fn reader(&self) -> &dyn Reader;
    /// Appends a transaction whose rows in the log are these.
    fn append_rows(&mut self, rows: &[LogRow], tx: &Transaction) -> Result<(), Error>;
    fn append(&mut self, tx: &Transaction) -> Result<(), Error> {
        self.append_rows(&rows_of(tx), tx)
    }
    fn remember(&mut self, actor: &str, key: &str, value: &Remembered) -> Result<(), Error>;
    fn forget_before(&mut self, at: Timestamp) -> Result<(), Error>;
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
    /// What may be seen at all, whatever else is asked for.
    pub reach: &'a Reach,
    /// Only versions in these scopes, and what belongs to no scope.
    pub scopes: Option<&'a [ScopeId]>,
    /// Of transactions of this origin everything in reach, whatever the scope.
    pub own: Option<&'a str>,
    /// So many changes at most; the others are counted.
    pub changes_max: usize,
}

impl View<'_> {
    pub const WHOLE: View<'static> =
        View { reach: &Reach::Everything, scopes: None, own: None, changes_max: usize::MAX };
    /// Who did it, when, and what it took back.
    pub const HEADER: View<'static> = View { changes_max: 0, ..View::WHOLE };
}

/// Which transactions are asked for.
pub struct Touched<'a> {
    /// What may be seen at all: of namespaces and scopes, the changes of those in reach.
    pub reach: &'a Reach,
    pub entity_type: Option<EntityType>,
    /// Those in these scopes, and of what belongs to no scope.
    pub scopes: Option<&'a [ScopeId]>,
    /// Those of this origin too, wherever they went.
    pub own: Option<&'a str>,
    pub range: Range<TxId>,
}

pub struct EntryFilter<'a> {
    pub scopes: &'a [ScopeId],
    pub at: TxId,
    /// The moment at which validity is judged; `None` takes suppressed and expired entries too.
    pub visible_at: Option<Timestamp>,
}

#[derive(Clone, Copy)]
pub struct TripleFilter<'a> {
    pub scopes: &'a [ScopeId],
    pub at: TxId,
    /// Folded whole values.
    pub subject: Option<&'a str>,
    pub predicate: Option<&'a str>,
    pub object: Option<&'a str>,
}

/// What a write with an idempotency key left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    pub tool: String,
    pub digest: String,
    pub reply: String,
    pub at: Timestamp,
}

/// An idempotency key, whose it is, and what it left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptKey {
    pub owner: String,
    pub key: String,
    pub value: Remembered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The table or file, and the row where it is known.
    pub place: String,
    pub what: String,
}

/// What a verification went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub transactions: u64,
    pub log_rows: u64,
    pub derived_rows: u64,
}
