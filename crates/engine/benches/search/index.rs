//! The index alone, in one segment and in eight with a tail in memory, compared with tantivy, FTS5 and a
//! plain scan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kenning_retrieval::{
    By, Directory, Document, Embedder, Index, Known, Limits, MatchMinimum, Memory, Prepared, Question,
    Reached, Sight, Version, embed, lex, weighted_words,
};

use crate::fts5::Fts5;
use crate::naive::Naive;
use crate::tantivy_peer::Tantivy;
use crate::{QUESTIONS, SHARE, Workload, bandwidth, exact};
use kenning_testkit::corpus::{Text, corpus};
use kenning_testkit::measure::{p50, ratio};

/// The number of questions for measurements that take a second each at a million texts.
const FEW: usize = 20;
const SEGMENTS: usize = 8;
const TAIL: usize = 2_000;

pub fn measure(many: usize, asked: &Workload) {
    let dir = tempfile::tempdir().expect("a directory");
    let directory = Directory::new(dir.path().to_owned(), Arc::default());
    let eight = in_segments(&directory, many);
    let search = |index: &Index, number: usize, groups: &[u32], by: By| -> Vec<u32> {
        let sight = Sight { at: u64::MAX, groups, labels: &[], valid_at: Some(0) };
        let text = Some(asked.questions[number].as_str());
        let question = Question {
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
        let results = index.search(&question, 0..10).expect("readable");
        results.hits.iter().map(|hit| hit.key as u32).collect()
    };
    let some = |index: &Index, name: &str, by: By| {
        p50(name, QUESTIONS, |n| drop(search(index, n, &asked.scopes[n], by)))
    };
    let all =
        |index: &Index, name: &str, by: By| p50(name, QUESTIONS, |n| drop(search(index, n, &asked.all, by)));
    let spread = some(&eight, "words, 4 % visible, 8 segments and a tail", By::Words);
    let spread_all = all(&eight, "words, all visible, 8 segments and a tail", By::Words);
    drop(eight);

    let stop = AtomicBool::new(false);
    let writer = directory.lock(&stop).expect("writable").expect("nobody else");
    writer.merge_all(&Known::default()).expect("writable");
    let (one, _) = directory.open(None).expect("readable");
    one.known().load_vectors(&stop).expect("readable");
    let few_seen = some(&one, "words, 4 % visible", By::Words);
    let all_seen = all(&one, "words, all visible", By::Words);
    let both = some(&one, "words and meaning, 4 % visible", By::WordsAndMeaning);
    let both_all = all(&one, "words and meaning, all visible", By::WordsAndMeaning);
    let meant = some(&one, "meaning, 4 % visible", By::Meaning);
    let meant_all = all(&one, "meaning, all visible", By::Meaning);

    let tantivy = Tantivy::merged(corpus(many));
    let raw = p50("tantivy, everything", QUESTIONS, |n| drop(tantivy.top10(&asked.questions[n])));
    let counted = p50("tantivy, everything, and how many match", QUESTIONS, |n| {
        drop(tantivy.top10_counted(&asked.questions[n]));
    });
    p50("tantivy, 4 % visible", QUESTIONS, |n| drop(tantivy.top10_in(&asked.questions[n], &asked.scopes[n])));
    drop(tantivy);
    let fts5 = Fts5::new(corpus(many));
    p50("FTS5, 4 % visible", FEW, |n| drop(fts5.top10_in(&asked.questions[n], &asked.scopes[n])));
    drop(fts5);
    let naive = Naive::new(corpus(many));
    p50("a scan of all words, 4 % visible", FEW, |n| {
        drop(naive.top10_in(&asked.questions[n], &asked.scopes[n]))
    });
    drop(naive);

    let mut in_scope = vec![0usize; asked.all.len()];
    corpus(many).for_each(|text| in_scope[text.scope as usize] += 1);
    let mut seen: Vec<usize> = asked
        .scopes
        .iter()
        .map(|scopes| scopes.iter().map(|scope| in_scope[*scope as usize]).sum())
        .collect();
    seen.sort_unstable();
    let floor = |rows: usize| bandwidth::read_seconds(rows * embed::DIM) * 1e6;
    ratio("words, 4 % visible ÷ tantivy, everything", few_seen, raw, 0.2);
    ratio("words, all visible ÷ tantivy, everything", all_seen, raw, 1.3);
    ratio("words, all visible ÷ tantivy, and how many", all_seen, counted, 1.0);
    ratio("8 segments and a tail ÷ one, 4 % visible", spread, few_seen, 3.0);
    ratio("8 segments and a tail ÷ one, all visible", spread_all, all_seen, 3.0);
    ratio("meaning, 4 % visible ÷ reading its bytes", meant, floor(seen[QUESTIONS / 2]), 1.3);
    ratio("meaning, all visible ÷ reading its bytes", meant_all, floor(many), 1.3);
    println!("  words and meaning together: {both:.0} µs with {SHARE} visible, {both_all:.0} µs with all");
    recall(&one, asked, many, search);
}

/// An index of eight segments with a tail in memory.
fn in_segments(directory: &Directory, many: usize) -> Index {
    let stop = AtomicBool::new(false);
    let writer = directory.lock(&stop).expect("writable").expect("nobody else");
    let mut texts = corpus(many).zip(1..).peekable();
    let size = (many - TAIL.min(many / 2)).div_ceil(SEGMENTS);
    for _ in 0..SEGMENTS {
        let (mut memory, Reached { mut at, .. }): (Memory, Reached) = writer.begin().expect("readable");
        for (text, number) in texts.by_ref().take(size) {
            at = number;
            memory.change(at, at - 1, false, Some(version(&text)));
        }
        writer.append(&memory, Reached { at, source: String::new() }).expect("writable");
    }
    let (mut index, _) = directory.open(None).expect("readable");
    index.known().load_vectors(&stop).expect("readable");
    let (mut rest, Reached { mut at, .. }): (Memory, Reached) = writer.begin().expect("readable");
    for (text, number) in texts {
        at = number;
        index.change(at, at - 1, false, Some(version(&text))).expect("memory");
        rest.change(at, at - 1, false, Some(version(&text)));
    }
    writer.append(&rest, Reached { at, source: String::new() }).expect("writable");
    index
}

fn version(text: &Text) -> Version {
    let document = Document { title: &text.title, body: &text.body, ..Document::default() };
    Version {
        group: text.scope,
        limits: Limits::NONE,
        marks: Vec::new(),
        prepared: Prepared::new(&document, &Embedder::Table),
    }
}

/// Measures recall: how many of the ten nearest texts by exact vectors are among the ten found.
fn recall(
    index: &Index,
    asked: &Workload,
    many: usize,
    search: impl Fn(&Index, usize, &[u32], By) -> Vec<u32>,
) {
    let mut texts_with: HashMap<Arc<str>, u32> = HashMap::new();
    let mut vectors: Vec<f32> = Vec::with_capacity(many * embed::DIM);
    for text in corpus(many) {
        let whole = format!("{} {}", text.title, text.body);
        for term in lex::terms(&whole).into_iter().collect::<HashSet<_>>() {
            *texts_with.entry(term).or_default() += 1;
        }
        vectors.extend(embed::passage_vector(&embed::tokens(&whole)));
    }
    // The weight of a word of the question: the rarer it is in the texts, the higher. All texts are in sight.
    let rarity = |term: &str| {
        let all = many as f32;
        match texts_with.get(term) {
            Some(some) => (1.0 + (all - *some as f32 + 0.5) / (*some as f32 + 0.5)).ln(),
            None => (1.0 + all).ln(),
        }
    };
    let rows: Vec<u32> = (0..many as u32).collect();
    let (mut found, mut of) = (0, 0);
    for number in 0..FEW {
        let text = &asked.questions[number];
        // A stop word gets no rarity here; `weighted_words` knows its weight.
        let sought = lex::terms(text);
        let is_sought = |term: &str| sought.iter().any(|it| **it == *term);
        let words = weighted_words(text, |term| is_sought(term).then(|| rarity(term)));
        let question = embed::question_vector(&words);
        let exact = exact::exact_top10(&vectors, embed::DIM, &question, &rows);
        let ours: HashSet<u32> = search(index, number, &asked.all, By::Meaning).into_iter().collect();
        found += exact.iter().filter(|row| ours.contains(row)).count();
        of += exact.len();
    }
    println!("  recall@10 against exact vectors: {:.3}  (at least 0.99)", found as f64 / of as f64);
}
