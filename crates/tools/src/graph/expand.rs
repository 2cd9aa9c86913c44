//! `graph.expand`: the nodes around some nodes.

use std::ops::Range;

use kenning_engine::graph::{EdgeDirection, Node, NodeRef, View};
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::{GraphReader, VisitedNode, edge_item, met, snippet};
use super::{EdgeItem, NodeIds, Output, Sheet, shown};
use crate::arguments::{CONTEXT_BYTES_MAX, TERM_BYTES_MAX, Text, Texts, Whole};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Listing, Stop};

pub(crate) struct Expand;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) node_ids: NodeIds,
    /// child_of, links_to, mentions, or predicates of triples.
    pub(crate) rel_types: Option<RelTypes>,
    pub(crate) direction: Option<Direction>,
    pub(crate) max_hops: Option<Whole<1, 3>>,
    pub(crate) include_snippet: Option<bool>,
    pub(crate) page_size: Option<Whole<1, 100>>,
    pub(crate) cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    pub(crate) scope: Option<Scope>,
}

pub(crate) type RelTypes = Texts<0, 32, TERM_BYTES_MAX>;

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    #[default]
    Both,
    Out,
    In,
}

impl From<Direction> for EdgeDirection {
    fn from(direction: Direction) -> EdgeDirection {
        match direction {
            Direction::Both => EdgeDirection::Both,
            Direction::Out => EdgeDirection::Out,
            Direction::In => EdgeDirection::In,
        }
    }
}

pub(super) const PAGE_SIZE_DEFAULT: u64 = 25;
/// The largest number of nodes that a walk visits, because some nodes have links to almost everything. A
/// reply shows a small part of them anyway.
const NODES_MAX: usize = 2_000;

impl Tool for Expand {
    const NAME: &'static str = "graph.expand";
    const ABOUT: &'static str = "List what is around sections, documents or entities: parts, links, mentions, facts. \
        Use for all that is around a name of the graph, whatever the relation (`entity:auth`), or after `kb_search` on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns at most `page_size` nodes (default 25, max 100), nearest first, within `max_hops` (default 1, max 3); for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let hops = input.max_hops.map_or(1, |hops| hops.0) as u8;
        let direction = input.direction.unwrap_or_default();
        let rel_types = input.rel_types.map(|types| types.0).unwrap_or_default();
        let scope = input.scope.unwrap_or_default();
        let listing = Listing::begin(
            ctx.engine,
            &ctx.caller.principal,
            format!(
                "graph.expand {} {:?} {rel_types:?} {direction:?} {hops} {:?}",
                ctx.caller.scope,
                input.node_ids.0,
                scope.labels()
            ),
            input.page_size.map_or(PAGE_SIZE_DEFAULT, |size| size.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            None,
        )?;
        let seen = GraphReader::new(ctx, &listing.snapshot, Some(scope))?;
        let rows = listing.rows();
        let around = seen.look(|view| {
            let (starts, missing) = seen.find_all(&view, &input.node_ids.0);
            let view = view.along(&rel_types).going(direction.into());
            Around::walk(&view, &starts, hops, &rows, missing)
        })?;
        let mut sheet = Sheet::default();
        let mut taken = 0;
        for (node, edges) in around.nodes.iter().zip(around.edges) {
            let Some(mut item) = seen.show(node)? else {
                taken += 1;
                continue;
            };
            if let (true, Node::Section(id)) = (input.include_snippet.unwrap_or(false), &node.node) {
                item.snippet = seen.section(*id)?.as_ref().map(snippet);
            }
            if !sheet.add(item, edges) {
                break;
            }
            taken += 1;
        }
        around.between.into_iter().for_each(|edge| sheet.add_edge(edge));
        let page = listing.end(vec![(); taken], around.total)?;
        let limit_reason = match (&page.next_cursor, sheet.is_full, around.is_cut) {
            (_, true, _) => "byte_cap",
            (Some(_), false, _) => "page_size",
            (None, false, true) => "node_cap",
            (None, false, false) => "none",
        };
        let output = Output {
            nodes: sheet.nodes,
            edges: sheet.edges,
            missing: around.missing,
            partial: limit_reason != "none",
            next_cursor: page.next_cursor,
            limit_reason,
            session_id: ctx.caller.session(),
        };
        Ok(Answer { duplicates: around.repeats, ..Answer::text(output, shown) })
    }
}

struct Around {
    nodes: Vec<VisitedNode>,
    /// For each node, the edges by which it was reached.
    edges: Vec<Vec<EdgeItem>>,
    between: Vec<EdgeItem>,
    missing: Vec<String>,
    total: u64,
    /// How often the walk met a node that it had met before.
    repeats: usize,
    is_cut: bool,
}

impl Around {
    /// Walks from `starts`, and keeps the nodes of one page.
    fn walk(
        view: &View<'_>,
        starts: &[NodeRef],
        hops: u8,
        rows: &Range<u64>,
        missing: Vec<String>,
    ) -> Around {
        let walk = view.expand(starts, hops, NODES_MAX);
        let page_size = (rows.end - rows.start) as usize;
        let shown: Vec<_> = walk.reached.iter().skip(rows.start as usize).take(page_size).collect();
        let edges_to = |node| walk.edges_to(node).map(|edge| edge_item(view, &edge)).collect::<Vec<_>>();
        // Edges between the start nodes belong to no page in particular; they are put on the first.
        let between = if rows.start == 0 { starts } else { &[] };
        Around {
            nodes: shown.iter().map(|reached| met(view, reached.node)).collect(),
            edges: shown.iter().map(|reached| edges_to(reached.node)).collect(),
            between: between.iter().flat_map(|start| edges_to(*start)).collect(),
            missing,
            total: walk.reached.len() as u64,
            repeats: walk.again,
            is_cut: walk.is_cut,
        }
    }
}
