//! Subscriptions, in both protocol eras. A subscription is a position in the log and reads on from there, so
//! it misses nothing, repeats nothing, and reports the commits of other processes like its own.

use std::sync::Arc;
use std::time::Duration;

use kenning_engine::{Engine, Error};
use kenning_model::{Change, EntityType, Principal, ScopeId, ScopeName, Transaction, TxId};
use kenning_tools::Family;
use rmcp::model::{
    NotificationMetaObject, ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::places::SharedPlaces;
use crate::resources::{self, Changed, SeenScopes, Watched};
use crate::toolsets::{Toolsets, listed_families};

/// The newest transaction when the client asked to subscribe.
#[derive(Clone, Copy)]
pub(crate) struct Started(pub(crate) TxId);

/// How many transactions are read from the log at a time.
const READ_MAX: usize = 256;
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The most ids in one notice.
const IDS_MAX: usize = 100;

/// The principal and the scope that decide what a subscription reports.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) engine: Arc<Engine>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) scope: String,
    pub(crate) places: Arc<SharedPlaces>,
}

impl Watcher {
    /// Reads from the store on a thread that may block. Every commit wakes every subscription of every caller, so they take turns; one
    /// that has waited reads all transactions since its last turn at once.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Watcher) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let turn = self.places.turn().await;
        let watcher = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _held = turn;
            read(&watcher)
        });
        done.await.map_err(|_| ErrorData::internal_error("a subscription has failed", None))
    }
}

/// One subscription of 2026-07-28: runs until the client cancels it or the connection ends.
pub(crate) async fn listen(
    watcher: Watcher,
    toolsets: Toolsets,
    subscription: SubscriptionContext,
    started: TxId,
    ended: CancellationToken,
) -> Result<(), ErrorData> {
    let uris = subscription.accepted().resource_subscriptions.clone().unwrap_or_default();
    let watched: Vec<(String, Watched)> =
        uris.into_iter().filter_map(|uri| Watched::parse(&uri).map(|watched| (uri, watched))).collect();
    let mut tools = match subscription.accepted().tools_list_changed {
        Some(true) => Some(ToolList::at(watcher.clone(), toolsets, started).await?),
        _ => None,
    };
    let mut log = Log::from(watcher, started);
    loop {
        let transactions = tokio::select! {
            () = subscription.cancelled() => return Ok(()),
            () = ended.cancelled() => return Ok(()),
            next = log.next() => next?,
        };
        for seen in &transactions {
            for (uri, watched) in &watched {
                for notice in notices(uri, *watched, seen) {
                    let notice = ResourceUpdatedNotification::new(notice);
                    let sent =
                        subscription.sink().send(ServerNotification::ResourceUpdatedNotification(notice));
                    if sent.await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        if let Some(tools) = &mut tools
            && tools.has_changed(&transactions).await
            && subscription.sink().notify_tool_list_changed().await.is_err()
        {
            return Ok(());
        }
    }
}

/// The tools that are listed at a position in the log, which moves forward.
struct ToolList {
    watcher: Watcher,
    toolsets: Toolsets,
    families: Vec<Family>,
    /// Documents or triples were added or removed, and the new list could not be determined yet.
    is_behind: bool,
}

impl ToolList {
    async fn at(watcher: Watcher, toolsets: Toolsets, at: TxId) -> Result<ToolList, ErrorData> {
        let mut tools = ToolList { watcher, toolsets, families: Vec::new(), is_behind: false };
        tools.families = tools.listed(at).await?;
        Ok(tools)
    }

    /// Whether the listed tools after these transactions differ from those before them.
    async fn has_changed(&mut self, transactions: &[Seen]) -> bool {
        let is_content =
            |change: &Change| matches!(change.entity_type, EntityType::Document | EntityType::Triple);
        self.is_behind |= transactions.iter().any(|seen| seen.tx.changes.iter().any(is_content));
        let Some(last) = transactions.last().filter(|_| self.is_behind) else { return false };
        match self.listed(last.tx.id).await {
            Ok(families) => {
                self.is_behind = false;
                std::mem::replace(&mut self.families, families) != self.families
            }
            // A disk error may be temporary, so the list is determined again after the next transactions.
            Err(error) => {
                tracing::warn!("what tools to list can't be found out: {}", error.message);
                false
            }
        }
    }

    async fn listed(&self, at: TxId) -> Result<Vec<Family>, ErrorData> {
        let content = self.watcher.read(move |watcher| watcher.engine.content(&watcher.principal, Some(at)));
        Ok(listed_families(&self.toolsets, content.await?.map_err(resources::failed)?))
    }
}

/// One subscription of an older client.
pub(crate) struct Subscription {
    /// Whether the subscription was stopped. The lock is held while a notice is being sent, so `stop` waits
    /// for that notice and none follows.
    stopped: Arc<Mutex<bool>>,
    task: JoinHandle<()>,
}

impl Subscription {
    pub(crate) fn start(
        watcher: Watcher,
        peer: Peer<RoleServer>,
        uri: String,
        watched: Watched,
        since: TxId,
    ) -> Subscription {
        let stopped = Arc::new(Mutex::new(false));
        let is_stopped = stopped.clone();
        let task = tokio::spawn(async move {
            let mut log = Log::from(watcher, since);
            while let Ok(transactions) = log.next().await {
                for seen in &transactions {
                    for notice in notices(&uri, watched, seen) {
                        // An aborted task runs on until it next waits, so this flag is checked before each
                        // notice.
                        let stopped = is_stopped.lock().await;
                        if *stopped || peer.notify_resource_updated(notice).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Subscription { stopped, task }
    }

    /// False when the subscription ended because of an error; the client may then subscribe again.
    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Stops the subscription; after this returns, nothing more is sent.
    pub(crate) async fn stop(self) {
        *self.stopped.lock().await = true;
        self.task.abort();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A position in the log that moves forward.
struct Log {
    watcher: Watcher,
    /// The watcher's scope. Once it was found, it is followed through renames until another scope takes the
    /// name.
    found: Option<ScopeId>,
    at: TxId,
    grown: tokio::sync::watch::Receiver<TxId>,
}

impl Log {
    fn from(watcher: Watcher, at: TxId) -> Log {
        let grown = watcher.engine.watch();
        Log { watcher, found: None, at, grown }
    }

    /// The transactions after this place, as soon as there are any.
    async fn next(&mut self) -> Result<Vec<Seen>, ErrorData> {
        loop {
            let (at, found) = (self.at, self.found);
            // The number is marked as seen before the log is read, so a commit that arrives between the two steps still
            // wakes the next wait.
            self.grown.borrow_and_update();
            let read = move |watcher: &Watcher| {
                // A store restored from a backup may end earlier than the store that it replaced. Its next
                // transactions are then new, so the position moves back to its end.
                let at = at.min(watcher.engine.head()?);
                Ok::<_, Error>((at, read_on(watcher, at, found)?))
            };
            match self.watcher.read(read).await? {
                Ok((at, (transactions, found))) => {
                    self.at = transactions.last().map_or(at, |seen| seen.tx.id);
                    if !transactions.is_empty() {
                        self.found = found;
                        return Ok(transactions);
                    }
                }
                // A disk error may be temporary. The position stays, so nothing is skipped.
                Err(error) => tracing::warn!("the log can't be read for a subscription: {error}"),
            }
            // The log is read again after a while even without a wake-up, in case the last read failed.
            if let Ok(Err(_)) = tokio::time::timeout(LOOK_AGAIN, self.grown.changed()).await {
                return Err(ErrorData::internal_error("the engine is gone", None));
            }
        }
    }
}

/// A transaction, and the sight of the scope before and after it.
struct Seen {
    tx: Transaction,
    before: SeenScopes,
    after: SeenScopes,
}

fn read_on(
    Watcher { engine, principal, scope, .. }: &Watcher,
    at: TxId,
    mut found: Option<ScopeId>,
) -> Result<(Vec<Seen>, Option<ScopeId>), Error> {
    let scope = ScopeName::parse(scope);
    let transactions = engine.transactions_after(principal, at, READ_MAX)?;
    let mut seen = Vec::with_capacity(transactions.len());
    if transactions.is_empty() {
        return Ok((seen, found));
    }
    let mut look = |at: TxId| -> Result<SeenScopes, Error> {
        let snapshot = engine.snapshot_at(principal, Some(at))?;
        match scope.as_ref().map(|scope| snapshot.scope(scope)) {
            Some(Ok(scope)) => found = Some(scope),
            // A scope that does not exist yet has an empty sight.
            None | Some(Err(Error::UnknownScope { .. })) => {}
            Some(Err(error)) => return Err(error),
        }
        found.map_or(Ok(SeenScopes::default()), |scope| SeenScopes::of(scope, &snapshot))
    };
    let mut before = look(at)?;
    for tx in transactions {
        let is_of_tree = |change: &Change| !change.entity_type.has_scope();
        let after = if tx.changes.iter().any(is_of_tree) { look(tx.id)? } else { before.clone() };
        let next = after.clone();
        seen.push(Seen { tx, before, after });
        before = next;
    }
    Ok((seen, found))
}

/// The notices of one transaction for one resource: an upsert, a delete, both, or none.
fn notices(
    uri: &str,
    watched: Watched,
    Seen { tx, before, after }: &Seen,
) -> Vec<ResourceUpdatedNotificationParam> {
    let Changed { upserted, deleted, all } = watched.changed(tx, before, after);
    [("upsert", upserted, all), ("delete", deleted, false)]
        .into_iter()
        .filter(|(_, ids, all)| !ids.is_empty() || *all)
        .map(|(change_type, ids, all)| notice(uri, tx.id, change_type, ids, all))
        .collect()
}

fn notice(
    uri: &str,
    tx: TxId,
    change_type: &str,
    mut ids: Vec<String>,
    all: bool,
) -> ResourceUpdatedNotificationParam {
    let truncated = all || ids.len() > IDS_MAX;
    ids.truncate(IDS_MAX);
    let mut change: Value = json!({
        "resource_uri": uri,
        "tx_id": tx,
        "change_type": change_type,
        "changed_ids": ids,
    });
    if truncated {
        change["truncated"] = json!(true);
    }
    let mut meta = NotificationMetaObject::new();
    meta.0.0.insert("io.kenning/change".to_owned(), change);
    let mut param = ResourceUpdatedNotificationParam::new(uri);
    param.meta = Some(meta);
    param
}
