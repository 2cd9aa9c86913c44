//! The recall log: which entries and sections were given to whom, when, by which tool or hook. It stores ids
//! and never their content. It is a separate file beside the store and can be deleted at any time.
//!
//! Hooks keep in the same file the state that they need from one process to the next: the ids that a session
//! was given already, the transaction up to which it has seen the store, and the outcome of the last run for
//! each host.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::SignedDuration;
use kenning_model::{Id, Timestamp, TxId};
use mcp_dual_response::rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params,
};

/// The file in the data directory.
pub const RECALL_FILE: &str = "recall.db";
/// Older calls are removed,
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(90 * 24);
/// and so are all but the newest of this many calls, which take about 20 MB.
const CALLS_MAX: u64 = 100_000;
/// The file is pruned once per this many calls.
const PRUNED_EVERY: u64 = 1_000;
/// The state of hooks for a session is removed after nothing came from the session for this long.
const SESSION_KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Of one call, at most this many ids are recorded.
const IDS_MAX: usize = 200;
const NAME_BYTES_MAX: usize = 100;
/// A server waits this long for another process to release the file; it does so in the background.
const BUSY_MAX: Duration = Duration::from_secs(2);
/// At most this many calls wait to be written; further ones are not recorded.
const WAITING_MAX: usize = 1_024;

/// The reason why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another process has locked the recall log")]
    Locked,
    #[error("the recall log can't be read")]
    Unreadable(#[source] mcp_dual_response::rusqlite::Error),
    #[error("the file of the recall log can't be made")]
    Io(#[from] std::io::Error),
}

impl From<mcp_dual_response::rusqlite::Error> for Error {
    fn from(error: mcp_dual_response::rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked,
            _ => Error::Unreadable(error),
        }
    }
}

/// The ids that one call or hook gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallNote {
    pub at: Timestamp,
    /// The name from `Caller::session` or `session_of`.
    pub session: String,
    /// The name of the client or of the host.
    pub client: String,
    /// The name of the tool, the resource or the hook.
    pub by: String,
    pub scope: String,
    pub ids: Vec<Id>,
}

/// A session that was given something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallSession {
    pub session: String,
    pub client: String,
    pub first: Timestamp,
    pub last: Timestamp,
    pub calls: u64,
    /// The number of different ids that it was given.
    pub ids: u64,
}

/// The state that hooks keep about a session of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSession {
    /// A key for the project that reveals nothing about it; empty if there is no project.
    pub project: String,
    pub scope: String,
    /// `began_tx` is the newest transaction when the session began, `seen_tx` that when a hook last answered
    /// it.
    pub began_tx: TxId,
    pub seen_tx: TxId,
    pub prompts: u64,
    pub seen_at: Timestamp,
}

/// The outcome of a hook's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    Said,
    /// There was nothing to report.
    Silent,
    Failed,
    /// The deadline passed.
    CutOff,
}

impl HookOutcome {
    const ALL: [HookOutcome; 4] =
        [HookOutcome::Said, HookOutcome::Silent, HookOutcome::Failed, HookOutcome::CutOff];

    pub fn as_str(self) -> &'static str {
        match self {
            HookOutcome::Said => "said",
            HookOutcome::Silent => "silent",
            HookOutcome::Failed => "failed",
            HookOutcome::CutOff => "cut off",
        }
    }

    fn parse(text: &str) -> HookOutcome {
        HookOutcome::ALL.into_iter().find(|outcome| outcome.as_str() == text).unwrap_or(HookOutcome::Failed)
    }
}

/// The last run of a hook for a host and an event, and the last failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    pub host: String,
    /// `start`, `prompt` or `other`.
    pub event: String,
    pub at: Timestamp,
    pub took_ms: u64,
    pub outcome: HookOutcome,
    pub runs: u64,
    pub failures: u64,
    pub failed_at: Option<Timestamp>,
    /// A few fixed words, never content.
    pub failure: Option<String>,
}

/// A run that is to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct HookRunNote<'a> {
    pub host: &'a str,
    pub event: &'a str,
    pub at: Timestamp,
    pub took_ms: u64,
    pub outcome: HookOutcome,
    pub failure: Option<&'static str>,
}

/// The open file.
pub struct RecallLog {
    connection: Mutex<Connection>,
}

impl std::fmt::Debug for RecallLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecallLog").finish_non_exhaustive()
    }
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS call (
        number INTEGER PRIMARY KEY, at INTEGER NOT NULL, session TEXT NOT NULL, client TEXT NOT NULL, by TEXT NOT NULL,
        scope TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS call_session ON call (session, number);
    CREATE TABLE IF NOT EXISTS given (
        id TEXT NOT NULL, call INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (id, call)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS given_call ON given (call, place);
    CREATE TABLE IF NOT EXISTS hook_session (
        session TEXT PRIMARY KEY, project TEXT NOT NULL, scope TEXT NOT NULL, began_tx INTEGER NOT NULL,
        seen_tx INTEGER NOT NULL, prompts INTEGER NOT NULL, seen_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS hook_session_project ON hook_session (project, scope, seen_at);
    CREATE TABLE IF NOT EXISTS hook_given (
        session TEXT NOT NULL, id TEXT NOT NULL, hash INTEGER NOT NULL, PRIMARY KEY (session, id, hash)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS hook_run (
        host TEXT NOT NULL, event TEXT NOT NULL, at INTEGER NOT NULL, took_ms INTEGER NOT NULL, outcome TEXT NOT NULL,
        runs INTEGER NOT NULL, failures INTEGER NOT NULL, failed_at INTEGER, failure TEXT, PRIMARY KEY (host, event)
    ) WITHOUT ROWID;
    PRAGMA user_version = 1;";

/// The version of the tables. A new file has version 0 and gets the tables when it is opened; a reader ignores
/// a file of another version.
const VERSION: i64 = 1;

/// A name for a session of a host, from which the host's own name can't be derived; that name may have any
/// content and length.
pub fn session_of(host_session: &str) -> String {
    use sha2::{Digest, Sha256};
    data_encoding::HEXLOWER.encode(&Sha256::digest(format!("host session {host_session}"))[..16])
}

impl RecallLog {
    /// Opens the log of a data directory, or creates it. A file that can't be read is renamed, and a new one
    /// is begun.
    pub fn open(dir: &Path) -> Result<RecallLog, Error> {
        RecallLog::open_within(dir, BUSY_MAX)
    }

    /// As `open`, with a bound on the wait for another process.
    pub fn open_within(dir: &Path, busy_max: Duration) -> Result<RecallLog, Error> {
        let file = dir.join(RECALL_FILE);
        let opened = connect(&file, busy_max).or_else(|error| match error {
            Error::Unreadable(_) => {
                for ending in ["", "-wal", "-shm"] {
                    let name = dir.join(format!("{RECALL_FILE}{ending}"));
                    // Moving a file that does not exist is not an error.
                    let _ = std::fs::rename(&name, dir.join(format!("{RECALL_FILE}{ending}.damaged")));
                }
                connect(&file, busy_max)
            }
            error => Err(error),
        })?;
        Ok(RecallLog { connection: Mutex::new(opened) })
    }

    /// The log of a data directory for a reader; `None` if there is none, since a reader does not create it.
    pub fn existing(dir: &Path) -> Option<RecallLog> {
        let file = dir.join(RECALL_FILE);
        let connection = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
        connection.busy_timeout(BUSY_MAX).ok()?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).ok()?;
        (version == VERSION).then(|| RecallLog { connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the ids that a call gave.
    pub fn note(&self, given: &RecallNote) -> Result<(), Error> {
        let mut connection = self.connection();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        insert(&tx, given)?;
        tx.commit()?;
        Ok(())
    }

    /// The newest calls that gave this id, newest first.
    pub fn of_entry(&self, id: Id, limit: usize) -> Result<Vec<RecallNote>, Error> {
        let sql = "SELECT number, at, session, client, by, scope FROM call WHERE number IN
            (SELECT call FROM given WHERE id = ?1 ORDER BY call DESC LIMIT ?2) ORDER BY number DESC";
        self.given(sql, params![id.to_string(), limit])
    }

    /// The calls of a session that gave something, newest first.
    pub fn of_session(&self, session: &str) -> Result<Vec<RecallNote>, Error> {
        let sql =
            "SELECT number, at, session, client, by, scope FROM call WHERE session = ?1 ORDER BY number DESC";
        self.given(sql, params![session])
    }

    /// The sessions that were given something, the latest first.
    pub fn sessions(&self, limit: usize) -> Result<Vec<RecallSession>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT session, max(client), min(at), max(at), count(*),
                (SELECT count(DISTINCT id) FROM given WHERE call IN
                    (SELECT number FROM call AS own WHERE own.session = call.session))
             FROM call GROUP BY session ORDER BY max(number) DESC LIMIT ?1",
        )?;
        let sessions = statement.query_map(params![limit], |row| {
            Ok(RecallSession {
                session: row.get(0)?,
                client: row.get(1)?,
                first: moment(row.get(2)?),
                last: moment(row.get(3)?),
                calls: row.get(4)?,
                ids: row.get(5)?,
            })
        })?;
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// Those of these ids that were never given, as far back as the log goes.
    pub fn never_given(&self, ids: &[Id]) -> Result<Vec<Id>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT 1 FROM given WHERE id = ?1 LIMIT 1")?;
        let mut never = Vec::new();
        for id in ids {
            if !statement.exists(params![id.to_string()])? {
                never.push(*id);
            }
        }
        Ok(never)
    }

    /// Removes all records about these ids.
    pub fn forget(&self, ids: &[Id]) -> Result<(), Error> {
        let mut connection = self.connection();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in ids {
            tx.execute("DELETE FROM given WHERE id = ?1", params![id.to_string()])?;
            tx.execute("DELETE FROM hook_given WHERE id = ?1", params![id.to_string()])?;
        }
        tx.commit()?;
        Ok(())
    }

    /// The time of the oldest recorded call; `None` if there is none.
    pub fn since(&self) -> Result<Option<Timestamp>, Error> {
        let at: Option<i64> =
            self.connection().query_row("SELECT min(at) FROM call", [], |row| row.get(0))?;
        Ok(at.map(moment))
    }

    fn given(
        &self,
        sql: &str,
        parameters: &[&dyn mcp_dual_response::rusqlite::ToSql],
    ) -> Result<Vec<RecallNote>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare(sql)?;
        let mut ids = connection.prepare("SELECT id FROM given WHERE call = ?1 ORDER BY place")?;
        let calls = statement.query_map(parameters, |row| Ok((row.get(0)?, call_of(row)?)))?;
        let mut given = Vec::new();
        for call in calls {
            let (number, mut call): (i64, RecallNote) = call?;
            let texts = ids.query_map(params![number], |row| row.get::<_, String>(0))?;
            for text in texts {
                call.ids.extend(Id::parse(&text?));
            }
            given.push(call);
        }
        Ok(given)
    }

    // The state of hooks.

    pub fn hook_session(&self, session: &str) -> Result<Option<HookSession>, Error> {
        let sql =
            "SELECT project, scope, began_tx, seen_tx, prompts, seen_at FROM hook_session WHERE session = ?1";
        Ok(self.connection().query_row(sql, params![session], hook_session_of).optional()?)
    }

    /// The session before this one in the same project and scope.
    pub fn hook_session_before(
        &self,
        session: &str,
        project: &str,
        scope: &str,
    ) -> Result<Option<HookSession>, Error> {
        let sql = "SELECT project, scope, began_tx, seen_tx, prompts, seen_at FROM hook_session
            WHERE project = ?1 AND scope = ?2 AND session <> ?3 ORDER BY seen_at DESC LIMIT 1";
        let found = self.connection().query_row(sql, params![project, scope, session], hook_session_of);
        Ok(found.optional()?)
    }

    /// The ids that a session was given, each with the hash of the content that was shown.
    pub fn hook_given(&self, session: &str) -> Result<HashSet<(Id, u64)>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT id, hash FROM hook_given WHERE session = ?1")?;
        let rows = statement
            .query_map(params![session], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut given = HashSet::new();
        for row in rows {
            let (id, hash) = row?;
            given.extend(Id::parse(&id).map(|id| (id, hash.cast_unsigned())));
        }
        Ok(given)
    }

    /// Records in one transaction what a hook gave to a session. `forgets` first removes what the session was
    /// given before, because the host has lost that part of its conversation.
    pub fn note_hook(
        &self,
        session: &str,
        about: &HookSession,
        forgets: bool,
        said: &[(Id, u64)],
        given: Option<&RecallNote>,
    ) -> Result<(), Error> {
        let mut connection = self.connection();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if forgets {
            tx.execute("DELETE FROM hook_given WHERE session = ?1", params![session])?;
        }
        tx.execute(
            "INSERT OR REPLACE INTO hook_session (session, project, scope, began_tx, seen_tx, prompts, seen_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                session,
                about.project,
                about.scope,
                about.began_tx.0.cast_signed(),
                about.seen_tx.0.cast_signed(),
                about.prompts,
                about.seen_at.as_millisecond()
            ],
        )?;
        {
            let mut statement =
                tx.prepare("INSERT OR IGNORE INTO hook_given (session, id, hash) VALUES (?1, ?2, ?3)")?;
            for (id, hash) in said {
                statement.execute(params![session, id.to_string(), hash.cast_signed()])?;
            }
        }
        if let Some(given) = given.filter(|given| !given.ids.is_empty()) {
            insert(&tx, given)?;
        }
        tx.commit()?;
        Ok(())
    }

    /// Records the outcome of a run.
    pub fn note_run(&self, run: &HookRunNote<'_>) -> Result<(), Error> {
        let failed = run.failure.map(|_| run.at.as_millisecond());
        self.connection().execute(
            "INSERT INTO hook_run (host, event, at, took_ms, outcome, runs, failures, failed_at, failure)
             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8)
             ON CONFLICT (host, event) DO UPDATE SET at = ?3, took_ms = ?4, outcome = ?5, runs = runs + 1,
                failures = failures + ?6, failed_at = ifnull(?7, failed_at), failure = ifnull(?8, failure)",
            params![
                run.host,
                run.event,
                run.at.as_millisecond(),
                run.took_ms,
                run.outcome.as_str(),
                i64::from(run.failure.is_some()),
                failed,
                run.failure
            ],
        )?;
        Ok(())
    }

    /// The runs by host and event, the latest first.
    pub fn hook_runs(&self) -> Result<Vec<HookRun>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT host, event, at, took_ms, outcome, runs, failures, failed_at, failure FROM hook_run ORDER BY at DESC",
        )?;
        let runs = statement.query_map([], |row| {
            Ok(HookRun {
                host: row.get(0)?,
                event: row.get(1)?,
                at: moment(row.get(2)?),
                took_ms: row.get(3)?,
                outcome: HookOutcome::parse(&row.get::<_, String>(4)?),
                runs: row.get(5)?,
                failures: row.get(6)?,
                failed_at: row.get::<_, Option<i64>>(7)?.map(moment),
                failure: row.get(8)?,
            })
        })?;
        Ok(runs.collect::<Result<_, _>>()?)
    }
}

fn call_of(row: &Row<'_>) -> mcp_dual_response::rusqlite::Result<RecallNote> {
    Ok(RecallNote {
        at: moment(row.get(1)?),
        session: row.get(2)?,
        client: row.get(3)?,
        by: row.get(4)?,
        scope: row.get(5)?,
        ids: Vec::new(),
    })
}

fn hook_session_of(row: &Row<'_>) -> mcp_dual_response::rusqlite::Result<HookSession> {
    Ok(HookSession {
        project: row.get(0)?,
        scope: row.get(1)?,
        began_tx: TxId(row.get::<_, i64>(2)?.cast_unsigned()),
        seen_tx: TxId(row.get::<_, i64>(3)?.cast_unsigned()),
        prompts: row.get(4)?,
        seen_at: moment(row.get(5)?),
    })
}

fn moment(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn insert(tx: &Transaction<'_>, given: &RecallNote) -> Result<(), Error> {
    let name = |text: &str| kenning_presentation::text::cut(text, NAME_BYTES_MAX);
    tx.execute(
        "INSERT INTO call (at, session, client, by, scope) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            given.at.as_millisecond(),
            name(&given.session),
            name(&given.client),
            name(&given.by),
            name(&given.scope)
        ],
    )?;
    let number = tx.last_insert_rowid();
    let mut statement = tx.prepare("INSERT OR IGNORE INTO given (id, call, place) VALUES (?1, ?2, ?3)")?;
    for (place, id) in given.ids.iter().take(IDS_MAX).enumerate() {
        statement.execute(params![id.to_string(), number, place])?;
    }
    if number.cast_unsigned().is_multiple_of(PRUNED_EVERY) {
        prune(tx, given.at, number)?;
    }
    Ok(())
}

/// Removes old rows, to keep the file within its bounds.
fn prune(tx: &Transaction<'_>, now: Timestamp, newest: i64) -> Result<(), Error> {
    let before = |age: SignedDuration| now.checked_sub(age).unwrap_or(now).as_millisecond();
    let oldest = newest - CALLS_MAX.cast_signed();
    tx.execute("DELETE FROM call WHERE number <= ?1 OR at < ?2", params![oldest, before(KEPT_FOR)])?;
    tx.execute("DELETE FROM given WHERE call NOT IN (SELECT number FROM call)", [])?;
    tx.execute("DELETE FROM hook_session WHERE seen_at < ?1", params![before(SESSION_KEPT_FOR)])?;
    tx.execute("DELETE FROM hook_given WHERE session NOT IN (SELECT session FROM hook_session)", [])?;
    Ok(())
}

/// Opens the file. A power failure may lose the newest notes, so no write waits for the disk.
fn connect(file: &Path, busy_max: Duration) -> Result<Connection, Error> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    // Only the user may read the file, like all files in the data directory.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(file)?);
    let connection = Connection::open(file)?;
    connection.busy_timeout(busy_max)?;
    connection.pragma_update(None, "synchronous", "off")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))?;
    }
    Ok(connection)
}

/// Writes the recall log of a server in the background, so that replies do not wait for it.
pub struct Recorder {
    sender: Mutex<Option<SyncSender<RecallNote>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts a recorder for the log of this directory, which is created with the first note.
    pub fn start(dir: PathBuf) -> Arc<Recorder> {
        let (sender, notes) = sync_channel(WAITING_MAX);
        // Without a thread nothing is recorded, but replies still work.
        let writer =
            std::thread::Builder::new().name("kenning-recall".into()).spawn(move || write(&dir, &notes)).ok();
        let sender = Mutex::new(writer.is_some().then_some(sender));
        Arc::new(Recorder { sender, writer: Mutex::new(writer) })
    }

    /// Records a call without waiting: if the queue is full, the note is dropped.
    pub fn note(&self, given: RecallNote) {
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = sender.try_send(given);
        }
    }

    /// Writes the notes that are still waiting, before the process ends.
    pub fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = writer.join();
        }
    }
}

fn write(dir: &Path, notes: &Receiver<RecallNote>) {
    let mut log: Option<RecallLog> = None;
    let mut has_warned = false;
    while let Ok(given) = notes.recv() {
        let open = match log.take() {
            Some(open) => Ok(open),
            None => RecallLog::open(dir),
        };
        match open.and_then(|open| open.note(&given).map(|()| open)) {
            Ok(open) => log = Some(open),
            // The next note opens the file again.
            Err(error) if !has_warned => {
                has_warned = true;
                tracing::warn!("what was given is not noted: {error}");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(session: &str, at: i64, ids: &[u64]) -> RecallNote {
        RecallNote {
            at: moment(at),
            session: session.to_owned(),
            client: "claude-code".to_owned(),
            by: "query".to_owned(),
            scope: "acme:web".to_owned(),
            ids: ids.iter().map(|id| Id::from_bits(*id)).collect(),
        }
    }

    fn place() -> (tempfile::TempDir, RecallLog) {
        let dir = tempfile::tempdir().expect("a directory");
        let log = RecallLog::open(dir.path()).expect("a log");
        (dir, log)
    }

    #[test]
    fn what_was_given_is_told_by_entry_and_by_session() {
        let (dir, log) = place();
        let notes = [given("one", 1_000, &[7, 8]), given("two", 2_000, &[8]), given("one", 3_000, &[9, 7])];
        for note in &notes {
            log.note(note).expect("noted");
        }
        // Another process reads the same content.
        let read = RecallLog::existing(dir.path()).expect("it is there");
        assert_eq!(read.of_entry(Id::from_bits(8), 10).expect("read"), [notes[1].clone(), notes[0].clone()]);
        assert_eq!(read.of_entry(Id::from_bits(8), 1).expect("read"), [notes[1].clone()]);
        assert_eq!(read.of_session("one").expect("read"), [notes[2].clone(), notes[0].clone()]);
        let sessions = read.sessions(10).expect("read");
        let told: Vec<_> = sessions.iter().map(|it| (it.session.as_str(), it.calls, it.ids)).collect();
        assert_eq!(told, [("one", 2, 3), ("two", 1, 1)]);
        let ids = [7, 8, 9, 10].map(Id::from_bits);
        assert_eq!(read.never_given(&ids).expect("read"), [Id::from_bits(10)]);
        assert_eq!(read.since().expect("read"), Some(moment(1_000)));
    }

    #[test]
    fn the_log_is_bounded_in_time_and_in_size() {
        let (_dir, log) = place();
        let day = 24 * 3_600_000;
        log.note(&given("old", day, &[1])).expect("noted");
        for number in 1..PRUNED_EVERY.cast_signed() {
            log.note(&given("new", 100 * day + number, &[2])).expect("noted");
        }
        assert_eq!(log.of_session("old").expect("read"), []);
        assert_eq!(log.never_given(&[Id::from_bits(1), Id::from_bits(2)]).expect("read"), [Id::from_bits(1)]);
        let mut connection = log.connection();
        let tx = connection.transaction().expect("begun");
        prune(&tx, moment(100 * day), (CALLS_MAX + 500).cast_signed()).expect("pruned");
        tx.commit().expect("committed");
        let left: u64 =
            connection.query_row("SELECT count(*) FROM call", [], |row| row.get(0)).expect("read");
        assert_eq!(left, 500, "of a thousand calls the first 500 are beyond the size");
    }

    #[test]
    fn a_damaged_file_is_begun_anew_and_a_locked_one_is_said_to_be() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(
            dir.path().join(RECALL_FILE),
            "no database at all, but longer than a header of one".repeat(9),
        )
        .expect("written");
        assert!(RecallLog::existing(dir.path()).is_none());
        let log = RecallLog::open(dir.path()).expect("begun anew");
        log.note(&given("one", 1, &[1])).expect("noted");
        log.connection().execute_batch("BEGIN EXCLUSIVE").expect("locked");
        let other = RecallLog::open_within(dir.path(), Duration::ZERO);
        let noted = other.and_then(|other| other.note(&given("two", 2, &[2])));
        assert!(matches!(noted, Err(Error::Locked)), "{noted:?}");
    }

    #[test]
    fn a_session_of_a_host_is_known_again_and_forgets() {
        let (_dir, log) = place();
        let about = |seen: u64, project: &str| HookSession {
            project: project.to_owned(),
            scope: "acme:web".to_owned(),
            began_tx: TxId(1),
            seen_tx: TxId(seen),
            prompts: 3,
            seen_at: moment(seen.cast_signed()),
        };
        let said = [(Id::from_bits(1), u64::MAX), (Id::from_bits(2), 5)];
        log.note_hook("a", &about(10, "p"), false, &said, Some(&given("a", 10, &[1, 2]))).expect("noted");
        log.note_hook("b", &about(20, "p"), false, &[], None).expect("noted");
        log.note_hook("c", &about(30, "other"), false, &[], None).expect("noted");
        assert_eq!(log.hook_given("a").expect("read"), said.into_iter().collect());
        assert_eq!(log.hook_session("a").expect("read"), Some(about(10, "p")));
        let before = log.hook_session_before("b", "p", "acme:web").expect("read");
        assert_eq!(before, Some(about(10, "p")));
        assert_eq!(log.hook_session_before("c", "other", "acme:web").expect("read"), None);
        log.note_hook("a", &about(40, "p"), true, &said[..1], None).expect("noted");
        assert_eq!(log.hook_given("a").expect("read"), said[..1].iter().copied().collect());
        assert_eq!(log.of_session("a").expect("read").len(), 1, "the log itself forgets nothing");
    }

    #[test]
    fn runs_are_counted_and_the_last_failure_stays() {
        let (_dir, log) = place();
        let run = |at: i64, outcome, failure| HookRunNote {
            host: "codex",
            event: "prompt",
            at: moment(at),
            took_ms: 12,
            outcome,
            failure,
        };
        log.note_run(&run(1, HookOutcome::CutOff, Some("the deadline passed"))).expect("noted");
        log.note_run(&run(2, HookOutcome::Said, None)).expect("noted");
        let runs = log.hook_runs().expect("read");
        let [run] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((run.outcome, run.runs, run.failures), (HookOutcome::Said, 2, 1));
        assert_eq!((run.failed_at, run.failure.as_deref()), (Some(moment(1)), Some("the deadline passed")));
    }

    #[test]
    fn a_recorder_writes_behind_and_ends_with_everything_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let recorder = Recorder::start(dir.path().to_owned());
        assert!(RecallLog::existing(dir.path()).is_none(), "nothing was given yet");
        for number in 0..100 {
            recorder.note(given("one", number, &[1]));
        }
        recorder.close();
        recorder.note(given("one", 100, &[1]));
        let log = RecallLog::existing(dir.path()).expect("it is there");
        assert_eq!(log.of_session("one").expect("read").len(), 100);
    }
}
