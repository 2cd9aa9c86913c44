//! The configuration, read once. Flags come first, then environment variables, the file of the project, the
//! file of the user, and defaults. Only the scope may also come from other files of the project, which can
//! change while the program runs.

mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use etcetera::BaseStrategy;
use kenning_engine::{Embedder, Engine};
use kenning_model::{Principal, ScopeName};
use kenning_presentation::Content;
use kenning_server::{Options, ToolNames, Toolsets};
use kenning_storage::{DatabaseUrl, Location};
use kenning_tools::project::{NamedBy, ProjectSettings, ScopeFinder};
use kenning_tools::recall::Recorder;
use kenning_tools::{Access, Caller};

use crate::commands::{Command, complain, hook, usage};
use crate::terminal::Color;

use files::{Files, settings};

/// Variables in which Claude Code, Gemini CLI and Cursor name the directory that their session works in.
const PROJECT_VARIABLES: [&str; 3] = ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR"];

/// Knowledge and memory for AI agents, over MCP.
#[derive(Parser)]
#[command(name = "kenning", version)]
pub struct Arguments {
    #[command(flatten)]
    pub config: Config,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Args, Clone)]
pub struct Config {
    /// Where the data is kept [default: the platform's data home]
    #[arg(long, env = "KENNING_DATA_DIR", global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// A PostgreSQL database that many servers share, instead of the data directory: postgres://user@host/database
    // The value has a password, which must not be shown by `--help`.
    #[arg(long, env = "KENNING_DATABASE", global = true, value_name = "URL", hide_env_values = true)]
    database: Option<String>,
    /// Which store of the database [default: `kenning_store` of the URL, else default]
    #[arg(long, env = "KENNING_STORE", global = true, value_name = "NAME")]
    store: Option<String>,
    /// The scope of calls that name none [default: the line `scope: NAMESPACE:SCOPE` of the project's CLAUDE.md, AGENTS.md, GEMINI.md, .cursor/rules, .github/copilot-instructions.md or .kenning.toml, else global:default]
    #[arg(long, env = "KENNING_SCOPE", global = true)]
    scope: Option<String>,
    /// Whether `scope` was given as a flag and not by its variable.
    #[arg(skip)]
    has_scope_flag: bool,
    /// The name under which changes are recorded [default: the client's name]
    #[arg(long, env = "KENNING_ACTOR", global = true)]
    pub actor: Option<String>,
    /// When to print in colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Refuse everything that writes
    #[arg(long, env = "KENNING_READ_ONLY", global = true, value_parser = FalseyValueParser::new())]
    pub read_only: bool,
    /// Keep no note of which entries were given to whom
    #[arg(long, env = "KENNING_NO_RECALL_LOG", global = true, value_parser = FalseyValueParser::new())]
    pub no_recall_log: bool,
    /// Do without the graph: no graph tools, and searches do not follow links
    #[arg(long, env = "KENNING_NO_GRAPH", global = true, value_parser = FalseyValueParser::new())]
    pub no_graph: bool,
    /// Which tools to list: auto, all, or families separated by commas
    #[arg(long, env = "KENNING_TOOLSETS", global = true, default_value = "auto")]
    pub toolsets: String,
    /// How to list names with a dot
    #[arg(long, env = "KENNING_TOOL_NAMES", global = true, default_value = "portable")]
    pub tool_names: Names,
    /// What replies consist of beside the structured reply: auto goes by the client's name
    #[arg(long, env = "KENNING_CONTENT", global = true, default_value = "auto")]
    pub content: Blocks,
    /// What meaning is judged by
    #[arg(long, env = "KENNING_EMBEDDER", global = true, default_value = "table")]
    pub embedder: Vectors,
    /// The directory with model.safetensors, vocab.txt and config.json of the sentence encoder [default: the one of `kenning model add`]
    #[arg(long, env = "KENNING_MODEL_DIR", global = true, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// The path of the user's settings file, even if the file does not exist.
    #[arg(skip)]
    pub user_file: Option<PathBuf>,
    /// Every setting with the value that is in force.
    #[arg(skip)]
    pub in_force: Vec<InForce>,
}

/// A setting, its value in the form in which a user would type it, and where the value comes from.
#[derive(Clone)]
pub struct InForce {
    pub name: String,
    pub value: String,
    pub origin: String,
}

/// Which commands show an option in their help. The other commands accept the option too, so that one command
/// line prefix works for all.
enum Help {
    OnlyOf(&'static [&'static str]),
    NotOf(&'static [&'static str]),
}

const WRITERS: &[&str] = &[
    "add",
    "call",
    "documents",
    "edit",
    "export",
    "import",
    "ingest",
    "mirror",
    "purge",
    "rm",
    "serve",
    "token",
    "trust",
    "ui",
    "undelete",
    "undo",
];
const SEARCHERS: &[&str] = &["call", "hook", "ingest", "list", "rebuild", "search", "serve", "ui"];
/// Commands that do not work in one scope, so `--scope` is not in their help.
const WHOLE: &[&str] = &[
    "audit",
    "backup",
    "completions",
    "config",
    "demo",
    "doctor",
    "man",
    "model",
    "purge",
    "rebuild",
    "restore",
    "scopes",
    "setup",
    "status",
    "verify",
];

const HELP: [(&str, Help); 9] = [
    ("data_dir", Help::NotOf(&["completions", "demo", "man"])),
    ("scope", Help::NotOf(WHOLE)),
    ("actor", Help::OnlyOf(WRITERS)),
    ("read_only", Help::OnlyOf(WRITERS)),
    ("no_graph", Help::OnlyOf(&["call", "serve", "ui"])),
    ("toolsets", Help::OnlyOf(&["serve"])),
    ("tool_names", Help::OnlyOf(&["serve"])),
    ("content", Help::OnlyOf(&["serve"])),
    ("embedder", Help::OnlyOf(SEARCHERS)),
];
/// The first option is shown wherever the second one is.
const TOGETHER: (&str, &str) = ("model_dir", "embedder");

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Vectors {
    /// The table of word vectors that is compiled in
    Table,
    /// A sentence encoder from --model-dir: finds paraphrases better, takes longer to take in what is new
    Minilm,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Names {
    /// kb_search
    Portable,
    /// kb.search
    Dotted,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Blocks {
    /// Text alone for hosts and agent frameworks, everything for programs
    Auto,
    /// Text alone, for clients that pass every block on to a model
    Text,
    /// Also embedded resources and links
    Full,
}

impl Arguments {
    /// Parses the command line; a wrong flag ends the process.
    pub fn read() -> anyhow::Result<Arguments> {
        // A hook must be silent: a host may show the hook's messages in its window, and takes any exit code
        // but 0 as an objection to the prompt.
        let is_hook = hook::is_called(std::env::args_os().skip(1));
        let (config_dir, home) = (etcetera::choose_base_strategy().ok(), etcetera::home_dir().ok());
        let config_dir = config_dir.map(|dirs| dirs.config_dir());
        let start = project_dir().or_else(|| std::env::current_dir().ok());
        let definition = Arguments::definition();
        let silent = |_: &str| ();
        let say: &dyn Fn(&str) = if is_hook { &silent } else { &complain };
        let files = Files::read(&definition, config_dir.as_deref(), start.as_deref(), home.as_deref(), say);
        let files = match files {
            Err(_) if is_hook => Files::default(),
            files => files?,
        };
        let matches = files.apply(definition.clone()).try_get_matches().unwrap_or_else(|error| {
            if is_hook && error.use_stderr() {
                std::process::exit(0);
            }
            error.exit()
        });
        let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let config = &mut arguments.config;
        config.has_scope_flag = matches.value_source("scope") == Some(ValueSource::CommandLine);
        config.in_force = in_force(&definition, &matches, &files, config.data_dir().ok());
        config.user_file = files.user;
        Ok(arguments)
    }

    /// All commands and options. Each option is in the help of those commands that use it.
    pub fn definition() -> clap::Command {
        let definition = Arguments::command();
        let shared: Vec<clap::Arg> =
            definition.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
        definition
            .mut_args(|arg| {
                let is_for_one = is_in_help(arg.get_id().as_str(), "");
                arg.hide(!is_for_one)
            })
            .mut_subcommands(|command| {
                let name = command.get_name().to_owned();
                let is_new =
                    |arg: &&clap::Arg| command.get_arguments().all(|own| own.get_id() != arg.get_id());
                let own_copy = |arg: &clap::Arg| arg.clone().hide(!is_in_help(arg.get_id().as_str(), &name));
                let copies: Vec<clap::Arg> = shared.iter().filter(is_new).map(own_copy).collect();
                command.args(copies)
            })
    }
}

/// Whether an option is in the help of a command; with an empty name, in the help of the program itself.
fn is_in_help(option: &str, command: &str) -> bool {
    let option = if option == TOGETHER.0 { TOGETHER.1 } else { option };
    match HELP.iter().find(|(known, _)| *known == option) {
        Some((_, Help::OnlyOf(commands))) => commands.contains(&command),
        Some((_, Help::NotOf(commands))) => !commands.contains(&command),
        None => true,
    }
}

/// The directory in which the host says that the session works.
fn project_dir() -> Option<PathBuf> {
    let mut variables = PROJECT_VARIABLES.into_iter().filter_map(std::env::var_os);
    variables.find(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Every setting with its value: flags come first, then the environment, files and defaults.
fn in_force(
    definition: &clap::Command,
    matches: &ArgMatches,
    files: &Files,
    data_dir: Option<PathBuf>,
) -> Vec<InForce> {
    let of_serve = matches.subcommand_matches("serve");
    let setting = |setting: files::Setting<'_>| {
        let (id, name) = (setting.arg.get_id().as_str(), setting.key.to_owned());
        let found = if setting.command.is_some() { of_serve } else { Some(matches) };
        let flag = found.filter(|found| {
            found.try_contains_id(id).unwrap_or(false)
                && found.value_source(id) == Some(ValueSource::CommandLine)
        });
        if let Some(found) = flag {
            let values = found.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy());
            let value = values.collect::<Vec<_>>().join(",");
            return InForce { name, value, origin: format!("--{}", setting.key) };
        }
        let variable = setting.arg.get_env().and_then(|variable| variable.to_str());
        if let Some(variable) = variable
            && let Ok(value) = std::env::var(variable)
        {
            return InForce { name, value, origin: variable.to_owned() };
        }
        if let Some((value, file)) = files.value(setting.key) {
            return InForce { name, value: value.to_owned(), origin: file.display().to_string() };
        }
        let default =
            setting.arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
        let is_data_dir = setting.key == "data-dir";
        let platforms = data_dir.as_ref().filter(|_| is_data_dir).map(|dir| dir.display().to_string());
        let value = platforms.or(default).unwrap_or_default();
        InForce { name, value, origin: "default".to_owned() }
    };
    settings(definition).into_iter().map(setting).collect()
}

impl Config {
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.data_dir {
            return Ok(dir.clone());
        }
        let home = etcetera::choose_base_strategy().context("there is no home directory; use --data-dir")?;
        Ok(home.data_dir().join("kenning"))
    }

    /// The location of the store.
    pub fn location(&self) -> anyhow::Result<Location> {
        let is_given = |text: &&String| !text.trim().is_empty();
        let store = self.store.as_ref().filter(is_given);
        let Some(url) = self.database.as_ref().filter(is_given) else {
            if store.is_some() {
                return Err(usage(
                    "`--store` names a store of a database; name the database with `--database`",
                ));
            }
            return Ok(Location::Directory(self.data_dir()?));
        };
        let url = DatabaseUrl::parse(url).and_then(|url| match store {
            Some(store) => url.with_store(store),
            None => Ok(url),
        });
        Ok(Location::Database(url.map_err(|error| usage(error.to_string()))?))
    }

    /// The directory on this machine for files that belong to the store: the store's own directory, or one
    /// for the caches of a database.
    pub fn local_dir(&self) -> anyhow::Result<PathBuf> {
        Ok(match self.location()? {
            Location::Directory(dir) => dir,
            Location::Database(url) => self.data_dir()?.join("databases").join(url.file_name()),
        })
    }

    pub fn engine(&self) -> anyhow::Result<Arc<Engine>> {
        let (location, caches, sources) = (self.location()?, self.local_dir()?, Engine::real_sources());
        if let Location::Database(_) = &location {
            make_private(&caches)?;
        }
        let engine = match self.read_only {
            true => Engine::open_existing(location, caches, sources),
            false => Engine::open(location, caches, sources),
        };
        Ok(Arc::new(engine.with_embedder(self.embedder()?)))
    }

    /// The engine of a process that answers one question quickly. It uses the compiled-in table for meaning,
    /// which needs no loading.
    pub fn engine_for_one_answer(&self) -> anyhow::Result<Arc<Engine>> {
        let (location, sources) = (self.location()?, Engine::real_sources());
        Ok(Arc::new(Engine::open_existing(location, self.local_dir()?, sources).for_one_answer()))
    }

    fn embedder(&self) -> anyhow::Result<Embedder> {
        match (self.embedder, &self.model_dir) {
            (Vectors::Table, _) => Ok(Embedder::Table),
            (Vectors::Minilm, Some(dir)) => minilm(dir),
            (Vectors::Minilm, None) => match self.added_model_dir()? {
                dir if dir.exists() => minilm(&dir),
                _ => Err(usage("`--embedder minilm` needs `kenning model add PATH` once, or `--model-dir`")),
            },
        }
    }

    /// Where `kenning model add` puts the files of the sentence encoder.
    pub fn added_model_dir(&self) -> anyhow::Result<PathBuf> {
        Ok(self.data_dir()?.join("model"))
    }

    /// The scope that was given on the command line or in the environment.
    pub fn named_scope(&self) -> Option<&str> {
        self.scope.as_deref().filter(|scope| !scope.trim().is_empty())
    }

    /// The scope that was given on the command line.
    pub fn flagged_scope(&self) -> Option<&str> {
        self.named_scope().filter(|_| self.has_scope_flag)
    }

    fn project(&self) -> ProjectSettings {
        let by = if self.has_scope_flag { NamedBy::Flag } else { NamedBy::Environment };
        ProjectSettings {
            named: self.named_scope().map(|scope| (scope.to_owned(), by)),
            given: project_dir(),
            working_dir: std::env::current_dir().ok(),
            home: etcetera::home_dir().ok(),
            fallback: None,
        }
    }

    pub fn scope_finder(&self) -> ScopeFinder {
        ScopeFinder::new(self.project())
    }

    pub fn access(&self) -> Access {
        if self.read_only { Access::ReadOnly } else { Access::ReadWrite }
    }

    /// The principal of the user at the terminal: the owner of the data directory.
    pub fn principal(&self) -> Principal {
        Principal::owner(self.actor.clone().unwrap_or_default(), Engine::new_origin())
    }

    /// The caller of a command on the terminal.
    pub fn caller(&self, engine: &Engine) -> Caller {
        let caller = Caller::of(&self.principal(), self.actor.as_deref(), everyones());
        Caller { has_graph: !self.no_graph, ..caller }.placed(&self.scope_finder(), engine)
    }

    /// Whether the recall log records which entries were given to whom.
    pub fn keeps_recall_log(&self) -> bool {
        !self.no_recall_log && !self.read_only
    }

    /// The caller of a hook. The scope is that of the directories that the host names, otherwise the same as
    /// for every command.
    pub fn caller_in(&self, engine: &Engine, dirs: Vec<PathBuf>, client: &str) -> Caller {
        let finder = self.scope_finder();
        finder.set_roots(dirs);
        let actor = self.actor.as_deref().unwrap_or(client);
        let caller = Caller::of(&self.principal(), Some(actor), everyones());
        Caller { has_graph: false, ..caller }.placed(&finder, engine)
    }

    /// Trusts the project to name the scope that was given as a flag, after a command has written to it.
    pub fn trust_flag(&self, engine: &Engine, caller: &Caller) {
        let is_own = |scope: &ScopeName| self.has_scope_flag && *scope != ScopeName::global_default();
        let Some(scope) = ScopeName::parse(&caller.scope).filter(is_own) else { return };
        if let Err(error) = caller.project.trust(engine, &caller.principal, &scope) {
            tracing::warn!("that this project uses `{scope}` can't be noted: {error}");
        }
    }

    pub fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            access: self.access(),
            tool_names: match self.tool_names {
                Names::Portable => ToolNames::Portable,
                Names::Dotted => ToolNames::Dotted,
            },
            toolsets: self.toolsets()?,
            actor: self.actor.clone(),
            principal: Arc::new(self.principal()),
            project: self.project(),
            has_graph: !self.no_graph,
            content: match self.content {
                Blocks::Auto => None,
                Blocks::Text => Some(Content::Text),
                Blocks::Full => Some(Content::Full),
            },
            recall: if self.keeps_recall_log() { Some(Recorder::start(self.local_dir()?)) } else { None },
            traces: None,
        })
    }

    fn toolsets(&self) -> anyhow::Result<Toolsets> {
        match self.toolsets.as_str() {
            "auto" => Ok(Toolsets::Auto),
            "all" => Ok(Toolsets::All),
            list => {
                let families: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
                let known: Vec<&str> = kenning_tools::families().collect();
                if let Some(unknown) = families.iter().find(|name| !known.contains(&name.as_str())) {
                    return Err(usage(format!(
                        "there is no toolset `{unknown}`; there are {}",
                        known.join(", ")
                    )));
                }
                Ok(Toolsets::Only(families))
            }
        }
    }
}

/// Makes a directory that only its owner can read.
fn make_private(dir: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).with_context(|| format!("{} can't be made", dir.display()))
}

#[cfg(not(feature = "minilm"))]
pub const NO_ENCODER: &str = "this program has no sentence encoder; build it with `cargo install --path crates/kenning --features minilm`";

/// The scope of callers that name none.
fn everyones() -> String {
    ScopeName::global_default().to_string()
}

#[cfg(feature = "minilm")]
fn minilm(dir: &Path) -> anyhow::Result<Embedder> {
    Embedder::minilm(dir).map_err(|error| usage(error.to_string()))
}

#[cfg(not(feature = "minilm"))]
fn minilm(_: &Path) -> anyhow::Result<Embedder> {
    Err(usage(NO_ENCODER))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use clap::{Arg, Command};

    use super::Arguments;

    /// Compares a generated page with the file in `docs`; `UPDATE_EXPECT=1` rewrites the file.
    fn check(path: &str, page: &str) {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, page).expect("the page can be rewritten");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "{path} is stale; run with UPDATE_EXPECT=1");
    }

    #[test]
    fn definitions_are_sound() {
        Arguments::definition().debug_assert();
    }

    #[test]
    fn documentation_is_written_from_the_flags() {
        let mut page = "# Configuration\n\nWritten from the code by a test. Flags come before the environment, the environment before \
            the project's `.kenning.toml`, that before the user's file (`kenning config path`), and all before the defaults. \
            A file has a line `name = value` for each setting, where the name is that of the flag without its dashes: \
            `toolsets = \"memory\"`, `read-only = true`, `namespaces = [\"acme\", \"docs=read\"]`. A project's file may set `toolsets`, \
            `tool-names`, `content` and `no-graph` alone, and name the scope: somebody else may have written it. \
            `kenning config show --origin` says what holds and why. Every flag may stand before or after the command.\n\n\
            | flag | environment | default | |\n|---|---|---|---|\n"
            .to_owned();
        let command = Arguments::definition();
        for flag in command.get_arguments().filter(|flag| flag.get_env().is_some()) {
            let name = flag.get_long().expect("a flag has a name");
            let variable = flag.get_env().and_then(|name| name.to_str()).expect("filtered");
            let default = flag.get_default_values().first().and_then(|value| value.to_str()).unwrap_or("");
            let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
            writeln!(page, "| `--{name}` | `{variable}` | {default} | {about} |").expect("a string");
        }
        page.push_str("| | `KENNING_LOG` | warn | What is logged to stderr, as `tracing` filters |\n");
        page.push_str("| `--color` | `NO_COLOR`, `CLICOLOR_FORCE` | auto | When to print in colour |\n");
        page.push_str("\n## Options of `serve`\n\n| option | environment | |\n|---|---|---|\n");
        let serve = command.find_subcommand("serve").expect("a command");
        for option in serve.get_arguments().filter(|option| !option.is_global_set()) {
            let Some(name) = option.get_long() else { continue };
            let variable = option.get_env().and_then(|name| name.to_str());
            let variable = variable.map(|name| format!("`{name}`")).unwrap_or_default();
            let about = option.get_help().map(ToString::to_string).unwrap_or_default();
            writeln!(page, "| `--{name}` | {variable} | {about} |").expect("a string");
        }
        page.push_str("\nThe options of all commands: [commands](cli.md).\n");
        check("../../docs/config.md", &page);
    }

    #[test]
    fn the_reference_is_written_from_the_commands() {
        let mut page = "# Commands\n\nWritten from the code by a test. Every command also takes the options of \
            [configuration](config.md). `--json` prints for programs: one document, or a line of JSON for each thing where the help says \
            so; the fields are those of the tools' [replies](tools.md) and stay. Where stdout is a terminal, output has colours and \
            fits its width; elsewhere lines are whole and plain (`NO_COLOR`, `CLICOLOR_FORCE` and `--color` decide otherwise).\n\n\
            Exit codes: 0 done, 1 failed, 2 bad usage, 3 not found, 5 the store is busy, the disk fails, or a server is not ready.\n"
            .to_owned();
        for command in Arguments::definition().get_subcommands() {
            describe(&mut page, command, "kenning", 2);
        }
        check("../../docs/cli.md", &page);
    }

    fn describe(page: &mut String, command: &Command, above: &str, level: usize) {
        let name = format!("{above} {}", command.get_name());
        let text =
            |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        let about = text(command.get_about());
        writeln!(page, "\n{} {name}\n\n{about}.", "#".repeat(level)).expect("a string");
        let own: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_global_set()).collect();
        if !own.is_empty() {
            page.push_str("\n| | |\n|---|---|\n");
        }
        for arg in own {
            let value = arg.get_value_names().and_then(|names| names.first());
            let value = value.filter(|_| arg.get_action().takes_values());
            let called = match (arg.get_short(), arg.get_long(), value) {
                (None, None, value) => value.map_or_else(|| arg.get_id().to_string(), ToString::to_string),
                (short, long, value) => {
                    let short = short.map(|short| format!("-{short}"));
                    let names: Vec<String> =
                        short.into_iter().chain(long.map(|long| format!("--{long}"))).collect();
                    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
                    format!("{}{value}", names.join(", "))
                }
            };
            let default = arg.get_default_values().first().and_then(|value| value.to_str());
            let default = default.filter(|_| arg.get_action().takes_values());
            let default = default.map(|value| format!(" [default: {value}]")).unwrap_or_default();
            let about = text(arg.get_help());
            let cell = |text: String| text.replace('|', "\\|");
            writeln!(page, "| `{}` | {}{} |", cell(called), cell(about), cell(default)).expect("a string");
        }
        let more = text(command.get_after_help());
        if let Some(examples) = more.strip_prefix("Examples:\n") {
            let (examples, rest) = examples.split_once("\n\n").unwrap_or((examples, ""));
            let lines: Vec<&str> = examples.lines().map(str::trim_start).collect();
            write!(page, "\n```sh\n{}\n```\n", lines.join("\n")).expect("a string");
            if !rest.is_empty() {
                writeln!(page, "\n{rest}").expect("a string");
            }
        }
        for inner in command.get_subcommands() {
            describe(page, inner, &name, level + 1);
        }
    }
}
