//! Transcripts: files that people read, with calls and the replies to them.
//!
//! ```text
//! # undo
//! What this shows, in a sentence.
//!
//! > store {"topic": "deploys", "content": "Use blue-green."}
//! Stored `K7H9M2PQX8` in transaction 1.
//! > @bob undo {"tx_id": 9}
//! ! NOT_FOUND (fix the arguments and call again): there is no transaction 9; the newest is 1
//! ```
//!
//! A line that begins with `## ` and stands directly before a call is a heading for that call.
//!
//! A line that begins with `> ` is a call. `>= ` is a call whose structured reply is shown instead of the
//! text, and `! ` marks an error. `@bob` calls as another actor. `<cursor 1>` stands for the first cursor in
//! a reply.

use std::collections::HashMap;
use std::path::Path;

use kenning_presentation::Reply;
use serde_json::{Map, Value};

pub const DEFAULT_ACTOR: &str = "alice";

pub struct Transcript {
    /// The text before the first call.
    pub head: String,
    pub calls: Vec<Call>,
}

pub struct Call {
    /// The heading before the call, if there is one.
    pub prose: String,
    pub actor: String,
    pub structured: bool,
    pub tool: String,
    /// The line as it is written, from the tool's name on.
    pub line: String,
    pub arguments: String,
    pub expected: String,
}

/// Calls tools for a transcript.
pub trait Player {
    fn call(&mut self, actor: &str, tool: &str, arguments: Map<String, Value>) -> Reply;
}

impl Transcript {
    pub fn read(path: &Path) -> Transcript {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut head = String::new();
        let mut calls: Vec<Call> = Vec::new();
        let mut prose = String::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            // A reply may have headings too.
            let is_prose =
                line.starts_with("## ") && lines.peek().is_some_and(|next| parse_call(next).is_some());
            match (parse_call(line), calls.last_mut()) {
                (Some(call), _) => calls.push(Call { prose: std::mem::take(&mut prose), ..call }),
                (None, Some(_)) if is_prose => prose.push_str(&format!("\n{line}\n")),
                (None, Some(last)) => last.expected.push_str(&format!("{line}\n")),
                (None, None) => head.push_str(&format!("{line}\n")),
            }
        }
        Transcript { head, calls }
    }

    /// Plays the calls in order and returns the reply to each.
    pub fn play(&self, player: &mut dyn Player) -> Vec<Played> {
        let mut cursors: Vec<String> = Vec::new();
        let mut ids: HashMap<String, String> = HashMap::new();
        let mut played = Vec::new();
        for call in &self.calls {
            let mut arguments = call.arguments.clone();
            for (number, cursor) in (1..).zip(&cursors) {
                arguments = arguments.replace(&format!("<cursor {number}>"), cursor);
            }
            for (written, actual) in &ids {
                arguments = arguments.replace(written, actual);
            }
            let arguments = serde_json::from_str(&arguments)
                .unwrap_or_else(|error| panic!("`{}` has bad JSON: {error}", call.line));
            let reply = player.call(&call.actor, &call.tool, arguments);
            if let Some(cursor) = reply.structured["next_cursor"].as_str() {
                cursors.push(cursor.to_owned());
            }
            let mut shown = match (call.structured, reply.is_error) {
                (true, _) => format!("{}\n", reply.structured),
                (false, true) => format!("! {}\n", reply.text()),
                (false, false) => format!("{}\n", reply.text()),
            };
            for (number, cursor) in (1..).zip(&cursors) {
                shown = shown.replace(cursor, &format!("<cursor {number}>"));
            }
            // A real process makes random ids: when an id first occurs in a reply, it is paired with the id
            // in the file.
            for (written, actual) in ids_in(&call.expected).into_iter().zip(ids_in(&shown)) {
                ids.entry(written).or_insert(actual);
            }
            played.push(Played { reply, shown, ids: ids.clone() });
        }
        played
    }

    /// The file with the expected replies replaced by the actual ones.
    pub fn rewritten(&self, played: &[Played]) -> String {
        let mut text = self.head.clone();
        for (call, played) in self.calls.iter().zip(played) {
            for part in [call.prose.as_str(), &call.line, "\n", played.shown.trim_end(), "\n"] {
                text.push_str(part);
            }
        }
        text
    }
}

pub struct Played {
    pub reply: Reply,
    /// The reply in the form of a transcript.
    pub shown: String,
    /// The ids in the file with the actual ids, as far as they are known.
    ids: HashMap<String, String>,
}

impl Played {
    /// Whether the reply is the expected one, apart from ids and times.
    pub fn is_like(&self, call: &Call) -> bool {
        let mut expected = masked(&call.expected);
        for (written, actual) in &self.ids {
            expected = expected.replace(written, actual);
        }
        masked(&self.shown).trim_end() == expected.trim_end()
    }
}

fn parse_call(line: &str) -> Option<Call> {
    let (structured, rest) = match line.strip_prefix(">= ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("> ")?),
    };
    let (actor, rest) = match rest.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((actor, rest)) => (actor, rest),
        None => (DEFAULT_ACTOR, rest),
    };
    let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
    Some(Call {
        prose: String::new(),
        actor: actor.to_owned(),
        structured,
        tool: tool.to_owned(),
        line: line.to_owned(),
        arguments: arguments.to_owned(),
        expected: String::new(),
    })
}

/// The words that have the form of an id, in the order of their first occurrence.
fn ids_in(text: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if is_id_or_handle(word) && !ids.iter().any(|id| id == word) {
            ids.push(word.to_owned());
        }
    }
    ids
}

/// A handle has the length of three ids.
fn is_id_or_handle(word: &str) -> bool {
    let parts = word.as_bytes().chunks(10).filter_map(|part| std::str::from_utf8(part).ok());
    [10, 30].contains(&word.len()) && parts.filter_map(kenning_model::Id::parse).count() == word.len() / 10
}

/// Replaces times such as `2026-01-01T00:01:00Z`, which differ from run to run.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("20") {
        let (before, from) = rest.split_at(at);
        masked.push_str(before);
        let end =
            from.find('Z').map(|end| end + 1).filter(|end| from[..*end].parse::<jiff::Timestamp>().is_ok());
        match end {
            Some(end) => {
                masked.push_str("<time>");
                rest = &from[end..];
            }
            None => {
                masked.push_str("20");
                rest = &from[2..];
            }
        }
    }
    masked.push_str(rest);
    masked
}
