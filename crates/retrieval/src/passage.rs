//! Cuts long texts into passages. A text is compared by its best passage, because the vector of a whole page
//! mixes many subjects and is near to none of them.

use std::ops::Range;

use crate::lex::is_unspaced;

/// The longest passage, about the length of text that the table of vectors was made for.
const WORDS_MAX: usize = 160;

/// The passages of a text. It is cut at the ends of sentences, or between words where a single sentence is
/// too long.
pub fn passages(text: &str) -> Vec<&str> {
    passage_ranges(text).into_iter().map(|range| &text[range]).collect()
}

/// The ranges of the passages in their text.
pub fn passage_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut words) = (0, 0);
    for (sentence, count) in sentences(text) {
        if words > 0 && words + count > WORDS_MAX {
            ranges.push(start..sentence.start);
            (start, words) = (sentence.start, 0);
        }
        words += count;
        while words > WORDS_MAX {
            let cut = start + words_end(&text[start..sentence.end], WORDS_MAX);
            ranges.push(start..cut);
            start = cut;
            // Only whether more words follow than fit matters, so a long sentence is not counted to its end
            // at each cut.
            words = words_up_to(&text[start..sentence.end], WORDS_MAX + 1);
        }
    }
    ranges.push(start..text.len());
    ranges.into_iter().map(|range| trimmed(text, range)).filter(|range| !range.is_empty()).collect()
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + part.len() - part.trim_start().len();
    start..start + part.trim().len()
}

/// The sentences, each with its number of words. A mark ends a sentence only before a blank, so `4.2.1` and
/// `e.g.x` are not cut.
fn sentences(text: &str) -> Vec<(Range<usize>, usize)> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = (matches!(c, '.' | '!' | '?') && next.is_none_or(char::is_whitespace))
            || matches!(c, '\n' | '。' | '！' | '？');
        if ends || next.is_none() {
            let end = at + c.len_utf8();
            sentences.push((start..end, words_in(&text[start..end])));
            start = end;
        }
    }
    sentences
}

/// The number of words. Each character of a script without blanks counts as a word.
fn words_in(text: &str) -> usize {
    words_up_to(text, usize::MAX)
}

/// Like `words_in`, but stops counting at `most`.
fn words_up_to(text: &str, most: usize) -> usize {
    let mut words = 0;
    // The number of characters of such a script in the current word.
    let mut unspaced: Option<usize> = None;
    for c in text.chars() {
        if c.is_whitespace() {
            words += unspaced.take().map_or(0, |many| many.max(1));
        } else {
            *unspaced.get_or_insert(0) += usize::from(is_unspaced(c));
        }
        if words + unspaced.unwrap_or(0) >= most {
            return most;
        }
    }
    words + unspaced.map_or(0, |many| many.max(1))
}

/// The position after the first `many` words.
fn words_end(text: &str, many: usize) -> usize {
    let mut end = text.len();
    let mut words = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match (inside, c.is_whitespace()) {
            (false, false) => {
                if words == many {
                    end = at;
                    break;
                }
                words += 1;
                inside = !is_unspaced(c);
            }
            (true, true) => inside = false,
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::{passages, words_in, words_up_to};

    #[test]
    fn short_texts_are_one_passage_and_long_ones_are_cut_at_sentences() {
        assert_eq!(passages("One sentence. Another."), ["One sentence. Another."]);
        assert!(passages("  ").is_empty());
        let han: Vec<usize> =
            passages(&"重启需要五分钟。".repeat(60)).iter().map(|p| p.chars().count()).collect();
        assert_eq!(han, [176, 176, 128], "marks are no words");
        assert_eq!(passages(&"重".repeat(400)).len(), 3);
        let sentence = format!("{}end.", "word ".repeat(99));
        let text = [sentence.as_str(); 3].join(" ");
        assert_eq!(passages(&text), [sentence.as_str(); 3]);
        let endless = "word ".repeat(400);
        let lengths: Vec<usize> = passages(&endless).iter().map(|p| p.split(' ').count()).collect();
        assert_eq!(lengths, [160, 160, 80]);
    }
    #[test]
    fn words_are_counted_no_further_than_needed() {
        for (text, expected) in
            [("", 0), ("  ", 0), (" one two ", 2), ("重启 abc", 3), ("a重b c", 2), ("重", 1)]
        {
            assert_eq!(words_in(text), expected, "{text}");
            for most in 0..5 {
                assert_eq!(words_up_to(text, most), expected.min(most), "{text}");
            }
        }
    }
}
