//! The first check of a request, on its headers alone, before any of its body is read.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Headers that decide who calls, or which call is made. If one came twice, a proxy and the server might each
/// use a different value.
const ONCE: [HeaderName; 11] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("last-event-id"),
];

/// The names under which the server may be addressed, and the pages that may address it.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowedNames {
    /// `host` or `host:port`.
    pub(super) hosts: Vec<String>,
    /// `scheme://host` or `scheme://host:port`.
    pub(super) origins: Vec<String>,
}

impl AllowedNames {
    /// The reason why a request is refused. A page in a browser can reach this machine under any host name
    /// (DNS rebinding), so the name must be one of the server's own, and the page's origin, if there is one,
    /// must be allowed.
    fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        if ONCE.iter().any(|name| headers.get_all(name).iter().count() > 1) {
            return Some((StatusCode::BAD_REQUEST, "a header stands twice that may stand once"));
        }
        let is_one = |name, allowed: &[String]| {
            headers.get(name).map(|value: &axum::http::HeaderValue| {
                let value = value.to_str().unwrap_or_default();
                allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(value))
            })
        };
        if is_one(header::HOST, &self.hosts) != Some(true) {
            return Some((
                StatusCode::FORBIDDEN,
                "this server is not known by that Host; see --allowed-hosts",
            ));
        }
        if is_one(header::ORIGIN, &self.origins) == Some(false) {
            return Some((
                StatusCode::FORBIDDEN,
                "pages of that Origin are not allowed; see --allowed-origins",
            ));
        }
        None
    }
}

pub(super) async fn check(State(names): State<Arc<AllowedNames>>, request: Request, next: Next) -> Response {
    match names.refusal(request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_pages_and_doubled_headers_are_checked() {
        let names = AllowedNames {
            hosts: vec!["127.0.0.1:8787".into(), "kenning.example".into()],
            origins: vec!["https://kenning.example".into()],
        };
        let check = |pairs: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name, value.parse().expect("a header"));
            }
            names.refusal(&headers).map(|(status, _)| status.as_u16())
        };
        let host = (header::HOST, "127.0.0.1:8787");
        assert_eq!(check(std::slice::from_ref(&host)), None);
        assert_eq!(check(&[(header::HOST, "KENNING.example")]), None);
        assert_eq!(check(&[host.clone(), (header::ORIGIN, "https://kenning.example")]), None);
        assert_eq!(check(&[]), Some(403));
        assert_eq!(check(&[(header::HOST, "evil.example")]), Some(403));
        assert_eq!(check(&[(header::HOST, "127.0.0.1")]), Some(403));
        assert_eq!(check(&[host.clone(), (header::ORIGIN, "https://evil.example")]), Some(403));
        assert_eq!(check(&[host.clone(), (header::ORIGIN, "null")]), Some(403));
        assert_eq!(check(&[host.clone(), (header::HOST, "evil.example")]), Some(400));
        let bearer = (header::AUTHORIZATION, "Bearer x");
        assert_eq!(check(&[host.clone(), bearer.clone(), bearer]), Some(400));
        let name = (HeaderName::from_static("mcp-name"), "query");
        assert_eq!(check(&[host, name.clone(), name]), Some(400));
    }
}
