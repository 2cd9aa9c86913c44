//! Making the vectors of a segment that has none, because the embedder was changed or is too slow to wait for.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::directory::private_file;
use crate::document::Document;
use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::vectors::QuantisedVector;

use super::{Segment, vectors};

/// Finds a version by its key and the transaction at which it began, and passes its document to the callback.
/// False if there is no such version.
pub type TextLookup<'a> = &'a dyn Fn(u64, u64, &mut dyn FnMut(&Document<'_>)) -> bool;

impl Segment {
    /// Makes the vectors of all passages. Each is appended to a `.partial` file as soon as it is made, so that a run that
    /// was interrupted continues where it ended.
    pub(crate) fn embed(
        &self,
        dir: &Path,
        embedder: &Embedder,
        text: TextLookup<'_>,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let path = dir.join(vectors::file_name(&self.name, embedder.identity()));
        let partial = path.with_extension("partial");
        let mut made = read_partial(&partial, embedder.dim());
        // If the last run ended in the middle of a document, that document begins again.
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
        // The manifest names this segment already, so a process that opens it must find all vectors or none.
        let new = path.with_extension("new");
        vectors::write(&new, embedder.dim(), numbers, &|_, number| Ok(made[number as usize].clone()))?;
        fs::rename(new, &path)?;
        self.attach_vectors(dir, embedder.identity())?;
        fs::remove_file(partial)?;
        Ok(())
    }
}

fn encode(vector: &QuantisedVector) -> Vec<u8> {
    let mut bytes = vector.scale.to_le_bytes().to_vec();
    bytes.extend(vector.high.iter().chain(&vector.low).map(|byte| *byte as u8));
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The size of a record: scale, high bytes, low bytes, CRC-32C.
fn record_bytes(dim: usize) -> usize {
    4 + 2 * dim + 4
}

/// The vectors that an earlier run made, up to the first record that is damaged or incomplete.
fn read_partial(path: &Path, dim: usize) -> Vec<QuantisedVector> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.chunks_exact(record_bytes(dim)).map_while(|record| decode(record, dim)).collect()
}

fn decode(record: &[u8], dim: usize) -> Option<QuantisedVector> {
    let (data, crc) = record.split_at_checked(4 + 2 * dim)?;
    if crc32c::crc32c(data).to_le_bytes() != *crc {
        return None;
    }
    let (scale, rest) = data.split_first_chunk::<4>()?;
    let signed = |bytes: &[u8]| bytes.iter().map(|byte| *byte as i8).collect();
    let (high, low) = rest.split_at(dim);
    Some(QuantisedVector { high: signed(high), low: signed(low), scale: f32::from_le_bytes(*scale) })
}
