//! Words related to a word: `rollout` to `deploy`, `invoice` to `bill`. The list was made once from the table
//! of word vectors (`cargo run --release -p kenning-retrieval --example related`) and is compiled in.
//!
//! Layout, little endian: the number of words as u32; for each word, in the order of its row, the row as u16 and the number
//! of pairs up to the end of its own as u32; then the pairs, nearest first: the other row as u16, the cosine times 255 as u8.

use crate::embed::{self, Token};

static RELATED: &[u8] = include_bytes!("../model/related.bin");

const COUNT: usize = 4;
const HEAD: usize = 6;
const PAIR: usize = 3;

/// A word that is related to another, and the cosine of the two.
pub struct Related {
    pub word: &'static str,
    pub cosine: f32,
}

/// The words related to a word, nearest first; none for a word that the vocabulary does not have as a whole.
pub fn related(word: &str) -> impl Iterator<Item = Related> {
    let pairs = embed::row_of(word).map_or(&[][..], pairs_of);
    pairs.as_chunks::<PAIR>().0.iter().map(|[low, high, cosine]| Related {
        word: embed::word_of(u16::from_le_bytes([*low, *high])),
        cosine: f32::from(*cosine) / 255.0,
    })
}

fn pairs_of(row: Token) -> &'static [u8] {
    let (count, rest) = RELATED.split_first_chunk::<COUNT>().expect("the list is the one we ship");
    let (heads, pairs) = rest.split_at(HEAD * u32::from_le_bytes(*count) as usize);
    let heads = heads.as_chunks::<HEAD>().0;
    let row_at = |head: &[u8; HEAD]| u16::from_le_bytes([head[0], head[1]]);
    let Ok(at) = heads.binary_search_by_key(&row, row_at) else { return &[] };
    let end_at = |head: &[u8; HEAD]| PAIR * u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
    let start = at.checked_sub(1).map_or(0, |before| end_at(&heads[before]));
    &pairs[start..end_at(&heads[at])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_of_the_table_that_ships() {
        let unit = |word: &str| embed::passage_vector(&embed::tokens(word));
        for word in ["deploy", "invoice", "monday", "database", "quick"] {
            let found: Vec<Related> = related(word).collect();
            assert!(!found.is_empty(), "{word} has related words");
            for Related { word: other, cosine } in found {
                let exact = unit(word).iter().zip(&unit(other)).map(|(a, b)| a * b).sum::<f32>();
                assert!((exact - cosine).abs() < 0.01 && cosine >= 0.49, "{word} {other} {exact} {cosine}");
                assert_ne!(crate::lex::terms(word), crate::lex::terms(other), "another stem");
            }
        }
        assert_eq!(related("voucherredemptionservice").count(), 0);
    }
}
