//! Counts the matches of queries outside the entries in sight: in other scopes of the namespace, in
//! documents, in the graph. It reports names and counts only; a caller reads the matches with another call.

use std::collections::{BTreeMap, HashSet};

use kenning_model::{EntityType, Id, ScopeId, Timestamp, fold};
use kenning_retrieval::{By, MatchMinimum};
use kenning_storage::Error;

use crate::search::Asked;
use crate::{Sight, Snapshot};

/// The most matches of a query that are counted in each place.
const COUNTED_MAX: u64 = 20;
/// The most word sequences of the queries that are looked up as names in the graph.
const NAMES_MAX: usize = 60;
/// The most words in a name that is looked up in the graph.
const NAME_WORDS_MAX: usize = 3;

/// The number of matches of some queries outside the entries in sight.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The number of entries by scope.
    pub scopes: BTreeMap<ScopeId, u64>,
    pub sections: u64,
    pub facts: u64,
}

impl Snapshot<'_> {
    /// Counts the matches. `others` are the scopes of the namespace that are not in sight.
    pub fn elsewhere(
        &self,
        sight: &Sight,
        others: Vec<ScopeId>,
        queries: &[&str],
        now: Timestamp,
    ) -> Result<Elsewhere, Error> {
        let content = self.content()?;
        let mut found = Elsewhere::default();
        let (mut entries, mut sections): (HashSet<Id>, HashSet<Id>) = Default::default();
        let others = self.sight_of(others);
        for query in queries {
            let ask = |sight, visible_at| Asked {
                sight,
                title: None,
                text: Some(query),
                labels: Vec::new(),
                visible_at,
                by: By::Words,
                as_written: false,
                known_words_only: true,
                least: MatchMinimum::Half,
                with_nearest: false,
                explain: false,
            };
            if !others.scopes.is_empty() {
                let asked = ask(&others, Some(now));
                let matches =
                    self.indexed().search(self.reader(), self.deadline(), &asked, 0..COUNTED_MAX)?;
                let hits = matches.hits.iter().filter(|hit| hit.has_word).map(|hit| hit.id);
                let new: Vec<Id> = hits.filter(|id| entries.insert(*id)).collect();
                for stored in self.records(EntityType::Entry, &new)?.into_iter().flatten() {
                    if let Some(scope) = stored.record.scope() {
                        *found.scopes.entry(scope).or_default() += 1;
                    }
                }
            }
            if content.documents {
                let matches = self.sections().search(
                    self.reader(),
                    self.deadline(),
                    &ask(sight, None),
                    0..COUNTED_MAX,
                )?;
                sections.extend(matches.hits.iter().filter(|hit| hit.has_word).map(|hit| hit.id));
            }
        }
        found.sections = sections.len() as u64;
        if content.triples {
            found.facts = self.facts_about(sight, queries)?;
        }
        Ok(found)
    }

    /// The number of triples of which one end has a name that is a word sequence of a query.
    fn facts_about(&self, sight: &Sight, queries: &[&str]) -> Result<u64, Error> {
        let mut names: Vec<String> = Vec::new();
        for query in queries {
            let folded = fold(query);
            let is_around = |c: char| ",;:?!\"'()".contains(c);
            let words: Vec<&str> =
                folded.split_whitespace().map(|word| word.trim_matches(is_around)).collect();
            for many in 1..=NAME_WORDS_MAX {
                names.extend(words.windows(many).map(|run| run.join(" ")));
            }
        }
        names.sort();
        names.dedup();
        self.graph(sight, |view| {
            let facts = names.iter().take(NAMES_MAX).flat_map(|name| {
                view.triples(Some(name), None).into_iter().chain(view.triples(None, Some(name)))
            });
            facts.collect::<HashSet<Id>>().len() as u64
        })
    }
}
