//! `kenning ingest`: takes files in as documents. What did not change is left alone; what is gone is closed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use ignore::WalkBuilder;
use indicatif::{ProgressBar, ProgressStyle};
use kenning_documents::{Format, Label, parse};
use kenning_engine::Engine;
use kenning_model::{Link, Mention, Record, ScopeId};
use kenning_storage::{NewDocument, NewSection, Request, Write};
use kenning_tools::scope_name;
use serde_json::json;
use sha2::{Digest, Sha256};

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
    let run = Run {
        engine: &engine,
        actor: caller.actor.clone(),
        origin: caller.origin.clone(),
        scope,
        doc_tag: ingest.doc_tag.clone().unwrap_or_else(|| source.clone()),
        source,
        base,
        dry_run: ingest.dry_run,
    };
    let report = run.all(&root)?;
    run.tell(&report, ingest.json)?;
    Ok(if report.failed.is_empty() { Outcome::Done } else { Outcome::Failed })
}

struct Run<'a> {
    engine: &'a Engine,
    actor: String,
    origin: String,
    scope: ScopeId,
    source: String,
    doc_tag: String,
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
        for stored in snapshot.documents_below(&self.source, &below)? {
            let Record::Document(document) = &stored.record else { continue };
            // What can't be read now may be there all the same.
            if document.scope != self.scope
                || seen.contains(&document.path)
                || failed.contains(&document.path)
            {
                continue;
            }
            if !self.dry_run {
                self.commit(Write::DeleteDocument { id: stored.id })?;
            }
            report.closed.push(document.path.clone());
        }
        Ok(report)
    }

    /// Takes one file in. False if it is there already, as it is.
    fn one(&self, path: &str, file: &Path) -> anyhow::Result<bool> {
        let bytes = std::fs::read(file).context("it can't be read")?;
        let hash = self.hash(&bytes);
        let there = self.engine.snapshot()?.documents_below(&self.source, path)?;
        let is_same = there
            .iter()
            .filter_map(|stored| stored.record.as_document())
            .any(|document| document.path == path && document.hash == hash && document.scope == self.scope);
        if is_same {
            return Ok(false);
        }
        let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("it is not UTF-8 text"))?;
        anyhow::ensure!(!text.contains('\0'), "it is a binary file");
        let format = Format::of(file).context("it is of no known format")?;
        let document = parse(format, path, &text)?;
        if self.dry_run {
            return Ok(true);
        }
        let new = self.document(path, hash, document);
        self.commit(Write::PutDocument(Box::new(new)))
    }

    fn document(&self, path: &str, hash: String, document: kenning_documents::Document) -> NewDocument {
        let title = document.title.clone();
        let section = |section: kenning_documents::Section| NewSection {
            level: section.level,
            heading_path: match section.heading_path.first() {
                // The first heading is most often the title; it is not said twice.
                Some(first) if *first == title => section.heading_path,
                _ => [vec![title.clone()], section.heading_path].concat(),
            },
            anchor: section.anchor,
            text: section.text,
            parent: section.parent,
            links: section
                .links
                .into_iter()
                .map(|link| Link { path: link.path, anchor: link.anchor })
                .collect(),
            mentions: section
                .mentions
                .into_iter()
                .map(|mention| Mention { label: label(mention.label).to_owned(), name: mention.name })
                .collect(),
        };
        NewDocument {
            scope: self.scope,
            source: self.source.clone(),
            path: path.to_owned(),
            doc_tag: document.about.doc_tag.unwrap_or_else(|| self.doc_tag.clone()),
            tags: document.about.tags,
            repository: document.about.repository,
            environment: document.about.environment,
            updated: document.about.updated,
            hash,
            sections: document.sections.into_iter().map(section).collect(),
            title: document.title,
        }
    }

    /// Of the bytes, and of what else decides what becomes of them.
    fn hash(&self, bytes: &[u8]) -> String {
        const SECTIONING: &str = "1";
        let mut hash = Sha256::new();
        hash.update(format!("{SECTIONING}\n{}\n", self.doc_tag));
        hash.update(bytes);
        data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
    }

    fn commit(&self, write: Write) -> anyhow::Result<bool> {
        let (actor, origin) = (self.actor.clone(), self.origin.clone());
        let request = Request { actor, origin, tool: "ingest".to_owned(), write, keyed: None };
        Ok(self.engine.commit(request)?.is_new)
    }

    fn tell(&self, report: &Report, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            let failed: Vec<_> =
                report.failed.iter().map(|(path, why)| json!({"path": path, "error": why})).collect();
            let told = json!({
                "source": self.source,
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
            self.source,
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

fn label(label: Label) -> &'static str {
    match label {
        Label::Code => "code",
        Label::Command => "command",
        Label::Term => "term",
        Label::Name => "name",
    }
}
