//! Checks a store against its log, and makes what is derived anew. Both replay the log; one compares, the other writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deadpool_postgres::Object;
use kenning_model::EntityType;
use tokio_postgres::Row;

use super::connection::{Parameters, failed};
use super::pending::statements_of;
use super::reader::remembered;
use super::rows::{DerivedChanges, LOG_COLUMNS, VERSION_COLUMNS, VersionRow, from_text, get, log_row};
use super::{LOCK, Postgres, STANDING};
use crate::Error;
use crate::backend::{Damage, Verified};
use crate::log_row::{entity_type_of, kind_of, remembered_checksum};
use crate::replay::Replay;

/// How many rows are read at a time.
const ROWS: i64 = 5_000;
/// How long one page may take. It is generous, because a store may be large and no writer waits for a
/// verification.
const PAGE_PATIENCE: Duration = Duration::from_secs(60);

/// One transaction on a connection of its own.
struct Whole<'a> {
    store: &'a Postgres,
    connection: Option<Object>,
}

/// Reads the page of rows after this row.
type NextPage<'a> = dyn Fn(Option<&Row>) -> Result<Vec<Row>, Error> + 'a;

impl Whole<'_> {
    fn begin<'a>(store: &'a Postgres, how: &str) -> Result<Whole<'a>, Error> {
        let connection = store.connections.wait(async {
            let connection = store.connections.take().await?;
            connection.batch_execute(how).await.map_err(failed)?;
            Ok::<_, Error>(connection)
        })?;
        Ok(Whole { store, connection: Some(connection) })
    }

    fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        let connection = self.connection.as_ref().expect("taken on drop");
        self.store.connections.wait(async {
            let asked = async { connection.query(sql, parameters).await.map_err(failed) };
            tokio::time::timeout(PAGE_PATIENCE, asked)
                .await
                .unwrap_or_else(|_| Err(super::connection::silent()))
        })
    }

    /// Passes all rows of a query that is read in pages, each beginning after the last row of the page
    /// before.
    fn pages(
        &self,
        page: &NextPage<'_>,
        take: &mut dyn FnMut(&Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut last: Option<Row> = None;
        loop {
            let mut rows = page(last.as_ref())?;
            rows.iter().try_for_each(&mut *take)?;
            let is_end = (rows.len() as i64) < ROWS;
            last = rows.pop();
            if is_end {
                return Ok(());
            }
        }
    }

    /// Replays the log.
    fn replay(&self, damage: &mut dyn FnMut(&str, String)) -> Result<(Verified, DerivedChanges), Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM kenning.log WHERE store = $1 AND (tx_id, seq) > ($2, $3) ORDER BY tx_id, seq LIMIT $4"
        );
        let page = |last: Option<&Row>| {
            let (tx, seq) = match last {
                Some(row) => (get::<i64>(row, 0)?, get::<i32>(row, 1)?),
                None => (i64::MIN, 0),
            };
            self.query(&sql, &[&self.store.store, &tx, &seq, &ROWS])
        };
        let (mut replay, mut derived) = (Replay::new(), DerivedChanges::default());
        self.pages(&page, &mut |row| {
            let place = format!("log, transaction {}, row {}", get::<i64>(row, 0)?, get::<i32>(row, 1)?);
            if let Some(rows) = replay.take(&place, log_row(row, 0).ok(), damage)? {
                derived.add(&rows);
            }
            Ok(())
        })?;
        derived.add(&replay.end(damage)?);
        Ok((replay.verified, derived))
    }

    fn damaged_keys(&self) -> Result<Vec<String>, Error> {
        let sql = "SELECT actor, key, tool, digest, reply, at, crc FROM kenning.remembered
                   WHERE store = $1 AND (actor, key) > ($2, $3) ORDER BY actor, key LIMIT $4";
        let page = |last: Option<&Row>| {
            let (actor, key) = match last {
                Some(row) => (get::<String>(row, 0)?, get::<String>(row, 1)?),
                None => Default::default(),
            };
            self.query(sql, &[&self.store.store, &actor, &key, &ROWS])
        };
        let mut damaged = Vec::new();
        self.pages(&page, &mut |row| {
            let (actor, key) = (from_text(get(row, 0)?), from_text(get(row, 1)?));
            let sound =
                remembered(row, 2).is_ok_and(|(value, crc)| remembered_checksum(&actor, &key, &value) == crc);
            if !sound {
                damaged.push(key);
            }
            Ok(())
        })?;
        Ok(damaged)
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let ended = self.store.connections.wait(connection.batch_execute("ROLLBACK"));
            match ended {
                Ok(()) => drop(connection),
                Err(_) => super::connection::discard(connection),
            }
        }
    }
}

pub(super) fn verify(store: &Postgres, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
    let mut damage = |place: &str, what: String| report(Damage { place: place.to_owned(), what });
    if let Err(error) = store.read_info() {
        match error {
            Error::Damaged { what } => damage("store", what),
            other => return Err(other),
        }
    }
    // One view of everything, so that writers who go on meanwhile are not taken for damage.
    let whole = Whole::begin(store, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    for key in whole.damaged_keys()? {
        damage(&format!("remembered, key `{key}`"), "the row does not match its checksum".to_owned());
    }
    let head = whole.query(STANDING, &[&store.store])?;
    let head: i64 = head.first().map_or(Ok(0), |row| get(row, 0))?;
    let (mut verified, derived) = whole.replay(&mut damage)?;
    if verified.transactions != head as u64 {
        damage(
            "store",
            format!("the head is {head}, and the log has {} transactions", verified.transactions),
        );
    }
    verified.derived_rows = compare(&whole, &derived, &mut damage)?;
    Ok(verified)
}

const CHANGED: &str = "the row is missing or changed";
const ADDED: &str = "the row is not what the log says";

/// Compares the derived tables with what follows from the log, and counts their rows.
fn compare(
    whole: &Whole<'_>,
    derived: &DerivedChanges,
    damage: &mut dyn FnMut(&str, String),
) -> Result<u64, Error> {
    let store = &whole.store.store;
    let mut rows = 0;
    let mut expected: BTreeMap<(i64, i32), (&VersionRow, i64)> =
        derived.versions.iter().map(|row| ((row.tx_from, row.seq), (row, row.digest()))).collect();
    let place = |row: &VersionRow| {
        let table = entity_type_of(i64::from(row.kind)).map_or("version", |entity_type| entity_type.as_str());
        format!("{table}, `{}` from transaction {}", row.id, row.tx_from)
    };
    let sql = format!(
        "SELECT {VERSION_COLUMNS} FROM kenning.version WHERE store = $1 AND (tx_from, seq) > ($2, $3)
         ORDER BY tx_from, seq LIMIT $4"
    );
    let page = |last: Option<&Row>| {
        let (tx, seq) = match last {
            Some(row) => (get::<i64>(row, 0)?, get::<i32>(row, 1)?),
            None => (i64::MIN, 0),
        };
        whole.query(&sql, &[store, &tx, &seq, &ROWS])
    };
    whole.pages(&page, &mut |row| {
        rows += 1;
        let row = VersionRow::read(row)?;
        match expected.remove(&(row.tx_from, row.seq)) {
            Some((known, digest)) if digest == row.digest() && known.tx_to == row.tx_to => {}
            _ => damage(&place(&row), ADDED.to_owned()),
        }
        Ok(())
    })?;
    expected.values().for_each(|(row, _)| damage(&place(row), CHANGED.to_owned()));

    compare_counts(whole, derived, damage)?;

    // The other tables as texts: they have few columns.
    let closures = derived.closures.iter().map(|row| {
        let sees: Vec<i64> = row.sees.iter().map(|scope| i64::from(scope.0)).collect();
        (
            format!("closure, `{}` from transaction {}", row.scope, row.tx_from),
            format!("{:?} {sees:?}", row.tx_to),
        )
    });
    let touched = derived.touched.iter().map(|row| {
        (
            format!("touched, `{}` of kind {} from transaction {}", row.scope, row.kind, row.tx_id),
            row.origin.clone(),
        )
    });
    let undone = derived
        .undone
        .iter()
        .map(|(target, by)| (format!("undo, `{target}` from transaction {by}"), String::new()));
    let mut expected: BTreeSet<(String, String)> = closures.chain(touched).chain(undone).collect();
    let mut found = |place: String, value: String, damage: &mut dyn FnMut(&str, String)| {
        rows += 1;
        if !expected.remove(&(place.clone(), value)) {
            damage(&place, ADDED.to_owned());
        }
    };
    let sql = "SELECT scope, tx_from, tx_to, sees FROM kenning.closure WHERE store = $1 AND (scope, tx_from) > ($2, $3)
               ORDER BY scope, tx_from LIMIT $4";
    let page = |last: Option<&Row>| {
        let (scope, from) = match last {
            Some(row) => (get::<i64>(row, 0)?, get::<i64>(row, 1)?),
            None => (i64::MIN, 0),
        };
        whole.query(sql, &[store, &scope, &from, &ROWS])
    };
    whole.pages(&page, &mut |row| {
        let place = format!("closure, `{}` from transaction {}", get::<i64>(row, 0)?, get::<i64>(row, 1)?);
        let value = format!("{:?} {:?}", get::<Option<i64>>(row, 2)?, get::<Vec<i64>>(row, 3)?);
        found(place, value, damage);
        Ok(())
    })?;
    let sql = "SELECT tx_id, scope, kind, origin FROM kenning.touched WHERE store = $1 AND (tx_id, scope, kind) > ($2, $3, $4)
               ORDER BY tx_id, scope, kind LIMIT $5";
    let page = |last: Option<&Row>| {
        let (tx, scope, kind) = match last {
            Some(row) => (get::<i64>(row, 0)?, get::<i64>(row, 1)?, get::<i16>(row, 2)?),
            None => (i64::MIN, 0, 0),
        };
        whole.query(sql, &[store, &tx, &scope, &kind, &ROWS])
    };
    whole.pages(&page, &mut |row| {
        let (tx, scope, kind) = (get::<i64>(row, 0)?, get::<i64>(row, 1)?, get::<i16>(row, 2)?);
        found(format!("touched, `{scope}` of kind {kind} from transaction {tx}"), get(row, 3)?, damage);
        Ok(())
    })?;
    let sql = "SELECT target, by_tx FROM kenning.undo WHERE store = $1 AND (target, by_tx) > ($2, $3)
               ORDER BY target, by_tx LIMIT $4";
    let page = |last: Option<&Row>| {
        let (target, by) = match last {
            Some(row) => (get::<i64>(row, 0)?, get::<i64>(row, 1)?),
            None => (i64::MIN, 0),
        };
        whole.query(sql, &[store, &target, &by, &ROWS])
    };
    whole.pages(&page, &mut |row| {
        let place = format!("undo, `{}` from transaction {}", get::<i64>(row, 0)?, get::<i64>(row, 1)?);
        found(place, String::new(), damage);
        Ok(())
    })?;
    expected.iter().for_each(|(place, _)| damage(place, CHANGED.to_owned()));
    Ok(rows)
}

/// Compares the counters of live entries with the versions that follow from the log.
fn compare_counts(
    whole: &Whole<'_>,
    derived: &DerivedChanges,
    damage: &mut dyn FnMut(&str, String),
) -> Result<(), Error> {
    let entries = kind_of(EntityType::Entry);
    let mut expected: BTreeMap<i64, i64> = BTreeMap::new();
    let live = derived.versions.iter().filter(|row| i64::from(row.kind) == entries && row.tx_to.is_none());
    live.filter_map(|row| row.scope).for_each(|scope| *expected.entry(scope).or_default() += 1);
    let sql = "SELECT scope, many FROM kenning.entry_count WHERE store = $1 AND many <> 0";
    for row in whole.query(sql, &[&whole.store.store])? {
        let (scope, many) = (get::<i64>(&row, 0)?, get::<i64>(&row, 1)?);
        if expected.remove(&scope) != Some(many) {
            damage(&format!("entry_count, scope {scope}"), ADDED.to_owned());
        }
    }
    let missing = expected.keys();
    missing.for_each(|scope| damage(&format!("entry_count, scope {scope}"), CHANGED.to_owned()));
    Ok(())
}

/// Vacuums the tables, so that PostgreSQL frees the space of rows that no transaction sees any more. When it is written over, and when what the server keeps
/// for its recovery and its standbys goes, is up to the server.
pub(super) fn scrub(store: &Postgres) -> Result<(), Error> {
    let connection = store.connections.wait(store.connections.take())?;
    // One statement each: none of these may be part of a transaction.
    for table in ["log", "version", "words", "remembered", "store", "file_part"] {
        let vacuum = format!("VACUUM kenning.{table}");
        let vacuumed = async { tokio::time::timeout(PAGE_PATIENCE, connection.batch_execute(&vacuum)).await };
        match store.connections.wait(vacuumed) {
            Ok(done) => done.map_err(failed)?,
            Err(_) => {
                super::connection::discard(connection);
                return Err(super::connection::silent());
            }
        }
    }
    Ok(())
}

/// Writes the derived tables anew from the log, unless the log itself is damaged.
pub(super) fn mend(store: &Postgres) -> Result<bool, Error> {
    let mut whole = Whole::begin(store, "BEGIN")?;
    whole.query(LOCK, &[&store.store])?;
    let mut is_sound = true;
    let (_, derived) = whole.replay(&mut |_, _| is_sound = false)?;
    if !is_sound || !whole.damaged_keys()?.is_empty() {
        return Ok(false);
    }
    // Deleting the versions changes the counts, which may be wrong themselves, so these go after them.
    for table in ["version", "entry_count", "closure", "touched", "undo"] {
        whole.query(&format!("DELETE FROM kenning.{table} WHERE store = $1"), &[&store.store])?;
    }
    for part in derived.parts() {
        for statement in statements_of(store.store, &part) {
            whole.query(statement.sql(), &statement.parameters())?;
        }
    }
    let connection = whole.connection.take().expect("taken on drop");
    store.connections.wait(connection.batch_execute("COMMIT")).map_err(failed)?;
    drop(whole);
    *store.known_places() = Default::default();
    Ok(true)
}
