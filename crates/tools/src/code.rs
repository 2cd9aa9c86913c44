//! The table of error codes, and `Stop`, the reason why a call fails.

use kenning_model::{ScopeName, TxId};
use kenning_presentation::{Block, Format, Reply, cursor::CursorError, text};
use kenning_storage::{Applied, Error, Missing};
use serde_json::{Map, Value, json};

use crate::arguments::unknown_id;
use crate::{Family, patterns};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    NotFound,
    Conflict,
    ReadOnly,
    ScopeViolation,
    PermissionDenied,
    Unauthenticated,
    BudgetExceeded,
    RateLimited,
    LimitReached,
    Timeout,
    BackendUnavailable,
    InternalError,
}

impl Code {
    pub const ALL: [Code; 13] = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::Conflict,
        Code::ReadOnly,
        Code::ScopeViolation,
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::BudgetExceeded,
        Code::RateLimited,
        Code::LimitReached,
        Code::Timeout,
        Code::BackendUnavailable,
        Code::InternalError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::NotFound => "NOT_FOUND",
            Code::Conflict => "CONFLICT",
            Code::ReadOnly => "READ_ONLY",
            Code::ScopeViolation => "SCOPE_VIOLATION",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::Unauthenticated => "UNAUTHENTICATED",
            Code::BudgetExceeded => "BUDGET_EXCEEDED",
            Code::RateLimited => "RATE_LIMITED",
            Code::LimitReached => "LIMIT_REACHED",
            Code::Timeout => "TIMEOUT",
            Code::BackendUnavailable => "BACKEND_UNAVAILABLE",
            Code::InternalError => "INTERNAL_ERROR",
        }
    }

    pub fn retryable(self) -> bool {
        matches!(self, Code::RateLimited | Code::Timeout | Code::BackendUnavailable)
    }

    /// The instruction to the model in the text of an error reply.
    pub fn next_step(self) -> &'static str {
        match self {
            Code::InvalidArgument
            | Code::NotFound
            | Code::Conflict
            | Code::ScopeViolation
            | Code::BudgetExceeded => "fix the arguments and call again",
            Code::RateLimited | Code::Timeout | Code::BackendUnavailable => "retry",
            Code::ReadOnly
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::LimitReached
            | Code::InternalError => "do not retry",
        }
    }

    /// The code that kb and graph tools report instead; these families have only six codes.
    pub fn in_documents(self) -> Code {
        match self {
            Code::Conflict | Code::ReadOnly | Code::NotFound => Code::InvalidArgument,
            Code::PermissionDenied | Code::Unauthenticated => Code::ScopeViolation,
            Code::RateLimited | Code::LimitReached => Code::BudgetExceeded,
            code => code,
        }
    }

    /// The type that pattern tools report in `toolError:v1`.
    pub fn in_patterns(self) -> &'static str {
        match self {
            Code::InvalidArgument
            | Code::Conflict
            | Code::ReadOnly
            | Code::ScopeViolation
            | Code::LimitReached
            | Code::BudgetExceeded => "CLIENT_ERROR",
            Code::NotFound => "NOT_FOUND",
            Code::PermissionDenied | Code::Unauthenticated => "AUTHENTICATION_ERROR",
            Code::RateLimited | Code::Timeout | Code::BackendUnavailable => "NETWORK_ERROR",
            Code::InternalError => "SERVER_ERROR",
        }
    }

    /// The meaning of the code, for `docs/errors.md`.
    pub fn about(self) -> &'static str {
        match self {
            Code::InvalidArgument => "An argument is missing, unknown, of the wrong type or over its cap.",
            Code::NotFound => "The id, transaction, namespace, scope or resource does not exist.",
            Code::Conflict => {
                "The store has moved on: a stale version, a contradiction, a later change of the same ids, a name that is taken, a reused key."
            }
            Code::ScopeViolation => "It reaches outside the scope that the call named.",
            Code::ReadOnly => "The server was started with `--read-only`.",
            Code::PermissionDenied => "The caller, or the store's own protection, does not allow it.",
            Code::BudgetExceeded => "The answer would take more looking than a call may do; ask for less.",
            Code::Unauthenticated => "The request has no credential that holds, over HTTP.",
            Code::RateLimited => "The credential makes too many requests; wait a moment.",
            Code::LimitReached => {
                "A namespace has as many entries as the server allows; delete some, or have the limit raised."
            }
            Code::Timeout => "The call took too long; a write may still have been applied.",
            Code::BackendUnavailable => "The disk or the database does not answer right now.",
            Code::InternalError => "A defect of Kenning, or a damaged store (`kenning verify` tells).",
        }
    }
}

/// The reason why a call ends without its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    pub code: Code,
    /// Says what was requested, why that is not possible, and what to do next.
    pub message: String,
    pub details: Value,
}

/// The key in `details` that marks a failure to read the store because it is damaged.
const DAMAGED: &str = "damaged";

impl Stop {
    pub(crate) fn is_damage(&self) -> bool {
        self.details.get(DAMAGED).is_some()
    }

    pub fn new(code: Code, message: impl Into<String>) -> Stop {
        Stop { code, message: message.into(), details: json!({}) }
    }

    pub fn invalid(message: impl Into<String>) -> Stop {
        Stop::new(Code::InvalidArgument, message)
    }

    pub fn with(mut self, name: &str, value: Value) -> Stop {
        self.details[name] = value;
        self
    }

    /// The error as a reply in the form of the tool's family, in the format that the call requested.
    pub fn reply_of(self, family: Family, format: Format) -> Reply {
        match (family, self.code) {
            (Family::Memory | Family::Knowledge, _) => self.reply(),
            (Family::Patterns, _) => patterns::tool_error::reply(&self, format),
            (Family::Kb | Family::Graph | Family::Legacy, Code::NotFound) => {
                Stop { code: Code::InvalidArgument, ..self.with("reason", json!("not_found")) }.reply()
            }
            (Family::Kb | Family::Graph | Family::Legacy, code) => {
                Stop { code: code.in_documents(), ..self }.reply()
            }
        }
    }

    /// The error as text and as structured content, because a host shows the model only one of the two.
    pub fn reply(&self) -> Reply {
        let code = self.code.as_str();
        let next = self.code.next_step();
        let outcome = match self.details.get("outcome").and_then(Value::as_str) {
            Some("unknown") => ". It is not known whether it was written",
            Some(_) => ". Nothing was written",
            None => "",
        };
        Reply {
            blocks: vec![Block::Text(format!("{code} ({next}): {}{outcome}", self.message))],
            structured: json!({"error": {
                "code": code,
                "message": self.message,
                "retryable": self.code.retryable(),
                "details": self.details,
            }}),
            meta: Map::new(),
            is_error: true,
            ask: None,
            duplicates: 0,
        }
    }
}

impl From<CursorError> for Stop {
    fn from(error: CursorError) -> Stop {
        Stop::invalid(format!("`cursor`: {error}"))
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::UnknownId { entity_type, id } => unknown_id(entity_type, id.as_str()),
            Error::UnknownScope { scope, missing } => unknown_scope(&scope, missing),
            Error::UnknownNamespace { namespace, deleted_by: Some(by), .. } => Stop::new(
                Code::NotFound,
                format!("there is no namespace `{namespace}` any more: transaction {by} deleted it; `undo` {by} brings it back"),
            ),
            Error::UnknownNamespace { namespace, nearest, .. } => {
                let hint = nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
                let next = "`get_namespaces` lists them, `create_namespace` makes one";
                Stop::new(Code::NotFound, format!("there is no namespace `{namespace}`; {hint}{next}"))
            }
            Error::NameTaken { what } => Stop::new(
                Code::Conflict,
                format!("there is already {what}; take another name, or use it as it is (`get_namespaces` describes it)"),
            ),
            Error::Unsound { what } => Stop::new(Code::Conflict, format!("{what}; see `history`")),
            Error::OutsideScope { tx, scope } => Stop::new(
                Code::ScopeViolation,
                format!("transaction {tx} changed more than what is in scope `{scope}`; leave `scope` out to undo all of it"),
            ),
            Error::UnknownTx { tx, head } if head == TxId::EMPTY => {
                Stop::new(Code::NotFound, format!("there is no transaction {tx}; the store is empty"))
            }
            Error::UnknownTx { tx, head } => {
                Stop::new(Code::NotFound, format!("there is no transaction {tx}; the newest is {head}"))
            }
            Error::StaleVersion { id, expected, current } => Stop::new(
                Code::Conflict,
                format!("entry `{id}` is at version {current}, not {expected}; read it again, then update with `expected_version` {current}"),
            )
            .with("current_version", json!(current)),
            Error::Invalid { what } => Stop::invalid(what),
            Error::NeverTogether { one, other } => Stop::new(
                Code::NotFound,
                format!("no scope sees both `{one}` and `{other}`, so they do not contradict each other; nothing is to be resolved"),
            ),
            Error::Contradiction { conflicts, many } => {
                let ids: Vec<&str> = conflicts.iter().map(|stored| stored.id.as_str()).collect();
                Stop::new(
                    Code::Conflict,
                    format!(
                        "the graph has {} with the same subject and predicate and another object ({}{}); use `on_conflict` keep_both or replace",
                        counted(many as usize, "triple"),
                        ids.join(", "),
                        if ids.len() < many as usize { ", …" } else { "" }
                    ),
                )
                .with("conflicts", json!(ids))
            }
            Error::AlreadyUndone { tx, by } => Stop::new(
                Code::Conflict,
                format!("transaction {tx} was already undone by {by}; undo {by} to have it back"),
            )
            .with("undone_by", json!(by)),
            Error::ChangedSince { targets, later } => Stop::new(
                Code::Conflict,
                format!(
                    "can't undo {}: what it changed was changed or used since by {}; undo the later first",
                    numbers(&targets),
                    numbers(&later)
                ),
            )
            .with("later", json!(later)),
            Error::NotYours { tx, actor } => Stop::new(
                Code::Conflict,
                format!(
                    "transaction {tx} was made by {}, not by you; pass `any_actor`: true to undo it all the same",
                    text::quote(&actor, 64)
                ),
            ),
            Error::TooFewToUndo { asked, found, any_actor } => {
                let whose = if any_actor { "the newest transactions" } else { "this session's own transactions" };
                let instead = match (found, any_actor) {
                    (0, false) => "there is none to undo here; name a `tx_id` from `history` instead".to_owned(),
                    (0, true) => "there is none that is not undone already".to_owned(),
                    (found, _) => format!("only {found} can be; nothing was undone"),
                };
                Stop::new(Code::NotFound, format!("asked to undo {asked} of {whose}, and {instead}"))
            }
            Error::TooManyEntries { namespace, present, added, max } => Stop::new(
                Code::LimitReached,
                format!(
                    "namespace `{namespace}` has {} and may have {max}, so {added} more can't be added; `delete` what is no longer needed, or ask \
                     whoever runs the server to raise `entries_per_namespace`",
                    counted(present as usize, "entry"),
                ),
            )
            .with("namespace", json!(namespace))
            .with("entries", json!(present))
            .with("entries_max", json!(max)),
            Error::Forbidden { what } => Stop::new(Code::PermissionDenied, what),
            Error::KeyReused { tool } => Stop::new(
                Code::Conflict,
                format!("this `idempotency_key` was used for a `{tool}` with other arguments; take a new key for a new write"),
            ),
            Error::Unavailable { applied, reason } => {
                let outcome = match applied {
                    Applied::No => "not_applied",
                    Applied::Unknown => "unknown",
                };
                Stop::new(Code::BackendUnavailable, format!("the store does not answer: {reason}"))
                    .with("outcome", json!(outcome))
            }
            Error::Cancelled => Stop::new(Code::Timeout, "the call was cancelled before it was written")
                .with("outcome", json!("not_applied")),
            Error::OutOfTime => Stop::new(Code::Timeout, "the time for the call is over; ask for less"),
            Error::NewerSchema { found, known } => Stop::new(
                Code::InternalError,
                format!("the store was written by a newer Kenning (schema {found}, this one knows {known}); update Kenning"),
            ),
            Error::Damaged { what } => Stop::new(
                Code::InternalError,
                format!("the store is damaged: {what}; run `kenning verify`, and `kenning restore` if it says so"),
            )
            .with(DAMAGED, json!(true)),
            // The internal cause is for the log of the process, not for an agent.
            Error::Bug { .. } => Stop::new(Code::InternalError, "Kenning has failed at this; its log says where"),
        }
    }
}

fn unknown_scope(scope: &ScopeName, missing: Missing) -> Stop {
    let message = match missing {
        Missing::Deleted { by } => {
            format!(
                "there is no scope `{scope}` any more: transaction {by} deleted it; `undo` {by} brings it back, `create_scope` makes a new one"
            )
        }
        Missing::Renamed { to } => format!("there is no scope `{scope}` any more: it is called `{to}` now"),
        Missing::NotYet { at } => format!("there was no scope `{scope}` yet as of transaction {at}"),
        Missing::Never { nearest: Some(name), has_namespace } => {
            let makes = match has_namespace {
                true => "`create_scope` makes one",
                false => "`create_namespace`, then `create_scope` make one",
            };
            format!(
                "there is no scope `{scope}`; did you mean `{name}`? `get_namespaces` lists them, {makes}"
            )
        }
        Missing::Never { has_namespace: true, .. } => {
            format!("there is no scope `{scope}`; `get_namespaces` lists them, `create_scope` makes one")
        }
        Missing::Never { .. } => {
            let namespace = &scope.namespace;
            format!(
                "there is no scope `{scope}` and no namespace `{namespace}`; make them with `create_namespace`, then `create_scope`, or see with `get_namespaces` what there is"
            )
        }
    };
    Stop::new(Code::NotFound, message)
}

/// A number with its noun: `1 triple`, `2 triples`.
pub(crate) fn counted(many: usize, noun: &str) -> String {
    match (many, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{many} {stem}ies"),
        (_, None) => format!("{many} {noun}s"),
    }
}

fn numbers(transactions: &[TxId]) -> String {
    const SHOWN_MAX: usize = 10;
    let shown: Vec<String> = transactions.iter().take(SHOWN_MAX).map(TxId::to_string).collect();
    let noun = if transactions.len() == 1 { "transaction" } else { "transactions" };
    match transactions.len().saturating_sub(SHOWN_MAX) {
        0 => format!("{noun} {}", shown.join(", ")),
        more => format!("{noun} {} and {more} more", shown.join(", ")),
    }
}
