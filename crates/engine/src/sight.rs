//! What may be seen, as of when.

use kenning_model::{Record, ScopeId, TxId};

/// Every search and every statistic takes one: nothing outside of it changes which rows come, or their order. Only a
/// snapshot makes one, and it has no scope that the snapshot's principal may not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    pub(crate) at: TxId,
    /// Nearest first.
    pub(crate) scopes: Vec<ScopeId>,
}

impl Sight {
    pub fn at(&self) -> TxId {
        self.at
    }

    /// Nearest first.
    pub fn scopes(&self) -> &[ScopeId] {
        &self.scopes
    }

    pub fn sees(&self, scope: ScopeId) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether a version is in one of the scopes. Namespaces and scopes are in none and are seen from everywhere.
    pub fn sees_record(&self, record: &Record) -> bool {
        record.is_seen_from(&self.scopes)
    }

    /// The part of it that is also in these scopes.
    pub fn within(mut self, scopes: &[ScopeId]) -> Sight {
        self.scopes.retain(|scope| scopes.contains(scope));
        self
    }

    /// What either of two of the same snapshot sees.
    pub fn and(mut self, other: Sight) -> Sight {
        self.scopes.extend(other.scopes);
        self
    }

    /// How many scopes are nearer; none for one that is not in sight.
    pub fn distance(&self, scope: ScopeId) -> Option<usize> {
        self.scopes.iter().position(|seen| *seen == scope)
    }

    /// The scopes as the index knows them.
    pub(crate) fn groups(&self) -> Vec<u32> {
        self.scopes.iter().map(|scope| scope.0).collect()
    }
}
