//! `update`: change an entry in place, keeping what it was.

use kenning_model::{EntityType, Record};
use kenning_presentation::Answer;
use kenning_storage::{EntryPatch, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{in_scope, moment};
use crate::arguments::{
    CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, Confidence, Moment, NAME_BYTES_MAX, Sizes, TOPIC_BYTES_MAX, Tags,
    Text, Whole, parse_id,
};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Update;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Of the entry.
    id: Text<NAME_BYTES_MAX>,
    /// The new topic.
    topic: Option<Text<TOPIC_BYTES_MAX>>,
    /// The whole new text.
    content: Option<Text<CONTENT_BYTES_MAX>>,
    /// Replaces all tags.
    tags: Option<Tags>,
    /// Other words someone may ask with.
    context: Option<Text<CONTEXT_BYTES_MAX>>,
    /// Replaces all sizes.
    task_sizes: Option<Sizes>,
    /// Moves it there.
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Where it comes from.
    source: Option<Text<TOPIC_BYTES_MAX>>,
    /// How sure, 0 to 1.
    confidence: Option<Confidence>,
    /// Hidden before then.
    valid_from: Option<Moment>,
    /// Hidden from then on.
    valid_to: Option<Moment>,
    /// Whether it comes with every task.
    pinned: Option<bool>,
    /// Id of the entry before it.
    follows: Option<Text<NAME_BYTES_MAX>>,
    /// Fields to unset.
    clear: Option<Vec<Field>>,
    /// Refuse if the entry is at another version.
    expected_version: Option<Whole<1, { u32::MAX as u64 }>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Field {
    Tags,
    Context,
    TaskSizes,
    Source,
    Confidence,
    ValidFrom,
    ValidTo,
    Pinned,
    Follows,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    id: String,
    scope: String,
    tx_id: u64,
    version: u32,
    updated_at: String,
}

impl Tool for Update {
    const NAME: &'static str = "update";
    const ABOUT: &'static str = "Change fields of an entry; the rest stays, the old version stays in `history`. \
        Use when a stored fact is wrong or has changed. Do not use for a new fact (`store`). \
        Pass `expected_version` to be refused (CONFLICT) if someone else changed it. Returns the new version.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let id = parse_id(EntityType::Entry, &input.id.0)?;
        let expected_version = input.expected_version.map(|version| version.0 as u32);
        let patch = patch(ctx, input)?;
        Ok(Answer::text(
            ctx.commit(Write::Update { id, patch, expected_version }, move |done| {
                let Some(Record::Entry(entry)) = &done.tx.changes[0].after else {
                    unreachable!("an update leaves an entry")
                };
                Output {
                    id: id.to_string(),
                    scope: done.names.of(entry.scope),
                    tx_id: done.tx.id.0,
                    version: entry.version,
                    updated_at: moment(done.tx.at),
                }
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { id, scope, tx_id, version, .. } = output;
    format!("Updated `{id}`{} to version {version} in transaction {tx_id}.", in_scope(scope))
}

fn patch(ctx: &Context<'_>, input: Input) -> Result<EntryPatch, Stop> {
    let scope = match &input.scope {
        Some(scope) => Some(ctx.scope(Some(&scope.0))?),
        None => None,
    };
    let follows = input.follows.map(|id| parse_id(EntityType::Entry, &id.0)).transpose()?;
    let mut patch = EntryPatch {
        scope,
        topic: input.topic.map(|topic| topic.0),
        content: input.content.map(|content| content.0),
        context: input.context.map(|context| Some(context.0)),
        tags: input.tags.map(|tags| tags.0),
        task_sizes: input.task_sizes.map(|sizes| sizes.0),
        source: input.source.map(|source| Some(source.0)),
        confidence: input.confidence.map(|confidence| Some(confidence.0)),
        valid_from: input.valid_from.map(|moment| Some(moment.0)),
        valid_to: input.valid_to.map(|moment| Some(moment.0)),
        pinned: input.pinned,
        follows: follows.map(Some),
    };
    for field in input.clear.unwrap_or_default() {
        let free = match field {
            Field::Tags => patch.tags.replace(Vec::new()).is_none(),
            Field::Context => patch.context.replace(None).is_none(),
            Field::TaskSizes => patch.task_sizes.replace(Vec::new()).is_none(),
            Field::Source => patch.source.replace(None).is_none(),
            Field::Confidence => patch.confidence.replace(None).is_none(),
            Field::ValidFrom => patch.valid_from.replace(None).is_none(),
            Field::ValidTo => patch.valid_to.replace(None).is_none(),
            Field::Pinned => patch.pinned.replace(false).is_none(),
            Field::Follows => patch.follows.replace(None).is_none(),
        };
        if !free {
            return Err(Stop::invalid("`clear` names a field that is also given, or names one twice"));
        }
    }
    match patch == EntryPatch::default() {
        true => Err(Stop::invalid("nothing to update: give a field, or name one in `clear`")),
        false => Ok(patch),
    }
}
