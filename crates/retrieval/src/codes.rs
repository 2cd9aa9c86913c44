//! Codes: two bits for each number of a vector, from which the cosine with a question is estimated. A
//! question reads the codes of all documents in sight, but the full vectors only of the few that are nearest
//! by their codes.
//!
//! A number `x` of a vector becomes one of the four levels -3, -1, 1 and 3, which stand for steps of the best
//! size for numbers with a normal distribution. A number of a question becomes one of the sixteen levels -15,
//! -13 … 15. Bits of the same weight are stored next to each other in words of 64 bits, so the product of two
//! vectors takes one exclusive or and one count of bits for each pair of words.
//!
//! Example, for vectors of two numbers: the document's levels 3 and -1 are the bits 11 and 01. A question's
//! level is 2u - 15, and 13 and -5 are u = 14 and 5, the bits 1110 and 0101. A pair of equal bits counts 1
//! and a pair of different bits -1, times the weights of both: 3 * 13 = (2 + 1) * (8 + 4 + 2 - 1).

use crate::vectors::QuantisedVector;

/// The bits of a number in a code.
const BITS: usize = 2;
/// The bits of a number of a question.
const QUESTION_BITS: usize = 4;
/// The largest level of a question's number.
const QUESTION_MAX: f32 = 15.0;
/// The product of the largest levels.
const PRODUCT_MAX: i32 = 45;
/// The best width of four equal steps for numbers with a normal distribution, in standard deviations.
const STEP: f32 = 0.9957;

/// The number of 64-bit words in the code of a vector of `dim` numbers.
const fn words(dim: usize) -> usize {
    BITS * dim.div_ceil(64)
}

/// The bytes of a code: its words and its scale.
pub(crate) const fn code_bytes(dim: usize) -> usize {
    8 * words(dim) + 4
}

/// The codes of many vectors, each kind of value in one array.
#[derive(Default)]
pub(crate) struct Codes {
    /// For each vector the words of the high bits, then those of the low bits.
    words: Vec<u64>,
    /// The scale of each vector. An estimate is the product of the levels, times this scale and the scale of
    /// the question.
    scales: Vec<f32>,
}

impl Codes {
    pub(crate) fn reserve(&mut self, many: usize, dim: usize) {
        self.words.reserve_exact(many * words(dim));
        self.scales.reserve_exact(many);
    }

    pub(crate) fn many(&self) -> usize {
        self.scales.len()
    }

    pub(crate) fn push(&mut self, vector: &QuantisedVector) {
        let dim = vector.high.len();
        let at = self.words.len();
        self.words.resize(at + words(dim), 0);
        let (high, low) = self.words[at..].split_at_mut(words(dim) / BITS);
        let numbers = || vector.numbers();
        let deviation = (numbers().map(|x| x * x).sum::<f32>() / dim as f32).sqrt();
        let mut product = 0.0;
        for (number, x) in numbers().enumerate() {
            // A vector of zeros gets a scale of zero, whatever its bits are.
            let level = ((x / (STEP * deviation)).floor() + 2.0).clamp(0.0, 3.0) as u64;
            high[number / 64] |= (level >> 1) << (number % 64);
            low[number / 64] |= (level & 1) << (number % 64);
            product += x * (2.0 * level as f32 - 3.0);
        }
        // With this scale the estimated product of a vector with itself is exact, which makes other estimates
        // correct on average too.
        self.scales.push(if product > 0.0 { 1.0 / product } else { 0.0 });
    }

    /// Appends codes that `put` has written.
    pub(crate) fn extend(&mut self, bytes: &[u8], dim: usize) {
        for code in bytes.chunks_exact(code_bytes(dim)) {
            let (words, scale) = code.split_at(code.len() - 4);
            self.words.extend(words.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)));
            self.scales.extend(scale.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)));
        }
    }

    /// Writes the code of one vector.
    pub(crate) fn put(vector: &QuantisedVector, out: &mut Vec<u8>) {
        let mut one = Codes::default();
        one.push(vector);
        out.extend(one.words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(one.scales.iter().flat_map(|scale| scale.to_le_bytes()));
    }

    /// The estimated cosines of the question and the vectors from `first` on.
    pub(crate) fn estimate(&self, first: usize, question: &QuestionCode, out: &mut [f32]) {
        let words = BITS * question.words;
        let range = first..first + out.len();
        let (codes, scales) = (&self.words[range.start * words..range.end * words], &self.scales[range]);
        // The oldest supported processors lack the instruction that counts bits, so the program checks for it
        // when it runs.
        pulp::Arch::new().dispatch(|| match question.words {
            4 => estimate::<4>(codes, scales, question, out),
            6 => estimate::<6>(codes, scales, question, out),
            _ => estimate_any(codes, scales, question, out),
        });
    }
}

/// The vector of a question, split into the bits of its numbers.
pub(crate) struct QuestionCode {
    /// The words of the highest bits, then those of the next lower ones.
    planes: [Vec<u64>; QUESTION_BITS],
    words: usize,
    dim: i32,
    scale: f32,
}

impl QuestionCode {
    pub(crate) fn new(vector: &[f32]) -> QuestionCode {
        let words = vector.len().div_ceil(64);
        let mut planes = [const { Vec::new() }; QUESTION_BITS];
        planes.iter_mut().for_each(|plane| plane.resize(words, 0));
        let largest = vector.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        let scale = largest / QUESTION_MAX;
        for (number, x) in vector.iter().enumerate() {
            // A question of zeros has a scale of zero, whatever its bits are.
            let level = ((x / scale + QUESTION_MAX) / 2.0).round().clamp(0.0, QUESTION_MAX) as u64;
            for (bit, plane) in planes.iter_mut().rev().enumerate() {
                plane[number / 64] |= (level >> bit & 1) << (number % 64);
            }
        }
        QuestionCode { planes, words, dim: vector.len() as i32, scale }
    }

    /// The estimated cosine, from the weighted number of unequal bits.
    #[inline(always)]
    fn cosine(&self, unequal: u32, scale: f32) -> f32 {
        let product = PRODUCT_MAX * self.dim - 2 * unequal as i32;
        product as f32 * (scale * self.scale)
    }
}

/// The number of unequal bits of two words, each pair of bits counted by the product of their weights.
#[inline(always)]
fn unequal(high: u64, low: u64, planes: [u64; QUESTION_BITS]) -> u32 {
    let mut sum = 0;
    for (bit, plane) in planes.into_iter().rev().enumerate() {
        sum += ((high ^ plane).count_ones() << (bit + 1)) + ((low ^ plane).count_ones() << bit);
    }
    sum
}

/// Like `estimate_any`, for a number of words that the compiler knows, so that it can unroll the loops.
#[inline(always)]
fn estimate<const WORDS: usize>(codes: &[u64], scales: &[f32], question: &QuestionCode, out: &mut [f32]) {
    let planes: [[u64; QUESTION_BITS]; WORDS] =
        std::array::from_fn(|word| std::array::from_fn(|plane| question.planes[plane][word]));
    for ((code, scale), out) in codes.chunks_exact(BITS * WORDS).zip(scales).zip(out) {
        let (high, low) = code.split_at(WORDS);
        let sum = (0..WORDS).map(|word| unequal(high[word], low[word], planes[word])).sum();
        *out = question.cosine(sum, *scale);
    }
}

#[inline(always)]
fn estimate_any(codes: &[u64], scales: &[f32], question: &QuestionCode, out: &mut [f32]) {
    for ((code, scale), out) in codes.chunks_exact(BITS * question.words).zip(scales).zip(out) {
        let (high, low) = code.split_at(question.words);
        let planes = |word: usize| std::array::from_fn(|plane| question.planes[plane][word]);
        let sum = (0..question.words).map(|word| unequal(high[word], low[word], planes(word))).sum();
        *out = question.cosine(sum, *scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed;

    fn vector(text: &str) -> [f32; embed::DIM] {
        embed::passage_vector(&embed::tokens(text))
    }

    fn dot(one: &[f32], other: &[f32]) -> f32 {
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn an_estimate_is_near_the_cosine() {
        let texts = [
            "Deploy on Tuesdays, blue-green, and never on Fridays.",
            "Refunds above 500 EUR need a second approval by finance.",
            "The parser keeps the position of each token for error messages.",
            "Bananas are yellow.",
        ];
        let question = vector("when may we release to production");
        let code = QuestionCode::new(&question);
        let mut codes = Codes::default();
        texts.iter().for_each(|text| codes.push(&QuantisedVector::new(&vector(text))));
        let mut out = [0.0; 4];
        codes.estimate(0, &code, &mut out);
        for (text, estimate) in texts.iter().zip(out) {
            let exact = dot(&vector(text), &question);
            assert!((exact - estimate).abs() < 0.08, "{text}: {estimate} for {exact}");
        }
    }

    #[test]
    fn the_bits_give_the_product_of_the_levels() {
        for dim in [16, 64, 100, 256, 384] {
            let numbers = |seed: usize| -> Vec<f32> {
                (0..dim).map(|at| ((at * seed * 7919 + at * at) % 2001) as f32 / 1000.0 - 1.0).collect()
            };
            let (document, question) = (numbers(3), numbers(5));
            let (mut codes, code) = (Codes::default(), QuestionCode::new(&question));
            let quantised = QuantisedVector::new(&document);
            codes.push(&quantised);
            let exact: Vec<f32> = quantised.numbers().collect();
            let deviation = (exact.iter().map(|x| x * x).sum::<f32>() / dim as f32).sqrt();
            let level = |x: f32| 2.0 * ((x / (STEP * deviation)).floor() + 2.0).clamp(0.0, 3.0) - 3.0;
            let asked = |x: f32| 2.0 * ((x / code.scale + 15.0) / 2.0).round() - 15.0;
            let product: f32 = exact.iter().zip(&question).map(|(x, y)| level(*x) * asked(*y)).sum();
            let own: f32 = exact.iter().map(|x| x * level(*x)).sum();
            let mut out = [0.0];
            codes.estimate(0, &code, &mut out);
            assert!((out[0] - product * code.scale / own).abs() < 1e-4, "{dim}: {} {product}", out[0]);
        }
    }

    #[test]
    fn codes_are_read_as_they_were_written() {
        let texts = ["Deploy on Tuesdays.", "", "Bananas are yellow."];
        let (mut kept, mut bytes) = (Codes::default(), Vec::new());
        for text in texts {
            let quantised = QuantisedVector::new(&vector(text));
            kept.push(&quantised);
            Codes::put(&quantised, &mut bytes);
        }
        let mut read = Codes::default();
        read.extend(&bytes, embed::DIM);
        assert_eq!((read.words, &read.scales), (kept.words, &kept.scales));
        assert_eq!((bytes.len(), kept.scales[1]), (3 * code_bytes(embed::DIM), 0.0));
    }
}
