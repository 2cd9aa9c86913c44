//! The store as of one transaction.

use std::ops::Range;
use std::sync::Arc;

use kenning_model::{EntityType, Id, ScopeId, Timestamp, Transaction, TxId};
use kenning_storage::{EntryFilter, Error, HistoryQuery, Reader, Storage, Stored, TripleFilter};

use crate::indexed::Indexed;

/// Every answer of a snapshot holds at its transaction, however long it is kept and whatever is written.
pub struct Snapshot<'a> {
    storage: &'a Storage,
    indexed: &'a Arc<Indexed>,
    reader: Box<dyn Reader + 'a>,
    at: TxId,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(
        storage: &'a Storage,
        indexed: &'a Arc<Indexed>,
        reader: Box<dyn Reader + 'a>,
        at: TxId,
    ) -> Snapshot<'a> {
        Snapshot { storage, indexed, reader, at }
    }

    pub fn at(&self) -> TxId {
        self.at
    }

    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    pub(crate) fn indexed(&self) -> &Arc<Indexed> {
        self.indexed
    }

    pub fn entry(&self, id: Id) -> Result<Option<Stored>, Error> {
        self.reader.record(EntityType::Entry, id, self.at)
    }

    /// Live triples with these folded values, newest first, and how many there are.
    pub fn triples(
        &self,
        scopes: &[ScopeId],
        [subject, predicate, object]: [Option<&str>; 3],
        page: Range<u64>,
    ) -> Result<(Vec<Stored>, u64), Error> {
        let filter = TripleFilter { scopes, at: self.at, subject, predicate, object };
        Ok((self.reader.triples(&filter, page)?, self.reader.count_triples(&filter)?))
    }

    pub fn transaction(&self, id: TxId) -> Result<Option<Transaction>, Error> {
        self.reader.transaction(id, self.at)
    }

    /// Transactions after `since`, newest first, and how many there are.
    pub fn history(
        &self,
        id: Option<Id>,
        entity_type: Option<EntityType>,
        since: TxId,
        page: Range<u64>,
    ) -> Result<(Vec<Transaction>, u64), Error> {
        self.storage.history(&HistoryQuery { id, entity_type, since, at: self.at }, page)
    }

    /// Topics that begin with the prefix, for completion.
    pub fn topics(
        &self,
        scopes: &[ScopeId],
        prefix: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let filter = EntryFilter { scopes, at: self.at, visible_at: Some(now) };
        self.reader.topics(&filter, prefix, limit)
    }
}
