//! Tells open pages that something was written. Only the number of the newest transaction is sent. The page
//! then loads itself again, so it shows no more than its visitor may see.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use kenning_model::TxId;

use crate::Console;
use crate::fields::Fields;

/// The smallest time between two events for a page, however much is written.
const PACE: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time after which a page connects again when the connection was lost.
const AGAIN: Duration = Duration::from_secs(3);

pub(crate) async fn stream(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Response {
    let Ok(place) = console.viewers.clone().try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let told = fields.number("since").map_or(TxId::EMPTY, TxId);
    let head = console.engine.watch();
    // The place among the viewers is held until the stream ends.
    let events = stream::unfold((head, told, place), |(mut head, told, place)| async move {
        loop {
            let newest = *head.borrow_and_update();
            if newest > told {
                tokio::time::sleep(PACE).await;
                let newest = *head.borrow_and_update();
                let event = Event::default().event("head").data(newest.to_string());
                return Some((Ok::<_, Infallible>(event), (head, newest, place)));
            }
            // The channel closes when the engine ends.
            head.changed().await.ok()?;
        }
    });
    let hello = stream::iter([Ok(Event::default().retry(AGAIN).comment("listening"))]);
    let events = futures::StreamExt::chain(hello, events);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
