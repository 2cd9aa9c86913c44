//! Inline markup of reStructuredText: literals, roles and references.

use crate::Link;
use crate::section::anchor;

/// A piece of a text, with its markup removed.
pub(super) enum Inline<'a> {
    Words(&'a str),
    /// The content of ``literal``.
    Literal(&'a str),
    /// The name and the content of :role:`words`; the name is empty for `words` alone.
    Role(&'a str, &'a str),
    /// The content of `words`_, which may include a target.
    Reference(&'a str),
}

/// Roles whose content is prose.
const PROSE: [&str; 15] = [
    "doc",
    "ref",
    "numref",
    "term",
    "download",
    "abbr",
    "sup",
    "sub",
    "emphasis",
    "strong",
    "guilabel",
    "menuselection",
    "title",
    "any",
    "dfn",
];

/// Roles that only change how their content looks. All other roles name an object that is described
/// elsewhere.
const LOOKS: &str = " download abbr sup sub emphasis strong guilabel menuselection title dfn code math raw kbd file samp command \
    program regexp mimetype newsgroup makevar manpage mailheader literal pypi issue pull user bug cve cwe ";

fn is_reference(role: &str) -> bool {
    !role.is_empty() && !LOOKS.split(' ').any(|known| known == role)
}

fn digits(words: &str) -> Option<&str> {
    let words = target_or_all(words);
    let end = words.find(|c: char| !c.is_ascii_digit()).unwrap_or(words.len());
    (end > 0).then(|| &words[..end])
}

impl<'a> Inline<'a> {
    /// The link that the piece makes from a page.
    pub(super) fn link(&self, path: &str) -> Option<Link> {
        match self {
            Inline::Role("doc", words) => Link::resolved(path, target_or_all(words)),
            Inline::Role("pep", words) => {
                let number: u32 = digits(words)?.parse().ok()?;
                Link::resolved(path, &format!("pep-{number:04}"))
            }
            Inline::Role("rfc", words) => Link::resolved(path, &format!("rfc{}", digits(words)?)),
            Inline::Role(role, words) if is_reference(role) => {
                let target = target_or_all(words).trim_start_matches(['~', '!', '.']).trim_end_matches("()");
                Some(Link::label(target))
            }
            Inline::Reference(words) => match words_and_target(words) {
                Some((_, target)) => Link::resolved(path, target).filter(|_| !target.ends_with('_')),
                // The words are the title of a section of the same page, or the name of an address.
                None => Link::resolved(path, &format!("#{}", anchor(words))),
            },
            _ => None,
        }
    }
}

pub(super) fn of(text: &str) -> Vec<Inline<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        let marks = if from.starts_with("``") { "``" } else { "`" };
        let inner = &from[marks.len()..];
        // No markup extends over the end of a paragraph.
        let Some(end) = inner.find(marks).filter(|end| !inner[..*end].contains("\n\n")) else {
            found.push(Inline::Words(&rest[..at + marks.len()]));
            rest = inner;
            continue;
        };
        let (words, behind) = (&inner[..end], &inner[end + marks.len()..]);
        let after = behind.trim_start_matches('_');
        let (before, role) = role(before);
        found.push(Inline::Words(before));
        if marks == "``" {
            found.push(Inline::Literal(words));
            rest = behind;
            continue;
        }
        let is_reference = after.len() < behind.len() && role.is_empty();
        found.push(if is_reference { Inline::Reference(words) } else { Inline::Role(role, words) });
        rest = if is_reference { after } else { behind };
    }
    found.push(Inline::Words(rest));
    found
}

/// The text before a role, and the role's name.
fn role(before: &str) -> (&str, &str) {
    let Some(head) = before.strip_suffix(':') else { return (before, "") };
    let is_of_name = |c: char| c.is_alphanumeric() || "-_.+:".contains(c);
    let start =
        head.len() - head.chars().rev().take_while(|c| is_of_name(*c)).map(char::len_utf8).sum::<usize>();
    match head[start..].strip_prefix(':') {
        // `:py:func:` is the role `func` of the domain `py`.
        Some(name) if !name.is_empty() => (&before[..start], name.rsplit(':').next().unwrap_or(name)),
        _ => (before, ""),
    }
}

/// The parts of `words <target>`.
fn words_and_target(text: &str) -> Option<(&str, &str)> {
    let (words, target) = text.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    Some((words.trim(), target.trim()))
}

pub(super) fn target_or_all(text: &str) -> &str {
    words_and_target(text).map_or(text.trim(), |(_, target)| target)
}

fn words(text: &str) -> &str {
    let words = words_and_target(text).map_or(text, |(words, _)| words);
    words.trim_start_matches(['~', '!'])
}

/// The text without any markup.
pub(super) fn plain(text: &str) -> String {
    let pieces = of(text).into_iter().map(|piece| match piece {
        Inline::Words(words) => words.replace("**", "").replace('\\', ""),
        Inline::Literal(words) => words.to_owned(),
        Inline::Role(_, text) | Inline::Reference(text) => words(text).to_owned(),
    });
    pieces.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text as a reader sees it, with code and addresses in the form of Markdown.
pub(super) fn shown(text: &str) -> String {
    let one_line = |text: &str| words(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces = of(text).into_iter().map(|piece| match piece {
        Inline::Words(words) => words.replace("\\ ", ""),
        Inline::Literal(code) => code_span(code),
        Inline::Role("pep", text) if words_and_target(text).is_none() => format!("PEP {}", one_line(text)),
        Inline::Role("rfc", text) if words_and_target(text).is_none() => format!("RFC {}", one_line(text)),
        Inline::Role(role, text) if PROSE.contains(&role) => one_line(text),
        Inline::Role(_, text) => code_span(&one_line(text)),
        Inline::Reference(text) => match words_and_target(text) {
            Some((_, target)) if target.contains("://") => format!("[{}]({target})", one_line(text)),
            _ => one_line(text),
        },
    });
    pieces.collect()
}

fn code_span(code: &str) -> String {
    match code.contains('`') {
        true => format!("``{code}``"),
        false => format!("`{code}`"),
    }
}
