//! `kenning search`

use clap::Args;
use serde_json::{Map, json};

use super::{Outcome, print_reply, run_tool};
use crate::config::Config;

#[derive(Args)]
pub struct Search {
    /// What to look for, in your own words
    #[arg(required = true)]
    words: Vec<String>,
    /// How many
    #[arg(short = 'n', long, default_value_t = 10)]
    limit: u64,
    /// Only entries with this tag; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// The store as it was at this transaction
    #[arg(long, value_name = "TX")]
    as_of: Option<u64>,
    /// Say why each matched
    #[arg(long)]
    explain: bool,
    /// Print the structured reply
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, search: Search) -> anyhow::Result<Outcome> {
    let mut arguments = Map::new();
    arguments.insert("content".to_owned(), json!(search.words.join(" ")));
    arguments.insert("limit".to_owned(), json!(search.limit));
    arguments.insert("as_of_tx_id".to_owned(), json!(search.as_of));
    arguments.insert("explain".to_owned(), json!(search.explain));
    if !search.tag.is_empty() {
        arguments.insert("tags".to_owned(), json!(search.tag));
    }
    print_reply(&run_tool(config, "query", arguments)?, search.json)
}
