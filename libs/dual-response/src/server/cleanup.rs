//! Removes resources whose time is over, once a minute or when told to.

use std::sync::{Arc, PoisonError};

use tokio::task::AbortHandle;

use super::{DualResponseServer, Error, Inner};

/// How many resources are removed in one step, so that no step holds a store for long.
const BATCH: usize = 500;

pub(super) enum Task {
    NotStarted,
    Running(AbortHandle),
    Stopped,
}

impl DualResponseServer {
    /// Removes what has expired and says how many it were. Runs by itself unless `cleanup_interval` is `None`.
    pub async fn cleanup_once(&self) -> Result<usize, Error> {
        self.inner.cleanup_once().await
    }
}

impl Inner {
    /// Begins the cleanup with the first resource: only then is there surely a runtime, and something to remove.
    pub(super) fn start_cleanup(self: &Arc<Self>) {
        let Some(interval) = self.options.cleanup_interval else { return };
        let mut task = self.cleanup.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*task, Task::NotStarted) {
            return;
        }
        // The task must not keep the server alive: it ends when the last clone is dropped.
        let server = Arc::downgrade(self);
        let running = tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(server) = server.upgrade() else { return };
                if let Err(error) = server.cleanup_once().await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cleanup failed; it will be tried again"
                    );
                }
            }
        });
        *task = Task::Running(running.abort_handle());
    }

    pub(super) fn stop_cleanup(&self) {
        let mut task = self.cleanup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Task::Running(running) = std::mem::replace(&mut *task, Task::Stopped) {
            running.abort();
        }
    }

    async fn cleanup_once(&self) -> Result<usize, Error> {
        let now = self.now();
        // Closures and rows may hold a lot, and nobody can reach them any more: they go at once.
        self.live().retain(|_, live| live.expires_at.is_none_or(|end| end > now));
        self.store.release_expired(now).await?;
        let Ok(before) = now.checked_sub(self.options.keep_expired) else { return Ok(0) };
        let mut removed = 0;
        loop {
            let step = self.store.delete_expired(before, BATCH).await?;
            removed += step;
            if step < BATCH {
                return Ok(removed);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_cleanup();
    }
}
