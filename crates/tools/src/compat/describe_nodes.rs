//! `describe_nodes`: the old name of `graph.describe`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::graph::NodeIds;
use crate::graph::describe::{self, Describe};

pub(super) struct DescribeNodes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    node_ids: NodeIds,
    fields: Option<Vec<describe::Field>>,
}

impl OldName for DescribeNodes {
    const NAME: &'static str = "describe_nodes";
    const ABOUT: &'static str =
        "Old name of `graph_describe`. Use if told to. Do not use otherwise. Returns at most 50 nodes.";
    type Input = Input;
    type New = Describe;

    fn input(old: Input) -> describe::Input {
        describe::Input { node_ids: old.node_ids, fields: old.fields, scope: None }
    }
}
