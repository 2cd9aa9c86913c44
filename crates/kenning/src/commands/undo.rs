//! `kenning undo`

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use kenning_storage::Author;
use kenning_tools::Caller;
use kenning_tools::memory::item::ChangeItem;
use serde::Deserialize;
use serde_json::{Map, json};

use super::author::{moment, undo_by};
use super::history::describe;
use super::refusal::Refused;
use super::{Outcome, print, run_tool_as};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, PLAIN, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning undo --dry-run
  kenning undo
  kenning undo --dry-run --json")]
pub struct Undo {
    /// The transaction to take back [default: the newest one]
    tx: Option<u64>,
    /// How many of the newest to take back
    #[arg(long, conflicts_with = "tx")]
    count: Option<u64>,
    /// Everything that somebody has written: the name that the history shows, or the origin of one credential, such as "key 3f9a0c41d2"
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tx", "count"])]
    by: Option<String>,
    /// With --by, only what was written since then: 2026-11-18T20:00:00Z, or how long ago, such as 90m, 12h or 7d
    #[arg(long, value_name = "TIME", requires = "by", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only show what it would do
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The reply of the `undo` tool.
#[derive(Deserialize)]
struct Undone {
    undone: Vec<u64>,
    tx_id: Option<u64>,
    changed_ids: Vec<String>,
    #[serde(default)]
    changed_ids_left_out: usize,
    #[serde(default)]
    changes: Vec<ChangeItem>,
    #[serde(default)]
    changes_left_out: usize,
}

/// At most this many ids are shown, because a document has one for each of its sections.
const IDS_SHOWN_MAX: usize = 10;

/// The user at the terminal owns the data, so the transactions of every session may be undone.
pub fn run(config: &Config, undo: Undo) -> anyhow::Result<Outcome> {
    if let Some(name) = undo.by {
        let author = Author { name, since: undo.since };
        return undo_by(config, author, undo.dry_run, undo.json);
    }
    let mut arguments = Map::new();
    arguments.insert("tx_id".to_owned(), json!(undo.tx));
    arguments.insert("count".to_owned(), json!(undo.count));
    arguments.insert("dry_run".to_owned(), json!(undo.dry_run));
    arguments.insert("any_actor".to_owned(), json!(true));
    // If a scope is named, only transactions that changed nothing outside it are undone.
    arguments.insert("scope".to_owned(), json!(config.named_scope()));
    let with_rights = |caller| Caller { has_whole_history: true, ..caller };
    let reply = run_tool_as(config, with_rights, "undo", arguments)?;
    if reply.is_error {
        return Err(Refused::of_reply(&reply).into());
    }
    if undo.json {
        print(&reply.structured.to_string())?;
        return Ok(Outcome::Done);
    }
    let undone: Undone = serde_json::from_value(reply.structured).context("the reply can't be read")?;
    terminal::print(&undone.text())?;
    Ok(Outcome::Done)
}

impl Undone {
    fn text(&self) -> Text {
        let noun = if self.undone.len() == 1 { "transaction" } else { "transactions" };
        let numbers: Vec<String> = self.undone.iter().map(u64::to_string).collect();
        let undone = format!("{noun} {}", numbers.join(", "));
        let Some(tx) = self.tx_id else {
            let mut shown = Text::plain(format!("Would take back {undone}:"));
            for change in &self.changes {
                shown.push(PLAIN, "\n  ");
                shown.append(describe(change));
            }
            if self.changes_left_out > 0 {
                shown.push(DIM, format!("\n  and {} more", self.changes_left_out));
            }
            return shown;
        };
        let mut shown = Text::plain(format!("Took back {undone}"));
        shown.push(DIM, format!(" (transaction {tx}; `kenning undo {tx}` brings it back)"));
        let mut ids = self.changed_ids.iter().take(IDS_SHOWN_MAX).peekable();
        if ids.peek().is_some() {
            shown.push(PLAIN, "\nChanged: ");
        }
        while let Some(id) = ids.next() {
            shown.push(ID, id);
            shown.push(PLAIN, if ids.peek().is_some() { ", " } else { "" });
        }
        let more = (self.changed_ids.len() + self.changed_ids_left_out).saturating_sub(IDS_SHOWN_MAX);
        if more > 0 {
            shown.push(PLAIN, format!(" and {more} more"));
        }
        shown
    }
}
