//! In which texts a term stands, how often, and what comes after it there: as it lies on the disk.
//!
//! A list is cut into blocks of 128 texts. A table in front says with which text each block ends and where, so that a
//! question reads no more than the blocks that reach into what it may see.

use std::ops::Range;

use bitpacking::{BitPacker, BitPacker4x};

use crate::error::{Error, damaged};

const BLOCK: usize = BitPacker4x::BLOCK_LEN;
/// A row of the table: the block's last text, and where the block ends, counted from the end of the table.
const ROW: usize = 8;

/// How often a term stands in a text: at most 7 times in its title, 31 times in its body and 7 times in the text before
/// it. More often says hardly anything more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frequency(u16);

impl Frequency {
    pub(crate) fn new(title: usize, body: usize, neighbour: usize) -> Frequency {
        Frequency((title.min(7) << 8 | body.min(31) << 3 | neighbour.min(7)) as u16)
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

/// What follows a term: a short hash of the next one. Two terms that are mistaken for each other are one pair in
/// 65,000, and then too it is the same pair in every index.
pub(crate) type Link = u16;

pub(crate) fn link_to(term: &str) -> Link {
    let hash = hash(term.as_bytes());
    (hash >> 16 ^ hash) as Link
}

/// FNV-1a. It is written to disk, so it is ours to keep.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// One list, spread out. The links of the texts stand one behind the other, two bytes each.
#[derive(Default)]
pub(crate) struct Postings {
    pub docs: Vec<u32>,
    pub frequencies: Vec<Frequency>,
    link_counts: Vec<u8>,
    links: Vec<u8>,
}

impl Postings {
    pub(crate) fn clear(&mut self) {
        self.docs.clear();
        self.frequencies.clear();
        self.link_counts.clear();
        self.links.clear();
    }

    /// Texts come in order. Of more than 255 links of one text the rest is left out.
    pub(crate) fn push(&mut self, doc: u32, frequency: Frequency, links: &[u8]) {
        let links = &links[..links.len().min(2 * 255)];
        self.docs.push(doc);
        self.frequencies.push(frequency);
        self.link_counts.push((links.len() / 2) as u8);
        self.links.extend_from_slice(links);
    }

    pub(crate) fn each(&self, each: &mut impl FnMut(u32, Frequency, &[u8])) {
        let mut links = self.links.as_slice();
        for ((doc, frequency), count) in self.docs.iter().zip(&self.frequencies).zip(&self.link_counts) {
            let (own, rest) = links.split_at(2 * usize::from(*count));
            each(*doc, *frequency, own);
            links = rest;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let blocks = self.docs.len().div_ceil(BLOCK);
        let table_at = out.len();
        if blocks > 1 {
            out.resize(table_at + ROW * blocks, 0);
        }
        let blocks_at = out.len();
        let (mut before, mut link) = (0, 0);
        for (number, docs) in self.docs.chunks(BLOCK).enumerate() {
            let rows = number * BLOCK..number * BLOCK + docs.len();
            match docs.len() == BLOCK {
                true => {
                    let packer = BitPacker4x::new();
                    let bits = packer.num_bits_sorted(before, docs);
                    out.push(bits);
                    let packed_at = out.len();
                    out.resize(packed_at + BitPacker4x::compressed_block_size(bits), 0);
                    packer.compress_sorted(before, docs, &mut out[packed_at..], bits);
                }
                false => docs.iter().for_each(|doc| out.extend_from_slice(&doc.to_le_bytes())),
            }
            out.extend(self.frequencies[rows.clone()].iter().flat_map(|frequency| frequency.0.to_le_bytes()));
            out.extend_from_slice(&self.link_counts[rows.clone()]);
            let many: usize = self.link_counts[rows].iter().map(|count| 2 * usize::from(*count)).sum();
            out.extend_from_slice(&self.links[link..link + many]);
            link += many;
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

/// The table of a list: which block to read for which texts.
pub(crate) struct Table {
    /// The last text of each block and the end of the block.
    rows: Vec<(u32, u32)>,
    many: usize,
}

impl Table {
    /// How many bytes the table of a list takes.
    pub(crate) fn bytes(many: usize) -> usize {
        let blocks = many.div_ceil(BLOCK);
        if blocks > 1 { ROW * blocks } else { 0 }
    }

    /// `bytes` is the table, and `whole` how long the blocks are together. Each block ends behind the one before it and
    /// within `whole`, so whoever reads blocks can rely on their places.
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

    /// The blocks that may have a text of the stretch.
    pub(crate) fn blocks(&self, docs: &Range<u32>) -> Range<usize> {
        let first = self.rows.partition_point(|(last, _)| *last < docs.start);
        let end = self.rows.partition_point(|(last, _)| *last < docs.end.saturating_sub(1));
        first..(end + 1).min(self.rows.len()).max(first)
    }

    /// Where these blocks stand.
    pub(crate) fn span(&self, blocks: &Range<usize>) -> Range<u32> {
        let start = if blocks.start == 0 { 0 } else { self.rows[blocks.start - 1].1 };
        start..self.rows[..blocks.end].last().map_or(0, |row| row.1).max(start)
    }

    /// Spreads these blocks out, one after the other.
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
            match many == BLOCK {
                true => {
                    let (bits, rest) = own.split_first().ok_or_else(short)?;
                    if u32::from(*bits) > u32::BITS {
                        return Err(damaged("a list with texts of too many bits"));
                    }
                    let size = BitPacker4x::compressed_block_size(*bits);
                    let (packed, rest) = rest.split_at_checked(size).ok_or_else(short)?;
                    let before = if block == 0 { 0 } else { self.rows[block - 1].0 };
                    BitPacker4x::new().decompress_sorted(before, packed, &mut docs, *bits);
                    own = rest;
                }
                false => {
                    let (plain, rest) = own.split_at_checked(4 * many).ok_or_else(short)?;
                    for (doc, plain) in docs.iter_mut().zip(plain.as_chunks::<4>().0) {
                        *doc = u32::from_le_bytes(*plain);
                    }
                    own = rest;
                }
            }
            let (frequencies, rest) = own.split_at_checked(2 * many).ok_or_else(short)?;
            let frequencies = frequencies.as_chunks::<2>().0;
            let (link_counts, links) = rest.split_at_checked(many).ok_or_else(short)?;
            if 2 * sum(link_counts) > links.len() {
                return Err(short());
            }
            // Callers look for the texts of a stretch by halving.
            if !docs[..many].is_sorted() {
                return Err(damaged("the texts of a list are not in order"));
            }
            each(Block { docs: &docs[..many], frequencies, link_counts, links });
        }
        Ok(())
    }
}

/// Some texts of a list, in order.
pub(crate) struct Block<'a> {
    pub docs: &'a [u32],
    frequencies: &'a [[u8; 2]],
    link_counts: &'a [u8],
    links: &'a [u8],
}

impl Block<'_> {
    /// Hands some of the texts to `each`: number, how often, and the links if they are wanted.
    pub(crate) fn each(
        &self,
        rows: Range<usize>,
        with_links: bool,
        each: &mut impl FnMut(u32, Frequency, &[u8]),
    ) {
        let (docs, frequencies) = (&self.docs[rows.clone()], &self.frequencies[rows.clone()]);
        if !with_links {
            let frequencies = frequencies.iter().map(|two| Frequency(u16::from_le_bytes(*two)));
            docs.iter().zip(frequencies).for_each(|(doc, frequency)| each(*doc, frequency, &[]));
            return;
        }
        let mut links = &self.links[2 * sum(&self.link_counts[..rows.start])..];
        for ((doc, frequency), count) in docs.iter().zip(frequencies).zip(&self.link_counts[rows]) {
            let (own, rest) = links.split_at(2 * usize::from(*count));
            each(*doc, Frequency(u16::from_le_bytes(*frequency)), own);
            links = rest;
        }
    }
}

fn sum(counts: &[u8]) -> usize {
    counts.iter().map(|count| u32::from(*count)).sum::<u32>() as usize
}

/// How often a link stands among the links of a text.
pub(crate) fn count_links(links: &[u8], wanted: Link) -> usize {
    links.as_chunks::<2>().0.iter().filter(|link| u16::from_le_bytes(**link) == wanted).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_a_list_comes_back() {
        for many in [1, 127, 128, 129, 1000] {
            let mut list = Postings::default();
            for number in 0..many as u32 {
                let links: Vec<u8> = (0..2 * (number % 4)).map(|link| (number * 7 + link) as u8).collect();
                list.push(
                    number * 3,
                    Frequency::new(number as usize % 9, number as usize % 40, number as usize % 3),
                    &links,
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
                    let all = 0..block.docs.len();
                    block.each(all, true, &mut |doc, frequency, links| {
                        if stretch.contains(&doc) {
                            found.push((doc, frequency, links.len() / 2));
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

    /// Lists of one block, of several, and of several with a short one at the end, as they lie on the disk. A number in
    /// front says how many texts each has.
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

    /// Reads a list as a segment does: the whole of it, then single blocks with and without links.
    fn read_all(bytes: &[u8]) -> Result<Vec<u32>, Error> {
        let short = || damaged("no list");
        let (many, bytes) = bytes.split_first_chunk().ok_or_else(short)?;
        let many = usize::from(u16::from_le_bytes(*many));
        let (table, blocks) = bytes.split_at_checked(Table::bytes(many)).ok_or_else(short)?;
        let table = Table::decode(table, many, blocks.len() as u32)?;
        let read = |stretch: Range<u32>, with_links: bool| {
            let (wanted, mut found) = (table.blocks(&stretch), Vec::new());
            let span = table.span(&wanted);
            let bytes = &blocks[span.start as usize..span.end as usize];
            let mut each = |block: Block<'_>| {
                let start = block.docs.partition_point(|doc| *doc < stretch.start);
                let end = start + block.docs[start..].partition_point(|doc| *doc < stretch.end);
                block.each(start..end, with_links, &mut |doc, _, links| {
                    count_links(links, 7);
                    found.push(doc - stretch.start);
                });
            };
            table.each_block(wanted, bytes, &mut each).map(|()| found)
        };
        for start in [0, 630, 1_400] {
            read(start..start + 40, false)?;
        }
        read(0..u32::MAX, true)
    }
}
