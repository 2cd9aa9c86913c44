//! Reports that the log has grown. Only the newest transaction number is sent: a receiver that wants the
//! changes reads the log from its own position. So no change is missed or sent twice, and no queue can
//! overflow.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kenning_model::{Principal, Transaction, TxId};
use kenning_storage::{Error, Head, Reach, View};
use tokio::sync::watch::Receiver;

use crate::Engine;

/// How long one wait for the store lasts. Between two waits the thread checks whether there is still a
/// receiver.
const WAIT_MAX: Duration = Duration::from_millis(40);

impl Engine {
    /// A receiver that changes whenever any process has committed. Commits of this process are seen at once.
    pub fn watch(self: &Arc<Self>) -> Receiver<TxId> {
        let receiver = self.shared.head.subscribe();
        if !self.shared.watching.swap(true, Ordering::AcqRel) {
            let engine = Arc::downgrade(self);
            // The thread ends by itself with the engine. It holds nothing that a killed process would leave
            // behind.
            let thread = std::thread::Builder::new().name("kenning-watch".into()).spawn(move || look(engine));
            // If the thread could not start, the next caller tries again; until then readers check by
            // themselves now and then.
            self.shared.watching.store(thread.is_ok(), Ordering::Release);
        }
        receiver
    }

    /// The transactions after `since`, oldest first, at most `limit`. Each contains only the changes that the
    /// principal may see, possibly none.
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

    /// The newest transaction of the store, read from the store now.
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
        // The engine may end while this thread waits.
        drop(engine);
        let waited = storage.and_then(|storage| storage.backend().wait(seen, WAIT_MAX).ok());
        let Some(head) = waited else {
            // There is no receiver, or the store does not answer at the moment.
            std::thread::sleep(WAIT_MAX);
            continue;
        };
        let Some(engine) = watching.upgrade() else { return };
        match seen.replace(head) {
            // A store restored from a backup may end earlier than the store that it replaced.
            Some(last) if last.store != head.store => {
                engine.shared.head.send_replace(head.tx);
            }
            _ => engine.announce(head.tx),
        }
    }
}
