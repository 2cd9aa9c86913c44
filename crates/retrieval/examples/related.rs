//! Makes `model/related.bin` from the table of word vectors: for each word the nearest words of another stem. Run it again
//! when the table changes: `cargo run --release -p kenning-retrieval --example related > crates/retrieval/model/related.bin`.

use std::io::Write;

use kenning_retrieval::{embed, lex};

/// Words with a lower cosine are not related. Fitted on labelled sets, where anything from .35 to .55 does as well.
const COSINE_MIN: f32 = 0.50;
/// How many related words are kept of each word. A question uses the first eight that are in its sight.
const KEPT: usize = 24;

struct Word {
    row: u16,
    term: String,
    vector: Vec<f32>,
}

fn main() -> std::io::Result<()> {
    let words: Vec<Word> = embed::words()
        .filter(|(_, word)| word.chars().count() > 2 && word.chars().all(char::is_alphabetic))
        .filter_map(|(row, word)| {
            let [term] = lex::terms(word).try_into().ok()?;
            let vector = embed::passage_vector(&[(row, 1)]).to_vec();
            Some(Word { row, term: term.to_string(), vector })
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let lists: Vec<Vec<(u16, u8)>> = std::thread::scope(|scope| {
        let shares = words.chunks(words.len().div_ceil(threads));
        let started: Vec<_> = shares
            .map(|share| scope.spawn(|| share.iter().map(|word| nearest(word, &words)).collect::<Vec<_>>()))
            .collect();
        started.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let known: Vec<(&Word, &Vec<(u16, u8)>)> =
        words.iter().zip(&lists).filter(|(_, list)| !list.is_empty()).collect();
    let mut bytes = (known.len() as u32).to_le_bytes().to_vec();
    let mut end = 0u32;
    for (word, list) in &known {
        end += list.len() as u32;
        bytes.extend(word.row.to_le_bytes());
        bytes.extend(end.to_le_bytes());
    }
    for (row, cosine) in known.iter().flat_map(|(_, list)| list.iter()) {
        bytes.extend(row.to_le_bytes());
        bytes.push(*cosine);
    }
    eprintln!("{} words, {end} pairs, {} bytes", known.len(), bytes.len());
    std::io::stdout().write_all(&bytes)
}

/// The nearest words of other stems, one for each stem.
fn nearest(word: &Word, words: &[Word]) -> Vec<(u16, u8)> {
    let cosine = |other: &Word| word.vector.iter().zip(&other.vector).map(|(a, b)| a * b).sum::<f32>();
    let mut near: Vec<(f32, &Word)> = words
        .iter()
        .filter(|other| other.term != word.term)
        .map(|other| (cosine(other), other))
        .filter(|(cosine, _)| *cosine >= COSINE_MIN)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.row.cmp(&b.1.row)));
    let mut stems = std::collections::HashSet::new();
    near.retain(|(_, other)| stems.insert(&other.term));
    near.truncate(KEPT);
    near.into_iter().map(|(cosine, other)| (other.row, (cosine * 255.0).round().min(255.0) as u8)).collect()
}
