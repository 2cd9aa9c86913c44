//! What HTTP costs, what it holds, and what it keeps apart.
//!
//! `cargo bench -p kenning --bench http`; `-- speed`, `-- ids`, `-- timing`, `-- kill`, `-- console` or `-- crowd` measures one of them, `-- crowd 10`
//! for ten seconds, and `-- crowd 10 1000 0 0 0` with so many clients, listeners, slow readers and slow senders. The crowd needs 8,000 file
//! handles (`ulimit -n`).
#![allow(clippy::print_stdout)]

mod peer;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use kenning_testkit::corpus::{questions, text};
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use peer::{Peer, Target, call, request};
use server::{Server, kenning, new_key, run_floor};

const ENTRIES: usize = 1_000;
const CLIENTS: usize = 16;
const ROUND: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
const CALLS: usize = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let [floor, answer] = &arguments[..]
        && floor == "floor"
    {
        runtime.block_on(run_floor(answer));
        return ExitCode::SUCCESS;
    }
    let is_asked = |name: &str| arguments.is_empty() || arguments.iter().any(|it| it == name);
    let numbers: Vec<u64> = arguments.iter().filter_map(|it| it.parse().ok()).collect();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let within = |name: &str| {
        let dir = dir.path().join(name);
        std::fs::create_dir(&dir).expect("a directory");
        dir
    };
    let mut holds = true;
    if is_asked("speed") {
        runtime.block_on(speed(&within("speed")));
    }
    if is_asked("ids") {
        holds &= runtime.block_on(ids(&within("ids")));
    }
    if is_asked("timing") {
        runtime.block_on(timing(&within("timing")));
    }
    if is_asked("kill") {
        holds &= runtime.block_on(kill(&within("kill")));
    }
    if is_asked("console") {
        holds &= runtime.block_on(console(&within("console")));
    }
    if is_asked("crowd") {
        holds &= runtime.block_on(crowd(&within("crowd"), &numbers));
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Limits that no caller of a bench meets.
fn no_limits(dir: &Path) -> String {
    let path = dir.join("limits.json");
    let limits = json!({
        "requests_per_second": 10_000_000, "writes_per_second": 10_000_000, "requests_at_once": 4_096, "subscriptions": 1_000, "failures_per_minute": 10_000_000
    });
    std::fs::write(&path, limits.to_string()).expect("writable");
    path.to_str().expect("text").to_owned()
}

fn fill(dir: &Path, entries: usize) {
    let mut client = stdio(dir);
    for first in (0..entries).step_by(100) {
        let entries: Vec<Value> = (first..first + 100)
            .map(|number| {
                let text = text(number);
                json!({"topic": text.title, "content": text.body})
            })
            .collect();
        client.call("store_many", json!({"entries": entries})).expect("stored");
    }
    client.finish().expect("it ends");
}

fn stdio(dir: &Path) -> Client {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.arg("serve").arg("--data-dir").arg(dir).current_dir(dir);
    Client::start(command, Era::Modern, "claude-code").expect("the server starts")
}

fn query(number: usize) -> Value {
    json!({"content": questions(number % 500 + 1)[number % 500], "limit": 5})
}

/// Requests a second beside a bare handler that returns the same bytes, and a lone request beside standard streams.
async fn speed(dir: &Path) {
    fill(dir, ENTRIES);
    let limits = no_limits(dir);
    let server = Server::kenning(dir, &["--limits", &limits]);
    let ours = server.target(None);
    let mut peer = Peer::connect(&ours).await.expect("a connection");
    let sample = peer.ask(&call(1, "query", query(7))).await.expect("an answer");
    assert_eq!(sample.status, 200, "{}", String::from_utf8_lossy(&sample.body));
    let answer = dir.join("answer");
    std::fs::write(&answer, &sample.body).expect("writable");
    let floor = Server::floor(&answer);
    let bare = floor.target(None);
    let (mut of_ours, mut of_floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_ours.push(rate(&ours).await);
        of_floor.push(rate(&bare).await);
    }
    let (ours_rate, floor_rate) = (median(of_ours), median(of_floor));
    println!(
        "`query` over HTTP, {CLIENTS} clients: {ours_rate:.0} a second, a bare axum handler with the same {} bytes {floor_rate:.0}: {:.2}",
        sample.body.len(),
        ours_rate / floor_rate
    );
    let mut over_stdio = stdio(dir);
    // The server has closed the idle connection.
    let mut peer = Peer::connect(&ours).await.expect("a connection");
    let (mut http, mut lines) = (Vec::new(), Vec::new());
    for number in 0..CALLS {
        let asked = query(number);
        http.push(peer.ask(&call(1, "query", asked.clone())).await.expect("an answer").took.as_secs_f64());
        let since = Instant::now();
        over_stdio.call("query", asked).expect("an answer");
        lines.push(since.elapsed().as_secs_f64());
    }
    let (http, lines) = (median(http) * 1e6, median(lines) * 1e6);
    println!(
        "one `query` at a time, p50: HTTP {http:.0} µs, standard streams {lines:.0} µs: {:.2}",
        http / lines
    );
}

/// Answers a second to clients that each wait for one.
async fn rate(target: &Target) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let since = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (target, done) = (target.clone(), Arc::clone(&done));
        clients.spawn(async move {
            let mut peer = Peer::connect(&target).await.expect("a connection");
            for number in client * 31.. {
                if since.elapsed() > ROUND {
                    break;
                }
                let answer = peer.ask(&call(1, "query", query(number))).await.expect("an answer");
                assert_eq!(answer.status, 200);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    clients.join_all().await;
    done.load(Ordering::Relaxed) as f64 / since.elapsed().as_secs_f64()
}

/// The namespaces of several teams, each with a key and an entry that names the team.
fn teams(dir: &Path, many: usize) -> Vec<String> {
    let mut owner = stdio(dir);
    for team in 0..many {
        let name = format!("team-{team}");
        owner.call("create_namespace", json!({"name": name, "description": "A team."})).expect("made");
        let entry = json!({"scope": format!("{name}:default"), "topic": "marker", "content": format!("The marker is <{name}>.")});
        owner.call("store", entry).expect("stored");
    }
    owner.finish().expect("it ends");
    (0..many)
        .map(|team| new_key(dir, &format!("team-{team}"), &["--namespaces", &format!("team-{team}=write")]))
        .collect()
}

/// Many clients of many keys give their requests the same ids: each gets the answer to its own.
async fn ids(dir: &Path) -> bool {
    const TEAMS: usize = 20;
    const PER_TEAM: usize = 10;
    const REPLIES: usize = 100_000;
    let keys = teams(dir, TEAMS);
    let limits = no_limits(dir);
    let server = Server::kenning(dir, &["--auth", "keys", "--limits", &limits]);
    let (crossed, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for client in 0..TEAMS * PER_TEAM {
        let target = server.target(Some(&keys[client % TEAMS]));
        let (crossed, failed) = (Arc::clone(&crossed), Arc::clone(&failed));
        clients.spawn(async move {
            let own = format!("<team-{}>", client % TEAMS);
            let mut peer = Peer::connect(&target).await.expect("a connection");
            for number in 0..REPLIES / TEAMS / PER_TEAM {
                let id = (number % 3) as u64;
                let answer =
                    peer.ask(&call(id, "query", json!({"content": "marker"}))).await.expect("an answer");
                let message = answer.message();
                let text = message.to_string();
                if message["id"] != id || text.matches("<team-").count() != text.matches(&own).count() {
                    crossed.fetch_add(1, Ordering::Relaxed);
                }
                if answer.status != 200 || !text.contains(&own) {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    clients.join_all().await;
    let (crossed, failed) = (crossed.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
    println!(
        "{REPLIES} replies to {} clients of {TEAMS} keys that all use the ids 0, 1 and 2: {crossed} crossed, {failed} failed",
        TEAMS * PER_TEAM
    );
    crossed == 0 && failed == 0
}

/// How long refusals take: of what is somebody else's and of what does not exist, of a key whose beginning is right and of any other.
async fn timing(dir: &Path) {
    const EACH: usize = 2_000;
    let keys = teams(dir, 2);
    let mut owner = stdio(dir);
    let listed = owner.call("query", json!({"scope": "team-1:default"})).expect("listed");
    let foreign = listed["items"][0]["id"].as_str().expect("an id").to_owned();
    owner.finish().expect("it ends");
    let limits = no_limits(dir);
    let server = Server::kenning(dir, &["--auth", "keys", "--limits", &limits]);
    let compare = async |what: &str, mut cases: [(Target, Value); 2]| {
        let mut times = [Vec::new(), Vec::new()];
        let mut order = [0, 1];
        let mut peers = Vec::new();
        for (target, _) in &cases {
            peers.push(Peer::connect(target).await.expect("a connection"));
        }
        for number in 0..EACH {
            order.shuffle(&mut rand::rng());
            for case in order {
                cases[case].1["id"] = json!(number);
                let answer = peers[case].ask(&cases[case].1).await.expect("an answer");
                times[case].push(answer.took.as_secs_f64() * 1e6);
            }
        }
        let [one, other] = times.map(median);
        println!("{what}: p50 {one:.0} and {other:.0} µs, {:+.1} %", (one / other - 1.0) * 100.0);
    };
    let own = server.target(Some(&keys[0]));
    for (tool, field) in [("update", "id"), ("delete", "id"), ("history", "id")] {
        let ask = |id: &str| {
            let mut arguments = json!({field: id});
            if tool == "update" {
                arguments["content"] = json!("taken over");
            }
            (own.clone(), call(1, tool, arguments))
        };
        compare(&format!("`{tool}` of an id of others, of no id"), [ask(&foreign), ask("ZZZZZZZZZZ")]).await;
    }
    let half = &keys[0][..keys[0].len() / 2];
    let near = format!("{half}{}", "x".repeat(keys[0].len() - half.len()));
    let far = format!("{}{}", &keys[0][..8], "x".repeat(keys[0].len() - 8));
    let ask = |key: &str| (server.target(Some(key)), call(1, "query", json!({})));
    compare("a wrong key that begins like a good one, and one that does not", [ask(&near), ask(&far)]).await;
}

/// The server is killed again and again while clients write: what was acknowledged is there.
async fn kill(dir: &Path) -> bool {
    const CYCLES: usize = 20;
    const WRITERS: usize = 8;
    let limits = no_limits(dir);
    let mut acknowledged = BTreeSet::new();
    for cycle in 0..CYCLES {
        let server = Server::kenning(dir, &["--limits", &limits]);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let target = server.target(None);
            writers.spawn(async move {
                let mut written = Vec::new();
                let Ok(mut peer) = Peer::connect(&target).await else { return written };
                for number in 0.. {
                    let topic = format!("cycle {cycle} writer {writer} note {number}");
                    let entry = json!({"topic": topic, "content": "Written before the end."});
                    match peer.ask(&call(number, "store", entry)).await.map(|answer| answer.message()) {
                        Ok(message) if message["result"]["structuredContent"]["tx_id"].is_u64() => {
                            written.push(topic)
                        }
                        _ => break,
                    }
                }
                written
            });
        }
        sleep(Duration::from_millis(150 + 37 * cycle as u64)).await;
        server.kill();
        acknowledged.extend(writers.join_all().await.into_iter().flatten());
    }
    let stored = kenning(dir, &["export", "--format", "csv"]);
    let lost = acknowledged.iter().filter(|topic| !stored.contains(topic.as_str())).count();
    println!(
        "{CYCLES} times kill -9 under {WRITERS} writers: {} writes acknowledged, {lost} lost",
        acknowledged.len()
    );
    lost == 0 && !acknowledged.is_empty()
}

/// How long the pages of the console take at 100,000 entries, and whether 50 people see what 16 agents write.
async fn console(dir: &Path) -> bool {
    const STORED: usize = 100_000;
    const VIEWS: usize = 60;
    const VIEWERS: usize = 50;
    const WRITERS: usize = 16;
    const LASTS: Duration = Duration::from_secs(10);
    fill(dir, STORED);
    let limits = no_limits(dir);
    let server = Server::kenning(dir, &["--limits", &limits]);
    let target = server.target(None);
    let mut peer = Peer::connect(&target).await.expect("a connection");
    let newest = peer.ask(&call(1, "query", json!({"limit": 1}))).await.expect("an answer").message();
    let entry = newest["result"]["structuredContent"]["items"][0]["id"].as_str().expect("an id").to_owned();
    let pages = [
        ("home", "/console".to_owned()),
        ("entry", format!("/console/entry/{entry}")),
        ("history", "/console/history".to_owned()),
        ("transaction", "/console/tx/7".to_owned()),
        ("contradictions", "/console/contradictions".to_owned()),
        ("task", "/console/task?queries=walked+slowly%0Athe+old+house".to_owned()),
        ("time", "/console/time".to_owned()),
        ("graph", "/console/graph".to_owned()),
        ("sessions", "/console/sessions".to_owned()),
        ("settings", "/console/settings".to_owned()),
    ];
    let mut slowest = 0.0f64;
    for (name, path) in &pages {
        slowest = slowest.max(page_time(&mut peer, name, |_| path.clone(), VIEWS).await);
    }
    let typed = |number: usize| {
        let words = questions(number % 50 + 1)[number % 50].replace(|it: char| !it.is_alphanumeric(), "+");
        // One letter more with each request.
        format!("/console/search?q={}", &words[..words.len().min(4 + number % 12)])
    };
    slowest = slowest.max(page_time(&mut peer, "search as you type", typed, VIEWS).await);

    let mut viewers = JoinSet::new();
    for _ in 0..VIEWERS {
        let target = target.clone();
        viewers.spawn(async move {
            let mut peer = Peer::connect(&target).await.expect("a connection");
            let news = format!(
                "GET /console/live HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
                target.host
            );
            peer.send(news.as_bytes()).await.expect("sent");
            let mut seen = 0;
            let read = async {
                while let Ok(line) = peer.line().await {
                    let number = line.strip_prefix("data:").and_then(|data| data.trim().parse::<u64>().ok());
                    seen = number.unwrap_or(seen);
                }
            };
            // The viewers go on for a moment after the writers have ended.
            let _ = timeout(LASTS + Duration::from_secs(2), read).await;
            seen
        });
    }
    let until = Instant::now() + LASTS;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let target = target.clone();
        writers.spawn(async move {
            let mut peer = Peer::connect(&target).await.expect("a connection");
            let mut last = 0;
            while Instant::now() < until {
                let note =
                    json!({"topic": format!("writer {writer}"), "content": "Written while others look."});
                let answer = peer.ask(&call(1, "store", note)).await.expect("an answer").message();
                last = answer["result"]["structuredContent"]["tx_id"].as_u64().expect("a number");
            }
            last
        });
    }
    let newest = writers.join_all().await.into_iter().max().unwrap_or(0);
    let seen = viewers.join_all().await;
    let up_to_date = seen.iter().filter(|seen| **seen == newest).count();
    println!("{up_to_date} of {VIEWERS} viewers saw the newest transaction {newest} of {WRITERS} writers");
    up_to_date == VIEWERS && slowest <= 50.0
}

/// The time to the whole page, which has few bytes, in milliseconds: the 95th percentile.
async fn page_time(peer: &mut Peer, name: &str, path: impl Fn(usize) -> String, many: usize) -> f64 {
    let mut times = Vec::new();
    for number in 0..many {
        let answer = peer.get(&path(number)).await.expect("a page");
        assert_eq!(answer.status, 200, "{name}: {}", String::from_utf8_lossy(&answer.body));
        times.push(answer.took.as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (p50, p95) = (times[many / 2], times[many * 95 / 100]);
    println!("console, {name:<20} p50 {p50:>6.1} ms, p95 {p95:>6.1} ms");
    p95
}

/// Good clients beside listeners that hear nothing, readers that do not read and senders that hardly send.
async fn crowd(dir: &Path, numbers: &[u64]) -> bool {
    const KEYS: usize = 100;
    const DEFAULTS: [u64; 5] = [60, 1_000, 1_000, 500, 500];
    let number = |at: usize| numbers.get(at).copied().unwrap_or(DEFAULTS[at]);
    let lasts = Duration::from_secs(number(0));
    let [clients, listeners, slow_readers, slow_senders] = [1, 2, 3, 4].map(|at| number(at) as usize);
    // Made before, since making a question costs more than answering it.
    let asked: Arc<Vec<Value>> =
        Arc::new(questions(500).into_iter().map(|it| json!({"content": it, "limit": 5})).collect());
    fill(dir, ENTRIES);
    let keys: Vec<String> = (0..KEYS)
        .map(|key| new_key(dir, &format!("crowd-{key}"), &["--namespaces", "global=share"]))
        .collect();
    let server = Server::kenning(dir, &["--auth", "keys"]);
    let before = server.resident_max();
    let target = |client: usize| server.target(Some(&keys[client % KEYS]));
    let mut others = JoinSet::new();
    for listener in 0..listeners {
        let target = target(listener);
        others.spawn(async move {
            let mut peer = Peer::connect(&target).await.expect("a connection");
            let listen =
                json!({"notifications": {"resourceSubscriptions": ["knowledge://entries/K7H9M2PQX8"]}});
            peer.send(&target.post(&request(1, "subscriptions/listen", listen))).await.expect("sent");
            while peer.line().await.is_ok() {}
        });
    }
    for reader in 0..slow_readers {
        let target = target(reader);
        others.spawn(async move {
            // More bytes than the system takes for a connection that nobody reads.
            let wanted = target.post(&call(1, "query", json!({"limit": 200, "detail": "full"}))).repeat(3);
            // A reader that is cut off comes back.
            loop {
                let mut peer = Peer::connect(&target).await.expect("a connection");
                if peer.send(&wanted).await.is_ok() {
                    while peer.line().await.is_ok() {
                        sleep(Duration::from_secs(5)).await;
                    }
                }
                sleep(Duration::from_secs(5)).await;
            }
        });
    }
    for sender in 0..slow_senders {
        let target = target(sender);
        others.spawn(async move {
            let slow = target.post(&call(1, "query", json!({})));
            loop {
                let mut peer = Peer::connect(&target).await.expect("a connection");
                for byte in slow.chunks(1) {
                    sleep(Duration::from_millis(500)).await;
                    if peer.send(byte).await.is_err() {
                        break;
                    }
                }
            }
        });
    }
    // The crowd stands before the good clients are measured.
    sleep(Duration::from_secs(3)).await;
    println!("the crowd alone: {} MiB resident at most ({before} before)", server.resident_max());
    let mut good = JoinSet::new();
    let until = Instant::now() + lasts;
    for client in 0..clients {
        let (target, asked) = (target(client), Arc::clone(&asked));
        good.spawn(async move {
            let (mut took, mut failed) = (Vec::new(), Vec::new());
            sleep(Duration::from_millis(2 * client as u64)).await;
            let Ok(mut peer) = Peer::connect(&target).await else { return (took, vec!["no connection".to_owned()]) };
            let mut turn = interval(Duration::from_secs(2));
            turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut number = client;
            while Instant::now() < until {
                turn.tick().await;
                number += 1;
                let is_write = number.is_multiple_of(20);
                let message = if is_write {
                    call(1, "store", json!({"topic": format!("note {client}"), "content": format!("The {number}th call.")}))
                } else {
                    call(1, "query", asked[number % asked.len()].clone())
                };
                match peer.ask(&message).await {
                    Ok(answer) if answer.status == 200 && answer.message()["result"]["isError"] != true => {
                        took.push(answer.took.as_secs_f64() * 1e3);
                    }
                    Ok(answer) => failed.push(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))),
                    Err(error) => {
                        failed.push(error.to_string());
                        // A broken connection is replaced, as a client does.
                        let Ok(again) = Peer::connect(&target).await else { break };
                        peer = again;
                    }
                }
            }
            (took, failed)
        });
    }
    let done = good.join_all().await;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in done.iter().flat_map(|(_, failed)| failed) {
        *reasons.entry(&reason[..reason.floor_char_boundary(160)]).or_default() += 1;
    }
    reasons.iter().for_each(|(reason, many)| println!("{many} times: {reason}"));
    let failed: usize = reasons.values().sum();
    let mut took: Vec<f64> = done.iter().flat_map(|(took, _)| took.iter().copied()).collect();
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let resident = server.resident_max();
    // Nobody waits for those that never end.
    let ended = timeout(Duration::from_secs(5), others.shutdown()).await;
    println!(
        "{clients} clients beside {listeners} listeners, {slow_readers} slow readers and {slow_senders} slow senders for {} s: {} calls, {failed} \
         failed; p50 {:.1} ms, p99 {:.1} ms, slowest {:.0} ms; {resident} MiB resident at most{}",
        lasts.as_secs(),
        took.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        if ended.is_err() { "; the crowd did not end" } else { "" }
    );
    failed == 0 && at(0.99) <= 1000.0 && resident <= 512
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
