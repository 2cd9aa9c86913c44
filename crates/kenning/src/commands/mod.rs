//! One file per command.

pub mod backup;
pub mod call;
pub mod demo;
pub mod documents;
pub mod history;
pub mod ingest;
pub mod rebuild;
pub mod scopes;
pub mod search;
pub mod serve;
pub mod token;
pub mod trust;
pub mod undo;
pub mod verify;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use kenning_model::clean;
use kenning_presentation::Reply;
use kenning_storage::STORE_FILE;
use kenning_tools::{Caller, Code, dispatch, find};
use serde_json::{Map, Value, json};

use crate::config::Config;

/// How a command ended; scripts branch on the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    Usage,
    NotFound,
    Busy,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::Usage => 2,
            Outcome::NotFound => 3,
            Outcome::Busy => 5,
        })
    }
}

/// What was typed makes no sense; the command ends as for a wrong flag.
#[derive(Debug)]
pub struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// The data directory, for a command that must find a store and not make one. None, and said so, where there is none.
fn existing_store(config: &Config) -> anyhow::Result<Option<PathBuf>> {
    let dir = config.data_dir()?;
    let is_there = dir.join(STORE_FILE).exists();
    if !is_there {
        complain(&format!("there is no store in {}", dir.display()));
    }
    Ok(is_there.then_some(dir))
}

/// Runs a tool as the terminal's caller.
pub fn run_tool(config: &Config, name: &str, arguments: Map<String, Value>) -> anyhow::Result<Reply> {
    run_tool_as(config, |caller| caller, name, arguments)
}

/// Runs a tool as the terminal's caller with other rights.
pub fn run_tool_as(
    config: &Config,
    with_rights: impl FnOnce(Caller) -> Caller,
    name: &str,
    arguments: Map<String, Value>,
) -> anyhow::Result<Reply> {
    let engine = config.engine()?;
    let Some(tool) = find(name) else {
        let names: Vec<&str> = kenning_tools::definitions().iter().map(|tool| tool.name).collect();
        return Err(usage(format!("there is no tool `{name}`; there are {}", names.join(", "))));
    };
    let caller = with_rights(config.caller(&engine));
    if let (false, Some(refusal)) = (tool.effect.writes(), &caller.refusal) {
        complain(&format!("this reads `{}`: {}", caller.scope, refusal.message));
    }
    let names_scope = arguments.get("scope").is_some_and(|scope| !scope.is_null());
    let reply = dispatch(&engine, &caller, config.access(), tool, arguments);
    if tool.effect.writes() && !names_scope && !reply.is_error {
        config.trust_flag(&engine, &caller);
    }
    Ok(reply)
}

/// Prints a reply: as JSON for programs, as text for people.
pub fn print_reply(reply: &Reply, json: bool) -> anyhow::Result<Outcome> {
    match (json, reply.is_error) {
        (true, _) => print(&reply.structured.to_string())?,
        (false, false) => print(&reply.text())?,
        (false, true) => eprintln!("{}", on_terminal(&reply.text())),
    }
    let asks_for_id = reply.structured["needsInput"]["fields"] == json!(["id"]);
    if !reply.is_error {
        return Ok(if asks_for_id { Outcome::NotFound } else { Outcome::Done });
    }
    // Tools for patterns have codes of their own, and the common one beside it.
    let own = &reply.structured["details"]["code"];
    let code = reply.structured["error"]["code"].as_str().or(own.as_str()).unwrap_or_default();
    Ok(match Code::ALL.into_iter().find(|known| known.as_str() == code) {
        Some(Code::InvalidArgument) => Outcome::Usage,
        Some(Code::NotFound) => Outcome::NotFound,
        Some(Code::BackendUnavailable | Code::Timeout) => Outcome::Busy,
        _ => Outcome::Failed,
    })
}

/// A name or a description may hold anything; a terminal is shown one line of text.
fn line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn counted_documents(many: u64) -> String {
    match many {
        1 => "1 document".to_owned(),
        many => format!("{many} documents"),
    }
}

/// Says on stderr what is wrong.
pub fn complain(text: &str) {
    eprintln!("kenning: {}", on_terminal(text));
}

/// Text for a terminal, with what would work the terminal written out: names of files and stored text may hold escape
/// sequences and signs that turn the direction of writing.
pub fn on_terminal(text: &str) -> Cow<'_, str> {
    let is_written_out = |c: char| {
        let is_control = c.is_control() && !matches!(c, '\n' | '\t');
        is_control || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_written_out) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_written_out(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The path of a file on one line.
pub fn path_on_terminal(path: &str) -> String {
    on_terminal(path).replace('\n', "\\n").replace('\t', "\\t")
}

/// A reader that stops reading, as `head` does, is not an error.
pub fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{}", on_terminal(text)) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_work_a_terminal_is_written_out() {
        assert_eq!(on_terminal("plain, größer\n\tnext"), "plain, größer\n\tnext");
        assert_eq!(
            on_terminal("a\u{1b}]0;title\u{7}b\u{9b}2J\r\u{202e}"),
            r"a\u{1b}]0;title\u{7}b\u{9b}2J\r\u{202e}"
        );
        assert_eq!(
            path_on_terminal("a\nkenning: all is well\u{1b}[2J.md"),
            r"a\nkenning: all is well\u{1b}[2J.md"
        );
    }
}
