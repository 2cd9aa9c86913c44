//! Repairs a store whose log is sound. Every row of the log has a checksum of its own, so the log can be
//! trusted even if pages were changed. In one transaction the derived tables are removed from the schema
//! without reading them, created again, and filled from the log. Then SQLite rewrites the whole file.

use rusqlite::{Connection, TransactionBehavior};

use super::derive::TABLES;
use super::pages::Unchecked;
use super::verify::derive_all;
use super::{failed, schema};
use crate::Error;

pub(super) fn mend(conn: &mut Connection) -> Result<bool, Error> {
    let _unchecked = Unchecked::new();
    schema::migrate(conn)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    if !schema::damaged_rows(&tx)?.is_empty() {
        return Ok(false);
    }
    schema::info(&tx)?;
    let names: Vec<String> = TABLES.iter().map(|(table, _)| format!("'{table}'")).collect();
    let strike = format!(
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE tbl_name IN ({}); PRAGMA writable_schema = RESET",
        names.join(", ")
    );
    tx.execute_batch(&strike).map_err(failed)?;
    for statement in schema::derived_tables()? {
        tx.execute_batch(&statement).map_err(failed)?;
    }
    let mut is_sound = true;
    derive_all(&tx, "main", &mut |_, _| is_sound = false)?;
    if !is_sound {
        return Ok(false);
    }
    tx.commit().map_err(failed)?;
    conn.execute_batch("VACUUM").map_err(failed)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
    Ok(true)
}
