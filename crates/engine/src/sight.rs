//! What may be seen, as of when.

use kenning_model::{ScopeId, TxId};

/// Every search and every statistic takes one: nothing outside of it changes which rows come, or their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    pub at: TxId,
    /// Nearest first.
    pub scopes: Vec<ScopeId>,
}

impl Sight {
    pub fn sees(&self, scope: ScopeId) -> bool {
        self.scopes.contains(&scope)
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
