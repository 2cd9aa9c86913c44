//! A store in a database beside what PostgreSQL itself costs, and beside an embedded store; how long a new server takes.
//!
//! `scripts/with-postgres --durable cargo bench -p kenning --bench database`; `-- --quick` for a look.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kenning_engine::{Engine, Location};
use kenning_storage::DatabaseUrl;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

const CLIENTS: usize = 16;
/// The longest wait; everything that the bench waits for takes less.
const LONG: Duration = Duration::from_secs(600);

struct Sizes {
    writes: usize,
    rounds: usize,
    per_round: Duration,
    questions: usize,
    entries: usize,
}

const FULL: Sizes =
    Sizes { writes: 1500, rounds: 3, per_round: Duration::from_secs(3), questions: 300, entries: 100_000 };
const QUICK: Sizes =
    Sizes { writes: 200, rounds: 1, per_round: Duration::from_secs(1), questions: 50, entries: 5_000 };

fn main() {
    let Ok(text) = std::env::var("KENNING_TEST_DATABASE") else {
        println!("run this as scripts/with-postgres --durable cargo bench -p kenning --bench database");
        return;
    };
    let sizes = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let database = Database { text };
    println!("one `store` beside one INSERT with its COMMIT");
    lone_writes(&database, dir.path(), &sizes);
    println!("`store` of {CLIENTS} clients beside the same rows in batches of {CLIENTS}");
    concurrent_writes(&database, dir.path(), &sizes, 1);
    concurrent_writes(&database, dir.path(), &sizes, 3);
    println!("{} entries", sizes.entries);
    let filled = fill(&database, dir.path(), sizes.entries);
    questions(&filled, &sizes);
    search_in_sql(&database, &filled.0, &sizes);
    new_servers(&database, dir.path(), filled.0);
}

struct Database {
    text: String,
}

impl Database {
    fn url(&self, store: &str) -> DatabaseUrl {
        DatabaseUrl::parse(&self.text).and_then(|url| url.with_store(store)).expect("a good URL")
    }

    /// A server with a directory of its own.
    fn server(&self, store: &str, dir: &Path) -> Agent {
        Agent::new(Location::Database(self.url(store)), dir)
    }

    fn sql(&self) -> Sql {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.text, NoTls).await.expect("a connection");
            tokio::spawn(connection);
            client
        });
        Sql { runtime, client }
    }
}

/// A plain connection.
struct Sql {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Sql {
    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).expect("a statement");
    }

    fn use_store(&self, store: &str) -> i32 {
        let row = self.runtime.block_on(self.client.query_one("SELECT kenning.use_store($1)", &[&store]));
        row.expect("a store").get(0)
    }
}

/// A caller of tools in this process.
#[derive(Clone)]
struct Agent {
    engine: Arc<Engine>,
    caller: Caller,
}

impl Agent {
    fn new(location: Location, dir: &Path) -> Agent {
        std::fs::create_dir_all(dir).expect("a directory");
        let engine = Arc::new(Engine::open(location, dir.to_owned(), Engine::real_sources()));
        let (actor, scope) = ("bench".to_owned(), "global:default".to_owned());
        Agent { engine, caller: Caller::new(Some(&actor), Engine::new_origin(), scope) }
    }

    fn call(&self, tool: &str, arguments: Value) -> (Value, Value) {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let tool = find(tool).expect("a known tool");
        // As the server does it: somebody waits for the answer.
        let engine = self.engine.until(Instant::now() + Duration::from_secs(30));
        let reply = dispatch(&Arc::new(engine), &self.caller, Access::ReadWrite, tool, arguments);
        assert!(!reply.is_error, "{}", reply.text());
        (reply.structured, json!(reply.meta))
    }

    fn store(&self, number: usize) {
        self.call("store", json!({"topic": format!("topic {}", number % 977), "content": content(number)}));
    }

    fn query(&self, number: usize) -> Vec<String> {
        let (reply, _) = self.call("query", json!({"content": question(number), "limit": 10}));
        let items = reply["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["id"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

const WORDS: [&str; 24] = [
    "deploy", "release", "rollback", "cache", "token", "session", "index", "queue", "worker", "schema",
    "tenant", "latency", "budget", "cursor", "replica", "backup", "shard", "metric", "alert", "runbook",
    "gateway", "retry", "ledger", "policy",
];

/// About 550 bytes of different words.
fn content(number: usize) -> String {
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

/// Three words, each of about one entry in thirty.
fn question(number: usize) -> String {
    let word = |at: u64| {
        let seed = kenning_testkit::scrambled(number as u64 * 7 + at);
        format!("{}{}", WORDS[(seed % 24) as usize], seed % 89)
    };
    [word(1), word(2), word(3)].join(" ")
}

fn lone_writes(database: &Database, dir: &Path, sizes: &Sizes) {
    let agent = database.server("bench-lone", &dir.join("lone"));
    let sql = database.sql();
    sql.run("CREATE TABLE IF NOT EXISTS public.bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)");
    let insert = sql.runtime.block_on(sql.client.prepare("INSERT INTO public.bare (body) VALUES ($1)"));
    let insert = insert.expect("a statement");
    let mut floor = BareBatches::new(database, "floor-lone", dir);
    let (mut bare, mut rows, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    let trips = || agent.engine.storage().expect("a store").backend().round_trips();
    let before = trips();
    for number in 0..sizes.writes + 50 {
        let body = content(number);
        let bare_took = timed(|| {
            sql.runtime.block_on(sql.client.execute(&insert, &[&body])).expect("a row");
        });
        let rows_took = timed(|| floor.write(1));
        let ours_took = timed(|| agent.store(number));
        // The first few open connections and fill caches.
        if number >= 50 {
            bare.push(bare_took);
            rows.push(rows_took);
            ours.push(ours_took);
        }
    }
    let trips = (trips() - before) as f64 / (sizes.writes + 50) as f64;
    let (bare, rows, ours) = (median(bare), median(rows), median(ours));
    println!("  p50 {ours:.0} µs / {bare:.0} µs = {:.2}", ours / bare);
    println!(
        "  p50 {ours:.0} µs / {rows:.0} µs for the same rows = {:.2}; {trips:.1} round trips",
        ours / rows
    );
}

fn concurrent_writes(database: &Database, dir: &Path, sizes: &Sizes, servers: usize) {
    let store = format!("bench-{servers}");
    let agents: Vec<Agent> =
        (0..servers).map(|server| database.server(&store, &dir.join(format!("{store}-{server}")))).collect();
    agents.iter().for_each(|agent| agent.store(1));
    let mut floor = BareBatches::new(database, &format!("floor-{servers}"), dir);
    let (mut bare, mut ours) = (0.0, 0.0);
    let next = AtomicUsize::new(0);
    for _ in 0..sizes.rounds {
        let (since, mut many) = (Instant::now(), 0);
        while since.elapsed() < sizes.per_round {
            floor.write(CLIENTS);
            many += CLIENTS;
        }
        bare += many as f64 / since.elapsed().as_secs_f64();
        let since = Instant::now();
        let many: usize = std::thread::scope(|scope| {
            let write = |client: usize| {
                let (agent, next) = (&agents[client % servers], &next);
                scope.spawn(move || {
                    let mut many = 0;
                    while since.elapsed() < sizes.per_round {
                        agent.store(next.fetch_add(1, Ordering::Relaxed));
                        many += 1;
                    }
                    many
                })
            };
            let writers: Vec<_> = (0..CLIENTS).map(write).collect();
            writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
        });
        ours += many as f64 / since.elapsed().as_secs_f64();
    }
    let rounds = sizes.rounds as f64;
    println!(
        "  through {servers}: {:.0} writes/s / {:.0} = {:.2}",
        ours / rounds,
        bare / rounds,
        ours / bare
    );
}

/// The rows that `store` writes, into the same tables with their indexes and triggers, by a program that plans, checks and reads nothing.
struct BareBatches {
    sql: Sql,
    statements: Vec<Statement>,
    store: i32,
    head: i64,
}

const ROWS: [&str; 4] = [
    "INSERT INTO kenning.log (store, tx_id, seq, kind, id, body, crc)
     SELECT $1::int, t, 0, 0, '', h, 1 FROM unnest($2::bigint[], $3::text[]) AS x(t, h)
     UNION ALL SELECT $1::int, t, 1, 1, i, b, 1 FROM unnest($2::bigint[], $4::text[], $5::text[]) AS x(t, i, b)",
    "INSERT INTO kenning.version (store, tx_from, seq, kind, id, scope, topic_key, suppressed, pinned)
     SELECT $1::int, t, 1, 1, i, 1, k, false, false FROM unnest($2::bigint[], $3::text[], $4::text[]) AS x(t, i, k)",
    "INSERT INTO kenning.touched (store, tx_id, scope, kind, origin)
     SELECT $1::int, t, 1, 1, '0123456789abcdef0123456789abcdef' FROM unnest($2::bigint[]) AS t",
    "UPDATE kenning.store SET head = $2 WHERE store = $1",
];

impl BareBatches {
    fn new(database: &Database, store: &str, dir: &Path) -> BareBatches {
        // Makes the store; its only entry is in a transaction before those that follow.
        database.server(store, &dir.join(store)).store(0);
        let sql = database.sql();
        let store = sql.use_store(store);
        let prepare = |rows: &&str| sql.runtime.block_on(sql.client.prepare(rows)).expect("a statement");
        let statements = ROWS.iter().map(prepare).collect();
        BareBatches { sql, statements, store, head: 1 }
    }

    /// The number of transactions of one entry each that one commit has.
    fn write(&mut self, many: usize) {
        let from = self.head + 1;
        self.head += many as i64;
        let txs: Vec<i64> = (from..=self.head).collect();
        let ids: Vec<String> = txs.iter().map(|tx| format!("{tx:010}")).collect();
        let header = r#"{"at":"2026-11-19T04:00:00.000Z","actor":"bench","origin":"0123456789abcdef0123456789abcdef","tool":"store"}"#;
        let headers = vec![header; many];
        let bodies: Vec<String> = txs
            .iter()
            .map(|tx| {
                json!({"scope": 1, "topic": format!("topic {}", tx % 977), "content": content(*tx as usize), "tags": [], "actor": "bench",
                       "version": 1, "recorded_at": "2026-11-19T04:00:00.000Z"})
                .to_string()
            })
            .collect();
        let topics: Vec<String> = txs.iter().map(|tx| format!("topic {}", tx % 977)).collect();
        let Sql { runtime, client } = &self.sql;
        runtime.block_on(async {
            client.batch_execute("BEGIN").await.expect("begun");
            let values: [Vec<&(dyn ToSql + Sync)>; 4] = [
                vec![&self.store, &txs, &headers, &ids, &bodies],
                vec![&self.store, &txs, &ids, &topics],
                vec![&self.store, &txs],
                vec![&self.store, &self.head],
            ];
            for (statement, values) in self.statements.iter().zip(&values) {
                client.execute(statement, values).await.expect("rows");
            }
            client.batch_execute("COMMIT").await.expect("committed");
        });
    }
}

const FILLED: &str = "bench-filled";

/// The same entries in the database and in a directory.
fn fill(database: &Database, dir: &Path, entries: usize) -> (Agent, Agent) {
    let remote = database.server(FILLED, &dir.join("filled"));
    let embedded = dir.join("embedded");
    let embedded = Agent::new(Location::Directory(embedded.clone()), &embedded);
    for from in (0..entries).step_by(25) {
        let entry =
            |number: usize| json!({"topic": format!("topic {}", number % 977), "content": content(number)});
        let entries: Vec<Value> = (from..from + 25).map(entry).collect();
        for agent in [&remote, &embedded] {
            agent.call("store_many", json!({"entries": entries}));
        }
    }
    (remote, embedded)
}

/// Whether a question was answered from the whole index.
fn is_whole(agent: &Agent) -> bool {
    let (_, meta) = agent.call("query", json!({"content": question(1), "limit": 10}));
    meta.get("io.kenning/degraded").is_none()
}

fn questions((remote, embedded): &(Agent, Agent), sizes: &Sizes) {
    for agent in [remote, embedded] {
        let since = Instant::now();
        while !is_whole(agent) || !agent.engine.is_warm() {
            assert!(since.elapsed() < LONG, "the index is made");
            std::thread::sleep(Duration::from_millis(20));
        }
        (0..50).for_each(|number| drop(agent.query(number)));
    }
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for number in 0..sizes.questions {
        there.push(timed(|| drop(remote.query(number))));
        here.push(timed(|| drop(embedded.query(number))));
    }
    let (there, here) = (median(there), median(here));
    println!("  `query` on a warm server: p50 {there:.0} µs / embedded {here:.0} µs = {:.2}", there / here);
}

fn search_in_sql(database: &Database, agent: &Agent, sizes: &Sizes) {
    let sql = database.sql();
    sql.use_store(FILLED);
    let statement = "SELECT id FROM kenning.search_knowledge(ARRAY[$1::text], 'global:default', 10)";
    let statement = sql.runtime.block_on(sql.client.prepare(statement)).expect("a statement");
    let (mut took, mut shared, mut all) = (Vec::new(), 0, 0);
    for number in 0..sizes.questions {
        let question = question(number);
        let mut rows = Vec::new();
        took.push(timed(|| {
            rows = sql.runtime.block_on(sql.client.query(&statement, &[&question])).expect("rows");
        }));
        let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let ours = agent.query(number);
        shared += ours.iter().filter(|id| found.contains(id)).count();
        all += ours.len();
    }
    println!(
        "  kenning.search_knowledge: p50 {:.0} µs; it has {:.1} of the engine's first ten",
        median(took),
        10.0 * shared as f64 / all as f64
    );
}

/// From the start of a new server to its first answer from the whole index, with what another server has left and without.
fn new_servers(database: &Database, dir: &Path, filled: Agent) {
    let sql = database.sql();
    sql.use_store(FILLED);
    let left = || {
        let row = sql.runtime.block_on(sql.client.query_one(
            "SELECT coalesce((SELECT max(at) FROM kenning.file_set), 0), coalesce((SELECT sum(length(bytes)) FROM kenning.file_part), 0)::bigint",
            &[],
        ));
        let row = row.expect("a row");
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    // The server that has filled the store goes on until it has left all that is due.
    let head = filled.engine.head().expect("a head").0 as i64;
    let since = Instant::now();
    while left().0 < head - 2_000 && since.elapsed() < LONG {
        filled.store(since.elapsed().as_nanos() as usize);
        filled.query(1);
        std::thread::sleep(Duration::from_millis(500));
    }
    filled.engine.close();
    drop(filled);
    let (at, bytes) = left();
    println!("  left: {:.1} MB up to transaction {at} of {head}", bytes as f64 / 1e6);
    for (name, with) in [("with", true), ("without", false)] {
        if !with {
            sql.run("DELETE FROM kenning.file_set");
        }
        let mut took = Vec::new();
        for round in 0..3 {
            let since = Instant::now();
            let agent = database.server(FILLED, &dir.join(format!("new-{name}-{round}")));
            agent.engine.prepare().expect("the store opens");
            while agent.engine.is_preparing() {
                std::thread::sleep(Duration::from_millis(1));
            }
            while !is_whole(&agent) {
                assert!(since.elapsed() < LONG, "the index is made");
            }
            took.push(since.elapsed().as_secs_f64() * 1e6);
            agent.engine.close();
            if !with {
                sql.run("DELETE FROM kenning.file_set");
            }
        }
        println!(
            "  a new server {name} what another left: first whole answer after {:.2} s",
            median(took) / 1e6
        );
    }
}

/// In microseconds.
fn timed(work: impl FnOnce()) -> f64 {
    let since = Instant::now();
    work();
    since.elapsed().as_secs_f64() * 1e6
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
