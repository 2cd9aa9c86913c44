//! The text of a section as a reader sees it. Lines keep their indentation, which shows what belongs
//! together. Code is fenced, roles and references become their words, admonitions begin with their kind, and
//! constructs that a reader does not see are left out.

use super::directive::{Kind, directive, kind, object_name};
use super::{depth, field, indented_below, inline};
use crate::fence::{Fences, fenced};

pub(super) fn shown(lines: &[&str]) -> String {
    let mut page = Page::default();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let many = indented_below(lines, at);
        let below = &lines[at + 1..at + 1 + many];
        at += 1;
        let pad = &line[..depth(line)];
        let Some((name, arguments)) = directive(line) else {
            if is_comment(line) {
                at += many;
            } else if let Some(lead) = line.trim_end().strip_suffix("::").filter(|_| is_set_off(below)) {
                // `Run it::` is shown as `Run it:`, and `::` alone is not shown.
                if !lead.trim().is_empty() {
                    page.prose(&format!("{}{}", lead.trim_end(), if lead.ends_with(' ') { "" } else { ":" }));
                }
                page.code(pad, "", below);
                at += many;
            } else {
                page.prose(line.trim_end());
            }
            continue;
        };
        let options = below.iter().take_while(|line| field(line.trim()).is_some()).count();
        match kind(name) {
            Kind::Code => {
                page.code(pad, arguments, &below[options..]);
                at += many;
            }
            Kind::Unseen => at += many,
            Kind::Frame => at += options,
            Kind::Admonition("") => {
                page.prose(&format!("{pad}{}:", arguments.trim_end_matches(':')));
                at += options;
            }
            Kind::Admonition(word) => {
                let gap = if arguments.is_empty() { "" } else { " " };
                page.prose(&format!("{pad}{word}:{gap}{arguments}"));
                at += options;
            }
            Kind::Version(words) => {
                let end = if below.iter().any(|line| !line.trim().is_empty()) { ":" } else { "." };
                page.prose(&format!("{pad}{words} {arguments}{end}"));
            }
            Kind::Object | Kind::Documented | Kind::Other => page.prose(line.trim_end()),
        }
    }
    page.finished()
}

#[derive(Default)]
struct Page {
    done: String,
    /// Lines whose inline markup is not converted yet, since a role may extend over the end of a line.
    prose: String,
}

impl Page {
    fn prose(&mut self, line: &str) {
        // An item with an automatic number becomes an item of an ordinary numbered list.
        match line.trim_start().strip_prefix("#. ") {
            Some(item) => self.prose.push_str(&format!("{}1. {item}", &line[..depth(line)])),
            None => self.prose.push_str(line),
        }
        self.prose.push('\n');
    }

    fn code(&mut self, pad: &str, language: &str, lines: &[&str]) {
        let shared = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| depth(line)).min();
        let Some(shared) = shared else { return };
        let lines: Vec<&str> =
            lines.iter().map(|line| line.get(shared..).unwrap_or_default().trim_end()).collect();
        self.end_prose();
        for line in fenced(language, lines.join("\n").trim_matches('\n')).lines() {
            self.done.push_str(pad);
            self.done.push_str(line);
            self.done.push('\n');
        }
    }

    fn end_prose(&mut self) {
        self.done.push_str(&inline::shown(&std::mem::take(&mut self.prose)));
    }

    fn finished(mut self) -> String {
        self.end_prose();
        // Removes the blank lines that are left where constructs were left out.
        let mut text = String::with_capacity(self.done.len());
        let mut fences = Fences::default();
        let mut was_blank = true;
        for line in self.done.lines() {
            let is_blank = !fences.hold(line) && line.trim().is_empty();
            if !(is_blank && was_blank) {
                text.push_str(if is_blank { "" } else { line });
                text.push('\n');
            }
            was_blank = is_blank;
        }
        text.trim_end().trim_start_matches('\n').to_owned()
    }
}

/// Whether the lines begin with a blank one, like the code after `::`.
fn is_set_off(below: &[&str]) -> bool {
    below.first().is_some_and(|line| line.trim().is_empty())
}

/// Whether a line begins a comment, a label or a substitution, at any indentation.
fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line == ".." || line.strip_prefix(".. ").is_some_and(|rest| !rest.trim_start().starts_with('['))
}

/// The text for finding mentions: without indentation, which Markdown would read as code, and with defined
/// names marked as code or bold.
pub(super) fn flat(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut flat = String::with_capacity(text.len());
    let mut fences = Fences::default();
    let mut last = "";
    for (at, line) in lines.iter().enumerate() {
        let trimmed = line.trim();
        if fences.hold(line) {
            flat.push_str(trimmed);
            flat.push('\n');
            last = "";
            continue;
        }
        // Further indented text explains the line before it; but after the line of a list item it continues
        // the item.
        let is_item = last.trim_start().starts_with(|c: char| "-*+#(".contains(c) || c.is_ascii_digit());
        if depth(line) != depth(last) && !is_item {
            flat.push('\n');
        }
        last = line;
        let is_term = || {
            let is_explained =
                lines.get(at + 1).is_some_and(|next| !next.trim().is_empty() && depth(next) > depth(line));
            is_explained && is_term(trimmed)
        };
        match directive(line) {
            Some((name, arguments)) if matches!(kind(name), Kind::Object | Kind::Documented) => {
                flat.push_str(&format!("\n`{}`\n", object_name(arguments)));
            }
            Some(_) => {}
            None if field(trimmed).is_some() => {}
            None if is_term() => flat.push_str(&format!("\n**{trimmed}**\n")),
            None => flat.push_str(trimmed),
        }
        flat.push('\n');
    }
    flat
}

/// Whether a line is a term that the indented text below explains: a few words, without a mark at the end.
fn is_term(line: &str) -> bool {
    line.split_whitespace().count() <= 4
        && line.starts_with(char::is_alphanumeric)
        && line.ends_with(char::is_alphanumeric)
}
