//! Markdown and MDX, cut at headings. The text of a section is the original Markdown, so code and tables stay
//! intact.

mod dialect;

use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

use crate::Link;
use crate::fence::Fences;
use crate::link::targets;
use crate::section::{Section, anchor};

/// A heading, where it begins, and where the text after it begins.
struct Heading {
    level: u8,
    title: String,
    /// Whether the title ends in code, in which `{#id}` is not an anchor.
    ends_in_code: bool,
    start: usize,
    end: usize,
}

const COMMENT: (&str, &str) = ("<!--", "-->");

/// The options with which all Markdown is parsed. Attributes of headings are left out, because they would
/// take `{id}` out of a path.
pub(crate) fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_WIKILINKS
}

pub(crate) fn sections(path: &str, text: &str) -> Vec<Section> {
    let text = &*dialect::plain(text);
    let Outline { headings, links, unseen } = Outline::of(path, text);
    let mut sections = cut(text, &headings, &unseen);
    let mut at = 0;
    let mut seen: HashSet<Link> = HashSet::new();
    for (place, link) in links {
        while headings.get(at).is_some_and(|heading| heading.start <= place) {
            at += 1;
            seen.clear();
        }
        if seen.insert(link.clone()) {
            sections[at].links.push(link);
        }
    }
    sections
}

/// The headings and links, in the order of the text.
#[derive(Default)]
struct Outline {
    headings: Vec<Heading>,
    links: Vec<(usize, Link)>,
    /// The ranges of comments and thematic breaks (`---`), which show no words and are left out of the text.
    unseen: Vec<Range<usize>>,
}

impl Outline {
    fn of(path: &str, text: &str) -> Outline {
        let mut outline = Outline::default();
        let mut depth = 0;
        let mut open: Option<Heading> = None;
        // A block of HTML is collected, because a tag may extend over several lines, each of which is an
        // event.
        let mut block: Option<(usize, String)> = None;
        let parser = Parser::new_ext(text, options());
        let definitions = parser.reference_definitions().iter();
        outline.unseen.extend(definitions.map(|(_, definition)| definition.span.clone()));
        for (event, range) in parser.into_offset_iter() {
            match event {
                // A heading inside a quote or a list begins no section.
                Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => depth += 1,
                Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => depth -= 1,
                Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                    let (start, end) = (range.start, range.end);
                    let title = String::new();
                    open = Some(Heading { level: number(level), title, ends_in_code: false, start, end });
                }
                Event::End(TagEnd::Heading(_)) => outline.headings.extend(open.take()),
                Event::Start(Tag::HtmlBlock) => block = Some((range.start, String::new())),
                Event::End(TagEnd::HtmlBlock) => {
                    if let Some((start, html)) = block.take() {
                        outline.html(path, start, &html);
                        outline.hide_comments(text, start, range.end);
                    }
                }
                Event::Rule => outline.unseen.push(range),
                Event::Html(html) => {
                    if let Some((_, block)) = &mut block {
                        block.push_str(&html);
                    }
                }
                Event::InlineHtml(html) if html.starts_with(COMMENT.0) => outline.unseen.push(range),
                Event::InlineHtml(html) => outline.html(path, range.start, &html),
                Event::Start(
                    Tag::Link { link_type: LinkType::WikiLink { .. }, dest_url, .. }
                    | Tag::Image { link_type: LinkType::WikiLink { .. }, dest_url, .. },
                ) => outline.wiki_link(path, range.start, &dest_url),
                Event::Start(Tag::Link { dest_url, .. }) => outline.link(path, range.start, &dest_url),
                event => {
                    if let Some(heading) = &mut open {
                        heading.read(&event);
                    }
                }
            }
        }
        outline.unseen.sort_by_key(|range| range.start);
        outline
    }

    /// Reads `[[Note#Heading]]`, which names a note in any directory, and a heading in it.
    fn wiki_link(&mut self, path: &str, at: usize, target: &str) {
        let (page, heading) = target.split_once('#').unwrap_or((target, ""));
        let heading = anchor(heading.trim_start_matches('^'));
        if page.is_empty() {
            return self.link(path, at, &format!("#{heading}"));
        }
        let name = page.rsplit('/').next().unwrap_or(page);
        let name = name.strip_suffix(".md").unwrap_or(name);
        if !heading.is_empty() {
            // A link to a page by its name has no anchor, so the heading is looked up in the page of that
            // name in the same directory.
            self.link(path, at, &format!("{}#{heading}", page.strip_suffix(".md").unwrap_or(page)));
        }
        self.links.push((at, Link::page_named(name)));
    }

    /// Hides the comments of a block of HTML, which may also contain other elements.
    fn hide_comments(&mut self, text: &str, start: usize, end: usize) {
        let (opening, closing) = COMMENT;
        let mut from = start;
        while let Some(at) = text[from..end].find(opening).map(|at| from + at) {
            let length = text[at..end].find(closing).map_or(end - at, |length| length + closing.len());
            self.unseen.push(at..at + length);
            from = at + length;
        }
    }

    fn html(&mut self, path: &str, at: usize, html: &str) {
        targets(html).into_iter().for_each(|target| self.link(path, at, target));
    }

    fn link(&mut self, path: &str, at: usize, target: &str) {
        self.links.extend(Link::resolved(path, target).map(|link| (at, link)));
    }
}

impl Heading {
    fn read(&mut self, event: &Event<'_>) {
        match event {
            Event::Text(words) | Event::Code(words) => {
                self.title.push_str(words);
                self.ends_in_code = matches!(event, Event::Code(_));
            }
            Event::SoftBreak | Event::HardBreak => self.title.push(' '),
            _ => {}
        }
    }

    /// The words of the title, and its anchor: `{#anchor}` at the end, or made from the words.
    fn title_and_anchor(&self) -> (String, String) {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let own = title.strip_suffix('}').filter(|_| !self.ends_in_code).and_then(|title| {
            let (title, id) = title.rsplit_once("{#")?;
            let is_id = !id.is_empty() && !id.contains(['{', '}', ' ']);
            is_id.then(|| (title.trim_end().to_owned(), id.to_lowercase()))
        });
        own.unwrap_or_else(|| {
            let anchor = anchor(&title);
            (title, anchor)
        })
    }
}

fn cut(text: &str, headings: &[Heading], unseen: &[Range<usize>]) -> Vec<Section> {
    let body = |from: usize, to: usize| {
        let mut seen = String::with_capacity(to - from);
        let mut at = from;
        for hidden in unseen.iter().filter(|hidden| from <= hidden.start && hidden.end <= to) {
            seen.push_str(&text[at..hidden.start]);
            at = hidden.end;
        }
        seen.push_str(&text[at..to]);
        seen.trim().to_owned()
    };
    let first = headings.first().map_or(text.len(), |heading| heading.start);
    let mut sections = vec![Section { text: body(0, first), ..Section::default() }];
    let mut above: Vec<(u8, String)> = Vec::new();
    for (at, heading) in headings.iter().enumerate() {
        let (title, anchor) = heading.title_and_anchor();
        above.retain(|(level, _)| *level < heading.level);
        above.push((heading.level, title));
        let end = headings.get(at + 1).map_or(text.len(), |next| next.start);
        sections.push(Section {
            heading_path: above.iter().map(|(_, title)| title.clone()).collect(),
            level: heading.level,
            anchor,
            text: body(heading.end.min(end), end),
            ..Section::default()
        });
    }
    sections
}

/// The `#tags` of a note: on lines that contain nothing but tags, and anywhere in a note that has
/// `[[wiki links]]`.
pub(crate) fn tags(text: &str) -> Vec<String> {
    let mut fences = Fences::default();
    let is_note = text.contains("[[");
    let mut tags: Vec<String> = Vec::new();
    if !text.contains('#') {
        return tags;
    }
    for line in text.lines().filter(|line| !fences.hold(line)) {
        let of_line = line.split_whitespace().map(tag);
        let is_all = of_line.clone().all(|tag| tag.is_some());
        // Code within a line may contain any sign.
        if !is_all && (!is_note || line.contains('`')) {
            continue;
        }
        for tag in of_line.flatten() {
            if !tags.iter().any(|known| known == tag) {
                tags.push(tag.to_owned());
            }
        }
    }
    tags
}

/// The tag of `#tag` or `#tag/below`. A number is the number of an issue.
fn tag(word: &str) -> Option<&str> {
    let tag = word.strip_prefix('#')?.trim_end_matches([',', '.', ';', ')']);
    let is_tag =
        tag.chars().any(char::is_alphabetic) && tag.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c));
    is_tag.then_some(tag)
}

fn number(level: HeadingLevel) -> u8 {
    level as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_cut_and_code_does_not() {
        let text = "Intro.\n\n# One\n\nA [link](../b.md#two).\n\n```sh\n# no heading\n```\n\n## Two `x` {#own}\n\n> # quoted\n\nSetext\n===\nLast.";
        let found = sections("docs/a.md", text);
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
    fn comments_and_thematic_breaks_are_no_text() {
        let text = "---\n\n# One\n\n<!-- todo: write\n\nthis -->\n\n***\n\n## Two\n\nA <!-- b --> c.\n\n---\n\n<p>\n<!-- d -->\ne</p>\n\n`<!-- f -->`";
        let texts: Vec<String> = sections("a.md", text).into_iter().map(|section| section.text).collect();
        assert_eq!(texts, ["", "", "A  c.\n\n\n<p>\n\ne</p>\n\n`<!-- f -->`"]);
    }

    #[test]
    fn only_an_id_is_taken_from_a_heading() {
        let text = "## GET /users/{id}\n\n## A {.note}\n\n## B {#Own}\n\n## C `{#code}`\n\n## `RefCell\\<T>` and RefCell\\<T>\n";
        let shown: Vec<(String, String)> = sections("a.md", text)
            .into_iter()
            .skip(1)
            .map(|section| (section.heading_path.join(" > "), section.anchor))
            .collect();
        let wanted = [
            ("GET /users/{id}", "get-usersid"),
            ("A {.note}", "a-note"),
            ("B", "own"),
            ("C {#code}", "c-code"),
            ("RefCell\\<T> and RefCell<T>", "refcellt-and-refcellt"),
        ];
        assert_eq!(shown, wanted.map(|(title, anchor)| (title.to_owned(), anchor.to_owned())));
    }

    #[test]
    fn links_in_html_count_and_stay_in_their_sections() {
        let text = "[a](a.md) [a](a.md)\n\n# One\n\nSee <a href=\"b%20c.md#D\">b</a>.\n\n<p>\n<a\n  href='e.md'>e</a>\n</p>\n\n<!-- <a href='no.md'> -->\n\n## Two [f](f.md)\n\n[a](a.md)\n";
        let links: Vec<Vec<String>> = sections("x.md", text)
            .into_iter()
            .map(|section| section.links.into_iter().map(|link| link.path).collect())
            .collect();
        assert_eq!(links, [vec!["a.md"], vec!["b c.md", "e.md"], vec!["f.md", "a.md"]]);
    }

    #[test]
    fn notes_link_by_name_and_references_are_followed() {
        let text = "See [[Other Note]], [[dir/Deep#Some Part|there]], [[#Here]] and [the guide][g].\n\n## Here\n\n![[picture.png]] `[[no]]`\n\n[g]: guide.md#x\n";
        let found = sections("notes/a.md", text);
        let links: Vec<(&str, Option<&str>)> =
            found[0].links.iter().map(|link| (&*link.path, link.anchor.as_deref())).collect();
        assert_eq!(
            links,
            [
                (":page/other note", None),
                ("notes/dir/Deep", Some("some-part")),
                (":page/deep", None),
                ("", Some("here")),
                ("notes/guide.md", Some("x")),
            ]
        );
        assert_eq!(found[1].text, "![[picture.png]] `[[no]]`", "where a reference leads is no text");
    }

    #[test]
    fn tags_are_those_of_notes() {
        assert_eq!(tags("# Title\n\n#ops #web/shop\n\nSee #42 and #general."), ["ops", "web/shop"]);
        assert_eq!(tags("[[A]] is #done, `#x` no.\n```\n#include\n```\nBut #this."), ["this"]);
    }
}
