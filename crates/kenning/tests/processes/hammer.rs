//! Input that no client should send. Each line gets exactly the answer that the protocol demands, and the
//! server continues to work.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::server;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long a server may take to end after the end of its input.
const EXIT_MAX: Duration = Duration::from_secs(1);

/// The messages that the server has received before the line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    /// Nothing: the line is the first of the connection.
    Nothing,
    /// `server/discover`, which a client may send before it decides how to speak.
    Discover,
    /// A request of 2026-07-28.
    Request,
    /// An older client's handshake.
    Initialize,
}

impl After {
    const ALL: [After; 4] = [After::Nothing, After::Discover, After::Request, After::Initialize];

    fn request(self, id: Value, method: &str, params: Value) -> Vec<u8> {
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if self != After::Initialize && params.is_object() {
            request["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        line(&request)
    }

    /// What a client sends first, and how many answers it gets.
    fn opening(self) -> (Vec<u8>, usize) {
        match self {
            After::Nothing => (Vec::new(), 0),
            After::Discover => (self.request(json!("opening"), "server/discover", json!({})), 1),
            After::Request => (self.request(json!("opening"), "prompts/list", json!({})), 1),
            After::Initialize => {
                let hello = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "hammer", "version": "1"},
                });
                let mut lines = self.request(json!("opening"), "initialize", hello);
                lines.extend(line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
                (lines, 1)
            }
        }
    }
}

enum Expected {
    Nothing,
    Error(Value, i64),
    /// A result for this id.
    Result(Value),
}

use Expected::{Error, Nothing};

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Lines whose meaning does not depend on earlier messages.
fn broken_lines() -> Vec<(&'static str, Vec<u8>, Expected)> {
    let null = Value::Null;
    let raw = |text: &str| format!("{text}\n").into_bytes();
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(5 * 1024 * 1024));
    let with_id = |id: &str| raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    vec![
        ("not JSON", raw("hello"), Error(null.clone(), PARSE_ERROR)),
        ("half an object", raw(r#"{"jsonrpc":"2.0","id":1,"#), Error(null.clone(), PARSE_ERROR)),
        ("two objects", raw(r#"{"a":1}{"b":2}"#), Error(null.clone(), PARSE_ERROR)),
        (
            "invalid UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n".to_vec(),
            Error(null.clone(), PARSE_ERROR),
        ),
        ("a byte order mark and not JSON", raw("\u{feff}hello"), Error(null.clone(), PARSE_ERROR)),
        (
            "a lone surrogate",
            raw(r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#),
            Error(null.clone(), PARSE_ERROR),
        ),
        (
            "a NUL byte",
            raw("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\0b\"}"),
            Error(null.clone(), PARSE_ERROR),
        ),
        ("nesting 200 deep", raw(&deep), Error(null.clone(), PARSE_ERROR)),
        ("a line of 5 MiB", raw(&long), Error(json!(1), INVALID_REQUEST)),
        (
            "a line of 5 MiB that is no object",
            raw(&"x".repeat(5 * 1024 * 1024)),
            Error(null.clone(), INVALID_REQUEST),
        ),
        ("an empty line", raw(""), Nothing),
        ("a blank line", raw(" \t \r"), Nothing),
        ("null", raw("null"), Error(null.clone(), INVALID_REQUEST)),
        ("a number", raw("17"), Error(null.clone(), INVALID_REQUEST)),
        ("a text", raw(r#""tools/list""#), Error(null.clone(), INVALID_REQUEST)),
        ("an empty object", raw("{}"), Error(null.clone(), INVALID_REQUEST)),
        ("an empty batch", raw("[]"), Error(null.clone(), INVALID_REQUEST)),
        (
            "a batch",
            raw(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#),
            Error(null.clone(), INVALID_REQUEST),
        ),
        ("no version", raw(r#"{"id":5,"method":"tools/list"}"#), Error(json!(5), INVALID_REQUEST)),
        (
            "another version",
            raw(r#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#),
            Error(json!(5), INVALID_REQUEST),
        ),
        ("id null", with_id("null"), Error(null.clone(), INVALID_REQUEST)),
        ("id an object", with_id("{}"), Error(null.clone(), INVALID_REQUEST)),
        ("id a list", with_id("[1]"), Error(null.clone(), INVALID_REQUEST)),
        ("id a truth value", with_id("true"), Error(null.clone(), INVALID_REQUEST)),
        ("id a fraction", with_id("1.5"), Error(json!(1.5), INVALID_REQUEST)),
        ("id beyond 64 bits", with_id("18446744073709551615"), Error(json!(u64::MAX), INVALID_REQUEST)),
        ("no method", raw(r#"{"jsonrpc":"2.0","id":6}"#), Error(json!(6), INVALID_REQUEST)),
        ("method a number", raw(r#"{"jsonrpc":"2.0","id":6,"method":1}"#), Error(json!(6), INVALID_REQUEST)),
        (
            "params a number",
            raw(r#"{"jsonrpc":"2.0","id":6,"method":"tools/list","params":5}"#),
            Error(json!(6), INVALID_PARAMS),
        ),
        (
            "params a list",
            raw(r#"{"jsonrpc":"2.0","id":6,"method":"tools/list","params":[]}"#),
            Error(json!(6), INVALID_PARAMS),
        ),
        ("an unknown notification", raw(r#"{"jsonrpc":"2.0","method":"notifications/none"}"#), Nothing),
        ("a notification that is a request", raw(r#"{"jsonrpc":"2.0","method":"tools/list"}"#), Nothing),
        (
            "a notification with bad params",
            raw(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#),
            Nothing,
        ),
        (
            "a notification with params that are no object",
            raw(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":5}"#),
            Nothing,
        ),
        (
            "a cancellation of nothing",
            raw(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}"#),
            Nothing,
        ),
        ("an answer that nobody waits for", raw(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#), Nothing),
        (
            "an error that nobody waits for",
            raw(r#"{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"x"}}"#),
            Nothing,
        ),
        (
            "an error without an id",
            raw(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}"#),
            Nothing,
        ),
        ("an answer of no form", raw(r#"{"jsonrpc":"2.0","id":99,"error":"x"}"#), Nothing),
    ]
}

/// Well-formed requests for things that do not exist.
fn refused_requests(after: After) -> Vec<(&'static str, Vec<u8>, Expected)> {
    let id = json!("bad");
    let request = |method: &str, params: Value| after.request(id.clone(), method, params);
    let mut cases = vec![
        ("an unknown method", request("none/such", json!({})), Error(id.clone(), METHOD_NOT_FOUND)),
        (
            "an unknown tool",
            request("tools/call", json!({"name": "none"})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "a call without a name",
            request("tools/call", json!({"arguments": {}})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "a name that is a number",
            request("tools/call", json!({"name": 7})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "arguments that are a list",
            request("tools/call", json!({"name": "query", "arguments": []})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "arguments that are a text",
            request("tools/call", json!({"name": "query", "arguments": "x"})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "a cursor that we never gave",
            request("tools/list", json!({"cursor": "x"})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "a read without an address",
            request("resources/read", json!({})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        ("a prompt without a name", request("prompts/get", json!({})), Error(id.clone(), INVALID_PARAMS)),
        (
            "an unknown prompt",
            request("prompts/get", json!({"name": "none"})),
            Error(id.clone(), INVALID_PARAMS),
        ),
        (
            "a completion of nothing",
            request("completion/complete", json!({})),
            Error(id.clone(), INVALID_PARAMS),
        ),
    ];
    if after == After::Initialize {
        cases.push((
            "a subscription without an address",
            request("resources/subscribe", json!({})),
            Error(id.clone(), INVALID_PARAMS),
        ));
        return cases;
    }
    if after == After::Nothing {
        let hello = json!({"jsonrpc": "2.0", "id": "bad", "method": "initialize", "params": {}});
        cases.push(("a handshake without a version", line(&hello), Error(id.clone(), INVALID_PARAMS)));
    }
    let bare = |method: &str| line(&json!({"jsonrpc": "2.0", "id": "bad", "method": method, "params": {}}));
    let mut from_the_future = json!({"jsonrpc": "2.0", "id": "bad", "method": "tools/list", "params": {}});
    from_the_future["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    cases.extend([
        ("a request that does not say who asks", bare("tools/list"), Error(id.clone(), INVALID_PARAMS)),
        ("an unknown protocol version", line(&from_the_future), Error(id.clone(), UNSUPPORTED_VERSION)),
        (
            "a listen without a filter",
            request("subscriptions/listen", json!({})),
            Error(id.clone(), INVALID_PARAMS),
        ),
    ]);
    cases
}

/// Lines that look odd but are valid.
fn odd_requests(after: After) -> Vec<(&'static str, Vec<u8>, Expected)> {
    let id = json!("odd");
    let good = after.request(id.clone(), "tools/list", json!({}));
    let text = String::from_utf8(good.clone()).expect("JSON is UTF-8");
    let text = text.trim_end();
    let arguments = json!({"name": "query", "arguments": {"content": "a\u{0}b"}});
    let result = || Expected::Result(json!("odd"));
    vec![
        ("a byte order mark", format!("\u{feff}{text}\n").into_bytes(), result()),
        ("the line ends of Windows", format!("{text}\r\n").into_bytes(), result()),
        ("blanks around it", format!("  {text} \t\n").into_bytes(), result()),
        ("an id that is there twice", format!("{{\"id\":1,{}\n", &text[1..]).into_bytes(), result()),
        ("a field that nobody knows", format!("{{\"extra\":[1],{}\n", &text[1..]).into_bytes(), result()),
        ("an escaped NUL", after.request(id, "tools/call", arguments), result()),
    ]
}

#[test]
fn every_line_gets_its_answer_and_the_server_goes_on() {
    let mut failed = Vec::new();
    for after in After::ALL {
        let mut cases = broken_lines();
        cases.extend(refused_requests(after));
        cases.extend(odd_requests(after));
        for (name, bytes, expected) in cases {
            if let Err(what) = try_line(after, &bytes, &expected) {
                failed.push(format!("{name}, after {after:?}: {what}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Starts a server, and sends it the line and then a valid request.
fn try_line(after: After, bytes: &[u8], expected: &Expected) -> Result<(), String> {
    let store = TempStore::new();
    let mut raw = Raw::start(&store);
    let (opening, answers) = after.opening();
    raw.send(&opening);
    for _ in 0..answers {
        raw.message()?;
    }
    raw.send(bytes);
    raw.send(&after.request(json!("next"), "prompts/list", json!({})));
    // The answer to the invalid line may come after the answer to the valid one, but both come before the
    // output ends.
    let mut messages = Vec::new();
    loop {
        let message = raw.message()?;
        if message["id"] == "next" {
            match message["result"].is_object() {
                true => break,
                false => return Err(format!("the next good request got {message}")),
            }
        }
        messages.push(message);
    }
    messages.extend(raw.finish()?);
    let right = match (expected, messages.as_slice()) {
        (Expected::Nothing, []) => true,
        (Expected::Error(id, code), [only]) => {
            only["id"] == *id && only["error"]["code"] == *code && only["error"]["message"].is_string()
        }
        (Expected::Result(id), [only]) => only["id"] == *id && only["result"].is_object(),
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("got {messages:?}")) }
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    for after in [After::Request, After::Initialize] {
        let store = TempStore::new();
        let mut raw = Raw::start(&store);
        // Like `printf ... | kenning serve`: the whole input arrives at once and then ends.
        let (mut lines, _) = after.opening();
        // Few enough calls to be finished long before the server stops waiting for its running calls.
        const CALLS: usize = 20;
        for id in 0..CALLS {
            let call = json!({"name": "store", "arguments": {"topic": "t", "content": format!("c {id}")}});
            lines.extend(after.request(json!(id), "tools/call", call));
        }
        raw.send(&lines);
        let messages = raw.finish().unwrap_or_else(|what| panic!("{after:?}: {what}"));
        let stored =
            messages.iter().filter(|message| message["result"]["structuredContent"]["id"].is_string());
        assert_eq!(stored.count(), CALLS, "{after:?}: every call was answered");
        assert_eq!(messages.len(), CALLS + 1, "{after:?}: and nothing else but the opening");
    }
}

#[test]
fn the_server_goes_when_its_input_ends() {
    let listen = || {
        let filter = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
        After::Request.request(json!(1), "subscriptions/listen", filter)
    };
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    let without_end = |bytes: Vec<u8>| bytes[..bytes.len() - 1].to_vec();
    let list = || After::Request.request(json!(1), "tools/list", json!({}));
    let (hello, _) = After::Initialize.opening();
    type Check = fn(&[Value]) -> bool;
    let cases: Vec<(&str, Vec<u8>, Check)> = vec![
        ("nothing was asked", Vec::new(), |messages| messages.is_empty()),
        ("only a line end came", b"\n".to_vec(), |messages| messages.is_empty()),
        ("a handshake", hello, |messages| messages.len() == 1 && messages[0]["result"].is_object()),
        // The acknowledgement may or may not be sent before the server notices the end of the input, but the
        // request gets its result.
        ("a subscription was asked for", listen(), |messages| {
            messages.last().is_some_and(|last| last["id"] == 1 && last["result"].is_object())
        }),
        ("in the middle of a line", half(list()), |messages| {
            messages.len() == 1 && messages[0]["error"]["code"] == PARSE_ERROR
        }),
        ("the last line has no end", without_end(list()), |messages| {
            messages.len() == 1 && messages[0]["result"]["tools"].is_array()
        }),
    ];
    for (name, bytes, check) in cases {
        let store = TempStore::new();
        let mut raw = Raw::start(&store);
        raw.send(&bytes);
        let messages = raw.finish().unwrap_or_else(|what| panic!("{name}: {what}"));
        assert!(check(&messages), "{name}: got {messages:?}");
    }
}

#[test]
fn the_server_goes_when_an_established_subscription_is_open() {
    let store = TempStore::new();
    let mut raw = Raw::start(&store);
    let filter = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    raw.send(&After::Request.request(json!(1), "subscriptions/listen", filter));
    let accepted = raw.message().expect("an acknowledgement");
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged");
    let rest = raw.finish().expect("it goes in time");
    // The result of the request is also the notice that the stream has ended.
    let [only] = rest.as_slice() else { panic!("one answer, not {rest:?}") };
    assert!(only["id"] == 1 && only["result"].is_object(), "{only}");
}

#[test]
fn a_client_that_does_not_read_any_more_is_no_disaster() {
    let store = TempStore::new();
    let mut command = server(store.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("its input is ours");
    for id in 0..10 {
        let call = json!({"name": "store", "arguments": {"topic": "t", "content": format!("c {id}")}});
        // The server may have ended already, so errors are ignored.
        let _ = input.write_all(&After::Request.request(json!(id), "tools/call", call));
    }
    drop(input);
    let since = Instant::now();
    let status = wait(&mut child);
    assert_eq!((status, since.elapsed() < EXIT_MAX), (Some(0), true), "after {:?}", since.elapsed());
}

/// A server process with raw access to its streams.
struct Raw {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
}

impl Raw {
    fn start(store: &TempStore) -> Raw {
        let mut command = server(store.path());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("its output is ours");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Raw { child, input, lines }
    }

    fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(bytes).expect("the server reads");
    }

    fn message(&mut self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(ANSWER_MAX).map_err(|error| format!("no answer: {error}"))?;
        parse(&line)
    }

    /// Ends the input and returns the remaining messages. The server must end at once and with code 0.
    fn finish(mut self) -> Result<Vec<Value>, String> {
        drop(self.input.take());
        let since = Instant::now();
        let status = wait(&mut self.child);
        let took = since.elapsed();
        let messages = self.lines.iter().map(|line| parse(&line)).collect::<Result<_, _>>()?;
        match (status, took < EXIT_MAX) {
            (Some(0), true) => Ok(messages),
            _ => Err(format!("it went with {status:?} after {took:?}, having written {messages:?}")),
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // The process may have ended already, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    child.wait().expect("a child can be waited for").code()
}

fn parse(line: &[u8]) -> Result<Value, String> {
    let message: Value = serde_json::from_slice(line)
        .map_err(|_| format!("it wrote what is not JSON: {}", String::from_utf8_lossy(line)))?;
    match message["jsonrpc"] == "2.0" {
        true => Ok(message),
        false => Err(format!("it wrote what is not JSON-RPC: {message}")),
    }
}
