//! What replies cost whoever reads them: said with each, and counted for each tool of a session.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kenning_presentation::Reply;
use serde::Serialize;
use serde_json::{Value, json};

/// A token is four bytes.
const TOKEN_BYTES: usize = 4;
const USAGE: &str = "io.kenning/usage";

#[derive(Debug, Default)]
pub struct Usage {
    tools: Mutex<BTreeMap<&'static str, Counted>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub calls: u64,
    pub errors: u64,
    pub bytes_returned: u64,
    pub bytes_largest: u64,
    /// Calls that went on from a cursor.
    pub cursors_taken: u64,
    /// Replies that had more to show, or did not show all of a text.
    pub truncated: u64,
    pub duplicates_suppressed: u64,
}

/// What is known of a call beside its reply.
pub(crate) struct Cost {
    pub(crate) has_cursor: bool,
    pub(crate) duplicates: usize,
    /// Whether the structured reply is sent.
    pub(crate) has_structured: bool,
}

impl Usage {
    /// Says in the reply what it costs, and counts it. The reply is as it will be sent.
    pub(crate) fn measure(&self, tool: &'static str, cost: Cost, reply: &mut Reply) {
        let Cost { has_cursor, duplicates, has_structured } = cost;
        let content_bytes = reply.content_bytes();
        let bytes = if has_structured { reply.structured.to_string().len() } else { content_bytes };
        reply.meta.insert(
            USAGE.to_owned(),
            json!({
                "tokens_estimate": bytes.div_ceil(TOKEN_BYTES),
                "bytes_returned": bytes,
                "content_bytes": content_bytes,
                "duplicates_suppressed": duplicates,
            }),
        );
        let is_cut = |name: &str| reply.structured.get(name) == Some(&Value::Bool(true));
        let has_more = reply.structured.get("next_cursor").is_some_and(|cursor| !cursor.is_null());
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = tools.entry(tool).or_default();
        counted.calls += 1;
        counted.errors += u64::from(reply.is_error);
        counted.bytes_returned += bytes as u64;
        counted.bytes_largest = counted.bytes_largest.max(bytes as u64);
        counted.cursors_taken += u64::from(has_cursor);
        counted.truncated += u64::from(has_more || is_cut("partial") || is_cut("truncated"));
        counted.duplicates_suppressed += duplicates as u64;
    }

    /// By tool, as far as any was called.
    pub fn counted(&self) -> BTreeMap<&'static str, Counted> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
