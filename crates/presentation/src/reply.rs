//! A reply, before a protocol gives it its form.

use serde_json::{Map, Value};

use crate::Ask;
use crate::budget::json_bytes;

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
    /// How often something was left out because it was there already.
    pub duplicates: usize,
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
    /// The structured reply, for clients that do not get that channel.
    Json(String),
    /// What went wrong, in a line.
    Plain(String),
    /// What a model may do next, which people need not see.
    Hint(String),
    /// The structured reply, which a client may keep under this URI.
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

    /// What the structured reply takes as JSON. Where a block has that JSON already, it is not written a second time.
    pub fn structured_bytes(&self) -> usize {
        let written = self.blocks.iter().find_map(|block| match block {
            Block::Resource { json, .. } | Block::Json(json) => Some(json.len()),
            _ => None,
        });
        written.unwrap_or_else(|| json_bytes(&self.structured))
    }
}
