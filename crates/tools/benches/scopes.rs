//! The cost of scopes: the context of a task compared with a single search, and changes of the tree of scopes
//! in a small and in a large store.
//!
//! `cargo bench -p kenning-tools --bench scopes`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use kenning_engine::Engine;
use kenning_model::{ScopeId, ScopeName};
use kenning_presentation::Reply;
use kenning_storage::{NewEntry, NewNamespace, NewScope, Request, Write};
use kenning_testkit::TempStore;
use kenning_testkit::corpus::{SCOPES, corpus, questions};
use kenning_testkit::measure::{p50, ratio};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const ENTRIES: [usize; 2] = [1_000, 100_000];
const DEPTH: usize = 10;
const ASKED: usize = 200;
const QUERIES: usize = 5;
const AT_ONCE: usize = 1_000;
const RENAMES: usize = 40;

fn main() {
    let mut renames = Vec::new();
    for many in ENTRIES {
        println!("\n{many} entries in {SCOPES} scopes, {DEPTH} levels");
        let store = TempStore::new();
        let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
        let scopes = Tree::make(&engine);
        load(&engine, many);
        engine.rebuild().expect("the index is built");
        if many == ENTRIES[1] {
            context(&engine, &scopes);
        }
        renames.push(rename(&engine));
        delete(&engine);
    }
    ratio("rename with 100,000 entries ÷ with 1,000", renames[1], renames[0], 1.5);
}

/// The scopes of one namespace, level below level. Each has a parent on the level above, and some have two.
struct Tree {
    lowest: Vec<String>,
}

impl Tree {
    fn make(engine: &Engine) -> Tree {
        let about = || "for a benchmark".to_owned();
        commit(engine, Write::CreateNamespace(NewNamespace { name: "org".into(), description: about() }));
        // Scope number 1 is built in, and 2 is the default of the namespace.
        let each = (SCOPES - 2).div_ceil(DEPTH);
        let name = |level: usize, at: usize| ScopeName::new("org", &format!("s{level}-{at}"));
        for number in 0..SCOPES - 2 {
            let (level, at) = (number / each, number % each);
            let mut parents: Vec<ScopeName> = (level > 0).then(|| name(level - 1, at)).into_iter().collect();
            if level > 0 && at % 4 == 0 {
                parents.push(name(level - 1, (at + 1) % each));
            }
            commit(
                engine,
                Write::CreateScope(NewScope { name: name(level, at), description: about(), parents }),
            );
        }
        let last = (SCOPES - 3) / each;
        Tree { lowest: (0..(SCOPES - 2) % each).map(|at| name(last, at).to_string()).collect() }
    }
}

fn load(engine: &Engine, many: usize) {
    let mut entries =
        corpus(many).map(|text| NewEntry::new(ScopeId(text.scope + 1), text.title, text.body)).peekable();
    while entries.peek().is_some() {
        commit(engine, Write::StoreAll(entries.by_ref().take(AT_ONCE).collect()));
    }
}

/// Compares five queries at once with one search, both through the tools, from scopes at the bottom of the
/// tree.
fn context(engine: &Engine, tree: &Tree) {
    let asked = questions(ASKED + QUERIES);
    let scope = |number: usize| &tree.lowest[number % tree.lowest.len()];
    let one = p50("query, one scoped search", ASKED, |n| {
        call(engine, "query", json!({"content": asked[n], "scope": scope(n)}));
    });
    let mut found = 0;
    let five = p50("get_task_context, five queries", ASKED, |n| {
        let reply =
            call(engine, "get_task_context", json!({"queries": asked[n..n + QUERIES], "scope": scope(n)}));
        found += reply
            .structured
            .as_object()
            .map_or(0, |scopes| scopes.values().filter_map(Value::as_object).map(serde_json::Map::len).sum());
    });
    println!("  entries in a context, on average {:>27.1}", found as f64 / (2 * ASKED) as f64);
    ratio("five queries ÷ one search", five, one, 5.0);
    p50("history of a scope, first page", ASKED, |n| {
        drop(call(engine, "history", json!({"scope": scope(n)})))
    });
}

/// Renames the namespace back and forth; each rename is a durable transaction.
fn rename(engine: &Engine) -> f64 {
    let names = ["org", "renamed"];
    p50("rename of the namespace", RENAMES, |n| {
        call(engine, "update_namespace", json!({"name": names[n % 2], "new_name": names[(n + 1) % 2]}));
    })
}

fn delete(engine: &Engine) {
    let since = Instant::now();
    let deleted = call(engine, "delete_namespace", json!({"name": "org"}));
    let took = since.elapsed().as_secs_f64();
    println!("delete_namespace with {} entries: {took:.2} s", deleted.structured["knowledge_count"]);
    let since = Instant::now();
    call(engine, "undo", json!({"tx_id": deleted.structured["tx_id"]}));
    println!("undo of it: {:.2} s", since.elapsed().as_secs_f64());
    let since = Instant::now();
    call(engine, "history", json!({}));
    println!("history after both: {:.3} s", since.elapsed().as_secs_f64());
}

fn call(engine: &Engine, tool: &str, arguments: Value) -> Reply {
    let caller = Caller::new(None, "bench".into(), "global:default".into());
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let reply = dispatch(engine, &caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
    assert!(!reply.is_error, "{}", reply.structured);
    reply
}

fn commit(engine: &Engine, write: Write) {
    let (principal, tool) = (kenning_model::Principal::owner("bench", "bench").into(), "bench".into());
    engine.commit(Request { principal, tool, write, keyed: None }).expect("it is committed");
}
