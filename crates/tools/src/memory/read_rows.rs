//! `read_rows`: the rows of a result set, of which a reply has shown only some.

use kenning_presentation::Answer;
use mcp_dual_response::wire::{Page, PageQuery};
use mcp_dual_response::{Row, Sort};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::item::as_data;
use crate::arguments::{NAME_BYTES_MAX, TERM_BYTES_MAX, Text, Tx, Whole};
use crate::tool::{Effect, Tool};
use crate::{Code, Context, Stop};

pub(crate) struct ReadRows;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Its `uri`.
    resource: Text<TERM_BYTES_MAX>,
    offset: Option<Tx>,
    limit: Option<Whole<1, 1000>>,
    sort: Option<By>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct By {
    field: Text<NAME_BYTES_MAX>,
    order: Option<Direction>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Asc,
    Desc,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    #[schemars(with = "Vec<Map<String, Value>>")]
    data: Vec<Row>,
    total_count: u64,
    returned_count: u64,
    offset: u64,
    has_next: bool,
    next_offset: Option<u64>,
}

impl Tool for ReadRows {
    const NAME: &'static str = "read_rows";
    const ABOUT: &'static str = "Read the rows behind a reply that has a `resource`. Use when the rest is needed, or another order. \
        Do not use to search. Returns at most `limit` (default 20) rows as of that reply; for more pass `next_offset` as `offset`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let Some(sets) = &ctx.caller.sets else {
            return Err(Stop::new(Code::NotFound, "there are no result sets here; `kenning serve` has them"));
        };
        let mut query = PageQuery::default();
        query.offset = input.offset.map(|offset| offset.0);
        query.limit = input.limit.map(|limit| limit.0);
        query.sort = input.sort.iter().map(By::sort).collect();
        let Page { data, total_count, returned_count, offset, has_next, next_offset, .. } =
            sets.page(&ctx.caller.principal, &input.resource.0, &query)?;
        Ok(Answer::text(Output { data, total_count, returned_count, offset, has_next, next_offset }, text))
    }
}

fn text(output: &Output) -> String {
    let Output { data, total_count, offset, next_offset, .. } = output;
    if data.is_empty() {
        return format!("No rows from {offset} on; there are {total_count}.");
    }
    let lines: Vec<String> = data.iter().map(|row| Value::Object(row.clone()).to_string()).collect();
    let more = next_offset.map(|next| format!("\nFor more pass `offset`: {next}.")).unwrap_or_default();
    let last = offset + data.len() as u64;
    format!("Rows {} to {last} of {total_count}. {}{more}", offset + 1, as_data(&lines.join("\n")))
}

impl By {
    fn sort(&self) -> Sort {
        match self.order {
            Some(Direction::Desc) => Sort::descending(&self.field.0),
            Some(Direction::Asc) | None => Sort::ascending(&self.field.0),
        }
    }
}
