//! Making the vectors of a segment that has none: the embedder was changed, or is too slow to wait for.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::directory::private_file;
use crate::document::Document;
use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::vectors::Quantised;

use super::{Segment, vectors};

/// Finds the text of a version by its key and the moment it began, and hands it on. False when there is none.
pub type TextOf<'a> = &'a dyn Fn(u64, u64, &mut dyn FnMut(&Document<'_>)) -> bool;

impl Segment {
    /// What was made is kept as it comes, so that whoever is interrupted goes on where it was.
    pub(crate) fn embed(
        &self,
        dir: &Path,
        embedder: &Embedder,
        text: TextOf<'_>,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let path = dir.join(vectors::file_name(&self.name, embedder.identity()));
        let partial = path.with_extension("partial");
        let mut made = read_partial(&partial, embedder.dim());
        // Where the last run ended in the middle of a text, that text begins again.
        let texts = self.first_passages.partition_point(|first| *first as usize <= made.len());
        made.truncate(self.first_passages[texts - 1] as usize);
        let mut out = private_file().create(true).append(true).open(&partial)?;
        out.set_len((made.len() * record_bytes(embedder.dim())) as u64)?;
        let times = self.times()?;
        for (doc, key) in self.keys.iter().enumerate() {
            let passages = self.first_passages[doc]..self.first_passages[doc + 1];
            if (passages.end as usize) <= made.len() {
                continue;
            }
            if stop.load(Ordering::Acquire) {
                return Err(Error::Stopped);
            }
            let mut vectors = None;
            let found = text(*key, times[doc].0, &mut |document| vectors = Some(embedder.passages(document)));
            let vectors = match vectors {
                Some(vectors) if found => vectors?,
                _ => return Err(damaged("a text that the log does not have")),
            };
            if vectors.len() != passages.len() {
                return Err(damaged("a text that was cut in another way"));
            }
            vectors.iter().try_for_each(|vector| out.write_all(&encode(vector)))?;
            made.extend(vectors);
        }
        let numbers = (0..made.len() as u32).map(|number| (0, number));
        // The segment is in force, so whoever opens it must find all vectors or none.
        let new = path.with_extension("new");
        vectors::write(&new, embedder.dim(), numbers, &|_, number| Ok(made[number as usize].clone()))?;
        fs::rename(new, &path)?;
        self.attach_vectors(dir, embedder.identity())?;
        fs::remove_file(partial)?;
        Ok(())
    }
}

fn encode(vector: &Quantised) -> Vec<u8> {
    let mut bytes = vector.scale.to_le_bytes().to_vec();
    bytes.extend(vector.high.iter().chain(&vector.low).map(|byte| *byte as u8));
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Scale, both bytes of each number, checksum.
fn record_bytes(dim: usize) -> usize {
    4 + 2 * dim + 4
}

/// What an earlier run has left, as far as it is sound.
fn read_partial(path: &Path, dim: usize) -> Vec<Quantised> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.chunks_exact(record_bytes(dim)).map_while(|record| decode(record, dim)).collect()
}

fn decode(record: &[u8], dim: usize) -> Option<Quantised> {
    let (data, crc) = record.split_at_checked(4 + 2 * dim)?;
    if crc32c::crc32c(data).to_le_bytes() != *crc {
        return None;
    }
    let (scale, rest) = data.split_first_chunk::<4>()?;
    let signed = |bytes: &[u8]| bytes.iter().map(|byte| *byte as i8).collect();
    let (high, low) = rest.split_at(dim);
    Some(Quantised { high: signed(high), low: signed(low), scale: f32::from_le_bytes(*scale) })
}
