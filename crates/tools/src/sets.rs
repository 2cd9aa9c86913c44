//! Result sets: all rows behind a reply that shows some of them. A set is a call, pinned at a transaction.
//! Its rows are computed again whenever they are read, so nothing is copied, and pages do not shift while
//! others write.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use kenning_engine::{Engine, Snapshot};
use kenning_model::{Principal, Timestamp, TxId};
use kenning_presentation::budget::json_bytes;
use kenning_presentation::{Link, SetReference};
use mcp_dual_response::server::{
    Backing, DualResponseServer, Error, EveryoneIs, Executor, MemoryStore, PageRequest,
    Principal as SetOwner, Resource, ResourceStore, ServerBuilder, SqliteStore, sort_rows,
};
use mcp_dual_response::wire::{Page, PageQuery};
use mcp_dual_response::{BoxError, Column, Row, rusqlite};
use moka::sync::Cache;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::dispatch::find;
use crate::tool::rerun;
use crate::{Caller, Code, Stop};

/// The file in the data directory. It is not part of the log: without it, links to result sets are no longer
/// valid, and nothing else is lost.
pub const SETS_FILE: &str = "rows.db";
const LIFETIME: SignedDuration = SignedDuration::from_mins(15);
/// The largest reply of a tool or of a read of the resource.
const PAGE_BYTES_MAX: usize = 56 * 1024;
/// The number of rows of a page by default, for models (as a tool or a resource) and for programs (over
/// HTTP).
const ROWS_DEFAULT: u64 = 20;
const ROWS_DEFAULT_REST: u64 = 100;
const ROWS_MAX: u64 = 1_000;
/// Larger sets are not sorted, because sorting needs all rows in memory.
const SORTED_ROWS_MAX: usize = 100_000;
const SORTED_BYTES_MAX: usize = 64 << 20;
/// The size of the cache of sorted sets, which saves sorting again for the next page.
const SORTED_KEPT: u64 = 64 << 20;
const SORTED_KEPT_FOR: Duration = Duration::from_secs(120);
/// The length of a set's id.
const HANDLE_BYTES: usize = 30;
const CLEANUP_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// If another process locks the file for longer than this, the reply is sent without its set.
const BUSY_MAX: Duration = Duration::from_millis(250);
/// Whoever removes all sets has more time.
const PATIENCE_TO_FORGET: Duration = Duration::from_secs(10);
const MIME_TYPE: &str = "application/json";

// The part of a reply that describes the result set behind it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Attached {
    /// Where all rows are, if these are not all.
    pub resource: SetResource,
    pub metadata: SetMetadata,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetResource {
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    pub name: String,
    #[serde(rename = "mimeType")]
    pub mime_type: &'static str,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetMetadata {
    pub total_count: u64,
    // This field and the next one are in `_meta` for clients that show a model everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<SetColumn>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub executed_at: String,
    pub expires_at: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetColumn {
    pub name: &'static str,
    pub r#type: &'static str,
    /// Where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub sortable: Option<bool>,
}

impl SetColumn {
    fn new((name, kind): &(&'static str, &'static str)) -> SetColumn {
        SetColumn { name, r#type: kind, sortable: (*kind == "json").then_some(false) }
    }
}

impl Attached {
    /// The line and the link by which a reply names the set.
    pub(crate) fn reference(&self) -> SetReference {
        let Attached { resource, metadata } = self;
        let SetMetadata { total_count, expires_at, .. } = metadata;
        let url = resource.url.as_ref().map(|url| format!(" or {url}/rows")).unwrap_or_default();
        let what = resource.name.to_lowercase();
        let uri = resource.uri.clone();
        SetReference {
            line: format!("All {total_count} {what}: {uri}{url} (until {expires_at}), by `read_rows`."),
            link: Link {
                uri,
                name: resource.name.clone(),
                bytes: None,
                last_modified: metadata.executed_at.clone(),
            },
        }
    }
}

/// The names and types of columns; the first column identifies a row.
pub(crate) type Columns = &'static [(&'static str, &'static str)];

/// The call that found the rows of a set, pinned at its transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PinnedCall {
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    /// The caller's scope, used if the arguments name none.
    pub(crate) scope: String,
    pub(crate) has_whole_history: bool,
    /// The principal that made the call: rows are read with its rights, and other principals can't read the
    /// set.
    pub(crate) principal: Principal,
    pub(crate) at: TxId,
    /// The identity of the log that `at` belongs to; empty in sets of older versions.
    #[serde(default)]
    pub(crate) source: String,
    /// The moment at which validity is judged.
    pub(crate) asked_at: Timestamp,
}

impl PinnedCall {
    /// The identity of a snapshot's log: the store's id, and the checksum of the transaction.
    pub(crate) fn source(snapshot: &Snapshot<'_>) -> Result<String, kenning_engine::Error> {
        Ok(format!("{} {:08x}", snapshot.store(), snapshot.checksum()?))
    }
}

/// The range of rows for which a call is made again.
#[derive(Clone, Copy)]
pub(crate) struct Pinned {
    pub(crate) at: TxId,
    pub(crate) asked_at: Timestamp,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
}

/// The settings for reading the rows of a server on standard streams over HTTP on the same machine.
#[derive(Clone, Debug)]
pub struct SetsOverHttp {
    /// The beginning of the URLs.
    pub base_url: String,
    /// The principal whose sets can be read. It is the server's own principal, because readers are on the
    /// same machine and know the id of a set.
    pub reader: Arc<Principal>,
}

/// Sets of the owner can be read by anyone who knows their ids, which have 128 random bits; sets of other
/// principals only by these principals.
fn set_owner(principal: &Principal) -> SetOwner {
    if principal.is_owner() { SetOwner::anonymous() } else { SetOwner::subject(&principal.subject) }
}

/// Where result sets are kept. All callers of a process share one, because each open file costs connections and a thread.
pub struct SetStore {
    engine: Arc<Engine>,
    /// `None` keeps the sets in memory.
    file: Option<PathBuf>,
    opened: OnceLock<OpenSetStore>,
}

struct OpenSetStore {
    /// `None` only while this value is being dropped.
    runtime: Option<Runtime>,
    store: Arc<dyn ResourceStore>,
    repeater: CallRepeater,
}

/// The result sets of a caller.
pub struct ResultSets {
    kept: Arc<SetStore>,
    /// The settings for serving rows over HTTP, if that is wanted.
    rest: Option<SetsOverHttp>,
    opened: OnceLock<OpenSets>,
}

struct OpenSets {
    server: DualResponseServer,
    /// The server for people and programs, with larger pages.
    rest: Option<DualResponseServer>,
    /// Sets by their pinned call: the second page of a list has the same set as the first.
    known: Cache<String, Attached>,
    cleaned_at: Mutex<Option<Timestamp>>,
}

impl SetStore {
    pub fn new(engine: Arc<Engine>, file: Option<PathBuf>) -> Arc<SetStore> {
        Arc::new(SetStore { engine, file, opened: OnceLock::new() })
    }

    fn opened(&self) -> Option<&OpenSetStore> {
        if let Some(opened) = self.opened.get() {
            return Some(opened);
        }
        // The file is in the store's directory, so the store is opened first.
        if self.file.is_some() {
            self.engine.storage().ok()?;
        }
        let opened = OpenSetStore::new(&self.engine, self.file.as_ref())
            .inspect_err(|error| tracing::warn!("no result sets: {error}"))
            .ok()?;
        Some(self.opened.get_or_init(|| opened))
    }
}

impl ResultSets {
    pub fn new(kept: Arc<SetStore>, rest: Option<SetsOverHttp>) -> ResultSets {
        ResultSets { kept, rest, opened: OnceLock::new() }
    }

    /// The HTTP endpoints for rows, if these are served.
    pub fn router(&self) -> Option<axum::Router> {
        Some(self.opened()?.rest.as_ref()?.router())
    }

    /// Makes the set behind a reply, without waiting for the disk.
    pub(crate) fn attach(
        &self,
        call: &PinnedCall,
        name: &str,
        columns: Columns,
        total_count: u64,
    ) -> Option<Attached> {
        let (opened, kept) = (self.opened()?, self.kept.opened()?);
        let key = serde_json::to_string(call).ok()?;
        if let Some(known) = opened.known.get(&key) {
            return Some(known);
        }
        let now = self.kept.engine.now();
        let expires_at = now.checked_add(LIFETIME).ok()?;
        let id = self.kept.engine.new_handle();
        let attached = Attached {
            resource: SetResource {
                uri: opened.server.uri_of(&id),
                url: opened.rest.as_ref().and_then(|rest| rest.url_of(&id)),
                name: name.to_owned(),
                mime_type: MIME_TYPE,
            },
            metadata: SetMetadata {
                total_count,
                columns: columns.iter().map(SetColumn::new).collect(),
                executed_at: now.to_string(),
                expires_at: expires_at.to_string(),
            },
        };
        let args = serde_json::to_value(call).ok()?;
        let query =
            Backing::Query { executor: CallRepeater::NAME.to_owned(), version: CallRepeater::VERSION, args };
        let mut resource = Resource::new(id.clone(), query, now);
        resource.name = name.to_owned();
        resource.columns = columns_of(columns);
        resource.total_count = total_count;
        resource.expires_at = Some(expires_at);
        resource.owner = set_owner(&call.principal);
        if let Err(error) = kept.runtime().block_on(kept.store.save(&resource)) {
            // A reply without a link is better than one that waits.
            tracing::warn!("a result set was not kept: {error}");
            return None;
        }
        opened.clean(kept, now);
        opened.known.insert(key, attached.clone());
        Some(attached)
    }

    /// A page of a set, by its URI.
    pub fn page(&self, principal: &Principal, uri: &str, query: &PageQuery) -> Result<Page, Stop> {
        let unknown = || {
            let message =
                "there is no such result set, or no longer; make the call again that gave the address";
            Stop::new(Code::NotFound, message).with("error", json!("not_found"))
        };
        let (opened, kept) = (self.opened().ok_or_else(unknown)?, self.kept.opened().ok_or_else(unknown)?);
        // The other forms in which a reply names a set, such as its URL or its id, are accepted too, also
        // with query parameters.
        let named = uri.split(['?', '#']).next().unwrap_or(uri);
        let id = match named.strip_prefix("http") {
            Some(_) => named.rsplit('/').find(|part| part.len() == HANDLE_BYTES),
            None => opened.server.id_of(named).or((named.len() == HANDLE_BYTES).then_some(named)),
        };
        let id = id.ok_or_else(|| {
            Stop::invalid("`resource`: pass the `resource.uri` of a reply, such as kenning://rows/ID")
        })?;
        let access = opened.server.access(set_owner(principal));
        kept.runtime().block_on(access.page(id, query)).map_err(|error| match error {
            Error::NotFound => unknown(),
            Error::Expired => {
                let message = "the result set has expired; make the call again that gave its address";
                Stop::new(Code::NotFound, message).with("error", json!("expired"))
            }
            Error::InvalidSort { what } => Stop::invalid(format!("`sort`: {what}")),
            Error::InvalidPage { what } => Stop::invalid(what),
            Error::QueryExecutionFailed(error) => match error.downcast::<RerunError>() {
                Ok(refused) => refused.0,
                Err(error) => failed(&*error),
            },
            error => failed(&error),
        })
    }

    fn opened(&self) -> Option<&OpenSets> {
        if let Some(opened) = self.opened.get() {
            return Some(opened);
        }
        let opened = OpenSets::new(&self.kept.engine, self.kept.opened()?, self.rest.as_ref())
            .inspect_err(|error| tracing::warn!("no result sets: {error}"))
            .ok()?;
        Some(self.opened.get_or_init(|| opened))
    }
}

fn failed(error: &dyn std::error::Error) -> Stop {
    tracing::warn!("the rows of a result set can't be read: {error}");
    Stop::new(Code::BackendUnavailable, "the rows can't be read right now")
}

impl OpenSetStore {
    fn new(engine: &Arc<Engine>, file: Option<&PathBuf>) -> Result<OpenSetStore, BoxError> {
        let store = match file {
            Some(file) => durable(file),
            None => Arc::new(MemoryStore::new()),
        };
        let repeater = CallRepeater::new(engine.clone());
        // The runtime is made last, because dropping one after an error in between would block. Only calls of the
        // library run on it.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(OpenSetStore { runtime: Some(runtime), store, repeater })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it goes last")
    }
}

impl OpenSets {
    fn new(
        engine: &Arc<Engine>,
        kept: &OpenSetStore,
        rest_options: Option<&SetsOverHttp>,
    ) -> Result<OpenSets, BoxError> {
        let with = |builder: ServerBuilder| {
            let clock = engine.clone();
            builder
                .shared_store(kept.store.clone())
                .executor(kept.repeater.clone())
                .uri_scheme("kenning")
                .uri_path("rows")
                .clock(move || clock.now())
        };
        let server = with(DualResponseServer::without_rest())
            .page_rows(ROWS_DEFAULT, ROWS_MAX)
            .page_bytes_max(PAGE_BYTES_MAX)
            .build()?;
        let rest = |rest: &SetsOverHttp| {
            with(DualResponseServer::builder(&rest.base_url))
                .authorizer(EveryoneIs(set_owner(&rest.reader)))
                .page_rows(ROWS_DEFAULT_REST, ROWS_MAX)
                .build()
        };
        let rest = rest_options.map(rest).transpose()?;
        let known = Cache::builder().max_capacity(1_000).time_to_live(Duration::from_secs(14 * 60)).build();
        Ok(OpenSets { rest, server, known, cleaned_at: Mutex::default() })
    }

    fn clean(&self, kept: &OpenSetStore, now: Timestamp) {
        let mut cleaned_at = locked(&self.cleaned_at);
        if cleaned_at.is_some_and(|cleaned| now.duration_since(cleaned) < CLEANUP_EVERY) {
            return;
        }
        *cleaned_at = Some(now);
        let server = self.server.clone();
        kept.runtime().spawn(async move { server.cleanup_once().await });
    }
}

impl Drop for OpenSetStore {
    fn drop(&mut self) {
        // The server may end inside another runtime, where blocking on this one is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for ResultSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultSets").finish_non_exhaustive()
    }
}

/// The store in a file. A file that can't be read is renamed and a new one is begun, since it only has links.
fn durable(file: &Path) -> Arc<dyn ResourceStore> {
    let open = || -> Result<SqliteStore, BoxError> {
        Ok(SqliteStore::from_connection(connection(file)?)?.write_behind())
    };
    let opened = open().or_else(|error| {
        tracing::warn!("{SETS_FILE} can't be read and is begun anew: {error}");
        for name in [SETS_FILE.to_owned(), format!("{SETS_FILE}-wal"), format!("{SETS_FILE}-shm")] {
            // Moving a file that does not exist is not an error.
            let _ =
                std::fs::rename(file.with_file_name(&name), file.with_file_name(format!("{name}.damaged")));
        }
        open()
    });
    match opened {
        Ok(store) => Arc::new(store),
        Err(error) => {
            tracing::warn!("result sets are kept in memory: {error}");
            Arc::new(MemoryStore::new())
        }
    }
}

/// Opens the file. A power failure may lose links only, so no write waits for the disk.
fn connection(file: &Path) -> Result<rusqlite::Connection, BoxError> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    // Only the user may read the file, like all files in the data directory.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(file)?);
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(BUSY_MAX)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "off")?;
    // Calls have questions in them, and a set that has expired is to be gone.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

/// Removes every set of a data directory, in a way that leaves nothing of their calls in the file. A file that is not there has none.
pub fn forget_sets(dir: &Path) -> Result<(), BoxError> {
    let file = dir.join(SETS_FILE);
    if !file.exists() {
        return Ok(());
    }
    let connection = connection(&file)?;
    connection.busy_timeout(PATIENCE_TO_FORGET)?;
    connection.execute_batch("DELETE FROM dual_row; DELETE FROM dual_resource; VACUUM")?;
    let is_busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    match is_busy {
        0 => Ok(()),
        _ => Err("another process is reading it".into()),
    }
}

fn columns_of(columns: Columns) -> Vec<Column> {
    let column = |(at, (name, kind)): (usize, &(&str, &str))| {
        let column = Column::new(*name, (*kind).to_owned().into());
        match (at, *kind) {
            (0, _) => column.as_key(),
            (_, "json") => column.unsortable(),
            _ => column,
        }
    };
    columns.iter().enumerate().map(column).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why a call that found rows before is refused now.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
struct RerunError(Stop);

/// Computes the rows of a set by making its call again.
#[derive(Clone)]
struct CallRepeater {
    engine: Arc<Engine>,
    sorted: Cache<String, Sorted>,
}

/// All rows of a set in a certain order.
#[derive(Clone)]
struct Sorted {
    rows: Arc<Vec<Row>>,
    bytes: usize,
}

impl CallRepeater {
    fn new(engine: Arc<Engine>) -> CallRepeater {
        let weight = |_: &String, sorted: &Sorted| u32::try_from(sorted.bytes).unwrap_or(u32::MAX);
        let sorted =
            Cache::builder().max_capacity(SORTED_KEPT).weigher(weight).time_to_live(SORTED_KEPT_FOR).build();
        CallRepeater { engine, sorted }
    }
}

impl Executor for CallRepeater {
    type Args = PinnedCall;
    type Row = Row;
    const NAME: &'static str = "kenning.call";
    const VERSION: u32 = 1;

    async fn execute(
        &self,
        call: &PinnedCall,
        page: PageRequest,
        _: &SetOwner,
    ) -> Result<Vec<Row>, BoxError> {
        let (engine, sorted, call) = (self.engine.clone(), self.sorted.clone(), call.clone());
        let read = move || {
            if page.sort.is_empty() {
                read(&engine, &call, page.offset, page.limit)
            } else {
                read_sorted(&engine, &sorted, &call, &page)
            }
        };
        Ok(tokio::task::spawn_blocking(read).await?.map_err(RerunError)?)
    }

    async fn count(&self, call: &PinnedCall, _: &SetOwner) -> Result<u64, BoxError> {
        let (engine, call) = (self.engine.clone(), call.clone());
        let all = move || read(&engine, &call, 0, u64::MAX).map(|rows| rows.len() as u64);
        Ok(tokio::task::spawn_blocking(all).await?.map_err(RerunError)?)
    }
}

/// The rows from `offset` on. One call may return fewer rows than requested, so it is repeated until there
/// are enough.
fn read(engine: &Arc<Engine>, call: &PinnedCall, offset: u64, limit: u64) -> Result<Vec<Row>, Stop> {
    let gone = || Stop::new(Code::InternalError, format!("there is no tool `{}` any more", call.tool));
    let tool = find(&call.tool).ok_or_else(gone)?;
    check_store(engine, call)?;
    let caller = Caller {
        has_whole_history: call.has_whole_history,
        principal: Arc::new(call.principal.clone()),
        ..Caller::new(None, String::new(), call.scope.clone())
    };
    let mut rows: Vec<Row> = Vec::new();
    while (rows.len() as u64) < limit {
        let left = limit - rows.len() as u64;
        let page = Pinned {
            at: call.at,
            asked_at: call.asked_at,
            offset: offset + rows.len() as u64,
            limit: left.min(ROWS_MAX),
        };
        let found = rerun(engine, &caller, tool, call.arguments.clone(), page)?;
        if found.is_empty() {
            break;
        }
        rows.extend(found);
    }
    Ok(rows)
}

/// Another store's rows would be no answer to what was asked of this one.
fn check_store(engine: &Engine, call: &PinnedCall) -> Result<(), Stop> {
    let is_same = |snapshot: Snapshot<'_>| Ok(PinnedCall::source(&snapshot)? == call.source);
    match engine.snapshot_at(&call.principal, Some(call.at)).and_then(is_same).unwrap_or(false) {
        true => Ok(()),
        false => {
            let message = "the result set is of a store that is no longer there; make the call again";
            Err(Stop::new(Code::NotFound, message).with("error", json!("expired")))
        }
    }
}

fn read_sorted(
    engine: &Arc<Engine>,
    sorted: &Cache<String, Sorted>,
    call: &PinnedCall,
    page: &PageRequest,
) -> Result<Vec<Row>, Stop> {
    check_store(engine, call)?;
    let key = json!([call, page.sort]).to_string();
    let sort = || {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let more = read(engine, call, rows.len() as u64, ROWS_MAX)?;
            if more.is_empty() {
                break;
            }
            bytes += more.iter().map(json_bytes).sum::<usize>();
            rows.extend(more);
            if rows.len() > SORTED_ROWS_MAX || bytes > SORTED_BYTES_MAX {
                return Err(Stop::invalid(
                    "`sort`: there are too many rows to be sorted; narrow the question",
                ));
            }
        }
        sort_rows(&mut rows, &page.sort);
        Ok(Sorted { rows: Arc::new(rows), bytes })
    };
    // If several requests need the same sorted rows, one sorts and the others wait for it.
    let Sorted { rows, .. } = sorted.try_get_with(key, sort).map_err(|stop: Arc<Stop>| (*stop).clone())?;
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(rows.len());
    Ok(rows[at(page.offset)..at(page.offset.saturating_add(page.limit))].to_vec())
}
