//! The client's roots, which say in which project a session works. Clients before 2026-07-28 are asked with a request
//! while the first call waits a little; later ones with the result of the first call, which they answer by themselves.
//! No person is ever asked.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kenning_tools::project::ScopeFinder;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::percent;

/// A call waits this long for roots that were asked for.
const CALL_WAIT: Duration = Duration::from_millis(500);
/// An answer that comes later than this is not waited for by anybody.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// From the first question on, calls of newer clients are answered with it for this long. Calls that were sent together
/// are all asked, and a client that never answers can work all the same.
const ASKING_MAX: Duration = Duration::from_secs(2);
/// More roots than this are no project.
const ROOTS_MAX: usize = 32;
/// The question for roots, by which its answer is found.
const KEY: &str = "kenning-roots";

pub(crate) struct Roots {
    finder: Arc<ScopeFinder>,
    /// Whether an answer is waited for.
    pending: Arc<watch::Sender<bool>>,
    /// The number of the newest question; the answer to an older one is out of date.
    newest: Arc<AtomicU64>,
    asking: Mutex<JoinSet<()>>,
    /// Whether a newer client has answered.
    is_answered: AtomicBool,
    first_asked: OnceLock<Instant>,
}

/// Whether a client says that it has roots.
pub(crate) fn declares_roots(capabilities: Option<&ClientCapabilities>) -> bool {
    capabilities.is_some_and(|client| client.roots.is_some())
}

impl Roots {
    pub(crate) fn new(finder: Arc<ScopeFinder>) -> Roots {
        Roots {
            finder,
            pending: Arc::new(watch::Sender::new(false)),
            newest: Arc::default(),
            asking: Mutex::default(),
            is_answered: AtomicBool::new(false),
            first_asked: OnceLock::new(),
        }
    }

    /// Whether the roots decide about the scope and no client has told them yet.
    pub(crate) fn are_awaited(&self, capabilities: Option<&ClientCapabilities>) -> bool {
        let is_told = self.is_answered.load(Ordering::Relaxed);
        declares_roots(capabilities) && !self.finder.is_named() && !is_told
    }

    /// Asks an older client, which has said that it has roots.
    pub(crate) fn ask(&self, peer: Peer<RoleServer>) {
        if self.finder.is_named() {
            return;
        }
        let number = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        self.begin(peer, number);
    }

    fn ask_first(&self, peer: Peer<RoleServer>) {
        if self.newest.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.begin(peer, 1);
        }
    }

    fn begin(&self, peer: Peer<RoleServer>, number: u64) {
        self.pending.send_replace(true);
        let (finder, pending, newest) = (self.finder.clone(), self.pending.clone(), self.newest.clone());
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while asking.try_join_next().is_some() {}
        asking.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_MAX, list(peer)).await.ok().flatten();
            if newest.load(Ordering::Relaxed) != number {
                return;
            }
            if let Some(roots) = answer {
                finder.set_roots(roots);
            }
            pending.send_replace(false);
        });
    }

    /// Waits until an older client has told its roots, but not for long.
    pub(crate) async fn ready(&self, context: &RequestContext<RoleServer>) {
        let is_newer = context.meta.protocol_version().is_some();
        if is_newer || !self.are_awaited(context.client_capabilities().as_ref()) {
            return;
        }
        self.ask_first(context.peer.clone());
        let mut pending = self.pending.subscribe();
        let answered = pending.wait_for(|pending| !pending);
        if tokio::time::timeout(CALL_WAIT, answered).await.is_err() {
            // The next call does not wait again. An answer is still taken when it comes.
            self.pending.send_replace(false);
        }
    }

    /// What a newer client has sent with its call, or the question that its call is answered with.
    pub(crate) fn question(
        &self,
        context: &RequestContext<RoleServer>,
        responses: Option<&InputResponses>,
    ) -> Option<InputRequiredResult> {
        let is_newer = context.meta.protocol_version().is_some();
        if !is_newer || !self.are_awaited(context.client_capabilities().as_ref()) {
            return None;
        }
        if let Some(answer) = responses.and_then(|responses| responses.get(KEY)) {
            let roots = answer["roots"].as_array().map(Vec::as_slice).unwrap_or_default();
            self.finder.set_roots(dirs(roots.iter().filter_map(|root| root["uri"].as_str())));
            self.is_answered.store(true, Ordering::Relaxed);
            return None;
        }
        if self.first_asked.get_or_init(Instant::now).elapsed() > ASKING_MAX {
            return None;
        }
        // A request without params can only be made from its wire form, since its type is deprecated.
        let request = serde_json::from_value(Value::from_iter([("method", "roots/list")])).ok()?;
        let request = InputRequest::ListRoots(request);
        Some(InputRequiredResult::new(Some(InputRequests::from([(KEY.to_owned(), request)])), None))
    }
}

/// What the client answers; none if it can't. Roots are deprecated since 2026-07-28, and these clients are older.
#[expect(deprecated)]
async fn list(peer: Peer<RoleServer>) -> Option<Vec<PathBuf>> {
    match peer.list_roots().await {
        Ok(listed) => Some(dirs(listed.roots.iter().map(|root| root.uri.as_str()))),
        Err(error) => {
            tracing::debug!("the client does not tell its roots: {error}");
            None
        }
    }
}

/// The directories that roots name; other addresses than those of files are none.
fn dirs<'a>(uris: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    uris.filter_map(path).take(ROOTS_MAX).collect()
}

/// `file:///home/me/my%20project` is `/home/me/my project`.
fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = percent::decode(rest.strip_prefix('/').map(|_| rest)?)?;
    // `/C:/project` is how an address spells a drive of Windows.
    let path = if cfg!(windows) { path.trim_start_matches('/') } else { path.as_str() };
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::path;

    #[cfg(unix)]
    #[test]
    fn a_root_is_the_directory_that_its_address_names() {
        let shown = |uri: &str| path(uri).map(|path| path.display().to_string());
        assert_eq!(shown("file:///home/me/my%20project").as_deref(), Some("/home/me/my project"));
        assert_eq!(shown("file://localhost/srv").as_deref(), Some("/srv"));
        assert_eq!(shown("file:///caf%C3%A9").as_deref(), Some("/café"));
        for uri in [
            "https://host.org/x",
            "file://host/x",
            "file:///x%2",
            "file:///%zz",
            "file:///%+f",
            "file:///%ff",
            "",
        ] {
            assert_eq!(shown(uri), None, "{uri}");
        }
    }
}
