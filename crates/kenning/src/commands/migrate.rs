//! `kenning migrate --from … --to …`

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kenning_engine::Engine;
use kenning_storage::{DatabaseUrl, Error, Location, Migrated, migrate};
use serde_json::json;

use super::{Outcome, complain, print, usage};
use crate::config::Config;

#[derive(Args)]
pub struct Migrate {
    /// The store that is copied: a data directory, or postgres://…?kenning_store=NAME
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Where the copy goes: an empty store, or one to which an earlier run has copied a part
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, wish: Migrate) -> anyhow::Result<Outcome> {
    if config.read_only {
        return Err(usage("`--read-only` and `migrate` exclude each other"));
    }
    let (from, to) = (location(&wish.from)?, location(&wish.to)?);
    if !from.has_store() {
        complain(&format!("there is no store at {}", named(&from)));
        return Ok(Outcome::NotFound);
    }
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} transactions, {per_sec}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let migrated = from.open_existing(Engine::real_sources()).and_then(|source| {
        let target = to.open(Engine::real_sources())?;
        migrate(&source, &target, &mut |at, of| {
            bar.set_length(of);
            bar.set_position(at);
        })
    });
    bar.finish_and_clear();
    let Migrated { already, transactions, keys, verified } = match migrated {
        Ok(migrated) => migrated,
        Err(error) => {
            complain(&format!(
                "not everything was copied: {error}; what was copied stays, and the next run goes on from there"
            ));
            return Ok(match error {
                Error::Invalid { .. } | Error::Forbidden { .. } => Outcome::Usage,
                Error::Unavailable { .. } => Outcome::Busy,
                _ => Outcome::Failed,
            });
        }
    };
    if wish.json {
        let report = json!({
            "ok": true,
            "transactions": verified.transactions,
            "copied": transactions,
            "already_there": already,
            "idempotency_keys": keys,
            "log_rows": verified.log_rows,
        });
        print(&report.to_string())?;
    } else {
        let before =
            if already > 0 { format!(" ({already} were there from an earlier run)") } else { String::new() };
        print(&format!(
            "copied {transactions} transactions{before} and {keys} idempotency keys from {} to {}: both logs are equal, all sound",
            named(&from),
            named(&to)
        ))?;
    }
    Ok(Outcome::Done)
}

fn location(text: &str) -> anyhow::Result<Location> {
    match text.starts_with("postgres://") || text.starts_with("postgresql://") {
        true => Ok(Location::Database(DatabaseUrl::parse(text).map_err(|error| usage(error.to_string()))?)),
        false => Ok(Location::Directory(PathBuf::from(text))),
    }
}

/// The location for messages, without a password.
fn named(location: &Location) -> String {
    match location {
        Location::Directory(dir) => dir.display().to_string(),
        Location::Database(url) => url.to_string(),
    }
}
