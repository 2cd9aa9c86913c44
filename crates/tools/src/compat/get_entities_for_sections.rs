//! `get_entities_for_sections`: the old name of `graph.entities_for_sections`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OldName;
use crate::arguments::{NAME_BYTES_MAX, Texts, Whole};
use crate::graph::NodeIds;
use crate::graph::entities_for_sections::{self, EntitiesForSections};

pub(super) struct GetEntitiesForSections;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    section_ids: NodeIds,
    labels: Option<Texts<0, 8, NAME_BYTES_MAX>>,
    max_per_section: Option<Whole<1, 100>>,
}

impl OldName for GetEntitiesForSections {
    const NAME: &'static str = "get_entities_for_sections";
    const ABOUT: &'static str = "Old name of `graph_entities_for_sections`. Use if told to. Do not use otherwise. Returns at most `max_per_section` (20) each.";
    type Input = Input;
    type New = EntitiesForSections;

    fn input(old: Input) -> entities_for_sections::Input {
        entities_for_sections::Input {
            section_ids: old.section_ids,
            labels: old.labels,
            max_per_section: old.max_per_section,
            scope: None,
        }
    }
}
