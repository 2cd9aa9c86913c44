//! The newest entries by their words, to tell a caller that it stores what is there already.

use std::collections::VecDeque;

use kenning_model::{Entry, Id, Record, ScopeId, Status, Timestamp, Transaction, TxId};
use kenning_storage::Error;

use crate::Snapshot;

/// How many entries are compared; duplicates come from the same session or the one before it.
const KEPT_MAX: usize = 256;
/// How far back the first use in a process reads the log.
const LOOK_BACK: u64 = 512;
const SIMILAR_MAX: usize = 3;
/// Shared words of all words: "Use blue-green deploys." and "We use blue-green deploys" are 4 of 5.
const SIMILAR_MIN: f64 = 0.6;

/// What is about to be stored, and where it will be seen.
pub struct Similar<'a> {
    pub scopes: &'a [ScopeId],
    pub topic: &'a str,
    pub content: &'a str,
}

#[derive(Default)]
pub(crate) struct Recent {
    at: TxId,
    kept: VecDeque<Kept>,
}

struct Kept {
    id: Id,
    scope: ScopeId,
    valid: (Option<Timestamp>, Option<Timestamp>),
    words: Words,
}

impl Recent {
    pub(crate) fn catch_up(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Error> {
        let head = snapshot.at();
        let first = (self.at.0 + 1).max(head.0.saturating_sub(LOOK_BACK) + 1);
        for id in first..=head.0 {
            if let Some(tx) = snapshot.transaction(TxId(id))? {
                self.apply(&tx);
            }
        }
        Ok(())
    }

    /// A commit of this process, if no other process came between; otherwise `catch_up` reads both from the log.
    pub(crate) fn apply_next(&mut self, tx: &Transaction) {
        if tx.id == self.at.next() {
            self.apply(tx);
        }
    }

    fn apply(&mut self, tx: &Transaction) {
        for change in &tx.changes {
            self.kept.retain(|kept| kept.id != change.id);
            if let Some(Record::Entry(entry)) = &change.after
                && entry.status == Status::Active
            {
                self.kept.push_front(Kept::new(change.id, entry));
                self.kept.truncate(KEPT_MAX);
            }
        }
        self.at = tx.id;
    }

    /// Best first, the newest of equals first.
    pub(crate) fn similar(&self, question: &Similar<'_>, now: Timestamp) -> Vec<Id> {
        let asked = Words::of(question.topic, question.content);
        let mut found: Vec<(f64, Id)> = self
            .kept
            .iter()
            .filter(|kept| question.scopes.contains(&kept.scope))
            .filter(|kept| kept.valid.0.is_none_or(|from| from <= now))
            .filter(|kept| kept.valid.1.is_none_or(|to| now < to))
            .filter(|kept| asked.may_be_similar(&kept.words))
            .map(|kept| (asked.overlap(&kept.words), kept.id))
            .filter(|(overlap, _)| *overlap >= SIMILAR_MIN)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(SIMILAR_MAX).map(|(_, id)| id).collect()
    }
}

impl Kept {
    fn new(id: Id, entry: &Entry) -> Kept {
        let valid = (entry.valid_from, entry.valid_to);
        Kept { id, scope: entry.scope, valid, words: Words::of(&entry.topic, &entry.content) }
    }
}

/// The words of a text as a sorted set of hashes, with a signature that tells at a glance what it can't resemble.
struct Words {
    hashes: Vec<u64>,
    signature: [u64; 4],
}

impl Words {
    fn of(topic: &str, content: &str) -> Words {
        let mut hashes = Vec::with_capacity(content.len() / 4);
        word_hashes(topic, &mut hashes);
        word_hashes(content, &mut hashes);
        hashes.sort_unstable();
        hashes.dedup();
        let mut signature = [0; 4];
        for hash in &hashes {
            signature[(hash >> 6) as usize & 3] |= 1 << (hash & 63);
        }
        Words { hashes, signature }
    }

    /// Two sets that share enough are of like size, and few words of one are missing from the other. Each bit
    /// that only this signature has is a word that only this set has.
    fn may_be_similar(&self, other: &Words) -> bool {
        let (one, two) = (self.hashes.len() as f64, other.hashes.len() as f64);
        let missing: u32 =
            self.signature.iter().zip(&other.signature).map(|(own, other)| (own & !other).count_ones()).sum();
        one.min(two) >= SIMILAR_MIN * one.max(two) && f64::from(missing) <= (1.0 - SIMILAR_MIN) * one
    }

    /// Shared words divided by all words.
    fn overlap(&self, other: &Words) -> f64 {
        let (mut at, mut shared) = (0, 0);
        for word in &self.hashes {
            while at < other.hashes.len() && other.hashes[at] < *word {
                at += 1;
            }
            shared += usize::from(other.hashes.get(at) == Some(word));
        }
        match self.hashes.len() + other.hashes.len() - shared {
            0 => 0.0,
            all => shared as f64 / all as f64,
        }
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
