//! The console as a browser uses it, but without a network: every page, every action and its undo, the
//! refusals, the limits on stored text, and the limits of a principal.

mod actions;
mod injections;
mod pages;
mod principals;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use kenning_console::{Installation, Visitor, router};
use kenning_engine::Engine;
use kenning_model::{Id, Principal, Right};
use kenning_testkit::{TempStore, owner, take_in, take_in_pattern};
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};
use tower::ServiceExt;

const TOKEN: &str = "0123456789abcdef";

/// A store with some content of every kind, and its console.
struct Site {
    engine: Arc<Engine>,
    router: Router,
    _store: TempStore,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    /// The address to which a browser is redirected.
    fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.text);
        self.headers[header::LOCATION].to_str().expect("text")
    }
}

fn visitor(principal: &Principal) -> Visitor {
    let caller = Caller::of(principal, Some("console"), "global:default".to_owned());
    let caller = Caller { has_whole_history: true, ..caller };
    Visitor {
        caller: caller.into(),
        access: Access::ReadWrite,
        form_token: TOKEN.to_owned(),
        can_sign_out: false,
    }
}

impl Site {
    fn new() -> Site {
        let store = TempStore::in_memory();
        let engine = Arc::new(store.engine());
        let router = router(engine.clone(), Installation { version: "1.2.3", ..Installation::default() });
        Site { engine, router, _store: store }
    }

    fn filled() -> Site {
        let site = Site::new();
        site.call("create_namespace", json!({"name": "acme", "description": "Shops"}));
        site.call("create_scope", json!({"scope": "acme:web", "description": "The storefront"}));
        take_in(
            &site.engine,
            "guide",
            "deploy/rollback.md",
            "# Rollback\n\nUse `kubectl rollout undo`.\n\n## When\n\nAt once.\n",
        );
        take_in_pattern(
            &site.engine,
            "catalogue",
            "retry.md",
            "---\nid: retry-backoff\ntitle: Retry with backoff\nsummary: Waits longer each time.\ncategory: errors\ndifficulty: beginner\n---\n\n# Retry\n\nWait.\n",
        );
        site
    }

    /// Calls a tool as an agent.
    fn call(&self, tool: &str, arguments: Value) -> Value {
        let caller = Caller::of(&owner(), Some("agent"), "global:default".to_owned());
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let reply =
            dispatch(&self.engine, &caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
        assert!(!reply.is_error, "{tool}: {}", reply.structured);
        reply.structured
    }

    fn store(&self, topic: &str, content: &str) -> String {
        let stored = self.call("store", json!({"topic": topic, "content": content, "scope": "acme:web"}));
        stored["id"].as_str().expect("an id").to_owned()
    }

    fn get(&self, path: &str) -> Answer {
        self.get_as(path, visitor(&owner()))
    }

    fn get_as(&self, path: &str, visitor: Visitor) -> Answer {
        self.send(Request::get(path).extension(visitor).body(Body::empty()).expect("a request"))
    }

    /// Sends a form as a page does.
    fn post(&self, action: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_as(action, fields, visitor(&owner()))
    }

    fn post_as(&self, action: &str, fields: &[(&str, &str)], visitor: Visitor) -> Answer {
        let all = fields.iter().copied().chain([("token", TOKEN)]);
        self.send_form(action, all, visitor)
    }

    fn send_form<'a>(
        &self,
        action: &str,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
        visitor: Visitor,
    ) -> Answer {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let request = Request::post(format!("/console/do/{action}"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .extension(visitor)
            .body(Body::from(body.finish()))
            .expect("a request");
        self.send(request)
    }

    fn send(&self, request: Request<Body>) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("an answer");
            let (head, body) = response.into_parts();
            let body = to_bytes(body, 8 << 20).await.expect("a body");
            let text = String::from_utf8(body.to_vec()).expect("text");
            Answer { status: head.status, headers: head.headers, text }
        })
    }

    /// A visitor with a right in one namespace only.
    fn confined(&self, namespace: &str, right: Right) -> Visitor {
        let snapshot = self.engine.snapshot(&owner()).expect("readable");
        let tree = snapshot.tree().expect("readable");
        let (id, _) = tree.namespace(namespace).expect("there is one");
        let rights: BTreeMap<Id, Right> = [(id, right)].into();
        visitor(&Principal::confined("guest", "guest", rights))
    }

    fn entry(&self, id: &str) -> Value {
        self.call("query", json!({"ids": [id], "scope": "acme:web", "detail": "full"}))["items"][0].clone()
    }
}

/// The transaction in the address of a redirect.
fn done(answer: &Answer) -> &str {
    answer.location().split("done=").nth(1).expect("a transaction").split('#').next().expect("a number")
}
