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
pub mod trust;
pub mod undo;
pub mod verify;

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
        eprintln!("kenning: there is no store in {}", dir.display());
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
        eprintln!("kenning: this reads `{}`: {}", caller.scope, refusal.message);
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
        (false, true) => eprintln!("{}", reply.text()),
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

/// A reader that stops reading, as `head` does, is not an error.
pub fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
