//! `kenning://scratch/{session_id}/{passage_id}`: a section that a search found, whole, for the client that searched.

use kenning_presentation::Link;
use kenning_tools::{Caller, ScratchOwner};
use rmcp::model::{Annotations, MetaObject, Resource, ResourceContents, ResourceTemplate, Role};
use serde_json::json;

const TEMPLATE: &str = "kenning://scratch/{session_id}/{passage_id}";
pub(super) const PREFIX: &str = "kenning://scratch/";
const MIME_TYPE: &str = "text/plain";
/// The lowest useful priority: a host that chooses which resources to show a model chooses these last.
const PRIORITY: f64 = 0.1;
/// The most bytes that a read returns.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "passage")
        .with_description(
            "A section that `kb_search` found, kept for half an hour. Prefer `kb_read_excerpt`.",
        )
        .with_mime_type(MIME_TYPE)
        .with_annotations(
            Annotations::default().with_audience(vec![Role::Assistant]).with_priority(PRIORITY as f32),
        )
}

pub(crate) fn link(link: Link) -> Resource {
    // A fractional priority is left out, because some clients do not accept it in a resource link.
    let mut annotations = Annotations::default().with_audience(vec![Role::Assistant]);
    annotations.last_modified = Some(link.last_modified);
    let mut resource =
        Resource::new(link.uri, link.name).with_mime_type(MIME_TYPE).with_annotations(annotations);
    resource.size = link.bytes;
    resource
}

/// Reads such a resource; `None` if it does not exist for this owner.
pub(super) fn read(caller: &Caller, owner: &ScratchOwner, uri: &str, path: &str) -> Option<ResourceContents> {
    let (_, handle) = path.split_once('/').filter(|(session, _)| *session == caller.session())?;
    let passage = caller.scratch.get(owner, handle)?;
    let shown = &passage.text[..passage.text.floor_char_boundary(READ_BYTES_MAX)];
    let mut meta = MetaObject::new();
    let annotations = json!({
        "audience": ["assistant"],
        "priority": PRIORITY,
        "lastModified": passage.created_at.to_string(),
        "size": passage.text.len(),
    });
    meta.0.insert("io.kenning/annotations".to_owned(), annotations);
    Some(ResourceContents::text(shown, uri).with_mime_type(MIME_TYPE).with_meta(meta))
}
