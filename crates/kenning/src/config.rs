//! Flags, then environment, then defaults, read once. The scope alone may also come from the project, which can change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use etcetera::BaseStrategy;
use kenning_engine::{Embedder, Engine};
use kenning_model::{Principal, ScopeName};
use kenning_presentation::Content;
use kenning_server::{Options, ToolNames, Toolsets};
use kenning_tools::project::{NamedBy, ProjectSettings, ScopeFinder};
use kenning_tools::{Access, Caller};

use crate::commands::{self, usage};

/// Where hosts say in which directory their session works: Claude Code, Gemini CLI and Cursor.
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

#[derive(Subcommand)]
pub enum Command {
    /// Speak MCP on stdin and stdout
    Serve(commands::serve::Serve),
    /// Call a tool and print its reply
    Call(commands::call::Call),
    /// Find entries by words and meaning
    Search(commands::search::Search),
    /// List what was changed, newest first
    History(commands::history::History),
    /// Show namespaces and scopes as a tree
    Scopes(commands::scopes::Scopes),
    /// Take documents or patterns in
    Ingest(commands::ingest::Ingest),
    /// List what was taken in, or remove it
    Documents(commands::documents::Documents),
    /// Take changes back
    Undo(commands::undo::Undo),
    /// Check the whole store against its log
    Verify(commands::verify::Verify),
    /// Copy the store to a file, while sessions go on
    Backup(commands::backup::Backup),
    /// Put a backup in the place of what the store has
    Restore(commands::backup::Restore),
    /// Make the search index again from the log
    Rebuild(commands::rebuild::Rebuild),
    /// Allow a project's files to name a scope
    Trust(commands::trust::Trust),
    /// Make, list and revoke keys for HTTP
    Token(commands::token::Token),
    /// Show what Kenning is for, on a temporary store
    Demo,
}

#[derive(Args)]
pub struct Config {
    /// Where the data is kept [default: the platform's data home]
    #[arg(long, env = "KENNING_DATA_DIR", global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The scope of calls that name none [default: the line `scope: NAMESPACE:SCOPE` of the project's CLAUDE.md, AGENTS.md, GEMINI.md, .cursor/rules, .github/copilot-instructions.md or .kenning.toml, else global:default]
    #[arg(long, env = "KENNING_SCOPE", global = true)]
    scope: Option<String>,
    /// Whether `scope` was given as a flag, or else by its variable.
    #[arg(skip)]
    has_scope_flag: bool,
    /// The name under which changes are recorded [default: the client's name]
    #[arg(long, env = "KENNING_ACTOR", global = true)]
    pub actor: Option<String>,
    /// Refuse everything that writes
    #[arg(long, env = "KENNING_READ_ONLY", global = true, value_parser = FalseyValueParser::new())]
    pub read_only: bool,
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
    /// The directory with model.safetensors, vocab.txt and config.json of the sentence encoder
    #[arg(long, env = "KENNING_MODEL_DIR", global = true, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
}

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
    /// What was typed; a wrong flag ends the process.
    pub fn read() -> Arguments {
        let matches = Arguments::command().get_matches();
        let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        arguments.config.has_scope_flag = matches.value_source("scope") == Some(ValueSource::CommandLine);
        arguments
    }
}

impl Config {
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.data_dir {
            return Ok(dir.clone());
        }
        let home = etcetera::choose_base_strategy().context("there is no home directory; use --data-dir")?;
        Ok(home.data_dir().join("kenning"))
    }

    pub fn engine(&self) -> anyhow::Result<Arc<Engine>> {
        let (dir, sources) = (self.data_dir()?, Engine::real_sources());
        let engine = if self.read_only { Engine::existing(dir, sources) } else { Engine::new(dir, sources) };
        Ok(Arc::new(engine.with_embedder(self.embedder()?)))
    }

    fn embedder(&self) -> anyhow::Result<Embedder> {
        match (self.embedder, &self.model_dir) {
            (Vectors::Table, _) => Ok(Embedder::Table),
            (Vectors::Minilm, Some(dir)) => minilm(dir),
            (Vectors::Minilm, None) => Err(usage("`--embedder minilm` needs `--model-dir`")),
        }
    }

    /// The scope that was named on the command line or in the environment.
    pub fn named_scope(&self) -> Option<&str> {
        self.scope.as_deref().filter(|scope| !scope.trim().is_empty())
    }

    fn project(&self) -> ProjectSettings {
        let by = if self.has_scope_flag { NamedBy::Flag } else { NamedBy::Environment };
        let mut variables = PROJECT_VARIABLES.into_iter().filter_map(std::env::var_os);
        ProjectSettings {
            named: self.named_scope().map(|scope| (scope.to_owned(), by)),
            given: variables.find(|dir| !dir.is_empty()).map(PathBuf::from),
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

    /// Who uses the terminal: the owner of the data directory.
    pub fn principal(&self) -> Principal {
        Principal::owner(self.actor.clone().unwrap_or_default(), Engine::new_origin())
    }

    /// The caller of a command on the terminal.
    pub fn caller(&self, engine: &Engine) -> Caller {
        let caller = Caller::of(&self.principal(), self.actor.as_deref(), everyones());
        Caller { has_graph: !self.no_graph, ..caller }.placed(&self.scope_finder(), engine)
    }

    /// Notes that a command has written to the scope that its flag names: the project's files may name the scope too.
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

/// The scope of those who name none.
fn everyones() -> String {
    ScopeName::global_default().to_string()
}

#[cfg(feature = "minilm")]
fn minilm(dir: &Path) -> anyhow::Result<Embedder> {
    Embedder::minilm(dir).map_err(|error| usage(error.to_string()))
}

#[cfg(not(feature = "minilm"))]
fn minilm(_: &Path) -> anyhow::Result<Embedder> {
    Err(usage(
        "this program has no sentence encoder; build it with `cargo build --release --features minilm`",
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    /// `docs/config.md` is written from the flags; `UPDATE_EXPECT=1` rewrites it.
    #[test]
    fn documentation_is_written_from_the_flags() {
        let mut page = "# Configuration\n\nWritten from the code by a test. Flags come before the environment, and both \
            before the defaults. Every flag may stand before or after the command.\n\n\
            | flag | environment | default | |\n|---|---|---|---|\n"
            .to_owned();
        for flag in Arguments::command().get_arguments().filter(|flag| flag.get_env().is_some()) {
            let name = flag.get_long().expect("a flag has a name");
            let variable = flag.get_env().and_then(|name| name.to_str()).expect("filtered");
            let default = flag.get_default_values().first().and_then(|value| value.to_str()).unwrap_or("");
            let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
            page.push_str(&format!("| `--{name}` | `{variable}` | {default} | {about} |\n"));
        }
        page.push_str("| | `KENNING_LOG` | warn | What is logged to stderr, as `tracing` filters |\n");
        page.push_str("\n## Commands\n\n| command | |\n|---|---|\n");
        for command in Arguments::command().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            page.push_str(&format!("| `kenning {}` | {about} |\n", command.get_name()));
        }
        page.push_str(
            "\n## Options of single commands\n\n| command | option | environment | |\n|---|---|---|---|\n",
        );
        for command in Arguments::command().get_subcommands() {
            for option in command.get_arguments().filter(|option| option.get_long().is_some()) {
                let name = option.get_long().expect("filtered");
                let variable = option.get_env().and_then(|name| name.to_str());
                let variable = variable.map(|name| format!("`{name}`")).unwrap_or_default();
                let about = option.get_help().map(ToString::to_string).unwrap_or_default();
                page.push_str(&format!("| `{}` | `--{name}` | {variable} | {about} |\n", command.get_name()));
            }
        }
        let path = "../../docs/config.md";
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &page).expect("the page can be rewritten");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "{path} is stale; run with UPDATE_EXPECT=1");
    }
}
