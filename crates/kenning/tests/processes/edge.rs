//! Clients of every age and behaviour. A client of an older revision gets nothing that its revision lacks,
//! the memory for answers that a client does not read is bounded, and a call that takes long or is cancelled
//! reports that.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::{call, number, server, start, text};

const ANSWER_MAX: Duration = Duration::from_secs(30);
const FACT: &str = "Blue-green; never on Fridays.";

fn initialize(revision: &str, name: &str) -> Value {
    let hello = json!({
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": name, "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
}

/// Starts a client that speaks an older revision. Like `Era::Legacy`, it does not describe itself in each
/// request.
fn start_at(command: Command, revision: &str, name: &str) -> Client {
    let mut client = Client::start_raw(command, Era::Legacy, name).expect("the server starts");
    client.send_line(initialize(revision, name).to_string().as_bytes()).expect("the server lives");
    let hello = client.receive(ANSWER_MAX).expect("the server answers");
    assert_eq!(hello["result"]["protocolVersion"], revision, "{hello}");
    client.send_line(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).expect("the server lives");
    client
}

#[test]
fn what_a_revision_lacks_is_not_sent() {
    for (revision, has_structured) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", true), ("2025-11-25", true)]
    {
        let store = TempStore::new();
        let mut client = start_at(server(store.path()), revision, "edge");
        let listed = client.request("tools/list", json!({})).expect("a list");
        for tool in listed["tools"].as_array().expect("tools") {
            assert_eq!(tool["outputSchema"].is_object(), has_structured, "{revision}: {tool}");
            assert_eq!(tool["title"].is_string(), has_structured, "{revision}: {tool}");
        }
        for topic in ["deploys", "rollback"] {
            let fact = json!({"name": "store", "arguments": {"topic": topic, "content": FACT}});
            client.request("tools/call", fact).expect("it is stored");
        }
        let query = json!({"name": "query", "arguments": {"content": "Fridays", "limit": 1}});
        let found = client.request("tools/call", query).expect("it is found");
        let kinds: Vec<&str> =
            found["content"].as_array().expect("blocks").iter().map(|block| text(&block["type"])).collect();
        assert_eq!(found["structuredContent"].is_object(), has_structured, "{revision}: {found}");
        assert_eq!(kinds.contains(&"resource_link"), has_structured, "{revision}: {kinds:?}");
        assert!(kinds.contains(&"resource"), "every revision has embedded resources");
        assert!(text(&found["content"][0]["text"]).contains(FACT), "the text stands alone");
        let usage = &found["_meta"]["io.kenning/usage"];
        let structured = found["structuredContent"].to_string().len() as u64;
        let expected = if has_structured { structured } else { number(&usage["content_bytes"]) };
        assert_eq!(number(&usage["bytes_returned"]), expected, "{revision}: {usage}");
        let level = client.request("logging/setLevel", json!({"level": "info"})).expect("it is answered");
        assert_eq!(level, json!({}));
    }
}

#[test]
fn a_newer_client_can_not_set_a_level() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "edge");
    let refused = client.request("logging/setLevel", json!({"level": "info"}));
    assert!(matches!(refused, Err(kenning_server::client::ClientError::Refused { code: -32601, .. })));
}

/// The types of content blocks that a client with this name gets, and its whole reply.
fn kinds_for(dir: &Path, era: Era, name: &str, arguments: &[&str]) -> (Vec<String>, Value) {
    let mut command = server(dir);
    command.args(arguments);
    let mut client = Client::start(command, era, name).expect("the server starts");
    let found = client.call_whole("query", json!({"content": "Fridays", "limit": 1})).expect("a reply");
    let blocks = found["content"].as_array().expect("blocks").clone();
    (blocks.iter().map(|block| text(&block["type"]).to_owned()).collect(), found)
}

#[test]
fn clients_that_show_a_model_every_block_get_text_alone() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "edge");
    for topic in ["deploys", "rollback"] {
        call(&mut client, "store", json!({"topic": topic, "content": FACT}));
    }
    let full = vec!["text", "resource", "resource_link"];
    for era in [Era::Modern, Era::Legacy] {
        for (name, arguments, expected) in [
            ("claude-code", &[][..], vec!["text"]),
            ("mcp", &[], vec!["text"]),
            ("a program", &[], full.clone()),
            ("claude-code", &["--content", "full"], full.clone()),
            ("a program", &["--content", "text"], vec!["text"]),
        ] {
            let (kinds, reply) = kinds_for(store.path(), era, name, arguments);
            assert_eq!(kinds, expected, "{name} {arguments:?}");
            let is_lean = expected.len() == 1;
            let metadata = &reply["structuredContent"]["metadata"];
            assert_eq!(metadata["columns"].is_array(), !is_lean, "{name}: {metadata}");
            assert_eq!(reply["_meta"]["io.kenning/rows"]["columns"].is_array(), is_lean);
            let usage = &reply["_meta"]["io.kenning/usage"];
            let structured = reply["structuredContent"].to_string().len() as u64;
            assert_eq!(number(&usage["bytes_returned"]), structured);
            if is_lean {
                let sent = text(&reply["content"][0]["text"]).len() as u64;
                assert_eq!(number(&usage["content_bytes"]), sent);
            }
        }
    }
}

/// Writes lines without reading any answer until the server takes no more, and returns the server's peak of
/// resident memory.
fn peak_when_unread(lines: &[Vec<u8>]) -> u64 {
    let store = TempStore::new();
    let mut child =
        server(store.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
    let mut input = child.stdin.take().expect("an input");
    let mut output = child.stdout.take().expect("an output");
    let all: Vec<u8> = lines.concat();
    let writer = thread::spawn(move || {
        // The server stops reading at some point, so this write fails when the pipe is closed.
        let _ = input.write_all(&all);
        input
    });
    thread::sleep(Duration::from_secs(3));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it lives");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = peak.trim().trim_end_matches("kB").trim().parse().expect("a number");
    // Once its output is read again, the server answers all lines.
    let reader = thread::spawn(move || {
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read) = output.read(&mut buffer) {
            if read == 0 {
                break;
            }
            bytes += read;
        }
        bytes
    });
    let input = writer.join().expect("it was written");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert!(reader.join().expect("it was read") > 0);
    kib
}

const UNREAD_KIB_MAX: u64 = 64 * 1024;

#[test]
fn what_is_not_read_is_bounded() {
    let opening = || {
        let mut line = initialize("2025-11-25", "edge").to_string().into_bytes();
        line.extend(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        line
    };
    let list =
        |id: u64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n").into_bytes();
    let cancel = |id: u64| {
        let params = format!("{{\"requestId\":{id}}}");
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}\n")
            .into_bytes()
    };
    let many = 40_000;
    let same: Vec<Vec<u8>> = [opening()].into_iter().chain((0..many).map(|_| list(1))).collect();
    let other: Vec<Vec<u8>> = [opening()].into_iter().chain((0..many / 20).map(list)).collect();
    let cancelled: Vec<Vec<u8>> =
        [opening()].into_iter().chain((0..many / 2).flat_map(|id| [list(id), cancel(id)])).collect();
    for (what, lines) in [("one id", same), ("an id each", other), ("cancelled", cancelled)] {
        let peak = peak_when_unread(&lines);
        eprintln!("{what}: {peak} KiB");
        assert!(peak <= UNREAD_KIB_MAX, "{what}: {peak} KiB");
    }
}

#[test]
fn an_id_that_is_under_way_is_refused() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Legacy, "edge");
    let fact = |topic: &str| {
        let call = json!({"name": "store", "arguments": {"topic": topic, "content": FACT}});
        json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": call}).to_string()
    };
    client.send_line(format!("{}\n{}", fact("first"), fact("second")).as_bytes()).expect("it lives");
    let mut answers =
        [client.receive(ANSWER_MAX), client.receive(ANSWER_MAX)].map(|one| one.expect("an answer"));
    answers.sort_by_key(|answer| answer["error"].is_object());
    assert_eq!(answers[0]["result"]["structuredContent"]["tx_id"], 1, "{answers:?}");
    assert_eq!(answers[1]["error"]["code"], -32600, "{answers:?}");
    // After the answer, the id may be used again.
    client.send_line(fact("third").as_bytes()).expect("it lives");
    let answer = client.receive(ANSWER_MAX).expect("an answer");
    assert_eq!(answer["result"]["structuredContent"]["tx_id"], 2, "{answer}");
}

/// Holds the lock of the store's one writer until it is dropped.
fn locked(store: &TempStore) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(store.path().join("store.db")).expect("the store");
    connection.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    connection
}

#[test]
fn a_long_call_tells_that_it_goes_on() {
    let store = TempStore::new();
    for era in [Era::Modern, Era::Legacy] {
        let mut client = start(store.path(), era, "edge");
        call(&mut client, "store", json!({"topic": "first", "content": FACT}));
        let lock = locked(&store);
        let arguments = json!({"topic": "second", "content": FACT});
        let (id, mut message) =
            client.message("tools/call", json!({"name": "store", "arguments": arguments}));
        message["params"]["_meta"]["progressToken"] = json!("t");
        client.send_line(message.to_string().as_bytes()).expect("the server lives");
        let mut last = 0.0;
        for _ in 0..2 {
            let notice = client.receive(ANSWER_MAX).expect("a notice");
            assert_eq!(notice["method"], "notifications/progress", "{notice}");
            assert_eq!(notice["params"]["progressToken"], "t");
            let progress = notice["params"]["progress"].as_f64().expect("a number");
            assert!(progress > last, "it grows: {notice}");
            last = progress;
        }
        drop(lock);
        let since = Instant::now();
        loop {
            let message = client.receive(ANSWER_MAX.saturating_sub(since.elapsed())).expect("an answer");
            if message["id"] == json!(id) {
                assert!(message["result"]["structuredContent"]["tx_id"].is_number(), "{message}");
                break;
            }
        }
    }
}

#[test]
fn a_cancelled_write_says_what_became_of_it() {
    let store = TempStore::new();
    for era in [Era::Modern, Era::Legacy] {
        let mut client = start(store.path(), era, "edge");
        let before = number(&call(&mut client, "store", json!({"topic": "a", "content": FACT}))["tx_id"]);
        let lock = locked(&store);
        // The first call is in the commit queue; the second waits for the first, because an undo is not
        // committed together with other writes.
        let fact = json!({"topic": "b", "content": FACT});
        let first = client.begin("tools/call", json!({"name": "store", "arguments": fact})).expect("sent");
        let undo = json!({"name": "undo", "arguments": {}});
        let second = client.begin("tools/call", undo).expect("sent");
        thread::sleep(Duration::from_millis(300));
        for id in [first, second] {
            let cancelled = json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": id},
            });
            client.send_line(cancelled.to_string().as_bytes()).expect("the server lives");
        }
        thread::sleep(Duration::from_millis(100));
        drop(lock);
        let answers =
            [client.receive(ANSWER_MAX), client.receive(ANSWER_MAX)].map(|one| one.expect("an answer"));
        let of = |id: u64| answers.iter().find(|answer| answer["id"] == json!(id)).expect("it is answered");
        assert_eq!(of(first)["result"]["structuredContent"]["tx_id"], json!(before + 1), "{answers:?}");
        let error = &of(second)["result"]["structuredContent"]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["outcome"]),
            (&json!("TIMEOUT"), &json!("not_applied"))
        );
        let head = call(&mut client, "history", json!({"limit": 1}));
        assert_eq!(number(&head["items"][0]["tx_id"]), before + 1, "the undo was not done");
    }
}
