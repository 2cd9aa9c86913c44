//! Bodies of requests and answers: a request body is bounded in bytes and in time, and an answer keeps the
//! place of its request until it was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::limits::{Held, Limits, Meter};
use super::refusal::Refusal;
use super::seconds;

/// A body that has arrived, with the share of the caller's byte limit that it takes up.
pub(super) struct Received {
    pub(super) kept: Option<Bytes>,
    _room: Vec<Held>,
}

/// Waits for the whole body of a request. A sender that is too slow or sends too much is refused.
pub(super) async fn received(
    request: Request,
    meter: &Arc<Meter>,
    limits: &Limits,
) -> Result<axum::http::Request<Received>, Refusal> {
    let (parts, body) = request.into_parts();
    if body.size_hint().lower() > limits.body_bytes.get() as u64 {
        return Err(Refusal::TooLong);
    }
    let whole = tokio::time::timeout(seconds(limits.body_seconds), collected(body, meter, limits)).await;
    let body = whole.map_err(|_| Refusal::TooSlow)??;
    Ok(axum::http::Request::from_parts(parts, body))
}

async fn collected(mut body: Body, meter: &Arc<Meter>, limits: &Limits) -> Result<Received, Refusal> {
    let (mut whole, mut room) = (Vec::new(), Vec::new());
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { break };
        // A read error is reported as `TooSlow`: a client that closes the connection gets no answer anyway.
        let Ok(data) = frame.map_err(|_| Refusal::TooSlow)?.into_data() else { continue };
        if whole.len() + data.len() > limits.body_bytes.get() {
            return Err(Refusal::TooLong);
        }
        let held = meter.body(data.len()).ok_or(super::limits::Wait {
            why: "this credential has too many bytes of requests under way",
            seconds: 1,
        })?;
        room.push(held);
        whole.extend_from_slice(&data);
    }
    let kept = (!whole.is_empty()).then(|| Bytes::from(whole));
    Ok(Received { kept, _room: room })
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        Poll::Ready(self.kept.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.kept.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.kept.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A response body that keeps its request's place until it was sent, and ends when the caller's credential
/// expires.
pub(super) struct HeldBody {
    body: Body,
    _place: (Held, Option<TaskTrackerToken>),
    expires: Option<Pin<Box<Sleep>>>,
}

impl HeldBody {
    pub(super) fn boxed(
        body: Body,
        place: (Held, Option<TaskTrackerToken>),
        expires_in: Option<Duration>,
    ) -> Body {
        // An answer that is already complete is sent whole, even if the credential expires meanwhile.
        let expires_in = expires_in.filter(|_| body.size_hint().exact().is_none());
        let expires = expires_in.map(|expires_in| Box::pin(tokio::time::sleep(expires_in)));
        Body::new(HeldBody { body, _place: place, expires })
    }
}

impl http_body::Body for HeldBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Some(expires) = &mut self.expires
            && expires.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
