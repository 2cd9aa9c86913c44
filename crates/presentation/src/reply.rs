//! A reply, independent of the protocol that carries it.

use serde_json::{Map, Value};

use crate::Ask;
use crate::budget::json_bytes;

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The channel for people and for hosts that show only text.
    pub blocks: Vec<Block>,
    /// The channel for programs; always present, and complete by itself.
    pub structured: Value,
    /// Information about the answer that is not part of it, for programs that look there.
    pub meta: Map<String, Value>,
    pub is_error: bool,
    /// The question to ask people, if they can be asked; the reply is complete without it.
    pub ask: Option<Ask>,
    /// The number of rows or passages that were left out because they repeated earlier ones.
    pub duplicates: usize,
}

/// The blocks that a client gets in addition to the structured reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Text only, for clients that pass every block to a model.
    Text,
    /// Also blocks that programs keep or follow: embedded resources, links, descriptions of the columns of
    /// rows.
    #[default]
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    /// Markdown for people.
    Markdown(String),
    /// The structured reply as JSON text, for clients that do not get the structured channel.
    Json(String),
    /// An error in one line.
    Plain(String),
    /// A suggestion of the next step for the model, which people need not see.
    Hint(String),
    /// The structured reply as a resource, which a client may keep under this URI.
    Resource {
        uri: String,
        json: String,
    },
    /// A link to a resource with more to read, for clients that want it.
    Link(Link),
    /// A link to all rows of a result set as JSON.
    SetLink(Link),
}

/// A link to a resource that is kept for a limited time.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub uri: String,
    pub name: String,
    /// The size, if it is known.
    pub bytes: Option<u64>,
    /// The time of the last change, as RFC 3339.
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

    /// The size of the channel of blocks in bytes.
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

    /// The size of the structured reply as JSON. If a block contains that JSON already, it is not made a
    /// second time.
    pub fn structured_bytes(&self) -> usize {
        let written = self.blocks.iter().find_map(|block| match block {
            Block::Resource { json, .. } | Block::Json(json) => Some(json.len()),
            _ => None,
        });
        written.unwrap_or_else(|| json_bytes(&self.structured))
    }
}
