//! `update_knowledge`: change an entry, or move it to another scope.

use kenning_model::{EntityType, Id, Record};
use kenning_presentation::Answer;
use kenning_storage::{EntryPatch, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::EntryOutput;
use crate::arguments::{
    CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Sizes, TOPIC_BYTES_MAX, Text, parse_id,
};
use crate::memory::similar::{NewText, SimilarEntry, similar, similar_text};
use crate::tool::{Effect, Tool, sight};
use crate::{Context, Stop};

pub(crate) struct UpdateKnowledge;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Of the entry.
    id: Text<NAME_BYTES_MAX>,
    /// The whole new text.
    content: Option<Text<CONTENT_BYTES_MAX>>,
    /// Words to find it by.
    context: Option<Text<CONTEXT_BYTES_MAX>>,
    /// Moves it there.
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// The new topic.
    topic: Option<Text<TOPIC_BYTES_MAX>>,
    /// Replaces all sizes.
    task_sizes: Option<Sizes>,
    /// Whether it comes with every task.
    pinned: Option<bool>,
}

impl Tool for UpdateKnowledge {
    const NAME: &'static str = "update_knowledge";
    const ABOUT: &'static str = "As `update`, and moves an entry to another scope. \
        Use when it is outdated or in the wrong place. Do not use for a new fact (`write_knowledge`). Returns id, scope, tx_id, `similar`.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = EntryOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<EntryOutput>, Stop> {
        let id = parse_id(EntityType::Entry, &input.id.0)?;
        let patch = EntryPatch {
            scope: input.scope.map(|scope| ctx.scope(Some(&scope.0))).transpose()?,
            topic: input.topic.map(|topic| topic.0),
            content: input.content.map(|content| content.0),
            context: input.context.map(|context| Some(context.0)),
            task_sizes: input.task_sizes.map(|sizes| sizes.0),
            pinned: input.pinned,
            ..EntryPatch::default()
        };
        if patch == EntryPatch::default() {
            return Err(Stop::invalid(
                "nothing to update: give `content`, `context`, `scope`, `topic`, `task_sizes` or `pinned`",
            ));
        }
        let similar = alike(ctx, id, &patch)?;
        Ok(Answer::text(
            ctx.commit(Write::Update { id, patch, expected_version: None }, move |done| {
                let Some(Record::Entry(entry)) = &done.tx.changes[0].after else {
                    unreachable!("an update leaves an entry")
                };
                EntryOutput {
                    id: id.to_string(),
                    scope: done.names.of(entry.scope),
                    tx_id: done.tx.id.0,
                    similar: similar.clone(),
                }
            })?,
            text,
        ))
    }
}

fn text(output: &EntryOutput) -> String {
    let EntryOutput { id, scope, tx_id, similar } = output;
    let similar = similar_text(similar, *tx_id);
    format!("Updated `{id}` in scope `{scope}` in transaction {tx_id}.{similar}")
}

/// The entries that are similar to the new text. The entry may be in any scope, so only entries that the
/// caller sees are reported.
fn alike(ctx: &Context<'_>, id: Id, patch: &EntryPatch) -> Result<Vec<SimilarEntry>, Stop> {
    if patch.topic.is_none() && patch.content.is_none() {
        return Ok(Vec::new());
    }
    let snapshot = ctx.snapshot()?;
    let Some(stored) = snapshot.entry(id)? else { return Ok(Vec::new()) };
    let Some(entry) = stored.record.as_entry() else { return Ok(Vec::new()) };
    let within = sight(&snapshot, &ctx.scope_name(None)?)?;
    let text = NewText {
        scope: patch.scope.unwrap_or(entry.scope),
        topic: patch.topic.as_deref().unwrap_or(&entry.topic),
        content: patch.content.as_deref().unwrap_or(&entry.content),
        except: &[id],
        within: Some(&within),
    };
    Ok(similar(ctx, &snapshot, &text))
}
