//! Measures what counts as a match: `paraphrases.tsv` has questions, and entries that answer them without
//! sharing a word. The answer must be found by its meaning; the other entries must not, though many share a
//! word like "do" or "the" with the question.

use std::sync::Arc;

use kenning_retrieval::{
    By, Document, Embedder, Index, Limits, MatchMinimum, Prepared, Question, Sight, Version, lex,
};

/// The five nearest entries match if they are near at all. They are a sixth of the entries here; in a larger
/// store they are a tiny share.
#[test]
fn paraphrases_come_and_little_chaff_does() {
    measure(Embedder::Table, 0.92, 0.09);
}

/// However many documents are near, only the best hundred match by their meaning alone, with or without a
/// word of the question.
#[test]
fn a_hundred_match_by_their_meaning_alone() {
    let embedder = Arc::new(Embedder::Table);
    let mut index = Index::empty(embedder.clone());
    let text = |key: u64| match key {
        0 => "The launch is on Tuesday.".to_owned(),
        _ => format!("Software versions go out each Tuesday, as in week {key}."),
    };
    for key in 0..300 {
        let body = text(key);
        let document = Document { body: &body, ..Document::default() };
        let prepared = Prepared::new(&document, &embedder);
        let version = Version { group: 0, limits: Limits::NONE, marks: Vec::new(), prepared };
        index.change(1, key, false, Some(version)).expect("memory");
    }
    let sight = Sight { at: 1, groups: &[0], labels: &[], valid_at: Some(0) };
    let question = Question {
        title: None,
        text: Some("launch schedule for releasing"),
        sight,
        by: By::WordsAndMeaning,
        as_written: true,
        known_words_only: false,
        least: MatchMinimum::Some,
        with_nearest: true,
        explain: false,
    };
    let found = index.search(&question, 0..1000).expect("memory");
    let has_word = found.hits.iter().filter(|hit| hit.has_word).count();
    assert_eq!((found.total, found.hits.len(), has_word), (100, 100, 1));
    assert!(found.hits.iter().all(|hit| hit.has_word || hit.cosine >= 0.24));
}

/// `KENNING_MODEL_DIR=… cargo test -p kenning-retrieval --features minilm --test matches -- --ignored`
#[cfg(feature = "minilm")]
#[test]
#[ignore = "needs the weights of the real model"]
fn with_the_real_encoder_too() {
    let dir = std::env::var_os("KENNING_MODEL_DIR").expect("the directory of the model");
    let model = kenning_retrieval::minilm::MiniLm::load(dir.as_ref()).expect("a model");
    let vectors = |texts: Vec<&str>| model.embed(&texts).expect("vectors");
    let questions = vectors(pairs().iter().map(|(question, _)| *question).collect());
    let entries = vectors(pairs().iter().map(|(_, entry)| *entry).collect());
    // The results with other floors.
    for floor in [0.20, 0.25, 0.30, 0.35, 0.40] {
        let near = |(one, other): (usize, usize)| {
            let cosine = questions[one].iter().zip(&entries[other]).map(|(a, b)| a * b).sum::<f32>();
            usize::from(cosine >= floor)
        };
        let many = questions.len();
        let found: usize = (0..many).map(|at| near((at, at))).sum();
        let all: usize = (0..many * many).map(|at| near((at / many, at % many))).sum();
        let (found, chaff) = (found as f64 / many as f64, (all - found) as f64 / (many * (many - 1)) as f64);
        eprintln!("floor {floor}: found {found:.3}, chaff {chaff:.4}");
    }
    measure(Embedder::minilm(dir.as_ref()).expect("a model"), 0.88, 0.04);
}

/// Questions and the entries that answer them.
fn pairs() -> Vec<(&'static str, &'static str)> {
    include_str!("paraphrases.tsv").lines().filter_map(|line| line.split_once('\t')).collect()
}

/// At least the share `found_min` of the paraphrases must be found without a common word; and of all pairs of
/// a question and an entry that does not answer it, at most `chaff_max` may match.
fn measure(embedder: Embedder, found_min: f64, chaff_max: f64) {
    let embedder = Arc::new(embedder);
    let pairs = pairs();
    let mut index = Index::empty(embedder.clone());
    for ((_, entry), key) in pairs.iter().zip(0..) {
        let document = Document { body: entry, ..Document::default() };
        let prepared = Prepared::new(&document, &embedder).embedded(&document, &embedder).expect("vectors");
        let version = Version { group: 0, limits: Limits::NONE, marks: Vec::new(), prepared };
        index.change(1, key, false, Some(version)).expect("memory");
    }
    let (mut found, mut chaff, mut chaff_pairs) = (0, 0, 0);
    for (number, (question, entry)) in pairs.iter().enumerate() {
        let terms = lex::terms(question);
        let shared = |entry: &str| lex::terms(entry).iter().any(|term| terms.contains(term));
        assert!(!shared(entry), "line {} shares a word: {question} / {entry}", number + 1);
        let sight = Sight { at: 1, groups: &[0], labels: &[], valid_at: None };
        let (text, by) = (Some(*question), By::WordsAndMeaning);
        let asked = Question {
            title: None,
            text,
            sight,
            by,
            as_written: false,
            known_words_only: false,
            least: MatchMinimum::Some,
            with_nearest: true,
            explain: false,
        };
        let results = index.search(&asked, 0..1000).expect("memory");
        let came = |number: usize| results.hits.iter().any(|hit| hit.key as usize == number);
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
    assert!(found >= found_min, "{found:.3} of the paraphrases were found");
    assert!(chaff <= chaff_max, "{chaff:.4} of the chaff was let through");
}
