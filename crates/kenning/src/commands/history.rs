//! `kenning history`: lists what was changed and by whom, newest first.

use anyhow::Context;
use clap::Args;
use kenning_tools::Caller;
use kenning_tools::memory::item::{ChangeItem, Kind, RecordItem, TransactionItem, one_line};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::refusal::Refused;
use super::show::to_the_second;
use super::{Outcome, complain, existing_store, line, print, run_tool_as};
use crate::config::Config;
use crate::terminal::{self, ADDED, DIM, ID, NAME, PLAIN, REMOVED, Table, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning history
  kenning history --limit 3 --all
  kenning history K7H9M2PQX8
  kenning history --since 1 --json")]
pub struct History {
    /// Only changes of this id
    id: Option<String>,
    /// Only transactions after this one
    #[arg(long, value_name = "TX")]
    since: Option<u64>,
    /// How many, at most 100
    #[arg(short = 'n', long, default_value_t = 20)]
    limit: u64,
    /// Go on where the last page ended
    #[arg(long)]
    cursor: Option<String>,
    /// In every scope, not only in what --scope sees
    #[arg(long)]
    all: bool,
    /// Print the page as JSON, as the tool `history` replies with it
    #[arg(long)]
    json: bool,
}

/// One page of the `history` tool's reply.
#[derive(Deserialize)]
struct HistoryPage {
    items: Vec<TransactionItem>,
    total_count: u64,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// At most this many bytes of a text are shown.
const EXCERPT_BYTES: usize = 200;

pub fn run(config: &Config, history: History) -> anyhow::Result<Outcome> {
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let mut arguments = Map::new();
    arguments.insert("limit".to_owned(), json!(history.limit));
    arguments.insert("id".to_owned(), json!(history.id));
    arguments.insert("since_tx_id".to_owned(), json!(history.since));
    arguments.insert("cursor".to_owned(), json!(history.cursor));
    if !history.json {
        arguments.insert("detail".to_owned(), json!("full"));
    }
    let with_rights = |caller| Caller { has_whole_history: history.all, ..caller };
    let reply = run_tool_as(config, with_rights, "history", arguments)?;
    if reply.is_error {
        return Err(Refused::of_reply(&reply).into());
    }
    if history.json {
        print(&reply.structured.to_string())?;
        return Ok(Outcome::Done);
    }
    let page: HistoryPage = serde_json::from_value(reply.structured).context("the history can't be read")?;
    if page.items.is_empty() {
        let dir = config.local_dir()?;
        let more = if history.all { "" } else { "; `--all` looks in every scope" };
        complain(&format!("nothing was changed that the scope sees ({}){more}", dir.display()));
        return Ok(Outcome::Done);
    }
    terminal::print(&table(&page.items))?;
    if let Some(cursor) = page.next_cursor {
        let (shown, all) = (page.items.len(), page.total_count);
        complain(&format!("{shown} of {all} transactions; `--cursor {cursor}` goes on"));
    }
    Ok(Outcome::Done)
}

/// A line for each change. The number, time and author of the transaction stand only on its first line.
fn table(transactions: &[TransactionItem]) -> Text {
    let mut table = Table::new(&["TX", "WHEN", "WHO", "HOW", "WHAT"]).numbers(&[0]);
    for transaction in transactions {
        let mut undone = Text::new();
        if !transaction.undoes.is_empty() {
            let undoes: Vec<String> = transaction.undoes.iter().map(u64::to_string).collect();
            undone.push(DIM, format!("took back {}: ", undoes.join(", ")));
        }
        if let Some(by) = transaction.undone_by {
            undone.push(DIM, format!("(taken back by {by}) "));
        }
        let mut lines: Vec<Text> = transaction.changes.iter().map(describe).collect();
        if let Some(left_out) = transaction.changes_left_out {
            let what = if left_out == 1 { "change" } else { "changes" };
            lines.push(Text::styled(DIM, format!("and {left_out} more {what}")));
        }
        if lines.is_empty() {
            lines.push(Text::styled(DIM, "nothing in sight"));
        }
        let at = to_the_second(&transaction.at).replace('T', " ");
        for (number, what) in lines.into_iter().enumerate() {
            let mut what = what;
            if number == 0 {
                let mut first = undone.clone();
                first.append(what);
                what = first;
            }
            let cell = |style, text: &str| if number == 0 { Text::styled(style, text) } else { Text::new() };
            table.row(vec![
                cell(ID, &transaction.tx_id.to_string()),
                cell(DIM, at.trim_end_matches('Z')),
                cell(NAME, &line(&transaction.actor)),
                cell(PLAIN, &transaction.tool),
                what,
            ]);
        }
    }
    table.text()
}

/// One change on one line, such as `+ entry K7H9M2PQX8 deployment: Blue-green.`. For a changed entry the line
/// names the fields that differ.
pub fn describe(change: &ChangeItem) -> Text {
    let (sign, style) = match change.op.as_str() {
        "create" => ("+", ADDED),
        "delete" => ("-", REMOVED),
        _ => ("~", NAME),
    };
    let kind = match change.entity_type {
        Kind::Entry => "entry",
        Kind::Triple => "fact",
        Kind::Scope => "scope",
        Kind::Namespace => "namespace",
        Kind::Document => "document",
    };
    let mut shown = Text::styled(style, format!("{sign} {kind} "));
    shown.push(ID, &change.id);
    if let (Some(before), Some(after)) = (&change.before, &change.after) {
        let names = changed_fields(&json!(before), &json!(after));
        if !names.is_empty() {
            shown.push(DIM, format!(" ({})", names.join(", ")));
        }
    }
    let said = change.after.as_ref().or(change.before.as_ref()).map(said).unwrap_or_default();
    shown.push(PLAIN, format!(" {}", one_line(&said, EXCERPT_BYTES)));
    shown
}

/// The names of the fields that differ between two versions, without the fields that every change sets anew.
fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    const OF_EVERY_CHANGE: [&str; 5] = ["version", "updated_at", "recorded_at", "tx_id", "actor"];
    let none = Map::new();
    let [before, after] = [before, after].map(|version| version.as_object().unwrap_or(&none));
    let is_other = |name: &&String| before.get(*name) != after.get(*name);
    let mut names: Vec<String> = before.keys().chain(after.keys()).filter(is_other).cloned().collect();
    names.retain(|name| !OF_EVERY_CHANGE.contains(&name.as_str()));
    names.sort();
    names.dedup();
    names
}

fn said(record: &RecordItem) -> String {
    match record {
        RecordItem::Entry(entry) if entry.topic.is_empty() => entry.content.clone(),
        RecordItem::Entry(entry) => format!("{}: {}", entry.topic, entry.content),
        RecordItem::Triple(triple) => triple.line(EXCERPT_BYTES),
        RecordItem::Scope(scope) => format!("{}: {}", scope.scope, scope.description),
        RecordItem::Namespace(namespace) => format!("{}: {}", namespace.name, namespace.description),
        RecordItem::Document(document) => {
            format!("{}/{}: {}", document.source, document.path, document.title)
        }
    }
}
