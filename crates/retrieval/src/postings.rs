//! The posting list of a term as it is on the disk: for each document that has the term, its frequency there,
//! and the terms that follow it there (bigrams).
//!
//! A list is cut into blocks of 128 postings. If there are several blocks, a table in front says for each the last
//! document and where the block ends, so that a question reads only the blocks with documents in its sight.
//!
//! ```text
//! table    (only if there are several blocks) for each block: last document u32, end of the block u32
//! block    documents      128: one byte with the bits per number, then the packed differences; fewer: u32 each
//!          frequencies    u16 each: title << 8 | body << 3 | neighbour
//!          bigram counts  u8 each
//!          bigrams        u16 each: the hash of the next term
//! ```
//!
//! Example: "deploy" is in the documents 3, 7 and 9; in document 7 it stands twice, before "friday" and before
//! "monday". Three postings are one block without a table: documents 3, 7, 9; frequencies 1, 2, 1 in the body; bigram
//! counts 0, 2, 0; bigrams hash("friday"), hash("monday").

use std::ops::Range;

use bitpacking::{BitPacker, BitPacker4x};

use crate::error::{Error, damaged};

const BLOCK: usize = BitPacker4x::BLOCK_LEN;
/// A row of the table: the last document of the block, and where the block ends, counted from the end of the table.
const ROW: usize = 8;

/// How often a term occurs in a document: counted up to 7 in its title, 31 in its body and 7 in the text before it.
/// BM25 hardly distinguishes larger numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frequency(u16);

impl Frequency {
    pub(crate) fn new(title: usize, body: usize, neighbour: usize) -> Frequency {
        Frequency((title.min(7) << 8 | body.min(31) << 3 | neighbour.min(7)) as u16)
    }

    /// The frequency of a term that a document does not have.
    pub(crate) const NONE: Frequency = Frequency(0);

    pub(crate) fn is_none(self) -> bool {
        self == Frequency::NONE
    }

    /// Whether the document itself has the term, and not only the text before it.
    pub(crate) fn is_own(self) -> bool {
        self.0 >> 3 > 0
    }

    /// The frequency in the title alone.
    pub(crate) fn of_title(self) -> Frequency {
        Frequency(self.0 & 7 << 8)
    }

    pub(crate) fn title(self) -> u32 {
        u32::from(self.0 >> 8)
    }

    pub(crate) fn body(self) -> u32 {
        u32::from(self.0 >> 3 & 31)
    }

    pub(crate) fn neighbour(self) -> u32 {
        u32::from(self.0 & 7)
    }
}

/// The second term of a bigram, as a short hash; the first term is the one whose posting list contains it. One pair of
/// terms in 65,000 has the same hash, and is then confused in every index in the same way.
pub(crate) type Bigram = u16;

pub(crate) fn bigram_hash(term: &str) -> Bigram {
    let hash = hash(term.as_bytes());
    (hash >> 16 ^ hash) as Bigram
}

/// FNV-1a. Hashes are written to the disk, so the function is part of the format and is not taken from a library.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// One posting list, unpacked. The bigrams of all postings are in one array, two bytes each.
#[derive(Default)]
pub(crate) struct Postings {
    pub docs: Vec<u32>,
    frequencies: Vec<[u8; 2]>,
    bigram_counts: Vec<u8>,
    bigrams: Vec<u8>,
}

impl Postings {
    pub(crate) fn clear(&mut self) {
        self.docs.clear();
        self.frequencies.clear();
        self.bigram_counts.clear();
        self.bigrams.clear();
    }

    /// Documents must come in order. Of one posting at most 255 bigrams are kept, because their number is a byte.
    pub(crate) fn push(&mut self, doc: u32, frequency: Frequency, bigrams: &[u8]) {
        let bigrams = &bigrams[..bigrams.len().min(2 * 255)];
        self.docs.push(doc);
        self.frequencies.push(frequency.0.to_le_bytes());
        self.bigram_counts.push((bigrams.len() / 2) as u8);
        self.bigrams.extend_from_slice(bigrams);
    }

    /// All postings.
    pub(crate) fn all(&self) -> Block<'_> {
        Block {
            docs: &self.docs,
            frequencies: &self.frequencies,
            bigram_counts: &self.bigram_counts,
            bigrams: &self.bigrams,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let blocks = self.docs.len().div_ceil(BLOCK);
        let table_at = out.len();
        if blocks > 1 {
            out.resize(table_at + ROW * blocks, 0);
        }
        let blocks_at = out.len();
        let (mut before, mut bigram) = (0, 0);
        for (number, docs) in self.docs.chunks(BLOCK).enumerate() {
            let rows = number * BLOCK..number * BLOCK + docs.len();
            if docs.len() == BLOCK {
                let packer = BitPacker4x::new();
                let bits = packer.num_bits_sorted(before, docs);
                out.push(bits);
                let packed_at = out.len();
                out.resize(packed_at + BitPacker4x::compressed_block_size(bits), 0);
                packer.compress_sorted(before, docs, &mut out[packed_at..], bits);
            } else {
                docs.iter().for_each(|doc| out.extend_from_slice(&doc.to_le_bytes()));
            }
            out.extend(self.frequencies[rows.clone()].iter().copied().flatten());
            out.extend_from_slice(&self.bigram_counts[rows.clone()]);
            let many: usize = self.bigram_counts[rows].iter().map(|count| 2 * usize::from(*count)).sum();
            out.extend_from_slice(&self.bigrams[bigram..bigram + many]);
            bigram += many;
            before = docs[docs.len() - 1];
            if blocks > 1 {
                let row = table_at + ROW * number;
                let end = (out.len() - blocks_at) as u32;
                out[row..row + 4].copy_from_slice(&before.to_le_bytes());
                out[row + 4..row + ROW].copy_from_slice(&end.to_le_bytes());
            }
        }
    }
}

/// The table of a posting list: which block to read for which documents.
pub(crate) struct Table {
    /// The last document of each block, and the offset where the block ends.
    rows: Vec<(u32, u32)>,
    many: usize,
}

impl Table {
    /// The size in bytes of the table of a list of `many` postings.
    pub(crate) fn bytes(many: usize) -> usize {
        let blocks = many.div_ceil(BLOCK);
        if blocks > 1 { ROW * blocks } else { 0 }
    }

    /// Decodes and checks the table `bytes`; `whole` is the size of all blocks together. After this, each
    /// block ends after the one before it and within `whole`, so callers can rely on the offsets.
    pub(crate) fn decode(bytes: &[u8], many: usize, whole: u32) -> Result<Table, Error> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let mut rows: Vec<(u32, u32)> =
            bytes.chunks_exact(ROW).map(|row| (number(&row[..4]), number(&row[4..]))).collect();
        if rows.is_empty() {
            rows.push((u32::MAX, whole));
        }
        let is_ascending = rows.array_windows().all(|[row, next]| row.0 < next.0 && row.1 <= next.1);
        let is_within = rows.last().is_some_and(|(_, end)| *end <= whole);
        if rows.len() != many.div_ceil(BLOCK).max(1) || !is_ascending || !is_within {
            return Err(damaged("the table of a list does not fit its blocks"));
        }
        Ok(Table { rows, many })
    }

    /// The blocks that may have a document of the range.
    pub(crate) fn blocks(&self, docs: &Range<u32>) -> Range<usize> {
        let first = self.rows.partition_point(|(last, _)| *last < docs.start);
        let end = self.rows.partition_point(|(last, _)| *last < docs.end.saturating_sub(1));
        first..(end + 1).min(self.rows.len()).max(first)
    }

    /// The bytes of these blocks, counted from the end of the table.
    pub(crate) fn span(&self, blocks: &Range<usize>) -> Range<u32> {
        let start = if blocks.start == 0 { 0 } else { self.rows[blocks.start - 1].1 };
        start..self.rows[..blocks.end].last().map_or(0, |row| row.1).max(start)
    }

    /// Unpacks these blocks, one after the other, and passes each to `each`.
    pub(crate) fn each_block(
        &self,
        blocks: Range<usize>,
        mut bytes: &[u8],
        each: &mut impl FnMut(Block<'_>),
    ) -> Result<(), Error> {
        let mut docs = [0; BLOCK];
        let mut start = self.span(&(blocks.start..blocks.start)).start;
        for block in blocks {
            let end = self.rows[block].1;
            let (mut own, rest) = bytes
                .split_at_checked((end - start) as usize)
                .ok_or_else(|| damaged("a list is cut short"))?;
            (bytes, start) = (rest, end);
            let many = BLOCK.min(self.many - block * BLOCK);
            let short = || damaged("a list ends too early");
            if many == BLOCK {
                let (bits, rest) = own.split_first().ok_or_else(short)?;
                if u32::from(*bits) > u32::BITS {
                    return Err(damaged("a list with documents of too many bits"));
                }
                let size = BitPacker4x::compressed_block_size(*bits);
                let (packed, rest) = rest.split_at_checked(size).ok_or_else(short)?;
                let before = if block == 0 { 0 } else { self.rows[block - 1].0 };
                BitPacker4x::new().decompress_sorted(before, packed, &mut docs, *bits);
                own = rest;
            } else {
                let (plain, rest) = own.split_at_checked(4 * many).ok_or_else(short)?;
                for (doc, plain) in docs.iter_mut().zip(plain.as_chunks::<4>().0) {
                    *doc = u32::from_le_bytes(*plain);
                }
                own = rest;
            }
            let (frequencies, rest) = own.split_at_checked(2 * many).ok_or_else(short)?;
            let frequencies = frequencies.as_chunks::<2>().0;
            let (bigram_counts, bigrams) = rest.split_at_checked(many).ok_or_else(short)?;
            if 2 * sum(bigram_counts) > bigrams.len() {
                return Err(short());
            }
            // This is checked because callers find the documents of a range by binary search, in the table
            // and then in the block.
            let docs = &docs[..many];
            let follows = block == 0 || self.rows[block - 1].0 < docs[0];
            let ends_as_said = self.rows.len() == 1 || docs.last() == Some(&self.rows[block].0);
            if !docs.is_sorted() || !follows || !ends_as_said {
                return Err(damaged("the documents of a list are not in order"));
            }
            each(Block { docs, frequencies, bigram_counts, bigrams });
        }
        Ok(())
    }
}

/// Neighbouring postings of a list, unpacked, in the order of the documents.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub docs: &'a [u32],
    frequencies: &'a [[u8; 2]],
    bigram_counts: &'a [u8],
    bigrams: &'a [u8],
}

impl<'a> Block<'a> {
    /// Some of the postings.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Block<'a> {
        let from = 2 * sum(&self.bigram_counts[..rows.start]);
        let to = from + 2 * sum(&self.bigram_counts[rows.clone()]);
        Block {
            docs: &self.docs[rows.clone()],
            frequencies: &self.frequencies[rows.clone()],
            bigram_counts: &self.bigram_counts[rows],
            bigrams: &self.bigrams[from..to],
        }
    }

    pub(crate) fn frequencies(&self) -> impl ExactSizeIterator<Item = Frequency> {
        self.frequencies.iter().map(|two| Frequency(u16::from_le_bytes(*two)))
    }

    /// Passes each posting to `each`: document, frequency and bigrams.
    pub(crate) fn each(&self, each: &mut impl FnMut(u32, Frequency, &[u8])) {
        let mut bigrams = self.bigrams;
        for ((doc, frequency), count) in self.docs.iter().zip(self.frequencies()).zip(self.bigram_counts) {
            let (own, rest) = bigrams.split_at(2 * usize::from(*count));
            each(*doc, frequency, own);
            bigrams = rest;
        }
    }

    /// Passes on the number of each posting that has a bigram, and how often it does.
    pub(crate) fn each_with(&self, wanted: Bigram, each: &mut impl FnMut(usize, usize)) {
        // Most blocks do not have the bigram at all, which is quickly seen.
        if count_bigrams(self.bigrams, wanted) == 0 {
            return;
        }
        let mut number = 0;
        self.each(&mut |_, _, bigrams| {
            let often = count_bigrams(bigrams, wanted);
            if often > 0 {
                each(number, often);
            }
            number += 1;
        });
    }
}

fn sum(counts: &[u8]) -> usize {
    counts.iter().map(|count| u32::from(*count)).sum::<u32>() as usize
}

/// How often a bigram is among others.
fn count_bigrams(bigrams: &[u8], wanted: Bigram) -> usize {
    bigrams.as_chunks::<2>().0.iter().filter(|bigram| u16::from_le_bytes(**bigram) == wanted).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_a_list_comes_back() {
        for many in [1, 127, 128, 129, 1000] {
            let mut list = Postings::default();
            for number in 0..many as u32 {
                let bigrams: Vec<u8> =
                    (0..2 * (number % 4)).map(|bigram| (number * 7 + bigram) as u8).collect();
                list.push(
                    number * 3,
                    Frequency::new(number as usize % 9, number as usize % 40, number as usize % 3),
                    &bigrams,
                );
            }
            let mut bytes = Vec::new();
            list.encode(&mut bytes);
            let (table, blocks) = bytes.split_at(Table::bytes(many));
            let table = Table::decode(table, many, blocks.len() as u32).expect("readable");
            for stretch in [0..3 * many as u32, 0..1, 380..385, 381..382, 2990..5000, 5..5] {
                let (wanted, mut found) = (table.blocks(&stretch), Vec::new());
                let span = table.span(&wanted);
                let bytes = &blocks[span.start as usize..span.end as usize];
                let mut each = |block: Block<'_>| {
                    block.each(&mut |doc, frequency, bigrams| {
                        if stretch.contains(&doc) {
                            found.push((doc, frequency, bigrams.len() / 2));
                        }
                    });
                };
                table.each_block(wanted, bytes, &mut each).expect("readable");
                let expected: Vec<_> = (0..many as u32)
                    .filter(|number| stretch.contains(&(number * 3)))
                    .map(|n| {
                        (
                            n * 3,
                            Frequency::new(n as usize % 9, n as usize % 40, n as usize % 3),
                            n as usize % 4,
                        )
                    })
                    .collect();
                assert_eq!(found, expected, "{many} {stretch:?}");
            }
        }
        let most = Frequency::new(9, 40, 5);
        assert_eq!((most.title(), most.body(), most.neighbour()), (7, 31, 5));
    }

    /// Lists of one block, of several, and of several with a short one at the end, in their format on the
    /// disk. A number in front says how many postings each has.
    #[test]
    fn any_postings_are_read_or_refused() {
        let examples = [3, 128, 300].map(|many| {
            let mut list = Postings::default();
            for number in 0..many {
                let links = [number as u8; 6];
                list.push(number * 5, Frequency::new(1, 2, 0), &links[..2 * (number as usize % 4)]);
            }
            let mut bytes = (many as u16).to_le_bytes().to_vec();
            list.encode(&mut bytes);
            bytes
        });
        for example in &examples {
            let many = usize::from(u16::from_le_bytes([example[0], example[1]]));
            assert_eq!(read_all(example).map(|docs| docs.len()).ok(), Some(many), "the example is good");
        }
        kenning_testkit::fuzz::run("postings", &examples, |input| {
            if let Ok(docs) = read_all(input) {
                assert!(docs.is_sorted(), "callers rely on the order of the texts");
            }
        });
    }

    /// Reads a list as a segment does: single blocks, then the whole of it.
    fn read_all(bytes: &[u8]) -> Result<Vec<u32>, Error> {
        let short = || damaged("no list");
        let (many, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let many = usize::from(u16::from_le_bytes(*many));
        let (table, blocks) = bytes.split_at_checked(Table::bytes(many)).ok_or_else(short)?;
        let table = Table::decode(table, many, blocks.len() as u32)?;
        let read = |stretch: Range<u32>| {
            let (wanted, mut found) = (table.blocks(&stretch), Vec::new());
            let span = table.span(&wanted);
            let bytes = &blocks[span.start as usize..span.end as usize];
            let mut each = |block: Block<'_>| {
                let start = block.docs.partition_point(|doc| *doc < stretch.start);
                let end = start + block.docs[start..].partition_point(|doc| *doc < stretch.end);
                let rows = block.rows(start..end);
                rows.each(&mut |doc, _, _| found.push(doc - stretch.start));
                rows.each_with(7, &mut |number, _| assert!(number < rows.docs.len()));
            };
            table.each_block(wanted, bytes, &mut each).map(|()| found)
        };
        for start in [0, 630, 1_400] {
            read(start..start + 40)?;
        }
        read(0..u32::MAX)
    }
}
