//! `update_scope`: change the name, the description or the parents of a scope.

use kenning_presentation::Answer;
use kenning_storage::{ScopePatch, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ScopeOutput, parents};
use crate::arguments::{NAME_BYTES_MAX, Parents, TOPIC_BYTES_MAX, Text};
use crate::tool::{Effect, Tool, renamed_note, scope_name_in};
use crate::{Context, Stop};

pub(crate) struct UpdateScope;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// `namespace:scope`
    scope: Text<NAME_BYTES_MAX>,
    /// Its new name, in the same namespace.
    new_scope: Option<Text<NAME_BYTES_MAX>>,
    /// What it is for.
    description: Option<Text<TOPIC_BYTES_MAX>>,
    /// Replaces all; `default` stays.
    parents: Option<Parents>,
}

impl Tool for UpdateScope {
    const NAME: &'static str = "update_scope";
    const ABOUT: &'static str = "Rename, describe or re-parent a scope; entries and children follow. \
        Use when a team or project changed. Do not use to move entries (`update_knowledge`) or to leave the namespace. \
        Returns scope, description, parents, tx_id.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = ScopeOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<ScopeOutput>, Stop> {
        let name = ctx.scope_name(Some(&input.scope.0))?;
        let in_namespace = |new: &str| format!("write `{}:{new}`", name.namespace);
        let new = input.new_scope.map(|new| scope_name_in("new_scope", &new.0, in_namespace));
        let patch = ScopePatch {
            name: new.transpose()?,
            description: input.description.map(|text| text.0),
            parents: input.parents.map(|named| parents(&name.namespace, named)).transpose()?,
        };
        if patch.name.is_none() && patch.description.is_none() && patch.parents.is_none() {
            return Err(Stop::invalid("nothing to update: give `new_scope`, `description` or `parents`"));
        }
        if let Some(new) = patch.name.as_ref().filter(|new| **new != name) {
            ctx.note(renamed_note(&name.to_string(), &new.to_string()));
        }
        Ok(Answer::text(ctx.commit(Write::UpdateScope { name, patch }, ScopeOutput::new)?, text))
    }
}

fn text(output: &ScopeOutput) -> String {
    let ScopeOutput { scope, tx_id, .. } = output;
    format!("Updated scope `{scope}` in transaction {tx_id}; it {}.", output.inheritance())
}
