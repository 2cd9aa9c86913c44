//! `get_paths_between`: the old name of `graph.paths`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::arguments::Whole;
use crate::graph::expand::RelTypes;
use crate::graph::paths::{self, Paths};

pub(super) struct GetPathsBetween;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    a_ids: paths::Ends,
    b_ids: paths::Ends,
    rel_types: Option<RelTypes>,
    max_hops: Option<Whole<1, 5>>,
    max_paths: Option<Whole<1, 50>>,
}

impl OldName for GetPathsBetween {
    const NAME: &'static str = "get_paths_between";
    const ABOUT: &'static str = "Old name of `graph_paths`. Use if told to. Do not use otherwise. Returns at most `max_paths` (10) of `max_hops` (3).";
    type Input = Input;
    type New = Paths;

    fn input(old: Input) -> paths::Input {
        paths::Input {
            a_ids: old.a_ids,
            b_ids: old.b_ids,
            rel_types: old.rel_types,
            max_hops: old.max_hops,
            max_paths: old.max_paths,
            scope: None,
        }
    }
}
