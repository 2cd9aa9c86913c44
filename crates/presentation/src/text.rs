//! Stored text in replies. It is treated as data: it can't hide characters, move the cursor of a terminal, or
//! close the fence around it. The log keeps the text unchanged.

pub use kenning_model::clean;

/// The longest run of backticks that is kept, since the fences around a text must be longer than any run in
/// it.
const TICKS_MAX: usize = 32;

/// The text between two fences of backticks, which are longer than any run of backticks inside.
pub fn fence(text: &str) -> String {
    fence_as("", text)
}

/// Like `fence`, with a word after the opening fence that names the language.
pub fn fence_as(language: &str, text: &str) -> String {
    let mut longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let mut text = std::borrow::Cow::Borrowed(text);
    while longest > TICKS_MAX {
        text = text.replace(&"`".repeat(TICKS_MAX + 1), &"`".repeat(TICKS_MAX)).into();
        longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    }
    let ticks = "`".repeat((longest + 1).max(3));
    format!("{ticks}{language}\n{text}\n{ticks}")
}

/// A value within a line, between backticks that it can't close.
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

/// The text, cut between characters to at most this number of bytes, with an ellipsis if it was cut.
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
