//! Whole questions in process, and the time and memory that a store of this size takes to load and to open.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use kenning_engine::{By, Engine, Question};
use kenning_model::ScopeId;
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::corpus::{SCOPES, Text, corpus, questions, text, visible};
use kenning_testkit::measure::p50;
use kenning_testkit::{TempStore, make_scopes};

use crate::{QUESTIONS, Workload};

/// The flag with which this program opens a store that another run of it has filled.
pub const OPEN: &str = "--open";
const AT_ONCE: usize = 1_000;

pub fn measure(many: usize, asked: &Workload) {
    let store = TempStore::new();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    make_scopes(&engine, SCOPES as u32);
    let new = |text: Text| NewEntry::new(ScopeId(text.scope + 1), text.title, text.body);
    let mut entries = corpus(many).map(new).collect::<Vec<_>>().into_iter();
    let since = Instant::now();
    while entries.len() > 0 {
        load(&engine, entries.by_ref().take(AT_ONCE).collect());
    }
    let stored = since.elapsed().as_secs_f64();
    ask(&engine, &asked.questions[0], &ids(&asked.all));
    let searchable = since.elapsed().as_secs_f64();
    println!(
        "load: {:.0} a second stored, {:.0} a second searchable  (at least 15,000)",
        many as f64 / stored,
        many as f64 / searchable
    );
    engine.rebuild().expect("it can be built");
    drop(engine);
    let itself = std::env::current_exe().expect("this program");
    let opened = Command::new(itself).arg(OPEN).arg(store.path()).status().expect("this program runs");
    assert!(opened.success());

    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    let scopes: Vec<Vec<ScopeId>> = asked.scopes.iter().map(|scopes| ids(scopes)).collect();
    p50("query in process, 4 % visible", QUESTIONS, |n| ask(&engine, &asked.questions[n], &scopes[n]));
    let all = ids(&asked.all);
    p50("query in process, all visible", QUESTIONS, |n| ask(&engine, &asked.questions[n], &all));
    p50("query in process, 4 % visible, after a write", QUESTIONS, |n| {
        let text = text(n);
        load(&engine, vec![NewEntry::new(ScopeId(text.scope + 1), text.title, text.body)]);
        ask(&engine, &asked.questions[n], &scopes[n]);
    });
}

/// Runs in a separate process: measures the time until the first answer, and the memory at the end.
pub fn open(dir: &Path) {
    let asked: Vec<String> = questions(QUESTIONS);
    let some: Vec<ScopeId> = ids(&visible(1, 0.04));
    let engine = Engine::new(dir.to_owned(), Engine::real_sources());
    let since = Instant::now();
    ask(&engine, &asked[0], &some);
    println!("open to the first answer: {:.0} ms  (at most 50)", since.elapsed().as_secs_f64() * 1e3);
    let before = resident();
    while !engine.is_warm() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!("  all vectors in memory after {:.0} ms  (at most 1000)", since.elapsed().as_secs_f64() * 1e3);
    let all = ids(&visible(0, 1.0));
    asked.iter().for_each(|question| ask(&engine, question, &all));
    println!(
        "  resident: {before} MB after the first answer, {} MB after {QUESTIONS} more  (at most 400)",
        resident()
    );
}

fn ids(scopes: &[u32]) -> Vec<ScopeId> {
    scopes.iter().map(|scope| ScopeId(scope + 1)).collect()
}

fn load(engine: &Engine, entries: Vec<NewEntry>) {
    let (principal, tool) = (kenning_model::Principal::owner("bench", "bench").into(), "store".into());
    engine
        .commit(Request { principal, tool, write: Write::StoreAll(entries), keyed: None })
        .expect("a write");
}

fn ask(engine: &Engine, text: &str, scopes: &[ScopeId]) {
    let content = Some(text);
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
    let sight = snapshot.sight_of(scopes.to_vec());
    let question = Question {
        sight: &sight,
        topic: None,
        content,
        tags: &[],
        visible_at: Some(engine.now()),
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: false,
    };
    snapshot.search(&question, 0..10).expect("an answer");
}

/// Resident memory in megabytes, or 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0)
        / 1024
}
