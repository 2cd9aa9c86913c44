//! Resources in memory: for one process, lost when it ends.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::server::{Resource, ResourcePatch, ResourceStore, StoreError};
use crate::wire::Row;

/// More than a process needs during the life of a resource; the bound keeps pinned resources from filling the
/// memory.
const RESOURCES_MAX_DEFAULT: usize = 10_000;

/// Keeps resources in memory. The default.
#[derive(Debug)]
pub struct MemoryStore {
    kept: Mutex<HashMap<String, (Resource, Vec<Row>)>>,
    resources_max: usize,
}

impl MemoryStore {
    /// A store for at most 10,000 resources.
    pub fn new() -> Self {
        Self::with_limit(RESOURCES_MAX_DEFAULT)
    }

    /// A store for at most this many resources; further ones are refused.
    pub fn with_limit(resources_max: usize) -> Self {
        Self { kept: Mutex::default(), resources_max }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, (Resource, Vec<Row>)>> {
        // No change under this lock is left half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl ResourceStore for MemoryStore {
    async fn save(&self, resource: &Resource) -> Result<(), StoreError> {
        let mut kept = self.kept();
        if kept.contains_key(&resource.id) {
            return Err(StoreError::Taken { id: resource.id.clone() });
        }
        if kept.len() >= self.resources_max {
            // Expired resources, which are only kept to be reported as expired, make room first.
            kept.retain(|_, (kept, _)| !kept.is_expired(resource.created_at));
        }
        if kept.len() >= self.resources_max {
            return Err(StoreError::Full { limit: self.resources_max });
        }
        kept.insert(resource.id.clone(), (resource.clone(), Vec::new()));
        Ok(())
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>, StoreError> {
        Ok(self.kept().get(id).map(|(resource, _)| resource.clone()))
    }

    async fn update(&self, id: &str, patch: &ResourcePatch) -> Result<bool, StoreError> {
        let mut kept = self.kept();
        let Some((resource, _)) = kept.get_mut(id) else { return Ok(false) };
        if let Some(expires_at) = patch.expires_at {
            resource.expires_at = expires_at;
        }
        if let Some(at) = patch.accessed_at {
            resource.access_count += 1;
            resource.last_accessed_at = Some(at);
        }
        Ok(true)
    }

    async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.kept().remove(id).is_some())
    }

    async fn find_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<String>, StoreError> {
        let kept = self.kept();
        let expired = kept.values().filter(|(resource, _)| resource.is_expired(now));
        Ok(expired.take(limit).map(|(resource, _)| resource.id.clone()).collect())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.kept().clear();
        Ok(())
    }

    async fn release_expired(&self, now: Timestamp) -> Result<(), StoreError> {
        for (resource, rows) in self.kept().values_mut() {
            if resource.is_expired(now) {
                *rows = Vec::new();
            }
        }
        Ok(())
    }

    async fn save_rows(&self, id: &str, first: u64, rows: &[Row]) -> Result<(), StoreError> {
        if let Some((_, kept)) = self.kept().get_mut(id) {
            kept.truncate(usize::try_from(first).unwrap_or(usize::MAX));
            kept.extend_from_slice(rows);
        }
        Ok(())
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Vec<Row>, StoreError> {
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let take = usize::try_from(limit).unwrap_or(usize::MAX);
        let kept = self.kept();
        Ok(kept
            .get(id)
            .map(|(_, rows)| rows.iter().skip(skip).take(take).cloned().collect())
            .unwrap_or_default())
    }
}
