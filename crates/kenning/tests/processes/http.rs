//! A real server process with `--http`: both protocol eras, keys and their rights, and requests that are
//! refused.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kenning_presentation::{Block, Reply};
use kenning_server::client::Era;
use kenning_testkit::TempStore;
use kenning_testkit::transcript::{Player, Transcript};
use serde_json::{Map, Value, json};
use ureq::http::{Request, Response, StatusCode};
use ureq::{Agent, Body};

use crate::{server, with_store, without_settings};

const ANSWER_MAX: Duration = Duration::from_secs(20);
/// A revoked key becomes invalid within a second; the rest is tolerance for a busy machine.
pub const REVOKED_MAX: Duration = Duration::from_secs(5);

pub struct HttpServer {
    pub child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
}

impl HttpServer {
    pub fn start(dir: &Path, flags: &[&str]) -> HttpServer {
        HttpServer::start_at(dir, "127.0.0.1:0", flags)
    }

    pub fn start_at(dir: &Path, address: &str, flags: &[&str]) -> HttpServer {
        let mut command = server(dir);
        command.args(["--http", address]).args(flags);
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let said = lines.next().expect("it says where it is").expect("readable");
        // The rest of stderr is not read, which must not disturb the server.
        drop(lines);
        let is_address = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
        let url = said.split_whitespace().find(is_address).unwrap_or_else(|| panic!("an address: {said}"));
        HttpServer { url: url.trim_end_matches("/mcp;").to_owned(), child }
    }

    pub fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        agent().run(request.body(()).expect("a request")).expect("an answer")
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // The server may have ended already, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file and returns its path as the value of a flag.
pub fn file_with(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("writable");
    path.to_str().expect("text").to_owned()
}

fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER_MAX)).build().new_agent()
}

/// A client of the server, with its protocol era and key.
pub struct HttpClient {
    pub url: String,
    pub era: Era,
    pub key: Option<String>,
    pub session: Option<String>,
    pub next_id: u64,
}

impl HttpClient {
    pub fn connect(server: &HttpServer, era: Era, key: Option<&str>) -> HttpClient {
        let url = format!("{}/mcp", server.url);
        let mut client = HttpClient { url, era, key: key.map(str::to_owned), session: None, next_id: 1 };
        if era == Era::Legacy {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "http test", "version": "1"},
            });
            let answer = client.post(&client.message("initialize", hello), &[]);
            let session = answer.headers().get("mcp-session-id").expect("a session").to_str().expect("text");
            client.session = Some(session.to_owned());
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert!(client.post(&ready, &[]).status().is_success());
        }
        client
    }

    pub fn message(&self, method: &str, mut params: Value) -> Value {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "http test", "version": "1"},
            });
        }
        json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
    }

    pub fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Response<Body> {
        self.try_post(message, headers).expect("an answer")
    }

    fn try_post(&self, message: &Value, headers: &[(&str, &str)]) -> Option<Response<Body>> {
        let mut request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        if self.era == Era::Modern {
            let (method, params) = (&message["method"], &message["params"]);
            request = request.header("mcp-protocol-version", "2026-07-28");
            request = request.header("mcp-method", method.as_str().unwrap_or_default());
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        agent().run(request.body(message.to_string()).expect("a request")).ok()
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let message = self.message(method, params);
        self.next_id += 1;
        let mut answer = self.post(&message, &[]);
        let status = answer.status();
        let text = answer.body_mut().read_to_string().expect("a body");
        // In an event stream each `data:` line is a JSON message; a plain answer is one message.
        let messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let mut messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let answer = messages.find(|found| found["id"] == message["id"]);
        answer.unwrap_or_else(|| panic!("{status}: {text}"))["result"].take()
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Like `call`, but for a server that may stop. `None` if there is no complete answer.
    pub fn try_call(&mut self, tool: &str, arguments: Value) -> Option<Value> {
        let message = self.message("tools/call", json!({"name": tool, "arguments": arguments}));
        self.next_id += 1;
        let text = self.try_post(&message, &[])?.body_mut().read_to_string().ok()?;
        let messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let mut messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut answer = messages.find(|found| found["id"] == message["id"])?;
        Some(answer["result"].take()).filter(|result| result.is_object())
    }
}

pub fn kenning(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.args(arguments).arg("--data-dir").arg(dir).current_dir(dir);
    let done = with_store(without_settings(&mut command), dir).output().expect("the program runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(done.stdout).expect("text").trim().to_owned()
}

/// A new key, and its id.
pub fn new_key(dir: &Path, arguments: &[&str]) -> (String, String) {
    let shown = kenning(dir, &[&["token", "create", "--json"], arguments].concat());
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let text = |field: &str| shown[field].as_str().expect("a text").to_owned();
    (text("key"), text("id"))
}

/// One server for all actors. Each actor has a key of its own.
struct OverHttp {
    store: TempStore,
    server: HttpServer,
    era: Era,
    clients: HashMap<String, HttpClient>,
}

impl Player for OverHttp {
    fn call(&mut self, actor: &str, tool: &str, arguments: Map<String, Value>) -> Reply {
        let (store, server, era) = (&self.store, &self.server, self.era);
        let client = self.clients.entry(actor.to_owned()).or_insert_with(|| {
            let (key, _) = new_key(store.path(), &[actor, "--owner"]);
            HttpClient::connect(server, era, Some(&key))
        });
        let mut result = client.call(tool, Value::Object(arguments));
        // Over HTTP a reply also has the URL of its result set, which the transcripts do not contain.
        let base = format!(" or {}/resources/", server.url);
        let text = result["content"][0]["text"].as_str().expect("the first block is text");
        let text = match text.split_once(&base) {
            Some((before, after)) => format!("{before}{}", &after[after.find(" (").expect("until when")..]),
            None => text.to_owned(),
        };
        let mut structured = result["structuredContent"].take();
        if let Some(set) = structured.get_mut("resource").and_then(Value::as_object_mut) {
            set.shift_remove("url").expect("the address of a set");
        }
        Reply {
            blocks: vec![Block::Text(text)],
            ask: None,
            duplicates: 0,
            structured,
            meta: result["_meta"].as_object().cloned().unwrap_or_default(),
            is_error: result["isError"] == true,
        }
    }
}

#[test]
fn a_server_on_http_replies_as_the_transcripts_say() {
    let folder = Path::new("../tools/tests/memory");
    for (name, era) in [("undo", Era::Legacy), ("relate", Era::Modern), ("history", Era::Modern)] {
        let transcript = Transcript::read(&folder.join(format!("{name}.md")));
        let store = TempStore::new();
        let server = HttpServer::start(store.path(), &["--auth", "keys"]);
        let mut player = OverHttp { store, server, era, clients: HashMap::new() };
        for (call, played) in transcript.calls.iter().zip(transcript.play(&mut player)) {
            let (line, shown, expected) = (&call.line, &played.shown, &call.expected);
            assert!(played.is_like(call), "{name}: {line}\n{shown}\nbut expected\n{expected}");
        }
    }
}

#[test]
fn without_a_good_key_nothing_is_done() {
    let store = TempStore::new();
    let dir = store.path();
    let (key, _) = new_key(dir, &["alice", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys"]);
    let mut alice = HttpClient::connect(&server, Era::Modern, Some(&key));
    alice.call("store", json!({"topic": "secret", "content": "The vault is open."}));
    let nobody = HttpClient { key: None, ..HttpClient::connect(&server, Era::Modern, Some(&key)) };
    let write = nobody.message(
        "tools/call",
        json!({"name": "store", "arguments": {"topic": "forged", "content": "by nobody"}}),
    );
    let basic = format!("Basic {key}");
    let (cut, other) =
        (format!("Bearer {}", &key[..key.len() - 1]), format!("Bearer {}x", &key[..key.len() - 1]));
    let long = format!("Bearer {}", "k".repeat(9000));
    for (header, challenge) in [
        (None, "Bearer"),
        (Some("Bearer"), "Bearer error=\"invalid_token\""),
        (Some("Bearer "), "Bearer error=\"invalid_token\""),
        (Some(&*basic), "Bearer error=\"invalid_token\""),
        (Some(&*cut), "Bearer error=\"invalid_token\""),
        (Some(&*other), "Bearer error=\"invalid_token\""),
        (Some(&*long), "Bearer error=\"invalid_token\""),
    ] {
        let headers: Vec<(&str, &str)> = header.iter().map(|value| ("authorization", *value)).collect();
        let answer = nobody.post(&write, &headers);
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{header:?}");
        assert_eq!(answer.headers()["www-authenticate"], challenge, "{header:?}");
        assert_eq!(
            server.get("/resources/x/rows", &headers).status(),
            StatusCode::UNAUTHORIZED,
            "{header:?}"
        );
    }
    let bearer = format!("Bearer {key}");
    let twice = nobody.post(&write, &[("authorization", &bearer), ("authorization", &bearer)]);
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    let in_query = HttpClient { url: format!("{}?access_token={key}", nobody.url), ..nobody };
    assert_eq!(in_query.post(&write, &[]).status(), StatusCode::UNAUTHORIZED);
    let found = alice.call("query", json!({}));
    assert_eq!(found["structuredContent"]["total_count"], 1, "one write was let in: {found}");
}

#[test]
fn pages_and_other_names_are_refused_before_anything_is_done() {
    let store = TempStore::new();
    let server = HttpServer::start(store.path(), &[]);
    let client = HttpClient::connect(&server, Era::Modern, None);
    let list = client.message("tools/list", json!({}));
    assert_eq!(client.post(&list, &[]).status(), StatusCode::OK);
    let port = server.host().rsplit(':').next().expect("a port").to_owned();
    assert_eq!(client.post(&list, &[("host", &format!("localhost:{port}"))]).status(), StatusCode::OK);
    assert_eq!(client.post(&list, &[("origin", &server.url)]).status(), StatusCode::OK);
    for headers in [
        [("host", "evil.example")],
        [("origin", "http://evil.example")],
        [("origin", "null")],
        [("origin", "https://localhost")],
    ] {
        assert_eq!(client.post(&list, &headers).status(), StatusCode::FORBIDDEN, "{headers:?}");
        assert_eq!(server.get("/resources/x/rows", &headers).status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert_eq!(server.get("/healthz", &[]).status(), StatusCode::OK);
    assert_eq!(server.get("/readyz", &[]).status(), StatusCode::OK);
}

#[test]
fn a_key_reaches_its_namespaces_alone_and_its_session_serves_no_other() {
    let store = TempStore::new();
    let dir = store.path();
    for name in ["acme", "other"] {
        kenning(dir, &["call", "create_namespace", &json!({"name": name, "description": name}).to_string()]);
    }
    let (owner, _) = new_key(dir, &["owner", "--owner"]);
    let (reader, _) = new_key(dir, &["reader", "--namespaces", "acme=read"]);
    let server = HttpServer::start(dir, &["--auth", "keys"]);
    let mut owner = HttpClient::connect(&server, Era::Legacy, Some(&owner));
    for namespace in ["acme", "other"] {
        let scope = format!("{namespace}:default");
        owner.call("store", json!({"topic": "deploys", "content": namespace, "scope": scope}));
    }
    let mut reader = HttpClient::connect(&server, Era::Legacy, Some(&reader));
    let found = reader.call("query", json!({"content": "deploys"}));
    assert_eq!(found["structuredContent"]["total_count"], 1, "{found}");
    assert_eq!(found["structuredContent"]["items"][0]["content"], "acme");
    let foreign = reader.call("query", json!({"content": "deploys", "scope": "other:default"}));
    assert_eq!(foreign["structuredContent"]["error"]["code"], "NOT_FOUND", "{foreign}");
    let written = reader.call("store", json!({"topic": "x", "content": "y"}));
    assert_eq!(written["structuredContent"]["error"]["code"], "PERMISSION_DENIED", "{written}");
    let borrowed = HttpClient { session: owner.session.clone(), ..reader };
    let list = borrowed.message("tools/list", json!({}));
    assert_eq!(borrowed.post(&list, &[]).status(), StatusCode::NOT_FOUND);
}

#[test]
fn a_revoked_key_ends_with_its_open_subscription() {
    let store = TempStore::new();
    let dir = store.path();
    let (listening, id) = new_key(dir, &["listener", "--owner"]);
    let (writing, _) = new_key(dir, &["writer", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys"]);
    let listener = HttpClient::connect(&server, Era::Modern, Some(&listening));
    let mut writer = HttpClient::connect(&server, Era::Modern, Some(&writing));
    let listen = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    let stream = listener.post(&listener.message("subscriptions/listen", listen), &[]);
    assert_eq!(stream.status(), StatusCode::OK);
    let mut lines = BufReader::new(stream.into_body().into_reader()).lines().map_while(Result::ok);
    let mut next = || lines.find(|line| line.starts_with("data:") && line.len() > 6);
    assert!(next().expect("an acknowledgement").contains("acknowledged"));
    writer.call("store", json!({"topic": "news", "content": "told"}));
    let told = next().expect("a notice");
    assert!(told.contains("io.kenning/change") && told.contains("\"tx_id\":1"), "{told}");
    kenning(dir, &["token", "revoke", &id]);
    let since = Instant::now();
    while next().is_some() {
        assert!(since.elapsed() < REVOKED_MAX, "the stream goes on");
    }
    assert!(since.elapsed() < REVOKED_MAX, "{:?}", since.elapsed());
    let list = listener.message("tools/list", json!({}));
    assert_eq!(listener.post(&list, &[]).status(), StatusCode::UNAUTHORIZED);
    assert_eq!(writer.call("query", json!({}))["structuredContent"]["total_count"], 1);
}

#[test]
fn a_port_for_other_machines_needs_keys_and_tls() {
    let store = TempStore::new();
    for (flags, reason) in [
        (&["--http", "0.0.0.0:0"][..], "kenning token create"),
        (&["--http", "0.0.0.0:0", "--auth", "none"][..], "loopback"),
        (&["--http", "0.0.0.0:0", "--auth", "keys"][..], "--behind-proxy"),
        (&["--auth", "keys"][..], "--http"),
    ] {
        let done = server(store.path()).args(flags).stdin(Stdio::null()).output().expect("the program runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(reason), "{flags:?}: {said}");
    }
}

#[test]
fn a_key_that_may_not_write_where_its_calls_go_is_made_with_a_word_about_it() {
    let store = TempStore::new();
    let dir = store.path();
    kenning(dir, &["call", "create_namespace", r#"{"name": "acme", "description": "A company"}"#]);
    kenning(dir, &["call", "create_scope", r#"{"scope": "acme:web", "description": "A project"}"#]);
    for (arguments, is_told) in [
        (&["--namespaces", "acme=write"][..], true),
        (&["--namespaces", "acme=write", "--scope", "acme:web"][..], false),
        (&["--namespaces", "acme=share"][..], false),
        (&["--namespaces", "acme=read"][..], false),
        (&["--owner"][..], false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        let create = with_store(without_settings(&mut command), dir).arg("--data-dir").arg(dir);
        let made =
            create.args(["token", "create", "alice"]).args(arguments).output().expect("the program runs");
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{arguments:?}: {said}");
        assert_eq!(said.contains("`acme:default`, where it reads"), is_told, "{arguments:?}: {said}");
    }
}

#[test]
fn a_key_that_asks_too_often_waits_and_others_do_not() {
    let store = TempStore::new();
    let dir = store.path();
    let (greedy, _) = new_key(dir, &["greedy", "--owner"]);
    let (patient, _) = new_key(dir, &["patient", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys", "--requests-per-second", "2"]);
    let greedy = HttpClient::connect(&server, Era::Modern, Some(&greedy));
    let list = greedy.message("tools/list", json!({}));
    let mut answers: Vec<Response<Body>> = (0..12).map(|_| greedy.post(&list, &[])).collect();
    let is_refused = |answer: &&mut Response<Body>| answer.status() == StatusCode::TOO_MANY_REQUESTS;
    let refused = answers.iter_mut().find(is_refused).expect("twelve at once are too many");
    assert_eq!(refused.headers()["retry-after"], "1");
    let body = refused.body_mut().read_to_string().expect("text");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["error"]["code"], &body["error"]["retryable"]), (&json!("RATE_LIMITED"), &json!(true)));
    let patient = HttpClient::connect(&server, Era::Modern, Some(&patient));
    assert_eq!(patient.post(&list, &[]).status(), StatusCode::OK);
}

#[test]
fn metrics_are_for_the_owner_and_never_fall() {
    let store = TempStore::new();
    let dir = store.path();
    kenning(dir, &["call", "create_namespace", r#"{"name": "acme", "description": "ACME"}"#]);
    let (owner, _) = new_key(dir, &["owner", "--owner"]);
    let (admin, id) = new_key(dir, &["admin", "--namespaces", "acme"]);
    let server = HttpServer::start(dir, &["--auth", "keys"]);
    HttpClient::connect(&server, Era::Modern, Some(&admin)).call("query", json!({}));
    let page = |key: &str| {
        let mut page = server.get("/metrics", &[("authorization", &format!("Bearer {key}"))]);
        (page.status(), page.body_mut().read_to_string().expect("text"))
    };
    assert_eq!(page(&admin).0, StatusCode::FORBIDDEN);
    assert_eq!(server.get("/metrics", &[]).status(), StatusCode::UNAUTHORIZED);
    let calls = "kenning_tool_calls_total{tool=\"query\"} 1";
    assert!(page(&owner).1.contains(calls), "{}", page(&owner).1);
    let timed = "kenning_tool_call_duration_seconds_count{tool=\"query\"} 1";
    assert!(page(&owner).1.contains(timed), "{}", page(&owner).1);
    kenning(dir, &["token", "revoke", &id]);
    let since = Instant::now();
    while !page(&owner).1.contains("kenning_credentials_open 1") {
        assert!(since.elapsed() < REVOKED_MAX, "the revoked key still counts as open");
    }
    let text = page(&owner).1;
    assert!(
        text.contains(calls) && text.contains("kenning_http_requests_total{path=\"/mcp\",status=\"200\"}")
    );
}
