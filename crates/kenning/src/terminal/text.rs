//! Text with styles.

use std::fmt;
use std::ops::Range;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::PLAIN;
use crate::commands::on_terminal;

/// A text for people. Control characters in added strings are shown and not executed by the terminal; the
/// only escape sequences are those of the styles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    parts: Vec<(Style, String)>,
}

impl Text {
    pub fn new() -> Text {
        Text::default()
    }

    pub fn plain(text: impl AsRef<str>) -> Text {
        Text::styled(PLAIN, text)
    }

    pub fn styled(style: Style, text: impl AsRef<str>) -> Text {
        Text::new().with(style, text)
    }

    pub fn with(mut self, style: Style, text: impl AsRef<str>) -> Text {
        self.push(style, text);
        self
    }

    pub fn push(&mut self, style: Style, text: impl AsRef<str>) {
        let text = on_terminal(text.as_ref());
        match self.parts.last_mut() {
            Some((last, before)) if *last == style => before.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.parts.push((style, text.into_owned())),
        }
    }

    pub fn append(&mut self, more: Text) {
        for (style, text) in more.parts {
            self.push(style, text);
        }
    }

    /// A text in which some ranges have another style.
    pub fn marked(text: &str, marks: &[Range<usize>], mark: Style) -> Text {
        let (mut shown, mut end) = (Text::new(), 0);
        for range in marks {
            if range.start < end {
                continue;
            }
            shown.push(PLAIN, &text[end..range.start]);
            shown.push(mark, &text[range.clone()]);
            end = range.end;
        }
        shown.push(PLAIN, &text[end..]);
        shown
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The lines of the text, each as a text of its own.
    pub fn lines(&self) -> Vec<Text> {
        let mut lines = vec![Text::new()];
        for (style, text) in &self.parts {
            for (number, part) in text.split('\n').enumerate() {
                if number > 0 {
                    lines.push(Text::new());
                }
                if let Some(last) = lines.last_mut() {
                    last.push(*style, part);
                }
            }
        }
        lines
    }

    /// How many columns a text of one line takes.
    pub fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| text.width()).sum()
    }

    /// The first columns of a text of one line, with an ellipsis if a part is missing.
    pub fn cut(&self, columns: usize) -> Text {
        if self.width() <= columns {
            return self.clone();
        }
        let (mut shown, mut left) = (Text::new(), columns.saturating_sub(1));
        for (style, text) in &self.parts {
            let fits = fitting(text, left);
            shown.push(*style, &text[..fits]);
            left -= text[..fits].width();
            if fits < text.len() {
                break;
            }
        }
        shown.push(PLAIN, "…");
        shown
    }

    /// Breaks lines at blanks so that they fit. Every line, the first one too, is indented by `indent`
    /// blanks.
    pub fn wrapped(&self, indent: usize, columns: Option<usize>) -> Text {
        let blanks = " ".repeat(indent);
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent).max(20));
        let mut shown = Text::plain(&blanks);
        let mut column = 0_usize;
        // Blanks are written only before the next word, so that no line ends with blanks.
        let mut between = 0;
        for (style, text) in &self.parts {
            let mut lines = text.split('\n').peekable();
            while let Some(line) = lines.next() {
                for word in line.split_inclusive(' ') {
                    let bare = word.trim_end_matches(' ');
                    if column > 0 && column.saturating_add(bare.width()) > room {
                        shown.push(PLAIN, format!("\n{blanks}"));
                        column = 0;
                    } else {
                        shown.push(PLAIN, " ".repeat(between));
                    }
                    shown.push(*style, bare);
                    between = word.len() - bare.len();
                    column += word.width();
                }
                if lines.peek().is_some() {
                    shown.push(PLAIN, format!("\n{blanks}"));
                    (column, between) = (0, 0);
                }
            }
        }
        shown
    }
}

/// How many bytes of a text fit into this many columns.
fn fitting(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            return at;
        }
    }
    text.len()
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (style, text) in &self.parts {
            write!(f, "{style}{text}{style:#}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::BOLD;
    use super::*;

    fn shown(text: &Text) -> String {
        anstream::adapter::strip_str(&text.to_string()).to_string()
    }

    #[test]
    fn stored_text_does_not_work_the_terminal() {
        let text = Text::styled(BOLD, "a\u{1b}[2Jb");
        assert_eq!(shown(&text), r"a\u{1b}[2Jb");
    }

    #[test]
    fn a_line_is_cut_by_columns_and_not_by_bytes() {
        let text = Text::plain("größer ").with(BOLD, "日本語");
        assert_eq!(text.width(), 13);
        assert_eq!(shown(&text.cut(13)), "größer 日本語");
        assert_eq!(shown(&text.cut(11)), "größer 日…");
        assert_eq!(shown(&text.cut(4)), "grö…");
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let text = Text::plain("one two three four\nfive and a longwordthatdoesnotfitatall");
        let expected = "  one two three four\n  five and a\n  longwordthatdoesnotfitatall";
        assert_eq!(shown(&text.wrapped(2, Some(22))), expected);
        assert_eq!(
            shown(&text.wrapped(1, None)),
            " one two three four\n five and a longwordthatdoesnotfitatall"
        );
    }

    #[test]
    fn stretches_are_marked() {
        let text = Text::marked("deploy on Friday", &[0..6, 10..16], BOLD);
        assert_eq!(text, Text::styled(BOLD, "deploy").with(PLAIN, " on ").with(BOLD, "Friday"));
    }
}
