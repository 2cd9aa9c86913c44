//! Streams a million rows as NDJSON from a server process to a client process, and measures time and memory.
//! For comparison, the same run measures a bare axum handler that streams the same bytes.
//!
//! `cargo bench -p mcp-dual-response --bench stream` prints a table; `docs/figures.md` has one. Without
//! `--bench`, as `cargo test --benches` runs it, a thousand rows show that it works.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post;
use futures_util::{Stream, TryStreamExt, stream};
use mcp_dual_response::client::DualResponseClient;
use mcp_dual_response::reqwest;
use mcp_dual_response::server::{DualResponseServer, NewResource, PageRequest};
use mcp_dual_response::{BoxError, Column, Row};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ROWS: u64 = 1_000_000;
const ROWS_OF_A_TRIAL: u64 = 1_000;
/// Both servers send this many rows at a time.
const BATCH: u64 = 1_000;
const RUNS: usize = 5;

fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    match args.as_slice() {
        ["serve", rows] => runtime()?.block_on(serve(rows.parse()?, institution)),
        ["serve-maps", rows] => runtime()?.block_on(serve(rows.parse()?, row)),
        ["serve-bare", rows] => runtime()?.block_on(serve_bare(rows.parse()?)),
        ["fetch", result] => runtime()?.block_on(fetch(result)),
        ["drain", result] => runtime()?.block_on(drain(result)),
        ["digest", result] => runtime()?.block_on(digest(result)),
        args if args.contains(&"--bench") => compare(ROWS, RUNS),
        _ => compare(ROWS_OF_A_TRIAL, 1),
    }
}

/// Serves rows with the library: rows as a program's query would return them, as a type of its own or as
/// maps.
async fn serve<T: Serialize + Send + 'static>(rows: u64, make: fn(u64) -> T) -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server =
        DualResponseServer::builder(format!("http://{}/resources", listener.local_addr()?)).build()?;
    let columns = ["enrollment", "id", "name", "state"].map(Column::string);
    let execute = move |page: PageRequest| async move {
        Ok::<Vec<T>, Infallible>((page.offset..rows).take(page.limit as usize).map(make).collect())
    };
    let count = move || async move { Ok::<_, Infallible>(rows) };
    let response = server.create_response(NewResource::live("Rows", columns, execute, count)).await?;
    say(&response.to_structured_content());
    let app: Router = Router::new().nest("/resources", server.router());
    Ok(axum::serve(listener, app).await?)
}

/// Serves the same bytes without the library.
async fn serve_bare(rows: u64) -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/bare", listener.local_addr()?);
    say(
        &json!({"results": [], "metadata": {"total_count": rows}, "resource": {"uri": "resource://bare", "url": url}}),
    );
    let handler = async move || {
        let batches = (0..rows).step_by(BATCH as usize).map(move |start| {
            let mut out = Vec::with_capacity(BATCH as usize * 128);
            (start..rows).take(BATCH as usize).for_each(|id| write_row(&mut out, id));
            Bytes::from(out)
        });
        let end = std::iter::once_with(move || Bytes::from(format!("{{\"_end\":true,\"count\":{rows}}}\n")));
        Body::from_stream(stream::iter(batches.chain(end).map(Ok::<_, Infallible>)))
    };
    let app: Router = Router::new().route("/bare", post(handler));
    Ok(axum::serve(listener, app).await?)
}

#[derive(Serialize)]
struct Institution {
    enrollment: u64,
    id: u64,
    name: String,
    state: &'static str,
}

fn institution(id: u64) -> Institution {
    let name = format!("College of Applied Arts and Sciences number {id}");
    Institution { enrollment: (id * 7919) % 50_000, id, name, state: "NJ" }
}

fn row(id: u64) -> Row {
    Row::from_iter([
        ("enrollment".to_owned(), json!((id * 7919) % 50_000)),
        ("id".to_owned(), json!(id)),
        ("name".to_owned(), json!(format!("College of Applied Arts and Sciences number {id}"))),
        ("state".to_owned(), json!("NJ")),
    ])
}

fn write_row(out: &mut Vec<u8>, id: u64) {
    let enrollment = (id * 7919) % 50_000;
    writeln!(
        out,
        "{{\"enrollment\":{enrollment},\"id\":{id},\"name\":\"College of Applied Arts and Sciences number {id}\",\
         \"state\":\"NJ\"}}"
    )
    .expect("memory takes every byte");
}

/// Reads every row through the client, and prints the time that this took.
async fn fetch(result: &str) -> Result<(), BoxError> {
    let parsed = DualResponseClient::new()?.try_parse(&serde_json::from_str(result)?)?;
    let start = Instant::now();
    let mut batches = Box::pin(parsed.export(Vec::new()));
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.len();
    }
    say(&json!({"rows": rows, "seconds": start.elapsed().as_secs_f64(), "peak": peak("self")?}));
    Ok(())
}

/// Reads every byte without parsing it, to measure the server alone.
async fn drain(result: &str) -> Result<(), BoxError> {
    let start = Instant::now();
    let mut body = open(result).await?;
    while body.try_next().await?.is_some() {}
    say(&json!({"seconds": start.elapsed().as_secs_f64()}));
    Ok(())
}

/// Reads every byte, and prints a digest of them.
async fn digest(result: &str) -> Result<(), BoxError> {
    let mut body = open(result).await?;
    let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
    while let Some(chunk) = body.try_next().await? {
        // Byte by byte, because the digest must not depend on where the stream is cut into pieces.
        chunk.iter().for_each(|byte| hasher.write_u8(*byte));
        bytes += chunk.len();
    }
    say(&json!({"digest": hasher.finish(), "bytes": bytes}));
    Ok(())
}

async fn open(result: &str) -> Result<impl Stream<Item = reqwest::Result<Bytes>> + Unpin, BoxError> {
    let result: Value = serde_json::from_str(result)?;
    let url = result["resource"]["url"].as_str().ok_or("no URL")?;
    let request = reqwest::Client::new().post(url).header("accept", "application/x-ndjson").body("{}");
    Ok(Box::pin(request.send().await?.bytes_stream()))
}

/// The peak memory of a process, in KiB.
fn peak(process: &str) -> Result<u64, BoxError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("the system does not tell")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn compare(rows: u64, runs: usize) -> Result<(), BoxError> {
    let start = |role| Server::start(role, rows);
    let (typed, maps, bare) = (start("serve")?, start("serve-maps")?, start("serve-bare")?);
    let sent = ask("digest", &bare.result)?;
    for server in [&typed, &maps] {
        if ask("digest", &server.result)? != sent {
            return Err("the servers do not send the same bytes".into());
        }
    }
    let servers = [("own type", &typed), ("maps", &maps), ("bare handler", &bare)];
    let mut table = format!("{rows} rows, {} bytes, {runs} runs, rows per second\n", sent["bytes"]);
    let mut client_peak = 0;
    for (reader, role) in [("through the client", "fetch"), ("bytes read and not looked at", "drain")] {
        table +=
            &format!("\n| {reader} | own type | maps | bare handler | own type ÷ bare | maps ÷ bare |\n");
        table += "|---|---|---|---|---|---|\n";
        let (mut of_typed, mut of_maps) = (Vec::new(), Vec::new());
        for run in 1..=runs {
            let mut speeds = Vec::new();
            for (_, server) in &servers {
                let done = ask(role, &server.result)?;
                client_peak = client_peak.max(done["peak"].as_u64().unwrap_or(0));
                if done.get("rows").is_some_and(|read| *read != rows) {
                    return Err("rows are missing".into());
                }
                speeds.push(rows as f64 / done["seconds"].as_f64().ok_or("no time")?);
            }
            let [own, map, handler] = speeds.as_slice() else { return Err("three servers are asked".into()) };
            of_typed.push(own / handler);
            of_maps.push(map / handler);
            let (first, second) = (own / handler, map / handler);
            table +=
                &format!("| run {run} | {own:.0} | {map:.0} | {handler:.0} | {first:.2} | {second:.2} |\n");
        }
        table += &format!("| median | | | | {:.2} | {:.2} |\n", median(of_typed), median(of_maps));
    }
    table += "\n| process | peak memory, KiB |\n|---|---|\n";
    for (name, server) in servers {
        table += &format!("| server, {name} | {} |\n", peak(&server.process.id().to_string())?);
    }
    table += &format!("| client | {client_peak} |");
    show(&table);
    Ok(())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// A server process, which is killed when this value is dropped.
struct Server {
    process: Child,
    result: String,
}

impl Server {
    fn start(role: &str, rows: u64) -> Result<Self, BoxError> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([role, &rows.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut result = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut result)?;
        Ok(Self { process, result })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(role: &str, result: &str) -> Result<Value, BoxError> {
    let output = Command::new(std::env::current_exe()?)
        .args([role, result])
        .stdout(Stdio::piped())
        .spawn()?
        .wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn say(line: &Value) {
    show(&line.to_string());
}

#[expect(clippy::print_stdout, reason = "a benchmark prints what it found")]
fn show(text: &str) {
    println!("{text}");
}
