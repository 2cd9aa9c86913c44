//! What a principal may do with each right; and that records out of its reach never change an answer.

use std::collections::BTreeMap;

use kenning_model::{EntityType, Id, Principal, Right};
use kenning_tools::Caller;
use serde_json::{Value, json};

use crate::session::Session;

/// The same session for a principal that has rights in some namespaces only.
fn confined(session: &mut Session, rights: &[(&str, Right)], scope: &str) {
    let tree = session.engine.snapshot(&kenning_testkit::owner()).and_then(|snapshot| snapshot.tree());
    let tree = tree.expect("the store can be read");
    let granted = |(name, right): &(&str, Right)| (tree.namespace(name).expect("a namespace").0, *right);
    let rights: BTreeMap<Id, Right> = rights.iter().map(granted).collect();
    let principal = Principal::confined("mallory", "mallory's session", rights);
    session.caller = Caller::of(&principal, Some("mallory"), scope.to_owned());
}

fn build(session: &Session) {
    session.good("create_namespace", json!({"name": "acme", "description": "ACME"}));
    session.good("create_scope", json!({"scope": "acme:base", "description": "For all"}));
    let web = json!({"scope": "acme:web", "description": "The shop", "parents": ["acme:base"]});
    session.good("create_scope", web);
}

fn code(session: &Session, tool: &str, arguments: Value) -> String {
    let reply = session.call(tool, arguments);
    reply.structured["error"]["code"].as_str().unwrap_or("done").to_owned()
}

#[test]
fn each_right_allows_what_it_says_and_no_more() {
    let denied = "PERMISSION_DENIED";
    let expected = [
        (Right::Read, ["done", denied, denied, denied, denied]),
        (Right::Write, ["done", "done", denied, denied, denied]),
        (Right::Share, ["done", "done", "done", denied, denied]),
        (Right::Admin, ["done", "done", "done", "done", denied]),
    ];
    for (right, codes) in expected {
        let mut session = Session::new();
        build(&session);
        confined(&mut session, &[("acme", right)], "acme:web");
        let entry = |scope: &str| json!({"scope": scope, "topic": "deploys", "content": "Blue-green."});
        let calls = [
            ("query", json!({})),
            // Nothing inherits from `acme:web`, but another scope inherits from `acme:base`.
            ("store", entry("acme:web")),
            ("store", entry("acme:base")),
            ("create_scope", json!({"scope": "acme:api", "description": "The API"})),
            ("create_namespace", json!({"name": "beta", "description": "Another"})),
        ];
        let found = calls.map(|(tool, arguments)| code(&session, tool, arguments));
        assert_eq!(found.each_ref().map(String::as_str), codes, "{right:?}");
    }
}

#[test]
fn a_refusal_of_a_write_names_the_right_that_is_missing() {
    let mut session = Session::new();
    build(&session);
    confined(&mut session, &[("acme", Right::Write)], "acme:web");
    let message = session.refused("store", json!({"scope": "acme:default", "topic": "a", "content": "b"}));
    assert!(message.contains("`share` in `acme`, because other scopes inherit from it"), "{message}");
}

#[test]
fn what_others_wrote_is_undone_by_administrators_alone() {
    for (right, expected) in [(Right::Share, "PERMISSION_DENIED"), (Right::Admin, "done")] {
        let mut session = Session::new();
        build(&session);
        let stored = session.good("store", json!({"scope": "acme:web", "topic": "a", "content": "b"}));
        confined(&mut session, &[("acme", right)], "acme:web");
        let undo = json!({"tx_id": stored["tx_id"], "any_actor": true});
        assert_eq!(code(&session, "undo", undo), expected, "{right:?}");
    }
}

#[test]
fn a_namespace_that_takes_the_name_of_another_inherits_no_rights() {
    let mut session = Session::new();
    build(&session);
    let owner = session.caller.clone();
    confined(&mut session, &[("acme", Right::Admin)], "acme:web");
    let theirs = std::mem::replace(&mut session.caller, owner);
    session.good("update_namespace", json!({"name": "acme", "new_name": "former"}));
    session.good("create_namespace", json!({"name": "acme", "description": "Somebody else's"}));
    session.good("store", json!({"scope": "acme:default", "topic": "secret", "content": "Lighthouse."}));
    session.caller = theirs;
    let named = session.good("get_namespaces", json!({"style": "short"})).to_string();
    assert!(named.contains("former") && !named.contains("Somebody"), "{named}");
    assert_eq!(code(&session, "query", json!({"scope": "acme:default"})), "NOT_FOUND");
    assert_eq!(code(&session, "query", json!({"scope": "former:default"})), "done");
}

/// Two stores have the same content in `acme`, and one has much other content too. A principal of `acme`
/// can't find out which one it reads.
#[test]
fn answers_are_the_same_whatever_is_out_of_reach() {
    let with = |has_others: bool| {
        let mut session = Session::new();
        build(&session);
        if has_others {
            session.good("create_namespace", json!({"name": "beta", "description": "Others"}));
        }
        for number in 0..40 {
            let topic = format!("rule {number}");
            let content =
                format!("Deploy step {number} goes to the staging cluster before release {}.", number % 7);
            for scope in ["beta:default", "global:default", "acme:web"] {
                if has_others || scope == "acme:web" {
                    let entry = json!({"scope": scope, "topic": topic, "content": content});
                    session.good("store", entry);
                    let fact = format!("service {}", number % 5);
                    let triple =
                        json!({"scope": scope, "subject": fact, "predicate": "runs on", "object": topic});
                    session.good("relate", triple);
                }
            }
        }
        confined(&mut session, &[("acme", Right::Admin)], "acme:web");
        session
    };
    let calls = [
        ("query", json!({"content": "staging cluster", "limit": 10})),
        ("query", json!({"content": "which release comes before deployment", "limit": 5})),
        ("query", json!({"limit": 7})),
        ("get_task_context", json!({"queries": ["deploy to staging", "release order"], "task_size": "M"})),
        ("query_graph", json!({"subject": "service 3"})),
        ("query_graph", json!({"predicate": "runs on", "limit": 9})),
        ("query_graph", json!({"subject": "servis 3"})),
        ("history", json!({"limit": 8})),
        ("get_namespaces", json!({"style": "details"})),
        ("store", json!({"topic": "rule 3", "content": "Deploy step 3 goes to the staging cluster first."})),
        ("relate", json!({"subject": "service 3", "predicate": "runs on", "object": "a new cluster"})),
    ];
    let (alone, among) = (with(false), with(true));
    let (mut names, mut others) = (Names::default(), Names::default());
    for (tool, arguments) in calls {
        let one = names.plain(&alone.good(tool, arguments.clone()));
        let other = others.plain(&among.good(tool, arguments.clone()));
        assert_eq!(one, other, "{tool} {arguments}");
    }
    let content =
        |session: &Session| session.engine.content(&session.caller.principal, None).expect("content");
    assert_eq!(content(&alone), content(&among));
    let counts = |session: &Session| {
        let snapshot = session.engine.snapshot(&session.caller.principal).expect("a snapshot");
        let counts = snapshot.count_by_scope(EntityType::Entry).expect("counts");
        counts.into_values().collect::<Vec<_>>()
    };
    assert_eq!(counts(&alone), counts(&among));
}

/// Replaces ids, transaction numbers and times, which differ between two stores, by the order in which they
/// first occur.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn plain(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.plain(item)).collect(),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| {
                    let is_number_of_store = ["tx_id", "as_of_tx_id", "version", "next_cursor"];
                    let value = match is_number_of_store.contains(&name.as_str())
                        || name == "at"
                        || name.ends_with("_at")
                    {
                        true => Value::Null,
                        false => self.plain(value),
                    };
                    (self.named(name), value)
                };
                fields.iter().map(field).collect()
            }
            Value::String(text) => Value::String(self.named(text)),
            other => other.clone(),
        }
    }

    /// A text with every id in it replaced.
    fn named(&mut self, text: &str) -> String {
        let is_id = |word: &str| {
            word.len() == 10 && word.chars().all(|c| "23456789ABCDEFGHJKLMNPQRSTUVWXYZ".contains(c))
        };
        let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
        words
            .map(|word| {
                let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
                match is_id(bare) {
                    true => {
                        let many = self.0.len();
                        let number = *self.0.entry(bare.to_owned()).or_insert(many);
                        word.replace(bare, &format!("id{number}"))
                    }
                    false => word.to_owned(),
                }
            })
            .collect()
    }
}
