//! The table of hosts: where each keeps its configuration, how an entry looks there, and where its hooks are.
//!
//! A path begins with a directory that `Machine` knows, and is written with `/` on every platform.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::edit::{Format, Piece};
use super::machine::{Machine, Platform};

pub struct Host {
    /// The name of the host on the command line.
    pub id: &'static str,
    pub other_ids: &'static [&'static str],
    pub name: &'static str,
    /// Programs whose existence shows that the host is installed.
    pub programs: &'static [&'static str],
    /// Directories whose existence shows that the host is installed.
    pub traces: &'static [&'static str],
    pub servers: Servers,
    /// `None` for hosts that do not pass the answer of a hook on to the model.
    pub hooks: Option<Hooks>,
    /// The file in which the host's agents read instructions, and Kenning the line with the scope. `None` if
    /// the host does not know projects.
    pub instructions: Option<&'static str>,
    /// What the user has to do after the setup.
    pub next: &'static str,
    /// What the user has to do after the setup of hooks.
    pub next_for_hooks: &'static str,
    /// How the user can see that it works.
    pub check: &'static str,
}

/// Where the host lists MCP servers.
pub struct Servers {
    pub user: Where,
    pub project: Option<Where>,
    pub format: Format,
    /// The name of the object that contains all servers.
    pub under: &'static str,
    pub shape: Shape,
    /// Whether the host finds programs by name as a shell does. Desktop applications often don't.
    pub has_path: bool,
}

pub struct Hooks {
    pub user: Where,
    pub project: Where,
    /// The host's names for the events session start and prompt.
    pub events: [&'static str; 2],
    pub form: Form,
}

/// The paths of a file, by platform. If there are several paths, the first one that exists is used, or else
/// the first one.
pub struct Where {
    linux: &'static [&'static str],
    macos: &'static [&'static str],
    windows: &'static [&'static str],
    /// All paths that exist are used, because two kinds of installation read different files.
    every: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `command` and `args`.
    Plain,
    /// `command` and `args`, and `"type": "stdio"`.
    Typed,
    Copilot,
    Zed,
    Opencode,
    Goose,
}

/// The form in which a host expects a hook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Program and arguments, started without a shell.
    Claude,
    /// One line for a shell.
    Codex,
    /// The same as `Codex`, but with the timeout in milliseconds.
    Gemini,
    /// One line, without a group around it.
    Cursor,
    /// One line for each shell.
    Copilot,
}

/// After this many seconds a host stops waiting for a hook. The hook itself ends after a fraction of a
/// second.
const TIMEOUT_S: u64 = 5;

const fn everywhere(paths: &'static [&'static str]) -> Where {
    Where { linux: paths, macos: paths, windows: paths, every: false }
}

pub const HOSTS: [Host; 12] = [
    Host {
        id: "claude-code",
        other_ids: &["claude"],
        name: "Claude Code",
        programs: &["claude"],
        traces: &["$CLAUDE", "$CLAUDE_JSON/.claude.json"],
        servers: Servers {
            user: everywhere(&["$CLAUDE_JSON/.claude.json"]),
            project: Some(everywhere(&["$PROJECT/.mcp.json"])),
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: Some(Hooks {
            user: everywhere(&["$CLAUDE/settings.json"]),
            project: everywhere(&["$PROJECT/.claude/settings.json"]),
            events: ["SessionStart", "UserPromptSubmit"],
            form: Form::Claude,
        }),
        instructions: Some("CLAUDE.md"),
        next: "Start a new session of Claude Code; in one that runs, `/mcp` reconnects.",
        next_for_hooks: "Hooks run from the next session on; `/hooks` lists them.",
        check: "`claude mcp list` says that kenning is connected.",
    },
    Host {
        id: "claude-desktop",
        other_ids: &[],
        name: "Claude Desktop",
        programs: &[],
        traces: &[
            "~/Library/Application Support/Claude",
            "$CONFIG/Claude",
            "$APPDATA/Claude",
            "$LOCALAPPDATA/Packages/Claude_*",
        ],
        servers: Servers {
            user: Where {
                linux: &["$CONFIG/Claude/claude_desktop_config.json"],
                macos: &["~/Library/Application Support/Claude/claude_desktop_config.json"],
                windows: &[
                    "$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
                    "$APPDATA/Claude/claude_desktop_config.json",
                ],
                every: true,
            },
            project: None,
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: false,
        },
        hooks: None,
        instructions: None,
        next: "Quit Claude Desktop altogether and start it again.",
        next_for_hooks: "",
        check: "Settings > Developer lists kenning as running.",
    },
    Host {
        id: "codex",
        other_ids: &["codex-cli"],
        name: "Codex",
        programs: &["codex"],
        traces: &["$CODEX"],
        servers: Servers {
            user: everywhere(&["$CODEX/config.toml"]),
            project: Some(everywhere(&["$PROJECT/.codex/config.toml"])),
            format: Format::Toml,
            under: "mcp_servers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: Some(Hooks {
            user: everywhere(&["$CODEX/hooks.json"]),
            project: everywhere(&["$PROJECT/.codex/hooks.json"]),
            events: ["SessionStart", "UserPromptSubmit"],
            form: Form::Codex,
        }),
        instructions: Some("AGENTS.md"),
        next: "Start a new session of Codex.",
        next_for_hooks: "Codex skips hooks until you trust them: open `/hooks` in Codex once and trust both.",
        check: "`codex mcp list` shows kenning.",
    },
    Host {
        id: "gemini-cli",
        other_ids: &["gemini"],
        name: "Gemini CLI",
        programs: &["gemini"],
        traces: &["~/.gemini"],
        servers: Servers {
            user: everywhere(&["~/.gemini/settings.json"]),
            project: Some(everywhere(&["$PROJECT/.gemini/settings.json"])),
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: Some(Hooks {
            user: everywhere(&["~/.gemini/settings.json"]),
            project: everywhere(&["$PROJECT/.gemini/settings.json"]),
            events: ["SessionStart", "BeforeAgent"],
            form: Form::Gemini,
        }),
        instructions: Some("GEMINI.md"),
        next: "Start a new session of Gemini CLI.",
        next_for_hooks: "Hooks run from the next session on; `/hooks` lists them.",
        check: "`gemini mcp list` shows kenning.",
    },
    Host {
        id: "vscode",
        other_ids: &["vs-code", "code"],
        name: "VS Code",
        programs: &["code"],
        traces: &["$CONFIG/Code", "~/Library/Application Support/Code", "$APPDATA/Code"],
        servers: Servers {
            user: Where {
                linux: &["$CONFIG/Code/User/mcp.json"],
                macos: &["~/Library/Application Support/Code/User/mcp.json"],
                windows: &["$APPDATA/Code/User/mcp.json"],
                every: false,
            },
            project: Some(everywhere(&["$PROJECT/.vscode/mcp.json"])),
            format: Format::Json,
            under: "servers",
            shape: Shape::Typed,
            has_path: true,
        },
        hooks: Some(COPILOT_HOOKS),
        instructions: Some("AGENTS.md"),
        next: "VS Code asks whether it may trust the server when a chat first uses it.",
        next_for_hooks: "Hooks are a preview in VS Code, and an organisation may have switched them off.",
        check: "The command `MCP: List Servers` shows kenning as running.",
    },
    Host {
        id: "copilot-cli",
        other_ids: &["copilot"],
        name: "Copilot CLI",
        programs: &["copilot"],
        traces: &["$COPILOT"],
        servers: Servers {
            user: everywhere(&["$COPILOT/mcp-config.json"]),
            project: Some(everywhere(&["$PROJECT/.github/mcp.json"])),
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Copilot,
            has_path: true,
        },
        hooks: Some(COPILOT_HOOKS),
        instructions: Some("AGENTS.md"),
        next: "Start a new session of Copilot CLI.",
        next_for_hooks: "Hooks run from the next session on.",
        check: "`copilot mcp list` shows kenning; in a session, `/mcp` does.",
    },
    Host {
        id: "cursor",
        other_ids: &[],
        name: "Cursor",
        programs: &["cursor", "cursor-agent"],
        traces: &["~/.cursor"],
        servers: Servers {
            user: everywhere(&["~/.cursor/mcp.json"]),
            project: Some(everywhere(&["$PROJECT/.cursor/mcp.json"])),
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: Some(Hooks {
            user: everywhere(&["~/.cursor/hooks.json"]),
            project: everywhere(&["$PROJECT/.cursor/hooks.json"]),
            events: ["sessionStart", "beforeSubmitPrompt"],
            form: Form::Cursor,
        }),
        instructions: Some("AGENTS.md"),
        next: "Cursor starts the server by itself; if Settings > MCP shows it as disabled, enable it there.",
        next_for_hooks: "Hooks run from the next chat on.",
        check: "Settings > MCP shows kenning with its tools.",
    },
    Host {
        id: "zed",
        other_ids: &[],
        name: "Zed",
        programs: &["zed", "zeditor"],
        traces: &["$CONFIG/zed", "~/.config/zed", "$APPDATA/Zed"],
        servers: Servers {
            user: Where {
                linux: &["$CONFIG/zed/settings.json"],
                macos: &["~/.config/zed/settings.json"],
                windows: &["$APPDATA/Zed/settings.json"],
                every: false,
            },
            project: Some(everywhere(&["$PROJECT/.zed/settings.json"])),
            format: Format::Json,
            under: "context_servers",
            shape: Shape::Zed,
            has_path: true,
        },
        hooks: None,
        instructions: Some("AGENTS.md"),
        next: "Zed starts the server as soon as the file is saved.",
        next_for_hooks: "",
        check: "The settings of the Agent Panel show a green dot beside kenning.",
    },
    Host {
        id: "opencode",
        other_ids: &[],
        name: "opencode",
        programs: &["opencode"],
        traces: &["$CONFIG/opencode"],
        servers: Servers {
            user: everywhere(&["$CONFIG/opencode/opencode.json", "$CONFIG/opencode/opencode.jsonc"]),
            project: Some(everywhere(&["$PROJECT/opencode.json", "$PROJECT/opencode.jsonc"])),
            format: Format::Json,
            under: "mcp",
            shape: Shape::Opencode,
            has_path: true,
        },
        hooks: None,
        instructions: Some("AGENTS.md"),
        next: "Start opencode again.",
        next_for_hooks: "",
        check: "`opencode mcp list` shows kenning as connected.",
    },
    Host {
        id: "windsurf",
        other_ids: &["devin-desktop"],
        name: "Windsurf",
        programs: &["windsurf"],
        traces: &["~/.codeium/windsurf"],
        servers: Servers {
            user: everywhere(&["~/.codeium/windsurf/mcp_config.json"]),
            project: None,
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: None,
        instructions: Some("AGENTS.md"),
        next: "Refresh the list of MCP servers in Windsurf's settings, or start Windsurf again.",
        next_for_hooks: "",
        check: "The MCP servers in Cascade's settings show kenning with its tools.",
    },
    Host {
        id: "junie",
        other_ids: &[],
        name: "Junie",
        programs: &["junie"],
        traces: &["~/.junie"],
        servers: Servers {
            user: everywhere(&["~/.junie/mcp/mcp.json"]),
            project: Some(everywhere(&["$PROJECT/.junie/mcp/mcp.json"])),
            format: Format::Json,
            under: "mcpServers",
            shape: Shape::Plain,
            has_path: true,
        },
        hooks: None,
        instructions: Some("AGENTS.md"),
        next: "Start a new session of Junie. JetBrains' AI Assistant has a list of its own: paste there what `--print` shows.",
        next_for_hooks: "",
        check: "Settings > Tools > Junie > MCP Settings shows kenning.",
    },
    Host {
        id: "goose",
        other_ids: &[],
        name: "Goose",
        programs: &["goose"],
        traces: &["$CONFIG/goose", "$APPDATA/Block/goose"],
        servers: Servers {
            user: Where {
                linux: &["$CONFIG/goose/config.yaml"],
                macos: &["$CONFIG/goose/config.yaml"],
                windows: &["$APPDATA/Block/goose/config/config.yaml"],
                every: false,
            },
            project: None,
            format: Format::Yaml,
            under: "extensions",
            shape: Shape::Goose,
            has_path: true,
        },
        hooks: None,
        instructions: Some("AGENTS.md"),
        next: "Start a new session of Goose.",
        next_for_hooks: "",
        check: "`goose info -v` shows kenning among the extensions.",
    },
];

/// VS Code and Copilot CLI read the same directory, so both run the hooks of this one file.
const COPILOT_HOOKS: Hooks = Hooks {
    user: everywhere(&["$COPILOT/hooks/kenning.json"]),
    project: everywhere(&["$PROJECT/.github/hooks/kenning.json"]),
    events: ["sessionStart", "userPromptSubmitted"],
    form: Form::Copilot,
};

/// The program that a host starts, and its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: String,
    /// The arguments after `serve` or `hook`: the data directory, if it is not the default one.
    pub arguments: Vec<String>,
    /// The scope, for `serve` only.
    pub scope: Option<String>,
}

/// A file of a host, and our pieces that belong into it.
pub struct Target {
    pub path: PathBuf,
    pub format: Format,
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    User,
    Project,
}

impl Host {
    pub fn find(id: &str) -> Option<&'static Host> {
        HOSTS.iter().find(|host| host.id == id || host.other_ids.contains(&id))
    }

    pub fn is_installed(&self, machine: &Machine) -> bool {
        self.programs.iter().any(|name| machine.on_path(name).is_some())
            || self.traces.iter().flat_map(|trace| machine.expand(trace)).any(|path| path.exists())
    }

    /// The files that get the entry. `None` if the host has no files at this level.
    pub fn server_targets(&self, machine: &Machine, level: Level, launch: &Launch) -> Option<Vec<Target>> {
        let servers = &self.servers;
        let place = match level {
            Level::User => &servers.user,
            Level::Project => servers.project.as_ref()?,
        };
        let value = servers.shape.entry(launch);
        let piece = Piece::Entry { path: vec![servers.under, "kenning"], value };
        let targets = place.paths(machine).into_iter().map(|path| Target {
            path,
            format: servers.format,
            pieces: vec![piece.clone()],
        });
        Some(targets.collect())
    }

    pub fn hook_targets(&self, machine: &Machine, level: Level, launch: &Launch) -> Vec<Target> {
        let Some(hooks) = &self.hooks else { return Vec::new() };
        let place = match level {
            Level::User => &hooks.user,
            Level::Project => &hooks.project,
        };
        let pieces = hooks.pieces(machine.platform, launch);
        let target = |path| Target { path, format: Format::Json, pieces: pieces.clone() };
        place.paths(machine).into_iter().map(target).collect()
    }
}

impl Where {
    pub fn paths(&self, machine: &Machine) -> Vec<PathBuf> {
        let written = match machine.platform {
            Platform::Linux => self.linux,
            Platform::MacOs => self.macos,
            Platform::Windows => self.windows,
        };
        let all: Vec<PathBuf> = written.iter().flat_map(|path| machine.expand(path)).collect();
        let dir_is_there = |path: &PathBuf| path.parent().is_some_and(|dir| dir.exists());
        let mut there: Vec<PathBuf> = match self.every {
            true => all.iter().filter(|path| dir_is_there(path)).cloned().collect(),
            false => all.iter().find(|path| path.exists()).cloned().into_iter().collect(),
        };
        if there.is_empty() {
            there.extend(if self.every { all.into_iter().next_back() } else { all.into_iter().next() });
        }
        there
    }
}

impl Shape {
    fn entry(self, launch: &Launch) -> Map<String, Value> {
        let program = &launch.program;
        let mut args = vec!["serve".to_owned()];
        args.extend(launch.arguments.iter().cloned());
        if let Some(scope) = &launch.scope {
            args.extend(["--scope".to_owned(), scope.clone()]);
        }
        let value = match self {
            Shape::Plain => json!({"command": program, "args": args}),
            Shape::Typed => json!({"type": "stdio", "command": program, "args": args}),
            Shape::Copilot => json!({"type": "local", "command": program, "args": args, "tools": ["*"]}),
            Shape::Zed => json!({"command": program, "args": args, "env": {}}),
            Shape::Opencode => {
                args.insert(0, program.clone());
                json!({"type": "local", "command": args, "enabled": true})
            }
            Shape::Goose => {
                json!({"type": "stdio", "name": "kenning", "cmd": program, "args": args, "enabled": true})
            }
        };
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The program that an entry starts.
    pub fn program_of(self, entry: &Value) -> Option<&str> {
        match self {
            Shape::Opencode => entry["command"].get(0)?.as_str(),
            Shape::Goose => entry["cmd"].as_str(),
            Shape::Plain | Shape::Typed | Shape::Copilot | Shape::Zed => entry["command"].as_str(),
        }
    }
}

impl Hooks {
    fn pieces(&self, platform: Platform, launch: &Launch) -> Vec<Piece> {
        let preamble = match self.form {
            Form::Cursor | Form::Copilot => Some(Piece::Preamble { name: "version", value: json!(1) }),
            Form::Claude | Form::Codex | Form::Gemini => None,
        };
        let value = self.form.hook(platform, launch);
        let hooks = self.events.map(|event| Piece::Hook { path: vec!["hooks", event], value: value.clone() });
        preamble.into_iter().chain(hooks).collect()
    }
}

impl Form {
    pub fn hook(self, platform: Platform, launch: &Launch) -> Value {
        let mut words = vec![launch.program.clone(), "hook".to_owned()];
        words.extend(launch.arguments.iter().cloned());
        let line = |shell: Shell| shell.line(&words);
        let usual = if platform == Platform::Windows { Shell::Power } else { Shell::Posix };
        match self {
            Form::Claude => json!({"hooks": [
                {"type": "command", "command": words[0], "args": words[1..], "timeout": TIMEOUT_S}
            ]}),
            Form::Codex => {
                let shell = if platform == Platform::Windows { Shell::Cmd } else { Shell::Posix };
                json!({"hooks": [{"type": "command", "command": line(shell), "timeout": TIMEOUT_S}]})
            }
            Form::Gemini => json!({"hooks": [
                {"type": "command", "name": "kenning", "command": line(usual), "timeout": TIMEOUT_S * 1000}
            ]}),
            Form::Cursor => json!({"command": line(usual), "timeout": TIMEOUT_S}),
            Form::Copilot => json!({
                "type": "command",
                "bash": line(Shell::Posix),
                "powershell": line(Shell::Power),
                "timeoutSec": TIMEOUT_S,
            }),
        }
    }
}

/// The shell that reads the command line of a hook.
#[derive(Clone, Copy)]
enum Shell {
    Posix,
    Cmd,
    /// PowerShell
    Power,
}

impl Shell {
    fn line(self, words: &[String]) -> String {
        let quoted: Vec<String> = words.iter().map(|word| self.quoted(word)).collect();
        let line = quoted.join(" ");
        // PowerShell reads a quoted word at the beginning as a string and not as a program.
        match self {
            Shell::Power if line.starts_with('\'') => format!("& {line}"),
            _ => line,
        }
    }

    fn quoted(self, word: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:=+,@".contains(c);
        let is_separator = |c: char| c == '\\' && !matches!(self, Shell::Posix);
        if !word.is_empty() && word.chars().all(|c| is_plain(c) || is_separator(c)) {
            return word.to_owned();
        }
        match self {
            Shell::Posix => format!("'{}'", word.replace('\'', r"'\''")),
            Shell::Cmd => format!("\"{word}\""),
            Shell::Power => format!("'{}'", word.replace('\'', "''")),
        }
    }
}
