//! `delete_namespace`: remove a namespace with all its content, in one transaction.

use kenning_presentation::Answer;
use kenning_storage::Write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::Name;
use crate::code::counted;
use crate::tool::{Effect, Tool, count_of};
use crate::{Context, Stop};
use kenning_model::EntityType;

pub(crate) struct DeleteNamespace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    name: Name,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    name: String,
    scopes_count: usize,
    knowledge_count: usize,
    /// Absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    documents_count: Option<usize>,
    tx_id: u64,
}

impl Tool for DeleteNamespace {
    const NAME: &'static str = "delete_namespace";
    const ABOUT: &'static str = "Remove a namespace with its scopes, entries, triples and documents. \
        Use when the organisation or project is gone. Do not use to tidy up (`delete_scope`, `delete_knowledge`). \
        Returns scopes_count, knowledge_count, tx_id; `undo` with it brings all back.";
    const EFFECT: Effect = Effect::Removes;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let name = input.name.0.clone();
        Ok(Answer::text(
            ctx.commit(Write::DeleteNamespace { name: input.name.0 }, move |done| Output {
                name: name.clone(),
                scopes_count: count_of(done, EntityType::Scope),
                knowledge_count: count_of(done, EntityType::Entry),
                documents_count: Some(count_of(done, EntityType::Document)).filter(|many| *many > 0),
                tx_id: done.tx.id.0,
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { name, scopes_count, knowledge_count, documents_count, tx_id } = output;
    let mut gone = vec![counted(*scopes_count, "scope"), counted(*knowledge_count, "entry")];
    gone.extend(documents_count.map(|many| counted(many, "document")));
    let last = gone.pop().unwrap_or_default();
    format!(
        "Deleted namespace `{name}` with {} and {last} in transaction {tx_id}. `undo` transaction {tx_id} to have it all back.",
        gone.join(", ")
    )
}
