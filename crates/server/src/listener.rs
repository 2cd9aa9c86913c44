//! Accepts HTTP connections within bounds: how many are open at once, how long the head of a request may
//! take, how long a client may read nothing, how long a connection may last, and how much memory each
//! connection uses.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::edge::Peer;
use crate::http::tls::Tls;

/// The pause after the system failed to accept a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long requests under way may continue after the server was asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The buffer for the head of a request and for the bytes that hyper reads ahead. A longer head is refused
/// with status 431.
const READ_BUFFER_MAX: usize = 32 * 1024;
/// The system's buffer for each direction of a connection. It is small, so that the server soon notices a
/// client that does not read.
const SOCKET_BUFFER_BYTES: u32 = 256 * 1024;
/// The most connections that wait to be accepted.
const BACKLOG: u32 = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections_max: usize,
    /// How long the head of a request may take to arrive; on an idle connection also how long until the next
    /// request has arrived.
    pub(crate) header_max: Duration,
    /// How long a client may read nothing of the data that is sent to it.
    pub(crate) stalled_max: Duration,
    /// How long a connection may last; `None` for connections that carry subscriptions.
    pub(crate) connection_max: Option<Duration>,
}

pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // An accepted connection inherits these sizes from the listening socket.
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// The application, limits and TLS settings of the connections of a listener.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) app: Router,
    /// Returns the current limits; they are asked for when a connection begins.
    pub(crate) limits: Arc<dyn Fn() -> ConnectionLimits + Send + Sync>,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Serves until `stop` is cancelled, then lets the requests under way finish.
pub(crate) async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new((served.limits)().connections_max));
    let connections = TaskTracker::new();
    loop {
        let (connection, peer, place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => match accepted {
                Some(accepted) => accepted,
                None => break,
            },
        };
        connections.spawn(serve_connection(connection, peer, place, served.clone(), stop.clone()));
    }
    // Closing the socket refuses new clients at once, instead of letting them wait for a server that is
    // stopping.
    drop(listener);
    connections.close();
    // A connection that does not end in time ends with the process; no result was acknowledged on it.
    let _ = tokio::time::timeout(STOP_GRACE, connections.wait()).await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, Peer, OwnedSemaphorePermit)> {
    // When all places are taken, further connections wait in the queue of the system.
    let place = room.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => return Some((connection, Peer(peer), place)),
            // The process may have run out of file handles, which become free again later.
            Err(error) => {
                tracing::warn!("a connection was not taken: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve_connection(
    connection: TcpStream,
    peer: Peer,
    place: OwnedSemaphorePermit,
    served: Served,
    stop: CancellationToken,
) {
    let limits = (served.limits)();
    // Without this option small messages of an event stream would wait up to 40 ms to be sent together.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!("a connection can't be set to send at once: {error}");
    }
    match &served.tls {
        None => serve_stream(connection, peer, served.app, limits, stop).await,
        Some(tls) => {
            match tokio::time::timeout(limits.header_max, tls.acceptor().accept(connection)).await {
                Ok(Ok(stream)) => serve_stream(stream, peer, served.app, limits, stop).await,
                // The client is a scanner, or speaks plain HTTP.
                Ok(Err(error)) => tracing::debug!("a connection has no TLS: {error}"),
                Err(_) => {}
            }
        }
    }
    drop(place);
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    app: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        app.clone().oneshot(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_max)
        .max_buf_size(READ_BUFFER_MAX)
        .serve_connection(TokioIo::new(StallLimitedStream::new(stream, limits.stalled_max)), answer);
    let mut served = std::pin::pin!(served);
    let too_long = async {
        match limits.connection_max {
            Some(connection_max) => tokio::time::sleep(connection_max).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // An error only means that the client has closed the connection.
        _ = served.as_mut() => {}
        () = too_long => {}
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            let _ = served.await;
        }
    }
}

/// A stream that ends with an error when its client has accepted none of the sent data for too long.
struct StallLimitedStream<S> {
    stream: S,
    stalled_max: Duration,
    /// The timer that runs while the client accepts no data.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallLimitedStream<S> {
    fn new(stream: S, stalled_max: Duration) -> StallLimitedStream<S> {
        StallLimitedStream { stream, stalled_max, stalled: None }
    }

    /// Passes on the result of a write, or fails it when the client has accepted no data for too long.
    fn with_stall_limit<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let until = Instant::now() + self.stalled_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallLimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallLimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.with_stall_limit(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.with_stall_limit(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.with_stall_limit(closed, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.with_stall_limit(written, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_dropped_and_a_slow_one_is_not() {
        let stalled_max = Duration::from_millis(200);
        let (ours, theirs) = tokio::io::duplex(16);
        let mut stuck = StallLimitedStream::new(ours, stalled_max);
        let since = Instant::now();
        let error = stuck.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(since.elapsed() >= stalled_max);
        drop(theirs);
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut slow = StallLimitedStream::new(ours, stalled_max);
        let reading = tokio::spawn(async move {
            let mut read = 0;
            while read < 160 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                read += theirs.read(&mut [0; 16]).await.expect("readable");
            }
            theirs
        });
        slow.write_all(&[0; 160]).await.expect("it is read in the end");
        reading.await.expect("no panic");
    }
}
