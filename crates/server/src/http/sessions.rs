//! The sessions of clients before 2026-07-28, which send `initialize` first. The calls of each session take
//! effect in the order in which their requests arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::Stream;
use kenning_engine::Order;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::SESSION_IDLE_MAX;
use super::limits::CurrentLimits;
use crate::mcp::call_kind;
use crate::stdio::Admission;

pub(super) struct Sessions {
    inner: LocalSessionManager,
    orders: Mutex<HashMap<SessionId, Arc<Order>>>,
    limits: Arc<CurrentLimits>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("this credential has {0} sessions already; end one with DELETE, or wait until an idle one ends")]
    TooMany(usize),
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(super) fn new(limits: Arc<CurrentLimits>) -> Sessions {
        let mut inner = LocalSessionManager::default();
        // The default of five minutes also ends a session whose client only listens.
        inner.session_config.keep_alive = Some(SESSION_IDLE_MAX);
        Sessions { inner, orders: Mutex::default(), limits }
    }

    /// Whether the caller has as many sessions as its limits allow.
    pub(super) async fn are_all_taken(&self) -> bool {
        self.inner.sessions.read().await.len() >= self.limits.get().sessions.get()
    }

    /// Gives a request its place among the requests of its session at the moment when it arrives.
    fn ordered(&self, id: &SessionId, mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
        if let ClientJsonRpcMessage::Request(request) = &mut message
            && let Some(kind) = call_kind(&request.request)
        {
            let order = self.orders().entry(id.clone()).or_default().clone();
            let admission = Admission::of_ticket(Arc::new(order.arrived(kind)));
            request.request.extensions_mut().insert(Arc::new(admission));
        }
        message
    }

    fn orders(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Order>>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        let live: Vec<SessionId> = self.inner.sessions.read().await.keys().cloned().collect();
        // A session that ended by itself has left its order behind, which is removed here.
        self.orders().retain(|id, _| live.contains(id));
        let sessions_max = self.limits.get().sessions.get();
        if live.len() >= sessions_max {
            return Err(SessionsError::TooMany(sessions_max));
        }
        Ok(self.inner.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.orders().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.inner.create_stream(id, self.ordered(id, message)).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}
