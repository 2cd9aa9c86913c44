//! Decides which facts about the writes of others a caller may be told. Every reply and every refusal that
//! mentions a transaction or an id asks this module, so that a new permission is one change in one place.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use kenning_engine::{Sight, Snapshot};
use kenning_model::{Change, EntityType, Id, Record, ScopeName, TxId};
use kenning_storage::{Error, Stored, View};

use crate::arguments::unknown_id;
use crate::tool::sight;
use crate::{Code, Context, Stop};

/// To find out whether the caller ever wrote a record, only this many of its newest transactions are
/// examined.
const OWN_LOOKED_AT: usize = 64;

/// The largest number of scope names that are kept for a session. Only a client that guesses names would
/// exceed it.
const NAMED_MAX: usize = 256;

/// The scopes that a session has named in its calls.
#[derive(Debug, Default)]
pub struct NamedScopes(Mutex<BTreeSet<ScopeName>>);

impl NamedScopes {
    pub(crate) fn add(&self, name: &ScopeName) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < NAMED_MAX && !names.contains(name) {
            names.insert(name.clone());
        }
    }

    fn all(&self) -> BTreeSet<ScopeName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The records that a caller may be told about: those in certain scopes, and those that belong to no scope.
pub(crate) struct Disclosure {
    /// `None` for a person who looks at the whole history.
    sight: Option<Sight>,
}

impl Disclosure {
    /// The records that one scope sees. A deleted scope sees nothing, but its deletion is still told, so that
    /// it can be undone.
    pub(crate) fn of_scope(ctx: &Context<'_>, snapshot: &Snapshot<'_>, named: Option<&str>) -> Disclosure {
        if ctx.caller.has_whole_history {
            return Disclosure { sight: None };
        }
        let seen = ctx.scope_name(named).and_then(|name| sight(snapshot, &name));
        Disclosure { sight: Some(seen.unwrap_or_else(|_| snapshot.sight_of(Vec::new()))) }
    }

    /// The records that the caller's scope sees, and those that the scopes named in this session see: a
    /// caller that has named a scope knows about it.
    fn of_session(ctx: &Context<'_>, snapshot: &Snapshot<'_>) -> Disclosure {
        let mut disclosure = Disclosure::of_scope(ctx, snapshot, None);
        let named = ctx.caller.named_scopes.all();
        let seen = named.iter().filter_map(|name: &ScopeName| sight(snapshot, name).ok());
        disclosure.sight = disclosure.sight.map(|own| seen.fold(own, Sight::and));
        disclosure
    }

    fn tells_record(&self, record: &Record) -> bool {
        self.sight.as_ref().is_none_or(|sight| sight.sees_record(record))
    }

    /// Whether the caller may be told about both sides of a change.
    pub(crate) fn tells(&self, change: &Change) -> bool {
        let mut sides = change.before.iter().map(|before| &before.record).chain(&change.after);
        sides.all(|record| self.tells_record(record))
    }
}

/// Whether this caller made the transaction. That is decided by the origin and not by the actor, because the
/// actor is only a claimed name.
pub(crate) fn is_own(ctx: &Context<'_>, snapshot: &Snapshot<'_>, tx: TxId) -> Result<bool, Error> {
    Ok(snapshot.origin_of(tx)?.as_deref() == Some(&ctx.caller.principal.origin))
}

/// Turns an error into a refusal without anything that the caller may not know: an id that is out of sight is
/// refused like an id that does not exist.
pub(crate) fn refusal(ctx: &Context<'_>, error: Error) -> Stop {
    match concealed_refusal(ctx, &error) {
        Ok(Some(stop)) => stop,
        Ok(None) | Err(_) => error.into(),
    }
}

fn concealed_refusal(ctx: &Context<'_>, error: &Error) -> Result<Option<Stop>, Error> {
    let entries: Vec<Id> = match error {
        Error::StaleVersion { id, .. } => vec![*id],
        Error::NeverTogether { one, other } => vec![*one, *other],
        Error::NotYours { tx, .. } => return foreign_transaction_refusal(ctx, *tx),
        _ => return Ok(None),
    };
    let snapshot = ctx.snapshot()?;
    for id in entries {
        if let Some(stored) = snapshot.entry(id)?
            && !is_told(ctx, &snapshot, &stored)?
        {
            return Ok(Some(unknown_id(EntityType::Entry, id.as_str())));
        }
    }
    Ok(None)
}

/// Whether a refusal may mention a record: the record is in sight, or in a scope that the session has named,
/// or the caller itself once wrote it.
pub(crate) fn is_told(ctx: &Context<'_>, snapshot: &Snapshot<'_>, stored: &Stored) -> Result<bool, Error> {
    if Disclosure::of_session(ctx, snapshot).tells_record(&stored.record) {
        return Ok(true);
    }
    let touches = snapshot.transactions_of(stored.record.entity_type(), stored.id)?;
    for tx in touches.into_iter().rev().take(OWN_LOOKED_AT) {
        if is_own(ctx, snapshot, tx)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The refusal to undo somebody else's transaction that changed nothing in sight: it tells neither the actor
/// nor any other detail.
fn foreign_transaction_refusal(ctx: &Context<'_>, tx: TxId) -> Result<Option<Stop>, Error> {
    let snapshot = ctx.snapshot()?;
    let disclosure = Disclosure::of_session(ctx, &snapshot);
    let scopes = disclosure.sight.as_ref().map(Sight::scopes);
    let view = View { scopes, changes_max: 1, ..View::WHOLE };
    let seen = snapshot.transaction(tx, view)?;
    if seen.is_some_and(|seen| !seen.changes.is_empty()) {
        return Ok(None);
    }
    Ok(Some(Stop::new(
        Code::Conflict,
        format!("transaction {tx} was not made by you; pass `any_actor`: true to undo it all the same"),
    )))
}
