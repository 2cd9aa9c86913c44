//! A resource as stores keep it: the full result behind one response.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{Column, Row};

/// The form of [`Resource`] that this version writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The full result behind one response: where its rows come from, whose it is, and how long it lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resource {
    /// Its id: 128 random bits, unless the server was given another source of ids.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Where its rows come from.
    pub query: Backing,
    /// What a row consists of.
    pub columns: Vec<Column>,
    /// How many rows there were when it was made.
    pub total_count: u64,
    /// The rows that the response showed.
    pub sample_data: Vec<Row>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; none once it is pinned.
    pub expires_at: Option<Timestamp>,
    /// How often its rows were read.
    pub access_count: u64,
    /// When they were read last.
    pub last_accessed_at: Option<Timestamp>,
    /// Whatever the maker keeps with it. Not shown over REST.
    pub metadata: Value,
    /// Whose it is.
    pub owner: Principal,
    /// The form it is written in.
    pub schema_version: u32,
}

impl Resource {
    /// A resource of this id and backing, with nothing else said: for tests of stores.
    pub fn new(id: impl Into<String>, query: Backing, created_at: Timestamp) -> Self {
        Self {
            id: id.into(),
            name: String::new(),
            query,
            columns: Vec::new(),
            total_count: 0,
            sample_data: Vec::new(),
            created_at,
            expires_at: None,
            access_count: 0,
            last_accessed_at: None,
            metadata: Value::Null,
            owner: Principal::anonymous(),
            schema_version: SCHEMA_VERSION,
        }
    }

    /// Whether it has ended by now.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// Where the rows of a resource come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backing {
    /// Two closures in the memory of one process, gone when it ends.
    Live,
    /// A registered executor and its arguments: any process that has the executor can go on.
    Query {
        /// The executor's name.
        executor: String,
        /// The version of it that the arguments were made for.
        version: u32,
        /// The arguments.
        args: Value,
    },
    /// Rows that the store keeps.
    Snapshot,
}

/// Who owns a resource, or asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Principal {
    /// The tenant, where there are several.
    pub tenant: Option<String>,
    /// The person or program; empty for nobody in particular.
    pub subject: String,
}

impl Principal {
    /// Nobody in particular: knowing the id is enough.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Somebody, where there is one tenant.
    pub fn subject(subject: impl Into<String>) -> Self {
        Self { tenant: None, subject: subject.into() }
    }

    /// The same one, within a tenant.
    pub fn of_tenant(self, tenant: impl Into<String>) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }
}

/// A change to a stored resource. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcePatch {
    /// A new end; `Some(None)` for none at all.
    pub expires_at: Option<Option<Timestamp>>,
    /// One more access, at this time. The store adds it, so that none is lost between two servers.
    pub accessed_at: Option<Timestamp>,
}

impl ResourcePatch {
    /// No end any more.
    pub fn pin() -> Self {
        Self { expires_at: Some(None), ..Self::default() }
    }

    /// One more access.
    pub fn access(at: Timestamp) -> Self {
        Self { accessed_at: Some(at), ..Self::default() }
    }

    /// Another end.
    pub fn expiring(self, at: Timestamp) -> Self {
        Self { expires_at: Some(Some(at)), ..self }
    }
}
