//! Entries by what they share with others, to tell a caller that it stores what is there already. Every write asks, so
//! nothing may be read through: entries with a like set of words meet in a bucket (MinHash).

use kenning_model::{EntityType, Entry, Id, Record, ScopeId, Status, Timestamp, Transaction, TxId, clean};
use kenning_storage::Error;
use rustc_hash::FxHashMap;

use crate::Snapshot;

const SIMILAR_MAX: usize = 3;
/// Shared words of all words: "Use blue-green deploys." and "We use blue-green deploys" are 4 of 5.
const SIMILAR_MIN: f64 = 0.6;
/// How many smallest hashes stand for a set of words, and how many buckets they make: two sets that share 0.6 of
/// their words have a bucket in common in 97 of 100 cases, two that share 0.2 in 28.
const HASHES: usize = 16;
const BUCKETS: usize = HASHES / 2;
/// A bucket as full as this is a form letter; only its newest are looked at.
const LOOKED_AT_MAX: usize = 32;

/// What is about to be stored, and where it will be seen.
pub struct Similar<'a> {
    pub scopes: &'a [ScopeId],
    pub topic: &'a str,
    pub content: &'a str,
}

#[derive(Default)]
pub(crate) struct Duplicates {
    at: TxId,
    buckets: FxHashMap<u64, Vec<Id>>,
    live: FxHashMap<Id, [u64; BUCKETS]>,
}

impl Duplicates {
    pub(crate) fn catch_up(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Error> {
        let head = snapshot.at();
        if self.at < head {
            let range = self.at.next()..head.next();
            snapshot.reader().changes(EntityType::Entry, range, &mut |_, id, record| {
                let entry = record.as_ref().and_then(|record| match record {
                    Record::Entry(entry) => Some(entry),
                    Record::Triple(_) => None,
                });
                self.apply(id, entry);
            })?;
            self.at = head;
        }
        Ok(())
    }

    /// A commit of this process, if no other process came between; otherwise `catch_up` reads both from the log.
    pub(crate) fn apply_next(&mut self, tx: &Transaction) {
        if tx.id != self.at.next() {
            return;
        }
        for change in tx.changes.iter().filter(|change| change.entity_type == EntityType::Entry) {
            let entry = change.after.as_ref().and_then(|record| match record {
                Record::Entry(entry) => Some(entry),
                Record::Triple(_) => None,
            });
            self.apply(change.id, entry);
        }
        self.at = tx.id;
    }

    /// Applying a change twice is as good as once, so a catch-up that failed half-way may begin again.
    fn apply(&mut self, id: Id, entry: Option<&Entry>) {
        for bucket in self.live.remove(&id).into_iter().flatten() {
            if let Some(ids) = self.buckets.get_mut(&bucket) {
                ids.retain(|other| *other != id);
            }
        }
        let Some(entry) = entry.filter(|entry| entry.status == Status::Active) else { return };
        let buckets = buckets(&word_set(&entry.topic, &entry.content));
        for bucket in buckets {
            let ids = self.buckets.entry(bucket).or_default();
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
        self.live.insert(id, buckets);
    }

    /// The visible entries that share most of their words with the question, best first, the newest of equals first.
    pub(crate) fn similar(
        &self,
        snapshot: &Snapshot<'_>,
        question: &Similar<'_>,
        now: Timestamp,
    ) -> Result<Vec<Id>, Error> {
        let asked = word_set(question.topic, question.content);
        let mut candidates: Vec<Id> = buckets(&asked)
            .iter()
            .filter_map(|bucket| self.buckets.get(bucket))
            .flat_map(|ids| ids.iter().rev().take(LOOKED_AT_MAX))
            .copied()
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut found: Vec<(f64, TxId, Id)> = Vec::new();
        for id in candidates {
            let Some(stored) = snapshot.entry(id)? else { continue };
            let Record::Entry(entry) = &stored.record else { continue };
            let valid =
                entry.valid_from.is_none_or(|from| from <= now) && entry.valid_to.is_none_or(|to| now < to);
            let shared = overlap(&asked, &word_set(&entry.topic, &entry.content));
            if valid && question.scopes.contains(&entry.scope) && shared >= SIMILAR_MIN {
                found.push((shared, stored.tx_id, id));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        Ok(found.into_iter().take(SIMILAR_MAX).map(|(_, _, id)| id).collect())
    }
}

/// The buckets of a set of words: for each of some ways to mix the hashes, which is the smallest.
fn buckets(words: &[u64]) -> [u64; BUCKETS] {
    let smallest = |way: usize| {
        let mix = (way as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        words
            .iter()
            .map(|word| (word ^ mix).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31))
            .min()
            .unwrap_or(0)
    };
    std::array::from_fn(|bucket| {
        let pair = smallest(2 * bucket).wrapping_mul(0x94d0_49bb_1331_11eb) ^ smallest(2 * bucket + 1);
        pair.wrapping_add(bucket as u64)
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

/// Shared words divided by all words, of two sorted sets.
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

/// The hashes of the words (FNV-1a), without case. Every write passes here twice, so plain text takes a short way.
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
