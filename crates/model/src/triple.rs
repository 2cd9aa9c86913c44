//! A triple: a fact of the graph.

use serde::{Deserialize, Serialize};

use crate::{ScopeId, Timestamp, Tombstone, clean};

/// One version of a triple, as the log holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Triple {
    pub scope: ScopeId,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone>,
}

/// The form in which spellings of one name are equal: without invisible characters, case and outer blanks.
pub fn fold(text: &str) -> String {
    clean(text).trim().to_lowercase()
}
