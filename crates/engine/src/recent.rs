//! The newest entries by their words, to tell a caller that it stores what is there already.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use kenning_model::{Entry, Id, Record, ScopeId, Status, Timestamp, Transaction, TxId};
use kenning_storage::Error;

use crate::Snapshot;
use crate::search::words;

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
    words: Vec<u64>,
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

    /// A commit of this process, if it is the very next one; otherwise `catch_up` reads it from the log.
    pub(crate) fn apply_own(&mut self, tx: &Transaction) {
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
        let asked = word_set(question.topic, question.content);
        let mut found: Vec<(f64, Id)> = self
            .kept
            .iter()
            .filter(|kept| question.scopes.contains(&kept.scope))
            .filter(|kept| kept.valid.0.is_none_or(|from| from <= now))
            .filter(|kept| kept.valid.1.is_none_or(|to| now < to))
            .map(|kept| (overlap(&asked, &kept.words), kept.id))
            .filter(|(overlap, _)| *overlap >= SIMILAR_MIN)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(SIMILAR_MAX).map(|(_, id)| id).collect()
    }
}

impl Kept {
    fn new(id: Id, entry: &Entry) -> Kept {
        let valid = (entry.valid_from, entry.valid_to);
        Kept { id, scope: entry.scope, valid, words: word_set(&entry.topic, &entry.content) }
    }
}

fn word_set(topic: &str, content: &str) -> Vec<u64> {
    let mut set: Vec<u64> = words(topic).chain(words(content)).map(|word| hash(&word)).collect();
    set.sort_unstable();
    set.dedup();
    set
}

fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// Shared words divided by all words, of two sorted sets.
fn overlap(a: &[u64], b: &[u64]) -> f64 {
    let (mut at, mut shared) = (0, 0);
    for word in a {
        while at < b.len() && b[at] < *word {
            at += 1;
        }
        shared += usize::from(b.get(at) == Some(word));
    }
    match a.len() + b.len() - shared {
        0 => 0.0,
        all => shared as f64 / all as f64,
    }
}
