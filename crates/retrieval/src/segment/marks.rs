//! Finding documents by their marks: numbers that near-duplicates share (`engine::duplicates`). Nearly every
//! lookup finds nothing. A bitmap in memory, which is a Bloom filter with one hash function, answers most of
//! these lookups without a read; any other lookup costs one read.
//!
//! Example: the marks 0x10, 0x10, 0x9f of the documents 4, 8, 2 are stored as the sorted pairs (0x10, 4), (0x10, 8),
//! (0x9f, 2). To find 0x10, the bitmap says "perhaps", `starts` names the pairs whose marks begin with the same bits,
//! those are read, and the documents 8 and 4 are found.

use std::ops::Range;

use crate::error::Error;
use crate::part::Doc;

use super::Segment;
use super::format::{self, Section};

/// The approximate number of marks between two entries of `starts`, which is about what one lookup reads.
const STRIDE: usize = 32;
/// The bits of the bitmap for each mark. With eight, one in eight lookups of a mark that no document has is a
/// false positive.
const FILTER_BITS: u64 = 8;
/// The most documents that one mark finds. A mark that more documents have does not distinguish duplicates.
const SAME_MAX: u32 = 64;

/// The marks of a new segment. Marks are hashes and so evenly distributed, and the high bits of a mark say
/// approximately where it is in the sorted list.
pub(super) struct Marks {
    /// Sorted by mark, then by document.
    sorted: Vec<(u32, Doc)>,
}

impl Marks {
    pub(super) fn new(mut marks: Vec<(u32, Doc)>) -> Marks {
        marks.sort_unstable();
        marks.dedup();
        Marks { sorted: marks }
    }

    pub(super) fn pairs(&self) -> Vec<u8> {
        let numbers = self.sorted.iter().flat_map(|(mark, doc)| [*mark, *doc]);
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// For each value of the high bits, the position of its first mark in the sorted list; at the end, the
    /// length of the list.
    pub(super) fn starts(&self) -> Vec<u32> {
        let bits = (self.sorted.len() / STRIDE).max(1).ilog2();
        let begins =
            |first: u64| self.sorted.partition_point(|(mark, _)| u64::from(*mark) >> (32 - bits) < first);
        (0..=1u64 << bits).map(|first| begins(first) as u32).collect()
    }

    pub(super) fn filter(&self) -> Vec<u8> {
        let bits = self.sorted.len() as u64 * FILTER_BITS;
        let mut filter = vec![0; bits.div_ceil(8) as usize];
        for (mark, _) in &self.sorted {
            let (byte, bit) = place(*mark, filter.len());
            filter[byte] |= bit;
        }
        filter
    }
}

fn place(mark: u32, bytes: usize) -> (usize, u8) {
    let bit = (u64::from(mark) * (8 * bytes as u64)) >> 32;
    (bit as usize / 8, 1 << (bit % 8))
}

/// The parts of the marks that a lookup needs in memory.
pub(super) struct MarkLookup {
    starts: Vec<u32>,
    filter: Vec<u8>,
}

impl MarkLookup {
    fn may_have(&self, mark: u32) -> bool {
        let (byte, bit) = if self.filter.is_empty() { return false } else { place(mark, self.filter.len()) };
        self.filter[byte] & bit != 0
    }

    /// The positions in the sorted list of the marks with the same high bits.
    fn near(&self, mark: u32) -> Range<u32> {
        let bits = (self.starts.len() - 1).max(1).ilog2();
        let at = (u64::from(mark) >> (32 - bits)) as usize;
        self.starts[at]..self.starts[at + 1]
    }
}

impl Segment {
    /// Passes to `each` the key of every text with this mark that is in one of the groups and was live when
    /// the segment was written, but at most `SAME_MAX`, the last ones first. Documents of other groups do not
    /// count towards that limit, so documents out of sight never change the result.
    pub(crate) fn marked(&self, mark: u32, groups: &[u32], each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let marked = self.marks()?;
        if !marked.may_have(mark) {
            return Ok(());
        }
        let (from, near) = (self.sections.range(Section::Marks).start, marked.near(mark));
        let bytes = from + 8 * u64::from(near.start)..from + 8 * u64::from(near.end);
        self.file.read(bytes, |bytes| {
            let pairs = format::numbers(bytes);
            let is_wanted = |doc: Doc| groups.contains(&self.group_of(doc));
            let same = pairs.as_chunks::<2>().0.iter().filter(|pair| pair[0] == mark && is_wanted(pair[1]));
            same.rev().take(SAME_MAX as usize).for_each(|[_, doc]| each(self.keys[*doc as usize]));
        })
    }

    fn marks(&self) -> Result<&MarkLookup, Error> {
        if let Some(marked) = self.marked.get() {
            return Ok(marked);
        }
        let starts = self.file.read(self.sections.range(Section::MarkStarts), format::numbers)?;
        let filter = self.file.read(self.sections.range(Section::MarkFilter), <[u8]>::to_vec)?;
        Ok(self.marked.get_or_init(|| MarkLookup { starts, filter }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_and_hardly_another() {
        for many in [0u32, 1, 31, 64, 5000] {
            let mark = |number: u32| number.wrapping_mul(0x9e37_79b9);
            let marks = Marks::new((0..many).map(|number| (mark(number), number)).collect());
            let marked = MarkLookup { starts: marks.starts(), filter: marks.filter() };
            for number in 0..many {
                let near = marked.near(mark(number));
                let found = &marks.sorted[near.start as usize..near.end as usize];
                assert!(marked.may_have(mark(number)) && found.contains(&(mark(number), number)));
            }
            let wrong = (many..many + 1000).filter(|number| marked.may_have(mark(*number))).count();
            assert!(wrong < 250, "{wrong} of 1000");
        }
    }
}
