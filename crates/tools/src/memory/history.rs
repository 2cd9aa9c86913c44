//! `history`: the transactions, with their authors and the versions before and after each change.

use kenning_engine::Snapshot;
use kenning_model::{EntityType, Id, ScopeName, TxId};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_storage::View;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed::LeanTransaction;
use super::item::{CHANGES_MAX, Detail, Kind, TransactionItem, as_data, transaction_items};
use super::query::more;
use crate::arguments::{CONTEXT_BYTES_MAX, Moment, NAME_BYTES_MAX, Text, Tx, Whole, parse_id, unknown_id};
use crate::code::counted;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, ListTool, TableRow, Tool, sight};
use crate::{Context, List, Listing, Stop};

pub(crate) struct History;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Only of this id, or scope by name.
    id: Option<Text<NAME_BYTES_MAX>>,
    /// Only of this type.
    entity_type: Option<Kind>,
    /// Only later transactions.
    since_tx_id: Option<Tx>,
    /// `namespace:scope`
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Default 20.
    limit: Option<Whole<1, 100>>,
    /// From `next_cursor`.
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    /// As it was then.
    as_of: Option<Moment>,
    /// `full`: whole versions.
    detail: Option<Detail>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Item {
    Lean(Box<LeanTransaction>),
    Full(Box<TransactionItem>),
}

impl Item {
    fn lines(&self) -> String {
        match self {
            Item::Lean(transaction) => transaction.lines(),
            Item::Full(transaction) => transaction.lines(FULL_BYTES),
        }
    }

    fn cut_to_fit(self) -> Item {
        match self {
            Item::Lean(transaction) => Item::Lean(Box::new(transaction.cut_to_fit())),
            Item::Full(transaction) => Item::Full(Box::new(transaction.cut_to_fit())),
        }
    }
}

/// The number of bytes of a full version that the text shows.
const FULL_BYTES: usize = 2000;

const LIMIT_DEFAULT: u64 = 20;
/// The largest number of changes of one transaction in a result set.
const SET_CHANGES_MAX: usize = 10_000;

impl Tool for History {
    const NAME: &'static str = "history";
    const ABOUT: &'static str = "List transactions, newest first, with what each changed. \
        Use to see who changed what, or to find a tx_id for `undo`. Do not use to find entries (`query`). \
        Returns at most `limit` (max 100); for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = List<Item>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<List<Item>>, Stop> {
        let TransactionSearch { listing, scope, items, total } =
            TransactionSearch::run(ctx, &input, CHANGES_MAX)?;
        let is_full = input.detail == Some(Detail::Full);
        let (actor, scope) = (ctx.caller.principal.actor.as_str(), scope.to_string());
        let item = |item: TransactionItem| {
            if is_full {
                Item::Full(Box::new(item))
            } else {
                Item::Lean(Box::new(LeanTransaction::new(item, actor, &scope)))
            }
        };
        let items = items.into_iter().map(item).collect();
        let list = listing.end(take_rows(items, ROWS_BYTES_MAX, Item::cut_to_fit), total)?;
        let set = list.next_cursor.as_ref().and_then(|_| ctx.set::<Self>(&listing, "Transactions", total));
        let reference = set.as_ref().map(Attached::reference);
        Ok(Answer { set: reference, ..Answer::text(list.with(set), text) })
    }
}

impl ListTool for History {
    type Row = TransactionItem;

    fn rows(ctx: &Context<'_>, input: Input) -> Result<Vec<TransactionItem>, Stop> {
        Ok(TransactionSearch::run(ctx, &input, SET_CHANGES_MAX)?.items)
    }
}

impl TableRow for TransactionItem {
    const COLUMNS: Columns = &[
        ("tx_id", "integer"),
        ("at", "datetime"),
        ("actor", "string"),
        ("tool", "string"),
        ("changes", "json"),
        ("changes_left_out", "integer"),
        ("undoes", "json"),
        ("undone_by", "integer"),
    ];
}

/// The transactions of a page, and the total number.
struct TransactionSearch<'a> {
    listing: Listing<'a>,
    scope: ScopeName,
    items: Vec<TransactionItem>,
    total: u64,
}

impl<'a> TransactionSearch<'a> {
    fn run(ctx: &Context<'a>, input: &Input, changes_max: usize) -> Result<TransactionSearch<'a>, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let named = input.id.as_ref().map(|id| id.0.as_str());
        let entity_type = input.entity_type.map(EntityType::from);
        let since = TxId(input.since_tx_id.as_ref().map_or(0, |tx| tx.0));
        let at = ctx.as_of(None, input.as_of)?;
        let listing = ctx.listing(
            format!("history {scope} {named:?} {entity_type:?} {since} {at:?}"),
            input.limit.as_ref().map_or(LIMIT_DEFAULT, |limit| limit.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            at,
        )?;
        let snapshot = &listing.snapshot;
        let id = named.map(|text| find(snapshot, entity_type, text)).transpose()?;
        let sight = if ctx.caller.has_whole_history { None } else { Some(sight(snapshot, &scope)?) };
        // The caller's own transactions are shown whole, whichever scopes they changed.
        let own = Some(ctx.caller.principal.origin.as_str());
        let view = View { own, changes_max, ..TransactionItem::view(sight.as_ref()) };
        let (transactions, total) = snapshot.history(id, entity_type, since, view, listing.rows())?;
        if let (Some(named), 0, TxId::EMPTY) = (named, total, since) {
            return Err(unknown_id(entity_type.unwrap_or(EntityType::Entry), named));
        }
        let items = transaction_items(snapshot, &transactions)?;
        Ok(TransactionSearch { listing, scope, items, total })
    }
}

fn text(output: &List<Item>) -> String {
    let total = counted(output.total_count as usize, "transaction");
    if output.items.is_empty() {
        return format!("Found {total}; the newest of the store is {}.", output.as_of_tx_id);
    }
    let lines: Vec<String> = output.items.iter().map(Item::lines).collect();
    let more = more(output.items.len(), output.total_count, output.next_cursor.as_deref());
    let at = output.as_of_tx_id;
    format!("Found {total} as of transaction {at}, newest first. {}{more}", as_data(&lines.join("\n")))
}

/// The text as an id; or the id of the scope or namespace that has, or had, this name.
fn find(snapshot: &Snapshot<'_>, entity_type: Option<EntityType>, text: &str) -> Result<Id, Stop> {
    let wanted = entity_type.unwrap_or(EntityType::Entry);
    if let Some(name) = ScopeName::parse(text) {
        let tree = snapshot.tree()?;
        if let Some((id, _)) = tree.scope(&name) {
            return Ok(id);
        }
        // The name may be an earlier one, or that of a deleted scope.
        return snapshot.scope_id(&name)?.ok_or_else(|| unknown_id(EntityType::Scope, text));
    }
    if wanted == EntityType::Namespace && Id::parse(text).is_none() {
        let tree = snapshot.tree()?;
        if let Some((id, _)) = tree.namespace(text) {
            return Ok(id);
        }
        return snapshot.namespace_id(text)?.ok_or_else(|| unknown_id(wanted, text));
    }
    parse_id(wanted, text)
}
