//! `kenning://diagnostics/{diagnostic_id}`: how a search came to its results, for the client that searched.

use kenning_tools::Caller;
use rmcp::ErrorData;
use rmcp::model::{ResourceContents, ResourceTemplate};

use super::MIME_TYPE;

const TEMPLATE: &str = "kenning://diagnostics/{diagnostic_id}";
const PREFIX: &str = "kenning://diagnostics/";

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "diagnostics")
        .with_description(
            "How a search with `options.include_debug` came to its results: scores, matched words, what was left out. Kept for half an hour.",
        )
        .with_mime_type(MIME_TYPE)
}

/// None for any other address.
pub(crate) fn read(caller: &Caller, uri: &str) -> Result<Option<ResourceContents>, ErrorData> {
    let Some(handle) = uri.strip_prefix(PREFIX) else { return Ok(None) };
    match caller.scratch.trace(&caller.origin, handle) {
        Some(trace) => Ok(Some(ResourceContents::text(&*trace, uri).with_mime_type(MIME_TYPE))),
        None => Err(super::not_found(uri)),
    }
}
