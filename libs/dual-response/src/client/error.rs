//! Why a call of the client failed, split by what the caller can do about it.

use std::time::Duration;

use crate::BoxError;

/// What every operation of the client may fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The tool result is not a dual response, or does not say where its rows are.
    #[error("{what}")]
    Parse {
        /// What is missing.
        what: String,
    },
    /// The request failed, or was answered with a failure.
    #[error("{message}")]
    Fetch {
        /// The status, if there was an answer.
        status: Option<u16>,
        /// What the server said, or what went wrong on the way.
        message: String,
        /// The cause, if there was no answer.
        #[source]
        source: Option<BoxError>,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long it was waited for.
        after: Duration,
    },
    /// The server knows no such resource, or not for us.
    #[error("{message}")]
    NotFound {
        /// What the server said.
        message: String,
    },
    /// The resource is no longer available.
    #[error("{message}")]
    Expired {
        /// What the server said.
        message: String,
    },
    /// The tool result points where the client must not go.
    #[error("refused to fetch from {url}: {why}")]
    UrlRefused {
        /// Where it points.
        url: String,
        /// Why not there.
        why: &'static str,
    },
    /// An option has a value that it cannot have.
    #[error("{what}")]
    InvalidOption {
        /// Which, and why.
        what: String,
    },
}

impl ClientError {
    /// The stable name of this failure.
    pub fn code(&self) -> ClientErrorCode {
        match self {
            Self::Parse { .. } => ClientErrorCode::ParseError,
            Self::Fetch { .. } => ClientErrorCode::FetchError,
            Self::Timeout { .. } => ClientErrorCode::Timeout,
            Self::NotFound { .. } => ClientErrorCode::ResourceNotFound,
            Self::Expired { .. } => ClientErrorCode::ResourceExpired,
            Self::UrlRefused { .. } => ClientErrorCode::UrlRefused,
            Self::InvalidOption { .. } => ClientErrorCode::InvalidOption,
        }
    }

    /// The HTTP status, if the server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Fetch { status, .. } => *status,
            Self::NotFound { .. } => Some(404),
            Self::Expired { .. } => Some(410),
            Self::Parse { .. }
            | Self::Timeout { .. }
            | Self::UrlRefused { .. }
            | Self::InvalidOption { .. } => None,
        }
    }

    pub(super) fn parse(what: impl Into<String>) -> Self {
        Self::Parse { what: what.into() }
    }

    pub(super) fn broken(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Fetch { status: None, message: message.into(), source: Some(source.into()) }
    }
}

/// The stable names of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientErrorCode {
    /// The tool result is not a valid dual response.
    ParseError,
    /// The HTTP request failed.
    FetchError,
    /// The request timed out.
    Timeout,
    /// 404 from the server.
    ResourceNotFound,
    /// The resource is no longer available.
    ResourceExpired,
    /// The tool result points where the client must not go.
    UrlRefused,
    /// An option has a value that it cannot have.
    InvalidOption,
}

impl ClientErrorCode {
    /// The code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParseError => "PARSE_ERROR",
            Self::FetchError => "FETCH_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Self::ResourceExpired => "RESOURCE_EXPIRED",
            Self::UrlRefused => "URL_REFUSED",
            Self::InvalidOption => "INVALID_OPTION",
        }
    }
}

impl std::fmt::Display for ClientErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
