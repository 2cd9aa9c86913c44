//! JSON-RPC batches, which exist only in revision 2025-03-26 of the protocol: an array of messages on one
//! line, answered by an array of responses on one line once all of its requests have their answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

/// The most messages that a batch may have: half of the requests that may be under way, so that a second
/// batch can be read while the answers of the first are still collected.
pub(crate) const MESSAGES_MAX: usize = crate::stdio::UNDER_WAY_MAX / 2;

/// A batch under way. `T` is the permit that each answer holds until it is written.
pub(crate) struct Batch<T>(Mutex<Answers<T>>);

struct Answers<T> {
    lines: Vec<Vec<u8>>,
    held: Vec<T>,
    /// The number of requests without an answer, plus one while the batch itself is still being read.
    open: usize,
}

/// All answers of a batch as one line, with the permits that they hold.
pub(crate) struct BatchAnswer<T> {
    pub(crate) line: Vec<u8>,
    pub(crate) _held: Vec<T>,
}

impl<T> Batch<T> {
    /// A new batch stays open until `close` is called once for the end of its reading, and once for each
    /// request that was begun.
    pub(crate) fn new() -> Batch<T> {
        Batch(Mutex::new(Answers { lines: Vec::new(), held: Vec::new(), open: 1 }))
    }

    pub(crate) fn begin(&self) {
        self.answers().open += 1;
    }

    /// Adds an answer to one of the messages of the batch.
    pub(crate) fn add(&self, line: Vec<u8>, held: Option<T>) {
        let mut answers = self.answers();
        answers.lines.push(line);
        answers.held.extend(held);
    }

    /// Says that a request has its answer or will get none, or that all messages were read. The last such
    /// call returns the line to be written, if there is any: a batch of notifications has no answer.
    pub(crate) fn close(&self) -> Option<BatchAnswer<T>> {
        let mut answers = self.answers();
        answers.open -= 1;
        if answers.open > 0 || answers.lines.is_empty() {
            return None;
        }
        let lines = std::mem::take(&mut answers.lines);
        let line = [b"[".as_slice(), &lines.join(b",".as_slice()), b"]"].concat();
        Some(BatchAnswer { line, _held: std::mem::take(&mut answers.held) })
    }

    fn answers(&self) -> MutexGuard<'_, Answers<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps the id of a request to the batch that it belongs to.
pub(crate) struct Batches<T>(Mutex<HashMap<RequestId, Arc<Batch<T>>>>);

impl<T> Default for Batches<T> {
    fn default() -> Self {
        Batches(Mutex::default())
    }
}

impl<T> Batches<T> {
    pub(crate) fn begin(&self, id: RequestId, batch: Arc<Batch<T>>) {
        batch.begin();
        self.requests().insert(id, batch);
    }

    /// Removes a request that is answered or cancelled, and returns its batch, which the caller must close.
    pub(crate) fn settle(&self, id: &RequestId) -> Option<Arc<Batch<T>>> {
        self.requests().remove(id)
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Batch<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_when_its_last_request_is() {
        let batch = Batch::<()>::new();
        batch.begin();
        batch.begin();
        batch.add(b"1".to_vec(), None);
        assert!(batch.close().is_none());
        assert!(batch.close().is_none(), "all is read, one request is open");
        batch.add(b"2".to_vec(), None);
        assert_eq!(batch.close().expect("all answers").line, b"[1,2]");
        assert!(Batch::<()>::new().close().is_none(), "nothing to answer");
    }
}
