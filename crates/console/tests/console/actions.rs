//! The actions of people on a page: each is one transaction, and each can be undone from the reply.

use axum::http::StatusCode;
use kenning_testkit::owner;
use kenning_tools::Access;
use serde_json::json;

use crate::{Site, TOKEN, done, visitor};

#[test]
fn every_action_is_a_transaction_and_its_undo_brings_back_what_was() {
    let site = Site::filled();
    let other = site.store("Deploys", "Never deploy on Friday.");
    let id = site.store("Deploys", "Deploy on Friday.");
    let version = || site.entry(&id)["version"].to_string();
    let edit = [
        ("content", "Deploy on Monday."),
        ("topic", "Deploys"),
        ("tags", "ops, web"),
        ("context", "release"),
        ("source", "wiki"),
    ];
    let actions: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("pin", vec![]),
        ("suppress", vec![]),
        ("move", vec![("scope", "acme:default")]),
        ("delete", vec![]),
        ("edit", edit.to_vec()),
        ("keep", vec![("other", &other)]),
    ];
    for (action, fields) in actions {
        let before = site.entry(&id);
        let number = version();
        let back = format!("/console/entry/{id}");
        let mut all = vec![("id", id.as_str()), ("back", back.as_str())];
        all.extend(fields);
        if action == "edit" {
            all.push(("version", &number));
        }
        let answer = site.post(action, &all);
        let tx = done(&answer).to_owned();
        let page = site.get(answer.location());
        assert_eq!(page.status, StatusCode::OK, "{action}");
        assert!(
            page.text.contains("class=\"undo\"")
                && page.text.contains(&format!("name=\"tx\" value=\"{tx}\"")),
            "{action}: {}",
            page.text
        );
        let undone = site.post("undo", &[("tx", &tx), ("back", "/console/history?actor=console")]);
        assert!(undone.location().starts_with("/console/history?actor=console&done="));
        let after = site.entry(&id);
        for field in
            ["content", "topic", "tags", "scope", "pinned", "valid_to", "status", "context", "source"]
        {
            assert_eq!(after[field], before[field], "{action}: {field}");
        }
        // Undoing the undo is offered too.
        assert!(site.get(undone.location()).text.contains("class=\"undo\""), "{action}");
    }
}

#[test]
fn what_is_hidden_can_be_shown_again() {
    let site = Site::filled();
    let other = site.store("Deploys", "Never deploy on Friday.");
    let id = site.store("Deploys", "Deploy on Friday.");
    done(&site.post("suppress", &[("id", &id)]));
    assert!(site.get(&format!("/console/entry/{id}")).text.contains("hidden since"));
    done(&site.post("restore", &[("id", &id), ("status", "active")]));
    assert!(!site.get(&format!("/console/entry/{id}")).text.contains("hidden since"));
    done(&site.post("keep", &[("id", &other), ("other", &id)]));
    assert!(site.get(&format!("/console/entry/{id}")).text.contains("suppressed"));
    done(&site.post("restore", &[("id", &id), ("status", "suppressed")]));
    assert_eq!(
        site.call("query", json!({"ids": [id], "scope": "acme:web"}))["items"][0]["status"],
        json!(null)
    );
}

#[test]
fn a_new_entry_and_a_deleted_fact() {
    let site = Site::filled();
    let answer = site.post(
        "add",
        &[
            ("scope", "acme:web"),
            ("topic", "Ports"),
            ("content", "8787\r\nis the port."),
            ("tags", "ops"),
            ("back", "/console"),
        ],
    );
    assert!(site.get(answer.location()).text.contains("Ports"));
    let found = site.call("query", json!({"content": "port", "scope": "acme:web"}));
    assert_eq!(found["items"][0]["content"], "8787\nis the port.");
    let fact = site.call("relate", json!({"subject": "a1", "predicate": "uses", "object": "b2"}));
    let id = fact["id"].as_str().expect("an id");
    done(&site.post("forget-fact", &[("id", id), ("back", "/console/graph?name=a1")]));
    assert!(site.get("/console/graph?name=a1").text.contains("Nothing is said of it"));
}

#[test]
fn several_are_undone_newest_first() {
    let site = Site::filled();
    let id = site.store("Ports", "8787");
    let first = site.call("update", json!({"id": id, "content": "8788"}))["tx_id"].to_string();
    let second = site.call("update", json!({"id": id, "content": "8789"}))["tx_id"].to_string();
    done(&site.post("undo", &[("tx", &first), ("tx", &second), ("back", "/console/history")]));
    assert_eq!(site.entry(&id)["content"], "8787");
}

#[test]
fn a_stale_edit_is_refused_and_what_was_written_stays_in_the_form() {
    let site = Site::filled();
    let id = site.store("Ports", "8787");
    site.call("update", json!({"id": id, "content": "8788"}));
    let answer = site
        .post("edit", &[("id", &id), ("version", "1"), ("content", "my <i>text</i>"), ("topic", "Ports")]);
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert!(answer.text.contains("my &lt;i&gt;text&lt;/i&gt;</textarea>"), "{}", answer.text);
    assert!(answer.text.contains("From what is there now to what you wrote"));
    assert_eq!(site.entry(&id)["content"], "8788");
    let empty = site.post("edit", &[("id", &id), ("version", "2"), ("content", ""), ("topic", "Ports")]);
    assert_eq!(empty.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.entry(&id)["content"], "8788");
}

#[test]
fn forms_without_the_token_and_actions_that_do_not_exist_do_nothing() {
    let site = Site::filled();
    let id = site.store("Ports", "8787");
    for token in ["", "x", "0123456789abcdee", "0123456789abcdef0"] {
        let answer = site.send_form("delete", [("id", id.as_str()), ("token", token)], visitor(&owner()));
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{token}");
    }
    assert_eq!(site.post("nonsense", &[("id", &id)]).status, StatusCode::NOT_FOUND);
    assert_eq!(site.post("undo", &[("tx", "99999")]).status, StatusCode::NOT_FOUND);
    assert_eq!(site.post("undo", &[]).status, StatusCode::BAD_REQUEST);
    assert_eq!(site.post("delete", &[("id", "K7H9M2PQX8")]).status, StatusCode::NOT_FOUND);
    let elsewhere = site.post("pin", &[("id", &id), ("back", "https://evil.example/")]);
    assert!(elsewhere.location().starts_with("/console?done="));
    assert_eq!(site.entry(&id)["content"], "8787");
}

#[test]
fn a_read_only_console_shows_no_buttons_and_refuses_forms() {
    let site = Site::filled();
    let id = site.store("Ports", "8787");
    let reader = || kenning_console::Visitor { access: Access::ReadOnly, ..visitor(&owner()) };
    let page = site.get_as(&format!("/console/entry/{id}"), reader());
    assert!(page.text.contains("read-only") && !page.text.contains("/console/do/"));
    assert!(!page.text.contains(TOKEN));
    assert_eq!(site.post_as("delete", &[("id", &id)], reader()).status, StatusCode::FORBIDDEN);
}
