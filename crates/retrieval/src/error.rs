use std::io;

/// Why an index can't be read. It is a cache: whoever owns it throws it away and builds it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the index is damaged: {what}")]
    Damaged { what: &'static str },
    #[error("the time for the question is over")]
    OutOfTime,
    #[error("it was told to stop")]
    Stopped,
    #[cfg(feature = "minilm")]
    #[error(transparent)]
    MiniLm(#[from] crate::minilm::MiniLmError),
}

impl Error {
    /// Whether it helps to make the index again.
    pub fn is_about_files(&self) -> bool {
        matches!(self, Error::Io(_) | Error::Damaged { .. })
    }
}

pub(crate) fn damaged(what: &'static str) -> Error {
    Error::Damaged { what }
}
