//! All versions of namespaces and scopes, and what each scope saw when, in memory: there are few of them, and nearly every
//! question begins with one. They are read from the tables, and read on when the store says that one has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kenning_model::{
    DEFAULT, EntityType, GLOBAL, Id, Namespace, Record, Scope, ScopeId, ScopeName, ScopeNames, TxId,
};
use tokio_postgres::Row;

use super::connection::Parameters;
use super::rows::{LOG_COLUMNS, get, log_row, number, scope, tx};
use crate::Error;
use crate::backend::{At, Stored};
use crate::derive::LiveScopes;

const FOREVER: TxId = TxId(u64::MAX);

#[derive(Clone, Default)]
pub(super) struct Places {
    /// Every change up to this transaction is known.
    pub at: TxId,
    namespaces: BTreeMap<Id, Vec<PlaceVersion>>,
    scopes: BTreeMap<Id, Vec<PlaceVersion>>,
    /// The ids of the scopes that ever had a name, and below the id of the scope with a number.
    named: HashMap<String, BTreeSet<Id>>,
    numbered: BTreeMap<ScopeId, Id>,
    closures: BTreeMap<ScopeId, BTreeMap<TxId, (TxId, Vec<ScopeId>)>>,
}

/// One version, oldest first in its list.
#[derive(Clone)]
struct PlaceVersion {
    seq: u32,
    to: TxId,
    stored: Stored,
}

impl PlaceVersion {
    fn from(&self) -> TxId {
        self.stored.tx_id
    }

    fn holds_at(&self, at: TxId) -> bool {
        self.from() <= at && self.to > at
    }

    fn scope(&self) -> Option<&Scope> {
        self.stored.record.as_scope()
    }

    fn namespace(&self) -> Option<&Namespace> {
        match &self.stored.record {
            Record::Namespace(namespace) => Some(namespace),
            _ => None,
        }
    }
}

/// Asks the database for rows.
type Query<'a> = dyn Fn(&str, Parameters<'_>) -> Result<Vec<Row>, Error> + 'a;

impl Places {
    /// Reads the versions up to a transaction.
    pub(super) fn read_on(&mut self, store: i32, to: TxId, query: &Query<'_>) -> Result<(), Error> {
        let after = number(self.at);
        let versions = format!(
            "SELECT {LOG_COLUMNS}, v.tx_to FROM kenning.version AS v
             JOIN kenning.log ON log.store = v.store AND log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.store = $1 AND v.kind IN (3, 4) AND (v.tx_from > $2 OR v.tx_to > $2) ORDER BY v.tx_from, v.seq"
        );
        for row in query(&versions, &[&store, &after])? {
            let ends = get::<Option<i64>>(&row, 6)?;
            self.put_version(&log_row(&row, 0)?, ends.map_or(FOREVER, |tx| TxId(tx as u64)))?;
        }
        let closures = "SELECT scope, tx_from, tx_to, sees FROM kenning.closure
                        WHERE store = $1 AND (tx_from > $2 OR tx_to > $2)";
        for row in query(closures, &[&store, &after])? {
            let ends = get::<Option<i64>>(&row, 2)?.map_or(FOREVER, |tx| TxId(tx as u64));
            let sees = get::<Vec<i64>>(&row, 3)?.into_iter().map(|number| ScopeId(number as u32)).collect();
            self.closures.entry(scope(&row, 0)?).or_default().insert(tx(&row, 1)?, (ends, sees));
        }
        self.at = to;
        Ok(())
    }

    fn put_version(&mut self, row: &crate::log_row::LogRow, to: TxId) -> Result<(), Error> {
        let (id, seq, tx_id) = (row.id()?, row.seq, TxId(row.tx_id));
        let record = row
            .record()?
            .ok_or_else(|| Error::damaged(format!("`{id}` is live in a transaction that deleted it")))?;
        let versions = match &record {
            Record::Scope(scope) => {
                self.named.entry(scope.name.clone()).or_default().insert(id);
                self.numbered.insert(scope.number, id);
                self.scopes.entry(id).or_default()
            }
            _ => self.namespaces.entry(id).or_default(),
        };
        match versions.iter_mut().find(|known| (known.from(), known.seq) == (tx_id, seq)) {
            Some(known) => known.to = to,
            None => versions.push(PlaceVersion { seq, to, stored: Stored { id, tx_id, record } }),
        }
        Ok(())
    }

    pub(super) fn version(&self, entity_type: EntityType, id: Id, at: At) -> Option<Stored> {
        let versions = match entity_type {
            EntityType::Scope => self.scopes.get(&id)?,
            _ => self.namespaces.get(&id)?,
        };
        let found = match at {
            At::Live(at) => versions.iter().rfind(|version| version.holds_at(at)),
            At::Newest => versions.last(),
            At::ClosedBy(tx) => versions.iter().rfind(|version| version.to == tx),
        };
        found.map(|version| version.stored.clone())
    }

    /// Every live record of a type, oldest first.
    pub(super) fn live(&self, entity_type: EntityType, at: TxId) -> Vec<Stored> {
        let all = match entity_type {
            EntityType::Scope => &self.scopes,
            _ => &self.namespaces,
        };
        let mut live: Vec<&PlaceVersion> =
            all.values().flatten().filter(|version| version.holds_at(at)).collect();
        live.sort_by_key(|version| (version.from(), version.seq));
        live.into_iter().map(|version| version.stored.clone()).collect()
    }

    fn namespace_named(&self, name: &str, at: TxId) -> Option<Id> {
        if name == GLOBAL {
            return Some(Namespace::GLOBAL_ID);
        }
        let has_name = |version: &PlaceVersion| {
            version.holds_at(at) && version.namespace().is_some_and(|it| it.name == name)
        };
        self.namespaces.iter().find(|(_, versions)| versions.iter().any(has_name)).map(|(id, _)| *id)
    }

    /// The versions of scopes that have this name.
    fn scopes_called<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a PlaceVersion, &'a Scope)> {
        let ids = self.named.get(name).into_iter().flatten();
        let versions = ids.filter_map(|id| self.scopes.get(id)).flatten();
        versions
            .filter_map(move |version| Some((version, version.scope().filter(|scope| scope.name == name)?)))
    }

    pub(super) fn scope_named(&self, name: &ScopeName, at: TxId) -> Option<ScopeId> {
        if *name == ScopeName::global_default() {
            return Some(ScopeId::GLOBAL_DEFAULT);
        }
        let namespace = self.namespace_named(&name.namespace, at)?;
        let mut called = self.scopes_called(&name.name);
        called
            .find(|(version, scope)| version.holds_at(at) && scope.namespace == namespace)
            .map(|(_, it)| it.number)
    }

    pub(super) fn scope_once_named(&self, name: &ScopeName) -> Option<(ScopeId, TxId)> {
        // Both names held from the later start to the earlier end, and a name has one owner at a time.
        let mut newest: Option<(TxId, ScopeId)> = None;
        for (version, scope) in self.scopes_called(&name.name) {
            let mut lives: Vec<(TxId, TxId)> = Vec::new();
            if name.namespace == GLOBAL && scope.namespace == Namespace::GLOBAL_ID {
                lives.push((TxId::EMPTY, FOREVER));
            }
            for namespace in self.namespaces.get(&scope.namespace).into_iter().flatten() {
                if namespace.namespace().is_some_and(|it| it.name == name.namespace) {
                    lives.push((namespace.from(), namespace.to));
                }
            }
            for (from, to) in lives {
                let end = to.min(version.to);
                if from < version.to && version.from() < to && newest.is_none_or(|(known, _)| end > known) {
                    newest = Some((end, scope.number));
                }
            }
        }
        let (_, number) = newest?;
        let versions = self.scopes.get(self.numbered.get(&number)?)?;
        let touched = versions.iter().map(|it| if it.to == FOREVER { it.from() } else { it.to });
        Some((number, touched.max()?))
    }

    pub(super) fn scope_id(&self, scope: ScopeId) -> Option<Id> {
        self.numbered.get(&scope).copied()
    }

    /// The versions of namespaces that have this name.
    fn namespaces_called<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PlaceVersion> {
        let has_name = move |version: &&PlaceVersion| version.namespace().is_some_and(|it| it.name == name);
        self.namespaces.values().flatten().filter(has_name)
    }

    pub(super) fn namespace_once_named(&self, name: &str) -> Option<Id> {
        self.namespaces_called(name).max_by_key(|version| version.to).map(|version| version.stored.id)
    }

    pub(super) fn namespace_deleted_by(&self, name: &str) -> Option<TxId> {
        let is_gone = |version: &&PlaceVersion| {
            let versions = self.namespaces.get(&version.stored.id);
            versions.into_iter().flatten().all(|version| version.to != FOREVER)
        };
        self.namespaces_called(name).filter(is_gone).map(|version| version.to).max()
    }

    pub(super) fn scope_names(&self, scopes: &[ScopeId], at: TxId) -> ScopeNames {
        let last = |versions: &'_ [PlaceVersion]| versions.iter().rposition(|version| version.from() <= at);
        let mut names = ScopeNames::default();
        for number in scopes {
            if *number == ScopeId::GLOBAL_DEFAULT {
                continue;
            }
            let Some(versions) = self.numbered.get(number).and_then(|id| self.scopes.get(id)) else {
                continue;
            };
            let Some(scope) = last(versions).and_then(|version| versions[version].scope()) else { continue };
            let namespaces = self.namespaces.get(&scope.namespace).map(Vec::as_slice).unwrap_or_default();
            // A namespace that has no version is the built-in one.
            let namespace = last(namespaces).and_then(|version| namespaces[version].namespace());
            let namespace = namespace.map_or(GLOBAL, |namespace| &namespace.name);
            names.0.insert(*number, ScopeName::new(namespace, &scope.name));
        }
        names
    }

    pub(super) fn closure(&self, scope: ScopeId, at: TxId) -> Vec<ScopeId> {
        if scope == ScopeId::GLOBAL_DEFAULT {
            return vec![scope];
        }
        let Some(versions) = self.closures.get(&scope) else { return Vec::new() };
        match versions.range(..=at).next_back() {
            Some((_, (to, sees))) if *to > at => sees.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn scopes_ever(&self, namespaces: &[Id]) -> Vec<(ScopeId, Id)> {
        let mut scopes = Vec::new();
        for namespace in namespaces {
            let was_in =
                |version: &PlaceVersion| version.scope().is_some_and(|it| it.namespace == *namespace);
            let ever = self
                .numbered
                .iter()
                .filter(|(_, id)| self.scopes.get(id).is_some_and(|versions| versions.iter().any(was_in)));
            scopes.extend(ever.map(|(number, _)| (*number, *namespace)));
        }
        scopes
    }

    pub(super) fn next_scope(&self) -> ScopeId {
        let newest = self.numbered.keys().next_back().copied();
        ScopeId(newest.unwrap_or(ScopeId::GLOBAL_DEFAULT).max(ScopeId::GLOBAL_DEFAULT).0 + 1)
    }

    fn live_scopes(&self) -> impl Iterator<Item = (Id, &Scope)> {
        let live = |(id, versions): (&Id, &'_ Vec<PlaceVersion>)| {
            let version = versions.iter().position(|version| version.to == FOREVER)?;
            Some((*id, version))
        };
        self.scopes
            .iter()
            .filter_map(live)
            .filter_map(|(id, at)| Some((id, self.scopes.get(&id)?[at].scope()?)))
    }
}

/// The newest state, as it is before a transaction that is about to be appended.
impl LiveScopes for Places {
    fn scopes_in(&self, namespace: Id) -> Result<Vec<(Id, Scope)>, Error> {
        let here = self.live_scopes().filter(|(_, scope)| scope.namespace == namespace);
        Ok(here.map(|(id, scope)| (id, scope.clone())).collect())
    }

    fn default_of(&self, namespace: Id) -> Result<Option<(Id, Scope)>, Error> {
        let mut live = self.live_scopes();
        let found = live.find(|(_, scope)| scope.namespace == namespace && scope.name == DEFAULT);
        Ok(found.map(|(id, scope)| (id, scope.clone())))
    }

    fn numbered(&self, number: ScopeId) -> Result<Option<(Id, Scope)>, Error> {
        let found = self.live_scopes().find(|(_, scope)| scope.number == number);
        Ok(found.map(|(id, scope)| (id, scope.clone())))
    }

    fn closures_in(&self, namespace: Id) -> Result<BTreeMap<ScopeId, Vec<ScopeId>>, Error> {
        let mut closures = BTreeMap::new();
        for (number, _) in self.scopes_ever(&[namespace]) {
            let newest = self.closures.get(&number).and_then(|versions| versions.values().next_back());
            if let Some((FOREVER, sees)) = newest {
                closures.insert(number, sees.clone());
            }
        }
        Ok(closures)
    }
}
