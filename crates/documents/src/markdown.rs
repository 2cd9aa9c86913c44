//! Markdown and MDX, cut at headings. The text of a section is the source as it stands, so code and tables stay whole.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::section::{Link, Section, anchor};

/// A heading, where it begins and where what follows it begins.
struct Heading {
    level: u8,
    title: String,
    anchor: Option<String>,
    start: usize,
    end: usize,
}

pub(crate) fn sections(path: &str, text: &str, is_mdx: bool) -> Vec<Section> {
    let mut headings: Vec<Heading> = Vec::new();
    let mut links: Vec<(usize, Link)> = Vec::new();
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    let mut depth = 0;
    let mut open: Option<Heading> = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            // A heading inside a quote or a list is part of what it stands in.
            Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => depth -= 1,
            Event::Start(Tag::Heading { level, id, .. }) if depth == 0 => {
                let anchor = id.map(|id| id.to_string());
                let (start, end) = (range.start, range.end);
                open = Some(Heading { level: number(level), title: String::new(), anchor, start, end });
            }
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut open {
                    heading.title.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut open {
                    heading.title.push(' ');
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                links.extend(link(path, &dest_url).map(|link| (range.start, link)));
            }
            _ => {}
        }
    }
    let mut sections = cut(text, &headings, is_mdx);
    for (at, link) in links {
        let within = headings.iter().take_while(|heading| heading.start <= at).count();
        let links = &mut sections[within].links;
        if !links.contains(&link) {
            links.push(link);
        }
    }
    sections
}

fn cut(text: &str, headings: &[Heading], is_mdx: bool) -> Vec<Section> {
    let body = |from: usize, to: usize| match is_mdx {
        true => without_modules(&text[from..to]).trim().to_owned(),
        false => text[from..to].trim().to_owned(),
    };
    let first = headings.first().map_or(text.len(), |heading| heading.start);
    let mut sections = vec![Section { text: body(0, first), ..Section::default() }];
    let mut above: Vec<(u8, String)> = Vec::new();
    for (at, heading) in headings.iter().enumerate() {
        let title = heading.title.split_whitespace().collect::<Vec<_>>().join(" ");
        above.retain(|(level, _)| *level < heading.level);
        above.push((heading.level, title.clone()));
        let end = headings.get(at + 1).map_or(text.len(), |next| next.start);
        sections.push(Section {
            heading_path: above.iter().map(|(_, title)| title.clone()).collect(),
            level: heading.level,
            anchor: heading.anchor.clone().unwrap_or_else(|| anchor(&title)),
            text: body(heading.end.min(end), end),
            ..Section::default()
        });
    }
    sections
}

/// MDX without its `import` and `export` lines, which are program and not text. Fenced code keeps its own.
fn without_modules(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_code ^= is_fence;
        let is_module = !in_code && (line.starts_with("import ") || line.starts_with("export "));
        if !is_module {
            kept.push_str(line);
        }
    }
    kept
}

fn number(level: HeadingLevel) -> u8 {
    level as u8
}

/// A link into the same tree. What leads elsewhere is none, nor is what leads out of the tree.
fn link(from: &str, target: &str) -> Option<Link> {
    let (target, anchor) = match target.split_once('#') {
        Some((target, anchor)) => (target, Some(anchor.to_owned()).filter(|anchor| !anchor.is_empty())),
        None => (target, None),
    };
    let target = target.split('?').next().unwrap_or_default();
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with("//") {
        return None;
    }
    if target.is_empty() {
        return anchor.map(|anchor| Link { path: String::new(), anchor: Some(anchor) });
    }
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => from.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(Link { path: parts.join("/"), anchor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_cut_and_code_does_not() {
        let text = "Intro.\n\n# One\n\nA [link](../b.md#two).\n\n```sh\n# no heading\n```\n\n## Two `x` {#own}\n\n> # quoted\n\nSetext\n===\nLast.";
        let found = sections("docs/a.md", text, false);
        let shown: Vec<(u8, String, &str, &str)> = found
            .iter()
            .map(|section| {
                (section.level, section.heading_path.join(" > "), &*section.anchor, &*section.text)
            })
            .collect();
        assert_eq!(
            shown,
            [
                (0, String::new(), "", "Intro."),
                (1, "One".into(), "one", "A [link](../b.md#two).\n\n```sh\n# no heading\n```"),
                (2, "One > Two x".into(), "own", "> # quoted"),
                (1, "Setext".into(), "setext", "Last."),
            ]
        );
        assert_eq!(found[1].links, [Link { path: "b.md".into(), anchor: Some("two".into()) }]);
    }

    #[test]
    fn links_stay_in_the_tree() {
        let to = |target: &str| link("docs/guide/a.md", target).map(|link| (link.path, link.anchor));
        assert_eq!(to("b.md"), Some(("docs/guide/b.md".into(), None)));
        assert_eq!(to("/b.md?x=1#y"), Some(("b.md".into(), Some("y".into()))));
        assert_eq!(to("#here"), Some((String::new(), Some("here".into()))));
        for target in ["https://example.com/a.md", "mailto:a@b.c", "../../../out.md", "", "#"] {
            assert_eq!(to(target), None, "{target}");
        }
    }
}
