//! Chooses the entries for a task: each query of the task is searched separately, and recall matters more
//! than brevity.

use std::collections::HashMap;

use kenning_model::{Id, Timestamp};
use kenning_retrieval::By;
use kenning_storage::Error;

use crate::indexed::{Match, Matches};
use crate::{Question, Sight, Snapshot};

// The numbers below were fitted on the development part of `crates/eval/recall`; `docs/figures.md` has the
// results on the rest.

/// The most entries of a query that are chosen by words and meaning.
const BEST_MAX: usize = 6;
/// The first of these are chosen whatever their scores are.
const BEST_FREE: usize = 2;
/// The others are chosen if their score is at least this share of the best score.
const SCORE_MIN: f32 = 0.5;
/// The most entries of a query that are added because they are nearest in meaning, whatever words they have.
const NEAREST_MAX: usize = 2;
/// Such an entry must be at least this near,
const NEAR_MIN: f32 = 0.20;
/// and its nearness at least this share of that of the nearest.
const NEAR_SHARE: f32 = 0.8;
/// The same bounds for a query whose meaning can't be judged, because the table of vectors does not know its
/// language: more entries are chosen by their words.
const BEST_MAX_BY_WORDS: usize = 9;
const SCORE_MIN_BY_WORDS: f32 = 0.3;
/// A query without a word in sight still concerns this store if an entry is at least this near in meaning. On
/// labelled tasks that do not concern the store, nine in ten stay below it.
const ABOUT_MIN: f32 = 0.24;

/// An entry for a task, with its best rank over all queries and the query that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskMatch {
    pub rank: usize,
    pub query: usize,
    pub id: Id,
}

#[derive(Debug, Default)]
pub struct TaskMatches {
    /// The best first.
    pub entries: Vec<TaskMatch>,
    /// The queries for which there is nothing in sight.
    pub nothing_for: Vec<usize>,
    /// Whether words alone decided, because some vectors are not made yet.
    pub is_degraded: bool,
}

/// The matches of one query.
#[derive(Debug)]
pub struct QueryMatches {
    /// The entries that a task with this query gets, best first.
    pub chosen: Vec<Id>,
    /// The matches by words and meaning, best first.
    pub best: Vec<QueryMatch>,
    /// The matches by meaning alone, nearest first.
    pub nearest: Vec<QueryMatch>,
    /// Whether the meaning of the query can be judged.
    pub is_meaningful: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct QueryMatch {
    pub id: Id,
    pub score: f32,
    /// The cosine of the query and the entry, from -1 to 1.
    pub cosine: f32,
    /// The share of the query's words that the entry has, weighted by how rare they are: from 0 to 1.
    pub covered: f32,
}

impl Snapshot<'_> {
    pub fn task_matches(
        &self,
        sight: &Sight,
        queries: &[String],
        now: Timestamp,
    ) -> Result<TaskMatches, Error> {
        let mut found = TaskMatches::default();
        let mut best: HashMap<Id, TaskMatch> = HashMap::new();
        let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
        let matches = self.asked(sight, &texts, now, false)?;
        for (query, [by_both, by_meaning]) in matches.into_iter().enumerate() {
            found.is_degraded |= by_both.is_degraded;
            let ids = chosen(&by_both, &by_meaning);
            if ids.is_empty() {
                found.nothing_for.push(query);
            }
            for (rank, id) in ids.into_iter().enumerate() {
                let this = TaskMatch { rank, query, id };
                let known = best.entry(id).or_insert(this);
                *known = this.min(*known);
            }
        }
        found.entries = best.into_values().collect();
        found.entries.sort_unstable();
        Ok(found)
    }

    /// The matches of one query of a task, with the numbers that show how well each of them fits.
    pub fn query_matches(&self, sight: &Sight, text: &str, now: Timestamp) -> Result<QueryMatches, Error> {
        let Some([by_both, by_meaning]) = self.asked(sight, &[text], now, true)?.pop() else {
            return Err(Error::Bug { what: "a search for one text found nothing for it".to_owned() });
        };
        let rarities = self.indexed().rarities(self.reader(), self.deadline(), sight, text)?;
        let whole: f32 = rarities.iter().map(|rarity| rarity.idf).sum();
        let covered = |found: &Match| {
            let matched = found.explanation.as_ref().map(|why| &why.matched_terms);
            let has = |term: &str| matched.is_some_and(|matched| matched.iter().any(|it| it == term));
            let common: f32 = rarities.iter().filter(|it| has(&it.term)).map(|it| it.idf).sum();
            if whole > 0.0 { common / whole } else { 0.0 }
        };
        let matched = |found: &Match| QueryMatch {
            id: found.id,
            score: found.score,
            cosine: found.cosine,
            covered: covered(found),
        };
        Ok(QueryMatches {
            chosen: chosen(&by_both, &by_meaning),
            best: by_both.hits.iter().map(matched).collect(),
            nearest: by_meaning.hits.iter().map(matched).collect(),
            is_meaningful: by_meaning.is_meaningful && !by_meaning.is_degraded,
        })
    }

    /// Searches for all queries in one pass, by words and meaning together and by meaning alone.
    fn asked(
        &self,
        sight: &Sight,
        texts: &[&str],
        now: Timestamp,
        explain: bool,
    ) -> Result<Vec<[Matches; 2]>, Error> {
        let question = Question {
            sight,
            topic: None,
            content: None,
            tags: &[],
            visible_at: Some(now),
            by: By::WordsAndMeaning,
            known_words_only: true,
            explain,
        };
        let (reader, deadline) = (self.reader(), self.deadline());
        self.indexed().search_texts(reader, deadline, &(&question).into(), texts, BEST_MAX_BY_WORDS as u64)
    }
}

/// The entries chosen for one query, best first; none if the query does not concern this store.
fn chosen(by_both: &Matches, by_meaning: &Matches) -> Vec<Id> {
    let is_meaningful = by_meaning.is_meaningful && !by_meaning.is_degraded;
    let nearest = by_meaning.hits.first().filter(|_| is_meaningful).map_or(-1.0, |hit| hit.cosine);
    if nearest < ABOUT_MIN && !by_both.hits.iter().any(|hit| hit.has_word) {
        return Vec::new();
    }
    let top = by_both.hits.first().map_or(0.0, |hit| hit.score);
    let (best_max, score_min) =
        if is_meaningful { (BEST_MAX, SCORE_MIN) } else { (BEST_MAX_BY_WORDS, SCORE_MIN_BY_WORDS) };
    let best = by_both.hits.iter().enumerate().take(best_max);
    let best = best.filter(|(rank, hit)| *rank < BEST_FREE || hit.score >= score_min * top);
    let near_min = NEAR_MIN.max(NEAR_SHARE * nearest);
    let near = by_meaning.hits.iter().take(NEAREST_MAX).filter(|hit| is_meaningful && hit.cosine >= near_min);
    let mut ids: Vec<Id> = best.map(|(_, hit)| hit.id).collect();
    for hit in near {
        if !ids.contains(&hit.id) {
            ids.push(hit.id);
        }
    }
    ids
}
