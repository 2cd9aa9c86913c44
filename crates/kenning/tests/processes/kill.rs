//! kill -9 during writes. Several processes write to one store and are killed at random moments. After each
//! round the store must contain every acknowledged write, no write that was not asked for, and no
//! half-applied transaction.
//!
//! The check: the history is read over MCP and replayed. Every change must start from the state of the
//! replay. Every acknowledged call must be one transaction that did what was asked, in the order of its
//! writer. The replay must equal what the store lists. Only the last call of each writer, which got no
//! answer, may have happened or not.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kenning_engine::Engine;
use kenning_server::client::{Client, Era};
use kenning_testkit::scrambled;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{call, number, read_all, start, text};

const RESTART_MAX: Duration = Duration::from_secs(2);
const SHARED_ENTRIES: usize = 3;
/// A limit of live entries per writer, because more of them only make the comparison slow.
const OWN_ENTRIES_MAX: usize = 30;
const SHARED_TOPIC: &str = "shared";

#[test]
fn acknowledged_writes_survive_kill_9() {
    let seed = setting("SEED", rand::random::<u32>().into());
    run(setting("KILL_CYCLES", 100), setting("KILL_WRITERS", 4), seed);
}

/// A number from the environment, for a longer run or to repeat one; otherwise the default.
pub(crate) fn setting(name: &str, usual: u64) -> u64 {
    match env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{value}`")),
        Err(_) => usual,
    }
}

fn run(cycles: u64, writers: u64, seed: u64) {
    eprintln!("kill -9: {cycles} cycles, {writers} writers, SEED={seed}");
    let dir = KeptOnFailure::new();
    let dir = dir.path();
    let mut random = StdRng::seed_from_u64(seed);
    let mut judge = Judge::begin(dir);
    for cycle in 0..cycles {
        let started: Vec<(Client, Writer)> = (0..writers)
            .map(|number| {
                let era = if number % 2 == 0 { Era::Modern } else { Era::Legacy };
                let name = writer_name(number);
                let seed = scrambled(seed ^ scrambled(cycle * writers + number));
                // A legacy client completes its handshake here, so the processes are killed only after they
                // have started.
                (start(dir, era, &name), Writer::new(number, cycle, seed, &judge))
            })
            .collect();
        let pids: Vec<u32> = started.iter().map(|(client, _)| client.pid()).collect();
        let working: Vec<_> =
            started.into_iter().map(|(client, writer)| thread::spawn(move || writer.work(client))).collect();
        kill_at_random(&mut random, pids);
        let attempts: Vec<Vec<Attempt>> =
            working.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect();
        let happened = judge.check(dir, &attempts);
        judge.retry(dir, attempts, &happened);
    }
    let Judge { acknowledged, refused, unknown, present, retried, slowest_restart, head, .. } = judge;
    assert!(acknowledged > cycles, "the writers got only {acknowledged} answers: nothing was tried");
    eprintln!(
        "kill -9: {cycles} cycles, {acknowledged} acknowledged ({refused} refused), lost = 0; \
         {unknown} unacknowledged, {present} of them found present, {retried} retried with their key; \
         {head} transactions; slowest restart {} ms",
        slowest_restart.as_millis()
    );
}

/// Kills all processes at once, or some of them and the rest a little later. The random moments are the point
/// of the test.
fn kill_at_random(random: &mut StdRng, mut pids: Vec<u32>) {
    thread::sleep(Duration::from_millis(random.random_range(20..=120)));
    if random.random_bool(0.5) {
        let rest = pids.split_off(random.random_range(0..=pids.len()));
        kill(&rest);
        thread::sleep(Duration::from_millis(random.random_range(1..=20)));
    }
    kill(&pids);
}

pub(crate) fn kill(pids: &[u32]) {
    if !pids.is_empty() {
        let pids = pids.iter().map(u32::to_string);
        let killed = Command::new("kill").arg("-9").args(pids).status().expect("`kill` runs");
        assert!(killed.success(), "a server was gone before it was killed");
    }
}

fn writer_name(number: u64) -> String {
    format!("writer-{number}")
}

/// A temporary directory that is kept after a failed run, so that it can be examined.
pub(crate) struct KeptOnFailure(Option<TempDir>);

impl KeptOnFailure {
    pub(crate) fn new() -> KeptOnFailure {
        KeptOnFailure(Some(tempfile::tempdir().expect("a temporary directory")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("taken only on drop").path()
    }
}

impl Drop for KeptOnFailure {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(dir) = self.0.take()
        {
            eprintln!("kill -9: the data is kept in {}", dir.keep().display());
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Store { content: String },
    Update { id: String, content: String, expected: Option<u64> },
    Delete { entity_type: &'static str, id: String },
    Relate { subject: String, object: String, on_conflict: &'static str },
    Undo { tx: u64 },
    UndoNewest { count: u64 },
}

impl Op {
    fn tool(&self) -> &'static str {
        match self {
            Op::Store { .. } => "store",
            Op::Update { .. } => "update",
            Op::Delete { .. } => "delete",
            Op::Relate { .. } => "relate",
            Op::Undo { .. } | Op::UndoNewest { .. } => "undo",
        }
    }

    fn arguments(&self, writer: u64, key: Option<&str>) -> Value {
        let mut arguments = match self {
            Op::Store { content } => json!({"topic": writer_name(writer), "content": content}),
            Op::Update { id, content, expected } => {
                json!({"id": id, "content": content, "expected_version": expected})
            }
            Op::Delete { entity_type, id } => json!({"id": id, "entity_type": entity_type}),
            Op::Relate { subject, object, on_conflict } => {
                json!({"subject": subject, "predicate": "is", "object": object, "on_conflict": on_conflict})
            }
            Op::Undo { tx } => json!({"tx_id": tx}),
            Op::UndoNewest { count } => json!({"count": count}),
        };
        arguments["idempotency_key"] = json!(key);
        arguments
    }
}

/// One call, and its answer if there was one.
struct Attempt {
    op: Op,
    key: Option<String>,
    reply: Option<Value>,
}

/// One agent session. It knows the content of the store at its beginning, and the answers since then.
struct Writer {
    number: u64,
    cycle: u64,
    random: StdRng,
    /// The versions of its own entries, by id.
    entries: BTreeMap<String, u64>,
    triples: Vec<String>,
    shared: BTreeMap<String, u64>,
    /// Its own transactions.
    txs: Vec<u64>,
}

impl Writer {
    fn new(number: u64, cycle: u64, seed: u64, judge: &Judge) -> Writer {
        let name = writer_name(number);
        let versions = |topic: &str| {
            let of_topic = judge.live.iter().filter(|(_, item)| item["topic"] == topic);
            of_topic.map(|(id, item)| (id.clone(), crate::number(&item["version"]))).collect()
        };
        let is_own_triple = |item: &Value| item["subject"].is_string() && item["actor"] == name.as_str();
        Writer {
            number,
            cycle,
            random: StdRng::seed_from_u64(seed),
            entries: versions(&name),
            triples: judge
                .live
                .iter()
                .filter(|(_, item)| is_own_triple(item))
                .map(|(id, _)| id.clone())
                .collect(),
            shared: versions(SHARED_TOPIC),
            txs: judge.newest_of(&name, 8),
        }
    }

    /// Calls one tool after another until the server is killed. The last attempt is the one without an
    /// answer.
    fn work(mut self, mut client: Client) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        loop {
            let op = self.next_op(attempts.len());
            let keyed = self.random.random_bool(0.5);
            let key = keyed.then(|| format!("{}-{}", self.cycle, attempts.len()));
            let reply = client.call(op.tool(), op.arguments(self.number, key.as_deref())).ok();
            let killed = reply.is_none();
            if let Some(reply) = &reply {
                self.learn(&op, reply);
            }
            attempts.push(Attempt { op, key, reply });
            if killed {
                client.kill();
                return attempts;
            }
        }
    }

    fn next_op(&mut self, nth: usize) -> Op {
        let content = format!("writer {} cycle {} call {nth}", self.number, self.cycle);
        let own: Vec<String> = self.entries.keys().cloned().collect();
        let own = own.choose(&mut self.random).cloned();
        match self.random.random_range(0..100) {
            0..25 if self.entries.len() < OWN_ENTRIES_MAX => Op::Store { content },
            0..45 => match own {
                Some(id) => {
                    let expected = self.random.random_bool(0.5).then(|| self.entries[&id]);
                    Op::Update { id, content, expected }
                }
                None => Op::Store { content },
            },
            45..55 => {
                let shared: Vec<_> = self.shared.iter().collect();
                let (id, version) =
                    shared.choose(&mut self.random).expect("shared entries are never deleted");
                Op::Update { id: (*id).clone(), content, expected: Some(**version) }
            }
            55..65 => match own {
                Some(id) => Op::Delete { entity_type: "entry", id },
                None => Op::Store { content },
            },
            65..70 if !self.triples.is_empty() => {
                let id = self.triples.swap_remove(self.random.random_range(0..self.triples.len()));
                Op::Delete { entity_type: "triple", id }
            }
            65..85 => Op::Relate {
                subject: format!("service {} of {}", self.random.random_range(0..4), self.number),
                object: format!("state {}", self.random.random_range(0..4)),
                on_conflict: ["keep_both", "replace", "reject"]
                    .choose(&mut self.random)
                    .expect("three choices"),
            },
            85..95 => match self.txs.choose(&mut self.random) {
                Some(tx) => Op::Undo { tx: *tx },
                None => Op::Store { content },
            },
            _ => Op::UndoNewest { count: self.random.random_range(1..=3) },
        }
    }

    /// Updates the writer's knowledge after an answer. It need not be exact after an undo: a call on a
    /// deleted record is refused, and the judge accepts that.
    fn learn(&mut self, op: &Op, reply: &Value) {
        match op {
            Op::Update { id, .. } if self.shared.contains_key(id) => {
                let version = match reply["version"].as_u64() {
                    Some(version) => version,
                    None => number(&reply["error"]["details"]["current_version"]),
                };
                self.shared.insert(id.clone(), version);
            }
            Op::Store { .. } | Op::Update { .. } if reply["error"].is_null() => {
                self.entries.insert(text(&reply["id"]).to_owned(), number(&reply["version"]));
            }
            Op::Update { id, .. } | Op::Delete { id, .. } => drop(self.entries.remove(id)),
            Op::Relate { .. } if reply["error"].is_null() => self.triples.push(text(&reply["id"]).to_owned()),
            _ => {}
        }
        self.txs.extend(reply["tx_id"].as_u64());
    }
}

/// Computes what the store must contain, from its history alone.
struct Judge {
    /// Every transaction so far, by number.
    log: BTreeMap<u64, Value>,
    head: u64,
    /// Live entries and triples by id, as the store lists them.
    live: BTreeMap<String, Value>,
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    present: u64,
    retried: u64,
    slowest_restart: Duration,
}

impl Judge {
    /// Fills the store with the entries that all writers share.
    fn begin(dir: &Path) -> Judge {
        let mut client = start(dir, Era::Modern, "judge");
        for nth in 0..SHARED_ENTRIES {
            call(&mut client, "store", json!({"topic": SHARED_TOPIC, "content": format!("shared {nth}")}));
        }
        let mut judge = Judge {
            log: BTreeMap::new(),
            head: 0,
            live: BTreeMap::new(),
            acknowledged: 0,
            refused: 0,
            unknown: 0,
            present: 0,
            retried: 0,
            slowest_restart: Duration::ZERO,
        };
        judge.catch_up(&mut client);
        judge
    }

    /// Checks all calls of a round. Returns, for each writer, the transaction of its last call if that call
    /// happened without an answer.
    fn check(&mut self, dir: &Path, attempts: &[Vec<Attempt>]) -> Vec<Option<u64>> {
        let since = Instant::now();
        let mut client = start(dir, Era::Modern, "judge");
        call(&mut client, "query", json!({"topic": SHARED_TOPIC}));
        let restart = since.elapsed();
        assert!(restart <= RESTART_MAX, "the restart took {restart:?}");
        self.slowest_restart = self.slowest_restart.max(restart);

        let before = self.live.clone();
        let head = self.head;
        self.catch_up(&mut client);
        let check = |(writer, attempts): (usize, &Vec<Attempt>)| {
            self.check_writer(&writer_name(writer as u64), attempts, before.clone(), head)
        };
        let happened = attempts.iter().enumerate().map(check).collect();
        self.check_listings(&mut client);
        verify(dir);
        happened
    }

    /// Reads the new part of the history and replays it. A change that does not start from the state of the
    /// replay shows a lost or half-applied transaction.
    fn catch_up(&mut self, client: &mut Client) {
        let uri = format!("knowledge://history/transactions?since_tx_id={}", self.head);
        for tx in read_all(client, &uri).into_iter().rev() {
            assert_eq!(number(&tx["tx_id"]), self.head + 1, "transaction numbers are dense: {tx}");
            self.head += 1;
            replay(&mut self.live, &tx);
            self.log.insert(self.head, tx);
        }
    }

    /// Compares the calls of one writer with its transactions since `head`, both in order.
    fn check_writer(
        &mut self,
        name: &str,
        attempts: &[Attempt],
        live: BTreeMap<String, Value>,
        head: u64,
    ) -> Option<u64> {
        let own = self.log.range(head + 1..).filter(|(_, tx)| tx["actor"] == name);
        let own: Vec<Value> = own.map(|(_, tx)| tx.clone()).collect();
        let mut own = own.iter().peekable();
        // The state as this writer knew it, call by call; other writers only change the shared entries.
        let mut live = live;
        let mut happened = None;
        for Attempt { op, reply, .. } in attempts {
            let Some(reply) = reply else {
                self.unknown += 1;
                if let Some(tx) = own.next() {
                    self.present += 1;
                    self.check_effect(op, tx);
                    happened = Some(number(&tx["tx_id"]));
                }
                continue;
            };
            self.acknowledged += 1;
            if let Some(code) = reply["error"]["code"].as_str() {
                self.refused += 1;
                assert!(may_refuse(op, code, &live), "{name} was refused {op:?}: {reply}");
                continue;
            }
            let tx_id = number(&reply["tx_id"]);
            match own.next_if(|tx| tx["tx_id"] == tx_id) {
                Some(tx) => {
                    self.check_effect(op, tx);
                    check_reply(op, reply, tx);
                    replay_own(&mut live, tx);
                }
                // Only `relate` on a triple that exists already is acknowledged with an earlier transaction.
                None => {
                    let same = |item: &Value| item["id"] == reply["id"] && item["tx_id"] == tx_id;
                    let known = matches!(op, Op::Relate { .. }) && live.values().any(same);
                    assert!(known, "LOST: {name} was told of transaction {tx_id} for {op:?}: {reply}");
                }
            }
        }
        assert_eq!(own.next(), None, "{name} has written what it was not asked to");
        happened
    }

    /// Whether a transaction did what the call asked for.
    fn check_effect(&self, op: &Op, tx: &Value) {
        assert_eq!(tx["tool"], op.tool(), "{op:?} gave {tx}");
        let changes = tx["changes"].as_array().expect("a transaction has changes");
        let (first, rest) =
            changes.split_first().map_or((&Value::Null, changes.as_slice()), |(first, rest)| (first, rest));
        match op {
            Op::Store { content } => {
                let stored = first["op"] == "create" && first["after"]["content"] == content.as_str();
                assert!(stored && rest.is_empty(), "{op:?} gave {tx}");
            }
            Op::Update { id, content, expected } => {
                let changed = first["op"] == "update" && first["id"] == id.as_str();
                let right = first["after"]["content"] == content.as_str();
                let fresh = expected.is_none_or(|expected| first["before"]["version"] == expected);
                assert!(changed && right && fresh && rest.is_empty(), "{op:?} gave {tx}");
            }
            Op::Delete { entity_type, id } => {
                let deleted = first["op"] == "delete" && first["id"] == id.as_str();
                assert!(
                    deleted && first["entity_type"] == *entity_type && rest.is_empty(),
                    "{op:?} gave {tx}"
                );
            }
            Op::Relate { subject, object, on_conflict } => {
                for change in changes {
                    let side = if change["op"] == "create" { "after" } else { "before" };
                    let item = &change[side];
                    assert_eq!(item["subject"], subject.as_str(), "{op:?} gave {tx}");
                    assert_eq!(item["object"] == object.as_str(), side == "after", "{op:?} gave {tx}");
                    assert!(side == "after" || *on_conflict == "replace", "{op:?} gave {tx}");
                }
            }
            Op::Undo { tx: target } => {
                assert_eq!(tx["undoes"], json!([target]), "{op:?} gave {tx}");
                self.check_undo(tx, changes);
            }
            Op::UndoNewest { count } => {
                assert_eq!(tx["undoes"].as_array().map(Vec::len), Some(*count as usize), "{op:?} gave {tx}");
                self.check_undo(tx, changes);
            }
        }
    }

    /// Checks that every id has the state from before the oldest transaction that was undone.
    fn check_undo(&self, tx: &Value, changes: &[Value]) {
        let mut wanted = BTreeMap::new();
        let mut undone: Vec<u64> = tx["undoes"].as_array().into_iter().flatten().map(number).collect();
        undone.sort_unstable();
        for target in undone {
            for change in self.log[&target]["changes"].as_array().into_iter().flatten() {
                wanted.entry(text(&change["id"])).or_insert(&change["before"]);
            }
        }
        for change in changes {
            let wanted = wanted.remove(text(&change["id"]));
            let wanted = wanted.unwrap_or_else(|| panic!("the undo touched another id: {tx}"));
            assert_eq!(said(&change["after"]), said(wanted), "an undo gives back what was: {tx}");
        }
        for (id, wanted) in wanted {
            assert!(wanted.is_null(), "the undo left `{id}` as it was: {tx}");
        }
    }

    fn check_listings(&self, client: &mut Client) {
        let mut listed = BTreeMap::new();
        for uri in ["knowledge://entries", "knowledge://graph/triples"] {
            for item in read_all(client, uri) {
                let before = listed.insert(text(&item["id"]).to_owned(), item);
                assert_eq!(before, None, "{uri} lists an id twice");
            }
        }
        assert_eq!(listed, self.live, "what the store lists is what its history says");
    }

    /// Repeats the calls without an answer, with their keys: each happens exactly once, whether it had
    /// happened before or not.
    fn retry(&mut self, dir: &Path, attempts: Vec<Vec<Attempt>>, happened: &[Option<u64>]) {
        for ((writer, mut attempts), happened) in attempts.into_iter().enumerate().zip(happened) {
            let Some(Attempt { op, key: Some(key), reply: None }) = attempts.pop() else { continue };
            self.retried += 1;
            let name = writer_name(writer as u64);
            let mut client = start(dir, Era::Modern, &name);
            let arguments = op.arguments(writer as u64, Some(&key));
            let reply = client.call(op.tool(), arguments.clone()).expect("the server answers");
            let head = self.head;
            let live = self.live.clone();
            self.catch_up(&mut client);
            match (happened, self.head - head) {
                (Some(tx), 0) => {
                    assert_eq!(reply["tx_id"], *tx, "{op:?} had happened, and was told {reply}");
                    check_reply(&op, &reply, &self.log[tx]);
                }
                // The call was refused, or had nothing to write because the triple exists.
                (None, 0) => match reply["error"]["code"].as_str() {
                    Some(code) => assert!(may_refuse(&op, code, &live), "{name} was refused {op:?}: {reply}"),
                    None => assert!(live.contains_key(text(&reply["id"])), "{op:?} was told {reply}"),
                },
                (None, 1) => {
                    self.check_effect(&op, &self.log[&self.head]);
                    check_reply(&op, &reply, &self.log[&self.head]);
                }
                (happened, more) => {
                    panic!("{op:?} had happened in {happened:?}; the retry wrote {more} times")
                }
            }
            let again = client.call(op.tool(), arguments).expect("the server answers");
            assert_eq!(again, reply, "the third time is as the second: {op:?}");
            let head = self.head;
            self.catch_up(&mut client);
            assert_eq!(self.head, head, "the third time writes nothing: {op:?}");
        }
    }

    fn newest_of(&self, actor: &str, count: usize) -> Vec<u64> {
        let own = self.log.iter().rev().filter(|(_, tx)| tx["actor"] == actor);
        own.take(count).map(|(id, _)| *id).collect()
    }
}

fn replay(live: &mut BTreeMap<String, Value>, tx: &Value) {
    for change in tx["changes"].as_array().into_iter().flatten() {
        let before = live.get(text(&change["id"])).unwrap_or(&Value::Null);
        assert_eq!(before, &change["before"], "the change does not begin where the history stands: {tx}");
    }
    replay_own(live, tx);
}

fn replay_own(live: &mut BTreeMap<String, Value>, tx: &Value) {
    for change in tx["changes"].as_array().into_iter().flatten() {
        let id = text(&change["id"]).to_owned();
        match &change["after"] {
            Value::Null => drop(live.remove(&id)),
            after => drop(live.insert(id, after.clone())),
        }
    }
}

/// Whether the state that the writer left behind explains this refusal.
fn may_refuse(op: &Op, code: &str, live: &BTreeMap<String, Value>) -> bool {
    match op {
        Op::Store { .. } => false,
        Op::Update { id, expected, .. } => match live.get(id) {
            None => code == "NOT_FOUND",
            // Other writers change the shared entries too.
            Some(item) if item["topic"] == SHARED_TOPIC => code == "CONFLICT" && expected.is_some(),
            Some(item) => code == "CONFLICT" && expected.is_some_and(|expected| item["version"] != expected),
        },
        Op::Delete { id, .. } => code == "NOT_FOUND" && !live.contains_key(id),
        Op::Relate { subject, object, on_conflict } => {
            let other =
                |item: &Value| item["subject"] == subject.as_str() && item["object"] != object.as_str();
            code == "CONFLICT" && *on_conflict == "reject" && live.values().any(other)
        }
        // The transaction was undone already, was changed since, or there are fewer transactions than asked
        // for.
        Op::Undo { .. } => code == "CONFLICT",
        Op::UndoNewest { .. } => code == "CONFLICT" || code == "NOT_FOUND",
    }
}

/// Checks that the reply describes what the transaction did.
fn check_reply(op: &Op, reply: &Value, tx: &Value) {
    assert_eq!(reply["tx_id"], tx["tx_id"], "{op:?} was told {reply}, but did {tx}");
    let changes = tx["changes"].as_array().expect("a transaction has changes");
    match op {
        Op::Store { .. } | Op::Update { .. } => {
            assert_eq!(reply["id"], changes[0]["id"]);
            assert_eq!(reply["version"], changes[0]["after"]["version"]);
        }
        Op::Delete { .. } => assert_eq!(reply["id"], changes[0]["id"]),
        Op::Relate { .. } => {
            let replaced = changes.iter().filter(|change| change["op"] == "delete");
            let replaced: Vec<&Value> = replaced.map(|change| &change["id"]).collect();
            let conflicts = reply["conflicts"].as_array().into_iter().flatten();
            let conflicts: Vec<&Value> = conflicts.map(|triple| &triple["id"]).collect();
            assert!(replaced.is_empty() || replaced == conflicts, "{op:?} was told {reply}, but did {tx}");
        }
        Op::Undo { .. } | Op::UndoNewest { .. } => {
            let changed: Vec<&Value> = changes.iter().map(|change| &change["id"]).collect();
            assert_eq!(reply["undone"], tx["undoes"]);
            assert_eq!(reply["changed_ids"], json!(changed));
        }
    }
}

/// The content of an item, without the fields that every new version sets.
fn said(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(item) = item.as_object_mut() {
        for own in ["version", "updated_at", "tx_id"] {
            item.remove(own);
        }
    }
    item
}

pub(crate) fn verify(dir: &Path) {
    let mut damages = Vec::new();
    let engine = Engine::new(dir.to_owned(), Engine::real_sources());
    engine.verify(&mut |damage| damages.push(damage)).expect("the store can be read");
    assert_eq!(damages, [], "the store is sound");
}
