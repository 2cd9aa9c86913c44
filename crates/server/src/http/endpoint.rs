//! MCP over HTTP in both protocol eras for one caller: a request's body within the caller's limits, the
//! sessions of clients before 2026-07-28, and the answer in time.
//!
//! The endpoint takes any handler, so that the conformance suite can run a handler with the suite's own tools
//! on the code that serves Kenning.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, HeldBody};
use super::limits::{CurrentLimits, Meter, Wait};
use super::refusal::Refusal;
use super::seconds;
use super::sessions::Sessions;

/// The wait that is suggested when all sessions are taken; it is long because sessions rarely end.
const SESSION_WAIT_SECONDS: u64 = 60;

pub(super) struct Endpoint<H> {
    service: StreamableHttpService<H, Sessions>,
    sessions: Arc<Sessions>,
    meter: Arc<Meter>,
    limits: Arc<CurrentLimits>,
    /// The calls that are under way, which a server that stops waits for.
    calls: TaskTracker,
}

impl<H: ServerHandler> Endpoint<H> {
    /// `handler` makes a handler for each session, and for each request of a client without sessions. All
    /// streams end with `streams_end`.
    pub(super) fn new(
        handler: impl Fn() -> H + Send + Sync + 'static,
        meter: Arc<Meter>,
        limits: Arc<CurrentLimits>,
        calls: TaskTracker,
        streams_end: CancellationToken,
    ) -> Endpoint<H> {
        // Host and Origin were checked before, for every path.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(streams_end);
        let sessions = Arc::new(Sessions::new(limits.clone()));
        let service = StreamableHttpService::new(move || Ok(handler()), sessions.clone(), config);
        Endpoint { service, sessions, meter, limits, calls }
    }

    /// Answers a request; a stream to the caller ends when `expires_in` is over.
    pub(super) async fn answer(
        &self,
        request: Request,
        expires_in: Option<Duration>,
    ) -> Result<Response, Refusal> {
        let place = self.meter.request()?;
        let limits = self.limits.get();
        // A GET opens a lasting stream instead of making a call, so stopping the server does not wait for it.
        let call = (request.method() != Method::GET).then(|| self.calls.token());
        let request = body::received(request, &self.meter, &limits).await?;
        let is_json = request.body().kept.is_some();
        let answer = tokio::time::timeout(seconds(limits.answer_seconds), self.service.handle(request)).await;
        let response = answer.map_err(|_| Refusal::TooSlow)?;
        // rmcp answers a body that is not a JSON-RPC message with plain text; this answer is JSON.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
            return Err(Refusal::NoMessage);
        }
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR && self.sessions.are_all_taken().await {
            let why = "this credential has as many sessions as it may; end one with DELETE, or wait until an idle one ends";
            return Err(Refusal::TooMany(Wait { why, seconds: SESSION_WAIT_SECONDS }));
        }
        Ok(response.map(|body| HeldBody::boxed(Body::new(body), (place, call), expires_in)))
    }
}
