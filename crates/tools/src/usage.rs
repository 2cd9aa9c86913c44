//! The cost of replies for their readers: reported with each reply, and counted for each tool of a session.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kenning_presentation::Reply;
use serde::Serialize;
use serde_json::{Value, json};

/// Estimated bytes per token.
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
    /// The number of calls that passed a cursor.
    pub cursors_taken: u64,
    /// The number of replies that had more to show, or that did not show a whole text.
    pub truncated: u64,
    pub duplicates_suppressed: u64,
}

impl Usage {
    /// Adds its size to the reply, and counts it. The reply is measured in the form in which it will be sent;
    /// `has_structured` tells whether that includes the structured part.
    pub(crate) fn measure(
        &self,
        tool: &'static str,
        has_cursor: bool,
        has_structured: bool,
        reply: &mut Reply,
    ) {
        let duplicates = reply.duplicates;
        let content_bytes = reply.content_bytes();
        let bytes = if has_structured { reply.structured_bytes() } else { content_bytes };
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

    /// The counts of each tool that was called.
    pub fn counted(&self) -> BTreeMap<&'static str, Counted> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
