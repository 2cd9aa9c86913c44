//! Writing a segment, from the tail in memory or from several segments that are merged.

use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashSet;

use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::memory::{Memory, NEVER};
use crate::pages::PagesWriter;
use crate::part::{Doc, Limits, Part, Place, Term};
use crate::postings::{Frequency, Postings};
use crate::trigrams::trigram_bits;
use crate::vectors::QuantisedVector;

use super::format::{self, DictionaryEntry, SECTIONS, Sections, Totals};
use super::marks::Marks;
use super::vectors;

/// A source of a new segment: the tail, or an older segment. Several sources are given oldest first.
pub(crate) trait Source {
    fn rows(&self) -> Result<Vec<SegmentRow>, Error>;
    /// The terms, ordered by text.
    fn terms<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, Term)> + 'a>;
    fn postings(&self, term: &Term, out: &mut Postings) -> Result<(), Error>;
    fn has_vectors(&self) -> bool;
    fn vector(&self, passage: u32) -> Result<QuantisedVector, Error>;
    /// Marks and documents, in any order.
    fn marks(&self) -> Result<Vec<(u32, Doc)>, Error>;
    /// Keys of texts in still older parts that ended, with the transaction at which each ended. They can't be
    /// applied when the source is written, because the older files never change.
    fn closings(&self) -> Result<Vec<(u64, u64)>, Error>;
}

pub(crate) struct SegmentRow {
    pub place: Place,
    pub key: u64,
    pub group: u32,
    pub from: u64,
    pub to: u64,
    pub length: u32,
    pub limits: Limits,
    pub passages: Range<u32>,
}

/// The documents of all sources in their new order.
struct Order {
    /// The source and the row of each document.
    docs: Vec<(u32, SegmentRow)>,
    /// For each source, the new number of each of its documents.
    numbers: Vec<Vec<Doc>>,
    live: usize,
}

impl Order {
    /// Orders the documents of the sources. A document that ended after the transaction `last` counts as live
    /// here, because a closing in a later segment ends it.
    fn new(sources: &[&dyn Source], last: u64) -> Result<Order, Error> {
        let mut docs: Vec<(u32, Doc, SegmentRow)> = Vec::new();
        let mut numbers = Vec::new();
        for (source, number) in sources.iter().zip(0..) {
            let mut rows = source.rows()?;
            rows.iter_mut().filter(|row| row.to > last).for_each(|row| row.to = NEVER);
            numbers.push(vec![0; rows.len()]);
            docs.extend(rows.into_iter().zip(0..).map(|(row, doc)| (number, doc, row)));
        }
        docs.sort_unstable_by_key(|(_, _, row)| (row.to != NEVER, row.group, row.place));
        for ((source, doc, _), new) in docs.iter().zip(0..) {
            numbers[*source as usize][*doc as usize] = new;
        }
        let live = docs.partition_point(|(_, _, row)| row.to == NEVER);
        Ok(Order { docs: docs.into_iter().map(|(source, _, row)| (source, row)).collect(), numbers, live })
    }

    fn rows(&self) -> impl Iterator<Item = &SegmentRow> {
        self.docs.iter().map(|(_, row)| row)
    }

    /// The source and the number of every passage.
    fn passages(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        self.docs.iter().flat_map(|(source, row)| row.passages.clone().map(|passage| (*source, passage)))
    }
}

/// The transactions that a segment covers.
pub(crate) struct Span {
    pub first: u64,
    pub last: u64,
}

/// Writes the sources as one segment. Both its files are complete on the disk when this returns.
pub(crate) fn write(
    dir: &Path,
    name: &str,
    embedder: &Embedder,
    sources: &[&dyn Source],
    span: Span,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let order = Order::new(sources, span.last)?;
    let mut file = File { out: PagesWriter::create(&dir.join(format!("{name}.words")))?, at: vec![0] };
    let (dictionary, terms) = write_lists(&mut file, sources, &order, stop)?;
    file.section(&dictionary)?;
    file.numbers(format::slots(&dictionary, terms))?;
    file.numbers(groups(&order).into_iter().flatten())?;
    file.numbers(order.rows().map(|row| row.place))?;
    file.numbers(order.rows().map(|row| row.length))?;
    let mut passages = 0;
    let mut first_passages = vec![0];
    for row in order.rows() {
        passages += row.passages.len() as u32;
        first_passages.push(passages);
    }
    file.numbers(first_passages)?;
    file.longs(order.rows().map(|row| row.key))?;
    file.longs(order.rows().flat_map(|row| [row.from, row.to]))?;
    let mut by_key: Vec<(u64, Doc)> =
        order.rows().take(order.live).zip(0..).map(|(row, doc)| (row.key, doc)).collect();
    by_key.sort_unstable();
    let mut rows = Vec::with_capacity(12 * by_key.len());
    for (key, doc) in by_key {
        rows.extend_from_slice(&key.to_le_bytes());
        rows.extend_from_slice(&doc.to_le_bytes());
    }
    file.section(&rows)?;
    let mut limits = Vec::new();
    for (row, doc) in order.rows().zip(0..).filter(|(row, _)| row.limits != Limits::NONE) {
        format::encode_limits(doc, &row.limits, &mut limits);
    }
    file.section(&limits)?;
    file.longs(closings(sources, &order)?.into_iter().flat_map(|(key, to)| [key, to]))?;
    let marks = Marks::new(marks(sources, &order)?);
    file.section(&marks.pairs())?;
    file.numbers(marks.starts())?;
    file.section(&marks.filter())?;
    let totals = Totals { docs: order.docs.len() as u32, passages, first: span.first, last: span.last };
    file.section(&totals.encode())?;
    file.finish()?;
    if sources.iter().all(|source| source.has_vectors()) {
        let path = dir.join(vectors::file_name(name, embedder.identity()));
        vectors::write(&path, embedder.dim(), order.passages(), &|source, passage| {
            sources[source as usize].vector(passage)
        })?;
    }
    Ok(())
}

/// A segment file that is being written, and the offsets where its sections end.
struct File {
    out: PagesWriter,
    at: Vec<u64>,
}

impl File {
    fn end_section(&mut self) {
        self.at.push(self.out.at());
    }

    fn section(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write(bytes)?;
        self.end_section();
        Ok(())
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        self.section(&numbers.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
    }

    fn longs(&mut self, numbers: impl IntoIterator<Item = u64>) -> Result<(), Error> {
        self.section(&numbers.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }

    fn finish(mut self) -> Result<(), Error> {
        let mut sections = Sections([0; SECTIONS + 1]);
        sections.0.copy_from_slice(&self.at);
        self.out.write(&sections.encode())?;
        Ok(self.out.finish()?)
    }
}

/// The rows of the section `Groups`: live or not, group, first document, end of its documents.
fn groups(order: &Order) -> Vec<[u32; 4]> {
    let mut groups: Vec<[u32; 4]> = Vec::new();
    for (row, doc) in order.rows().zip(0..) {
        let (is_live, group) = (u32::from(row.to == NEVER), row.group);
        match groups.last_mut() {
            Some(last) if last[0] == is_live && last[1] == group => last[3] = doc + 1,
            _ => groups.push([is_live, group, doc, doc + 1]),
        }
    }
    groups
}

/// Writes the posting lists of all terms to the file. Returns the dictionary, which contains the offset of
/// each list, and the number of terms.
fn write_lists(
    file: &mut File,
    sources: &[&dyn Source],
    order: &Order,
    stop: &AtomicBool,
) -> Result<(Vec<u8>, usize), Error> {
    let mut heads: Vec<Peekable<_>> = sources.iter().map(|source| source.terms().peekable()).collect();
    let (mut dictionary, mut terms) = (Vec::new(), 0);
    let (mut list, mut own, mut bytes) = (Postings::default(), Postings::default(), Vec::new());
    // The new number of the document, the frequency, and the range of its bigrams in `bigrams_of_all`.
    let mut merged: Vec<(Doc, Frequency, Range<usize>)> = Vec::new();
    let mut bigrams_of_all: Vec<u8> = Vec::new();
    while let Some(text) = heads.iter_mut().filter_map(|head| head.peek().map(|(text, _)| *text)).min() {
        if stop.load(Ordering::Acquire) {
            return Err(Error::Stopped);
        }
        merged.clear();
        bigrams_of_all.clear();
        for ((head, source), numbers) in heads.iter_mut().zip(sources).zip(&order.numbers) {
            let Some((_, term)) = head.next_if(|(next, _)| *next == text) else { continue };
            own.clear();
            source.postings(&term, &mut own)?;
            own.all().each(&mut |doc, frequency, bigrams| {
                let from = bigrams_of_all.len();
                bigrams_of_all.extend_from_slice(bigrams);
                merged.push((numbers[doc as usize], frequency, from..bigrams_of_all.len()));
            });
        }
        if merged.is_empty() {
            continue;
        }
        merged.sort_unstable_by_key(|(doc, _, _)| *doc);
        list.clear();
        for (doc, frequency, bigrams) in &merged {
            list.push(*doc, *frequency, &bigrams_of_all[bigrams.clone()]);
        }
        bytes.clear();
        list.encode(&mut bytes);
        terms += 1;
        let (many, size, offset) = (merged.len() as u32, bytes.len() as u32, file.out.at());
        DictionaryEntry { text: text.as_bytes(), many, offset, size, trigrams: trigram_bits(text) }
            .encode(&mut dictionary);
        file.out.write(&bytes)?;
    }
    file.end_section();
    Ok((dictionary, terms))
}

/// The marks of the live documents, by their new numbers.
fn marks(sources: &[&dyn Source], order: &Order) -> Result<Vec<(u32, Doc)>, Error> {
    let mut all = Vec::new();
    for (source, numbers) in sources.iter().zip(&order.numbers) {
        let own = source.marks()?.into_iter().map(|(mark, doc)| (mark, numbers[doc as usize]));
        all.extend(own.filter(|(_, doc)| (*doc as usize) < order.live));
    }
    Ok(all)
}

/// The closings of texts that are in none of the sources: they must reach a still older segment.
fn closings(sources: &[&dyn Source], order: &Order) -> Result<Vec<(u64, u64)>, Error> {
    // A key ends at most once at a transaction, so the pair identifies the closings that were applied to a
    // source.
    let ended: FxHashSet<(u64, u64)> = order.rows().skip(order.live).map(|row| (row.key, row.to)).collect();
    let mut kept = Vec::new();
    for source in sources {
        kept.extend(source.closings()?.into_iter().filter(|closing| !ended.contains(closing)));
    }
    Ok(kept)
}

impl Source for Memory {
    fn rows(&self) -> Result<Vec<SegmentRow>, Error> {
        let mut first = 0;
        let row = |row: &crate::memory::TailRow| {
            let passages = first..first + row.passages.len() as u32;
            first = passages.end;
            let (place, key, group, from, to) = (row.place, row.key, row.group, row.from, row.to);
            SegmentRow { place, key, group, from, to, length: row.length, limits: row.limits, passages }
        };
        Ok(self.rows.iter().map(row).collect())
    }

    fn terms<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, Term)> + 'a> {
        let mut texts: Vec<&str> = self.terms.iter().map(|held| &*held.text).collect();
        texts.sort_unstable();
        Box::new(texts.into_iter().filter_map(|text| Some((text, self.term(text)?))))
    }

    fn postings(&self, term: &Term, out: &mut Postings) -> Result<(), Error> {
        Part::postings(self, term, &self.whole(), &mut |run| {
            run.postings.each(&mut |doc, frequency, bigrams| out.push(doc, frequency, bigrams));
        })
    }

    fn has_vectors(&self) -> bool {
        Memory::has_vectors(self)
    }

    fn vector(&self, passage: u32) -> Result<QuantisedVector, Error> {
        Memory::vector(self, passage).cloned().ok_or_else(|| damaged("vectors are missing"))
    }

    fn marks(&self) -> Result<Vec<(u32, Doc)>, Error> {
        let rows = self.rows.iter().zip(0..);
        Ok(rows.flat_map(|(row, doc)| row.marks.iter().map(move |mark| (*mark, doc))).collect())
    }

    fn closings(&self) -> Result<Vec<(u64, u64)>, Error> {
        Ok(self.closings.clone())
    }
}
