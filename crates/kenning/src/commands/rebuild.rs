//! `kenning rebuild`

use std::time::Instant;

use clap::Args;
use kenning_engine::{Error, Rebuilt};
use serde_json::json;

use super::{Outcome, complain, existing_store, print};
use crate::config::Config;

#[derive(Args)]
pub struct Rebuild {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, rebuild: Rebuild) -> anyhow::Result<Outcome> {
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let since = Instant::now();
    let Rebuilt { at, versions, live } = match config.engine()?.rebuild() {
        Err(Error::Unavailable { reason, .. }) => {
            complain(&format!("the index was not rebuilt: {reason}"));
            return Ok(Outcome::Busy);
        }
        rebuilt => rebuilt?,
    };
    let elapsed = since.elapsed();
    if rebuild.json {
        let report = json!({
            "as_of_tx_id": at,
            "live_entries": live,
            "versions": versions,
            "elapsed_ms": elapsed.as_millis() as u64,
        });
        print(&report.to_string())?;
    } else {
        print(&format!(
            "rebuilt the index up to transaction {at}: {live} live entries, {versions} versions, in {:.1} s",
            elapsed.as_secs_f64()
        ))?;
    }
    Ok(Outcome::Done)
}
