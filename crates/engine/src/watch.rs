//! Telling that the log has grown. The number is all that is told: whoever wants the changes reads the log from
//! where it stood, so nothing is missed, nothing comes twice, and there is no queue that could overflow.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kenning_model::{Principal, Transaction, TxId};
use kenning_storage::{Error, Head, Reach, View};
use tokio::sync::watch::Receiver;

use crate::Engine;

/// How long the store is waited for at a time. Between two waits the thread looks whether anyone still listens.
const WAIT_MAX: Duration = Duration::from_millis(40);

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
        let ids: Vec<TxId> = (since.0 + 1..=head.0).take(limit).map(TxId).collect();
        let missing = |id: TxId| Error::Damaged { what: format!("transaction {id} is missing") };
        let found = reader.transactions(&ids, head, view)?.into_iter().zip(ids);
        found.map(|(tx, id)| tx.ok_or_else(|| missing(id))).collect()
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

fn look(watching: Weak<Engine>) {
    let mut seen: Option<Head> = None;
    while let Some(engine) = watching.upgrade() {
        let opened = (engine.shared.head.receiver_count() > 0).then(|| engine.opened());
        let storage = opened.and_then(|opened| Some(opened.ok()?.storage.clone()));
        // The engine can end while this thread waits.
        drop(engine);
        let waited = storage.and_then(|storage| storage.backend().wait(seen, WAIT_MAX).ok());
        let Some(head) = waited else {
            // Nobody listens, or the store does not answer at the moment.
            std::thread::sleep(WAIT_MAX);
            continue;
        };
        let Some(engine) = watching.upgrade() else { return };
        match seen.replace(head) {
            // A restored store may end earlier than the one whose place it took.
            Some(last) if last.store != head.store => {
                engine.shared.head.send_replace(head.tx);
            }
            _ => engine.announce(head.tx),
        }
    }
}
