//! A store with documents, and a caller.

use kenning_engine::Engine;
use kenning_presentation::Reply;
use kenning_presentation::budget::REPLY_BYTES_MAX;
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::Value;

pub struct Session {
    pub engine: Engine,
    pub caller: Caller,
    _store: TempStore,
}

impl Session {
    pub fn new() -> Session {
        let store = TempStore::in_memory();
        let engine = store.engine();
        let caller = Caller::new(Some("alice"), "alice's session".to_owned(), "global:default".to_owned());
        Session { engine, caller, _store: store }
    }

    pub fn take_in(&self, path: &str, text: &str) {
        kenning_testkit::take_in(&self.engine, "handbook", path, text);
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Reply {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let reply =
            dispatch(&self.engine, &self.caller, Access::ReadWrite, find(tool).expect("a tool"), arguments);
        let sizes = [reply.structured.to_string().len(), reply.content_bytes()];
        assert!(sizes.iter().all(|size| *size <= REPLY_BYTES_MAX), "{tool}: {sizes:?} bytes");
        reply
    }

    pub fn good(&self, tool: &str, arguments: Value) -> Value {
        let reply = self.call(tool, arguments.clone());
        assert!(!reply.is_error, "{tool} {arguments}: {}", reply.structured);
        reply.structured
    }

    pub fn refused(&self, tool: &str, arguments: Value) -> String {
        let reply = self.call(tool, arguments.clone());
        assert!(reply.is_error, "{tool} {arguments}: {}", reply.structured);
        reply.structured["error"]["message"].as_str().expect("a message").to_owned()
    }
}
