//! The cost of a result set for the reply that names it, and for its readers.
//!
//! `cargo bench -p kenning-tools --bench sets`
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use kenning_engine::Engine;
use kenning_model::ScopeId;
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::TempStore;
use kenning_testkit::corpus::{questions, text};
use kenning_testkit::measure::{p50, ratio};
use kenning_tools::{Access, Caller, ResultSets, SETS_FILE, SetStore, dispatch, find};
use serde_json::{Value, json};

const ENTRIES: usize = 10_000;
const ASKED: usize = 300;
const TIMES: f64 = 1.5;

fn main() {
    let store = TempStore::new();
    let engine = Arc::new(Engine::new(store.path().to_owned(), Engine::real_sources()));
    for number in 0..ENTRIES {
        let text = text(number);
        let write = Write::Store(NewEntry::new(ScopeId::GLOBAL_DEFAULT, text.title, text.body));
        let (principal, tool) = (kenning_model::Principal::owner("bench", "bench").into(), "store".into());
        engine.commit(Request { principal, tool, write, keyed: None }).expect("it is stored");
    }
    engine.rebuild().expect("the index is built");
    let without = Caller::new(None, "bench".into(), "global:default".into());
    let sets = ResultSets::new(SetStore::new(engine.clone(), Some(store.path().join(SETS_FILE))), None);
    let with = Caller { sets: Some(Arc::new(sets)), ..without.clone() };
    let call = |caller: &Caller, tool: &str, arguments: Value| {
        let arguments = arguments.as_object().expect("an object").clone();
        let reply = dispatch(&engine, caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
        assert!(!reply.is_error, "{}", reply.structured);
        reply.structured
    };
    let asked = questions(ASKED);
    let bare = p50("query, 20 of its matches", ASKED, |at| {
        call(&without, "query", json!({"content": asked[at]}));
    });
    let ours = p50("query with a set behind it", ASKED, |at| {
        call(&with, "query", json!({"content": asked[at]}));
    });
    ratio("with a set ÷ without", ours, bare, TIMES);
    let all = call(&with, "query", json!({"limit": 1}))["resource"]["uri"].clone();
    p50("read_rows, 100 of 10,000", ASKED, |at| {
        call(&with, "read_rows", json!({"resource": all, "offset": at * 30}));
    });
    for _ in 0..2 {
        p50("read_rows in another order", 1, |_| {
            call(&with, "read_rows", json!({"resource": all, "sort": {"field": "topic"}}));
        });
    }
}
