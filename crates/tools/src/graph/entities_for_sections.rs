//! `graph.entities_for_sections`: the entities that sections mention.

use kenning_engine::graph::MENTIONS;
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::{GraphReader, mention_item};
use super::{EdgeItem, NodeIds, Output, Sheet, shown};
use crate::arguments::{NAME_BYTES_MAX, Texts, Whole};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct EntitiesForSections;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) section_ids: NodeIds,
    /// code, command, term, name.
    pub(crate) labels: Option<Texts<0, 8, NAME_BYTES_MAX>>,
    pub(crate) max_per_section: Option<Whole<1, 100>>,
    pub(crate) scope: Option<Scope>,
}

pub(super) const MAX_PER_DEFAULT: u64 = 20;

impl Tool for EntitiesForSections {
    const NAME: &'static str = "graph.entities_for_sections";
    const ABOUT: &'static str = "List what sections mention: code, commands, defined terms, names. \
        Use after `kb_search`, on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns at most `max_per_section` (default 20, max 100) each; then call `graph_sections_for_entities`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let seen = GraphReader::new(ctx, &snapshot, input.scope)?;
        let labels = input.labels.map(|labels| labels.0).unwrap_or_default();
        let many = input.max_per_section.map_or(MAX_PER_DEFAULT, |many| many.0) as usize;
        let mut sheet = Sheet::default();
        let mut missing = Vec::new();
        let mut is_cut = false;
        for name in &input.section_ids.0 {
            let Some((id, section)) = seen.find_section(name)? else {
                missing.push(kenning_presentation::text::clean(name));
                continue;
            };
            let fits = |label: &str| {
                labels.is_empty() || labels.iter().any(|known| known.eq_ignore_ascii_case(label))
            };
            let mut mentions = section.mentions.iter().filter(|mention| fits(&mention.label));
            for mention in mentions.by_ref().take(many) {
                let item = mention_item(mention);
                let edge =
                    EdgeItem { from: id.to_string(), r#type: MENTIONS.to_owned(), to: item.id.clone() };
                match sheet.nodes.iter().any(|known| known.id == item.id) {
                    true => sheet.add_edge(edge),
                    false => {
                        sheet.add(item, [edge]);
                    }
                }
            }
            is_cut |= mentions.next().is_some();
        }
        Ok(Answer::text(sheet.only_page(ctx, missing).cut_at_page_size(is_cut), shown))
    }
}
