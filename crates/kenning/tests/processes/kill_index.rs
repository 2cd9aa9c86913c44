//! kill -9 while the index is being written. Before each round, enough entries are stored that the first
//! query of every process writes a segment. The processes write, ask, and are killed at random moments. The
//! next process must find every acknowledged write, and must answer as after `kenning rebuild`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kenning_engine::{Engine, INDEX_DIR};
use kenning_model::ScopeId;
use kenning_server::client::{Client, ClientError, Era};
use kenning_storage::{NewEntry, Request, STORE_FILE, Write};
use kenning_testkit::{TempStore, scrambled};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::kill::{KeptOnFailure, kill, setting, verify};
use crate::{call, number, start, text};

/// More entries than the index keeps in memory before it writes a segment; see `TAIL_MAX` in
/// `engine::indexed`.
const LOADED: u64 = 520;
/// About how long a process takes to start, to read the stored entries, and to write the segment.
const MOMENTS_MS: std::ops::Range<u64> = 10..900;

const WORDS: [&str; 24] = [
    "deploy",
    "release",
    "server",
    "database",
    "cache",
    "timeout",
    "backup",
    "password",
    "invoice",
    "refund",
    "garden",
    "tomato",
    "banana",
    "coffee",
    "river",
    "forest",
    "train",
    "ticket",
    "doctor",
    "lesson",
    "guitar",
    "museum",
    "bicycle",
    "getUserName",
];

#[test]
fn answers_survive_kill_9() {
    let seed = setting("SEED", rand::random::<u32>().into());
    run(setting("KILL_INDEX_CYCLES", 12), 3, seed);
}

fn run(cycles: u64, processes: u64, seed: u64) {
    eprintln!("kill -9 while indexing: {cycles} cycles, {processes} processes, SEED={seed}");
    let dir = KeptOnFailure::new();
    let dir = dir.path();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut acknowledged, mut asked, mut cut_off) = (0, 0, 0);
    for cycle in 0..cycles {
        load(dir, cycle);
        let written = Arc::new(Mutex::new(Vec::new()));
        let started: Vec<(Client, Agent)> = (0..processes)
            .map(|number| {
                let seed = scrambled(seed ^ scrambled(cycle * processes + number));
                let agent = Agent { random: StdRng::seed_from_u64(seed), written: written.clone(), asked: 0 };
                (start(dir, Era::Modern, &format!("agent-{number}")), agent)
            })
            .collect();
        let pids: Vec<u32> = started.iter().map(|(client, _)| client.pid()).collect();
        let working: Vec<_> =
            started.into_iter().map(|(client, agent)| thread::spawn(move || agent.work(client))).collect();
        // The processes are killed one after another at random moments, or all together while a segment is
        // being written.
        if cycle % 2 == 0 {
            for pid in pids {
                thread::sleep(Duration::from_millis(random.random_range(MOMENTS_MS) / processes));
                kill(&[pid]);
            }
        } else {
            wait_for_beginning(dir);
            thread::sleep(Duration::from_millis(random.random_range(0..20)));
            kill(&pids);
        }
        asked += working.into_iter().map(|agent| agent.join().expect("an agent does not panic")).sum::<u64>();
        cut_off += beginnings(dir);
        let written = written.lock().expect("no agent panicked");
        acknowledged += written.len();
        check(dir, &written);
    }
    eprintln!(
        "kill -9 while indexing: {cycles} cycles, {acknowledged} writes acknowledged and found, {asked} questions \
         answered before the kill, {cut_off} segments cut off in the middle; every answer as after a rebuild"
    );
}

/// Stores more entries than the index keeps in memory, as an import does. Nothing is queried, so the index
/// does not have them yet.
fn load(dir: &Path, cycle: u64) {
    let engine = Engine::new(dir.to_owned(), Engine::real_sources());
    let entry = |number: u64| {
        let word = |at: u64| WORDS[scrambled(number * 8 + at) as usize % WORDS.len()];
        let words: Vec<&str> = (2..8).map(word).collect();
        let (topic, content) = (format!("{} {}", word(0), word(1)), words.join(" "));
        let tags = vec![["ops", "home", "travel"][number as usize % 3].to_owned()];
        NewEntry { tags, ..NewEntry::new(ScopeId::GLOBAL_DEFAULT, topic, content) }
    };
    let entries = (cycle * LOADED..(cycle + 1) * LOADED).map(entry).collect();
    let (principal, tool) = (kenning_model::Principal::owner("loader", "here").into(), "store".into());
    engine
        .commit(Request { principal, tool, write: Write::StoreAll(entries), keyed: None })
        .expect("the store can be written");
}

/// A word, and the id of the entry that has it.
type Written = (String, String);

/// One session, which writes and asks for what it or another session has written.
struct Agent {
    random: StdRng,
    /// The acknowledged writes of all sessions.
    written: Arc<Mutex<Vec<Written>>>,
    asked: u64,
}

impl Agent {
    /// Works until the server is killed; returns how many questions were answered.
    fn work(mut self, mut client: Client) -> u64 {
        while self.write_and_ask(&mut client).is_ok() {}
        client.kill();
        self.asked
    }

    fn write_and_ask(&mut self, client: &mut Client) -> Result<(), ClientError> {
        let word = format!("word{}", self.random.random::<u32>());
        let content = format!("{word} {}", WORDS.choose(&mut self.random).expect("words"));
        let reply = client.call("store", json!({"topic": "agents", "content": content}))?;
        let id = text(&reply["id"]).to_owned();
        // Some entries are updated, so that old versions end; a search finds them by their new text.
        if self.random.random_bool(0.3) {
            client.call("update", json!({"id": id, "topic": "agents again"}))?;
        }
        let sought = {
            let mut written = self.written.lock().expect("no agent panicked");
            written.push((word, id));
            written.choose(&mut self.random).cloned().expect("one at least")
        };
        find(client, &sought)?;
        self.asked += 1;
        Ok(())
    }
}

fn find(client: &mut Client, (word, id): &Written) -> Result<(), ClientError> {
    let reply = client.call("query", json!({"content": word, "limit": 1}))?;
    assert_eq!(reply["items"][0]["id"], id.as_str(), "`{word}` was acknowledged: {reply}");
    Ok(())
}

/// How many segments were begun that no manifest names yet.
fn beginnings(dir: &Path) -> usize {
    let dir = dir.join(INDEX_DIR).join("entries");
    let manifest = fs::read(dir.join("manifest")).unwrap_or_default();
    let manifest = String::from_utf8_lossy(&manifest);
    let names =
        fs::read_dir(dir).into_iter().flatten().filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| name.strip_suffix(".words").is_some_and(|name| !manifest.contains(name))).count()
}

/// Waits until a process has begun a segment, or for as long as one may take to finish unnoticed.
fn wait_for_beginning(dir: &Path) {
    let since = Instant::now();
    while beginnings(dir) == 0 && since.elapsed() < Duration::from_millis(2 * MOMENTS_MS.end) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that a new process finds all acknowledged writes, and that it answers like a copy of the store with
/// a rebuilt index.
fn check(dir: &Path, written: &[Written]) {
    let mut client = start(dir, Era::Modern, "judge");
    let found = replies(&mut client);
    for sought in written {
        find(&mut client, sought).expect("the server answers");
    }
    assert_eq!(replies(&mut client), found, "the second time");
    client.finish().expect("the server goes");
    verify(dir);
    let copy = TempStore::new();
    fs::copy(dir.join(STORE_FILE), copy.path().join(STORE_FILE)).expect("a closed store is one file");
    let mut rebuild = Command::new(env!("CARGO_BIN_EXE_kenning"));
    let rebuilt = rebuild.arg("rebuild").arg("--data-dir").arg(copy.path()).output().expect("it runs");
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    let expected = replies(&mut start(copy.path(), Era::Modern, "judge"));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "as after a rebuild");
    }
}

/// Whole replies, without the cursor, which contains the time.
fn replies(client: &mut Client) -> Vec<String> {
    let head = number(&call(client, "query", json!({"limit": 1}))["as_of_tx_id"]);
    let questions = [
        json!({"content": "deploy the server"}),
        json!({"content": "a fruit for breakfast", "limit": 50}),
        json!({"content": "user name", "topic": "garden", "as_of_tx_id": head * 2 / 3}),
        json!({"content": "bananna", "tags": ["home"]}),
        json!({"topic": "agents", "limit": 200}),
        json!({"content": "music lesson", "as_of_tx_id": head / 2, "limit": 30}),
        json!({"tags": ["ops"], "limit": 5}),
    ];
    let mut reply = |mut question: Value| {
        question["explain"] = json!(true);
        let mut reply = client.call_whole("query", question).expect("the server answers");
        // Handles and times differ in each run.
        let structured = reply["structuredContent"].take();
        let items = structured["items"].to_string();
        let text = reply["content"][0]["text"].as_str().expect("a text");
        let text = text.split_once("\nAll ").map_or(text, |(text, _)| text);
        match structured["next_cursor"].as_str() {
            Some(cursor) => format!("{items} {}", text.replace(cursor, "CURSOR")),
            None => format!("{items} {text}"),
        }
    };
    questions.into_iter().map(&mut reply).collect()
}
