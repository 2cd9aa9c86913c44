//! Inserts files into others that include them: `.. include::` and `.. literalinclude::` of reStructuredText,
//! `--8<--` of pymdown, `include::` of AsciiDoc. The caller supplies the texts of files; a file that it does
//! not supply is left out.

use crate::{Format, Link};

/// How deep includes may be nested.
const DEPTH_MAX: usize = 4;
/// The size after which a text includes nothing more.
const BYTES_MAX: usize = 1024 * 1024;

/// Returns the text of a file, given its path relative to the ingested directory, if the file may be read.
pub type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with its included files, or `None` if it includes none.
pub fn included(format: Format, path: &str, text: &str, files: Files<'_>) -> Option<String> {
    let marks: &[&str] = match format {
        Format::Markdown | Format::Mdx => &["--8<--"],
        Format::Restructured | Format::Text => &[".. include::", ".. literalinclude::"],
        Format::Asciidoc => &["include::"],
        Format::Html | Format::Org | Format::Notebook | Format::Plain => return None,
    };
    if !marks.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let mut reader = Reader { format, files, done: String::with_capacity(text.len() * 2) };
    reader.read(path, text, "", 0);
    Some(reader.done)
}

struct Reader<'a> {
    format: Format,
    files: Files<'a>,
    done: String,
}

/// The file that a line includes, and which part of it.
struct Wanted<'a> {
    target: &'a str,
    /// The language, if the file is included as code and not as text.
    language: Option<&'a str>,
    lines: Option<(usize, usize)>,
    after: Option<&'a str>,
    before: Option<&'a str>,
    /// The name of a part, which lies between `[start:name]` and `[end:name]`.
    part: Option<&'a str>,
}

impl Reader<'_> {
    fn read(&mut self, path: &str, text: &str, pad: &str, depth: usize) {
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let own = &line[..line.len() - line.trim_start().len()];
            let Some((many, wanted)) = self.wanted(&lines[at..]) else {
                self.push(pad, line);
                at += 1;
                continue;
            };
            at += many;
            for wanted in wanted {
                self.include(path, &wanted, &format!("{pad}{own}"), depth);
            }
        }
    }

    fn include(&mut self, path: &str, wanted: &Wanted<'_>, pad: &str, depth: usize) {
        let Some((found, text)) = self.find(path, wanted.target).filter(|_| depth < DEPTH_MAX) else {
            return;
        };
        let Some(text) = wanted.of(&text).filter(|text| self.done.len() + text.len() <= BYTES_MAX) else {
            return;
        };
        match wanted.language {
            None => self.read(&found, &text, pad, depth + 1),
            Some(language) => {
                self.push(pad, &format!(".. code-block:: {language}"));
                self.push(pad, "");
                text.lines().for_each(|line| self.push(&format!("{pad}   "), line));
                self.push(pad, "");
            }
        }
    }

    /// Finds the file relative to the directory of the including file, or else to the ingested directory.
    fn find(&self, path: &str, target: &str) -> Option<(String, String)> {
        let from_root = format!("/{}", target.trim_start_matches('/'));
        let places = [Link::resolved(path, target), Link::resolved(path, &from_root)];
        let paths = places.into_iter().flatten().map(|link| link.path).filter(|found| found != path);
        paths.filter(|path| !path.is_empty()).find_map(|path| (self.files)(&path).map(|text| (path, text)))
    }

    fn push(&mut self, pad: &str, line: &str) {
        if !line.trim().is_empty() {
            self.done.push_str(pad);
        }
        self.done.push_str(line);
        self.done.push('\n');
    }

    /// The files that the first of these lines includes, and how many lines the statement takes.
    fn wanted<'a>(&self, lines: &[&'a str]) -> Option<(usize, Vec<Wanted<'a>>)> {
        let line = lines.first()?.trim();
        match self.format {
            Format::Markdown | Format::Mdx => snippets(lines),
            Format::Asciidoc => {
                let (target, options) = line.strip_prefix("include::")?.strip_suffix(']')?.split_once('[')?;
                let lines = options.split([',', ';']).find_map(|option| option.trim().strip_prefix("lines="));
                let lines = lines.and_then(|range| numbers(range.trim_matches('"'), ".."));
                Some((1, vec![Wanted { lines, ..Wanted::new(target) }]))
            }
            _ => directive(lines),
        }
    }
}

impl<'a> Wanted<'a> {
    fn new(target: &'a str) -> Wanted<'a> {
        Wanted { target, language: None, lines: None, after: None, before: None, part: None }
    }

    /// The part of a text that is included.
    fn of(&self, text: &str) -> Option<String> {
        let mut lines: Vec<&str> = text.lines().collect();
        if let Some((from, to)) = self.lines {
            lines = lines.into_iter().take(to).skip(from.saturating_sub(1)).collect();
        }
        if let Some(name) = self.part {
            let place = |mark: &str| lines.iter().position(|line| line.contains(&format!("[{mark}:{name}]")));
            lines = lines.get(place("start")? + 1..place("end").unwrap_or(lines.len()))?.to_vec();
        }
        if let Some(mark) = self.after {
            let at = lines.iter().position(|line| line.contains(mark))?;
            lines.drain(..=at);
        }
        if let Some(mark) = self.before {
            let at = lines.iter().position(|line| line.contains(mark))?;
            lines.truncate(at);
        }
        Some(lines.join("\n"))
    }
}

/// Reads `.. include:: file` and `.. literalinclude:: file`, with the options below.
fn directive<'a>(lines: &[&'a str]) -> Option<(usize, Vec<Wanted<'a>>)> {
    let line = lines[0].trim();
    let (target, is_code) = match line.strip_prefix(".. include::") {
        Some(target) => (target, false),
        None => (line.strip_prefix(".. literalinclude::")?, true),
    };
    let mut wanted = Wanted { language: is_code.then_some(""), ..Wanted::new(target.trim()) };
    let depth = lines[0].len() - lines[0].trim_start().len();
    let mut many = 1;
    for option in &lines[1..] {
        let inner = option.trim();
        let is_below = option.len() - option.trim_start().len() > depth;
        let Some((name, value)) =
            inner.strip_prefix(':').and_then(|inner| inner.split_once(':')).filter(|_| is_below)
        else {
            break;
        };
        many += 1;
        let value = value.trim();
        match name {
            "language" | "code" => wanted.language = Some(value),
            "literal" => wanted.language = Some(""),
            "lines" => wanted.lines = numbers(value, "-"),
            "start-after" => wanted.after = Some(value),
            "end-before" => wanted.before = Some(value),
            // One object of a program can't be found without a parser, and nothing is better than the whole
            // file.
            "pyobject" => return Some((many, Vec::new())),
            _ => {}
        }
    }
    Some((many, vec![wanted]))
}

/// Reads `--8<-- "file"`, or a file on each line between two such marks.
fn snippets<'a>(lines: &[&'a str]) -> Option<(usize, Vec<Wanted<'a>>)> {
    let rest = lines[0].trim().strip_prefix("--8<--")?.trim();
    if !rest.is_empty() {
        let target = rest.trim_matches(['"', '\'']);
        return Some((1, vec![snippet(target)]));
    }
    let end = lines[1..].iter().position(|line| line.trim() == "--8<--")?;
    let files = lines[1..=end]
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && !line.starts_with(';'));
    Some((end + 2, files.map(snippet).collect()))
}

/// Reads `file`, `file:2:5` or `file:part`.
fn snippet(target: &str) -> Wanted<'_> {
    let Some((file, place)) = target.split_once(':') else { return Wanted::new(target) };
    match numbers(place, ":") {
        Some(lines) => Wanted { lines: Some(lines), ..Wanted::new(file) },
        None => Wanted { part: Some(place), ..Wanted::new(file) },
    }
}

/// Reads the line numbers `2-5`, `2-` or `2`, counted from 1.
fn numbers(range: &str, between: &str) -> Option<(usize, usize)> {
    let range = range.split(',').next().unwrap_or(range).trim();
    let (from, to) = range.split_once(between).unwrap_or((range, range));
    let from = if from.is_empty() { 1 } else { from.trim().parse().ok()? };
    let to = if to.is_empty() { usize::MAX } else { to.trim().parse().ok()? };
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, text: &str, wanted: &str) {
        let files = |path: &str| match path {
            "docs/part.rst" | "docs/part.md" => Some("One.\nTwo.\n[start:x]\nThree.\n[end:x]\n".to_owned()),
            "docs/again.rst" => Some(".. include:: again2.rst\n".to_owned()),
            "docs/again2.rst" => Some("More.\n\n.. include:: again.rst\n".to_owned()),
            "code.py" => Some("a = 1\nb = 2\n".to_owned()),
            _ => None,
        };
        assert_eq!(included(format, "docs/a.rst", text, &files).as_deref(), Some(wanted), "{text}");
    }

    #[test]
    fn files_of_the_tree_are_put_in_and_others_left_out() {
        check(
            Format::Restructured,
            "A.\n\n  .. include:: part.rst\n     :end-before: Two\n",
            "A.\n\n  One.\n",
        );
        check(
            Format::Restructured,
            ".. literalinclude:: /code.py\n   :language: python\n   :lines: 2-\n",
            ".. code-block:: python\n\n   b = 2\n\n",
        );
        check(Format::Restructured, ".. include:: ../../out.rst\n.. include:: none.rst\nEnd.", "End.\n");
        check(Format::Markdown, "--8<-- \"part.md:x\"\n--8<-- 'docs/part.md:1:2'\n", "Three.\nOne.\nTwo.\n");
        check(
            Format::Markdown,
            "--8<--\npart.md\n; no.md\n--8<--\nEnd.",
            "One.\nTwo.\n[start:x]\nThree.\n[end:x]\nEnd.\n",
        );
        check(Format::Asciidoc, "include::/code.py[lines=1..1]\n", "a = 1\n");
    }

    #[test]
    fn a_circle_ends() {
        check(Format::Restructured, ".. include:: again.rst\n", "More.\n\nMore.\n\n");
    }

    #[test]
    fn a_text_that_includes_nothing_is_left_alone() {
        assert_eq!(included(Format::Markdown, "a.md", "# Title\n", &|_| None), None);
    }
}
