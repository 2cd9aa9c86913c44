//! Splits a prompt into queries, as an agent splits a task: one query for each thing that the prompt
//! mentions.

/// The largest number of queries of one prompt; each takes a few milliseconds in a large store.
const QUERIES_MAX: usize = 6;
/// A piece with fewer letters than this has no meaning of its own: "ok", "go on".
const LETTERS_MIN: usize = 8;
/// A piece with more words than this is split at commas too.
const PIECE_WORDS_MAX: usize = 14;
const QUERY_CHARS_MAX: usize = 300;
/// A longer prompt is read only at its beginning and its end, because the middle is mostly pasted text.
const HEAD_CHARS: usize = 3_000;
const TAIL_CHARS: usize = 1_000;

/// The queries of a prompt: the whole prompt if it is about one thing, and its pieces.
pub(super) fn queries(prompt: &str) -> Vec<String> {
    let typed = typed_text(prompt);
    let mut pieces: Vec<String> = Vec::new();
    for sentence in typed.split(is_end).flat_map(sentences) {
        let words = sentence.split_whitespace().count();
        let parts: Vec<&str> = match words > PIECE_WORDS_MAX {
            true => sentence.split([',', ':', '(', ')', '–', '—']).collect(),
            false => vec![sentence],
        };
        // A part of three words or fewer is joined to a neighbour.
        let mut open = String::new();
        for part in parts {
            open = [open.trim(), part.trim()].join(" ").trim().to_owned();
            if open.split_whitespace().count() > 3 {
                pieces.push(std::mem::take(&mut open));
            }
        }
        match pieces.last_mut().filter(|_| words > PIECE_WORDS_MAX && !open.is_empty()) {
            Some(last) => *last = format!("{last} {open}"),
            None => pieces.push(open),
        }
    }
    pieces.retain(|piece| piece.chars().filter(|c| c.is_alphabetic()).count() >= LETTERS_MIN);
    let mut queries: Vec<String> = Vec::new();
    for piece in pieces {
        let piece: String = piece.chars().take(QUERY_CHARS_MAX).collect();
        if !queries.contains(&piece) {
            queries.push(piece);
        }
    }
    // The question in a prompt is usually at its beginning or its end, so the queries in the middle are
    // dropped.
    if queries.len() > QUERIES_MAX {
        let last = queries.split_off(queries.len() - 2);
        queries.truncate(QUERIES_MAX - 2);
        queries.extend(last);
    }
    queries
}

fn is_end(c: char) -> bool {
    matches!(c, '\n' | ';' | '?' | '!' | '。')
}

/// Splits at full stops that end a sentence, not at those in `config.rs` or `1.5`.
fn sentences(text: &str) -> Vec<&str> {
    text.split(". ")
        .map(|sentence| sentence.trim().trim_end_matches('.'))
        .filter(|it| !it.is_empty())
        .collect()
}

/// The part of a prompt that the person wrote: without code blocks, without text that hosts and hooks put
/// between tags, and without the middle of a very long prompt.
fn typed_text(prompt: &str) -> String {
    let mut typed = String::new();
    for (at, part) in prompt.split("```").enumerate() {
        if at % 2 == 0 {
            typed.push_str(part);
            typed.push('\n');
        }
    }
    let mut outside = String::new();
    let mut rest = typed.as_str();
    while let Some(at) = rest.find('<') {
        outside.push_str(&rest[..at]);
        rest = &rest[at..];
        let name_end = rest[1..].find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
        let name = name_end.map(|end| &rest[1..=end]).filter(|name| !name.is_empty());
        let close = name.and_then(|name| {
            let closing = format!("</{name}>");
            rest.find(&closing).map(|at| at + closing.len())
        });
        let skip = close.unwrap_or(1);
        rest = &rest[skip..];
    }
    outside.push_str(rest);
    let many = outside.chars().count();
    if many <= HEAD_CHARS + TAIL_CHARS {
        return outside;
    }
    let head = outside.chars().take(HEAD_CHARS);
    head.chain(['\n']).chain(outside.chars().skip(many - TAIL_CHARS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_split_by_what_it_speaks_of() {
        assert_eq!(queries("ok"), [""; 0]);
        assert_eq!(queries("How do we deploy?"), ["How do we deploy"]);
        assert_eq!(
            queries("Fix the login in src/auth.rs. Then write a test; commit it."),
            ["Fix the login in src/auth.rs", "Then write a test", "commit it"]
        );
        assert_eq!(
            queries(
                "Put a teaser at the top of the home page: one large photo, a headline in all our languages, and the highest \
                 percentage off."
            ),
            [
                "Put a teaser at the top of the home page",
                "one large photo a headline in all our languages",
                "and the highest percentage off"
            ]
        );
    }

    #[test]
    fn what_was_pasted_is_no_query() {
        let prompt = "Why does this fail?\n```\nassert_eq!(left, right);\n```\n<system-reminder>be nice to all</system-reminder>";
        assert_eq!(queries(prompt), ["Why does this fail"]);
        let long = format!(
            "Why does the build fail?\n{}\nSay what to change",
            "at frame of the stack\n".repeat(5_000)
        );
        let asked = queries(&long);
        assert!(asked.len() <= QUERIES_MAX, "{asked:?}");
        assert_eq!(asked[0], "Why does the build fail");
        assert_eq!(asked[asked.len() - 1], "Say what to change");
    }

    #[test]
    fn odd_texts_are_split_without_harm() {
        for odd in
            ["<", "<<<>>>", "</a>", "```", "`````` ", "\u{0}\u{202e}", "ß<ä</ä>", "<a", "a<b>c</b", ". . . ."]
        {
            queries(odd);
            queries(&odd.repeat(3_000));
        }
    }
}
