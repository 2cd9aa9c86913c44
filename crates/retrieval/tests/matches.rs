//! What counts as a match, measured: `paraphrases.tsv` has questions and the entries that answer them without sharing
//! a word. The answer must come by its meaning; the other entries are chaff, and must not, though many share a word
//! like "do" or "the" with the question.

use kenning_retrieval::{Document, Index, Prepared, Question, lex};

/// Of the paraphrases, at least this share is found without a common word.
const FOUND_MIN: f64 = 0.78;
/// Of all pairs of a question and an entry that does not answer it, at most this share passes for a match.
const CHAFF_MAX: f64 = 0.02;

#[test]
fn paraphrases_come_and_chaff_does_not() {
    let pairs: Vec<(&str, &str)> =
        include_str!("paraphrases.tsv").lines().filter_map(|line| line.split_once('\t')).collect();
    let mut index = Index::default();
    for (_, entry) in &pairs {
        index.add(1, Prepared::new(&Document { title: "", body: entry }));
    }
    let (mut found, mut chaff, mut chaff_pairs) = (0, 0, 0);
    for (number, (question, entry)) in pairs.iter().enumerate() {
        let terms = lex::terms(question);
        let shared = |entry: &str| lex::terms(entry).iter().any(|term| terms.contains(term));
        assert!(!shared(entry), "line {} shares a word: {question} / {entry}", number + 1);
        let results = index.search(&Question { text: question, title_only: false, at: 1 }, &|_| true);
        let came = |place: usize| results.hits.iter().any(|hit| hit.place as usize == place);
        found += usize::from(came(number));
        for (other, (_, entry)) in pairs.iter().enumerate() {
            if other != number && !shared(entry) {
                chaff_pairs += 1;
                chaff += usize::from(came(other));
            }
        }
    }
    let (found, chaff) = (found as f64 / pairs.len() as f64, chaff as f64 / chaff_pairs as f64);
    eprintln!("paraphrases found {found:.3}, chaff let through {chaff:.4} of {chaff_pairs} pairs");
    assert!(found >= FOUND_MIN, "{found:.3} of the paraphrases were found");
    assert!(chaff <= CHAFF_MAX, "{chaff:.4} of the chaff was let through");
}
