//! The newest versions, in memory: what no segment has yet, and what a segment is written from.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::{Passage, Prepared};
use crate::embed::{Token, TokenCounts};
use crate::error::Error;
use crate::part::{Doc, Drift, Limits, Part, Place, Sight, Stretches, Term};
use crate::postings::{Frequency, Postings};
use crate::score::Population;
use crate::trigrams::trigram_bits;
use crate::vectors::{HighBytes, Quantised, exact_cosine};

/// A version as it comes from the log.
pub struct Version {
    pub group: u32,
    pub limits: Limits,
    /// Numbers by which texts that have one in common are found, whatever they mean to the caller.
    pub marks: Vec<u32>,
    pub prepared: Prepared,
}

/// When a version is still live.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Default)]
pub struct Memory {
    pub(crate) rows: Vec<Row>,
    numbers: FxHashMap<Arc<str>, u32>,
    pub(crate) terms: Vec<Held>,
    live: FxHashMap<u64, Doc>,
    high: HighBytes,
    vectors_missing: usize,
    /// Texts in older parts that ended here, and when.
    pub(crate) closings: Vec<(u64, u64)>,
    pub(crate) population: Population,
    pub(crate) counts: TokenCounts,
    /// When anything last began or ended.
    pub(crate) newest: u64,
    pub(crate) next_place: Place,
    /// How far the parts before it go, if it is to be written behind them.
    pub(crate) begun_at: u64,
}

pub(crate) struct Row {
    pub place: Place,
    pub key: u64,
    pub group: u32,
    pub from: u64,
    pub to: u64,
    pub length: u32,
    pub limits: Limits,
    pub marks: Vec<u32>,
    terms: Box<[u32]>,
    first_passage: u32,
    pub passages: Box<[Passage]>,
}

pub(crate) struct Held {
    pub text: Arc<str>,
    pub live: i32,
    trigrams: u64,
    pub postings: Postings,
}

impl Memory {
    /// Goes on where older parts end.
    pub(crate) fn after(next_place: Place) -> Memory {
        Memory { next_place, ..Memory::default() }
    }

    /// How much there is in it.
    pub fn changes(&self) -> usize {
        self.rows.len() + self.closings.len()
    }

    pub fn has_vectors(&self) -> bool {
        self.vectors_missing == 0
    }

    /// A version begins or ends, or one follows another, at `at`. `before` is the version that ends, if there is one.
    /// Gives true when that one is not here but in an older part.
    pub fn change(&mut self, at: u64, key: u64, before: Option<&Prepared>, after: Option<Version>) -> bool {
        self.newest = self.newest.max(at);
        let mut elsewhere = false;
        if let Some(doc) = self.live.remove(&key) {
            self.close(doc, at);
        } else if let Some(before) = before {
            self.take_back(before);
            self.closings.push((key, at));
            elsewhere = true;
        }
        if let Some(version) = after {
            self.add(at, key, version);
        }
        elsewhere
    }

    fn add(&mut self, from: u64, key: u64, version: Version) {
        let Version { group, limits, marks, prepared } = version;
        let place = self.next_place;
        self.next_place += 1;
        let doc = self.rows.len() as Doc;
        let mut terms = Vec::with_capacity(prepared.words.len());
        for word in &prepared.words {
            let number = self.number(&word.text);
            let held = &mut self.terms[number as usize];
            held.postings.push(doc, word.frequency, &word.links);
            held.live += 1;
            terms.push(number);
        }
        let first_passage = self.rows.last().map_or(0, |row| row.first_passage + row.passages.len() as u32);
        for passage in &prepared.passages {
            match &passage.vector {
                Some(vector) => self.high.push(vector),
                None => self.vectors_missing += 1,
            }
            self.counts.add(passage.tokens.iter().copied(), 1);
        }
        let length = prepared.length;
        self.population.add(length, 1);
        self.live.insert(key, doc);
        let (terms, passages) = (terms.into(), prepared.passages.into());
        self.rows.push(Row {
            place,
            key,
            group,
            from,
            to: NEVER,
            length,
            limits,
            marks,
            terms,
            first_passage,
            passages,
        });
    }

    fn close(&mut self, doc: Doc, to: u64) {
        let row = &mut self.rows[doc as usize];
        row.to = to;
        self.population.add(row.length, -1);
        row.terms.iter().for_each(|number| self.terms[*number as usize].live -= 1);
        row.passages.iter().for_each(|passage| self.counts.add(passage.tokens.iter().copied(), -1));
    }

    fn take_back(&mut self, before: &Prepared) {
        for word in &before.words {
            let number = self.number(&word.text);
            self.terms[number as usize].live -= 1;
        }
        self.population.add(before.length, -1);
        before.passages.iter().for_each(|passage| self.counts.add(passage.tokens.iter().copied(), -1));
    }

    /// Tokens and vector of a passage, counted through all texts.
    pub(crate) fn passage(&self, number: u32) -> &Passage {
        let row = &self.rows[self.rows.partition_point(|row| row.first_passage <= number) - 1];
        &row.passages[(number - row.first_passage) as usize]
    }

    fn rows_of(&self, within: &Stretches) -> impl Iterator<Item = &Row> {
        within.docs.iter().flat_map(|docs| &self.rows[docs.start as usize..docs.end as usize])
    }

    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.terms.len() as u32;
        let trigrams = trigram_bits(text);
        self.terms.push(Held { text: text.clone(), live: 0, trigrams, postings: Postings::default() });
        self.numbers.insert(text.clone(), number);
        number
    }
}

impl Part for Memory {
    fn stretches(&self, _: &Sight<'_>) -> Stretches {
        self.whole()
    }

    fn hidden(&self, sight: &Sight<'_>, within: &Stretches, hide: &mut dyn FnMut(u32)) -> Result<(), Error> {
        for (row, local) in self.rows_of(within).zip(0..) {
            let is_live = row.from <= sight.at && sight.at < row.to;
            if !is_live || !sight.groups.contains(&row.group) || !row.limits.allow(sight.valid_at) {
                hide(local);
            }
        }
        Ok(())
    }

    fn term(&self, text: &str) -> Option<Term> {
        let number = *self.numbers.get(text)?;
        let held = &self.terms[number as usize];
        Some(Term { live: held.live, at: u64::from(number) })
    }

    fn each_term(&self, each: &mut dyn FnMut(&str, u64)) {
        self.terms.iter().for_each(|held| each(&held.text, held.trigrams));
    }

    fn postings(
        &self,
        term: &Term,
        within: &Stretches,
        _: bool,
        each: &mut impl FnMut(u32, Doc, Frequency, &[u8]),
    ) -> Result<(), Error> {
        self.terms[term.at as usize].postings.each(&mut |doc, frequency, links| {
            if let Some(local) = within.local(doc) {
                each(local, doc, frequency, links);
            }
        });
        Ok(())
    }

    fn cosines(&self, within: &Stretches, question: &Quantised, out: &mut [f32]) -> Result<bool, Error> {
        // Those of all texts lie in a row, or they are of no use.
        if self.vectors_missing > 0 {
            return Ok(false);
        }
        for (row, out) in self.rows_of(within).zip(out) {
            let passages = row.first_passage as usize..row.first_passage as usize + row.passages.len();
            *out = passages.map(|passage| self.high.cosine(passage, question)).fold(-1.0, f32::max);
        }
        Ok(true)
    }

    fn exact_cosine(&self, doc: Doc, question: &[f32]) -> Result<f32, Error> {
        let vectors = self.rows[doc as usize].passages.iter().filter_map(|passage| passage.vector.as_ref());
        let cosines = vectors.map(|vector| exact_cosine(question, &vector.high, &vector.low, vector.scale));
        Ok(cosines.fold(-1.0, f32::max))
    }

    fn whole(&self) -> Stretches {
        Stretches::one(0..self.rows.len() as Doc)
    }

    fn length(&self, doc: Doc) -> u32 {
        self.rows[doc as usize].length
    }

    fn place(&self, doc: Doc) -> Place {
        self.rows[doc as usize].place
    }

    fn key(&self, doc: Doc) -> u64 {
        self.rows[doc as usize].key
    }

    fn drift(&self, at: u64) -> Result<Drift, Error> {
        let mut drift = Drift::default();
        for (row, doc) in self.rows.iter().zip(0..) {
            match row.to == NEVER {
                true if row.from > at => drift.came.push(doc),
                false if row.from <= at && at < row.to => drift.went.push(doc),
                _ => {}
            }
        }
        Ok(drift)
    }

    fn tokens(&self, doc: Doc, each: &mut dyn FnMut(&[Token])) -> Result<(), Error> {
        self.rows[doc as usize].passages.iter().for_each(|passage| each(&passage.tokens));
        Ok(())
    }
}
