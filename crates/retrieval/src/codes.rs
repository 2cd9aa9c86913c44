//! Codes: two bits for each number of a vector, from which the cosine with a question is estimated in two
//! steps. A question makes a rough estimate for all documents in sight, from one bit for each number; a finer one,
//! from both bits, for the few thousand that are nearest by the first; and reads the full vectors only of those
//! that are nearest by the second.
//!
//! A number `x` of a vector becomes one of the four levels -3, -1, 1 and 3, which stand for steps of the best
//! size for numbers with a normal distribution. The high bit of a level is the sign of the number.
//!
//! **The rough estimate** takes every number of a document as 1 or -1. Eight signs are a byte; for each half of each
//! byte a table has the sums of the question's numbers under all sixteen combinations of signs, so a document is
//! 64 look-ups and additions. The signs of 32 documents are stored together, so that one instruction does a
//! look-up for each of them. It is off by .05 on average.
//!
//! **The finer estimate** turns a number of a question into one of the sixteen levels -15, -13 … 15. Bits of the
//! same weight are next to each other in words of 64 bits, so the product of two vectors takes one exclusive or
//! and one count of bits for each pair of words. It is off by .024 on average.
//!
//! Example, for vectors of two numbers: the document's levels 3 and -1 are the bits 11 and 01. A question's
//! level is 2u - 15, and 13 and -5 are u = 14 and 5, the bits 1110 and 0101. A pair of equal bits counts 1
//! and a pair of different bits -1, times the weights of both: 3 * 13 = (2 + 1) * (8 + 4 + 2 - 1).

use std::ops::Range;

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
/// The number of documents whose signs are stored together: the bytes of a register of AVX2.
const LANES: usize = 32;
/// The largest number in the tables of a question. Two of them fit into a byte, and those of a vector of 2,048
/// numbers add up to less than 2^16.
const TABLE_MAX: f32 = 127.0;

/// The number of 64-bit words of one bit for each number of a vector of `dim` numbers.
const fn words(dim: usize) -> usize {
    dim.div_ceil(64)
}

/// The bytes of a code: its words and its two scales.
pub(crate) const fn code_bytes(dim: usize) -> usize {
    BITS * 8 * words(dim) + 2 * 4
}

/// The codes of many vectors, each kind of value in one array.
#[derive(Default)]
pub(crate) struct Codes {
    /// The high bits, the signs: row `b * rows + r` has the `r`-th byte of the signs of the vectors `32 b`, `32 b + 1` …
    signs: Vec<[u8; LANES]>,
    /// For each vector the words of the low bits.
    low: Vec<u64>,
    /// An estimate is the product of the levels, times the scale of the vector and that of the question.
    scales: Vec<Scales>,
    /// The number of words of one bit for each number.
    words: usize,
}

/// What makes an estimate of a product of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Scales {
    /// That of the product of signs.
    rough: f32,
    /// That of the product of levels.
    fine: f32,
}

impl Codes {
    pub(crate) fn reserve(&mut self, many: usize, dim: usize) {
        self.signs.reserve_exact(many.div_ceil(LANES) * 8 * words(dim));
        self.low.reserve_exact(many * words(dim));
        self.scales.reserve_exact(many);
    }

    pub(crate) fn many(&self) -> usize {
        self.scales.len()
    }

    pub(crate) fn push(&mut self, vector: &QuantisedVector) {
        let dim = vector.high.len();
        let mut code = vec![0; BITS * words(dim)];
        let (high, low) = code.split_at_mut(words(dim));
        let numbers = || vector.numbers();
        let deviation = (numbers().map(|x| x * x).sum::<f32>() / dim as f32).sqrt();
        let (mut of_signs, mut of_levels) = (0.0, 0.0);
        for (number, x) in numbers().enumerate() {
            // A vector of zeros gets a scale of zero, whatever its bits are.
            let level = ((x / (STEP * deviation)).floor() + 2.0).clamp(0.0, 3.0) as u64;
            high[number / 64] |= (level >> 1) << (number % 64);
            low[number / 64] |= (level & 1) << (number % 64);
            of_signs += x.abs();
            of_levels += x * (2.0 * level as f32 - 3.0);
        }
        // With this scale the estimated product of a vector with itself is exact, which makes other estimates
        // correct on average too.
        let scale = |product: f32| if product > 0.0 { 1.0 / product } else { 0.0 };
        self.add(&code, Scales { rough: scale(of_signs), fine: scale(of_levels) });
    }

    fn add(&mut self, code: &[u64], scales: Scales) {
        self.words = code.len() / BITS;
        let (high, low) = code.split_at(self.words);
        let lane = self.many() % LANES;
        if lane == 0 {
            self.signs.resize(self.signs.len() + 8 * self.words, [0; LANES]);
        }
        let block = self.signs.len() - 8 * self.words;
        let bytes = high.iter().flat_map(|word| word.to_le_bytes());
        self.signs[block..].iter_mut().zip(bytes).for_each(|(row, byte)| row[lane] = byte);
        self.low.extend_from_slice(low);
        self.scales.push(scales);
    }

    /// The words of the signs of one vector.
    #[inline(always)]
    fn signs_of(&self, number: usize, words: &mut [u64]) {
        let (block, lane) = (number / LANES * 8 * self.words, number % LANES);
        let rows = self.signs[block..].as_chunks::<8>().0;
        for (word, rows) in words.iter_mut().zip(rows) {
            *word = u64::from_le_bytes(rows.map(|row| row[lane]));
        }
    }

    /// Appends codes that `put` has written.
    pub(crate) fn extend(&mut self, bytes: &[u8], dim: usize) {
        let mut code = Vec::with_capacity(BITS * words(dim));
        for record in bytes.chunks_exact(code_bytes(dim)) {
            let (numbers, scales) = record.as_chunks::<8>().0.split_at(BITS * words(dim));
            code.clear();
            code.extend(numbers.iter().map(|eight| u64::from_le_bytes(*eight)));
            let [rough, fine] = [0, 4].map(|at| {
                let four = scales[0][at..].first_chunk::<4>();
                four.map_or(0.0, |four| f32::from_le_bytes(*four))
            });
            self.add(&code, Scales { rough, fine });
        }
    }

    /// Writes the code of one vector.
    pub(crate) fn put(vector: &QuantisedVector, out: &mut Vec<u8>) {
        let mut one = Codes::default();
        one.push(vector);
        let mut signs = vec![0; one.words];
        one.signs_of(0, &mut signs);
        out.extend(signs.iter().chain(&one.low).flat_map(|word| word.to_le_bytes()));
        let Scales { rough, fine } = one.scales[0];
        out.extend([rough, fine].iter().flat_map(|scale| scale.to_le_bytes()));
    }

    /// The rough estimates of the cosines of the question and the vectors from `first` on.
    pub(crate) fn rough(&self, first: usize, question: &QuestionCode, out: &mut [f32]) {
        // The oldest supported processors lack the instruction that looks up 32 numbers at once, so the program
        // checks for it when it runs.
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            return pulp::Simd::vectorize(simd, || {
                self.rough_by(first, question, out, |signs| sums_of_32(simd, signs, &question.tables));
            });
        }
        self.rough_by(first, question, out, |signs| sums(signs, &question.tables));
    }

    /// Goes through the blocks that have the vectors from `first` on; `sums` looks up those of one block.
    #[inline(always)]
    fn rough_by(
        &self,
        first: usize,
        question: &QuestionCode,
        out: &mut [f32],
        sums: impl Fn(&[[u8; LANES]]) -> [u16; LANES],
    ) {
        let end = first + out.len();
        let (mut at, mut rest) = (first, out);
        while at < end {
            let from = at % LANES;
            let to = LANES.min(from + end - at);
            let (here, next) = rest.split_at_mut(to - from);
            let block = at / LANES * 8 * self.words;
            let sums = sums(&self.signs[block..block + 8 * self.words]);
            let scales = &self.scales[at..at + here.len()];
            for ((out, sum), scales) in here.iter_mut().zip(&sums[from..to]).zip(scales) {
                *out = (f32::from(*sum) * question.table_step - question.table_zero) * scales.rough;
            }
            (at, rest) = (at + here.len(), next);
        }
    }

    /// For each range of vectors, the best of the finer estimates of their cosines with the question; -1 for an empty range.
    pub(crate) fn fine(&self, ranges: &[Range<u32>], question: &QuestionCode, out: &mut [f32]) {
        // Nor do the oldest have the instruction that counts bits.
        pulp::Arch::new().dispatch(|| {
            let mut signs = vec![0; self.words];
            for (range, out) in ranges.iter().zip(out) {
                *out = -1.0;
                for number in range.start as usize..range.end as usize {
                    *out = out.max(self.fine_of(number, question, &mut signs));
                }
            }
        });
    }

    #[inline(always)]
    fn fine_of(&self, number: usize, question: &QuestionCode, signs: &mut [u64]) -> f32 {
        self.signs_of(number, signs);
        let low = &self.low[number * self.words..][..self.words];
        let mut sum = 0;
        for ((high, low), at) in signs.iter().zip(low).zip(0..) {
            sum += unequal(*high, *low, std::array::from_fn(|plane| question.planes[plane][at]));
        }
        question.cosine(sum, self.scales[number].fine)
    }
}

/// For each half of each byte of the signs, the sum of the question's numbers under each combination of signs, in steps.
/// Each table stands twice, because AVX2 looks up in two halves of a register.
type Tables = Vec<[[u8; LANES]; 2]>;

/// For each of 32 vectors, the sum of what the tables have for its signs.
fn sums(signs: &[[u8; LANES]], tables: &Tables) -> [u16; LANES] {
    let mut sums = [0; LANES];
    for (row, [low, high]) in signs.iter().zip(tables) {
        for (sum, byte) in sums.iter_mut().zip(row) {
            *sum += u16::from(low[usize::from(byte & 15)]) + u16::from(high[usize::from(byte >> 4)]);
        }
    }
    sums
}

/// `sums` with AVX2. Bytes at even places are added up in the low halves of 16-bit numbers, and those at odd places
/// by themselves; what those have added to the high halves is subtracted at the end.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sums_of_32(simd: pulp::x86::V3, signs: &[[u8; LANES]], tables: &Tables) -> [u16; LANES] {
    use std::arch::x86_64::__m256i;
    let avx2 = simd.avx2;
    let half: __m256i = pulp::cast([15u8; LANES]);
    let mut even: __m256i = pulp::cast([0u8; LANES]);
    let mut odd = even;
    for (row, [low, high]) in signs.iter().zip(tables) {
        let row: __m256i = pulp::cast(*row);
        let of_low = avx2._mm256_and_si256(row, half);
        let of_high = avx2._mm256_and_si256(avx2._mm256_srli_epi16::<4>(row), half);
        let low = avx2._mm256_shuffle_epi8(pulp::cast(*low), of_low);
        let high = avx2._mm256_shuffle_epi8(pulp::cast(*high), of_high);
        let both = avx2._mm256_add_epi8(low, high);
        even = avx2._mm256_add_epi16(even, both);
        odd = avx2._mm256_add_epi16(odd, avx2._mm256_srli_epi16::<8>(both));
    }
    even = avx2._mm256_sub_epi16(even, avx2._mm256_slli_epi16::<8>(odd));
    let (even, odd): ([u16; 16], [u16; 16]) = (pulp::cast(even), pulp::cast(odd));
    std::array::from_fn(|lane| if lane % 2 == 0 { even[lane / 2] } else { odd[lane / 2] })
}

/// The vector of a question, prepared for both estimates.
pub(crate) struct QuestionCode {
    tables: Tables,
    /// A sum of the tables, times `table_step` and less `table_zero`, is the product with the signs.
    table_step: f32,
    table_zero: f32,
    /// The bits of the levels: the words of the highest bits, then those of the next lower ones.
    planes: [Vec<u64>; QUESTION_BITS],
    dim: i32,
    scale: f32,
}

impl QuestionCode {
    pub(crate) fn new(vector: &[f32]) -> QuestionCode {
        let words = words(vector.len());
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
        let mut numbers = vector.to_vec();
        numbers.resize(64 * words, 0.0);
        let fours = numbers.as_chunks::<4>().0;
        let reach = |four: &[f32; 4]| four.iter().map(|x| x.abs()).sum::<f32>();
        let table_step = 2.0 * fours.iter().map(reach).fold(0.0, f32::max) / TABLE_MAX;
        let table = |four: &[f32; 4]| -> [u8; LANES] {
            std::array::from_fn(|signs| {
                let signed = |(bit, x): (usize, &f32)| if signs >> bit & 1 == 1 { *x } else { -x };
                let sum: f32 = four.iter().enumerate().map(signed).sum();
                ((sum + reach(four)) / table_step).round() as u8
            })
        };
        QuestionCode {
            tables: fours.as_chunks::<2>().0.iter().map(|eight| eight.each_ref().map(table)).collect(),
            table_step,
            table_zero: fours.iter().map(reach).sum(),
            planes,
            dim: vector.len() as i32,
            scale,
        }
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
        let (mut rough, mut fine) = ([0.0; 4], [0.0; 4]);
        codes.rough(0, &code, &mut rough);
        codes.fine(&[0..1, 1..2, 2..3, 3..4], &code, &mut fine);
        for (text, (rough, fine)) in texts.iter().zip(rough.iter().zip(fine)) {
            let exact = dot(&vector(text), &question);
            assert!((exact - rough).abs() < 0.12, "{text}: {rough} for {exact}");
            assert!((exact - fine).abs() < 0.08, "{text}: {fine} for {exact}");
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
            codes.fine(std::slice::from_ref(&(0..1)), &code, &mut out);
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
        assert_eq!((&read.signs, &read.low, &read.scales), (&kept.signs, &kept.low, &kept.scales));
        assert_eq!((bytes.len(), kept.scales[1]), (3 * code_bytes(embed::DIM), Scales::default()));
    }

    /// 70 vectors are two whole blocks and a part of one.
    #[test]
    fn a_rough_estimate_takes_every_number_of_a_document_as_its_sign() {
        for dim in [16, 64, 100, 256, 384] {
            let numbers = |seed: usize| -> Vec<f32> {
                (0..dim)
                    .map(|at| ((at * seed * 7919 + at * at + seed) % 2001) as f32 / 1000.0 - 1.0)
                    .collect()
            };
            let question = numbers(5);
            let (mut codes, code) = (Codes::default(), QuestionCode::new(&question));
            (0..70).for_each(|seed| codes.push(&QuantisedVector::new(&numbers(seed))));
            let mut all = [0.0; 70];
            codes.rough(0, &code, &mut all);
            for (seed, estimate) in all.iter().enumerate() {
                let exact: Vec<f32> = QuantisedVector::new(&numbers(seed)).numbers().collect();
                let sign = |x: &f32| if *x >= 0.0 { 1.0 } else { -1.0 };
                let product: f32 = exact.iter().zip(&question).map(|(x, y)| sign(x) * y).sum();
                let own: f32 = exact.iter().map(|x| x.abs()).sum();
                let steps = code.table_step * (dim as f32).sqrt() / own;
                assert!(
                    (estimate - product / own).abs() < steps,
                    "{dim}, {seed}: {estimate} {}",
                    product / own
                );
            }
            for range in [0..1, 31..33, 5..70, 64..70, 40..40] {
                let mut some = vec![0.0; range.len()];
                codes.rough(range.start, &code, &mut some);
                assert_eq!(some, all[range]);
            }
            let of_first = sums(&codes.signs[..8 * codes.words], &code.tables);
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = pulp::x86::V3::try_new() {
                assert_eq!(sums_of_32(simd, &codes.signs[..8 * codes.words], &code.tables), of_first);
            }
        }
    }
}
