//! Which words look alike.

/// One bit for each trigram, to see at a glance what can't look like a word.
pub(crate) fn trigram_bits(word: &str) -> u64 {
    trigrams(word).iter().map(trigram_bit).fold(0, |bits, bit| bits | bit)
}

/// Several trigrams may have the same one.
pub(crate) fn trigram_bit(three: &[char; 3]) -> u64 {
    let mixed = three.iter().fold(0u64, |sum, c| (sum ^ u64::from(*c)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    1u64 << (mixed >> 58)
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

/// The most that `dice` can be for a word whose trigrams have these bits, beside another word by the bit of each of its
/// trigrams. No more of these can be shared than have one of the bits, and the word has at least as many trigrams as
/// bits, and as it shares.
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
