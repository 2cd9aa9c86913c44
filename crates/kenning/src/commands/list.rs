//! `kenning list`: entries as a table, the newest first.

use clap::Args;
use kenning_engine::{By, Question};
use kenning_tools::memory::item::{EntryItem, State, entry_items};
use serde_json::json;

use super::refusal::Refused;
use super::store::{AsOf, Store};
use super::{Outcome, complain, counted_entries, line, print};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, NAME, PLAIN, Table, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning list
  kenning list --tag ops --limit 5
  kenning list --topic deployment --all
  kenning list --json | head -n 1")]
pub struct List {
    /// Only entries with these words in their topic, the best first
    #[arg(long, value_name = "WORDS")]
    topic: Option<String>,
    /// Only entries with this tag; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// How many
    #[arg(short = 'n', long, default_value_t = 30)]
    limit: u64,
    /// In every scope, not only in what --scope sees
    #[arg(long)]
    all: bool,
    /// Also suppressed and expired entries, and those that are not valid yet
    #[arg(long)]
    suppressed: bool,
    /// The store as it was at this transaction or time
    #[arg(long, value_name = "TX|TIME")]
    as_of: Option<AsOf>,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, list: List) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, list.as_of)?;
    let snapshot = store.snapshot()?;
    let scope = store.scope(&snapshot)?;
    let sight = match list.all {
        true => store.whole_sight(&snapshot)?,
        false => store.sight(&snapshot, &scope)?,
    };
    let visible_at = store.judged_at(&snapshot)?;
    let question = Question {
        sight: &sight,
        topic: list.topic.as_deref(),
        content: None,
        tags: &list.tag,
        visible_at: (!list.suppressed).then_some(visible_at),
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: false,
    };
    let found = snapshot.search(&question, 0..list.limit)?;
    let entries = entry_items(&snapshot, found.hits.iter().map(|hit| &hit.stored)).map_err(Refused::from)?;
    if list.json {
        for entry in &entries {
            print(&json!(entry).to_string())?;
        }
        return Ok(Outcome::Done);
    }
    if entries.is_empty() {
        let place = if list.all { "the store".to_owned() } else { format!("what `{scope}` sees") };
        let more = if list.all { "" } else { "; `--all` looks in every scope" };
        complain(&format!("there are no such entries in {place} ({}){more}", store.dir.display()));
        return Ok(Outcome::Done);
    }
    terminal::print(&table(&entries, &scope.to_string()))?;
    if found.total > entries.len() as u64 {
        let of = counted_entries(found.total);
        complain(&format!("{} of {of}; `--limit {}` shows all", entries.len(), found.total));
    }
    Ok(Outcome::Done)
}

/// A line for each entry. The scope is shown only if it differs from the scope that was asked.
fn table(entries: &[EntryItem], asked: &str) -> Text {
    let mut table = Table::new(&["ID", "CHANGED", "SCOPE", "TOPIC", "TAGS", "CONTENT"]);
    for entry in entries {
        let elsewhere = if entry.scope == asked { "" } else { &entry.scope };
        let mut topic = Text::styled(NAME, line(&entry.topic));
        if let Some(state) = state(entry) {
            topic.push(DIM, format!(" ({state})"));
        }
        table.row(vec![
            Text::styled(ID, &entry.id),
            Text::styled(DIM, day(entry.updated_at.as_deref().unwrap_or(&entry.recorded_at))),
            Text::styled(PLAIN, elsewhere),
            topic,
            Text::plain(line(&entry.tags.join(", "))),
            Text::plain(line(&entry.content)),
        ]);
    }
    table.text()
}

/// The state of an entry that is not ordinary: pinned, or the reason why an ordinary search does not find it.
pub fn state(entry: &EntryItem) -> Option<&'static str> {
    match (entry.hidden, entry.status, entry.pinned) {
        (Some(hidden), _, _) => Some(hidden),
        (None, State::Suppressed, _) => Some("suppressed"),
        (None, State::Active, true) => Some("pinned"),
        (None, State::Active, false) => None,
    }
}

/// The date of a moment, such as `2026-11-18`.
fn day(moment: &str) -> &str {
    moment.split('T').next().unwrap_or(moment)
}
