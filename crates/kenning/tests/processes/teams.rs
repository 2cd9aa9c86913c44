//! A server with many users: limits, slow and greedy clients, the audit log, certificates, and how the server
//! stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::http::{HttpClient, HttpServer, file_with, new_key};
use crate::{server, without_settings};

fn connection(server: &HttpServer) -> TcpStream {
    let connection = TcpStream::connect(server.host()).expect("the server listens");
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("settable");
    connection
}

fn head(server: &HttpServer, length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n",
        server.host()
    )
}

#[test]
fn slow_senders_and_slow_readers_are_dropped() {
    let store = TempStore::new();
    let text = r#"{"header_seconds": 1, "body_seconds": 1, "stalled_seconds": 1, "body_bytes": 65536}"#;
    let limits = file_with(store.path(), "limits.json", text);
    let server = HttpServer::start(store.path(), &["--limits", &limits]);
    let read_all = |mut connection: TcpStream| {
        let (since, mut text) = (Instant::now(), Vec::new());
        // A connection that was reset has ended too.
        let _ = connection.read_to_end(&mut text);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        String::from_utf8_lossy(&text).into_owned()
    };
    // Three slow clients send half of a head, half of a body, and nothing at all.
    let mut half = connection(&server);
    half.write_all(b"POST /mcp HTTP/1.1\r\nhost:").expect("sent");
    read_all(half);
    let mut half = connection(&server);
    half.write_all(head(&server, 100).as_bytes()).expect("sent");
    half.write_all(b"{\"jsonrpc\"").expect("sent");
    assert!(read_all(half).starts_with("HTTP/1.1 408"));
    read_all(connection(&server));
    // A body that is too long is refused before it is read. Without a declared length, it is refused when the
    // limit is reached.
    let mut long = connection(&server);
    long.write_all(head(&server, 65537).as_bytes()).expect("sent");
    assert!(read_all(long).starts_with("HTTP/1.1 413"));
    let mut long = connection(&server);
    let chunked = head(&server, 0).replace("content-length: 0", "transfer-encoding: chunked");
    long.write_all(chunked.as_bytes()).expect("sent");
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    // The server may close the connection while the rest is being sent.
    let _ = long.write_all(chunk.repeat(3).as_bytes());
    assert!(read_all(long).starts_with("HTTP/1.1 413"));
    let mut long = connection(&server);
    let _ =
        long.write_all(format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(64 * 1024)).as_bytes());
    assert!(read_all(long).starts_with("HTTP/1.1 431"));
    let mut odd = connection(&server);
    odd.write_all(format!("{}nonsense", head(&server, 8)).as_bytes()).expect("sent");
    let answer = read_all(odd);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("-32700"), "{answer}");

    // The client asks again and again for the list of tools and never reads: the server stops writing, and
    // then stops reading.
    let mut greedy = connection(&server);
    let client = HttpClient::connect(&server, Era::Modern, None);
    let list = client.message("tools/list", json!({})).to_string();
    let modern = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\ncontent-length";
    let request = format!("{}{list}", head(&server, list.len()).replace("content-length", modern));
    let since = Instant::now();
    let _ = greedy.set_write_timeout(Some(Duration::from_secs(10)));
    let mut sent = 0;
    while greedy.write_all(request.as_bytes()).is_ok() && sent < 5_000 {
        sent += 1;
    }
    assert!(since.elapsed() < Duration::from_secs(8), "{:?} after {sent} requests", since.elapsed());
    assert_eq!(client.post(&client.message("tools/list", json!({})), &[]).status(), 200);
}

#[test]
fn limits_hold_for_each_key_and_are_read_again() {
    let store = TempStore::new();
    let dir = store.path();
    // The test asks as fast as it can until the new limits hold.
    let fast = r#""requests_per_second": 1000000"#;
    let limits = format!(r#"{{{fast}, "writes_per_second": 1, "subscriptions": 1, "sessions": 2}}"#);
    let limits = file_with(dir, "limits.json", &limits);
    let (noisy, _) = new_key(dir, &["noisy", "--owner"]);
    let (quiet, _) = new_key(dir, &["quiet", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys", "--limits", &limits]);
    let mut noisy = HttpClient::connect(&server, Era::Modern, Some(&noisy));
    let mut quiet = HttpClient::connect(&server, Era::Modern, Some(&quiet));
    let store_one = |client: &mut HttpClient, text: &str| {
        let stored = client.call("store", json!({"topic": "limits", "content": text}));
        stored["structuredContent"].clone()
    };
    let replies: Vec<Value> = (0..4).map(|n| store_one(&mut noisy, &format!("Note {n} of many."))).collect();
    let refused = replies.iter().find(|reply| reply["error"].is_object()).expect("four at once are too many");
    assert_eq!(refused["error"]["code"], "RATE_LIMITED", "{refused}");
    assert_eq!(refused["error"]["details"]["outcome"], "not_applied", "{refused}");
    assert!(refused["error"]["details"]["retry_after_seconds"].is_u64(), "{refused}");
    // The noisy caller can still read, and other callers can still write.
    assert!(noisy.call("query", json!({}))["structuredContent"]["total_count"].is_u64());
    assert!(store_one(&mut quiet, "Written meanwhile.")["tx_id"].is_u64());

    let listen = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    let message = noisy.message("subscriptions/listen", listen);
    let first = noisy.post(&message, &[]);
    let mut first = BufReader::new(first.into_body().into_reader()).lines().map_while(Result::ok);
    assert!(first.any(|line| line.contains("acknowledged")), "the first subscription stands");
    let second = noisy.post(&message, &[]).body_mut().read_to_string().expect("it ends");
    assert!(second.contains("too many subscriptions"), "{second}");
    let session = |key: &Option<String>| {
        let mut client = HttpClient::connect(&server, Era::Modern, key.as_deref());
        client.era = Era::Legacy;
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        client.post(&client.message("initialize", hello), &[]).status().as_u16()
    };
    assert_eq!([session(&noisy.key), session(&noisy.key), session(&noisy.key)], [200, 200, 429]);
    assert_eq!(session(&quiet.key), 200, "the sessions of one key are not those of another");

    file_with(dir, "limits.json", &format!(r#"{{{fast}, "writes_per_second": 1000}}"#));
    let since = Instant::now();
    while store_one(&mut noisy, "Once more.")["error"]["code"] == "RATE_LIMITED" {
        assert!(since.elapsed() < Duration::from_secs(10), "the new limits are not read");
    }
    let again = |n: usize| store_one(&mut noisy, &format!("Faster note {n}."));
    assert!((0..20).map(again).all(|reply| reply["error"].is_null()));
}

#[test]
fn a_namespace_takes_no_more_entries_than_the_limit_says() {
    let store = TempStore::new();
    let dir = store.path();
    let limits = file_with(dir, "limits.json", r#"{"entries_per_namespace": 3}"#);
    let (owner, _) = new_key(dir, &["owner", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys", "--limits", &limits]);
    let mut owner = HttpClient::connect(&server, Era::Modern, Some(&owner));
    owner.call("create_namespace", json!({"name": "acme", "description": "A company"}));
    let (member, _) = new_key(dir, &["member", "--namespaces", "acme=share"]);
    let mut member = HttpClient::connect(&server, Era::Modern, Some(&member));
    let note = |n: usize| json!({"topic": format!("topic {n}"), "content": format!("Content number {n} of several.")});
    let first = member.call("store", note(0))["structuredContent"]["id"].clone();
    member.call("store_many", json!({"entries": [note(1), note(2)]}));
    let error = |reply: Value| reply["structuredContent"]["error"].clone();
    for (tool, arguments) in [("store", note(3)), ("store_many", json!({"entries": [note(3)]}))] {
        let reply = member.call(tool, arguments);
        let told = error(reply.clone());
        assert_eq!(told["code"], "LIMIT_REACHED", "{reply}");
        assert_eq!(
            (&told["retryable"], &told["details"]["outcome"]),
            (&json!(false), &json!("not_applied")),
            "{reply}"
        );
        assert_eq!(
            (&told["details"]["entries"], &told["details"]["entries_max"]),
            (&json!(3), &json!(3)),
            "{reply}"
        );
        let text = reply["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("`acme` has 3 entries") && text.contains("entries_per_namespace"), "{text}");
    }
    // Corrections and deletions go on, and other namespaces are not concerned.
    let update = json!({"id": first, "content": "Corrected at the limit."});
    assert!(error(member.call("update", update)).is_null());
    assert!(error(owner.call("store", note(4))).is_null(), "into global:default");
    let deleted = member.call("delete", json!({"id": first}));
    assert!(error(member.call("store", note(5))).is_null(), "there is room again");
    let undo = json!({"tx_id": deleted["structuredContent"]["tx_id"]});
    assert_eq!(error(member.call("undo", undo.clone()))["code"], "LIMIT_REACHED");
    let undo = json!({"tx_id": undo["tx_id"], "any_actor": true});
    assert!(error(owner.call("undo", undo)).is_null(), "an administrator may go beyond it");

    file_with(dir, "limits.json", r#"{"entries_per_namespace": 10}"#);
    let since = Instant::now();
    while error(member.call("store", note(6)))["code"] == "LIMIT_REACHED" {
        assert!(since.elapsed() < Duration::from_secs(10), "the new limit is not read");
    }
}

#[test]
fn a_noisy_key_does_not_starve_others() {
    let store = TempStore::new();
    let dir = store.path();
    let (noisy, _) = new_key(dir, &["noisy", "--owner"]);
    let (quiet, _) = new_key(dir, &["quiet", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys", "--requests-per-second", "20"]);
    let mut client = HttpClient::connect(&server, Era::Modern, Some(&quiet));
    client.call("store", json!({"topic": "deploys", "content": "Blue-green."}));
    let mut slowest_of = |calls: usize| {
        let time = |_| {
            let since = Instant::now();
            assert_eq!(
                client.call("query", json!({"content": "deploys"}))["structuredContent"]["total_count"],
                1
            );
            std::thread::sleep(Duration::from_millis(60));
            since.elapsed() - Duration::from_millis(60)
        };
        let mut times: Vec<Duration> = (0..calls).map(time).collect();
        times.sort();
        times[calls * 9 / 10]
    };
    slowest_of(5);
    let alone = slowest_of(20);
    let is_over = Arc::new(AtomicBool::new(false));
    let refused = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (server, noisy, is_over) = (&server, &noisy, is_over.clone());
                scope.spawn(move || {
                    let client = HttpClient::connect(server, Era::Modern, Some(noisy));
                    let list = client.message("tools/list", json!({}));
                    let mut refused = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        refused += usize::from(client.post(&list, &[]).status() == 429);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    refused
                })
            })
            .collect();
        let crowded = slowest_of(20);
        is_over.store(true, Ordering::Relaxed);
        // Both share two processors with the noise, so the limit is generous.
        assert!(crowded < alone * 10 + Duration::from_millis(100), "{crowded:?} after {alone:?} alone");
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
    });
    assert!(refused > 50, "the noisy key was told to wait {refused} times");
}

#[test]
fn the_audit_log_says_who_did_what_and_nothing_of_what_is_stored() {
    let store = TempStore::new();
    let dir = store.path();
    let log = dir.join("audit.jsonl");
    let path = log.to_str().expect("text");
    let (key, id) = new_key(dir, &["alice", "--owner"]);
    let server = HttpServer::start(dir, &["--auth", "keys", "--audit-log", path]);
    let mut alice = HttpClient::connect(&server, Era::Modern, Some(&key));
    let stored = alice.call("store", json!({"topic": "canary-topic", "content": "canary-content"}));
    let entry = stored["structuredContent"]["id"].as_str().expect("an id").to_owned();
    alice.call("query", json!({"content": "canary-query"}));
    alice.call("delete", json!({"id": "ZZZZZZZZZZ"}));
    alice.request("resources/read", json!({"uri": "knowledge://entries"}));
    let nobody = HttpClient {
        key: Some("kenning_0_canary".into()),
        ..HttpClient::connect(&server, Era::Modern, None)
    };
    assert_eq!(nobody.post(&nobody.message("tools/list", json!({})), &[]).status(), 401);
    let text = std::fs::read_to_string(&log).expect("readable");
    assert!(!text.contains("canary") && !text.contains(&key), "{text}");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let written: Vec<_> =
        records.iter().skip(1).map(|record| (&record["what"], &record["tool"], &record["outcome"])).collect();
    let (call, ok) = (json!("tools/call"), json!("ok"));
    assert_eq!(
        written,
        [
            (&call, &json!("store"), &ok),
            (&call, &json!("query"), &ok),
            (&call, &json!("delete"), &json!("NOT_FOUND")),
            (&json!("resources/read"), &Value::Null, &ok),
            (&json!("authenticate"), &Value::Null, &json!("UNAUTHENTICATED")),
        ]
    );
    let first = &records[1];
    assert_eq!((&first["who"], &first["name"]), (&json!(format!("key {id}")), &json!("alice")));
    assert_eq!((&first["ids"], &first["tx_id"]), (&json!([entry]), &json!(1)));
    assert_eq!(first["from"], "127.0.0.1");

    let taken = server_with(dir, &["--http", "127.0.0.1:0", "--audit-log", path]);
    assert!(taken.contains("another process writes"), "{taken}");
    let verify = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        command.args(["audit", "verify", path]).args(arguments);
        without_settings(&mut command).output().expect("the program runs")
    };
    let whole = verify(&["--json"]);
    let whole: Value = serde_json::from_slice(&whole.stdout).expect("JSON");
    assert_eq!((&whole["whole"], &whole["records"]), (&json!(true), &json!(6)));
    let last = whole["last"].as_str().expect("a hash").to_owned();
    assert_eq!(verify(&["--has", &last]).status.code(), Some(0));
    std::fs::write(&log, text.replace(&entry, "ZZZZZZZZZZ")).expect("writable");
    let forged = verify(&[]);
    assert_eq!(forged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&forged.stderr).contains("line 2"), "{forged:?}");
    let cut: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    std::fs::write(&log, cut).expect("writable");
    assert_eq!(verify(&[]).status.code(), Some(0), "what is left is whole");
    assert_eq!(verify(&["--has", &last]).status.code(), Some(1), "and not all of it");
}

/// The message of a server that refuses to start.
fn server_with(dir: &Path, flags: &[&str]) -> String {
    let done = server(dir).args(flags).stdin(Stdio::null()).output().expect("the program runs");
    assert_eq!(done.status.code(), Some(2));
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[cfg(unix)]
#[test]
fn a_server_that_is_asked_to_stop_finishes_what_it_has_begun() {
    let store = TempStore::new();
    let mut server = HttpServer::start(store.path(), &[]);
    let listener = HttpClient::connect(&server, Era::Modern, None);
    let listen = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    let stream = listener.post(&listener.message("subscriptions/listen", listen), &[]);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let pid = rustix::process::Pid::from_child(&server.child);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (acknowledged, era) =
                (acknowledged.clone(), if writer % 2 == 0 { Era::Modern } else { Era::Legacy });
            let mut client = HttpClient::connect(&server, era, None);
            std::thread::spawn(move || {
                for number in 0.. {
                    let content = format!("Writer {writer} has written note {number}.");
                    let Some(stored) = client.try_call("store", json!({"topic": "load", "content": content}))
                    else {
                        return;
                    };
                    let id = stored["structuredContent"]["id"].as_str().expect("an id").to_owned();
                    acknowledged.lock().expect("no panic").push(id);
                }
            })
        })
        .collect();
    while acknowledged.lock().expect("no panic").len() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let since = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let lines = BufReader::new(stream.into_body().into_reader()).lines().map_while(Result::ok);
    let last = lines.filter(|line| line.starts_with("data:") && line.len() > 6).last().expect("a message");
    assert!(last.contains("\"resultType\":\"complete\""), "a subscription ends with a result: {last}");
    let status = server.child.wait().expect("it ends");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(status.code(), Some(0));
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    let mut owner = crate::start(store.path(), Era::Modern, "owner");
    let acknowledged = acknowledged.lock().expect("no panic");
    for ids in acknowledged.chunks(20) {
        let found = crate::call(&mut owner, "query", json!({"ids": ids, "limit": 20}));
        assert_eq!(found["items"].as_array().map(Vec::len), Some(ids.len()), "{found}");
    }
}

#[test]
fn the_stream_of_a_session_is_resumed_where_it_broke() {
    let store = TempStore::new();
    let server = HttpServer::start(store.path(), &[]);
    let mut client = HttpClient::connect(&server, Era::Legacy, None);
    client.request("resources/subscribe", json!({"uri": "knowledge://entries"}));
    let session = client.session.clone().expect("a session");
    let open = |last: Option<&str>| {
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", &session)];
        headers.extend(last.map(|last| ("last-event-id", last)));
        let stream = server.get("/mcp", &headers);
        assert_eq!(stream.status(), 200);
        BufReader::new(stream.into_body().into_reader()).lines().map_while(Result::ok)
    };
    let mut last = None;
    let mut told = |lines: &mut dyn Iterator<Item = String>, tx: u64| {
        let mut is_told = false;
        for line in lines {
            if let Some(id) = line.strip_prefix("id:") {
                last = Some(id.trim().to_owned());
            }
            // The last notification before the break may be repeated.
            is_told |=
                line.contains("notifications/resources/updated") && line.contains(&format!("\"tx_id\":{tx}"));
            // The event's id may come after the message.
            if is_told && line.is_empty() {
                return last.clone();
            }
        }
        panic!("the stream has ended before transaction {tx} was told");
    };
    let store_one =
        |client: &mut HttpClient, text: &str| client.call("store", json!({"topic": "news", "content": text}));
    let mut lines = open(None);
    store_one(&mut client, "Told at once.");
    let seen = told(&mut lines, 1);
    assert!(seen.is_some(), "events have ids");
    drop(lines);
    store_one(&mut client, "Missed by the stream that broke.");
    std::thread::sleep(Duration::from_millis(200));
    told(&mut open(seen.as_deref()), 2);
}

/// Writes a certificate for this machine and its private key to files, and returns their paths.
fn certificate(dir: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let text = file_with(dir, "cert.pem", &made.cert.pem());
    (text, file_with(dir, "key.pem", &made.signing_key.serialize_pem()))
}

#[test]
fn certificates_are_used_and_read_again() {
    let store = TempStore::new();
    let dir = store.path();
    let (certificate_file, key_file) = certificate(dir);
    let (key, _) = new_key(dir, &["alice", "--owner"]);
    let flags = ["--auth", "keys", "--tls-cert", &certificate_file, "--tls-key", &key_file];
    let server = HttpServer::start(dir, &flags);
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    let trusting = |name: &str| {
        let roots = dir.join(name);
        std::fs::copy(&certificate_file, &roots).expect("copied");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        without_settings(&mut command).args(["serve", "--connect", &format!("https://localhost:{port}")]);
        command.env("KENNING_TOKEN", &key).env("SSL_CERT_FILE", &roots);
        Client::start(command, Era::Modern, "alice").expect("it starts")
    };
    let mut first = trusting("first.pem");
    let stored = first.call("store", json!({"topic": "a", "content": "b"})).expect("an answer");
    assert_eq!(stored["tx_id"], 1, "{stored}");
    // The certificate is renewed. A half-written pair changes nothing.
    std::fs::write(&certificate_file, "-----BEGIN").expect("writable");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(trusting_by(dir, "first.pem", &port, &key)["total_count"], 1);
    certificate(dir);
    let since = Instant::now();
    let mut renewed = trusting("second.pem");
    while renewed.call("query", json!({})).expect("an answer")["total_count"] != 1 {
        assert!(since.elapsed() < Duration::from_secs(15), "the new certificate is not used");
    }
    let old = trusting_by(dir, "first.pem", &port, &key);
    assert_eq!(old["error"]["code"], "BACKEND_UNAVAILABLE", "{old}");
    // The port does not accept plain HTTP.
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"));

    let wrong = file_with(dir, "wrong.pem", "no certificate");
    let said = server_with(dir, &["--http", "127.0.0.1:0", "--tls-cert", &wrong, "--tls-key", &key_file]);
    assert!(said.contains("certificate"), "{said}");
}

/// The result of a query through a client that trusts these root certificates.
fn trusting_by(dir: &Path, roots: &str, port: &str, key: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    without_settings(&mut command).args(["serve", "--connect", &format!("https://localhost:{port}")]);
    command.env("KENNING_TOKEN", key).env("SSL_CERT_FILE", dir.join(roots));
    let mut client = Client::start(command, Era::Modern, "alice").expect("it starts");
    client.call("query", json!({})).expect("an answer")
}

#[test]
fn files_that_are_wrong_are_told_at_the_start() {
    let store = TempStore::new();
    let limits = file_with(store.path(), "limits.json", r#"{"requests_at_one": 1}"#);
    let said = server_with(store.path(), &["--http", "127.0.0.1:0", "--limits", &limits]);
    assert!(said.contains("requests_at_one"), "{said}");
    let said = server_with(store.path(), &["--http", "127.0.0.1:0", "--auth", "jwt"]);
    assert!(said.contains("--jwt"), "{said}");
    let said = server_with(store.path(), &["--http", "127.0.0.1:0", "--auth", "none,keys"]);
    assert!(said.contains("--auth none"), "{said}");
}

#[test]
fn a_server_is_asked_from_outside_how_it_stands() {
    let store = TempStore::new();
    let dir = store.path();
    let (owner, _) = new_key(dir, &["owner", "--owner"]);
    let (other, _) = new_key(dir, &["other", "--namespaces", "global=read"]);
    let server = HttpServer::start(dir, &["--auth", "keys"]);
    let mut client = HttpClient::connect(&server, Era::Modern, Some(&owner));
    client.call("store", json!({"topic": "canary-topic", "content": "canary-content"}));
    client.call("update", json!({"id": "K7H9M2PQX8", "content": "There is no such entry."}));
    let ask = |url: &str, token: Option<&str>, more: &[&str]| {
        // Where there is no store, and none is made.
        let elsewhere = TempStore::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        without_settings(&mut command)
            .args(["status", "--url", url])
            .args(more)
            .current_dir(elsewhere.path());
        command.arg("--data-dir").arg(elsewhere.path().join("data"));
        token.map(|token| command.env("KENNING_TOKEN", token));
        let done = command.output().expect("it runs");
        assert!(!elsewhere.path().join("data").exists());
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let json_of = |token: Option<&str>| -> Value {
        let (code, said) = ask(&server.url, token, &["--json"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&said).expect("JSON")
    };
    let status = json_of(Some(&owner));
    assert_eq!((&status["is_alive"], &status["is_ready"]), (&json!(true), &json!(true)), "{status}");
    assert_eq!(status["numbers"]["tools"]["store"], json!({"calls": 1, "errors": 0}), "{status}");
    assert_eq!(status["numbers"]["tools"]["update"], json!({"calls": 1, "errors": 1}), "{status}");
    assert!(!status.to_string().contains("canary") && !status.to_string().contains(&owner));
    for token in [None, Some(other.as_str()), Some("kenning_nonsense")] {
        let status = json_of(token);
        assert!(status["no_numbers"].is_string() && status["numbers"].is_null(), "{status}");
    }
    let (code, said) = ask(&format!("{}/mcp", server.url), Some(&owner), &[]);
    assert!(code == Some(0) && said.contains("ready") && said.contains("update"), "{said}");
    let url = server.url.clone();
    drop(server);
    let (code, said) = ask(&url, Some(&owner), &[]);
    assert!(code == Some(5) && said.contains("does not answer"), "{said}");
    assert_eq!(ask("nonsense", None, &[]).0, Some(2));
    assert_eq!(
        ask("http://kenning.example", Some(&owner), &[]).0,
        Some(2),
        "a token is not sent unencrypted"
    );
}

/// A collector of OpenTelemetry: takes what is posted, says that it has it, and keeps the bytes.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = bytes.clone();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(connection);
            // One request after the other, each with its length.
            loop {
                let (mut length, mut head) = (0, String::new());
                while !head.ends_with("\r\n\r\n") {
                    let before = head.len();
                    if reader.read_line(&mut head).unwrap_or(0) == 0 {
                        break;
                    }
                    let line = head[before..].to_ascii_lowercase();
                    if let Some(many) = line.strip_prefix("content-length:") {
                        length = many.trim().parse().expect("a number");
                    }
                }
                let mut body = vec![0; length];
                if head.is_empty() || reader.read_exact(&mut body).is_err() {
                    break;
                }
                assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
                {
                    let mut kept = kept.lock().expect("no panic");
                    kept.extend(head.as_bytes());
                    kept.extend(body);
                    kept.push(b'\n');
                }
                let answer =
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (url, bytes)
}

#[test]
fn traces_have_a_span_for_each_request_and_call_and_nothing_of_what_is_stored() {
    let store = TempStore::new();
    let dir = store.path();
    let (url, bytes) = collector();
    let (key, key_id) = new_key(dir, &["canary-caller", "--owner"]);
    let mut server = HttpServer::start(dir, &["--auth", "keys", "--otlp", &url]);
    let mut client = HttpClient::connect(&server, Era::Modern, Some(&key));
    client.call("create_scope", json!({"scope": "global:canary-scope", "description": "canary"}));
    let stored = client.call(
        "store",
        json!({"topic": "canary-topic", "content": "canary-content", "scope": "global:canary-scope"}),
    );
    let id = stored["structuredContent"]["id"].as_str().expect("an id").to_owned();
    for _ in 0..3 {
        client.call("query", json!({"content": "canary-question"}));
    }
    client.call("update", json!({"id": "K7H9M2PQX8", "content": "canary-nothing"}));
    server.get("/canary-path?canary", &[("authorization", "Bearer canary-key")]);
    let _ = Command::new("kill").arg("-TERM").arg(server.child.id().to_string()).status();
    server.child.wait().expect("it ends, and has sent everything");

    // A session on standard streams has its calls alone.
    let mut command = crate::server(dir);
    command.args(["--otlp", &url]);
    let mut session = Client::start(command, Era::Legacy, "canary-client").expect("it starts");
    session.call("history", json!({})).expect("an answer");
    session.finish().expect("it ends");

    let bytes = bytes.lock().expect("no panic").clone();
    let text = String::from_utf8(bytes).expect("text");
    for secret in ["canary", "kenning_", &id, &key_id] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let mut spans: Vec<Value> = Vec::new();
    for message in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let found = &message["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.extend(found.as_array().expect("spans").iter().cloned());
    }
    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let attribute = |span: &Value, name: &str| {
        let all = span["attributes"].as_array().expect("attributes");
        let found = all.iter().find(|attribute| attribute["key"] == name);
        found.and_then(|found| found["value"]["stringValue"].as_str().map(str::to_owned))
    };
    let counts =
        ["tools/call store", "tools/call query", "tools/call update", "tools/call history", "GET other"];
    assert_eq!(counts.map(|name| named(name).len()), [1, 3, 1, 1, 1], "{spans:?}");
    assert!(named("POST /mcp").len() >= 6, "{spans:?}");
    let (query, update) = (named("tools/call query")[0], named("tools/call update")[0]);
    assert_eq!(attribute(query, "kenning.outcome").as_deref(), Some("ok"));
    assert_eq!(attribute(update, "kenning.outcome").as_deref(), Some("NOT_FOUND"));
    assert_eq!(update["status"]["code"], 2);
    let request = named("POST /mcp").into_iter().find(|span| span["spanId"] == query["parentSpanId"]);
    assert_eq!(request.expect("its request")["traceId"], query["traceId"], "a call is below its request");
    assert!(named("tools/call history")[0]["parentSpanId"].is_null());
}
