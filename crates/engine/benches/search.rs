//! What a question costs at size: the first one, which builds the index, and those after it.
//!
//! `cargo bench -p kenning-engine --bench search`; a number behind `--` sets how many entries.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use kenning_engine::{Engine, Question};
use kenning_model::ScopeId;
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::{TempStore, scrambled};

const ENTRIES: usize = 100_000;
const QUESTIONS: usize = 200;
const SCOPES: [ScopeId; 1] = [ScopeId::GLOBAL_DEFAULT];

fn main() {
    let entries = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(ENTRIES);
    let store = TempStore::in_memory();
    fill(&Engine::new(store.path().to_owned(), Engine::real_sources()), entries);
    let before = resident();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    let first = timed(|| ask(&engine, 0));
    println!(
        "{entries} entries: first question {:.0} ms, index {} MB",
        first.as_secs_f64() * 1e3,
        resident() - before
    );
    let mut times: Vec<Duration> = (1..=QUESTIONS).map(|number| timed(|| ask(&engine, number))).collect();
    times.sort();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
    println!("question of 5 words, 20 hits read from the store: p50 {:.0} µs, p99 {:.0} µs", at(50), at(99));
    let mut fresh: Vec<Duration> = Vec::new();
    for number in 0..QUESTIONS {
        put(&engine, entries + number);
        fresh.push(timed(|| ask(&engine, number)));
    }
    fresh.sort();
    println!("the same after a write each: p50 {:.0} µs", fresh[fresh.len() / 2].as_secs_f64() * 1e6);
}

fn fill(engine: &Engine, entries: usize) {
    std::thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || (thread..entries).step_by(16).for_each(|number| put(engine, number)));
        }
    });
}

fn put(engine: &Engine, number: usize) {
    let new = NewEntry::new(
        ScopeId::GLOBAL_DEFAULT,
        text(number as u64, 3),
        text(number as u64 + 1_000_000_000, 70),
    );
    let (actor, origin, tool) = ("bench".into(), "bench".into(), "store".into());
    engine.commit(Request { actor, origin, tool, write: Write::Store(new), keyed: None }).expect("a write");
}

fn ask(engine: &Engine, number: usize) -> u64 {
    let text = text(number as u64 + 5_000_000_000, 5);
    let question = Question {
        scopes: &SCOPES,
        topic: None,
        content: Some(&text),
        tags: &[],
        visible_at: Some(engine.now()),
        explain: false,
    };
    engine.snapshot().expect("a snapshot").search(&question, 0..20).expect("an answer").total
}

/// Words of the table's own vocabulary, the early ones often and the late ones seldom, as in real text.
fn text(seed: u64, words: usize) -> String {
    static VOCABULARY: &str = include_str!("../../retrieval/model/vocab.txt");
    static WORDS: std::sync::LazyLock<Vec<&str>> = std::sync::LazyLock::new(|| {
        VOCABULARY.lines().skip(1996).take(20_000).filter(|w| !w.starts_with('#')).collect()
    });
    let mut state = seed;
    let mut text = String::new();
    for _ in 0..words {
        state = scrambled(state);
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (WORDS.len() as f64).powf(share) as usize;
        text.push_str(WORDS[rank.min(WORDS.len() - 1)]);
        text.push(' ');
    }
    text
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let since = Instant::now();
    work();
    since.elapsed()
}

/// Resident memory in megabytes, where the system tells.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0)
        / 1024
}
