//! The recall log of servers: it records only ids, after the reply was sent, and only if it is switched on.

use kenning_model::Id;
use kenning_server::client::{Client, Era};
use kenning_tools::recall::{RecallLog, RecallNote};
use serde_json::{Value, json};

use crate::Place;

/// The records of a server with these arguments, after a client has asked for entries in several ways.
fn noted(place: &Place, arguments: &[&str]) -> Option<Vec<RecallNote>> {
    let mut client =
        Client::start(place.kenning("web", &[&["serve"], arguments].concat()), Era::Legacy, "some-host")
            .expect("it starts");
    let call = |client: &mut Client, tool: &str, arguments: Value| {
        let reply = client.call(tool, arguments).expect("an answer");
        assert!(reply["error"].is_null(), "{reply}");
        reply
    };
    let found = call(&mut client, "query", json!({"content": "deployment"}));
    let id = found["items"][0]["id"].as_str().expect("an id").to_owned();
    call(&mut client, "get_task_context", json!({"queries": ["refunds by finance"], "scope": "acme:web"}));
    call(&mut client, "kb_retrieve_evidence", json!({"question": "What does a rollback need?"}));
    call(&mut client, "query", json!({"content": "zebra"}));
    client.request("resources/read", json!({"uri": format!("knowledge://entries/{id}")})).expect("an entry");
    // The log is written after the replies; a server that ends has written all of it.
    client.finish().expect("the server ends");
    let log = RecallLog::existing(&place.data())?;
    let session = log.sessions(10).expect("read").first()?.session.clone();
    Some(log.of_session(&session).expect("read"))
}

fn with_documents() -> Place {
    let place = Place::new();
    kenning_testkit::take_in(
        &place.engine,
        "handbook",
        "rollback.md",
        "# Rollbacks\n\nA rollback needs no migration.\n",
    );
    place
}

#[test]
fn a_server_notes_what_it_gave_to_whom() {
    let place = with_documents();
    let given = noted(&place, &[]).expect("notes");
    let told: Vec<(&str, &str)> = given.iter().map(|it| (it.by.as_str(), it.scope.as_str())).collect();
    assert_eq!(
        told,
        [
            ("knowledge://entries", "acme:web"),
            ("kb.retrieve_evidence", "acme:web"),
            ("get_task_context", "acme:web"),
            ("query", "acme:web"),
        ],
        "a call that gives nothing is not noted"
    );
    assert!(given.iter().all(|it| it.client == "some-host" && !it.ids.is_empty()), "{given:?}");
    let log = RecallLog::existing(&place.data()).expect("it is there");
    let read = given[0].ids[0];
    let of_entry: Vec<String> = log.of_entry(read, 10).expect("read").into_iter().map(|it| it.by).collect();
    assert_eq!(of_entry.first().map(String::as_str), Some("knowledge://entries"));
    assert!(of_entry.contains(&"query".to_owned()), "{of_entry:?}");
    // An entry that nobody asked for must not be recorded as given.
    let secret = place.call("query", json!({"content": "salaries", "scope": "acme:secret"}));
    let secret = secret["items"][0]["id"].as_str().and_then(Id::parse).expect("an id");
    assert_eq!(log.never_given(&[read, secret]).expect("read"), [secret]);
}

#[test]
fn a_server_notes_nothing_where_that_is_not_wanted() {
    for arguments in [&["--no-recall-log"][..], &["--read-only"]] {
        let place = with_documents();
        assert_eq!(noted(&place, arguments), None, "{arguments:?}");
        assert!(!place.data().join("recall.db").exists(), "{arguments:?}");
    }
}
