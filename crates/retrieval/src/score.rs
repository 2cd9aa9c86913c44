//! The one scoring function. Every path to an answer uses it, and so does the plain scorer in the tests that checks them.

use crate::lanes::{count_above, largest, sum_above};
use crate::postings::Frequency;

/// BM25: how quickly further occurrences of a term stop adding to the score.
const K1: f32 = 1.2;
/// BM25: how strongly the length of a document reduces the weight of an occurrence.
const B: f32 = 0.75;
/// Shorter documents count as this long. Otherwise an entry of five words would win over everything that has the same term.
const LENGTH_MIN: f32 = 30.0;
/// One occurrence in the title counts as this many in the body.
pub const TITLE_WEIGHT: u32 = 3;
/// The weight of a bigram: what two neighbouring terms of the question add when a document has them side by side too.
pub const BIGRAM_WEIGHT: f32 = 0.3;
/// The share of the meaning in a score; the words have the rest.
pub const DENSE_WEIGHT: f32 = 0.40;

/// The weight of an occurrence in the text before a document, compared with one in its body. Fitted on
/// conversations (`docs/figures.md`).
pub const NEIGHBOUR_WEIGHT: f32 = 0.3;
/// The share of the question's weight at which the words of a document get the full score. Without this bound
/// a single chance word in a small store would get the same score as a document that has every word.
pub const LEXICAL_FULL: f32 = 0.6;
/// A related word counts this much, times the cosine of the two words.
pub const RELATED_WEIGHT: f32 = 0.7;

/// `Population::rarity` treats a smaller store as if it had this many documents.
const RARITY_MANY: i64 = 500;

/// The share of a question's weight that a match needs in words under `MatchMinimum::Half`.
pub const HALF: f32 = 0.50;
/// A word in the title counts this much more towards the share of a question's weight.
pub const TITLE_SHARE: f32 = 1.4;

/// The documents by which terms are weighted: those in sight that are live at the transaction of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Population {
    pub many: i64,
    pub length: i64,
}

impl Population {
    /// The inverse document frequency of a term that `df` of the documents have.
    pub fn idf(self, df: f32) -> f32 {
        (1.0 + (self.many as f32 - df + 0.5) / (df + 0.5)).ln()
    }

    /// Like `idf`, for a word of a question. A word that no document in sight has counts a little more than
    /// one that a single document has, not twice as much.
    pub fn idf_of(self, df: i64) -> f32 {
        if df == 0 { (1.0 + self.many as f32).ln() } else { self.idf(df as f32) }
    }

    /// Like `idf`, for a document that is judged by itself and not compared with others. In a store of three
    /// documents no word would be rare, so a larger store is assumed.
    pub fn rarity(self, df: f32) -> f32 {
        Population { many: self.many.max(RARITY_MANY), ..self }.idf(df)
    }

    fn mean_length(self) -> f32 {
        (self.length as f32 / self.many.max(1) as f32).max(LENGTH_MIN)
    }
}

/// The BM25 weight of a term of a question.
#[derive(Clone, Copy)]
pub struct TermWeight {
    idf: f32,
    per_length: f32,
}

impl TermWeight {
    /// The weight of a term that `df` of the documents have.
    pub fn new(df: f32, weight: f32, population: Population) -> TermWeight {
        TermWeight {
            idf: weight * population.idf(df) * (K1 + 1.0),
            per_length: K1 * B / population.mean_length(),
        }
    }

    /// The score that the term adds to a document of this length in which it occurs with this frequency.
    #[inline]
    pub fn of(&self, frequency: f32, length: u32) -> f32 {
        let length = (length as f32).max(LENGTH_MIN);
        self.idf * frequency / (frequency + K1 * (1.0 - B) + self.per_length * length)
    }
}

/// The frequency of a term in a document, weighted by field.
pub(crate) fn counted(frequency: Frequency, title_only: bool) -> f32 {
    let title = (TITLE_WEIGHT * frequency.title()) as f32;
    if title_only {
        return title;
    }
    title + frequency.body() as f32 + NEIGHBOUR_WEIGHT * frequency.neighbour() as f32
}

/// Cosines are summed up as whole numbers of 1/262,144, so that the sum does not depend on the order.
const UNITS: f32 = 262_144.0;
/// Cosines that differ by less than this differ by little more than rounding.
const APART_MIN: f64 = 0.01;

/// Marks a document that is not in sight. It is below -1, so no cosine equals it.
pub(crate) const HIDDEN: f32 = -4.0;
/// Every real cosine is above this, and `HIDDEN` is below it.
const SEEN_MIN: f32 = -2.0;

/// Statistics of the scores of all searched documents. Their cosines are estimates, except those of the
/// nearest documents.
#[derive(Clone, Copy, Default)]
pub struct Spread {
    many: u64,
    sum: i64,
    lexical_max: f32,
}

impl Spread {
    #[inline(always)]
    pub fn of(lexical: &[f32], cosines: &[f32]) -> Spread {
        Spread {
            many: count_above(cosines, SEEN_MIN),
            sum: sum_above(cosines, SEEN_MIN, UNITS),
            lexical_max: largest(lexical, 0.0),
        }
    }

    /// The number of documents that have a cosine.
    pub fn many(&self) -> u64 {
        self.many
    }

    pub fn lexical_max(&self) -> f32 {
        self.lexical_max
    }

    /// Replaces the estimate of a document by its cosine.
    pub fn replace(&mut self, estimate: f32, cosine: f32) {
        self.sum += (cosine * UNITS) as i64 - (estimate * UNITS) as i64;
    }

    pub fn plus(self, other: Spread) -> Spread {
        Spread {
            many: self.many + other.many,
            sum: self.sum + other.sum,
            lexical_max: self.lexical_max.max(other.lexical_max),
        }
    }

    /// Makes the function that combines the scores. `nearest` is the cosine of the nearest document, and
    /// `weight` the sum of the weights of all words of the question. If `with_dense` is false, because there
    /// are no vectors, words alone decide.
    pub fn fusion(&self, nearest: f32, with_dense: bool, weight: f32) -> Fusion {
        let mean = self.sum as f64 / self.many.max(1) as f64 / f64::from(UNITS);
        // If all documents are equally near, the meaning does not distinguish them.
        let says = f64::from(nearest) - mean > APART_MIN;
        let per_cosine = if says { 1.0 / (f64::from(nearest) - mean) } else { 0.0 };
        let dense_weight = if with_dense { DENSE_WEIGHT } else { 0.0 };
        // Without meaning the best document by words gets the full score.
        let full = if with_dense { self.lexical_max.max(LEXICAL_FULL * weight) } else { self.lexical_max };
        let per_lexical = if full > 0.0 { 1.0 / full } else { 0.0 };
        Fusion { per_lexical, mean: mean as f32, per_cosine: per_cosine as f32, dense_weight }
    }
}

/// Combines the scores of words and meaning into one number. Each is relative to the best of all candidates, and the
/// meaning is counted from the mean of all searched documents. (The usual z-score also divides by the standard
/// deviation, which cancels out here.)
///
/// Example: the best score by words is 8, the mean cosine 0.1 and the best cosine 0.5. A document with 4 and 0.3 gets
/// 0.6 * 4/8 + 0.4 * (0.3 - 0.1)/(0.5 - 0.1) = 0.5.
pub struct Fusion {
    per_lexical: f32,
    mean: f32,
    per_cosine: f32,
    dense_weight: f32,
}

impl Fusion {
    #[inline]
    pub fn lexical(&self, lexical: f32) -> f32 {
        lexical * self.per_lexical
    }

    #[inline]
    pub fn dense(&self, cosine: f32) -> f32 {
        ((cosine - self.mean) * self.per_cosine).clamp(0.0, 1.0)
    }

    #[inline]
    pub fn total(&self, lexical: f32, cosine: f32) -> f32 {
        (1.0 - self.dense_weight) * self.lexical(lexical) + self.dense_weight * self.dense(cosine)
    }
}
