//! Other places that have matches for a query, for replies that found little.

use kenning_engine::{Sight, Snapshot};
use kenning_model::{ScopeId, ScopeName, Timestamp};

use crate::Stop;
use crate::code::counted;

const SCOPES_MAX: usize = 8;

/// The numbers of matches in other scopes of the namespace, in documents and in the graph:
/// `("acme:billing", "2 entries")`.
pub(crate) fn elsewhere(
    snapshot: &Snapshot<'_>,
    sight: &Sight,
    scope: &ScopeName,
    queries: &[&str],
    now: Timestamp,
) -> Result<Vec<(String, String)>, Stop> {
    let tree = snapshot.tree()?;
    let namespace = tree.namespace(&scope.namespace).map(|(id, _)| id);
    let all = namespace.into_iter().flat_map(|id| tree.scopes(id)).map(|(_, scope)| scope.number);
    let others: Vec<ScopeId> = all.filter(|scope| !sight.sees(*scope)).collect();
    let found = snapshot.elsewhere(sight, others, queries, now)?;
    let names = tree.names();
    let entries = |(scope, many): (&ScopeId, &u64)| (names.of(*scope), counted(*many as usize, "entry"));
    let mut places: Vec<(String, String)> = found.scopes.iter().map(entries).collect();
    places.sort();
    places.truncate(SCOPES_MAX);
    for (place, many, what) in [("documents", found.sections, "section"), ("graph", found.facts, "fact")] {
        if many > 0 {
            places.push((place.to_owned(), counted(many as usize, what)));
        }
    }
    Ok(places)
}
