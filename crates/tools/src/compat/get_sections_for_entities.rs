//! `get_sections_for_entities`: the old name of `graph.sections_for_entities`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::arguments::Whole;
use crate::graph::NodeIds;
use crate::graph::sections_for_entities::{self, SectionsForEntities};

pub(super) struct GetSectionsForEntities;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    entity_ids: NodeIds,
    max_per: Option<Whole<1, 100>>,
}

impl OldName for GetSectionsForEntities {
    const NAME: &'static str = "get_sections_for_entities";
    const ABOUT: &'static str = "Old name of `graph_sections_for_entities`. Use if told to. Do not use otherwise. Returns at most `max_per` (20) for each.";
    type Input = Input;
    type New = SectionsForEntities;

    fn input(old: Input) -> sections_for_entities::Input {
        sections_for_entities::Input { entity_ids: old.entity_ids, max_per: old.max_per, scope: None }
    }
}
