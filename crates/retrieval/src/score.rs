//! The one scoring function. Every path to an answer, and the plain check of them all in the tests, ends here.

/// How quickly more of the same word stops counting.
const K1: f32 = 1.2;
/// How much a long text has to have more of it.
const B: f32 = 0.75;
/// Shorter texts are taken to be this long, so that a memory of five words does not beat everything.
const LENGTH_MIN: f32 = 30.0;
/// A word in the title counts as so many in the text.
pub const TITLE_WEIGHT: u32 = 3;
/// What two words side by side add to what they say one by one.
pub const BIGRAM_WEIGHT: f32 = 0.2;
/// The share of meaning in a score, the rest is words.
pub const DENSE_WEIGHT: f32 = 0.40;
/// A text without a word of the question is a match only if it means so much the same: on `tests/paraphrases.tsv` this
/// finds four in five, and lets one in a hundred others through.
pub const DENSE_FLOOR: f32 = 0.24;

/// What the words are measured against: the texts that are live at the moment of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Population {
    pub many: u32,
    pub length: u64,
}

impl Population {
    fn mean_length(self) -> f32 {
        (self.length as f32 / self.many.max(1) as f32).max(1.0)
    }
}

/// What one word adds to the score of one text.
pub fn bm25(frequency: f32, length: u32, df: u32, population: Population) -> f32 {
    let (many, df) = (population.many as f32, df as f32);
    let idf = (1.0 + (many - df + 0.5) / (df + 0.5)).ln();
    let length = (length as f32).max(LENGTH_MIN) / population.mean_length().max(LENGTH_MIN);
    idf * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * length))
}

/// Words and meaning as one number: each relative to the best of all candidates, the meaning counted from what is
/// usual in the searched texts.
pub struct Fusion {
    pub lexical_max: f32,
    pub mean: f32,
    pub deviation: f32,
    pub z_max: f32,
}

impl Fusion {
    /// `cosines` are those of every text that was searched, in a fixed order.
    pub fn new(lexical_max: f32, cosines: impl Iterator<Item = f32> + Clone) -> Fusion {
        let (many, sum) = cosines.clone().fold((0u32, 0f64), |(n, sum), cos| (n + 1, sum + f64::from(cos)));
        let mean = sum / f64::from(many.max(1));
        let (square, best) = cosines.fold((0f64, f32::MIN), |(square, best), cos| {
            (square + (f64::from(cos) - mean).powi(2), best.max(cos))
        });
        let deviation = (square / f64::from(many.max(1))).sqrt() as f32;
        let mut fusion = Fusion { lexical_max, mean: mean as f32, deviation, z_max: 0.0 };
        fusion.z_max = fusion.z(best).max(0.0);
        fusion
    }

    fn z(&self, cosine: f32) -> f32 {
        if self.deviation > 1e-6 { (cosine - self.mean) / self.deviation } else { 0.0 }
    }

    pub fn lexical(&self, lexical: f32) -> f32 {
        if self.lexical_max > 0.0 { lexical / self.lexical_max } else { 0.0 }
    }

    pub fn dense(&self, cosine: f32) -> f32 {
        if self.z_max > 0.0 { self.z(cosine).max(0.0) / self.z_max } else { 0.0 }
    }

    pub fn total(&self, lexical: f32, cosine: f32) -> f32 {
        (1.0 - DENSE_WEIGHT) * self.lexical(lexical) + DENSE_WEIGHT * self.dense(cosine)
    }
}
