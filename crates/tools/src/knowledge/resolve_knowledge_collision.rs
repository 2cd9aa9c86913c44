//! `resolve_knowledge_collision`: state which of several contradicting entries is right, and hide the others.

use kenning_model::EntityType;
use kenning_presentation::Answer;
use kenning_storage::Write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::{NAME_BYTES_MAX, Text, Texts, parse_id};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct ResolveKnowledgeCollision;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The entry that holds.
    active_id: Text<NAME_BYTES_MAX>,
    /// Those to hide; none only makes `active_id` active again.
    suppressed_ids: Suppressed,
}

type Suppressed = Texts<0, 50, NAME_BYTES_MAX>;

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    active_id: String,
    suppressed_ids: Vec<String>,
    tx_id: u64,
}

impl Tool for ResolveKnowledgeCollision {
    const NAME: &'static str = "resolve_knowledge_collision";
    const ABOUT: &'static str = "Settle entries that contradict each other: one stays active, the others are hidden everywhere. \
        Use when `get_task_context` names `contradictions` and you know which holds. \
        With no `suppressed_ids` a hidden entry is active again. Do not use where each holds in its own scope. Returns the ids and tx_id for `undo`.";
    const EFFECT: Effect = Effect::WritesOnce;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let parse = |text: &String| parse_id(EntityType::Entry, text);
        let active = parse(&input.active_id.0)?;
        let suppressed = input.suppressed_ids.0.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<String> = suppressed.iter().map(ToString::to_string).collect();
        Ok(Answer::text(
            ctx.commit(Write::Resolve { active, suppressed }, move |done| Output {
                active_id: active.to_string(),
                suppressed_ids: ids.clone(),
                tx_id: done.tx.id.0,
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { active_id, suppressed_ids, tx_id } = output;
    if suppressed_ids.is_empty() {
        return format!("`{active_id}` is active. `undo` transaction {tx_id} to take this back.");
    }
    format!(
        "`{active_id}` holds; hidden: {}. `undo` transaction {tx_id} to take this back; `query` with `include_suppressed` still finds them.",
        suppressed_ids.join(", ")
    )
}
