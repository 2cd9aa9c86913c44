//! `kenning verify`

use clap::Args;
use kenning_engine::Error;
use kenning_storage::{Damage, Location, STORE_FILE, Verified};
use serde_json::json;

use super::{Outcome, complain, existing_store, print};
use crate::config::Config;

#[derive(Args)]
pub struct Verify {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, verify: Verify) -> anyhow::Result<Outcome> {
    let Some(location) = existing_store(config)? else { return Ok(Outcome::NotFound) };
    let mut damages: Vec<Damage> = Vec::new();
    // SQLite would open an empty file as a new store, so an empty file must be reported as damage before.
    let (place, is_empty) = match &location {
        Location::Directory(dir) => (STORE_FILE, std::fs::metadata(dir.join(STORE_FILE))?.len() == 0),
        Location::Database(_) => ("database", false),
    };
    let verified = if is_empty {
        damages.push(Damage { place: place.to_owned(), what: "the file is empty".to_owned() });
        Verified::default()
    } else {
        match config.engine()?.verify(&mut |damage| damages.push(damage)) {
            Ok(verified) => verified,
            // A database that does not answer is not a damaged one.
            Err(Error::Unavailable { reason, .. }) if place != STORE_FILE => {
                complain(&format!("the store was not verified: {reason}"));
                return Ok(Outcome::Busy);
            }
            Err(error) => {
                damages.push(Damage { place: place.to_owned(), what: error.to_string() });
                Verified::default()
            }
        }
    };
    if verify.json {
        let rows: Vec<_> =
            damages.iter().map(|damage| json!({"place": damage.place, "what": damage.what})).collect();
        let report = json!({
            "ok": damages.is_empty(),
            "transactions": verified.transactions,
            "log_rows": verified.log_rows,
            "derived_rows": verified.derived_rows,
            "damage": rows,
        });
        print(&report.to_string())?;
    } else {
        for Damage { place, what } in &damages {
            print(&format!("damaged: {place}: {what}"))?;
        }
        print(&format!(
            "{} transactions, {} log rows, {} derived rows: {}",
            verified.transactions,
            verified.log_rows,
            verified.derived_rows,
            if damages.is_empty() { "all sound" } else { "damaged" }
        ))?;
    }
    Ok(if damages.is_empty() { Outcome::Done } else { Outcome::Failed })
}
