//! Plays the transcripts of the tools with a real client and a real server: the replies must be the same,
//! apart from ids and times.

use std::collections::HashMap;
use std::path::Path;

use kenning_presentation::{Block, Reply};
use kenning_server::client::{Client, Era};
use kenning_testkit::TempStore;
use kenning_testkit::transcript::{Player, Transcript};
use serde_json::{Map, Value};

use crate::{start, start_in};

/// One server process for every actor, all on one store.
struct OverStdio {
    store: TempStore,
    era: Era,
    clients: HashMap<String, Client>,
}

impl Player for OverStdio {
    fn call(&mut self, actor: &str, tool: &str, arguments: Map<String, Value>) -> Reply {
        let (store, era) = (&self.store, self.era);
        // Bob's server is started without a scope.
        let started = || match actor {
            "bob" => start(store.path(), era, actor),
            _ => start_in(store.path(), era, actor, "global:default"),
        };
        let client = self.clients.entry(actor.to_owned()).or_insert_with(started);
        let mut result = client.call_whole(tool, Value::Object(arguments)).expect("a result");
        let text = result["content"][0]["text"].as_str().expect("the first block is text").to_owned();
        Reply {
            blocks: vec![Block::Text(text)],
            ask: None,
            duplicates: 0,
            structured: result["structuredContent"].take(),
            meta: result["_meta"].as_object().cloned().unwrap_or_default(),
            is_error: result["isError"] == true,
        }
    }
}

#[test]
fn a_server_process_replies_as_the_transcripts_say() {
    let folder = Path::new("../tools/tests/memory");
    // The transcripts in which no validity ends by the transcript's own clock.
    for (name, era) in
        [("undo", Era::Modern), ("relate", Era::Legacy), ("update", Era::Legacy), ("history", Era::Modern)]
    {
        let transcript = Transcript::read(&folder.join(format!("{name}.md")));
        let mut player = OverStdio { store: TempStore::new(), era, clients: HashMap::new() };
        for (call, played) in transcript.calls.iter().zip(transcript.play(&mut player)) {
            assert!(
                played.is_like(call),
                "{name}: {}\n{}\nbut expected\n{}",
                call.line,
                played.shown,
                call.expected
            );
        }
    }
}
