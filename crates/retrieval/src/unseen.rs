//! The parts of a Markdown text that a reader of the page does not see: the targets of links, the backslashes of
//! escapes, and the blanks that align the columns of a table. In the reference pages of a program they are up to a
//! third of the bytes. A quote leaves them out, because they cost tokens and say nothing.

use std::ops::Range;

/// The marks after which an escape is undone. Others are left as they are: `\d` in a regular expression is no escape.
const ESCAPED: &[u8] = b"_*[]<>";
/// A link or a piece of code inside a line is not followed further than this, so that a text of nothing but opening
/// brackets is not read again for each of them.
const LOOK_AHEAD: usize = 1000;
/// The dashes that a row between the head and the body of a table keeps in each column.
const DASHES: usize = 3;

/// The ranges that a reader does not see, in the order of the text.
#[derive(Default)]
pub struct Unseen(Vec<Range<usize>>);

impl Unseen {
    /// Finds them in `text`, leaving out the ranges that are code.
    pub(crate) fn new(text: &str, code: &[Range<usize>]) -> Unseen {
        let mut unseen = Vec::new();
        let mut start = 0;
        for block in code {
            in_stretch(text.as_bytes(), start..block.start, &mut unseen);
            start = block.end;
        }
        in_stretch(text.as_bytes(), start..text.len(), &mut unseen);
        Unseen(unseen)
    }

    /// The text of a range as a reader sees it.
    pub fn shown(&self, text: &str, range: Range<usize>) -> String {
        let mut shown = String::with_capacity(range.len());
        let mut start = range.start;
        for unseen in self.within(&range) {
            if unseen.start > start {
                shown.push_str(&text[start..unseen.start]);
            }
            start = start.max(unseen.end);
        }
        shown.push_str(&text[start.min(range.end)..range.end]);
        shown
    }

    fn within(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first = self.0.partition_point(|unseen| unseen.end <= range.start);
        let Range { start, end } = range.clone();
        let within = self.0[first..].iter().take_while(move |unseen| unseen.start < end);
        within.map(move |unseen| unseen.start.max(start)..unseen.end.min(end))
    }
}

/// Example: in `see [the \_list](#list)` the parts `[`, `\` and `](#list)` are unseen.
fn in_stretch(text: &[u8], stretch: Range<usize>, unseen: &mut Vec<Range<usize>>) {
    let mut at = stretch.start;
    let (mut is_line_start, mut is_row) = (true, false);
    // The targets of the links whose labels are open, from the bracket that ends the label; the innermost is last.
    let mut targets: Vec<Range<usize>> = Vec::new();
    while at < stretch.end {
        let rest = &text[at..stretch.end];
        if is_line_start {
            is_row = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'|');
        }
        is_line_start = rest[0] == b'\n';
        at += match rest[0] {
            b'`' => code_span(rest),
            b'\\' if rest.get(1).is_some_and(|next| ESCAPED.contains(next)) => {
                unseen.push(at..at + 1);
                2
            }
            b'[' => {
                if let Some((label, whole)) = link(rest) {
                    let is_image = at > stretch.start && text[at - 1] == b'!';
                    unseen.push(at - usize::from(is_image)..at + 1);
                    targets.push(at + label..at + whole);
                }
                1
            }
            b']' => {
                // The end of a label that was taken for code was not met.
                while targets.pop_if(|target| target.start < at).is_some() {}
                match targets.pop_if(|target| target.start == at) {
                    Some(target) => {
                        unseen.push(target.clone());
                        target.len()
                    }
                    None => 1,
                }
            }
            mark @ (b' ' | b'-') if is_row => {
                let many = rest.iter().take_while(|byte| **byte == mark).count();
                let kept = if mark == b' ' { 1 } else { DASHES };
                if many > kept {
                    unseen.push(at + kept..at + many);
                }
                many
            }
            _ => 1,
        };
    }
}

/// The length of the code that begins with these backticks, or of the backticks if nothing closes them.
fn code_span(text: &[u8]) -> usize {
    let ticks = |text: &[u8]| text.iter().take_while(|byte| **byte == b'`').count();
    let opening = ticks(text);
    let mut at = opening;
    while at < text.len().min(LOOK_AHEAD) {
        match ticks(&text[at..]) {
            0 => at += 1,
            many if many == opening => return at + many,
            many => at += many,
        }
    }
    opening
}

/// Where the label of a link ends, and the length of the whole link. For `[label](target)` these are 6, the position of
/// `]`, and 15.
fn link(text: &[u8]) -> Option<(usize, usize)> {
    let label = closing(text, b'[', b']')?;
    let target = closing(text.get(label + 1..).filter(|rest| rest.first() == Some(&b'('))?, b'(', b')')?;
    Some((label, label + 1 + target + 1))
}

/// The position of the bracket that closes the first one.
fn closing(text: &[u8], open: u8, close: u8) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len().min(LOOK_AHEAD) {
        match text[at] {
            b'\\' => at += 1,
            b'\n' if text.get(at + 1) == Some(&b'\n') => return None,
            byte if byte == open => depth += 1,
            byte if byte == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::evidence::unseen;

    fn check(text: &str, expected: &str) {
        assert_eq!(unseen(text).shown(text, 0..text.len()), expected, "{text}");
    }

    #[test]
    fn links_escapes_and_the_padding_of_tables_are_not_seen() {
        check("see [the \\_list](a.html#_x_(y)) here", "see the _list here");
        check("![a map](img/map.png) and [![icon](i.png)](page.html)", "a map and icon");
        check("[a\nb](c) [d] (e) [f][g] [h](i\n\nj)", "a\nb [d] (e) [f][g] [h](i\n\nj)");
        check(
            "| name   | what |\n|--------|------|\n  two  blanks",
            "| name | what |\n|---|---|\n  two  blanks",
        );
    }

    #[test]
    fn code_stays_as_it_is() {
        check("`run[x](y)` and ``a ` [b](c)`` and `[d](e)", "`run[x](y)` and ``a ` [b](c)`` and `d");
        check("[a](b)\n```\nrun[x](y)\n|  a  |\n```\n[c](d)", "a\n```\nrun[x](y)\n|  a  |\n```\nc");
        check("[`a]`](b) and [c](d)", "[`a]`](b) and c");
        check(r"\d+ and C:\path", r"\d+ and C:\path");
    }

    #[test]
    fn a_part_is_shown_without_what_is_unseen_in_it() {
        let text = "go [to](page.html) now";
        let shown = |from: usize, to: usize| unseen(text).shown(text, from..to);
        assert_eq!([shown(4, 11), shown(8, 22), shown(0, 3)], ["to", " now", "go "]);
    }

    /// If the time grew with the square of the text, this test would take minutes.
    #[test]
    fn brackets_and_backticks_without_an_end_are_read_once() {
        for text in ["[".repeat(500_000), "[a](".repeat(200_000), "`a``".repeat(200_000)] {
            check(&text, &text);
        }
    }
}
