//! The sources of rows: closures, or executors that are registered under a name.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, PageRequest, Principal};
use crate::BoxError;
use crate::wire::Row;

/// A query that is registered under a name, so that a resource over it can outlive the process that made it.
///
/// The store keeps the name, the version and the arguments. A server on which the executor is registered can serve
/// the resource, whichever process made it.
pub trait Executor: Send + Sync + 'static {
    /// The arguments of the query; kept as JSON.
    type Args: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The type of its rows: [`Row`], or a type of your own that serialises to an object.
    type Row: Serialize + Send + 'static;
    /// The name under which resources store it. Never change it.
    const NAME: &'static str;
    /// The version of `Args`. Raise it when their meaning changes.
    const VERSION: u32;

    /// The rows of one page. `page.sort` only contains sortable columns. `principal` is the caller.
    fn execute(
        &self,
        args: &Self::Args,
        page: PageRequest,
        principal: &Principal,
    ) -> impl Future<Output = Result<Vec<Self::Row>, BoxError>> + Send;

    /// The number of all rows.
    fn count(
        &self,
        args: &Self::Args,
        principal: &Principal,
    ) -> impl Future<Output = Result<u64, BoxError>> + Send;

    /// Converts the arguments of an earlier version. If it returns `None`, the resource counts as expired.
    fn migrate(&self, version: u32, args: Value) -> Option<Self::Args> {
        let _ = (version, args);
        None
    }
}

/// The rows of one resource, for one caller.
pub(super) trait Rows: Send + Sync {
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>>;
    /// The same page as NDJSON text, made without converting each row to a map.
    fn lines(&self, page: PageRequest) -> BoxFuture<'_, Result<Lines, BoxError>>;
    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>>;
}

/// A page as NDJSON.
pub(super) struct Lines {
    pub(super) text: Vec<u8>,
    pub(super) count: u64,
    /// The last row of the page, from which the next page may continue.
    pub(super) last: Option<Row>,
}

impl Lines {
    pub(super) fn of<T: Serialize + 'static>(mut rows: Vec<T>, limit: u64) -> Result<Self, BoxError> {
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut text = Vec::with_capacity(rows.len() * 128);
        for row in &rows {
            let start = text.len();
            serde_json::to_writer(&mut text, row)?;
            if text.get(start) != Some(&b'{') {
                return Err(NOT_AN_OBJECT.into());
            }
            text.push(b'\n');
        }
        let count = rows.len() as u64;
        Ok(Self { text, count, last: rows.pop().map(to_row).transpose()? })
    }
}

const NOT_AN_OBJECT: &str = "a row must serialise to a JSON object";

/// Converts rows of any serialisable type to [`Row`].
fn to_rows<T: Serialize + 'static>(mut rows: Vec<T>) -> Result<Vec<Row>, BoxError> {
    // Most rows are of this type already and need no conversion.
    if let Some(rows) = (&mut rows as &mut dyn Any).downcast_mut::<Vec<Row>>() {
        return Ok(std::mem::take(rows));
    }
    rows.into_iter().map(to_row).collect()
}

fn to_row<T: Serialize>(row: T) -> Result<Row, BoxError> {
    match serde_json::to_value(row)? {
        Value::Object(row) => Ok(row),
        _ => Err(NOT_AN_OBJECT.into()),
    }
}

/// Rows from two closures.
pub(super) struct Live<F, C> {
    pub(super) execute: F,
    pub(super) count: C,
}

impl<F, FF, T, E, C, CF, G> Rows for Live<F, C>
where
    F: Fn(PageRequest) -> FF + Send + Sync,
    FF: Future<Output = Result<Vec<T>, E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Into<BoxError>,
    C: Fn() -> CF + Send + Sync,
    CF: Future<Output = Result<u64, G>> + Send + 'static,
    G: Into<BoxError>,
{
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>> {
        let rows = (self.execute)(page);
        Box::pin(async { to_rows(rows.await.map_err(Into::into)?) })
    }

    fn lines(&self, page: PageRequest) -> BoxFuture<'_, Result<Lines, BoxError>> {
        let limit = page.limit;
        let rows = (self.execute)(page);
        Box::pin(async move { Lines::of(rows.await.map_err(Into::into)?, limit) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>> {
        let count = (self.count)();
        Box::pin(async { count.await.map_err(Into::into) })
    }
}

/// An executor without its type of arguments.
pub(super) trait AnyExecutor: Send + Sync {
    /// The rows for these arguments; fails as expired if the executor can't read the arguments any more.
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

/// An executor together with its arguments and the caller.
struct Bound<E: Executor> {
    executor: Arc<E>,
    args: E::Args,
    principal: Principal,
}

impl<E: Executor> Rows for Bound<E> {
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>> {
        Box::pin(async { to_rows(self.executor.execute(&self.args, page, &self.principal).await?) })
    }

    fn lines(&self, page: PageRequest) -> BoxFuture<'_, Result<Lines, BoxError>> {
        let limit = page.limit;
        Box::pin(
            async move { Lines::of(self.executor.execute(&self.args, page, &self.principal).await?, limit) },
        )
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>> {
        Box::pin(self.executor.count(&self.args, &self.principal))
    }
}
