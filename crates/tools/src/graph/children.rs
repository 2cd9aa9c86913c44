//! `graph.children`: the sections of a document or of a section, in order.

use kenning_engine::graph::CHILD_OF;
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::expand::PAGE_SIZE_DEFAULT;
use super::reader::{GraphReader, node_id, section_item};
use super::{EdgeItem, Output, Sheet, shown};
use crate::arguments::{CONTEXT_BYTES_MAX, TERM_BYTES_MAX, Text, Whole};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Listing, Stop};

pub(crate) struct Children;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) parent_id: Text<TERM_BYTES_MAX>,
    pub(crate) page_size: Option<Whole<1, 100>>,
    pub(crate) cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    pub(crate) scope: Option<Scope>,
}

impl Tool for Children {
    const NAME: &'static str = "graph.children";
    const ABOUT: &'static str = "List the sections that a section or document has, in order: an outline. \
        Use after `kb_search`, on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns at most `page_size` (default 25, max 100); for more pass `next_cursor` as `cursor`; for what is above call `graph_parents`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let scope = input.scope.unwrap_or_default();
        let parent = input.parent_id.0;
        let listing = Listing::begin(
            ctx.engine,
            &ctx.caller.principal,
            format!("graph.children {} {parent:?} {:?}", ctx.caller.scope, scope.labels()),
            input.page_size.map_or(PAGE_SIZE_DEFAULT, |size| size.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            None,
        )?;
        let seen = GraphReader::new(ctx, &listing.snapshot, Some(scope))?;
        let found = seen.look(|view| {
            let node = seen.find(&view, &parent)?;
            Some((node_id(view.node(node)), view.children(node).collect::<Vec<_>>()))
        })?;
        let (parent, ids) = found.map_or((parent, None), |(parent, ids)| (parent, Some(ids)));
        let missing = match &ids {
            None => vec![kenning_presentation::text::clean(&parent)],
            Some(_) => Vec::new(),
        };
        let mut children = Vec::new();
        for id in ids.unwrap_or_default() {
            children.extend(seen.section(id)?.map(|section| (id, section)));
        }
        children.sort_by_key(|(_, section)| section.position);
        let (rows, total) = (listing.rows(), children.len() as u64);
        let mut sheet = Sheet::default();
        for (id, section) in &children[rows.start.min(total) as usize..rows.end.min(total) as usize] {
            let edge = EdgeItem { from: id.to_string(), r#type: CHILD_OF.to_owned(), to: parent.clone() };
            if !sheet.add(section_item(*id, section), [edge]) {
                break;
            }
        }
        let page = listing.end(sheet.nodes, total)?;
        let limit_reason = match (&page.next_cursor, sheet.is_full) {
            (_, true) => "byte_cap",
            (Some(_), false) => "page_size",
            (None, false) => "none",
        };
        Ok(Answer::text(
            Output {
                nodes: page.items,
                edges: sheet.edges,
                missing,
                partial: limit_reason != "none",
                next_cursor: page.next_cursor,
                limit_reason,
                session_id: ctx.caller.session(),
            },
            shown,
        ))
    }
}
