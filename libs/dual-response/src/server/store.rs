//! The contract of stores. `store_tests!` checks it for any implementation.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Resource, ResourcePatch, StoreError};
use crate::wire::Row;

/// A store of resources.
///
/// - `get` returns exactly what `save` was given, until the resource is deleted; times are kept to the
///   millisecond.
/// - `update` is atomic: accesses that several servers count at the same time are all counted.
/// - An expired resource is still returned: the server reports that it has expired, not the store.
#[async_trait]
pub trait ResourceStore: Send + Sync + 'static {
    /// Keeps a new resource.
    async fn save(&self, resource: &Resource) -> Result<(), StoreError>;

    /// The resource with this id.
    async fn get(&self, id: &str) -> Result<Option<Resource>, StoreError>;

    /// Changes a resource; false if there is none with this id.
    async fn update(&self, id: &str, patch: &ResourcePatch) -> Result<bool, StoreError>;

    /// Removes a resource and its rows; false if there was none.
    async fn delete(&self, id: &str) -> Result<bool, StoreError>;

    /// The ids of at most `limit` resources that expired at `now` or before.
    async fn find_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Closes files and connections. The store is not used afterwards.
    async fn close(&self) -> Result<(), StoreError>;

    /// Removes what `find_expired` finds, and returns the number. A store overrides this if it can do both in
    /// one step.
    async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let ids = self.find_expired(now, limit).await?;
        for id in &ids {
            self.delete(id).await?;
        }
        Ok(ids.len())
    }

    /// Frees the rows of resources that expired at `now` or before. The resources stay known as expired for a
    /// while, but their rows can't be read any more. A store without rows does nothing.
    async fn release_expired(&self, _now: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps rows of a snapshot; the first of them has position `first`. A store without snapshots refuses.
    async fn save_rows(&self, _id: &str, _first: u64, _rows: &[Row]) -> Result<(), StoreError> {
        Err(StoreError::NoRows)
    }

    /// At most `limit` rows of a snapshot from position `offset` on.
    async fn rows(&self, _id: &str, _offset: u64, _limit: u64) -> Result<Vec<Row>, StoreError> {
        Err(StoreError::NoRows)
    }

    /// Whether resources survive a restart of the process.
    fn is_durable(&self) -> bool {
        false
    }
}
