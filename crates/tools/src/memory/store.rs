//! `store`: keep a piece of knowledge.

use kenning_engine::{Similar, Snapshot};
use kenning_model::{EntityType, Record, ScopeId};
use kenning_presentation::text::{clean, cut};
use kenning_storage::{Follows, NewEntry, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{as_data, in_scope, moment, one_line};
use crate::arguments::{
    CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, Confidence, Moment, NAME_BYTES_MAX, Sizes, TOPIC_BYTES_MAX, Tags,
    Text, parse_id,
};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Store;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
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
    scope: Option<Text<NAME_BYTES_MAX>>,
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
    follows: Option<Text<NAME_BYTES_MAX>>,
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

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct SimilarEntry {
    id: String,
    topic: String,
    /// The beginning of its content.
    content: String,
}

const SIMILAR_BYTES_MAX: usize = 300;

impl Tool for Store {
    const NAME: &'static str = "store";
    const ABOUT: &'static str = "Keep a fact, decision or preference for later sessions. Use when you learn something worth remembering. \
        Do not use to change an entry (`update`) or to link two things (`relate`). \
        Returns id, tx_id and up to 3 `similar` entries; if one says the same, `undo` and `update` that one.";
    const EFFECT: Effect = Effect::Writes;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Output, Stop> {
        let snapshot = ctx.engine.snapshot()?;
        let scope = ctx.scope_in(&snapshot, input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let follows = input.follows.map(|id| parse_id(EntityType::Entry, &id.0)).transpose()?;
        let (topic, content) = (input.topic.0, input.content.0);
        // A hint must not stand in the way of a write.
        let similar = similar(ctx, &snapshot, scope, &topic, &content).unwrap_or_default();
        drop(snapshot);
        let new = NewEntry {
            scope,
            topic,
            content,
            context: input.context.map(|context| context.0),
            tags: input.tags.map(|tags| tags.0).unwrap_or_default(),
            task_sizes: input.task_sizes.map(|sizes| sizes.0).unwrap_or_default(),
            source: input.source.map(|source| source.0),
            confidence: input.confidence.map(|confidence| confidence.0),
            valid_from: input.valid_from.map(|moment| moment.0),
            valid_to: input.valid_to.map(|moment| moment.0),
            pinned: input.pinned.unwrap_or(false),
            follows: follows.map(Follows::Entry),
        };
        ctx.commit(Write::Store(new), move |done| Output {
            id: done.tx.changes[0].id.to_string(),
            scope: done.names.of(scope),
            tx_id: done.tx.id.0,
            version: 1,
            recorded_at: moment(done.tx.at),
            similar: similar.clone(),
        })
    }

    fn text(output: &Output) -> String {
        let Output { id, tx_id, .. } = output;
        let stored = format!("Stored `{id}`{} in transaction {tx_id}.", in_scope(&output.scope));
        if output.similar.is_empty() {
            return stored;
        }
        let lines: Vec<String> = output
            .similar
            .iter()
            .map(|entry| {
                format!("{} {}: {}", entry.id, one_line(&entry.topic, 100), one_line(&entry.content, 200))
            })
            .collect();
        let next = format!(
            "If one of these says the same, `undo` transaction {} and `update` that one instead.",
            output.tx_id
        );
        format!("{stored} Similar entries were there before. {}\n{next}", as_data(&lines.join("\n")))
    }
}

fn similar(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    scope: ScopeId,
    topic: &str,
    content: &str,
) -> Result<Vec<SimilarEntry>, Stop> {
    let scopes = snapshot.closure(scope)?;
    let mut similar = Vec::new();
    for id in ctx.engine.similar(snapshot, &Similar { scopes: &scopes, topic, content })? {
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
