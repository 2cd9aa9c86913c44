//! Derives rows from a transaction, the same on every backend: when each version was live, what each scope
//! sees, which transactions concern a scope, which transaction undid which, and counts of each of these.
//!
//! For example, a transaction that updates an entry in scope 4 closes the live version of the entry, opens a
//! new version, touches scope 4, and increments the count of transactions of scope 4. A transaction that
//! stores a new entry there also increments the count of entries.

use std::collections::{BTreeMap, BTreeSet};

use kenning_model::{
    DEFAULT, EntityType, Id, Record, Scope, ScopeId, Status, Timestamp, Transaction, TxId, fold,
};

use crate::Error;
use crate::log_row::{HEADER, kind_of};
use crate::tree::Tree;

/// Transactions that touched a record without a scope are listed under this number.
pub(crate) const NO_SCOPE: ScopeId = ScopeId(0);

/// The changes of the derived tables that one transaction causes.
pub(crate) struct DerivedRows {
    pub tx: TxId,
    pub origin: String,
    /// In this order, because a version must be closed before the next version of its id is opened.
    pub operations: Vec<RowOperation>,
}

pub(crate) enum RowOperation {
    /// The transaction undid `target`.
    Undo { target: TxId },
    /// The live version of the id ends with the transaction.
    Close { entity_type: EntityType, id: Id },
    /// A version is live from the transaction on.
    Open { seq: u32, id: Id, columns: Columns },
    /// The closure of the scope ends with the transaction.
    CloseClosure { scope: ScopeId },
    /// The closure of the scope from the transaction on, nearest scope first.
    OpenClosure { scope: ScopeId, sees: Vec<ScopeId> },
    /// The transaction concerns the scope. The kind is that of a row of the log. `is_spread` means that the
    /// transaction concerns several scopes.
    Touch { scope: ScopeId, kind: i64, is_spread: bool },
    /// From the transaction on, the counter is higher by `by` (or lower if it is negative). Each counter
    /// comes once, never with 0.
    Count { counter: Counter, by: i64 },
}

/// A number that is kept as of every transaction, so that a reply can give the length of a list without
/// reading the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counter {
    /// Live entries of a scope.
    Entries { scope: ScopeId, shown: Shown },
    /// Live triples of a scope.
    Triples { scope: ScopeId },
    /// Live triples of a scope with this folded predicate.
    TriplesOf { scope: ScopeId, predicate: Box<str> },
    /// Transactions that concern this scope and no other. `kinds` has a bit for each kind that they touch there.
    Transactions { scope: ScopeId, kinds: i64 },
    /// The same, for the transactions of one origin.
    TransactionsOf { origin: Box<str>, scope: ScopeId, kinds: i64 },
}

/// When a live entry is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shown {
    Always,
    /// The entry is valid for a limited time only.
    AtTimes,
    /// The entry is suppressed.
    Never,
}

/// A counter as it stands in a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterKey<'a> {
    /// The number of the counter's form.
    pub what: i64,
    /// A predicate or an origin, otherwise empty.
    pub name: &'a str,
    pub scope: ScopeId,
    /// The kinds of rows of the log as bits, or how the entries are shown.
    pub kinds: i64,
}

impl Counter {
    pub(crate) const ENTRIES: i64 = 1;
    pub(crate) const TRIPLES: i64 = 2;
    pub(crate) const TRIPLES_OF: i64 = 3;
    pub(crate) const TRANSACTIONS: i64 = 4;
    pub(crate) const TRANSACTIONS_OF: i64 = 5;

    pub(crate) fn key(&self) -> CounterKey<'_> {
        let (what, name, scope, kinds) = match self {
            Counter::Entries { scope, shown } => (Counter::ENTRIES, "", scope, *shown as i64),
            Counter::Triples { scope } => (Counter::TRIPLES, "", scope, 0),
            Counter::TriplesOf { scope, predicate } => (Counter::TRIPLES_OF, &**predicate, scope, 0),
            Counter::Transactions { scope, kinds } => (Counter::TRANSACTIONS, "", scope, *kinds),
            Counter::TransactionsOf { origin, scope, kinds } => {
                (Counter::TRANSACTIONS_OF, &**origin, scope, *kinds)
            }
        };
        CounterKey { what, name, scope: *scope, kinds }
    }
}

/// The bit that stands for a kind of rows of the log.
pub(crate) fn kind_bit(kind: i64) -> i64 {
    1 << kind
}

/// The scope of a live version, and the counters that include it.
pub(crate) struct Place {
    pub scope: ScopeId,
    counters: Vec<Counter>,
}

impl Place {
    pub(crate) fn of(record: &Record) -> Place {
        let scope = record.scope().unwrap_or(NO_SCOPE);
        let counters = match record {
            Record::Entry(entry) => {
                let shown = match (entry.status, entry.valid_from.is_some() || entry.valid_to.is_some()) {
                    (Status::Suppressed, _) => Shown::Never,
                    (_, true) => Shown::AtTimes,
                    (_, false) => Shown::Always,
                };
                vec![Counter::Entries { scope, shown }]
            }
            Record::Triple(triple) => {
                let predicate = fold(&triple.predicate).into();
                vec![Counter::Triples { scope }, Counter::TriplesOf { scope, predicate }]
            }
            _ => Vec::new(),
        };
        Place { scope, counters }
    }
}

/// The columns of a derived row beside the id and the range of transactions: the values that listings filter
/// by.
pub(crate) enum Columns {
    Entry {
        scope: ScopeId,
        topic_key: String,
        is_suppressed: bool,
        /// In milliseconds.
        valid_from: Option<i64>,
        valid_to: Option<i64>,
        is_pinned: bool,
    },
    Triple {
        scope: ScopeId,
        subject_key: String,
        predicate_key: String,
        object_key: String,
    },
    Document {
        scope: ScopeId,
        source: String,
        path: String,
        hash: String,
        /// The id of a pattern, and empty for other documents of a catalogue.
        pattern: Option<String>,
    },
    Section {
        scope: ScopeId,
        document: Id,
        position: u32,
    },
    Namespace {
        name: String,
    },
    Scope {
        number: ScopeId,
        namespace: Id,
        name: String,
    },
}

impl Columns {
    pub(crate) fn of(record: &Record) -> Columns {
        match record {
            Record::Entry(entry) => Columns::Entry {
                scope: entry.scope,
                topic_key: fold(&entry.topic),
                is_suppressed: entry.status == Status::Suppressed,
                valid_from: entry.valid_from.map(Timestamp::as_millisecond),
                valid_to: entry.valid_to.map(Timestamp::as_millisecond),
                is_pinned: entry.pinned,
            },
            Record::Triple(triple) => Columns::Triple {
                scope: triple.scope,
                subject_key: fold(&triple.subject),
                predicate_key: fold(&triple.predicate),
                object_key: fold(&triple.object),
            },
            Record::Document(document) => {
                let pattern = document.pattern.as_ref().map(|pattern| pattern.id.clone());
                Columns::Document {
                    scope: document.scope,
                    source: document.source.clone(),
                    path: document.path.clone(),
                    hash: document.hash.clone(),
                    pattern: pattern.or(document.catalogue.then(String::new)),
                }
            }
            Record::Section(section) => Columns::Section {
                scope: section.scope,
                document: section.document,
                position: section.position,
            },
            Record::Namespace(namespace) => Columns::Namespace { name: namespace.name.clone() },
            Record::Scope(scope) => {
                Columns::Scope { number: scope.number, namespace: scope.namespace, name: scope.name.clone() }
            }
        }
    }
}

/// The live scopes before a transaction, as the derivation asks for them.
pub(crate) trait LiveScopes {
    fn scopes_in(&self, namespace: Id) -> Result<Vec<(Id, Scope)>, Error>;
    fn default_of(&self, namespace: Id) -> Result<Option<(Id, Scope)>, Error>;
    fn numbered(&self, number: ScopeId) -> Result<Option<(Id, Scope)>, Error>;
    /// The closures of the scopes of a namespace.
    fn closures_in(&self, namespace: Id) -> Result<BTreeMap<ScopeId, Vec<ScopeId>>, Error>;
}

/// Derives the rows of a transaction that is about to be appended.
pub(crate) fn derive(tx: &Transaction, scopes: &dyn LiveScopes) -> Result<DerivedRows, Error> {
    let mut derivation = Derivation::new(tx.id, &tx.origin);
    derivation.undo(&tx.undoes);
    for (seq, change) in (1..).zip(&tx.changes) {
        if let Some(before) = &change.before {
            let closed = before.record.as_scope().cloned();
            derivation.close(change.entity_type, change.id, Place::of(&before.record), closed);
        }
        if let Some(record) = &change.after {
            derivation.open(seq, change.id, record, &Place::of(record));
        }
    }
    derivation.end(scopes)
}

/// The derivation of one transaction, change by change.
pub(crate) struct Derivation {
    rows: DerivedRows,
    touched: BTreeSet<(ScopeId, i64)>,
    counts: BTreeMap<Counter, i64>,
    closed_scopes: Vec<(Id, Scope)>,
    opened_scopes: Vec<(Id, Scope)>,
}

impl Derivation {
    pub(crate) fn new(tx: TxId, origin: &str) -> Derivation {
        Derivation {
            rows: DerivedRows { tx, origin: origin.to_owned(), operations: Vec::new() },
            touched: BTreeSet::new(),
            counts: BTreeMap::new(),
            closed_scopes: Vec::new(),
            opened_scopes: Vec::new(),
        }
    }

    pub(crate) fn undo(&mut self, undoes: &[TxId]) {
        self.rows.operations.extend(undoes.iter().map(|target| RowOperation::Undo { target: *target }));
    }

    /// Closes the live version of an id, which was at `place`. If the record is a scope, `closed` is its
    /// version.
    pub(crate) fn close(&mut self, entity_type: EntityType, id: Id, place: Place, closed: Option<Scope>) {
        self.rows.operations.push(RowOperation::Close { entity_type, id });
        self.touched.insert((place.scope, kind_of(entity_type)));
        place.counters.into_iter().for_each(|counter| *self.counts.entry(counter).or_default() -= 1);
        self.closed_scopes.extend(closed.map(|scope| (id, scope)));
    }

    /// Makes a version the live one of its id.
    pub(crate) fn open(&mut self, seq: u32, id: Id, record: &Record, place: &Place) {
        self.rows.operations.push(RowOperation::Open { seq, id, columns: Columns::of(record) });
        self.touched.insert((place.scope, kind_of(record.entity_type())));
        place.counters.iter().for_each(|counter| *self.counts.entry(counter.clone()).or_default() += 1);
        self.opened_scopes.extend(record.as_scope().map(|scope| (id, scope.clone())));
    }

    /// The ids of the scopes that were closed, and the scopes that were opened.
    pub(crate) fn changed_scopes(&self) -> (Vec<Id>, Vec<(Id, Scope)>) {
        (self.closed_scopes.iter().map(|(id, _)| *id).collect(), self.opened_scopes.clone())
    }

    /// Finishes the rows that follow from all changes of the transaction together.
    pub(crate) fn end(mut self, scopes: &dyn LiveScopes) -> Result<DerivedRows, Error> {
        // An undo that found nothing to change still belongs to the history.
        if self.touched.is_empty() && self.rows.tx != TxId::EMPTY {
            self.touched.insert((NO_SCOPE, HEADER));
        }
        match &self.opened_scopes[..] {
            [] if self.closed_scopes.is_empty() => {}
            // A new scope is the only change, so no other scope inherits from it yet.
            [(id, made)] if self.closed_scopes.is_empty() && made.name != DEFAULT => {
                let sees = closure_of_new(*id, made, scopes)?;
                self.rows.operations.push(RowOperation::OpenClosure { scope: made.number, sees });
            }
            _ => self.derive_closures(scopes)?,
        }
        let first = self.touched.first().map(|(scope, _)| *scope);
        let is_spread = first != self.touched.last().map(|(scope, _)| *scope);
        if let Some(scope) = first.filter(|_| !is_spread) {
            let kinds = self.touched.iter().map(|(_, kind)| kind_bit(*kind)).sum();
            let origin = self.rows.origin.as_str().into();
            self.counts.insert(Counter::Transactions { scope, kinds }, 1);
            self.counts.insert(Counter::TransactionsOf { origin, scope, kinds }, 1);
        }
        let touch = |(scope, kind)| RowOperation::Touch { scope, kind, is_spread };
        self.rows.operations.extend(self.touched.into_iter().map(touch));
        let counts = self.counts.into_iter().filter(|(_, by)| *by != 0);
        self.rows.operations.extend(counts.map(|(counter, by)| RowOperation::Count { counter, by }));
        Ok(self.rows)
    }

    /// Computes the closures again in every namespace in which a scope has changed.
    fn derive_closures(&mut self, scopes: &dyn LiveScopes) -> Result<(), Error> {
        let changed = self.closed_scopes.iter().chain(&self.opened_scopes);
        let namespaces: BTreeSet<Id> = changed.map(|(_, scope)| scope.namespace).collect();
        for namespace in namespaces {
            let is_here = |(_, scope): &&(Id, Scope)| scope.namespace == namespace;
            let before = scopes.closures_in(namespace)?;
            let mut live: BTreeMap<Id, Scope> = scopes.scopes_in(namespace)?.into_iter().collect();
            for (id, _) in self.closed_scopes.iter().filter(is_here) {
                live.remove(id);
            }
            live.extend(self.opened_scopes.iter().filter(is_here).cloned());
            let tree = Tree::of_scopes(live);
            let after: BTreeMap<ScopeId, Vec<ScopeId>> =
                tree.scopes(namespace).map(|(_, scope)| (scope.number, tree.closure(scope))).collect();
            for scope in before.keys().filter(|scope| before.get(scope) != after.get(scope)) {
                self.rows.operations.push(RowOperation::CloseClosure { scope: *scope });
            }
            for (scope, sees) in after.into_iter().filter(|(scope, sees)| before.get(scope) != Some(sees)) {
                self.rows.operations.push(RowOperation::OpenClosure { scope, sees });
            }
        }
        Ok(())
    }
}

/// The closure of a new scope. Of the other scopes, only those that it inherits from are read.
fn closure_of_new(id: Id, made: &Scope, scopes: &dyn LiveScopes) -> Result<Vec<ScopeId>, Error> {
    let mut known: BTreeMap<Id, Scope> = scopes.default_of(made.namespace)?.into_iter().collect();
    known.insert(id, made.clone());
    let mut next = made.parents.clone();
    let mut seen = BTreeSet::from([made.number]);
    while let Some(number) = next.pop() {
        if seen.insert(number)
            && let Some((id, scope)) = scopes.numbered(number)?
        {
            next.extend(&scope.parents);
            known.insert(id, scope);
        }
    }
    Ok(Tree::of_scopes(known).closure(made))
}
