//! Stored text on its way out. It is data: it can't hide characters, move the cursor of a terminal, or close the
//! fence that it stands in. The log keeps it as it came.

/// Without control characters (line breaks and tabs stay), bidirectional overrides, zero-width and tag characters.
pub fn clean(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            _ if is_hidden(c) => {}
            _ => cleaned.push(c),
        }
    }
    cleaned
}

/// The rest of a terminal sequence: `[` to its final letter, `]` to its terminator, or one character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
            rest.next_if(|c| ('@'..='~').contains(c));
        }
        Some(']') => {
            rest.next();
            while rest.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n')).is_some() {}
            if rest.next_if_eq(&'\u{1b}').is_some() {
                rest.next_if_eq(&'\\');
            }
        }
        _ => {}
    }
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// The text between two lines of backticks, one more than any run of them inside.
pub fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat((longest + 1).max(3));
    format!("{ticks}\n{text}\n{ticks}")
}

/// A given value inside a line, between backticks that it can't close.
pub fn fence_inline(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// A short stored value inside a line: on one line, quoted, and cut.
pub fn quote(text: &str, bytes_max: usize) -> String {
    let flat: String = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\"{}\"", cut(&flat, bytes_max).replace('"', "'"))
}

/// At most so many bytes, cut between characters, with an ellipsis that says so.
pub fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub("…".len()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_and_terminal_sequences_go_the_rest_stays() {
        let cases = [
            ("plain text", "plain text"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("a\u{202e}b\u{200b}c\u{feff}d\u{e0041}e", "abcde"),
            ("bell\u{7} nul\0 del\u{7f} c1\u{9b}", "bell nul del c1"),
            ("ünïcödé 漢字 🎉", "ünïcödé 漢字 🎉"),
            ("\u{1b}", ""),
        ];
        for (raw, cleaned) in cases {
            assert_eq!(clean(raw), cleaned, "{raw:?}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_any_run_of_backticks_inside() {
        assert_eq!(fence("plain"), "```\nplain\n```");
        assert_eq!(fence("a ```` b"), "`````\na ```` b\n`````");
    }

    #[test]
    fn a_cut_keeps_characters_whole() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("ééééé", 7), "éé…");
        assert_eq!(quote("a \"b\"\n c", 20), "\"a 'b' c\"");
    }
}
