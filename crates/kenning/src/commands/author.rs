//! Recovery from what somebody should not have written: `kenning undo --by NAME` and `kenning quarantine NAME`.

use std::sync::Arc;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kenning_model::{Transaction, clean};
use kenning_storage::{Author, Error, Request, UndoPlan, UndoTarget, UndoWish, Write};
use serde_json::json;

use super::{Outcome, complain, line, print};
use crate::config::Config;

/// At most this many changes are listed on the terminal; the rest are only counted.
const SHOWN_MAX: usize = 20;

#[derive(Args)]
pub struct Quarantine {
    /// Whose: the name that the history shows, or the origin of one credential, such as "key 3f9a0c41d2"
    name: String,
    /// Only what was written since then: 2026-11-18T20:00:00Z, or how long ago, such as 90m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only show what it would do
    #[arg(long)]
    dry_run: bool,
    /// Print for programs
    #[arg(long)]
    json: bool,
}

/// A moment, or how long ago it was.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let wrong = || {
        format!("`{text}` is no time; write 2026-11-18T20:00:00Z, or how long ago, such as 90m, 12h or 7d")
    };
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let minutes = match unit {
        "m" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err(wrong()),
    };
    let number: i64 =
        number.parse().ok().filter(|number| (1..=1_000_000).contains(number)).ok_or_else(wrong)?;
    Timestamp::now().checked_sub(SignedDuration::from_mins(number * minutes)).map_err(|_| wrong())
}

/// Hides every live entry that somebody has written, in one transaction.
pub fn quarantine(config: &Config, quarantine: Quarantine) -> anyhow::Result<Outcome> {
    let Quarantine { name, since, dry_run, json } = quarantine;
    let author = Author { name, since };
    write(config, author, dry_run, json, Kind::Quarantine)
}

/// Takes back everything that somebody has written, in one transaction.
pub(super) fn undo_by(config: &Config, author: Author, dry_run: bool, json: bool) -> anyhow::Result<Outcome> {
    write(config, author, dry_run, json, Kind::Undo)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Undo,
    Quarantine,
}

fn write(config: &Config, author: Author, dry_run: bool, json: bool, kind: Kind) -> anyhow::Result<Outcome> {
    if config.read_only && !dry_run {
        return Err(super::usage("this writes, and `--read-only` was given; `--dry-run` only looks"));
    }
    let (engine, principal) = (config.engine()?, Arc::new(config.principal()));
    let wish = || UndoWish { target: UndoTarget::By(author.clone()), any_actor: true, within: None };
    let done = match (dry_run, kind) {
        (true, Kind::Undo) => engine.storage()?.plan_undo(&UndoPlan { wish: wish(), principal: &principal }),
        (true, Kind::Quarantine) => engine.storage()?.plan_quarantine(&author, &principal),
        (false, _) => {
            let (tool, write) = match kind {
                Kind::Undo => ("undo", Write::Undo(wish())),
                Kind::Quarantine => ("quarantine", Write::Quarantine(author.clone())),
            };
            let request = Request { principal, tool: tool.to_owned(), write, keyed: None };
            engine.commit(request).map(|committed| committed.tx)
        }
    };
    let tx = match done {
        Ok(tx) => tx,
        Err(Error::Invalid { what }) => {
            complain(&what);
            return Ok(Outcome::NotFound);
        }
        Err(Error::ChangedSince { later, .. }) => {
            let later: Vec<String> = later.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
            complain(&format!(
                "others have changed the same since, in transactions {}; undo these first, or hide what is live with \
                 `kenning quarantine`",
                later.join(", ")
            ));
            return Ok(Outcome::Failed);
        }
        Err(error) => return Err(error.into()),
    };
    if json {
        let ids: Vec<String> = tx.changes.iter().map(|change| change.id.to_string()).collect();
        let undone: Vec<u64> = tx.undoes.iter().map(|tx| tx.0).collect();
        let tx_id = (!dry_run).then_some(tx.id.0);
        print(
            &json!({"dry_run": dry_run, "tx_id": tx_id, "undone": undone, "changed_ids": ids}).to_string(),
        )?;
        return Ok(Outcome::Done);
    }
    print(&text(&tx, &author.name, dry_run, kind))?;
    Ok(Outcome::Done)
}

fn text(tx: &Transaction, name: &str, dry_run: bool, kind: Kind) -> String {
    let many = tx.changes.len();
    let what = match kind {
        Kind::Undo => format!("{} transactions by `{}` with {many} changes", tx.undoes.len(), line(name)),
        Kind::Quarantine => format!("{many} entries by `{}`", line(name)),
    };
    let verb = match (kind, dry_run) {
        (Kind::Undo, false) => "Took back",
        (Kind::Undo, true) => "Would take back",
        (Kind::Quarantine, false) => "Hid",
        (Kind::Quarantine, true) => "Would hide",
    };
    let mut text = match dry_run {
        false => {
            format!("{verb} {what}, in transaction {}; `kenning undo {}` brings them back.", tx.id, tx.id)
        }
        true => format!("{verb} {what}. Nothing was written."),
    };
    for change in tx.changes.iter().take(SHOWN_MAX) {
        let record = change.before.as_ref().map(|before| &before.record).or(change.after.as_ref());
        let topic = record.and_then(|record| record.as_entry()).map(|entry| line(&clean(&entry.topic)));
        text.push_str(&format!("\n  {} {} {}", change.entity_type, change.id, topic.unwrap_or_default()));
    }
    if many > SHOWN_MAX {
        text.push_str(&format!("\n  and {} more", many - SHOWN_MAX));
    }
    text
}
