//! Which words look alike.

/// One bit for each trigram, to see at a glance what can't look like a word.
pub(crate) fn trigram_bits(word: &str) -> u64 {
    let bit = |three: &[char; 3]| {
        let mixed =
            three.iter().fold(0u64, |sum, c| (sum ^ u64::from(*c)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        1u64 << (mixed >> 58)
    };
    trigrams(word).iter().map(bit).fold(0, |bits, bit| bits | bit)
}

/// Each once, in order, with a blank on either side of the word.
pub(crate) fn trigrams(word: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
    let mut trigrams: Vec<[char; 3]> =
        padded.windows(3).map(|three| [three[0], three[1], three[2]]).collect();
    trigrams.sort_unstable();
    trigrams.dedup();
    trigrams
}

/// Shared trigrams of all trigrams, both ways.
pub(crate) fn dice(a: &[[char; 3]], b: &[[char; 3]]) -> f32 {
    let shared = a.iter().filter(|three| b.binary_search(three).is_ok()).count();
    2.0 * shared as f32 / (a.len() + b.len()).max(1) as f32
}
