//! The peers and floors of search, each built and asked at one size.
//!
//! `cargo bench -p kenning-engine --bench search`; a number behind `--` sets how many texts.
#![allow(clippy::print_stdout)]

mod bandwidth;
mod chance;
mod corpus;
mod exact;
mod fts5;
mod naive;
mod questions;
mod tantivy_peer;

use std::collections::HashSet;
use std::time::Instant;

use kenning_retrieval::embed;

use crate::corpus::corpus;
use crate::fts5::Fts5;
use crate::naive::Naive;
use crate::questions::{questions, visible};
use crate::tantivy_peer::Tantivy;

const TEXTS: usize = 20_000;
const QUESTIONS: usize = 200;
/// For what takes a second each at a million.
const FEW: usize = 20;
const SHARE: f64 = 0.04;

type Top10 = Vec<u32>;

fn main() {
    let many = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(TEXTS);
    let questions = questions(QUESTIONS);
    let scopes: Vec<Vec<u32>> = (0..QUESTIONS).map(|number| visible(number, SHARE)).collect();
    let all = visible(0, 1.0);
    describe(many, &scopes);

    let merged = built("tantivy, one segment", || Tantivy::merged(corpus(many)));
    let naive = built("naive", || Naive::new(corpus(many)));
    let everything = asked("tantivy, everything", QUESTIONS, |n| merged.top10(&questions[n]));
    let some = asked("tantivy, scopes", QUESTIONS, |n| merged.top10_in(&questions[n], &scopes[n]));
    let each =
        asked("tantivy, a clause a scope", QUESTIONS, |n| merged.top10_in_each(&questions[n], &scopes[n]));
    agree("tantivy, set and clauses", &some, &each);
    asked("tantivy, all scopes named", QUESTIONS, |n| merged.top10_in(&questions[n], &all));
    let same = asked("naive, scopes", QUESTIONS, |n| naive.top10_in(&questions[n], &scopes[n]));
    let same_everything = asked("naive, everything", FEW, |n| naive.top10_in(&questions[n], &all));
    agree("tantivy and naive, scopes", &some, &same);
    agree("tantivy and naive, everything", &everything, &same_everything);
    drop((merged, naive));

    let eight = built("tantivy, eight segments", || Tantivy::segmented(corpus(many)));
    let again = asked("tantivy, eight segments, everything", QUESTIONS, |n| eight.top10(&questions[n]));
    asked("tantivy, eight segments, scopes", QUESTIONS, |n| eight.top10_in(&questions[n], &scopes[n]));
    agree("tantivy, one and eight segments", &everything, &again);
    drop(eight);

    let fts5 = built("fts5", || Fts5::new(corpus(many)));
    let joined = asked("fts5, scopes joined", FEW, |n| fts5.top10_in(&questions[n], &scopes[n]));
    let worded = asked("fts5, scopes as words", FEW, |n| fts5.top10_in_words(&questions[n], &scopes[n]));
    agree("fts5 and naive", &joined, &same);
    agree("fts5, both ways", &joined, &worded);
    drop(fts5);

    let visible_bytes = (many as f64 * SHARE) as usize * embed::DIM;
    let seconds = bandwidth::read_seconds(visible_bytes);
    let rate = visible_bytes as f64 / seconds / 1e9;
    println!("{visible_bytes} bytes of vectors are read in {:.0} µs, {rate:.1} GB/s", seconds * 1e6);
    let vectors: Vec<f32> =
        corpus(many).flat_map(|text| embed::passage_vector(&embed::tokens(&text.body))).collect();
    let rows: Vec<u32> = corpus(many).zip(0..).filter(|(text, _)| text.scope < 2).map(|(_, n)| n).collect();
    asked(&format!("exact vectors, {} rows", rows.len()), FEW, |n| {
        let question = embed::passage_vector(&embed::tokens(&questions[n]));
        exact::exact_top10(&vectors, embed::DIM, &question, &rows)
    });
}

fn describe(many: usize, scopes: &[Vec<u32>]) {
    let mut in_scope = vec![0usize; corpus::SCOPES];
    let mut bytes = 0;
    for text in corpus(many) {
        in_scope[text.scope as usize] += 1;
        bytes += text.title.len() + text.body.len();
    }
    let seen = |scopes: &Vec<u32>| scopes.iter().map(|scope| in_scope[*scope as usize]).sum::<usize>();
    let mean = scopes.iter().map(seen).sum::<usize>() as f64 / scopes.len() as f64 / many as f64;
    println!("{many} texts of {} bytes, {:.1} % visible on average", bytes / many, mean * 100.0);
}

fn built<T>(name: &str, build: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let peer = build();
    println!("{name}: built in {:.1} s", since.elapsed().as_secs_f64());
    peer
}

/// Asks once for warmth, then once for the time.
fn asked(name: &str, many: usize, mut ask: impl FnMut(usize) -> Top10) -> Vec<Top10> {
    (0..many).for_each(|number| drop(ask(number)));
    let mut times = Vec::new();
    let answers = (0..many).map(|number| {
        let since = Instant::now();
        let answer = ask(number);
        times.push(since.elapsed().as_secs_f64() * 1e6);
        answer
    });
    let answers = answers.collect();
    times.sort_by(f64::total_cmp);
    println!("{name}: p50 {:.0} µs, p99 {:.0} µs", times[many / 2], times[many * 99 / 100]);
    answers
}

fn agree(name: &str, one: &[Top10], other: &[Top10]) {
    let (mut same, mut of) = (0, 0);
    for (one, other) in one.iter().zip(other) {
        let one: HashSet<&u32> = one.iter().collect();
        same += other.iter().filter(|number| one.contains(number)).count();
        of += other.len().max(one.len());
    }
    println!("{name}: {same} of {of} the same");
}
