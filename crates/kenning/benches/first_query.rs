//! How long the first query takes after 10,000 writes: in the process that wrote them, and in a process that
//! starts beside it.
//!
//! `cargo bench -p kenning --bench first_query`; `-- --against KENNING` measures another build too.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use serde_json::{Value, json};

const ROUNDS: usize = 5;
const WRITES: usize = 10_000;
const IN_FLIGHT: usize = 48;
const ANSWER_MAX: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let against = arguments.iter().position(|argument| argument == "--against");
    let against = against.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let own = PathBuf::from(env!("CARGO_BIN_EXE_kenning"));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    for (name, program) in [("this build", Some(own)), ("the other build", against)] {
        let Some(program) = program else { continue };
        let rounds: Vec<[Duration; 3]> = (0..ROUNDS)
            .map(|round| {
                let data = dir.path().join(format!("{name}-{round}"));
                std::fs::create_dir(&data).expect("a directory");
                first_queries(&program, &data)
            })
            .collect();
        let at = |which: usize| {
            let mut times: Vec<Duration> = rounds.iter().map(|round| round[which]).collect();
            times.sort();
            let shown = |time: Duration| time.as_secs_f64() * 1e3;
            format!("{:.1} ms (at most {:.1})", shown(times[ROUNDS / 2]), shown(times[ROUNDS - 1]))
        };
        println!("{name}, medians of {ROUNDS}");
        println!("  first query after {WRITES} writes, at once: {}", at(0));
        println!("  start and first query of a process beside one that writes: {}", at(1));
        println!("  the same beside one that rests: {}", at(2));
    }
}

/// The times of three first queries: in the process that has written, in a new process while the first one
/// writes on, and in a new process alone.
fn first_queries(program: &Path, data: &Path) -> [Duration; 3] {
    let mut writer = start(program, data);
    write(&mut writer, WRITES, &AtomicBool::new(false));
    let after_writes = query(&mut writer);
    let is_over = AtomicBool::new(false);
    let beside_busy = std::thread::scope(|scope| {
        scope.spawn(|| write(&mut writer, usize::MAX, &is_over));
        let took = start_and_query(program, data);
        is_over.store(true, Ordering::Relaxed);
        took
    });
    [after_writes, beside_busy, start_and_query(program, data)]
}

fn start_and_query(program: &Path, data: &Path) -> Duration {
    let since = Instant::now();
    query(&mut start(program, data));
    since.elapsed()
}

fn start(program: &Path, data: &Path) -> Client {
    let mut command = Command::new(program);
    command.arg("serve").arg("--data-dir").arg(data).current_dir(data);
    Client::start(command, Era::Modern, "claude-code").expect("the server starts")
}

/// Stores facts with many calls in flight, until `many` are stored or `is_over` is set.
fn write(client: &mut Client, many: usize, is_over: &AtomicBool) {
    let (mut sent, mut done) = (0, 0);
    loop {
        let goes_on = sent < many && !is_over.load(Ordering::Relaxed);
        if goes_on && sent - done < IN_FLIGHT {
            client
                .begin("tools/call", json!({"name": "store", "arguments": fact(sent)}))
                .expect("it is sent");
            sent += 1;
        } else if done < sent {
            client.receive(ANSWER_MAX).expect("the server answers");
            done += 1;
        } else {
            return;
        }
    }
}

fn fact(number: usize) -> Value {
    const WORDS: [&str; 12] = [
        "deploy", "release", "rollback", "cache", "token", "session", "index", "queue", "worker", "schema",
        "tenant", "latency",
    ];
    let mut seed = number as u64;
    let mut text = format!("Fact {number}:");
    while text.len() < 240 {
        seed = kenning_testkit::scrambled(seed);
        text.push(' ');
        text.push_str(WORDS[(seed % 12) as usize]);
    }
    json!({"topic": format!("topic {}", number % 977), "content": text})
}

fn query(client: &mut Client) -> Duration {
    let since = Instant::now();
    let found = client.call("query", json!({"content": "rollback of a release"})).expect("an answer");
    let took = since.elapsed();
    assert!(found["items"].as_array().is_some_and(|items| !items.is_empty()), "{found}");
    took
}
