//! `kenning export`: writes everything in a form that other programs can read.

mod files;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use kenning_engine::Engine;
use kenning_model::{EntityType, Record, ScopeId, ScopeName, ScopeNames, TxId};
use kenning_storage::{LogItem, Reader, Stored, read_log};
use kenning_tools::scope_name;
use mcp_dual_response::{Column, ColumnType, Row, csv};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::live::live_records;
use super::log_file::{Content, End, FORMAT, Head, LogWriter};
use super::{Outcome, complain, existing_store, usage};
use crate::config::Config;

/// Without `--scope` it is everything, whatever scope the project names.
#[derive(Args)]
#[command(after_help = "Examples:
  kenning export -o kenning.jsonl                      # the whole history; `kenning import` makes the same store of it
  kenning export --format md -o notes                  # a file for each entry, in a folder for each scope
  kenning --scope acme:web export --format csv | head  # what one scope has, as a table")]
pub struct Export {
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Where to write: a file, or for Markdown a directory that is empty or not there yet [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every transaction with all its changes, one line of JSON each; with --scope the live entries and facts of the scope
    #[default]
    Jsonl,
    /// A Markdown file for each live entry, with its fields in front matter
    Md,
    /// A table of the live entries
    Csv,
}

pub fn run(config: &Config, export: Export) -> anyhow::Result<Outcome> {
    if existing_store(config)?.is_none() {
        return Ok(Outcome::NotFound);
    }
    let engine = config.engine()?;
    let source = Source::open(config, &engine)?;
    let said = match (export.format, &export.output) {
        (Format::Md, None) => return Err(usage("Markdown is many files; name a directory with `--output`")),
        (Format::Md, Some(dir)) => files::write(&source, dir)?,
        (Format::Jsonl, output) => write_output(output.as_deref(), |out| source.write_jsonl(out))?,
        (Format::Csv, output) => write_output(output.as_deref(), |out| source.write_csv(out))?,
    };
    let Some(said) = said else { return Ok(Outcome::Done) };
    if let Some(output) = &export.output {
        complain(&format!("{said}, as of transaction {}, to {}", source.at, output.display()));
    }
    Ok(Outcome::Done)
}

/// A store as of the transaction that was the newest when the export began. Later writes of other processes
/// are left out.
pub(super) struct Source<'a> {
    engine: &'a Engine,
    reader: Box<dyn Reader + 'a>,
    pub(super) at: TxId,
    /// If set, only this scope is exported.
    scope: Option<(ScopeId, ScopeName)>,
    names: ScopeNames,
}

impl<'a> Source<'a> {
    fn open(config: &Config, engine: &'a Engine) -> anyhow::Result<Source<'a>> {
        let principal = config.principal();
        let snapshot = engine.snapshot(&principal)?;
        let scope = match config.flagged_scope() {
            Some(named) => {
                let name = scope_name(named).map_err(|stop| usage(stop.message))?;
                Some((snapshot.scope(&name)?, name))
            }
            None => None,
        };
        let names = snapshot.tree()?.names();
        Ok(Source { engine, reader: engine.storage()?.reader()?, at: snapshot.at(), scope, names })
    }

    /// Passes the live records of these types to `take`, and shows a progress bar on a terminal.
    pub(super) fn live(
        &self,
        entity_types: &[EntityType],
        mut take: impl FnMut(Stored) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let bar = bar(self.at.0);
        let mut many = 0;
        let scope = self.scope.as_ref().map(|(number, _)| *number);
        live_records(&*self.reader, entity_types, scope, self.at, |stored| {
            bar.set_position(stored.tx_id.0);
            many += 1;
            take(stored)
        })?;
        bar.finish_and_clear();
        self.check_store()?;
        Ok(many)
    }

    pub(super) fn scope_of(&self, scope: ScopeId) -> String {
        self.names.of(scope)
    }

    /// Fails if the store was replaced by `kenning restore` while it was being read.
    fn check_store(&self) -> anyhow::Result<()> {
        match self.reader.store_id()? == self.engine.storage()?.backend().info()?.id {
            true => Ok(()),
            false => bail!("the store was restored while it was exported; export it again"),
        }
    }

    fn write_jsonl(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let store = self.reader.store_id()?;
        let head = Head {
            kenning: if self.scope.is_some() { Content::Live } else { Content::Log },
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            store: store.to_string(),
            at_tx: self.at.0,
            scope: self.scope.as_ref().map(|(_, name)| name.to_string()),
        };
        let mut writer = LogWriter::begin(out, &head)?;
        match self.scope {
            None => {
                let bar = bar(self.at.0);
                read_log(&*self.reader, self.at, |item| {
                    if let LogItem::Row(row) = &item {
                        bar.set_position(row.tx_id);
                    }
                    writer.item(&item).map_err(anyhow::Error::from)
                })?;
                bar.finish_and_clear();
                self.check_store()?;
            }
            Some(_) => {
                self.live(&[EntityType::Entry, EntityType::Triple], |stored| {
                    let body = match &stored.record {
                        Record::Entry(entry) => serde_json::to_string(entry)?,
                        Record::Triple(triple) => serde_json::to_string(triple)?,
                        _ => return Ok(()),
                    };
                    let of = stored.record.entity_type();
                    Ok(writer.change(of, stored.id.as_str(), Some(&body))?)
                })?;
            }
        }
        let (_, End { transactions, changes, .. }) = writer.end()?;
        Ok(match self.scope {
            None => format!("exported {transactions} transactions with {changes} changes"),
            Some(_) => format!("exported {changes} entries and facts"),
        })
    }

    fn write_csv(&self, out: &mut dyn Write) -> anyhow::Result<String> {
        let columns: Vec<Column> =
            COLUMNS.iter().map(|name| Column::new(*name, ColumnType::String)).collect();
        let mut buffer = Vec::new();
        csv::write_header(&mut buffer, &columns);
        out.write_all(&buffer)?;
        let many = self.live(&[EntityType::Entry], |stored| {
            buffer.clear();
            csv::write_row(&mut buffer, &columns, &self.row(&stored)?);
            Ok(out.write_all(&buffer)?)
        })?;
        Ok(format!("exported {many} entries"))
    }

    fn row(&self, stored: &Stored) -> anyhow::Result<Row> {
        let Some(entry) = stored.record.as_entry() else { bail!("`{}` is no entry", stored.id) };
        let Value::Object(mut fields) = serde_json::to_value(entry)? else { bail!("an entry is an object") };
        let sizes: Vec<String> = entry.task_sizes.iter().map(|size| format!("{size:?}")).collect();
        fields.insert("id".to_owned(), json!(stored.id));
        fields.insert("scope".to_owned(), json!(self.scope_of(entry.scope)));
        fields.insert("tags".to_owned(), json!(entry.tags.join(", ")));
        fields.insert("task_sizes".to_owned(), json!(sizes.join(", ")));
        fields.insert("pinned".to_owned(), json!(entry.pinned));
        Ok(fields)
    }
}

/// The columns of the CSV table of entries.
const COLUMNS: [&str; 17] = [
    "id",
    "scope",
    "topic",
    "content",
    "tags",
    "context",
    "task_sizes",
    "source",
    "confidence",
    "valid_from",
    "valid_to",
    "status",
    "pinned",
    "follows",
    "actor",
    "recorded_at",
    "updated_at",
];

/// A progress bar. It is hidden when stderr is not a terminal.
pub(super) fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}").expect("a good template"));
    bar
}

/// Writes to standard output, or to a file, which is written completely or not at all. `None` if the program
/// that reads standard output stopped reading.
fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<String>,
) -> anyhow::Result<Option<String>> {
    let Some(path) = path else {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = write(&mut out).and_then(|said| Ok(out.flush().map(|()| said)?));
        return match written {
            Err(error) if is_closed(&error) => Ok(None),
            written => written.map(Some),
        };
    };
    if path.is_dir() {
        return Err(usage(format!("{} is a directory; name a file", path.display())));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unwritable = || format!("{} can't be written", path.display());
    let file = NamedTempFile::new_in(dir).with_context(unwritable)?;
    let mut out = BufWriter::new(file);
    let said = write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(unwritable)?;
    file.as_file().sync_all().with_context(unwritable)?;
    file.persist(path).with_context(unwritable)?;
    Ok(Some(said))
}

fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
