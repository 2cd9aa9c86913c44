//! Resources in a SQLite file: they outlive the process, and several processes may share them.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row as SqlRow, named_params, params};

use super::record::{COLUMNS, Record, clamped, from_text, to_text, unavailable};
use crate::server::{Resource, ResourcePatch, ResourceStore, StoreError};
use crate::wire::Row;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS dual_resource (
    id TEXT PRIMARY KEY,
    owner_tenant TEXT,
    owner_subject TEXT NOT NULL,
    name TEXT NOT NULL,
    backing TEXT NOT NULL,
    columns TEXT NOT NULL,
    sample TEXT NOT NULL,
    total_count INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    access_count INTEGER NOT NULL,
    last_accessed_at INTEGER,
    schema_version INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dual_resource_expires_at ON dual_resource (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS dual_row (
    resource_id TEXT NOT NULL REFERENCES dual_resource (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    row TEXT NOT NULL,
    PRIMARY KEY (resource_id, position)
) STRICT, WITHOUT ROWID;
";

/// The time that a step waits while another process writes.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// The pause between two tries if SQLite itself does not wait.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// The largest number of resources that wait to be written.
const UNSAVED_MAX: usize = 64;

/// Keeps resources in a SQLite database, in the tables `dual_resource` and `dual_row`.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    is_behind: bool,
}

#[derive(Debug)]
struct Shared {
    /// `None` after the store was closed.
    connection: Mutex<Option<Connection>>,
    /// Resources that are not in the file yet, if the store writes behind.
    unsaved: Mutex<Vec<Record>>,
}

impl SqliteStore {
    /// The store in this file, which is created if it does not exist. It uses a write-ahead log, so that
    /// readers and a writer do not wait for each other; a power failure may lose the last few resources, but
    /// never the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(unavailable)?;
        connection.busy_timeout(BUSY_WAIT).map_err(unavailable)?;
        set_wal(&connection)?;
        connection.pragma_update(None, "synchronous", "normal").map_err(unavailable)?;
        Self::from_connection(connection)
    }

    /// The store in a database that the caller has opened and configured.
    pub fn from_connection(connection: Connection) -> Result<Self, StoreError> {
        connection.pragma_update(None, "foreign_keys", true).map_err(unavailable)?;
        connection.execute_batch(SCHEMA).map_err(unavailable)?;
        let shared = Shared { connection: Mutex::new(Some(connection)), unsaved: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), is_behind: false })
    }

    /// The same store, but its `save` does not wait for the file. This store returns such a resource at once;
    /// other processes see it a moment later. A resource that can't be written is logged and lost.
    pub fn write_behind(self) -> Self {
        Self { is_behind: true, ..self }
    }

    /// Runs a step on a thread that may wait for the disk.
    async fn with<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || shared.run(step)).await.map_err(unavailable)?
    }

    /// Queues a resource to be written. Returns it if the queue is full, so that the caller has to wait for
    /// the file.
    fn save_later(&self, record: Record) -> Option<Record> {
        let mut unsaved = locked(&self.shared.unsaved);
        if !self.is_behind || unsaved.len() >= UNSAVED_MAX {
            return Some(record);
        }
        unsaved.push(record);
        // If others wait already, the thread that writes them writes this one too.
        if unsaved.len() == 1 {
            let shared = self.shared.clone();
            drop(tokio::task::spawn_blocking(move || shared.run(|_| Ok(()))));
        }
        None
    }
}

impl Shared {
    /// Runs a step after everything that was saved before it is written.
    fn run<T>(&self, step: impl FnOnce(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // If an earlier step panicked, its transaction was rolled back, so the connection can still be used.
        let mut connection = locked(&self.connection);
        let connection = connection.as_mut().ok_or_else(|| unavailable("the store is closed"))?;
        let unsaved = std::mem::take(&mut *locked(&self.unsaved));
        if !unsaved.is_empty()
            && let Err(error) = insert_all(connection, &unsaved)
        {
            tracing::warn!(%error, "{} resources could not be saved", unsaved.len());
        }
        step(connection)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Writes the resources that still wait when the program ends. If the store was closed, there are
        // none.
        let _ = self.run(|_| Ok(()));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn insert_all(connection: &mut Connection, records: &[Record]) -> Result<(), StoreError> {
    let tx = connection.transaction().map_err(unavailable)?;
    for record in records {
        insert(&tx, record)?;
    }
    tx.commit().map_err(unavailable)
}

fn insert(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO dual_resource ({COLUMNS}) VALUES (:id, :owner_tenant, :owner_subject, :name, :backing, \
         :columns, :sample, :total_count, :metadata, :created_at, :expires_at, :access_count, \
         :last_accessed_at, :schema_version) ON CONFLICT DO NOTHING"
    );
    let mut insert = connection.prepare_cached(&sql).map_err(unavailable)?;
    let inserted = insert.execute(named_params! {
        ":id": record.id,
        ":owner_tenant": record.owner_tenant,
        ":owner_subject": record.owner_subject,
        ":name": record.name,
        ":backing": record.backing,
        ":columns": record.columns,
        ":sample": record.sample,
        ":total_count": record.total_count,
        ":metadata": record.metadata,
        ":created_at": record.created_at,
        ":expires_at": record.expires_at,
        ":access_count": record.access_count,
        ":last_accessed_at": record.last_accessed_at,
        ":schema_version": record.schema_version,
    });
    match inserted.map_err(unavailable)? {
        0 => Err(StoreError::Taken { id: record.id.clone() }),
        _ => Ok(()),
    }
}

#[async_trait]
impl ResourceStore for SqliteStore {
    async fn save(&self, resource: &Resource) -> Result<(), StoreError> {
        let record = Record::of(resource)?;
        match self.save_later(record) {
            Some(record) => self.with(move |connection| insert(connection, &record)).await,
            None => Ok(()),
        }
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>, StoreError> {
        let id = id.to_owned();
        self.with(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM dual_resource WHERE id = ?1");
            let mut select = connection.prepare_cached(&sql).map_err(unavailable)?;
            let record = select.query_row([id], read_record).optional().map_err(unavailable)?;
            record.map(Record::into_resource).transpose()
        })
        .await
    }

    async fn update(&self, id: &str, patch: &ResourcePatch) -> Result<bool, StoreError> {
        let (id, patch) = (id.to_owned(), patch.clone());
        self.with(move |connection| {
            let sql = "UPDATE dual_resource SET \
                 expires_at = iif(?2, ?3, expires_at), \
                 access_count = access_count + (?4 IS NOT NULL), \
                 last_accessed_at = coalesce(?4, last_accessed_at) \
                 WHERE id = ?1";
            let mut update = connection.prepare_cached(sql).map_err(unavailable)?;
            let expires_at = patch.expires_at.flatten().map(Timestamp::as_millisecond);
            let accessed_at = patch.accessed_at.map(Timestamp::as_millisecond);
            let changed = update.execute(params![id, patch.expires_at.is_some(), expires_at, accessed_at]);
            Ok(changed.map_err(unavailable)? > 0)
        })
        .await
    }

    async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.with(move |connection| {
            let mut delete =
                connection.prepare_cached("DELETE FROM dual_resource WHERE id = ?1").map_err(unavailable)?;
            Ok(delete.execute([id]).map_err(unavailable)? > 0)
        })
        .await
    }

    async fn find_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<String>, StoreError> {
        self.with(move |connection| {
            let sql = "SELECT id FROM dual_resource WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let ids =
                select.query_map(params![now.as_millisecond(), clamped(limit as u64)], |row| row.get(0));
            ids.map_err(unavailable)?.collect::<Result<_, _>>().map_err(unavailable)
        })
        .await
    }

    async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.with(move |connection| {
            let sql = "DELETE FROM dual_resource WHERE id IN \
                 (SELECT id FROM dual_resource WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
            let mut delete = connection.prepare_cached(sql).map_err(unavailable)?;
            delete.execute(params![now.as_millisecond(), clamped(limit as u64)]).map_err(unavailable)
        })
        .await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let close = move || {
            // If the store is closed already, there is nothing to save.
            let _ = shared.run(|_| Ok(()));
            match locked(&shared.connection).take() {
                Some(open) => open.close().map_err(|(_, error)| unavailable(error)),
                None => Ok(()),
            }
        };
        tokio::task::spawn_blocking(close).await.map_err(unavailable)?
    }

    async fn release_expired(&self, now: Timestamp) -> Result<(), StoreError> {
        self.with(move |connection| {
            let sql = "DELETE FROM dual_row WHERE resource_id IN \
                 (SELECT id FROM dual_resource WHERE expires_at <= ?1)";
            let mut delete = connection.prepare_cached(sql).map_err(unavailable)?;
            delete.execute([now.as_millisecond()]).map(drop).map_err(unavailable)
        })
        .await
    }

    async fn save_rows(&self, id: &str, first: u64, rows: &[Row]) -> Result<(), StoreError> {
        let id = id.to_owned();
        let rows = rows.iter().map(to_text).collect::<Result<Vec<_>, _>>()?;
        self.with(move |connection| {
            let tx = connection.transaction().map_err(unavailable)?;
            {
                let sql = "INSERT INTO dual_row (resource_id, position, row) VALUES (?1, ?2, ?3)";
                let mut insert = tx.prepare_cached(sql).map_err(unavailable)?;
                for (position, row) in (clamped(first)..).zip(rows) {
                    insert.execute(params![id, position, row]).map_err(unavailable)?;
                }
            }
            tx.commit().map_err(unavailable)
        })
        .await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Vec<Row>, StoreError> {
        let id = id.to_owned();
        self.with(move |connection| {
            let sql =
                "SELECT row FROM dual_row WHERE resource_id = ?1 AND position >= ?2 ORDER BY position LIMIT ?3";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let texts = select.query_map(params![id, clamped(offset), clamped(limit)], |row| row.get(0));
            let texts: Vec<String> =
                texts.map_err(unavailable)?.collect::<Result<_, _>>().map_err(unavailable)?;
            texts.iter().map(|text| from_text(text)).collect()
        })
        .await
    }

    fn is_durable(&self) -> bool {
        true
    }
}

/// Switches to the write-ahead log. SQLite does not wait for other processes at this step, and several may do
/// it at the same time, so it is tried again until `BUSY_WAIT` is over.
fn set_wal(connection: &Connection) -> Result<(), StoreError> {
    let since = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < BUSY_WAIT =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            done => return done.map_err(unavailable),
        }
    }
}

fn read_record(row: &SqlRow<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        id: row.get("id")?,
        owner_tenant: row.get("owner_tenant")?,
        owner_subject: row.get("owner_subject")?,
        name: row.get("name")?,
        backing: row.get("backing")?,
        columns: row.get("columns")?,
        sample: row.get("sample")?,
        total_count: row.get("total_count")?,
        metadata: row.get("metadata")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        access_count: row.get("access_count")?,
        last_accessed_at: row.get("last_accessed_at")?,
        schema_version: row.get("schema_version")?,
    })
}
