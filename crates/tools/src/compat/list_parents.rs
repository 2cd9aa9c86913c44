//! `list_parents`: the old name of `graph.parents`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::graph::NodeIds;
use crate::graph::parents::{self, Parents};

pub(super) struct ListParents;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    section_ids: NodeIds,
}

impl OldName for ListParents {
    const NAME: &'static str = "list_parents";
    const ABOUT: &'static str = "Old name of `graph_parents`. Use if told to. Do not use otherwise. Returns the chain of each of at most 50.";
    type Input = Input;
    type New = Parents;

    fn input(old: Input) -> parents::Input {
        parents::Input { section_ids: old.section_ids, scope: None }
    }
}
