//! Rows of the log in SQL.

use rusqlite::{Connection, Row, params};

use super::failed;
use crate::Error;
use crate::backend::Remembered;
use crate::log_row::{LogRow, checksum, remembered_checksum};

/// Expects the columns tx_id, seq, kind, id, body, crc.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        tx_id: row.get(0)?,
        seq: row.get(1)?,
        kind: row.get(2)?,
        id: row.get(3)?,
        body: row.get(4)?,
        crc: row.get(5)?,
    })
}

pub(super) fn insert(conn: &Connection, row: &LogRow) -> Result<(), Error> {
    let mut insert =
        conn.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6)").map_err(failed)?;
    let row = params![row.tx_id, row.seq, row.kind, row.id, row.body, row.crc];
    insert.execute(row).map(drop).map_err(failed)
}

/// Puts a row in the place of the one that has its number.
pub(super) fn overwrite(conn: &Connection, row: &LogRow) -> Result<(), Error> {
    let mut update = conn
        .prepare_cached("UPDATE log SET body = ?3, crc = ?4 WHERE tx_id = ?1 AND seq = ?2")
        .map_err(failed)?;
    match update.execute(params![row.tx_id, row.seq, row.body, row.crc]).map_err(failed)? {
        1 => Ok(()),
        _ => Err(Error::damaged(format!("log row {} of transaction {} is missing", row.seq, row.tx_id))),
    }
}

pub(super) fn remember(conn: &Connection, actor: &str, key: &str, value: &Remembered) -> Result<(), Error> {
    let (at, crc) = (value.at.as_millisecond(), remembered_checksum(actor, key, value));
    conn.prepare_cached("INSERT OR REPLACE INTO remembered VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .and_then(|mut insert| {
            insert.execute(params![actor, key, value.tool, value.digest, value.reply, at, crc])
        })
        .map(drop)
        .map_err(failed)
}

/// The computed checksum of a row of `remembered`, and the checksum that is stored in the row.
pub(super) fn remembered_checksums(row: &Row<'_>) -> rusqlite::Result<(i64, i64)> {
    let mut texts: Vec<String> = Vec::with_capacity(5);
    for column in 0..5 {
        texts.push(row.get(column)?);
    }
    let at: i64 = row.get(5)?;
    let mut parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let at = at.to_le_bytes();
    parts.push(&at);
    Ok((checksum(&parts), row.get(6)?))
}
