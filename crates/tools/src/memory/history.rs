//! `history`: what was changed, by whom, and what it was before.

use kenning_model::TxId;
use kenning_presentation::budget::{ROWS_BYTES_MAX, excerpt_bytes, take_rows};
use schemars::JsonSchema;
use serde::Deserialize;

use super::item::{Kind, TransactionItem, as_data};
use super::query::more;
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Text, Tx, Whole, parse_id, unknown_id};
use crate::code::counted;
use crate::tool::{Effect, Tool};
use crate::{Context, List, Listing, Stop};

pub(crate) struct History;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Only changes of this id.
    id: Option<Text<NAME_BYTES_MAX>>,
    entity_type: Option<Kind>,
    /// Only later transactions.
    since_tx_id: Option<Tx>,
    limit: Option<Whole<1, 100>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
}

const LIMIT_DEFAULT: u64 = 20;

impl Tool for History {
    const NAME: &'static str = "history";
    const ABOUT: &'static str = "List transactions, newest first, with each change before and after. \
        Use to see who changed what, or to find a tx_id for `undo`. Do not use to find entries (`query`). \
        Returns at most `limit` (default 20, max 100); for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = List<TransactionItem>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<List<TransactionItem>, Stop> {
        let wanted = input.entity_type.unwrap_or(Kind::Entry).into();
        let id = match &input.id {
            Some(id) => Some(parse_id(wanted, &id.0)?),
            None => None,
        };
        let entity_type = input.entity_type.map(Into::into);
        let since = TxId(input.since_tx_id.map_or(0, |tx| tx.0));
        let listing = Listing::begin(
            ctx.engine,
            format!("history {id:?} {entity_type:?} {since}"),
            input.limit.map_or(LIMIT_DEFAULT, |limit| limit.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            None,
        )?;
        let (transactions, total) = listing.snapshot.history(id, entity_type, since, listing.rows())?;
        if let (Some(id), 0, TxId::EMPTY) = (&input.id, total, since) {
            return Err(unknown_id(wanted, &id.0));
        }
        let items = transactions.iter().map(TransactionItem::new).collect();
        let items = take_rows(items, ROWS_BYTES_MAX, TransactionItem::cut_to_fit);
        listing.end(items, total)
    }

    fn text(output: &List<TransactionItem>) -> String {
        let total = counted(output.total_count as usize, "transaction");
        if output.items.is_empty() {
            return format!("Found {total}; the newest of the store is {}.", output.as_of_tx_id);
        }
        let changes: usize = output.items.iter().map(|item| 1 + 2 * item.changes.len()).sum();
        let excerpt = excerpt_bytes(changes).clamp(60, 300);
        let lines: Vec<String> = output.items.iter().map(|item| item.lines(excerpt)).collect();
        let more = more(output.items.len(), output.total_count, output.next_cursor.as_deref());
        let at = output.as_of_tx_id;
        format!("Found {total} as of transaction {at}, newest first. {}{more}", as_data(&lines.join("\n")))
    }
}
