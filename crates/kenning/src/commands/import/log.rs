//! Imports an export of Kenning. Into an empty store the whole history is copied; into any other store the
//! live records are written as new entries and facts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, bail};
use kenning_engine::{Engine, PurgeNote, PurgedId};
use kenning_model::{EntityType, Entry, Id, Record, ScopeId, ScopeName, ScopeNames, Triple, TxId};
use kenning_storage::{LogItem, NewNamespace, NewScope, Request, Storage, Stored, Tree, Write};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::writer::{FoundEntry, FoundTriple, SourcePosition, Writer};
use super::{Import, Source, Target, tell};
use crate::commands::export::bar;
use crate::commands::live::live_records;
use crate::commands::log_file::{Content, FORMAT, Head, Lines, LogLine, LogReader, unreadable};
use crate::commands::{Outcome, complain, print, purge, usage};
use crate::config::Config;

pub(super) fn run(
    config: &Config,
    engine: &Engine,
    file: &Source,
    import: &Import,
) -> anyhow::Result<Outcome> {
    let Import { pin, dry_run, json: as_json, of_purged, .. } = *import;
    let head = head_of(&file.path)?;
    if head.format > FORMAT {
        bail!(
            "{} has format {}, and this program knows formats up to {FORMAT}; install a newer Kenning",
            file.path.display(),
            head.format
        );
    }
    let purged = match of_purged.with_purged {
        true => Vec::new(),
        false => still_has(&file.path, &purge::notes_of(engine.dir())?)?,
    };
    if !purged.is_empty() && !of_purged.purge_again {
        return Err(usage(purge::refusal("the file", &purged)));
    }
    if head.kenning == Content::Live {
        let target = Target::of(config, engine, dry_run)?;
        let mut writer = Writer::new(engine, &target, pin, dry_run)?;
        read_live(file, &purged, &mut writer)?;
        return tell(&writer.finish()?, file, &target.name.to_string(), as_json);
    }
    let is_empty = !engine.is_there() || engine.head()? == TxId::EMPTY;
    match is_empty && config.flagged_scope().is_none() && !pin {
        true => restore(config, engine, file, &purged, dry_run, as_json),
        false => by_content(config, engine, file, &purged, import),
    }
}

/// Restores the exported store exactly: transaction numbers, times, actors, ids and idempotency keys stay the
/// same.
fn restore(
    config: &Config,
    engine: &Engine,
    file: &Source,
    purged: &[PurgedId],
    dry_run: bool,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    // A dry run does all the work too, but writes into a temporary store.
    let (file, rows) = if dry_run {
        let aside = tempfile::tempdir()?;
        let storage = Storage::open(aside.path(), Engine::real_sources())?;
        (append(&file.path, &storage)?, verify(&storage)?)
    } else {
        let storage = engine.storage()?;
        let appended = append(&file.path, storage)?;
        if !purged.is_empty() {
            purge::remove_again(storage, purged, &config.principal())?;
            engine.finish_purge()?;
        }
        let done = (appended, verify(storage)?);
        engine.settle()?;
        done
    };
    let LogFile { transactions, changes, keys, sha256 } = file;
    let dir = config.data_dir()?;
    print(&match as_json {
        true => json!({
            "format": "kenning",
            "dry_run": dry_run,
            "transactions": transactions,
            "changes": changes,
            "keys": keys,
            "sha256": sha256,
            "log_rows": rows,
        })
        .to_string(),
        false => {
            let done = if dry_run { "Would restore" } else { "Restored" };
            format!(
                "{done} {transactions} transactions with {changes} changes into {}: all sound",
                dir.display()
            )
        }
    })?;
    Ok(Outcome::Done)
}

struct LogFile {
    transactions: u64,
    changes: u64,
    keys: u64,
    sha256: String,
}

fn append(path: &Path, storage: &Storage) -> anyhow::Result<LogFile> {
    let mut rows = LogRows::open(path)?;
    storage.append_log(|| rows.next())?;
    rows.end.context("the file has no last line")
}

/// Verifies the store and returns how many rows of the log were checked.
fn verify(storage: &Storage) -> anyhow::Result<u64> {
    let mut first = None;
    let verified = storage.backend().verify(&mut |damage| {
        first.get_or_insert(damage);
    })?;
    match first {
        None => Ok(verified.log_rows),
        Some(damage) => bail!("the imported store is not sound: {}: {}", damage.place, damage.what),
    }
}

/// The lines of an export of a whole log. The counts and the hash in the last line must agree with the lines
/// before it.
pub(super) struct LogRows {
    lines: Lines<BufReader<indicatif::ProgressBarIter<File>>>,
    name: String,
    reader: LogReader,
    end: Option<LogFile>,
}

impl LogRows {
    pub(super) fn open(path: &Path) -> anyhow::Result<LogRows> {
        let unreadable = || format!("{} can't be read", path.display());
        let file = File::open(path).with_context(unreadable)?;
        let bar = bar(file.metadata().with_context(unreadable)?.len());
        let mut lines = Lines::new(BufReader::new(bar.wrap_read(file)));
        lines.next()?;
        let name = path.display().to_string();
        Ok(LogRows { lines, name, reader: LogReader::new(), end: None })
    }

    pub(super) fn next(&mut self) -> anyhow::Result<Option<LogItem>> {
        let Some((number, line)) = self.lines.next()? else {
            match self.end {
                Some(_) => return Ok(None),
                None => bail!("{} ends too early, so nothing was imported; export it again", self.name),
            }
        };
        let refused = |why: String| anyhow::anyhow!("{}:{number}: {why}; nothing was imported", self.name);
        if self.end.is_some() {
            return Err(refused("it goes on after its last line".to_owned()));
        }
        match line.and_then(|line| self.reader.take(line)).map_err(refused)? {
            LogLine::Item(item) => Ok(Some(item)),
            LogLine::End(end) => {
                let (transactions, changes, keys) = (end.transactions, end.changes, end.keys);
                self.end = Some(LogFile { transactions, changes, keys, sha256: end.sha256 });
                self.next()
            }
        }
    }
}

/// Imports the records that are live in the export into the scopes of the same names. The log is first
/// written to a temporary store, so that only one page of it is in memory, however long it is.
fn by_content(
    config: &Config,
    engine: &Engine,
    file: &Source,
    purged: &[PurgedId],
    import: &Import,
) -> anyhow::Result<Outcome> {
    let Import { pin, dry_run, json: as_json, .. } = *import;
    let aside = tempfile::tempdir()?;
    let other = Storage::open(aside.path(), Engine::real_sources())?;
    append(&file.path, &other)?;
    let reader = other.reader()?;
    let at = reader.head()?;
    let tree = Tree::read(&*reader, at)?;
    let target = match config.flagged_scope() {
        Some(_) => Target::of(config, engine, dry_run)?,
        None => Target {
            principal: config.principal().into(),
            scope: Some(ScopeId::GLOBAL_DEFAULT),
            name: ScopeName::global_default(),
        },
    };
    let scope = target.scope.filter(|_| engine.is_there());
    let start = Target { principal: target.principal.clone(), scope, name: target.name.clone() };
    let mut writer = Writer::new(engine, &start, pin, dry_run)?;
    writer.note(
        "the store is not empty, so what is live in the export is imported by its content, with new ids and times; \
         `kenning import` into an empty store restores the history too"
            .to_owned(),
    );
    let label = file.label();
    let names = tree.names();
    for (namespace, _) in tree.namespaces() {
        for (_, scope) in tree.scopes(namespace) {
            let name = tree.name(scope);
            if config.flagged_scope().is_none()
                && !enter(engine, &target, &tree, &name, &mut writer, dry_run)?
            {
                continue;
            }
            let types = [EntityType::Entry, EntityType::Triple];
            live_records(&*reader, &types, Some(scope.number), at, |stored| {
                match is_among(purged, stored.id) {
                    true => Ok(()),
                    false => write(&stored, &label, &names, &mut writer),
                }
            })?;
            let others = [EntityType::Document];
            let mut documents = 0;
            live_records(&*reader, &others, Some(scope.number), at, |_| {
                documents += 1;
                Ok(())
            })?;
            if documents > 0 {
                writer.note(format!(
                    "{documents} documents of `{name}` are not imported; `kenning ingest` takes them in again"
                ));
            }
        }
    }
    let into = config
        .flagged_scope()
        .map_or_else(|| "scopes of their names".to_owned(), |_| target.name.to_string());
    tell(&writer.finish()?, file, &into, as_json)
}

/// Makes the writer continue in the scope with this name, and creates the scope if it does not exist. False
/// in a dry run that would have to create the scope.
fn enter(
    engine: &Engine,
    target: &Target,
    tree: &Tree,
    name: &ScopeName,
    writer: &mut Writer<'_>,
    dry_run: bool,
) -> anyhow::Result<bool> {
    if !engine.is_there() {
        return Ok(true);
    }
    let snapshot = engine.snapshot(&target.principal)?;
    let own = snapshot.tree()?;
    if let Some((_, scope)) = own.scope(name) {
        let number = scope.number;
        drop(snapshot);
        writer.go_to(number)?;
        return Ok(true);
    }
    if dry_run {
        writer.note(format!("the scope `{name}` would be made, and what it has be imported"));
        return Ok(false);
    }
    let commit = |write: Write| {
        let (principal, tool) = (target.principal.clone(), "import".to_owned());
        engine.commit(Request { principal, tool, write, keyed: None })
    };
    if own.namespace(&name.namespace).is_none()
        && let Some((_, namespace)) = tree.namespace(&name.namespace)
    {
        let new = NewNamespace { name: namespace.name.clone(), description: namespace.description.clone() };
        commit(Write::CreateNamespace(new))?;
        writer.note(format!("made the namespace `{}`", name.namespace));
    }
    drop(snapshot);
    let snapshot = engine.snapshot(&target.principal)?;
    if snapshot.tree()?.scope(name).is_none()
        && let Some((_, scope)) = tree.scope(name)
    {
        let (description, parents) = (scope.description.clone(), Vec::new());
        commit(Write::CreateScope(NewScope { name: name.clone(), description, parents }))?;
        writer.note(format!("made the scope `{name}`, which inherits from nothing yet"));
    }
    drop(snapshot);
    let number = engine.snapshot(&target.principal)?.scope(name)?;
    writer.go_to(number)?;
    Ok(true)
}

fn write(stored: &Stored, label: &str, names: &ScopeNames, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let place = format!("{label}, {} {}", stored.record.entity_type(), stored.id);
    let place = SourcePosition { file: &place, line: None };
    match &stored.record {
        Record::Entry(entry) => write_entry(entry, place, names, writer),
        Record::Triple(triple) => writer.triple(place, of_triple(triple)),
        _ => Ok(()),
    }
}

fn write_entry(
    entry: &Entry,
    place: SourcePosition<'_>,
    names: &ScopeNames,
    writer: &mut Writer<'_>,
) -> anyhow::Result<()> {
    if entry.status == kenning_model::Status::Suppressed {
        writer.refuse(place, format!("it is suppressed in `{}`", names.of(entry.scope)));
        return Ok(());
    }
    writer.entry(place, of_entry(entry))
}

fn of_entry(entry: &Entry) -> FoundEntry {
    let entry = entry.clone();
    FoundEntry {
        topic: entry.topic,
        content: entry.content,
        context: entry.context,
        tags: entry.tags,
        task_sizes: entry.task_sizes,
        source: entry.source,
        confidence: entry.confidence,
        pinned: entry.pinned,
        valid_from: entry.valid_from,
        valid_to: entry.valid_to,
    }
}

fn of_triple(triple: &Triple) -> FoundTriple {
    let Triple { subject, predicate, object, source, confidence, .. } = triple.clone();
    FoundTriple { subject, predicate, object, source, confidence }
}

/// Reads the live entries and facts of one scope.
pub(super) fn read_live(file: &Source, purged: &[PurgedId], writer: &mut Writer<'_>) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Line {
        change: Option<EntityType>,
        id: Option<Id>,
        after: Option<serde_json::Value>,
        end: Option<serde_json::Value>,
    }
    let input = File::open(&file.path).with_context(|| format!("{} can't be read", file.path.display()))?;
    let bar = bar(input.metadata()?.len());
    let mut lines = Lines::new(BufReader::new(bar.wrap_read(input)));
    lines.next()?;
    let label = file.label();
    let mut has_end = false;
    while let Some((number, line)) = lines.next()? {
        let place = SourcePosition { file: &label, line: Some(number) };
        let read =
            line.and_then(|line| serde_json::from_str::<Line>(line).map_err(|error| unreadable(&error)));
        let refused = match read {
            Ok(Line { id: Some(id), .. }) if is_among(purged, id) => continue,
            Ok(Line { change: Some(EntityType::Entry), after: Some(body), .. }) => {
                match serde_json::from_value::<Entry>(body) {
                    Ok(entry) => {
                        write_entry(&entry, place, &ScopeNames::default(), writer)?;
                        continue;
                    }
                    Err(error) => unreadable(&error),
                }
            }
            Ok(Line { change: Some(EntityType::Triple), after: Some(body), .. }) => {
                match serde_json::from_value::<Triple>(body) {
                    Ok(triple) => {
                        writer.triple(place, of_triple(&triple))?;
                        continue;
                    }
                    Err(error) => unreadable(&error),
                }
            }
            Ok(Line { end: Some(_), .. }) => {
                has_end = true;
                continue;
            }
            Ok(_) => "it is neither an entry nor a fact".to_owned(),
            Err(why) => why,
        };
        writer.refuse(place, refused);
    }
    bar.finish_and_clear();
    if !has_end {
        writer.refuse(
            SourcePosition { file: &label, line: None },
            "the file ends too early; what was there is imported",
        );
    }
    Ok(())
}

fn is_among(purged: &[PurgedId], id: Id) -> bool {
    purged.iter().any(|purged| purged.id == id)
}

/// The purged ids whose text an export still contains.
fn still_has(path: &Path, notes: &[PurgeNote]) -> anyhow::Result<Vec<PurgedId>> {
    #[derive(Deserialize)]
    struct Line {
        id: Option<Id>,
        after: Option<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: u32,
        purged: Option<IgnoredAny>,
    }
    let mut ids: BTreeMap<Id, PurgedId> = BTreeMap::new();
    for purged in notes.iter().flat_map(|note| &note.purged) {
        let last = &mut ids.entry(purged.id).or_insert(*purged).last_version;
        *last = purged.last_version.max(*last);
    }
    let mut found: BTreeMap<Id, PurgedId> = BTreeMap::new();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let input = File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
    let mut lines = Lines::new(BufReader::new(input));
    while let Some((_, line)) = lines.next()? {
        // A line that can't be read is refused when it is imported.
        let read = line.ok().and_then(|line| serde_json::from_str::<Line>(line).ok());
        let Some(Line { id: Some(id), after: Some(version) }) = read else { continue };
        if let Some(known) =
            ids.get(&id).filter(|known| version.purged.is_none() && version.version <= known.last_version)
        {
            found.insert(id, *known);
        }
    }
    Ok(found.into_values().collect())
}

/// Reads the first line of the export.
fn head_of(path: &Path) -> anyhow::Result<Head> {
    let input = File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
    let mut lines = Lines::new(BufReader::new(input));
    if let Some((_, Ok(line))) = lines.next()?
        && let Ok(head) = serde_json::from_str(line)
    {
        return Ok(head);
    }
    complain("an export of Kenning begins with a line that says so");
    Err(usage(format!("{} is no export of Kenning", path.display())))
}
