//! `graph.describe`: the fields of some nodes.

use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::{GraphReader, met};
use super::{NodeIds, NodeItem, Output, Sheet, shown};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Describe;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) node_ids: NodeIds,
    pub(crate) fields: Option<Vec<Field>>,
    pub(crate) scope: Option<Scope>,
}

// The id is always part of a node, so asking for `Id` changes nothing.
#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Field {
    Id,
    Label,
    Title,
    Level,
    Tokens,
    DocTag,
    Anchor,
}

impl Tool for Describe {
    const NAME: &'static str = "graph.describe";
    const ABOUT: &'static str = "Say what nodes are: title, level, size. Ids of sections and documents, or names of entities. \
        Use after `kb_search`, on its top 1 to 3 candidates. Do not use if `graph_disabled`, or for text (`kb_read_excerpt`, once 3 passages are left). \
        Returns at most 50 nodes; for neighbours call `graph_expand`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let seen = GraphReader::new(ctx, &snapshot, input.scope)?;
        let (nodes, missing) = seen.look(|view| {
            let (found, missing) = seen.find_all(&view, &input.node_ids.0);
            (found.into_iter().map(|node| met(&view, node)).collect::<Vec<_>>(), missing)
        })?;
        let mut sheet = Sheet::default();
        for node in nodes {
            if let Some(item) = seen.show(&node)? {
                sheet.add(only(item, input.fields.as_deref()), []);
            }
        }
        Ok(Answer::text(sheet.only_page(ctx, missing), shown))
    }
}

fn only(item: NodeItem, fields: Option<&[Field]>) -> NodeItem {
    let Some(fields) = fields else { return item };
    let wanted = |field: Field| fields.contains(&field);
    NodeItem {
        id: item.id,
        label: item.label.filter(|_| wanted(Field::Label)),
        title: item.title.filter(|_| wanted(Field::Title)),
        level: item.level.filter(|_| wanted(Field::Level)),
        tokens: item.tokens.filter(|_| wanted(Field::Tokens)),
        doc_tag: item.doc_tag.filter(|_| wanted(Field::DocTag)),
        anchor: item.anchor.filter(|_| wanted(Field::Anchor)),
        path: item.path.filter(|_| wanted(Field::Title)),
        snippet: None,
    }
}
