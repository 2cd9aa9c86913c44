//! Result sets over HTTP, for people and programs beside the model: only on this machine, and only for a
//! caller that knows the id of a set.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use kenning_tools::ResultSets;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::listener::{self, ConnectionLimits, Served};

pub(crate) const PATH: &str = "/resources";

const LIMITS: ConnectionLimits = ConnectionLimits {
    // A viewer needs one or two connections.
    connections_max: 64,
    header_max: Duration::from_secs(10),
    stalled_max: Duration::from_secs(30),
    // Sending a million rows takes a few seconds.
    connection_max: Some(Duration::from_secs(120)),
};

/// A bound port from which rows can be read.
pub struct RowsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl RowsListener {
    pub async fn bind(address: SocketAddr) -> io::Result<RowsListener> {
        let (listener, address) = listener::bind(address).await?;
        Ok(RowsListener { listener, address })
    }

    /// The beginning of the addresses of result sets.
    pub fn base_url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self, sets: Arc<ResultSets>) {
        // Making the router opens files and may create them, so it runs on a thread that may block.
        let router = tokio::task::spawn_blocking(move || sets.router()).await;
        let Ok(Some(rows)) = router else { return };
        let guard = middleware::from_fn_with_state(self.address, only_from_here);
        let app = Router::new().nest(PATH, rows).layer(guard);
        let served = Served { app, limits: Arc::new(|| LIMITS), tls: None };
        listener::serve(self.listener, served, CancellationToken::new()).await;
    }
}

/// Refuses requests of web pages, whatever host name they use for this machine: Host and Origin must be this
/// server's own.
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
