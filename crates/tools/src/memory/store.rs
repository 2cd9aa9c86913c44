//! `store`: keep a piece of knowledge.

use kenning_engine::Snapshot;
use kenning_model::{EntityType, Id};
use kenning_presentation::Answer;
use kenning_storage::{Follows, NewEntry, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{in_scope, moment};
use super::similar::{NewText, SimilarEntry, similar, similar_text};
use crate::arguments::{
    CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, Confidence, Moment, NAME_BYTES_MAX, Sizes, TOPIC_BYTES_MAX, Tags,
    Text, parse_id,
};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Store;

/// The fields of an entry; `F` is how the entry before it is named.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input<F> {
    /// What it is about, in a few words.
    topic: Text<TOPIC_BYTES_MAX>,
    /// The fact itself; one per entry.
    content: Text<CONTENT_BYTES_MAX>,
    /// Labels to filter by.
    tags: Option<Tags>,
    /// Other words someone may ask with.
    context: Option<Text<CONTEXT_BYTES_MAX>>,
    /// Sizes of the tasks it is for; none is all.
    task_sizes: Option<Sizes>,
    /// `namespace:scope`
    pub(super) scope: Option<Text<NAME_BYTES_MAX>>,
    /// Where it comes from.
    source: Option<Text<TOPIC_BYTES_MAX>>,
    /// How sure, 0 to 1.
    confidence: Option<Confidence>,
    /// Hidden before then.
    valid_from: Option<Moment>,
    /// Hidden from then on.
    valid_to: Option<Moment>,
    /// Give it with every task.
    pinned: Option<bool>,
    /// Id of the entry before it, in the same scope.
    pub(super) follows: Option<F>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    id: String,
    scope: String,
    tx_id: u64,
    version: u32,
    recorded_at: String,
    similar: Vec<SimilarEntry>,
}

impl<F> Input<F> {
    /// The new entry, and the stored entries that are similar to it.
    pub(super) fn prepare(
        self,
        ctx: &Context<'_>,
        snapshot: &Snapshot<'_>,
        scope: kenning_model::ScopeId,
        follows: Option<Follows>,
    ) -> (NewEntry, Vec<SimilarEntry>) {
        let new = NewEntry {
            scope,
            topic: self.topic.0,
            content: self.content.0,
            context: self.context.map(|context| context.0),
            tags: self.tags.map(|tags| tags.0).unwrap_or_default(),
            task_sizes: self.task_sizes.map(|sizes| sizes.0).unwrap_or_default(),
            source: self.source.map(|source| source.0),
            confidence: self.confidence.map(|confidence| confidence.0),
            valid_from: self.valid_from.map(|moment| moment.0),
            valid_to: self.valid_to.map(|moment| moment.0),
            pinned: self.pinned.unwrap_or(false),
            follows,
        };
        let followed: Option<Id> = match follows {
            Some(Follows::Entry(id)) => Some(id),
            _ => None,
        };
        let text = NewText {
            scope,
            topic: &new.topic,
            content: &new.content,
            except: followed.as_slice(),
            within: None,
        };
        let similar = similar(ctx, snapshot, &text);
        (new, similar)
    }
}

impl Tool for Store {
    const NAME: &'static str = "store";
    const ABOUT: &'static str = "Keep a fact, decision or preference for later sessions. Use when you learn something worth remembering. \
        Do not use to change an entry (`update`), for many at once (`store_many`) or to link two things (`relate`). \
        Returns id, scope, tx_id and up to 3 `similar` entries; if one says the same, `undo` and `update` that one.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    type Input = Input<Text<NAME_BYTES_MAX>>;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Self::Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let scope = ctx.scope_in(&snapshot, input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let follows = input.follows.as_ref().map(|id| parse_id(EntityType::Entry, &id.0)).transpose()?;
        let (new, similar) = input.prepare(ctx, &snapshot, scope, follows.map(Follows::Entry));
        drop(snapshot);
        Ok(Answer::text(
            ctx.commit(Write::Store(new), move |done| Output {
                id: done.tx.changes[0].id.to_string(),
                scope: done.names.of(scope),
                tx_id: done.tx.id.0,
                version: 1,
                recorded_at: moment(done.tx.at),
                similar: similar.clone(),
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { id, tx_id, scope, similar, .. } = output;
    let similar = similar_text(similar, *tx_id);
    format!("Stored `{id}`{} in transaction {tx_id}.{similar}", in_scope(scope))
}
