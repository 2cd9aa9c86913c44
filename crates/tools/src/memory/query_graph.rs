//! `query_graph`: look triples up by any of their parts.

use kenning_model::{TxId, fold};
use kenning_presentation::budget::ROWS_BYTES_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

use super::item::{TripleItem, as_data, place, triple_items};
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, TERM_BYTES_MAX, Text, Tx, Whole};
use crate::code::counted;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, Tool, closure};
use crate::{Context, List, Stop};

pub(crate) struct QueryGraph;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    subject: Option<Text<TERM_BYTES_MAX>>,
    predicate: Option<Text<TERM_BYTES_MAX>>,
    object: Option<Text<TERM_BYTES_MAX>>,
    scope: Option<Text<NAME_BYTES_MAX>>,
    limit: Option<Whole<1, 200>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    as_of_tx_id: Option<Tx>,
}

const LIMIT_DEFAULT: u64 = 50;

impl Tool for QueryGraph {
    const NAME: &'static str = "query_graph";
    const ABOUT: &'static str = "Look triples up by subject, predicate and/or object: whole values, case ignored; none gives all. \
        Use when you know one end or the relation. Do not use for text (`query`). \
        Returns at most `limit` (default 50, max 200), newest first; for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    const HAS_NOTE: bool = true;
    const COLUMNS: Columns = &[
        ("id", "string"),
        ("subject", "string"),
        ("predicate", "string"),
        ("object", "string"),
        ("scope", "string"),
        ("source", "string"),
        ("actor", "string"),
        ("confidence", "number"),
        ("version", "integer"),
        ("recorded_at", "datetime"),
        ("updated_at", "datetime"),
        ("tx_id", "integer"),
    ];
    type Input = Input;
    type Output = List<TripleItem>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<List<TripleItem>, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let key = |text: &Option<Text<TERM_BYTES_MAX>>| text.as_ref().map(|text| fold(&text.0));
        let (subject, predicate, object) = (key(&input.subject), key(&input.predicate), key(&input.object));
        let at = input.as_of_tx_id.map(|tx| TxId(tx.0));
        let listing = ctx.listing(
            format!("query_graph {scope} {subject:?} {predicate:?} {object:?} {at:?}"),
            input.limit.map_or(LIMIT_DEFAULT, |limit| limit.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            at,
        )?;
        let fact = [subject.as_deref(), predicate.as_deref(), object.as_deref()];
        let scopes = closure(&listing.snapshot, &scope)?;
        let (triples, total) = listing.snapshot.triples(&scopes, fact, listing.rows())?;
        let items = triple_items(&listing.snapshot, &triples)?;
        // A triple is 3 KiB at most, far below what a reply holds.
        let items = ctx.fitting(items, ROWS_BYTES_MAX, |item| item);
        let list = listing.end(items, total)?;
        let set = list.next_cursor.as_ref().and_then(|_| ctx.set::<Self>(&listing, "Triples", total));
        Ok(list.with(set))
    }

    fn set(output: &List<TripleItem>) -> Option<Attached> {
        output.set.clone()
    }

    fn text(output: &List<TripleItem>) -> String {
        let total = counted(output.total_count as usize, "triple");
        if output.items.is_empty() {
            return format!("Found {total} as of transaction {}.", output.as_of_tx_id);
        }
        let line = |item: &TripleItem| {
            format!("{}{} {} (tx {})", item.id, place(&item.scope), item.line(usize::MAX), item.tx_id)
        };
        let lines: Vec<String> = output.items.iter().map(line).collect();
        let more = super::query::more(output.items.len(), output.total_count, output.next_cursor.as_deref());
        format!(
            "Found {total} as of transaction {}. {}{more}",
            output.as_of_tx_id,
            as_data(&lines.join("\n"))
        )
    }
}
