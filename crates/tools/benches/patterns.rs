//! The cost of `search_patterns`, compared with the bare search of the same texts.
//!
//! `cargo bench -p kenning-tools --bench patterns`
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use kenning_engine::{By, DocumentKind, Engine, Format, Intake, Question};
use kenning_model::ScopeId;
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::catalogue::{Fate, catalogue};
use kenning_testkit::corpus::questions;
use kenning_testkit::measure::{p50, ratio};
use kenning_testkit::{TempStore, intake};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const ASKED: usize = 300;
const TIMES: f64 = 3.0;

fn main() {
    for many in [300, 30_000] {
        measure(many);
    }
}

fn measure(many: usize) {
    let (patterns, texts) = (TempStore::new(), TempStore::new());
    let [patterns, texts] =
        [&patterns, &texts].map(|store| Engine::new(store.path().to_owned(), Engine::real_sources()));
    let since = Instant::now();
    let files = load(many, &patterns, &texts);
    println!(
        "{files} patterns of {many} files, and the same texts as entries, {:.0} s",
        since.elapsed().as_secs_f64()
    );
    for engine in [&patterns, &texts] {
        engine.rebuild().expect("the index is built");
    }
    let caller = Caller::new(None, "bench".into(), "global:default".into());
    let call = |tool: &str, arguments: Value| {
        let arguments = arguments.as_object().expect("an object").clone();
        let reply = dispatch(&patterns, &caller, Access::ReadOnly, find(tool).expect("a tool"), arguments);
        assert!(!reply.is_error, "{}", reply.structured);
        reply.structured
    };
    let since = Instant::now();
    call("search_patterns", json!({"q": "first"}));
    println!("first question of a process {:.3} s", since.elapsed().as_secs_f64());
    let asked = questions(ASKED);
    let total: u64 = asked
        .iter()
        .filter_map(|q| {
            call("search_patterns", json!({"q": q, "difficulty": "beginner"}))["metadata"]["totalCount"]
                .as_u64()
        })
        .sum();
    println!("{:.1} beginners' patterns match a question", total as f64 / ASKED as f64);
    let bare = p50("bare hybrid search, best 10", ASKED, |at| {
        let snapshot = texts.snapshot(&kenning_testkit::owner()).expect("a snapshot");
        let sight = snapshot.sight_of(vec![ScopeId::GLOBAL_DEFAULT]);
        let question = Question {
            sight: &sight,
            topic: None,
            content: Some(&asked[at]),
            tags: &[],
            visible_at: None,
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: false,
        };
        snapshot.search(&question, 0..10).expect("an answer");
    });
    for (name, more) in [
        ("search_patterns", json!({})),
        ("search_patterns, both", json!({"format": "both"})),
        ("search_patterns of a difficulty", json!({"difficulty": "beginner"})),
    ] {
        let ours = p50(name, ASKED, |at| {
            let mut arguments = more.clone();
            arguments["q"] = json!(asked[at]);
            call("search_patterns", arguments);
        });
        ratio(&format!("{name} ÷ bare search"), ours, bare, TIMES);
    }
    p50("get_pattern", ASKED, |at| {
        call("get_pattern", json!({"id": format!("pattern-{}", at * many / ASKED + 1)}));
    });
}

/// Loads patterns, and the same texts as entries; returns how many of the files are patterns.
fn load(many: usize, patterns: &Engine, texts: &Engine) -> usize {
    let intake = Intake { kind: DocumentKind::Pattern, ..intake("catalogue") };
    let mut files = 0;
    for file in catalogue(many) {
        let Fate::Pattern(expected) = &file.fate else { continue };
        let format = Format::of(Path::new(&file.path)).expect("Markdown");
        let content = String::from_utf8_lossy(&file.bytes).into_owned();
        let prepared =
            intake.prepare(&file.path, format, file.bytes, &|_| None, None).expect("it can be read");
        intake.put(patterns, prepared.expect("it is new").document).expect("it is taken in");
        let entry = NewEntry {
            scope: ScopeId::GLOBAL_DEFAULT,
            topic: expected.title.clone(),
            content,
            context: None,
            tags: Vec::new(),
            task_sizes: Vec::new(),
            source: None,
            confidence: None,
            valid_from: None,
            valid_to: None,
            pinned: false,
            follows: None,
        };
        let (principal, tool) = (kenning_model::Principal::owner("bench", "bench").into(), "store".into());
        texts
            .commit(Request { principal, tool, write: Write::Store(entry), keyed: None })
            .expect("it is stored");
        files += 1;
    }
    files
}
