//! `serve --http`: MCP over streamable HTTP in both protocol eras, the rows behind replies, and health.
//!
//! Every credential has a service of its own, with its own sessions, passages and limits. So a session can't be used with
//! another credential, and when a key is revoked its service ends with every stream of it.

mod guard;
pub mod keys;
mod metrics;
mod sessions;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kenning_engine::Engine;
use kenning_model::ScopeName;
use kenning_presentation::Format;
use kenning_tools::project::{NamedBy, ProjectSettings};
use kenning_tools::{Code, Family, Stop, Usage};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use self::guard::AllowedNames;
use self::keys::{Key, Keys};
use self::metrics::Metrics;
use self::sessions::Sessions;
use crate::listener::{self, ConnectionLimits};
use crate::{Options, mcp, rows};

const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    connections_max: 4096,
    header_max: Duration::from_secs(30),
    // A subscription lasts as long as its client wants.
    connection_max: None,
};
/// How many requests of one credential may be under way, subscriptions included.
const REQUESTS_MAX: usize = 64;
/// How many sessions clients before 2026-07-28 may have with one credential.
const SESSIONS_MAX: usize = 64;
const SESSION_IDLE_MAX: Duration = Duration::from_secs(4 * 60 * 60);
/// A request must have arrived whole, and its answer must have begun, within this: a slow sender is cut off.
const RESPONSE_MAX: Duration = Duration::from_secs(60);
/// How often the server looks whether keys were revoked or have expired.
const LOOK_AT_KEYS: Duration = Duration::from_millis(500);
/// A key that was silent for a while may make the requests of so many seconds at once.
const BURST_SECONDS: NonZeroU32 = NonZeroU32::new(2).expect("not zero");
/// What a client waits before it tries again when it has too many requests under way.
const RETRY_AFTER_SECONDS: u16 = 1;

/// How callers prove who they are.
pub enum Authentication {
    /// Everybody who reaches the port is the server's own principal. Only for loopback.
    None,
    Keys(Keys),
}

pub struct HttpOptions {
    pub authentication: Authentication,
    /// Further names under which the server is addressed, as `host` or `host:port`: those of a proxy before it.
    pub allowed_hosts: Vec<String>,
    /// Pages that may address the server, as `https://host`. None are allowed by default.
    pub allowed_origins: Vec<String>,
    /// How many requests each key may make in a second, on average; twice as many at once.
    pub requests_per_second: NonZeroU32,
    /// Where clients reach the server if that is not its own address; the addresses of result sets begin with it.
    pub public_url: Option<String>,
}

/// A bound port, so that its number is known before anything is served.
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

/// Serves until `stop`, then finishes the requests that are under way.
pub async fn serve_http(
    engine: Arc<Engine>,
    options: Options,
    http: HttpOptions,
    listener: HttpListener,
    stop: CancellationToken,
) {
    let HttpListener { listener, address } = listener;
    let names = Arc::new(allowed_names(address, &http));
    let public_url = http.public_url.unwrap_or_else(|| format!("http://{address}"));
    let base_url = format!("{}{}", public_url.trim_end_matches('/'), rows::PATH);
    let gate = Arc::new(Gate {
        engine,
        options,
        authentication: http.authentication,
        base_url,
        requests_per_second: http.requests_per_second,
        services: Mutex::default(),
        metrics: Metrics::new(),
        stop: stop.clone(),
    });
    let guarded = Router::new()
        .route("/mcp", any(mcp_request))
        .route("/metrics", get(metrics_page))
        .nest_service(rows::PATH, any(rows_request).with_state(gate.clone()))
        .layer(axum::middleware::from_fn_with_state(names, guard::check))
        .layer(axum::middleware::from_fn_with_state(gate.clone(), counted));
    let app = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .merge(guarded)
        .with_state(gate.clone());
    let watched = tokio::spawn(end_revoked(gate));
    listener::serve(listener, app, CONNECTIONS, stop).await;
    watched.abort();
}

/// On loopback the server has two names of its own, and pages that it serves itself may address it.
fn allowed_names(address: SocketAddr, http: &HttpOptions) -> AllowedNames {
    let (mut hosts, mut origins) = (http.allowed_hosts.clone(), http.allowed_origins.clone());
    if address.ip().is_loopback() {
        let own = [address.to_string(), format!("localhost:{}", address.port())];
        origins.extend(own.iter().map(|host| format!("http://{host}")));
        hosts.extend(own);
    }
    AllowedNames { hosts, origins }
}

/// Decides who calls, and has a service for everybody who may.
struct Gate {
    engine: Arc<Engine>,
    options: Options,
    authentication: Authentication,
    /// What the addresses of result sets begin with.
    base_url: String,
    requests_per_second: NonZeroU32,
    metrics: Metrics,
    /// By the principal's subject.
    services: Mutex<HashMap<String, Arc<PrincipalService>>>,
    stop: CancellationToken,
}

struct PrincipalService {
    /// None where there is no authentication.
    key: Option<Key>,
    mcp: StreamableHttpService<mcp::Server, Sessions>,
    rows: Option<Router>,
    usage: Arc<Usage>,
    /// Places for the requests that are under way.
    room: Arc<Semaphore>,
    /// How many requests may begin; none where there is no authentication, since nobody can be told from anybody there.
    rate: Option<DefaultDirectRateLimiter>,
    /// Cancelled when the key no longer holds: every session and stream of the service ends.
    ended: CancellationToken,
}

impl PrincipalService {
    /// A place for one more request of this credential.
    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Some(rate) = &self.rate {
            rate.check().map_err(|_| Refusal::TooManyRequests)?;
        }
        self.room.clone().try_acquire_owned().map_err(|_| Refusal::TooManyRequests)
    }
}

impl Gate {
    /// The service of whoever sent a request with these headers.
    async fn service(self: &Arc<Self>, headers: &HeaderMap) -> Result<Arc<PrincipalService>, Refusal> {
        let key = match &self.authentication {
            Authentication::None => None,
            Authentication::Keys(keys) => Some(self.key(keys, headers)?),
        };
        let subject = key
            .as_ref()
            .map_or_else(|| self.options.principal.subject.clone(), |key| key.principal().subject);
        if let Some(service) = self.services().get(&subject) {
            return Ok(service.clone());
        }
        // Making one opens files.
        let gate = self.clone();
        let made = tokio::task::spawn_blocking(move || Arc::new(gate.make_service(key))).await;
        let made = made.map_err(|_| Refusal::Failed)?;
        // Another request of the same credential may have been faster.
        Ok(self.services().entry(subject).or_insert(made).clone())
    }

    fn key(&self, keys: &Keys, headers: &HeaderMap) -> Result<Key, Refusal> {
        let shown = headers.get(header::AUTHORIZATION).ok_or(Refusal::NoKey)?;
        let shown = shown.to_str().ok().and_then(|value| value.split_once(' ')).ok_or(Refusal::BadKey)?;
        if !shown.0.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::BadKey);
        }
        let found = keys.find(shown.1.trim(), self.engine.now()).map_err(|error| {
            tracing::error!("keys can't be read: {error}");
            Refusal::KeysUnreadable
        })?;
        found.ok_or(Refusal::BadKey)
    }

    fn make_service(&self, key: Option<Key>) -> PrincipalService {
        let mut options = self.options.clone();
        if let Some(key) = &key {
            options.actor = Some(key.name.clone());
            options.principal = Arc::new(key.principal());
        }
        options.project = remote_project(&options.project, key.as_ref());
        let ended = self.stop.child_token();
        let rows_url = Some(self.base_url.clone());
        let server = mcp::Server::new(self.engine.clone(), options, rows_url, ended.clone());
        let (rows, usage) = (server.sets.router(), server.usage.clone());
        // Host and Origin were checked before, for every path.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_cancellation_token(ended.clone());
        let mcp = StreamableHttpService::new(move || Ok(server.sibling()), Arc::new(Sessions::new()), config);
        let burst = self.requests_per_second.saturating_mul(BURST_SECONDS);
        let quota = Quota::per_second(self.requests_per_second).allow_burst(burst);
        let rate = key.as_ref().map(|_| RateLimiter::direct(quota));
        let room = Arc::new(Semaphore::new(REQUESTS_MAX));
        PrincipalService { key, mcp, rows, usage, room, rate, ended }
    }

    fn services(&self) -> MutexGuard<'_, HashMap<String, Arc<PrincipalService>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of a remote client are not on this machine, so neither its roots nor the server's own directory say in which
/// scope a call works: the credential or the server's settings do.
fn remote_project(project: &ProjectSettings, key: Option<&Key>) -> ProjectSettings {
    let named = match key {
        Some(key) => Some((key.scope.clone(), NamedBy::Credential)),
        None => project.named.clone(),
    };
    let everyones = || (ScopeName::global_default().to_string(), NamedBy::Server);
    ProjectSettings {
        named: Some(named.unwrap_or_else(everyones)),
        given: None,
        working_dir: None,
        home: None,
        fallback: project.fallback.clone(),
    }
}

async fn mcp_request(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let service = gate.service(request.headers()).await?;
    let place = service.place()?;
    let answer = tokio::time::timeout(RESPONSE_MAX, service.mcp.handle(request)).await;
    let response = answer.map_err(|_| Refusal::TooSlow)?;
    Ok(response.map(|body| Body::new(HeldBody { body: Body::new(body), _place: place })))
}

async fn rows_request(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let service = gate.service(request.headers()).await?;
    let place = service.place()?;
    let Some(rows) = service.rows.clone() else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    let answer = tokio::time::timeout(RESPONSE_MAX, rows.oneshot(request)).await;
    let Ok(response) = answer.map_err(|_| Refusal::TooSlow)?;
    Ok(response.map(|body| Body::new(HeldBody { body, _place: place })))
}

/// For the owner alone: what is called how often says something about everybody's work.
async fn metrics_page(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Refusal> {
    let service = gate.service(request.headers()).await?;
    if service.key.as_ref().is_some_and(|key| key.rights().is_some()) {
        return Ok((StatusCode::FORBIDDEN, "metrics are for the owner's keys").into_response());
    }
    let open: Vec<_> = gate.services().values().map(|service| service.usage.counted()).collect();
    let content_type = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((content_type, gate.metrics.page(&open)).into_response())
}

async fn counted(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    // Only paths of the server itself are labels, since anybody can ask for any other.
    let paths = ["/mcp", "/metrics", rows::PATH];
    let path = paths.into_iter().find(|path| request.uri().path().starts_with(path)).unwrap_or("other");
    let since = Instant::now();
    let response = next.run(request).await;
    gate.metrics.count(path, response.status().as_u16(), since.elapsed());
    response
}

/// Whether calls can be answered: the store can be read.
async fn ready(State(gate): State<Arc<Gate>>) -> Response {
    let engine = gate.engine.clone();
    match tokio::task::spawn_blocking(move || engine.head()).await {
        Ok(Ok(_)) => "ready".into_response(),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store can't be read").into_response(),
    }
}

/// Why a request is not served.
enum Refusal {
    NoKey,
    /// Unknown, revoked, expired or malformed, which all look the same.
    BadKey,
    KeysUnreadable,
    TooManyRequests,
    /// The request did not arrive, or was not answered, in time.
    TooSlow,
    Failed,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let unauthenticated = |challenge| {
            let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))];
            (StatusCode::UNAUTHORIZED, challenge, "a key is needed: Authorization: Bearer KEY")
                .into_response()
        };
        match self {
            Refusal::NoKey => unauthenticated("Bearer"),
            Refusal::BadKey => unauthenticated("Bearer error=\"invalid_token\""),
            Refusal::KeysUnreadable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Refusal::TooManyRequests => {
                let later = [(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))];
                let text = "this key makes too many requests, or has too many under way; wait a moment";
                (StatusCode::TOO_MANY_REQUESTS, later, error_body(Code::RateLimited, text)).into_response()
            }
            Refusal::TooSlow => StatusCode::REQUEST_TIMEOUT.into_response(),
            Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// The error as a tool would reply it.
fn error_body(code: Code, text: &str) -> String {
    Stop::new(code, text).reply_of(Family::Memory, Format::default()).structured.to_string()
}

/// Ends the services of keys that no longer hold.
async fn end_revoked(gate: Arc<Gate>) {
    let Authentication::Keys(keys) = &gate.authentication else { return };
    loop {
        tokio::time::sleep(LOOK_AT_KEYS).await;
        let now = gate.engine.now();
        // Keys that can't be read let nobody in who is not in, and nobody is thrown out for it.
        let Ok(live) = keys.list() else { continue };
        gate.services().retain(|_, service| {
            let holds = service.key.as_ref().is_none_or(|key| live.contains(key) && key.is_live(now));
            if !holds {
                service.ended.cancel();
                gate.metrics.retire(&service.usage.counted());
            }
            holds
        });
    }
}

/// A body that keeps its request's place until it was sent.
struct HeldBody {
    body: Body,
    _place: OwnedSemaphorePermit,
}

impl http_body::Body for HeldBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
