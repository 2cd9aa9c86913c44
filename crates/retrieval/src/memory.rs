//! The tail: the newest versions, which are in no segment yet, in memory. A new segment is written from a
//! tail.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::codes::{Codes, QuestionCode};
use crate::document::Prepared;
use crate::error::Error;
use crate::part::{Doc, DocRanges, Limits, Part, Place, Run, Sight, Term, each_run};
use crate::postings::Postings;
use crate::trigrams::trigram_bits;
use crate::vectors::QuantisedVector;

/// A version as it comes from the log.
pub struct Version {
    pub group: u32,
    pub limits: Limits,
    /// Numbers by which a caller finds texts that share some of them; the index does not interpret them.
    pub marks: Vec<u32>,
    pub prepared: Prepared,
}

/// The end of a version that is still live.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Default)]
pub struct Memory {
    pub(crate) rows: Vec<TailRow>,
    numbers: FxHashMap<Arc<str>, u32>,
    pub(crate) terms: Vec<TailTerm>,
    live: FxHashMap<u64, Doc>,
    codes: Codes,
    vectors_missing: usize,
    /// Keys of texts in older parts that ended during the transactions of this tail, with the transaction at
    /// which each ended.
    pub(crate) closings: Vec<(u64, u64)>,
    pub(crate) next_place: Place,
    /// The last transaction of the segments that this tail follows, if it is to be written as the next
    /// segment.
    pub(crate) begun_at: u64,
}

pub(crate) struct TailRow {
    pub place: Place,
    pub key: u64,
    pub group: u32,
    pub from: u64,
    pub to: u64,
    pub length: u32,
    pub limits: Limits,
    pub marks: Vec<u32>,
    first_passage: u32,
    /// One vector for each passage; `None` until a slow embedder has made it.
    pub passages: Box<[Option<QuantisedVector>]>,
}

pub(crate) struct TailTerm {
    pub text: Arc<str>,
    trigrams: u64,
    pub postings: Postings,
}

impl Memory {
    /// An empty tail that follows older parts.
    pub(crate) fn after(next_place: Place) -> Memory {
        Memory { next_place, ..Memory::default() }
    }

    /// The number of changes: versions that began, and closings of versions in older parts.
    pub fn changes(&self) -> usize {
        self.rows.len() + self.closings.len()
    }

    pub fn has_vectors(&self) -> bool {
        self.vectors_missing == 0
    }

    /// Applies one change of the text `key` at transaction `at`. `ends` says that a version was live before; `after` is
    /// the version that is live from now on. Returns true when the version that ends is in an older part.
    pub fn change(&mut self, at: u64, key: u64, ends: bool, after: Option<Version>) -> bool {
        let is_elsewhere = match self.live.remove(&key) {
            Some(doc) => {
                self.rows[doc as usize].to = at;
                false
            }
            None => ends,
        };
        if is_elsewhere {
            self.closings.push((key, at));
        }
        if let Some(version) = after {
            self.add(at, key, version);
        }
        is_elsewhere
    }

    fn add(&mut self, from: u64, key: u64, version: Version) {
        let Version { group, limits, marks, prepared } = version;
        let place = self.next_place;
        self.next_place += 1;
        let doc = self.rows.len() as Doc;
        for word in &prepared.words {
            let number = self.number(&word.text);
            self.terms[number as usize].postings.push(doc, word.frequency, &word.bigrams);
        }
        let first_passage = self.rows.last().map_or(0, |row| row.first_passage + row.passages.len() as u32);
        for vector in &prepared.vectors {
            match vector {
                Some(vector) => self.codes.push(vector),
                None => self.vectors_missing += 1,
            }
        }
        self.live.insert(key, doc);
        let (length, passages) = (prepared.length, prepared.vectors.into());
        self.rows.push(TailRow {
            place,
            key,
            group,
            from,
            to: NEVER,
            length,
            limits,
            marks,
            first_passage,
            passages,
        });
    }

    /// The vector of a passage, by its number among the passages of all documents.
    pub(crate) fn vector(&self, number: u32) -> Option<&QuantisedVector> {
        let row = &self.rows[self.rows.partition_point(|row| row.first_passage <= number) - 1];
        row.passages[(number - row.first_passage) as usize].as_ref()
    }

    /// The number of live versions.
    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    fn rows_of(&self, within: &DocRanges) -> impl Iterator<Item = &TailRow> {
        within.docs.iter().flat_map(|docs| &self.rows[docs.start as usize..docs.end as usize])
    }

    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.terms.len() as u32;
        let trigrams = trigram_bits(text);
        self.terms.push(TailTerm { text: text.clone(), trigrams, postings: Postings::default() });
        self.numbers.insert(text.clone(), number);
        number
    }
}

impl Part for Memory {
    fn ranges(&self, _: &Sight<'_>) -> DocRanges {
        self.whole()
    }

    fn absent(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32)) -> Result<(), Error> {
        for (row, local) in self.rows_of(within).zip(0..) {
            let is_live = row.from <= sight.at && sight.at < row.to;
            if !is_live || !sight.groups.contains(&row.group) {
                each(local);
            }
        }
        Ok(())
    }

    fn limited(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32)) {
        let rows = self.rows_of(within).zip(0..);
        rows.filter(|(row, _)| !row.limits.allow(sight.valid_at)).for_each(|(_, local)| each(local));
    }

    fn term(&self, text: &str) -> Option<Term> {
        Some(Term(u64::from(*self.numbers.get(text)?)))
    }

    fn each_term(&self, each: &mut dyn FnMut(&str, u64)) {
        self.terms.iter().for_each(|held| each(&held.text, held.trigrams));
    }

    fn postings_max(&self, term: &Term) -> usize {
        self.terms[term.0 as usize].postings.all().docs.len()
    }

    fn postings(&self, term: &Term, within: &DocRanges, each: &mut impl FnMut(Run<'_>)) -> Result<(), Error> {
        each_run(self.terms[term.0 as usize].postings.all(), &mut within.iter().peekable(), each);
        Ok(())
    }

    fn rough(&self, within: &DocRanges, question: &QuestionCode, out: &mut [f32]) -> Result<bool, Error> {
        // `codes` has no gaps, so passage numbers are positions in it only if no vector is missing.
        if self.vectors_missing > 0 {
            return Ok(false);
        }
        let mut of_passages = Vec::new();
        for (row, out) in self.rows_of(within).zip(out) {
            of_passages.clear();
            of_passages.resize(row.passages.len(), 0.0);
            self.codes.rough(row.first_passage as usize, question, &mut of_passages);
            *out = of_passages.iter().copied().fold(-1.0, f32::max);
        }
        Ok(true)
    }

    fn fine(&self, docs: &[Doc], question: &QuestionCode, out: &mut [f32]) -> Result<(), Error> {
        let rows = docs.iter().map(|doc| &self.rows[*doc as usize]);
        let passages = rows.map(|row| row.first_passage..row.first_passage + row.passages.len() as u32);
        self.codes.fine(&passages.collect::<Vec<_>>(), question, out);
        Ok(())
    }

    fn cosines(&self, docs: &[Doc], question: &[f32], out: &mut [f32]) -> Result<(), Error> {
        for (doc, out) in docs.iter().zip(out) {
            let vectors = self.rows[*doc as usize].passages.iter().flatten();
            *out = vectors.map(|vector| vector.cosine(question)).fold(-1.0, f32::max);
        }
        Ok(())
    }

    fn whole(&self) -> DocRanges {
        DocRanges::one(0..self.rows.len() as Doc)
    }

    fn length(&self, doc: Doc) -> u32 {
        self.rows[doc as usize].length
    }

    fn lengths(&self, within: &DocRanges) -> i64 {
        self.rows_of(within).map(|row| i64::from(row.length)).sum()
    }

    fn place(&self, doc: Doc) -> Place {
        self.rows[doc as usize].place
    }

    fn key(&self, doc: Doc) -> u64 {
        self.rows[doc as usize].key
    }
}
