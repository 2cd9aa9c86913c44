//! Why a call to the store failed, split by what the caller can do about it.

use kenning_model::{EntityType, Id, ScopeName, TxId};

use crate::Stored;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {entity_type} `{id}`")]
    UnknownId { entity_type: EntityType, id: Id },
    #[error("there is no scope `{scope}`")]
    UnknownScope { scope: ScopeName, missing: Missing },
    #[error("there is no namespace `{namespace}`")]
    UnknownNamespace { namespace: String, nearest: Option<String>, deleted_by: Option<TxId> },
    #[error("there is already {what}")]
    NameTaken { what: String },
    /// The write would make the scopes, or the records in them, inconsistent.
    #[error("{what}")]
    Unsound { what: String },
    #[error("transaction {tx} changes what is outside scope `{scope}`")]
    OutsideScope { tx: TxId, scope: ScopeName },
    #[error("there is no transaction {tx}; the newest is {head}")]
    UnknownTx { tx: TxId, head: TxId },
    #[error("entry `{id}` is at version {current}, not {expected}")]
    StaleVersion { id: Id, expected: u32, current: u32 },
    #[error("{what}")]
    Invalid { what: String },
    /// `conflicts` are the newest of `many` triples.
    #[error("{many} live triples have the same subject and predicate")]
    Contradiction { conflicts: Vec<Stored>, many: u64 },
    #[error("transaction {tx} was already undone by {by}")]
    AlreadyUndone { tx: TxId, by: TxId },
    #[error("later transactions changed the same ids")]
    ChangedSince { targets: Vec<TxId>, later: Vec<TxId> },
    #[error("transaction {tx} was made by `{actor}`")]
    NotYours { tx: TxId, actor: String },
    #[error("{found} transactions can be undone, {asked} were asked for")]
    TooFewToUndo { asked: u32, found: u32, any_actor: bool },
    #[error("namespace `{namespace}` has {present} entries; with {added} more it would have more than {max}")]
    TooManyEntries { namespace: String, present: u64, added: u64, max: u64 },
    #[error("the idempotency key was used for another call")]
    KeyReused { tool: String },
    /// The client cancelled the call before it entered the queue of commits.
    #[error("the call was cancelled before it was written")]
    Cancelled,
    /// A question took longer than a caller waits for its answer.
    #[error("the time for the call is over")]
    OutOfTime,
    #[error("the store has schema {found}; this program knows {known}")]
    NewerSchema { found: i64, known: i64 },
    #[error("{what}")]
    Forbidden { what: String },
    #[error("the store is damaged: {what}")]
    Damaged { what: String },
    #[error("the store does not answer: {reason}")]
    Unavailable { applied: Applied, reason: String },
    #[error("no scope sees both `{one}` and `{other}`")]
    NeverTogether { one: Id, other: Id },
    #[error("a bug in the store: {what}")]
    Bug { what: String },
}

/// Why a scope does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    Deleted {
        by: TxId,
    },
    Renamed {
        to: String,
    },
    /// The scope exists now, but did not exist as of this transaction.
    NotYet {
        at: TxId,
    },
    Never {
        nearest: Option<String>,
        has_namespace: bool,
    },
}

/// Whether a failed write may have been stored nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    No,
    /// The commit itself failed: after a restart, the log on disk may or may not contain the write.
    Unknown,
}

impl Error {
    pub(crate) fn damaged(what: impl Into<String>) -> Error {
        Error::Damaged { what: what.into() }
    }

    /// The failure for every other request of a group whose commit failed.
    pub(crate) fn for_group(&self) -> Error {
        match self {
            Error::Damaged { what } => Error::Damaged { what: what.clone() },
            Error::Unavailable { applied, reason } => {
                Error::Unavailable { applied: *applied, reason: reason.clone() }
            }
            other => Error::Bug { what: other.to_string() },
        }
    }
}
