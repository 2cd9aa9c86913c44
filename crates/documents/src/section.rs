//! A section: the text below one heading, up to the next heading.

use std::collections::HashMap;

use crate::{Link, Mention};

/// The most bytes of a section; a longer one is cut at the end of a sentence.
pub const SECTION_BYTES_MAX: usize = 256 * 1024;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The headings from the outermost one to its own.
    pub heading_path: Vec<String>,
    /// The level of its heading; 0 for the text before the first heading.
    pub level: u8,
    /// The name by which links refer to the section, unique in the document.
    pub anchor: String,
    /// The text without the heading.
    pub text: String,
    /// The index of the section that contains this one.
    pub parent: Option<usize>,
    pub links: Vec<Link>,
    pub mentions: Vec<Mention>,
}

/// A single section for a text without headings.
pub(crate) fn whole(text: &str) -> Vec<Section> {
    vec![Section { text: text.trim().to_owned(), ..Section::default() }]
}

/// Completes the sections when all of them are known: adds parents, unique anchors and mentions. Empty
/// sections without a heading are removed, long ones are cut.
pub(crate) fn finished(sections: Vec<Section>, mentions: impl Fn(&str) -> Vec<Mention>) -> Vec<Section> {
    let is_something = |section: &Section| !section.text.is_empty() || !section.heading_path.is_empty();
    let mut done: Vec<Section> = Vec::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    // The indices of the sections that may contain the next one; each has a deeper level than the one before
    // it.
    let mut open: Vec<usize> = Vec::new();
    for part in sections.into_iter().filter(is_something).flat_map(parts) {
        while open.pop_if(|above| done[*above].level >= part.level).is_some() {}
        let parent = open.last().copied();
        open.push(done.len());
        let anchor = unique(&part.anchor, &mut used);
        done.push(Section { parent, anchor, mentions: mentions(&part.text), ..part });
    }
    done
}

/// A unique anchor: the second heading with one name gets `name-1`, as most renderers do it, or the next free
/// number.
fn unique(anchor: &str, used: &mut HashMap<String, usize>) -> String {
    let mut free = anchor.to_owned();
    while used.contains_key(&free) {
        let many = used.entry(anchor.to_owned()).or_default();
        *many += 1;
        free = format!("{anchor}-{many}");
    }
    used.insert(free.clone(), 0);
    free
}

fn parts(mut section: Section) -> Vec<Section> {
    if section.text.len() <= SECTION_BYTES_MAX {
        return vec![section];
    }
    let text = std::mem::take(&mut section.text);
    // The links stay with the first part.
    let links = std::mem::take(&mut section.links);
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(cut(rest));
        parts.push(Section { text: part.trim().to_owned(), ..section.clone() });
        rest = after;
    }
    if let Some(first) = parts.first_mut() {
        first.links = links;
    }
    parts
}

/// The position after the last paragraph or sentence that fits, else after the last line or word.
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

/// A heading as links name it: lower-case letters and digits, with a dash for each blank.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mentions::mentions;

    fn section(level: u8, anchor: &str) -> Section {
        Section { level, anchor: anchor.to_owned(), text: "Text.".to_owned(), ..Section::default() }
    }

    #[test]
    fn anchors_are_unique() {
        let sections = ["x", "x", "x-1", "x", "y-1", "y", "y"].map(|anchor| section(1, anchor)).to_vec();
        let anchors: Vec<String> =
            finished(sections, mentions).into_iter().map(|section| section.anchor).collect();
        assert_eq!(anchors, ["x", "x-1", "x-1-1", "x-2", "y-1", "y", "y-2"]);
    }

    #[test]
    fn a_section_is_below_the_nearest_higher_one() {
        let sections = [0, 2, 3, 3, 1, 3, 2].map(|level| section(level, "x")).to_vec();
        let parents: Vec<Option<usize>> =
            finished(sections, mentions).into_iter().map(|section| section.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(1), Some(0), Some(4), Some(4)]);
    }

    #[test]
    fn long_sections_are_cut_and_their_links_stay_with_the_first_part() {
        let text = "A sentence of some words. ".repeat(SECTION_BYTES_MAX / 10);
        let links = vec![Link { path: "b.md".to_owned(), anchor: None }];
        let parts = finished(vec![Section { text, links, ..section(1, "x") }], mentions);
        assert!(parts.iter().all(|part| part.text.len() <= SECTION_BYTES_MAX && part.text.ends_with('.')));
        assert_eq!(parts.iter().map(|part| part.links.len()).collect::<Vec<_>>(), [1, 0, 0]);
    }
}
