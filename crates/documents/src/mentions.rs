//! The entities that a section mentions: identifiers and commands set as code, defined terms, and names. The
//! same text always gives the same mentions, each once, in the order in which they first occur.

mod common;

use std::collections::HashSet;

use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, Parser, Tag, TagEnd};

use crate::markdown::options;
use common::is_common;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mention {
    pub label: Label,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// An identifier or value set as code: `max_connections`, `Vec<T>`, `config.toml`.
    Code,
    /// A program with its arguments: `kubectl apply -f x.yaml`.
    Command,
    /// A term in bold that is explained.
    Term,
    /// A name in capitals or with several capitalised words.
    Name,
}

const NAME_BYTES_MAX: usize = 80;
/// The most mentions that are kept of a section.
const MENTIONS_KEPT_MAX: usize = 64;

/// Replaces code or bold words in the prose. No name extends over it.
const MARKUP: char = '\u{fffc}';
/// Marks a place in the prose where a capital letter does not show a name, as at the beginning of a sentence.
const SENTENCE_START: char = '\u{2060}';

/// The mentions of a text in Markdown.
pub(crate) fn mentions(text: &str) -> Vec<Mention> {
    let mut reader = Reader::default();
    // The target of a reference is often defined in another section; the words of the link are read anyway.
    let anywhere = |_: BrokenLink<'_>| Some((CowStr::from(""), CowStr::from("")));
    for event in Parser::new_with_broken_link_callback(text, options(), Some(anywhere)) {
        reader.read(event);
    }
    reader.end_block();
    reader.found()
}

/// A possible mention, in the order of the text.
enum Piece {
    Sure(Label, String),
    /// A capitalised word at the beginning of a sentence, which is a name only if it is capitalised elsewhere
    /// too.
    Unsure(String),
}

#[derive(Default)]
struct Reader {
    pieces: Vec<Piece>,
    /// Single words that are capitalised in the middle of a sentence.
    within: HashSet<String>,
    /// The prose of the block that is being read.
    prose: String,
    /// The position in it where bold words begin.
    bold: Option<usize>,
    /// Whether the block is a heading or the head of a table, where any word may be capitalised.
    is_heading: bool,
    is_code: bool,
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Text(code) if self.is_code => code.lines().for_each(|line| self.command_line(line)),
            Event::Text(words) => self.prose.push_str(&words),
            Event::SoftBreak | Event::HardBreak => self.prose.push(' '),
            Event::Code(code) => {
                self.code(&code);
                self.prose.push(MARKUP);
            }
            Event::Start(Tag::Strong) => self.bold = Some(self.prose.len()),
            Event::End(TagEnd::Strong) => self.term(),
            // The title of another page is capitalised like the beginning of a sentence.
            Event::Start(Tag::Link { dest_url, .. }) if !dest_url.contains("://") => {
                self.prose.push(SENTENCE_START)
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented)) => {
                self.end_block();
                self.is_code = true;
            }
            Event::End(TagEnd::CodeBlock) => self.is_code = false,
            Event::Start(Tag::Heading { .. } | Tag::TableHead) => {
                self.end_block();
                self.is_heading = true;
            }
            Event::End(TagEnd::Heading(_) | TagEnd::TableHead) => {
                self.end_block();
                self.is_heading = false;
            }
            Event::Start(tag) if is_block(&tag) => self.end_block(),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => self.end_block(),
            // Comments, tags and other events contain no prose.
            _ => {}
        }
    }

    fn end_block(&mut self) {
        let prose = std::mem::take(&mut self.prose);
        self.bold = None;
        self.names(&prose);
    }

    /// Reads code within a line: an identifier, a call of one, or a command.
    fn code(&mut self, code: &str) {
        let code = code.trim();
        let words: Vec<&str> = code.split_whitespace().collect();
        let Some(first) = words.first() else { return };
        if let Some((name, _)) = first.split_once('(').filter(|(name, _)| is_identifier(name)) {
            return self.push(Label::Code, name);
        }
        match words.len() {
            1 if is_something(code) => self.push(Label::Code, unquoted(code)),
            2..=8 if is_command(&words) => self.command(&words),
            _ => {}
        }
    }

    /// Reads a line of a shell session: after a prompt, the program and its first words.
    fn command_line(&mut self, line: &str) {
        if let Some(command) = line.trim_start().strip_prefix("$ ") {
            self.command(&command.split_whitespace().collect::<Vec<_>>());
        }
    }

    /// Adds the program and its subcommands, without flags.
    fn command(&mut self, words: &[&str]) {
        let head: Vec<&str> =
            words.iter().copied().take_while(|word| !word.starts_with('-')).take(3).collect();
        let is_argument = |word: &&str| word.contains(['/', '=', '$', '\'', '"', '.', '<']);
        let many = head.iter().skip(1).position(is_argument).map_or(head.len(), |at| at + 1);
        self.push(Label::Command, &head[..many].join(" "));
    }

    /// Adds the bold words that end here as a term. They are removed from the prose, unless they are too many
    /// for a term.
    fn term(&mut self) {
        let Some(at) = self.bold.take() else { return };
        let words = self.prose[at..].split_whitespace().collect::<Vec<_>>().join(" ");
        let term = words.trim_matches(|c: char| c == SENTENCE_START || ":.,".contains(c));
        let many = term.split(' ').count();
        if term.is_empty() || term.contains(MARKUP) || many > 4 {
            return;
        }
        if !(many == 1 && is_common(term)) {
            self.pieces.push(Piece::Sure(Label::Term, term.to_owned()));
        }
        let end = words.chars().next_back().filter(|c| ":.".contains(*c));
        self.prose.truncate(at);
        self.prose.push(MARKUP);
        self.prose.extend(end);
    }

    fn push(&mut self, label: Label, name: &str) {
        self.pieces.push(Piece::Sure(label, name.to_owned()));
    }

    /// Finds names in plain prose: runs of capitalised words. The first word of a sentence counts only
    /// together with the next one, or if it can't be anything but a name.
    fn names(&mut self, prose: &str) {
        let mut run = Run::default();
        let mut begins = true;
        for word in prose.split_whitespace() {
            let bare = bare(word);
            if bare.is_empty() {
                self.name_run(&mut run);
                // A dash begins a new sentence; so does the text after a sign that ends one.
                begins |= matches!(word, "-" | "–" | "—" | "|") || word.ends_with([':', '.', '!', '?']);
                continue;
            }
            begins |= word.starts_with(SENTENCE_START) || self.is_heading;
            let goes_on = !run.words.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
            if is_capitalised(bare) || goes_on {
                run.is_sure |= is_distinct(bare) || !self.is_heading && (!begins || !run.words.is_empty());
                if !begins && run.words.is_empty() {
                    self.within.insert(bare.to_owned());
                }
                run.begins |= run.words.is_empty() && begins;
                run.words.push(bare);
            } else {
                self.name_run(&mut run);
            }
            if word.ends_with(['.', '!', '?', ':', ',', ';', ')', ']', '}', '>', MARKUP]) {
                self.name_run(&mut run);
            }
            // In `{Promise} Fulfills with …` a description begins after the type.
            begins = word.ends_with(['.', '!', '?', ':', '}', '>', ']'])
                || word.ends_with(".)")
                || word.ends_with(".\"");
        }
        self.name_run(&mut run);
    }

    fn name_run(&mut self, run: &mut Run<'_>) {
        let Run { words, is_sure, begins } = std::mem::take(run);
        let is_nothing = |word: &str| is_common(word) || word.bytes().all(|byte| byte.is_ascii_digit());
        // A common word that begins a sentence, such as a verb, is not part of the name after it.
        let words = match words.split_first() {
            Some((first, rest)) if begins && is_common(first) => rest,
            _ => &words[..],
        };
        if words.iter().all(|word| is_nothing(word)) {
            return;
        }
        let name = words.join(" ");
        self.pieces.push(if is_sure { Piece::Sure(Label::Name, name) } else { Piece::Unsure(name) });
    }

    fn found(self) -> Vec<Mention> {
        let mut seen: HashSet<String> = HashSet::new();
        let pieces = self.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Sure(label, name) => Some((label, name)),
            Piece::Unsure(name) => self.within.contains(&name).then_some((Label::Name, name)),
        });
        let named = pieces.filter_map(|(label, name)| {
            let name = name.trim().trim_matches([',', ';', ':']).trim_end_matches('.').to_owned();
            let is_kept =
                name.chars().count() >= 2 && name.len() <= NAME_BYTES_MAX && seen.insert(name.to_lowercase());
            is_kept.then_some(Mention { label, name })
        });
        named.take(MENTIONS_KEPT_MAX).collect()
    }
}

/// A run of capitalised words.
#[derive(Default)]
struct Run<'a> {
    words: Vec<&'a str>,
    /// Whether the run is certainly a name, and not only the beginning of a sentence.
    is_sure: bool,
    begins: bool,
}

fn is_block(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Item
            | Tag::List(_)
            | Tag::TableCell
            | Tag::TableRow
            | Tag::BlockQuote(_)
            | Tag::FootnoteDefinition(_)
            | Tag::HtmlBlock
    )
}

/// A word without the quotes and brackets around it, and without `'s`.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

/// Whether a word is capitalised like a name. `It's` and `Don't` are not names, and neither is a word with a
/// bracket or a slash in it.
fn is_capitalised(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_uppercase)
        && word.chars().count() >= 2
        && !word.contains(['\'', '’', MARKUP, '(', ')', '[', ']', '{', '}', '<', '>', '|', '=', '"', '…'])
}

/// Whether a word is a name at any place of a sentence: `AWS`, `PostgreSQL`, `GitHub`.
fn is_distinct(word: &str) -> bool {
    let humps = word.split(['-', '/']).map(|part| part.chars().filter(|c| c.is_uppercase()).count());
    humps.max().unwrap_or_default() >= 2
}

fn is_identifier(name: &str) -> bool {
    name.chars().next().is_some_and(|c| c.is_alphabetic() || "_$.#@".contains(c))
        && name.chars().all(|c| c.is_alphanumeric() || "_$.:#@!?-".contains(c))
}

/// Whether code names something, and is not a value or an operator.
fn is_something(code: &str) -> bool {
    let values = ["true", "false", "null", "none", "nil", "undefined", "nan"];
    code.chars().any(char::is_alphabetic)
        && !code.contains("](")
        && !values.contains(&code.to_lowercase().as_str())
}

/// Whether several words of code are a command: the first can be a program, and none looks like part of a
/// program's source.
fn is_command(words: &[&str]) -> bool {
    let is_program = |word: &str| {
        word.starts_with(|c: char| c.is_alphanumeric() || "./~".contains(c))
            && word.chars().any(char::is_alphabetic)
            && word.chars().all(|c| c.is_alphanumeric() || "_./~-+@".contains(c))
    };
    let is_of_code = |word: &&str| {
        word.ends_with([',', ';', '{', '(', ')']) || !word.chars().any(char::is_alphanumeric) && *word != "."
    };
    is_program(words[0]) && !KEYWORDS.contains(&words[0]) && !words.iter().any(is_of_code)
}

/// Words with which the source of a program may begin.
const KEYWORDS: [&str; 34] = [
    "async",
    "await",
    "case",
    "class",
    "const",
    "def",
    "else",
    "enum",
    "export",
    "extends",
    "extern",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "interface",
    "let",
    "mod",
    "new",
    "pub",
    "return",
    "static",
    "struct",
    "throw",
    "trait",
    "type",
    "typeof",
    "use",
    "var",
    "while",
];

fn unquoted(code: &str) -> &str {
    let inner = |quote: char| code.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &[&str]) {
        let found: Vec<String> = mentions(text).into_iter().map(|mention| mention.name).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn how_a_sentence_begins_is_no_name() {
        check("Returns the signal. Stability: 2 - Stable. Because it is. Frobnicate it.", &[]);
        check("| Option | Default Value |\n|---|---|\n| Size | Large |\n\n* Added a thing\n* History", &[]);
        check("`name` The name.\n\n**Note:** Changes apply.\n\n> Any of these", &["name"]);
        check("* Returns: {Promise} Fulfills with \\<Blob> Allows it.", &["Blob"]);
        check("Kafka is fast. We run Kafka.", &["Kafka"]);
        check("Because PostgreSQL waits, the Change Board meets on Monday.", &["PostgreSQL", "Change Board"]);
        check("It's in Grafana's panel. Don't ask in May 2026.", &["Grafana"]);
    }

    #[test]
    fn what_is_not_read_is_not_mentioned() {
        check(
            "<!-- YAML\nadded: v1\nchanges: Some Thing\n-->\n\nSee [the signal](Globals.html#Class-X).",
            &[],
        );
        check(
            "A [`AbortSignal`][] or [`<Blob>`](buffer.html#class-Blob) <span title=\"Big Thing\">x</span>.",
            &["AbortSignal", "<Blob>"],
        );
        check("See [Installing](install.md), or ask [Grafana](https://grafana.com).", &["Grafana"]);
    }

    #[test]
    fn code_is_named_without_its_arguments() {
        check("`close()`, `close`, `fs.open(path[, flags], mode)` and ``a.b``", &["close", "fs.open", "a.b"]);
        check(
            "`true`, `0`, `{ a: 1 }`, `a && b`, `const x`, `'utf8'`, `npm install -g x`",
            &["utf8", "npm install"],
        );
        check("````sh\n```\n$ make test\n````\n\n    $ make install", &["make test", "make install"]);
    }
}
