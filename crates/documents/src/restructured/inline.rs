//! Marks within a line of reStructuredText: literals, roles and references.

/// A piece of a text.
pub(super) enum Inline<'a> {
    Words(&'a str),
    /// ``as it stands``
    Literal(&'a str),
    /// :role:`words`, or `words` alone.
    Role(&'a str, &'a str),
    /// `words`_, perhaps with a target.
    Reference(&'a str),
}

/// Roles whose words are prose.
const PROSE: [&str; 14] = [
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
];

impl<'a> Inline<'a> {
    /// Where it leads.
    pub(super) fn target(&self) -> Option<&'a str> {
        match self {
            Inline::Role("doc", words) => Some(target_or_all(words)),
            Inline::Reference(words) => {
                words_and_target(words).map(|(_, target)| target).filter(|target| !target.ends_with('_'))
            }
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
        // Nothing goes on over the end of a paragraph.
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

/// What stands before a role, and its name.
fn role(before: &str) -> (&str, &str) {
    let Some(head) = before.strip_suffix(':') else { return (before, "") };
    let is_of_name = |c: char| c.is_alphanumeric() || "-_.+:".contains(c);
    let start =
        head.len() - head.chars().rev().take_while(|c| is_of_name(*c)).map(char::len_utf8).sum::<usize>();
    match head[start..].strip_prefix(':') {
        // `:py:func:` is `func` of a domain.
        Some(name) if !name.is_empty() => (&before[..start], name.rsplit(':').next().unwrap_or(name)),
        _ => (before, ""),
    }
}

/// `words <target>`
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

/// Without any marks.
pub(super) fn plain(text: &str) -> String {
    let pieces = of(text).into_iter().map(|piece| match piece {
        Inline::Words(words) => words.replace("**", "").replace('\\', ""),
        Inline::Literal(words) => words.to_owned(),
        Inline::Role(_, text) | Inline::Reference(text) => words(text).to_owned(),
    });
    pieces.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// With marks as Markdown has them.
pub(super) fn markdown(text: &str) -> String {
    let pieces = of(text).into_iter().map(|piece| match piece {
        Inline::Words(words) => words.to_owned(),
        Inline::Literal(words) => format!("``{words}``"),
        Inline::Role(role, text) if PROSE.contains(&role) => words(text).to_owned(),
        Inline::Role(_, text) => format!("`{}`", words(text)),
        Inline::Reference(text) => words(text).to_owned(),
    });
    pieces.collect()
}
