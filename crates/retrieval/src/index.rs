//! The index: segments on the disk, oldest first, and behind them the tail in memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::memory::{Memory, Version};
use crate::part::Place;
use crate::segment::{Open, Segment};

#[derive(Default)]
pub struct Index {
    pub(crate) segments: Vec<Open>,
    pub(crate) tail: Memory,
    pub(crate) embedder: Arc<Embedder>,
}

impl Index {
    /// An index with nothing in it.
    pub fn empty(embedder: Arc<Embedder>) -> Index {
        Index { embedder, ..Index::default() }
    }

    /// An index of these segments, oldest first, with nothing behind them.
    pub(crate) fn new(
        segments: Vec<Arc<Segment>>,
        next_place: Place,
        embedder: Arc<Embedder>,
    ) -> Result<Index, Error> {
        let mut index = Index { tail: Memory::after(next_place), embedder, ..Index::default() };
        for segment in segments {
            let closings = segment.closings()?;
            closings.into_iter().try_for_each(|(key, to)| index.end(key, to))?;
            index.segments.push(Open::new(segment));
        }
        Ok(index)
    }

    /// A version begins or ends, or one follows another, at `at`: what happens later is told later. `ends` says that there
    /// was a version before.
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

    /// What is held in memory only.
    pub fn tail(&self) -> &Memory {
        &self.tail
    }

    pub fn known(&self) -> Known {
        Known(self.segments.iter().map(|open| open.segment.clone()).collect())
    }

    /// How many versions there are.
    pub fn versions(&self) -> u64 {
        let written = self.segments.iter().map(|open| u64::from(open.segment.totals.docs)).sum::<u64>();
        written + self.tail.rows.len() as u64
    }

    /// How many of them are live.
    pub fn live(&self) -> u64 {
        (self.segments.iter().map(Open::live).sum::<usize>() + self.tail.live()) as u64
    }
}

/// The segments that an index has open, so that the next one need not open them again.
#[derive(Clone, Default)]
pub struct Known(pub(crate) Vec<Arc<Segment>>);

impl Known {
    /// Reads into memory what every question by meaning looks at; until then it is read from the disk.
    pub fn load_vectors(&self, stop: &AtomicBool) -> Result<(), Error> {
        let vectors = self.0.iter().filter_map(|segment| segment.vectors.get());
        vectors.into_iter().try_for_each(|vectors| vectors.load(stop))
    }

    /// Whether the vectors of all are there.
    pub fn has_vectors(&self) -> bool {
        self.0.iter().all(|segment| segment.vectors.get().is_some())
    }

    /// The keys of texts in these groups with any of these marks, each with how many. They may have ended since.
    pub fn marked(&self, marks: &[u32], groups: &[u32]) -> Result<FxHashMap<u64, usize>, Error> {
        let mut found = FxHashMap::default();
        for segment in &self.0 {
            for mark in marks {
                segment.marked(*mark, groups, &mut |key| *found.entry(key).or_default() += 1)?;
            }
        }
        Ok(found)
    }

    pub fn is_loaded(&self) -> bool {
        self.0.iter().filter_map(|segment| segment.vectors.get()).all(|vectors| vectors.is_loaded())
    }
}
