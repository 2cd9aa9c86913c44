//! The existing entries that a new text nearly repeats, or that it may contradict; every write of an entry
//! returns them.

use kenning_engine::{Sight, Similar, Snapshot};
use kenning_model::{Id, Record, ScopeId};
use kenning_presentation::text::{clean, cut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{as_data, one_line};
use crate::{Context, Stop};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SimilarEntry {
    pub(crate) id: String,
    topic: String,
    /// The beginning of its content.
    content: String,
}

const SIMILAR_BYTES_MAX: usize = 300;

impl SimilarEntry {
    /// The entry on one line: `K7H9M2PQX8 deployment: Use blue-green deploys.`
    pub(crate) fn line(&self) -> String {
        let topic = match self.topic.is_empty() {
            true => String::new(),
            false => format!(" {}", one_line(&self.topic, 100)),
        };
        format!("{}{topic}: {}", self.id, one_line(&self.content, 200))
    }
}

/// A text that is about to be written to a scope.
pub(crate) struct NewText<'a> {
    pub(crate) scope: ScopeId,
    pub(crate) topic: &'a str,
    pub(crate) content: &'a str,
    /// Entries that are not reported as similar: the entry itself, and the entry that it follows.
    pub(crate) except: &'a [Id],
    /// The scopes that the caller sees, if these may be fewer than those that the scope sees.
    pub(crate) within: Option<&'a Sight>,
}

/// The entries in sight that are similar to a text. They are only a hint, so a failed search does not fail
/// the write but finds nothing.
pub(crate) fn similar(ctx: &Context<'_>, snapshot: &Snapshot<'_>, new: &NewText<'_>) -> Vec<SimilarEntry> {
    find(ctx, snapshot, new).unwrap_or_default()
}

fn find(ctx: &Context<'_>, snapshot: &Snapshot<'_>, new: &NewText<'_>) -> Result<Vec<SimilarEntry>, Stop> {
    let NewText { scope, topic, content, except, within } = *new;
    let sight = snapshot.sight(scope)?;
    let sight = match within {
        Some(within) => sight.within(within.scopes()),
        None => sight,
    };
    let mut similar = Vec::new();
    for id in ctx.engine.similar(snapshot, &Similar { sight: &sight, topic, content, except })? {
        if let Some(stored) = snapshot.entry(id)?
            && let Record::Entry(entry) = &stored.record
        {
            similar.push(SimilarEntry {
                id: id.to_string(),
                topic: clean(&entry.topic),
                content: cut(&clean(&entry.content), SIMILAR_BYTES_MAX),
            });
        }
    }
    Ok(similar)
}

/// The sentences about similar entries in the text of a reply; empty if there are none.
pub(crate) fn similar_text(similar: &[SimilarEntry], tx_id: u64) -> String {
    if similar.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = similar.iter().map(SimilarEntry::line).collect();
    format!(
        " Similar entries were there before. {}\nIf one of these says the same, `undo` transaction {tx_id} and `update` that one instead; \
         if one no longer holds, `resolve_knowledge_collision`.",
        as_data(&lines.join("\n"))
    )
}
