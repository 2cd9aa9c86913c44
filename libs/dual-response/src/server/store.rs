//! What a place for resources promises. `store_tests!` checks the promises of any implementation.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Resource, ResourcePatch, StoreError};
use crate::wire::Row;

/// A place for resources.
///
/// - What `save` took, `get` gives back the same, until it is deleted; times are kept to the millisecond.
/// - `update` is atomic: accesses counted by several servers at once all count.
/// - A resource that has expired is still given back: the server says that it has expired, not the store.
#[async_trait]
pub trait ResourceStore: Send + Sync + 'static {
    /// Keeps a new resource.
    async fn save(&self, resource: &Resource) -> Result<(), StoreError>;

    /// The resource of this id.
    async fn get(&self, id: &str) -> Result<Option<Resource>, StoreError>;

    /// Changes a resource; false if there is none.
    async fn update(&self, id: &str, patch: &ResourcePatch) -> Result<bool, StoreError>;

    /// Removes a resource and its rows; false if there was none.
    async fn delete(&self, id: &str) -> Result<bool, StoreError>;

    /// The ids of at most `limit` resources that expired at `now` or before.
    async fn find_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Lets go of files and connections. Nothing is asked of the store afterwards.
    async fn close(&self) -> Result<(), StoreError>;

    /// Removes what `find_expired` finds, and says how many it were. Stores that can do it in one step, do.
    async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let ids = self.find_expired(now, limit).await?;
        for id in &ids {
            self.delete(id).await?;
        }
        Ok(ids.len())
    }

    /// Frees the rows of resources that expired at `now` or before. They are still known as expired for a while, and
    /// nobody can read their rows any more. Stores that keep no rows do nothing.
    async fn release_expired(&self, _now: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps rows of a snapshot, the first of them at position `first`. A store without snapshots refuses.
    async fn save_rows(&self, _id: &str, _first: u64, _rows: &[Row]) -> Result<(), StoreError> {
        Err(StoreError::NoRows)
    }

    /// At most `limit` rows of a snapshot from position `offset` on.
    async fn rows(&self, _id: &str, _offset: u64, _limit: u64) -> Result<Vec<Row>, StoreError> {
        Err(StoreError::NoRows)
    }

    /// Whether resources are still there after a restart of the process.
    fn is_durable(&self) -> bool {
        false
    }
}
