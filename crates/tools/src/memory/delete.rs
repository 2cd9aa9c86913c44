//! `delete`: close an entry or a triple.

use kenning_model::{EntityType, Id};
use kenning_presentation::Answer;
use kenning_presentation::text::quote;
use kenning_storage::Write;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{in_scope, scope_before, triple_items};
use crate::arguments::{NAME_BYTES_MAX, Text, parse_id};
use crate::disclosure::is_told;
use crate::tool::{Effect, Tool};
use crate::{Code, Context, Stop};

pub(crate) struct Delete;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Of the entry or triple.
    id: Text<NAME_BYTES_MAX>,
    /// What the id is of; default entry.
    entity_type: Option<Deletable>,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Deletable {
    Entry,
    Triple,
}

impl From<Deletable> for EntityType {
    fn from(kind: Deletable) -> EntityType {
        match kind {
            Deletable::Entry => EntityType::Entry,
            Deletable::Triple => EntityType::Triple,
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    id: String,
    entity_type: Deletable,
    /// Where it was.
    #[serde(default)]
    scope: String,
    tx_id: u64,
}

/// Refuses an id that is the id of a triple when an entry was meant, and says so.
fn refuse_triple(ctx: &Context<'_>, id: Id) -> Result<(), Stop> {
    let snapshot = ctx.snapshot()?;
    if snapshot.entry(id)?.is_some() {
        return Ok(());
    }
    let Some(triple) = snapshot.triple(id)? else { return Ok(()) };
    // An id that is out of sight is refused like an id that does not exist.
    if !is_told(ctx, &snapshot, &triple)? {
        return Ok(());
    }
    let fact = triple_items(&snapshot, &[triple])?.first().map(|item| quote(&item.line(200), 200));
    let message = format!(
        "`{id}` is a triple ({}); pass `entity_type`: \"triple\" to delete it",
        fact.unwrap_or_default()
    );
    Err(Stop::new(Code::NotFound, message))
}

impl Tool for Delete {
    const NAME: &'static str = "delete";
    const ABOUT: &'static str = "Remove an entry, or with `entity_type` triple a triple. \
        Use when it is wrong or no longer wanted. Do not use to correct it (`update`). \
        Returns tx_id; `undo` with it brings the item back.";
    const EFFECT: Effect = Effect::Removes;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let kind = input.entity_type.unwrap_or(Deletable::Entry);
        let id = parse_id(kind.into(), &input.id.0)?;
        if input.entity_type.is_none() {
            refuse_triple(ctx, id)?;
        }
        Ok(Answer::text(
            ctx.commit(Write::Delete { entity_type: kind.into(), id }, move |done| Output {
                id: id.to_string(),
                entity_type: kind,
                scope: scope_before(done),
                tx_id: done.tx.id.0,
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let kind = EntityType::from(output.entity_type);
    format!(
        "Deleted {kind} `{}`{} in transaction {tx}. `undo` transaction {tx} to have it back.",
        output.id,
        in_scope(&output.scope),
        tx = output.tx_id
    )
}
