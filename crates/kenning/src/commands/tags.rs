//! `kenning tags`: the tags of entries, and how many have each.

use std::collections::HashMap;

use clap::Args;
use kenning_engine::{By, Question};
use kenning_model::fold;
use serde_json::json;

use super::store::{AsOf, Store};
use super::{Outcome, complain, line, print};
use crate::config::Config;
use crate::terminal::{self, NAME, Table, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning tags
  kenning tags --all --json")]
pub struct Tags {
    /// In every scope, not only in what --scope sees
    #[arg(long)]
    all: bool,
    /// The store as it was at this transaction or time
    #[arg(long, value_name = "TX|TIME")]
    as_of: Option<AsOf>,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

/// How many entries are read into memory at once.
const PAGE: u64 = 1000;

pub fn run(config: &Config, tags: Tags) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, tags.as_of)?;
    let snapshot = store.snapshot()?;
    let scope = store.scope(&snapshot)?;
    let sight = match tags.all {
        true => store.whole_sight(&snapshot)?,
        false => store.sight(&snapshot, &scope)?,
    };
    let question = Question {
        sight: &sight,
        topic: None,
        content: None,
        tags: &[],
        visible_at: Some(store.judged_at(&snapshot)?),
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: false,
    };
    // The first spelling of a tag that is met is kept. It is the latest one, because the newest entries come
    // first.
    let mut counts: HashMap<String, (String, u64)> = HashMap::new();
    let mut start = 0;
    loop {
        let found = snapshot.search(&question, start..start + PAGE)?;
        for hit in &found.hits {
            for tag in hit.stored.record.as_entry().into_iter().flat_map(|entry| &entry.tags) {
                counts.entry(fold(tag)).or_insert_with(|| (line(tag), 0)).1 += 1;
            }
        }
        start += PAGE;
        if start >= found.total {
            break;
        }
    }
    let mut counts: Vec<(String, u64)> = counts.into_values().collect();
    counts.sort_by(|(one, many), (other, more)| more.cmp(many).then_with(|| one.cmp(other)));
    if tags.json {
        for (tag, entries) in &counts {
            print(&json!({"tag": tag, "entries": entries}).to_string())?;
        }
        return Ok(Outcome::Done);
    }
    if counts.is_empty() {
        complain(&format!("no entry has a tag in what `{scope}` sees ({})", store.dir.display()));
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["TAG", "ENTRIES"]).numbers(&[1]);
    for (tag, entries) in &counts {
        table.row(vec![Text::styled(NAME, tag), Text::plain(entries.to_string())]);
    }
    terminal::print(&table.text())?;
    Ok(Outcome::Done)
}
