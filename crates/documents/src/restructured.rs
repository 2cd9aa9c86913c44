//! reStructuredText, cut at titles: a line that is underlined (and perhaps overlined) with one mark of punctuation. Marks
//! rank by the order in which they first come. There is no well-kept parser of the whole language; its text is kept as it
//! stands, without comments, labels and the fields it begins with.

mod inline;

use crate::section::{Section, anchor};
use crate::{FrontMatter, Link};
use inline::Inline;

pub(crate) fn sections(path: &str, text: &str) -> (FrontMatter, Vec<Section>) {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader { sections: vec![Section::default()], ..Reader::default() };
    let mut at = 0;
    for (name, value) in headers(&lines) {
        reader.about.field(name, &value);
    }
    let mut is_in_text = false;
    while at < lines.len() {
        let rest = &lines[at..];
        if let Some((title, style, many)) = title(rest).filter(|_| !is_in_text) {
            reader.open(path, &inline::plain(title), style);
            at += many;
            is_in_text = false;
        } else if let Some((many, link)) = unseen(rest) {
            reader.links.extend(link.and_then(|target| Link::resolved(path, target)));
            at += many;
            is_in_text = false;
        } else if !is_in_text && is_transition(rest) {
            at += 1;
        } else if let Some((name, value)) = field(rest[0]).filter(|_| reader.is_at_the_top()) {
            let many = 1 + indented(&rest[1..], false);
            let value = [&[value], &rest[1..many]].concat().join(" ");
            reader.about.field(name, &value);
            at += many;
        } else {
            reader.body.push(rest[0]);
            is_in_text = !rest[0].trim().is_empty();
            at += 1;
        }
    }
    reader.close(path);
    (reader.about, reader.sections)
}

/// Whether a plain text is written in this language: it has titles, and marks that no other text has.
pub(crate) fn is_meant(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let is_marked = |line: &&str| {
        let label = line.starts_with(".. _") && line.trim_end().ends_with(':');
        label || directive(line).is_some() || line.contains(":`") && line.contains(" :")
    };
    lines.iter().any(is_marked) && (0..lines.len()).any(|at| title(&lines[at..]).is_some())
}

#[derive(Default)]
struct Reader<'a> {
    about: FrontMatter,
    sections: Vec<Section>,
    /// The lines of the last of them.
    body: Vec<&'a str>,
    links: Vec<Link>,
    ranks: Vec<(char, bool)>,
    above: Vec<(u8, String)>,
}

impl Reader<'_> {
    fn open(&mut self, path: &str, title: &str, style: (char, bool)) {
        self.close(path);
        let rank = self.ranks.iter().position(|known| *known == style).unwrap_or_else(|| {
            self.ranks.push(style);
            self.ranks.len() - 1
        });
        let level = u8::try_from(rank + 1).unwrap_or(u8::MAX);
        self.above.retain(|(other, _)| *other < level);
        self.above.push((level, title.to_owned()));
        self.sections.push(Section {
            heading_path: self.above.iter().map(|(_, title)| title.clone()).collect(),
            level,
            anchor: anchor(title),
            ..Section::default()
        });
    }

    fn close(&mut self, path: &str) {
        let text = self.body.join("\n").trim().to_owned();
        let mut links = std::mem::take(&mut self.links);
        let inlines = inline::of(&text);
        let targets = inlines.iter().filter_map(Inline::target).chain(entries(&self.body));
        links.extend(targets.filter_map(|target| Link::resolved(path, target)));
        self.body.clear();
        let mut seen = std::collections::HashSet::new();
        links.retain(|link| seen.insert(link.clone()));
        drop(inlines);
        if let Some(open) = self.sections.last_mut() {
            (open.text, open.links) = (text, links);
        }
    }

    /// Before any text, or right below the first title.
    fn is_at_the_top(&self) -> bool {
        self.sections.len() <= 2
            && self.sections[..self.sections.len() - 1].iter().all(|section| section.text.is_empty())
            && self.body.iter().all(|line| line.trim().is_empty())
    }
}

/// A comment, a label or the target of a link, none of which a reader sees: how many lines, and the target.
fn unseen<'a>(lines: &[&'a str]) -> Option<(usize, Option<&'a str>)> {
    let first = lines.first()?;
    let rest = first.strip_prefix("..")?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    if rest.is_empty() && lines.get(1).is_none_or(|next| next.trim().is_empty()) {
        return Some((1, None));
    }
    if rest.starts_with('_') {
        let name_ends = rest.strip_prefix("_`").and_then(|name| name.find("`:")).map_or(0, |at| at + 2);
        let target = rest[name_ends..].split_once(':').map_or("", |(_, target)| target.trim());
        // `name_` is another name for a label.
        let target = Some(target).filter(|target| !target.is_empty() && !target.ends_with('_'));
        return Some((1 + indented(&lines[1..], false), target));
    }
    let is_seen = directive(first).is_some() || rest.starts_with(['[', '|']);
    (!is_seen).then(|| (1 + indented(&lines[1..], true), None))
}

/// A line of one mark between blank lines, which parts two paragraphs and says nothing.
fn is_transition(lines: &[&str]) -> bool {
    let is_rule = mark(lines[0]).is_some() && lines[0].trim_end().len() >= 4;
    is_rule && lines.get(1).is_none_or(|next| next.trim().is_empty())
}

/// The headers that a proposal (`PEP: 8`) begins with, as those of a letter. They stay in the text, where a reader sees
/// who wrote it and what became of it.
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

/// `.. name:: arguments`, at any depth.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.trim_start().strip_prefix(".. ")?.split_once("::")?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_:.+".contains(c));
    is_name.then(|| (name, arguments.trim()))
}

/// `:name: value` at the margin.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix(':')?.split_once(':')?;
    let is_name = !name.is_empty() && !name.contains('`');
    (is_name && (value.is_empty() || value.starts_with(' '))).then(|| (name, value.trim()))
}

/// How many of these lines belong to what stands before them.
fn indented(lines: &[&str], is_over_blanks: bool) -> usize {
    let belongs = |line: &&&str| {
        line.starts_with([' ', '\t']) && !line.trim().is_empty() || is_over_blanks && line.trim().is_empty()
    };
    let many = lines.iter().take_while(belongs).count();
    // Blank lines behind it are not its own.
    lines[..many].iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1)
}

/// What the tables of contents among these lines list.
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

/// The title that these lines begin with, its style, and how many lines it takes.
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

/// A line that is a little too short is still an underline; two or three marks are more often something else.
fn is_title(title: &str, under: &str) -> bool {
    let (long, marks) = (title.chars().count(), under.trim_end().chars().count());
    !title.is_empty() && (marks >= long || marks >= 4 || marks == 3 && long <= 6 && under.trim_end() != "...")
}

/// The mark that a line consists of.
fn mark(line: &str) -> Option<char> {
    let line = line.trim_end();
    let first = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 2 && line.chars().all(|c| c == first)).then_some(first)
}

/// The text as Markdown, as far as it matters for what it mentions: code is code, the rest is prose.
pub(crate) fn markdown(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (mut done, mut prose) = (String::with_capacity(text.len()), String::new());
    let mut at = 0;
    let mut last = "";
    while let Some(line) = lines.get(at) {
        at += 1;
        // What is set further in explains the line before it, unless that is an item of a list, which goes on.
        let is_item = last.trim_start().starts_with(|c: char| "-*+#(".contains(c) || c.is_ascii_digit());
        if depth(line) != depth(last) && !is_item {
            prose.push('\n');
        }
        last = line;
        let directive = directive(line);
        let is_code = match directive {
            Some((name, _)) => {
                matches!(name, "code" | "code-block" | "sourcecode" | "parsed-literal" | "math")
            }
            None => line.trim_end().ends_with("::"),
        };
        if directive.is_none() && !line.trim_start().starts_with(':') {
            prose.push_str(line.trim());
        }
        prose.push('\n');
        if is_code {
            let depth = depth(line);
            let belongs = |line: &&&str| line.trim().is_empty() || self::depth(line) > depth;
            let many = lines[at..].iter().take_while(belongs).count();
            done.push_str(&inline::markdown(&std::mem::take(&mut prose)));
            let code: Vec<&str> = lines[at..at + many].iter().map(|line| line.trim()).collect();
            done.push_str(&format!("\n{}\n\n", crate::fence::fenced("", &code.join("\n"))));
            at += many;
        }
    }
    done + &inline::markdown(&prose)
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
                (2, "Guide > Setup".into(), "Run it::\n\n  make".into()),
                (3, "Guide > Setup > Deeper".into(), "More.".into()),
                (2, "Guide > Use".into(), "End.\n\n\nAfter a line.".into()),
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
        assert_eq!(texts, ["", "Intro.\n\n.. note:: Kept.", ":field: in the text"]);
    }

    #[test]
    fn links_are_found() {
        let text = "See :doc:`b`, :doc:`the /x </guide/c>`, `text\n<d.rst#Part>`_, `site <https://x.y>`__, ``:doc:`no` `` and e_.\n\n.. _e: e.rst\n\n.. toctree::\n   :maxdepth: 2\n\n   f\n   G <sub/g>\n\nh";
        let (_, sections) = sections("docs/a.rst", text);
        let links: Vec<String> = sections[0]
            .links
            .iter()
            .map(|link| format!("{}#{}", link.path, link.anchor.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            links,
            ["docs/e.rst#", "docs/b#", "guide/c#", "docs/d.rst#part", "docs/f#", "docs/sub/g#"]
        );
    }

    #[test]
    fn things_are_mentioned_as_in_markdown() {
        let text = "Call ``open()`` or :func:`~os.close` in `the shop <b.rst>`_::\n\n  $ make test\n\n.. note::\n   We use Kafka.\n\nModel\n   An object.\n\n.. code-block:: python\n   :linenos:\n\n   Big Thing";
        let names: Vec<String> =
            crate::mentions::mentions(&markdown(text)).into_iter().map(|mention| mention.name).collect();
        assert_eq!(names, ["open", "os.close", "make test", "Kafka"]);
    }
}
