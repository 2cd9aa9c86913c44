//! `create_scope`: make a scope in a namespace; it inherits from other scopes.

use kenning_presentation::Answer;
use kenning_storage::{NewScope, Write};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ScopeOutput, parents};
use crate::arguments::{NAME_BYTES_MAX, Parents, TOPIC_BYTES_MAX, Text};
use crate::tool::{Effect, Tool, scope_name};
use crate::{Context, Stop};

pub(crate) struct CreateScope;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// `namespace:scope`
    scope: Text<NAME_BYTES_MAX>,
    description: Text<TOPIC_BYTES_MAX>,
    /// Nearest first; `default` is added.
    parents: Option<Parents>,
}

impl Tool for CreateScope {
    const NAME: &'static str = "create_scope";
    const ABOUT: &'static str = "Make a scope in a namespace. It sees its own entries, then its `parents`', then `default`'s, then `global:default`'s. \
        Use for a project, team or component with knowledge of its own. Do not use per task. \
        Returns scope, description, parents, tx_id.";
    const EFFECT: Effect = Effect::Writes;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = ScopeOutput;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<ScopeOutput>, Stop> {
        let name = scope_name(&input.scope.0)?;
        let parents = input.parents.map(|named| parents(&name.namespace, named)).transpose()?;
        let made = name.clone();
        let new = NewScope { name, description: input.description.0, parents: parents.unwrap_or_default() };
        let is_repeated = ctx.is_repeated()?;
        let output = ctx.commit(Write::CreateScope(new), ScopeOutput::new)?;
        // A repeated call may come from another project, which must not become trusted by it.
        if !is_repeated {
            ctx.trust(&made);
        }
        Ok(Answer::text(output, text))
    }
}

fn text(output: &ScopeOutput) -> String {
    let ScopeOutput { scope, tx_id, .. } = output;
    let inheritance = output.inheritance();
    format!(
        "Created scope `{scope}` in transaction {tx_id}; it {inheritance}. Pass it as `scope`, or put the line \
         `scope: {scope}` into the project's CLAUDE.md or AGENTS.md."
    )
}
