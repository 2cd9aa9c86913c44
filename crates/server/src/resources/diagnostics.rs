//! `kenning://diagnostics/{diagnostic_id}`: how a search came to its results, for the client that searched.

use kenning_tools::Caller;
use rmcp::ErrorData;
use rmcp::model::{ResourceContents, ResourceTemplate};

use serde_json::json;

use super::MIME_TYPE;

const TEMPLATE: &str = "kenning://diagnostics/{diagnostic_id}";
/// Used in place of an id: the address then shows how much the replies of this session have cost so far.
const USAGE: &str = "usage";
const PREFIX: &str = "kenning://diagnostics/";

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "diagnostics")
        .with_description(
            "How a search with `options.include_debug` came to its results: scores, matched words, what was left out; kept for half an hour. `usage` counts what the replies of this session cost.",
        )
        .with_mime_type(MIME_TYPE)
}

/// Reads such a resource; `None` for any other address.
pub(crate) fn read(caller: &Caller, uri: &str) -> Result<Option<ResourceContents>, ErrorData> {
    let Some(handle) = uri.strip_prefix(PREFIX) else { return Ok(None) };
    if handle == USAGE {
        let usage = json!({"tools": caller.usage.counted(), "passages_evicted": caller.scratch.evictions()});
        return Ok(Some(ResourceContents::text(usage.to_string(), uri).with_mime_type(MIME_TYPE)));
    }
    match caller.scratch.trace(&caller.principal.origin, handle) {
        Some(trace) => Ok(Some(ResourceContents::text(&*trace, uri).with_mime_type(MIME_TYPE))),
        None => Err(super::not_found(uri)),
    }
}
