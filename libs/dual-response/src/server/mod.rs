//! The server side: makes responses, keeps the resources behind them, and returns rows.
//!
//! It does not contain the transport and protocol of MCP, the registration of tools, or the database.

mod access;
mod authorizer;
mod cleanup;
mod create;
mod error;
mod executor;
mod export;
mod options;
mod page;
mod resource;
mod response;
#[cfg(feature = "axum")]
mod router;
mod sample;
mod snapshot;
mod store;
pub mod store_tests;
mod stores;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

pub use access::Access;
pub use authorizer::{Authorizer, EveryoneIs, IdIsEnough, Right};
pub use create::NewResource;
pub use error::{Error, ErrorCode, StoreError};
pub use executor::Executor;
pub use export::{Export, ExportQuery};
pub use options::ServerBuilder;
pub use page::PageRequest;
pub use resource::{Backing, Principal, Resource, ResourcePatch, SCHEMA_VERSION};
pub use response::{ContentStyle, DualResponse};
pub use snapshot::sort_rows;
pub use store::ResourceStore;
pub use stores::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use stores::postgres::PostgresStore;
#[cfg(feature = "sqlite")]
pub use stores::sqlite::SqliteStore;

use executor::{AnyExecutor, Rows};
use options::Options;

/// Makes responses and keeps the resources behind them. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct DualResponseServer {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    store: Arc<dyn ResourceStore>,
    authorizer: Arc<dyn Authorizer>,
    executors: HashMap<&'static str, Arc<dyn AnyExecutor>>,
    live: Mutex<HashMap<String, LiveRows>>,
    cleanup: Mutex<cleanup::Task>,
}

/// The closures of a resource, and the time at which they may be dropped.
struct LiveRows {
    rows: Arc<dyn Rows>,
    expires_at: Option<Timestamp>,
}

impl DualResponseServer {
    /// A server with REST endpoints below `base_url`, such as `https://api.example.com/resources`.
    pub fn builder(base_url: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(Some(base_url.into()))
    }

    /// A server without REST endpoints: rows are read through MCP only, with [`DualResponseServer::access`],
    /// and responses contain no HTTP address.
    pub fn without_rest() -> ServerBuilder {
        ServerBuilder::new(None)
    }

    /// The resource with this id, unless it has expired. For the program itself: no rights are checked.
    pub async fn get_resource(&self, id: &str) -> Result<Option<Resource>, Error> {
        let resource = self.inner.store.get(id).await?;
        Ok(resource.filter(|resource| !self.inner.has_ended(resource)))
    }

    /// Pins a resource, so that it no longer expires; false if there is none with this id. For the program
    /// itself.
    pub async fn pin_resource(&self, id: &str) -> Result<bool, Error> {
        match self.get_resource(id).await? {
            Some(resource) => self.inner.pin(&resource).await,
            None => Ok(false),
        }
    }

    /// Removes a resource; false if there was none with this id. For the program itself.
    pub async fn delete_resource(&self, id: &str) -> Result<bool, Error> {
        self.inner.delete(id).await
    }

    /// The operations of one caller; REST, `resources/read` and tools all use this.
    pub fn access(&self, principal: Principal) -> Access {
        Access { inner: self.inner.clone(), principal }
    }

    /// The URI of a resource in MCP.
    pub fn uri_of(&self, id: &str) -> String {
        self.inner.options.uri_of(id)
    }

    /// The id in a URI that [`DualResponseServer::uri_of`] returned, as `resources/read` receives it; `None`
    /// for any other text.
    pub fn id_of<'a>(&self, uri: &'a str) -> Option<&'a str> {
        uri.strip_prefix(&self.inner.options.uri_prefix).filter(|id| options::is_id(id))
    }

    /// The HTTP address of a resource; `None` without REST.
    pub fn url_of(&self, id: &str) -> Option<String> {
        self.inner.options.url_of(id)
    }

    /// Stops the cleanup and closes the store.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.inner.stop_cleanup();
        self.inner.live().clear();
        Ok(self.inner.store.close().await?)
    }
}

impl std::fmt::Debug for DualResponseServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DualResponseServer")
            .field("base_url", &self.inner.options.base_url.as_ref().map(url::Url::as_str))
            .finish()
    }
}

impl Inner {
    /// The time in whole milliseconds: JavaScript knows no smaller unit, and a store must return the time
    /// that it was given.
    fn now(&self) -> Timestamp {
        let now = (self.options.clock)();
        Timestamp::from_millisecond(now.as_millisecond()).expect("a time's own milliseconds are a time")
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, LiveRows>> {
        // No change under this lock is left half done, so a panic elsewhere does not spoil the map.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the resource can't be read any more: it has expired, or its closures were in another process.
    fn has_ended(&self, resource: &Resource) -> bool {
        resource.is_expired(self.now())
            || (resource.query == Backing::Live && !self.live().contains_key(&resource.id))
    }

    async fn pin(&self, resource: &Resource) -> Result<bool, Error> {
        if resource.query == Backing::Live && self.store.is_durable() {
            return Err(Error::NotDurable);
        }
        let pinned = self.store.update(&resource.id, &ResourcePatch::pin()).await?;
        if let Some(live) = self.live().get_mut(&resource.id) {
            live.expires_at = None;
        }
        Ok(pinned)
    }

    async fn delete(&self, id: &str) -> Result<bool, Error> {
        self.live().remove(id);
        Ok(self.store.delete(id).await?)
    }

    /// The rows of a resource, as this caller sees them.
    fn rows(&self, resource: &Resource, principal: &Principal) -> Result<Arc<dyn Rows>, Error> {
        match &resource.query {
            Backing::Live => {
                self.live().get(&resource.id).map(|live| live.rows.clone()).ok_or(Error::Expired)
            }
            Backing::Query { executor, version, args } => match self.executors.get(executor.as_str()) {
                Some(known) => known.bind(*version, args, principal),
                None => Err(Error::ExecutorMissing { name: executor.clone() }),
            },
            Backing::Snapshot => Ok(Arc::new(snapshot::SnapshotRows::new(self.store.clone(), resource))),
        }
    }
}
