//! `graph.paths`: the shortest paths between nodes.

use kenning_engine::graph::{NodeRef, Path};
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::expand::RelTypes;
use super::reader::{GraphReader, VisitedNode, edge_item, met, node_id};
use super::{EdgeItem, Sheet, shown};
use crate::arguments::{TERM_BYTES_MAX, Texts, Whole};
use crate::code::counted;
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Code, Context, Stop};

pub(crate) struct Paths;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) a_ids: Ends,
    pub(crate) b_ids: Ends,
    pub(crate) rel_types: Option<RelTypes>,
    pub(crate) max_hops: Option<Whole<1, 5>>,
    pub(crate) max_paths: Option<Whole<1, 50>>,
    pub(crate) scope: Option<Scope>,
}

/// A path is searched between every two ends, so the number of ends is small.
pub(crate) type Ends = Texts<1, 10, TERM_BYTES_MAX>;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Shortest first.
    pub(crate) paths: Vec<PathItem>,
    /// Of `limit_reason`, page_size says that there are more than `max_paths`.
    #[serde(flatten)]
    pub(crate) graph: super::Output,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PathItem {
    pub(crate) nodes: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) length: usize,
}

const HOPS_DEFAULT: u64 = 3;
const PATHS_DEFAULT: u64 = 10;
/// A search stops after it has seen this many nodes.
const NODES_MAX: usize = 50_000;

impl Tool for Paths {
    const NAME: &'static str = "graph.paths";
    const ABOUT: &'static str = "Find how sections, documents or entities are linked: the shortest paths between `a_ids` and `b_ids`, whichever way edges point. \
        Use for how two names of the graph are connected (`entity:auth`), or after `kb_search` on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns at most `max_paths` (default 10, max 50) of `max_hops` (default 3, max 5); if there is none, raise it or call `graph_expand`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let seen = GraphReader::new(ctx, &snapshot, input.scope)?;
        let hops = input.max_hops.map_or(HOPS_DEFAULT, |hops| hops.0) as u8;
        let many = input.max_paths.map_or(PATHS_DEFAULT, |many| many.0) as usize;
        let rel_types = input.rel_types.map(|types| types.0).unwrap_or_default();
        let linked = seen.look(|view| {
            let (a, missing_a) = seen.find_all(&view, &input.a_ids.0);
            let (b, missing_b) = seen.find_all(&view, &input.b_ids.0);
            let view = view.along(&rel_types);
            let (mut paths, mut is_cut) = (Vec::new(), false);
            for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b))) {
                // One more path than requested shows whether there are more.
                let found = view.shortest(a, b, hops, many + 1, NODES_MAX);
                is_cut |= found.is_cut;
                paths.extend(found.paths);
            }
            paths.sort_by_key(|path: &Path| path.edges.len());
            let has_more = paths.len() > many;
            paths.truncate(many);
            let way = |path: &Path| Way {
                nodes: path.nodes.iter().map(|node| (*node, met(&view, *node))).collect(),
                edges: path.edges.iter().map(|edge| edge_item(&view, edge)).collect(),
            };
            (paths.iter().map(way).collect::<Vec<_>>(), [missing_a, missing_b].concat(), is_cut, has_more)
        })?;
        let (ways, missing, is_cut, has_more) = linked;
        if is_cut && ways.is_empty() {
            // Here the reply "there is none" would be wrong, because the search did not look everywhere.
            let message = format!(
                "no path was found among the first {NODES_MAX} nodes around these, and there are more; narrow it with `rel_types`, a smaller `max_hops` or other ends"
            );
            return Err(Stop::new(Code::BudgetExceeded, message).with("nodes_max", json!(NODES_MAX)));
        }
        let mut sheet = Sheet::default();
        let mut known: Vec<NodeRef> = Vec::new();
        let mut paths = Vec::new();
        'ways: for way in ways {
            for (at, node) in &way.nodes {
                if !known.contains(at)
                    && let Some(item) = seen.show(node)?
                {
                    if !sheet.add(item, []) {
                        break 'ways;
                    }
                    known.push(*at);
                }
            }
            let item = PathItem {
                nodes: way.nodes.iter().map(|(_, met)| node_id(&met.node)).collect(),
                types: way.edges.iter().map(|edge| edge.r#type.clone()).collect(),
                length: way.edges.len(),
            };
            if !sheet.holds(&item) {
                break;
            }
            paths.push(item);
            way.edges.into_iter().for_each(|edge| sheet.add_edge(edge));
        }
        let limit_reason = match (sheet.is_full, is_cut, has_more) {
            (true, _, _) => "byte_cap",
            (false, true, _) => "node_cap",
            (false, false, true) => "page_size",
            (false, false, false) => "none",
        };
        let graph =
            super::Output { partial: limit_reason != "none", limit_reason, ..sheet.only_page(ctx, missing) };
        Ok(Answer::text(Output { paths, graph }, text))
    }
}

fn text(output: &Output) -> String {
    let lengths: Vec<String> = output.paths.iter().map(|path| path.length.to_string()).collect();
    let said = match output.paths.is_empty() {
        true => "Found no path; more `max_hops` may find one.".to_owned(),
        false => {
            format!("Found {}, of length {}.", counted(output.paths.len(), "path"), lengths.join(", "))
        }
    };
    format!("{said} {}", shown(&output.graph))
}

struct Way {
    nodes: Vec<(NodeRef, VisitedNode)>,
    edges: Vec<EdgeItem>,
}
