//! Real server processes on one data directory: killed during work, many at once, watched, and fed with input
//! that no client should send. All requests and answers go over their standard streams, as with an agent.

mod connect;
mod console;
mod database;
mod demo;
mod edge;
mod elicitation;
mod hammer;
mod http;
mod idempotency;
mod isolation;
mod kill;
mod kill_index;
mod many;
mod order;
mod project;
mod purge;
mod rows;
mod subscriptions;
mod teams;
mod tokens;
mod tool_list;
mod transcripts;
mod updates;

use std::path::Path;
use std::process::Command;

use kenning_server::client::{Client, Era};
use serde_json::{Value, json};

fn server(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    // The data directory is the working directory, because no project file names a scope there.
    command.arg("serve").arg("--data-dir").arg(dir).current_dir(dir);
    with_store(without_settings(&mut command), dir);
    command
}

/// Makes a command use the store of a test's directory, which is in the test database if there is one.
fn with_store<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    if let Some(url) = kenning_testkit::test_database(dir) {
        let database = std::env::var("KENNING_TEST_DATABASE").expect("it was read");
        command.env("KENNING_DATABASE", database).env("KENNING_STORE", url.store());
    }
    command
}

/// Removes settings of the developer's own environment.
fn without_settings(command: &mut Command) -> &mut Command {
    for name in [
        "DATA_DIR",
        "DATABASE",
        "STORE",
        "SCOPE",
        "ACTOR",
        "READ_ONLY",
        "TOOLSETS",
        "TOOL_NAMES",
        "ROWS_LISTEN",
        "CONTENT",
        "LOG",
        "HTTP",
        "AUTH",
        "CONNECT",
        "TOKEN",
        "TOKEN_FILE",
        "JWT",
        "LIMITS",
        "AUDIT_LOG",
        "OTLP",
    ] {
        command.env_remove(format!("KENNING_{name}"));
    }
    for host in ["CLAUDE", "GEMINI", "CURSOR"] {
        command.env_remove(format!("{host}_PROJECT_DIR"));
    }
    command
}

fn start(dir: &Path, era: Era, name: &str) -> Client {
    Client::start(server(dir), era, name).expect("the server starts")
}

/// Starts a server whose calls go to this scope when they name none.
fn start_in(dir: &Path, era: Era, name: &str, scope: &str) -> Client {
    let mut command = server(dir);
    command.args(["--scope", scope]);
    Client::start(command, era, name).expect("the server starts")
}

/// Calls a tool that must succeed.
fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let shown = format!("{tool} {arguments}");
    let reply = client.call(tool, arguments).expect("the server answers");
    assert!(reply["error"].is_null(), "{shown}: {reply}");
    reply
}

/// One page of a resource.
fn read(client: &mut Client, uri: &str) -> Value {
    let read = client.request("resources/read", json!({"uri": uri})).expect("a resource that can be read");
    let text = read["contents"][0]["text"].as_str().expect("resources are text");
    serde_json::from_str(text).expect("and the text is JSON")
}

/// All items of a resource, page after page.
fn read_all(client: &mut Client, uri: &str) -> Vec<Value> {
    let joint = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{joint}limit=200");
    let mut page = read(client, &uri);
    let mut items = Vec::new();
    loop {
        items.append(page["items"].as_array_mut().expect("a page has items"));
        match page["next_cursor"].as_str() {
            Some(cursor) => page = read(client, &format!("{uri}&cursor={cursor}")),
            None => return items,
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
