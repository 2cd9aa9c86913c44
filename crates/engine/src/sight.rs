//! The scopes and the transaction that a question is answered from.

use kenning_model::{Record, ScopeId, TxId};

/// Every search and every statistic takes a sight: no record outside of it changes which rows are returned,
/// or their order. Only a snapshot makes a sight, and it contains no scope that the snapshot's principal may
/// not read.
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

    /// Whether a version is in one of the scopes. Namespaces and scopes belong to no scope and are visible
    /// from everywhere.
    pub fn sees_record(&self, record: &Record) -> bool {
        record.is_seen_from(&self.scopes)
    }

    /// This sight without the scopes that are not in the list.
    pub fn within(mut self, scopes: &[ScopeId]) -> Sight {
        self.scopes.retain(|scope| scopes.contains(scope));
        self
    }

    /// The union of two sights of the same snapshot.
    pub fn and(mut self, other: Sight) -> Sight {
        self.scopes.extend(other.scopes);
        self
    }

    /// The number of nearer scopes; `None` for a scope that is not in sight.
    pub fn distance(&self, scope: ScopeId) -> Option<usize> {
        self.scopes.iter().position(|seen| *seen == scope)
    }

    /// The scopes as the index knows them.
    pub(crate) fn groups(&self) -> Vec<u32> {
        self.scopes.iter().map(|scope| scope.0).collect()
    }
}
