//! Accepts HTTP connections within bounds: how many there are at once, how long the head of a request may take, and how
//! long a connection may last.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The pause after the system has refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long requests that are under way may go on after the server was asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections_max: usize,
    /// How long the head of a request may take to arrive, also of the next request on an idle connection.
    pub(crate) header_max: Duration,
    /// How long a connection may last; none for connections that carry subscriptions.
    pub(crate) connection_max: Option<Duration>,
}

pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves until `stop`, then lets the requests that are under way end.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let connections = TaskTracker::new();
    loop {
        let (connection, place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => match accepted {
                Some(accepted) => accepted,
                None => break,
            },
        };
        connections.spawn(serve_connection(connection, place, app.clone(), limits, stop.clone()));
    }
    connections.close();
    // Connections that do not end in time end with the process; nothing on them was acknowledged.
    let _ = tokio::time::timeout(STOP_GRACE, connections.wait()).await;
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // Further connections wait in the queue of the system.
    let place = room.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((connection, _)) => return Some((connection, place)),
            // There may be no file handles left, and there will be again.
            Err(error) => {
                tracing::warn!("a connection was not taken: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve_connection(
    connection: TcpStream,
    place: OwnedSemaphorePermit,
    app: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    // Small messages of an event stream would otherwise wait 40 ms for each other.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!("a connection can't be set to send at once: {error}");
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_max)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(app));
    let mut served = std::pin::pin!(served);
    let too_long = async {
        match limits.connection_max {
            Some(connection_max) => tokio::time::sleep(connection_max).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // A client that breaks off is its own affair.
        _ = served.as_mut() => {}
        () = too_long => {}
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            let _ = served.await;
        }
    }
    drop(place);
}
