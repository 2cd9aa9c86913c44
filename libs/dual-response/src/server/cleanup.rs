//! Removes expired resources, once a minute or on demand.

use std::sync::{Arc, PoisonError};

use tokio::task::AbortHandle;

use super::{DualResponseServer, Error, Inner};

/// The number of resources that are removed in one step, so that no step blocks a store for long.
const BATCH: usize = 500;

pub(super) enum Task {
    NotStarted,
    Running(AbortHandle),
    Stopped,
}

impl DualResponseServer {
    /// Removes expired resources and returns their number. Runs by itself unless `cleanup_interval` is
    /// `None`.
    pub async fn cleanup_once(&self) -> Result<usize, Error> {
        self.inner.cleanup_once().await
    }
}

impl Inner {
    /// Starts the cleanup with the first resource, because only then is it certain that a runtime exists and
    /// that there will be something to remove.
    pub(super) fn start_cleanup(self: &Arc<Self>) {
        let Some(interval) = self.options.cleanup_interval else { return };
        let mut task = self.cleanup.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*task, Task::NotStarted) {
            return;
        }
        // The task must not keep the server alive, so it ends when the last clone is dropped.
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
        // Closures and rows may use much memory and can't be reached any more, so they are freed at once.
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
