//! The limit on the entries of a namespace.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use kenning_model::{Change, EntityType, Id, Namespace, Record, ScopeId};

use super::Plan;
use crate::Error;

/// The most live entries that a namespace may have after a write of this process that adds to them. It can
/// change while writers are at work.
#[derive(Debug, Default)]
pub struct EntryLimit {
    /// Zero stands for no limit.
    max: AtomicU64,
}

impl EntryLimit {
    pub fn set(&self, max: Option<NonZeroU64>) {
        self.max.store(max.map_or(0, NonZeroU64::get), Ordering::Relaxed);
    }

    fn get(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.max.load(Ordering::Relaxed))
    }
}

impl Plan<'_> {
    /// Refuses changes that add entries to a namespace and leave it with more than the limit. What adds none is
    /// never refused, so a namespace with too many entries can be read, corrected and thinned out.
    ///
    /// An administrator of the namespace may take back a deletion all the same: recovery must not depend on how
    /// much was written since. For others it would be a way around the limit: delete, fill up again, undo.
    pub(super) fn check_entry_limit(
        &self,
        changes: &[Change],
        takes_back: bool,
        limit: &EntryLimit,
    ) -> Result<(), Error> {
        let Some(max) = limit.get() else { return Ok(()) };
        for (namespace, added) in self.entries_added(changes)? {
            if takes_back && self.reach.is_admin(namespace) {
                continue;
            }
            let mut scopes: Vec<ScopeId> =
                self.reader.scopes_ever(&[namespace])?.into_iter().map(|(scope, _)| scope).collect();
            if namespace == Namespace::GLOBAL_ID {
                scopes.push(ScopeId::GLOBAL_DEFAULT);
            }
            let present = self.reader.live_entries(&scopes)?;
            if present.saturating_add(added) > max.get() {
                let latest = self.reader.latest(EntityType::Namespace, namespace)?;
                let name = latest.as_ref().and_then(|latest| latest.record.as_namespace());
                let namespace = name.map_or(kenning_model::GLOBAL, |namespace| namespace.name.as_str());
                return Err(Error::TooManyEntries {
                    namespace: namespace.to_owned(),
                    present,
                    added,
                    max: max.get(),
                });
            }
        }
        Ok(())
    }

    /// How many entries each namespace has more after these changes; namespaces with no more are left out.
    fn entries_added(&self, changes: &[Change]) -> Result<BTreeMap<Id, u64>, Error> {
        let mut by_scope: BTreeMap<ScopeId, i64> = BTreeMap::new();
        let entries = changes.iter().filter(|change| change.entity_type == EntityType::Entry);
        for change in entries {
            let before = change.before.as_ref().and_then(|before| before.record.scope());
            let after = change.after.as_ref().and_then(Record::scope);
            before.into_iter().for_each(|scope| *by_scope.entry(scope).or_default() -= 1);
            after.into_iter().for_each(|scope| *by_scope.entry(scope).or_default() += 1);
        }
        let mut by_namespace: BTreeMap<Id, i64> = BTreeMap::new();
        for (scope, added) in by_scope.into_iter().filter(|(_, added)| *added != 0) {
            *by_namespace.entry(self.namespace_of(scope)?).or_default() += added;
        }
        let added = by_namespace.into_iter().filter_map(|(id, added)| Some((id, u64::try_from(added).ok()?)));
        Ok(added.filter(|(_, added)| *added > 0).collect())
    }

    /// The namespace of a scope, live or not: an undo may bring back a scope together with its entries.
    fn namespace_of(&self, scope: ScopeId) -> Result<Id, Error> {
        if scope == ScopeId::GLOBAL_DEFAULT {
            return Ok(Namespace::GLOBAL_ID);
        }
        let latest = match self.reader.scope_id(scope)? {
            Some(id) => self.reader.latest(EntityType::Scope, id)?,
            None => None,
        };
        let namespace = latest.and_then(|latest| latest.record.as_scope().map(|scope| scope.namespace));
        namespace.ok_or_else(|| Error::damaged(format!("scope {} has no record", scope.0)))
    }
}
