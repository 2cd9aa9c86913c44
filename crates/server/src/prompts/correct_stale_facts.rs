//! `correct_stale_facts`: find stored facts that are no longer true, and correct them.

use super::PromptRow;

pub(super) const ROW: PromptRow = PromptRow {
    name: "correct_stale_facts",
    about: "Find what no longer holds on a topic and mend it",
    argument: ("topic", "The topic to go through"),
    message,
};

fn message(topic: &str, scope: &str) -> String {
    format!(
        "Go through what is stored on the topic below and mend what no longer holds.\n\n\
         1. `query` the topic as `content` and page through all of it; `query_graph` for the things it names.\n\
         2. Sort the entries into: still true, outdated, contradicting another, doubtful. Show me the list with ids and ages before you change anything.\n\
         3. When I agree: `update` what has changed, with the `expected_version` that you read; `delete` what is plainly wrong; of two in one scope that contradict each other, hide one with `resolve_knowledge_collision`.\n\
         4. Close with what you changed and the tx_ids, so that I can `undo` any of it.{scope}\n\n{topic}"
    )
}
