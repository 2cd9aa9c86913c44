//! The embedded backend: one SQLite file in WAL mode, opened by as many processes as there are agent sessions.

mod derive;
mod log;
mod reader;
mod schema;
mod verify;

use std::fs::{DirBuilder, File, OpenOptions};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kenning_model::{Timestamp, Transaction};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use crate::backend::{Backend, Damage, Pending, Reader, Remembered, Verified};
use crate::{Applied, Error};

pub const STORE_FILE: &str = "store.db";

/// How long a writer waits for the other processes' commits before it gives up.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// SQLite's own handler sleeps ever longer, so newcomers overtake whoever waits. A short, constant pause gives
/// every process the same chance; a commit takes about as long.
const BUSY_PAUSE: Duration = Duration::from_micros(250);
/// 4 MiB of log tail between checkpoints. Past the first, the tail is written over instead of growing, and a sync
/// that need not extend the file is the faster one.
const CHECKPOINT_PAGES: u32 = 1000;
/// Holds the index by id of some hundred thousand entries, so that a write finds its page without reading it.
const WRITER_CACHE_KIB: i64 = 16 * 1024;
const IDLE_READERS_MAX: usize = 8;

pub struct Embedded {
    path: PathBuf,
    /// `None` after a failed commit: the next writer opens anew and so recovers what the disk really holds.
    writer: Mutex<Option<Connection>>,
    idle_readers: Mutex<Vec<Connection>>,
}

impl Embedded {
    pub fn open(dir: &Path) -> Result<Embedded, Error> {
        prepare_dir(dir)?;
        let path = dir.join(STORE_FILE);
        let store = Embedded { path, writer: Mutex::new(None), idle_readers: Mutex::new(Vec::new()) };
        let conn = store.connect()?;
        // Asked first, because even the switch to a write-ahead log writes to the file.
        schema::version(&conn)?;
        let mut conn = configured(conn)?;
        schema::migrate(&mut conn)?;
        sync_dir(dir)?;
        store.put_back(conn);
        Ok(store)
    }

    fn connect(&self) -> Result<Connection, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
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
        conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])).map_err(failed)?;
        Ok(Box::new(EmbeddedPending { sql: reader::Sql(Writing { conn: Some(conn), slot: writer }) }))
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
        verify::verify(&*self.pooled()?, report)
    }

    fn secret(&self) -> Result<[u8; 32], Error> {
        schema::secret(&*self.pooled()?)
    }
}

/// A reading connection that goes back to the pool.
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
}

impl Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn.as_ref().expect("taken only on commit or drop")
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // A connection that can't even roll back is closed, which rolls back for it.
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
    /// The connection, if its transaction is still open. After a disk error SQLite rolls back by itself and would
    /// then take each further statement for a transaction of its own.
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

    fn append(&mut self, tx: &Transaction) -> Result<(), Error> {
        log::append(self.conn()?, tx)
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

    fn commit(mut self: Box<Self>) -> Result<(), Error> {
        self.conn()?;
        let writing = &mut self.sql.0;
        let conn = writing.conn.take().expect("a pending write is committed once");
        let done = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        match done {
            Ok(_) => {
                *writing.slot = Some(conn);
                Ok(())
            }
            // The frames may have reached the disk before the sync failed. Only a fresh open can tell, so this
            // connection is closed and never asked to sync again.
            Err(error) => {
                // A full disk refuses a frame before the sync, and a commit without all of its frames is none.
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
    // Otherwise SQLite looks at each bound value for a better plan, and prepares most statements anew for every run.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Several processes may create the store at once; whoever is second finds it done or has to wait a moment.
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

/// The data is private: the directory is 0700, and files in it 0600.
fn prepare_dir(dir: &Path) -> Result<(), Error> {
    let unavailable = |what: &str, error: std::io::Error| Error::Unavailable {
        applied: Applied::No,
        reason: format!("the data directory {what}: {}", error.kind()),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| unavailable("can't be created", error))?;
        let mode = dir.metadata().map_err(|error| unavailable("can't be read", error))?.mode();
        if mode & 0o022 != 0 {
            return Err(Error::Forbidden {
                what: "others may write to the data directory; take that right away (chmod 700)".into(),
            });
        }
        // SQLite gives its log and its shared memory the rights of the main file.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(STORE_FILE));
        match file {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(unavailable("can't be written", error))
            }
            _ => Ok(()),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = OpenOptions::new();
        DirBuilder::new().recursive(true).create(dir).map_err(|error| unavailable("can't be created", error))
    }
}

/// A new file is only as durable as its name in the directory.
fn sync_dir(dir: &Path) -> Result<(), Error> {
    if cfg!(unix) {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::Unavailable {
            applied: Applied::No,
            reason: format!("the data directory can't be synced: {}", error.kind()),
        })?;
    }
    Ok(())
}

/// What a caller can do about it, without paths or SQL.
fn failed(error: rusqlite::Error) -> Error {
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
