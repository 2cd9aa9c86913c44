//! reStructuredText, cut at titles: a title is underlined (and perhaps overlined) with one punctuation mark,
//! and the level of a mark follows from the order in which marks first occur. A described object
//! (`.. confval:: cache_dir`) is a section too, below the section of the title above it. There is no
//! maintained parser of the whole language, so lines are kept as a reader sees them.

mod directive;
mod inline;
mod shown;

use crate::section::{Section, anchor};
use crate::{FrontMatter, Link};
use directive::{Kind, directive, kind, labels, object_name};

pub(crate) fn sections(path: &str, text: &str) -> (FrontMatter, Vec<Section>) {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader::new(path);
    let mut at = 0;
    for (name, value) in headers(&lines) {
        reader.about.field(name, &value);
    }
    let mut is_in_text = false;
    while at < lines.len() {
        let rest = &lines[at..];
        let was_in_text = std::mem::take(&mut is_in_text);
        if let Some((title, style, many)) = title(rest).filter(|_| !was_in_text) {
            reader.open(&inline::plain(title), style);
            at += many;
        } else if let Some((many, unseen)) = unseen(rest) {
            reader.note(unseen);
            at += many;
        } else if !was_in_text && is_transition(rest) {
            at += 1;
        } else if let Some((name, value)) = field(rest[0]).filter(|_| reader.is_at_the_top()) {
            let many = 1 + indented(&rest[1..], false);
            let value = [&[value], &rest[1..many]].concat().join(" ");
            reader.about.field(name, &value);
            at += many;
        } else if let Some((signature, many)) = object(rest) {
            reader.describe(signature, &rest[..many]);
            at += many;
        } else {
            is_in_text = !rest[0].trim().is_empty();
            if is_in_text {
                reader.own_labels();
            }
            reader.body.push(rest[0]);
            at += 1;
        }
    }
    reader.close();
    (reader.about, reader.sections)
}

/// The text in a form in which mentions can be found as in Markdown.
pub(crate) fn flat(text: &str) -> String {
    shown::flat(text)
}

/// Whether a plain text is reStructuredText: it has titles, and marks that no other format has.
pub(crate) fn is_meant(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_marked = |line: &&str| {
        let label = line.starts_with(".. _") && line.trim_end().ends_with(':');
        label || directive(line).is_some() || line.contains(":`") && line.contains(" :")
    };
    lines.iter().any(is_marked) && (0..lines.len()).any(|at| title(&lines[at..]).is_some())
}

struct Reader<'a> {
    path: &'a str,
    about: FrontMatter,
    sections: Vec<Section>,
    /// The index of the section of the last title.
    current: usize,
    /// The lines of its text.
    body: Vec<&'a str>,
    links: Vec<Link>,
    /// Labels that belong to the next title or object.
    labels: Vec<&'a str>,
    ranks: Vec<(char, bool)>,
    above: Vec<(u8, String)>,
}

impl<'a> Reader<'a> {
    fn new(path: &'a str) -> Reader<'a> {
        Reader {
            path,
            about: FrontMatter::default(),
            sections: vec![Section::default()],
            current: 0,
            body: Vec::new(),
            links: Vec::new(),
            labels: Vec::new(),
            ranks: Vec::new(),
            above: Vec::new(),
        }
    }

    fn open(&mut self, title: &str, style: (char, bool)) {
        self.close();
        let rank = self.ranks.iter().position(|known| *known == style).unwrap_or_else(|| {
            self.ranks.push(style);
            self.ranks.len() - 1
        });
        let level = u8::try_from(rank + 1).unwrap_or(u8::MAX);
        self.above.retain(|(other, _)| *other < level);
        self.above.push((level, title.to_owned()));
        self.current = self.sections.len();
        self.sections.push(Section {
            heading_path: self.above.iter().map(|(_, title)| title.clone()).collect(),
            level,
            anchor: anchor(title),
            ..Section::default()
        });
        self.own_labels();
    }

    /// Adds a section for a described object, below the section of the title. The text after it belongs to
    /// the title's section again.
    fn describe(&mut self, signature: &str, lines: &[&str]) {
        let name = inline::plain(object_name(signature));
        let mut links: Vec<Link> = self.labels.drain(..).map(Link::labelled).collect();
        links.extend(labels(signature).iter().map(|label| Link::labelled(label)));
        links.extend(self.links_in(lines));
        let titles = self.above.iter().map(|(_, title)| title);
        self.sections.push(Section {
            level: self.above.last().map_or(0, |(level, _)| *level).saturating_add(1),
            anchor: anchor(&name),
            heading_path: titles.chain([&name]).cloned().collect(),
            text: shown::shown(lines),
            links: each_once(links),
            ..Section::default()
        });
    }

    fn note(&mut self, unseen: Unseen<'a>) {
        match unseen {
            Unseen::Nothing => {}
            Unseen::Label(name) => self.labels.push(name),
            Unseen::Target(target) => self.links.extend(Link::resolved(self.path, target)),
        }
    }

    /// Labels that are not followed by a title belong to the text.
    fn own_labels(&mut self) {
        self.links.extend(self.labels.drain(..).map(Link::labelled));
    }

    fn close(&mut self) {
        // The remaining labels belong to the title that follows.
        let body = std::mem::take(&mut self.body);
        let mut links = std::mem::take(&mut self.links);
        links.extend(self.links_in(&body));
        let open = &mut self.sections[self.current];
        (open.text, open.links) = (shown::shown(&body), each_once(links));
    }

    fn links_in(&self, lines: &[&str]) -> Vec<Link> {
        let text = lines.join("\n");
        let mut links: Vec<Link> =
            inline::of(&text).iter().filter_map(|piece| piece.link(self.path)).collect();
        links.extend(entries(lines).into_iter().filter_map(|target| Link::resolved(self.path, target)));
        for (name, signature) in lines.iter().filter_map(|line| directive(line)) {
            if kind(name) == Kind::Documented {
                links.extend(labels(signature).iter().map(|label| Link::labelled(label)));
            }
        }
        links
    }

    /// Whether the position is before any text, or directly below the first title.
    fn is_at_the_top(&self) -> bool {
        self.sections.len() <= 2
            && self.sections[..self.sections.len() - 1].iter().all(|section| section.text.is_empty())
            && self.body.iter().all(|line| line.trim().is_empty())
    }
}

fn each_once(mut links: Vec<Link>) -> Vec<Link> {
    let mut seen = std::collections::HashSet::new();
    links.retain(|link| seen.insert(link.clone()));
    links
}

/// The signature of the object that these lines describe, and the number of lines.
fn object<'a>(lines: &[&'a str]) -> Option<(&'a str, usize)> {
    let (name, signature) = directive(lines[0]).filter(|_| !lines[0].starts_with([' ', '\t']))?;
    let many = indented(&lines[1..], true);
    let is_one = kind(name) == Kind::Object && !signature.is_empty() && many > 0;
    is_one.then_some((signature, many + 1))
}

/// A construct that a reader does not see.
#[derive(Debug, PartialEq)]
enum Unseen<'a> {
    Nothing,
    /// A label of the text that follows.
    Label(&'a str),
    /// The target of a name that is used elsewhere in the text.
    Target(&'a str),
}

/// A comment, a label or the target of a link, with its number of lines.
fn unseen<'a>(lines: &[&'a str]) -> Option<(usize, Unseen<'a>)> {
    let first = lines.first()?;
    let rest = first.strip_prefix("..")?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    if rest.is_empty() && lines.get(1).is_none_or(|next| next.trim().is_empty()) {
        return Some((1, Unseen::Nothing));
    }
    if let Some(rest) = rest.strip_prefix('_') {
        let (name, target) = match rest.strip_prefix('`').and_then(|quoted| quoted.split_once("`:")) {
            Some((name, target)) => (name, target.trim()),
            None => rest.split_once(':').map_or((rest, ""), |(name, target)| (name, target.trim())),
        };
        let unseen = match target {
            "" => Unseen::Label(name),
            // `name_` refers to another label.
            target if target.ends_with('_') => Unseen::Nothing,
            target => Unseen::Target(target),
        };
        return Some((1 + indented(&lines[1..], false), unseen));
    }
    let is_seen = directive(first).is_some() || rest.starts_with(['[', '|']);
    (!is_seen).then(|| (1 + indented(&lines[1..], true), Unseen::Nothing))
}

/// Whether the first line is a transition: a line of one mark between blank lines, which only separates
/// paragraphs.
fn is_transition(lines: &[&str]) -> bool {
    let is_rule = mark(lines[0]).is_some() && lines[0].trim_end().len() >= 4;
    is_rule && lines.get(1).is_none_or(|next| next.trim().is_empty())
}

/// The headers at the beginning of a proposal (`PEP: 8`), in the form of mail headers. They also stay in the
/// text, so that its author and status are shown.
fn headers<'a>(lines: &[&'a str]) -> Vec<(&'a str, String)> {
    let header = |line: &&'a str| {
        let (name, value) = line.split_once(':')?;
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        is_name.then_some((name, value.trim()))
    };
    let mut headers: Vec<(&str, String)> = Vec::new();
    for line in lines.iter().take_while(|line| !line.trim().is_empty()) {
        match (line.starts_with([' ', '\t']), headers.last_mut(), header(line)) {
            (true, Some((_, value)), _) => value.push_str(&format!(" {}", line.trim())),
            (false, _, Some((name, value))) => headers.push((name, value.to_owned())),
            _ => return Vec::new(),
        }
    }
    match headers.iter().any(|(name, _)| *name == "Title") {
        true => headers,
        false => Vec::new(),
    }
}

/// The name and the value of an unindented `:name: value`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix(':')?.split_once(':')?;
    let is_name = !name.is_empty() && !name.contains('`');
    (is_name && (value.is_empty() || value.starts_with(' '))).then(|| (name, value.trim()))
}

/// The number of these lines that belong to the construct before them.
fn indented(lines: &[&str], is_over_blanks: bool) -> usize {
    let belongs = |line: &&&str| {
        line.starts_with([' ', '\t']) && !line.trim().is_empty() || is_over_blanks && line.trim().is_empty()
    };
    let many = lines.iter().take_while(belongs).count();
    // Blank lines at the end do not belong to it.
    lines[..many].iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1)
}

/// The number of lines after this one that are indented further, including blank lines between them.
fn indented_below(lines: &[&str], at: usize) -> usize {
    let own = depth(lines[at]);
    let below = &lines[at + 1..];
    let many = below.iter().take_while(|line| line.trim().is_empty() || depth(line) > own).count();
    below[..many].iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1)
}

/// The entries of the tables of contents in these lines.
fn entries<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut entries = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if directive(line).is_none_or(|(name, _)| name != "toctree") {
            continue;
        }
        let below = &lines[at + 1..];
        for entry in below[..indented(below, true)].iter().map(|line| line.trim()) {
            if !entry.is_empty() && field(entry).is_none() && !entry.contains('*') && entry != "self" {
                entries.push(inline::target_or_all(entry));
            }
        }
    }
    entries
}

/// The title at the beginning of these lines, its style, and its number of lines.
fn title<'a>(lines: &[&'a str]) -> Option<(&'a str, (char, bool), usize)> {
    if let (Some(over), [_, title, under, ..]) = (lines.first().and_then(|line| mark(line)), lines)
        && mark(under) == Some(over)
        && is_title(title.trim(), under)
    {
        return Some((title.trim(), (over, true), 3));
    }
    let [title, under, ..] = lines else { return None };
    let under_mark = mark(under)?;
    let is_text = mark(title).is_none() && !title.starts_with([' ', '\t']) && !title.starts_with(".. ");
    (is_text && is_title(title.trim(), under)).then(|| (title.trim(), (under_mark, false), 2))
}

/// Whether a line underlines the title. It may be a little too short; but two or three marks usually have
/// another meaning.
fn is_title(title: &str, under: &str) -> bool {
    let (long, marks) = (title.chars().count(), under.trim_end().chars().count());
    !title.is_empty() && (marks >= long || marks >= 4 || marks == 3 && long <= 6 && under.trim_end() != "...")
}

/// The mark of a line that consists of a single repeated mark.
fn mark(line: &str) -> Option<char> {
    let line = line.trim_end();
    let first = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 2 && line.chars().all(|c| c == first)).then_some(first)
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_rank_by_the_order_of_their_marks() {
        let text = "=====\nGuide\n=====\n\nIntro.\n\nSetup\n-----\nRun it::\n\n  make\n\nDeeper\n~~~~~~\nMore.\n\nUse\n---\nEnd.\n\n----\n\nAfter a line.";
        let shown: Vec<(u8, String, String)> = sections("docs/a.rst", text)
            .1
            .into_iter()
            .map(|section| (section.level, section.heading_path.join(" > "), section.text))
            .collect();
        assert_eq!(
            shown,
            [
                (0, String::new(), String::new()),
                (1, "Guide".into(), "Intro.".into()),
                (2, "Guide > Setup".into(), "Run it:\n```\nmake\n```".into()),
                (3, "Guide > Setup > Deeper".into(), "More.".into()),
                (2, "Guide > Use".into(), "End.\n\nAfter a line.".into()),
            ]
        );
    }

    #[test]
    fn a_short_underline_is_one() {
        let text = "Some long title\n=====\n\nText\n...\n\n:mod:`os` --- Things\n$$$$$$$$$$\n\nMore\n\nAdd::\n\n  x\n\nEnd\n@@@\nLast";
        let titles: Vec<String> =
            sections("a.rst", text).1.into_iter().map(|section| section.heading_path.join(" > ")).collect();
        assert_eq!(
            titles,
            [
                "",
                "Some long title",
                "Some long title > os --- Things",
                "Some long title > os --- Things > End"
            ]
        );
    }

    #[test]
    fn what_a_reader_does_not_see_is_no_text() {
        let text = ".. _guide-label:\n\n=====\nGuide\n=====\n\n:tags: a, b\n:date: 2026-02-10\n:author: Somebody\n  Else\n\n.. A comment\n   that goes on\n\n   and on.\n\nIntro.\n\n.. note:: Kept.\n\n..\n\nUse\n---\n:field: in the text\n";
        let (about, sections) = sections("a.rst", text);
        assert_eq!(about.tags, ["a", "b"]);
        assert!(about.updated.is_some());
        let texts: Vec<&str> = sections.iter().map(|section| &*section.text).collect();
        assert_eq!(texts, ["", "Intro.\n\nNote: Kept.", ":field: in the text"]);
    }

    #[test]
    fn links_are_found() {
        let text = "See :doc:`b`, :doc:`the /x </guide/c>`, `text\n<d.rst#Part>`_, `site <https://x.y>`__, ``:doc:`no` ``, :pep:`8`, :rfc:`2119#section-2`, :ref:`the Part <Some-Label>`, :confval:`cache_dir`, :kbd:`x`, `Own Part`_ and e_.\n\n.. _e: e.rst\n\n.. toctree::\n   :maxdepth: 2\n\n   f\n   G <sub/g>\n\nh";
        let (_, sections) = sections("docs/a.rst", text);
        let links: Vec<String> = sections[0]
            .links
            .iter()
            .map(|link| format!("{}#{}", link.path, link.anchor.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            links,
            [
                "docs/e.rst#",
                "docs/b#",
                "guide/c#",
                "docs/d.rst#part",
                "docs/pep-0008#",
                "docs/rfc2119#",
                ":label#some-label",
                ":label#cache_dir",
                "#own-part",
                "docs/f#",
                "docs/sub/g#",
            ]
        );
    }

    #[test]
    fn what_is_described_is_a_section_with_its_name_and_fields() {
        let text = "Options\n=======\n\nAll of them.\n\n.. _cache:\n\n.. confval:: cache_dir\n   :type: ``str``\n   :default: ``\".cache\"``\n\n   Where the cache is, see\n   :ref:`the guide <guide>`.\n\n   .. versionadded:: 2.0\n\n.. option:: -v N, --verbose N\n\n   Say more.\n\n.. autofunction:: pytest.fail(reason)\n\nThat is all.\n\n.. _next:\n\nNext\n====\n\n.. class:: Mark\n";
        let (_, sections) = sections("a.rst", text);
        let shown: Vec<(u8, String, &str)> = sections
            .iter()
            .map(|section| (section.level, section.heading_path.join(" > "), &*section.text))
            .collect();
        assert_eq!(
            shown,
            [
                (0, String::new(), ""),
                (
                    1,
                    "Options".into(),
                    "All of them.\n\n.. autofunction:: pytest.fail(reason)\n\nThat is all."
                ),
                (
                    2,
                    "Options > cache_dir".into(),
                    ".. confval:: cache_dir\n   :type: `str`\n   :default: `\".cache\"`\n\n   Where the cache is, see\n   the guide.\n\n   Added in version 2.0."
                ),
                (2, "Options > -v N, --verbose N".into(), ".. option:: -v N, --verbose N\n\n   Say more."),
                (1, "Next".into(), ".. class:: Mark"),
            ]
        );
        let own = |at: usize| -> Vec<String> {
            let links = sections[at].links.iter().filter(|link| link.path == kenning_model::Link::LABELLED);
            links.filter_map(|link| link.anchor.clone()).collect()
        };
        assert_eq!(own(1), ["pytest.fail"]);
        assert_eq!(own(2), ["cache", "cache_dir"]);
        assert_eq!(own(3), ["-v", "--verbose"]);
        assert_eq!(own(4), ["next"]);
        assert!(sections[2].links.contains(&Link::label("Guide")));
    }

    #[test]
    fn a_text_is_shown_as_a_reader_sees_it() {
        for (written, wanted) in [
            (".. warning::\n\n   Do not.\n\nEnd.", "Warning:\n\n   Do not.\n\nEnd."),
            (".. admonition:: By the way\n   :class: x\n\n   Yes.", "By the way:\n\n   Yes."),
            (".. versionchanged:: 7.3\n   Add ``-b``.", "Changed in version 7.3:\n   Add `-b`."),
            (".. index:: a; b\n\nText.\n\n.. only:: html\n\n   Seen.", "Text.\n\n   Seen."),
            (
                "* item\n\n  .. code-block:: toml\n     :caption: x\n\n     [a]\n       b = 1\n\n* next",
                "* item\n\n  ```toml\n  [a]\n    b = 1\n  ```\n\n* next",
            ),
            ("Use::\n\n  :func:`a`\n\nnot::", "Use:\n```\n:func:`a`\n```\n\nnot::"),
            ("#. one\n   #. two\n#. ", "1. one\n   1. two\n#."),
            ("term\n   What ``it``\\ s is.\n   .. comment\n", "term\n   What `it`s is."),
            (
                "`site\n<https://x.y>`_ :func:`~os.open` :pep:`8` :doc:`a </b>` `c`_",
                "[site](https://x.y) `os.open` PEP 8 a c",
            ),
        ] {
            assert_eq!(shown::shown(&written.lines().collect::<Vec<_>>()), wanted, "{written}");
        }
    }

    #[test]
    fn things_are_mentioned_as_in_markdown() {
        let text = "Call ``open()`` or :func:`~os.close` in `the shop <b.rst>`_::\n\n  $ make test\n\n.. note::\n   We use Kafka.\n\nBuild target\n   An object.\n\n.. code-block:: python\n   :linenos:\n\n   Big Thing\n\n.. confval:: cache_dir\n\n   Text.";
        let shown = shown::shown(&text.lines().collect::<Vec<_>>());
        let names: Vec<String> =
            crate::mentions::mentions(&flat(&shown)).into_iter().map(|mention| mention.name).collect();
        assert_eq!(names, ["open", "os.close", "make test", "Kafka", "Build target", "cache_dir"]);
    }
}
