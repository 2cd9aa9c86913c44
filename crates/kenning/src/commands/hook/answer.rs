//! The answer in the format of each host: one JSON object, or nothing at all.

use kenning_tools::briefing::Briefing;
use serde_json::{Value, json};

use super::payload::{Event, Host, Payload};

/// The JSON to write to stdout; `None` if there is nothing to say.
pub fn of(payload: &Payload, briefing: &Briefing) -> Option<Value> {
    let text = briefing.text.as_str();
    if text.is_empty() || !payload.host.listens() {
        return None;
    }
    Some(match payload.host {
        Host::Cursor => match payload.event {
            Event::Prompt(_) => json!({"continue": true, "additional_context": text}),
            _ => json!({"additional_context": text}),
        },
        Host::CopilotCli | Host::OpenCode => json!({"additionalContext": text}),
        Host::Antigravity => json!({"injectSteps": [{"ephemeralMessage": text}]}),
        // Codex rejects an answer with keys that it does not know.
        _ => json!({"hookSpecificOutput": {"hookEventName": payload.event_name, "additionalContext": text}}),
    })
}
