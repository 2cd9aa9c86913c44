//! `graph.parents`: the ancestors of sections, up to their documents.

use kenning_engine::graph::CHILD_OF;
use kenning_model::Id;
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::{GraphReader, met};
use super::{EdgeItem, NodeIds, Output, Sheet, shown};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Parents;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) section_ids: NodeIds,
    pub(crate) scope: Option<Scope>,
}

impl Tool for Parents {
    const NAME: &'static str = "graph.parents";
    const ABOUT: &'static str = "List what sections are part of: the sections above them, then their document. \
        Use after `kb_search`, on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text until 3 passages are left. \
        Returns the whole chain of each of at most 50 sections; for what is below call `graph_children`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let seen = GraphReader::new(ctx, &snapshot, input.scope)?;
        let mut sheet = Sheet::default();
        let mut missing = Vec::new();
        let mut known: Vec<Id> = Vec::new();
        for name in &input.section_ids.0 {
            let Some((id, _)) = seen.find_section(name)? else {
                missing.push(kenning_presentation::text::clean(name));
                continue;
            };
            let mut child = Some(id);
            while let Some(id) = child {
                let Some(section) = seen.section(id)? else { break };
                let parent = section.parent.unwrap_or(section.document);
                let edge =
                    EdgeItem { from: id.to_string(), r#type: CHILD_OF.to_owned(), to: parent.to_string() };
                if known.contains(&parent) {
                    sheet.add_edge(edge);
                    break;
                }
                known.push(parent);
                let above =
                    seen.look(|view| seen.find(&view, parent.as_str()).map(|node| met(&view, node)))?;
                let item = above.map(|met| seen.show(&met)).transpose()?.flatten();
                if !item.is_some_and(|item| sheet.add(item, [edge])) {
                    break;
                }
                child = section.parent;
            }
        }
        Ok(Answer::text(sheet.only_page(ctx, missing), shown))
    }
}
