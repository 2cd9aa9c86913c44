//! Every page is answered, has the right content, and has the headers that restrict browsers.

use axum::http::StatusCode;
use serde_json::json;

use crate::Site;

#[test]
fn every_page_shows_what_is_there() {
    let site = Site::filled();
    let id = site.store("Deploys", "Deploy with blue-green, never on Friday.");
    site.call("update", json!({"id": id, "content": "Deploy with canaries, never on Friday.", "source": "https://wiki.example/deploys"}));
    site.call(
        "relate",
        json!({"subject": "Billing", "predicate": "depends on", "object": "Ledger", "scope": "acme:web"}),
    );
    let entry = format!("/console/entry/{id}");
    let pages: Vec<(String, &[&str])> = vec![
        ("/console".into(), &["acme", "Last 24 hours", "agent", "To decide", "Scopes"]),
        ("/console/".into(), &["Last 24 hours"]),
        ("/console/search?q=canaries".into(), &["Deploys", "<mark>canaries</mark>", "matched"]),
        ("/console/search?q=rollback".into(), &["Rollback", "document"]),
        ("/console/search?q=retry+backoff&kind=patterns".into(), &["Retry with backoff", "pattern"]),
        ("/console/search?scope=acme:web&actor=agent&days=7".into(), &["Deploys", "Written by: agent ×"]),
        (
            entry.clone(),
            &[
                "<del>blue-green,</del>",
                "<ins>canaries,</ins>",
                "Who wrote which line",
                "Versions",
                "noreferrer",
            ],
        ),
        (format!("{entry}/edit"), &["Deploy with canaries", "name=\"version\" value=\"2\""]),
        (format!("{entry}/move"), &["acme:default", "To the scope"]),
        (format!("{entry}/delete"), &["can be brought back"]),
        ("/console/new".into(), &["Write an entry"]),
        ("/console/history".into(), &["History", "update", "created"]),
        ("/console/history?actor=agent&type=entry".into(), &["Deploys"]),
        ("/console/history?actor=nobody".into(), &["No transaction is like this"]),
        ("/console/tx/6".into(), &["Transaction 6", "<ins>canaries,</ins>"]),
        ("/console/tx/6/undo".into(), &["What that would do", "<ins>blue-green,</ins>"]),
        ("/console/undo?tx=6&tx=7".into(), &["Undo 2 transactions"]),
        ("/console/contradictions".into(), &["likely contradiction"]),
        ("/console/task?queries=deploy&scope=acme:web".into(), &["canaries", "token"]),
        ("/console/time".into(), &["type=\"range\""]),
        ("/console/time?moment=2027-01-01T00:00".into(), &["The newest transaction then was"]),
        ("/console/documents".into(), &["guide"]),
        ("/console/documents?scope=global:default&source=guide".into(), &["rollback.md", "deploy/"]),
        ("/console/patterns".into(), &["Retry with backoff", "errors"]),
        ("/console/patterns?words=wait&category=errors".into(), &["Retry with backoff"]),
        ("/console/graph".into(), &["billing"]),
        ("/console/graph?name=Billing".into(), &["depends on", "Ledger", "<svg"]),
        ("/console/graph?name=Billing&to=ledger".into(), &["From Billing to ledger", "depends on"]),
        ("/console/sessions".into(), &["agent", "store"]),
        ("/console/settings".into(), &["1.2.3", "the store is yours"]),
    ];
    for (path, expected) in pages {
        let answer = site.get(&path);
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        for text in expected {
            assert!(answer.text.contains(text), "{path} lacks {text}:\n{}", answer.text);
        }
        let header = |name: &str| answer.headers[name].to_str().expect("text").to_owned();
        assert!(header("content-security-policy").contains("default-src 'none'"), "{path}");
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(
            [header("cache-control"), header("referrer-policy")],
            ["no-store", "same-origin"],
            "{path}"
        );
        for forbidden in ["style=\"", "<script>", "javascript:", " onclick", "http-equiv"] {
            assert!(!answer.text.contains(forbidden), "{path} has {forbidden}");
        }
    }
}

#[test]
fn documents_and_patterns_are_read_whole() {
    let site = Site::filled();
    let list = site.get("/console/documents?scope=global:default&source=guide").text;
    let path = list.split("href=\"").find(|part| part.starts_with("/console/document/")).expect("a document");
    let path = path.split('"').next().expect("an address");
    let page = site.get(path);
    assert_eq!(page.status, StatusCode::OK);
    for text in ["Rollback", "<code>kubectl rollout undo</code>", "At once.", "deploy/rollback.md"] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
}

#[test]
fn what_is_not_there_is_said() {
    let site = Site::filled();
    for path in [
        "/console/entry/K7H9M2PQX8",
        "/console/entry/nonsense",
        "/console/document/K7H9M2PQX8",
        "/console/tx/999",
        "/console/tx/0",
        "/console/tx/x",
        "/console/search?scope=acme:nowhere",
        "/console/nonsense",
        "/console/history?id=short",
    ] {
        let answer = site.get(path);
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.text.contains("There is no"), "{path}: {}", answer.text);
    }
}

#[test]
fn an_empty_store_says_how_to_begin() {
    let site = Site::new();
    assert!(site.get("/console").text.contains("Nothing is known yet"));
    for page in [
        "search",
        "history",
        "contradictions",
        "task",
        "documents",
        "patterns",
        "graph",
        "sessions",
        "settings",
        "time",
    ] {
        assert_eq!(site.get(&format!("/console/{page}")).status, StatusCode::OK, "{page}");
    }
}

#[test]
fn every_page_can_be_seen_as_it_was() {
    let site = Site::filled();
    let id = site.store("Deploys", "Use blue-green.");
    let then = site.engine.head().expect("readable");
    site.call("update", json!({"id": id, "content": "Use canaries."}));
    let past = site.get(&format!("/console/entry/{id}?as_of={then}"));
    assert!(past.text.contains("Use blue-green.") && !past.text.contains("canaries"), "{}", past.text);
    assert!(
        past.text.contains("You see the store as it was") && !past.text.contains("/do/"),
        "{}",
        past.text
    );
    assert!(past.text.contains(&format!("/console/history?as_of={then}")), "links keep the moment");
    let found = site.get(&format!("/console/search?q=deploys&as_of={then}"));
    assert!(found.text.contains("Use blue-green.") && !found.text.contains("canaries"));
    let before = site.get(&format!("/console/entry/{id}?as_of=1"));
    assert_eq!(before.status, StatusCode::NOT_FOUND);
}
