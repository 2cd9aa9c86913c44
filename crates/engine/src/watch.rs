//! Telling that the log has grown. The number is all that is told: whoever wants the changes reads the log from
//! where it stood, so nothing is missed, nothing comes twice, and there is no queue that could overflow.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kenning_model::{Principal, Transaction, TxId};
use kenning_storage::{Error, Reach, StoreId, View};
use tokio::sync::watch::Receiver;

use crate::Engine;

/// How often the store is asked for commits of other processes, while anyone listens.
const LOOK_EVERY: Duration = Duration::from_millis(40);

impl Engine {
    /// A receiver that changes whenever any process has committed. Own commits show at once.
    pub fn watch(self: &Arc<Self>) -> Receiver<TxId> {
        let receiver = self.shared.head.subscribe();
        if !self.shared.watching.swap(true, Ordering::AcqRel) {
            let engine = Arc::downgrade(self);
            // Ends by itself with the engine; it holds nothing that a killed process would leave behind.
            let thread = std::thread::Builder::new().name("kenning-watch".into()).spawn(move || look(engine));
            // Whoever watches next tries again; until then readers look by themselves now and then.
            self.shared.watching.store(thread.is_ok(), Ordering::Release);
        }
        receiver
    }

    /// The transactions after `since`, oldest first, at most `limit`. They have the changes that the principal may see,
    /// which may be none.
    pub fn transactions_after(
        &self,
        principal: &Principal,
        since: TxId,
        limit: usize,
    ) -> Result<Vec<Transaction>, Error> {
        let reader = self.storage()?.reader()?;
        let reach = Reach::of(principal, &*reader)?;
        let view = View { reach: &reach, ..View::WHOLE };
        let head = reader.head()?;
        (since.0 + 1..=head.0)
            .take(limit)
            .map(|id| {
                reader
                    .transaction(TxId(id), head, view)?
                    .ok_or_else(|| Error::Damaged { what: format!("transaction {id} is missing") })
            })
            .collect()
    }

    /// The newest transaction of the store, asked for now.
    pub fn head(&self) -> Result<TxId, Error> {
        let head = self.storage()?.reader()?.head()?;
        Ok(self.as_of.map_or(head, |newest| newest.min(head)))
    }

    pub(crate) fn announce(&self, newest: TxId) {
        self.shared.head.send_if_modified(|head| {
            let grown = newest > *head;
            *head = newest.max(*head);
            grown
        });
    }
}

fn look(engine: Weak<Engine>) {
    let mut store = None;
    while let Some(engine) = engine.upgrade() {
        if engine.shared.head.receiver_count() > 0
            && let Ok((now, head)) = newest(&engine)
        {
            // A restored store may end earlier than the one whose place it took.
            match store.replace(now) {
                Some(last) if last != now => {
                    engine.shared.head.send_replace(head);
                }
                _ => engine.announce(head),
            }
        }
        drop(engine);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The store that there is now, and its newest transaction.
fn newest(engine: &Engine) -> Result<(StoreId, TxId), Error> {
    let reader = engine.storage()?.reader()?;
    Ok((reader.store_id()?, reader.head()?))
}
