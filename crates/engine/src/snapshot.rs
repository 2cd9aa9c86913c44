//! The store as of one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use kenning_model::{EntityType, Id, ScopeId, ScopeName, ScopeNames, Timestamp, Transaction, TxId};
use kenning_storage::{
    At, DocumentKinds, DocumentSource, EntryFilter, Error, HistoryQuery, KnownDocument, Reach, Reader,
    RecordKey, StoreId, Stored, Tree, TripleFilter, View, find_scope, renamed_scope,
};

use crate::catalogue::Catalogue;
use crate::graph_reading::GraphReading;
use crate::indexed::Indexed;
use crate::reading::Reading;
use crate::{OpenStore, Sight};

/// The kinds of content that a store may or may not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Whether there are documents other than those ingested with a catalogue of patterns.
    pub documents: bool,
    pub patterns: bool,
    pub triples: bool,
}

/// Selects triples with this predicate, to be walked from their subject or from their object.
pub struct TriplesFrom<'a> {
    pub name: &'a str,
    pub predicate: &'a str,
    pub is_subject: bool,
    pub hops: u32,
}

/// The most triples that are walked; a hub may have any number.
const TRIPLES_MAX: usize = 20_000;
/// The most of the newest records whose names are read, since a write waits for it.
const NAMED_MAX: usize = 1_000;

/// The store as of one transaction. Every answer stays the same, however long the snapshot is kept and
/// whatever is written. It contains only records that its principal may read.
pub struct Snapshot<'a> {
    opened: &'a OpenStore,
    reader: Box<dyn Reader + 'a>,
    store: StoreId,
    at: TxId,
    reach: Reach,
    deadline: Option<Instant>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(
        opened: &'a OpenStore,
        reader: Box<dyn Reader + 'a>,
        store: StoreId,
        at: TxId,
        deadline: Option<Instant>,
        reach: Reach,
    ) -> Snapshot<'a> {
        Snapshot { opened, reader, store, at, deadline, reach }
    }

    /// The scopes that the principal may see and change.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The live version of an id, if it is in reach.
    fn record(&self, entity_type: EntityType, id: Id) -> Result<Option<Stored>, Error> {
        Ok(self.records(entity_type, &[id])?.pop().flatten())
    }

    /// The live versions of these ids, in their order; `None` for an id without one or out of reach.
    pub fn records(&self, entity_type: EntityType, ids: &[Id]) -> Result<Vec<Option<Stored>>, Error> {
        let key = |id: &Id| RecordKey { entity_type, id: *id, at: At::Live(self.at) };
        let found = self.reader.records(&ids.iter().map(key).collect::<Vec<_>>())?;
        let in_reach = |stored: &Stored| self.reach.sees(stored.id, &stored.record);
        Ok(found.into_iter().map(|stored| stored.filter(in_reach)).collect())
    }

    /// Like `records`, for ids that an index has found; a missing record is an error.
    pub(crate) fn found(&self, entity_type: EntityType, ids: &[Id]) -> Result<Vec<Stored>, Error> {
        let records = ids.iter().zip(self.records(entity_type, ids)?);
        let missing = |id: &Id| Error::Damaged {
            what: format!("{entity_type} `{id}` is in the log but not in its table"),
        };
        records.map(|(id, stored)| stored.ok_or_else(|| missing(id))).collect()
    }

    /// The store that is read. Data read from another store, before a restore, is not valid for this one.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The moment after which nobody waits for the answer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The checksum of the transaction that answers are as of.
    pub fn checksum(&self) -> Result<u32, Error> {
        Ok(self.reader.log_checksum(self.at)?.unwrap_or_default())
    }

    pub fn at(&self) -> TxId {
        self.at
    }

    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    pub(crate) fn indexed(&self) -> &Arc<Indexed> {
        &self.opened.indexed
    }

    pub(crate) fn sections(&self) -> &Arc<Indexed> {
        &self.opened.sections
    }

    /// The search index of patterns.
    pub(crate) fn patterns(&self) -> &Arc<Indexed> {
        &self.opened.patterns
    }

    pub(crate) fn known_patterns(&self) -> &Reading<Catalogue> {
        &self.opened.catalogue
    }

    pub(crate) fn graph_reading(&self) -> &GraphReading {
        &self.opened.graph
    }

    pub fn section(&self, id: Id) -> Result<Option<Stored>, Error> {
        self.record(EntityType::Section, id)
    }

    /// The document of a section, without reading the text of the section.
    pub fn document_of(&self, section: Id) -> Result<Option<Id>, Error> {
        let document = self.reader.document_of(section, self.at)?;
        match document {
            Some(id) if !self.reach.is_everything() => Ok(self.document(id)?.map(|stored| stored.id)),
            document => Ok(document),
        }
    }

    pub fn sections_of(&self, document: Id) -> Result<Vec<Stored>, Error> {
        let mut sections = self.reader.sections_of(document, self.at)?;
        sections.retain(|stored| self.reach.sees(stored.id, &stored.record));
        Ok(sections)
    }

    pub fn document(&self, id: Id) -> Result<Option<Stored>, Error> {
        self.record(EntityType::Document, id)
    }

    pub fn content(&self) -> Result<Content, Error> {
        let scopes = self.reach.scopes();
        let DocumentKinds { plain, patterns, beside_patterns } =
            self.reader.document_kinds(self.at, scopes.as_deref())?;
        // Ingesting a catalogue also ingests pages that are not patterns. Those do not count as documents,
        // unless the directory had no patterns at all.
        let triples = self.reader.has_triples(self.at, scopes.as_deref())?;
        Ok(Content { documents: plain || (beside_patterns && !patterns), patterns, triples })
    }

    /// The sources that the documents of a scope were ingested from, by name.
    pub fn document_sources(&self, scope: ScopeId) -> Result<Vec<DocumentSource>, Error> {
        if !self.reach.sees_scope(scope) {
            return Ok(Vec::new());
        }
        self.reader.document_sources(scope, self.at)
    }

    /// The documents of a source in a scope, at a path and below it.
    pub fn documents_below(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
    ) -> Result<Vec<KnownDocument>, Error> {
        if !self.reach.sees_scope(scope) {
            return Ok(Vec::new());
        }
        self.reader.documents_below(scope, source, path, self.at)
    }

    pub fn triple(&self, id: Id) -> Result<Option<Stored>, Error> {
        self.record(EntityType::Triple, id)
    }

    pub fn entry(&self, id: Id) -> Result<Option<Stored>, Error> {
        self.record(EntityType::Entry, id)
    }

    /// The scope with this name, which is the name at the time of the snapshot, or else its present name.
    pub fn scope(&self, name: &ScopeName) -> Result<ScopeId, Error> {
        find_scope(&*self.reader, name, self.at, &self.reach)
    }

    /// The present name of the scope that once had this name, if no scope has it now.
    pub fn renamed(&self, name: &ScopeName) -> Result<Option<ScopeName>, Error> {
        renamed_scope(&*self.reader, name, &self.reach)
    }

    /// The id of the scope that has or last had this name, even if it was deleted.
    pub fn scope_id(&self, name: &ScopeName) -> Result<Option<Id>, Error> {
        match self.reader.scope_once_named(name)? {
            Some((scope, _)) if self.reach.sees_scope(scope) => self.reader.scope_id(scope),
            _ => Ok(None),
        }
    }

    /// The id of the namespace that has or last had this name, even if it was deleted.
    pub fn namespace_id(&self, name: &str) -> Result<Option<Id>, Error> {
        Ok(self.reader.namespace_once_named(name)?.filter(|id| self.reach.sees_namespace(*id)))
    }

    /// The time by which the validity of entries is judged.
    pub fn now(&self) -> Timestamp {
        self.opened.storage.now()
    }

    /// When a transaction was made.
    pub fn time_of(&self, tx: TxId) -> Result<Option<Timestamp>, Error> {
        Ok(self.reader.transaction(tx, self.at, View::HEADER)?.map(|header| header.at))
    }

    /// A transaction, with its actor and as much of its changes as the view and the reach of the principal
    /// allow.
    pub fn transaction(&self, tx: TxId, view: View<'_>) -> Result<Option<Transaction>, Error> {
        self.reader.transaction(tx, self.at, View { reach: &self.reach, ..view })
    }

    /// The transactions that touched an id, oldest first.
    pub fn transactions_of(&self, entity_type: EntityType, id: Id) -> Result<Vec<TxId>, Error> {
        self.reader.touches(entity_type, id, None)
    }

    pub fn origin_of(&self, tx: TxId) -> Result<Option<String>, Error> {
        Ok(self.reader.transaction(tx, self.at, View::HEADER)?.map(|header| header.origin))
    }

    /// The sight of a scope: the part of its closure that the principal may see.
    pub fn sight(&self, scope: ScopeId) -> Result<Sight, Error> {
        match self.reach.sees_scope(scope) {
            true => Ok(self.sight_of(self.reader.closure(scope, self.at)?)),
            false => Ok(self.sight_of(Vec::new())),
        }
    }

    /// A sight of those of these scopes that the principal may see, nearest first as given.
    pub fn sight_of(&self, scopes: Vec<ScopeId>) -> Sight {
        Sight { at: self.at, scopes: self.reach.within(scopes) }
    }

    /// The names of these scopes; for a deleted scope its last name.
    pub fn scope_names(&self, scopes: &[ScopeId]) -> Result<ScopeNames, Error> {
        self.reader.scope_names(scopes, self.at)
    }

    /// All namespaces and scopes in reach.
    pub fn tree(&self) -> Result<Tree, Error> {
        Ok(Tree::read(&*self.reader, self.at)?.within(&self.reach))
    }

    /// The number of entries or triples that belong to each scope itself, including suppressed ones.
    pub fn count_by_scope(&self, entity_type: EntityType) -> Result<BTreeMap<ScopeId, u64>, Error> {
        let mut counts = self.reader.count_by_scope(entity_type, self.at)?;
        counts.retain(|scope, _| self.reach.sees_scope(*scope));
        Ok(counts)
    }

    /// The live triples with these folded values, newest first, and their number.
    pub fn triples(
        &self,
        sight: &Sight,
        [subject, predicate, object]: [Option<&str>; 3],
        page: Range<u64>,
    ) -> Result<(Vec<Stored>, u64), Error> {
        if subject.is_none() && object.is_none() {
            // Neither end is given, so the triples are read from the table instead of walked in the graph.
            let filter = TripleFilter { scopes: &sight.scopes, at: sight.at, subject, predicate, object };
            return Ok((self.reader.triples(&filter, page)?, self.reader.count_triples(&filter)?));
        }
        let along: Vec<String> = predicate.iter().map(|name| (*name).to_owned()).collect();
        let found = self.graph(sight, |view| view.along(&along).triples(subject, object))?;
        let shown = found.iter().skip(page.start as usize).take((page.end - page.start) as usize);
        let shown: Vec<Id> = shown.copied().collect();
        Ok((self.found(EntityType::Triple, &shown)?, found.len() as u64))
    }

    /// Triples that are reached from a name along one predicate in at most this number of steps, each with
    /// the number of its step; also how many there are.
    pub fn triples_from(
        &self,
        sight: &Sight,
        from: &TriplesFrom<'_>,
        page: Range<u64>,
    ) -> Result<(Vec<(Stored, u32)>, u64), Error> {
        let along = [from.predicate.to_owned()];
        let walk = |view: kenning_graph::View<'_>| {
            view.along(&along).triples_from(from.name, from.is_subject, from.hops, TRIPLES_MAX)
        };
        let found = self.graph(sight, walk)?;
        let shown = found.iter().skip(page.start as usize).take((page.end - page.start) as usize);
        let (ids, distances): (Vec<Id>, Vec<u32>) = shown.copied().unzip();
        let triples = self.found(EntityType::Triple, &ids)?.into_iter().zip(distances).collect();
        Ok((triples, found.len() as u64))
    }

    /// The folded names in the newest triples in sight, each once, from at most `NAMED_MAX` triples.
    pub fn names_in_triples(&self, sight: &Sight) -> Result<BTreeSet<String>, Error> {
        Ok(self.reader.triple_names(&sight.scopes, sight.at, NAMED_MAX)?.into_iter().flatten().collect())
    }

    /// Whether a triple in sight has this folded name at one of its ends.
    pub fn is_named(&self, sight: &Sight, name: &str) -> Result<bool, Error> {
        let filter = TripleFilter {
            scopes: &sight.scopes,
            at: sight.at,
            subject: Some(name),
            predicate: None,
            object: None,
        };
        let as_object = TripleFilter { subject: None, object: Some(name), ..filter };
        Ok(self.reader.count_triples(&filter)? > 0 || self.reader.count_triples(&as_object)? > 0)
    }

    /// Transactions in reach after `since`, newest first, and their number.
    pub fn history(
        &self,
        id: Option<Id>,
        entity_type: Option<EntityType>,
        since: TxId,
        view: View<'_>,
        page: Range<u64>,
    ) -> Result<(Vec<Transaction>, u64), Error> {
        let view = View { reach: &self.reach, ..view };
        self.opened.storage.history(&HistoryQuery { id, entity_type, since, at: self.at, view }, page)
    }

    /// Pinned entries that are valid at this time, those of the nearest scope first, newest first within a
    /// scope.
    pub fn pinned(&self, sight: &Sight, now: Timestamp, limit: usize) -> Result<Vec<Stored>, Error> {
        self.reader.pinned(&EntryFilter { scopes: &sight.scopes, at: sight.at, visible_at: Some(now) }, limit)
    }

    /// Topics that begin with the prefix, for completion.
    pub fn topics(
        &self,
        sight: &Sight,
        prefix: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let filter = EntryFilter { scopes: &sight.scopes, at: sight.at, visible_at: Some(now) };
        self.reader.topics(&filter, prefix, limit)
    }
}
