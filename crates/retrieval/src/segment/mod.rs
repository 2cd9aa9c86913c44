//! Versions on the disk, never changed once written: the live ones first, by group, then those that had ended, by group
//! too. So what a question may see is a few stretches, and what it may not see is not even read.
//!
//! What every question needs is kept in memory: the terms, and twenty bytes a text. The rest is read when it is asked for.

mod embed;
mod format;
mod marks;
mod vectors;
mod write;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, damaged};
use crate::pages::Pages;
use crate::part::{Doc, Limits, Part, Place, Sight, Stretches, Term};
use crate::postings::{Block, Frequency, Postings, Table};
use crate::vectors::{Quantised, exact_cosine};

pub use embed::TextOf;
use format::{Entry, Section, Totals};
use marks::Marked;
pub(crate) use vectors::Vectors;
pub(crate) use write::{Source, Span, write};

/// Lists up to this size are read in one go.
const SMALL_LIST: u32 = 16 * 1024;
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
    /// One more than there are texts.
    first_passages: Vec<u32>,
    limits: Vec<(Doc, Limits)>,
    /// Every term in order, as `Entry` reads it.
    dictionary: Vec<u8>,
    /// Where each term stands there, by its hash.
    slots: Vec<u32>,
    /// When each text began and ended; read by the first question for an earlier moment.
    times: OnceLock<Vec<(u64, u64)>>,
    pub(crate) vectors: OnceLock<Vectors>,
    /// Read by the first who looks for marks.
    marked: OnceLock<Marked>,
}

/// Where the texts of a group lie.
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
        let segment = Segment {
            name: name.to_owned(),
            groups,
            places: numbers(Section::Places)?,
            keys: file.read(sections.range(Section::Keys), format::longs)?,
            lengths: numbers(Section::Lengths)?,
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

    /// Takes the vectors of this model, if they are there.
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

    pub(crate) fn closings(&self) -> Result<Vec<(u64, u64)>, Error> {
        self.file.read(self.sections.range(Section::Closings), format::long_pairs)
    }

    /// The live text with this key.
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

    fn entry_at(&self, at: usize) -> Option<Entry<'_>> {
        Entry::decode(self.dictionary.get(at..)?)
    }

    fn passages(&self, docs: &Range<Doc>) -> Range<u32> {
        self.first_passages[docs.start as usize]..self.first_passages[docs.end as usize]
    }

    fn vectors(&self) -> Result<&Vectors, Error> {
        self.vectors.get().ok_or_else(|| damaged("vectors are missing"))
    }
}

impl Group {
    fn decode(row: &[u32; 4]) -> Group {
        Group { is_live: row[0] != 0, group: row[1], docs: row[2]..row[3] }
    }

    /// By which groups are in order: the live ones first.
    fn key(&self) -> (bool, u32) {
        (!self.is_live, self.group)
    }
}

/// A segment, and which of its texts have ended since it was written.
pub(crate) struct Open {
    pub segment: Arc<Segment>,
    /// In order.
    ended: Vec<(Doc, u64)>,
}

impl Open {
    pub(crate) fn new(segment: Arc<Segment>) -> Open {
        Open { segment, ended: Vec::new() }
    }

    /// Ends the live text with this key, if it is here.
    pub(crate) fn end(&mut self, key: u64, to: u64) -> Result<bool, Error> {
        let Some(doc) = self.segment.find(key)? else { return Ok(false) };
        match self.ended.binary_search_by_key(&doc, |(doc, _)| *doc) {
            // It had ended already: the one that is meant is in an older part.
            Ok(_) => Ok(false),
            Err(at) => {
                self.ended.insert(at, (doc, to));
                Ok(true)
            }
        }
    }

    /// How many versions are live.
    pub(crate) fn live(&self) -> usize {
        let groups = self.segment.groups.iter().filter(|group| group.is_live);
        groups.map(|group| group.docs.len()).sum::<usize>() - self.ended.len()
    }

    fn ended_at(&self, doc: Doc) -> Option<u64> {
        let at = self.ended.binary_search_by_key(&doc, |(doc, _)| *doc).ok()?;
        Some(self.ended[at].1)
    }
}

impl Part for Open {
    fn stretches(&self, sight: &Sight<'_>) -> Stretches {
        // What had ended when the segment was written is of no use to a later question.
        let kinds: &[bool] = if sight.at < self.segment.totals.last { &[true, false] } else { &[true] };
        let groups = &self.segment.groups;
        let mut wanted = sight.groups.to_vec();
        wanted.sort_unstable();
        let mut docs: Vec<Range<Doc>> = Vec::new();
        for is_live in kinds {
            let mut rest = groups.as_slice();
            for group in &wanted {
                // Few of many are sought by halving, many of many by going along.
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
        Stretches::new(docs)
    }

    fn absent(&self, sight: &Sight<'_>, within: &Stretches, each: &mut dyn FnMut(u32)) -> Result<(), Error> {
        if sight.at < self.segment.totals.last {
            let times = self.segment.times()?;
            for (stretch, first) in within.iter() {
                for (doc, local) in stretch.clone().zip(first..) {
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

    fn limited(&self, sight: &Sight<'_>, within: &Stretches, each: &mut dyn FnMut(u32)) {
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

    fn postings(
        &self,
        term: &Term,
        within: &Stretches,
        with_links: bool,
        each: &mut impl FnMut(u32, Doc, Frequency, &[u8]),
    ) -> Result<(), Error> {
        let segment = &self.segment;
        let entry = segment.entry_at(term.0 as usize).ok_or_else(|| damaged("a term that is not there"))?;
        if entry.many == 0 || within.docs.is_empty() {
            return Ok(());
        }
        let (many, table_bytes) = (entry.many as usize, Table::bytes(entry.many as usize) as u32);
        let blocks_bytes =
            entry.size.checked_sub(table_bytes).ok_or_else(|| damaged("a list without a table"))?;
        let from = segment.sections.range(Section::Postings).start + entry.offset;
        let mut stretches = within.iter().peekable();
        // Texts and stretches are both in order, so one pass finds the texts of each stretch.
        let mut each = |block: Block<'_>| {
            let mut from = 0;
            while let Some(next) = block.docs.get(from)
                && let Some((stretch, first)) = stretches.peek()
            {
                if stretch.end <= *next {
                    stretches.next();
                    continue;
                }
                let start = from + block.docs[from..].partition_point(|doc| *doc < stretch.start);
                let end = start + block.docs[start..].partition_point(|doc| *doc < stretch.end);
                block.each(start..end, with_links, &mut |doc, frequency, links| {
                    each(first + doc - stretch.start, doc, frequency, links);
                });
                from = end;
            }
        };
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

    fn cosines(&self, within: &Stretches, question: &Quantised, out: &mut [f32]) -> Result<bool, Error> {
        let segment = &self.segment;
        let Some(vectors) = segment.vectors.get() else { return Ok(false) };
        for (stretch, first) in within.iter() {
            let mut doc = stretch.start;
            let out = &mut out[first as usize..][..stretch.len()];
            let passages = segment.passages(stretch);
            if passages.len() == out.len() {
                // One passage a text, as nearly everywhere.
                vectors.cosines(passages, question, out)?;
                continue;
            }
            out.fill(-1.0);
            vectors.each(passages, &mut |passage, high, scale| {
                while segment.first_passages[doc as usize + 1] <= passage {
                    doc += 1;
                }
                let best = &mut out[(doc - stretch.start) as usize];
                *best = best.max(question.cosine(high, scale));
            })?;
        }
        Ok(true)
    }

    fn exact_cosine(&self, doc: Doc, question: &[f32]) -> Result<f32, Error> {
        let mut best = -1f32;
        for passage in self.segment.passages(&(doc..doc + 1)) {
            let vector = self.segment.vectors()?.get(passage)?;
            best = best.max(exact_cosine(question, &vector.high, &vector.low, vector.scale));
        }
        Ok(best)
    }

    fn whole(&self) -> Stretches {
        Stretches::one(0..self.segment.totals.docs)
    }

    fn length(&self, doc: Doc) -> u32 {
        self.segment.lengths[doc as usize]
    }

    fn lengths(&self, within: &Stretches) -> i64 {
        let lengths =
            |stretch: &Range<Doc>| &self.segment.lengths[stretch.start as usize..stretch.end as usize];
        within.docs.iter().flat_map(lengths).map(|length| i64::from(*length)).sum()
    }

    fn place(&self, doc: Doc) -> Place {
        self.segment.places[doc as usize]
    }

    fn key(&self, doc: Doc) -> u64 {
        self.segment.keys[doc as usize]
    }
}

/// The blocks that reach into the stretches, in runs; runs that are no farther apart than `gap` become one.
fn wanted_blocks(table: &Table, within: &Stretches, gap: u32) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for stretch in &within.docs {
        let next = table.blocks(stretch);
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

/// What a merge reads of a segment.
impl Source for Open {
    fn rows(&self) -> Result<Vec<write::Row>, Error> {
        let segment = &self.segment;
        let times = segment.times()?;
        let mut rows = Vec::with_capacity(segment.keys.len());
        for group in &segment.groups {
            for doc in group.docs.clone() {
                let at = doc as usize;
                let (from, to) = times[at];
                let limits = segment.limits.binary_search_by_key(&doc, |(doc, _)| *doc);
                rows.push(write::Row {
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
        Part::postings(self, term, &self.whole(), true, &mut |_, doc, frequency, links| {
            out.push(doc, frequency, links);
        })
    }

    fn has_vectors(&self) -> bool {
        self.segment.vectors.get().is_some()
    }

    fn vector(&self, passage: u32) -> Result<Quantised, Error> {
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
