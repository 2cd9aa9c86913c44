//! The order in which the calls of one client arrived. A client may send several without waiting for answers: they
//! run at the same time, yet take effect as if one after the other.
//!
//! ```text
//! store A   prepared at once; enters the queue of commits first
//! store B   prepared at once; enters after A and shares its sync
//! query     runs once A and B are committed, and reads as of B
//! store C   prepared at once; enters after B, whether or not the query has begun, which does not see it
//! undo      runs once A, B and C are committed, and nothing after it is prepared before it is done
//! ```
//!
//! A read delays no write: before a write enters the queue, it notes the newest transaction for every earlier
//! read that has not yet noted it. No later write of the client can be included in that number.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use kenning_model::TxId;
use kenning_storage::Error;
use tokio::sync::Notify;

use crate::{Engine, locked};

/// The kinds of calls, which decide what runs at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Read,
    /// A write that can be prepared beside other writes; only the queue of commits is entered in order.
    Write,
    /// A write that others depend on while they are prepared, such as creating a scope that they name. It
    /// runs alone among writes.
    ExclusiveWrite,
}

/// The calls of one client that are not done yet.
#[derive(Default)]
pub struct Order {
    calls: Mutex<Calls>,
    /// Held while the newest transaction is asked for and noted, so that no write enters the queue in between.
    noting: Mutex<()>,
}

#[derive(Default)]
struct Calls {
    next: u64,
    /// By the number of the call; numbers follow the order of arrival.
    unfinished: BTreeMap<u64, Call>,
}

struct Call {
    kind: CallKind,
    /// Whether a write has entered the queue of commits.
    has_entered: bool,
    /// For a read: the newest transaction at the moment when it was noted.
    noted: Option<TxId>,
    /// For a read: the newest transaction that an earlier call has committed.
    floor: TxId,
    /// Notified when the call may run.
    may_run: Arc<Notify>,
    /// Notified when a write may enter the queue.
    may_enter: Arc<Condvar>,
    is_cancelled: bool,
}

impl Order {
    /// Gives a call that has just arrived its place in the order.
    pub fn arrived(self: &Arc<Self>, kind: CallKind) -> Ticket {
        let mut calls = locked(&self.calls);
        let number = calls.next;
        calls.next += 1;
        let call = Call {
            kind,
            has_entered: false,
            noted: None,
            floor: TxId::EMPTY,
            may_run: Arc::default(),
            may_enter: Arc::default(),
            is_cancelled: false,
        };
        calls.unfinished.insert(number, call);
        Ticket { order: self.clone(), number, kind }
    }

    fn finished(&self, number: u64) {
        let mut calls = locked(&self.calls);
        let Some(call) = calls.unfinished.remove(&number) else { return };
        if call.kind != CallKind::Read {
            calls.wake(number);
        }
    }
}

impl Calls {
    /// Notifies the later calls that may proceed now.
    fn wake(&self, number: u64) {
        let mut before = Before::default();
        for (later, call) in &self.unfinished {
            if *later > number {
                if before.allows(call.kind) {
                    call.may_run.notify_one();
                }
                if call.kind != CallKind::Read && !before.has_outside {
                    call.may_enter.notify_one();
                }
            }
            before.add(call);
        }
    }

    fn before(&self, number: u64) -> Before {
        let mut before = Before::default();
        self.unfinished.range(..number).for_each(|(_, call)| before.add(call));
        before
    }
}

/// A summary of the unfinished calls before a call.
#[derive(Default)]
struct Before {
    has_writes: bool,
    has_exclusive: bool,
    /// Whether one of them is a write that has not entered the queue.
    has_outside: bool,
}

impl Before {
    fn add(&mut self, call: &Call) {
        self.has_writes |= call.kind != CallKind::Read;
        self.has_exclusive |= call.kind == CallKind::ExclusiveWrite;
        self.has_outside |= call.kind != CallKind::Read && !call.has_entered;
    }

    fn allows(&self, kind: CallKind) -> bool {
        match kind {
            CallKind::Read | CallKind::ExclusiveWrite => !self.has_writes,
            CallKind::Write => !self.has_exclusive,
        }
    }
}

/// The place of a call in the order of arrival. Dropping it marks the call as done.
pub struct Ticket {
    order: Arc<Order>,
    number: u64,
    kind: CallKind,
}

impl Ticket {
    pub fn is_write(&self) -> bool {
        self.kind != CallKind::Read
    }

    /// Notes that the client has cancelled the call. A write that has not entered the queue of commits is
    /// then not carried out.
    pub fn cancel(&self) {
        if let Some(call) = locked(&self.order.calls).unfinished.get_mut(&self.number) {
            call.is_cancelled = true;
        }
    }

    /// Waits until the earlier calls allow this one to run.
    pub async fn may_run(&self) {
        loop {
            let told = {
                let calls = locked(&self.order.calls);
                match calls.unfinished.get(&self.number) {
                    Some(call) if !calls.before(self.number).allows(call.kind) => call.may_run.clone(),
                    _ => return,
                }
            };
            told.notified().await;
        }
    }

    /// The transaction that a read answers from: after all writes that were sent before it, before all that
    /// were sent after it. It is `None` for a write, which is planned on the state of the store when it is
    /// committed.
    pub fn as_of(&self, engine: &Engine) -> Result<Option<TxId>, Error> {
        if self.is_write() {
            return Ok(None);
        }
        let _noting = locked(&self.order.noting);
        let noted = locked(&self.order.calls).unfinished.get(&self.number).and_then(|call| call.noted);
        let noted = match noted {
            Some(noted) => noted,
            None => newest(engine)?,
        };
        let mut calls = locked(&self.order.calls);
        let Some(call) = calls.unfinished.get_mut(&self.number) else { return Ok(Some(noted)) };
        call.noted = Some(noted);
        Ok(Some(noted.max(call.floor)))
    }

    /// Waits until all earlier writes have entered the queue of commits, and notes the newest transaction for
    /// the earlier reads.
    pub(crate) fn enter(&self, engine: &Engine) -> Result<(), Error> {
        let mut calls = locked(&self.order.calls);
        while calls.before(self.number).has_outside {
            let Some(told) = calls.unfinished.get(&self.number).map(|call| call.may_enter.clone()) else {
                return Ok(());
            };
            calls = told.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
        if calls.unfinished.get(&self.number).is_some_and(|call| call.is_cancelled) {
            return Err(Error::Cancelled);
        }
        let is_unnoted = |call: &Call| call.kind == CallKind::Read && call.noted.is_none();
        let has_unnoted = calls.unfinished.range(..self.number).any(|(_, call)| is_unnoted(call));
        drop(calls);
        if has_unnoted {
            let _noting = locked(&self.order.noting);
            let head = newest(engine)?;
            let mut calls = locked(&self.order.calls);
            for (_, call) in calls.unfinished.range_mut(..self.number) {
                call.noted.get_or_insert(head);
            }
        }
        Ok(())
    }

    /// Notes that the write is in the queue, so the next one may follow.
    pub(crate) fn entered(&self) {
        let mut calls = locked(&self.order.calls);
        if let Some(call) = calls.unfinished.get_mut(&self.number) {
            call.has_entered = true;
        }
        calls.wake(self.number);
    }

    /// Notes the transaction that the write was committed in, so that later reads include it.
    pub(crate) fn committed(&self, tx: TxId) {
        let mut calls = locked(&self.order.calls);
        for (_, call) in calls.unfinished.range_mut(self.number + 1..) {
            call.floor = call.floor.max(tx);
        }
    }
}

/// The newest transaction. Asking for it must not create a store.
fn newest(engine: &Engine) -> Result<TxId, Error> {
    match engine.is_there() {
        true => engine.head(),
        false => Ok(TxId::EMPTY),
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.number).finish()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.order.finished(self.number);
    }
}
