//! Segments: documents on the disk, in files that never change. The documents that were live when the segment
//! was written come first, ordered by group; then those that had ended, also ordered by group. So the
//! documents in the sight of a question are a few ranges, and the others are not read.
//!
//! Example: a segment has the live documents 0..3 of group 1 and 3..9 of group 4, and the ended documents 9..11 of group
//! 1. A question for group 1 about the present reads the range 0..3; one about an earlier transaction reads 0..3 and 9..11.
//!
//! The terms, twenty bytes of each document and the codes of the live ones are in memory, because every question needs
//! them. The rest is read when a question needs it.

mod embed;
mod format;
mod marks;
mod vectors;
mod write;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::codes::QuestionCode;
use crate::error::{Error, damaged};
use crate::pages::Pages;
use crate::part::{Doc, DocRanges, Limits, Part, Place, Run, Sight, Term, each_run};
use crate::postings::{Block, Postings, Table};
use crate::vectors::QuantisedVector;

pub use embed::TextLookup;
use format::{DictionaryEntry, Section, Totals};
use marks::MarkLookup;
pub(crate) use vectors::{Vectors, file_name as vectors_file};
pub(crate) use write::{Source, Span, write};

/// Posting lists up to this size are read as a whole.
const SMALL_LIST: u32 = 16 * 1024;
/// How many documents there are between two sums of lengths.
const LENGTHS_SUMMED: u32 = 1024;
/// Blocks that are no farther apart than this are read together.
const GAP: u32 = 4 * 1024;

pub(crate) struct Segment {
    pub(crate) name: String,
    file: Pages,
    sections: format::Sections,
    pub(crate) totals: Totals,
    groups: Vec<Group>,
    places: Vec<Place>,
    keys: Vec<u64>,
    lengths: Vec<u32>,
    /// The sums of the lengths of all documents before the first, the 1,024th and so on, so that the mean length in sight
    /// takes no look at each document.
    length_sums: Vec<i64>,
    /// The number of the first passage of each document, and at the end the number of passages.
    first_passages: Vec<u32>,
    limits: Vec<(Doc, Limits)>,
    /// Every term in order, as `DictionaryEntry` decodes it.
    dictionary: Vec<u8>,
    /// The hash table of the dictionary (`format::slots`).
    slots: Vec<u32>,
    /// The transactions at which each document began and ended; read by the first question about an earlier
    /// transaction.
    times: OnceLock<Vec<(u64, u64)>>,
    pub(crate) vectors: OnceLock<Vectors>,
    /// The lookup tables of the marks; read by the first lookup.
    marked: OnceLock<MarkLookup>,
}

/// The documents of a group.
#[derive(Clone, Debug)]
struct Group {
    is_live: bool,
    group: u32,
    docs: Range<Doc>,
}

impl Segment {
    fn group_of(&self, doc: Doc) -> u32 {
        let after = self.groups.partition_point(|group| group.docs.start <= doc);
        self.groups[..after].last().map_or(u32::MAX, |group| group.group)
    }

    pub(crate) fn open(dir: &Path, name: &str, identity: &str) -> Result<Segment, Error> {
        let file = Pages::open(&dir.join(format!("{name}.words")))?;
        let sections = format::Sections::read(&file)?;
        let read = |section| file.read(sections.range(section), <[u8]>::to_vec);
        let numbers = |section| file.read(sections.range(section), format::numbers);
        let totals = Totals::decode(&read(Section::Totals)?)?;
        let groups = numbers(Section::Groups)?.as_chunks::<4>().0.iter().map(Group::decode).collect();
        let limits = format::decode_limits(&read(Section::Limits)?)?;
        let lengths: Vec<u32> = numbers(Section::Lengths)?;
        let segment = Segment {
            name: name.to_owned(),
            groups,
            places: numbers(Section::Places)?,
            keys: file.read(sections.range(Section::Keys), format::longs)?,
            length_sums: length_sums(&lengths),
            lengths,
            first_passages: numbers(Section::FirstPassages)?,
            limits,
            dictionary: read(Section::Dictionary)?,
            slots: numbers(Section::Slots)?,
            times: OnceLock::new(),
            vectors: OnceLock::new(),
            marked: OnceLock::new(),
            totals,
            sections,
            file,
        };
        let docs = segment.totals.docs as usize;
        if segment.places.len() != docs
            || segment.keys.len() != docs
            || segment.lengths.len() != docs
            || segment.first_passages.len() != docs + 1
        {
            return Err(damaged("the columns of a segment are not equally long"));
        }
        segment.attach_vectors(dir, identity)?;
        Ok(segment)
    }

    /// Opens the vectors of this model, if the file exists.
    pub(crate) fn attach_vectors(&self, dir: &Path, identity: &str) -> Result<(), Error> {
        let path = dir.join(vectors::file_name(&self.name, identity));
        if self.vectors.get().is_none() && path.exists() {
            let vectors = Vectors::open(&path)?;
            if vectors.many() != self.totals.passages {
                return Err(damaged("vectors that belong to another segment"));
            }
            let _ = self.vectors.set(vectors);
        }
        Ok(())
    }

    /// Loads the codes of the documents that were live when the segment was written. Ended versions are not
    /// loaded, so memory grows with the present content and not with the history.
    pub(crate) fn load_vectors(&self, stop: &AtomicBool) -> Result<(), Error> {
        let live = self.groups.iter().filter(|group| group.is_live).map(|group| group.docs.end).max();
        let passages = self.first_passages[live.unwrap_or(0) as usize];
        self.vectors.get().map_or(Ok(()), |vectors| vectors.load(passages, stop))
    }

    /// Keys of texts in older segments that ended while this segment was the tail, with the transaction at
    /// which each ended.
    pub(crate) fn closings(&self) -> Result<Vec<(u64, u64)>, Error> {
        self.file.read(self.sections.range(Section::Closings), format::long_pairs)
    }

    /// The document with this key that was live when the segment was written.
    fn find(&self, key: u64) -> Result<Option<Doc>, Error> {
        const ROW: u64 = 12;
        let rows = self.sections.range(Section::ByKey);
        let row = |at: u64| {
            let from = rows.start + at * ROW;
            self.file.read(from..from + ROW, |row| (format::long(&row[..8]), format::numbers(&row[8..])[0]))
        };
        let (mut low, mut high) = (0, (rows.end - rows.start) / ROW);
        while low < high {
            let middle = (low + high) / 2;
            let (found, doc) = row(middle)?;
            match found.cmp(&key) {
                std::cmp::Ordering::Equal => return Ok(Some(doc)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn times(&self) -> Result<&[(u64, u64)], Error> {
        if let Some(times) = self.times.get() {
            return Ok(times);
        }
        let times = self.file.read(self.sections.range(Section::Times), format::long_pairs)?;
        if times.len() != self.places.len() {
            return Err(damaged("the times of a segment are not all there"));
        }
        Ok(self.times.get_or_init(|| times))
    }

    fn entry_at(&self, at: usize) -> Option<DictionaryEntry<'_>> {
        DictionaryEntry::decode(self.dictionary.get(at..)?)
    }

    fn passages(&self, docs: &Range<Doc>) -> Range<u32> {
        self.first_passages[docs.start as usize]..self.first_passages[docs.end as usize]
    }

    /// The passages of each of these documents.
    fn passages_of(&self, docs: &[Doc]) -> Vec<Range<u32>> {
        docs.iter().map(|doc| self.passages(&(*doc..doc + 1))).collect()
    }

    fn vectors(&self) -> Result<&Vectors, Error> {
        self.vectors.get().ok_or_else(|| damaged("vectors are missing"))
    }
}

impl Group {
    fn decode(row: &[u32; 4]) -> Group {
        Group { is_live: row[0] != 0, group: row[1], docs: row[2]..row[3] }
    }

    /// The order of groups in the file: the live ones first.
    fn key(&self) -> (bool, u32) {
        (!self.is_live, self.group)
    }
}

/// A segment, and the documents of it that have ended since it was written.
pub(crate) struct OpenSegment {
    pub segment: Arc<Segment>,
    /// Sorted by document, each with the transaction at which it ended.
    ended: Vec<(Doc, u64)>,
}

impl OpenSegment {
    pub(crate) fn new(segment: Arc<Segment>) -> OpenSegment {
        OpenSegment { segment, ended: Vec::new() }
    }

    /// Ends the live document with this key, if this segment has it.
    pub(crate) fn end(&mut self, key: u64, to: u64) -> Result<bool, Error> {
        let Some(doc) = self.segment.find(key)? else { return Ok(false) };
        match self.ended.binary_search_by_key(&doc, |(doc, _)| *doc) {
            // The document of this segment had ended already, so the one that ends now is in an older part.
            Ok(_) => Ok(false),
            Err(at) => {
                self.ended.insert(at, (doc, to));
                Ok(true)
            }
        }
    }

    /// The number of live versions.
    pub(crate) fn live(&self) -> usize {
        let groups = self.segment.groups.iter().filter(|group| group.is_live);
        groups.map(|group| group.docs.len()).sum::<usize>() - self.ended.len()
    }

    fn ended_at(&self, doc: Doc) -> Option<u64> {
        let at = self.ended.binary_search_by_key(&doc, |(doc, _)| *doc).ok()?;
        Some(self.ended[at].1)
    }
}

impl Part for OpenSegment {
    fn ranges(&self, sight: &Sight<'_>) -> DocRanges {
        // A question about a transaction after the last one of the segment never needs the documents that had ended.
        let kinds: &[bool] = if sight.at < self.segment.totals.last { &[true, false] } else { &[true] };
        let groups = &self.segment.groups;
        let mut wanted = sight.groups.to_vec();
        wanted.sort_unstable();
        let mut docs: Vec<Range<Doc>> = Vec::new();
        for is_live in kinds {
            let mut rest = groups.as_slice();
            for group in &wanted {
                // The next wanted group is often near, so a few rows are tried before a binary search.
                let near = rest.iter().take(8).position(|found| found.key() >= (!is_live, *group));
                let at =
                    near.unwrap_or_else(|| rest.partition_point(|found| found.key() < (!is_live, *group)));
                rest = &rest[at..];
                let found = rest.first().filter(|found| found.key() == (!is_live, *group));
                docs.extend(found.map(|found| found.docs.clone()));
            }
        }
        docs.sort_unstable_by_key(|docs| docs.start);
        docs.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        DocRanges::new(docs)
    }

    fn absent(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32)) -> Result<(), Error> {
        if sight.at < self.segment.totals.last {
            let times = self.segment.times()?;
            for (range, first) in within.iter() {
                for (doc, local) in range.clone().zip(first..) {
                    let (from, to) = times[doc as usize];
                    if sight.at < from || to <= sight.at {
                        each(local);
                    }
                }
            }
        }
        let ended = self.ended.iter().filter(|(_, to)| *to <= sight.at);
        ended.filter_map(|(doc, _)| within.local(*doc)).for_each(each);
        Ok(())
    }

    fn limited(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32)) {
        let limited = self.segment.limits.iter().filter(|(_, limits)| !limits.allow(sight.valid_at));
        limited.filter_map(|(doc, _)| within.local(*doc)).for_each(each);
    }

    fn term(&self, text: &str) -> Option<Term> {
        let (segment, text) = (&self.segment, text.as_bytes());
        let mut slot = format::slot(text, segment.slots.len())?;
        loop {
            let at = (*segment.slots.get(slot)?).checked_sub(1)? as usize;
            let entry = segment.entry_at(at)?;
            if entry.text == text {
                return Some(Term(at as u64));
            }
            slot = (slot + 1) % segment.slots.len();
        }
    }

    fn each_term(&self, each: &mut dyn FnMut(&str, u64)) {
        let mut at = 0;
        while let Some(entry) = self.segment.entry_at(at) {
            each(entry.text(), entry.trigrams);
            at += entry.bytes();
        }
    }

    fn postings_max(&self, term: &Term) -> usize {
        self.segment.entry_at(term.0 as usize).map_or(0, |entry| entry.many as usize)
    }

    fn postings(&self, term: &Term, within: &DocRanges, each: &mut impl FnMut(Run<'_>)) -> Result<(), Error> {
        let segment = &self.segment;
        let entry = segment.entry_at(term.0 as usize).ok_or_else(|| damaged("a term that is not there"))?;
        if entry.many == 0 || within.docs.is_empty() {
            return Ok(());
        }
        let (many, table_bytes) = (entry.many as usize, Table::bytes(entry.many as usize) as u32);
        let blocks_bytes =
            entry.size.checked_sub(table_bytes).ok_or_else(|| damaged("a list without a table"))?;
        let from = segment.sections.range(Section::Postings).start + entry.offset;
        let mut ranges = within.iter().peekable();
        let mut each = |block: Block<'_>| each_run(block, &mut ranges, each);
        if entry.size <= SMALL_LIST {
            return segment.file.read(from..from + u64::from(entry.size), |bytes| {
                let (table, blocks) = bytes.split_at(table_bytes as usize);
                let table = Table::decode(table, many, blocks_bytes)?;
                for wanted in wanted_blocks(&table, within, 0) {
                    let span = table.span(&wanted);
                    table.each_block(wanted, &blocks[span.start as usize..span.end as usize], &mut each)?;
                }
                Ok(())
            })?;
        }
        let blocks_at = from + u64::from(table_bytes);
        let table =
            segment.file.read(from..blocks_at, |table| Table::decode(table, many, blocks_bytes))??;
        for wanted in wanted_blocks(&table, within, GAP) {
            let span = table.span(&wanted);
            let range = blocks_at + u64::from(span.start)..blocks_at + u64::from(span.end);
            segment.file.read(range, |bytes| table.each_block(wanted, bytes, &mut each))??;
        }
        Ok(())
    }

    fn rough(&self, within: &DocRanges, question: &QuestionCode, out: &mut [f32]) -> Result<bool, Error> {
        let segment = &self.segment;
        let Some(vectors) = segment.vectors.get() else { return Ok(false) };
        let mut of_passages = Vec::new();
        for (range, first) in within.iter() {
            let out = &mut out[first as usize..][..range.len()];
            let passages = segment.passages(range);
            if passages.len() == out.len() {
                // The usual case: each document has one passage, so the best one need not be searched for.
                vectors.rough(passages, question, out)?;
                continue;
            }
            of_passages.clear();
            of_passages.resize(passages.len(), 0.0);
            vectors.rough(passages, question, &mut of_passages)?;
            let mut rest = &of_passages[..];
            for (doc, out) in range.clone().zip(out) {
                let own = rest.split_off(..segment.passages(&(doc..doc + 1)).len()).unwrap_or_default();
                *out = own.iter().copied().fold(-1.0, f32::max);
            }
        }
        Ok(true)
    }

    fn fine(&self, docs: &[Doc], question: &QuestionCode, out: &mut [f32]) -> Result<(), Error> {
        self.segment.vectors()?.fine(&self.segment.passages_of(docs), question, out)
    }

    fn cosines(&self, docs: &[Doc], question: &[f32], out: &mut [f32]) -> Result<(), Error> {
        out.fill(-1.0);
        let mut best = |at: usize, cosine: f32| out[at] = out[at].max(cosine);
        self.segment.vectors()?.cosines(&self.segment.passages_of(docs), question, &mut best)
    }

    fn whole(&self) -> DocRanges {
        DocRanges::one(0..self.segment.totals.docs)
    }

    fn length(&self, doc: Doc) -> u32 {
        self.segment.lengths[doc as usize]
    }

    fn lengths(&self, within: &DocRanges) -> i64 {
        let Segment { lengths, length_sums, .. } = &*self.segment;
        let before = |doc: Doc| {
            let sum = length_sums[(doc / LENGTHS_SUMMED) as usize];
            let rest = &lengths[(doc / LENGTHS_SUMMED * LENGTHS_SUMMED) as usize..doc as usize];
            sum + rest.iter().map(|length| i64::from(*length)).sum::<i64>()
        };
        within.docs.iter().map(|range| before(range.end) - before(range.start)).sum()
    }

    fn place(&self, doc: Doc) -> Place {
        self.segment.places[doc as usize]
    }

    fn key(&self, doc: Doc) -> u64 {
        self.segment.keys[doc as usize]
    }
}

fn length_sums(lengths: &[u32]) -> Vec<i64> {
    let sum = |lengths: &[u32]| lengths.iter().map(|length| i64::from(*length)).sum::<i64>();
    let mut sums = vec![0];
    for some in lengths.chunks(LENGTHS_SUMMED as usize) {
        sums.push(sums[sums.len() - 1] + sum(some));
    }
    sums
}

/// The blocks with documents in the ranges, as runs of neighbouring blocks. Runs that are at most `gap` bytes
/// apart are joined, because one larger read is faster than two.
fn wanted_blocks(table: &Table, within: &DocRanges, gap: u32) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for range in &within.docs {
        let next = table.blocks(range);
        match runs.last_mut() {
            _ if next.is_empty() => {}
            Some(last) if next.start <= last.end || table.span(&next).start - table.span(last).end <= gap => {
                last.end = last.end.max(next.end);
            }
            _ => runs.push(next),
        }
    }
    runs
}

/// A segment as the source of a merge.
impl Source for OpenSegment {
    fn rows(&self) -> Result<Vec<write::SegmentRow>, Error> {
        let segment = &self.segment;
        let times = segment.times()?;
        let mut rows = Vec::with_capacity(segment.keys.len());
        for group in &segment.groups {
            for doc in group.docs.clone() {
                let at = doc as usize;
                let (from, to) = times[at];
                let limits = segment.limits.binary_search_by_key(&doc, |(doc, _)| *doc);
                rows.push(write::SegmentRow {
                    place: segment.places[at],
                    key: segment.keys[at],
                    group: group.group,
                    from,
                    to: self.ended_at(doc).unwrap_or(to),
                    length: segment.lengths[at],
                    limits: limits.map_or(Limits::NONE, |at| segment.limits[at].1),
                    passages: segment.passages(&(doc..doc + 1)),
                });
            }
        }
        Ok(rows)
    }

    fn terms<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, Term)> + 'a> {
        let mut at = 0;
        Box::new(std::iter::from_fn(move || {
            let entry = self.segment.entry_at(at)?;
            let term = Term(at as u64);
            at += entry.bytes();
            Some((entry.text(), term))
        }))
    }

    fn postings(&self, term: &Term, out: &mut Postings) -> Result<(), Error> {
        Part::postings(self, term, &self.whole(), &mut |run| {
            run.postings.each(&mut |doc, frequency, bigrams| out.push(doc, frequency, bigrams));
        })
    }

    fn has_vectors(&self) -> bool {
        self.segment.vectors.get().is_some()
    }

    fn vector(&self, passage: u32) -> Result<QuantisedVector, Error> {
        self.segment.vectors()?.get(passage)
    }

    fn marks(&self) -> Result<Vec<(u32, Doc)>, Error> {
        let marks = self.segment.sections.range(Section::Marks);
        self.segment.file.read(marks, |bytes| {
            format::numbers(bytes).as_chunks::<2>().0.iter().map(|[mark, doc]| (*mark, *doc)).collect()
        })
    }

    fn closings(&self) -> Result<Vec<(u64, u64)>, Error> {
        self.segment.closings()
    }
}
