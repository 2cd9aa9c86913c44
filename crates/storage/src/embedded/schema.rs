//! The tables, and how an older store becomes a newer one.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::derive::TABLES;
use super::failed;
use super::log::remembered_checksums;
use crate::Error;
use crate::backend::{StoreId, StoreInfo};
use crate::log_row::checksum;

/// Marks the file as ours for `file(1)` and keeps us from writing into somebody else's database: "Kenn".
const APPLICATION_ID: i64 = 0x4b65_6e6e;

/// A row of `meta` that is there from a purge until nothing of what it removed is on the disk any more.
const REMAINS: &str = "remains";

/// Each step takes the store from its index to the next version. Steps are never edited once released.
const MIGRATIONS: &[&str] = &[V1, V2, V3, V4, V5, V6, V7];

/// `log` is the truth: row 0 of a transaction is its header, the others are its changes, each with the whole new
/// version (or none, for a delete). `entry`, `triple` and `undo` are derived from it: which version was live when,
/// and what the listings filter by. They are keyed like the log, so a write appends to two pages and touches a
/// third, the index by id, and a listing newest first walks the key backwards.
const V1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    tx_id INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, id TEXT NOT NULL, body TEXT,
    crc INTEGER NOT NULL, PRIMARY KEY (tx_id, seq)
) WITHOUT ROWID;
CREATE TABLE remembered (
    actor TEXT NOT NULL, key TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL, reply TEXT NOT NULL,
    at INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (actor, key)
) WITHOUT ROWID;
CREATE INDEX remembered_at ON remembered (at);
CREATE TABLE entry (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, scope INTEGER NOT NULL,
    topic_key TEXT NOT NULL, suppressed INTEGER NOT NULL, valid_from INTEGER, valid_to INTEGER,
    PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX entry_id ON entry (id);
CREATE TABLE triple (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, scope INTEGER NOT NULL,
    subject_key TEXT NOT NULL, predicate_key TEXT NOT NULL, object_key TEXT NOT NULL,
    PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX triple_id ON triple (id);
CREATE INDEX triple_subject ON triple (subject_key, predicate_key);
CREATE INDEX triple_predicate ON triple (predicate_key);
CREATE INDEX triple_object ON triple (object_key);
CREATE TABLE undo (target INTEGER NOT NULL, by_tx INTEGER NOT NULL, PRIMARY KEY (target, by_tx)) WITHOUT ROWID;
";

/// `namespace` and `scope` are derived like `entry`. `closure` is what each scope sees, nearest first, kept by the
/// transaction that changes it; `touched` is which transactions concern a scope (0 for what belongs to none), by kind (0 for none). Its
/// rows come in the order of the log, so a write appends and a history newest first walks backwards.
const V2: &str = "
CREATE TABLE namespace (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX namespace_id ON namespace (id);
CREATE INDEX namespace_name ON namespace (name);
CREATE TABLE scope (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, number INTEGER NOT NULL,
    namespace TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX scope_id ON scope (id);
CREATE INDEX scope_number ON scope (number);
CREATE INDEX scope_name ON scope (name);
CREATE TABLE closure (
    scope INTEGER NOT NULL, tx_from INTEGER NOT NULL, tx_to INTEGER, sees TEXT NOT NULL,
    PRIMARY KEY (scope, tx_from)
) WITHOUT ROWID;
CREATE TABLE touched (
    scope INTEGER NOT NULL, kind INTEGER NOT NULL, tx_id INTEGER NOT NULL, PRIMARY KEY (tx_id, scope, kind)
) WITHOUT ROWID;
INSERT OR IGNORE INTO touched SELECT scope, 1, tx_from FROM entry;
INSERT OR IGNORE INTO touched SELECT scope, 1, tx_to FROM entry WHERE tx_to IS NOT NULL;
INSERT OR IGNORE INTO touched SELECT scope, 2, tx_from FROM triple;
INSERT OR IGNORE INTO touched SELECT scope, 2, tx_to FROM triple WHERE tx_to IS NOT NULL;
INSERT OR IGNORE INTO touched SELECT 0, 0, tx_id FROM log WHERE seq = 0
    AND NOT EXISTS (SELECT 1 FROM log AS change WHERE change.tx_id = log.tx_id AND change.seq = 1);
";

/// `document` and `section` are derived like `entry`.
const V3: &str = "
CREATE TABLE document (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, scope INTEGER NOT NULL,
    source TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX document_id ON document (id);
CREATE INDEX document_source ON document (source, path);
CREATE TABLE section (
    tx_from INTEGER NOT NULL, seq INTEGER NOT NULL, tx_to INTEGER, id TEXT NOT NULL, scope INTEGER NOT NULL,
    document TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (tx_from, seq)
) WITHOUT ROWID;
CREATE INDEX section_id ON section (id);
CREATE INDEX section_document ON section (document);
";

/// `pattern` is the id of a pattern, and empty for what else a catalogue has.
const V4: &str = "
ALTER TABLE document ADD COLUMN pattern TEXT;
CREATE INDEX document_pattern ON document (pattern) WHERE pattern IS NOT NULL;
";

/// `origin` in `touched` is who made the transaction, so that a history can show all that is one's own. Nothing was
/// pinned before. The index has a row for each pinned version only, and beside the scope the key of the
/// table, so the pinned entries of a scope are read newest first and no other entry is looked at.
const V5: &str = "
ALTER TABLE entry ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entry_pinned ON entry (scope) WHERE pinned = 1;
ALTER TABLE touched ADD COLUMN origin TEXT NOT NULL DEFAULT '';
UPDATE touched SET origin = (SELECT log.id FROM log WHERE log.tx_id = touched.tx_id AND log.seq = 0);
";

/// `meta` gets the id of the store, and whether the pages of the file have checksums. Its rows need
/// checksums, which SQL can't compute, so this step has no SQL.
const V6: &str = "";

/// `tally` has the counters (`derive::Counter`), with a row for each transaction that changes a counter. So a
/// counter as of any transaction is one look-up, and the rows of a counter of transactions list those
/// transactions. A transaction is counted under its scope if it has only one; the others are spread and have
/// an index of their own. Listings read the indexes by scope backwards.
const V7: &str = "
CREATE TABLE tally (
    what INTEGER NOT NULL, name TEXT NOT NULL, scope INTEGER NOT NULL, kinds INTEGER NOT NULL,
    tx_id INTEGER NOT NULL, many INTEGER NOT NULL, PRIMARY KEY (what, name, scope, kinds, tx_id)
) WITHOUT ROWID;
ALTER TABLE touched ADD COLUMN spread INTEGER NOT NULL DEFAULT 0;
UPDATE touched SET spread = 1
    WHERE tx_id IN (SELECT tx_id FROM touched GROUP BY tx_id HAVING min(scope) < max(scope));
CREATE INDEX touched_spread ON touched (tx_id) WHERE spread = 1;
CREATE INDEX entry_scope ON entry (scope);
CREATE INDEX entry_window ON entry (scope) WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL;
DROP INDEX triple_predicate;
CREATE INDEX triple_predicate ON triple (scope, predicate_key);
CREATE INDEX triple_scope ON triple (scope);
WITH version (what, name, scope, kinds, tx_from, tx_to) AS (
    SELECT 1, '', scope, CASE WHEN suppressed THEN 2 WHEN valid_from IS NULL AND valid_to IS NULL THEN 0 ELSE 1 END,
        tx_from, tx_to FROM entry
    UNION ALL SELECT 2, '', scope, 0, tx_from, tx_to FROM triple
    UNION ALL SELECT 3, predicate_key, scope, 0, tx_from, tx_to FROM triple
), step (what, name, scope, kinds, tx_id, change) AS (
    SELECT what, name, scope, kinds, tx_from, 1 FROM version
    UNION ALL SELECT what, name, scope, kinds, tx_to, -1 FROM version WHERE tx_to IS NOT NULL
    UNION ALL SELECT 4, '', scope, sum(1 << kind), tx_id, 1 FROM touched WHERE spread = 0 GROUP BY tx_id
    UNION ALL SELECT 5, origin, scope, sum(1 << kind), tx_id, 1 FROM touched WHERE spread = 0 GROUP BY tx_id
), change (what, name, scope, kinds, tx_id, change) AS (
    SELECT what, name, scope, kinds, tx_id, sum(change) FROM step GROUP BY 1, 2, 3, 4, 5 HAVING sum(change) <> 0
)
INSERT INTO tally SELECT what, name, scope, kinds, tx_id,
    sum(change) OVER (PARTITION BY what, name, scope, kinds ORDER BY tx_id) FROM change;
";

pub(super) fn migrate(conn: &mut Connection) -> Result<(), Error> {
    let known = MIGRATIONS.len() as i64;
    if version(conn)? == known {
        return Ok(());
    }
    // Asked again inside: another process may have been faster.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&tx)?;
    for step in &MIGRATIONS[found as usize..] {
        tx.execute_batch(step).map_err(failed)?;
    }
    if found == 0 {
        tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        put_random(&tx, "secret", 32)?;
    }
    if found < 6 {
        put_random(&tx, "id", 16)?;
    }
    tx.pragma_update(None, "user_version", known).map_err(failed)?;
    tx.commit().map_err(failed)
}

/// The version of a store that this program may write to; 0 is an empty file. Changes nothing.
pub(super) fn version(conn: &Connection) -> Result<i64, Error> {
    // One view for the three questions: another process may be creating the store between two of them.
    let _view = match conn.is_autocommit() {
        true => Some(conn.unchecked_transaction().map_err(failed)?),
        false => None,
    };
    let application: i64 =
        conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION_ID && (tables > 0 || version > 0) {
        return Err(Error::damaged("store.db is some other program's database"));
    }
    let known = MIGRATIONS.len() as i64;
    if version > known {
        return Err(Error::NewerSchema { found: version, known });
    }
    Ok(version)
}

/// Gives the store a new identity: earlier cursors, and results read from it before, do not belong to it any
/// more.
pub(super) fn renew(conn: &Connection) -> Result<(), Error> {
    put_random(conn, "secret", 32)?;
    put_random(conn, "id", 16)
}

fn put_random(conn: &Connection, key: &str, bytes: u32) -> Result<(), Error> {
    let value: Vec<u8> =
        conn.query_row("SELECT randomblob(?1)", [bytes], |row| row.get(0)).map_err(failed)?;
    put(conn, key, &value)
}

fn put(conn: &Connection, key: &str, value: &[u8]) -> Result<(), Error> {
    let crc = checksum(&[key.as_bytes(), value]);
    conn.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2, ?3)", params![key, value, crc])
        .map(drop)
        .map_err(failed)
}

/// Notes that the pages of the file have checksums, so that a file which seems to have none is found out.
pub(super) fn put_has_checksums(conn: &Connection) -> Result<(), Error> {
    put(conn, "checksums", b"pages")
}

/// Notes that the file may still have what was overwritten, in pages that nothing refers to.
pub(super) fn put_remains(conn: &Connection) -> Result<(), Error> {
    put_random(conn, REMAINS, 16)
}

/// The note, by which it is told from a later one.
pub(super) fn remains(conn: &Connection) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    conn.query_row(sql, [REMAINS], |row| row.get(0)).optional().map_err(failed)
}

/// Removes the note, unless another process has overwritten something meanwhile.
pub(super) fn remove_remains(conn: &Connection, noted: &[u8]) -> Result<(), Error> {
    let sql = "DELETE FROM meta WHERE key = ?1 AND value = ?2";
    conn.execute(sql, params![REMAINS, noted]).map(drop).map_err(failed)
}

pub(super) fn has_checksums(conn: &Connection) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'checksums')";
    let damaged = |error| match failed(error) {
        Error::Damaged { what } => Error::damaged(format!("table meta: {what}")),
        other => other,
    };
    conn.query_row(sql, [], |row| row.get(0)).map_err(damaged)
}

pub(super) fn info(conn: &Connection) -> Result<StoreInfo, Error> {
    Ok(StoreInfo { id: StoreId(meta(conn, "id")?), secret: meta(conn, "secret")? })
}

/// A row of `meta`, whose value must have this length.
pub(super) fn meta<const BYTES: usize>(conn: &Connection, key: &str) -> Result<[u8; BYTES], Error> {
    let mut select = conn.prepare_cached("SELECT value, crc FROM meta WHERE key = ?1").map_err(failed)?;
    let row = select
        .query_row([key], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)))
        .optional()
        .map_err(failed)?;
    row.filter(|(value, crc)| checksum(&[key.as_bytes(), value]) == *crc)
        .and_then(|(value, _)| value.try_into().ok())
        .ok_or_else(|| Error::damaged(format!("meta row `{key}` does not match its checksum")))
}

/// The statements that make the tables which are derived from the log, and their indexes.
pub(super) fn derived_tables() -> Result<Vec<String>, Error> {
    let new = Connection::open_in_memory().map_err(failed)?;
    new.execute_batch(&MIGRATIONS.concat()).map_err(failed)?;
    let names: Vec<String> = TABLES.iter().map(|(table, _)| format!("'{table}'")).collect();
    let sql = format!(
        "SELECT sql FROM sqlite_schema WHERE tbl_name IN ({}) AND sql IS NOT NULL ORDER BY type DESC",
        names.join(", ")
    );
    let mut select = new.prepare(&sql).map_err(failed)?;
    select.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(failed)
}

/// Rows of `meta` and `remembered` that do not match their checksum.
pub(super) fn damaged_rows(conn: &Connection) -> Result<Vec<String>, Error> {
    let mut damaged = Vec::new();
    let mut meta = conn.prepare("SELECT key, value, crc FROM meta").map_err(failed)?;
    let mut rows = meta.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        // The key has to be text: the same bytes as a blob are another key, and nobody would find the row.
        let read =
            || -> rusqlite::Result<(String, Vec<u8>, i64)> { Ok((row.get(0)?, row.get(1)?, row.get(2)?)) };
        if !read().is_ok_and(|(key, value, crc)| checksum(&[key.as_bytes(), &value]) == crc) {
            damaged.push("meta".to_owned());
        }
    }
    let mut remembered = conn
        .prepare("SELECT actor, key, tool, digest, reply, at, crc FROM remembered ORDER BY actor, key")
        .map_err(failed)?;
    let mut rows = remembered.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let sound = remembered_checksums(row).is_ok_and(|(sum, crc)| sum == crc);
        if !sound {
            let key: String = row.get(1).unwrap_or_else(|_| "?".to_owned());
            damaged.push(format!("remembered, key `{key}`"));
        }
    }
    Ok(damaged)
}
