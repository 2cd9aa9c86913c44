//! What each call costs as a store grows, over stdio: with 1,000 entries and as many triples, then with ten
//! times as many, and so on, all in one scope.
//!
//! `cargo bench -p kenning --bench growth`; numbers after `--` are the sizes. `--against KENNING` also
//! measures another build, before this one, and `--write` puts the table and the plot into `docs/`.
//! `scripts/growth` does all of it.
#![allow(clippy::print_stdout)]

mod plot;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use kenning_testkit::corpus::{questions, text};
use serde_json::{Value, json};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const WORDS: usize = 40;
const ENTRIES_PER_CALL: usize = 100;
const IN_FLIGHT: usize = 48;
/// Every triple has one of this many predicates.
const PREDICATES: usize = 8;
const CALLS: usize = 41;
/// The first calls fill caches.
const WARM_UP: usize = 5;
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// The name of a host that most clients resemble; replies depend on the client's name.
const CLIENT: &str = "claude-code";

/// Makes the method and the parameters of a measured call. The argument is another number for each call.
type Request = fn(usize) -> (&'static str, Value);

const READS: [(&str, Request); 9] = [
    ("`query`, the newest 20", |_| tool("query", json!({"limit": 20}))),
    ("`query`, three words", |n| tool("query", json!({"content": words(n, 3), "limit": 20}))),
    ("`query`, a sentence", |n| tool("query", json!({"content": questions(n + 1)[n], "limit": 20}))),
    ("`get_task_context`, one query", |n| tool("get_task_context", json!({"queries": queries(n, 1)}))),
    ("`get_task_context`, five queries", |n| tool("get_task_context", json!({"queries": queries(n, 5)}))),
    ("`history`, 20", |_| tool("history", json!({"limit": 20}))),
    ("`query_graph` by predicate, 20", |n| {
        tool("query_graph", json!({"predicate": predicate(n), "limit": 20}))
    }),
    ("`query_graph`, 20", |_| tool("query_graph", json!({"limit": 20}))),
    ("`resources/read`, a page of 20", |_| {
        ("resources/read", json!({"uri": "knowledge://entries?limit=20"}))
    }),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(PathBuf::from)
    };
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    let own = named("--program").unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_kenning")));
    let before = named("--against").map(|program| growth(&program, &sizes));
    let now = growth(&own, &sizes);
    let table = plot::table(&sizes, before.as_deref(), &now);
    println!("\n{table}");
    if arguments.iter().any(|argument| argument == "--write") {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        plot::write(&docs, &table, &sizes, before.as_deref(), &now).expect("docs/ can be written");
    }
}

/// The measurements of one operation, one value for each size.
pub struct Row {
    pub name: &'static str,
    /// Milliseconds; for rows of memory megabytes, and for rows of loads entries per second.
    pub values: Vec<f64>,
    pub is_time: bool,
}

fn growth(program: &Path, sizes: &[usize]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, many) in sizes.iter().enumerate() {
        println!("\n{many} entries and triples, {}", program.display());
        for (name, value, is_time) in measured(program, *many) {
            println!("{name:<40} {value:>10.2}");
            if at == 0 {
                rows.push(Row { name, values: Vec::new(), is_time });
            }
            if let Some(row) = rows.iter_mut().find(|row| row.name == name) {
                row.values.push(value);
            }
        }
    }
    rows
}

fn measured(program: &Path, many: usize) -> Vec<(&'static str, f64, bool)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let mut writer = start(program, dir.path());
    let since = Instant::now();
    fill(&mut writer, many.div_ceil(ENTRIES_PER_CALL), |call| {
        let first = call * ENTRIES_PER_CALL;
        let entries: Vec<Value> = (first..many.min(first + ENTRIES_PER_CALL)).map(entry).collect();
        tool("store_many", json!({"entries": entries}))
    });
    // A question that comes while the index is far behind is answered from the newest entries.
    while call(&mut writer, tool("query", json!({"content": words(0, 3)})))["_meta"]["io.kenning/degraded"]
        .is_string()
    {}
    let loaded = many as f64 / since.elapsed().as_secs_f64();
    fill(&mut writer, many, |n| {
        let fact = json!({"subject": format!("service {n}"), "predicate": predicate(n), "object": format!("host {}", n / 2)});
        tool("relate", fact)
    });
    let mut rows = Vec::new();
    for (name, request) in READS {
        rows.push((name, p50(&mut writer, request), true));
    }
    rows.push(("`store`", p50(&mut writer, |n| tool("store", entry(2_000_000_000 + n))), true));
    rows.push(("`undo`", p50(&mut writer, |_| tool("undo", json!({}))), true));
    rows.push(("memory of the process that wrote it, MB", memory(&writer), false));
    rows.push(("entries stored per second, searchable", loaded, false));
    drop(writer);
    let mut reader = start(program, dir.path());
    for (_, request) in READS {
        p50(&mut reader, request);
    }
    rows.push(("memory of a fresh one, MB", memory(&reader), false));
    rows
}

fn start(program: &Path, data: &Path) -> Client {
    let mut command = Command::new(program);
    command.arg("serve").arg("--data-dir").arg(data).current_dir(data);
    Client::start(command, Era::Modern, CLIENT).expect("the server starts")
}

/// Makes many calls with `IN_FLIGHT` of them in flight, as a bulk load does.
fn fill(client: &mut Client, calls: usize, request: impl Fn(usize) -> (&'static str, Value)) {
    let (mut sent, mut done) = (0, 0);
    while done < calls {
        while sent < calls && sent - done < IN_FLIGHT {
            let (method, params) = request(sent);
            client.begin(method, params).expect("it is sent");
            sent += 1;
        }
        let answer = client.receive(ANSWER_MAX).expect("the server answers");
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        done += 1;
    }
}

fn call(client: &mut Client, (method, params): (&'static str, Value)) -> Value {
    let answer = client.request(method, params).expect("the server answers");
    assert_ne!(answer["isError"], json!(true), "{answer}");
    answer
}

/// The median time of a call, in milliseconds.
fn p50(client: &mut Client, request: Request) -> f64 {
    let mut times: Vec<f64> = (0..WARM_UP + CALLS)
        .map(|n| {
            let request = request(n);
            let since = Instant::now();
            call(client, request);
            since.elapsed().as_secs_f64() * 1e3
        })
        .skip(WARM_UP)
        .collect();
    times.sort_by(f64::total_cmp);
    times[CALLS / 2]
}

/// Resident memory in megabytes.
fn memory(client: &Client) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0.0);
    kilobytes / 1024.0
}

fn tool(name: &str, arguments: Value) -> (&'static str, Value) {
    ("tools/call", json!({"name": name, "arguments": arguments}))
}

fn entry(number: usize) -> Value {
    let text = text(number);
    let words: Vec<&str> = text.body.split_whitespace().cycle().take(WORDS).collect();
    json!({"topic": text.title, "content": words.join(" ")})
}

/// Words of an entry that stores of every size contain.
fn words(number: usize, many: usize) -> String {
    let body = text(number * 17 % 1_000).body;
    body.split_whitespace().step_by(3).take(many).collect::<Vec<_>>().join(" ")
}

fn queries(number: usize, many: usize) -> Vec<String> {
    let asked = questions(number + many);
    asked[number..].to_vec()
}

fn predicate(number: usize) -> String {
    format!("depends on {}", number % PREDICATES)
}
