//! `graph.sections_for_entities`: the sections that mention some entities.

use kenning_engine::graph::MENTIONS;
use kenning_engine::graph::Node;
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::entities_for_sections::MAX_PER_DEFAULT;
use super::reader::{GraphReader, node_id, section_item};
use super::{EdgeItem, NodeIds, Output, Sheet, shown};
use crate::arguments::Whole;
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct SectionsForEntities;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Ids or names.
    pub(crate) entity_ids: NodeIds,
    pub(crate) max_per: Option<Whole<1, 100>>,
    pub(crate) scope: Option<Scope>,
}

impl Tool for SectionsForEntities {
    const NAME: &'static str = "graph.sections_for_entities";
    const ABOUT: &'static str = "List the sections that mention entities, newest first; entities by id or by name. \
        Use after `kb_search`, on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns at most `max_per` (default 20, max 100) for each; to read one, pass its id to `kb_read_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let seen = GraphReader::new(ctx, &snapshot, input.scope)?;
        let many = input.max_per.map_or(MAX_PER_DEFAULT, |many| many.0) as usize;
        let mut sheet = Sheet::default();
        let mut missing = Vec::new();
        let mut is_cut = false;
        for name in &input.entity_ids.0 {
            let found = seen.look(|view| {
                let node =
                    seen.find(&view, name).filter(|node| matches!(view.node(*node), Node::Entity(_)))?;
                let sections: Vec<_> = view.mentioned_in(node).take(many + 1).collect();
                Some((node_id(view.node(node)), sections))
            })?;
            let Some((entity, sections)) = found else {
                missing.push(kenning_presentation::text::clean(name));
                continue;
            };
            is_cut |= sections.len() > many;
            for id in sections.into_iter().take(many) {
                let edge = EdgeItem { from: id.to_string(), r#type: MENTIONS.to_owned(), to: entity.clone() };
                if sheet.nodes.iter().any(|known| known.id == edge.from) {
                    sheet.add_edge(edge);
                } else if let Some(section) = seen.section(id)? {
                    sheet.add(section_item(id, &section), [edge]);
                }
            }
        }
        Ok(Answer::text(sheet.only_page(ctx, missing).cut_at_page_size(is_cut), shown))
    }
}
