//! The caller of a request, and its rights.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Id;

/// Every snapshot and every write is made for a principal. The server makes it once, from what it knows about
/// the caller; arguments of a call can restrict its rights but never extend them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The owner of idempotency keys, cursors, result sets and passages: another subject can't use them. All
    /// processes of the store's owner have one subject.
    pub subject: String,
    /// The name in the log. The caller chooses it, so no right depends on it.
    pub actor: String,
    /// The process or the credential. Transactions of the same origin are the principal's own.
    pub origin: String,
    pub grants: Grants,
}

/// The rights of a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grants {
    /// All rights: the principal owns the store.
    Owner,
    /// A right in each of these namespaces and none elsewhere. A namespace is identified by its id, so the
    /// right survives a rename, and another namespace that takes the old name does not get it.
    Namespaces(BTreeMap<Id, Right>),
}

/// A right in a namespace. Each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    Read,
    /// To write to scopes that no other scope inherits from.
    Write,
    /// To write to every scope. A write to a scope that others inherit from reaches all of them.
    Share,
    /// To change scopes themselves, and to undo the transactions of others.
    Admin,
}

impl Right {
    pub const ALL: [Right; 4] = [Right::Read, Right::Write, Right::Share, Right::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Share => "share",
            Right::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Right> {
        Right::ALL.into_iter().find(|right| right.as_str() == text)
    }
}

impl Principal {
    const OWNER: &str = "owner";

    pub fn owner(actor: impl Into<String>, origin: impl Into<String>) -> Principal {
        Principal {
            subject: Principal::OWNER.to_owned(),
            actor: actor.into(),
            origin: origin.into(),
            grants: Grants::Owner,
        }
    }

    /// The owner, restricted to some namespaces. Callers with the same namespaces and rights share cursors
    /// and result sets.
    pub fn confined(
        actor: impl Into<String>,
        origin: impl Into<String>,
        namespaces: BTreeMap<Id, Right>,
    ) -> Principal {
        let granted: Vec<String> =
            namespaces.iter().map(|(id, right)| format!("{id}={}", right.as_str())).collect();
        Principal {
            subject: format!("{} of {}", Principal::OWNER, granted.join(",")),
            actor: actor.into(),
            origin: origin.into(),
            grants: Grants::Namespaces(namespaces),
        }
    }

    pub fn is_owner(&self) -> bool {
        self.grants == Grants::Owner
    }

    /// The right of the principal in a namespace, if it has one.
    pub fn right_in(&self, namespace: Id) -> Option<Right> {
        match &self.grants {
            Grants::Owner => Some(Right::Admin),
            Grants::Namespaces(rights) => rights.get(&namespace).copied(),
        }
    }

    /// The owner of idempotency keys. Clients of the store's owner are distinguished by their names.
    pub fn key_owner(&self) -> String {
        match &self.grants {
            Grants::Owner => self.actor.clone(),
            Grants::Namespaces(_) => format!("{}\n{}", self.subject, self.actor),
        }
    }
}
