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

impl Reply {
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
