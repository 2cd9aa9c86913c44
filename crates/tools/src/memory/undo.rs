//! `undo`: take transactions back by committing their inverse.

use std::sync::Arc;

use kenning_model::{Change, Transaction, TxId};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, json_bytes};
use kenning_storage::{UndoPlan, UndoTarget, UndoWish, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{ChangeItem, as_data, change_lines, transaction_items};
use crate::arguments::{NAME_BYTES_MAX, TX_MAX, Text, Whole};
use crate::code::counted;
use crate::disclosure::{Disclosure, is_own, refusal};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Undo;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The one to take back; or give `count`.
    tx_id: Option<Whole<1, TX_MAX>>,
    /// How many of this session's newest; default 1.
    count: Option<Whole<1, 50>>,
    /// Only show what it would do.
    dry_run: Option<bool>,
    /// Only what changed nothing outside it.
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Also transactions of others.
    any_actor: Option<bool>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    /// The transactions taken back, newest first.
    undone: Vec<u64>,
    /// Of the undo itself; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    tx_id: Option<u64>,
    changed_ids: Vec<String>,
    /// How many more ids changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    changed_ids_left_out: Option<usize>,
    /// What a dry run would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ChangeItem>")]
    changes: Option<Vec<ChangeItem>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    changes_left_out: Option<usize>,
}

/// The largest number of ids in a reply; deleting a namespace may change any number of records.
const IDS_MAX: usize = 200;
/// The largest number of ids in the text; a document has an id for each section.
const IDS_SHOWN_MAX: usize = 10;
/// The number of bytes of a record that the text of a dry run shows.
const EXCERPT_BYTES: usize = 300;

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const ABOUT: &'static str = "Take writes back: one transaction by `tx_id`, or this session's newest `count` (default 1, max 50), all or none. \
        Use when a write was wrong. Do not use to correct a fact (`update`). \
        Returns undone, tx_id, changed_ids; CONFLICT if the same ids changed since. Find tx_ids with `history`.";
    const EFFECT: Effect = Effect::Removes;
    const HAS_NOTE: bool = true;
    const CHANGES_SCOPES: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let target = match (input.tx_id, input.count) {
            (Some(_), Some(_)) => return Err(Stop::invalid("give `tx_id` or `count`, not both")),
            (Some(tx), None) => UndoTarget::Tx(TxId(tx.0)),
            (None, count) => UndoTarget::Newest(count.map_or(1, |count| count.0 as u32)),
        };
        let named = input.scope.as_ref().map(|scope| scope.0.as_str());
        let within = match &input.scope {
            None => None,
            Some(scope) => {
                let name = ctx.scope_name(Some(&scope.0))?;
                Some((ctx.snapshot()?.scope(&name)?, name))
            }
        };
        let wish = UndoWish { target, any_actor: input.any_actor.unwrap_or(false), within };
        if input.dry_run.unwrap_or(false) {
            let principal = &ctx.caller.principal;
            let planned = ctx.engine.storage()?.plan_undo(&UndoPlan { wish, principal });
            let planned = planned.map_err(|error| refusal(ctx, error))?;
            return Ok(Answer::text(previewed(ctx, named, planned)?, text));
        }
        let snapshot = ctx.snapshot()?;
        let is_own = match wish.target {
            UndoTarget::Tx(tx) if wish.any_actor => is_own(ctx, &snapshot, tx)?,
            _ => !wish.any_actor,
        };
        let told = (!is_own).then(|| Arc::new(Disclosure::of_scope(ctx, &snapshot, named)));
        Ok(Answer::text(
            ctx.commit(Write::Undo(wish), move |done| {
                let is_told = |change: &&Change| told.as_ref().is_none_or(|told| told.tells(change));
                Output { tx_id: Some(done.tx.id.0), ..summary(&done.tx, is_told) }
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let undone: Vec<String> = output.undone.iter().map(u64::to_string).collect();
    let noun = if undone.len() == 1 { "transaction" } else { "transactions" };
    let undone = format!("{noun} {}", undone.join(", "));
    let changed = output.changed_ids.len() + output.changed_ids_left_out.unwrap_or(0);
    let shown = &output.changed_ids[..output.changed_ids.len().min(IDS_SHOWN_MAX)];
    let more = match changed - shown.len() {
        0 => None,
        more if shown.is_empty() => Some(format!("{} out of sight", counted(more, "change"))),
        more => Some(format!("and {more} more")),
    };
    let ids = shown.join(", ");
    let ids: Vec<&str> = [ids.as_str(), more.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let ids = ids.join(" ");
    let what = match changed {
        0 => "Nothing was left to change.".to_owned(),
        _ => format!("Changed: {ids}."),
    };
    match (output.tx_id, &output.changes) {
        (Some(tx), _) => format!("Undid {undone} in transaction {tx}. {what}"),
        (None, changes) => {
            let changes = changes.as_deref().unwrap_or_default();
            let lines = change_lines(changes, output.changes_left_out, EXCERPT_BYTES);
            format!(
                "Dry run: would undo {undone} by {} ({ids}). Nothing was written. {}",
                counted(changed, "change"),
                as_data(lines.trim_start_matches('\n'))
            )
        }
    }
}

/// Lists the ids of the changes that the caller may be told about, and counts the others.
fn summary(tx: &Transaction, is_told: impl Fn(&&Change) -> bool) -> Output {
    let told = tx.changes.iter().filter(is_told).take(IDS_MAX);
    let changed_ids: Vec<String> = told.map(|change| change.id.to_string()).collect();
    Output {
        undone: tx.undoes.iter().map(|tx| tx.0).collect(),
        tx_id: None,
        changed_ids_left_out: Some(tx.changes.len() - changed_ids.len()).filter(|left_out| *left_out > 0),
        changed_ids,
        changes: None,
        changes_left_out: None,
    }
}

/// The preview of an undo. Of transactions of others it shows only the changes that the caller's scope sees.
fn previewed(ctx: &Context<'_>, named: Option<&str>, mut tx: Transaction) -> Result<Output, Stop> {
    let snapshot = ctx.snapshot()?;
    let mut all_own = true;
    for undone in &tx.undoes {
        all_own &= is_own(ctx, &snapshot, *undone)?;
    }
    let told = Disclosure::of_scope(ctx, &snapshot, named);
    let is_told = |change: &Change| all_own || told.tells(change);
    let summary = summary(&tx, |change| is_told(change));
    let all = tx.changes.len();
    tx.changes.retain(is_told);
    tx.left_out = all - tx.changes.len();
    let mut items = transaction_items(&snapshot, &[tx])?;
    let mut item = items.remove(0);
    if json_bytes(&item) > ROWS_BYTES_MAX {
        item = item.cut_to_fit();
    }
    Ok(Output { changes: Some(item.changes), changes_left_out: item.changes_left_out, ..summary })
}
