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
    /// High bytes and scales, once they are in memory.
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

    /// Reads high bytes and scales into memory, because every question by meaning needs all of them.
    pub(crate) fn load(&self, stop: &AtomicBool) -> Result<(), Error> {
        if self.loaded.get().is_none() {
            let mut all = HighBytes::default();
            all.bytes.reserve_exact(self.many as usize * self.dim as usize);
            for first in (0..self.many).step_by(BATCH as usize) {
                if stop.load(Ordering::Acquire) {
                    return Err(Error::Stopped);
                }
                let range = first..(first + BATCH).min(self.many);
                self.file.read(self.high_range(&range), |bytes| {
                    all.bytes.extend(bytes.iter().map(|b| *b as i8))
                })?;
            }
            all.scales = self.scales(&(0..self.many))?;
            let _ = self.loaded.set(all);
        }
        Ok(())
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
        let Some(all) = self.loaded.get() else {
            let first = range.start;
            return self.each(range, &mut |number, high, scale| {
                out[(number - first) as usize] = question.cosine(high, scale);
            });
        };
        let dim = self.dim as usize;
        let rows = range.start as usize..range.end as usize;
        let (bytes, scales) = (&all.bytes[rows.start * dim..rows.end * dim], &all.scales[rows]);
        let mut one = |at: usize| out[at] = question.cosine(&bytes[at * dim..(at + 1) * dim], scales[at]);
        // Reading at four places at a time gets about a quarter more bandwidth from the memory for one thread.
        let quarter = scales.len() / 4;
        for at in 0..quarter {
            (0..4).for_each(|place| one(place * quarter + at));
        }
        (4 * quarter..scales.len()).for_each(one);
        Ok(())
    }

    /// Passes the high bytes and the scale of each of these vectors to `each`.
    pub(super) fn each(
        &self,
        range: Range<u32>,
        each: &mut impl FnMut(u32, &[i8], f32),
    ) -> Result<(), Error> {
        let dim = self.dim as usize;
        if let Some(all) = self.loaded.get() {
            let bytes = &all.bytes[range.start as usize * dim..range.end as usize * dim];
            let scales = &all.scales[range.start as usize..range.end as usize];
            bytes
                .chunks_exact(dim)
                .zip(scales)
                .zip(range)
                .for_each(|((high, scale), at)| each(at, high, *scale));
            return Ok(());
        }
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
        let (high, scale) = match self.loaded.get() {
            Some(all) => {
                let from = number as usize * self.dim as usize;
                (all.bytes[from..from + self.dim as usize].into(), all.scales[number as usize])
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
