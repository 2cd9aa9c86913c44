//! The vectors of a segment, in a file of their own: another model makes other vectors of the same texts.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, damaged};
use crate::pages::{Pages, PagesWriter};
use crate::vectors::{HighBytes, Quantised};

use super::format;

/// How many are read at once while they are not in memory.
const BATCH: u32 = 1024;
/// At the end: how many numbers a vector has, and how many vectors there are.
const END: u64 = 8;

/// First bytes, then scales, then second bytes.
pub(crate) struct Vectors {
    file: Pages,
    dim: u32,
    many: u32,
    /// First bytes and scales, once they have been read.
    loaded: OnceLock<HighBytes>,
}

/// The model is part of the name: vectors of different models never meet.
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

    /// Keeps what every question reads in memory.
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

    /// How near each of these is, one number for each.
    pub(super) fn cosines(
        &self,
        range: Range<u32>,
        question: &Quantised,
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
        // Memory gives a quarter more to a thread that reads at four places at a time.
        let quarter = scales.len() / 4;
        for at in 0..quarter {
            (0..4).for_each(|place| one(place * quarter + at));
        }
        (4 * quarter..scales.len()).for_each(one);
        Ok(())
    }

    /// Hands the first bytes and the scale of each of these to `each`.
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

    pub(super) fn get(&self, number: u32) -> Result<Quantised, Error> {
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
        Ok(Quantised { high, low: self.file.read(low..low + dim, signed)?, scale })
    }
}

/// Writes vectors in the order of `numbers`; each is asked for twice.
pub(crate) fn write(
    path: &Path,
    dim: usize,
    numbers: impl Iterator<Item = (u32, u32)> + Clone,
    get: &dyn Fn(u32, u32) -> Result<Quantised, Error>,
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
