//! Vectors from a table of word vectors that is compiled into the program. No model runs: the vector of a text is the
//! weighted sum of the rows of its words.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::wordpiece::{each_word, pieces};

pub const DIM: usize = 256;

static TABLE: &[u8] = include_bytes!("../model/static256.bin");
static VOCABULARY: &str = include_str!("../model/vocab.txt");

/// The SHA-256 of the table: vectors of different tables must never be mixed.
pub const IDENTITY: &str = "25e075319c2484c4c01c5dd61d5e8e5abe80402edd072a36c8f87cc234d9c516";

/// The number of a row; the table has fewer than 65,536.
pub type Token = u16;

const HEADER_BYTES: usize = 16;
const ROW_BYTES: usize = DIM / 2;

struct Rows {
    words: Vec<&'static str>,
    ids: FxHashMap<&'static str, Token>,
    /// The offset of the first row in the table, which follows one scale for each row.
    first: usize,
}

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let number = |at: usize| u32::from_le_bytes(TABLE[at..at + 4].try_into().expect("four bytes")) as usize;
    let many = number(4);
    assert!(&TABLE[..4] == b"SE02" && number(8) == DIM && number(12) == 4, "the table is the one we ship");
    let first = HEADER_BYTES + (2 * many).next_multiple_of(4);
    let words: Vec<&str> = VOCABULARY.lines().collect();
    let ids = words.iter().copied().zip(0..).collect();
    Rows { words, ids, first }
});

/// The distinct tokens of a text, and how often each occurs.
pub fn tokens(text: &str) -> Vec<(Token, u32)> {
    counted(ids(text))
}

fn counted(mut ids: Vec<Token>) -> Vec<(Token, u32)> {
    ids.sort_unstable();
    let mut counted: Vec<(Token, u32)> = Vec::new();
    for id in ids {
        match counted.last_mut() {
            Some((last, many)) if *last == id => *many += 1,
            _ => counted.push((id, 1)),
        }
    }
    counted
}

/// The tokens of a text in its order; a word that the table does not have gives none.
fn ids(text: &str) -> Vec<Token> {
    let mut ids = Vec::with_capacity(text.len() / 5);
    each_word(text, &mut |word| {
        pieces(word, |piece| ROWS.ids.get(piece).copied(), &mut ids);
    });
    ids
}

/// The vector of a stored passage, of length 1; zero when it has no known word.
pub fn passage_vector(tokens: &[(Token, u32)]) -> [f32; DIM] {
    sum(tokens, |_| 1.0)
}

/// The vector of a question: each word counts by its weight. A token of several words has the largest of their weights.
pub fn question_vector(words: &[(String, f32)]) -> [f32; DIM] {
    let mut weights: FxHashMap<Token, f32> = FxHashMap::default();
    let mut all = Vec::new();
    for (word, weight) in words {
        let from = all.len();
        each_word(word, &mut |part| {
            pieces(part, |piece| ROWS.ids.get(piece).copied(), &mut all);
        });
        for token in &all[from..] {
            let known = weights.entry(*token).or_default();
            *known = known.max(*weight);
        }
    }
    sum(&counted(all), |token| weights.get(&token).copied().unwrap_or(0.0))
}

/// The row of a word, if the vocabulary has it as a whole and not only its pieces.
pub(crate) fn row_of(word: &str) -> Option<Token> {
    ROWS.ids.get(word).copied()
}

pub(crate) fn word_of(row: Token) -> &'static str {
    ROWS.words.get(usize::from(row)).copied().unwrap_or_default()
}

/// Every row of the vocabulary with its text; pieces of words begin with `##`.
pub fn words() -> impl Iterator<Item = (Token, &'static str)> {
    (0..).zip(ROWS.words.iter().copied())
}

fn sum(tokens: &[(Token, u32)], weight: impl Fn(Token) -> f32) -> [f32; DIM] {
    let mut vector = [0.0; DIM];
    for (token, many) in tokens {
        let many = *many as f32;
        let weight = weight(*token) * 2.0 * many / (many + 1.0);
        add_row(&mut vector, usize::from(*token), weight);
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

fn add_row(vector: &mut [f32; DIM], row: usize, weight: f32) {
    let scale_at = HEADER_BYTES + 2 * row;
    let scale = f16(u16::from_le_bytes([TABLE[scale_at], TABLE[scale_at + 1]])) * weight;
    let from = ROWS.first + row * ROW_BYTES;
    for (pair, byte) in vector.as_chunks_mut::<2>().0.iter_mut().zip(&TABLE[from..from + ROW_BYTES]) {
        pair[0] += scale * (f32::from(byte & 15) - 8.0);
        pair[1] += scale * (f32::from(byte >> 4) - 8.0);
    }
}

/// Decodes a number of half precision. The table has one such number per row and nothing else needs them, so a crate
/// would be too much.
fn f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_that_was_measured() {
        use sha2::{Digest, Sha256};
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
        assert_eq!(hex(TABLE), IDENTITY);
        let vocabulary = "469d1d48fde31f69325ef2cf1b7445af9e503ac55dcb43e6abbc2909b84b9458";
        assert_eq!(hex(VOCABULARY.as_bytes()), vocabulary);
        assert_eq!((ROWS.words.len(), ROWS.ids.len()), (56_522, 56_522));
        assert_eq!(TABLE.len(), ROWS.first + ROWS.words.len() * ROW_BYTES);
    }

    #[test]
    fn words_are_cut_as_the_vocabulary_has_them() {
        let names: FxHashMap<Token, &str> = ROWS.ids.iter().map(|(name, id)| (*id, *name)).collect();
        let check = |text: &str, expected: &str| {
            let shown: Vec<&str> = ids(text).iter().map(|id| names[id]).collect();
            assert_eq!(shown.join(" "), expected, "{text}");
        };
        check("Deploy with kubectl!", "deploy with kubectl !");
        check("Café naïve", "cafe naive");
        check("unaffable", "una ##ffa ##ble");
    }

    #[test]
    fn like_meanings_are_nearer_than_unlike_ones() {
        let vector = |text| passage_vector(&tokens(text));
        let near = |a: [f32; DIM], b: [f32; DIM]| a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>();
        let asked = vector("How do I undo a release?");
        let right = near(asked, vector("Roll back the deployment to the previous version."));
        let wrong = near(asked, vector("The coffee machine on floor 2 is the good one."));
        assert!(right > wrong + 0.1, "{right} {wrong}");
        assert_eq!(vector("").iter().sum::<f32>(), 0.0);
    }

    #[test]
    fn half_precision_is_read_right() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8)]
        {
            assert_eq!(f16(bits), value);
        }
    }
}
