//! The graph of sections and documents, and of the entities that they and the triples mention. No tool of
//! this family returns text; the `kb` tools do.

pub(crate) mod children;
pub(crate) mod describe;
pub(crate) mod entities_for_sections;
pub(crate) mod expand;
pub(crate) mod parents;
pub(crate) mod paths;
mod reader;
pub(crate) mod sections_for_entities;

use kenning_presentation::budget::{ROWS_BYTES_MAX, json_bytes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Context;
use crate::arguments::{TERM_BYTES_MAX, Texts};
use crate::code::counted;
use crate::memory::item::{as_data, one_line};
use crate::tool::{ToolRow, row};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![
        row::<describe::Describe>(),
        row::<expand::Expand>(),
        row::<paths::Paths>(),
        row::<parents::Parents>(),
        row::<children::Children>(),
        row::<entities_for_sections::EntitiesForSections>(),
        row::<sections_for_entities::SectionsForEntities>(),
    ]
}

/// Ids of sections and documents, and names of entities.
pub(crate) type NodeIds = Texts<1, 50, TERM_BYTES_MAX>;

/// A node as it is shown; what it has not is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NodeItem {
    pub(crate) id: String,
    /// section, document, entity; of entities in documents: code, command, term, name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8")]
    pub(crate) level: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub(crate) tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) doc_tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) anchor: Option<String>,
    /// Of a document, below what was taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) snippet: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct EdgeItem {
    pub(crate) from: String,
    pub(crate) r#type: String,
    pub(crate) to: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    pub(crate) nodes: Vec<NodeItem>,
    pub(crate) edges: Vec<EdgeItem>,
    /// What was asked for and is not there.
    pub(crate) missing: Vec<String>,
    pub(crate) next_cursor: Option<String>,
    /// There is more.
    pub(crate) partial: bool,
    /// page_size, byte_cap, node_cap or none.
    pub(crate) limit_reason: &'static str,
    pub(crate) session_id: String,
}

/// The nodes and edges of a reply, up to its largest size.
#[derive(Default)]
pub(crate) struct Sheet {
    pub(crate) nodes: Vec<NodeItem>,
    pub(crate) edges: Vec<EdgeItem>,
    bytes: usize,
    pub(crate) is_full: bool,
}

impl Sheet {
    /// Adds a node and its edges if they fit. The first node always fits.
    pub(crate) fn add(&mut self, node: NodeItem, edges: impl IntoIterator<Item = EdgeItem>) -> bool {
        let bytes = json_bytes(&node) + 1;
        if self.is_full || (self.bytes + bytes > ROWS_BYTES_MAX && !self.nodes.is_empty()) {
            self.is_full = true;
            return false;
        }
        self.bytes += bytes;
        self.nodes.push(node);
        for edge in edges {
            self.add_edge(edge);
        }
        true
    }

    /// Adds an edge unless it is there already: two links may lead to the same section.
    pub(crate) fn add_edge(&mut self, edge: EdgeItem) {
        if self.edges.contains(&edge) {
            return;
        }
        let bytes = json_bytes(&edge) + 1;
        match self.bytes + bytes > ROWS_BYTES_MAX {
            true => self.is_full = true,
            false => {
                self.bytes += bytes;
                self.edges.push(edge);
            }
        }
    }

    /// Whether an item that is neither node nor edge fits too; its size is then counted.
    pub(crate) fn holds<T: Serialize>(&mut self, item: &T) -> bool {
        let bytes = json_bytes(item) + 1;
        let holds = self.bytes + bytes <= ROWS_BYTES_MAX;
        match holds {
            true => self.bytes += bytes,
            false => self.is_full = true,
        }
        holds
    }

    /// The output of a tool that has no further pages.
    pub(crate) fn only_page(self, ctx: &Context<'_>, missing: Vec<String>) -> Output {
        Output {
            nodes: self.nodes,
            edges: self.edges,
            missing,
            next_cursor: None,
            partial: self.is_full,
            limit_reason: if self.is_full { "byte_cap" } else { "none" },
            session_id: ctx.caller.session(),
        }
    }
}

impl Output {
    /// Marks the output as cut at the page size if some node had more than may be shown for each node.
    pub(crate) fn cut_at_page_size(self, is_cut: bool) -> Output {
        if is_cut && !self.partial {
            Output { partial: true, limit_reason: "page_size", ..self }
        } else {
            self
        }
    }
}

/// The text of a reply; every tool of the family has the same.
pub(crate) fn shown(output: &Output) -> String {
    let Output { nodes, edges, missing, limit_reason, .. } = output;
    let next_cursor = output.next_cursor.as_deref();
    let mut said = format!("Found {} and {}.", counted(nodes.len(), "node"), counted(edges.len(), "edge"));
    if !missing.is_empty() {
        let names: Vec<String> =
            missing.iter().take(5).map(|name| kenning_presentation::text::quote(name, 64)).collect();
        let more = if missing.len() > names.len() { ", …" } else { "" };
        said += &format!(" Not there: {}{more}.", names.join(", "));
    }
    match (next_cursor, *limit_reason) {
        (Some(cursor), _) => said += &format!(" For more pass `cursor`: \"{cursor}\"."),
        (None, "none") => {}
        (None, "page_size") => said += " There is more than was asked for of each.",
        (None, "byte_cap") => said += " There is more than a reply holds; ask for fewer.",
        (None, _) => said += " There is more; ask for fewer hops or relations.",
    }
    if nodes.is_empty() && edges.is_empty() {
        return said;
    }
    let node = |node: &NodeItem| {
        let title =
            node.title.as_ref().map(|title| format!(" \"{}\"", one_line(title, 200))).unwrap_or_default();
        let doc_tag =
            node.doc_tag.as_ref().map(|tag| format!(" [{}]", one_line(tag, 64))).unwrap_or_default();
        let snippet = node.snippet.as_ref().map(|text| format!("\n   {text}")).unwrap_or_default();
        let label = node.label.as_deref().unwrap_or("node");
        let path = node.path.as_ref().map(|path| format!(" {}", one_line(path, 200))).unwrap_or_default();
        let size = node.tokens.map(|tokens| format!(", {tokens} tokens")).unwrap_or_default();
        format!("{} {label}{title}{doc_tag}{path}{size}{snippet}", one_line(&node.id, 200))
    };
    let edge = |edge: &EdgeItem| {
        let [from, relation, to] = [&edge.from, &edge.r#type, &edge.to].map(|text| one_line(text, 200));
        format!("{from} -{relation}-> {to}")
    };
    let lines: Vec<String> = nodes.iter().map(node).chain(edges.iter().map(edge)).collect();
    format!("{said} {}", as_data(&lines.join("\n")))
}
