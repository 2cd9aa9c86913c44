//! What a question costs at size, beside what it costs elsewhere and what it must cost at least, all in one run.
//!
//! `cargo bench -p kenning-engine --bench search`; numbers behind `--` set how many texts, `words` or `whole` does only
//! the index or only the engine.
#![allow(clippy::print_stdout)]

mod bandwidth;
mod chance;
mod corpus;
mod engine;
mod exact;
mod fts5;
mod index;
mod naive;
mod questions;
mod tantivy_peer;

use std::time::Instant;

use crate::questions::{questions, visible};

const TEXTS: usize = 100_000;
const QUESTIONS: usize = 200;
/// Of all texts, on average.
const SHARE: f64 = 0.04;

/// What is asked, and which scopes each question may see.
pub struct Asked {
    pub questions: Vec<String>,
    pub scopes: Vec<Vec<u32>>,
    pub all: Vec<u32>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, dir, ..] = arguments.as_slice()
        && flag == engine::OPEN
    {
        return engine::open(dir.as_ref());
    }
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.push(TEXTS);
    }
    let scopes = (0..QUESTIONS).map(|number| visible(number, SHARE)).collect();
    let asked = Asked { questions: questions(QUESTIONS), scopes, all: visible(0, 1.0) };
    for many in sizes {
        println!("\n{many} texts");
        if !has("whole") {
            index::measure(many, &asked);
        }
        if !has("words") {
            engine::measure(many, &asked);
        }
    }
}

/// Asks once for warmth, then once for the time; gives the median in microseconds.
pub fn p50(name: &str, many: usize, mut ask: impl FnMut(usize)) -> f64 {
    (0..many).for_each(&mut ask);
    let mut times: Vec<f64> = (0..many)
        .map(|number| {
            let since = Instant::now();
            ask(number);
            since.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<52} p50 {:>8.0} µs, p99 {:>8.0} µs", times[many / 2], times[many * 99 / 100]);
    times[many / 2]
}

pub fn ratio(name: &str, ours: f64, theirs: f64, bar: f64) {
    println!("  {name:<50} {:>8.3}  (at most {bar})", ours / theirs);
}
