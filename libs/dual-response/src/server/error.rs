//! The reasons why a call to the server fails, divided by what the caller can do about them.

use crate::BoxError;

/// The error of every operation of the server. Messages are safe to show: the cause of a failed query or
/// store is available as the source, for the log, and is never in the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `execute` failed.
    #[error("the query failed")]
    QueryExecutionFailed(#[source] BoxError),
    /// `count` failed.
    #[error("counting the rows failed")]
    CountExecutionFailed(#[source] BoxError),
    /// The store failed.
    #[error("the store failed")]
    Storage(#[from] StoreError),
    /// The resource never existed, was deleted, or belongs to somebody else; the reply does not tell which.
    #[error("Resource not found or expired")]
    NotFound,
    /// The resource existed, but can't be read any more.
    #[error("Resource has expired; run the query again")]
    Expired,
    /// The caller may read the resource but not do this to it.
    #[error("this is not allowed on this resource")]
    Forbidden,
    /// The caller is unknown.
    #[error("credentials are missing or wrong")]
    Unauthenticated,
    /// The rows can't be sorted in this way.
    #[error("{what}")]
    InvalidSort {
        /// The requested sort and the possible ones.
        what: String,
    },
    /// There can't be such a page.
    #[error("{what}")]
    InvalidPage {
        /// The requested page and the possible ones.
        what: String,
    },
    /// The resource names an executor that this server does not have. That is a problem of deployment, so the
    /// resource is kept.
    #[error("no executor `{name}` is registered on this server")]
    ExecutorMissing {
        /// The name of the executor.
        name: String,
    },
    /// Larger than the server accepts or keeps.
    #[error("{what}")]
    LimitExceeded {
        /// The limit.
        what: String,
    },
    /// A closure can't outlive its process, so its resource can't be pinned.
    #[error(
        "a resource over a closure cannot be pinned in a durable store; use an executor or `materialize`"
    )]
    NotDurable,
    /// An option has an invalid value.
    #[error("{what}")]
    InvalidOption {
        /// The option and the reason.
        what: String,
    },
}

impl Error {
    /// The stable name of this failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::QueryExecutionFailed(_) => ErrorCode::QueryExecutionFailed,
            Self::CountExecutionFailed(_) => ErrorCode::CountExecutionFailed,
            Self::Storage(_) => ErrorCode::StorageError,
            Self::NotFound => ErrorCode::ResourceNotFound,
            Self::Expired => ErrorCode::ResourceExpired,
            Self::Forbidden => ErrorCode::Forbidden,
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::InvalidSort { .. } => ErrorCode::InvalidSort,
            Self::InvalidPage { .. } => ErrorCode::InvalidPage,
            Self::ExecutorMissing { .. } => ErrorCode::ExecutorMissing,
            Self::LimitExceeded { .. } => ErrorCode::LimitExceeded,
            Self::NotDurable => ErrorCode::NotDurable,
            Self::InvalidOption { .. } => ErrorCode::InvalidOption,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::QueryExecutionFailed(_)
                | Self::CountExecutionFailed(_)
                | Self::Storage(_)
                | Self::ExecutorMissing { .. }
        )
    }
}

/// The stable names of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// `execute` failed.
    QueryExecutionFailed,
    /// `count` failed.
    CountExecutionFailed,
    /// The store failed.
    StorageError,
    /// There is no such resource, or the caller may not read it.
    ResourceNotFound,
    /// The resource has expired.
    ResourceExpired,
    /// The caller may read the resource but not do this to it.
    Forbidden,
    /// The caller is unknown.
    Unauthenticated,
    /// The rows can't be sorted in this way.
    InvalidSort,
    /// There can't be such a page.
    InvalidPage,
    /// The resource's executor is not registered on this server.
    ExecutorMissing,
    /// Larger than the server accepts or keeps.
    LimitExceeded,
    /// The resource can't outlive its process.
    NotDurable,
    /// An option has an invalid value.
    InvalidOption,
}

impl ErrorCode {
    /// The code as it is sent over the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueryExecutionFailed => "QUERY_EXECUTION_FAILED",
            Self::CountExecutionFailed => "COUNT_EXECUTION_FAILED",
            Self::StorageError => "STORAGE_ERROR",
            Self::ResourceNotFound => "RESOURCE_NOT_FOUND",
            Self::ResourceExpired => "RESOURCE_EXPIRED",
            Self::Forbidden => "FORBIDDEN",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::InvalidSort => "INVALID_SORT",
            Self::InvalidPage => "INVALID_PAGE",
            Self::ExecutorMissing => "EXECUTOR_MISSING",
            Self::LimitExceeded => "LIMIT_EXCEEDED",
            Self::NotDurable => "NOT_DURABLE",
            Self::InvalidOption => "INVALID_OPTION",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not answer, or gives a wrong answer.
    #[error("the store does not answer: {0}")]
    Unavailable(#[source] BoxError),
    /// The stored data is not the data that was saved.
    #[error("the store holds something unreadable: {0}")]
    Damaged(#[source] BoxError),
    /// The store keeps no rows, so it can't keep snapshots.
    #[error("the store keeps no rows")]
    NoRows,
    /// The store has as many resources as it may have.
    #[error("the store is full: it holds {limit} resources")]
    Full {
        /// The largest number of resources.
        limit: usize,
    },
    /// The id is in use already.
    #[error("there is already a resource `{id}`")]
    Taken {
        /// The id.
        id: String,
    },
}
