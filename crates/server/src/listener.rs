//! Accepts HTTP connections within bounds: how many there are at once, how long the head of a request may take, how long a
//! client may read nothing, how long a connection may last, and what each may take up of memory.

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

/// The pause after the system has refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long requests that are under way may go on after the server was asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The head of a request and what hyper reads ahead of it. Heads that are longer are refused with status 431.
const READ_BUFFER_MAX: usize = 32 * 1024;
/// What the system keeps for each direction of a connection, so that a client that does not read shows soon.
const SOCKET_BUFFER_BYTES: u32 = 256 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections_max: usize,
    /// How long the head of a request may take to arrive, also of the next request on an idle connection.
    pub(crate) header_max: Duration,
    /// For how long a client may read nothing of what is sent to it.
    pub(crate) stalled_max: Duration,
    /// How long a connection may last; none for connections that carry subscriptions.
    pub(crate) connection_max: Option<Duration>,
}

pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // Connections take the sizes over from the socket that accepts them.
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// What connections are served by.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) app: Router,
    /// The limits as they are when a connection begins.
    pub(crate) limits: Arc<dyn Fn() -> ConnectionLimits + Send + Sync>,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Serves until `stop`, then lets the requests that are under way end.
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
    // Nobody is to wait for a server that accepts nothing any more.
    drop(listener);
    connections.close();
    // Connections that do not end in time end with the process; nothing on them was acknowledged.
    let _ = tokio::time::timeout(STOP_GRACE, connections.wait()).await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, Peer, OwnedSemaphorePermit)> {
    // Further connections wait in the queue of the system.
    let place = room.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => return Some((connection, Peer(peer), place)),
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
    peer: Peer,
    place: OwnedSemaphorePermit,
    served: Served,
    stop: CancellationToken,
) {
    let limits = (served.limits)();
    // Small messages of an event stream would otherwise wait 40 ms for each other.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!("a connection can't be set to send at once: {error}");
    }
    match &served.tls {
        None => serve_stream(connection, peer, served.app, limits, stop).await,
        Some(tls) => {
            match tokio::time::timeout(limits.header_max, tls.acceptor().accept(connection)).await {
                Ok(Ok(stream)) => serve_stream(stream, peer, served.app, limits, stop).await,
                // A scanner, or a client that speaks plain HTTP.
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
        .serve_connection(TokioIo::new(Patient::new(stream, limits.stalled_max)), answer);
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
}

/// A stream whose client may be slow, but not for ever: it must take something of what is sent to it within a while.
struct Patient<S> {
    stream: S,
    stalled_max: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S, stalled_max: Duration) -> Patient<S> {
        Patient { stream, stalled_max, stalled: None }
    }

    /// Lets a write go on, or ends it when the client has taken nothing for too long.
    fn judged<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
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

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judged(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judged(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judged(closed, cx)
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
        self.judged(written, cx)
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
        let mut stuck = Patient::new(ours, stalled_max);
        let since = Instant::now();
        let error = stuck.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(since.elapsed() >= stalled_max);
        drop(theirs);
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut slow = Patient::new(ours, stalled_max);
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
