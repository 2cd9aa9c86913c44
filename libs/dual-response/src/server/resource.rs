//! A resource in the form in which stores keep it: the full result behind one response.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{Column, Row};

/// The version of the stored form of [`Resource`] that this code writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The full result behind one response: the source of its rows, its owner, and its lifetime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resource {
    /// The id: 128 random bits, unless the server has another source of ids.
    pub id: String,
    /// The name.
    pub name: String,
    /// The source of its rows.
    pub query: Backing,
    /// The columns of a row.
    pub columns: Vec<Column>,
    /// The number of rows when the resource was made.
    pub total_count: u64,
    /// The rows that the response showed.
    pub sample_data: Vec<Row>,
    /// The time at which the resource was made.
    pub created_at: Timestamp,
    /// The time at which it expires; `None` if it is pinned.
    pub expires_at: Option<Timestamp>,
    /// The number of times that its rows were read.
    pub access_count: u64,
    /// The time at which its rows were last read.
    pub last_accessed_at: Option<Timestamp>,
    /// Data that the maker keeps with the resource. Not shown over REST.
    pub metadata: Value,
    /// The owner.
    pub owner: Principal,
    /// The version of the stored form.
    pub schema_version: u32,
}

impl Resource {
    /// A resource with this id and backing and otherwise default values, for tests of stores.
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

    /// Whether the resource has expired at this time.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The source of the rows of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backing {
    /// Two closures in the memory of one process, lost when it ends.
    Live,
    /// A registered executor and its arguments: any process that has the executor can read the rows.
    Query {
        /// The executor's name.
        executor: String,
        /// The version of the executor that the arguments were made for.
        version: u32,
        /// The arguments.
        args: Value,
    },
    /// Rows that the store keeps.
    Snapshot,
}

/// The owner of a resource, or a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Principal {
    /// The tenant, if there are several.
    pub tenant: Option<String>,
    /// The person or program; empty for the anonymous principal.
    pub subject: String,
}

impl Principal {
    /// The anonymous principal: knowing the id of its resources is enough to use them.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// A principal with this subject, without a tenant.
    pub fn subject(subject: impl Into<String>) -> Self {
        Self { tenant: None, subject: subject.into() }
    }

    /// The same principal within a tenant.
    pub fn of_tenant(self, tenant: impl Into<String>) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }
}

/// A change to a stored resource. Fields that are `None` are not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcePatch {
    /// A new expiry; `Some(None)` removes it.
    pub expires_at: Option<Option<Timestamp>>,
    /// The time of one more access. The store increases the count, so that no access is lost between two
    /// servers.
    pub accessed_at: Option<Timestamp>,
}

impl ResourcePatch {
    /// Removes the expiry.
    pub fn pin() -> Self {
        Self { expires_at: Some(None), ..Self::default() }
    }

    /// Adds an access.
    pub fn access(at: Timestamp) -> Self {
        Self { accessed_at: Some(at), ..Self::default() }
    }

    /// Also sets a new expiry.
    pub fn expiring(self, at: Timestamp) -> Self {
        Self { expires_at: Some(Some(at)), ..self }
    }
}
