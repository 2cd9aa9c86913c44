//! `delete_knowledge`: close an entry.

use kenning_model::EntityType;
use kenning_presentation::Answer;
use kenning_storage::Write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::{NAME_BYTES_MAX, Text, parse_id};
use crate::memory::item::{in_scope, scope_before};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct DeleteKnowledge;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Of the entry.
    id: Text<NAME_BYTES_MAX>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    id: String,
    /// Where it was.
    #[serde(default)]
    scope: String,
    tx_id: u64,
}

impl Tool for DeleteKnowledge {
    const NAME: &'static str = "delete_knowledge";
    const ABOUT: &'static str = "As `delete`, for an entry. Use when it is wrong or no longer wanted. \
        Do not use when another entry contradicts it (`resolve_knowledge_collision`). \
        Returns id, tx_id; `undo` with it brings the entry back.";
    const EFFECT: Effect = Effect::Removes;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let (entity_type, id) = (EntityType::Entry, parse_id(EntityType::Entry, &input.id.0)?);
        Ok(Answer::text(
            ctx.commit(Write::Delete { entity_type, id }, move |done| Output {
                id: id.to_string(),
                scope: scope_before(done),
                tx_id: done.tx.id.0,
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { id, scope, tx_id } = output;
    format!(
        "Deleted `{id}`{} in transaction {tx_id}. `undo` transaction {tx_id} to have it back.",
        in_scope(scope)
    )
}
