//! Splits a text that is too long for one entry into parts.

/// The size limit of the content of an entry.
pub const CONTENT_BYTES_MAX: usize = 32 * 1024;

/// Splits a text into parts of at most `CONTENT_BYTES_MAX` bytes, which joined together give the text again.
/// It is cut between paragraphs if possible, else between lines, sentences or words, and otherwise at any
/// character.
pub fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > CONTENT_BYTES_MAX {
        let end = (0..=CONTENT_BYTES_MAX).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let head = &rest[..end];
        // A part of blanks alone could not be stored.
        let is_worth = |at: &usize| !head[..*at].trim().is_empty() && !rest[*at..].trim().is_empty();
        let cut = ["\n\n", "\n", ". ", " "].iter().find_map(|sign| {
            let at = head.rfind(sign)? + sign.len();
            Some(at).filter(is_worth)
        });
        let (part, more) = rest.split_at(cut.unwrap_or(end));
        parts.push(part);
        rest = more;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_short_enough_and_together_the_text() {
        let paragraphs = "A paragraph of some words.\n\n".repeat(3_000);
        let unbroken = "é".repeat(40_000);
        let words = "word ".repeat(20_000);
        for text in ["", "short", &*paragraphs, &*unbroken, &*words] {
            let parts = parts(text);
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| part.len() <= CONTENT_BYTES_MAX));
        }
        assert!(parts(&paragraphs)[0].ends_with(".\n\n"));
        assert_eq!(parts("short").len(), 1);
    }
}
