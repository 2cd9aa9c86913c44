//! `kenning undo`

use clap::Args;
use kenning_tools::Caller;
use serde_json::{Map, json};

use super::{Outcome, print_reply, run_tool_as};
use crate::config::Config;

#[derive(Args)]
pub struct Undo {
    /// The transaction to take back [default: the newest one]
    tx: Option<u64>,
    /// How many of the newest to take back
    #[arg(long, conflicts_with = "tx")]
    count: Option<u64>,
    /// Only show what it would do
    #[arg(long)]
    dry_run: bool,
    /// Print the structured reply
    #[arg(long)]
    json: bool,
}

/// Whoever sits at the terminal owns the data, so the transactions of every session may be taken back.
pub fn run(config: &Config, undo: Undo) -> anyhow::Result<Outcome> {
    let mut arguments = Map::new();
    arguments.insert("tx_id".to_owned(), json!(undo.tx));
    arguments.insert("count".to_owned(), json!(undo.count));
    arguments.insert("dry_run".to_owned(), json!(undo.dry_run));
    arguments.insert("any_actor".to_owned(), json!(true));
    // Only what changed nothing elsewhere, if a scope is named.
    arguments.insert("scope".to_owned(), json!(config.named_scope()));
    let with_rights = |caller| Caller { has_whole_history: true, ..caller };
    print_reply(&run_tool_as(config, with_rights, "undo", arguments)?, undo.json)
}
