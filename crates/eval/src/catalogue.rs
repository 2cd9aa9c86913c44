//! Questions to a catalogue of patterns, each with the ids of the patterns that answer it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use kenning_engine::{DocumentKind, Embedder};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::library::Library;
use crate::questions::files_below;

#[derive(Deserialize)]
struct Sheet {
    questions: Vec<Specific>,
}

/// A question that only a few patterns answer.
#[derive(Clone, Deserialize)]
pub struct Specific {
    pub question: String,
    pub ids: Vec<String>,
    /// Whether the question is kept back until the end, so that nothing is fitted to it.
    #[serde(default)]
    pub unseen: bool,
}

impl Specific {
    pub fn read(file: &Path) -> anyhow::Result<Vec<Specific>> {
        let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
        Ok(serde_json::from_str::<Sheet>(&text)?.questions)
    }
}

/// The reply of `search_patterns` to a question.
pub struct CatalogueReply {
    pub question: String,
    pub is_too_broad: bool,
    /// Whether a right pattern is among the first three.
    pub is_right: bool,
    pub first: Vec<String>,
}

/// Ingests a catalogue and asks the questions.
pub fn ask_catalogue(
    tree: &Path,
    questions: &[Specific],
    embedder: Embedder,
) -> anyhow::Result<Vec<CatalogueReply>> {
    let library = Library::of_kind(embedder, DocumentKind::Pattern);
    for file in files_below(tree)? {
        let path = file.strip_prefix(tree)?.to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&file).with_context(|| format!("{path} can't be read"))?;
        library.take_in(&path, &text)?;
    }
    let mut found = Vec::new();
    for Specific { question, ids, .. } in questions {
        let reply = library.call("search_patterns", json!({"q": question}))?;
        let is_too_broad = reply.structured["kind"] == "needsInput:v1";
        // The list that the reply shows: the matches, or the best of too many, or the suggestions if nothing
        // matches.
        let places = ["/patterns/0", "/bestMatches/0", "/discovery/suggestions/0"];
        let shown = places.iter().find(|first| reply.structured.pointer(first).is_some());
        let listed = shown.and_then(|first| reply.structured.pointer(first.trim_end_matches("/0")));
        let first: Vec<String> = listed
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .take(3)
            .filter_map(|pattern| pattern["id"].as_str().map(str::to_owned))
            .collect();
        let is_right = first.iter().any(|id| ids.contains(id));
        found.push(CatalogueReply { question: question.clone(), is_too_broad, is_right, first });
    }
    Ok(found)
}
