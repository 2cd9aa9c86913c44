//! The things that a section mentions: identifiers and commands set as code, defined terms, and names. Deterministic; a
//! thing is mentioned once, in the order in which it first comes.

use std::collections::HashSet;

use crate::Section;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mention {
    pub label: Label,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// Something set as code: `max_connections`, `Vec<T>`, `config.toml`.
    Code,
    /// A program with its arguments: `kubectl apply -f x.yaml`.
    Command,
    /// A term in bold or quotes that is explained.
    Term,
    /// A name in capitals or with several capitalised words.
    Name,
}

const NAME_BYTES_MAX: usize = 80;
/// So many things of a section are kept.
const MANY: usize = 64;

pub(crate) fn mentions(section: &Section) -> Vec<Mention> {
    let mut found = Found::default();
    let (prose, code) = prose_and_code(&section.text);
    code.iter().for_each(|line| found.command_line(line));
    for span in &prose {
        found.inline(span);
    }
    found.mentions.truncate(MANY);
    found.mentions
}

#[derive(Default)]
struct Found {
    mentions: Vec<Mention>,
    seen: HashSet<String>,
}

impl Found {
    fn add(&mut self, label: Label, name: &str) {
        let name = name.trim().trim_matches(['.', ',', ';', ':']);
        if name.len() >= 2 && name.len() <= NAME_BYTES_MAX && self.seen.insert(name.to_lowercase()) {
            self.mentions.push(Mention { label, name: name.to_owned() });
        }
    }

    /// A line of a shell session: behind a prompt, the program and its first word.
    fn command_line(&mut self, line: &str) {
        if let Some(command) = line.trim_start().strip_prefix("$ ") {
            self.command(&command.split_whitespace().collect::<Vec<_>>());
        }
    }

    /// The program and what it is told to do, without flags.
    fn command(&mut self, words: &[&str]) {
        let head: Vec<&str> =
            words.iter().copied().take_while(|word| !word.starts_with('-')).take(3).collect();
        let is_argument = |word: &&str| word.contains(['/', '=', '$', '\'', '"', '.', '<']);
        let many = head.iter().skip(1).position(is_argument).map_or(head.len(), |at| at + 1);
        self.add(Label::Command, &head[..many].join(" "));
    }

    fn inline(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(['`', '*']) {
            self.names(&rest[..at]);
            let from = &rest[at..];
            let (mark, label) = match from {
                _ if from.starts_with('`') => ("`", Label::Code),
                _ if from.starts_with("**") => ("**", Label::Term),
                _ => {
                    rest = &from[1..];
                    continue;
                }
            };
            let inner = &from[mark.len()..];
            let Some(end) = inner.find(mark) else {
                rest = inner;
                continue;
            };
            self.set(label, &inner[..end]);
            rest = &inner[end + mark.len()..];
        }
        self.names(rest);
    }

    /// Something set as code or in bold.
    fn set(&mut self, label: Label, name: &str) {
        let words: Vec<&str> = name.split_whitespace().collect();
        match (label, words.len()) {
            (Label::Code, 1) => self.add(Label::Code, name),
            // Several words set as code are a command.
            (Label::Code, 2..=8) => self.command(&words),
            (Label::Term, 1..=4) => self.add(Label::Term, name.trim_end_matches(':')),
            _ => {}
        }
    }

    /// Names in plain prose: capitalised words, as many as stand in a row. The first word of a sentence is one only
    /// together with the next, or if it could be nothing else.
    fn names(&mut self, text: &str) {
        let mut run = Run::default();
        // What comes behind something set as code goes on with its sentence.
        let mut begins = text.starts_with(char::is_uppercase);
        for word in text.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let goes_on =
                !run.words.is_empty() && !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
            if is_capitalised(bare) || goes_on {
                run.is_sure |= !begins || is_distinct(bare) || !run.words.is_empty();
                run.words.push(bare);
            } else {
                self.name_run(&mut run);
            }
            if word.ends_with(['.', '!', '?', ':', ',', ';', ')']) {
                self.name_run(&mut run);
            }
            begins = word.ends_with(['.', '!', '?', ':']);
        }
        self.name_run(&mut run);
    }

    fn name_run(&mut self, run: &mut Run<'_>) {
        let Run { words, is_sure } = std::mem::take(run);
        // A verb that begins a sentence is no part of the name behind it.
        let words = if words.len() == 2 && COMMON.contains(&words[0]) { &words[1..] } else { &words[..] };
        if is_sure && !words.iter().all(|word| COMMON.contains(word)) {
            self.add(Label::Name, &words.join(" "));
        }
    }
}

/// Capitalised words in a row.
#[derive(Default)]
struct Run<'a> {
    words: Vec<&'a str>,
    /// It is a name, and not only how a sentence begins.
    is_sure: bool,
}

/// Capitalised words that name nothing, or that begin sentences.
const COMMON: [&str; 60] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "The",
    "A",
    "An",
    "This",
    "That",
    "These",
    "Those",
    "It",
    "If",
    "In",
    "On",
    "At",
    "For",
    "From",
    "To",
    "With",
    "When",
    "While",
    "After",
    "Before",
    "Ask",
    "Run",
    "Use",
    "Set",
    "See",
    "Start",
    "Stop",
    "Open",
    "Add",
    "Create",
    "Move",
    "Then",
    "Never",
    "Always",
    "Note",
    "Page",
    "Install",
    "Make",
    "You",
    "We",
    "Each",
];

fn is_capitalised(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_uppercase) && word.len() >= 2
}

/// A word that is a name wherever it stands: `AWS`, `PostgreSQL`, `GitHub`.
fn is_distinct(word: &str) -> bool {
    word.chars().filter(|c| c.is_uppercase()).count() >= 2 && word.chars().any(char::is_alphabetic)
}

/// The prose of a text, paragraph by paragraph, and the lines of its fenced code.
fn prose_and_code(text: &str) -> (Vec<String>, Vec<&str>) {
    let (mut prose, mut code) = (Vec::new(), Vec::new());
    let mut paragraph = String::new();
    let mut in_code = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            in_code = !in_code;
        } else if in_code {
            code.push(line);
        } else if trimmed.is_empty() || trimmed.starts_with(['-', '|', '>']) {
            prose.push(std::mem::take(&mut paragraph));
            paragraph.push_str(trimmed.trim_start_matches(['-', '|', '>', ' ']));
        } else {
            paragraph.push(' ');
            paragraph.push_str(trimmed);
        }
    }
    prose.push(paragraph);
    (prose, code)
}
