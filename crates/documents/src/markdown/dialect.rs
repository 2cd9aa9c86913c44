//! Converts extensions of site generators to plain Markdown: admonitions of MkDocs and Docusaurus begin with
//! their kind, and definitions are indented below their terms.

use std::borrow::Cow;

use crate::fence::Fences;

/// An indentation that is too small for code, and shows that the text explains the line above.
const BELOW: &str = "   ";
/// The columns by which MkDocs indents the content of an admonition.
const HELD_COLUMNS: usize = 4;

pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_meant = |line: &str| {
        let line = line.trim_start();
        ["!!! ", "??? ", "???+ ", ":::", ": ", ":\t"].iter().any(|mark| line.starts_with(mark))
    };
    if !text.lines().any(is_meant) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut done = String::with_capacity(text.len());
    write(&lines, "", &mut done);
    Cow::Owned(done)
}

fn write(lines: &[&str], pad: &str, done: &mut String) {
    let mut fences = Fences::default();
    let push = |done: &mut String, line: &str| {
        if !line.trim().is_empty() {
            done.push_str(pad);
        }
        done.push_str(line);
        done.push('\n');
    };
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        if fences.hold(line) {
            push(done, line);
        } else if let Some(head) = held(line) {
            let many = held_below(&lines[at..], depth(line) + HELD_COLUMNS);
            let own = &line[..depth(line)];
            push(done, &format!("{own}{head}\n"));
            let inner: Vec<&str> = lines[at..at + many]
                .iter()
                .map(|inner| inner.get(depth(line) + HELD_COLUMNS..).unwrap_or(""))
                .collect();
            write(&inner, &format!("{pad}{own}{BELOW}"), done);
            at += many;
        } else if let Some(container) = container(line) {
            container.iter().for_each(|head| push(done, &format!("{head}\n")));
        } else if let Some(words) = definition(line).filter(|_| is_below_term(&lines[..at - 1])) {
            // A blank line may separate the term from its definition.
            while done.ends_with("\n\n") {
                done.pop();
            }
            push(done, &format!("{BELOW}{words}"));
            let more = lines[at..].iter().take_while(|next| {
                !next.trim().is_empty() && definition(next).is_none() && !is_below_term_line(next)
            });
            let more: Vec<&str> = more.copied().collect();
            more.iter().for_each(|next| push(done, &format!("{BELOW}{}", next.trim())));
            at += more.len();
        } else {
            push(done, line);
        }
    }
}

/// The words of `!!! note "Title"`, `??? tip` and `???+ tip`.
fn held(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest
        .strip_prefix("!!! ")
        .or_else(|| rest.strip_prefix("???+ "))
        .or_else(|| rest.strip_prefix("??? "))?;
    let (kinds, title) = rest
        .split_once('"')
        .map_or((rest, ""), |(kinds, title)| (kinds, title.trim_end().trim_end_matches('"')));
    let kind = kinds.split_whitespace().next().unwrap_or_default();
    let is_kind = kind.chars().all(|c| c.is_alphanumeric() || c == '-');
    (is_kind && !(kind.is_empty() && title.is_empty())).then(|| head(kind, title))
}

/// The words of `:::note Title` and `::: tip [Title]`; the inner `None` stands for the line that ends a
/// container.
fn container(line: &str) -> Option<Option<String>> {
    let rest = line.trim().strip_prefix(":::")?.trim_start_matches(':').trim_start();
    if rest.is_empty() {
        return Some(None);
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(rest.len());
    let (kind, title) = rest.split_at(end);
    let title = title.split('{').next().unwrap_or_default().trim();
    let title = title.strip_prefix('[').and_then(|title| title.strip_suffix(']')).unwrap_or(title);
    // In mkdocstrings `::: module.name` stands for text that is generated from a program.
    (kind.starts_with(char::is_alphabetic) && !title.starts_with('.')).then(|| Some(head(kind, title)))
}

fn head(kind: &str, title: &str) -> String {
    let mut letters = kind.chars();
    let kind: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    match (kind.is_empty(), title.is_empty()) {
        (_, true) => format!("{kind}:"),
        (true, false) => format!("{title}:"),
        (false, false) => format!("{kind}: {title}"),
    }
}

fn held_below(lines: &[&str], columns: usize) -> usize {
    let many = lines.iter().take_while(|line| line.trim().is_empty() || depth(line) >= columns).count();
    lines[..many].iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1)
}

/// The words of an unindented `: definition`.
fn definition(line: &str) -> Option<&str> {
    line.strip_prefix(':')
        .filter(|words| words.starts_with([' ', '\t']))
        .map(str::trim)
        .filter(|words| !words.is_empty())
}

/// Whether the lines before a definition end with a term, or with another definition of it.
fn is_below_term(before: &[&str]) -> bool {
    let before = match before.split_last() {
        Some((last, before)) if last.trim().is_empty() => before,
        _ => before,
    };
    let Some((term, above)) = before.split_last() else { return false };
    let is_alone = above.last().is_none_or(|above| above.trim().is_empty() || definition(above).is_some());
    definition(term).is_some() || depth(term) > 0 || is_alone && is_below_term_line(term)
}

/// Whether a line can be a term: short, and neither a heading nor an item.
fn is_below_term_line(line: &str) -> bool {
    let is_word = line.starts_with(|c: char| c.is_alphanumeric() || "`*_\"[<".contains(c));
    is_word
        && !line.starts_with("* ")
        && line.chars().count() <= 80
        && !line.trim_end().ends_with(['.', ':', '|'])
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_generators_add_is_said_in_plain_markdown() {
        for (written, wanted) in [
            (
                "A.\n\n!!! warning \"Mind it\"\n    One.\n\n    ```sh\n    x\n    ```\n\nB.",
                "A.\n\nWarning: Mind it\n\n   One.\n\n   ```sh\n   x\n   ```\n\nB.\n",
            ),
            ("???+ tip\n    Yes.\n", "Tip:\n\n   Yes.\n"),
            ("- a\n\n    !!! note\n        In it.", "- a\n\n    Note:\n\n       In it.\n"),
            (":::note Read this\n\nText.\n\n:::\n\nB.", "Note: Read this\n\n\nText.\n\n\nB.\n"),
            (":::tip[Short]\nText.\n:::", "Tip: Short\n\nText.\n"),
            (
                "term\n: What it is.\n: Or that.\n\nother\n\n:   That\n    goes on.\n",
                "term\n   What it is.\n   Or that.\n\nother\n   That\n   goes on.\n",
            ),
            ("```\n!!! note\n    x\n```\n", "```\n!!! note\n    x\n```\n"),
            ("Some text that ends.\n: no definition", "Some text that ends.\n: no definition\n"),
            ("::: package.module\n    options: x", "::: package.module\n    options: x\n"),
        ] {
            assert_eq!(plain(written), wanted, "{written}");
        }
        assert!(matches!(plain("# Title\n\nText: yes.\n"), Cow::Borrowed(_)));
    }
}
