//! `serve --http`: MCP over streamable HTTP in both protocol eras, the rows behind replies, and health.
//!
//! Every credential has its own service, with its own sessions, passages and limits. So a session can't be
//! used with another credential, and when a key is revoked its service ends with all its streams.

mod body;
mod caller;
mod console;
mod endpoint;
mod guard;
pub mod jwt;
pub mod keys;
pub mod limits;
pub(crate) mod metrics;
mod refusal;
mod sessions;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use kenning_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use self::caller::Gate;
pub use self::console::Ui;
use self::endpoint::Endpoint;
use self::guard::AllowedNames;
use self::jwt::Tokens;
use self::keys::Keys;
use self::limits::{CurrentLimits, Meter};
use self::metrics::Metrics;
use self::refusal::Refusal;
use self::tls::Tls;
use crate::audit::AuditLog;
use crate::edge::Peer;
use crate::listener::{self, ConnectionLimits, Served};
use crate::traces::TraceContext;
use crate::{Options, rows};

const CONNECTIONS_MAX: usize = 4096;
const SESSION_IDLE_MAX: Duration = Duration::from_secs(4 * 60 * 60);
/// How often the server checks whether keys were revoked or have expired, and whether limits or certificates
/// were replaced.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long calls under way may continue after the server was asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
const MCP_PATH: &str = "/mcp";

/// How callers prove who they are. Without keys and tokens every caller that reaches the port gets the
/// server's own principal, which is allowed on loopback only.
#[derive(Default)]
pub struct Authentication {
    pub keys: Option<Keys>,
    pub tokens: Option<Tokens>,
}

impl Authentication {
    fn is_none(&self) -> bool {
        self.keys.is_none() && self.tokens.is_none()
    }
}

pub struct HttpOptions {
    pub authentication: Authentication,
    /// Further names under which the server is addressed, as `host` or `host:port`, such as those of a proxy
    /// in front of it.
    pub allowed_hosts: Vec<String>,
    /// Pages that may address the server, as `https://host`. None are allowed by default.
    pub allowed_origins: Vec<String>,
    pub limits: Arc<CurrentLimits>,
    /// The address at which clients reach the server, if that is not its own address. The addresses of result
    /// sets begin with it.
    pub public_url: Option<String>,
    pub tls: Option<Arc<Tls>>,
    pub audit: Option<Arc<AuditLog>>,
    /// Requests come through a proxy, so the address of the connection does not identify the sender.
    pub is_behind_proxy: bool,
}

/// A bound port. It is bound first, so that its number is known before anything is served.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpListener {
    pub async fn bind(address: SocketAddr) -> io::Result<HttpListener> {
        let (listener, address) = listener::bind(address).await?;
        Ok(HttpListener { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The address at which clients find `/mcp`: under the public URL, else under the server's own address.
pub fn resource_of(address: SocketAddr, public_url: Option<&str>, has_tls: bool) -> String {
    let own = || format!("{}://{address}", if has_tls { "https" } else { "http" });
    let public_url = public_url.map_or_else(own, str::to_owned);
    format!("{}{MCP_PATH}", public_url.trim_end_matches('/'))
}

/// Serves until `stop` is cancelled, then finishes the calls that are under way.
pub async fn serve_http(
    engine: Arc<Engine>,
    options: Options,
    http: HttpOptions,
    listener: HttpListener,
    stop: CancellationToken,
) {
    let HttpListener { listener, address } = listener;
    let mut origins = http.allowed_origins.clone();
    // Pages of the console have the public URL as their origin.
    origins.extend(http.public_url.as_deref().map(|url| origin_of(url).to_owned()));
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    let names = Arc::new(allowed_names(scheme, address, &http.allowed_hosts, &origins));
    let resource = resource_of(address, http.public_url.as_deref(), http.tls.is_some());
    let limits = http.limits.clone();
    // Open streams are cut after the calls under way are done, and not as soon as the server is asked to
    // stop.
    let (subscriptions_end, streams_end) = (CancellationToken::new(), CancellationToken::new());
    let sets = crate::mcp::set_store(&engine, &options);
    engine.limit_entries(limits.get().entries_per_namespace);
    let gate = Arc::new(Gate {
        engine,
        options,
        authentication: http.authentication,
        base_url: format!("{}{}", resource.trim_end_matches(MCP_PATH), rows::PATH),
        resource,
        limits: limits.clone(),
        services: Mutex::default(),
        failures: Mutex::default(),
        is_behind_proxy: http.is_behind_proxy,
        audit: http.audit,
        metrics: Arc::new(Metrics::new()),
        places: Arc::default(),
        sets,
        calls: TaskTracker::new(),
        subscriptions_end: subscriptions_end.clone(),
        streams_end: streams_end.clone(),
    });
    let keys = gate.authentication.keys.as_ref().map(Keys::again);
    let guarded = Router::new()
        .route(MCP_PATH, any(mcp_request))
        .route("/metrics", get(metrics_page))
        .route(METADATA_PATH, get(resource_metadata))
        .route(&format!("{METADATA_PATH}{MCP_PATH}"), get(resource_metadata))
        .nest_service(rows::PATH, any(rows_request).with_state(gate.clone()))
        .merge(console::routes(gate.clone(), keys))
        .layer(axum::middleware::from_fn_with_state(names, guard::check))
        .layer(axum::middleware::from_fn_with_state(gate.clone(), counted));
    let app = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .merge(guarded)
        .with_state(gate.clone());
    let tls = http.tls;
    let watched = tokio::spawn(look_again(gate.clone(), tls.clone()));
    let ending = tokio::spawn({
        let stop = stop.clone();
        async move {
            stop.cancelled().await;
            subscriptions_end.cancel();
            gate.calls.close();
            // Until then writes under way are committed and acknowledged.
            let _ = tokio::time::timeout(STOP_GRACE, gate.calls.wait()).await;
            streams_end.cancel();
        }
    });
    listener::serve(listener, Served { app, limits: of_connections(limits), tls }, stop).await;
    watched.abort();
    ending.abort();
}

/// Serves any handler at `/mcp`, to everybody who reaches the port, as `serve_http` serves Kenning's own: the
/// same connections, checks of Host and Origin, limits, sessions and streams. The conformance suite calls
/// tools that no product has, so it needs a handler of its own.
pub async fn serve_handler<H: rmcp::ServerHandler>(
    handler: impl Fn() -> H + Send + Sync + 'static,
    limits: Arc<CurrentLimits>,
    listener: HttpListener,
    stop: CancellationToken,
) {
    let HttpListener { listener, address } = listener;
    let names = Arc::new(allowed_names("http", address, &[], &[]));
    let (meter, calls) = (Arc::new(Meter::new(limits.clone(), false)), TaskTracker::new());
    let endpoint = Arc::new(Endpoint::new(handler, meter, limits.clone(), calls, stop.child_token()));
    let answer = move |request: Request| {
        let endpoint = endpoint.clone();
        async move { endpoint.answer(request, None).await }
    };
    let app = Router::new()
        .route(MCP_PATH, any(answer))
        .layer(axum::middleware::from_fn_with_state(names, guard::check));
    listener::serve(listener, Served { app, limits: of_connections(limits), tls: None }, stop).await;
}

/// The limits of a connection, which are those of the moment when it begins.
fn of_connections(limits: Arc<CurrentLimits>) -> Arc<dyn Fn() -> ConnectionLimits + Send + Sync> {
    Arc::new(move || {
        let limits = limits.get();
        ConnectionLimits {
            connections_max: CONNECTIONS_MAX,
            header_max: seconds(limits.header_seconds),
            stalled_max: seconds(limits.stalled_seconds),
            // A subscription lasts as long as its client wants.
            connection_max: None,
        }
    })
}

fn seconds(many: std::num::NonZeroU32) -> Duration {
    Duration::from_secs(many.get().into())
}

/// The allowed hosts and origins. On loopback the server's two own names are added, and the pages that it
/// serves itself.
fn allowed_names(scheme: &str, address: SocketAddr, hosts: &[String], origins: &[String]) -> AllowedNames {
    let (mut hosts, mut origins) = (hosts.to_vec(), origins.to_vec());
    if address.ip().is_loopback() {
        let own = [address.to_string(), format!("localhost:{}", address.port())];
        origins.extend(own.iter().map(|host| format!("{scheme}://{host}")));
        hosts.extend(own);
    }
    AllowedNames { hosts, origins }
}

/// The origin of a URL: `https://kenning.example` for `https://kenning.example/path`.
fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + "://".len());
    url[host..].find('/').map_or(url, |end| &url[..host + end])
}

async fn mcp_request(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let caller = gate.caller(request.headers(), peer(&request)).await?;
    caller.service.mcp.answer(request, caller.expires_in).await
}

async fn rows_request(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let caller = gate.caller(request.headers(), peer(&request)).await?;
    let place = caller.service.meter.request()?;
    let Some(rows) = caller.service.rows.clone() else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    let limits = gate.limits.get();
    let call = gate.calls.token();
    let what = format!("{} {}", request.method(), rows::PATH);
    let request = body::received(request, &caller.service.meter, &limits).await?.map(axum::body::Body::new);
    let answer = tokio::time::timeout(seconds(limits.answer_seconds), rows.oneshot(request)).await;
    let Ok(response) = answer.map_err(|_| Refusal::TooSlow)?;
    let outcome =
        if response.status().is_success() { "ok".into() } else { response.status().as_str().to_owned() };
    caller.service.edge.record(caller.service.by(caller.from), &what, outcome);
    let until = caller.expires_in;
    Ok(response.map(|body| body::HeldBody::boxed(body, (place, Some(call)), until)))
}

/// The address that a request came from.
fn peer(request: &Request) -> Option<Peer> {
    request.extensions().get().copied()
}

/// The metadata that says which servers issue tokens for this one (RFC 9728), for clients that have no token
/// yet.
async fn resource_metadata(State(gate): State<Arc<Gate>>) -> Response {
    match &gate.authentication.tokens {
        Some(tokens) => {
            let content_type = [(header::CONTENT_TYPE, "application/json")];
            (content_type, tokens.metadata(&gate.resource).to_string()).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The metrics, for the owner alone: how often each tool is called reveals something about everybody's work.
async fn metrics_page(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let caller = gate.caller(request.headers(), peer(&request)).await?;
    if !gate.authentication.is_none() && !caller.service.principal.is_owner() {
        return Ok((StatusCode::FORBIDDEN, "metrics are for the owner's keys").into_response());
    }
    let open: Vec<_> = gate.services().values().map(|service| service.usage.counted()).collect();
    let content_type = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((content_type, gate.metrics.page(&open)).into_response())
}

async fn counted(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    // Only the server's own paths become labels, since callers can request any number of other paths.
    let paths = ["/mcp", "/metrics", rows::PATH, kenning_console::BASE];
    let path = paths.into_iter().find(|path| request.uri().path().starts_with(path)).unwrap_or("other");
    let traced = gate.options.traces.clone().map(|traces| (traces, TraceContext::new(), method_of(&request)));
    if let Some((_, context, _)) = &traced {
        request.extensions_mut().insert(*context);
    }
    let since = Instant::now();
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), since.elapsed());
    gate.metrics.count(path, status, took);
    if let Some((traces, context, method)) = traced {
        traces.request(context, method, path, status, took);
    }
    response
}

/// The method of a request by its name in traces. A client may write anything as a method.
fn method_of(request: &Request) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "_OTHER",
    }
}

/// Whether calls can be answered: whether the store can be read.
async fn ready(State(gate): State<Arc<Gate>>) -> Response {
    let engine = gate.engine.clone();
    match tokio::task::spawn_blocking(move || engine.head()).await {
        // Until then this server answers from the newest records alone, so other servers should get the requests.
        Ok(Ok(_)) if gate.engine.is_preparing() => {
            (StatusCode::SERVICE_UNAVAILABLE, "the search index is being made").into_response()
        }
        Ok(Ok(_)) => "ready".into_response(),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store can't be read").into_response(),
    }
}

/// Ends the services of keys that are revoked or expired, and reads limits and certificates again if their
/// files have changed.
async fn look_again(gate: Arc<Gate>, tls: Option<Arc<Tls>>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match gate.limits.reload() {
            Ok(is_new) => {
                if is_new && gate.limits.has_file() {
                    tracing::info!("the limits were read again");
                }
                gate.engine.limit_entries(gate.limits.get().entries_per_namespace);
            }
            Err(error) => tracing::error!("the limits stay as they were: {error}"),
        }
        match tls.as_ref().map(|tls| tls.reload()) {
            Some(Ok(true)) => tracing::info!("the certificate was read again"),
            Some(Err(error)) => tracing::error!("the certificate stays as it was: {error}"),
            Some(Ok(false)) | None => {}
        }
        gate.end_revoked();
    }
}
