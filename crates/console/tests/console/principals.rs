//! A record that a visitor may not see is on no page, and the visitor can't change it.

use axum::http::StatusCode;
use kenning_model::Right;
use serde_json::json;

use crate::Site;

#[test]
fn what_is_out_of_sight_is_nowhere() {
    let site = Site::filled();
    site.call("create_namespace", json!({"name": "secretive", "description": "Hidden-namespace"}));
    site.call("create_scope", json!({"scope": "secretive:lab", "description": "Hidden-scope"}));
    let open = site.store("Deploys", "Deploy on Monday.");
    let hidden = site.call("store", json!({"topic": "Hidden-topic", "content": "Deploy on Hidden-day.", "scope": "secretive:lab", "tags": ["hidden-tag"]}));
    let (hidden, tx) = (hidden["id"].as_str().expect("an id"), hidden["tx_id"].to_string());
    site.call(
        "relate",
        json!({"subject": "Hidden-name", "predicate": "uses", "object": "Deploys", "scope": "secretive:lab"}),
    );
    let guest = || site.confined("acme", Right::Write);
    for path in [
        "",
        "/search",
        "/search?q=deploy",
        "/search?q=hidden",
        "/history",
        "/history?actor=agent",
        "/contradictions",
        "/contradictions?kind=duplicates",
        "/task?queries=deploy&scope=acme:web",
        "/documents",
        "/patterns",
        "/graph",
        "/graph?name=deploys",
        "/sessions",
        "/settings",
        "/time",
        "/new",
    ] {
        let answer = site.get_as(&format!("/console{path}"), guest());
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        for text in ["Hidden", "secretive", hidden] {
            // The form repeats the search words of the visitor.
            let shown = answer.text.replace("value=\"hidden\"", "");
            assert!(!shown.contains(text), "{path} shows {text}: {}", answer.text);
        }
    }
    let own = site.get_as(&format!("/console/entry/{open}"), guest());
    assert!(own.text.contains("Deploy on Monday.") && !own.text.contains("Hidden"));
    for path in [
        format!("/console/entry/{hidden}"),
        format!("/console/entry/{hidden}/edit"),
        format!("/console/tx/{tx}"),
        format!("/console/tx/{tx}/undo"),
        "/console/search?scope=secretive:lab".to_owned(),
    ] {
        let answer = site.get_as(&path, guest());
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}: {}", answer.text);
        assert!(!answer.text.contains("Hidden"), "{path}");
    }
    let shown = site.get_as(&format!("/console?done={tx}"), guest());
    assert!(!shown.text.contains("Hidden") && !shown.text.contains("note done"));
    for (action, fields) in [
        ("delete", vec![("id", hidden)]),
        ("edit", vec![("id", hidden), ("content", "mine")]),
        ("keep", vec![("id", hidden), ("other", &open)]),
        ("undo", vec![("tx", tx.as_str())]),
    ] {
        let answer = site.post_as(action, &fields, guest());
        assert!(
            answer.status.is_client_error() && !answer.text.contains("Hidden"),
            "{action}: {} {}",
            answer.status,
            answer.text
        );
    }
    let found = site.call("query", json!({"ids": [hidden], "scope": "secretive:lab"}));
    assert_eq!(found["items"][0]["content"], "Deploy on Hidden-day.");
}

#[test]
fn who_may_only_read_changes_nothing() {
    let site = Site::filled();
    let id = site.store("Deploys", "Deploy on Monday.");
    let reader = || site.confined("acme", Right::Read);
    for (action, fields) in
        [("delete", vec![]), ("pin", vec![]), ("edit", vec![("content", "mine")]), ("suppress", vec![])]
    {
        let mut all = vec![("id", id.as_str())];
        all.extend(fields);
        let answer = site.post_as(action, &all, reader());
        assert!(answer.status.is_client_error(), "{action}: {}", answer.status);
    }
    assert_eq!(site.entry(&id)["version"], 1);
}
