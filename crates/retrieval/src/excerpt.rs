//! The best parts of a long text: the sentences around the words of a question.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::evidence::{Rarity, sentences};
use crate::lex;

/// Marks a place where text was left out.
pub const GAP: &str = "[…]";
/// The weight of a term in a neighbouring sentence.
const BESIDE: f32 = 0.5;
/// The bonus of the first sentence, which most often says what the text is about.
const FIRST: f32 = 0.05;

/// The best parts of a text in their order, together at most `bytes_max` long, with `[…]` where text is
/// missing. A text that fits is returned whole.
pub fn excerpt(question: &[Rarity], text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let spans: Vec<Range<usize>> = sentences(text);
    let mut chosen: Vec<usize> = Vec::new();
    // Room for the gaps at both ends, and for one beside each chosen sentence.
    let gap = GAP.len() + 2;
    let mut room = bytes_max.saturating_sub(gap);
    for at in ranked(question, text, &spans) {
        let bytes = spans[at].len() + gap;
        if bytes <= room {
            room -= bytes;
            chosen.push(at);
        }
    }
    if chosen.is_empty() {
        let end = text.floor_char_boundary(bytes_max.saturating_sub(gap));
        return format!("{} {GAP}", text[..end].trim_end());
    }
    chosen.sort_unstable();
    written(text, &spans, &chosen)
}

/// The sentences, best first. The score of a sentence comes from its own words and those of its neighbours,
/// so sentences around the best one come before weaker ones elsewhere.
fn ranked(question: &[Rarity], text: &str, spans: &[Range<usize>]) -> Vec<usize> {
    let terms: Vec<HashSet<Arc<str>>> =
        spans.iter().map(|span| lex::terms(&text[span.clone()]).into_iter().collect()).collect();
    let whole = question.iter().map(|rarity| rarity.idf).sum::<f32>().max(f32::MIN_POSITIVE);
    let has = |at: usize, rarity: &Rarity| terms.get(at).is_some_and(|terms| terms.contains(&rarity.term));
    let score = |at: usize| {
        let share = |rarity: &Rarity| {
            let is_beside =
                at.checked_sub(1).is_some_and(|before| has(before, rarity)) || has(at + 1, rarity);
            let counts = if has(at, rarity) {
                1.0
            } else if is_beside {
                BESIDE
            } else {
                0.0
            };
            counts * rarity.idf
        };
        let first = if at == 0 { FIRST } else { 0.0 };
        question.iter().map(share).sum::<f32>() / whole + first
    };
    let mut scores: Vec<(f32, usize)> = (0..spans.len()).map(|at| (score(at), at)).collect();
    scores.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    scores.into_iter().map(|(_, at)| at).collect()
}

fn written(text: &str, spans: &[Range<usize>], chosen: &[usize]) -> String {
    let mut shown = String::new();
    let mut next = 0;
    for at in chosen {
        if *at > next {
            if !shown.is_empty() {
                shown.push(' ');
            }
            shown.push_str(GAP);
        }
        let from = if *at == next && next > 0 { spans[next - 1].end } else { spans[*at].start };
        if *at > next && !shown.is_empty() {
            shown.push(' ');
        }
        // The text between two neighbours is kept, including line breaks.
        shown.push_str(&text[from..spans[*at].end]);
        next = at + 1;
    }
    if next < spans.len() {
        shown.push(' ');
        shown.push_str(GAP);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str, bytes_max: usize, expected: &str) {
        let terms = lex::question_terms(question).into_iter().map(|term| Rarity { term, idf: 1.0 });
        let found = excerpt(&terms.collect::<Vec<_>>(), text, bytes_max);
        assert_eq!(found, expected);
        assert!(found.len() <= bytes_max, "{} bytes", found.len());
    }

    #[test]
    fn the_best_parts_are_shown_wherever_they_stand() {
        let text =
            "Mara went home. It rained all day. The dog is called Biscuit. Dinner was late. Tom slept.";
        check("what is the dog called", text, 200, text);
        check("what is the dog called", text, 50, "[…] The dog is called Biscuit. […]");
        check("what is the dog called", text, 64, "[…] The dog is called Biscuit. Dinner was late. […]");
        check("zebra", text, 30, "Mara went home. […]");
        check("zebra", text, 16, "Mara went […]");
    }
}
