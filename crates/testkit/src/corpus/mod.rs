//! Texts with the distribution of real ones: few words occur in many texts and most words in few; there are
//! few large scopes and many small ones; and each scope has some words of its own.

mod chance;
mod questions;

use std::collections::HashSet;
use std::sync::LazyLock;

use kenning_retrieval::lex;

pub use chance::Chance;
pub use questions::{questions, visible};

pub const SCOPES: usize = 1000;
/// With this offset the largest scope has a tenth of all texts.
pub const SCOPE_OFFSET: f64 = 1.0;

const WORDS: usize = 30_000;
/// With this offset the most frequent word is in a sixth of all texts.
const WORD_OFFSET: f64 = 60.0;
/// The share of a text's words that are chosen from the words of its scope, and the number of these words.
const TOPICAL_SHARE: f64 = 0.3;
const TOPICAL_WORDS: usize = 200;
const TITLE_WORDS: (usize, usize) = (2, 6);
const BODY_WORDS: (usize, usize) = (35, 91);
const SENTENCE_WORDS: f64 = 12.0;

pub struct Text {
    pub title: String,
    pub body: String,
    pub scope: u32,
}

/// The texts are generated one by one when they are needed, so that a million of them need not be in memory
/// together.
pub fn corpus(many: usize) -> impl ExactSizeIterator<Item = Text> {
    (0..many).map(text)
}

/// The text with this number; it is the same however large the corpus is.
pub fn text(number: usize) -> Text {
    let mut chance = Chance::new("text", number);
    let scope = chance.rank(SCOPES, SCOPE_OFFSET);
    let title = sentences(&mut chance, scope, TITLE_WORDS);
    Text { title, body: sentences(&mut chance, scope, BODY_WORDS), scope: scope as u32 }
}

fn sentences(chance: &mut Chance, scope: usize, words: (usize, usize)) -> String {
    let mut text = String::new();
    let mut starts = true;
    for _ in 0..chance.between(words) {
        if !text.is_empty() {
            text.push(' ');
        }
        let from = text.len();
        text.push_str(word(chance, scope));
        if starts {
            text[from..=from].make_ascii_uppercase();
        }
        starts = chance.share() < 1.0 / SENTENCE_WORDS;
        if starts {
            text.push('.');
        }
    }
    text
}

/// Words with distinct terms: several endings of one word would make its term too frequent.
fn word(chance: &mut Chance, scope: usize) -> &'static str {
    static VOCABULARY: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let lines = include_str!("../../../retrieval/model/vocab.txt").lines();
        let whole = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let mut seen = HashSet::new();
        let new = |word: &&str| lex::terms(word).pop().is_some_and(|term| seen.insert(term));
        lines.filter(whole).filter(new).take(WORDS).collect()
    });
    if chance.share() >= TOPICAL_SHARE {
        return VOCABULARY[chance.rank(WORDS, WORD_OFFSET)];
    }
    let topic = scope * TOPICAL_WORDS + chance.between((0, TOPICAL_WORDS - 1));
    VOCABULARY[Chance::new("topic", topic).rank(WORDS, WORD_OFFSET)]
}
