//! The one scoring function. Every path to an answer, and the plain check of them all in the tests, ends here.

use crate::lanes::{count_above, largest, sum_above};
use crate::postings::Frequency;

/// How quickly more of the same word stops counting.
const K1: f32 = 1.2;
/// How much a long text has to have more of it.
const B: f32 = 0.75;
/// Shorter texts are taken to be this long, so that a memory of five words does not beat everything.
const LENGTH_MIN: f32 = 30.0;
/// A word in the title counts as so many in the text.
pub const TITLE_WEIGHT: u32 = 3;
/// What two words side by side add to what they say one by one.
pub const BIGRAM_WEIGHT: f32 = 0.3;
/// The share of meaning in a score, the rest is words.
pub const DENSE_WEIGHT: f32 = 0.40;

/// What a word of the text before counts, beside a word of the text itself: fitted on conversations (`docs/figures.md`).
pub const NEIGHBOUR_WEIGHT: f32 = 0.3;
/// The words of a text count fully when it has this much of the question's weight. Without this bar one chance word in a
/// small store would count as much as a text that has every word.
pub const LEXICAL_FULL: f32 = 0.6;
/// What a related word counts, times the cosine of the two words.
pub const RELATED_WEIGHT: f32 = 0.7;

/// Smaller stores are taken to be this large when a text is judged by itself.
const RARITY_MANY: i64 = 500;

/// A text that has this share of a question's weight in words has half of it.
pub const HALF: f32 = 0.50;
/// A word in the title says more about the matter.
pub const TITLE_SHARE: f32 = 1.4;

/// What the words are measured against: the texts in sight that are live at the moment of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Population {
    pub many: i64,
    pub length: i64,
}

impl Population {
    /// How much a term tells that `df` of the texts have.
    pub fn idf(self, df: f32) -> f32 {
        (1.0 + (self.many as f32 - df + 0.5) / (df + 0.5)).ln()
    }

    /// As `idf`, for a word of a question. A word that nothing in sight has counts a little more than one that a single text
    /// has, not twice as much.
    pub fn idf_of(self, df: i64) -> f32 {
        if df == 0 { (1.0 + self.many as f32).ln() } else { self.idf(df as f32) }
    }

    /// How much a term tells that `df` of the texts have, for what is judged by itself and not beside others: in a store
    /// of three texts no word is rare, and one that nobody has used yet says little.
    pub fn rarity(self, df: f32) -> f32 {
        Population { many: self.many.max(RARITY_MANY), ..self }.idf(df)
    }

    fn mean_length(self) -> f32 {
        (self.length as f32 / self.many.max(1) as f32).max(LENGTH_MIN)
    }
}

/// What a term of a question is worth (BM25).
#[derive(Clone, Copy)]
pub struct Worth {
    idf: f32,
    per_length: f32,
}

impl Worth {
    /// For a term that `df` of the texts have.
    pub fn new(df: f32, weight: f32, population: Population) -> Worth {
        Worth { idf: weight * population.idf(df) * (K1 + 1.0), per_length: K1 * B / population.mean_length() }
    }

    /// What it adds to the score of a text of this length in which it stands so often.
    pub fn of(&self, frequency: f32, length: u32) -> f32 {
        let length = (length as f32).max(LENGTH_MIN);
        self.idf * frequency / (frequency + K1 * (1.0 - B) + self.per_length * length)
    }
}

/// How often a term counts in a text.
pub(crate) fn counted(frequency: Frequency, title_only: bool) -> f32 {
    let title = (TITLE_WEIGHT * frequency.title()) as f32;
    if title_only {
        return title;
    }
    title + frequency.body() as f32 + NEIGHBOUR_WEIGHT * frequency.neighbour() as f32
}

/// In these a cosine is summed up.
const UNITS: f32 = 262_144.0;
/// Texts whose cosines differ by less than this differ by little more than rounding.
const APART_MIN: f64 = 0.01;

/// The cosine of what may not be seen: no two vectors have it.
pub(crate) const HIDDEN: f32 = -4.0;
/// Above this is every cosine there is.
const SEEN_MIN: f32 = -2.0;

/// What is usual among the texts that were searched.
#[derive(Clone, Copy)]
pub struct Spread {
    many: u64,
    sum: i64,
    pub nearest: f32,
    lexical_max: f32,
}

impl Spread {
    pub const NONE: Spread = Spread { many: 0, sum: 0, nearest: HIDDEN, lexical_max: 0.0 };

    pub fn of(lexical: &[f32], cosines: &[f32]) -> Spread {
        Spread {
            many: count_above(cosines, SEEN_MIN),
            sum: sum_above(cosines, SEEN_MIN, UNITS),
            nearest: largest(cosines, HIDDEN),
            lexical_max: largest(lexical, 0.0),
        }
    }

    pub fn plus(self, other: Spread) -> Spread {
        Spread {
            many: self.many + other.many,
            sum: self.sum + other.sum,
            nearest: self.nearest.max(other.nearest),
            lexical_max: self.lexical_max.max(other.lexical_max),
        }
    }

    /// `exact` is the cosine of the nearest by all that is known of its vector. Without vectors the words alone decide.
    /// `weight` is what all words of the question are worth together.
    pub fn fusion(&self, exact: f32, with_dense: bool, weight: f32) -> Fusion {
        let mean = self.sum as f64 / self.many.max(1) as f64 / f64::from(UNITS);
        // Where all are equally near, meaning says nothing.
        let says = f64::from(self.nearest) - mean > APART_MIN && f64::from(exact) > mean;
        let per_cosine = if says { 1.0 / (f64::from(exact) - mean) } else { 0.0 };
        let dense_weight = if with_dense { DENSE_WEIGHT } else { 0.0 };
        // Where there is nothing but words, the best of them is as good as it gets.
        let full = if with_dense { self.lexical_max.max(LEXICAL_FULL * weight) } else { self.lexical_max };
        let per_lexical = if full > 0.0 { 1.0 / full } else { 0.0 };
        Fusion { per_lexical, mean: mean as f32, per_cosine: per_cosine as f32, dense_weight }
    }
}

/// Words and meaning as one number: each relative to the best of all candidates, the meaning counted from what is
/// usual in the searched texts. (Dividing by how far texts usually lie apart, as the formula has it, cancels out.)
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
