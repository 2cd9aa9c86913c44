use std::io;

/// Why an index can't be read or written. The index is a cache, so the engine answers damage by building it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the index is damaged: {what}")]
    Damaged { what: &'static str },
    #[error("the time for the question is over")]
    OutOfTime,
    #[error("the work on the index was stopped")]
    Stopped,
    #[cfg(feature = "minilm")]
    #[error(transparent)]
    MiniLm(#[from] crate::minilm::MiniLmError),
}

impl Error {
    /// Whether building the index again may help.
    pub fn is_about_files(&self) -> bool {
        matches!(self, Error::Io(_) | Error::Damaged { .. })
    }
}

pub(crate) fn damaged(what: &'static str) -> Error {
    Error::Damaged { what }
}
