//! `serve --connect`: a server on standard streams for hosts that can only start commands. It sends every
//! message of its client to a remote server over HTTP, and every message of the remote server to the client.
//!
//! Calls that a client sends without waiting take effect in the order in which they came: a write starts when
//! every earlier request has its answer, and every later request waits for the write's answer.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use kenning_engine::CallKind;
use kenning_presentation::Format;
use kenning_tools::{Code, Definition, IDEMPOTENCY_KEY, Stop, asked_format, find};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use crate::views;

/// A longer line is refused, as the remote server would refuse it.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest message that is accepted from the server; no Kenning server sends a longer one.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Fewer than the remote server allows one credential to have under way.
const UNDER_WAY_MAX: usize = 32;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longer than any silence of a working server: servers send a comment on a quiet stream every 15 seconds,
/// and answer a call within a minute.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How long a request waits for a server that was reached before and can't be reached now: it may be
/// restarting.
const AWAY_MAX: Duration = Duration::from_secs(8);
/// The same wait for a server that was never reached. It is short, so that a wrong address is reported soon.
const NEVER_THERE_MAX: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest wait that a server may ask for before a request is tried again.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// How long requests may still take after the input has ended.
const GRACE: Duration = Duration::from_secs(5);

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
const LISTEN: &str = "subscriptions/listen";

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INTERNAL_ERROR: i64 = -32603;

/// The server that is connected to, and the credential that it is shown.
#[derive(Clone)]
pub struct Remote {
    pub url: String,
    pub token: RemoteToken,
    /// Whether the token may be sent over unencrypted HTTP, because the network between is trusted.
    pub allows_plain_http: bool,
}

#[derive(Clone)]
pub enum RemoteToken {
    None,
    Text(String),
    /// A file that is read again for each request, so that a new token can be put into it.
    File(PathBuf),
}

impl Remote {
    /// A client for the server, and the address of its `/mcp`.
    pub(crate) fn client(&self) -> Result<(Client, Url), ConnectError> {
        let wrong = || ConnectError::Address { url: self.url.clone() };
        let mut url = Url::parse(&self.url).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        if url.path() == "/" {
            url.set_path("/mcp");
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let has_token = !matches!(self.token, RemoteToken::None);
        if url.scheme() == "http" && !is_here && has_token && !self.allows_plain_http {
            return Err(ConnectError::Unencrypted { url: self.url.clone() });
        }
        // A token is for the server that it was given for, wherever that one would like to send it.
        let mut http = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .tcp_nodelay(true);
        if is_here {
            http = http.no_proxy();
        }
        Ok((http.build()?, url))
    }
}

impl RemoteToken {
    /// The header that shows the token to a server, or why there is none.
    pub(crate) fn headers(&self) -> Result<HeaderMap, String> {
        let token = match self {
            RemoteToken::None => None,
            RemoteToken::Text(token) => Some(token.clone()),
            RemoteToken::File(path) => Some(
                std::fs::read_to_string(path)
                    .map_err(|error| format!("the token can't be read from {}: {error}", path.display()))?,
            ),
        };
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut value = value.map_err(|_| "the token has signs that no token has".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("`{url}` is no address of a server; write it as https://kenning.example/mcp")]
    Address { url: String },
    #[error(
        "the token would cross the network unencrypted to {url}: use https, or say with `--plain-http` that the network is trusted"
    )]
    Unencrypted { url: String },
    #[error("the HTTP client can't be made: {0}")]
    Client(#[from] reqwest::Error),
}

/// Serves one client on any pair of streams, until its input ends.
pub async fn connect(
    remote: Remote,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ConnectError> {
    let bridge = Arc::new(Bridge::new(remote, Box::new(output))?);
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let order = Arc::new(RwLock::new(()));
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut tasks = JoinSet::new();
    while let Some(line) = next_line(&mut input).await {
        let message = match parse(&line) {
            Ok(message) => message,
            Err((id, code, message)) => {
                bridge.error(&id, code, message).await;
                continue;
            }
        };
        let Some(method) = message["method"].as_str() else {
            // The message is an answer to a request of the server, which often comes from a call that holds
            // its place in the order. So the answer must not wait for that call.
            let bridge = bridge.clone();
            tasks.spawn(async move { bridge.pass_on(&message).await });
            continue;
        };
        if method == "notifications/cancelled" && bridge.cancel(&message["params"]["requestId"]) {
            continue;
        }
        let Ok(place) = room.clone().acquire_owned().await else { break };
        let mut turn = Box::pin(Turn::take(order.clone(), Turn::is_alone(&message)));
        // The future is polled here once, because the lock gives places in the order of the first poll.
        let at_once = (&mut turn).now_or_never();
        let id = message.get("id").cloned();
        let (working, key) = (bridge.clone(), id.as_ref().map(Value::to_string));
        let (done, lasts) = (key.clone(), method == LISTEN);
        let writes = tool_of(&message).is_some_and(|tool| tool.effect.writes());
        let task = tasks.spawn(async move {
            let turn = match at_once {
                Some(turn) => turn,
                None => turn.await,
            };
            // A subscription lasts, so it must not keep a place that calls need.
            let place = (!lasts).then_some(place);
            working.serve(message, turn).await;
            drop(place);
            if let Some(key) = done {
                working.under_way().remove(&key);
            }
        });
        if let Some(key) = key {
            let mut under_way = bridge.under_way();
            under_way.retain(|_, running| !running.task.is_finished());
            under_way.insert(key, Running { task, lasts, writes });
        }
        while tasks.try_join_next().is_some() {}
    }
    bridge.end_streams();
    let rest = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, rest).await;
    bridge.end_session().await;
    Ok(())
}

/// The next line without its end, or `None` at the end of the input. A line that is too long is cut, so it
/// fails to parse as JSON.
async fn next_line<R: AsyncRead + Unpin>(input: &mut BufReader<R>) -> Option<Vec<u8>> {
    loop {
        let mut line = Vec::new();
        let read = (&mut *input).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await.ok()?;
        if read == 0 {
            return None;
        }
        let is_cut = line.last() != Some(&b'\n') && read == LINE_BYTES_MAX;
        if is_cut {
            // The rest of the line is read and dropped.
            loop {
                let mut rest = Vec::new();
                let more =
                    (&mut *input).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut rest).await.ok()?;
                if more == 0 || rest.last() == Some(&b'\n') {
                    break;
                }
            }
        }
        if is_cut || !line.trim_ascii().is_empty() {
            return Some(line);
        }
    }
}

fn parse(line: &[u8]) -> Result<Value, (Value, i64, &'static str)> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return Err((Value::Null, PARSE_ERROR, "the line is not JSON, or longer than 4 MiB"));
    };
    match message.is_object() {
        true => Ok(message),
        false => Err((Value::Null, INVALID_REQUEST, "a message is one JSON object on a line")),
    }
}

/// The place of a message in the order: reads run beside other reads; a write or a handshake runs alone.
enum Turn {
    Shared { _place: OwnedRwLockReadGuard<()> },
    Alone { _place: OwnedRwLockWriteGuard<()> },
}

impl Turn {
    fn is_alone(message: &Value) -> bool {
        let method = message["method"].as_str().unwrap_or_default();
        let is_write = tool_of(message).is_some_and(|tool| tool.call_kind() != CallKind::Read);
        is_write || matches!(method, "initialize" | "notifications/initialized")
    }

    async fn take(order: Arc<RwLock<()>>, is_alone: bool) -> Turn {
        match is_alone {
            true => Turn::Alone { _place: order.write_owned().await },
            false => Turn::Shared { _place: order.read_owned().await },
        }
    }
}

/// The tool that a message calls, if this program knows the tool.
fn tool_of(message: &Value) -> Option<&'static Definition> {
    let name = message["params"]["name"].as_str().filter(|_| message["method"] == "tools/call")?;
    find(views::tool_named(name))
}

/// The reasons why the server gave no answer to a request.
enum Failure {
    /// The request did not reach a server, so nothing was done.
    Away(String),
    /// The request may have been carried out, and its answer is lost.
    Lost(String),
    /// The server does not let this client in.
    Refused(String),
    Limited,
    /// The server does not answer as a Kenning server does.
    UnexpectedAnswer(String),
}

impl Failure {
    fn code(&self) -> Code {
        match self {
            Failure::Away(_) | Failure::Lost(_) => Code::BackendUnavailable,
            Failure::Refused(_) => Code::Unauthenticated,
            Failure::Limited => Code::RateLimited,
            Failure::UnexpectedAnswer(_) => Code::InternalError,
        }
    }
}

struct Bridge {
    http: Client,
    remote: Remote,
    url: Url,
    output: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    state: Mutex<State>,
    was_there: AtomicBool,
    /// Allows one renewal of the session at a time.
    renewing: tokio::sync::Mutex<()>,
    /// The requests under way, by the id of the request as JSON text.
    under_way: Mutex<HashMap<String, Running>>,
}

struct Running {
    task: AbortHandle,
    /// The request is a subscription.
    lasts: bool,
    writes: bool,
}

/// The handshake and the subscriptions of a client of a revision before 2026-07-28. They are repeated to a
/// server that was restarted.
#[derive(Default)]
struct State {
    session: Option<Session>,
    /// The parameters of the client's `initialize`.
    hello: Option<Value>,
    subscribed: BTreeSet<String>,
    /// The task that reads the stream of messages that the server sends without a request.
    stream: Option<AbortHandle>,
}

#[derive(Clone, PartialEq)]
struct Session {
    id: String,
    version: String,
}

impl Bridge {
    fn new(remote: Remote, output: Box<dyn AsyncWrite + Send + Unpin>) -> Result<Bridge, ConnectError> {
        let (http, url) = remote.client()?;
        Ok(Bridge {
            http,
            remote,
            url,
            output: tokio::sync::Mutex::new(output),
            state: Mutex::default(),
            was_there: AtomicBool::new(false),
            renewing: tokio::sync::Mutex::default(),
            under_way: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out one request or notification of the client, and answers it.
    async fn serve(self: &Arc<Self>, mut message: Value, turn: Turn) {
        if message.get("id").is_none() {
            self.pass_on(&message).await;
            if message["method"] == "notifications/initialized" {
                self.listen_unasked();
            }
            return;
        }
        // With an idempotency key a write can be sent again when its answer is lost, and is still carried out
        // once.
        if tool_of(&message).is_some_and(|tool| tool.effect.writes()) {
            let arguments = &mut message["params"]["arguments"];
            if arguments.is_null() {
                *arguments = json!({});
            }
            if let Some(arguments) = arguments.as_object_mut() {
                let own = format!("connect-{:032x}", rand::random::<u128>());
                arguments.entry(IDEMPOTENCY_KEY).or_insert_with(|| json!(own));
            }
        }
        if message["method"] == LISTEN {
            return self.listen(message, turn).await;
        }
        let done = self.exchange(&message).await;
        if let Err(failure) = done {
            self.fail(&message, failure).await;
        }
        drop(turn);
    }

    /// Sends a request and passes on every message of the response, up to the result.
    async fn exchange(&self, message: &Value) -> Result<(), Failure> {
        let mut is_again = false;
        loop {
            let session = self.session_for(message);
            let response = self.post(message, session.as_ref()).await?;
            if response.status() == StatusCode::NOT_FOUND
                && let Some(session) = session.filter(|_| !is_again)
            {
                // The server was restarted, or has ended the session.
                self.renew(&session).await?;
                is_again = true;
                continue;
            }
            if message["method"] == "initialize" {
                self.note_session(message, &response);
            }
            match self.pass_answer(message, response).await {
                Err(Failure::Lost(_)) if !is_again && is_repeatable(message) => is_again = true,
                done => return done,
            }
        }
    }

    fn session_for(&self, message: &Value) -> Option<Session> {
        let is_modern = message["params"]["_meta"][VERSION_KEY].is_string();
        if is_modern || message["method"] == "initialize" { None } else { self.state().session.clone() }
    }

    /// Keeps the session that the server has opened for this `initialize`. Its protocol version is known
    /// after the answer was read.
    fn note_session(&self, message: &Value, response: &Response) {
        let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        let mut state = self.state();
        state.session = id.map(|id| Session { id: id.to_owned(), version: String::new() });
        state.hello = Some(message["params"].clone());
        state.subscribed.clear();
    }

    /// Opens a new session for the client: repeats its `initialize` and its resource subscriptions.
    async fn renew(&self, old: &Session) -> Result<(), Failure> {
        let _one = self.renewing.lock().await;
        let (current, hello) = {
            let state = self.state();
            (state.session.clone(), state.hello.clone())
        };
        let Some(hello) = hello.filter(|_| current.as_ref() == Some(old)) else { return Ok(()) };
        let hello = json!({"jsonrpc": "2.0", "id": "connect", "method": "initialize", "params": hello});
        let response = self.post(&hello, None).await?;
        let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let Some(id) = id else { return Err(unexpected_answer(&response)) };
        let mut messages = Messages::of(response);
        let mut version = old.version.clone();
        while let Some(message) = messages.next().await? {
            if let Some(negotiated) = message["result"]["protocolVersion"].as_str() {
                version = negotiated.to_owned();
            }
        }
        let session = Session { id, version };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&ready, Some(&session)).await?;
        let subscribed = {
            let mut state = self.state();
            state.session = Some(session.clone());
            state.subscribed.clone()
        };
        for uri in subscribed {
            let again = json!({"jsonrpc": "2.0", "id": format!("connect {uri}"), "method": "resources/subscribe", "params": {"uri": uri}});
            let mut messages = Messages::of(self.post(&again, Some(&session)).await?);
            while messages.next().await?.is_some() {}
            // The changes since the session was lost were reported to nobody, so the client is told to read
            // the resource again.
            let look = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            self.write(&look).await;
        }
        Ok(())
    }

    /// Passes on a message that gets no answer.
    async fn pass_on(&self, message: &Value) {
        let session = self.state().session.clone();
        // Since 2026-07-28 no notification of a client is meant for the server; cancellation is handled in
        // this process.
        let Some(session) = session else { return };
        if let Err(failure) = self.post(message, Some(&session)).await {
            tracing::warn!("a notification was not passed on: {}", self.text_of(&failure));
        }
    }

    /// Passes on the messages that the server sends in answer to a request.
    async fn pass_answer(&self, request: &Value, response: Response) -> Result<(), Failure> {
        let (id, method) = (&request["id"], &request["method"]);
        let status = response.status();
        let mut messages = Messages::of(response);
        let mut is_answered = false;
        while let Some(mut message) = messages.next().await? {
            if message["jsonrpc"] != "2.0" {
                break;
            }
            let is_answer = message.get("method").is_none();
            if is_answer {
                if message["id"].is_null() {
                    message["id"] = id.clone();
                }
                is_answered |= message["id"] == *id;
                if message["error"].is_null() {
                    self.note_answer(method, request, &message["result"]);
                }
            }
            self.write(&message).await;
        }
        match (is_answered, status.is_success()) {
            (true, _) => Ok(()),
            (false, true) => Err(Failure::Lost("the connection ended before the answer".to_owned())),
            (false, false) => Err(Failure::UnexpectedAnswer(format!("it answers with status {status}"))),
        }
    }

    fn note_answer(&self, method: &Value, request: &Value, result: &Value) {
        let mut state = self.state();
        match method.as_str() {
            Some("initialize") => {
                if let (Some(session), Some(version)) =
                    (&mut state.session, result["protocolVersion"].as_str())
                {
                    session.version = version.to_owned();
                }
            }
            Some("resources/subscribe") => {
                state.subscribed.extend(request["params"]["uri"].as_str().map(str::to_owned));
            }
            Some("resources/unsubscribe") => {
                state.subscribed.remove(request["params"]["uri"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Runs a subscription of 2026-07-28. It is renewed when its stream breaks, until the client cancels it.
    async fn listen(&self, message: Value, turn: Turn) {
        let mut turn = Some(turn);
        let (mut pause, mut is_renewed) = (FIRST_PAUSE, false);
        loop {
            match self.post(&message, None).await {
                Ok(response) if response.status().is_success() => {
                    // Later calls need not wait for the end of a subscription.
                    drop(turn.take());
                    pause = FIRST_PAUSE;
                    match self.pass_notices(&message, response, is_renewed).await {
                        NoticeStreamEnd::Answer => return,
                        NoticeStreamEnd::Acknowledged => is_renewed = true,
                        NoticeStreamEnd::Nothing => {}
                    }
                }
                Ok(response) => {
                    if let Err(failure) = self.pass_answer(&message, response).await {
                        self.fail(&message, failure).await;
                    }
                    return;
                }
                Err(Failure::Away(_) | Failure::Lost(_) | Failure::Limited) if is_renewed => {}
                Err(failure) => return self.fail(&message, failure).await,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn pass_notices(&self, request: &Value, response: Response, is_renewed: bool) -> NoticeStreamEnd {
        let mut end = NoticeStreamEnd::Nothing;
        let mut messages = Messages::of(response);
        while let Ok(Some(message)) = messages.next().await {
            let is_answer = message.get("method").is_none();
            // A server that stops ends its subscriptions with a result. That result is not passed on, since
            // the subscription is renewed at the next server.
            if is_answer && message["error"].is_null() {
                break;
            }
            let is_acknowledged = message["method"] == "notifications/subscriptions/acknowledged";
            if is_acknowledged && is_renewed {
                self.resynchronize(request, &message).await;
            } else {
                self.write(&message).await;
            }
            if is_answer {
                return NoticeStreamEnd::Answer;
            }
            if is_acknowledged || is_renewed {
                end = NoticeStreamEnd::Acknowledged;
            }
        }
        if is_renewed { NoticeStreamEnd::Acknowledged } else { end }
    }

    /// Tells the client to read every subscribed resource again, since changes made while the stream was
    /// broken were reported to nobody.
    async fn resynchronize(&self, request: &Value, acknowledged: &Value) {
        let meta = json!({SUBSCRIPTION_KEY: request["id"]});
        let accepted = &acknowledged["params"]["notifications"];
        for uri in accepted["resourceSubscriptions"].as_array().into_iter().flatten() {
            let params = json!({"uri": uri, "_meta": meta});
            let method = "notifications/resources/updated";
            self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        }
        if accepted["toolsListChanged"] == true {
            let method = "notifications/tools/list_changed";
            self.write(&json!({"jsonrpc": "2.0", "method": method, "params": {"_meta": meta}})).await;
        }
    }

    /// Opens the stream of messages that the server sends without a request, and opens it again when it
    /// breaks.
    fn listen_unasked(self: &Arc<Self>) {
        let bridge = self.clone();
        let task = tokio::spawn(async move {
            let (mut pause, mut last) = (FIRST_PAUSE, None);
            loop {
                let Some(session) = bridge.state().session.clone() else { return };
                match bridge.get(&session, last.as_deref()).await {
                    Ok(response) if response.status().is_success() => {
                        let mut messages = Messages::of(response);
                        while let Ok(Some(message)) = messages.next().await {
                            pause = FIRST_PAUSE;
                            bridge.write(&message).await;
                            last = messages.last_event.clone();
                        }
                    }
                    Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                        last = None;
                        // A call may renew the session first, so an error is ignored here; the next iteration
                        // reads the current session.
                        let _ = bridge.renew(&session).await;
                    }
                    Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                    Ok(_) | Err(_) => {}
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
        if let Some(before) = self.state().stream.replace(task.abort_handle()) {
            before.abort();
        }
    }

    async fn get(&self, session: &Session, last_event: Option<&str>) -> Result<Response, Failure> {
        let mut headers = self.headers()?;
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        insert(&mut headers, SESSION_HEADER, &session.id);
        insert(&mut headers, VERSION_HEADER, &session.version);
        if let Some(last_event) = last_event {
            insert(&mut headers, "last-event-id", last_event);
        }
        let sent = self.http.request(Method::GET, self.url.clone()).headers(headers).send().await;
        sent.map_err(|error| Failure::Away(innermost_cause(&error)))
    }

    /// Sends a message, repeatedly if necessary, until the server has answered it with a status.
    async fn post(&self, message: &Value, session: Option<&Session>) -> Result<Response, Failure> {
        let body = message.to_string();
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
        loop {
            let mut headers = self.headers()?;
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            describe(&mut headers, message, session);
            let sent = self.http.post(self.url.clone()).headers(headers).body(body.clone()).send().await;
            let failure = match sent {
                Ok(response) => match refusal(&response) {
                    None => {
                        self.was_there.store(true, Ordering::Relaxed);
                        return Ok(response);
                    }
                    Some(Failure::Limited) => {
                        pause = retry_after(&response).unwrap_or(pause);
                        Failure::Limited
                    }
                    Some(Failure::Away(why)) => Failure::Away(why),
                    Some(failure) => return Err(failure),
                },
                Err(error) if error.is_connect() => Failure::Away(innermost_cause(&error)),
                Err(error) if is_repeatable(message) => Failure::Lost(innermost_cause(&error)),
                Err(error) => return Err(Failure::Lost(innermost_cause(&error))),
            };
            let was_there = self.was_there.load(Ordering::Relaxed);
            if waited >= if was_there { AWAY_MAX } else { NEVER_THERE_MAX } {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        self.remote.token.headers().map_err(Failure::Refused)
    }

    /// Ends a request whose answer the client no longer wants. Clients before 2026-07-28 tell the server
    /// themselves.
    fn cancel(&self, id: &Value) -> bool {
        if self.state().session.is_some() {
            return false;
        }
        let mut under_way = self.under_way();
        // A write is not aborted half way, because its answer says whether it was applied.
        if under_way.get(&id.to_string()).is_some_and(|running| !running.writes)
            && let Some(running) = under_way.remove(&id.to_string())
        {
            running.task.abort();
        }
        true
    }

    fn end_streams(&self) {
        if let Some(stream) = self.state().stream.take() {
            stream.abort();
        }
        // A subscription ends with its client; calls still get their answers.
        self.under_way().values().filter(|running| running.lasts).for_each(|running| running.task.abort());
    }

    async fn end_session(&self) {
        self.under_way().drain().for_each(|(_, running)| running.task.abort());
        let Some(session) = self.state().session.take() else { return };
        let Ok(mut headers) = self.headers() else { return };
        insert(&mut headers, SESSION_HEADER, &session.id);
        insert(&mut headers, VERSION_HEADER, &session.version);
        let gone = self.http.request(Method::DELETE, self.url.clone()).headers(headers).send();
        // If this request fails, the server ends the idle session by itself later.
        let _ = tokio::time::timeout(Duration::from_secs(1), gone).await;
    }

    fn text_of(&self, failure: &Failure) -> String {
        let mut place = self.url.clone();
        // The address may contain a password.
        let _ = place.set_password(None);
        match failure {
            Failure::Away(why) => format!("there is no Kenning server at {place} right now: {why}"),
            Failure::Lost(why) => format!("the answer of {place} is lost: {why}"),
            Failure::Refused(why) => format!("{place} does not let this client in: {why}"),
            Failure::Limited => format!("{place} has been asked too often; wait a moment"),
            Failure::UnexpectedAnswer(why) => {
                format!("{place} does not answer as a Kenning server does: {why}")
            }
        }
    }

    /// Answers a request that the server did not answer. A call gets the reply of a tool that failed, because
    /// models read tool replies.
    async fn fail(&self, request: &Value, failure: Failure) {
        let text = self.text_of(&failure);
        tracing::warn!("{text}");
        let Some(tool) = tool_of(request) else {
            return self.error(&request["id"], INTERNAL_ERROR, &text).await;
        };
        let arguments = request["params"]["arguments"].as_object().cloned().unwrap_or_default();
        let mut stop = Stop::new(failure.code(), text);
        if tool.effect.writes() {
            let is_unknown = matches!(failure, Failure::Lost(_));
            stop = stop.with("outcome", json!(if is_unknown { "unknown" } else { "not_applied" }));
        }
        let format: Format = asked_format(&arguments);
        let reply = stop.reply_of(tool.family, format);
        let mut result = Map::new();
        if request["params"]["_meta"][VERSION_KEY].is_string() {
            result.insert("resultType".to_owned(), json!("complete"));
        }
        result.insert("content".to_owned(), json!([{"type": "text", "text": reply.text()}]));
        result.insert("structuredContent".to_owned(), reply.structured);
        result.insert("isError".to_owned(), json!(true));
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    async fn error(&self, id: &Value, code: i64, message: &str) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})).await;
    }

    async fn write(&self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let mut output = self.output.lock().await;
        let written: io::Result<()> = async {
            output.write_all(&line).await?;
            output.flush().await
        }
        .await;
        // The error is only logged: a client that no longer reads closes the input too.
        if let Err(error) = written {
            tracing::debug!("the client does not read: {error}");
        }
    }
}

/// The result of reading a stream of notices.
enum NoticeStreamEnd {
    Nothing,
    Acknowledged,
    /// The server has refused the request.
    Answer,
}

/// Whether a request may reach the server twice.
fn is_repeatable(message: &Value) -> bool {
    match message["method"].as_str() {
        // The server recognises a repeated write by its idempotency key.
        Some("tools/call") => {
            let has_key = message["params"]["arguments"][IDEMPOTENCY_KEY].is_string();
            tool_of(message).is_some_and(|tool| has_key || !tool.effect.writes())
        }
        _ => true,
    }
}

/// Sets the headers in which the protocol repeats parts of the message.
fn describe(headers: &mut HeaderMap, message: &Value, session: Option<&Session>) {
    if let Some(session) = session {
        insert(headers, SESSION_HEADER, &session.id);
        insert(headers, VERSION_HEADER, &session.version);
    }
    let params = &message["params"];
    if let Some(version) = params["_meta"][VERSION_KEY].as_str() {
        insert(headers, VERSION_HEADER, version);
        let method = message["method"].as_str().unwrap_or_default();
        insert(headers, "mcp-method", method);
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            _ => None,
        };
        if let Some(name) = name {
            insert(headers, "mcp-name", name);
        }
    }
}

/// Sets a header. A value that is not allowed in a header is sent in the encoding that the protocol defines
/// for it.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let is_plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    let encoded = || format!("=?base64?{}?=", data_encoding::BASE64.encode(value.as_bytes()));
    let value = if is_plain { value.to_owned() } else { encoded() };
    if let Ok(value) = HeaderValue::from_str(&value)
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}

/// The reason why a server does not serve a request, if its status says so.
fn refusal(response: &Response) -> Option<Failure> {
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(Failure::Refused(
            "the key or token is missing, wrong, expired or revoked; see `--token-file` and KENNING_TOKEN"
                .to_owned(),
        )),
        StatusCode::FORBIDDEN => Some(Failure::Refused(
            "its Host or Origin is not among those that the server knows; see its `--allowed-hosts`"
                .to_owned(),
        )),
        StatusCode::TOO_MANY_REQUESTS => Some(Failure::Limited),
        status
        @ (StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
            Some(Failure::Away(format!("status {status}")))
        }
        status if status.is_redirection() => Some(Failure::UnexpectedAnswer(format!(
            "it redirects with status {status}; connect to the place itself"
        ))),
        _ => None,
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn unexpected_answer(response: &Response) -> Failure {
    Failure::UnexpectedAnswer(format!("it answers `initialize` with status {}", response.status()))
}

/// The text of the innermost cause, which is the most specific: "Connection refused".
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// The messages of a response, which is a single message or a stream of events.
struct Messages {
    response: Response,
    is_stream: bool,
    read: Vec<u8>,
    /// The number of bytes at the start of `read` in which no end of a line was found.
    looked: usize,
    data: Vec<u8>,
    last_event: Option<String>,
    is_done: bool,
}

impl Messages {
    fn of(response: Response) -> Messages {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let (read, data) = (Vec::new(), Vec::new());
        Messages { response, is_stream, read, looked: 0, data, last_event: None, is_done: false }
    }

    async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if self.is_stream
                && let Some(message) = self.next_event()
            {
                return Ok(Some(message));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.read.extend_from_slice(&chunk),
                Ok(None) => self.is_done = true,
                Err(error) => return Err(Failure::Lost(innermost_cause(&error))),
            }
            if self.read.len() + self.data.len() > MESSAGE_BYTES_MAX {
                return Err(Failure::UnexpectedAnswer("it sends a message of more than 16 MiB".to_owned()));
            }
            if self.is_done && !self.is_stream {
                return Ok(serde_json::from_slice(&std::mem::take(&mut self.read)).ok());
            }
        }
    }

    /// The next event with data that was read completely.
    fn next_event(&mut self) -> Option<Value> {
        while let Some(end) = self.read[self.looked..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.read.drain(..self.looked + end + 1).collect();
            self.looked = 0;
            let line = line.trim_ascii_end();
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                // An event without a message only gives the event id from which a stream can be resumed.
                if let Ok(message) = serde_json::from_slice(&data) {
                    return Some(message);
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data);
                // The lines of one event are parts of one JSON text, in which a line break is white space.
                self.data.push(b' ');
            } else if let Some(id) = line.strip_prefix(b"id:") {
                self.last_event = String::from_utf8(id.trim_ascii().to_vec()).ok();
            }
        }
        self.looked = self.read.len();
        None
    }
}
