//! `serve --connect`: for a client on standard streams, a remote server works like a local one.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kenning_presentation::{Block, Reply};
use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use kenning_testkit::transcript::{Player, Transcript};
use serde_json::{Map, Value, json};

use crate::http::{HttpServer, new_key};
use crate::{text, without_settings};

/// A client that connects through `serve --connect` to the server at this address, with this key in the
/// environment.
pub fn start(url: &str, era: Era, name: &str, key: Option<&str>) -> Client {
    Client::start(command(url, key), era, name).expect("the server answers")
}

fn command(url: &str, key: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    without_settings(&mut command).args(["serve", "--connect", url]);
    if let Some(key) = key {
        command.env("KENNING_TOKEN", key);
    }
    command
}

/// One remote server for all actors. Each actor has a key and a connecting process of its own.
struct Connected {
    store: TempStore,
    server: HttpServer,
    era: Era,
    clients: HashMap<String, Client>,
}

impl Player for Connected {
    fn call(&mut self, actor: &str, tool: &str, arguments: Map<String, Value>) -> Reply {
        let (store, server, era) = (&self.store, &self.server, self.era);
        let client = self.clients.entry(actor.to_owned()).or_insert_with(|| {
            let (key, _) = new_key(store.path(), &[actor, "--owner"]);
            start(&server.url, era, actor, Some(&key))
        });
        let mut result = client.call_whole(tool, Value::Object(arguments)).expect("a result");
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
fn a_remote_server_replies_as_the_transcripts_say() {
    let folder = Path::new("../tools/tests/memory");
    for (name, era) in [("undo", Era::Legacy), ("relate", Era::Modern)] {
        let transcript = Transcript::read(&folder.join(format!("{name}.md")));
        let store = TempStore::new();
        let server = HttpServer::start(store.path(), &["--auth", "keys"]);
        let mut player = Connected { store, server, era, clients: HashMap::new() };
        for (call, played) in transcript.calls.iter().zip(transcript.play(&mut player)) {
            let (line, shown, expected) = (&call.line, &played.shown, &call.expected);
            assert!(played.is_like(call), "{name}: {line}\n{shown}\nbut expected\n{expected}");
        }
    }
}

#[test]
fn calls_sent_without_waiting_take_effect_in_their_order() {
    let store = TempStore::new();
    let server = HttpServer::start(store.path(), &[]);
    for era in [Era::Legacy, Era::Modern] {
        let mut client = start(&server.url, era, "hasty", None);
        let mut last = 0;
        for round in 0..10 {
            let entry = json!({"topic": "round", "content": format!("Round {round} of {era:?} is over.")});
            client.begin("tools/call", json!({"name": "store", "arguments": entry})).expect("sent");
            let count = json!({"name": "query", "arguments": {"limit": 1}});
            last = client.begin("tools/call", count).expect("sent");
        }
        let many = loop {
            let message = client.receive(Duration::from_secs(20)).expect("an answer");
            if message["id"] == json!(last) {
                break message["result"]["structuredContent"]["total_count"].clone();
            }
        };
        assert_eq!(many, if era == Era::Legacy { 10 } else { 20 });
        let (code, took) = client.finish().expect("it ends");
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

#[test]
fn a_restarted_server_is_found_again() {
    let store = TempStore::new();
    let server = HttpServer::start(store.path(), &[]);
    let url = server.url.clone();
    let mut old = start(&url, Era::Legacy, "old", None);
    let mut new = start(&url, Era::Modern, "new", None);
    old.request("resources/subscribe", json!({"uri": "knowledge://entries"})).expect("subscribed");
    let listen = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    new.begin("subscriptions/listen", listen).expect("sent");
    let acknowledged = new.notice(Duration::from_secs(10)).expect("connected").expect("in time");
    assert!(acknowledged.to_string().contains("acknowledged"), "{acknowledged}");
    crate::call(&mut old, "store", json!({"topic": "before", "content": "Told before the restart."}));
    drop(server);
    let address = url.trim_start_matches("http://").to_owned();
    let _server = HttpServer::start_at(store.path(), &address, &[]);
    // The restarted server does not know this client's session, and the client writes in it.
    let stored = crate::call(&mut old, "store", json!({"topic": "after", "content": "Told after it."}));
    assert_eq!(stored["tx_id"], 2);
    // Both clients are notified, because after a gap everything is announced as possibly changed.
    for (name, client) in [("old", &mut old), ("new", &mut new)] {
        let since = Instant::now();
        let mut has_heard_of_new = false;
        while !has_heard_of_new {
            assert!(since.elapsed() < Duration::from_secs(30), "{name} hears nothing");
            let notice = client.notice(Duration::from_secs(30)).expect("connected").expect("in time");
            let is_update = notice["method"] == "notifications/resources/updated";
            let change = &notice["params"]["_meta"]["io.kenning/change"];
            has_heard_of_new = is_update && (change.is_null() || change["tx_id"] == 2);
        }
    }
    assert_eq!(crate::call(&mut new, "query", json!({}))["total_count"], 2);
}

#[test]
fn a_server_that_is_not_there_or_refuses_is_told_clearly() {
    // No process listens on a port that was just released.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let away = format!("http://{free}");
    let refused = Client::start(command(&away, None), Era::Legacy, "early").err().expect("no handshake");
    assert!(refused.to_string().contains("there is no Kenning server at"), "{refused}");
    let mut client = start(&away, Era::Modern, "early", None);
    let reply = client.call("store", json!({"topic": "a", "content": "b"})).expect("an answer");
    assert_eq!(reply["error"]["code"], "BACKEND_UNAVAILABLE", "{reply}");
    assert_eq!(reply["error"]["details"]["outcome"], "not_applied", "{reply}");

    let store = TempStore::new();
    let server = HttpServer::start(store.path(), &["--auth", "keys"]);
    let file = store.path().join("token");
    std::fs::write(&file, "kenning_0_wrong\n").expect("writable");
    let mut with_file = command(&server.url, None);
    with_file.arg("--token-file").arg(&file);
    let mut client = Client::start(with_file, Era::Modern, "late").expect("it starts");
    let reply = client.call("query", json!({})).expect("an answer");
    assert_eq!(reply["error"]["code"], "UNAUTHENTICATED", "{reply}");
    assert!(text(&reply["error"]["message"]).contains("--token-file"), "{reply}");
    // A new token in the file is used without a restart.
    let (key, _) = new_key(store.path(), &["late", "--owner"]);
    std::fs::write(&file, key).expect("writable");
    assert_eq!(client.call("query", json!({})).expect("an answer")["total_count"], 0);

    for (arguments, reason) in [
        (&["--connect", "kenning.example"][..], "is no address"),
        (&["--connect", "http://kenning.example/mcp"][..], "unencrypted"),
        (&["--connect", "https://kenning.example", "--token-file", "/nowhere"][..], "can't be read"),
        (&["--connect", "https://kenning.example", "--http", "127.0.0.1:0"][..], "--http"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        without_settings(&mut command).arg("serve").args(arguments).env("KENNING_TOKEN", "secret");
        let done = command.stdin(std::process::Stdio::null()).output().expect("the program runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(reason) && !said.contains("secret"), "{arguments:?}: {said}");
    }
}
