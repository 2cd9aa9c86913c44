//! What the log is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Entry, Id, Timestamp, Triple, TxId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntityType {
    Entry,
    Triple,
}

impl EntityType {
    pub const ALL: [EntityType; 2] = [EntityType::Entry, EntityType::Triple];

    pub fn as_str(self) -> &'static str {
        match self {
            EntityType::Entry => "entry",
            EntityType::Triple => "triple",
        }
    }
}

impl fmt::Display for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Entry(Entry),
    Triple(Triple),
}

impl Record {
    pub fn entity_type(&self) -> EntityType {
        match self {
            Record::Entry(_) => EntityType::Entry,
            Record::Triple(_) => EntityType::Triple,
        }
    }

    pub fn as_entry(&self) -> Option<&Entry> {
        match self {
            Record::Entry(entry) => Some(entry),
            Record::Triple(_) => None,
        }
    }

    pub fn as_triple(&self) -> Option<&Triple> {
        match self {
            Record::Triple(triple) => Some(triple),
            Record::Entry(_) => None,
        }
    }

    pub fn version(&self) -> u32 {
        match self {
            Record::Entry(entry) => entry.version,
            Record::Triple(triple) => triple.version,
        }
    }

    /// The same content as a later version, which is what an undo writes.
    pub fn again(mut self, version: u32, updated_at: Timestamp) -> Record {
        match &mut self {
            Record::Entry(entry) => (entry.version, entry.updated_at) = (version, Some(updated_at)),
            Record::Triple(triple) => (triple.version, triple.updated_at) = (version, Some(updated_at)),
        }
        self
    }
}

/// A record and the transaction that wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    pub tx_id: TxId,
    pub record: Record,
}

/// What one transaction did to one id. At least one side is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub entity_type: EntityType,
    pub id: Id,
    pub before: Option<Version>,
    pub after: Option<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Create,
    Update,
    Delete,
}

impl Op {
    pub fn as_str(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Update => "update",
            Op::Delete => "delete",
        }
    }
}

impl Change {
    pub fn op(&self) -> Op {
        match (&self.before, &self.after) {
            (None, _) => Op::Create,
            (Some(_), Some(_)) => Op::Update,
            (Some(_), None) => Op::Delete,
        }
    }
}

/// One committed change of the store: all of it or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub id: TxId,
    pub at: Timestamp,
    /// The name that people read: `--actor`, the client's name, or `local`.
    pub actor: String,
    /// The server process (or, later, the credential) that made it; decides what is "own".
    pub origin: String,
    pub tool: String,
    /// The transactions that this one takes back; empty for an ordinary write.
    pub undoes: Vec<TxId>,
    /// The transaction that took this one back and still stands.
    pub undone_by: Option<TxId>,
    pub changes: Vec<Change>,
}
