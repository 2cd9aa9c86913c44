//! `write_knowledge`: store an entry that is seen in its scope and in all scopes that inherit from it.

use kenning_presentation::Answer;
use kenning_storage::{NewEntry, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::EntryOutput;
use crate::arguments::{CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Sizes, TOPIC_BYTES_MAX, Text};
use crate::memory::similar::{NewText, similar, similar_text};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct WriteKnowledge;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Complete in itself.
    content: Text<CONTENT_BYTES_MAX>,
    /// Words to find it by: variants, technologies, concepts, uses.
    context: Text<CONTEXT_BYTES_MAX>,
    /// `namespace:scope`
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// What it is about, in a few words.
    topic: Option<Text<TOPIC_BYTES_MAX>>,
    /// Of the tasks it is for; none is all.
    task_sizes: Option<Sizes>,
    /// Give it with every task.
    pinned: Option<bool>,
}

impl Tool for WriteKnowledge {
    const NAME: &'static str = "write_knowledge";
    const ABOUT: &'static str = "As `store`, for a rule or guide that all who work in the scope, or below it, are to follow. \
        Use when others will need it; write `context` as they would ask (\"nodejs node.js express jwt auth middleware\"). \
        Do not use to change an entry (`update_knowledge`). Returns id, scope, tx_id and up to 3 `similar` entries.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = EntryOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<EntryOutput>, Stop> {
        let snapshot = ctx.snapshot()?;
        let scope = ctx.scope_in(&snapshot, input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let new = NewEntry {
            context: Some(input.context.0),
            task_sizes: input.task_sizes.map(|sizes| sizes.0).unwrap_or_default(),
            pinned: input.pinned.unwrap_or(false),
            ..NewEntry::new(scope, input.topic.map(|topic| topic.0).unwrap_or_default(), input.content.0)
        };
        let new_text = NewText { scope, topic: &new.topic, content: &new.content, except: &[], within: None };
        let similar = similar(ctx, &snapshot, &new_text);
        drop(snapshot);
        Ok(Answer::text(
            ctx.commit(Write::Store(new), move |done| EntryOutput {
                id: done.tx.changes[0].id.to_string(),
                scope: done.names.of(scope),
                tx_id: done.tx.id.0,
                similar: similar.clone(),
            })?,
            text,
        ))
    }
}

fn text(output: &EntryOutput) -> String {
    let EntryOutput { id, scope, tx_id, similar } = output;
    format!("Wrote `{id}` to scope `{scope}` in transaction {tx_id}.{}", similar_text(similar, *tx_id))
}
