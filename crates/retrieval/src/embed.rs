//! Meaning as a vector: a table of word vectors that is compiled into the program. No model runs; a text is the
//! weighted sum of its words' rows.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

pub const DIM: usize = 256;

static TABLE: &[u8] = include_bytes!("../model/static256.bin");
static VOCABULARY: &str = include_str!("../model/vocab.txt");

/// The SHA-256 of the table: vectors of different tables must never be mixed.
pub const IDENTITY: &str = "25e075319c2484c4c01c5dd61d5e8e5abe80402edd072a36c8f87cc234d9c516";

/// The number of a row; the table has fewer than 65,536.
pub type Token = u16;

const HEADER_BYTES: usize = 16;
const ROW_BYTES: usize = DIM / 2;
/// BERT gives up on longer words.
const WORD_CHARS_MAX: usize = 100;

struct Rows {
    ids: FxHashMap<&'static str, Token>,
    /// Where the rows begin, behind one scale for each.
    first: usize,
    many: usize,
}

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let number = |at: usize| u32::from_le_bytes(TABLE[at..at + 4].try_into().expect("four bytes")) as usize;
    let many = number(4);
    assert!(&TABLE[..4] == b"SE02" && number(8) == DIM && number(12) == 4, "the table is the one we ship");
    let first = HEADER_BYTES + (2 * many).next_multiple_of(4);
    let ids = VOCABULARY.lines().zip(0..).collect();
    Rows { ids, first, many }
});

/// In how many passages each token of the vocabulary stands: what makes a word of a question rare. Counts of parts
/// add up, so the count of a part may be negative where it takes back what another has.
#[derive(Clone, Debug, Default)]
pub struct TokenCounts {
    passages: i64,
    df: Vec<i32>,
}

impl TokenCounts {
    /// Counts a passage with these distinct tokens `times` over; -1 takes it back.
    pub fn add(&mut self, tokens: impl IntoIterator<Item = Token>, times: i32) {
        self.passages += i64::from(times);
        tokens.into_iter().for_each(|token| self.add_token(token, times));
    }

    pub(crate) fn add_token(&mut self, token: Token, times: i32) {
        self.df.resize(ROWS.many, 0);
        if let Some(df) = self.df.get_mut(usize::from(token)) {
            *df += times;
        }
    }

    pub(crate) fn add_passages(&mut self, many: i64) {
        self.passages += many;
    }

    pub(crate) fn passages(&self) -> i64 {
        self.passages
    }

    /// The tokens that count for anything.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (Token, i32)> {
        self.df.iter().zip(0..).filter(|(df, _)| **df != 0).map(|(df, token)| (token, *df))
    }

    fn df(&self, token: Token) -> i32 {
        self.df.get(usize::from(token)).copied().unwrap_or(0)
    }
}

/// The distinct tokens of a text and how often each stands there.
pub fn tokens(text: &str) -> Vec<(Token, u32)> {
    let mut ids = Vec::with_capacity(text.len() / 5);
    each_word(text, &mut |word| pieces(word, &mut ids));
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

/// The vector of a stored passage, of length 1; zero when it has no known word.
pub fn passage_vector(tokens: &[(Token, u32)]) -> [f32; DIM] {
    sum(tokens, |_| 1.0)
}

/// The vector of a question: rare words count for more. What all the counts say together decides what is rare.
pub fn question_vector(tokens: &[(Token, u32)], counts: &[&TokenCounts]) -> [f32; DIM] {
    let passages = counts.iter().map(|counts| counts.passages).sum::<i64>() as f32;
    sum(tokens, |token| {
        let df = counts.iter().map(|counts| counts.df(token)).sum::<i32>() as f32;
        (1.0 + (passages - df + 0.5) / (df + 0.5)).ln()
    })
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

/// Half precision, by hand: the table has one such number per row and nothing else needs them.
fn f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// As BERT splits: lower case, no accents, cut at blanks, punctuation and CJK characters.
fn each_word(text: &str, found: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut each = |c: char| {
        let alone = is_punctuation(c) || is_cjk(c);
        if alone || c.is_whitespace() || c.is_control() {
            if !word.is_empty() {
                found(&word);
                word.clear();
            }
            if alone {
                found(c.encode_utf8(&mut [0; 4]));
            }
        } else if c != '\u{fffd}' {
            word.push(c);
        }
    };
    match text.is_ascii() {
        true => text.bytes().for_each(|byte| each(byte.to_ascii_lowercase() as char)),
        false => text
            .chars()
            .flat_map(char::to_lowercase)
            .nfd()
            .filter(|c| !is_combining_mark(*c))
            .for_each(&mut each),
    }
    each(' ');
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}')
        || matches!(c, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}')
        || matches!(c, '\u{3008}'..='\u{3011}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}')
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2fa1f}' | '\u{f900}'..='\u{faff}')
}

/// Longest match first; a word with a piece that is not in the vocabulary has no tokens at all.
fn pieces(word: &str, ids: &mut Vec<Token>) {
    let before = ids.len();
    if word.chars().count() > WORD_CHARS_MAX {
        return;
    }
    if let Some(id) = ROWS.ids.get(word) {
        ids.push(*id);
        return;
    }
    let mut rest = word;
    let mut key = String::new();
    while !rest.is_empty() {
        let mut end = rest.len();
        let found = loop {
            key.clear();
            if rest.len() < word.len() {
                key.push_str("##");
            }
            key.push_str(&rest[..end]);
            if let Some(id) = ROWS.ids.get(key.as_str()) {
                break Some(*id);
            }
            match rest[..end].char_indices().next_back() {
                Some((at, _)) if at > 0 => end = at,
                _ => break None,
            }
        };
        match found {
            Some(id) => ids.push(id),
            None => {
                ids.truncate(before);
                return;
            }
        }
        rest = &rest[end..];
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
        assert_eq!((ROWS.many, ROWS.ids.len()), (56_522, 56_522));
        assert_eq!(TABLE.len(), ROWS.first + ROWS.many * ROW_BYTES);
    }

    #[test]
    fn words_are_cut_as_the_vocabulary_has_them() {
        let names: FxHashMap<Token, &str> = ROWS.ids.iter().map(|(name, id)| (*id, *name)).collect();
        let check = |text: &str, expected: &str| {
            let mut ids = Vec::new();
            each_word(text, &mut |word| pieces(word, &mut ids));
            let shown: Vec<&str> = ids.iter().map(|id| names[id]).collect();
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
