//! The index of entries, kept level with the log. It holds every version, so it answers for any earlier transaction
//! as it would have answered then.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use kenning_model::{EntityType, Entry, Id, Record, ScopeId, Status, Timestamp, TxId, clean, fold};
use kenning_retrieval::{Document, Hit, Index, Place, Prepared};
use kenning_storage::{Error, Reader};

use crate::search::{Explanation, Question};

/// How many changes are prepared together, on as many threads as there are cores.
const BATCH: usize = 1024;

#[derive(Default)]
pub(crate) struct Indexed {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    at: TxId,
    index: Index,
    /// What each version in the index is, by its place.
    rows: Vec<Row>,
    live: HashMap<Id, Place>,
}

/// What decides whether a version may be seen.
struct Row {
    id: Id,
    from: TxId,
    to: Option<TxId>,
    scope: ScopeId,
    suppressed: bool,
    valid_from: Option<Timestamp>,
    valid_to: Option<Timestamp>,
    tags: Box<[String]>,
}

/// One page of matches, and how many there are.
pub(crate) struct Matches {
    pub hits: Vec<(Id, Option<Explanation>)>,
    pub total: u64,
}

type Change = (TxId, Id, Option<Entry>);

impl Indexed {
    /// Answers as of `at`, after the index has read the log at least that far.
    pub(crate) fn search(
        &self,
        reader: &dyn Reader,
        at: TxId,
        question: &Question<'_>,
        page: Range<u64>,
    ) -> Result<Matches, Error> {
        Ok(self.level(reader, at)?.search(at, question, page))
    }

    fn level(&self, reader: &dyn Reader, at: TxId) -> Result<RwLockReadGuard<'_, State>, Error> {
        // What is guarded is a cache of the log; one that a panic left half fed is thrown away below.
        if let Ok(state) = self.state.read()
            && state.at >= at
        {
            return Ok(state);
        }
        let mut state = self.state.write().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            *state = State::default();
            state
        });
        if let Err(error) = state.catch_up(reader, at) {
            // Half of what could not be read may be in it.
            *state = State::default();
            return Err(error);
        }
        Ok(RwLockWriteGuard::downgrade(state))
    }
}

impl State {
    fn catch_up(&mut self, reader: &dyn Reader, to: TxId) -> Result<(), Error> {
        if self.at >= to {
            return Ok(());
        }
        let mut batch: Vec<Change> = Vec::new();
        reader.changes(EntityType::Entry, self.at.next()..to.next(), &mut |tx, id, record| {
            let entry = record.and_then(|record| match record {
                Record::Entry(entry) => Some(entry),
                Record::Triple(_) => None,
            });
            batch.push((tx, id, entry));
            if batch.len() == BATCH {
                self.apply(std::mem::take(&mut batch));
            }
        })?;
        self.apply(batch);
        self.at = to;
        Ok(())
    }

    fn apply(&mut self, batch: Vec<Change>) {
        let mut prepared = prepare(&batch);
        for ((tx, id, entry), prepared) in batch.into_iter().zip(prepared.drain(..)) {
            if let Some(place) = self.live.remove(&id) {
                self.index.close(place, tx.0);
                self.rows[place as usize].to = Some(tx);
            }
            if let (Some(entry), Some(prepared)) = (entry, prepared) {
                let place = self.index.add(tx.0, prepared);
                debug_assert_eq!(place as usize, self.rows.len());
                self.rows.push(Row::new(id, tx, &entry));
                self.live.insert(id, place);
            }
        }
    }

    fn search(&self, at: TxId, question: &Question<'_>, page: Range<u64>) -> Matches {
        let tags: Vec<String> = question.tags.iter().map(|tag| fold(tag)).collect();
        let visible = |place: Place| self.rows[place as usize].is_visible(question, &tags);
        let ask = |text, title_only| {
            let question = kenning_retrieval::Question { text, title_only, at: at.0 };
            self.index.search(&question, &visible)
        };
        match (question.topic, question.content) {
            (None, None) => {
                let tagged = (0..self.rows.len() as Place)
                    .rev()
                    .filter(|place| self.rows[*place as usize].is_live_at(at) && visible(*place));
                let places: Vec<Place> = tagged.collect();
                let shown = places.iter().skip(page.start as usize).take((page.end - page.start) as usize);
                let hits = shown.map(|place| (self.rows[*place as usize].id, None)).collect();
                Matches { hits, total: places.len() as u64 }
            }
            (Some(text), None) | (None, Some(text)) => {
                let results = ask(text, question.topic.is_some());
                self.page(results.hits.clone(), page, |hit| results.matched_terms(hit))
            }
            // Both must hold, and both count the same.
            (Some(topic), Some(content)) => {
                let (topics, contents) = (ask(topic, true), ask(content, false));
                let by_topic: HashMap<Place, Hit> = topics.hits.iter().map(|hit| (hit.place, *hit)).collect();
                let both = contents.hits.iter().filter_map(|hit| Some(hit.mean(by_topic.get(&hit.place)?)));
                self.page(both.collect(), page, |hit| {
                    let mut terms =
                        by_topic.get(&hit.place).map_or(Vec::new(), |hit| topics.matched_terms(hit));
                    terms.extend(contents.matched_terms(hit));
                    terms.sort();
                    terms.dedup();
                    terms
                })
            }
        }
    }

    /// Only what is shown is put in order.
    fn page(&self, mut hits: Vec<Hit>, page: Range<u64>, terms: impl Fn(&Hit) -> Vec<String>) -> Matches {
        let total = hits.len() as u64;
        let (start, end) = (page.start.min(total) as usize, page.end.min(total) as usize);
        if end < hits.len() {
            hits.select_nth_unstable_by(end, Hit::order);
            hits.truncate(end);
        }
        hits.sort_unstable_by(Hit::order);
        let shown = hits[start..].iter().map(|hit| {
            let explanation = Explanation {
                total: f64::from(hit.score),
                lexical: f64::from(hit.lexical),
                dense: f64::from(hit.dense),
                matched_terms: terms(hit),
            };
            (self.rows[hit.place as usize].id, Some(explanation))
        });
        Matches { hits: shown.collect(), total }
    }
}

impl Row {
    fn new(id: Id, from: TxId, entry: &Entry) -> Row {
        Row {
            id,
            from,
            to: None,
            scope: entry.scope,
            suppressed: entry.status == Status::Suppressed,
            valid_from: entry.valid_from,
            valid_to: entry.valid_to,
            tags: entry.tags.iter().map(|tag| fold(tag)).collect(),
        }
    }

    fn is_live_at(&self, at: TxId) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }

    fn is_visible(&self, question: &Question<'_>, tags: &[String]) -> bool {
        let is_valid = |now: Timestamp| {
            !self.suppressed
                && self.valid_from.is_none_or(|from| from <= now)
                && self.valid_to.is_none_or(|to| now < to)
        };
        question.scopes.contains(&self.scope)
            && question.visible_at.is_none_or(is_valid)
            && tags.iter().all(|tag| self.tags.contains(tag))
    }
}

/// Breaking texts into words and vectors is most of the work, and each text is its own.
fn prepare(batch: &[Change]) -> Vec<Option<Prepared>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = batch.len().div_ceil(threads).max(1);
    if batch.len() < 2 * threads {
        return batch.iter().map(prepare_one).collect();
    }
    std::thread::scope(|scope| {
        let shares: Vec<_> = batch
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().map(prepare_one).collect::<Vec<_>>()))
            .collect();
        shares
            .into_iter()
            .flat_map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn prepare_one((_, _, entry): &Change) -> Option<Prepared> {
    let entry = entry.as_ref()?;
    // What its author says about an entry is as good as what stands in it.
    let mut body = clean(&entry.content);
    for more in entry.context.iter().chain(&entry.tags) {
        body.push('\n');
        body.push_str(&clean(more));
    }
    Some(Prepared::new(&Document { title: &clean(&entry.topic), body: &body }))
}
