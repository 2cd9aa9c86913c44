//! `kenning setup` on every host: what it writes, what it does not touch, and that removal leaves no trace.

mod hosts;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A separate home directory, and a project beside it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().expect("a directory") };
        std::fs::create_dir_all(place.path("project/.git")).expect("a project");
        std::fs::create_dir_all(place.path("home")).expect("a home");
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        let dir = Path::new(env!("CARGO_BIN_EXE_kenning")).parent().expect("a directory");
        command.env_clear().env("HOME", self.path("home")).env("PATH", dir);
        command.current_dir(self.path("project")).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("kenning runs")
    }

    /// The output of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Every file of the home directory and of the project, without the store.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![self.path("home"), self.path("project")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("a directory") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true if path.ends_with(".local") => {}
                    true => dirs.push(path),
                    false => {
                        let below = path.strip_prefix(self.dir.path()).expect("below");
                        found.push(below.to_str().expect("text").to_owned());
                    }
                }
            }
        }
        found.sort();
        found
    }
}

#[test]
fn a_broken_file_is_refused_and_stays_as_it_is() {
    for (host, file, text) in [
        ("claude-code", "home/.claude.json", "{\"mcpServers\": {}"),
        ("claude-code", "home/.claude.json", "[1]"),
        ("claude-code", "home/.claude.json", "{\"mcpServers\": 5}"),
        ("claude-code", "home/.claude.json", "{\"mcpServers\": {}, \"mcpServers\": {}}"),
        ("codex", "home/.codex/config.toml", "[mcp_servers\n"),
        ("codex", "home/.codex/config.toml", "mcp_servers = { other = { command = \"other\" } }\n"),
        ("codex", "home/.codex/config.toml", "mcp_servers = 5\n"),
        ("goose", "home/.config/goose/config.yaml", "extensions: {other: {enabled: true}}\n"),
        ("goose", "home/.config/goose/config.yaml", "extensions:\n  other: [\n"),
        ("goose", "home/.config/goose/config.yaml", "- a list\n"),
    ] {
        let place = Place::new();
        place.write(file, text);
        let output = place.run(&["setup", host]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        assert!(said.contains("is left as it is") && said.contains("--print"), "{said}");
        assert_eq!(place.text(file).as_deref(), Some(text));
        assert_eq!(place.files(), [file], "nothing else is written");
    }
    let place = Place::new();
    std::fs::write(place.path("home/.claude.json"), b"{\"a\": \"\xff\"}").expect("a file");
    let output = place.run(&["setup", "claude-code"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("UTF-8"), "{output:?}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let place = Place::new();
    for (arguments, said) in [
        (&["setup", "emacs"][..], "there is no host `emacs`; there are claude-code"),
        (&["setup", "zed", "--hooks"], "Zed gives nothing of what a hook says to its model"),
        (&["setup", "goose", "--project"], "Goose has no configuration for a project"),
        (&["setup", "codex", "--scope", "No Scope"], "No Scope"),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
    assert!(place.done(&["setup", "zed", "--remove"]).contains("Zed has nothing of Kenning"));
    assert!(place.files().is_empty());
}

#[test]
fn a_dry_run_and_print_write_nothing() {
    let place = Place::new();
    let shown = place.done(&["setup", "codex", "--hooks", "--dry-run", "--scope", "acme:web"]);
    assert!(
        shown.contains("~/.codex/config.toml (new)") && shown.contains("+ [mcp_servers.kenning]"),
        "{shown}"
    );
    assert!(shown.contains("Makes the namespace `acme` and the scope `acme:web`"), "{shown}");
    let printed = place.done(&["setup", "goose", "--print"]);
    assert!(printed.contains("~/.config/goose/config.yaml\nextensions:\n  kenning:\n"), "{printed}");
    assert!(place.files().is_empty() && !place.path("home/.local").exists());
}

#[test]
fn the_command_is_a_name_only_if_the_shell_means_this_program_by_it() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_kenning");
    let dir = Path::new(program).parent().expect("a directory");
    let printed = |path: &Path| {
        let output =
            place.command(&["setup", "cursor", "--print"]).env("PATH", path).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(printed(dir).contains(r#""command": "kenning""#));
    let by_path = format!(r#""command": "{program}""#);
    assert!(printed(Path::new("/nowhere")).contains(&by_path));
    // Another program with the same name comes first in the path.
    place.write("bin/kenning", "#!/bin/sh\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path("bin/kenning"), executable).expect("permissions");
        let both = std::env::join_paths([place.path("bin"), dir.to_owned()]).expect("a path");
        assert!(printed(Path::new(&both)).contains(&by_path));
        // A link to this program counts as its name. A desktop application, which does not have the shell's
        // path, gets the path of the link.
        std::fs::remove_file(place.path("bin/kenning")).expect("it goes");
        std::os::unix::fs::symlink(program, place.path("bin/kenning")).expect("a link");
        assert!(printed(&place.path("bin")).contains(r#""command": "kenning""#));
        let mut desktop = place.command(&["setup", "claude-desktop", "--print"]);
        let output = desktop.env("PATH", place.path("bin")).output().expect("it runs");
        let link = place.path("bin/kenning").display().to_string();
        assert!(String::from_utf8_lossy(&output.stdout).contains(&link), "{output:?}");
    }
    let output = place.run(&["setup", "codex", "--hooks", "--print", "--data-dir", "other data"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let data = place.path("project/other data").display().to_string();
    assert!(printed.contains(&format!(r#"args = ["serve", "--data-dir", "{data}"]"#)), "{printed}");
    assert!(printed.contains(&format!(r#""command": "kenning hook --data-dir '{data}'""#)), "{printed}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let text = "{\"theme\": \"dark\"}\n";
    place.write("dotfiles/claude.json", text);
    let private = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(place.path("dotfiles/claude.json"), private).expect("permissions");
    std::os::unix::fs::symlink("../dotfiles/claude.json", place.path("home/.claude.json")).expect("a link");
    let mode = |path: &str| std::fs::metadata(place.path(path)).expect("a file").permissions().mode() & 0o777;
    place.done(&["setup", "claude"]);
    assert!(std::fs::symlink_metadata(place.path("home/.claude.json")).expect("it is there").is_symlink());
    assert!(place.text("dotfiles/claude.json").expect("a file").contains("kenning"));
    assert_eq!(mode("dotfiles/claude.json"), 0o640);
    assert_eq!(mode("dotfiles/claude.json.before-kenning"), 0o640, "what is kept is as private");
    place.done(&["setup", "claude", "--remove"]);
    assert_eq!(place.text("dotfiles/claude.json").as_deref(), Some(text));
    assert_eq!(mode("dotfiles/claude.json"), 0o640);
    assert!(place.text("dotfiles/claude.json.before-kenning").is_none());
}

#[test]
fn what_others_wrote_since_stays_when_kenning_goes() {
    let place = Place::new();
    place.write("home/.claude.json", "{\n  \"theme\": \"dark\"\n}\n");
    place.done(&["setup", "claude", "--hooks"]);
    // The host changes its file too.
    let text = place.text("home/.claude.json").expect("a file").replace("dark", "light");
    place.write("home/.claude.json", &text);
    let hooks = place.text("home/.claude/settings.json").expect("a file");
    let other = "\"hooks\": [\n          { \"type\": \"command\", \"command\": \"other\" },\n";
    place.write("home/.claude/settings.json", &hooks.replacen("\"hooks\": [\n", other, 1));
    place.done(&["setup", "claude", "--remove"]);
    assert_eq!(place.text("home/.claude.json").as_deref(), Some("{\n  \"theme\": \"light\"\n}\n"));
    let left = place.text("home/.claude/settings.json").expect("the other hook keeps the file");
    assert!(left.contains("\"command\": \"other\"") && !left.contains("kenning"), "{left}");
}

#[test]
fn hooks_go_alone_and_come_up_to_date_with_the_entry() {
    let place = Place::new();
    place.done(&["setup", "gemini", "--hooks"]);
    place.done(&["setup", "gemini", "--hooks", "--remove"]);
    let text = place.text("home/.gemini/settings.json").expect("a file");
    assert!(text.contains("mcpServers") && !text.contains("hooks"), "{text}");
    place.done(&["setup", "claude", "--hooks"]);
    let old =
        place.text("home/.claude/settings.json").expect("a file").replace("\"kenning\"", "\"/old/kenning\"");
    place.write("home/.claude/settings.json", &old);
    place.done(&["setup", "claude"]);
    assert!(!place.text("home/.claude/settings.json").expect("a file").contains("/old/"));
}

#[test]
fn a_scope_is_made_named_and_trusted() {
    let place = Place::new();
    place.write("project/CLAUDE.md", "# Rules\r\n\r\nBe kind.");
    let said = place.done(&["setup", "claude", "--project", "--scope", "acme:web"]);
    assert!(said.contains("Makes the namespace `acme` and the scope `acme:web`"), "{said}");
    let rules = "# Rules\r\n\r\nBe kind.\r\n\r\nscope: acme:web\r\n";
    assert_eq!(place.text("project/CLAUDE.md").as_deref(), Some(rules));
    let stored = place.done(&["call", "store", r#"{"topic": "t", "content": "c"}"#, "--json"]);
    assert!(stored.contains(r#""scope":"acme:web""#), "{stored}");
    // A second host finds the line in any file of the project.
    let said = place.done(&["setup", "codex", "--scope", "acme:web"]);
    assert!(!said.contains("Makes") && place.text("project/AGENTS.md").is_none(), "{said}");
    let output = place.run(&["setup", "codex", "--scope", "acme:api"]);
    assert_eq!(output.status.code(), Some(1));
    let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(refusal.contains("`CLAUDE.md` names the scope `acme:web` already"), "{refusal}");
    place.done(&["setup", "claude", "--project", "--remove", "--scope", "acme:web"]);
    assert_eq!(place.text("project/CLAUDE.md").as_deref(), Some("# Rules\r\n\r\nBe kind."));
    // If a host reads no instruction file, its entry names the scope.
    let printed = place.done(&["setup", "claude-desktop", "--print", "--scope", "acme:web"]);
    assert!(printed.contains(r#""args": ["serve", "--scope", "acme:web"]"#), "{printed}");
}

#[test]
fn the_list_says_who_has_kenning() {
    let place = Place::new();
    place.write("home/.cursor/mcp.json", "{");
    place.done(&["setup", "codex", "--hooks"]);
    let list = place.done(&["setup"]);
    let line =
        |host: &str| list.lines().find(|line| line.starts_with(host)).map(str::to_owned).expect("a line");
    assert!(line("codex").contains("with hooks  ~/.codex/config.toml"), "{list}");
    assert!(line("cursor").contains("unreadable  ~/.cursor/mcp.json"), "{list}");
    assert!(line("zed").trim_end().ends_with('–'), "{list}");
    let json = place.done(&["setup", "--json"]);
    assert!(
        json.contains(r#""host":"codex","name":"Codex","installed":true,"configured":true,"hooks":true"#)
    );
}

/// The state and message that `doctor --json` reports for a subject.
fn finding(place: &Place, arguments: &[&str], about: &str) -> (String, String) {
    let output = place.run(&[&["doctor", "--json"], arguments].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["ok"] == true, output.status.success(), "{report}");
    let findings = report["findings"].as_array().expect("a list");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    // If there are several findings, the worst one counts.
    let found = findings.iter().filter(|finding| finding["about"] == about);
    let worst = found.max_by_key(|finding| match finding["state"].as_str() {
        Some("problem") => 2,
        Some("warning") => 1,
        _ => 0,
    });
    worst.map(|finding| (text(&finding["state"]), text(&finding["says"]))).unwrap_or_default()
}

#[test]
fn a_doctor_finds_nothing_wrong_where_nothing_is() {
    let place = Place::new();
    let said = place.done(&["doctor"]);
    assert!(
        said.contains("lists 22 tools (2026-07-28)") && said.contains("lists 22 tools (2025-11-25)"),
        "{said}"
    );
    assert!(said.ends_with("All is well\n"), "{said}");
    assert!(place.files().is_empty() && !place.path("home/.local").exists(), "looking makes no store");
    place.done(&["call", "store", r#"{"topic": "t", "content": "c"}"#]);
    place.done(&["setup", "claude", "--hooks"]);
    let said = place.done(&["doctor", "--deep"]);
    assert!(said.contains("1 transactions, every row checked against the log"), "{said}");
    assert!(said.contains("a session that starts here would be told"), "{said}");
    assert!(
        said.contains("~/.claude.json starts this program") && said.contains("have not run yet"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn a_doctor_finds_what_is_wrong_and_mends_what_it_can() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.done(&["call", "store", r#"{"topic": "t", "content": "c"}"#]);
    place.done(&["setup", "codex", "--hooks"]);
    let (state, says) = finding(&place, &[], "Codex, hooks");
    assert!(state == "warning" && says.contains("Codex skips them until you trust them"), "{says}");

    let store = place.path("home/.local/share/kenning/store.db");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let (state, says) = finding(&place, &[], "data");
    assert!(state == "warning" && says.contains("store.db"), "{says}");
    let config =
        place.text("home/.codex/config.toml").expect("a file").replace("\"kenning\"", "\"/gone/kenning\"");
    place.write("home/.codex/config.toml", &config);
    let (state, says) = finding(&place, &[], "Codex");
    assert!(state == "problem" && says.contains("starts `/gone/kenning`, which is not there"), "{says}");
    assert_eq!(finding(&place, &["--fix"], "Codex").0, "ok");
    assert_eq!(finding(&place, &[], "data").0, "ok");
    assert!(!place.text("home/.codex/config.toml").expect("a file").contains("/gone"));

    place.write("home/.cursor/mcp.json", "{");
    assert_eq!(finding(&place, &[], "Cursor").0, "problem");
    place.write("project/CLAUDE.md", "scope: acme:web\n");
    place.done(&["call", "create_namespace", r#"{"name": "other", "description": "d"}"#]);
    place.write("project/CLAUDE.md", "scope: Acme:web\n");
    let (state, says) = finding(&place, &[], "scope");
    assert!(state == "warning" && says.contains("has no proper name"), "{says}");

    std::fs::write(&store, "this is no store").expect("it is written");
    assert_eq!(finding(&place, &[], "store").0, "problem");
}

#[test]
fn the_status_counts_by_scope() {
    let place = Place::new();
    assert_eq!(place.run(&["status"]).status.code(), Some(3), "there is no store yet");
    place.done(&["setup", "codex", "--project", "--scope", "acme:web"]);
    place.done(&["call", "store", r#"{"topic": "t", "content": "c"}"#]);
    place.done(&["call", "relate", r#"{"subject": "a", "predicate": "uses", "object": "b"}"#]);
    place.write("project/docs/a.md", "# A\n\nText.\n");
    place.write("project/patterns/p.md", "---\nid: p\ntitle: P\ncategory: c\n---\nDo it.\n");
    place.done(&["ingest", "docs"]);
    place.done(&["ingest", "--kind", "patterns", "patterns"]);
    let status: serde_json::Value = serde_json::from_str(&place.done(&["status", "--json"])).expect("JSON");
    let scopes = status["scopes"].as_array().expect("a list");
    let web = scopes.iter().find(|scope| scope["scope"] == "acme:web").expect("the scope");
    let counts = ["entries", "triples", "documents", "patterns"].map(|name| web[name].as_u64());
    assert_eq!(counts, [Some(1); 4], "{status}");
    assert!(status["bytes"]["store"].as_u64().is_some_and(|bytes| bytes > 0), "{status}");
    let told = place.done(&["status"]);
    assert!(told.contains("SCOPE") && told.contains("acme:web"), "{told}");
}
