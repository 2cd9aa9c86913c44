//! The reasons why a call of the client fails, divided by what the caller can do about them.

use std::time::Duration;

use crate::BoxError;

/// The error of every operation of the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The tool result is not a dual response, or does not say where its rows are.
    #[error("{what}")]
    Parse {
        /// The missing part.
        what: String,
    },
    /// The request failed, or the server answered with a failure.
    #[error("{message}")]
    Fetch {
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
        /// The server's message, or a description of what went wrong on the way.
        message: String,
        /// The cause, if there was no answer.
        #[source]
        source: Option<BoxError>,
    },
    /// There was no answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The time that the client waited.
        after: Duration,
    },
    /// The server does not know the resource, or the caller may not read it.
    #[error("{message}")]
    NotFound {
        /// The server's message.
        message: String,
    },
    /// The resource is no longer available.
    #[error("{message}")]
    Expired {
        /// The server's message.
        message: String,
    },
    /// The tool result points to an address that the client must not use.
    #[error("refused to fetch from {url}: {why}")]
    UrlRefused {
        /// The address.
        url: String,
        /// The reason for the refusal.
        why: &'static str,
    },
    /// An option has an invalid value.
    #[error("{what}")]
    InvalidOption {
        /// The option and the reason.
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
    /// The server answered 404.
    ResourceNotFound,
    /// The resource is no longer available.
    ResourceExpired,
    /// The tool result points to an address that the client must not use.
    UrlRefused,
    /// An option has an invalid value.
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
