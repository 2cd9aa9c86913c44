//! The embedded backend: one SQLite file in WAL mode, opened by one process for each agent session.

mod backup;
mod derive;
mod files;
mod log;
mod mend;
mod pages;
mod reader;
mod schema;
mod verify;

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kenning_model::{Timestamp, Transaction};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use crate::backend::{Backend, Damage, Head, Pending, Reader, Remembered, StoreInfo, Verified};
use crate::log_row::LogRow;
use crate::{Applied, Error};

pub use backup::{back_up, restore, restore_checked};

pub const STORE_FILE: &str = "store.db";

/// How long a writer waits for the other processes' commits before it gives up.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// With SQLite's own handler, the pauses grow, so newcomers overtake processes that have waited longer. A
/// short, constant pause gives every process the same chance; a commit takes about as long.
const BUSY_PAUSE: Duration = Duration::from_micros(250);
/// A checkpoint is made after 4 MiB of the write-ahead log (the tail). After the first one, the tail is
/// overwritten instead of growing, and a sync is faster if it does not have to extend the file.
const CHECKPOINT_PAGES: u32 = 1000;
/// Holds the index by id of some hundred thousand entries, so that a write finds its page in memory.
const WRITER_CACHE_KIB: i64 = 16 * 1024;
const IDLE_READERS_MAX: usize = 8;
/// How many bytes of the tail's file are kept after a checkpoint.
const TAIL_KEPT: i64 = 16 << 20;
/// A tail of this length is checkpointed at once, with a short wait for the readers that prevent it.
/// Otherwise a sequence of overlapping readers would let it grow forever.
const TAIL_MAX: u64 = 64 << 20;
const TAIL_PATIENCE: Duration = Duration::from_millis(200);
const TAIL_EVERY: Duration = Duration::from_secs(5);
/// How often a waiting process looks for commits of other processes, which SQLite does not announce.
const LOOK_EVERY: Duration = Duration::from_millis(40);

pub struct Embedded {
    path: PathBuf,
    /// `None` after a failed commit: the next writer opens a new connection and so recovers what is really on
    /// the disk.
    writer: Mutex<Option<Connection>>,
    idle_readers: Mutex<Vec<Connection>>,
    /// Whether the pages of the file have checksums. An older store gets them only when no older program has
    /// it open.
    has_checksums: bool,
    /// Whether the store was damaged and was repaired when it was opened.
    was_mended: bool,
    files: files::Files,
    shortened: Mutex<Option<Instant>>,
}

impl Embedded {
    pub fn open(dir: &Path) -> Result<Embedded, Error> {
        files::prepare_dir(dir)?;
        let path = dir.join(STORE_FILE);
        let store = match Embedded::open_file(&path) {
            // Without checksums, the file may belong to any other program, so it is not repaired.
            Err(Error::Damaged { what }) if matches!(pages::has_checksums(&path), Ok(true)) => {
                Embedded::open_mended(&path, what)?
            }
            store => store?,
        };
        if store.has_checksums {
            return Ok(store);
        }
        drop(store);
        if let Err(error) = backup::add_checksums(&path) {
            tracing::warn!("the pages of the store stay without checksums for now: {error}");
        }
        Embedded::open_file(&path)
    }

    /// Repairs a store that can't be opened otherwise, and opens it if that succeeded.
    fn open_mended(path: &Path, what: String) -> Result<Embedded, Error> {
        let mended = {
            let _unchecked = pages::Unchecked::new();
            let store = Embedded::unopened(path)?;
            store.connect().and_then(|conn| {
                schema::version(&conn)?;
                mend::mend(&mut configured(conn)?)
            })
        };
        match mended {
            Ok(true) => {
                tracing::warn!("the store was damaged ({what}) and is whole again: its log was sound");
                Ok(Embedded { was_mended: true, ..Embedded::open_file(path)? })
            }
            Err(error @ Error::NewerSchema { .. }) => Err(error),
            _ => Err(Error::Damaged { what }),
        }
    }

    fn unopened(path: &Path) -> Result<Embedded, Error> {
        let unreadable = |error| files::unavailable("can't be read", &error);
        Ok(Embedded {
            path: path.to_owned(),
            writer: Mutex::new(None),
            idle_readers: Mutex::new(Vec::new()),
            has_checksums: pages::has_checksums(path).map_err(unreadable)?,
            was_mended: false,
            files: files::Files::default(),
            shortened: Mutex::new(None),
        })
    }

    fn open_file(path: &Path) -> Result<Embedded, Error> {
        let mut store = Embedded::unopened(path)?;
        let has_checksums = store.has_checksums;
        let conn = store.connect()?;
        // The version comes first, because even the switch to a write-ahead log would write to the file.
        if schema::version(&conn)? == 0 {
            pages::reserve(&conn);
        }
        let mut conn = configured(conn)?;
        schema::migrate(&mut conn)?;
        match (has_checksums, schema::has_checksums(&conn)?) {
            (true, false) => schema::put_has_checksums(&conn)?,
            (false, true) => return Err(Error::damaged("the header of store.db is wrong")),
            _ => {}
        }
        sync_dir(path.parent().unwrap_or(path))?;
        store.files = files::Files::of(path);
        store.put_back(conn);
        Ok(store)
    }

    fn connect(&self) -> Result<Connection, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = connect(&self.path, flags, self.has_checksums)?;
        let mut since = Instant::now();
        conn.busy_handler(Some(move |times: i32| {
            if times == 0 {
                since = Instant::now();
            }
            std::thread::sleep(BUSY_PAUSE);
            since.elapsed() < BUSY_MAX
        }))
        .map_err(failed)?;
        Ok(conn)
    }

    fn shorten_tail(&self) {
        let mut shortened = self.shortened.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if shortened.is_none_or(|last| last.elapsed() > TAIL_EVERY) {
            *shortened = Some(Instant::now());
            if let Err(error) = self.checkpoint() {
                tracing::warn!("the write-ahead log could not be shortened: {error}");
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle_readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn put_back(&self, conn: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_READERS_MAX {
            idle.push(conn);
        }
    }

    fn pooled(&self) -> Result<Pooled<'_>, Error> {
        let idle = self.idle().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => configured(self.connect()?)?,
        };
        Ok(Pooled { conn: Some(conn), store: self })
    }
}

impl Backend for Embedded {
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Error> {
        Ok(Box::new(reader::Sql(self.pooled()?)))
    }

    fn begin(&self) -> Result<Box<dyn Pending + '_>, Error> {
        let mut writer = self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let conn = match writer.take() {
            Some(conn) => conn,
            None => {
                let conn = configured(self.connect()?)?;
                conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(failed)?;
                conn
            }
        };
        let holes = pages::WithHoles::new();
        conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])).map_err(failed)?;
        let writing = Writing { conn: Some(conn), slot: writer, store: self, _holes: holes };
        // Checked inside the transaction: while these are still the store's files, no other process can be in
        // a write transaction.
        self.files.check().map_err(|reason| Error::Unavailable { applied: Applied::No, reason })?;
        Ok(Box::new(EmbeddedPending { sql: reader::Sql(writing) }))
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
        if self.was_mended {
            let what = "the file was damaged, and was mended when it was opened".to_owned();
            report(Damage { place: STORE_FILE.to_owned(), what });
        }
        verify::verify(&*self.pooled()?, report)
    }

    fn info(&self) -> Result<StoreInfo, Error> {
        schema::info(&*self.pooled()?)
    }

    fn wait(&self, seen: Option<Head>, patience: Duration) -> Result<Head, Error> {
        let since = Instant::now();
        loop {
            let head = {
                let sql = reader::Sql(self.pooled()?);
                Head { store: sql.store_id()?, tx: sql.head()? }
            };
            let left = patience.saturating_sub(since.elapsed());
            if seen != Some(head) || left.is_zero() {
                return Ok(head);
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    fn mend(&self) -> Result<bool, Error> {
        // The new connection is opened before the others are closed. Without any connection, SQLite would
        // remove the files beside the main one, and every later write would take the new ones for those of
        // another store.
        let mut conn = configured(self.connect()?)?;
        // Idle connections are closed, so that no cached page is used any more.
        self.idle().clear();
        let mended = mend::mend(&mut conn);
        self.put_back(conn);
        mended
    }

    fn checkpoint(&self) -> Result<(), Error> {
        let conn = self.connect()?;
        conn.busy_timeout(TAIL_PATIENCE).map_err(failed)?;
        // First what is possible without waiting is copied; the rest may have to wait for readers.
        for mode in ["PASSIVE", "TRUNCATE"] {
            checkpoint(&conn, mode)?;
        }
        Ok(())
    }

    fn scrub(&self) -> Result<(), Error> {
        let conn = configured(self.connect()?)?;
        let noted = schema::remains(&conn)?;
        let _holes = pages::WithHoles::new();
        // With this setting SQLite fills free space with zeros, so old text does not stay in it.
        conn.pragma_update(None, "secure_delete", true).map_err(failed)?;
        conn.execute_batch("VACUUM").map_err(failed)?;
        let since = Instant::now();
        while !checkpoint(&conn, "TRUNCATE")? {
            if since.elapsed() > BUSY_MAX {
                let reason = "another process has been reading for too long, so what was removed is still in the \
                              write-ahead log beside the store";
                return Err(Error::Unavailable { applied: Applied::No, reason: reason.to_owned() });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        noted.map_or(Ok(()), |noted| schema::remove_remains(&conn, &noted))
    }

    fn has_remains(&self) -> Result<bool, Error> {
        Ok(schema::remains(&*self.pooled()?)?.is_some())
    }
}

/// A checkpoint in this mode; false where somebody who reads is in the way.
fn checkpoint(conn: &Connection, mode: &str) -> Result<bool, Error> {
    let done = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(0));
    match done {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        done => done.map(|busy| busy == 0).map_err(failed),
    }
}

fn connect(path: &Path, flags: OpenFlags, has_checksums: bool) -> Result<Connection, Error> {
    if has_checksums {
        Connection::open_with_flags_and_vfs(path, flags, pages::system().as_c_str()).map_err(failed)
    } else {
        Connection::open_with_flags(path, flags).map_err(failed)
    }
}

/// A reading connection that returns to the pool when it is dropped.
struct Pooled<'a> {
    conn: Option<Connection>,
    store: &'a Embedded,
}

impl Deref for Pooled<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn.as_ref().expect("taken only on drop")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.store.put_back(conn);
        }
    }
}

/// The writing connection, inside its transaction.
struct Writing<'a> {
    conn: Option<Connection>,
    slot: MutexGuard<'a, Option<Connection>>,
    store: &'a Embedded,
    _holes: pages::WithHoles,
}

impl Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn.as_ref().expect("taken only on commit or drop")
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // If even the rollback fails, the connection is closed, which also rolls back.
        if let Some(conn) = self.conn.take()
            && conn.execute_batch("ROLLBACK").is_ok()
        {
            *self.slot = Some(conn);
        }
    }
}

struct EmbeddedPending<'a> {
    sql: reader::Sql<Writing<'a>>,
}

impl EmbeddedPending<'_> {
    /// The connection, if its transaction is still open. After a disk error SQLite rolls back by itself, and
    /// would then run each further statement in a transaction of its own.
    fn conn(&self) -> Result<&Connection, Error> {
        let conn: &Connection = &self.sql.0;
        if conn.is_autocommit() {
            let reason = "the disk failed and the write was rolled back".to_owned();
            return Err(Error::Unavailable { applied: Applied::No, reason });
        }
        Ok(conn)
    }
}

impl Pending for EmbeddedPending<'_> {
    fn reader(&self) -> &dyn Reader {
        &self.sql
    }

    fn append_rows(&mut self, rows: &[LogRow], tx: &Transaction) -> Result<(), Error> {
        let conn = self.conn()?;
        rows.iter().try_for_each(|row| log::insert(conn, row))?;
        let tables = derive::Tables { conn, schema: "main" };
        tables.apply(&crate::derive::derive(tx, &tables)?)
    }

    fn remember(&mut self, actor: &str, key: &str, value: &Remembered) -> Result<(), Error> {
        log::remember(self.conn()?, actor, key, value)
    }

    fn forget_before(&mut self, at: Timestamp) -> Result<(), Error> {
        self.conn()?
            .prepare_cached("DELETE FROM remembered WHERE at < ?1")
            .and_then(|mut delete| delete.execute(params![at.as_millisecond()]))
            .map(drop)
            .map_err(failed)
    }

    fn overwrite(&mut self, rows: &[LogRow]) -> Result<(), Error> {
        let conn = self.conn()?;
        rows.iter().try_for_each(|row| log::overwrite(conn, row))?;
        derive::Tables { conn, schema: "main" }.overwrite(rows)?;
        schema::put_remains(conn)
    }

    fn renew(&mut self) -> Result<(), Error> {
        schema::renew(self.conn()?)
    }

    fn commit(mut self: Box<Self>) -> Result<(), Error> {
        self.conn()?;
        let writing = &mut self.sql.0;
        let conn = writing.conn.take().expect("a pending write is committed once");
        let done = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        match done {
            Ok(_) => {
                *writing.slot = Some(conn);
                let tail = writing
                    .store
                    .files
                    .check()
                    .map_err(|reason| Error::Unavailable { applied: Applied::Unknown, reason })?;
                if tail > TAIL_MAX {
                    writing.store.shorten_tail();
                }
                Ok(())
            }
            // The frames may have reached the disk before the sync failed. Only a newly opened connection can
            // tell, so this one is closed and never syncs again.
            Err(error) => {
                // A full disk refuses a frame before the sync, and a commit with missing frames does not
                // count.
                let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
                let applied = if is_full { Applied::No } else { Applied::Unknown };
                Err(match failed(error) {
                    Error::Unavailable { reason, .. } => Error::Unavailable { applied, reason },
                    other => other,
                })
            }
        }
    }
}

fn configured(conn: Connection) -> Result<Connection, Error> {
    set_wal(&conn)?;
    conn.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    conn.query_row(&format!("PRAGMA journal_size_limit = {TAIL_KEPT}"), [], |_| Ok(())).map_err(failed)?;
    // Without this setting, SQLite looks at the bound values for a better plan, and prepares most statements
    // again for every run.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Several processes may create the store at once. The later ones find the mode set, or have to wait a
/// moment.
fn set_wal(conn: &Connection) -> Result<(), Error> {
    let since = Instant::now();
    loop {
        let mode = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(Error::Unavailable {
                    applied: Applied::No,
                    reason: "this file system can't hold a write-ahead log".into(),
                });
            }
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < BUSY_MAX =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Syncs a directory: a new file survives a crash only if its name in the directory does.
fn sync_dir(dir: &Path) -> Result<(), Error> {
    if cfg!(unix) {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::Unavailable {
            applied: Applied::No,
            reason: format!("the data directory can't be synced: {}", error.kind()),
        })?;
    }
    Ok(())
}

/// Maps an error of SQLite to what a caller can do about it, without paths or SQL.
fn failed(error: rusqlite::Error) -> Error {
    if error.sqlite_error().is_some_and(|error| error.extended_code == pages::MISMATCH) {
        return Error::damaged("a page of store.db does not match its checksum");
    }
    let unavailable = |reason: &str| Error::Unavailable { applied: Applied::No, reason: reason.into() };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => Error::damaged("SQLite can't read a page of it"),
        Some(ErrorCode::NotADatabase) => Error::damaged("store.db is not a SQLite database"),
        Some(ErrorCode::DiskFull) => unavailable("the disk is full"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            unavailable("another process has been writing for too long")
        }
        Some(ErrorCode::ReadOnly) => unavailable("the store can't be written"),
        Some(ErrorCode::CannotOpen) => unavailable("the store can't be opened"),
        Some(ErrorCode::SystemIoFailure) => unavailable("the disk reports an error"),
        Some(ErrorCode::OutOfMemory) => unavailable("there is not enough memory"),
        _ => Error::Bug { what: error.to_string() },
    }
}
