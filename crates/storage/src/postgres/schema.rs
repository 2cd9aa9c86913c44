//! The schema `kenning` of a database, and how an older one becomes a newer one while servers of the older program go on.

use tokio_postgres::Client;

use super::connection::failed;
use crate::{Applied, Error};

/// A step of the schema, and the oldest version of the program that can use the schema after it. Steps are
/// never edited once released. They only add; things that become unnecessary are removed by a later step,
/// when no version that uses them is run any more.
struct Step {
    sql: &'static str,
    oldest_program: i32,
}

const STEPS: &[Step] = &[
    Step { sql: include_str!("schema/1.sql"), oldest_program: 1 },
    Step { sql: include_str!("schema/2.sql"), oldest_program: 1 },
    Step { sql: include_str!("schema/3.sql"), oldest_program: 1 },
    Step { sql: include_str!("schema/4.sql"), oldest_program: 1 },
];

/// The schema version that this program creates; a schema with a lower version has to be updated.
pub(super) const KNOWN: i32 = STEPS.len() as i32;

/// Any number that nobody else locks: "Kenn".
const MIGRATION_LOCK: i64 = 0x4b65_6e6e;

/// Whether the schema is one that this program can use; false if it has to be made or brought up to date first.
pub(super) async fn is_usable(client: &Client) -> Result<bool, Error> {
    Ok(match found(client).await? {
        Some((version, oldest)) if version >= KNOWN => {
            if oldest > KNOWN {
                return Err(Error::NewerSchema { found: i64::from(version), known: i64::from(KNOWN) });
            }
            true
        }
        _ => false,
    })
}

/// Whether the schema exists, in whatever version.
pub(super) async fn is_made(client: &Client) -> Result<bool, Error> {
    Ok(found(client).await?.is_some())
}

/// The error for a program that only reads, and so does not bring an older schema up to date.
pub(super) fn outdated() -> Error {
    let reason = "its schema is that of an older Kenning; the first command of this one that writes, as the role that owns the schema, \
                  brings it up to date";
    Error::Unavailable { applied: Applied::No, reason: reason.to_owned() }
}

async fn found(client: &Client) -> Result<Option<(i32, i32)>, Error> {
    // Asked as a question about rows: a look-up by name may still remember that the schema was not there before the lock.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = 'kenning' AND c.relname = 'schema_version')";
    let there = client.query_one(sql, &[]).await.map_err(failed)?;
    if !there.try_get::<_, bool>(0).map_err(failed)? {
        return Ok(None);
    }
    let row = client
        .query_opt("SELECT version, oldest_program FROM kenning.schema_version", &[])
        .await
        .map_err(failed)?;
    row.map(|row| Ok((row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?))).transpose()
}

/// Runs the missing steps. Several programs may start at once; a later one finds the steps done.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Error> {
    let encoding = client.query_one("SHOW server_encoding", &[]).await.map_err(failed)?;
    if encoding.try_get::<_, &str>(0).map_err(failed)? != "UTF8" {
        return Err(Error::Forbidden { what: "the database must have the encoding UTF8".to_owned() });
    }
    let transaction = client.transaction().await.map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(failed)?;
    let version = found(transaction.client()).await?.map_or(0, |(version, _)| version);
    for (number, step) in (1..).zip(STEPS).skip(version.max(0) as usize) {
        transaction.batch_execute(step.sql).await.map_err(failed)?;
        transaction
            .execute(
                "UPDATE kenning.schema_version SET version = $1, oldest_program = $2",
                &[&number, &step.oldest_program],
            )
            .await
            .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}
