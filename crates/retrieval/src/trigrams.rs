//! The similarity of the spelling of two words, by the trigrams that they share (the Dice coefficient).
//!
//! Example: "banane" and "banana", each with a blank on both sides, have the trigrams " ba", "ban", "ana", "nan", "ane",
//! "ne " and " ba", "ban", "ana", "nan", "na ". They share four, so the coefficient is 2 * 4 / (6 + 5) = 0.73.

/// A bit set of the trigrams of a word. Comparing two bit sets shows quickly that two words can't be spelt
/// alike.
pub(crate) fn trigram_bits(word: &str) -> u64 {
    trigrams(word).iter().map(trigram_bit).fold(0, |bits, bit| bits | bit)
}

/// The bit of a trigram; different trigrams may have the same bit.
pub(crate) fn trigram_bit(three: &[char; 3]) -> u64 {
    let mixed = three.iter().fold(0u64, |sum, c| (sum ^ u64::from(*c)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    1u64 << (mixed >> 58)
}

/// The trigrams of a word with a blank on both sides, sorted, each once.
pub(crate) fn trigrams(word: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
    let mut trigrams: Vec<[char; 3]> =
        padded.windows(3).map(|three| [three[0], three[1], three[2]]).collect();
    trigrams.sort_unstable();
    trigrams.dedup();
    trigrams
}

/// The Dice coefficient: twice the shared trigrams, divided by the trigrams of both.
pub(crate) fn dice(a: &[[char; 3]], b: &[[char; 3]]) -> f32 {
    let shared = a.iter().filter(|three| b.binary_search(three).is_ok()).count();
    2.0 * shared as f32 / (a.len() + b.len()).max(1) as f32
}

/// An upper bound of `dice`, computed from bits alone. `asked` has the bit of each trigram of one word,
/// `known_bits` the bit set of the other. The first word shares at most those trigrams whose bit is set, and
/// the other word has at least as many trigrams as it has bits, and as it shares.
pub(crate) fn dice_max(asked: &[u64], known_bits: u64) -> f32 {
    let shared = asked.iter().filter(|bit| known_bits & **bit != 0).count();
    let many = shared.max(known_bits.count_ones() as usize);
    2.0 * shared as f32 / (asked.len() + many).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_never_tell_less_than_the_trigrams() {
        let words = [
            "",
            "a",
            "kubernetes",
            "kubernets",
            "kubectl",
            "aaaaaaa",
            "lagerplatz",
            "lagerplatznummer",
            "semantics",
            "semantic",
            "antics",
            "überzug",
            "zug",
            "karibote",
            "karitebo",
            "tekaribo",
        ];
        for (one, other) in words.iter().flat_map(|one| words.iter().map(move |other| (one, other))) {
            let asked: Vec<u64> = trigrams(one).iter().map(trigram_bit).collect();
            let [dice, most] =
                [dice(&trigrams(one), &trigrams(other)), dice_max(&asked, trigram_bits(other))];
            assert!(dice <= most, "{one} {other}: {dice} {most}");
        }
        let asked: Vec<u64> = trigrams("kubernetes").iter().map(trigram_bit).collect();
        assert!(dice_max(&asked, trigram_bits("lagerplatz")) < 0.45);
    }
}
