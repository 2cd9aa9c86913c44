//! The listed tools depend on the content of the store. Clients are notified when the list changes, whichever
//! process made the change.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::subscriptions::SOON;
use crate::{call, server, start, text, without_settings};

const CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn tools_for_documents_come_and_go_with_them() {
    for era in [Era::Modern, Era::Legacy] {
        let (store, docs) = (TempStore::new(), tempfile::tempdir().expect("a directory"));
        let mut client = start(store.path(), era, "list");
        assert!(!lists_documents(&mut client), "there are none");
        if era == Era::Modern {
            let filter = json!({"notifications": {"toolsListChanged": true}});
            client.begin("subscriptions/listen", filter).expect("the server lives");
            let accepted = next(&mut client, "notifications/subscriptions/acknowledged");
            assert_eq!(accepted["params"]["notifications"], json!({"toolsListChanged": true}));
        }
        // The first document comes from another process.
        ingest(store.path(), docs.path(), &[], &["one.md"]);
        let notice = next(&mut client, CHANGED);
        let meta = &notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(meta.is_number(), era == Era::Modern, "{notice}");
        assert!(lists_documents(&mut client), "{era:?}");
        // Further documents do not change the list, nor does the removal of one while others remain.
        ingest(store.path(), docs.path(), &[], &["one.md", "two.md"]);
        ingest(store.path(), docs.path(), &[], &["two.md"]);
        call(&mut client, "store", json!({"topic": "lists", "content": "They change seldom."}));
        ingest(store.path(), docs.path(), &[], &[]);
        next(&mut client, CHANGED);
        assert!(!lists_documents(&mut client), "{era:?}");
        // Undoing the removal through this server brings the tools back.
        let history = call(&mut client, "history", json!({"limit": 1}));
        let undo = json!({"tx_id": history["items"][0]["tx_id"], "any_actor": true});
        call(&mut client, "undo", undo);
        next(&mut client, CHANGED);
        assert!(lists_documents(&mut client), "{era:?}");
        assert_eq!(client.earlier_notices(), Vec::<Value>::new(), "each change was told once");
    }
}

#[test]
fn tools_for_patterns_come_with_a_catalogue_and_bring_no_others() {
    for era in [Era::Modern, Era::Legacy] {
        let (store, docs) = (TempStore::new(), tempfile::tempdir().expect("a directory"));
        let mut client = start(store.path(), era, "list");
        assert!(!lists(&mut client, "search_patterns"), "there are none");
        if era == Era::Modern {
            let filter = json!({"notifications": {"toolsListChanged": true}});
            client.begin("subscriptions/listen", filter).expect("the server lives");
            next(&mut client, "notifications/subscriptions/acknowledged");
        }
        ingest(store.path(), docs.path(), &["--kind", "patterns"], &["README.md", "pattern.md"]);
        next(&mut client, CHANGED);
        assert!(lists(&mut client, "search_patterns") && lists(&mut client, "get_pattern"), "{era:?}");
        assert!(!lists_documents(&mut client), "{era:?}: a catalogue is not what they are for");
        call(&mut client, "kb_search", json!({"query": "text"}));
    }
}

#[test]
fn the_first_triple_lists_the_tools_that_walk_it() {
    for era in [Era::Modern, Era::Legacy] {
        let store = TempStore::new();
        let mut client = start(store.path(), era, "list");
        assert!(!lists(&mut client, "graph_expand"), "there is nothing to walk");
        if era == Era::Modern {
            let filter = json!({"notifications": {"toolsListChanged": true}});
            client.begin("subscriptions/listen", filter).expect("the server lives");
            next(&mut client, "notifications/subscriptions/acknowledged");
        }
        let fact =
            call(&mut client, "relate", json!({"subject": "api", "predicate": "needs", "object": "db"}));
        next(&mut client, CHANGED);
        assert!(lists(&mut client, "graph_expand") && lists(&mut client, "graph_paths"), "{era:?}");
        assert!(
            !lists(&mut client, "graph_children") && !lists_documents(&mut client),
            "{era:?}: no documents"
        );
        call(&mut client, "delete", json!({"id": fact["id"], "entity_type": "triple"}));
        next(&mut client, CHANGED);
        assert!(!lists(&mut client, "graph_expand"), "{era:?}");
    }
}

#[test]
fn a_running_server_follows_the_rename_of_its_scope() {
    let store = TempStore::new();
    let mut setup = start(store.path(), Era::Modern, "set-up");
    call(&mut setup, "create_namespace", json!({"name": "acme", "description": "ACME"}));
    call(&mut setup, "create_scope", json!({"scope": "acme:web", "description": "The site"}));
    let bound = || {
        let mut command = server(store.path());
        command.args(["--scope", "acme:web"]);
        Client::start(command, Era::Modern, "bound").expect("the server starts")
    };
    let instructions = |client: &mut Client| {
        let told = client.request("server/discover", json!({})).expect("an answer");
        text(&told["instructions"]).to_owned()
    };
    let mut running = bound();
    let write = json!({"topic": "stack", "content": "Elm."});
    assert_eq!(call(&mut running, "store", write.clone())["scope"], "acme:web");
    assert!(instructions(&mut running).contains("go to `acme:web`."));
    let rename = json!({"scope": "acme:web", "new_scope": "acme:site"});
    let renamed = call(&mut setup, "update_scope", rename);
    assert!(text(&renamed["note"]).contains("change the line `scope: acme:web` to `scope: acme:site`"));
    for client in [&mut running, &mut bound()] {
        let written = call(client, "store", write.clone());
        assert_eq!(written["scope"], "acme:site");
        assert!(text(&written["note"]).contains("`scope: acme:site`"), "{written}");
        let told = instructions(client);
        assert!(told.contains("go to `acme:site`") && told.contains("`scope: acme:site`"), "{told}");
    }
}

#[test]
fn views_are_for_hosts_that_show_them() {
    let store = TempStore::new();
    let ui =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    for era in [Era::Modern, Era::Legacy] {
        let mut client =
            Client::start_with(server(store.path()), era, "views", ui.clone()).expect("the server starts");
        let listed = client.request("tools/list", json!({})).expect("a list");
        let of = |name: &str| {
            listed["tools"].as_array().expect("tools").iter().find(|tool| text(&tool["name"]) == name)
        };
        assert_eq!(of("query").expect("listed")["_meta"]["ui"]["resourceUri"], "ui://kenning/table.html");
        assert_eq!(
            of("query_graph").expect("listed")["_meta"]["ui"]["resourceUri"],
            "ui://kenning/graph.html"
        );
        assert_eq!(of("kenning_rows_page").expect("listed")["_meta"]["ui"]["visibility"], json!(["app"]));
        assert!(of("graph_expand").is_some(), "a view calls it");
        let resources = client.request("resources/list", json!({})).expect("a list")["resources"].clone();
        assert_eq!(resources.as_array().map(Vec::len), Some(5));
        let page =
            client.request("resources/read", json!({"uri": "ui://kenning/table.html"})).expect("a page");
        assert_eq!(page["contents"][0]["mimeType"], "text/html;profile=mcp-app");

        let mut client = start(store.path(), era, "none");
        let listed = client.request("tools/list", json!({})).expect("a list").to_string();
        assert!(
            !listed.contains("ui://") && !listed.contains("kenning_rows_page"),
            "others hear nothing of them"
        );
        let resources = client.request("resources/list", json!({})).expect("a list")["resources"].clone();
        assert_eq!(resources.as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn only_a_list_that_can_change_is_said_to_change() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Modern, "list");
    assert_eq!(capability(&mut client), json!({"listChanged": true}));
    let mut command = server(store.path());
    command.args(["--toolsets", "all"]);
    let mut client = Client::start(command, Era::Modern, "list").expect("the server starts");
    assert_eq!(capability(&mut client), json!({}));
    assert!(lists_documents(&mut client), "wanted or not");
}

/// A client that lists tools and waits must not create a store.
#[test]
fn whoever_only_looks_makes_no_store() {
    let store = TempStore::new();
    let mut client = start(store.path(), Era::Legacy, "list");
    assert!(!lists_documents(&mut client));
    assert_eq!(client.notice(Duration::from_millis(1500)).expect("the server lives"), None);
    assert_eq!(fs::read_dir(store.path()).map_or(0, Iterator::count), 0, "nothing was written");
}

fn capability(client: &mut Client) -> Value {
    client.request("server/discover", json!({})).expect("an answer")["capabilities"]["tools"].clone()
}

fn lists_documents(client: &mut Client) -> bool {
    lists(client, "kb_search")
}

fn lists(client: &mut Client, name: &str) -> bool {
    let listed = client.request("tools/list", json!({})).expect("a list");
    listed["tools"].as_array().expect("tools").iter().any(|tool| text(&tool["name"]) == name)
}

/// The next notification, which must have this method.
fn next(client: &mut Client, method: &str) -> Value {
    let notice = client.notice(SOON).expect("the server lives");
    let notice = notice.unwrap_or_else(|| panic!("{method} never came"));
    assert_eq!(notice["method"], method, "{notice}");
    notice
}

/// Takes in the directory after replacing its files with these.
fn ingest(data: &Path, docs: &Path, flags: &[&str], names: &[&str]) {
    for file in fs::read_dir(docs).expect("a directory") {
        fs::remove_file(file.expect("a file").path()).expect("it was there");
    }
    for name in names {
        let front = if *name == "pattern.md" { "---\nid: pattern\n---\n" } else { "" };
        fs::write(docs.join(name), format!("{front}# {name}\n\nSome text.\n")).expect("a file");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    without_settings(&mut command)
        .current_dir(data)
        .arg("--data-dir")
        .arg(data)
        .arg("ingest")
        .args(flags)
        .arg(docs);
    let output = command.output().expect("kenning runs");
    assert!(output.status.success(), "{output:?}");
}
