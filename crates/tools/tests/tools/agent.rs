//! A working week of agents in three projects, with the cost of each call; `docs/agent-transcript.md` is
//! written from it.

use std::path::Path;

use kenning_presentation::Reply;
use kenning_testkit::transcript::Player;
use serde_json::{Value, json};

use crate::published::expect_file;
use crate::transcripts::InProcess;

struct Story {
    player: InProcess,
    page: String,
    text_tokens: usize,
    structured_tokens: usize,
}

impl Story {
    fn tell(&mut self, words: &str) {
        self.page.push_str(&format!("\n{words}\n"));
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let shown = arguments.to_string();
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let reply = self.player.call("alice", tool, arguments);
        assert!(!reply.is_error, "{tool} {shown}: {}", reply.text());
        let (text, structured) = (reply.text().len() / 4, reply.structured.to_string().len() / 4);
        self.text_tokens += text;
        self.structured_tokens += structured;
        self.page.push_str(&format!(
            "\n**`{tool}`** `{shown}` ({text} tokens of text, {structured} structured)\n\n````text\n{}\n````\n",
            reply.text()
        ));
        reply
    }

    fn id_of(reply: &Reply) -> String {
        reply.structured["id"].as_str().expect("a write names its entry").to_owned()
    }
}

#[test]
fn an_agents_week_is_as_written_down() {
    let page = "# An agent's week\n\nThree projects of one organisation, played through the tools; a test writes this page. Every call says what \
                its reply costs a model, in the text and in the structured channel (four bytes are a token).\n";
    let mut story =
        Story { player: InProcess::new(), page: page.to_owned(), text_tokens: 0, structured_tokens: 0 };
    story.tell("## Shared rules for three projects");
    story.call("create_namespace", json!({"name": "acme", "description": "ACME Corporation"}));
    for (scope, about) in [("web", "The shop"), ("api", "The services"), ("billing", "Invoices and refunds")]
    {
        story.call("create_scope", json!({"scope": format!("acme:{scope}"), "description": about}));
    }
    story.call(
        "store_many",
        json!({"scope": "acme:default", "entries": [
            {"topic": "deploys", "content": "We deploy blue-green and never on Fridays.", "pinned": true},
            {"topic": "money", "content": "Amounts are integers in cents with a currency code, never floats.", "context": "price total decimal rounding"},
            {"topic": "buttons", "content": "A button that moves money asks for confirmation and is disabled after the first click."},
            {"topic": "errors", "content": "User-facing errors say what happened and what to do next; codes go to the log."},
            {"topic": "tests", "content": "Every endpoint has a contract test; the web has a Playwright test per flow."},
        ]}),
    );
    story.call(
        "write_knowledge",
        json!({"content": "Refunds go through POST /v2/refunds with an idempotency key; the old /refund endpoint is closed.", "context": "refund money back return api endpoint retry", "scope": "acme:api"}),
    );
    story.tell("## A refund button, in the shop");
    let reply = story.call(
        "get_task_context",
        json!({"queries": ["refund button confirmation", "amounts of money in the ui", "call the refund endpoint", "tests for a new flow"], "scope": "acme:web"}),
    );
    let shown = reply.structured.to_string();
    assert!(shown.contains("never on Fridays") && shown.contains("integers in cents"), "{shown}");
    assert!(
        reply.structured["elsewhere"]["acme:api"].is_string(),
        "what the services know is pointed at: {shown}"
    );
    story.tell("## A contradiction, and who settles it");
    let old = story.call(
        "store",
        json!({"topic": "refund window", "content": "Refund window is 14 days.", "scope": "acme:billing"}),
    );
    let new = story.call(
        "store",
        json!({"topic": "refund window", "content": "Refund window is 30 days.", "scope": "acme:billing"}),
    );
    let reply =
        story.call("get_task_context", json!({"queries": ["refund window days"], "scope": "acme:billing"}));
    assert!(reply.structured["contradictions"].is_object(), "{}", reply.structured);
    story.call(
        "resolve_knowledge_collision",
        json!({"active_id": Story::id_of(&new), "suppressed_ids": [Story::id_of(&old)]}),
    );
    story.tell("## A rename: the old name is followed");
    story.call("update_scope", json!({"scope": "acme:billing", "new_scope": "acme:payments"}));
    let reply = story.call("query", json!({"content": "refund window", "scope": "acme:billing"}));
    assert_eq!(reply.structured["items"][0]["id"], new.structured["id"], "{}", reply.structured);
    story.tell("## A mistake, undone");
    let wrong = story.call("delete", json!({"id": Story::id_of(&new)}));
    story.call("undo", json!({"tx_id": wrong.structured["tx_id"]}));
    story.tell("## An outage: what depends on the ledger, and who is called");
    for (subject, predicate, object) in [
        ("refunds", "depends on", "ledger"),
        ("checkout", "depends on", "refunds"),
        ("shop", "depends on", "checkout"),
        ("checkout", "is called by", "Dana on pager 7"),
    ] {
        story.call(
            "relate",
            json!({"subject": subject, "predicate": predicate, "object": object, "scope": "acme:default"}),
        );
    }
    let reply = story.call(
        "query_graph",
        json!({"object": "ledger", "predicate": "depends on", "max_hops": 3, "scope": "acme:web"}),
    );
    assert_eq!(reply.structured["total_count"], 3);
    story.call(
        "query_graph",
        json!({"subject": "checkout", "predicate": "is called by", "scope": "acme:web"}),
    );
    let (text, structured) = (story.text_tokens, story.structured_tokens);
    story.tell(&format!("All replies together: {text} tokens of text, {structured} structured."));
    let path = Path::new("../../docs/agent-transcript.md");
    expect_file(path, &story.page);
}
