//! `kenning import`: takes over the memories of other programs, and the content of other stores.

mod blocks;
mod json;
mod log;
mod memory_server;
mod notes;
mod writer;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use kenning_engine::Engine;
use kenning_model::{Principal, ScopeId, ScopeName};
use kenning_tools::scope_name;
use serde_json::{Value, json};

use self::writer::{Report, Writer};
use super::log_file::{Head, Lines};
use super::purge::OfPurged;
use super::{Outcome, complain, path_on_terminal, print, usage};
use crate::config::Config;

/// What is there already is not written again. The exit code is 1 if something was not taken over.
#[derive(Args)]
#[command(after_help = "Examples:
  kenning import kenning.jsonl                # an export of Kenning: the same store, if this one is empty
  kenning import ~/memory.jsonl --dry-run     # the official memory server's file: say what would be written
  kenning import CLAUDE.md --pin              # each rule becomes an entry that every task gets
  kenning import ~/vault --from obsidian      # notes with observations and [[links]]")]
pub struct Import {
    /// A file, or a directory of Markdown notes
    path: PathBuf,
    /// What wrote it [default: told by its name and its content]
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,
    /// Pin every entry: it is given with every task
    #[arg(long)]
    pin: bool,
    /// Only say what would be written
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    of_purged: OfPurged,
    /// Print a report for programs
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// `kenning export`, as JSONL
    Kenning,
    /// memory.jsonl of the official memory server: entities, relations, observations
    MemoryServer,
    /// Markdown notes of Basic Memory
    BasicMemory,
    /// Markdown notes of Obsidian
    Obsidian,
    /// memories.json of Claude's data export
    Claude,
    /// Saved memories of ChatGPT, as JSON or as copied text
    Chatgpt,
    /// Memories of mem0 as JSON
    Mem0,
    /// An export of mcp-memory-service
    McpMemoryService,
    /// CLAUDE.md, AGENTS.md and the like: each bullet or paragraph is an entry
    Rules,
    /// Plain text, one memory for each bullet, paragraph or line
    List,
}

impl Format {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A file of another program is read as a whole, up to this size. JSON Lines are read line by line, so their
/// total size has no limit.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// At most this many refusals are shown; nobody reads a longer list on a terminal.
const REFUSALS_SHOWN: usize = 20;
/// The names of files with rules for agents.
const RULES: [&str; 8] = [
    "claude.md",
    "claude.local.md",
    "agents.md",
    "agent.md",
    "gemini.md",
    "copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
];

pub fn run(config: &Config, import: Import) -> anyhow::Result<Outcome> {
    if config.read_only && !import.dry_run {
        return Err(usage("`import` writes, and `--read-only` was given"));
    }
    if !import.path.exists() {
        complain(&format!("there is no file {}", import.path.display()));
        return Ok(Outcome::NotFound);
    }
    let file = Source::detect(&import.path, import.from)?;
    let engine = config.engine()?;
    if file.format == Format::Kenning {
        return log::run(config, &engine, &file, &import);
    }
    let target = Target::of(config, &engine, import.dry_run)?;
    let mut writer = Writer::new(&engine, &target, import.pin, import.dry_run)?;
    read(&file, &mut writer)?;
    let report = writer.finish()?;
    tell(&report, &file, &target.name.to_string(), import.json)
}

fn read(file: &Source, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let path = &file.path;
    match file.format {
        Format::MemoryServer => memory_server::read(path, writer),
        Format::BasicMemory | Format::Obsidian => notes::read(path, writer),
        Format::Claude | Format::Chatgpt | Format::Mem0 | Format::McpMemoryService => {
            let text = file.text()?;
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => json::read(&value, &file.label(), writer),
                // The text is no JSON: users also copy their saved memories from a web page.
                Err(_) if !text.trim_start().starts_with(['[', '{']) => {
                    blocks::read_list(&text, &file.label(), writer)
                }
                Err(error) => bail!("{} is no JSON: {error}", path.display()),
            }
        }
        Format::Rules => blocks::read_rules(&file.text()?, &file.label(), writer),
        Format::List => blocks::read_list(&file.text()?, &file.label(), writer),
        Format::Kenning => Ok(()),
    }
}

/// The file that is imported, and its format.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

impl Source {
    fn detect(path: &Path, said: Option<Format>) -> anyhow::Result<Source> {
        let of = |format| Ok(Source { path: path.to_owned(), format });
        let memories = path.join("memories.json");
        if path.is_dir() && memories.is_file() && matches!(said, None | Some(Format::Claude)) {
            return Ok(Source { path: memories, format: Format::Claude });
        }
        match said {
            Some(format) if path.is_dir() && !matches!(format, Format::BasicMemory | Format::Obsidian) => {
                let message =
                    format!("{} is a directory, and `{}` is one file", path.display(), format.name());
                return Err(usage(message));
            }
            Some(format) => return of(format),
            None if path.is_dir() => return of(Format::BasicMemory),
            None => {}
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if RULES.contains(&&*name) || name.ends_with(".mdc") {
            return of(Format::Rules);
        }
        if name.ends_with(".md") || name.ends_with(".markdown") {
            return of(Format::BasicMemory);
        }
        let input = File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
        let mut lines = Lines::new(BufReader::new(input));
        while let Some((_, line)) = lines.next()? {
            let line = line.unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if serde_json::from_str::<Head>(line).is_ok() {
                return of(Format::Kenning);
            }
            let first: Value = serde_json::from_str(line).unwrap_or_default();
            if first["kenning"].is_string() {
                bail!("{} was exported in a form that this program does not know", path.display());
            }
            if matches!(first["type"].as_str(), Some("entity" | "relation")) {
                return of(Format::MemoryServer);
            }
            if line.starts_with(['[', '{']) {
                let whole = Source { path: path.to_owned(), format: Format::List };
                let value = match serde_json::from_str(&whole.text()?) {
                    Ok(value) => value,
                    // Claude writes `[date]` before each memory, so such a text only looks like JSON.
                    Err(_) if !name.contains(".json") => return Ok(whole),
                    Err(error) => bail!("{} is no JSON: {error}", path.display()),
                };
                return match json::format_of(&value) {
                    Some(format) => of(format),
                    None => Err(usage(format!(
                        "nothing in {} looks like memories; `--from` says what wrote it",
                        path.display()
                    ))),
                };
            }
            break;
        }
        of(Format::List)
    }

    /// The whole file.
    fn text(&self) -> anyhow::Result<String> {
        let unreadable = || format!("{} can't be read", self.path.display());
        let file = File::open(&self.path).with_context(unreadable)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            bail!("{} has more bytes than the cap of {FILE_BYTES_MAX}", self.path.display());
        }
        let text =
            String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{} is not UTF-8", self.path.display()))?;
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    }

    /// The source that imported entries get: the file's name.
    pub(super) fn label(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The scope that entries are written to, and the principal that writes them.
pub(super) struct Target {
    pub(super) principal: Arc<Principal>,
    /// `None` if there is no store yet and a dry run must not make one.
    pub(super) scope: Option<ScopeId>,
    pub(super) name: ScopeName,
}

impl Target {
    pub(super) fn of(config: &Config, engine: &Engine, dry_run: bool) -> anyhow::Result<Target> {
        let caller = config.caller(engine);
        if let Some(refusal) = &caller.refusal {
            return Err(usage(refusal.message.clone()));
        }
        let name = scope_name(&caller.scope).map_err(|stop| usage(stop.message))?;
        let scope = match dry_run && !engine.is_there() {
            true if name == ScopeName::global_default() => None,
            true => bail!("there is no store yet, so there is no scope `{name}`"),
            false => Some(engine.snapshot(&caller.principal)?.scope(&name)?),
        };
        if !dry_run {
            config.trust_flag(engine, &caller);
        }
        Ok(Target { principal: caller.principal, scope, name })
    }
}

fn tell(report: &Report, file: &Source, scope: &str, as_json: bool) -> anyhow::Result<Outcome> {
    let refused: Vec<Value> = report
        .refused
        .iter()
        .map(|refusal| json!({"place": refusal.place, "line": refusal.line, "why": refusal.why}))
        .collect();
    if as_json {
        let line = json!({
            "format": file.format.name(),
            "scope": scope,
            "dry_run": report.dry_run,
            "entries": report.entries,
            "facts": report.triples,
            "unchanged": report.unchanged,
            "transactions": report.transactions,
            "refused": refused,
            "refused_count": report.refused_count,
            "notes": report.notes,
        });
        print(&line.to_string())?;
    } else {
        for refusal in report.refused.iter().take(REFUSALS_SHOWN) {
            let line = refusal.line.map(|line| format!(":{line}")).unwrap_or_default();
            complain(&format!("{}{line}: {}", path_on_terminal(&refusal.place), refusal.why));
        }
        if report.refused_count > REFUSALS_SHOWN as u64 {
            complain(&format!(
                "{} more were not taken; `--json` gives them",
                report.refused_count - REFUSALS_SHOWN as u64
            ));
        }
        for note in &report.notes {
            complain(note);
        }
        let done = if report.dry_run { "Would import" } else { "Imported" };
        print(&format!(
            "{done} {} and {} from {} ({}) into `{scope}`; {} there already, {} not taken",
            counted(report.entries, "entry", "entries"),
            counted(report.triples, "fact", "facts"),
            path_on_terminal(&file.label()),
            file.format.name(),
            report.unchanged,
            report.refused_count,
        ))?;
    }
    Ok(if report.refused_count == 0 { Outcome::Done } else { Outcome::Failed })
}

fn counted(many: u64, one: &str, more: &str) -> String {
    format!("{many} {}", if many == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: [&str; 9] = [
        "{\"kenning\":1,\"store\":\"0123456789abcdef\",\"schema\":1}\n{\"tx\":1}\n{\"change\":\"entry\",\"id\":\"a\",\"after\":{}}\n{\"end\":{}}\n",
        "{\"type\":\"entity\",\"name\":\"a\",\"entityType\":\"b\",\"observations\":[\"c\"]}\n{\"type\":\"relation\",\"from\":\"a\",\"to\":\"d\",\"relationType\":\"e\"}\n",
        "---\ntitle: T\ntype: note\ntags: [a, 'b']\npermalink: x/y\n---\n# T\n\n- [fact] tests run on 5433 #db (why)\n- uses [[Other Note]]\n",
        "[{\"conversations_memory\":\"**Work**\\nuses Rust\",\"project_memories\":{\"p\":\"x\"},\"account_uuid\":\"u\"}]",
        "{\"memories\":[{\"id\":\"1\",\"content\":\"likes tea\",\"created_at\":\"2026-01-01T00:00:00Z\"}]}",
        "{\"results\":[{\"id\":\"1\",\"memory\":\"likes tea\",\"user_id\":\"u\",\"created_at\":1700000000,\"categories\":[\"food\"]}]}",
        "{\"export_metadata\":{},\"memories\":[{\"content_hash\":\"h\",\"content\":\"c\",\"tags\":[\"t\"],\"memory_type\":\"note\"}]}",
        "# Rules\n\nscope: acme:web\n\n## Tests\nHere is how:\n- run them\n  ```sh\n  cargo test\n  ```\n\nA paragraph.\n",
        "[2026-01-02] likes tea\n\n- and coffee\n1. then bread\n",
    ];

    /// A damaged file is imported or refused, whatever program it is said to come from.
    #[test]
    fn any_file_is_imported_or_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let engine = Engine::new(dir.path().join("data"), Engine::real_sources());
        let target = Target {
            principal: Arc::new(Principal::owner(String::new(), Engine::new_origin())),
            scope: None,
            name: ScopeName::global_default(),
        };
        let path = dir.path().join("memories.txt");
        kenning_testkit::fuzz::run("import", &EXAMPLES, |input| {
            std::fs::write(&path, input).expect("writable");
            let formats = Format::value_variants().iter().copied().map(Some);
            for said in formats.chain([None]) {
                let Ok(file) = Source::detect(&path, said) else { continue };
                let mut writer =
                    Writer::new(&engine, &target, false, true).expect("a dry run needs no store");
                if file.format == Format::Kenning {
                    let _ = log::read_live(&file, &[], &mut writer);
                    let rows = log::LogRows::open(&path);
                    let _ = rows.and_then(|mut rows| {
                        while rows.next()?.is_some() {}
                        Ok(())
                    });
                } else {
                    let _ = read(&file, &mut writer);
                }
                let _ = writer.finish();
            }
        });
    }
}
