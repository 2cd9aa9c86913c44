//! The cost of the tools over documents, compared with the bare search of the same sections.
//!
//! `cargo bench -p kenning-tools --bench documents`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use kenning_engine::{Engine, SectionQuestion};
use kenning_model::ScopeId;
use kenning_testkit::corpus::{questions, text};
use kenning_testkit::measure::{p50, ratio};
use kenning_testkit::{TempStore, take_in};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const DOCUMENTS: usize = 10_000;
const SECTIONS: usize = 10;
const ASKED: usize = 200;
const TRIPLES: usize = 2_000;
const TIMES: f64 = 5.0;

fn main() {
    let store = TempStore::new();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    let since = Instant::now();
    load(&engine);
    println!("{DOCUMENTS} documents taken in, {:.0} s", since.elapsed().as_secs_f64());
    engine.rebuild().expect("the index is built");
    let caller = Caller::new(None, "bench".into(), "global:default".into());
    let call = |tool: &str, arguments: Value| {
        let arguments = arguments.as_object().expect("an object").clone();
        let reply = dispatch(&engine, &caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
        assert!(!reply.is_error, "{}", reply.structured);
        reply.structured
    };
    for number in 0..TRIPLES {
        let (subject, object) =
            (format!("service {}", number % 300), format!("service {}", number * 7 % 300));
        call(
            "relate",
            json!({"subject": subject, "predicate": format!("uses {}", number % 20), "object": object}),
        );
    }
    let since = Instant::now();
    call("graph.describe", json!({"node_ids": ["service 1"]}));
    println!("graph of {} sections read in {:.2} s", DOCUMENTS * SECTIONS, since.elapsed().as_secs_f64());
    let asked = questions(ASKED);
    let bare = p50("bare hybrid search, best 10", ASKED, |at| {
        let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot");
        let sight = snapshot.sight_of(vec![ScopeId::GLOBAL_DEFAULT]);
        let question = SectionQuestion { sight: &sight, text: &asked[at], only: &[], as_written: false };
        snapshot.search_passages(&question, 0..10).expect("an answer");
    });
    for (tool, argument) in [("kb.search", "query"), ("kb.retrieve_evidence", "question")] {
        let ours = p50(tool, ASKED, |at| {
            call(tool, json!({argument: asked[at]}));
        });
        ratio(&format!("{tool} ÷ bare search"), ours, bare, TIMES);
        let without = p50(&format!("{tool}, vector_only"), ASKED, |at| {
            call(tool, json!({argument: asked[at], "options": {"mode": "vector_only"}}));
        });
        ratio(&format!("{tool}, vector_only ÷ bare search"), without, bare, TIMES);
    }
}

/// Documents with headings, links to each other, and code that several of them mention.
fn load(engine: &Engine) {
    for number in 0..DOCUMENTS {
        let mut page = format!("# {}\n\n", text(number * SECTIONS).title);
        for at in 1..=SECTIONS {
            let part = text(number * SECTIONS + at);
            let (link, code) = ((number * 31 + at * 7) % DOCUMENTS, (number + at * 13) % 2_000);
            page += &format!(
                "## {}\n\n{} See [there](p{link}.md) and `run_job_{code}`.\n\n",
                part.title, part.body
            );
        }
        take_in(engine, "corpus", &format!("p{number}.md"), &page);
    }
}
