//! `expand_neighbors`: the old name of `graph.expand`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::arguments::{CONTEXT_BYTES_MAX, Text, Whole};
use crate::graph::NodeIds;
use crate::graph::expand::{self, Expand};

pub(super) struct ExpandNeighbors;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    node_ids: NodeIds,
    rel_types: Option<expand::RelTypes>,
    direction: Option<expand::Direction>,
    max_hops: Option<Whole<1, 3>>,
    include_snippet: Option<bool>,
    page_size: Option<Whole<1, 100>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
}

impl OldName for ExpandNeighbors {
    const NAME: &'static str = "expand_neighbors";
    const ABOUT: &'static str = "Old name of `graph_expand`. Use if told to. Do not use otherwise. Returns at most `page_size` (25) nodes within `max_hops` (1).";
    type Input = Input;
    type New = Expand;

    fn input(old: Input) -> expand::Input {
        expand::Input {
            node_ids: old.node_ids,
            rel_types: old.rel_types,
            direction: old.direction,
            max_hops: old.max_hops,
            include_snippet: old.include_snippet,
            page_size: old.page_size,
            cursor: old.cursor,
            scope: None,
        }
    }
}
