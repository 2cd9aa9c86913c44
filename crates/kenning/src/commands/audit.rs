//! `kenning audit`: checks the log that `serve --http --audit-log FILE` writes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kenning_server::audit;
use serde_json::json;

use super::{Outcome, complain, print};

#[derive(Args)]
pub struct Audit {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Check that no line was changed, removed or put in
    Verify {
        /// The file that `--audit-log` names
        file: PathBuf,
        /// The hash that an earlier check ended with, kept elsewhere: the log must still have it
        #[arg(long, value_name = "HASH")]
        has: Option<String>,
        /// Print for programs
        #[arg(long)]
        json: bool,
    },
}

pub fn run(audit: Audit) -> anyhow::Result<Outcome> {
    let Action::Verify { file, has, json } = audit.action;
    let found = match audit::verify(&file, has.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            complain(&format!("{} can't be read: {error}", file.display()));
            return Ok(Outcome::NotFound);
        }
    };
    let is_whole = found.broken_at.is_none() && found.has != Some(false);
    if json {
        print(
            &json!({
                "whole": is_whole,
                "records": found.records,
                "last": found.last,
                "torn_lines": found.torn,
                "broken_at_line": found.broken_at,
                "has": found.has,
            })
            .to_string(),
        )?;
        return Ok(if is_whole { Outcome::Done } else { Outcome::Failed });
    }
    if !found.torn.is_empty() {
        complain(&format!(
            "{} lines were cut short, as a crash leaves them: {:?}",
            found.torn.len(),
            found.torn
        ));
    }
    match (found.broken_at, found.has) {
        (Some(line), _) => {
            complain(&format!(
                "line {line} is not what was written after the line before it; the {} records before are whole",
                found.records
            ));
        }
        (None, Some(false)) => {
            complain("the hash is not in the log any more: its end was cut off, or it is another log")
        }
        (None, _) => print(&format!("{} records, whole; the last hash is {}", found.records, found.last))?,
    }
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}
