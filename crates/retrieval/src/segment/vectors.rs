//! The vectors of a segment. They are in a file of their own, because each model makes other vectors of the same texts.
//!
//! ```text
//! high bytes   vectors × dim bytes
//! scales       vectors × f32
//! low bytes    vectors × dim bytes
//! end          dim u32, number of vectors u32
//! ```

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, damaged};
use crate::pages::{Pages, PagesWriter};
use crate::vectors::{HighBytes, QuantisedVector};

use super::format;

/// How many vectors are read at once while they are not in memory.
const BATCH: u32 = 1024;
/// The size of the end: the numbers of a vector, and the number of vectors.
const END: u64 = 8;

pub(crate) struct Vectors {
    file: Pages,
    dim: u32,
    many: u32,
    /// High bytes and scales of the first vectors, once they are in memory.
    loaded: OnceLock<HighBytes>,
}

/// The name contains the model, so that vectors of different models are never compared.
pub(super) fn file_name(segment: &str, identity: &str) -> String {
    format!("{segment}.{}.vectors", &identity[..identity.len().min(16)])
}

impl Vectors {
    pub(super) fn open(path: &Path) -> Result<Vectors, Error> {
        let file = Pages::open(path)?;
        let wrong = || damaged("vectors of a wrong size");
        let from = file.len().checked_sub(END).ok_or_else(wrong)?;
        let end = file.read(from..file.len(), format::numbers)?;
        let (dim, many) = (end[0], end[1]);
        if u64::from(many) * (2 * u64::from(dim) + 4) != from {
            return Err(wrong());
        }
        Ok(Vectors { file, dim, many, loaded: OnceLock::new() })
    }

    pub(super) fn many(&self) -> u32 {
        self.many
    }

    /// Reads high bytes and scales of the first `many` vectors into memory.
    pub(super) fn load(&self, many: u32, stop: &AtomicBool) -> Result<(), Error> {
        if self.loaded.get().is_none() {
            let mut first_ones = HighBytes::default();
            first_ones.bytes.reserve_exact(many as usize * self.dim as usize);
            for first in (0..many).step_by(BATCH as usize) {
                if stop.load(Ordering::Acquire) {
                    return Err(Error::Stopped);
                }
                let range = first..(first + BATCH).min(many);
                self.file.read(self.high_range(&range), |bytes| {
                    first_ones.bytes.extend(bytes.iter().map(|b| *b as i8))
                })?;
            }
            first_ones.scales = self.scales(&(0..many))?;
            let _ = self.loaded.set(first_ones);
        }
        Ok(())
    }

    /// The part of the range that is in memory, and the part that must be read.
    fn split(&self, range: &Range<u32>) -> (Range<u32>, Range<u32>) {
        let loaded = self.loaded.get().map_or(0, |loaded| loaded.scales.len() as u32);
        if loaded <= range.start {
            return (0..0, range.clone());
        }
        let middle = loaded.min(range.end);
        (range.start..middle, middle..range.end)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    fn high_range(&self, range: &Range<u32>) -> Range<u64> {
        let dim = u64::from(self.dim);
        u64::from(range.start) * dim..u64::from(range.end) * dim
    }

    fn scales(&self, range: &Range<u32>) -> Result<Vec<f32>, Error> {
        let first = u64::from(self.many) * u64::from(self.dim);
        let bytes = first + 4 * u64::from(range.start)..first + 4 * u64::from(range.end);
        self.file.read(bytes, |bytes| {
            bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
        })
    }

    /// The approximate cosine of the question and each of these vectors.
    pub(super) fn cosines(
        &self,
        range: Range<u32>,
        question: &QuantisedVector,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let (in_memory, on_disk) = self.split(&range);
        let (out, rest) = out.split_at_mut(in_memory.len());
        if let Some(loaded) = self.loaded.get() {
            let dim = self.dim as usize;
            let rows = in_memory.start as usize..in_memory.end as usize;
            let (bytes, scales) = (&loaded.bytes[rows.start * dim..rows.end * dim], &loaded.scales[rows]);
            let mut one = |at: usize| out[at] = question.cosine(&bytes[at * dim..(at + 1) * dim], scales[at]);
            // Reading at four places at a time gets about a quarter more bandwidth from the memory for one thread.
            let quarter = scales.len() / 4;
            for at in 0..quarter {
                (0..4).for_each(|place| one(place * quarter + at));
            }
            (4 * quarter..scales.len()).for_each(one);
        }
        let first = on_disk.start;
        self.read_each(on_disk, &mut |number, high, scale| {
            rest[(number - first) as usize] = question.cosine(high, scale);
        })
    }

    /// Passes the high bytes and the scale of each of these vectors to `each`.
    pub(super) fn each(
        &self,
        range: Range<u32>,
        each: &mut impl FnMut(u32, &[i8], f32),
    ) -> Result<(), Error> {
        let (in_memory, on_disk) = self.split(&range);
        if let Some(loaded) = self.loaded.get() {
            let dim = self.dim as usize;
            let rows = in_memory.start as usize..in_memory.end as usize;
            let vectors = loaded.bytes[rows.start * dim..rows.end * dim].chunks_exact(dim);
            let numbered = vectors.zip(&loaded.scales[rows]).zip(in_memory);
            numbered.for_each(|((high, scale), at)| each(at, high, *scale));
        }
        self.read_each(on_disk, each)
    }

    fn read_each(&self, range: Range<u32>, each: &mut impl FnMut(u32, &[i8], f32)) -> Result<(), Error> {
        let dim = self.dim as usize;
        let mut signed: Vec<i8> = Vec::new();
        for first in range.clone().step_by(BATCH as usize) {
            let batch = first..(first + BATCH).min(range.end);
            let scales = self.scales(&batch)?;
            self.file.read(self.high_range(&batch), |bytes| {
                signed.clear();
                signed.extend(bytes.iter().map(|byte| *byte as i8));
                let vectors = signed.chunks_exact(dim).zip(&scales).zip(batch);
                vectors.for_each(|((high, scale), at)| each(at, high, *scale));
            })?;
        }
        Ok(())
    }

    pub(super) fn get(&self, number: u32) -> Result<QuantisedVector, Error> {
        let signed = |bytes: &[u8]| bytes.iter().map(|byte| *byte as i8).collect::<Box<[i8]>>();
        let (dim, one) = (u64::from(self.dim), number..number + 1);
        let low = u64::from(self.many) * (dim + 4) + u64::from(number) * dim;
        let loaded = self.loaded.get().filter(|loaded| (number as usize) < loaded.scales.len());
        let (high, scale) = match loaded {
            Some(loaded) => {
                let from = number as usize * self.dim as usize;
                (loaded.bytes[from..from + self.dim as usize].into(), loaded.scales[number as usize])
            }
            None => (self.file.read(self.high_range(&one), signed)?, self.scales(&one)?[0]),
        };
        Ok(QuantisedVector { high, low: self.file.read(low..low + dim, signed)?, scale })
    }
}

/// Writes vectors in the order of `numbers`. Each is asked for twice, for its high and for its low bytes, so that they
/// need not all be in memory at once.
pub(crate) fn write(
    path: &Path,
    dim: usize,
    numbers: impl Iterator<Item = (u32, u32)> + Clone,
    get: &dyn Fn(u32, u32) -> Result<QuantisedVector, Error>,
) -> Result<(), Error> {
    let unsigned = |bytes: &[i8]| bytes.iter().map(|byte| *byte as u8).collect::<Vec<u8>>();
    let mut out = PagesWriter::create(path)?;
    let mut scales = Vec::new();
    for (source, passage) in numbers.clone() {
        let vector = get(source, passage)?;
        if vector.high.len() != dim {
            return Err(io::Error::other("a vector of another model").into());
        }
        out.write(&unsigned(&vector.high))?;
        scales.extend_from_slice(&vector.scale.to_le_bytes());
    }
    out.write(&scales)?;
    for (source, passage) in numbers {
        out.write(&unsigned(&get(source, passage)?.low))?;
    }
    out.write(&(dim as u32).to_le_bytes())?;
    out.write(&((scales.len() / 4) as u32).to_le_bytes())?;
    Ok(out.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_and_what_is_read_are_one_list() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vectors");
        let vector = |number: u32| {
            let numbers: Vec<f32> = (0..16).map(|at| ((number * 31 + at * 7) % 19) as f32 - 9.0).collect();
            QuantisedVector::new(&numbers)
        };
        write(&path, 16, (0..50).map(|number| (0, number)), &|_, number| Ok(vector(number)))
            .expect("written");
        let question = vector(7);
        let cosines = |loaded: u32, range: Range<u32>| {
            let vectors = Vectors::open(&path).expect("readable");
            vectors.load(loaded, &AtomicBool::new(false)).expect("readable");
            assert_eq!(vectors.loaded.get().map(|loaded| loaded.scales.len()), Some(loaded as usize));
            let mut found = vec![0.0; range.len()];
            vectors.cosines(range.clone(), &question, &mut found).expect("readable");
            let (mut again, mut numbers) = (Vec::new(), Vec::new());
            let mut each = |number, high: &[i8], scale| {
                numbers.push(number);
                again.push(question.cosine(high, scale));
            };
            vectors.each(range.clone(), &mut each).expect("readable");
            assert_eq!((&found, numbers), (&again, range.clone().collect()));
            for number in range {
                let got = vectors.get(number).expect("readable");
                assert_eq!((got.high, got.low), (vector(number).high, vector(number).low));
            }
            found
        };
        for range in [0..50, 3..20, 20..50, 19..21, 7..7] {
            let whole = cosines(50, range.clone());
            assert_eq!(cosines(20, range.clone()), whole);
            assert_eq!(cosines(0, range), whole);
        }
    }
}
