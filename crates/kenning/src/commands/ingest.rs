//! `kenning ingest`: takes files in as documents. An unchanged file is skipped, and the document of a deleted
//! file is closed.

mod files;
mod in_flight;
mod source;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use kenning_engine::{DocumentKind, Engine, Format, Intake, KnownDocument, OfOneId, Prepared, root_of};
use kenning_model::{ScopeId, ScopeName, Timestamp};
use kenning_tools::scope_name;
use serde_json::json;

use self::files::{FILE_BYTES_MAX, File, Listed, path_below, read_below};
use self::in_flight::InFlight;
use super::{Outcome, complain, path_on_terminal, print, usage};
use crate::config::Config;

/// The exit code is 1 if a file could not be taken in, after all others were. Links are named and not followed.
#[derive(Args)]
pub struct Ingest {
    /// A directory or a file
    path: PathBuf,
    /// What the files are [default: what the source was taken in as, else documents]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// How plain text (`.txt`), and a file that is named itself, is written; to be said with each run
    #[arg(long, value_enum, default_value_t)]
    format: FormatOption,
    /// What the documents belong to [default: what the directory, or one that it is in, was taken in as, else its name]
    #[arg(long)]
    source: Option<String>,
    /// The source was taken in from another place: this is its directory now
    #[arg(long, conflicts_with = "watch")]
    moved: bool,
    /// The tag of documents whose front matter names none [default: the one that the source had, else its name]
    #[arg(long, value_name = "TAG")]
    doc_tag: Option<String>,
    /// Only say what would be done
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Go on taking in what changes, until interrupted
    #[arg(long)]
    watch: bool,
    /// Print a report for programs; with `--watch` a line for each time that something changed
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Markdown, MDX, HTML, reStructuredText, AsciiDoc, Org, notebooks and plain text
    Documents,
    /// A catalogue: Markdown and MDX whose front matter describes a pattern
    Patterns,
}

impl From<Kind> for DocumentKind {
    fn from(kind: Kind) -> DocumentKind {
        match kind {
            Kind::Documents => DocumentKind::Plain,
            Kind::Patterns => DocumentKind::Pattern,
        }
    }
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum FormatOption {
    /// As its name says; plain text may be reStructuredText, as its content says
    #[default]
    Auto,
    Md,
    Mdx,
    Html,
    Rst,
    Adoc,
    Org,
    Ipynb,
    Txt,
}

impl FormatOption {
    fn format(self) -> Option<Format> {
        Some(match self {
            FormatOption::Auto => return None,
            FormatOption::Md => Format::Markdown,
            FormatOption::Mdx => Format::Mdx,
            FormatOption::Html => Format::Html,
            FormatOption::Rst => Format::Restructured,
            FormatOption::Adoc => Format::Asciidoc,
            FormatOption::Org => Format::Org,
            FormatOption::Ipynb => Format::Notebook,
            FormatOption::Txt => Format::Plain,
        })
    }
}

/// How many files are read, cut and committed at once. More than one, so that all cores are used and several
/// commits share one sync of the disk.
const WORKERS: usize = 16;

/// At most this many warnings are shown; nobody reads a longer list on a terminal.
const WARNINGS_MAX: usize = 20;

/// The result of a run, for each file.
#[derive(Default)]
struct Report {
    written: Vec<String>,
    unchanged: usize,
    closed: Vec<String>,
    failed: Vec<(String, String)>,
    /// Warnings for the authors of the documents.
    warnings: Vec<(String, String)>,
    /// Symbolic links, which were skipped.
    links: Vec<String>,
    /// The names of other sources that contain a part of the same files.
    twice: Vec<String>,
}

pub fn run(config: &Config, ingest: Ingest) -> anyhow::Result<Outcome> {
    if config.read_only {
        return Err(usage("`ingest` writes, and `--read-only` was given"));
    }
    let root =
        ingest.path.canonicalize().with_context(|| format!("{} can't be read", ingest.path.display()))?;
    let directory = if root.is_file() { root.parent().unwrap_or(&root) } else { &root };
    let engine = config.engine()?;
    let caller = config.caller(&engine);
    if let Some(refusal) = &caller.refusal {
        return Err(usage(refusal.message.clone()));
    }
    let scope = scope_name(&caller.scope).map_err(|stop| usage(stop.message))?;
    let (scope, sources) = match ingest.dry_run && !engine.is_there() {
        false => {
            let snapshot = engine.snapshot(&caller.principal)?;
            let scope = snapshot.scope(&scope)?;
            (scope, snapshot.document_sources(scope)?)
        }
        true if scope == ScopeName::global_default() => (ScopeId::GLOBAL_DEFAULT, Vec::new()),
        true => bail!("there is no store yet, so there is no scope `{scope}`"),
    };
    if !ingest.dry_run {
        config.trust_flag(&engine, &caller);
    }
    let chosen = source::choose(directory, ingest.source.as_deref(), ingest.moved, &sources)?;
    let doc_tag = ingest.doc_tag.or(chosen.default_tag).unwrap_or_else(|| chosen.name.clone());
    let intake = Intake {
        principal: caller.principal,
        scope,
        source: chosen.name,
        kind: ingest.kind.map(DocumentKind::from).or(chosen.kind).unwrap_or(DocumentKind::Plain),
        doc_tag,
        root: root_of(&chosen.base),
    };
    let run = Run {
        engine: &engine,
        intake,
        root,
        base: chosen.base,
        has_moved: chosen.has_moved,
        format: ingest.format.format(),
        dry_run: ingest.dry_run,
        stopped: AtomicBool::new(false),
    };
    if ingest.watch {
        watch::run(run, ingest.json)?;
        return Ok(Outcome::Done);
    }
    let places = [run.root.clone()];
    let listed = run.list(&places);
    let twice = source::within(&listed.dirs, &run.intake.source, &sources);
    let report = Report { twice, ..run.take_in(&places, listed)? };
    run.tell(&report, ingest.json)?;
    Ok(if report.failed.is_empty() { Outcome::Done } else { Outcome::Failed })
}

struct Run<'a> {
    engine: &'a Engine,
    intake: Intake,
    /// The directory or file that is to be taken in.
    root: PathBuf,
    /// The directory of the source. Paths of documents are relative to it.
    base: PathBuf,
    /// The source was taken in from another directory before. Its documents carry the old location, so all of
    /// them are written again.
    has_moved: bool,
    /// The format that was given for plain text, and for a file that was itself named on the command line.
    format: Option<Format>,
    dry_run: bool,
    /// Set when the run is to stop: no further file is begun.
    stopped: AtomicBool,
}

/// The result for one file.
enum FileOutcome {
    /// The file was written, with the id of its pattern if it is one.
    Stored {
        pattern: Option<String>,
        warnings: Vec<String>,
    },
    Unchanged,
    /// The file was deleted after it was listed.
    Gone,
}

/// The results of all files of one run.
#[derive(Default)]
struct IntakeResults {
    report: Report,
    /// The paths of files that were deleted after they were listed.
    gone: HashSet<String>,
    /// For each pattern id, the paths of the files that have it.
    patterns: BTreeMap<String, BTreeSet<String>>,
}

impl Run<'_> {
    fn list(&self, places: &[PathBuf]) -> Listed {
        files::list(&self.root, &self.base, places, &|path| self.format_of(path))
    }

    /// The format of a file; `None` if files of this kind are not taken in.
    fn format_of(&self, path: &Path) -> Option<Format> {
        let by_name = Format::of(path);
        let is_said = by_name == Some(Format::Text) || path == self.root;
        let format = self.format.filter(|_| is_said).or(by_name)?;
        let is_of_kind = match self.intake.kind {
            DocumentKind::Plain => true,
            DocumentKind::Pattern => matches!(format, Format::Markdown | Format::Mdx),
        };
        is_of_kind.then_some(format)
    }

    /// Takes in the files that were listed at these places, and closes the documents whose files are gone.
    fn take_in(&self, places: &[PathBuf], listed: Listed) -> anyhow::Result<Report> {
        let mut known: HashMap<String, KnownDocument> = HashMap::new();
        // A dry run must not create a store.
        let may_know = !self.dry_run || self.engine.is_there();
        for place in places.iter().filter(|_| may_know) {
            let Some(below) = path_below(&self.base, place) else { continue };
            let there = self.intake.known(self.engine, &below)?;
            known.extend(there.into_iter().map(|document| (document.path.clone(), document)));
        }
        let IntakeResults { mut report, gone, patterns } = self.take_files(&listed.files, &known);
        // If the run was stopped early, a file that was not reached may still exist, so nothing is closed.
        if !self.stopped.load(Ordering::Relaxed) {
            let there: HashSet<&str> = listed
                .files
                .iter()
                .map(|file| file.path.as_str())
                .filter(|path| !gone.contains(*path))
                .collect();
            let is_gone = |path: &str| !there.contains(path) && !listed.may_have(path);
            let mut closed: Vec<_> = known.values().filter(|known| is_gone(&known.path)).collect();
            closed.sort_by(|one, other| one.path.cmp(&other.path));
            self.close(&closed, &mut report);
        }
        if !self.dry_run && !report.written.is_empty() {
            self.engine.settle()?;
        }
        report.warnings.extend(self.warnings_for_duplicate_pattern_ids(patterns)?);
        report.failed.extend(listed.failed);
        report.links = listed.links;
        report.written.sort();
        report.failed.sort();
        report.warnings.sort();
        Ok(report)
    }

    /// Warnings about patterns that a search can't find, because another pattern has the same id. `patterns`
    /// has the paths of each id that was written.
    fn warnings_for_duplicate_pattern_ids(
        &self,
        patterns: BTreeMap<String, BTreeSet<String>>,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let hidden = match (self.intake.kind, self.dry_run) {
            (DocumentKind::Plain, _) => Vec::new(),
            (DocumentKind::Pattern, false) => self
                .engine
                .snapshot(&self.intake.principal)?
                .patterns_of_one_id(self.intake.scope, &self.intake.source)?,
            // A dry run compares only the files of this run, not the documents in the store.
            (DocumentKind::Pattern, true) => {
                let hidden = |(id, paths): (String, BTreeSet<String>)| -> Vec<OfOneId> {
                    let mut paths: Vec<String> = paths.into_iter().collect();
                    paths.sort_by_key(|path| path.matches('/').count());
                    let mut paths = paths.into_iter();
                    let first = paths.next().unwrap_or_default();
                    let of_it =
                        |path| OfOneId { path, id: id.clone(), other: first.clone(), is_found: false };
                    paths.map(of_it).collect()
                };
                patterns.into_iter().flat_map(hidden).collect()
            }
        };
        let warning = |OfOneId { path, id, other, is_found }: OfOneId| {
            let which = if is_found { "is not found any more" } else { "is the one that is found" };
            (path, format!("its id `{id}` is that of {other} too, which {which}"))
        };
        Ok(hidden.into_iter().map(warning).collect())
    }

    fn take_files(&self, files: &[File], known: &HashMap<String, KnownDocument>) -> IntakeResults {
        // The progress bar is hidden when stderr is not a terminal.
        let bar = ProgressBar::new(files.len() as u64);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}").expect("a good template"),
        );
        let left = Mutex::new(files.iter());
        // This is a closure, because a lock guard in the loop's condition would be held while the loop's body
        // runs.
        let next = || locked(&left).next();
        let in_flight = InFlight::default();
        let done = Mutex::new(IntakeResults::default());
        let work = || {
            while !self.stopped.load(Ordering::Relaxed)
                && let Some(file) = next()
            {
                bar.set_message(path_on_terminal(&file.path));
                let _permit = in_flight.enter(file.bytes);
                let outcome = self.take(file, known.get(&file.path));
                let IntakeResults { report, gone, patterns } = &mut *locked(&done);
                match outcome {
                    Ok(FileOutcome::Stored { pattern, warnings }) => {
                        report.written.push(file.path.clone());
                        let of_it = |warning| (file.path.clone(), warning);
                        report.warnings.extend(warnings.into_iter().map(of_it));
                        if let Some(id) = pattern {
                            patterns.entry(id).or_default().insert(file.path.clone());
                        }
                    }
                    Ok(FileOutcome::Unchanged) => report.unchanged += 1,
                    Ok(FileOutcome::Gone) => drop(gone.insert(file.path.clone())),
                    // A failure of one file does not stop the others.
                    Err(error) => report.failed.push((file.path.clone(), format!("{error:#}"))),
                }
                bar.inc(1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..WORKERS.min(files.len()) {
                scope.spawn(work);
            }
            work();
        });
        bar.finish_and_clear();
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, file: &File, known: Option<&KnownDocument>) -> anyhow::Result<FileOutcome> {
        let (bytes, about) = match read_below(&self.base, Path::new(&file.path), FILE_BYTES_MAX) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileOutcome::Gone),
            Err(error) => return Err(error).context("it can't be read"),
        };
        let format = self.format_of(&file.at).context("it is of no known format")?;
        let known = known.filter(|_| !self.has_moved);
        let files = |path: &str| files::text_below(&self.base, path);
        let Some(prepared) = self.intake.prepare(&file.path, format, bytes, &files, known)? else {
            return Ok(FileOutcome::Unchanged);
        };
        let Prepared { mut document, warnings } = prepared;
        let pattern = document.pattern.as_ref().map(|pattern| pattern.id.clone());
        document.updated = document.updated.or_else(|| modified(&about));
        if !self.dry_run {
            self.intake.put(self.engine, document)?;
        }
        Ok(FileOutcome::Stored { pattern, warnings })
    }

    fn close(&self, gone: &[&KnownDocument], report: &mut Report) {
        for known in gone {
            let closed = if self.dry_run { Ok(()) } else { self.intake.close(self.engine, known) };
            match closed {
                Ok(()) => report.closed.push(known.path.clone()),
                Err(error) => report.failed.push((known.path.clone(), error.to_string())),
            }
        }
    }

    fn tell(&self, report: &Report, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            let told = |list: &[(String, String)], what: &str| -> Vec<_> {
                list.iter().map(|(path, why)| json!({"path": path, what: why})).collect()
            };
            let line = json!({
                "source": self.intake.source,
                "dry_run": self.dry_run,
                "written": report.written,
                "unchanged": report.unchanged,
                "closed": report.closed,
                "failed": told(&report.failed, "error"),
                "warnings": told(&report.warnings, "warning"),
                "links": report.links,
                "twice": report.twice,
            });
            print(&line.to_string())?;
            return Ok(());
        }
        for (path, why) in report.failed.iter().chain(report.warnings.iter().take(WARNINGS_MAX)) {
            complain(&format!("{}: {why}", path_on_terminal(path)));
        }
        if let Some(more) = report.warnings.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
            complain(&format!("{more} more warnings; `--json` gives all"));
        }
        for path in &report.links {
            complain(&format!("{}: it is a link, and links are not followed", path_on_terminal(path)));
        }
        for name in &report.twice {
            complain(&format!(
                "`{name}` was taken in from a part of this, so its documents are there twice; \
                 `kenning documents {name} --remove` takes that source out"
            ));
        }
        let (took, closed) =
            if self.dry_run { ("Would take", "would be closed") } else { ("Took", "closed") };
        let warned = match report.warnings.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            many => format!(", {many} warnings"),
        };
        print(&format!(
            "{took} {} in as `{}`; {} unchanged, {} {closed}, {} failed{warned}",
            report.written.len(),
            self.intake.source,
            report.unchanged,
            report.closed.len(),
            report.failed.len()
        ))?;
        Ok(())
    }
}

/// When the file was last changed. `None` if the system does not tell; then the time of the run is used.
fn modified(about: &std::fs::Metadata) -> Option<Timestamp> {
    let modified = Timestamp::try_from(about.modified().ok()?).ok()?;
    // The log keeps times in milliseconds.
    Timestamp::from_millisecond(modified.as_millisecond()).ok()
}

/// Locks a mutex, also after a panic of another thread: no holder leaves the guarded value half changed.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        engine: Engine,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().expect("a directory");
            let engine = Engine::new(dir.path().join("data"), Engine::real_sources());
            fs::create_dir(dir.path().join("docs")).expect("a directory");
            Place { dir, engine }
        }

        fn run(&self) -> Run<'_> {
            let root = self.dir.path().join("docs").canonicalize().expect("a path");
            let [source, doc_tag] = ["docs", "docs"].map(str::to_owned);
            let principal = kenning_model::Principal::owner("me", "here").into();
            let (scope, kind) = (ScopeId::GLOBAL_DEFAULT, DocumentKind::Plain);
            let intake = Intake { principal, scope, source, kind, doc_tag, root: root_of(&root) };
            Run {
                engine: &self.engine,
                intake,
                base: root.clone(),
                root,
                has_moved: false,
                format: None,
                dry_run: false,
                stopped: AtomicBool::new(false),
            }
        }
    }

    #[test]
    fn a_file_that_goes_after_it_was_listed_is_gone() {
        let place = Place::new();
        let run = place.run();
        for name in ["stays.md", "goes.md"] {
            fs::write(run.root.join(name), "# Title\n\nText.\n").expect("a file");
        }
        let places = [run.root.clone()];
        let report = run.take_in(&places, run.list(&places)).expect("a run");
        assert_eq!(report.written, ["goes.md", "stays.md"]);
        let listed = run.list(&places);
        fs::remove_file(run.root.join("goes.md")).expect("it was there");
        let report = run.take_in(&places, listed).expect("a run");
        assert_eq!((report.closed, report.unchanged, report.failed), (vec!["goes.md".to_owned()], 1, vec![]));
    }

    /// After the files were listed, one is replaced by a symbolic link, one by a pipe that nobody writes to, and
    /// the directory of a third one by a link.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_swapped_after_it_was_listed_is_not_read() {
        use std::os::unix::fs::symlink;
        let place = Place::new();
        let run = place.run();
        let secret = place.dir.path().join("secret.md");
        fs::write(&secret, "# Secret\n\nThe password.\n").expect("a file");
        fs::create_dir(run.root.join("part")).expect("a directory");
        for name in ["link.md", "pipe.md", "part/secret.md", "stays.md"] {
            fs::write(run.root.join(name), "# Title\n\nText.\n").expect("a file");
        }
        let places = [run.root.clone()];
        let listed = run.list(&places);
        assert_eq!(listed.files.len(), 4);
        for name in ["link.md", "pipe.md"] {
            fs::remove_file(run.root.join(name)).expect("it was there");
        }
        symlink(&secret, run.root.join("link.md")).expect("a link");
        let made = std::process::Command::new("mkfifo").arg(run.root.join("pipe.md")).status();
        assert!(made.expect("mkfifo runs").success());
        fs::remove_dir_all(run.root.join("part")).expect("it was there");
        symlink(place.dir.path(), run.root.join("part")).expect("a link");
        let report = run.take_in(&places, listed).expect("a run");
        assert_eq!(report.written, ["stays.md"]);
        let failed: Vec<&str> = report.failed.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(failed, ["link.md", "part/secret.md", "pipe.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_file_includes_is_below_its_directory_and_no_link() {
        let place = Place::new();
        let root = place.dir.path().join("docs").canonicalize().expect("a path");
        fs::write(place.dir.path().join("outside.md"), "outside").expect("a file");
        fs::create_dir(root.join("part")).expect("a directory");
        fs::write(root.join("part/inside.md"), "inside").expect("a file");
        std::os::unix::fs::symlink("part/inside.md", root.join("link.md")).expect("a link");
        let text = |path: &str| files::text_below(&root, path);
        assert_eq!(text("part/inside.md").as_deref(), Some("inside"));
        assert_eq!(text("part/../part/inside.md").as_deref(), None, "a part begins with a dot");
        assert_eq!((text("../outside.md"), text("link.md"), text("part")), (None, None, None));
    }
}
