//! How near the memory tools come to what disk and pipes allow, as ratios to floors that are measured in the
//! same run.
//!
//! `cargo bench -p kenning --bench memory`; `-- --quick` for a short run.
#![allow(clippy::print_stdout)]

mod floors;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kenning_engine::Engine;
use kenning_server::client::{Client, Era};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

struct Sizes {
    writes: usize,
    rounds: usize,
    per_round: Duration,
    calls: usize,
    starts: usize,
    entries: usize,
}

const FULL: Sizes = Sizes {
    writes: 3000,
    rounds: 5,
    per_round: Duration::from_secs(1),
    calls: 5000,
    starts: 30,
    entries: 100_000,
};
const QUICK: Sizes = Sizes {
    writes: 300,
    rounds: 2,
    per_round: Duration::from_millis(300),
    calls: 500,
    starts: 5,
    entries: 5_000,
};

const CLIENTS: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "floor-echo") {
        return floors::echo::run();
    }
    let sizes = if arguments.iter().any(|argument| argument == "--quick") { QUICK } else { FULL };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let empty = dir.path().join("empty");
    let full = dir.path().join("full");
    println!("durable write (tool `store`, 600 bytes, in process)");
    durable_writes("  on an empty store", dir.path(), &empty, &sizes);
    fill(&full, sizes.entries);
    durable_writes(&format!("  on {} entries", sizes.entries), dir.path(), &full, &sizes);
    println!("{CLIENTS} concurrent clients (tool `store`, in process)");
    concurrent_writes("  on an empty store", dir.path(), &dir.path().join("sixteen"), &sizes);
    concurrent_writes(&format!("  on {} entries", sizes.entries), dir.path(), &full, &sizes);
    println!("a trivial call over stdio (`query_graph` on an empty graph)");
    calls(dir.path(), &sizes);
    println!("cold start to the first answered `tools/list`");
    starts("  empty store", &dir.path().join("new"), &sizes);
    starts(&format!("  {} entries", sizes.entries), &full, &sizes);
}

/// Calls tools directly in this process.
#[derive(Clone)]
struct Agent {
    engine: Arc<Engine>,
    caller: Caller,
}

impl Agent {
    fn new(dir: &Path) -> Agent {
        let engine = Arc::new(Engine::new(dir.to_owned(), Engine::real_sources()));
        let (actor, scope) = ("bench".to_owned(), "global:default".to_owned());
        Agent { engine, caller: Caller::new(Some(&actor), Engine::new_origin(), scope) }
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let tool = find(tool).expect("a known tool");
        let reply = dispatch(&self.engine, &self.caller, Access::ReadWrite, tool, arguments);
        assert!(!reply.is_error, "{}", reply.text());
        reply.structured
    }

    fn store(&self, number: usize) {
        self.call("store", json!({"topic": format!("topic {}", number % 977), "content": content(number)}));
    }
}

/// About 550 bytes of different words.
fn content(number: usize) -> String {
    const WORDS: [&str; 24] = [
        "deploy", "release", "rollback", "cache", "token", "session", "index", "queue", "worker", "schema",
        "tenant", "latency", "budget", "cursor", "replica", "backup", "shard", "metric", "alert", "runbook",
        "gateway", "retry", "ledger", "policy",
    ];
    let mut seed = number as u64;
    let mut text = format!("Note {number}:");
    while text.len() < 550 {
        seed = kenning_testkit::scrambled(seed);
        text.push(' ');
        text.push_str(WORDS[(seed % 24) as usize]);
        text.push_str(&(seed % 89).to_string());
    }
    text
}

fn durable_writes(label: &str, floor_dir: &Path, store: &Path, sizes: &Sizes) {
    let agent = Agent::new(store);
    let mut floor = floors::write::BareWrite::new(floor_dir);
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for number in 0..sizes.writes + 50 {
        let bare_took = timed(|| floor.write());
        let ours_took = timed(|| agent.store(10_000_000 + number));
        // The first few open files and fill caches.
        if number >= 50 {
            bare.push(bare_took);
            ours.push(ours_took);
        }
    }
    let (bare, ours) = (Spread::of(bare), Spread::of(ours));
    println!(
        "{label}: p50 {} / floor {} = {:.2} (p99 {} / {})",
        ours.p50,
        bare.p50,
        ratio(ours.p50, bare.p50),
        ours.p99,
        bare.p99
    );
}

fn concurrent_writes(label: &str, floor_dir: &Path, store: &Path, sizes: &Sizes) {
    let agent = Agent::new(store);
    agent.store(1);
    let (mut bare, mut ours) = (0.0, 0.0);
    for round in 0..sizes.rounds {
        let log = floors::group_log::GroupLog::new(floor_dir);
        bare += rate(sizes.per_round, || {
            let write = log.handle();
            move |_| write()
        });
        ours += rate(sizes.per_round, || {
            let agent = agent.clone();
            move |number| agent.store(20_000_000 + 100_000 * round + number)
        });
    }
    let rounds = sizes.rounds as f64;
    println!("{label}: {:.0} writes/s / floor {:.0} = {:.2}", ours / rounds, bare / rounds, ours / bare);
}

/// Writes per second of `CLIENTS` threads.
fn rate<F: FnMut(usize) + Send + 'static>(time: Duration, mut writer: impl FnMut() -> F) -> f64 {
    let since = Instant::now();
    let threads: Vec<_> = (0..CLIENTS)
        .map(|thread| {
            let mut write = writer();
            std::thread::spawn(move || {
                let mut many = 0;
                while since.elapsed() < time {
                    write(thread + CLIENTS * many);
                    many += 1;
                }
                many
            })
        })
        .collect();
    let many: usize = threads.into_iter().map(|thread| thread.join().expect("a writer")).sum();
    many as f64 / since.elapsed().as_secs_f64()
}

fn calls(dir: &Path, sizes: &Sizes) {
    let mut echo = Command::new(std::env::current_exe().expect("this program"));
    echo.arg("floor-echo");
    let mut echo = Client::start(echo, Era::Modern, "bench").expect("the echo loop starts");
    let mut server =
        Client::start(serve(&dir.join("calls")), Era::Modern, "bench").expect("the server starts");
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for number in 0..sizes.calls + 50 {
        let bare_took = timed(|| echo.call("query_graph", json!({"limit": 1})).expect("an echo"));
        let ours_took = timed(|| server.call("query_graph", json!({"limit": 1})).expect("a reply"));
        if number >= 50 {
            bare.push(bare_took);
            ours.push(ours_took);
        }
    }
    let (bare, ours) = (Spread::of(bare), Spread::of(ours));
    println!(
        "  p50 {} / floor {} = {:.2} (p99 {} / {})",
        ours.p50,
        bare.p50,
        ratio(ours.p50, bare.p50),
        ours.p99,
        bare.p99
    );
}

fn starts(label: &str, dir: &Path, sizes: &Sizes) {
    let took = (0..sizes.starts).map(|_| {
        let since = Instant::now();
        let mut client = Client::start(serve(dir), Era::Legacy, "bench").expect("the server starts");
        client.request("tools/list", json!({})).expect("the tools");
        since.elapsed()
    });
    let spread = Spread::of(took.collect());
    println!("{label}: p50 {} (p99 {})", spread.p50, spread.p99);
}

fn serve(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.arg("serve").arg("--data-dir").arg(dir);
    command
}

/// Stores entries from many threads, so that group commit makes it fast.
fn fill(dir: &Path, entries: usize) {
    let agent = Agent::new(dir);
    agent.store(0);
    let threads: Vec<_> = (0..64)
        .map(|thread| {
            let agent = agent.clone();
            std::thread::spawn(move || (thread..entries).step_by(64).for_each(|number| agent.store(number)))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let since = Instant::now();
    work();
    since.elapsed()
}

struct Spread {
    p50: Shown,
    p99: Shown,
}

#[derive(Clone, Copy)]
struct Shown(Duration);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} µs", self.0.as_secs_f64() * 1e6)
    }
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Spread {
        times.sort();
        Spread { p50: Shown(times[times.len() / 2]), p99: Shown(times[times.len() * 99 / 100]) }
    }
}

fn ratio(ours: Shown, floor: Shown) -> f64 {
    ours.0.as_secs_f64() / floor.0.as_secs_f64()
}
