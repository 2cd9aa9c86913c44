//! `delete_scope`: remove a scope with all its content; the scopes that inherited from it keep their other
//! parents.

use kenning_model::EntityType;
use kenning_presentation::Answer;
use kenning_storage::Write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::{NAME_BYTES_MAX, Text};
use crate::code::counted;
use crate::tool::{Effect, Tool, count_of, scope_name};
use crate::{Context, Stop};

pub(crate) struct DeleteScope;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    scope: Text<NAME_BYTES_MAX>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    scope: String,
    knowledge_deleted: usize,
    /// Absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    documents_deleted: Option<usize>,
    tx_id: u64,
}

impl Tool for DeleteScope {
    const NAME: &'static str = "delete_scope";
    const ABOUT: &'static str = "Remove a scope with its entries, triples and documents; its children keep their other parents. \
        Use when nobody works there any more. Do not use on `default` or to rename (`update_scope`). \
        Returns knowledge_deleted, tx_id; `undo` with it brings all back.";
    const EFFECT: Effect = Effect::Removes;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let name = scope_name(&input.scope.0)?;
        let scope = name.to_string();
        Ok(Answer::text(
            ctx.commit(Write::DeleteScope { name }, move |done| Output {
                scope: scope.clone(),
                knowledge_deleted: count_of(done, EntityType::Entry),
                documents_deleted: Some(count_of(done, EntityType::Document)).filter(|many| *many > 0),
                tx_id: done.tx.id.0,
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { scope, knowledge_deleted, documents_deleted, tx_id } = output;
    let documents = documents_deleted.map(|many| format!(" and {}", counted(many, "document")));
    format!(
        "Deleted scope `{scope}` with {}{} in transaction {tx_id}. `undo` transaction {tx_id} to have it all back.",
        counted(*knowledge_deleted, "entry"),
        documents.unwrap_or_default()
    )
}
