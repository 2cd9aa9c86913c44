//! The rows behind a reply, fetched over HTTP by URL with the library's own client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use mcp_dual_response::Sort;
use mcp_dual_response::client::{BatchOptions, DualResponseClient, FetchOptions, ParsedDualResponse};
use serde_json::{Value, json};

use crate::{call, read, server, start};

const ENTRIES: usize = 120;

fn start_with_rows(dir: &Path) -> Client {
    let mut command = server(dir);
    command.args(["--rows-listen", "127.0.0.1:0"]);
    Client::start(command, Era::Modern, "rows").expect("the server starts")
}

fn fill(client: &mut Client) {
    for number in 0..ENTRIES {
        let entry = json!({"topic": format!("topic {number:03}"), "content": "A common fact.", "confidence": (number % 10) as f64 / 10.0});
        call(client, "store", entry);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn parsed(result: &Value) -> ParsedDualResponse {
    let client = DualResponseClient::new().expect("a client");
    client.parse(result).unwrap_or_else(|| panic!("no dual response: {result}"))
}

#[test]
fn the_client_of_the_library_reads_what_a_query_found() {
    let store = TempStore::new();
    let mut client = start_with_rows(store.path());
    fill(&mut client);
    let result = client
        .call_whole("query", json!({"content": "common", "limit": 10, "detail": "full"}))
        .expect("a reply");
    let response = parsed(&result);
    assert_eq!((response.total_count, response.sample.len()), (ENTRIES as u64, 10));
    // Later writes do not change the set.
    call(&mut client, "store", json!({"topic": "new", "content": "Another common fact."}));
    runtime().block_on(async {
        let all = response.fetch_all(BatchOptions::new().batch_size(50)).await.expect("all rows");
        assert_eq!(all.len(), ENTRIES);
        assert_eq!(all[..10], response.sample[..]);
        let page = FetchOptions::default().offset(5).limit(3).sort(Sort::descending("topic"));
        let page = response.fetch(page).await.expect("a page");
        let topics: Vec<&str> = page.data.iter().filter_map(|row| row["topic"].as_str()).collect();
        assert_eq!(topics, ["topic 114", "topic 113", "topic 112"]);
        assert_eq!(response.metadata().await.expect("metadata").total_count, ENTRIES as u64);
        response.delete().await.expect("it is deleted");
        let gone = response.fetch(FetchOptions::default()).await.expect_err("it is gone");
        assert_eq!(gone.code().as_str(), "RESOURCE_NOT_FOUND");
    });
}

#[test]
fn a_set_goes_on_where_another_process_began_it() {
    let store = TempStore::new();
    let mut client = start_with_rows(store.path());
    fill(&mut client);
    let first = call(&mut client, "query", json!({"content": "common", "limit": 10}));
    let uri = first["resource"]["uri"].as_str().expect("a set").to_owned();
    let page = call(&mut client, "read_rows", json!({"resource": uri, "limit": 60}));
    client.kill();
    let mut client = start(store.path(), Era::Legacy, "rows");
    let rest = read(&mut client, &format!("{uri}?offset={}&limit=100", page["next_offset"]));
    let rows = |page: &Value| page["data"].as_array().expect("rows").clone();
    let all = [rows(&page), rows(&rest)].concat();
    assert_eq!(all.len(), ENTRIES);
    let ids: std::collections::BTreeSet<String> = all.iter().map(|row| row["id"].to_string()).collect();
    assert_eq!(ids.len(), ENTRIES, "no row is missing and none comes twice");
    let refused = client.request("resources/read", json!({"uri": "kenning://rows/none"}));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn rows_are_served_on_this_machine_only() {
    let store = TempStore::new();
    let refused = server(store.path()).args(["--rows-listen", "0.0.0.0:0"]).output().expect("it runs");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no loopback address"), "{refused:?}");

    let mut client = start_with_rows(store.path());
    fill(&mut client);
    let found = call(&mut client, "query", json!({"limit": 10}));
    // Another session with the same port works without serving rows.
    let port =
        found["resource"]["url"].as_str().and_then(|url| url.split(['/', ':']).nth(4)).expect("a port");
    let mut command = server(store.path());
    command.args(["--rows-listen", &format!("127.0.0.1:{port}")]);
    let mut other = Client::start(command, Era::Modern, "other").expect("the server starts");
    let without = call(&mut other, "query", json!({"limit": 10}));
    assert!(without["resource"]["url"].is_null() && without["resource"]["uri"].is_string(), "{without}");
    let url = found["resource"]["url"].as_str().expect("an address");
    let (host, path) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("http");
    let status = |headers: &str| {
        let mut stream = TcpStream::connect(host).expect("it listens");
        write!(stream, "GET /{path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").expect("it is asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!(status(&format!("Host: {host}\r\n")), "200");
    assert_eq!(status("Host: evil.example\r\n"), "403");
    assert_eq!(status(&format!("Host: {host}\r\nOrigin: http://evil.example\r\n")), "403");
}

#[test]
fn connections_are_bounded_and_do_not_wait_for_ever() {
    // A little longer than the server waits for the head of a request.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
    let store = TempStore::new();
    let mut client = start_with_rows(store.path());
    fill(&mut client);
    let result = client.call_whole("query", json!({"limit": 10, "detail": "full"})).expect("a reply");
    let url = parsed(&result).resource_url.clone().expect("rows are served").to_string();
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
    // More connections than are allowed, each with half of a request head.
    let mut slow: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(address).expect("it is taken or queued")).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /resources HTTP/1.1\r\nHost: ").expect("it is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    }
    let handles = std::fs::read_dir(format!("/proc/{}/fd", client.pid()));
    if let Ok(handles) = handles {
        assert!(handles.count() < 100, "not all connections were taken");
    }
    let mut first = slow.swap_remove(0);
    let mut answer = Vec::new();
    first.read_to_end(&mut answer).expect("it is closed within the limit");
    runtime().block_on(async {
        let rows =
            parsed(&result).fetch_all(BatchOptions::new()).await.expect("rows are served all the same");
        assert_eq!(rows.len(), ENTRIES);
    });
    client.finish().expect("the server ends");
}
