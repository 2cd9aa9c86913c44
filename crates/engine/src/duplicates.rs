//! Finds entries that say nearly the same as a text that is about to be stored, so that the caller can be
//! told. Every write asks, so no question may scan all entries. Entries with similar sets of words share a
//! bucket (MinHash); short entries that share two of their first terms share another.

use std::cell::LazyCell;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use kenning_model::{
    self as model, EntityType, Id, Record, ScopeId, Status, Timestamp, Transaction, TxId, clean,
};
use kenning_retrieval::lex;
use kenning_storage::{Error, StoreId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::likeness::{NEAR_MIN, Statement};
use crate::reading::follow;
use crate::{Sight, Snapshot};

const SIMILAR_MAX: usize = 3;
/// The number of smallest hashes that represent a set of words, four of them in each bucket. Two sets that
/// share 0.8 of their words have a bucket in common in 99 of 100 cases, 0.6 in 75 of 100, and 0.1, as any two
/// texts may, in one of a thousand.
const HASHES: usize = 40;
const BUCKETS: usize = HASHES / 4;
/// The most entries of one bucket that are looked at, newest first. A fuller bucket holds copies of a form
/// letter.
const LOOKED_AT_MAX: usize = 64;
/// The least number of equal hashes for which an entry is read: about half of the words are then shared, as
/// in most pairs that reach `ALIKE_MIN`.
const EQUAL_MIN: usize = HASHES * 45 / 100;
/// The most visible entries that are compared with the question. Entries of other scopes are not counted, so
/// that they can't hide visible ones.
const COMPARED_MAX: usize = 12;
/// With a smaller share of common words, two texts are not compared further.
const SHARED_MIN: f64 = 0.25;
/// The most words of a short text. Small sets that differ in two words already differ in most of their
/// hashes. So short texts are also found by every pair of their first terms.
const SHORT_WORDS_MAX: usize = 12;
const PAIRED_TERMS: usize = 5;
/// The most sketches that are kept for texts that were asked about and not written yet.
const ASKED_MAX: usize = 1024;

/// The text that is about to be stored, and the sight in which it will be seen.
pub struct Similar<'a> {
    pub sight: &'a Sight,
    pub topic: &'a str,
    pub content: &'a str,
    /// Entries that are not reported: the entry itself, or the one that it follows.
    pub except: &'a [Id],
}

#[derive(Default)]
pub(crate) struct Duplicates {
    store: StoreId,
    /// The entries here are those that the log changed after `since` and up to `at`.
    since: TxId,
    at: TxId,
    buckets: FxHashMap<u64, Vec<Id>>,
    live: FxHashMap<Id, LiveEntry>,
    /// Sketches of texts that were asked about. They are most likely written next, so the writer need not
    /// compute them again.
    asked: FxHashMap<u64, Sketch>,
}

struct LiveEntry {
    scope: ScopeId,
    /// The transaction that wrote it.
    from: TxId,
    sketch: Sketch,
}

/// The hashes by which a text is found.
#[derive(Clone)]
struct Sketch {
    /// The smallest hashes of its set of words.
    hashes: [u16; HASHES],
    /// The hashes of the pairs of its first terms, if the text is short.
    pairs: Box<[u64]>,
}

impl Duplicates {
    /// Reads the log from `at`, or from the end of the segments of the index, which find all earlier entries.
    pub(crate) fn catch_up(&mut self, snapshot: &Snapshot<'_>, segments_end: TxId) -> Result<(), Error> {
        let head = snapshot.at();
        if segments_end < self.since || snapshot.store() != self.store {
            // The segments were discarded, and they held entries that were never read here; or the store was
            // restored.
            *self = Duplicates { store: snapshot.store(), ..Duplicates::default() };
        }
        if self.at < segments_end.min(head) {
            self.at = segments_end.min(head);
        }
        self.forget(segments_end.min(self.at));
        if self.at < head {
            let (store, after) = (self.store, self.at);
            follow(snapshot.reader(), store, &[EntityType::Entry], after, head, |changes| {
                for change in &changes {
                    self.apply(change.tx, change.id, change.after.as_ref().and_then(Record::as_entry));
                }
                Ok::<(), Error>(())
            })?;
            self.at = head;
        }
        Ok(())
    }

    /// Applies a commit of this process, if it directly follows the last one; otherwise `catch_up` reads the
    /// log.
    pub(crate) fn apply_next(&mut self, tx: &Transaction) {
        if tx.id != self.at.next() {
            return;
        }
        for change in tx.changes.iter().filter(|change| change.entity_type == EntityType::Entry) {
            self.apply(tx.id, change.id, change.after.as_ref().and_then(Record::as_entry));
        }
        self.at = tx.id;
    }

    /// Removes entries that are now in the segments of the index, which find them by their marks. So this
    /// holds no more entries than the tail of the index.
    fn forget(&mut self, until: TxId) {
        if until <= self.since {
            return;
        }
        let gone = self.live.iter().filter(|(_, entry)| entry.from <= until).map(|(id, _)| *id);
        gone.collect::<Vec<_>>().into_iter().for_each(|id| self.remove(id));
        self.since = until;
    }

    fn remove(&mut self, id: Id) {
        let Some(entry) = self.live.remove(&id) else { return };
        for bucket in entry.sketch.buckets() {
            if let Entry::Occupied(mut ids) = self.buckets.entry(bucket) {
                ids.get_mut().retain(|other| *other != id);
                if ids.get().is_empty() {
                    ids.remove();
                }
            }
        }
    }

    /// Applies a change. Applying it twice has the same effect, so a catch-up that failed half way can start
    /// again.
    fn apply(&mut self, from: TxId, id: Id, entry: Option<&model::Entry>) {
        self.remove(id);
        let Some(entry) = entry.filter(|entry| entry.status == Status::Active) else { return };
        let asked = self.asked.remove(&text_key(&entry.topic, &entry.content));
        let sketch = asked.unwrap_or_else(|| Sketch::of(&entry.topic, &entry.content));
        for bucket in sketch.buckets() {
            let ids = self.buckets.entry(bucket).or_default();
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
        self.live.insert(id, LiveEntry { scope: entry.scope, from, sketch });
    }

    /// The entries in sight that may share most of their words with the question, likeliest first. Entries
    /// out of sight do not count towards the limits.
    pub(crate) fn candidates(&mut self, asked: &SketchedText<'_>) -> Vec<Id> {
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear();
        }
        self.asked.insert(asked.key, asked.sketch.clone());
        let mut candidates: Vec<(usize, Id)> = (asked.sketch.buckets())
            .filter_map(|bucket| self.buckets.get(&bucket))
            .flat_map(|ids| {
                let known = ids.iter().rev().filter_map(|id| Some((*id, self.live.get(id)?)));
                known.filter(|(_, entry)| asked.question.sight.sees(entry.scope)).take(LOOKED_AT_MAX)
            })
            .map(|(id, entry)| (asked.sketch.promise(&entry.sketch), id))
            .filter(|(promise, _)| *promise > 0)
            .collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.dedup();
        candidates.into_iter().take(LOOKED_AT_MAX).map(|(_, id)| id).collect()
    }
}

/// A question with its sketch, which is computed before the lock on `Duplicates` is taken.
pub(crate) struct SketchedText<'a> {
    key: u64,
    question: &'a Similar<'a>,
    words: Vec<u64>,
    sketch: Sketch,
}

impl<'a> SketchedText<'a> {
    pub(crate) fn new(question: &'a Similar<'a>) -> SketchedText<'a> {
        let words = word_set(question.topic, question.content);
        let sketch = Sketch::new(question.topic, question.content, &words);
        SketchedText { key: text_key(question.topic, question.content), sketch, words, question }
    }

    /// The marks by which the segments of the index find entries that may be alike.
    pub(crate) fn marks(&self) -> Vec<u32> {
        self.sketch.marks()
    }

    /// The candidates that are visible and say nearly the same, best first; of equally good ones the newest
    /// first.
    pub(crate) fn choose(
        &self,
        candidates: Vec<Id>,
        snapshot: &Snapshot<'_>,
        now: Timestamp,
    ) -> Result<Vec<Id>, Error> {
        let Similar { sight, topic, content, except } = self.question;
        let statement = LazyCell::new(|| Statement::new(topic, content));
        let mut found: Vec<(f64, TxId, Id)> = Vec::new();
        let mut compared = 0;
        // One read fetches as many entries as can be compared, because few of them are out of sight.
        'reading: for ids in candidates.chunks(COMPARED_MAX) {
            for stored in snapshot.records(EntityType::Entry, ids)?.into_iter().flatten() {
                if compared == COMPARED_MAX {
                    break 'reading;
                }
                let Some(entry) = stored.record.as_entry() else { continue };
                let valid = entry.valid_from.is_none_or(|from| from <= now)
                    && entry.valid_to.is_none_or(|to| now < to);
                if !valid || !sight.sees(entry.scope) || except.contains(&stored.id) {
                    continue;
                }
                compared += 1;
                if overlap(&self.words, &word_set(&entry.topic, &entry.content)) < SHARED_MIN {
                    continue;
                }
                let nearness = statement.nearness(&Statement::new(&entry.topic, &entry.content));
                if nearness >= NEAR_MIN {
                    found.push((nearness, stored.tx_id, stored.id));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        Ok(found.into_iter().take(SIMILAR_MAX).map(|(_, _, id)| id).collect())
    }
}

/// The entries with the most marks in common with the question.
pub(crate) fn likeliest(mut marked: Vec<(Id, usize)>) -> impl Iterator<Item = Id> {
    marked.sort_unstable_by_key(|(id, many)| std::cmp::Reverse((*many, *id)));
    marked.into_iter().take(LOOKED_AT_MAX).map(|(id, _)| id)
}

/// The marks by which the segments of the index find an entry that shares most of its words.
pub(crate) fn marks(topic: &str, content: &str) -> Vec<u32> {
    Sketch::of(topic, content).marks()
}

impl Sketch {
    fn of(topic: &str, content: &str) -> Sketch {
        Sketch::new(topic, content, &word_set(topic, content))
    }

    fn new(topic: &str, content: &str, words: &[u64]) -> Sketch {
        let is_short = words.len() <= SHORT_WORDS_MAX;
        let pairs = if is_short { pairs(topic, content) } else { Vec::new() };
        Sketch { hashes: smallest(words), pairs: pairs.into() }
    }

    /// The buckets of a text: one for every four consecutive hashes, and one for every pair.
    fn buckets(&self) -> impl Iterator<Item = u64> + '_ {
        let of_hashes = self.hashes.chunks_exact(4).zip(0..BUCKETS as u64).map(|(four, number)| {
            let key = four.iter().fold(0, |key, hash| key << 16 | u64::from(*hash));
            key ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        of_hashes.chain(self.pairs.iter().copied())
    }

    fn marks(&self) -> Vec<u32> {
        let mixed = |bucket: u64| (bucket.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32;
        self.buckets().map(mixed).collect()
    }

    /// How promising it is to read the other text; 0 if it is not worth reading.
    fn promise(&self, other: &Sketch) -> usize {
        let equal = self.hashes.iter().zip(&other.hashes).filter(|(one, other)| one == other).count();
        let pairs = self.pairs.iter().filter(|pair| other.pairs.contains(pair)).count();
        if equal >= EQUAL_MIN || pairs > 0 { equal + pairs } else { 0 }
    }
}

/// Hashes of the pairs of the first terms of a text, in any order. Numbers are left out: they are statements
/// about the subject, not the subject.
fn pairs(topic: &str, content: &str) -> Vec<u64> {
    let (topic, content) = (clean(topic), clean(content));
    let mut terms = lex::terms(&topic);
    terms.extend(lex::terms(&content));
    terms.retain(|term| !term.starts_with(|c: char| c.is_ascii_digit()));
    let mut known = FxHashSet::default();
    terms.retain(|term| known.insert(term.clone()));
    terms.truncate(PAIRED_TERMS);
    terms.sort_unstable();
    let mut pairs = Vec::new();
    for (at, one) in terms.iter().enumerate() {
        for other in &terms[at + 1..] {
            let mut hasher = FxHasher::default();
            (one, other).hash(&mut hasher);
            pairs.push(hasher.finish());
        }
    }
    pairs
}

fn text_key(topic: &str, content: &str) -> u64 {
    let mut hasher = FxHasher::default();
    (topic, content).hash(&mut hasher);
    hasher.finish()
}

/// The MinHash of a set of words: for each of `HASHES` ways to mix the hashes, the smallest result.
fn smallest(words: &[u64]) -> [u16; HASHES] {
    std::array::from_fn(|way| {
        let mix = (way as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = words.iter().map(|word| (word ^ mix).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31));
        let smallest = mixed.min().unwrap_or(0);
        (smallest.wrapping_mul(0x94d0_49bb_1331_11eb) >> 48) as u16
    })
}

fn word_set(topic: &str, content: &str) -> Vec<u64> {
    let mut hashes = Vec::with_capacity(content.len() / 4);
    word_hashes(&clean(topic), &mut hashes);
    word_hashes(&clean(content), &mut hashes);
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// The number of shared words divided by the number of all words, for two sorted sets.
fn overlap(one: &[u64], other: &[u64]) -> f64 {
    let (mut at, mut shared) = (0, 0);
    for word in one {
        while at < other.len() && other[at] < *word {
            at += 1;
        }
        shared += usize::from(other.get(at) == Some(word));
    }
    match one.len() + other.len() - shared {
        0 => 0.0,
        all => shared as f64 / all as f64,
    }
}

/// The hashes of the words (FNV-1a), ignoring case. Every write computes them twice, so ASCII text takes a
/// faster path.
fn word_hashes(text: &str, hashes: &mut Vec<u64>) {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    let add = |hash: u64, c: u64| (hash ^ c).wrapping_mul(0x100_0000_01b3);
    let mut hash = START;
    let mut each = |letter: Option<u64>| match letter {
        Some(letter) => hash = add(hash, letter),
        None if hash != START => hashes.push(std::mem::replace(&mut hash, START)),
        None => {}
    };
    if text.is_ascii() {
        text.bytes()
            .for_each(|b| each(b.is_ascii_alphanumeric().then_some(u64::from(b.to_ascii_lowercase()))));
    } else {
        let lower = text.chars().flat_map(char::to_lowercase);
        lower.for_each(|c| each(c.is_alphanumeric().then_some(u64::from(c))));
    }
    each(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(content: &str) -> model::Entry {
        model::Entry {
            scope: ScopeId(1),
            topic: "status".to_owned(),
            content: content.to_owned(),
            context: None,
            tags: Vec::new(),
            task_sizes: Vec::new(),
            source: None,
            actor: "test".to_owned(),
            confidence: None,
            valid_from: None,
            valid_to: None,
            status: Status::Active,
            pinned: false,
            follows: None,
            version: 1,
            recorded_at: Timestamp::UNIX_EPOCH,
            updated_at: None,
            purged: None,
        }
    }

    #[test]
    fn versions_of_one_entry_leave_nothing_behind() {
        let mut duplicates = Duplicates::default();
        let id = Id::from_bits(1);
        for version in 1..=200u64 {
            let entry =
                entry(&format!("Step alpha{version} of plan beta{version} by gamma{version} is done."));
            duplicates.apply(TxId(version), id, Some(&entry));
        }
        let of_one = duplicates.live[&id].sketch.buckets().count();
        assert!(duplicates.buckets.len() <= of_one, "{} buckets for one entry", duplicates.buckets.len());
        duplicates.apply(TxId(201), id, None);
        assert_eq!((duplicates.buckets.len(), duplicates.live.len()), (0, 0));
    }

    #[test]
    fn what_the_segments_know_is_forgotten_here() {
        let mut duplicates = Duplicates::default();
        for number in 1..=10 {
            let entry = entry(&format!("Step alpha{number} of plan beta{number} is done."));
            duplicates.apply(TxId(number), Id::from_bits(number), Some(&entry));
        }
        duplicates.forget(TxId(7));
        let mut left: Vec<TxId> = duplicates.live.values().map(|entry| entry.from).collect();
        left.sort_unstable();
        assert_eq!(left, [TxId(8), TxId(9), TxId(10)]);
        assert!(duplicates.buckets.values().all(|ids| ids.iter().all(|id| duplicates.live.contains_key(id))));
    }
}
