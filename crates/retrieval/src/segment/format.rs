//! The layout of a segment file: sections one after the other, and at the end a table with the offsets where
//! they begin. `docs/index-format.md` has a table of the sections.

use std::ops::Range;

use crate::error::{Error, damaged};
use crate::pages::Pages;
use crate::part::{Doc, Limits};
use crate::postings::hash;

#[derive(Clone, Copy)]
pub(super) enum Section {
    Postings,
    Dictionary,
    Slots,
    Groups,
    Places,
    Lengths,
    FirstPassages,
    Keys,
    Times,
    ByKey,
    Limits,
    Closings,
    Marks,
    MarkStarts,
    MarkFilter,
    Totals,
}

pub(super) const SECTIONS: usize = Section::Totals as usize + 1;

/// The offset of the beginning of each section; the last number is the end of the last section.
pub(super) struct Sections(pub [u64; SECTIONS + 1]);

impl Sections {
    /// The bytes of a section, which ends where the next one begins.
    pub(super) fn range(&self, section: Section) -> Range<u64> {
        self.0[section as usize]..self.0[section as usize + 1]
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|at| at.to_le_bytes()).collect()
    }

    pub(super) fn read(file: &Pages) -> Result<Sections, Error> {
        let bytes = 8 * (SECTIONS as u64 + 1);
        let from = file.len().checked_sub(bytes).ok_or_else(|| damaged("a segment without sections"))?;
        let mut sections = Sections([0; SECTIONS + 1]);
        file.read(from..file.len(), |bytes| {
            for (at, eight) in sections.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *at = u64::from_le_bytes(*eight);
            }
        })?;
        Ok(sections)
    }
}

pub(crate) struct Totals {
    pub docs: u32,
    pub passages: u32,
    /// The first and the last transaction that the segment covers.
    pub first: u64,
    pub last: u64,
}

impl Totals {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Totals { docs, passages, first, last } = self;
        let mut bytes = Vec::new();
        [docs, passages].into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        [first, last].into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Totals, Error> {
        if bytes.len() != 24 {
            return Err(damaged("the totals of a segment are not all there"));
        }
        let short = numbers(&bytes[..8]);
        Ok(Totals {
            docs: short[0],
            passages: short[1],
            first: long(&bytes[8..16]),
            last: long(&bytes[16..]),
        })
    }
}

/// A term in the dictionary: the length of its text, the text, and the place of its posting list.
pub(super) struct DictionaryEntry<'a> {
    pub text: &'a [u8],
    /// The number of postings of all versions.
    pub many: u32,
    /// The offset of the posting list from the beginning of the section.
    pub offset: u64,
    pub size: u32,
    pub trigrams: u64,
}

const LENGTH: usize = 2;
const FIXED: usize = 24;

impl<'a> DictionaryEntry<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Option<DictionaryEntry<'a>> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let fixed = rest.first_chunk::<FIXED>()?;
        let short = |at: usize| fixed[at..].first_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
        Some(DictionaryEntry {
            text,
            many: short(0),
            size: short(4),
            offset: long(&fixed[8..16]),
            trigrams: long(&fixed[16..24]),
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.text.len() as u16).to_le_bytes());
        out.extend_from_slice(self.text);
        for short in [self.many, self.size] {
            out.extend_from_slice(&short.to_le_bytes());
        }
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.trigrams.to_le_bytes());
    }

    pub(super) fn text(&self) -> &'a str {
        std::str::from_utf8(self.text).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> usize {
        LENGTH + self.text.len() + FIXED
    }
}

/// The first slot to check for a term in a hash table of `slots` slots, which is a power of two; `None` if
/// there are no slots.
pub(super) fn slot(text: &[u8], slots: usize) -> Option<usize> {
    // The multiplication spreads the bits: the high bits of a product depend on all bits of its factors.
    let mixed = hash(text).wrapping_mul(0x9e37_79b9);
    (slots > 0).then(|| ((u64::from(mixed) * slots as u64) >> 32) as usize)
}

/// The hash table of a dictionary, with linear probing: each slot has the offset of a term in the dictionary plus 1, or 0
/// if it is free. At least half of the slots are free.
///
/// Example: a dictionary of three terms has 8 slots. If `slot("deploy")` is 5 and slot 5 is taken, "deploy" goes to slot 6.
pub(super) fn slots(dictionary: &[u8], terms: usize) -> Vec<u32> {
    let mut slots = vec![0; if terms == 0 { 0 } else { (2 * terms).next_power_of_two() }];
    let mut at = 0;
    while let Some(entry) = DictionaryEntry::decode(&dictionary[at..]) {
        if let Some(mut slot) = slot(entry.text, slots.len()) {
            while slots[slot] != 0 {
                slot = (slot + 1) % slots.len();
            }
            slots[slot] = at as u32 + 1;
        }
        at += entry.bytes();
    }
    slots
}

const LIMITS_ROW: usize = 24;

pub(super) fn encode_limits(doc: Doc, limits: &Limits, out: &mut Vec<u8>) {
    out.extend_from_slice(&doc.to_le_bytes());
    out.extend_from_slice(&u32::from(limits.suppressed).to_le_bytes());
    out.extend_from_slice(&limits.valid_from.to_le_bytes());
    out.extend_from_slice(&limits.valid_to.to_le_bytes());
}

pub(super) fn decode_limits(bytes: &[u8]) -> Result<Vec<(Doc, Limits)>, Error> {
    if !bytes.len().is_multiple_of(LIMITS_ROW) {
        return Err(damaged("the limits of a segment are not all there"));
    }
    let row = |row: &[u8; LIMITS_ROW]| {
        let short = numbers(&row[..8]);
        let (valid_from, valid_to) = (long(&row[8..16]) as i64, long(&row[16..24]) as i64);
        (short[0], Limits { suppressed: short[1] != 0, valid_from, valid_to })
    };
    Ok(bytes.as_chunks::<LIMITS_ROW>().0.iter().map(row).collect())
}

pub(super) fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
}

pub(super) fn longs(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect()
}

pub(super) fn long_pairs(bytes: &[u8]) -> Vec<(u64, u64)> {
    bytes.as_chunks::<16>().0.iter().map(|row| (long(&row[..8]), long(&row[8..]))).collect()
}

/// The number in the first four bytes.
pub(super) fn float(bytes: &[u8]) -> f32 {
    bytes.first_chunk::<4>().map_or(0.0, |four| f32::from_le_bytes(*four))
}

pub(super) fn long(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |eight| u64::from_le_bytes(*eight))
}
