//! Tools over documents: search, read in bounded pieces, quote. No tool returns a whole section.

mod diagnostics;
pub(crate) mod document_search;
mod expand_excerpt;
mod expansion;
mod extract_evidence;
mod passage;
mod read_excerpt;
mod retrieve_evidence;
pub(crate) mod search;

pub(crate) use retrieve_evidence::brief_evidence;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::item::one_line;
use crate::tool::{ToolRow, list_row, row};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![
        row::<retrieve_evidence::RetrieveEvidence>(),
        list_row::<search::Search>(),
        row::<read_excerpt::ReadExcerpt>(),
        row::<expand_excerpt::ExpandExcerpt>(),
        row::<extract_evidence::ExtractEvidence>(),
    ]
}

/// Where a quote or an excerpt is from.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Citation {
    section_id: String,
    doc_tag: String,
    title: String,
    /// Of the document, below what was taken in.
    path: String,
    uri: String,
}

impl Citation {
    /// The citation as text. It names the section and not the passage, because a section's id stays valid in
    /// later sessions.
    fn shown(&self) -> String {
        let [title, path] = [&self.title, &self.path].map(|text| one_line(text, 200));
        format!("\"{title}\" ({path}, section {})", self.section_id)
    }
}
