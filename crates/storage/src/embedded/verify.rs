//! Checks the store against its log: checksums, dense numbers, and a replay beside the derived tables.

use rusqlite::Connection;

use super::derive::{TABLES, Tables};
use super::{failed, log, schema};
use crate::Error;
use crate::backend::{Damage, Verified};
use crate::replay::Replay;

pub(super) fn verify(conn: &Connection, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
    // One read transaction, so that writes of other processes during the check are not taken for damage.
    conn.execute_batch("BEGIN").map_err(failed)?;
    let verified = verify_within(conn, report);
    let mut end = String::new();
    for (table, _) in TABLES {
        end.push_str(&format!("DROP TABLE IF EXISTS temp.{table}; "));
    }
    // A page that can't be read may have ended the transaction already.
    let end = if conn.is_autocommit() { end } else { format!("{end}ROLLBACK") };
    let ended = conn.execute_batch(&end);
    let verified = verified?;
    ended.map_err(failed)?;
    Ok(verified)
}

fn verify_within(conn: &Connection, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
    let mut damage = |place: &str, what: String| report(Damage { place: place.to_owned(), what });
    check_pages(conn, &mut damage);
    match schema::damaged_rows(conn) {
        Ok(places) => {
            places.iter().for_each(|place| damage(place, "the row does not match its checksum".to_owned()))
        }
        Err(error) => damage("meta, remembered", error.to_string()),
    }
    for (table, [key, _]) in TABLES {
        conn.execute_batch(&format!("CREATE TEMP TABLE {table} AS SELECT * FROM main.{table} WHERE 0"))
            .map_err(failed)?;
        // The derivation looks up rows by these columns while it fills the table.
        let index = match table {
            "undo" | "touched" => continue,
            "tally" => "CREATE INDEX temp.tally_key ON tally (what, name, scope, kinds, tx_id)".to_owned(),
            _ => format!("CREATE INDEX temp.{table}_{key} ON {table} ({key}) WHERE tx_to IS NULL"),
        };
        conn.execute_batch(&index).map_err(failed)?;
    }
    let mut verified = Verified::default();
    match derive_all(conn, "temp", &mut damage) {
        Ok(replayed) => verified = replayed,
        Err(error) => damage("log", error.to_string()),
    }
    for (table, named) in TABLES {
        if let Err(error) = compare(conn, table, named, &mut verified, &mut damage) {
            damage(table, error.to_string());
        }
    }
    Ok(verified)
}

/// SQLite's own check: pages, ordering, and that every index matches its table.
fn check_pages(conn: &Connection, damage: &mut dyn FnMut(&str, String)) {
    let lines = conn.prepare("PRAGMA main.integrity_check(100)").and_then(|mut check| {
        check.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()
    });
    match lines {
        Ok(lines) => {
            for line in lines.into_iter().filter(|line| line != "ok") {
                damage("store.db", line);
            }
        }
        Err(error) => damage("store.db", failed(error).to_string()),
    }
}

/// Reads the whole log and fills the derived tables of a schema from it.
pub(super) fn derive_all(
    conn: &Connection,
    schema: &'static str,
    damage: &mut dyn FnMut(&str, String),
) -> Result<Verified, Error> {
    let mut all = conn
        .prepare("SELECT tx_id, seq, kind, id, body, crc FROM log NOT INDEXED ORDER BY tx_id, seq")
        .map_err(failed)?;
    let mut rows = all.query([]).map_err(failed)?;
    let tables = Tables { conn, schema };
    let mut replay = Replay::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let place = format!(
            "log, transaction {}, row {}",
            row.get::<_, i64>(0).unwrap_or(-1),
            row.get::<_, i64>(1).unwrap_or(-1)
        );
        if let Some(derived) = replay.take(&place, log::read(row).ok(), damage)? {
            tables.apply(&derived)?;
        }
    }
    tables.apply(&replay.end(damage)?)?;
    Ok(replay.verified)
}

fn compare(
    conn: &Connection,
    table: &str,
    [key, from]: [&str; 2],
    verified: &mut Verified,
    damage: &mut dyn FnMut(&str, String),
) -> Result<(), Error> {
    let stored: u64 = conn
        .query_row(&format!("SELECT count(*) FROM main.{table} NOT INDEXED"), [], |row| row.get(0))
        .map_err(failed)?;
    verified.derived_rows += stored;
    let sides = [("main", "temp", "is not what the log says"), ("temp", "main", "is missing or changed")];
    for (one, other, what) in sides {
        let sql = format!(
            "SELECT CAST(c0 AS TEXT), CAST(c1 AS TEXT) FROM (SELECT *, {key} AS c0, {from} AS c1 FROM {one}.{table} NOT INDEXED
             EXCEPT SELECT *, {key}, {from} FROM {other}.{table} NOT INDEXED) LIMIT 20",
        );
        let mut differing = conn.prepare(&sql).map_err(failed)?;
        let rows = differing
            .query_map([], |row| {
                Ok((row.get::<_, String>(0).unwrap_or_default(), row.get::<_, String>(1).unwrap_or_default()))
            })
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(failed)?;
        for (id, tx) in rows {
            damage(&format!("{table}, `{id}` from transaction {tx}"), format!("the row {what}"));
        }
    }
    Ok(())
}
