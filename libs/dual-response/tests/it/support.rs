//! The shared fixtures of the tests: 847 institutions, a clock that is set by hand, and a server on loopback.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use mcp_dual_response::client::{ClientBuilder, DualResponseClient, ParsedDualResponse};
use mcp_dual_response::jiff::Timestamp;
use mcp_dual_response::server::{
    DualResponse, DualResponseServer, Executor, NewResource, PageRequest, Principal, ServerBuilder,
};
use mcp_dual_response::{BoxError, Column, Order, Row, Sort};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const TOTAL: u64 = 847;
pub const NAME: &str = "Institution Search Results";

pub fn columns() -> Vec<Column> {
    vec![Column::number("id"), Column::string("name"), Column::string("state"), Column::number("enrollment")]
}

/// A row of the test data. Values of `enrollment` repeat, so that a sort has equal rows.
pub fn row(id: u64) -> Row {
    let state = ["NJ", "NY", "CA"][(id % 3) as usize];
    object(json!({"id": id, "name": format!("College {id}"), "state": state, "enrollment": (id * 7919) % 50}))
}

pub fn object(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        other => panic!("{other} is not an object"),
    }
}

pub fn all_rows() -> Vec<Row> {
    (0..TOTAL).map(row).collect()
}

/// A page of rows, sorted as an executor over a database would sort them.
pub fn page_of(mut rows: Vec<Row>, page: &PageRequest) -> Vec<Row> {
    rows.sort_by(|a, b| {
        let each = page.sort.iter().map(|Sort { field, order, .. }| {
            let key = |row: &Row| (row[field].as_u64(), row[field].as_str().map(str::to_owned));
            match order {
                Order::Desc => key(b).cmp(&key(a)),
                _ => key(a).cmp(&key(b)),
            }
        });
        each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    rows.into_iter().skip(page.offset as usize).take(page.limit as usize).collect()
}

/// The closures of the specification's example, over the test data.
pub fn live() -> NewResource {
    NewResource::live(NAME, columns(), execute, count)
}

pub fn execute(page: PageRequest) -> Ready<Result<Vec<Row>, Infallible>> {
    ready(Ok(page_of(all_rows(), &page)))
}

pub fn count() -> Ready<Result<u64, Infallible>> {
    ready(Ok(TOTAL))
}

/// An executor over the same rows, limited to one state.
pub struct Institutions;

#[derive(Serialize, Deserialize)]
pub struct InState {
    pub state: String,
}

impl Institutions {
    fn rows(args: &InState) -> Vec<Row> {
        all_rows().into_iter().filter(|row| row["state"] == args.state).collect()
    }
}

impl Executor for Institutions {
    type Args = InState;
    type Row = Row;
    const NAME: &'static str = "institutions";
    const VERSION: u32 = 2;

    async fn execute(&self, args: &InState, page: PageRequest, _: &Principal) -> Result<Vec<Row>, BoxError> {
        Ok(page_of(Self::rows(args), &page))
    }

    async fn count(&self, args: &InState, _: &Principal) -> Result<u64, BoxError> {
        Ok(Self::rows(args).len() as u64)
    }

    fn migrate(&self, version: u32, args: Value) -> Option<InState> {
        // Version 1 named this argument `region`.
        (version == 1).then(|| InState { state: args["region"].as_str().unwrap_or_default().to_owned() })
    }
}

/// A clock that stands at 2025-01-15T10:30:00Z until it is moved.
#[derive(Clone)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_736_937_000_000)))
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap()
    }

    pub fn forward(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }
}

/// A server with this clock and with numbered ids; nobody listens at its `base_url`.
pub fn builder(clock: &Clock) -> ServerBuilder {
    builder_at("http://127.0.0.1:9/resources".into(), clock)
}

pub fn builder_at(base_url: String, clock: &Clock) -> ServerBuilder {
    let (clock, ids) = (clock.clone(), AtomicU64::new(1));
    DualResponseServer::builder(base_url)
        .clock(move || clock.now())
        .ids(move || format!("abc{}", ids.fetch_add(1, Ordering::SeqCst)))
        .cleanup_interval(None)
}

pub fn server() -> (DualResponseServer, Clock) {
    let clock = Clock::new();
    (builder(&clock).build().unwrap(), clock)
}

/// A server on loopback with its endpoints under `/resources`.
pub async fn served(options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (DualResponseServer, Clock) {
    let (listener, base_url) = listen().await;
    let clock = Clock::new();
    let server = options(builder_at(base_url, &clock)).build().unwrap();
    let app: Router = Router::new().nest("/resources", server.router());
    serve(listener, app);
    (server, clock)
}

pub async fn listen() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/resources", listener.local_addr().unwrap());
    (listener, base_url)
}

/// Serves until the test's runtime ends.
pub fn serve(listener: tokio::net::TcpListener, app: Router) {
    tokio::spawn(async move { axum::serve(listener, app).await });
}

pub fn client() -> DualResponseClient {
    DualResponseClient::new().unwrap()
}

pub fn client_with(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> DualResponseClient {
    options(DualResponseClient::builder()).build().unwrap()
}

/// A response, and the same response parsed as by a host.
pub async fn parsed(server: &DualResponseServer, new: NewResource) -> (DualResponse, ParsedDualResponse) {
    let response = server.create_response(new).await.unwrap();
    let parsed = client().parse(&response.to_mcp_tool_result()).unwrap();
    (response, parsed)
}
