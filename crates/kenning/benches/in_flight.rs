//! Writes per second over stdio with many calls in flight: 48 of one session, and one of each of 16 sessions.
//!
//! `cargo bench -p kenning --bench in_flight`; `-- --against KENNING` compares with another build, in
//! alternating rounds.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use serde_json::{Value, json};

const ROUNDS: usize = 7;
const IN_FLIGHT: usize = 48;
const WRITES: usize = 6_000;
const SESSIONS: usize = 16;
const WRITES_PER_SESSION: usize = 300;
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Measures the writes per second of a program (first argument) on a fresh data directory (second argument).
type Measure = fn(&Path, &Path) -> f64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let against = arguments.iter().position(|argument| argument == "--against");
    let against = against.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let own = PathBuf::from(env!("CARGO_BIN_EXE_kenning"));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let measures: [(&str, Measure); 2] =
        [("one session, 48 calls in flight", in_flight), ("16 sessions, a call each", sessions)];
    for (name, measure) in measures {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (which, program) in [Some(&own), against.as_ref()].into_iter().enumerate() {
                let Some(program) = program else { continue };
                let data = dir.path().join(format!("{}-{round}-{which}", measure as usize));
                std::fs::create_dir(&data).expect("a directory");
                rates[which].push(measure(program, &data));
            }
        }
        let [own, other] = rates.map(median);
        match other {
            Some(other) => {
                let own = own.unwrap_or_default();
                println!("{name}: {own:.0} writes/s, {other:.0} before: {:.3}", own / other);
            }
            None => println!("{name}: {:.0} writes/s", own.unwrap_or_default()),
        }
    }
}

fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

fn start(program: &Path, data: &Path) -> Client {
    let mut command = Command::new(program);
    command.arg("serve").arg("--data-dir").arg(data).current_dir(data);
    let mut client = Client::start(command, Era::Modern, "bench").expect("the server starts");
    client.call("store", fact("It is open.".to_owned())).expect("the server answers");
    client
}

fn fact(content: String) -> Value {
    json!({"topic": "speed", "content": content})
}

fn in_flight(program: &Path, data: &Path) -> f64 {
    let mut client = start(program, data);
    let since = Instant::now();
    let (mut sent, mut done) = (0, 0);
    while done < WRITES {
        while sent < WRITES && sent - done < IN_FLIGHT {
            let arguments = fact(format!("Fact number {sent}."));
            client.begin("tools/call", json!({"name": "store", "arguments": arguments})).expect("it is sent");
            sent += 1;
        }
        client.receive(ANSWER_MAX).expect("the server answers");
        done += 1;
    }
    WRITES as f64 / since.elapsed().as_secs_f64()
}

fn sessions(program: &Path, data: &Path) -> f64 {
    let mut clients: Vec<Client> = (0..SESSIONS).map(|_| start(program, data)).collect();
    let since = Instant::now();
    std::thread::scope(|scope| {
        for (session, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for write in 0..WRITES_PER_SESSION {
                    let content = format!("Fact {write} of session {session}.");
                    client.call("store", fact(content)).expect("the server answers");
                }
            });
        }
    });
    (SESSIONS * WRITES_PER_SESSION) as f64 / since.elapsed().as_secs_f64()
}
