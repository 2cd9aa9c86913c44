//! The client's roots, which say in which project a session works. A client before 2026-07-28 gets a request
//! for them while its first call waits a little. A newer client gets the question as the result of its first
//! call, and answers it without asking a person.

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

/// How long a call waits for roots that were asked for.
const CALL_WAIT: Duration = Duration::from_millis(500);
/// How long the answer of an older client is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// For how long after the first question the calls of newer clients are answered with it. Several calls that
/// were sent together all get the question, and a client that never answers can still work afterwards.
const ASKING_MAX: Duration = Duration::from_secs(2);
/// The most roots that are used; a longer list is not a project.
const ROOTS_MAX: usize = 32;
/// The key of the question for roots, under which the client sends the answer.
const KEY: &str = "kenning-roots";

pub(crate) struct Roots {
    finder: Arc<ScopeFinder>,
    /// Whether an answer is being waited for.
    pending: Arc<watch::Sender<bool>>,
    /// The number of the newest question; the answer to an older one is ignored.
    newest: Arc<AtomicU64>,
    asking: Mutex<JoinSet<()>>,
    /// Whether a newer client has answered.
    is_answered: AtomicBool,
    first_asked: OnceLock<Instant>,
}

/// Whether a client declares the capability of having roots.
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

    /// Whether the roots decide the scope and no newer client has sent them yet.
    pub(crate) fn are_awaited(&self, capabilities: Option<&ClientCapabilities>) -> bool {
        let is_told = self.is_answered.load(Ordering::Relaxed);
        declares_roots(capabilities) && !self.finder.is_named() && !is_told
    }

    /// Asks an older client, which has declared that it has roots.
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

    /// Waits a short time until an older client has sent its roots.
    pub(crate) async fn ready(&self, context: &RequestContext<RoleServer>) {
        let is_newer = context.meta.protocol_version().is_some();
        if is_newer || !self.are_awaited(context.client_capabilities().as_ref()) {
            return;
        }
        self.ask_first(context.peer.clone());
        let mut pending = self.pending.subscribe();
        let answered = pending.wait_for(|pending| !pending);
        if tokio::time::timeout(CALL_WAIT, answered).await.is_err() {
            // The next call does not wait again. A later answer is still used when it arrives.
            self.pending.send_replace(false);
        }
    }

    /// Takes the roots that a newer client has sent with its call, or returns the question that its call is
    /// answered with.
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
        // The type of this request is deprecated, so the request is parsed from JSON instead of constructed.
        let request = serde_json::from_value(Value::from_iter([("method", "roots/list")])).ok()?;
        let request = InputRequest::ListRoots(request);
        Some(InputRequiredResult::new(Some(InputRequests::from([(KEY.to_owned(), request)])), None))
    }
}

/// The roots of the client; `None` if it can't tell them. Roots are deprecated since 2026-07-28, and these
/// clients are older.
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

/// The directories that roots name; addresses other than those of files are skipped.
fn dirs<'a>(uris: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    uris.filter_map(path).take(ROOTS_MAX).collect()
}

/// The path of a `file:` address: `file:///home/me/my%20project` gives `/home/me/my project`.
fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = percent::decode(rest.strip_prefix('/').map(|_| rest)?)?;
    // A Windows drive is written `/C:/project` in such an address.
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
