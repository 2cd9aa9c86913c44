//! Backups in one directory: only the newest are kept. Also the schedule on which `serve` makes them.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kenning_storage::{Location, Verified, back_up};

use crate::commands::usage;
use crate::config::Config;

pub const KEPT: NonZeroUsize = NonZeroUsize::new(7).expect("not zero");
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// The shortest interval that is accepted. More frequent backups cost more than they save, because the log
/// itself loses no committed transaction.
const EVERY_MIN: SignedDuration = SignedDuration::from_mins(1);
/// How often a process checks whether a backup is due. It cannot simply sleep until the next one, because
/// another process may have made one.
const LOOK_EVERY: Duration = Duration::from_secs(20);

const LOCK_FILE: &str = ".kenning-backup.lock";
const PARTIAL_FILE: &str = ".kenning-backup.partial";
const PREFIX: &str = "kenning-";
const SUFFIX: &str = ".db";
/// Names are in UTC, so that sorting by name sorts by time.
const NAME_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// When `serve` makes backups.
#[derive(Args, Default)]
pub struct Schedule {
    /// Make backups in this directory; of several processes on one store, one makes them
    #[arg(long, env = "KENNING_BACKUP_DIR", value_name = "DIR")]
    backup_dir: Option<PathBuf>,
    /// How often: 24h, 90m [default: 24h]
    #[arg(long, env = "KENNING_BACKUP_EVERY", value_name = "TIME", requires = "backup_dir")]
    backup_every: Option<SignedDuration>,
    /// How many of them are kept [default: 7]
    #[arg(long, env = "KENNING_BACKUP_KEEP", value_name = "NUMBER", requires = "backup_dir")]
    backup_keep: Option<NonZeroUsize>,
}

/// Makes backups until it is dropped.
pub struct Backups {
    _stop: Sender<()>,
}

impl Schedule {
    pub fn start(&self, config: &Config) -> anyhow::Result<Option<Backups>> {
        let Some(dir) = self.backup_dir.clone() else { return Ok(None) };
        let every = self.backup_every.unwrap_or(EVERY);
        if every < EVERY_MIN {
            return Err(usage("`--backup-every` is at least one minute: 1m"));
        }
        let (data, keep) = (config.data_dir()?, self.backup_keep.unwrap_or(KEPT));
        make_dir(&dir)?;
        let (stop, stopped) = channel();
        let work = move || {
            let mut wait = Duration::ZERO;
            while matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                wait = LOOK_EVERY;
                if let Err(error) = make_if_due(&data, &dir, every, keep) {
                    tracing::warn!("no backup was made in {}: {error:#}", dir.display());
                }
            }
        };
        std::thread::Builder::new().name("kenning-backup".into()).spawn(work)?;
        Ok(Some(Backups { _stop: stop }))
    }
}

fn make_if_due(data: &Path, dir: &Path, every: SignedDuration, keep: NonZeroUsize) -> anyhow::Result<()> {
    let is_due = || -> anyhow::Result<bool> {
        let newest = existing_backups(dir)?.last().map(|(at, _)| *at);
        // A clock that was set back must not put off all backups.
        let now = Timestamp::now();
        Ok(newest.is_none_or(|newest| newest > now || now.duration_since(newest) >= every))
    };
    if !Location::Directory(data.to_owned()).has_store() || !is_due()? {
        return Ok(());
    }
    // If another process holds the lock, that process makes the backup.
    let Some(_lock) = lock(dir)? else { return Ok(()) };
    match is_due()? {
        true => make_locked(data, dir, keep).map(drop),
        false => Ok(()),
    }
}

/// Makes a backup in a directory, and removes the oldest if there are more than are to be kept.
pub fn make(data: &Path, dir: &Path, keep: NonZeroUsize) -> anyhow::Result<(PathBuf, Verified)> {
    make_dir(dir)?;
    let Some(_lock) = lock(dir)? else { bail!("another process makes a backup in {} now", dir.display()) };
    make_locked(data, dir, keep)
}

fn make_locked(data: &Path, dir: &Path, keep: NonZeroUsize) -> anyhow::Result<(PathBuf, Verified)> {
    let partial = dir.join(PARTIAL_FILE);
    // A process that ended in the middle of a backup may have left this file. Nobody else writes it now,
    // because this process holds the lock.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{} can't be removed", partial.display()));
        }
        _ => {}
    }
    let verified = back_up(data, &partial)?;
    let mut at = next_name(&existing_backups(dir)?)?;
    let place = |at: Timestamp| dir.join(format!("{PREFIX}{}{SUFFIX}", at.strftime(NAME_FORMAT)));
    while place(at).exists() {
        at += SignedDuration::from_secs(1);
    }
    let file = place(at);
    fs::rename(&partial, &file).with_context(|| format!("{} can't be written", file.display()))?;
    let existing = existing_backups(dir)?;
    let too_many = existing.len().saturating_sub(keep.get());
    for (_, old) in existing.iter().take(too_many).filter(|(_, old)| *old != file) {
        fs::remove_file(old).with_context(|| format!("{} can't be removed", old.display()))?;
    }
    Ok((file, verified))
}

/// The time that a new backup is named after: now, or one second after the newest backup whose name is at most
/// a minute ahead of now. So sorting by name gives the order in which the backups were made.
fn next_name(existing: &[(Timestamp, PathBuf)]) -> anyhow::Result<Timestamp> {
    let now = Timestamp::from_second(Timestamp::now().as_second())?;
    // A backup whose name is further ahead was made while the clock was wrong, so it does not count.
    let moment = now..now + SignedDuration::from_mins(1);
    let newest = existing.iter().map(|(at, _)| *at).filter(|at| moment.contains(at)).max();
    Ok(newest.map_or(now, |newest| newest + SignedDuration::from_secs(1)))
}

/// The backups in the directory, oldest first. Files with other names are ignored.
fn existing_backups(dir: &Path) -> anyhow::Result<Vec<(Timestamp, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{} can't be read", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let time = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
        let at = time.and_then(|time| jiff::civil::DateTime::strptime(NAME_FORMAT, time).ok());
        let at = at.and_then(|at| at.to_zoned(jiff::tz::TimeZone::UTC).ok());
        found.extend(at.map(|at| (at.timestamp(), path.clone())));
    }
    found.sort();
    Ok(found)
}

fn make_dir(dir: &Path) -> anyhow::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).with_context(|| format!("{} can't be made", dir.display()))
}

/// Takes the lock of the backup directory. `None` if another process holds it.
fn lock(dir: &Path) -> anyhow::Result<Option<File>> {
    let path = dir.join(LOCK_FILE);
    let unwritable = || format!("{} can't be written", path.display());
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).with_context(unwritable)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error).with_context(unwritable),
    }
}

#[cfg(test)]
mod tests {
    use kenning_testkit::{TempStore, owner};

    use super::*;

    fn stored() -> TempStore {
        let store = TempStore::new();
        let new = kenning_storage::NewEntry::new(kenning_model::ScopeId(1), "topic", "content");
        let write = kenning_storage::Write::Store(new);
        let request =
            kenning_storage::Request { principal: owner().into(), tool: "t".into(), write, keyed: None };
        store.storage().commit(request).expect("a write");
        store
    }

    #[test]
    fn the_newest_backups_are_kept_and_other_files_too() {
        let (store, dir) = (stored(), tempfile::tempdir().expect("a directory"));
        fs::write(dir.path().join("kenning-notes.db"), "mine").expect("a file");
        fs::write(dir.path().join(PARTIAL_FILE), "left over").expect("a file");
        let keep = NonZeroUsize::new(2).expect("not zero");
        let files: Vec<PathBuf> =
            (0..4).map(|_| make(store.path(), dir.path(), keep).expect("a backup").0).collect();
        let kept: Vec<PathBuf> =
            existing_backups(dir.path()).expect("a list").into_iter().map(|(_, path)| path).collect();
        assert_eq!(kept, files[2..]);
        assert!(dir.path().join("kenning-notes.db").exists() && !dir.path().join(PARTIAL_FILE).exists());
    }

    #[test]
    fn a_backup_is_made_when_one_is_due_and_by_one_process() {
        let (store, dir) = (stored(), tempfile::tempdir().expect("a directory"));
        let due = |every| {
            make_if_due(store.path(), dir.path(), every, KEPT).expect("it can be looked");
            existing_backups(dir.path()).expect("a list").len()
        };
        let other = lock(dir.path()).expect("a file").expect("nobody has it");
        assert_eq!(due(EVERY), 0, "another process makes it");
        drop(other);
        assert_eq!(due(EVERY), 1);
        assert_eq!(due(EVERY), 1, "the next is due tomorrow");
        assert_eq!(due(SignedDuration::ZERO), 2);
    }
}
