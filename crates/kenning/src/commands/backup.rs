//! `kenning backup` and `kenning restore`

pub mod rotation;

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use kenning_engine::Error;
use kenning_storage::{DatabaseUrl, Location, STORE_FILE, Storage, Verified, back_up, restore_checked};
use serde_json::json;

use super::purge::{self, OfPurged};
use super::{Outcome, existing_store, print, usage};
use crate::config::Config;

#[derive(Args)]
pub struct Backup {
    /// Where the copy goes: a file that is not there yet, or a directory that keeps the newest copies
    file: PathBuf,
    /// How many copies a directory keeps [default: 7]
    #[arg(long, value_name = "NUMBER")]
    keep: Option<NonZeroUsize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Restore {
    /// A file that `kenning backup` has made, or another store.db
    file: PathBuf,
    /// Replace what is in the store, without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    of_purged: OfPurged,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(config: &Config, backup: Backup) -> anyhow::Result<Outcome> {
    let dir = match config.location()? {
        Location::Directory(dir) => dir,
        Location::Database(url) => return Err(of_files_only("backup", &url, "pg_dump --schema=kenning")),
    };
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    if backup.keep.is_some() || backup.file.is_dir() {
        let made = rotation::make(&dir, &backup.file, backup.keep.unwrap_or(rotation::KEPT));
        let (file, verified) = match made.map_err(|error| error.downcast::<Error>()) {
            Ok(made) => made,
            Err(Ok(error)) => return Ok(refused("the store was not backed up", &error)),
            Err(Err(error)) => return Err(error),
        };
        return report(backup.json, "backed up", "to", &file, verified);
    }
    let verified = match back_up(&dir, &backup.file) {
        Ok(verified) => verified,
        Err(error) => return Ok(refused("the store was not backed up", &error)),
    };
    report(backup.json, "backed up", "to", &backup.file, verified)
}

pub fn run_restore(config: &Config, wish: Restore) -> anyhow::Result<Outcome> {
    let dir = match config.location()? {
        Location::Directory(dir) => dir,
        Location::Database(url) => return Err(of_files_only("restore", &url, "pg_restore")),
    };
    if config.read_only {
        eprintln!("kenning: `--read-only` and `restore` exclude each other");
        return Ok(Outcome::Usage);
    }
    if !wish.file.is_file() {
        eprintln!("kenning: there is no file {}", wish.file.display());
        return Ok(Outcome::NotFound);
    }
    if !wish.yes && !may_replace(&dir)? {
        return Ok(Outcome::Usage);
    }
    let (notes, principal) = (purge::notes_of(&dir)?, config.principal());
    let check = |backup| purge::check_backup(backup, &notes, wish.of_purged, &principal);
    let verified = match restore_checked(&dir, &wish.file, check) {
        Ok(verified) => verified,
        Err(error) => return Ok(refused("nothing was restored", &error)),
    };
    report(wish.json, "restored", "from", &wish.file, verified)
}

fn of_files_only(command: &str, url: &DatabaseUrl, instead: &str) -> anyhow::Error {
    usage(format!(
        "`kenning {command}` is for stores in a data directory; for the {url} use PostgreSQL's own `{instead}`, as docs/team.md says"
    ))
}

/// True if a restore would lose no transaction, or if the user has agreed to lose them.
fn may_replace(dir: &Path) -> anyhow::Result<bool> {
    if !dir.join(STORE_FILE).exists() {
        return Ok(true);
    }
    let opened = Storage::open(dir, kenning_engine::Engine::real_sources());
    let many = opened.and_then(|store| store.reader()?.head()).map(|head| head.0);
    let lost = match many {
        Ok(0) => return Ok(true),
        Ok(many) => format!("the {many} transactions in {}", dir.display()),
        Err(_) => format!("the damaged store in {}", dir.display()),
    };
    if !std::io::stdin().is_terminal() {
        eprintln!("kenning: this would replace {lost}; `kenning backup` keeps them, `--yes` goes ahead");
        return Ok(false);
    }
    eprint!("This replaces {lost} (`kenning backup` keeps them). Go ahead? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn refused(what: &str, error: &Error) -> Outcome {
    eprintln!("kenning: {what}: {error}");
    match error {
        Error::Invalid { .. } => Outcome::Usage,
        Error::Unavailable { .. } => Outcome::Busy,
        _ => Outcome::Failed,
    }
}

fn report(
    as_json: bool,
    done: &str,
    direction: &str,
    file: &Path,
    verified: Verified,
) -> anyhow::Result<Outcome> {
    let Verified { transactions, log_rows, derived_rows } = verified;
    if as_json {
        let bytes = std::fs::metadata(file)?.len();
        let report = json!({
            "ok": true,
            "transactions": transactions,
            "log_rows": log_rows,
            "derived_rows": derived_rows,
            "bytes": bytes,
            "file": file.display().to_string(),
        });
        print(&report.to_string())?;
    } else {
        print(&format!("{done} {transactions} transactions {direction} {}: all sound", file.display()))?;
    }
    Ok(Outcome::Done)
}
