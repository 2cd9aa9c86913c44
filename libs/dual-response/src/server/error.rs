//! Why a call to the server failed, split by what the caller can do about it.

use crate::BoxError;

/// What every operation of the server may fail with. Messages are safe to show: the cause of a failed query or store
/// is kept as the source, for the log, and never in the text.
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
    /// Never there, deleted, or somebody else's: which of them is not told.
    #[error("Resource not found or expired")]
    NotFound,
    /// It was there, and cannot be read any more.
    #[error("Resource has expired; run the query again")]
    Expired,
    /// The caller may read the resource, and not do this to it.
    #[error("this is not allowed on this resource")]
    Forbidden,
    /// Nobody knows who is calling.
    #[error("credentials are missing or wrong")]
    Unauthenticated,
    /// The rows cannot be sorted like this.
    #[error("{what}")]
    InvalidSort {
        /// What was asked and what is possible.
        what: String,
    },
    /// There can be no such page.
    #[error("{what}")]
    InvalidPage {
        /// What was asked and what is possible.
        what: String,
    },
    /// The resource names an executor that this server does not have: a matter of deployment, so the resource stays.
    #[error("no executor `{name}` is registered on this server")]
    ExecutorMissing {
        /// The name it is stored under.
        name: String,
    },
    /// More than is taken or kept.
    #[error("{what}")]
    LimitExceeded {
        /// The limit.
        what: String,
    },
    /// A closure cannot outlive its process, so its resource cannot be promised to last.
    #[error(
        "a resource over a closure cannot be pinned in a durable store; use an executor or `materialize`"
    )]
    NotDurable,
    /// An option has a value that it cannot have.
    #[error("{what}")]
    InvalidOption {
        /// Which, and why.
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
    /// There is no such resource, or not for this caller.
    ResourceNotFound,
    /// The resource has expired.
    ResourceExpired,
    /// The caller may read the resource, and not do this to it.
    Forbidden,
    /// The caller is unknown.
    Unauthenticated,
    /// The rows cannot be sorted like this.
    InvalidSort,
    /// There can be no such page.
    InvalidPage,
    /// The resource's executor is not registered here.
    ExecutorMissing,
    /// More than is taken or kept.
    LimitExceeded,
    /// The resource cannot outlive its process.
    NotDurable,
    /// An option has a value that it cannot have.
    InvalidOption,
}

impl ErrorCode {
    /// The code as it goes over the wire.
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

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It does not answer, or not as it should.
    #[error("the store does not answer: {0}")]
    Unavailable(#[source] BoxError),
    /// What it holds is not what was saved.
    #[error("the store holds something unreadable: {0}")]
    Damaged(#[source] BoxError),
    /// It keeps no rows, so no snapshots.
    #[error("the store keeps no rows")]
    NoRows,
    /// It holds as many resources as it may.
    #[error("the store is full: it holds {limit} resources")]
    Full {
        /// How many it may hold.
        limit: usize,
    },
    /// The id is taken.
    #[error("there is already a resource `{id}`")]
    Taken {
        /// The id.
        id: String,
    },
}
