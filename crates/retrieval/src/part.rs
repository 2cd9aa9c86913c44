//! An index is made of parts: segments on the disk and the tail in memory. This is what a question asks of each.

use std::ops::Range;

use crate::error::Error;
use crate::postings::Frequency;
use crate::vectors::Quantised;

/// Which version of which text, counted from 0 in the order of the log, so it is the same in every index of that log.
pub type Place = u32;

/// What a question may see.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// The moment for which it is asked.
    pub at: u64,
    pub groups: &'a [u32],
    /// Of each of these, one label at least must be there.
    pub labels: &'a [Vec<String>],
    /// Leaves out what is suppressed or not valid at this time; `None` takes everything.
    pub valid_at: Option<i64>,
}

/// What keeps a version from being seen by everybody at all times.
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

/// A number in a part, from 0.
pub(crate) type Doc = u32;

/// The stretches of a part that a question looks at. Scores are kept for these only, one behind the other: the place
/// of a text among them is its `local` number.
#[derive(Clone)]
pub(crate) struct Stretches {
    pub docs: Vec<Range<Doc>>,
    /// The local number of the first text of each.
    firsts: Vec<u32>,
    pub many: u32,
}

impl Stretches {
    pub(crate) fn new(docs: Vec<Range<Doc>>) -> Stretches {
        let mut many = 0;
        let first = |stretch: &Range<Doc>| {
            let first = many;
            many += stretch.end - stretch.start;
            first
        };
        let firsts = docs.iter().map(first).collect();
        Stretches { docs, firsts, many }
    }

    /// A single one, or none if it is empty.
    pub(crate) fn one(docs: Range<Doc>) -> Stretches {
        Stretches::new(std::iter::once(docs).filter(|docs| !docs.is_empty()).collect())
    }

    /// The same in so many shares of about the same size.
    pub(crate) fn shares(self, many: u32) -> Vec<Stretches> {
        if many <= 1 {
            return vec![self];
        }
        let size = self.many.div_ceil(many).max(1);
        let (mut shares, mut share, mut room) = (Vec::new(), Vec::new(), size);
        for mut stretch in self.docs {
            while !stretch.is_empty() {
                let end = stretch.end.min(stretch.start + room);
                room -= end - stretch.start;
                share.push(stretch.start..end);
                stretch.start = end;
                if room == 0 {
                    shares.push(Stretches::new(std::mem::take(&mut share)));
                    room = size;
                }
            }
        }
        shares.push(Stretches::new(share));
        shares
    }

    /// Each stretch and the local number of its first text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Range<Doc>, u32)> {
        self.docs.iter().zip(self.firsts.iter().copied())
    }

    pub(crate) fn doc(&self, local: u32) -> Doc {
        let at = self.firsts.partition_point(|first| *first <= local) - 1;
        self.docs[at].start + local - self.firsts[at]
    }

    pub(crate) fn local(&self, doc: Doc) -> Option<u32> {
        let at = self.docs.partition_point(|stretch| stretch.end <= doc);
        let stretch = self.docs.get(at).filter(|stretch| stretch.start <= doc)?;
        Some(self.firsts[at] + doc - stretch.start)
    }
}

/// Where a part keeps a term; only the part knows what the number means.
#[derive(Clone, Copy)]
pub(crate) struct Term(pub u64);

pub(crate) trait Part {
    /// Where everything lies that may be seen; `absent` and `limited` name the rest of what lies there.
    fn stretches(&self, sight: &Sight<'_>) -> Stretches;

    /// Names the versions in the stretches that are not live at the moment, or are in a group that is not in sight, by
    /// their local number. Statistics leave them out.
    fn absent(&self, sight: &Sight<'_>, within: &Stretches, each: &mut dyn FnMut(u32)) -> Result<(), Error>;

    /// Names the versions in the stretches that are suppressed or not valid. Statistics count them, answers leave them out.
    fn limited(&self, sight: &Sight<'_>, within: &Stretches, each: &mut dyn FnMut(u32));

    fn term(&self, text: &str) -> Option<Term>;

    /// Every term with one bit for each of its trigrams.
    fn each_term(&self, each: &mut dyn FnMut(&str, u64));

    /// The texts with this term in the stretches: local number, number, how often, and what comes after it there if
    /// that is wanted.
    fn postings(
        &self,
        term: &Term,
        within: &Stretches,
        with_links: bool,
        each: &mut impl FnMut(u32, Doc, Frequency, &[u8]),
    ) -> Result<(), Error>;

    /// How near each text of the stretches is, by its best passage. False when there are no vectors.
    fn cosines(&self, within: &Stretches, question: &Quantised, out: &mut [f32]) -> Result<bool, Error>;
    fn exact_cosine(&self, doc: Doc, question: &[f32]) -> Result<f32, Error>;

    /// All texts of the part.
    fn whole(&self) -> Stretches;
    fn length(&self, doc: Doc) -> u32;
    /// The lengths of all texts in the stretches together.
    fn lengths(&self, within: &Stretches) -> i64;
    fn place(&self, doc: Doc) -> Place;
    fn key(&self, doc: Doc) -> u64;
}
