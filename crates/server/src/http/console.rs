//! Sessions of browsers in the console. `kenning ui` prints an address with a token and lets in one browser
//! that shows it. `serve --http` lets in a browser that shows a key, or on loopback without keys every
//! browser that reaches the port. After that a cookie identifies the browser. The cookie only stands for the
//! credential that was shown: for every request the principal is determined by the same code as for all other
//! requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use kenning_console::{BASE, Installation, KeyLine, Visitor, sign_in_page};
use kenning_engine::Engine;
use kenning_tools::Caller;
use kenning_tools::project::ScopeFinder;
use tokio_util::sync::CancellationToken;

use super::body::{self, HeldBody};
use super::caller::{Gate, PrincipalService};
use super::keys::Keys;
use super::refusal::Refusal;
use super::{CONNECTIONS_MAX, HttpListener, allowed_names, guard, peer, seconds};
use crate::Options;
use crate::edge::Peer;
use crate::http::limits::Held;
use crate::listener::{self, ConnectionLimits, Served};

/// The most browser sessions; beyond it the one that was silent longest has to sign in again.
const SESSIONS_MAX: usize = 1_000;
/// A browser that was silent for this long has to sign in again.
const IDLE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
const COOKIE: &str = "kenning-console";
/// The limits of the connections to the listener of `kenning ui`.
const UI_LIMITS: ConnectionLimits = ConnectionLimits {
    connections_max: CONNECTIONS_MAX,
    header_max: Duration::from_secs(30),
    stalled_max: Duration::from_secs(60),
    // A page that waits for news keeps its connection open.
    connection_max: None,
};
/// The name in the log for writes by a caller without a name.
const ACTOR: &str = "console";

/// A random text that nobody can guess.
pub(super) fn secret() -> String {
    data_encoding::HEXLOWER.encode(&rand::random::<[u8; 32]>())
}

/// The session of a browser that was let in, or that is about to show a key.
#[derive(Clone)]
struct Session {
    /// The credential that the browser has shown: `None` if none is required, or none was shown yet.
    credential: Option<String>,
    form_token: String,
    used_at: Instant,
}

/// The sessions of browsers, by the value of their cookies.
struct Sessions {
    cookie: String,
    /// Whether the cookie is for encrypted connections only.
    is_secure: bool,
    open: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    fn new(cookie: String, is_secure: bool) -> Sessions {
        Sessions { cookie, is_secure, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session, and the header value that sets its cookie.
    fn begin(&self, credential: Option<String>) -> (Session, HeaderValue) {
        let (id, now) = (secret(), Instant::now());
        let session = Session { credential, form_token: secret(), used_at: now };
        let mut open = self.open();
        open.retain(|_, session| now.duration_since(session.used_at) < IDLE_MAX);
        if open.len() >= SESSIONS_MAX {
            // Sessions without a credential go first, since anybody can begin one.
            let oldest =
                open.iter().min_by_key(|(_, session)| (session.credential.is_some(), session.used_at));
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                open.remove(&oldest);
            }
        }
        open.insert(id.clone(), session.clone());
        (session, self.set(&id, IDLE_MAX))
    }

    fn set(&self, id: &str, age: Duration) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!(
            "{}={id}; Path={BASE}; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
            self.cookie,
            age.as_secs()
        );
        HeaderValue::try_from(text).expect("hexadecimal digits and attributes are ASCII")
    }

    /// The session of a request, if it has one that has not expired.
    fn of(&self, headers: &HeaderMap) -> Option<(String, Session)> {
        let id = self.id_in(headers)?;
        let mut open = self.open();
        let session = open.get_mut(&id)?;
        let now = Instant::now();
        if now.duration_since(session.used_at) >= IDLE_MAX {
            open.remove(&id);
            return None;
        }
        session.used_at = now;
        let session = session.clone();
        Some((id, session))
    }

    fn id_in(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, id)| id.to_owned())
    }

    fn end(&self, id: &str) {
        self.open().remove(id);
    }
}

fn see_other(address: &str, cookie: Option<HeaderValue>) -> Response {
    let address = HeaderValue::try_from(address).expect("own addresses are ASCII");
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The value of a field of a form.
fn field(body: &[u8], name: &str) -> String {
    let found = form_urlencoded::parse(body).find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The listener of the console of `kenning ui`, and the token that lets a browser in.
pub struct Ui {
    listener: HttpListener,
    /// Opens the console once.
    token: String,
}

impl Ui {
    pub fn new(listener: HttpListener) -> Ui {
        Ui { listener, token: secret() }
    }

    /// The address for the browser. Its token can be used once.
    pub fn address(&self) -> String {
        format!("http://{}/?token={}", self.listener.address, self.token)
    }

    /// Serves until `stop`.
    pub async fn serve(
        self,
        engine: Arc<Engine>,
        options: Options,
        installation: Installation,
        stop: CancellationToken,
    ) {
        let HttpListener { listener, address } = self.listener;
        let names = Arc::new(allowed_names("http", address, &[], &[]));
        // Browsers send a cookie to every port of a machine, so the cookie of each console has a name of its
        // own.
        let sessions = Sessions::new(format!("kenning-ui-{}", address.port()), false);
        let caller = caller(&options, &engine, None);
        let ui = Arc::new(UiSessions { token: Mutex::new(Some(self.token)), sessions, caller, options });
        let pages = kenning_console::router(engine, installation)
            .layer(middleware::from_fn_with_state(ui.clone(), let_in));
        let app = Router::new()
            .route("/", get(enter))
            .with_state(ui)
            .layer(middleware::from_fn(kenning_console::protected))
            .merge(kenning_console::assets())
            .merge(pages)
            .layer(middleware::from_fn_with_state(names, guard::check));
        listener::serve(listener, Served { app, limits: Arc::new(|| UI_LIMITS), tls: None }, stop).await;
    }
}

/// The token and the sessions through which `kenning ui` lets browsers in.
struct UiSessions {
    /// `None` after it was used.
    token: Mutex<Option<String>>,
    sessions: Sessions,
    caller: Arc<Caller>,
    options: Options,
}

async fn enter(State(ui): State<Arc<UiSessions>>, request: Request) -> Response {
    let shown = field(request.uri().query().unwrap_or_default().as_bytes(), "token");
    let is_token = {
        let mut token = ui.token.lock().unwrap_or_else(PoisonError::into_inner);
        // The token has 256 random bits and can be used once, so the duration of the comparison reveals
        // nothing useful.
        let is_token = token.as_ref().is_some_and(|token| *token == shown);
        if is_token {
            *token = None;
        }
        is_token
    };
    if is_token {
        let (_, cookie) = ui.sessions.begin(None);
        return see_other(BASE, Some(cookie));
    }
    match ui.sessions.of(request.headers()) {
        Some(_) => see_other(BASE, None),
        None => not_let_in(),
    }
}

fn not_let_in() -> Response {
    let text = "This address was opened before, or is not the one that `kenning ui` has printed. Run `kenning ui` again.";
    (StatusCode::UNAUTHORIZED, text).into_response()
}

async fn let_in(State(ui): State<Arc<UiSessions>>, mut request: Request, next: Next) -> Response {
    let Some((_, session)) = ui.sessions.of(request.headers()) else { return not_let_in() };
    request.extensions_mut().insert(Visitor {
        caller: ui.caller.clone(),
        access: ui.options.access,
        form_token: session.form_token,
        can_sign_out: false,
    });
    next.run(request).await
}

/// The caller that a page makes its calls as: under the name of the credential, else the configured name.
fn caller(options: &Options, engine: &Engine, name: Option<&str>) -> Arc<Caller> {
    let name = name.or(options.actor.as_deref()).unwrap_or(ACTOR);
    let caller =
        Caller::of(&options.principal, Some(name), kenning_model::ScopeName::global_default().to_string());
    let caller = Caller { has_graph: options.has_graph, has_whole_history: true, ..caller };
    Arc::new(caller.placed(&ScopeFinder::new(options.project.clone()), engine))
}

/// The state of the console of `serve --http`.
struct ServedConsole {
    gate: Arc<Gate>,
    sessions: Sessions,
}

/// The routes of the pages, of signing in and of signing out. The caller of this function wraps them in the
/// checks of Host and Origin.
pub(super) fn routes(gate: Arc<Gate>, keys: Option<Keys>) -> Router<Arc<Gate>> {
    let installation = Installation {
        version: env!("CARGO_PKG_VERSION"),
        place: gate.engine.dir().display().to_string(),
        keys: keys.map(|keys| Arc::new(move || key_lines(&keys)) as Arc<_>),
    };
    let pages = kenning_console::router(gate.engine.clone(), installation);
    let sessions = Sessions::new(COOKIE.to_owned(), gate.resource.starts_with("https://"));
    let console = Arc::new(ServedConsole { gate, sessions });
    let pages = pages.layer(middleware::from_fn_with_state(console.clone(), receive));
    let ways = Router::new()
        .route(&format!("{BASE}/sign-in"), get(show_sign_in).post(sign_in))
        .route(&format!("{BASE}/sign-out"), post(sign_out));
    let all: Router = ways
        .with_state(console)
        .layer(middleware::from_fn(kenning_console::protected))
        .merge(kenning_console::assets())
        .merge(pages);
    all.with_state(())
}

impl ServedConsole {
    fn needs_key(&self) -> bool {
        !self.gate.authentication.is_none()
    }
}

/// The headers of a request with the credential added as a program would send it.
fn with_credential(headers: &HeaderMap, credential: Option<&str>) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(header::AUTHORIZATION);
    if let Some(Ok(value)) =
        credential.map(|credential| HeaderValue::try_from(format!("Bearer {credential}")))
    {
        headers.insert(header::AUTHORIZATION, value);
    }
    headers
}

/// Determines who asks for a page. A visitor who has not shown a key is asked for one.
async fn receive(State(console): State<Arc<ServedConsole>>, request: Request, next: Next) -> Response {
    let known = console.sessions.of(request.headers());
    let (session, cookie) = match known {
        Some((_, session)) if !console.needs_key() || session.credential.is_some() => (session, None),
        _ if console.needs_key() => return ask_for_key(&request),
        _ => {
            let (session, cookie) = console.sessions.begin(None);
            (session, Some(cookie))
        }
    };
    let gate = &console.gate;
    let headers = with_credential(request.headers(), session.credential.as_deref());
    let caller = match gate.caller(&headers, peer(&request)).await {
        Ok(caller) => caller,
        Err(Refusal::Unavailable | Refusal::Failed | Refusal::TooManyFailures) => {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        Err(_) => return ask_for_key(&request),
    };
    let visitor = match visitor(&console, caller.service.clone(), session).await {
        Some(visitor) => visitor,
        None => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let is_live = request.uri().path().ends_with("/live");
    let answer = match is_live {
        true => live(&caller.service, request, visitor, next).await,
        false => page(gate, &caller, request, visitor, next).await,
    };
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Answers within the limits of the caller, like every other request of that caller. A request that writes
/// also counts as a write and is recorded in the audit log.
async fn page(
    gate: &Arc<Gate>,
    caller: &super::caller::Caller,
    request: Request,
    visitor: Visitor,
    next: Next,
) -> Result<Response, Refusal> {
    let service = &caller.service;
    let place = service.meter.request()?;
    let limits = gate.limits.get();
    let call = gate.calls.token();
    let writes = request.method() == Method::POST;
    if writes {
        service.meter.write()?;
        if gate.audit.as_ref().is_some_and(|audit| !audit.is_writable()) {
            return Err(Refusal::Unavailable);
        }
    }
    let what = format!("{} {}", request.method(), request.uri().path());
    let mut request = body::received(request, &service.meter, &limits).await?.map(Body::new);
    request.extensions_mut().insert(visitor);
    let answer = tokio::time::timeout(seconds(limits.answer_seconds), next.run(request)).await;
    let response = answer.map_err(|_| Refusal::TooSlow)?;
    if writes {
        let status = response.status();
        let is_done = status.is_success() || status.is_redirection();
        let outcome = if is_done { "ok".to_owned() } else { status.as_str().to_owned() };
        service.edge.record(service.by(caller.from), &what, outcome);
    }
    let until = caller.expires_in;
    Ok(response.map(|body| HeldBody::boxed(body, (place, Some(call)), until)))
}

/// Answers a page that waits for news. It takes one of the caller's subscriptions, and ends with the
/// credential.
async fn live(
    service: &Arc<PrincipalService>,
    mut request: Request,
    visitor: Visitor,
    next: Next,
) -> Result<Response, Refusal> {
    let Ok(place) = service.edge.subscription() else {
        return Ok(StatusCode::TOO_MANY_REQUESTS.into_response());
    };
    request.extensions_mut().insert(visitor);
    let ended = Box::pin(service.subscriptions_end.clone().cancelled_owned());
    let response = next.run(request).await;
    Ok(response.map(|body| Body::new(UntilEnded { body, ended, _place: place })))
}

async fn visitor(
    console: &ServedConsole,
    service: Arc<PrincipalService>,
    session: Session,
) -> Option<Visitor> {
    let gate = console.gate.clone();
    let (access, can_sign_out) = (gate.options.access, console.needs_key());
    // The scope is looked up in the store, so this runs on a thread that may block.
    let found = tokio::task::spawn_blocking(move || {
        let mut options = gate.options.clone();
        options.project = service.project.clone();
        options.principal = service.principal.clone();
        let name = Some(service.principal.actor.as_str()).filter(|name| !name.is_empty());
        caller(&options, &gate.engine, name)
    });
    let caller = found.await.ok()?;
    Some(Visitor { caller, access, form_token: session.form_token, can_sign_out })
}

/// Leads a request for a page to the sign-in form. A form or a script is refused instead, since nobody would
/// see the form in the answer.
fn ask_for_key(request: &Request) -> Response {
    let is_page = request.method() == Method::GET && !request.uri().path().ends_with("/live");
    match is_page {
        true => see_other(&format!("{BASE}/sign-in"), None),
        false => (StatusCode::UNAUTHORIZED, "sign in first").into_response(),
    }
}

async fn show_sign_in(State(console): State<Arc<ServedConsole>>, request: Request) -> Response {
    if !console.needs_key() {
        return see_other(BASE, None);
    }
    match console.sessions.of(request.headers()) {
        Some((_, session)) => Html(sign_in_page(&session.form_token, None)).into_response(),
        None => {
            let (session, cookie) = console.sessions.begin(None);
            ([(header::SET_COOKIE, cookie)], Html(sign_in_page(&session.form_token, None))).into_response()
        }
    }
}

async fn sign_in(
    State(console): State<Arc<ServedConsole>>,
    from: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let known =
        console.sessions.of(&headers).filter(|(_, session)| session.form_token == field(&body, "token"));
    let Some((id, session)) = known else {
        let text = "This form is too old. Open the page again.";
        let (session, cookie) = console.sessions.begin(None);
        let page = Html(sign_in_page(&session.form_token, Some(text)));
        return (StatusCode::FORBIDDEN, [(header::SET_COOKIE, cookie)], page).into_response();
    };
    let shown = field(&body, "key").trim().to_owned();
    match console
        .gate
        .caller(&with_credential(&headers, Some(&shown)), from.map(|Extension(from)| from))
        .await
    {
        Ok(_) => {
            // Signing in gets a new session id, so somebody who knew the cookie before the key was shown
            // can't use it (session fixation).
            console.sessions.end(&id);
            let (_, cookie) = console.sessions.begin(Some(shown));
            see_other(BASE, Some(cookie))
        }
        Err(_) => {
            let page = sign_in_page(&session.form_token, Some("This key does not hold."));
            (StatusCode::UNAUTHORIZED, Html(page)).into_response()
        }
    }
}

async fn sign_out(State(console): State<Arc<ServedConsole>>, headers: HeaderMap, body: Bytes) -> Response {
    let known =
        console.sessions.of(&headers).filter(|(_, session)| session.form_token == field(&body, "token"));
    if let Some((id, _)) = known {
        console.sessions.end(&id);
    }
    see_other(&format!("{BASE}/sign-in"), Some(console.sessions.set("", Duration::ZERO)))
}

/// A stream that ends when its credential is revoked or expires.
struct UntilEnded {
    body: Body,
    ended: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: Option<Held>,
}

impl http_body::Body for UntilEnded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(None);
        }
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }
}

fn key_lines(keys: &Keys) -> Vec<KeyLine> {
    // The list stays empty if the file can't be read; the check of a key reports that error.
    let keys = keys.list().unwrap_or_default();
    let line = |key: super::keys::Key| KeyLine {
        rights: match key.rights() {
            None => "everything".to_owned(),
            Some(rights) => rights
                .iter()
                .map(|(id, right)| format!("{id}: {}", right.as_str()))
                .collect::<Vec<_>>()
                .join(", "),
        },
        id: key.id,
        name: key.name,
        expires_at: key.expires_at,
    };
    keys.into_iter().map(line).collect()
}
