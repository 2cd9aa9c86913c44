//! Finds names in the graph that are nearly equal, so that one thing is not written under two names.

use std::collections::BTreeSet;

use kenning_engine::{Sight, Snapshot};
use kenning_model::fold;

use crate::Stop;

/// The largest number of names that a reply suggests.
const NAMES_MAX: usize = 5;

/// Existing names that are most likely another spelling of this name: `auth-service` for `Auth Service`.
pub(super) fn respelt(known: &BTreeSet<String>, name: &str) -> Vec<String> {
    best(known, name, |one, other| {
        distance(one, other).filter(|distance| *distance <= one.len().min(other.len()) / 5)
    })
}

/// Existing names that may have been meant: other spellings, and names that contain this name or are
/// contained in it.
pub(super) fn nearest(snapshot: &Snapshot<'_>, sight: &Sight, name: &str) -> Result<Vec<String>, Stop> {
    let known = snapshot.names_in_triples(sight)?;
    Ok(best(&known, name, |one, other| {
        let is_part = one.len().min(other.len()) >= 3 && (one.contains(other) || other.contains(one));
        let distance = distance(one, other).filter(|distance| *distance <= one.len().max(other.len()) / 3);
        if is_part { Some(distance.unwrap_or(usize::MAX)) } else { distance }
    }))
}

fn best(known: &BTreeSet<String>, name: &str, rank: impl Fn(&str, &str) -> Option<usize>) -> Vec<String> {
    let (folded, letters) = (fold(name), letters(name));
    let others = known.iter().filter(|other| **other != folded);
    let mut found: Vec<(usize, &String)> =
        others.filter_map(|other| Some((rank(&letters, &self::letters(other))?, other))).collect();
    found.sort();
    found.into_iter().take(NAMES_MAX).map(|(_, other)| other.clone()).collect()
}

/// The letters and digits of a name; the characters between them are a matter of spelling.
fn letters(name: &str) -> String {
    fold(name).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The edit distance between two names; `None` if their digits differ, since `host 1` and `host 2` are two
/// things.
fn distance(one: &str, other: &str) -> Option<usize> {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    // Names of very different length, which most pairs are, are far apart, so the distance is not computed.
    let is_near = one.len().abs_diff(other.len()) <= one.len().max(other.len()) / 3;
    (is_near && digits(one) == digits(other)).then(|| strsim::damerau_levenshtein(one, other))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::respelt;

    #[test]
    fn another_spelling_is_found_and_another_thing_is_not() {
        let known: BTreeSet<String> =
            ["auth service", "billing", "host 1", "db", "checkout-api"].map(str::to_owned).into();
        let cases: [(&str, &[&str]); 7] = [
            ("Auth-Service", &["auth service"]),
            ("auth servise", &["auth service"]),
            ("auth service", &[]),
            ("host 2", &[]),
            ("dc", &[]),
            ("CheckoutAPI", &["checkout-api"]),
            ("building", &[]),
        ];
        for (name, expected) in cases {
            assert_eq!(respelt(&known, name), expected, "{name}");
        }
    }
}
