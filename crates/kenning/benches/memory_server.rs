//! Compares `store` and `query` with the official memory server: both run over stdio with 10,000 facts, and
//! the calls alternate.
//!
//! `scripts/bench-memory-server` installs the other server and runs this benchmark; `-- DIST/INDEX.JS` is the
//! path of that server.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use serde_json::{Value, json};

const FACTS: usize = 10_000;
const CALLS: usize = 200;
/// The first calls open files and fill caches.
const WARM_UP: usize = 10;
/// How many facts contain each name.
const FACTS_PER_NAME: usize = 5;
const ENTRIES_PER_CALL: usize = 100;
/// The name of a host that most clients resemble; replies depend on the client's name.
const CLIENT: &str = "claude-code";

fn main() {
    let Some(other) = std::env::args().find(|argument| argument.ends_with(".js")) else {
        println!("skipped: run scripts/bench-memory-server, which installs the other server");
        return;
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let mut ours = start_kenning(&dir.path().join("kenning"));
    let mut theirs = start_other(&other, &dir.path().join("memory.jsonl"));
    let store = measure(|call| {
        let number = FACTS + call;
        let (name, text) = (name_of(number), text_of(number));
        let ours = timed(&mut ours, "store", json!({"topic": name, "content": text}));
        (ours, timed(&mut theirs, "create_entities", json!({"entities": [entity(number)]})))
    });
    report("store", store);
    let find = measure(|call| {
        // The names come in a shuffled order, so that neither server can reuse its last answer.
        let name = name_of(call * 7_919 % FACTS);
        let found = timed(&mut ours, "query", json!({"content": name}));
        (found, timed(&mut theirs, "search_nodes", json!({"query": name})))
    });
    report("find", find);
}

/// The median times of Kenning and of the other server.
fn measure(mut calls: impl FnMut(usize) -> (Duration, Duration)) -> [Duration; 2] {
    let (ours, theirs): (Vec<Duration>, Vec<Duration>) =
        (0..WARM_UP + CALLS).map(&mut calls).skip(WARM_UP).unzip();
    [ours, theirs].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

fn report(what: &str, [ours, theirs]: [Duration; 2]) {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what}: p50 {:.2} ms, official memory server {:.1} ms: {:.1} times as fast",
        milliseconds(ours),
        milliseconds(theirs),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn start_kenning(data: &Path) -> Client {
    std::fs::create_dir(data).expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.arg("serve").arg("--data-dir").arg(data).current_dir(data);
    let mut client = Client::start(command, Era::Modern, CLIENT).expect("the server starts");
    let entry = |number| json!({"topic": name_of(number), "content": text_of(number)});
    for first in (0..FACTS).step_by(ENTRIES_PER_CALL) {
        let entries: Vec<Value> = (first..first + ENTRIES_PER_CALL).map(entry).collect();
        client.call("store_many", json!({"entries": entries})).expect("the server answers");
    }
    client
}

/// Starts the other server with the same facts in its file, one on each line.
fn start_other(script: &str, file: &Path) -> Client {
    let line = |number| {
        let mut line = entity(number);
        line["type"] = json!("entity");
        format!("{line}\n")
    };
    std::fs::write(file, (0..FACTS).map(line).collect::<String>()).expect("a file");
    let mut command = Command::new("node");
    command.arg(script).env("MEMORY_FILE_PATH", file).stderr(std::process::Stdio::null());
    Client::start(command, Era::Legacy, CLIENT).expect("the other server starts")
}

fn entity(number: usize) -> Value {
    json!({"name": format!("{}-{number}", name_of(number)), "entityType": "fact", "observations": [text_of(number)]})
}

/// An invented name, such as a service or a customer could have.
fn name_of(number: usize) -> String {
    const SYLLABLES: [&str; 16] = [
        "ka", "ri", "bo", "te", "lun", "mor", "sa", "vi", "den", "pol", "ur", "ne", "gam", "fi", "zor", "hel",
    ];
    let name = kenning_testkit::scrambled((number % (FACTS / FACTS_PER_NAME)) as u64);
    (0..4).map(|at| SYLLABLES[(name >> (8 * at)) as usize % SYLLABLES.len()]).collect()
}

/// A text of about 120 bytes.
fn text_of(number: usize) -> String {
    const WORDS: [&str; 24] = [
        "deploy", "release", "rollback", "cache", "token", "session", "index", "queue", "worker", "schema",
        "tenant", "latency", "budget", "cursor", "replica", "backup", "shard", "metric", "alert", "runbook",
        "gateway", "retry", "ledger", "policy",
    ];
    let mut seed = number as u64;
    let mut text = format!("{} is known for", name_of(number));
    while text.len() < 110 {
        seed = kenning_testkit::scrambled(seed);
        text.push(' ');
        text.push_str(WORDS[(seed % 24) as usize]);
    }
    text
}

/// How long a call takes. Its reply must not be empty.
fn timed(client: &mut Client, tool: &str, arguments: Value) -> Duration {
    let since = Instant::now();
    let reply = client.call_whole(tool, arguments).expect("the server answers");
    let took = since.elapsed();
    assert!(reply["isError"] != true, "{tool}: {reply}");
    let structured = &reply["structuredContent"];
    let list = structured.get("items").or(structured.get("entities"));
    assert!(list.is_none_or(|list| list.as_array().is_some_and(|list| !list.is_empty())), "{tool}: {reply}");
    took
}
