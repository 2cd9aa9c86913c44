//! One file per command. This file has the table of all commands.

pub mod add;
pub mod audit;
pub mod author;
pub mod backup;
pub mod call;
pub mod completions;
pub mod config;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod documents;
pub mod edit;
mod entry_file;
pub mod export;
pub mod graph;
pub mod history;
pub mod hook;
pub mod import;
pub mod ingest;
pub mod list;
mod live;
mod log_file;
pub mod migrate;
pub mod mirror;
pub mod model;
pub mod purge;
pub mod rebuild;
mod refusal;
pub mod rm;
pub mod scopes;
pub mod search;
pub mod serve;
pub mod setup;
pub mod show;
mod split;
pub mod status;
mod store;
pub mod tags;
pub mod token;
pub mod trust;
pub mod ui;
pub mod undo;
pub mod verify;

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;
use kenning_model::clean;
use kenning_presentation::Reply;
use kenning_storage::Location;
use kenning_tools::{Caller, dispatch, find};
use serde_json::{Map, Value, json};

use crate::config::Config;

use refusal::Refused;

pub use refusal::explain;

#[derive(Subcommand)]
pub enum Command {
    /// Speak MCP on stdin and stdout
    Serve(Box<serve::Serve>),
    /// Connect a host: write Kenning into its configuration, or take it out
    Setup(setup::Setup),
    /// Check everything between an agent and its memory, and say what to do
    Doctor(doctor::Doctor),
    /// Show what the store holds, its size, and who uses it
    Status(status::Status),
    /// Find entries, documents and patterns by words and meaning
    Search(search::Search),
    /// List entries, newest first
    List(list::List),
    /// Show an entry, fact, document, section or pattern, and its versions
    Show(show::Show),
    /// Keep an entry
    Add(add::Add),
    /// Change an entry in an editor
    Edit(edit::Edit),
    /// Show what differs between two versions of an entry
    Diff(diff::Diff),
    /// Delete entries or facts; `undelete` brings them back
    Rm(rm::Rm),
    /// Bring back what was deleted
    Undelete(rm::Undelete),
    /// List tags, with how many entries have each
    Tags(tags::Tags),
    /// Show what a name is linked to: facts, documents and sections
    Graph(graph::Graph),
    /// Call a tool and print its reply as a model gets it
    Call(call::Call),
    /// List what was changed, newest first
    History(history::History),
    /// Show namespaces and scopes as a tree
    Scopes(scopes::Scopes),
    /// Take documents or patterns in
    Ingest(ingest::Ingest),
    /// List what was taken in, or remove it
    Documents(documents::Documents),
    /// Take changes back
    Undo(undo::Undo),
    /// Hide all entries that somebody has written
    Quarantine(author::Quarantine),
    /// Remove something for good, also from the history
    Purge(purge::Purge),
    /// Check the whole store against its log
    Verify(verify::Verify),
    /// Write everything out in a form that other programs read
    Export(export::Export),
    /// Take over what other programs, or other stores, remember
    Import(import::Import),
    /// Keep a folder of Markdown equal to a scope
    Mirror(mirror::Mirror),
    /// Copy the store to a file, while sessions go on
    Backup(backup::Backup),
    /// Put a backup in the place of what the store has
    Restore(backup::Restore),
    /// Copy a store into a database, or back
    Migrate(migrate::Migrate),
    /// Make the search index again from the log
    Rebuild(rebuild::Rebuild),
    /// Allow a project's files to name a scope
    Trust(trust::Trust),
    /// Make, list and revoke keys for HTTP
    Token(token::Token),
    /// Show which settings hold and where each is from
    Config(config::Settings),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the man page, or write one for each command
    Man(completions::Man),
    /// Show people in a browser what their agents know
    Ui(ui::ShowUi),
    /// Take a sentence encoder, which judges meaning better than the table that is compiled in
    Model(model::Model),
    /// Answer a host's session start or prompt: a JSON object on stdin, at most one on stdout
    Hook(hook::Hook),
    /// Check the audit log of a server
    Audit(audit::Audit),
    /// Show what Kenning is for, on a temporary store
    Demo,
}

impl Command {
    pub fn run(self, config: &Config) -> anyhow::Result<Outcome> {
        match self {
            Command::Serve(serve) => serve::run(config, *serve),
            Command::Setup(setup) => setup::run(config, setup),
            Command::Doctor(doctor) => doctor::run(config, doctor),
            Command::Status(status) => status::run(config, status),
            Command::Search(search) => search::run(config, search),
            Command::List(list) => list::run(config, list),
            Command::Show(show) => show::run(config, show),
            Command::Add(add) => add::run(config, add),
            Command::Edit(edit) => edit::run(config, edit),
            Command::Diff(diff) => diff::run(config, diff),
            Command::Rm(rm) => rm::run(config, rm),
            Command::Undelete(undelete) => rm::run_undelete(config, undelete),
            Command::Tags(tags) => tags::run(config, tags),
            Command::Graph(graph) => graph::run(config, graph),
            Command::Call(call) => call::run(config, call),
            Command::History(history) => history::run(config, history),
            Command::Scopes(scopes) => scopes::run(config, scopes),
            Command::Ingest(ingest) => ingest::run(config, ingest),
            Command::Documents(documents) => documents::run(config, documents),
            Command::Undo(undo) => undo::run(config, undo),
            Command::Quarantine(quarantine) => author::quarantine(config, quarantine),
            Command::Purge(purge) => purge::run(config, purge),
            Command::Verify(verify) => verify::run(config, verify),
            Command::Export(export) => export::run(config, export),
            Command::Import(import) => import::run(config, import),
            Command::Mirror(mirror) => mirror::run(config, mirror),
            Command::Backup(backup) => backup::run(config, backup),
            Command::Restore(restore) => backup::run_restore(config, restore),
            Command::Migrate(migrate) => migrate::run(config, migrate),
            Command::Rebuild(rebuild) => rebuild::run(config, rebuild),
            Command::Trust(trust) => trust::run(config, trust),
            Command::Token(token) => token::run(config, token),
            Command::Config(settings) => self::config::run(config, settings),
            Command::Completions(completions) => completions::run(completions),
            Command::Man(man) => completions::run_man(man),
            Command::Ui(ui) => ui::run(config, &ui),
            Command::Model(model) => model::run(config, model),
            Command::Hook(hook) => hook::run(config, hook, std::time::Instant::now()),
            Command::Audit(audit) => audit::run(audit),
            Command::Demo => demo::run(),
        }
    }
}

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

/// The arguments make no sense. The command ends with the exit code for a wrong flag.
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

/// The location of the store, for a command that needs an existing one. If there is none, this prints a
/// message and returns `None`.
fn existing_store(config: &Config) -> anyhow::Result<Option<Location>> {
    let location = config.location()?;
    let is_there = location.has_store();
    if !is_there {
        match &location {
            Location::Directory(dir) => complain(&format!("there is no store in {}", dir.display())),
            Location::Database(url) => complain(&format!("there is no {url}")),
        }
    }
    Ok(is_there.then_some(location))
}

/// Runs a tool on behalf of the user at the terminal.
pub fn run_tool(config: &Config, name: &str, arguments: Map<String, Value>) -> anyhow::Result<Reply> {
    run_tool_as(config, |caller| caller, name, arguments)
}

/// Runs a tool on behalf of the user at the terminal, with the rights changed by `with_rights`.
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
    let asks_for_id = reply.structured["needsInput"]["fields"] == json!(["id"]);
    match (json, reply.is_error) {
        (true, _) => print(&reply.structured.to_string())?,
        (false, false) => print(&reply.text())?,
        (false, true) => complain(&Refused::of_reply(reply).message),
    }
    Ok(match (reply.is_error, asks_for_id) {
        (true, _) => Refused::of_reply(reply).outcome,
        (false, true) => Outcome::NotFound,
        (false, false) => Outcome::Done,
    })
}

/// A text on one line. Names and descriptions may contain anything, and the terminal must get a single line
/// of plain text.
pub fn line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn counted_entries(many: u64) -> String {
    match many {
        1 => "1 entry".to_owned(),
        many => format!("{many} entries"),
    }
}

fn counted_documents(many: u64) -> String {
    match many {
        1 => "1 document".to_owned(),
        many => format!("{many} documents"),
    }
}

/// Prints an error message on stderr.
pub fn complain(text: &str) {
    eprintln!("kenning: {}", on_terminal(text));
}

/// A text that is safe to print: control characters are written out, because stored text and file names may
/// contain escape sequences, or characters that reverse the direction of writing.
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

/// The path of a file, on one line and safe to print.
pub fn path_on_terminal(path: &str) -> String {
    on_terminal(path).replace('\n', "\\n").replace('\t', "\\t")
}

/// Prints a line. A closed pipe is not an error: the program that reads the output, such as `head`, may stop
/// early.
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
