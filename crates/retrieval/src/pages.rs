//! A file in which every page has a checksum, so a read returns what was written or an error. The file is read and not
//! mapped into memory: if it is cut short or overwritten under a running process, the process gets an error, not a signal.
//!
//! ```text
//! data, in pages of 4096 bytes (the last may be shorter)
//! CRC-32C of each page, u32 each
//! "kenning2" | length of the data, u64 | CRC-32C of the checksums and the length, u32
//! ```
//!
//! Example: 10,000 bytes of data are three pages (4096, 4096, 1808), then 12 bytes of checksums, then 20 bytes of footer.
//! A read of the bytes 5000..5010 reads page 1 whole, compares its checksum, and returns ten of its bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::directory::private_file;
use crate::error::{Error, damaged};

const PAGE: usize = 4096;
/// A larger buffer is not kept for the next read.
const BUFFER_MAX: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"kenning2";
/// The magic, the length of the data, and the checksum of the table of checksums and the length.
const FOOTER: usize = 20;

pub(crate) struct PagesWriter {
    out: BufWriter<File>,
    /// The checksum of the page that is being filled.
    crc: u32,
    crcs: Vec<u8>,
    at: u64,
}

impl PagesWriter {
    pub(crate) fn create(path: &Path) -> io::Result<PagesWriter> {
        let out = BufWriter::with_capacity(
            1 << 18,
            private_file().create(true).truncate(true).write(true).open(path)?,
        );
        Ok(PagesWriter { out, crc: 0, crcs: Vec::new(), at: 0 })
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = PAGE - self.at as usize % PAGE;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.out.write_all(now)?;
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.at += now.len() as u64;
            if self.at.is_multiple_of(PAGE as u64) {
                self.end_page();
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_page(&mut self) {
        self.crcs.extend_from_slice(&std::mem::take(&mut self.crc).to_le_bytes());
    }

    /// Writes the checksums and the footer. The file is complete on the disk when this returns.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if !self.at.is_multiple_of(PAGE as u64) {
            self.end_page();
        }
        self.out.write_all(&self.crcs)?;
        self.out.write_all(MAGIC)?;
        self.out.write_all(&self.at.to_le_bytes())?;
        self.out.write_all(&table_crc(&self.crcs, self.at).to_le_bytes())?;
        self.out.into_inner()?.sync_data()
    }
}

fn table_crc(crcs: &[u8], length: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(crcs), &length.to_le_bytes())
}

pub(crate) struct Pages {
    file: File,
    crcs: Vec<u32>,
    length: u64,
}

impl Pages {
    pub(crate) fn open(path: &Path) -> Result<Pages, Error> {
        let file = File::open(path)?;
        let whole = file.metadata()?.len();
        let short = || damaged("a file is cut short");
        let footer_at = whole.checked_sub(FOOTER as u64).ok_or_else(short)?;
        let mut footer = [0; FOOTER];
        read_exact_at(&file, &mut footer, footer_at)?;
        let (magic, rest) = footer.split_first_chunk::<8>().ok_or_else(short)?;
        let (length, crc) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let length = u64::from_le_bytes(*length);
        let pages = length.div_ceil(PAGE as u64);
        if magic != MAGIC || length.checked_add(4 * pages) != Some(footer_at) {
            return Err(damaged("a file has no end"));
        }
        let mut table = vec![0; 4 * pages as usize];
        read_exact_at(&file, &mut table, length)?;
        if table_crc(&table, length).to_le_bytes() != *crc {
            return Err(damaged("the checksums of a file are wrong"));
        }
        let crcs = table.as_chunks::<4>().0.iter().map(|crc| u32::from_le_bytes(*crc)).collect();
        Ok(Pages { file, crcs, length })
    }

    /// Reads everything, and so compares every page with its checksum.
    pub(crate) fn check(&self, stop: &AtomicBool) -> Result<(), Error> {
        let mut at = 0;
        while at < self.length {
            if stop.load(Ordering::Acquire) {
                return Err(Error::Stopped);
            }
            let end = self.length.min(at + BUFFER_MAX as u64);
            self.read(at..end, |_| ())?;
            at = end;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Passes a range of the data to `then`.
    pub(crate) fn read<T>(&self, range: Range<u64>, then: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
        thread_local! {
            static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        // The buffer is taken out of its cell, so that `then` itself may call `read`.
        let mut buffer = BUFFER.take();
        let done = self.read_into(range, &mut buffer).map(then);
        if buffer.capacity() <= BUFFER_MAX {
            BUFFER.set(buffer);
        }
        done
    }

    fn read_into<'b>(&self, range: Range<u64>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Error> {
        if range.start > range.end || range.end > self.length {
            return Err(damaged("a place beyond the end of a file"));
        }
        let first = range.start as usize / PAGE;
        let from = (first * PAGE) as u64;
        let to = range.end.next_multiple_of(PAGE as u64).min(self.length).max(from);
        let many = (to - from) as usize;
        if buffer.len() < many {
            buffer.resize(many, 0);
        }
        let buffer = &mut buffer[..many];
        read_exact_at(&self.file, buffer, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("a file was cut short"),
            _ => Error::Io(error),
        })?;
        for (page, crc) in buffer.chunks(PAGE).zip(&self.crcs[first..]) {
            if crc32c::crc32c(page) != *crc {
                return Err(damaged("a page of a file has changed"));
            }
        }
        Ok(&buffer[(range.start - from) as usize..(range.end - from) as usize])
    }
}

#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            many => {
                buffer = &mut buffer[many..];
                offset += many as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_is_read_back_and_every_flipped_bit_is_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pages");
        let data: Vec<u8> = (0..3 * PAGE as u32 + 100).map(|at| ((at * 31) >> 3) as u8).collect();
        let mut writer = PagesWriter::create(&path).expect("writable");
        data.chunks(777).for_each(|part| writer.write(part).expect("writable"));
        writer.finish().expect("writable");
        let pages = Pages::open(&path).expect("readable");
        for (from, to) in [(0, 0), (0, 1), (4095, 4097), (5, 12_000), (data.len(), data.len())] {
            let read = pages.read(from as u64..to as u64, <[u8]>::to_vec).expect("readable");
            assert_eq!(read, &data[from..to]);
        }
        assert!(pages.read(0..data.len() as u64 + 1, |_| ()).is_err());
        let good = std::fs::read(&path).expect("readable");
        for at in (0..good.len()).step_by(97).chain(good.len() - FOOTER..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, &bad).expect("writable");
            let whole = |pages: Pages| pages.read(0..data.len() as u64, |_| ());
            assert!(Pages::open(&path).and_then(whole).is_err(), "byte {at}");
        }
        for cut in [0, 5, FOOTER, good.len() - 1] {
            std::fs::write(&path, &good[..cut]).expect("writable");
            assert!(Pages::open(&path).is_err(), "cut at {cut}");
        }
    }
}
