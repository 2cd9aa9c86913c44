//! `kenning://diagnostics/{diagnostic_id}`: how a search came to its results, for the client that searched.

use kenning_tools::{Caller, ScratchOwner};
use rmcp::model::{ResourceContents, ResourceTemplate};

use serde_json::json;

use super::MIME_TYPE;

const TEMPLATE: &str = "kenning://diagnostics/{diagnostic_id}";
/// Used in place of an id: the address then shows how much the replies of this session have cost so far.
const USAGE: &str = "usage";
pub(super) const PREFIX: &str = "kenning://diagnostics/";

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "diagnostics")
        .with_description(
            "How a search with `options.include_debug` came to its results: scores, matched words, what was left out; kept for half an hour. `usage` counts what the replies of this session cost.",
        )
        .with_mime_type(MIME_TYPE)
}

/// Reads such a resource; `None` if it does not exist for this owner.
pub(super) fn read(caller: &Caller, owner: &ScratchOwner, uri: &str) -> Option<ResourceContents> {
    let handle = uri.strip_prefix(PREFIX)?;
    if handle == USAGE {
        let usage = json!({"tools": caller.usage.counted(), "passages_evicted": caller.scratch.evictions()});
        return Some(ResourceContents::text(usage.to_string(), uri).with_mime_type(MIME_TYPE));
    }
    let trace = caller.scratch.trace(owner, handle)?;
    Some(ResourceContents::text(&*trace, uri).with_mime_type(MIME_TYPE))
}
