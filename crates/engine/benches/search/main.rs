//! The cost of questions on a large store, compared with other engines and with the lower bound, all in one
//! run.
//!
//! `cargo bench -p kenning-engine --bench search`; numbers after `--` set how many texts, `words` measures
//! only the index and `whole` only the engine.
#![allow(clippy::print_stdout)]

mod bandwidth;
mod engine;
mod exact;
mod fts5;
mod index;
mod naive;
mod tantivy_peer;

use kenning_testkit::corpus::{questions, visible};

const TEXTS: usize = 100_000;
const QUESTIONS: usize = 200;
/// The share of all texts that a question sees, on average.
const SHARE: f64 = 0.04;

/// The questions, and the scopes that each of them may see.
pub struct Workload {
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
    let asked = Workload { questions: questions(QUESTIONS), scopes, all: visible(0, 1.0) };
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
