//! Resources in PostgreSQL: for many servers that share one database.

use async_trait::async_trait;
use deadpool_postgres::{Config, Object, Pool, Runtime};
use jiff::Timestamp;
use tokio_postgres::{NoTls, Row as SqlRow};

use super::record::{COLUMNS, Record, clamped, from_text, to_text, unavailable};
use crate::server::{Resource, ResourcePatch, ResourceStore, StoreError};
use crate::wire::Row;

/// The lock keeps servers that start at the same time from making the tables at the same time: the second
/// would fail.
const SCHEMA: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('mcp-dual-response'));
CREATE TABLE IF NOT EXISTS dual_resource (
    id text PRIMARY KEY,
    owner_tenant text,
    owner_subject text NOT NULL,
    name text NOT NULL,
    backing text NOT NULL,
    columns text NOT NULL,
    sample text NOT NULL,
    total_count bigint NOT NULL,
    metadata text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    access_count bigint NOT NULL,
    last_accessed_at bigint,
    schema_version bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS dual_resource_expires_at ON dual_resource (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS dual_row (
    resource_id text NOT NULL REFERENCES dual_resource (id) ON DELETE CASCADE,
    position bigint NOT NULL,
    row text NOT NULL,
    PRIMARY KEY (resource_id, position)
);
COMMIT;
";

/// Keeps resources in PostgreSQL, in the tables `dual_resource` and `dual_row` of the connection's schema.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
}

impl PostgresStore {
    /// The store in the database with this URL, such as `postgres://user@localhost/rows`, without TLS. For a
    /// database across a network, make a pool with TLS and use [`PostgresStore::from_pool`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let config = Config { url: Some(url.to_owned()), ..Config::default() };
        Self::from_pool(config.create_pool(Some(Runtime::Tokio1), NoTls).map_err(unavailable)?).await
    }

    /// The store that uses an existing pool.
    pub async fn from_pool(pool: Pool) -> Result<Self, StoreError> {
        let store = Self { pool };
        store.client().await?.batch_execute(SCHEMA).await.map_err(unavailable)?;
        Ok(store)
    }

    async fn client(&self) -> Result<Object, StoreError> {
        self.pool.get().await.map_err(unavailable)
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The pool contains the password, so it is left out.
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl ResourceStore for PostgresStore {
    async fn save(&self, resource: &Resource) -> Result<(), StoreError> {
        let record = Record::of(resource)?;
        let sql = format!(
            "INSERT INTO dual_resource ({COLUMNS}) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING"
        );
        let client = self.client().await?;
        let insert = client.prepare_cached(&sql).await.map_err(unavailable)?;
        let inserted = client
            .execute(
                &insert,
                &[
                    &record.id,
                    &record.owner_tenant,
                    &record.owner_subject,
                    &record.name,
                    &record.backing,
                    &record.columns,
                    &record.sample,
                    &record.total_count,
                    &record.metadata,
                    &record.created_at,
                    &record.expires_at,
                    &record.access_count,
                    &record.last_accessed_at,
                    &record.schema_version,
                ],
            )
            .await;
        match inserted.map_err(unavailable)? {
            0 => Err(StoreError::Taken { id: record.id }),
            _ => Ok(()),
        }
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM dual_resource WHERE id = $1");
        let client = self.client().await?;
        let select = client.prepare_cached(&sql).await.map_err(unavailable)?;
        let row = client.query_opt(&select, &[&id]).await.map_err(unavailable)?;
        row.map(|row| read_record(&row)?.into_resource()).transpose()
    }

    async fn update(&self, id: &str, patch: &ResourcePatch) -> Result<bool, StoreError> {
        let sql = "UPDATE dual_resource SET \
             expires_at = CASE WHEN $2 THEN $3 ELSE expires_at END, \
             access_count = access_count + CASE WHEN $4::bigint IS NULL THEN 0 ELSE 1 END, \
             last_accessed_at = coalesce($4, last_accessed_at) \
             WHERE id = $1";
        let expires_at = patch.expires_at.flatten().map(Timestamp::as_millisecond);
        let accessed_at = patch.accessed_at.map(Timestamp::as_millisecond);
        let client = self.client().await?;
        let update = client.prepare_cached(sql).await.map_err(unavailable)?;
        let changed =
            client.execute(&update, &[&id, &patch.expires_at.is_some(), &expires_at, &accessed_at]).await;
        Ok(changed.map_err(unavailable)? > 0)
    }

    async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let client = self.client().await?;
        let delete =
            client.prepare_cached("DELETE FROM dual_resource WHERE id = $1").await.map_err(unavailable)?;
        Ok(client.execute(&delete, &[&id]).await.map_err(unavailable)? > 0)
    }

    async fn find_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM dual_resource WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
        let client = self.client().await?;
        let select = client.prepare_cached(sql).await.map_err(unavailable)?;
        let rows = client.query(&select, &[&now.as_millisecond(), &clamped(limit as u64)]).await;
        rows.map_err(unavailable)?.iter().map(|row| row.try_get(0).map_err(unavailable)).collect()
    }

    async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        // Several servers may clean up at the same time; each skips the rows that another has locked.
        let sql = "DELETE FROM dual_resource WHERE id IN (SELECT id FROM dual_resource \
             WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let client = self.client().await?;
        let delete = client.prepare_cached(sql).await.map_err(unavailable)?;
        let deleted = client.execute(&delete, &[&now.as_millisecond(), &clamped(limit as u64)]).await;
        let deleted = deleted.map_err(unavailable)?;
        usize::try_from(deleted).map_err(unavailable)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.pool.close();
        Ok(())
    }

    async fn release_expired(&self, now: Timestamp) -> Result<(), StoreError> {
        let sql = "DELETE FROM dual_row WHERE resource_id IN \
             (SELECT id FROM dual_resource WHERE expires_at <= $1)";
        let client = self.client().await?;
        let delete = client.prepare_cached(sql).await.map_err(unavailable)?;
        client.execute(&delete, &[&now.as_millisecond()]).await.map(drop).map_err(unavailable)
    }

    async fn save_rows(&self, id: &str, first: u64, rows: &[Row]) -> Result<(), StoreError> {
        let texts = rows.iter().map(to_text).collect::<Result<Vec<_>, _>>()?;
        let sql = "INSERT INTO dual_row (resource_id, position, row) \
             SELECT $1, $2 + n - 1, row FROM unnest($3::text[]) WITH ORDINALITY AS given (row, n)";
        let client = self.client().await?;
        let insert = client.prepare_cached(sql).await.map_err(unavailable)?;
        client.execute(&insert, &[&id, &clamped(first), &texts]).await.map_err(unavailable)?;
        Ok(())
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Vec<Row>, StoreError> {
        let sql =
            "SELECT row FROM dual_row WHERE resource_id = $1 AND position >= $2 ORDER BY position LIMIT $3";
        let client = self.client().await?;
        let select = client.prepare_cached(sql).await.map_err(unavailable)?;
        let rows = client.query(&select, &[&id, &clamped(offset), &clamped(limit)]).await;
        rows.map_err(unavailable)?.iter().map(|row| from_text(row.try_get(0).map_err(unavailable)?)).collect()
    }

    fn is_durable(&self) -> bool {
        true
    }
}

fn read_record(row: &SqlRow) -> Result<Record, StoreError> {
    let read = || {
        Ok::<_, tokio_postgres::Error>(Record {
            id: row.try_get("id")?,
            owner_tenant: row.try_get("owner_tenant")?,
            owner_subject: row.try_get("owner_subject")?,
            name: row.try_get("name")?,
            backing: row.try_get("backing")?,
            columns: row.try_get("columns")?,
            sample: row.try_get("sample")?,
            total_count: row.try_get("total_count")?,
            metadata: row.try_get("metadata")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            access_count: row.try_get("access_count")?,
            last_accessed_at: row.try_get("last_accessed_at")?,
            schema_version: row.try_get("schema_version")?,
        })
    };
    read().map_err(unavailable)
}
