//! `kenning ingest`: takes files in as documents. What did not change is left alone; what is gone is closed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use ignore::WalkBuilder;
use indicatif::{ProgressBar, ProgressStyle};
use kenning_engine::{Engine, Format, Intake};
use kenning_model::Record;
use kenning_tools::scope_name;
use serde_json::json;

use super::{Outcome, print, usage};
use crate::config::Config;

#[derive(Args)]
pub struct Ingest {
    /// A directory or a file
    path: PathBuf,
    /// What the documents belong to [default: the name of the directory]
    #[arg(long)]
    source: Option<String>,
    /// The tag of documents whose front matter names none [default: the source]
    #[arg(long, value_name = "TAG")]
    doc_tag: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print a report for programs
    #[arg(long)]
    json: bool,
}

/// A file of more bytes is no document that anyone reads.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What became of each file.
#[derive(Default)]
struct Report {
    written: Vec<String>,
    unchanged: usize,
    closed: Vec<String>,
    failed: Vec<(String, String)>,
}

pub fn run(config: &Config, ingest: Ingest) -> anyhow::Result<Outcome> {
    if config.read_only {
        return Err(usage("`ingest` writes, and `--read-only` was given"));
    }
    let root =
        ingest.path.canonicalize().with_context(|| format!("{} can't be read", ingest.path.display()))?;
    let base = if root.is_file() { root.parent().unwrap_or(&root).to_owned() } else { root.clone() };
    let name = base.file_name().and_then(|name| name.to_str()).unwrap_or("documents").to_owned();
    let source = ingest.source.clone().unwrap_or(name);
    let engine = config.engine()?;
    let caller = config.caller();
    let scope = engine.snapshot()?.scope(&scope_name(&caller.scope).map_err(|stop| usage(stop.message))?)?;
    let doc_tag = ingest.doc_tag.clone().unwrap_or_else(|| source.clone());
    let intake = Intake { actor: caller.actor, origin: caller.origin, scope, source, doc_tag };
    let run = Run { engine: &engine, intake, base, dry_run: ingest.dry_run };
    let report = run.all(&root)?;
    run.tell(&report, ingest.json)?;
    Ok(if report.failed.is_empty() { Outcome::Done } else { Outcome::Failed })
}

struct Run<'a> {
    engine: &'a Engine,
    intake: Intake,
    /// What paths are given below.
    base: PathBuf,
    dry_run: bool,
}

impl Run<'_> {
    fn all(&self, root: &Path) -> anyhow::Result<Report> {
        let mut report = Report::default();
        let files = files(root, &self.base, &mut report);
        // Hidden where nobody looks at it.
        let bar = ProgressBar::new(files.len() as u64);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}").expect("a good template"),
        );
        let mut seen = BTreeSet::new();
        for (path, file) in files {
            bar.set_message(path.clone());
            seen.insert(path.clone());
            match self.one(&path, &file) {
                Ok(true) => report.written.push(path),
                Ok(false) => report.unchanged += 1,
                // The others go on.
                Err(error) => report.failed.push((path, format!("{error:#}"))),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let below = path_below(&self.base, root).unwrap_or_default();
        let snapshot = self.engine.snapshot()?;
        let failed: BTreeSet<String> = report.failed.iter().map(|(path, _)| path.clone()).collect();
        for stored in snapshot.documents_below(&self.intake.source, &below)? {
            let Record::Document(document) = &stored.record else { continue };
            // What can't be read now may be there all the same.
            if document.scope != self.intake.scope
                || seen.contains(&document.path)
                || failed.contains(&document.path)
            {
                continue;
            }
            if !self.dry_run {
                self.intake.close(self.engine, stored.id)?;
            }
            report.closed.push(document.path.clone());
        }
        Ok(report)
    }

    /// Takes one file in. False if it is there already, as it is.
    fn one(&self, path: &str, file: &Path) -> anyhow::Result<bool> {
        let bytes = std::fs::read(file).context("it can't be read")?;
        let format = Format::of(file).context("it is of no known format")?;
        let Some(document) = self.intake.prepare(self.engine, path, format, bytes)? else { return Ok(false) };
        if !self.dry_run {
            self.intake.put(self.engine, document)?;
        }
        Ok(true)
    }

    fn tell(&self, report: &Report, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            let failed: Vec<_> =
                report.failed.iter().map(|(path, why)| json!({"path": path, "error": why})).collect();
            let told = json!({
                "source": self.intake.source,
                "dry_run": self.dry_run,
                "written": report.written,
                "unchanged": report.unchanged,
                "closed": report.closed,
                "failed": failed,
            });
            print(&told.to_string())?;
            return Ok(());
        }
        for (path, why) in &report.failed {
            eprintln!("kenning: {path}: {why}");
        }
        let (took, closed) =
            if self.dry_run { ("Would take", "would be closed") } else { ("Took", "closed") };
        print(&format!(
            "{took} {} in as `{}`; {} unchanged, {} {closed}, {} failed",
            report.written.len(),
            self.intake.source,
            report.unchanged,
            report.closed.len(),
            report.failed.len()
        ))?;
        Ok(())
    }
}

/// The files that are documents, by their paths below the base.
fn files(root: &Path, base: &Path, report: &mut Report) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for entry in WalkBuilder::new(root).require_git(false).sort_by_file_path(Path::cmp).build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                report.failed.push(("?".to_owned(), error.to_string()));
                continue;
            }
        };
        let path = entry.path();
        if !entry.file_type().is_some_and(|kind| kind.is_file()) || Format::of(path).is_none() {
            continue;
        }
        let Some(name) = path_below(base, path) else {
            report.failed.push((path.to_string_lossy().into_owned(), "its name is not UTF-8".to_owned()));
            continue;
        };
        match entry.metadata().map(|about| about.len()) {
            Ok(bytes) if bytes > FILE_BYTES_MAX => {
                report
                    .failed
                    .push((name, format!("{bytes} bytes are more than the cap of {FILE_BYTES_MAX}")));
            }
            _ => files.push((name, path.to_owned())),
        }
    }
    files
}

fn path_below(base: &Path, path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.strip_prefix(base).ok()?.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}
