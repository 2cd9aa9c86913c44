//! The index: segments on the disk, oldest first, followed by the tail in memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::memory::{Memory, Version};
use crate::part::Place;
use crate::segment::{OpenSegment, Segment};

#[derive(Default)]
pub struct Index {
    pub(crate) segments: Vec<OpenSegment>,
    pub(crate) tail: Memory,
    pub(crate) embedder: Arc<Embedder>,
}

impl Index {
    /// An index without documents.
    pub fn empty(embedder: Arc<Embedder>) -> Index {
        Index { embedder, ..Index::default() }
    }

    /// An index of these segments, oldest first, with an empty tail.
    pub(crate) fn new(
        segments: Vec<Arc<Segment>>,
        next_place: Place,
        embedder: Arc<Embedder>,
    ) -> Result<Index, Error> {
        let mut index = Index { tail: Memory::after(next_place), embedder, ..Index::default() };
        for segment in segments {
            let closings = segment.closings()?;
            closings.into_iter().try_for_each(|(key, to)| index.end(key, to))?;
            index.segments.push(OpenSegment::new(segment));
        }
        Ok(index)
    }

    /// Applies one change of the text `key` at transaction `at`; changes must come in the order of the log.
    /// `ends` says that a version was live before; `after` is the version that is live from now on, or `None`
    /// after a deletion.
    pub fn change(&mut self, at: u64, key: u64, ends: bool, after: Option<Version>) -> Result<(), Error> {
        if self.tail.change(at, key, ends, after) {
            self.end(key, at)?;
        }
        Ok(())
    }

    fn end(&mut self, key: u64, to: u64) -> Result<(), Error> {
        for segment in self.segments.iter_mut().rev() {
            if segment.end(key, to)? {
                return Ok(());
            }
        }
        Err(damaged("a text that ended is not there"))
    }

    /// The tail: the versions that are in no segment yet.
    pub fn tail(&self) -> &Memory {
        &self.tail
    }

    pub fn known(&self) -> Known {
        Known(self.segments.iter().map(|open| open.segment.clone()).collect())
    }

    /// The number of versions.
    pub fn versions(&self) -> u64 {
        let written = self.segments.iter().map(|open| u64::from(open.segment.totals.docs)).sum::<u64>();
        written + self.tail.rows.len() as u64
    }

    /// The number of live versions.
    pub fn live(&self) -> u64 {
        (self.segments.iter().map(OpenSegment::live).sum::<usize>() + self.tail.live()) as u64
    }
}

/// The segments that an index has open. The next index takes over those that it also needs, instead of opening them again.
#[derive(Clone, Default)]
pub struct Known(pub(crate) Vec<Arc<Segment>>);

impl Known {
    /// Reads the codes of the live documents' vectors into memory, because every question by meaning reads them.
    /// Until then each question reads them from the disk, as questions about earlier transactions always do with
    /// documents that had ended.
    pub fn load_vectors(&self, stop: &AtomicBool) -> Result<(), Error> {
        self.0.iter().try_for_each(|segment| segment.load_vectors(stop))
    }

    /// Whether every segment has its vectors.
    pub fn has_vectors(&self) -> bool {
        self.0.iter().all(|segment| segment.vectors.get().is_some())
    }

    /// The keys of texts in these groups that have any of these marks, each with the number of marks that it shares. A
    /// text may have ended since its segment was written.
    pub fn marked(&self, marks: &[u32], groups: &[u32]) -> Result<FxHashMap<u64, usize>, Error> {
        let mut found = FxHashMap::default();
        for segment in &self.0 {
            for mark in marks {
                segment.marked(*mark, groups, &mut |key| *found.entry(key).or_default() += 1)?;
            }
        }
        Ok(found)
    }

    /// Whether the codes of all live documents' vectors are in memory.
    pub fn is_loaded(&self) -> bool {
        self.0.iter().filter_map(|segment| segment.vectors.get()).all(|vectors| vectors.is_loaded())
    }
}
