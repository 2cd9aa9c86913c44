//! An entry: a piece of knowledge.

use serde::{Deserialize, Serialize};

use crate::{Id, ScopeId, Timestamp, Tombstone};

/// One version of an entry, as the log holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub scope: ScopeId,
    /// Empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_sizes: Vec<TaskSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The author of this content. An undo restores the author together with the content.
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Status::is_active")]
    pub status: Status,
    /// Whether every task in its scope and in the scopes that inherit from it gets the entry, whatever the
    /// task is about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The previous entry, if entries are parts of one text or conversation. It was live in the same scope
    /// when this version was written; it may have been deleted or moved since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Id>,
    /// 1, 2, 3, ...: counts every version of this id, including those that an undo wrote.
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Active,
    Suppressed,
}

impl Status {
    fn is_active(&self) -> bool {
        *self == Status::Active
    }
}

/// The size of task an entry is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskSize {
    XS,
    S,
    M,
    L,
    XL,
}
