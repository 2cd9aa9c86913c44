//! `create_namespace`: make a namespace for an organisation or a project, with its `default` scope.

use kenning_model::{DEFAULT, ScopeName};
use kenning_presentation::Answer;
use kenning_storage::{NewNamespace, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::NamespaceOutput;
use crate::arguments::{Name, TOPIC_BYTES_MAX, Text};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct CreateNamespace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    name: Name,
    description: Text<TOPIC_BYTES_MAX>,
}

impl Tool for CreateNamespace {
    const NAME: &'static str = "create_namespace";
    const ABOUT: &'static str = "Make a namespace with its scope `default`. \
        Use when `get_namespaces` shows none that fits the organisation or project. Do not use per task or topic. \
        Returns name, description, scopes, tx_id. Then put `scope: NAME:default` into CLAUDE.md or AGENTS.md.";
    const EFFECT: Effect = Effect::Writes;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = NamespaceOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<NamespaceOutput>, Stop> {
        let made = ScopeName::new(&input.name.0, DEFAULT);
        let new = NewNamespace { name: input.name.0, description: input.description.0 };
        let is_repeated = ctx.is_repeated()?;
        let output = ctx.commit(Write::CreateNamespace(new), NamespaceOutput::new)?;
        // A repeated call may come from another project, which must not become trusted by it.
        if !is_repeated {
            ctx.trust(&made);
        }
        Ok(Answer::text(output, text))
    }
}

fn text(output: &NamespaceOutput) -> String {
    let NamespaceOutput { name, tx_id, .. } = output;
    format!(
        "Created namespace `{name}` with scope `{name}:default` in transaction {tx_id}. Pass `scope` `{name}:default`, \
         or put the line `scope: {name}:default` into the project's CLAUDE.md or AGENTS.md."
    )
}
