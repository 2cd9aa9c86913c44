//! `query_graph`: look triples up by any of their parts.

use kenning_engine::{Sight, TriplesFrom};
use kenning_model::{ScopeName, TxId, fold};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_presentation::text::quote;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{Detail, LeanTriple, TripleItem, as_data, place, triple_items};
use super::names::nearest;
use crate::arguments::{CONTEXT_BYTES_MAX, Moment, NAME_BYTES_MAX, TERM_BYTES_MAX, Text, Tx, Whole};
use crate::code::counted;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, ListTool, TableRow, Tool, sight};
use crate::{Context, List, Listing, Stop};

pub(crate) struct QueryGraph;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// From this one.
    subject: Option<Text<TERM_BYTES_MAX>>,
    /// The relation.
    predicate: Option<Text<TERM_BYTES_MAX>>,
    /// To this one.
    object: Option<Text<TERM_BYTES_MAX>>,
    /// `namespace:scope`
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Default 50.
    limit: Option<Whole<1, 200>>,
    /// From `next_cursor`.
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    /// As it was then.
    as_of_tx_id: Option<Tx>,
    /// As it was at this time.
    as_of: Option<Moment>,
    /// Follow the predicate so far; default 1.
    max_hops: Option<Whole<1, 4>>,
    /// `full`: all fields.
    detail: Option<Detail>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Item {
    Lean(LeanTriple),
    Full(Box<TripleItem>),
}

impl Item {
    fn is_far(&self) -> bool {
        match self {
            Item::Lean(triple) => triple.distance.is_some(),
            Item::Full(triple) => triple.distance.is_some(),
        }
    }

    fn line(&self) -> String {
        match self {
            Item::Lean(triple) => triple.line(),
            Item::Full(triple) => {
                let far = triple.distance.map(|far| format!(" {far}")).unwrap_or_default();
                let (place, fact) = (place(&triple.scope), triple.line(usize::MAX));
                format!("{}{far}{place} {fact} (tx {})", triple.id, triple.tx_id)
            }
        }
    }
}

const LIMIT_DEFAULT: u64 = 50;

/// The walk that a call asks for; `None` if only one step is allowed.
fn walked<'a>(
    [subject, predicate, object]: [&'a Option<String>; 3],
    hops: u32,
) -> Result<Option<TriplesFrom<'a>>, Stop> {
    if hops == 1 {
        return Ok(None);
    }
    let Some(predicate) = predicate.as_deref() else {
        return Err(Stop::invalid(
            "`max_hops` above 1 needs a `predicate` to follow; without one use `graph_expand`",
        ));
    };
    match (subject, object) {
        (Some(name), None) => Ok(Some(TriplesFrom { name, predicate, is_subject: true, hops })),
        (None, Some(name)) => Ok(Some(TriplesFrom { name, predicate, is_subject: false, hops })),
        _ => Err(Stop::invalid(
            "`max_hops` above 1 starts at one end: give `subject` or `object`; for ways between two use `graph_paths`",
        )),
    }
}

impl Tool for QueryGraph {
    const NAME: &'static str = "query_graph";
    const ABOUT: &'static str = "Look triples up by any of their parts: whole values, case ignored; none gives all. \
        Use when you know one end or the relation; `max_hops` follows one relation: all that depends on X is `object` X. Do not use for text (`query`). \
        Returns at most `limit` (max 200), newest first; for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = List<Item>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<List<Item>>, Stop> {
        let TripleSearch { listing, scope, sight, items, total } = TripleSearch::run(ctx, &input)?;
        if total == 0 {
            for name in [&input.subject, &input.object].into_iter().flatten() {
                let near = nearest(&listing.snapshot, &sight, &name.0)?;
                if !near.is_empty() {
                    let near: Vec<String> = near.iter().map(|name| quote(name, 100)).collect();
                    ctx.note(format!("Names like {}: {}.", quote(&name.0, 100), near.join(", ")));
                }
            }
        }
        let (is_full, scope) = (input.detail == Some(Detail::Full), scope.to_string());
        let item = |item: TripleItem| {
            if is_full { Item::Full(Box::new(item)) } else { Item::Lean(LeanTriple::new(item, &scope)) }
        };
        let items = items.into_iter().map(item).collect();
        // A triple has at most 3 KiB, far less than a reply may have, so no row needs to be cut.
        let list = listing.end(take_rows(items, ROWS_BYTES_MAX, |item| item), total)?;
        let set = list.next_cursor.as_ref().and_then(|_| ctx.set::<Self>(&listing, "Triples", total));
        let reference = set.as_ref().map(Attached::reference);
        Ok(Answer { set: reference, ..Answer::text(list.with(set), text) })
    }
}

impl ListTool for QueryGraph {
    type Row = TripleItem;

    fn rows(ctx: &Context<'_>, input: Input) -> Result<Vec<TripleItem>, Stop> {
        Ok(TripleSearch::run(ctx, &input)?.items)
    }
}

impl TableRow for TripleItem {
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
        ("distance", "integer"),
    ];
}

/// The triples of a page, and the total number.
struct TripleSearch<'a> {
    listing: Listing<'a>,
    scope: ScopeName,
    sight: Sight,
    items: Vec<TripleItem>,
    total: u64,
}

impl<'a> TripleSearch<'a> {
    fn run(ctx: &Context<'a>, input: &Input) -> Result<TripleSearch<'a>, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let key = |text: &Option<Text<TERM_BYTES_MAX>>| text.as_ref().map(|text| fold(&text.0));
        let (subject, predicate, object) = (key(&input.subject), key(&input.predicate), key(&input.object));
        let at = ctx.as_of(input.as_of_tx_id.as_ref().map(|tx| TxId(tx.0)), input.as_of)?;
        let hops = input.max_hops.as_ref().map_or(1, |hops| hops.0 as u32);
        let walked = walked([&subject, &predicate, &object], hops)?;
        let listing = ctx.listing(
            format!("query_graph {scope} {subject:?} {predicate:?} {object:?} {at:?} {hops}"),
            input.limit.as_ref().map_or(LIMIT_DEFAULT, |limit| limit.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            at,
        )?;
        let fact = [subject.as_deref(), predicate.as_deref(), object.as_deref()];
        let sight = sight(&listing.snapshot, &scope)?;
        let (items, total) = match &walked {
            None => {
                let (triples, total) = listing.snapshot.triples(&sight, fact, listing.rows())?;
                (triple_items(&listing.snapshot, &triples)?, total)
            }
            Some(from) => {
                let (found, total) = listing.snapshot.triples_from(&sight, from, listing.rows())?;
                let (triples, distances): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                let items = triple_items(&listing.snapshot, &triples)?.into_iter().zip(distances);
                (items.map(|(item, far)| TripleItem { distance: Some(far), ..item }).collect(), total)
            }
        };
        Ok(TripleSearch { listing, scope, sight, items, total })
    }
}

fn text(output: &List<Item>) -> String {
    let total = counted(output.total_count as usize, "triple");
    if output.items.is_empty() {
        return format!("Found {total} as of transaction {}.", output.as_of_tx_id);
    }
    let lines: Vec<String> = output.items.iter().map(Item::line).collect();
    let is_far = output.items.iter().any(Item::is_far);
    let far = if is_far { " The number after an id is how many steps away it is." } else { "" };
    let more = super::query::more(output.items.len(), output.total_count, output.next_cursor.as_deref());
    format!(
        "Found {total} as of transaction {}.{far} {}{more}",
        output.as_of_tx_id,
        as_data(&lines.join("\n"))
    )
}
