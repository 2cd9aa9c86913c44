//! A section: what stands below one heading, up to the next.

use std::collections::HashMap;

use crate::Mention;
use crate::mentions::mentions;

/// Longer sections are cut at the end of a sentence.
pub const SECTION_BYTES_MAX: usize = 256 * 1024;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// From the outermost heading to its own.
    pub heading_path: Vec<String>,
    /// Of its heading; 0 for what stands before the first.
    pub level: u8,
    /// As a link would name it, unique in the document.
    pub anchor: String,
    /// Without the heading.
    pub text: String,
    /// The section that this one is below, by its place in the list.
    pub parent: Option<usize>,
    pub links: Vec<Link>,
    pub mentions: Vec<Mention>,
}

/// A link to another document of the same tree, or to a section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Below what is ingested; empty for the document itself.
    pub path: String,
    pub anchor: Option<String>,
}

/// A text without headings.
pub(crate) fn whole(text: &str) -> Vec<Section> {
    vec![Section { text: text.trim().to_owned(), ..Section::default() }]
}

/// What can only be said when all sections are there: parents, anchors, what they mention. Empty ones without a
/// heading go, long ones are cut.
pub(crate) fn finished(sections: Vec<Section>) -> Vec<Section> {
    let is_something = |section: &Section| !section.text.is_empty() || !section.heading_path.is_empty();
    let mut done: Vec<Section> = Vec::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    for section in sections.into_iter().filter(is_something) {
        for part in parts(section) {
            let parent = done.iter().rposition(|above| above.level < part.level);
            let anchor = unique(&part.anchor, &mut used);
            done.push(Section { parent, anchor, mentions: mentions(&part), ..part });
        }
    }
    done
}

/// The second heading of a name is `name-1`, as most renderers have it.
fn unique(anchor: &str, used: &mut HashMap<String, usize>) -> String {
    let many = used.entry(anchor.to_owned()).or_default();
    *many += 1;
    match *many {
        1 => anchor.to_owned(),
        many => format!("{anchor}-{}", many - 1),
    }
}

fn parts(section: Section) -> Vec<Section> {
    if section.text.len() <= SECTION_BYTES_MAX {
        return vec![section];
    }
    let mut parts = Vec::new();
    let mut rest = section.text.as_str();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(cut(rest));
        parts.push(Section { text: part.trim().to_owned(), links: Vec::new(), ..section.clone() });
        rest = after;
    }
    if let Some(first) = parts.first_mut() {
        first.links = section.links.clone();
    }
    parts
}

/// Behind the last sentence that fits, else behind the last word.
fn cut(text: &str) -> usize {
    if text.len() <= SECTION_BYTES_MAX {
        return text.len();
    }
    let end = text.floor_char_boundary(SECTION_BYTES_MAX);
    let head = &text[..end];
    let behind = |found: Option<usize>, length: usize| found.map(|at| at + length).filter(|at| *at > end / 2);
    behind(head.rfind("\n\n"), 2)
        .or_else(|| behind(head.rfind(". "), 2))
        .or_else(|| behind(head.rfind('\n'), 1))
        .or_else(|| behind(head.rfind(' '), 1))
        .unwrap_or(end)
}

/// A heading as a link names it: small letters, digits, and one dash for each blank.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().flat_map(char::to_lowercase);
    kept.filter_map(|c| match c {
        ' ' | '-' => Some('-'),
        '_' => Some('_'),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    })
    .collect()
}
