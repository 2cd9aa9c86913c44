//! An index consists of parts: segments on the disk, and the tail in memory. A question reads each of them
//! through the trait `Part`.

use std::iter::Peekable;
use std::ops::Range;

use crate::codes::QuestionCode;
use crate::error::Error;
use crate::postings::Block;

/// The number of a version among all versions, from 0 in the order of the log. So it is the same in every index of one
/// log, however the versions are spread over segments. It decides between documents of equal score: the newest first.
pub type Place = u32;

/// The versions that a question may see: those that were live at one transaction, in some groups.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// The transaction as of which the question is answered.
    pub at: u64,
    /// The engine makes one group of each scope.
    pub groups: &'a [u32],
    /// A document must have at least one label of each of these lists.
    pub labels: &'a [Vec<String>],
    /// Leaves out documents that are suppressed or not valid at this time; `None` takes all.
    pub valid_at: Option<i64>,
}

/// Conditions under which a live version is left out of answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub suppressed: bool,
    pub valid_from: i64,
    pub valid_to: i64,
}

impl Limits {
    pub const NONE: Limits = Limits { suppressed: false, valid_from: i64::MIN, valid_to: i64::MAX };

    pub(crate) fn allow(&self, valid_at: Option<i64>) -> bool {
        valid_at.is_none_or(|now| !self.suppressed && self.valid_from <= now && now < self.valid_to)
    }
}

/// The number of a document in its part, from 0.
pub(crate) type Doc = u32;

/// The ranges of documents of a part that a question looks at. Scores are kept only for these, in one array; the
/// position of a document in it is its `local` number.
///
/// Example: the ranges 10..12 and 40..43 give the documents 10, 11, 40, 41, 42 the local numbers 0, 1, 2, 3, 4.
#[derive(Clone)]
pub(crate) struct DocRanges {
    pub docs: Vec<Range<Doc>>,
    /// The local number of the first document of each range.
    firsts: Vec<u32>,
    pub many: u32,
}

impl DocRanges {
    pub(crate) fn new(docs: Vec<Range<Doc>>) -> DocRanges {
        let mut many = 0;
        let first = |range: &Range<Doc>| {
            let first = many;
            many += range.end - range.start;
            first
        };
        let firsts = docs.iter().map(first).collect();
        DocRanges { docs, firsts, many }
    }

    /// A single range, or none if it is empty.
    pub(crate) fn one(docs: Range<Doc>) -> DocRanges {
        DocRanges::new(std::iter::once(docs).filter(|docs| !docs.is_empty()).collect())
    }

    /// Cuts the ranges into `many` shares of about the same number of documents.
    pub(crate) fn shares(self, many: u32) -> Vec<DocRanges> {
        if many <= 1 {
            return vec![self];
        }
        let size = self.many.div_ceil(many).max(1);
        let (mut shares, mut share, mut room) = (Vec::new(), Vec::new(), size);
        for mut range in self.docs {
            while !range.is_empty() {
                let end = range.end.min(range.start + room);
                room -= end - range.start;
                share.push(range.start..end);
                range.start = end;
                if room == 0 {
                    shares.push(DocRanges::new(std::mem::take(&mut share)));
                    room = size;
                }
            }
        }
        shares.push(DocRanges::new(share));
        shares
    }

    /// Each range and the local number of its first document.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Range<Doc>, u32)> {
        self.docs.iter().zip(self.firsts.iter().copied())
    }

    pub(crate) fn doc(&self, local: u32) -> Doc {
        let at = self.firsts.partition_point(|first| *first <= local) - 1;
        self.docs[at].start + local - self.firsts[at]
    }

    pub(crate) fn local(&self, doc: Doc) -> Option<u32> {
        let at = self.docs.partition_point(|range| range.end <= doc);
        let range = self.docs.get(at).filter(|range| range.start <= doc)?;
        Some(self.firsts[at] + doc - range.start)
    }
}

/// Postings of one of the ranges.
pub(crate) struct Run<'a> {
    pub postings: Block<'a>,
    /// The first document of the range, and its local number.
    start: Doc,
    first: u32,
}

impl Run<'_> {
    /// The local numbers of the postings.
    pub(crate) fn locals(&self) -> impl ExactSizeIterator<Item = u32> {
        self.postings.docs.iter().map(|doc| doc - self.start + self.first)
    }
}

/// Passes on the postings that are in the ranges. Ranges that end before the last posting are taken from the iterator, so
/// the blocks of a list find the documents of each range in one pass.
pub(crate) fn each_run<'r>(
    postings: Block<'_>,
    ranges: &mut Peekable<impl Iterator<Item = (&'r Range<Doc>, u32)>>,
    each: &mut impl FnMut(Run<'_>),
) {
    let mut from = 0;
    while let Some(next) = postings.docs.get(from)
        && let Some((range, first)) = ranges.peek()
    {
        if range.end <= *next {
            ranges.next();
            continue;
        }
        let start = from + postings.docs[from..].partition_point(|doc| *doc < range.start);
        let end = start + postings.docs[start..].partition_point(|doc| *doc < range.end);
        if start < end {
            each(Run { postings: postings.rows(start..end), start: range.start, first: *first });
        }
        from = end;
    }
}

/// The place where a part keeps a term; only the part knows the meaning of the number.
#[derive(Clone, Copy)]
pub(crate) struct Term(pub u64);

pub(crate) trait Part {
    /// Ranges that contain every document in sight. They may contain others, which `absent` and `limited` name.
    fn ranges(&self, sight: &Sight<'_>) -> DocRanges;

    /// Names, by local number, the documents in the ranges that are not live at the transaction of the question or are in
    /// a group that is not in sight. Statistics leave them out.
    fn absent(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32)) -> Result<(), Error>;

    /// Names the documents in the ranges that are suppressed or not valid. Statistics count them, answers leave them out.
    fn limited(&self, sight: &Sight<'_>, within: &DocRanges, each: &mut dyn FnMut(u32));

    fn term(&self, text: &str) -> Option<Term>;

    /// Every term, with the bits of its trigrams (`trigrams::trigram_bits`).
    fn each_term(&self, each: &mut dyn FnMut(&str, u64));

    /// The number of the postings of a term in all ranges.
    fn postings_max(&self, term: &Term) -> usize;

    /// The postings of a term within the ranges, in order.
    fn postings(&self, term: &Term, within: &DocRanges, each: &mut impl FnMut(Run<'_>)) -> Result<(), Error>;

    /// The rough estimate of the cosine of the question and the best passage of each document in the ranges. False if
    /// there are no vectors.
    fn rough(&self, within: &DocRanges, question: &QuestionCode, out: &mut [f32]) -> Result<bool, Error>;
    /// The finer estimate of the cosine of the question and the best passage of each of these documents, which must be in
    /// order.
    fn fine(&self, docs: &[Doc], question: &QuestionCode, out: &mut [f32]) -> Result<(), Error>;
    /// The cosine of the question and the best passage of each of these documents, which must be in order.
    fn cosines(&self, docs: &[Doc], question: &[f32], out: &mut [f32]) -> Result<(), Error>;

    /// All documents of the part.
    fn whole(&self) -> DocRanges;
    fn length(&self, doc: Doc) -> u32;
    /// The sum of the lengths of all documents in the ranges.
    fn lengths(&self, within: &DocRanges) -> i64;
    fn place(&self, doc: Doc) -> Place;
    fn key(&self, doc: Doc) -> u64;
}
