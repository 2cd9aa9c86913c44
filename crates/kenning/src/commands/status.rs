//! `kenning status`: what the store holds, how large it is, and who uses it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use kenning_engine::{DocumentKind, INDEX_DIR, Snapshot};
use kenning_model::{EntityType, ScopeId};
use kenning_server::connect::Remote;
use kenning_server::remote_status::{Numbers, RemoteStatus, status_of};
use kenning_tools::recall::{RecallLog, RecallSession};
use serde::Serialize;

use super::serve::remote_token;
use super::{Outcome, existing_store, line, print, usage};
use crate::config::Config;
use crate::terminal::{self, NAME, Table, Text};

/// At most this many sessions are shown.
const SESSIONS_MAX: usize = 10;

#[derive(Args)]
#[command(after_help = "Examples:
  kenning status
  KENNING_TOKEN=kenning_… kenning status --url https://kenning.example:8787   # exit code 5 when it is not ready")]
pub struct Status {
    /// Ask the server at this address instead, such as https://kenning.example:8787; an owner's key in KENNING_TOKEN or --token-file also shows its numbers
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The file with the key or token for --url
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Send the token unencrypted to another machine, because the network between is trusted
    #[arg(long, requires = "url")]
    plain_http: bool,
    /// Print for programs
    #[arg(long)]
    json: bool,
}

/// What `--json` prints; programs rely on the names.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    data_dir: String,
    store_id: String,
    transactions: u64,
    /// When the newest transaction was made.
    newest_at: Option<String>,
    /// How long opening the store and reading its newest transaction took.
    open_ms: f64,
    bytes: Bytes,
    /// The processes that have the store open, without this one. `None` on platforms that do not tell.
    processes: Option<Vec<u32>>,
    /// The sessions that were last given entries, latest first, as far as the recall log knows.
    sessions: Vec<SessionReport>,
    scopes: Vec<ScopeReport>,
}

/// A session of an agent.
#[derive(Serialize)]
struct SessionReport {
    client: String,
    began_at: String,
    last_at: String,
    calls: u64,
    /// How many different entries it was given.
    entries: u64,
}

#[derive(Serialize)]
struct Bytes {
    /// The log and what is derived from it.
    store: u64,
    /// The search index, which can be made again.
    index: u64,
    /// The rows behind replies, for a quarter of an hour.
    rows: u64,
    /// Which entries were given to whom.
    recall: u64,
}

/// What a scope has itself, without what it inherits.
#[derive(Serialize)]
struct ScopeReport {
    scope: String,
    entries: u64,
    triples: u64,
    documents: u64,
    patterns: u64,
}

pub fn run(config: &Config, status: Status) -> anyhow::Result<Outcome> {
    if let Some(url) = status.url {
        let token = remote_token(status.token_file)?;
        let remote = Remote { url, token, allows_plain_http: status.plain_http };
        return of_server(&remote, status.json);
    }
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let engine = config.engine()?;
    let dir = engine.dir();
    let since = Instant::now();
    let snapshot = engine.snapshot(&config.principal())?;
    let newest_at = snapshot.time_of(snapshot.at())?.map(|time| time.to_string());
    let open_ms = (since.elapsed().as_micros() as f64) / 1000.0;
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        data_dir: dir.display().to_string(),
        store_id: snapshot.store().to_string(),
        transactions: snapshot.at().0,
        newest_at,
        open_ms,
        bytes: Bytes {
            store: size_of(dir, "store.db"),
            index: size_below(&dir.join(INDEX_DIR)),
            rows: size_of(dir, "rows.db"),
            recall: size_of(dir, "recall.db"),
        },
        processes: processes_with(&dir.join(kenning_storage::STORE_FILE)),
        sessions: sessions(dir),
        scopes: scopes(&snapshot)?,
    };
    match status.json {
        true => print(&serde_json::to_string(&report)?)?,
        false => report.tell()?,
    }
    Ok(Outcome::Done)
}

/// Asks a server that is running, and touches no store.
fn of_server(remote: &Remote, as_json: bool) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(status_of(remote)).map_err(|error| usage(error.to_string()))?;
    match as_json {
        true => print(&serde_json::to_string(&status)?)?,
        false => tell_of_server(&status)?,
    }
    Ok(if status.is_ready { Outcome::Done } else { Outcome::Busy })
}

fn tell_of_server(status: &RemoteStatus) -> anyhow::Result<()> {
    let RemoteStatus { url, is_alive, is_ready, problem, ready_ms, numbers, no_numbers } = status;
    let problem = problem.as_deref().map(|why| format!(": {}", line(why))).unwrap_or_default();
    let state = match (is_alive, is_ready, ready_ms) {
        (_, true, Some(ms)) => format!("ready, in {ms:.1} ms"),
        (_, true, None) => "ready".to_owned(),
        (true, false, _) => format!("not ready{problem}"),
        (false, false, _) => format!("does not answer{problem}"),
    };
    print(&format!("server    {}\nstate     {state}", line(url)))?;
    if let Some(why) = no_numbers {
        print(&format!("numbers   none: {}", line(why)))?;
    }
    let Some(Numbers { credentials_open, requests, statuses, calls, tools }) = numbers else { return Ok(()) };
    let others: Vec<String> = statuses.iter().map(|(status, many)| format!("{many} with {status}")).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    print(&format!(
        "requests  {requests}{others} since it was started\ncallers   {credentials_open}\ncalls     {calls}"
    ))?;
    if tools.is_empty() {
        return Ok(());
    }
    print("")?;
    let mut table = Table::new(&["TOOL", "CALLS", "ERRORS"]).numbers(&[1, 2]);
    for (tool, counted) in tools {
        let counts = [counted.calls, counted.errors].map(|count| Text::plain(count.to_string()));
        table.row(std::iter::once(Text::styled(NAME, line(tool))).chain(counts).collect());
    }
    Ok(terminal::print(&table.text())?)
}

fn scopes(snapshot: &Snapshot<'_>) -> anyhow::Result<Vec<ScopeReport>> {
    let tree = snapshot.tree()?;
    let entries = snapshot.count_by_scope(EntityType::Entry)?;
    let triples = snapshot.count_by_scope(EntityType::Triple)?;
    let documents = snapshot.count_by_scope(EntityType::Document)?;
    let count = |counts: &BTreeMap<ScopeId, u64>, scope: ScopeId| counts.get(&scope).copied().unwrap_or(0);
    let mut reports = Vec::new();
    for (namespace, _) in tree.namespaces() {
        for (_, scope) in tree.scopes(namespace) {
            let number = scope.number;
            // A pattern is a document of a source that was taken in for the catalogue.
            let sources = match documents.contains_key(&number) {
                true => snapshot.document_sources(number)?,
                false => Vec::new(),
            };
            let patterns = sources.iter().filter(|source| source.kind == DocumentKind::Pattern);
            let patterns: u64 = patterns.map(|source| source.documents).sum();
            reports.push(ScopeReport {
                scope: tree.name(scope).to_string(),
                entries: count(&entries, number),
                triples: count(&triples, number),
                documents: count(&documents, number).saturating_sub(patterns),
                patterns,
            });
        }
    }
    reports.sort_by(|a, b| a.scope.cmp(&b.scope));
    Ok(reports)
}

/// The sessions of the recall log. If it can't be read, the list is empty; `doctor` reports that problem.
fn sessions(dir: &Path) -> Vec<SessionReport> {
    let log = RecallLog::existing(dir);
    let sessions = log.and_then(|log| log.sessions(SESSIONS_MAX).ok()).unwrap_or_default();
    let report = |session: RecallSession| SessionReport {
        client: session.client,
        began_at: session.first.to_string(),
        last_at: session.last.to_string(),
        calls: session.calls,
        entries: session.ids,
    };
    sessions.into_iter().map(report).collect()
}

impl Report {
    fn tell(&self) -> anyhow::Result<()> {
        let Bytes { store, index, rows, recall } = self.bytes;
        let newest = match &self.newest_at {
            Some(at) => format!("{} transactions, the newest at {at}", self.transactions),
            None => "no transactions yet".to_owned(),
        };
        let ids = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let used = match self.processes.as_deref() {
            None => String::new(),
            Some([]) => "\nin use    by no other process".to_owned(),
            Some([one]) => format!("\nin use    by one other process: {one}"),
            Some(all) => format!("\nin use    by {} other processes: {}", all.len(), ids(all)),
        };
        print(&format!(
            "Kenning {}\nstore     {}\nlog       {newest}\non disk   {} store, {} index, {} rows, {} recall log\nopens in  {:.1} ms{used}\n",
            self.version,
            self.data_dir,
            shown_bytes(store),
            shown_bytes(index),
            shown_bytes(rows),
            shown_bytes(recall),
            self.open_ms
        ))?;
        let mut table =
            Table::new(&["SCOPE", "ENTRIES", "TRIPLES", "DOCUMENTS", "PATTERNS"]).numbers(&[1, 2, 3, 4]);
        for scope in &self.scopes {
            let counts = [scope.entries, scope.triples, scope.documents, scope.patterns];
            let counts = counts.map(|count| Text::plain(count.to_string()));
            table.row(std::iter::once(Text::styled(NAME, &scope.scope)).chain(counts).collect());
        }
        terminal::print(&table.text())?;
        if self.sessions.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(&["LAST SESSIONS", "UNTIL", "CALLS", "ENTRIES GIVEN"]).numbers(&[2, 3]);
        for session in &self.sessions {
            let counts = [session.calls, session.entries].map(|count| Text::plain(count.to_string()));
            let words = [line(&session.client), session.last_at.clone()].map(Text::plain);
            table.row(words.into_iter().chain(counts).collect());
        }
        print("")?;
        Ok(terminal::print(&table.text())?)
    }
}

/// A file of the store, and the write-ahead log beside it.
fn size_of(dir: &Path, name: &str) -> u64 {
    let length = |name: String| std::fs::metadata(dir.join(name)).map_or(0, |about| about.len());
    length(name.to_owned()) + length(format!("{name}-wal"))
}

pub fn size_below(dir: &Path) -> u64 {
    let Ok(inside) = std::fs::read_dir(dir) else { return 0 };
    let sizes = inside.filter_map(Result::ok).map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size_below(&entry.path()),
        _ => entry.metadata().map_or(0, |about| about.len()),
    });
    sizes.sum()
}

pub fn shown_bytes(bytes: u64) -> String {
    const STEPS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match STEPS.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / size as f64),
        None => format!("{bytes} B"),
    }
}

/// The other processes of this user that have a file open, where the system tells.
fn processes_with(file: &Path) -> Option<Vec<u32>> {
    let file = std::fs::canonicalize(file).ok()?;
    let own = std::process::id();
    let mut found: Vec<u32> = std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| *process != own)
        .filter(|process| {
            let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
            open.filter_map(Result::ok).any(|link| std::fs::read_link(link.path()).is_ok_and(|to| to == file))
        })
        .collect();
    found.sort_unstable();
    Some(found)
}
