//! `kenning mirror`: keeps a folder of Markdown equal to a scope, in both directions.
//!
//! Each entry of the scope is a file. The state of the last run, on which both sides agreed, is kept in a
//! file beside the store and not in the folder, so that changes that come through git look like any other
//! changes of the folder. An entry that was changed on one side is changed on the other. If both sides
//! changed it, the store's version keeps the id and the file's version becomes a new entry: nothing is lost,
//! and a person can resolve the contradiction later.

mod folder;
mod plan;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use kenning_engine::{Engine, Error, is_same_log, purge_notes};
use kenning_model::{EntityType, Id, Principal, ScopeId};
use kenning_storage::{Batch, Request, Write};
use notify::{RecursiveMode, Watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use self::folder::Folder;
use self::plan::{Plan, Stored};
use super::entry_file::{EntryFile, file_name};
use super::import::Target;
use super::live::live_records;
use super::log_file::hex;
use super::{Outcome, complain, path_on_terminal, print, usage};
use crate::config::Config;

/// One run is one transaction, which `kenning undo` takes back. Files that are no Markdown are left alone.
#[derive(Args)]
#[command(after_help = "Examples:
  kenning --scope acme:web mirror notes            # write the scope to notes/, or bring both level again
  kenning mirror notes --watch                     # go on until Ctrl-C
  git pull && kenning mirror notes --dry-run       # what would the others' edits change?")]
pub struct Mirror {
    /// The folder; it is made if it is not there
    dir: PathBuf,
    /// Go on bringing both sides level, until interrupted
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    watch: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Go ahead though more than 20 entries, or more than a tenth of them, would go
    #[arg(long)]
    yes: bool,
    /// Print a report for programs
    #[arg(long)]
    json: bool,
}

/// A run that would delete more than this many entries or files stops and asks, because an unmounted disk or
/// a wrong branch looks like that.
const GONE_MAX: usize = 20;
/// A run that would delete more than one in `GONE_PART` of them stops and asks too, unless it would delete a
/// single one.
const GONE_PART: usize = 10;
/// Another process may write while a run is planned. The run is then planned again, at most this many times.
const ATTEMPTS: usize = 5;
const DIRECTORY: &str = "mirrors";
/// An editor makes several changes when it saves a file. They are taken as complete when no further change
/// has come for this long.
const QUIET: Duration = Duration::from_millis(300);

/// What a run did, or in a dry run what it would do.
#[derive(Debug, Default, PartialEq)]
struct Report {
    /// Entries that were made, changed and deleted.
    created: usize,
    updated: usize,
    deleted: usize,
    /// Files that were written and removed.
    written: usize,
    removed: usize,
    /// Entries that were changed on both sides.
    conflicts: usize,
    /// Files that are left as they are, each with the reason.
    refused: Vec<(String, String)>,
    tx_id: Option<u64>,
}

impl Report {
    fn is_level(&self) -> bool {
        let Report { created, updated, deleted, written, removed, .. } = self;
        created + updated + deleted + written + removed == 0
    }
}

/// The state on which both sides agreed after the last run.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    store: String,
    scope: u32,
    files: BTreeMap<Id, SyncedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SyncedFile {
    path: String,
    hash: String,
}

struct Run<'a> {
    engine: &'a Engine,
    principal: Arc<Principal>,
    scope: ScopeId,
    root: PathBuf,
    state: PathBuf,
    dry_run: bool,
    yes: bool,
}

pub fn run(config: &Config, mirror: Mirror) -> anyhow::Result<Outcome> {
    if config.read_only && !mirror.dry_run {
        return Err(usage("`mirror` writes, and `--read-only` was given"));
    }
    let engine = config.engine()?;
    let target = Target::of(config, &engine, mirror.dry_run)?;
    let Some(scope) = target.scope else { bail!("there is no store yet; run it without `--dry-run`") };
    let is_new = !mirror.dir.exists();
    if is_new && !mirror.dry_run {
        std::fs::create_dir_all(&mirror.dir)
            .with_context(|| format!("{} can't be made", mirror.dir.display()))?;
    }
    let root = match is_new && mirror.dry_run {
        true => std::path::absolute(&mirror.dir)?,
        false => {
            mirror.dir.canonicalize().with_context(|| format!("{} can't be read", mirror.dir.display()))?
        }
    };
    let key = hex(Sha256::new()
        .chain_update(root.as_os_str().as_encoded_bytes())
        .chain_update(scope.0.to_le_bytes()));
    let state = engine.dir().join(DIRECTORY).join(format!("{}.json", &key[..32]));
    let run = Run {
        engine: &engine,
        principal: target.principal,
        scope,
        root,
        state,
        dry_run: mirror.dry_run,
        yes: mirror.yes,
    };
    if is_new && !run.agreed()?.files.is_empty() {
        bail!(
            "{} is gone, and entries were mirrored there; make it again if they are to be deleted",
            mirror.dir.display()
        );
    }
    let report = run.synchronize()?;
    run.tell(&report, mirror.json)?;
    if mirror.watch {
        run.watch(mirror.json)?;
    }
    Ok(if report.refused.is_empty() { Outcome::Done } else { Outcome::Failed })
}

impl Run<'_> {
    /// Makes both sides equal. If another process writes at the same time, the run is planned again.
    fn synchronize(&self) -> anyhow::Result<Report> {
        for _ in 1..ATTEMPTS {
            match self.synchronize_once() {
                Err(error) if is_overtaken(&error) => {}
                done => return done,
            }
        }
        self.synchronize_once()
    }

    fn synchronize_once(&self) -> anyhow::Result<Report> {
        let agreed = self.agreed()?;
        let folder = Folder::read(&self.root)?;
        let stored = self.stored()?;
        let total = agreed.files.len().max(stored.len());
        let plan = Plan::make(&agreed.files, &folder, &stored);
        let mut report = Report {
            created: plan.created.len(),
            updated: plan.updated.len(),
            deleted: plan.deleted.len(),
            written: plan.written.len() + plan.created.len(),
            removed: plan.removed.len(),
            conflicts: plan.conflicts,
            refused: plan.refused.clone(),
            tx_id: None,
        };
        if self.dry_run {
            return Ok(report);
        }
        if !self.yes {
            check_deletion_limit(
                report.deleted,
                total,
                "entries would be deleted, since their files are gone",
            )?;
            check_deletion_limit(
                report.removed,
                total,
                "files would be removed, since their entries are gone",
            )?;
        }
        let mut synced = plan.synced;
        let mut new_ids = Vec::new();
        let batch = Batch {
            entries: plan.created.iter().map(|new| new.file.new_entry(self.scope)).collect(),
            updates: plan.updated,
            deletions: plan.deleted,
            triples: Vec::new(),
        };
        if !(batch.entries.is_empty() && batch.updates.is_empty() && batch.deletions.is_empty()) {
            let (principal, tool) = (self.principal.clone(), "mirror".to_owned());
            let write = Write::Batch(Box::new(batch));
            let committed = self.engine.commit(Request { principal, tool, write, keyed: None })?;
            report.tx_id = Some(committed.tx.id.0);
            new_ids = committed.tx.changes.iter().take(plan.created.len()).map(|change| change.id).collect();
        }
        // From here on the store is ahead of the folder. If the process ends here, the next run compares both
        // sides again and continues.
        let mut failed = Vec::new();
        for (new, id) in plan.created.into_iter().zip(new_ids) {
            let file = EntryFile { id: Some(id), ..new.file };
            let path = new.path.unwrap_or_else(|| file_name(&file.topic, id));
            match folder.write(&path, &file.text(None)) {
                Ok(()) => drop(synced.insert(id, SyncedFile { path, hash: hash(&file) })),
                Err(why) => failed.push((path, why)),
            }
        }
        for (id, path, file) in plan.written {
            match folder.write(&path, &file.text(None)) {
                Ok(()) => drop(synced.insert(id, SyncedFile { path, hash: hash(&file) })),
                Err(why) => {
                    synced.extend(agreed.files.get(&id).map(|agreed| (id, agreed.clone())));
                    failed.push((path, why));
                }
            }
        }
        for (id, path) in plan.removed {
            if let Err(why) = folder.remove(&path) {
                synced.extend(agreed.files.get(&id).map(|agreed| (id, agreed.clone())));
                failed.push((path, why));
            }
        }
        report.written = report.written.saturating_sub(failed.len());
        report.refused.extend(failed);
        self.agree(synced)?;
        Ok(report)
    }

    /// The live entries of this scope, without those that it inherits.
    fn stored(&self) -> anyhow::Result<BTreeMap<Id, Stored>> {
        let reader = self.engine.storage()?.reader()?;
        let mut all = BTreeMap::new();
        live_records(&*reader, &[EntityType::Entry], Some(self.scope), reader.head()?, |found| {
            if let Some(entry) = found.record.as_entry() {
                let stored = Stored { version: entry.version, file: EntryFile::of(Some(found.id), entry) };
                all.insert(found.id, stored);
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn agreed(&self) -> anyhow::Result<State> {
        let store = self.engine.storage()?.backend().info()?.id.to_string();
        let nothing = || State { store: store.clone(), scope: self.scope.0, files: BTreeMap::new() };
        let text = match std::fs::read_to_string(&self.state) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(nothing()),
            text => text.with_context(|| format!("{} can't be read", self.state.display()))?,
        };
        // Without a usable state, every difference counts as a change on both sides, so nothing is lost.
        let state: State = serde_json::from_str(&text).unwrap_or_default();
        // A purge gives the store another id, and what it removed is then to be removed from the folder too.
        let is_same =
            state.store == store || is_same_log(&purge_notes(self.engine.dir())?, &state.store, &store);
        Ok(if is_same && state.scope == self.scope.0 { state } else { nothing() })
    }

    fn agree(&self, files: BTreeMap<Id, SyncedFile>) -> anyhow::Result<()> {
        let state = State {
            store: self.engine.storage()?.backend().info()?.id.to_string(),
            scope: self.scope.0,
            files,
        };
        let unwritable = || format!("{} can't be written", self.state.display());
        let dir = self.state.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).with_context(unwritable)?;
        let file = tempfile::NamedTempFile::new_in(dir).with_context(unwritable)?;
        serde_json::to_writer(&file, &state).with_context(unwritable)?;
        file.persist(&self.state).with_context(unwritable)?;
        Ok(())
    }

    fn watch(&self, as_json: bool) -> anyhow::Result<()> {
        let (told, changes) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An event for a read access is no change.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = told.send(());
            }
        })?;
        watcher.watch(&self.root, RecursiveMode::Recursive).context("the folder can't be watched")?;
        complain(&format!("mirroring {}; Ctrl-C ends it", self.root.display()));
        let mut head = self.engine.head()?;
        let mut said = String::new();
        loop {
            match changes.recv_timeout(QUIET) {
                Ok(()) => while changes.recv_timeout(QUIET).is_ok() {},
                Err(RecvTimeoutError::Timeout) if self.engine.head()? == head => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the folder is not watched any more"),
            }
            head = self.engine.head()?;
            match self.synchronize() {
                Ok(report) if report.is_level() => {}
                Ok(report) => self.tell(&report, as_json)?,
                // The next change may fix the error, so it is not fatal; the same message is printed only
                // once.
                Err(error) if format!("{error:#}") == said => {}
                Err(error) => {
                    said = format!("{error:#}");
                    complain(&said);
                }
            }
        }
    }

    fn tell(&self, report: &Report, as_json: bool) -> anyhow::Result<()> {
        let Report { created, updated, deleted, written, removed, conflicts, refused, tx_id } = report;
        if as_json {
            let refused: Vec<_> =
                refused.iter().map(|(path, why)| json!({"path": path, "why": why})).collect();
            let line = json!({
                "dry_run": self.dry_run, "created": created, "updated": updated, "deleted": deleted, "written": written,
                "removed": removed, "conflicts": conflicts, "refused": refused, "tx_id": tx_id,
            });
            return Ok(print(&line.to_string())?);
        }
        for (path, why) in refused {
            complain(&format!("{}: {why}", path_on_terminal(path)));
        }
        if *conflicts > 0 {
            complain(&format!(
                "{conflicts} entries were changed on both sides; the file's version of each is an entry of its own now"
            ));
        }
        let would = if self.dry_run { "would be " } else { "" };
        let tx = tx_id.map(|tx| format!(", in transaction {tx}")).unwrap_or_default();
        let level = if report.is_level() { "Both sides are level: " } else { "" };
        print(&format!(
            "{level}entries {would}created {created}, updated {updated}, deleted {deleted}{tx}; files {would}written {written}, removed {removed}"
        ))?;
        Ok(())
    }
}

fn check_deletion_limit(gone: usize, total: usize, what: &str) -> anyhow::Result<()> {
    if gone > GONE_MAX || (gone > 1 && gone * GONE_PART > total) {
        return Err(usage(format!("{gone} {what}; `--yes` goes ahead, `--dry-run` shows more")));
    }
    Ok(())
}

/// Whether another process has changed or deleted the same entries since they were read.
fn is_overtaken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::StaleVersion { .. } | Error::UnknownId { .. }))
}

/// The hash of an entry in the form of a file, so that both sides are compared in the same form.
fn hash(file: &EntryFile) -> String {
    hex(Sha256::new().chain_update(file.text(None)))
}

#[cfg(test)]
mod tests;
