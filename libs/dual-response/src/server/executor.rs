//! Where rows come from when they are asked for: closures, or executors that are known by name.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, PageRequest, Principal};
use crate::BoxError;
use crate::wire::Row;

/// A query that goes by a name, so that a resource over it outlives the process that made it.
///
/// The store keeps the name, the version and the arguments. A server on which the executor is registered can serve
/// the resource, whichever process made it.
pub trait Executor: Send + Sync + 'static {
    /// What the query needs to know; kept as JSON.
    type Args: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The name it is stored under. Never change it.
    const NAME: &'static str;
    /// Raise it when the meaning of `Args` changes.
    const VERSION: u32;

    /// The rows of one page. `page.sort` holds only columns that may be sorted by. `principal` is who asks.
    fn execute(
        &self,
        args: &Self::Args,
        page: PageRequest,
        principal: &Principal,
    ) -> impl Future<Output = Result<Vec<Row>, BoxError>> + Send;

    /// How many rows there are in all.
    fn count(
        &self,
        args: &Self::Args,
        principal: &Principal,
    ) -> impl Future<Output = Result<u64, BoxError>> + Send;

    /// The arguments of an earlier version as this one takes them. Without any, the resource has expired.
    fn migrate(&self, version: u32, args: Value) -> Option<Self::Args> {
        let _ = (version, args);
        None
    }
}

/// Rows of one resource, for one caller.
pub(super) trait Rows: Send + Sync {
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>>;
    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>>;
}

/// Rows from two closures.
pub(super) struct Live<F, C> {
    pub(super) execute: F,
    pub(super) count: C,
}

impl<F, FF, C, CF, E, G> Rows for Live<F, C>
where
    F: Fn(PageRequest) -> FF + Send + Sync,
    FF: Future<Output = Result<Vec<Row>, E>> + Send + 'static,
    C: Fn() -> CF + Send + Sync,
    CF: Future<Output = Result<u64, G>> + Send + 'static,
    E: Into<BoxError>,
    G: Into<BoxError>,
{
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>> {
        let rows = (self.execute)(page);
        Box::pin(async { rows.await.map_err(Into::into) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>> {
        let count = (self.count)();
        Box::pin(async { count.await.map_err(Into::into) })
    }
}

/// An executor whose type of arguments is forgotten.
pub(super) trait AnyExecutor: Send + Sync {
    /// The rows for these arguments; fails as expired if nobody can read the arguments any more.
    fn bind(&self, version: u32, args: &Value, principal: &Principal) -> Result<Arc<dyn Rows>, Error>;
}

pub(super) struct Registered<E>(pub(super) Arc<E>);

impl<E: Executor> AnyExecutor for Registered<E> {
    fn bind(&self, version: u32, args: &Value, principal: &Principal) -> Result<Arc<dyn Rows>, Error> {
        let args = if version == E::VERSION {
            serde_json::from_value(args.clone()).ok()
        } else {
            self.0.migrate(version, args.clone())
        };
        let args = args.ok_or(Error::Expired)?;
        Ok(Arc::new(Bound { executor: self.0.clone(), args, principal: principal.clone() }))
    }
}

/// An executor together with what it is asked and by whom.
struct Bound<E: Executor> {
    executor: Arc<E>,
    args: E::Args,
    principal: Principal,
}

impl<E: Executor> Rows for Bound<E> {
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>> {
        Box::pin(self.executor.execute(&self.args, page, &self.principal))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>> {
        Box::pin(self.executor.count(&self.args, &self.principal))
    }
}
