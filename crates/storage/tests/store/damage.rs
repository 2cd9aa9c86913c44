//! A byte that has changed on the disk is found and named, in any place of the rows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kenning_storage::{Backend, Damage, Embedded, STORE_FILE};
use kenning_testkit::TempStore;
use kenning_testkit::damage::{Table, Value, closed_store, tables};
use rusqlite::Connection;

use crate::on_every_core;

/// How many rows are tested in each table, spread over the whole table.
const ROWS: usize = 8;
const PAGE: usize = 4096;

struct Flip {
    table: String,
    column: String,
    row: usize,
    at: usize,
    bit: u8,
}

#[test]
fn a_flipped_bit_in_any_column_of_any_table_is_named() {
    let started = Instant::now();
    let sound = closed_store();
    assert_eq!(verify(&sound), [], "the store is sound before it is damaged");
    let tables = tables_of(&sound);
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let all = [
        "closure",
        "document",
        "entry",
        "log",
        "meta",
        "namespace",
        "remembered",
        "scope",
        "section",
        "tally",
        "touched",
        "triple",
        "undo",
    ];
    assert_eq!(names, all, "every table is looked at");
    let flips: Vec<Flip> = tables.iter().flat_map(flips).collect();
    let missed = on_every_core(&flips, |flip| {
        let mut bytes = sound.clone();
        bytes[flip.at] ^= 1 << flip.bit;
        let damages = verify(&bytes);
        let named = damages
            .iter()
            .any(|damage| damage.place.contains(&flip.table) || damage.what.contains(&flip.table));
        (!named && values(&bytes, &flip.table) != values(&sound, &flip.table)).then(|| {
            format!(
                "{}.{} of row {}, bit {} at {}: {damages:?}",
                flip.table, flip.column, flip.row, flip.bit, flip.at
            )
        })
    });
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    println!(
        "flipped bits: {} in {} tables, {:.1} s",
        flips.len(),
        tables.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(missed.is_empty(), "{} flips were not named:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn a_zeroed_page_is_found() {
    let sound = closed_store();
    let pages: Vec<usize> = (0..sound.len() / PAGE).collect();
    let missed = on_every_core(&pages, |page| {
        let mut bytes = sound.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        verify(&bytes).is_empty().then_some(*page)
    });
    assert_eq!(missed.into_iter().flatten().collect::<Vec<_>>(), [0; 0], "pages whose loss was not found");
}

#[test]
fn a_truncated_store_is_found() {
    let sound = closed_store();
    // A length of 0 is not tested, because an empty file is a valid new store. A page may end in zeros, and
    // SQLite assumes zeros where they are missing, so the file is cut before its last other byte.
    let last_used = sound.iter().rposition(|byte| *byte != 0).expect("the store has content");
    for length in [last_used, sound.len() - PAGE, sound.len() / 2, 3 * PAGE, PAGE, PAGE - 1, 100, 17] {
        assert_ne!(verify(&sound[..length]), [], "{length} of {} bytes are left", sound.len());
    }
}

/// Bits to flip in some rows: in the type and at both ends of each value.
fn flips(table: &Table) -> Vec<Flip> {
    assert!(!table.rows.is_empty(), "{} has no rows to damage", table.name);
    let step = table.rows.len().div_ceil(ROWS);
    let mut flips = Vec::new();
    for (row, values) in table.rows.iter().enumerate().step_by(step) {
        assert_eq!(values.len(), table.columns.len(), "every column of {} is looked at", table.name);
        for (column, Value { type_at, bytes_at }) in table.columns.iter().zip(values) {
            let middle = bytes_at.get(bytes_at.len() / 2);
            let places: BTreeSet<usize> = [Some(type_at), bytes_at.first(), middle, bytes_at.last()]
                .into_iter()
                .flatten()
                .copied()
                .collect();
            for (number, at) in places.into_iter().enumerate() {
                // Another bit each time, so that all eight are tested.
                let bit = ((row + number + flips.len()) % 8) as u8;
                flips.push(Flip { table: table.name.clone(), column: column.clone(), row, at, bit });
            }
            // The smallest change of a type: text becomes a blob, 0 becomes 1.
            flips.push(Flip { table: table.name.clone(), column: column.clone(), row, at: *type_at, bit: 0 });
        }
    }
    flips
}

fn tables_of(bytes: &[u8]) -> Vec<Table> {
    let store = TempStore::new();
    let path = write(store.path(), bytes);
    tables(&path)
}

/// The values that SQLite reads from the table. A flipped bit that changes none of them is not damage: two
/// NULLs at the end of a row can be encoded in more than one way.
fn values(bytes: &[u8], table: &str) -> rusqlite::Result<Vec<Vec<rusqlite::types::Value>>> {
    let store = TempStore::new();
    let conn = Connection::open(write(store.path(), bytes))?;
    let mut all = conn.prepare(&format!("SELECT * FROM {table}"))?;
    let columns = all.column_count();
    all.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?.collect()
}

/// The damages that a verification finds. A store that can't be opened counts as one damage.
fn verify(bytes: &[u8]) -> Vec<Damage> {
    let store = TempStore::new();
    write(store.path(), bytes);
    let mut damages = Vec::new();
    let verified =
        Embedded::open(store.path()).and_then(|backend| backend.verify(&mut |damage| damages.push(damage)));
    if let Err(error) = verified {
        damages.push(Damage { place: STORE_FILE.to_owned(), what: error.to_string() });
    }
    damages
}

fn write(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join(STORE_FILE);
    fs::write(&path, bytes).expect("the store is written");
    path
}
