//! Rows over HTTP, for people and programs beside the model: on this machine only, and only for who knows the id of a set.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kenning_tools::ResultSets;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const PATH: &str = "/resources";

/// So many connections at once; a viewer needs one or two.
const CONNECTIONS_MAX: usize = 64;
/// So long may the head of a request take to arrive, also of the next one on an idle connection.
const HEADER_MAX: Duration = Duration::from_secs(10);
/// So long may a connection last. A million rows take a few seconds.
const CONNECTION_MAX: Duration = Duration::from_secs(120);
/// The pause after the system has refused a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A place where rows can be asked for.
pub struct RowsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl RowsListener {
    pub async fn bind(address: SocketAddr) -> io::Result<RowsListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(RowsListener { listener, address })
    }

    /// What the addresses of sets begin with.
    pub fn base_url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Until the process ends.
    pub(crate) async fn serve(self, sets: Arc<ResultSets>) {
        // Opens files, and may make them.
        let router = tokio::task::spawn_blocking(move || sets.router()).await;
        let Ok(Some(rows)) = router else { return };
        let guard = middleware::from_fn_with_state(self.address, only_from_here);
        let app = Router::new().nest(PATH, rows).layer(guard);
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // Further connections wait in the queue of the system.
            let Ok(place) = room.clone().acquire_owned().await else { return };
            let connection = match self.listener.accept().await {
                Ok((connection, _)) => connection,
                // There may be no file handles left, and there will be again.
                Err(error) => {
                    tracing::warn!("a connection for rows was not taken: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let app = app.clone();
            tokio::spawn(async move {
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_MAX)
                    .serve_connection(TokioIo::new(connection), TowerToHyperService::new(app));
                // A client that breaks off is its own affair; one that never ends is cut off.
                let _ = tokio::time::timeout(CONNECTION_MAX, served).await;
                drop(place);
            });
        }
    }
}

/// A page that somebody opens in a browser must not reach them, under whatever name it knows this machine.
async fn only_from_here(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    match is_from_here(address, request.headers()) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "rows are for programs on this machine").into_response(),
    }
}

fn is_from_here(address: SocketAddr, headers: &HeaderMap) -> bool {
    let names = [address.to_string(), format!("localhost:{}", address.port())];
    let told = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_host = told(header::HOST).is_some_and(|host| names.iter().any(|name| name == host));
    let is_origin = told(header::ORIGIN)
        .is_none_or(|origin| names.iter().any(|name| origin.strip_prefix("http://") == Some(name)));
    is_host && is_origin
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_this_machine_by_its_own_names_is_let_in() {
        let address: SocketAddr = "127.0.0.1:8787".parse().expect("an address");
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).expect("a header"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("a header"));
            }
            is_from_here(address, &headers)
        };
        assert!(check("127.0.0.1:8787", None) && check("localhost:8787", Some("http://localhost:8787")));
        for (host, origin) in [
            ("evil.example", None),
            ("evil.example:8787", None),
            ("127.0.0.1", None),
            ("127.0.0.1:8787", Some("http://evil.example")),
            ("127.0.0.1:8787", Some("null")),
            ("127.0.0.1:8787", Some("https://127.0.0.1:8787")),
        ] {
            assert!(!check(host, origin), "{host} {origin:?}");
        }
    }
}
