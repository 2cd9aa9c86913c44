//! Decides which families of tools are listed, and tells clients when the list changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kenning_engine::{Content, Engine, Error};
use kenning_model::{Principal, TxId};
use kenning_tools::Family;
use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio::task::JoinHandle;

use crate::Options;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolsets {
    /// The families for which the store has content.
    Auto,
    All,
    Only(Vec<String>),
}

/// The families whose tools are listed if the store has this content.
pub fn listed_families(toolsets: &Toolsets, content: Content) -> Vec<Family> {
    let is_listed = |family: &Family| match toolsets {
        Toolsets::Auto => match family {
            Family::Memory | Family::Knowledge => true,
            Family::Patterns => content.patterns,
            Family::Kb => content.documents,
            Family::Graph => content.documents || content.triples,
            // Listed only on request.
            Family::Legacy => false,
        },
        Toolsets::All => true,
        Toolsets::Only(names) => names.iter().any(|name| name == family.as_str()),
    };
    Family::ALL.into_iter().filter(is_listed).collect()
}

/// How often the list that a client before 2026-07-28 has is compared with the current one. Such a client did
/// not ask for it, so the comparison must cost next to nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The list of tools that a client before 2026-07-28 has. The client gets a notification, without having
/// asked for it, when the list changes.
#[derive(Default)]
pub(crate) struct ListedTools(Mutex<State>);

#[derive(Default)]
struct State {
    families: Vec<Family>,
    /// The task that compares the lists until the client is gone. `None` before the first list, since a
    /// client without a list needs no news of it.
    looking: Option<JoinHandle<()>>,
}

impl ListedTools {
    /// Notes the list that the client gets now, and starts to watch for changes.
    pub(crate) fn note(
        self: &Arc<Self>,
        families: Vec<Family>,
        engine: &Arc<Engine>,
        options: &Options,
        peer: Peer<RoleServer>,
    ) {
        let (principal, toolsets) = (&options.principal, &options.toolsets);
        let mut state = self.state();
        state.families = families;
        if state.looking.is_none() && *toolsets == Toolsets::Auto {
            let look = look(Arc::downgrade(self), engine.clone(), principal.clone(), toolsets.clone(), peer);
            state.looking = Some(tokio::spawn(look));
        }
    }

    /// Whether this list differs from the one that the client has. It then counts as known to the client.
    fn is_news(&self, families: Vec<Family>) -> bool {
        let mut state = self.state();
        let is_news = state.families != families;
        state.families = families;
        is_news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListedTools {
    fn drop(&mut self) {
        if let Some(looking) = self.state().looking.take() {
            looking.abort();
        }
    }
}

async fn look(
    listed: std::sync::Weak<ListedTools>,
    engine: Arc<Engine>,
    principal: Arc<Principal>,
    toolsets: Toolsets,
    peer: Peer<RoleServer>,
) {
    let mut at = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let (store, principal) = (engine.clone(), principal.clone());
        let look = move || content_since(&store, &principal, at);
        let Ok(seen) = tokio::task::spawn_blocking(look).await else { return };
        let Some(listed) = listed.upgrade() else { return };
        match seen {
            Ok(Some((head, content))) => {
                at = Some(head);
                let is_news = listed.is_news(listed_families(&toolsets, content));
                if is_news && peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            // A disk error may be temporary, so the next round tries again.
            Err(error) => tracing::debug!("what tools to list can't be found out: {error}"),
        }
    }
}

/// The content of the store, if the store has grown since `at`.
fn content_since(
    engine: &Engine,
    principal: &Principal,
    at: Option<TxId>,
) -> Result<Option<(TxId, Content)>, Error> {
    // Looking at a store must not create it.
    if !engine.is_there() {
        return Ok(None);
    }
    let head = engine.head()?;
    match at == Some(head) {
        true => Ok(None),
        false => Ok(Some((head, engine.content(principal, Some(head))?))),
    }
}
