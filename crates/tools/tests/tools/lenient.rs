//! Repaired arguments, tested through whole tools.

use kenning_presentation::Content;
use serde_json::json;

use crate::session::Session;

#[test]
fn what_can_only_mean_one_thing_is_taken() {
    let session = Session::new();
    let stored = session.good(
        "store",
        json!({
            "topic": "deploys", "content": "Blue-green.", "tags": "ops", "task_sizes": "xs", "confidence": "0.9",
            "scope": "", "source": "", "idempotency_key": "",
        }),
    );
    session.good("store", json!({"topic": "rollback", "content": "Within minutes.", "tags": "[\"ops\"]"}));
    let found = session.good("query", json!({"tags": "ops", "limit": "1", "explain": "True", "cursor": ""}));
    assert_eq!((&found["total_count"], found["items"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    let triple = json!({"subject": "a", "predicate": "b", "object": "c", "on_conflict": "KEEP_BOTH"});
    session.good("relate", triple);
    let updated =
        session.good("update", json!({"id": stored["id"], "content": "Canaries.", "expected_version": "1"}));
    assert_eq!(updated["version"], 2);
    session.take_in("book.md", "# Book\n\nGarbage is collected at 2:30.\n");
    let asked =
        json!({"query": "garbage", "top_k": "3", "options": "{\"rewrite\": \"false\"}", "scope": "{}"});
    assert_eq!(session.good("kb.search", asked)["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_empty_id_is_refused_and_so_is_an_empty_field_of_an_update() {
    let session = Session::new();
    let stored =
        session.good("store", json!({"topic": "deploys", "content": "Blue-green.", "context": "ops"}));
    let (tx, id) = (&stored["tx_id"], &stored["id"]);
    for (tool, arguments) in [
        ("undo", json!({"tx_id": ""})),
        ("history", json!({"id": ""})),
        ("history", json!({"since_tx_id": ""})),
        ("query", json!({"as_of_tx_id": ""})),
        ("delete", json!({"id": ""})),
        ("store", json!({"topic": "", "content": "x"})),
    ] {
        session.refused(tool, arguments);
    }
    let refused = session.refused("update", json!({"id": id, "context": ""}));
    assert!(refused.contains("`clear`: [\"context\"]"), "{refused}");
    session.refused("update", json!({"id": id, "content": "x", "expected_version": ""}));
    session.refused("update_namespace", json!({"name": "global", "description": ""}));
    let newest = session.good("history", json!({"limit": 1}));
    assert_eq!(&newest["items"][0]["tx_id"], tx, "nothing was written");
}

#[test]
fn the_same_call_in_another_form_is_the_same_to_its_key() {
    let session = Session::new();
    let fact = |tags| json!({"topic": "a", "content": "b", "tags": tags, "idempotency_key": "k"});
    let first = session.good("store", fact(json!(["ops"])));
    assert_eq!(session.good("store", fact(json!("ops"))), first);
}

#[test]
fn a_text_says_what_to_do_next() {
    let session = Session::new();
    let says = |tool: &str, arguments| session.call(tool, arguments).text();
    assert!(
        says("query", json!({"limit": 0})).starts_with("INVALID_ARGUMENT (fix the arguments and call again)")
    );
    assert!(
        says("delete", json!({"id": "K7H9M2PQX8"}))
            .starts_with("NOT_FOUND (fix the arguments and call again)")
    );
    for code in kenning_tools::Code::ALL {
        assert_eq!(code.next_step() == "retry", code.retryable(), "{code:?}");
    }
}

#[test]
fn what_a_reply_costs_is_what_is_sent() {
    let mut session = Session::new();
    session.good("store", json!({"topic": "deploys", "content": "Blue-green."}));
    let query = || json!({"content": "deploys"});
    let full = session.call("query", query());
    session.caller.content = Content::Text;
    let lean = session.call("query", query());
    assert!(full.blocks.len() > 1 && lean.blocks.len() == 1);
    assert_eq!(lean.meta["io.kenning/usage"]["content_bytes"], json!(lean.text().len()));
    session.caller.has_structured = false;
    let old = session.call("query", query());
    assert_eq!(old.meta["io.kenning/usage"]["bytes_returned"], json!(old.text().len()));
}
