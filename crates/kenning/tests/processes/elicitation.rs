//! A user is asked for the input that a call lacks, in the way of each protocol era. A client that can't ask
//! its user gets a reply that says what is missing.

use std::path::Path;
use std::process::Command;

use kenning_server::client::{Client, ClientError, Era};
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::subscriptions::SOON;
use crate::{server, without_settings};

fn form() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn start(dir: &Path, era: Era, capabilities: Value) -> Client {
    Client::start_with(server(dir), era, "people", capabilities).expect("the server starts")
}

/// A store with a catalogue of 25 patterns that match `common way`, and one that does not.
fn store() -> TempStore {
    let (store, catalogue) = (TempStore::new(), tempfile::tempdir().expect("a directory"));
    for number in 0..25 {
        let category = if number % 5 == 0 { "rare" } else { "usual" };
        let text = format!(
            "---\nid: p{number}\ntitle: P{number}\ncategory: {category}\n---\nThe common way, {number}.\n"
        );
        std::fs::write(catalogue.path().join(format!("{number}.md")), text).expect("a file");
    }
    let retry = "---\nid: retry-backoff\ntitle: Retry\ncategory: errors\n---\nTry again later.\n";
    std::fs::write(catalogue.path().join("retry.md"), retry).expect("a file");
    let mut ingest = Command::new(env!("CARGO_BIN_EXE_kenning"));
    without_settings(&mut ingest).args(["ingest", "--kind", "patterns"]).arg(catalogue.path());
    let done = ingest.arg("--data-dir").arg(store.path()).output().expect("it runs");
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    store
}

/// A tool and its arguments, the field that is asked for, the user's answer, and a check of the resulting
/// reply.
type Question = (&'static str, Value, &'static str, Value, fn(&Value) -> bool);

fn questions() -> [Question; 4] {
    [
        ("search_patterns", json!({}), "q", json!({"q": "try again"}), |reply| {
            reply["patterns"][0]["id"] == "retry-backoff"
        }),
        ("search_patterns", json!({"q": "common way"}), "category", json!({"category": "rare"}), |reply| {
            reply["metadata"]["totalCount"] == 5
        }),
        // A user who accepts without choosing gets all results.
        ("search_patterns", json!({"q": "common way"}), "category", json!({}), |reply| {
            reply["metadata"]["totalCount"] == 25
        }),
        ("get_pattern", json!({}), "id", json!({"id": "retry-backoff"}), |reply| {
            reply["kind"] == "patternDetails:v1"
        }),
    ]
}

#[test]
fn a_modern_client_answers_with_a_second_call() {
    let store = store();
    let mut client = start(store.path(), Era::Modern, form());
    for (tool, arguments, field, content, is_it) in questions() {
        let call = json!({"name": tool, "arguments": arguments});
        let question = client.request("tools/call", call.clone()).expect("a question");
        assert_eq!(question["resultType"], "input_required", "{question}");
        let request = &question["inputRequests"]["kenning"];
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(request["params"]["mode"], "form");
        assert!(request["params"]["requestedSchema"]["properties"].get(field).is_some(), "{request}");
        let mut answer = |action: &str, content: Option<&Value>| {
            let mut again = call.clone();
            again["requestState"] = question["requestState"].clone();
            again["inputResponses"] = json!({"kenning": {"action": action, "content": content}, "other": 1});
            client.request("tools/call", again).expect("an answer")
        };
        let accepted = answer("accept", Some(&content));
        assert_eq!(accepted["resultType"], "complete", "{accepted}");
        assert!(is_it(&accepted["structuredContent"]), "{accepted}");
        for action in ["decline", "cancel"] {
            let declined = answer(action, None);
            assert_eq!(declined["structuredContent"]["kind"], "needsInput:v1", "{declined}");
        }
        // Further fields of an answer are ignored.
        let more = answer("accept", Some(&json!({"limit": 0, field: content.get(field)})));
        assert_ne!(more["structuredContent"]["kind"], "toolError:v1", "{more}");
    }
}

#[test]
fn the_state_of_a_question_is_good_for_that_question_only() {
    let store = store();
    let mut client = start(store.path(), Era::Modern, form());
    let call = json!({"name": "search_patterns", "arguments": {"q": "common way"}});
    let question = client.request("tools/call", call.clone()).expect("a question");
    let state = question["requestState"].as_str().expect("a state").to_owned();
    let answer = json!({"kenning": {"action": "accept", "content": {"category": "rare"}}});
    let with = |name: &str, arguments: Value, state: &str| json!({"name": name, "arguments": arguments, "requestState": state, "inputResponses": answer});
    let mut tampered = state.clone().into_bytes();
    let last = tampered.len() - 1;
    tampered[last] = if tampered[last] == b'A' { b'B' } else { b'A' };
    let tampered = String::from_utf8(tampered).expect("ASCII");
    for (what, again) in [
        ("changed", with("search_patterns", json!({"q": "common way"}), &tampered)),
        ("made up", with("search_patterns", json!({"q": "common way"}), "rs1.e30.x")),
        ("of other arguments", with("search_patterns", json!({"q": "common"}), &state)),
        ("of another tool", with("get_pattern", json!({"q": "common way"}), &state)),
    ] {
        let refused = client.request("tools/call", again);
        assert!(matches!(refused, Err(ClientError::Refused { code: -32602, .. })), "{what}: {refused:?}");
    }
    // Another process on the same data accepts the state, because the server keeps nothing between the
    // requests.
    let mut other = start(store.path(), Era::Modern, form());
    let done = other.request("tools/call", with("search_patterns", json!({"q": "common way"}), &state));
    assert_eq!(done.expect("an answer")["structuredContent"]["metadata"]["totalCount"], 5);
    // A caller with other rights is another principal, even if both use the same name.
    let mut confined = server(store.path());
    confined.args(["--namespaces", "global=read"]);
    let mut confined =
        Client::start_with(confined, Era::Modern, "people", form()).expect("the server starts");
    let refused = confined.request("tools/call", with("search_patterns", json!({"q": "common way"}), &state));
    assert!(matches!(refused, Err(ClientError::Refused { code: -32602, .. })), "{refused:?}");
    // Without an answer, the question is asked again.
    let mut again = call;
    again["requestState"] = json!(state);
    let asked = client.request("tools/call", again).expect("a question");
    assert_eq!(asked["resultType"], "input_required", "{asked}");
}

#[test]
fn an_older_client_is_asked_while_its_call_waits() {
    let store = store();
    let mut client = start(store.path(), Era::Legacy, json!({"elicitation": {}}));
    for (tool, arguments, field, content, is_it) in questions() {
        for (action, content) in [("accept", Some(&content)), ("decline", None), ("cancel", None)] {
            let call = json!({"name": tool, "arguments": arguments});
            let id = client.begin("tools/call", call).expect("the server lives");
            let request = client.receive(SOON).expect("a question");
            assert_eq!(request["method"], "elicitation/create", "{request}");
            assert!(request["params"]["requestedSchema"]["properties"].get(field).is_some(), "{request}");
            let result = match content {
                Some(content) => json!({"action": action, "content": content}),
                None => json!({"action": action}),
            };
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            client.send_line(answer.to_string().as_bytes()).expect("the server lives");
            let reply = client.receive(SOON).expect("a reply");
            assert_eq!(reply["id"], json!(id), "{reply}");
            let structured = &reply["result"]["structuredContent"];
            match action {
                "accept" => assert!(is_it(structured), "{reply}"),
                _ => assert_eq!(structured["kind"], "needsInput:v1", "{reply}"),
            }
        }
    }
    // If a client claims that it can ask its user and then refuses, the call gets its ordinary reply.
    let id =
        client.begin("tools/call", json!({"name": "search_patterns", "arguments": {}})).expect("it lives");
    let request = client.receive(SOON).expect("a question");
    let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}});
    client.send_line(error.to_string().as_bytes()).expect("it lives");
    let reply = client.receive(SOON).expect("a reply");
    assert_eq!(
        (&reply["id"], &reply["result"]["structuredContent"]["kind"]),
        (&json!(id), &json!("needsInput:v1"))
    );
}

#[test]
fn who_cannot_be_asked_is_told() {
    let store = store();
    for era in [Era::Modern, Era::Legacy] {
        for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
            let mut client = start(store.path(), era, capabilities);
            for (tool, arguments, ..) in questions() {
                let reply = client.call_whole(tool, arguments).expect("a reply");
                assert_eq!(reply["structuredContent"]["kind"], "needsInput:v1", "{reply}");
                assert_ne!(reply["isError"], true);
                assert_eq!(reply["content"][0]["_meta"]["io.kenning/mimeType"], "text/markdown", "{reply}");
                assert_eq!(reply["content"][1]["annotations"]["audience"], json!(["assistant"]), "{reply}");
            }
        }
    }
}
