//! Each host's files before Kenning is set up, after it, and after its removal. `tests/setup/HOST.md` shows
//! them; `UPDATE_EXPECT=1` rewrites those pages.

use super::Place;

struct Case {
    host: &'static str,
    file: &'static str,
    under: &'static str,
    hooks: Option<Hooks>,
    project: Option<&'static str>,
}

struct Hooks {
    file: &'static str,
    event: &'static str,
    is_grouped: bool,
}

const fn grouped(file: &'static str, event: &'static str) -> Option<Hooks> {
    Some(Hooks { file, event, is_grouped: true })
}

const fn flat(file: &'static str, event: &'static str) -> Option<Hooks> {
    Some(Hooks { file, event, is_grouped: false })
}

const fn case(
    host: &'static str,
    file: &'static str,
    under: &'static str,
    hooks: Option<Hooks>,
    project: Option<&'static str>,
) -> Case {
    Case { host, file, under, hooks, project }
}

const CASES: [Case; 12] = [
    case(
        "claude-code",
        ".claude.json",
        "mcpServers",
        grouped(".claude/settings.json", "SessionStart"),
        Some(".mcp.json"),
    ),
    case("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", None, None),
    case(
        "codex",
        ".codex/config.toml",
        "mcp_servers",
        grouped(".codex/hooks.json", "SessionStart"),
        Some(".codex/config.toml"),
    ),
    case(
        "gemini-cli",
        ".gemini/settings.json",
        "mcpServers",
        grouped(".gemini/settings.json", "BeforeAgent"),
        Some(".gemini/settings.json"),
    ),
    case(
        "vscode",
        ".config/Code/User/mcp.json",
        "servers",
        flat(".copilot/hooks/kenning.json", "sessionStart"),
        Some(".vscode/mcp.json"),
    ),
    case(
        "copilot-cli",
        ".copilot/mcp-config.json",
        "mcpServers",
        flat(".copilot/hooks/kenning.json", "userPromptSubmitted"),
        Some(".github/mcp.json"),
    ),
    case(
        "cursor",
        ".cursor/mcp.json",
        "mcpServers",
        flat(".cursor/hooks.json", "beforeSubmitPrompt"),
        Some(".cursor/mcp.json"),
    ),
    case("zed", ".config/zed/settings.json", "context_servers", None, Some(".zed/settings.json")),
    case("opencode", ".config/opencode/opencode.json", "mcp", None, Some("opencode.json")),
    case("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", None, None),
    case("junie", ".junie/mcp/mcp.json", "mcpServers", None, Some(".junie/mcp/mcp.json")),
    case("goose", ".config/goose/config.yaml", "extensions", None, None),
];

/// The files of a user who has other servers and hooks, comments and formatting of their own.
struct Before {
    servers: String,
    hooks: Option<String>,
}

impl Case {
    fn path(&self) -> String {
        format!("home/{}", self.file)
    }

    fn hooks_path(&self) -> Option<String> {
        Some(format!("home/{}", self.hooks.as_ref()?.file))
    }

    /// The files before the setup. With `with_ours` they also have an entry and hooks of an older
    /// installation.
    fn before(&self, with_ours: bool) -> Before {
        let ours = |lines: &str| if with_ours { lines.to_owned() } else { String::new() };
        let hooks = self.hooks.as_ref().map(|hooks| {
            let (other, old) = match hooks.is_grouped {
                true => (
                    r#"{ "matcher": "x", "hooks": [{ "type": "command", "command": "other" }] }"#,
                    r#"{ "hooks": [{ "type": "command", "command": "/old/kenning hook" }] },"#,
                ),
                false => (r#"{ "command": "other" }"#, r#"{ "command": "/old/kenning hook" },"#),
            };
            let old = ours(&format!("      {old}\n"));
            format!(
                "\"hooks\": {{\n    // Mine\n    \"{}\": [\n{old}      {other}\n    ],\n    \"Other\": []\n  }}",
                hooks.event
            )
        });
        let servers = if self.file.ends_with(".toml") {
            let ours = ours("[mcp_servers.kenning]\ncommand = \"/old/kenning\"\nargs = [\"serve\"]\n\n");
            format!(
                "# Mine\nmodel = 'x'   # oddly   spaced\n\n{ours}[mcp_servers.other]\ncommand = \"other\"\n\n[mcp_servers.other.env]\n\
                 KEY = \"1\"\n\n# The end\n[profiles.a]\nmodel = \"y\"\n"
            )
        } else if self.file.ends_with(".yaml") {
            let ours = ours("  kenning:\n    cmd: /old/kenning\n    type: stdio\n");
            format!(
                "# Mine\nGOOSE_MODEL: x   # oddly   spaced\nextensions:\n{ours}  developer:\n    enabled: true\n    type: builtin\n\n\
                 # The end\nother: [1,  2]\n"
            )
        } else {
            let old = match self.host {
                "opencode" => r#"{ "type": "local", "command": ["/old/kenning", "serve"] }"#,
                _ => r#"{ "command": "/old/kenning" }"#,
            };
            let ours = ours(&format!("    \"kenning\": {old},\n"));
            let in_one = hooks.clone().filter(|_| self.hooks_path().as_ref() == Some(&self.path()));
            let hooks = in_one.map(|hooks| format!("  {hooks},\n")).unwrap_or_default();
            format!(
                "{{\n  // Mine\n{hooks}  \"{}\": {{\n{ours}    \"other\": {{ \"command\": \"other\", \"args\": [\"x\"] }}, // keep\n    \
                 \"last\": {{ \"command\": \"last\" }} /* this too */\n  }},\n  \"unknown\": [1, 2,  3] // oddly spaced\n}}\n",
                self.under
            )
        };
        let own_file = hooks.filter(|_| self.hooks_path().as_ref() != Some(&self.path()));
        // A file that has a version for its hooks has it in the first line.
        Before { servers, hooks: own_file.map(|hooks| format!("{{\n  \"version\": 1,\n  {hooks}\n}}\n")) }
    }

    fn put(&self, place: &Place, before: &Before) {
        place.write(&self.path(), &before.servers);
        if let (Some(path), Some(hooks)) = (self.hooks_path(), &before.hooks) {
            place.write(&path, hooks);
        }
    }

    fn texts(&self, place: &Place) -> Before {
        let own_file = self.hooks_path().filter(|path| *path != self.path());
        Before {
            servers: place.text(&self.path()).unwrap_or_default(),
            hooks: own_file.and_then(|path| place.text(&path)),
        }
    }

    fn set_up(&self, place: &Place) -> Before {
        let mut arguments = vec!["setup", self.host];
        arguments.extend(self.hooks.as_ref().map(|_| "--hooks"));
        place.done(&arguments);
        let after = self.texts(place);
        let said = place.done(&arguments);
        assert!(said.contains("has Kenning already"), "{}: a second time changes nothing: {said}", self.host);
        let again = self.texts(place);
        assert_eq!((&after.servers, &after.hooks), (&again.servers, &again.hooks), "{}", self.host);
        after
    }
}

fn fenced(file: &str, text: &str) -> String {
    let text = text.replace(env!("CARGO_BIN_EXE_kenning"), "[PATH OF KENNING]");
    format!("`~/{file}`\n\n```\n{text}```\n\n")
}

#[test]
fn every_host_gets_its_entry_and_loses_it_without_a_trace() {
    let mut stale = Vec::new();
    for case in &CASES {
        let mut page = format!("# {}\n\nWritten by a test; `UPDATE_EXPECT=1` rewrites it.\n\n", case.host);
        let mut tell = |title: &str, texts: &Before| {
            page.push_str(&format!("## {title}\n\n{}", fenced(case.file, &texts.servers)));
            if let (Some(hooks), Some(text)) = (&case.hooks, &texts.hooks) {
                page.push_str(&fenced(hooks.file, text));
            }
        };
        let place = Place::new();
        tell("Fresh", &case.set_up(&place));
        place.done(&["setup", case.host, "--remove"]);
        assert!(place.files().is_empty(), "{}: {:?}", case.host, place.files());

        let place = Place::new();
        let before = case.before(false);
        case.put(&place, &before);
        tell("Beside others", &case.set_up(&place));
        place.done(&["setup", case.host, "--remove"]);
        let removed = case.texts(&place);
        assert_eq!(removed.servers, before.servers, "{}", case.host);
        assert_eq!(removed.hooks, before.hooks, "{}", case.host);
        assert!(!place.files().iter().any(|file| file.ends_with(".before-kenning")), "{}", case.host);

        // The result is the same if the kept copy is lost.
        case.set_up(&place);
        for file in place.files().iter().filter(|file| file.ends_with(".before-kenning")) {
            std::fs::remove_file(place.path(file)).expect("it goes");
        }
        place.done(&["setup", case.host, "--remove"]);
        assert_eq!(case.texts(&place).servers, before.servers, "{}: without what was kept", case.host);

        let place = Place::new();
        case.put(&place, &case.before(true));
        tell("Outdated", &case.set_up(&place));
        place.done(&["setup", case.host, "--remove"]);
        let removed = case.texts(&place);
        assert_eq!(removed.servers, before.servers, "{}: as if it had never been there", case.host);
        assert_eq!(removed.hooks, before.hooks, "{}: as if they had never been there", case.host);

        let path = format!("tests/setup/{}.md", case.host);
        let page = format!("{}\n", page.trim_end());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &page).expect("the page can be rewritten");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != page {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "{stale:?}: stale; run with UPDATE_EXPECT=1");
}

#[test]
fn line_ends_tabs_and_a_missing_newline_stay() {
    for case in &CASES {
        let as_on_windows = |text: &str| {
            let text = text.trim_end().replace('\n', "\r\n");
            if case.file.ends_with(".json") { text.replace("  ", "\t") } else { text }
        };
        let Before { servers, hooks } = case.before(false);
        let before = Before { servers: as_on_windows(&servers), hooks: hooks.as_deref().map(as_on_windows) };
        let place = Place::new();
        case.put(&place, &before);
        let after = case.set_up(&place);
        for text in [Some(&after.servers), after.hooks.as_ref()].into_iter().flatten() {
            assert!(!text.replace("\r\n", "").contains('\n'), "{}: {text:?}", case.host);
        }
        place.done(&["setup", case.host, "--remove"]);
        let removed = case.texts(&place);
        assert_eq!((removed.servers, removed.hooks), (before.servers, before.hooks), "{}", case.host);
    }
}

#[test]
fn a_projects_file_is_written_alone() {
    for case in &CASES {
        let Some(file) = case.project else { continue };
        let place = Place::new();
        place.done(&["setup", case.host, "--project"]);
        assert_eq!(place.files(), [format!("project/{file}")], "{}", case.host);
        place.done(&["setup", case.host, "--project", "--remove"]);
        assert!(place.files().is_empty(), "{}", case.host);
        if case.hooks.is_some() {
            place.done(&["setup", case.host, "--project", "--hooks"]);
            assert!(place.files().iter().all(|file| file.starts_with("project/")), "{}", case.host);
            place.done(&["setup", case.host, "--project", "--remove"]);
            assert!(place.files().is_empty(), "{}", case.host);
        }
    }
}
