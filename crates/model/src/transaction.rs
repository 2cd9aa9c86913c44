//! The transactions and changes of the log.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Document, Entry, Id, Namespace, Scope, ScopeId, Section, Timestamp, Triple, TxId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntityType {
    Entry,
    Triple,
    Namespace,
    Scope,
    Document,
    Section,
}

impl EntityType {
    pub const ALL: [EntityType; 6] = [
        EntityType::Entry,
        EntityType::Triple,
        EntityType::Namespace,
        EntityType::Scope,
        EntityType::Document,
        EntityType::Section,
    ];

    /// Whether records of this type belong to a scope. Namespaces and scopes do not, and are visible from
    /// everywhere.
    pub fn has_scope(self) -> bool {
        !matches!(self, EntityType::Namespace | EntityType::Scope)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            EntityType::Entry => "entry",
            EntityType::Triple => "triple",
            EntityType::Namespace => "namespace",
            EntityType::Scope => "scope",
            EntityType::Document => "document",
            EntityType::Section => "section",
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
    Namespace(Namespace),
    Scope(Scope),
    Document(Document),
    Section(Section),
}

impl Record {
    pub fn entity_type(&self) -> EntityType {
        match self {
            Record::Entry(_) => EntityType::Entry,
            Record::Triple(_) => EntityType::Triple,
            Record::Namespace(_) => EntityType::Namespace,
            Record::Scope(_) => EntityType::Scope,
            Record::Document(_) => EntityType::Document,
            Record::Section(_) => EntityType::Section,
        }
    }

    pub fn as_entry(&self) -> Option<&Entry> {
        match self {
            Record::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    pub fn as_triple(&self) -> Option<&Triple> {
        match self {
            Record::Triple(triple) => Some(triple),
            _ => None,
        }
    }

    pub fn as_namespace(&self) -> Option<&Namespace> {
        match self {
            Record::Namespace(namespace) => Some(namespace),
            _ => None,
        }
    }

    pub fn as_scope(&self) -> Option<&Scope> {
        match self {
            Record::Scope(scope) => Some(scope),
            _ => None,
        }
    }

    pub fn as_document(&self) -> Option<&Document> {
        match self {
            Record::Document(document) => Some(document),
            _ => None,
        }
    }

    pub fn as_section(&self) -> Option<&Section> {
        match self {
            Record::Section(section) => Some(section),
            _ => None,
        }
    }

    /// Whether a reader with these scopes in sight sees the record.
    pub fn is_seen_from(&self, scopes: &[ScopeId]) -> bool {
        self.scope().is_none_or(|scope| scopes.contains(&scope))
    }

    /// The scope that the record belongs to; `None` for namespaces and scopes.
    pub fn scope(&self) -> Option<ScopeId> {
        match self {
            Record::Entry(entry) => Some(entry.scope),
            Record::Triple(triple) => Some(triple.scope),
            Record::Document(document) => Some(document.scope),
            Record::Section(section) => Some(section.scope),
            Record::Namespace(_) | Record::Scope(_) => None,
        }
    }

    pub fn version(&self) -> u32 {
        match self {
            Record::Entry(entry) => entry.version,
            Record::Triple(triple) => triple.version,
            Record::Namespace(namespace) => namespace.version,
            Record::Scope(scope) => scope.version,
            Record::Document(document) => document.version,
            Record::Section(section) => section.version,
        }
    }

    /// The same content as a later version. An undo writes such versions.
    pub fn again(mut self, version: u32, updated_at: Timestamp) -> Record {
        let (of, at) = match &mut self {
            Record::Entry(entry) => (&mut entry.version, &mut entry.updated_at),
            Record::Triple(triple) => (&mut triple.version, &mut triple.updated_at),
            Record::Namespace(namespace) => (&mut namespace.version, &mut namespace.updated_at),
            Record::Scope(scope) => (&mut scope.version, &mut scope.updated_at),
            Record::Document(document) => (&mut document.version, &mut document.updated_at),
            Record::Section(section) => (&mut section.version, &mut section.updated_at),
        };
        (*of, *at) = (version, Some(updated_at));
        self
    }
}

/// A record and the transaction that wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    pub tx_id: TxId,
    pub record: Record,
}

/// The change of one id in one transaction. At least one of `before` and `after` is present.
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

/// One commit, which is applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub id: TxId,
    pub at: Timestamp,
    /// The name that people read: `--actor`, the client's name, or `local`.
    pub actor: String,
    /// The server process or the credential that made it. It decides whether the transaction is a principal's
    /// own.
    pub origin: String,
    pub tool: String,
    /// The transactions that this one undoes; empty for an ordinary write.
    pub undoes: Vec<TxId>,
    /// The transaction that undid this one, if that undo is in effect.
    pub undone_by: Option<TxId>,
    pub changes: Vec<Change>,
    /// The number of changes that were left out because fewer were asked for.
    pub left_out: usize,
}
