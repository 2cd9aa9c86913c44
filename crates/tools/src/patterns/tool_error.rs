//! The error format of this family, `toolError:v1`, in the format that the call requested.

use kenning_presentation::{Block, Format, Reply};
use serde_json::{Map, Value, json};

use crate::Stop;

pub(crate) const KIND: &str = "toolError:v1";

pub(crate) fn reply(stop: &Stop, format: Format) -> Reply {
    let code = stop.code.in_patterns();
    let mut details = stop.details.clone();
    details["code"] = json!(stop.code.as_str());
    let structured = json!({
        "kind": KIND,
        "code": code,
        "message": stop.message,
        "retryable": stop.code.retryable(),
        "details": details,
    });
    let next = stop.code.next_step();
    let mut blocks = Vec::new();
    if format.has_markdown() {
        blocks.push(Block::Plain(format!("{code} ({next}): {}", stop.message)));
    }
    if format.has_json() {
        blocks.push(Block::Json(structured.to_string()));
    }
    Reply { blocks, structured, meta: Map::new(), is_error: true, ask: None, duplicates: 0 }
}

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": KIND},
            "code": {"type": "string"},
            "message": {"type": "string"},
            "retryable": {"type": "boolean"},
            "details": {"type": "object"},
        },
        "required": ["kind", "code", "message", "retryable", "details"],
        "additionalProperties": false,
    })
}
