//! Who calls, what is theirs, and what they may do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Id;

/// Every snapshot and every write is made for a principal. It is made once, at the edge, from what the edge knows about
/// the caller; arguments of a call can narrow it and never widen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Whose idempotency keys, cursors, result sets and passages these are: nobody else can use them. All processes
    /// of the owner have one subject.
    pub subject: String,
    /// The name in the log. It is what the caller claims to be called, so no right follows from it.
    pub actor: String,
    /// The process or the credential. Transactions of the same origin are the principal's own.
    pub origin: String,
    pub grants: Grants,
}

/// What a principal may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grants {
    /// Everything: the store is theirs.
    Owner,
    /// So much in each of these namespaces and nothing elsewhere. A namespace is known by its id, so a rename keeps the
    /// right, and another namespace that takes the old name does not get it.
    Namespaces(BTreeMap<Id, Right>),
}

/// Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    Read,
    /// To scopes that no other scope inherits from.
    Write,
    /// To every scope: what is written to a scope with heirs reaches all of them.
    Share,
    /// Scopes themselves, and the transactions of others.
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

    /// The owner, kept to some namespaces. Those who have the same namespaces and rights share cursors and sets.
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

    /// What the principal may do in a namespace, if anything.
    pub fn right_in(&self, namespace: Id) -> Option<Right> {
        match &self.grants {
            Grants::Owner => Some(Right::Admin),
            Grants::Namespaces(rights) => rights.get(&namespace).copied(),
        }
    }

    /// Whose idempotency keys these are. Clients of the owner are told apart by their names, as they always were.
    pub fn key_owner(&self) -> String {
        match &self.grants {
            Grants::Owner => self.actor.clone(),
            Grants::Namespaces(_) => format!("{}\n{}", self.subject, self.actor),
        }
    }
}
