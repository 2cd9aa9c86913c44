//! Converts AsciiDoc to Markdown, from which sections are cut: titles with their ids, delimited blocks, lists
//! of terms, admonitions and references. Other features of the language are kept as plain text.

use std::collections::HashMap;

use crate::FrontMatter;
use crate::fence::fenced;

const ADMONITIONS: [&str; 5] = ["NOTE", "TIP", "IMPORTANT", "CAUTION", "WARNING"];

pub(crate) fn markdown(text: &str) -> (FrontMatter, String) {
    let mut page = Page::default();
    let lines: Vec<&str> = text.lines().collect();
    page.read(&lines, "");
    (page.about, page.done)
}

#[derive(Default)]
struct Page {
    about: FrontMatter,
    done: String,
    /// The values of `:name: value`, which replace `{name}`.
    attributes: HashMap<String, String>,
    /// The style of the next block or title, from `[source,sh]` or `[NOTE]`; `id` is its id, from `[#id]` or
    /// `[[id]]`.
    style: Vec<String>,
    id: Option<String>,
}

impl Page {
    /// Reads some lines. `pad` is put before each line within a block.
    fn read(&mut self, lines: &[&str], pad: &str) {
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            at += 1;
            let trimmed = line.trim_end();
            if let Some(mark) = delimiter(trimmed) {
                let many = lines[at..].iter().position(|line| line.trim_end() == trimmed);
                let many = many.unwrap_or(lines.len() - at);
                self.block(mark, &lines[at..at + many], pad);
                at += many + 1;
            } else if trimmed.starts_with("//") {
                // A comment is left out.
            } else if let Some((level, title)) = title(trimmed) {
                self.title(level, title);
            } else if let Some(level) = lines.get(at).and_then(|next| underlined(trimmed, next.trim_end())) {
                self.title(level, trimmed);
                at += 1;
            } else if let Some((name, value)) = attribute(trimmed) {
                self.set(name, value);
            } else if let Some(list) = trimmed.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
                self.told(list);
            } else if let Some(words) = block_title(trimmed) {
                let words = self.inline(words);
                self.line(pad, &format!("{words}:"));
            } else if is_macro(trimmed) || trimmed == "<<<" || trimmed == "'''" || trimmed == "+" {
                // A picture, a page break, or the sign that joins two parts of an item is left out.
            } else {
                at += self.paragraph(trimmed, &lines[at..], pad);
            }
        }
    }

    /// Reads one line of text; returns how many of the next lines belong to it.
    fn paragraph(&mut self, line: &str, next: &[&str], pad: &str) -> usize {
        if let Some(kind) = self.admonition() {
            self.line(pad, &format!("{kind}:"));
        }
        if line.is_empty() {
            self.line("", "");
            return 0;
        }
        if let Some((term, definition)) = term(line) {
            let term = self.inline(term);
            self.line(pad, &format!("**{term}**"));
            if definition.is_empty() {
                // The definition is on the following lines, often indented.
                let many =
                    next.iter().take_while(|line| !line.trim().is_empty() && self::term(line).is_none());
                let own: Vec<&str> = many.copied().collect();
                for line in &own {
                    let words = self.inline(line.trim());
                    self.line(pad, &format!("   {words}"));
                }
                return own.len();
            }
            let words = self.inline(definition);
            self.line(pad, &format!("   {words}"));
            return 0;
        }
        let marks = line.len() - line.trim_start_matches(['*', '.', '-']).len();
        let item = line[marks..].strip_prefix(' ').filter(|_| (1..=5).contains(&marks));
        let text = match (item, line.starts_with('.')) {
            (Some(words), true) => format!("{}1. {}", "   ".repeat(marks - 1), self.inline(words)),
            (Some(words), false) => format!("{}- {}", "  ".repeat(marks - 1), self.inline(words)),
            (None, _) => self.inline(line),
        };
        let hard = text.strip_suffix(" +").map(str::to_owned);
        self.line(pad, &hard.unwrap_or(text));
        0
    }

    fn line(&mut self, pad: &str, text: &str) {
        if !text.is_empty() {
            self.done.push_str(pad);
        }
        self.done.push_str(text);
        self.done.push('\n');
    }

    fn title(&mut self, level: usize, title: &str) {
        let title = self.inline(title);
        let id = self.id.take().map(|id| format!(" {{#{id}}}")).unwrap_or_default();
        self.style.clear();
        self.done.push_str(&format!("\n{} {title}{id}\n\n", "#".repeat(level.min(6))));
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "keywords" => self.about.field("tags", value),
            "revdate" => self.about.field("date", value),
            name => self.about.field(name, value),
        }
        self.attributes.insert(name.to_lowercase(), value.to_owned());
    }

    /// Reads the list in brackets before a block: `source,sh`, `NOTE`, `#id`, `[id]` or `id=x`.
    fn told(&mut self, list: &str) {
        let own =
            list.strip_prefix('[').and_then(|id| id.strip_suffix(']')).or_else(|| list.strip_prefix('#'));
        match own.map(|id| id.split([',', '.', '%']).next().unwrap_or(id)) {
            Some(id) if !id.is_empty() && !id.contains(['{', '}', ' ']) => self.id = Some(id.to_owned()),
            _ => self.style = list.split(',').map(|part| part.trim().to_owned()).collect(),
        }
    }

    fn admonition(&mut self) -> Option<String> {
        let kind = self.style.first().filter(|kind| ADMONITIONS.contains(&kind.as_str()))?;
        let kind = kind[..1].to_owned() + &kind[1..].to_lowercase();
        self.style.clear();
        Some(kind)
    }

    fn block(&mut self, mark: char, lines: &[&str], pad: &str) {
        let style = std::mem::take(&mut self.style);
        let first = style.first().map_or("", String::as_str);
        match mark {
            '/' | '+' => {}
            '-' | '.' | '`' => {
                let language = style.get(1).filter(|_| first == "source").map_or("", String::as_str);
                for line in fenced(language, lines.join("\n").trim_end()).lines() {
                    self.line(pad, line);
                }
            }
            '|' => {
                let rows = lines.iter().map(|line| self.inline(line.trim_end())).collect::<Vec<_>>();
                rows.iter().filter(|row| !row.trim().is_empty()).for_each(|row| self.line(pad, row));
                self.line("", "");
            }
            _ => {
                self.style = style;
                match self.admonition() {
                    Some(kind) => {
                        self.line(pad, &format!("{kind}:\n"));
                        self.read(lines, &format!("{pad}   "));
                    }
                    None => self.read(lines, pad),
                }
                self.style.clear();
            }
        }
    }

    /// Converts references, addresses and attributes within a line. The marks for emphasis and code are
    /// nearly the same as in Markdown.
    fn inline(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains('{') {
            for (name, value) in &self.attributes {
                text = text.replace(&format!("{{{name}}}"), value);
            }
        }
        if text.contains("<<") {
            text = references(&text);
        }
        for name in ["xref:", "link:"] {
            if text.contains(name) {
                text = macros(&text, name);
            }
        }
        text
    }
}

/// The mark of a line that begins or ends a block.
fn delimiter(line: &str) -> Option<char> {
    if line == "|===" || line == ",===" || line == "!===" {
        return Some('|');
    }
    if line == "--" {
        return Some('=');
    }
    if line.starts_with("```") {
        return Some('`').filter(|_| line == "```");
    }
    let mark = line.chars().next().filter(|mark| "-=.*_+/".contains(*mark))?;
    (line.len() >= 4 && line.chars().all(|c| c == mark)).then_some(mark)
}

/// The level and the words of `== Title`.
fn title(line: &str) -> Option<(usize, &str)> {
    let mark = line.chars().next().filter(|mark| "=#".contains(*mark))?;
    let rest = line.trim_start_matches(mark);
    let level = line.len() - rest.len();
    let title = rest.strip_prefix(' ').filter(|_| level <= 6)?.trim();
    (!title.is_empty()).then(|| (level, title.trim_end_matches(mark).trim_end()))
}

/// The level of a title that is followed by a line of marks of about the same length.
fn underlined(title: &str, under: &str) -> Option<usize> {
    let mark = under.chars().next()?;
    let level = "=-~^+".find(mark)? + 1;
    let is_title = title.starts_with(char::is_alphanumeric)
        && under.chars().all(|c| c == mark)
        && under.len() >= 3
        && title.chars().count().abs_diff(under.len()) <= 1;
    is_title.then_some(level)
}

/// The name and the value of `:name: value`.
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix(':')?.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_!".contains(c));
    (is_name && (value.is_empty() || value.starts_with(' '))).then(|| (name, value.trim()))
}

/// The words of `.Title of a block`.
fn block_title(line: &str) -> Option<&str> {
    line.strip_prefix('.').filter(|words| words.starts_with(|c: char| c.is_alphanumeric() || c == '`'))
}

/// Whether a macro fills the whole line: `image::x.png[]`, or an `include::` whose file was not inserted.
fn is_macro(line: &str) -> bool {
    let name = line.split_once("::").map_or("", |(name, _)| name);
    ["image", "include", "ifdef", "ifndef", "ifeval", "endif", "toc", "video", "audio"].contains(&name)
        && line.ends_with(']')
}

/// The parts of `term:: definition`; the definition may also follow on the next line.
fn term(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (term, definition) = match line.strip_suffix("::") {
        Some(term) => (term, ""),
        None => line.split_once(":: ")?,
    };
    let is_term = !term.is_empty() && !term.contains("::") && term.split(' ').count() <= 8;
    is_term.then(|| (term.trim_end_matches(':'), definition.trim()))
}

/// Converts references of the form `<<file.adoc#id,words>>`.
fn references(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        let Some((inner, behind)) = after.split_once(">>") else { break };
        let (target, words) = inner.split_once(',').unwrap_or((inner, inner));
        let target = match target.contains(['#', '.']) {
            true => target.to_owned(),
            false => format!("#{target}"),
        };
        done.push_str(&format!("{before}[{}]({})", words.trim(), target.trim()));
        rest = behind;
    }
    done + rest
}

/// Converts macros of the form `xref:file.adoc#id[words]`.
fn macros(text: &str, name: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(name) {
        let end = after.find(|c: char| c == '[' || c.is_whitespace()).unwrap_or(after.len());
        let words = after[end..].strip_prefix('[').and_then(|words| words.split_once(']'));
        let Some((words, behind)) = words else {
            done.push_str(before);
            done.push_str(name);
            rest = after;
            continue;
        };
        let target = &after[..end];
        let words = if words.is_empty() { target } else { words };
        let is_id = name == "xref:" && !target.contains(['#', '.', '/']);
        done.push_str(&format!("{before}[{words}]({}{target})", if is_id { "#" } else { "" }));
        rest = behind;
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asciidoc_is_read_as_markdown() {
        let text = "= Handbook\n:keywords: ops, web\n:product: Kenning\n// a comment\n\nIntro to {product}.\n\n[#deploy]\n== Deploying\n\nSee <<rules>>, <<b.adoc#x,the rest>> and xref:c/d.adoc#y[more].\n\n[source,sh]\n----\n== no title\nmake\n----\n\n[NOTE]\n====\nMind it.\n====\n\nTIP: Try it.\n\ntimeout:: How long it waits.\nretries::\n  How often.\n\n* one\n** two\n. first\n\n|===\n|a |b\n\n|1 |2\n|===\n\nimage::x.png[]\n\nRules\n-----\nEnd.\n";
        let (about, markdown) = markdown(text);
        assert_eq!(about.tags, ["ops", "web"]);
        let squeezed: Vec<&str> = markdown.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            squeezed.join("\n"),
            "# Handbook\nIntro to Kenning.\n## Deploying {#deploy}\nSee [rules](#rules), [the rest](b.adoc#x) and [more](c/d.adoc#y).\n```sh\n== no title\nmake\n```\nNote:\n   Mind it.\nTIP: Try it.\n**timeout**\n   How long it waits.\n**retries**\n   How often.\n- one\n  - two\n1. first\n|a |b\n|1 |2\n## Rules\nEnd."
        );
    }
}
