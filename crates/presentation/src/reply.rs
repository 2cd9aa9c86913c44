//! What a tool answers, before a protocol dresses it.

use serde_json::{Map, Value};

use crate::Ask;

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The channel that people and text-only hosts read.
    pub blocks: Vec<Block>,
    /// The channel that programs read; always there, and whole in itself.
    pub structured: Value,
    /// What concerns the answer and is no part of it, for programs that look there.
    pub meta: Map<String, Value>,
    pub is_error: bool,
    /// What to ask people for, where that is possible; the reply is whole without it.
    pub ask: Option<Ask>,
}

/// Which blocks a client gets beside the structured reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Text alone, for clients that pass every block on to a model.
    Text,
    /// Also what programs keep or follow: embedded resources, links, what the columns of rows are.
    #[default]
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    /// For people.
    Markdown(String),
    /// The structured reply, for who does not get that channel.
    Json(String),
    /// What went wrong, in a line.
    Plain(String),
    /// What a model may do next, which people need not see.
    Hint(String),
    /// JSON that a client may keep under its URI.
    Resource {
        uri: String,
        json: String,
    },
    /// Where more can be read, for clients that want it.
    Link(Link),
    /// Where all rows are, as JSON.
    SetLink(Link),
}

/// What is kept for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub uri: String,
    pub name: String,
    /// Where that is known.
    pub bytes: Option<u64>,
    /// RFC 3339.
    pub last_modified: String,
}

/// Where it says what the rows are that a reply shows a part of, when the structured reply does not.
const ROWS: &str = "io.kenning/rows";

impl Reply {
    /// Leaves out what a model has no use for. What describes rows goes where only programs look.
    pub fn keep_text_alone(&mut self) {
        self.drop_links();
        self.blocks.retain(|block| !matches!(block, Block::Resource { .. }));
        let Some(metadata) = self.structured.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let mut described = Map::new();
        for name in ["columns", "executed_at"] {
            described.extend(metadata.shift_remove(name).map(|value| (name.to_owned(), value)));
        }
        if described.is_empty() {
            return;
        }
        self.meta.insert(ROWS.to_owned(), Value::Object(described));
        // The block with the JSON is the structured reply, for who does not get that channel.
        for block in &mut self.blocks {
            if let Block::Json(json) = block {
                *json = self.structured.to_string();
            }
        }
    }

    pub fn drop_links(&mut self) {
        self.blocks.retain(|block| !matches!(block, Block::Link(_) | Block::SetLink(_)));
    }

    /// The text blocks, as a terminal shows them.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text)
            | Block::Markdown(text)
            | Block::Json(text)
            | Block::Plain(text)
            | Block::Hint(text) => Some(text.as_str()),
            Block::Resource { .. } | Block::Link(_) | Block::SetLink(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// What the channel of blocks takes.
    pub fn content_bytes(&self) -> usize {
        let bytes = |block: &Block| match block {
            Block::Text(text)
            | Block::Markdown(text)
            | Block::Json(text)
            | Block::Plain(text)
            | Block::Hint(text) => text.len(),
            Block::Resource { uri, json } => uri.len() + json.len(),
            Block::Link(link) | Block::SetLink(link) => link.uri.len() + link.name.len(),
        };
        self.blocks.iter().map(bytes).sum()
    }
}
