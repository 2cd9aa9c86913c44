//! Converts Org files to Markdown, from which sections are cut: headings with their ids, blocks as code,
//! links and marks within a line. Drawers, comments and settings are left out.

use crate::FrontMatter;
use crate::fence::fenced;

/// Words before a title that give the state of a task.
const STATES: [&str; 6] = ["TODO", "DONE", "NEXT", "WAITING", "CANCELLED", "CANCELED"];

pub(crate) fn markdown(text: &str) -> (FrontMatter, String) {
    let mut about = FrontMatter::default();
    let mut done = String::with_capacity(text.len());
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let trimmed = line.trim();
        if let Some((level, title)) = heading(line) {
            let (many, id) = drawers(&lines[at..]);
            at += many;
            let id = id.map(|id| format!(" {{#{id}}}")).unwrap_or_default();
            done.push_str(&format!("{} {}{id}\n", "#".repeat(level), inline(title)));
        } else if let Some((name, value)) = keyword(trimmed) {
            match name.to_lowercase().as_str() {
                "title" => about.field("title", value),
                "date" => about
                    .field("date", value.trim_matches(['<', '>', '[', ']']).split(' ').next().unwrap_or("")),
                "filetags" => about.field("tags", &value.trim_matches(':').replace(':', ", ")),
                name => {
                    if let Some(kind) = name.strip_prefix("begin_") {
                        let end = format!("#+end_{kind}");
                        let is_end = |line: &&str| line.trim().to_lowercase().starts_with(&end);
                        let many = lines[at..].iter().position(is_end).unwrap_or(lines.len() - at);
                        block(kind, value, &lines[at..at + many], &mut done);
                        at += many + 1;
                    }
                }
            }
        } else if trimmed == "#" || trimmed.starts_with("# ") {
            // A comment is left out.
        } else if is_drawer(trimmed) {
            at += drawers(&lines[at - 1..]).0.saturating_sub(1);
        } else if let Some(code) = trimmed.strip_prefix(": ") {
            done.push_str(&format!("    {code}\n"));
        } else if trimmed.starts_with("|-") {
            done.push_str(&format!("{}\n", trimmed.replace('+', "|")));
        } else {
            done.push_str(&inline(line));
            done.push('\n');
        }
    }
    (about, done)
}

/// The level and the words of `** TODO [#A] Title :tag:`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('*');
    let level = line.len() - rest.len();
    let mut title = rest.strip_prefix(' ').filter(|_| level > 0)?.trim();
    if let Some((state, rest)) = title.split_once(' ').filter(|(state, _)| STATES.contains(state)) {
        debug_assert!(!state.is_empty());
        title = rest.trim_start();
    }
    if let Some((_, rest)) = title.strip_prefix("[#").and_then(|rest| rest.split_once("] ")) {
        title = rest;
    }
    if let Some((words, tags)) = title.rsplit_once(char::is_whitespace)
        && tags.len() > 2
        && tags.starts_with(':')
        && tags.ends_with(':')
    {
        title = words.trim_end();
    }
    Some((level.min(6), title))
}

/// The name and the value of `#+name: value` or `#+begin_src value`.
fn keyword(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("#+")?;
    let end = rest.find([':', ' ']).unwrap_or(rest.len());
    Some((&rest[..end], rest[end..].trim_start_matches(':').trim()))
}

fn is_drawer(line: &str) -> bool {
    line.len() > 2
        && line.starts_with(':')
        && line.ends_with(':')
        && line[1..line.len() - 1].chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The number of lines of the drawer at the beginning of these lines, and the id that it gives to the
/// heading.
fn drawers<'a>(lines: &[&'a str]) -> (usize, Option<&'a str>) {
    if !lines.first().is_some_and(|line| is_drawer(line.trim())) {
        return (0, None);
    }
    let Some(end) = lines.iter().position(|line| line.trim().eq_ignore_ascii_case(":END:")) else {
        return (0, None);
    };
    let id = lines[..end].iter().find_map(|line| line.trim().strip_prefix(":CUSTOM_ID:")).map(str::trim);
    (end + 1, id.filter(|id| !id.is_empty() && !id.contains(['{', '}', ' '])))
}

fn block(kind: &str, value: &str, lines: &[&str], done: &mut String) {
    let shared =
        lines.iter().filter(|line| !line.trim().is_empty()).map(|line| depth(line)).min().unwrap_or(0);
    let inner: Vec<&str> = lines.iter().map(|line| line.get(shared..).unwrap_or_default()).collect();
    match kind {
        "src" | "example" => {
            let language = if kind == "src" { value.split(' ').next().unwrap_or_default() } else { "" };
            done.push_str(&fenced(language, inner.join("\n").trim_end()));
            done.push('\n');
        }
        "comment" | "export" => {}
        "quote" | "verse" | "center" => done.extend(inner.iter().map(|line| format!("> {}\n", inline(line)))),
        // Other blocks, such as `#+begin_note`, are set apart with their name.
        kind => {
            let mut letters = kind.chars();
            let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
            let word = first + letters.as_str();
            done.push_str(&format!("{word}:\n\n"));
            done.extend(inner.iter().map(|line| format!("   {}\n", inline(line))));
        }
    }
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Links and code in the form of Markdown.
fn inline(line: &str) -> String {
    let mut done = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("[[") {
        done.push_str(&code(&rest[..at]));
        let Some(end) = rest[at..].find("]]") else {
            rest = &rest[at..];
            break;
        };
        let link = &rest[at + 2..at + end];
        let (target, words) = link.split_once("][").unwrap_or((link, link));
        done.push_str(&format!("[{words}]({})", target_of(target)));
        rest = &rest[at + end + 2..];
    }
    done.push_str(&code(rest));
    done
}

/// The targets `file:a.org::*Title`, `#id`, `*Title` and addresses in the form of Markdown.
fn target_of(target: &str) -> String {
    let target = target.strip_prefix("file:").unwrap_or(target);
    let anchor = |place: &str| match place.strip_prefix('*') {
        Some(title) => crate::section::anchor(title),
        None => place.trim_start_matches('#').to_owned(),
    };
    let target = match target.split_once("::") {
        Some((file, place)) => format!("{file}#{}", anchor(place)),
        None if target.starts_with(['*', '#']) => format!("#{}", anchor(target)),
        None => target.to_owned(),
    };
    target.replace(' ', "%20")
}

/// Converts `~code~` and `=code=`, whose marks must be at the edges of words.
fn code(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['~', '=']) {
        let mark = &rest[at..=at];
        let begins =
            rest[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "([{\"'-".contains(c));
        let inner = &rest[at + 1..];
        let end = inner.match_indices(mark).map(|(end, _)| end).find(|end| {
            let behind = inner[end + 1..].chars().next();
            *end > 0 && behind.is_none_or(|c| !c.is_alphanumeric()) && !inner[..*end].ends_with(' ')
        });
        match end.filter(|_| begins && !inner.starts_with(' ')) {
            Some(end) => {
                done.push_str(&format!("{}`{}`", &rest[..at], &inner[..end]));
                rest = &inner[end + 1..];
            }
            None => {
                done.push_str(&rest[..=at]);
                rest = inner;
            }
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn org_is_read_as_markdown() {
        let text = "#+TITLE: Handbook\n#+FILETAGS: :ops:web:\n#+DATE: <2026-02-10 Tue>\n#+OPTIONS: toc:nil\n# a comment\nIntro.\n* TODO [#A] Deploy ~now~ :urgent:\n:PROPERTIES:\n:CUSTOM_ID: deploy\n:END:\nRun =make=, see [[file:b.org::*Roll back][rolling back]], [[#deploy]] and a = b.\n#+begin_src sh -n\n  * not a heading\n  make\n#+end_src\n** Rules\n:LOGBOOK:\nsecret\n:END:\n- term :: what it is\n| a | b |\n|---+---|\n: literal\n#+begin_note\nMind it.\n#+end_note\n";
        let (about, markdown) = markdown(text);
        assert_eq!(about.title.as_deref(), Some("Handbook"));
        assert_eq!(about.tags, ["ops", "web"]);
        assert!(about.updated.is_some());
        assert_eq!(
            markdown,
            "Intro.\n# Deploy `now` {#deploy}\nRun `make`, see [rolling back](b.org#roll-back), [#deploy](#deploy) and a = b.\n```sh\n* not a heading\nmake\n```\n## Rules\n- term :: what it is\n| a | b |\n|---|---|\n    literal\nNote:\n\n   Mind it.\n"
        );
    }
}
