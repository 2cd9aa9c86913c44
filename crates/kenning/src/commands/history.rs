//! `kenning history`

use clap::Args;
use kenning_tools::Caller;
use serde_json::{Map, json};

use super::{Outcome, print_reply, run_tool_as};
use crate::config::Config;

#[derive(Args)]
pub struct History {
    /// Only changes of this id
    id: Option<String>,
    /// Only transactions after this one
    #[arg(long, value_name = "TX")]
    since: Option<u64>,
    /// How many
    #[arg(long, default_value_t = 20)]
    limit: u64,
    /// Go on where the last page ended
    #[arg(long)]
    cursor: Option<String>,
    /// In every scope, not only in what --scope sees
    #[arg(long)]
    all: bool,
    /// Print the structured reply
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, history: History) -> anyhow::Result<Outcome> {
    let mut arguments = Map::new();
    arguments.insert("limit".to_owned(), json!(history.limit));
    arguments.insert("id".to_owned(), json!(history.id));
    arguments.insert("since_tx_id".to_owned(), json!(history.since));
    arguments.insert("cursor".to_owned(), json!(history.cursor));
    let with_rights = |caller| Caller { has_whole_history: history.all, ..caller };
    print_reply(&run_tool_as(config, with_rights, "history", arguments)?, history.json)
}
