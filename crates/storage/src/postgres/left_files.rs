//! Files that a server leaves for others: the tables `file_set` and `file_part`. A file is written in parts, each a statement of its
//! own that locks nothing a write needs; the row of the set names it only when all of it is there. So whoever reads a set finds whole
//! files or none.
//!
//! Example: a set has the files a and b, and a server leaves one with b and c. It claims the row, writes the parts of c, makes the row name
//! b and c, and deletes the parts of a.

use std::collections::HashMap;
use std::ops::Range;

use tokio_postgres::Row;

use super::Postgres;
use super::connection::Parameters;
use super::rows::{get, number, tx};
use crate::Error;
use crate::backend::{FileSet, LeftFile, ReadFile};

/// A part is one row, and is sent within the time in which every statement has to be answered, also over a slow line.
const PART_BYTES: u64 = 256 * 1024;
/// The number of parts that are read in one round trip.
const PARTS_READ: i32 = 4;
/// A larger set is not left: reading the log costs a new server some minutes, and the database would hold the same again.
const SET_BYTES_MAX: u64 = 4 << 30;

/// Claims the row of the set for a minute. No set is left within half a minute of another, however much is written.
const CLAIM: &str = "INSERT INTO kenning.file_set AS s (store, name, claimant, claimed_until)
     VALUES ($1, $2, $3, now() + interval '1 minute')
     ON CONFLICT (store, name) DO UPDATE SET claimant = excluded.claimant, claimed_until = excluded.claimed_until
     WHERE s.claimed_until < now() AND s.left_at < now() - interval '30 seconds'
     RETURNING files, sizes";
/// Writes a part if the claim still holds, and makes the claim last. Losing a part with the power does no harm, so nobody waits for the
/// disk or for a standby: the row that names the file comes later in the same write-ahead log.
const PUT_PART: &str = "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true)),
     claim AS (UPDATE kenning.file_set SET claimed_until = now() + interval '1 minute'
               WHERE store = $1 AND name = $2 AND claimant = $3 RETURNING 1)
     INSERT INTO kenning.file_part (store, name, file, part, bytes) SELECT $1, $2, $4, $5, $6 FROM claim, quick
     ON CONFLICT (store, name, file, part) DO UPDATE SET bytes = excluded.bytes RETURNING 1";
const PUT_SET: &str =
    "UPDATE kenning.file_set SET at = $4, manifest = $5, files = $6, sizes = $7, left_at = now(),
         claimant = NULL, claimed_until = '-infinity'
     WHERE store = $1 AND name = $2 AND claimant = $3 RETURNING 1";
const GIVE_UP: &str = "UPDATE kenning.file_set SET claimant = NULL, claimed_until = '-infinity'
     WHERE store = $1 AND name = $2 AND claimant = $3";
/// Deletes the parts that no set names, except those that somebody is about to name.
const SWEEP: &str = "DELETE FROM kenning.file_part AS p WHERE p.store = $1 AND NOT EXISTS (
         SELECT 1 FROM kenning.file_set AS s WHERE s.store = p.store AND s.name = p.name
         AND (p.file = ANY(s.files) OR s.claimed_until > now()))";
/// Deletes sets that have not been left for a month, which are those of a program or a model that nobody runs any more.
const FORGET: &str = "DELETE FROM kenning.file_set WHERE store = $1 AND name <> $2
     AND greatest(left_at, claimed_until) < now() - interval '30 days'";

pub(super) fn find(store: &Postgres, name: &str) -> Result<Option<FileSet>, Error> {
    let sql =
        "SELECT files, sizes, at, manifest FROM kenning.file_set WHERE store = $1 AND name = $2 AND at > 0";
    let rows = store.connections.query(sql, &[&store.store, &name])?;
    let set = |row: &Row| {
        Ok(FileSet { name: name.to_owned(), at: tx(row, 2)?, manifest: get(row, 3)?, files: files_of(row)? })
    };
    rows.first().map(set).transpose()
}

pub(super) fn forget(store: &Postgres, set: &FileSet) -> Result<(), Error> {
    let sql = "DELETE FROM kenning.file_set WHERE store = $1 AND name = $2 AND at = $3 AND manifest = $4";
    let parameters: Parameters<'_> = &[&store.store, &set.name, &number(set.at), &set.manifest];
    store.connections.query(sql, parameters).map(drop)
}

fn files_of(row: &Row) -> Result<Vec<LeftFile>, Error> {
    let (names, sizes): (Vec<String>, Vec<i64>) = (get(row, 0)?, get(row, 1)?);
    let files = names.into_iter().zip(sizes);
    Ok(files.map(|(name, bytes)| LeftFile { name, bytes: bytes.max(0) as u64 }).collect())
}

pub(super) fn read(
    store: &Postgres,
    set: &FileSet,
    file: &LeftFile,
    take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<bool, Error> {
    let sql = "SELECT part, bytes FROM kenning.file_part
               WHERE store = $1 AND name = $2 AND file = $3 AND part >= $4 AND part < $5 ORDER BY part";
    let (mut part, mut at) = (0, 0);
    while at < file.bytes {
        let rows = store
            .connections
            .query(sql, &[&store.store, &set.name, &file.name, &part, &(part + PARTS_READ)])?;
        for row in &rows {
            let bytes: &[u8] = get(row, 1)?;
            let Range { start, end } = stretch(file, part);
            if get::<i32>(row, 0)? != part || bytes.len() as u64 != end - start {
                return Ok(false);
            }
            let unwritable = |error: std::io::Error| Error::Unavailable {
                applied: crate::Applied::No,
                reason: format!("a file from the database can't be written here: {error}"),
            };
            take(bytes).map_err(unwritable)?;
            (part, at) = (part + 1, at + bytes.len() as u64);
        }
        if rows.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where a part is in its file.
fn stretch(file: &LeftFile, part: i32) -> Range<u64> {
    let from = (part as u64).saturating_mul(PART_BYTES).min(file.bytes);
    from..(from + PART_BYTES).min(file.bytes)
}

pub(super) fn leave(store: &Postgres, set: &FileSet, read: ReadFile<'_>) -> Result<bool, Error> {
    if set.files.iter().map(|file| file.bytes).sum::<u64>() > SET_BYTES_MAX {
        return Ok(false);
    }
    let claimant = rand::random::<[u8; 16]>();
    let claim = Claim { store, name: &set.name, claimant: &claimant };
    let asked = store.connections.query(CLAIM, &[&store.store, &set.name, &&claimant[..]])?;
    let Some(row) = asked.first() else { return Ok(false) };
    let there: HashMap<String, u64> =
        files_of(row)?.into_iter().map(|file| (file.name, file.bytes)).collect();
    for file in set.files.iter().filter(|file| there.get(&file.name) != Some(&file.bytes)) {
        if !claim.put_file(file, read)? {
            return Ok(false);
        }
    }
    let names: Vec<&str> = set.files.iter().map(|file| file.name.as_str()).collect();
    let sizes: Vec<i64> = set.files.iter().map(|file| file.bytes as i64).collect();
    let put = store.connections.query(
        PUT_SET,
        &[&store.store, &set.name, &&claimant[..], &number(set.at), &set.manifest, &names, &sizes],
    )?;
    store.connections.query(FORGET, &[&store.store, &set.name])?;
    store.connections.query(SWEEP, &[&store.store])?;
    Ok(!put.is_empty())
}

/// The right to replace a set. It is given up when it is dropped.
struct Claim<'a> {
    store: &'a Postgres,
    name: &'a str,
    claimant: &'a [u8],
}

impl Claim<'_> {
    /// False if the claim was lost, or whoever leaves the file has to stop.
    fn put_file(&self, file: &LeftFile, read: ReadFile<'_>) -> Result<bool, Error> {
        for part in 0.. {
            let range = stretch(file, part);
            if range.is_empty() {
                break;
            }
            let Some(bytes) = read(file, range) else { return Ok(false) };
            let Claim { store, name, claimant } = self;
            let put = store
                .connections
                .query(PUT_PART, &[&store.store, name, claimant, &file.name, &part, &bytes])?;
            if put.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // If the claim can't be given up now, it expires after a minute.
        let _ = self.store.connections.query(GIVE_UP, &[&self.store.store, &self.name, &self.claimant]);
    }
}
