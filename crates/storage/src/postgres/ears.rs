//! Notifications of commits: the hint behind `Backend::wait`. Every commit sends a notification on the
//! channel of its store. From the first wait on, one connection listens for them. A notification only says
//! that it is time to look.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio_postgres::AsyncMessage;

use super::Postgres;
use super::connection::Connections;
use crate::Error;
use crate::backend::Head;

/// A notification can be lost with its connection, so the store is looked at this often in any case.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While no connection listens, the store is looked at as often as SQLite is.
const LOOK_WITHOUT_EARS_EVERY: Duration = Duration::from_millis(40);
const LISTEN_AGAIN_AFTER: Duration = Duration::from_millis(500);

pub(super) struct Ears {
    channel: String,
    is_started: AtomicBool,
    heard: Arc<Heard>,
    looked: Mutex<Option<Look>>,
}

/// The result of the last look at the store.
struct Look {
    at: Instant,
    hints: u64,
    head: Head,
}

#[derive(Default)]
struct Heard {
    state: Mutex<HeardState>,
    changed: Condvar,
}

#[derive(Default)]
struct HeardState {
    is_listening: bool,
    /// Grows with every hint.
    hints: u64,
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, HeardState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn hint(&self, is_listening: bool) {
        let mut state = self.state();
        state.is_listening = is_listening;
        state.hints += 1;
        self.changed.notify_all();
    }
}

impl Ears {
    pub(super) fn new(store: i32) -> Ears {
        Ears {
            channel: format!("kenning_{store}"),
            is_started: AtomicBool::new(false),
            heard: Arc::default(),
            looked: Mutex::new(None),
        }
    }

    /// The channel on which commits are announced.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// A commit of this process, which needs no notification.
    pub(super) fn committed(&self) {
        let is_listening = self.heard.state().is_listening;
        self.heard.hint(is_listening);
    }

    pub(super) fn wait(
        &self,
        store: &Postgres,
        seen: Option<Head>,
        patience: Duration,
    ) -> Result<Head, Error> {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            let (channel, heard) = (self.channel.clone(), self.heard.clone());
            let listening = listen(&store.connections, channel, heard);
            store.connections.spawn(listening);
        }
        let since = Instant::now();
        loop {
            let hints = self.heard.state().hints;
            if let Some(head) = self.look(store, seen, hints)? {
                return Ok(head);
            }
            let left = patience.saturating_sub(since.elapsed());
            let state = self.heard.state();
            if left.is_zero() {
                // No notification has come since `seen` was the head.
                return seen.map_or_else(|| Ok(store.standing()?.head), Ok);
            }
            let pause = if state.is_listening { LOOK_EVERY } else { LOOK_WITHOUT_EARS_EVERY };
            drop(self.heard.changed.wait_timeout_while(state, left.min(pause), |state| state.hints == hints));
        }
    }

    /// The head, if it differs from `seen`. The store is only queried if a notification has come since the
    /// last look, or if that look was long ago.
    fn look(&self, store: &Postgres, seen: Option<Head>, hints: u64) -> Result<Option<Head>, Error> {
        let mut looked = self.looked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let pause = if self.heard.state().is_listening { LOOK_EVERY } else { LOOK_WITHOUT_EARS_EVERY };
        let head = match &*looked {
            Some(last) if last.hints == hints && last.at.elapsed() < pause => last.head,
            _ => {
                let (at, head) = (Instant::now(), store.standing()?.head);
                *looked = Some(Look { at, hints, head });
                head
            }
        };
        Ok((seen != Some(head)).then_some(head))
    }
}

/// Listens until the process ends, on one connection after the other.
fn listen(
    connections: &Connections,
    channel: String,
    heard: Arc<Heard>,
) -> impl Future<Output = ()> + Send + 'static {
    let hosts = connections.hosts();
    async move {
        loop {
            if let Ok((client, mut connection)) = hosts.connect().await {
                let drive = async {
                    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                        match message {
                            Ok(AsyncMessage::Notification(_)) => heard.hint(true),
                            Ok(_) => {}
                            Err(_) => break,
                        }
                    }
                };
                let register = async {
                    if client.batch_execute(&format!("LISTEN {channel}")).await.is_ok() {
                        // Commits before this moment were not announced, so every waiting caller looks once.
                        heard.hint(true);
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = drive => {}
                    () = register => {}
                }
                heard.hint(false);
            }
            tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
        }
    }
}
