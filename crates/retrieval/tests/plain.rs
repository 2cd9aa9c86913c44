//! The index beside a plain scorer that reads every text for every question: the same matches, the same scores.

use std::collections::HashMap;

use kenning_retrieval::{Document, Index, Prepared, Question, embed, lex};
use proptest::prelude::*;

const WORDS: [&str; 14] = [
    "deploy",
    "deployment",
    "release",
    "rollback",
    "banana",
    "apple",
    "getUserName",
    "user",
    "name",
    "node.js",
    "the",
    "on",
    "Friday",
    "tokens",
];

#[derive(Clone, Debug)]
struct Version {
    title: String,
    body: String,
    from: u64,
    to: u64,
    hidden: bool,
}

fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), words).prop_map(|words| words.join(" "))
}

fn version() -> impl Strategy<Value = Version> {
    (text(0..4), text(0..40), 1..20u64, 1..20u64, prop::bool::weighted(0.2))
        .prop_map(|(title, body, from, life, hidden)| Version { title, body, from, to: from + life, hidden })
}

/// BM25 and fusion as the notes on search define them, by reading everything.
fn plain(versions: &[Version], question: &str, at: u64) -> Vec<(u32, f64)> {
    let live: Vec<(usize, &Version)> =
        versions.iter().enumerate().filter(|(_, v)| v.from <= at && at < v.to).collect();
    let terms_of = |v: &Version| {
        let (title, body) = (lex::terms(&v.title), lex::terms(&v.body));
        let mut counts: HashMap<String, f64> = HashMap::new();
        title.iter().for_each(|term| *counts.entry(term.to_string()).or_default() += 3.0);
        for word in lex::stop_words(&v.title) {
            counts.insert(word.to_string(), 3.0);
        }
        body.iter().for_each(|term| *counts.entry(term.to_string()).or_default() += 1.0);
        let mut pairs: HashMap<(String, String), f64> = HashMap::new();
        for sequence in [&title, &body] {
            for pair in sequence.windows(2) {
                *pairs.entry((pair[0].to_string(), pair[1].to_string())).or_default() += 1.0;
            }
        }
        (counts, pairs, (3 * title.len() + body.len()) as f64)
    };
    let read: Vec<_> = live.iter().map(|(_, v)| terms_of(v)).collect();
    let many = live.len() as f64;
    let mean = (read.iter().map(|(_, _, length)| length).sum::<f64>() / many.max(1.0)).max(1.0).max(30.0);
    let bm25 = |frequency: f64, length: f64, df: f64| {
        let idf = (1.0 + (many - df + 0.5) / (df + 0.5)).ln();
        idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length.max(30.0) / mean))
    };
    let sequence = lex::question_terms(question);
    let mut asked: Vec<String> = sequence.iter().map(|term| term.to_string()).collect();
    asked.sort();
    asked.dedup();
    let mut pairs: Vec<(String, String)> =
        sequence.windows(2).map(|pair| (pair[0].to_string(), pair[1].to_string())).collect();
    pairs.sort();
    pairs.dedup();
    let mut lexical = vec![0.0; live.len()];
    let mut matched = vec![false; live.len()];
    for term in &asked {
        let df = read.iter().filter(|(counts, _, _)| counts.contains_key(term)).count() as f64;
        for (at, (counts, _, length)) in read.iter().enumerate() {
            if let Some(frequency) = counts.get(term).filter(|_| !live[at].1.hidden) {
                lexical[at] += bm25(*frequency, *length, df);
                matched[at] = true;
            }
        }
    }
    for pair in &pairs {
        let df = read.iter().filter(|(_, pairs, _)| pairs.contains_key(pair)).count() as f64;
        for (at, (_, pairs, length)) in read.iter().enumerate() {
            if let Some(frequency) = pairs.get(pair).filter(|_| matched[at]) {
                lexical[at] += 0.2 * bm25(*frequency, *length, df);
            }
        }
    }
    let mut counts = embed::TokenCounts::default();
    let tokens: Vec<_> =
        live.iter().map(|(_, v)| embed::tokens(&format!("{} {}", v.title, v.body))).collect();
    tokens.iter().for_each(|tokens| counts.add(tokens.iter().map(|(token, _)| *token)));
    let vector = embed::question_vector(&embed::tokens(question), &counts);
    let cosine = |tokens: &[(u16, u32)]| {
        let passage = embed::passage_vector(tokens);
        passage.iter().zip(&vector).map(|(a, b)| f64::from(a * b)).sum::<f64>()
    };
    let seen: Vec<(usize, f64)> =
        (0..live.len()).filter(|at| !live[*at].1.hidden).map(|at| (at, cosine(&tokens[at]))).collect();
    let mean = seen.iter().map(|(_, cos)| cos).sum::<f64>() / (seen.len() as f64).max(1.0);
    let deviation =
        (seen.iter().map(|(_, cos)| (cos - mean).powi(2)).sum::<f64>() / (seen.len() as f64).max(1.0)).sqrt();
    let z = |cos: f64| if deviation > 1e-6 { (cos - mean) / deviation } else { 0.0 };
    let best = lexical.iter().copied().fold(0.0, f64::max);
    let z_best = seen.iter().map(|(_, cos)| z(*cos)).fold(0.0, f64::max);
    seen.into_iter()
        .filter(|(at, cos)| matched[*at] || *cos >= 0.24)
        .map(|(at, cos)| {
            let words = if best > 0.0 { lexical[at] / best } else { 0.0 };
            let meaning = if z_best > 0.0 { z(cos).max(0.0) / z_best } else { 0.0 };
            (live[at].0 as u32, 0.6 * words + 0.4 * meaning)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_question_is_answered_as_by_reading_everything(
        versions in prop::collection::vec(version(), 1..25),
        question in text(1..6),
        at in 1..40u64,
    ) {
        // A version is added when it begins and closed when it ends, in the order of time, as the log tells it.
        let mut index = Index::default();
        let mut places = vec![None; versions.len()];
        for moment in 1..=40 {
            for (number, version) in versions.iter().enumerate() {
                if version.to == moment && let Some(place) = places[number] {
                    index.close(place, moment);
                }
                if version.from == moment {
                    let document = Document { title: &version.title, body: &version.body };
                    places[number] = Some(index.add(moment, Prepared::new(&document)));
                }
            }
        }
        let number_of = |place: u32| places.iter().position(|known| *known == Some(place)).expect("known");
        let visible = |place: u32| !versions[number_of(place)].hidden;
        let results = index.search(&Question { text: &question, title_only: false, at }, &visible);
        let mut found: Vec<(u32, f64)> =
            results.hits.iter().map(|hit| (number_of(hit.place) as u32, f64::from(hit.score))).collect();
        let mut expected = plain(&versions, &question, at);
        found.sort_by_key(|(number, _)| *number);
        expected.sort_by_key(|(number, _)| *number);
        let ids = |hits: &[(u32, f64)]| hits.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        // Bytes instead of floats may move a text that is exactly at the floor; none of these words is.
        prop_assert_eq!(ids(&found), ids(&expected));
        for ((_, found), (number, expected)) in found.iter().zip(&expected) {
            prop_assert!((found - expected).abs() < 0.02, "{}: {} and {}", number, found, expected);
        }
    }
}
