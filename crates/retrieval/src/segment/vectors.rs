//! The vectors of a segment. They are in a separate file, because each model makes different vectors of the
//! same texts.
//!
//! ```text
//! codes        vectors × (dim / 4 + 8) bytes, dim rounded up to a multiple of 64
//! vectors      vectors × (scale f32, dim high bytes, dim low bytes)
//! end          dim u32, number of vectors u32
//! ```

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::codes::{Codes, QuestionCode, code_bytes};
use crate::error::{Error, damaged};
use crate::pages::{Pages, PagesWriter};
use crate::vectors::{QuantisedVector, cosine};

use super::format;

/// How many codes are read at once while they are not in memory.
const BATCH: u32 = 1024;
/// The size of the last part: the dimension, and the number of vectors.
const END: u64 = 8;
/// Vectors that are this many bytes apart are read together, because one larger read is faster than two.
const GAP: u64 = 16 * 1024;
/// At most this many bytes of vectors are read together.
const TOGETHER: u64 = 1 << 20;

pub(crate) struct Vectors {
    file: Pages,
    dim: u32,
    many: u32,
    /// The codes of the first vectors, once they were read into memory.
    loaded: OnceLock<Codes>,
}

/// The name contains the model, so that vectors of different models are never compared.
pub(crate) fn file_name(segment: &str, identity: &str) -> String {
    format!("{segment}.{}.vectors", &identity[..identity.len().min(16)])
}

impl Vectors {
    pub(super) fn open(path: &Path) -> Result<Vectors, Error> {
        let file = Pages::open(path)?;
        let wrong = || damaged("vectors of a wrong size");
        let from = file.len().checked_sub(END).ok_or_else(wrong)?;
        let end = file.read(from..file.len(), format::numbers)?;
        let (dim, many) = (end[0], end[1]);
        if u64::from(many) * (code_bytes(dim as usize) as u64 + vector_bytes(dim)) != from {
            return Err(wrong());
        }
        Ok(Vectors { file, dim, many, loaded: OnceLock::new() })
    }

    pub(super) fn many(&self) -> u32 {
        self.many
    }

    /// Reads the codes of the first `many` vectors into memory.
    pub(super) fn load(&self, many: u32, stop: &AtomicBool) -> Result<(), Error> {
        if self.loaded.get().is_none() {
            let mut first_ones = Codes::default();
            first_ones.reserve(many as usize, self.dim as usize);
            for first in (0..many).step_by(BATCH as usize) {
                if stop.load(Ordering::Acquire) {
                    return Err(Error::Stopped);
                }
                self.read_codes(first..(first + BATCH).min(many), &mut first_ones)?;
            }
            let _ = self.loaded.set(first_ones);
        }
        Ok(())
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    fn read_codes(&self, range: Range<u32>, codes: &mut Codes) -> Result<(), Error> {
        let (dim, size) = (self.dim as usize, code_bytes(self.dim as usize) as u64);
        let bytes = u64::from(range.start) * size..u64::from(range.end) * size;
        self.file.read(bytes, |bytes| codes.extend(bytes, dim))
    }

    /// The number of codes in memory, which are those of the first vectors.
    fn loaded(&self) -> Option<(&Codes, u32)> {
        self.loaded.get().map(|loaded| (loaded, loaded.many() as u32))
    }

    /// The rough estimates of the cosines of the question and each of these vectors.
    pub(super) fn rough(
        &self,
        range: Range<u32>,
        question: &QuestionCode,
        out: &mut [f32],
    ) -> Result<(), Error> {
        // The first part of the range is in memory, the rest is read from the file.
        let middle = self.loaded().map_or(0, |(_, many)| many).clamp(range.start, range.end);
        let (out, rest) = out.split_at_mut((middle - range.start) as usize);
        if let Some((loaded, _)) = self.loaded()
            && !out.is_empty()
        {
            loaded.rough(range.start as usize, question, out);
        }
        for (first, out) in (middle..range.end).step_by(BATCH as usize).zip(rest.chunks_mut(BATCH as usize)) {
            let mut codes = Codes::default();
            self.read_codes(first..first + out.len() as u32, &mut codes)?;
            codes.rough(0, question, out);
        }
        Ok(())
    }

    /// The best of the finer estimates for each of these ranges of vectors.
    pub(super) fn fine(
        &self,
        ranges: &[Range<u32>],
        question: &QuestionCode,
        out: &mut [f32],
    ) -> Result<(), Error> {
        // Ranges are in order, so those that are in memory come first.
        let many = self.loaded().map_or(0, |(_, many)| many);
        let middle = ranges.partition_point(|range| range.end <= many);
        let (in_memory, in_file) = ranges.split_at(middle);
        let (out, rest) = out.split_at_mut(middle);
        if let Some((loaded, _)) = self.loaded() {
            loaded.fine(in_memory, question, out);
        }
        for (range, out) in in_file.iter().zip(rest.chunks_mut(1)) {
            let mut codes = Codes::default();
            self.read_codes(range.clone(), &mut codes)?;
            codes.fine(std::slice::from_ref(&(0..range.len() as u32)), question, out);
        }
        Ok(())
    }

    /// Passes the cosine of the question and each of these vectors to `each`, with the number of the range
    /// that contains the vector. The ranges must be in order.
    pub(super) fn cosines(
        &self,
        ranges: &[Range<u32>],
        question: &[f32],
        each: &mut impl FnMut(usize, f32),
    ) -> Result<(), Error> {
        let (dim, size) = (self.dim as usize, vector_bytes(self.dim));
        let mut first = 0;
        while first < ranges.len() {
            let from = ranges[first].start;
            let is_near = |range: &Range<u32>, last: &Range<u32>| {
                u64::from(range.start.saturating_sub(last.end)) * size <= GAP
                    && u64::from(range.end - from) * size <= TOGETHER
            };
            let pairs = ranges[first..].windows(2).take_while(|pair| is_near(&pair[1], &pair[0]));
            let end = first + 1 + pairs.count();
            self.file.read(self.bytes_of(&(from..ranges[end - 1].end)), |bytes| {
                let mut signed: Vec<i8> = Vec::with_capacity(2 * dim);
                for (number, range) in (first..).zip(&ranges[first..end]) {
                    let at = |vector: u32| ((vector - from) as u64 * size) as usize;
                    for record in bytes[at(range.start)..at(range.end)].chunks_exact(size as usize) {
                        let (scale, numbers) = record.split_at(4);
                        signed.clear();
                        signed.extend(numbers.iter().map(|byte| *byte as i8));
                        let (high, low) = signed.split_at(dim);
                        each(number, cosine(question, high, low, format::float(scale)));
                    }
                }
            })?;
            first = end;
        }
        Ok(())
    }

    fn bytes_of(&self, vectors: &Range<u32>) -> Range<u64> {
        let from = u64::from(self.many) * code_bytes(self.dim as usize) as u64;
        let size = vector_bytes(self.dim);
        from + u64::from(vectors.start) * size..from + u64::from(vectors.end) * size
    }

    pub(super) fn get(&self, number: u32) -> Result<QuantisedVector, Error> {
        self.file.read(self.bytes_of(&(number..number + 1)), |bytes| {
            let (scale, numbers) = bytes.split_at(4);
            let (high, low) = numbers.split_at(self.dim as usize);
            let signed = |bytes: &[u8]| bytes.iter().map(|byte| *byte as i8).collect();
            QuantisedVector { high: signed(high), low: signed(low), scale: format::float(scale) }
        })
    }
}

/// The bytes of a vector: its scale and two bytes for each number.
fn vector_bytes(dim: u32) -> u64 {
    4 + 2 * u64::from(dim)
}

/// Writes vectors in the order of `numbers`. Each is asked for twice, for its code and for its bytes, so that they need
/// not all be in memory at once.
pub(crate) fn write(
    path: &Path,
    dim: usize,
    numbers: impl Iterator<Item = (u32, u32)> + Clone,
    get: &dyn Fn(u32, u32) -> Result<QuantisedVector, Error>,
) -> Result<(), Error> {
    let mut out = PagesWriter::create(path)?;
    let (mut many, mut bytes) = (0u32, Vec::new());
    for (source, passage) in numbers.clone() {
        let vector = get(source, passage)?;
        if vector.high.len() != dim {
            return Err(io::Error::other("a vector of another model").into());
        }
        bytes.clear();
        Codes::put(&vector, &mut bytes);
        out.write(&bytes)?;
        many += 1;
    }
    for (source, passage) in numbers {
        let vector = get(source, passage)?;
        bytes.clear();
        bytes.extend(vector.scale.to_le_bytes());
        bytes.extend(vector.high.iter().chain(&vector.low).map(|byte| *byte as u8));
        out.write(&bytes)?;
    }
    out.write(&(dim as u32).to_le_bytes())?;
    out.write(&many.to_le_bytes())?;
    Ok(out.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_and_what_is_read_are_one_list() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vectors");
        let numbers = |number: u32| {
            (0..16).map(move |at| ((number * 31 + at * 7) % 19) as f32 - 9.0).collect::<Vec<_>>()
        };
        let vector = |number: u32| QuantisedVector::new(&numbers(number));
        write(&path, 16, (0..50).map(|number| (0, number)), &|_, number| Ok(vector(number)))
            .expect("written");
        let question = numbers(7);
        let estimates = |loaded: u32, range: Range<u32>| {
            let vectors = Vectors::open(&path).expect("readable");
            vectors.load(loaded, &AtomicBool::new(false)).expect("readable");
            assert_eq!(vectors.loaded.get().map(|loaded| loaded.many()), Some(loaded as usize));
            let mut found = vec![0.0; range.len()];
            vectors.rough(range.clone(), &QuestionCode::new(&question), &mut found).expect("readable");
            let each: Vec<Range<u32>> = range.clone().map(|number| number..number + 1).collect();
            let mut fine = vec![0.0; each.len()];
            vectors.fine(&each, &QuestionCode::new(&question), &mut fine).expect("readable");
            found.extend(fine);
            for number in range {
                let got = vectors.get(number).expect("readable");
                assert_eq!((got.high, got.low), (vector(number).high, vector(number).low));
            }
            found
        };
        for range in [0..50, 3..20, 20..50, 19..21, 7..7] {
            let whole = estimates(50, range.clone());
            assert_eq!(estimates(20, range.clone()), whole);
            assert_eq!(estimates(0, range), whole);
        }
    }

    #[test]
    fn cosines_are_those_of_the_vectors_however_far_apart() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vectors");
        let numbers = |number: u32| -> Vec<f32> {
            (0..64).map(|at| ((number * 31 + at * 7) % 97) as f32 / 97.0 - 0.5).collect()
        };
        let vector = |number: u32| QuantisedVector::new(&numbers(number));
        let many = 2 * (TOGETHER / vector_bytes(64)) as u32;
        write(&path, 64, (0..many).map(|number| (0, number)), &|_, number| Ok(vector(number)))
            .expect("written");
        let vectors = Vectors::open(&path).expect("readable");
        let question = numbers(5);
        for ranges in [&[0..1, 1..3, 400..401, many - 1..many][..], &[0..7, 7..many], &[], &[7..7, 7..8]] {
            let mut found = Vec::new();
            vectors
                .cosines(ranges, &question, &mut |range, cosine| found.push((range, cosine)))
                .expect("readable");
            let expected: Vec<(usize, f32)> = (0..)
                .zip(ranges)
                .flat_map(|(number, range)| range.clone().map(move |vector| (number, vector)))
                .map(|(number, at)| (number, vector(at).cosine(&question)))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
