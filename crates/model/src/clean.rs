//! The visible part of a text. This part is also what is searched, so hidden characters can't hide a word
//! from a question; the log keeps the text unchanged.

/// The text without control characters (line breaks and tabs stay), bidirectional overrides, zero-width and
/// tag characters.
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

/// Skips the rest of a terminal escape sequence: from `[` to its final letter, or from `]` to its terminator.
/// A `]` without a terminator on the same line begins no sequence, so only the bracket is skipped.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
            rest.next_if(|c| ('@'..='~').contains(c));
        }
        Some(']') => {
            rest.next();
            let mut ahead = rest.clone();
            while ahead.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n')).is_some() {}
            match ahead.next() {
                Some('\u{1b}') => {
                    ahead.next_if_eq(&'\\');
                    *rest = ahead;
                }
                Some('\u{7}' | '\u{9c}') => *rest = ahead,
                _ => {}
            }
        }
        _ => {}
    }
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

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
            ("before \u{1b}]no end of it\nafter", "before no end of it\nafter"),
            ("a\u{e0100}b\u{fe0f}c\u{3164}d", "abcd"),
        ];
        for (raw, cleaned) in cases {
            assert_eq!(clean(raw), cleaned, "{raw:?}");
        }
    }
}
