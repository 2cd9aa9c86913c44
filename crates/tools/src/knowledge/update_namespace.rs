//! `update_namespace`: change the name or the description of a namespace.

use kenning_presentation::Answer;
use kenning_storage::{NamespacePatch, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{NamespaceOutput, current_name};
use crate::arguments::{Name, TOPIC_BYTES_MAX, Text};
use crate::tool::{Effect, Tool, renamed_note};
use crate::{Context, Stop};

pub(crate) struct UpdateNamespace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Its name.
    name: Name,
    /// Its new name.
    new_name: Option<Name>,
    /// What it is for.
    description: Option<Text<TOPIC_BYTES_MAX>>,
}

impl Tool for UpdateNamespace {
    const NAME: &'static str = "update_namespace";
    const ABOUT: &'static str = "Rename or describe a namespace; all that is in it follows. \
        Use when its name or purpose changed. Do not use for `global`, or for one scope (`update_scope`). \
        Returns name, description, scopes, tx_id.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = NamespaceOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<NamespaceOutput>, Stop> {
        let patch = NamespacePatch {
            name: input.new_name.map(|name| name.0),
            description: input.description.map(|text| text.0),
        };
        if patch.name.is_none() && patch.description.is_none() {
            return Err(Stop::invalid("nothing to update: give `new_name` or `description`"));
        }
        let snapshot = ctx.snapshot()?;
        let name = current_name(ctx, &snapshot, input.name.0)?;
        drop(snapshot);
        if let Some(new) = patch.name.as_ref().filter(|new| **new != name) {
            ctx.note(renamed_note(&format!("{name}:SCOPE"), &format!("{new}:SCOPE")));
        }
        Ok(Answer::text(ctx.commit(Write::UpdateNamespace { name, patch }, NamespaceOutput::new)?, text))
    }
}

fn text(output: &NamespaceOutput) -> String {
    let NamespaceOutput { name, tx_id, scopes, scopes_left_out, .. } = output;
    let many = scopes.0.len() + scopes_left_out.unwrap_or(0);
    let scopes = crate::code::counted(many, "scope");
    format!("Updated namespace `{name}` ({scopes}) in transaction {tx_id}.")
}
