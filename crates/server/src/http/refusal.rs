//! Reasons why a request is not served, and the answer for each of them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kenning_presentation::Format;
use kenning_tools::{Code, Family, Stop};
use serde_json::json;

use super::limits::Wait;

/// The address of the document that says where tokens come from, and the OAuth scopes that give a right.
type Metadata = Option<(String, String)>;

pub(super) enum Refusal {
    NoCredential {
        metadata: Metadata,
    },
    /// The credential is unknown, revoked, expired or malformed. Callers can't tell these cases apart.
    BadCredential {
        metadata: Metadata,
    },
    /// The token is valid but gives no right here.
    NoRights {
        metadata: String,
        scopes: String,
    },
    /// The caller can't be determined right now.
    Unavailable,
    TooMany(Wait),
    /// The address has shown too many wrong credentials.
    TooManyFailures,
    TooLong,
    /// The request did not arrive, or was not answered, in time.
    TooSlow,
    /// The body is not a JSON-RPC message.
    NoMessage,
    Failed,
}

/// How long an address has to wait after too many wrong credentials.
const FAILURES_WAIT_SECONDS: u64 = 60;
const PARSE_ERROR: i64 = -32700;

impl From<Wait> for Refusal {
    fn from(wait: Wait) -> Refusal {
        Refusal::TooMany(wait)
    }
}

impl Refusal {
    /// The word that the audit log records for this refusal.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Refusal::NoCredential { .. } | Refusal::BadCredential { .. } => Code::Unauthenticated.as_str(),
            Refusal::NoRights { .. } => Code::PermissionDenied.as_str(),
            Refusal::TooMany(_) | Refusal::TooManyFailures => Code::RateLimited.as_str(),
            Refusal::Unavailable => Code::BackendUnavailable.as_str(),
            Refusal::TooSlow => Code::Timeout.as_str(),
            Refusal::TooLong | Refusal::NoMessage => Code::InvalidArgument.as_str(),
            Refusal::Failed => Code::InternalError.as_str(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::NoCredential { metadata } => unauthenticated(metadata, None),
            Refusal::BadCredential { metadata } => unauthenticated(metadata, Some("invalid_token")),
            Refusal::NoRights { metadata, scopes } => {
                let challenge = challenge(Some((metadata, scopes)), Some("insufficient_scope"));
                let text =
                    "this token is good, and opens nothing here; ask whoever runs the server for rights";
                (StatusCode::FORBIDDEN, challenge, error_body(Code::PermissionDenied, text)).into_response()
            }
            Refusal::Unavailable => {
                let text = "who calls can't be found out right now; try again";
                (StatusCode::SERVICE_UNAVAILABLE, later(1), error_body(Code::BackendUnavailable, text))
                    .into_response()
            }
            Refusal::TooMany(Wait { why, seconds }) => {
                let text = format!("{why}; wait a moment");
                (StatusCode::TOO_MANY_REQUESTS, later(seconds), error_body(Code::RateLimited, &text))
                    .into_response()
            }
            Refusal::TooManyFailures => {
                let text = "this address has shown too many wrong credentials";
                let body = error_body(Code::RateLimited, text);
                (StatusCode::TOO_MANY_REQUESTS, later(FAILURES_WAIT_SECONDS), body).into_response()
            }
            Refusal::TooLong => {
                let text = "the request is longer than this server takes";
                (StatusCode::PAYLOAD_TOO_LARGE, error_body(Code::InvalidArgument, text)).into_response()
            }
            Refusal::TooSlow => {
                let text = "the request did not arrive, or was not answered, in time";
                (StatusCode::REQUEST_TIMEOUT, error_body(Code::Timeout, text)).into_response()
            }
            Refusal::NoMessage => {
                let error = json!({"code": PARSE_ERROR, "message": "the body is no JSON-RPC message"});
                let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
                (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

fn unauthenticated(metadata: Metadata, error: Option<&str>) -> Response {
    let text = "a key or a token is needed: Authorization: Bearer KEY";
    (StatusCode::UNAUTHORIZED, challenge(metadata, error), text).into_response()
}

fn challenge(metadata: Metadata, error: Option<&str>) -> [(header::HeaderName, HeaderValue); 1] {
    let mut parts: Vec<String> = error.map(|error| format!("error=\"{error}\"")).into_iter().collect();
    if let Some((url, scopes)) = metadata {
        parts.push(format!("resource_metadata=\"{url}\""));
        if !scopes.is_empty() {
            parts.push(format!("scope=\"{scopes}\""));
        }
    }
    let text = format!("Bearer {}", parts.join(", "));
    let value = HeaderValue::from_str(text.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"));
    [(header::WWW_AUTHENTICATE, value)]
}

fn later(seconds: u64) -> [(header::HeaderName, HeaderValue); 1] {
    [(header::RETRY_AFTER, HeaderValue::from(seconds))]
}

/// The error in the form in which a tool would reply it.
fn error_body(code: Code, text: &str) -> String {
    Stop::new(code, text).reply_of(Family::Memory, Format::default()).structured.to_string()
}
