//! Long texts are compared by their best passage, since the meaning of a whole page is the meaning of nothing.

use std::ops::Range;

use crate::lex::is_unspaced;

/// About what the table of vectors was made for.
const WORDS_MAX: usize = 160;

/// Cuts at the ends of sentences, or between words where a sentence is too long by itself.
pub fn passages(text: &str) -> Vec<&str> {
    passage_ranges(text).into_iter().map(|range| &text[range]).collect()
}

/// Where the passages of a text stand in it.
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
            // Whether there are more than fit is all that matters, so a long sentence is not read to its end at each cut.
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

/// Sentences and how many words each has. A mark ends one only before a blank, so `4.2.1` and `e.g.x` hold together.
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

/// A character of a script without blanks counts as a word.
fn words_in(text: &str) -> usize {
    words_up_to(text, usize::MAX)
}

/// As `words_in`, but counts no further than `most`.
fn words_up_to(text: &str, most: usize) -> usize {
    let mut words = 0;
    // How many characters of such a script the word has that is being read.
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

/// Where the first so many words end.
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
