//! Questions that have an answer, and the scopes that the caller may see.

use super::chance::{Chance, rank_share};
use super::{SCOPE_OFFSET, SCOPES, text};

const WORDS: (usize, usize) = (3, 8);
/// Questions are about the first texts, so that they have an answer in a corpus of any size.
const ASKED_TEXTS: usize = 10_000;
/// The words between the search words of a question; no index keeps them.
const SMALL_WORDS: [&str; 8] = ["how", "the", "what", "is", "with", "for", "when", "does"];
/// The largest share that a caller may see, as a multiple of the average share.
const VISIBLE_MAX: f64 = 5.0;

/// Questions with three to eight words of one text, and small words before and between them.
pub fn questions(many: usize) -> Vec<String> {
    (0..many).map(question).collect()
}

fn question(number: usize) -> String {
    let mut chance = Chance::new("question", number);
    let body = text(chance.between((0, ASKED_TEXTS - 1))).body.to_lowercase();
    let from: Vec<&str> = body.split_whitespace().map(|word| word.trim_end_matches('.')).collect();
    let mut words = Vec::new();
    for at in 0..chance.between(WORDS) {
        if at % 3 == 0 {
            words.push(SMALL_WORDS[chance.between((0, SMALL_WORDS.len() - 1))]);
        }
        words.push(from[chance.between((0, from.len() - 1))]);
    }
    words.join(" ")
}

/// Scopes that contain about this share of all texts, averaged over the questions: a single question may see
/// one small scope or five times the share. A share of 1 means all scopes.
pub fn visible(question_number: usize, share: f64) -> Vec<u32> {
    if share >= 1.0 {
        return (0..SCOPES as u32).collect();
    }
    let mut chance = Chance::new("visible", question_number);
    let mut left = share * (-(1.0 - chance.share()).ln()).min(VISIBLE_MAX);
    let mut scopes: Vec<u32> = Vec::new();
    for _ in 0..SCOPES {
        let scope = chance.between((0, SCOPES - 1));
        let holds = rank_share(scope, SCOPES, SCOPE_OFFSET);
        if (holds <= left || scopes.is_empty()) && !scopes.contains(&(scope as u32)) {
            left -= holds;
            scopes.push(scope as u32);
        }
    }
    scopes.sort_unstable();
    scopes
}
