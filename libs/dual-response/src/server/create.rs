//! Making a response: the query runs once for the sample and the count, and is kept for later reads.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::executor::{Live, Rows};
use super::options::is_id;
use super::sample::fit_sample;
use super::{
    Backing, DualResponse, DualResponseServer, Error, Executor, Inner, LiveRows, PageRequest, Principal,
    Resource, SCHEMA_VERSION,
};
use crate::BoxError;
use crate::wire::{Column, Row};

/// The input of `create_response`.
pub struct NewResource {
    name: String,
    columns: Vec<Column>,
    source: Source,
    sample_size: Option<usize>,
    expiration: Expiration,
    metadata: Value,
    owner: Principal,
    materialize: bool,
    sample: Option<Vec<Row>>,
    total_count: Option<u64>,
}

enum Source {
    Live(Arc<dyn Rows>),
    Query { executor: &'static str, version: u32, args: Result<Value, serde_json::Error> },
    Rows(Vec<Row>),
}

/// The result of the first look at a source.
struct Found {
    query: Backing,
    sample: Vec<Row>,
    total_count: u64,
    keep: Keep,
}

/// The part that is kept besides the resource itself.
enum Keep {
    Nothing,
    Closures(Arc<dyn Rows>),
    Rows(Vec<Row>),
}

impl Found {
    fn snapshot(sample: Vec<Row>, rows: Vec<Row>) -> Self {
        Self { query: Backing::Snapshot, sample, total_count: rows.len() as u64, keep: Keep::Rows(rows) }
    }
}

enum Expiration {
    Default,
    After(Duration),
    Never,
}

impl NewResource {
    /// A resource over two closures: `execute` returns the rows of a page, each a [`Row`] or any type that
    /// serialises to an object, and `count` returns the number of all rows. The resource exists only in this
    /// process; for one that outlives it, see [`NewResource::query`].
    pub fn live<F, FF, T, E, C, CF, G>(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = Column>,
        execute: F,
        count: C,
    ) -> Self
    where
        F: Fn(PageRequest) -> FF + Send + Sync + 'static,
        FF: Future<Output = Result<Vec<T>, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<BoxError> + 'static,
        C: Fn() -> CF + Send + Sync + 'static,
        CF: Future<Output = Result<u64, G>> + Send + 'static,
        G: Into<BoxError> + 'static,
    {
        Self::new(name, columns, Source::Live(Arc::new(Live { execute, count })))
    }

    /// A resource over a registered executor and its arguments. The resource outlives the process if its
    /// store does.
    pub fn query<E: Executor>(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = Column>,
        args: &E::Args,
    ) -> Self {
        let args = serde_json::to_value(args);
        Self::new(name, columns, Source::Query { executor: E::NAME, version: E::VERSION, args })
    }

    /// A resource over rows in memory; the store keeps them.
    pub fn snapshot(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = Column>,
        rows: Vec<Row>,
    ) -> Self {
        Self::new(name, columns, Source::Rows(rows))
    }

    fn new(name: impl Into<String>, columns: impl IntoIterator<Item = Column>, source: Source) -> Self {
        Self {
            name: name.into(),
            columns: columns.into_iter().collect(),
            source,
            sample_size: None,
            expiration: Expiration::Default,
            metadata: Value::Null,
            owner: Principal::anonymous(),
            materialize: false,
            sample: None,
            total_count: None,
        }
    }

    /// Sets the number of rows in the sample.
    pub fn sample_size(self, rows: usize) -> Self {
        Self { sample_size: Some(rows), ..self }
    }

    /// Sets the time after which the resource expires.
    pub fn expiration(self, expiration: Duration) -> Self {
        Self { expiration: Expiration::After(expiration), ..self }
    }

    /// Lets the resource live until it is deleted.
    pub fn pinned(self) -> Self {
        Self { expiration: Expiration::Never, ..self }
    }

    /// Adds data that is kept with the resource and never shown over REST.
    pub fn metadata(self, metadata: Value) -> Self {
        Self { metadata, ..self }
    }

    /// Sets the owner, with which the default authorizer compares a caller.
    pub fn owner(self, owner: Principal) -> Self {
        Self { owner, ..self }
    }

    /// Runs the whole query now and keeps the rows, so that they never change.
    pub fn materialize(self) -> Self {
        Self { materialize: true, ..self }
    }

    /// Sets the first rows if they are known already, so that the query does not run for them.
    pub fn sample(self, rows: Vec<Row>) -> Self {
        Self { sample: Some(rows), ..self }
    }

    /// Sets the number of rows if it is known already, so that nothing is counted.
    pub fn total_count(self, rows: u64) -> Self {
        Self { total_count: Some(rows), ..self }
    }
}

impl DualResponseServer {
    /// Runs a query for its sample and its count, keeps it, and returns the response for a tool.
    pub async fn create_response(&self, new: NewResource) -> Result<DualResponse, Error> {
        self.inner.start_cleanup();
        self.inner.create(new).await
    }
}

impl Inner {
    async fn create(&self, mut new: NewResource) -> Result<DualResponse, Error> {
        let options = &self.options;
        let id = (options.ids)();
        if !is_id(&id) {
            return Err(Error::InvalidOption { what: format!("`{id}` cannot be the id of a resource") });
        }
        let created_at = self.now();
        let expires_at = self.end_of(&new.expiration, created_at)?;
        let sample_size = new.sample_size.unwrap_or(options.default_sample_size);

        let Found { query, mut sample, total_count, keep } = self.find(&mut new, sample_size).await?;
        if query == Backing::Live && self.store.is_durable() {
            refuse_or_warn(&new.name, expires_at)?;
        }
        sample.truncate(sample_size);
        let (sample_data, truncated) = fit_sample(sample, options.sample_bytes_max);

        let resource = Resource {
            id,
            name: new.name,
            query,
            columns: new.columns,
            total_count,
            sample_data,
            created_at,
            expires_at,
            access_count: 0,
            last_accessed_at: None,
            metadata: new.metadata,
            owner: new.owner,
            schema_version: SCHEMA_VERSION,
        };
        self.keep(&resource, keep).await?;
        Ok(DualResponse {
            resource_uri: options.uri_of(&resource.id),
            resource_url: options.url_of(&resource.id),
            resource_id: resource.id,
            name: resource.name,
            sample: resource.sample_data,
            truncated,
            total_count,
            columns: resource.columns,
            expires_at,
            created_at,
            content_style: options.content_style,
        })
    }

    /// The first rows of a source, their total number, and the part that must be kept to read the others.
    async fn find(&self, new: &mut NewResource, sample_size: usize) -> Result<Found, Error> {
        let (query, rows) = match &mut new.source {
            Source::Live(rows) => (Backing::Live, rows.clone()),
            Source::Query { executor, version, args } => self.bind(executor, *version, args, &new.owner)?,
            Source::Rows(rows) => {
                self.check_snapshot_bytes(rows, 0)?;
                return Ok(Found::snapshot(
                    rows.iter().take(sample_size).cloned().collect(),
                    std::mem::take(rows),
                ));
            }
        };
        let first = PageRequest::new(0, sample_size as u64);
        let (sample, total_count) = first_look(&*rows, first, new.sample.take(), new.total_count).await?;
        if new.materialize {
            return Ok(Found::snapshot(sample, self.read_all(&*rows, total_count).await?));
        }
        let keep = if query == Backing::Live { Keep::Closures(rows) } else { Keep::Nothing };
        Ok(Found { query, sample, total_count, keep })
    }

    fn bind(
        &self,
        executor: &'static str,
        version: u32,
        args: &Result<Value, serde_json::Error>,
        owner: &Principal,
    ) -> Result<(Backing, Arc<dyn Rows>), Error> {
        let known = self.executors.get(executor);
        let known = known.ok_or_else(|| Error::ExecutorMissing { name: executor.to_owned() })?;
        let args = args.as_ref().map_err(|error| Error::InvalidOption {
            what: format!("the arguments of `{executor}` are not JSON: {error}"),
        })?;
        let rows = known.bind(version, args, owner)?;
        Ok((Backing::Query { executor: executor.to_owned(), version, args: args.clone() }, rows))
    }

    fn end_of(&self, expiration: &Expiration, from: Timestamp) -> Result<Option<Timestamp>, Error> {
        let length = match expiration {
            Expiration::Never => return Ok(None),
            Expiration::After(length) => *length,
            Expiration::Default => self.options.default_expiration,
        };
        let end = SignedDuration::try_from(length).ok().and_then(|length| from.checked_add(length).ok());
        match end {
            Some(end) => Ok(Some(end)),
            None => Err(Error::InvalidOption {
                what: format!("an expiration of {length:?} is past the end of time; use `pinned`"),
            }),
        }
    }

    async fn keep(&self, resource: &Resource, keep: Keep) -> Result<(), Error> {
        self.store.save(resource).await?;
        match keep {
            Keep::Nothing => {}
            Keep::Closures(rows) => {
                let live = LiveRows { rows, expires_at: resource.expires_at };
                self.live().insert(resource.id.clone(), live);
            }
            Keep::Rows(rows) => {
                if let Err(error) = self.save_rows(&resource.id, &rows).await {
                    // Half a snapshot must not stay. If the deletion fails too, the resource is removed when
                    // it expires.
                    let _ = self.store.delete(&resource.id).await;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// A closure in a durable store is most likely a mistake, because its resource is gone after a restart.
fn refuse_or_warn(name: &str, expires_at: Option<Timestamp>) -> Result<(), Error> {
    if expires_at.is_none() {
        return Err(Error::NotDurable);
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            resource = name,
            "a closure does not survive a restart, though its store does; `NewResource::query` would"
        );
    });
    Ok(())
}

/// The first rows and their total number, fetched at the same time; a part that is known already is not
/// fetched.
async fn first_look(
    rows: &dyn Rows,
    page: PageRequest,
    sample: Option<Vec<Row>>,
    total_count: Option<u64>,
) -> Result<(Vec<Row>, u64), Error> {
    let execute = async {
        match sample {
            Some(sample) => Ok(sample),
            None if page.limit == 0 => Ok(Vec::new()),
            None => rows.execute(page).await.map_err(Error::QueryExecutionFailed),
        }
    };
    let count = async {
        match total_count {
            Some(total_count) => Ok(total_count),
            None => rows.count().await.map_err(Error::CountExecutionFailed),
        }
    };
    tokio::try_join!(execute, count)
}
