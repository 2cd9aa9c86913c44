//! Which scope a command works in, and what `kenning scopes` prints.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A store and a project in one directory.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().expect("a directory") };
        std::fs::create_dir(place.project()).expect("a project");
        place
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.path().join("project")
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.project().join(file), text).expect("a file");
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        kenning(&self.dir.path().join("data"), &self.project(), arguments, environment)
    }

    /// The output of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, &[]);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The scope that a fact without a named scope is stored in.
    fn stored_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let store = ["call", "store", r#"{"topic": "t", "content": "c"}"#, "--json"];
        let output = self.run(&[arguments, &store].concat(), environment);
        let reply: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a reply");
        reply["scope"].as_str().map_or_else(|| reply.to_string(), str::to_owned)
    }
}

fn kenning(data: &Path, cwd: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    for name in ["DATA_DIR", "SCOPE", "ACTOR", "READ_ONLY", "TOOLSETS", "TOOL_NAMES", "ROWS_LISTEN", "LOG"] {
        command.env_remove(format!("KENNING_{name}"));
    }
    for host in ["CLAUDE", "GEMINI", "CURSOR"] {
        command.env_remove(format!("{host}_PROJECT_DIR"));
    }
    command.envs(environment.iter().copied()).current_dir(cwd);
    command.arg("--data-dir").arg(data).args(arguments).output().expect("kenning runs")
}

fn with_scopes() -> Place {
    let place = Place::new();
    place.done(&["call", "create_namespace", r#"{"name": "acme", "description": "ACME Corporation"}"#]);
    for scope in ["flag", "variable", "claude", "agents"] {
        let arguments = format!(r#"{{"scope": "acme:{scope}", "description": "Named by the {scope}"}}"#);
        place.done(&["call", "create_scope", &arguments]);
    }
    place
}

#[test]
fn the_flag_comes_before_the_variable_and_both_before_the_projects_files() {
    let place = with_scopes();
    assert_eq!(place.stored_in(&[], &[]), "global:default");
    place.write("AGENTS.md", "# Rules\n\n- scope: acme:agents\n");
    assert_eq!(place.stored_in(&[], &[]), "acme:agents");
    place.write("CLAUDE.md", "scope: acme:claude\n");
    assert_eq!(place.stored_in(&[], &[]), "acme:claude");
    let variable = [("KENNING_SCOPE", "acme:variable")];
    assert_eq!(place.stored_in(&[], &variable), "acme:variable");
    assert_eq!(place.stored_in(&["--scope", "acme:flag"], &variable), "acme:flag");
    // An empty variable counts as not set.
    assert_eq!(place.stored_in(&[], &[("KENNING_SCOPE", "")]), "acme:claude");
}

#[test]
fn a_scope_that_is_not_there_names_the_tools_that_make_it() {
    let place = with_scopes();
    let output = place.run(&["--scope", "beta:web", "search", "anything"], &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("create_namespace") && message.contains("create_scope"), "{message}");
    let output = place.run(&["--scope", "Beta", "search", "anything"], &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn the_tree_is_drawn() {
    let place = with_scopes();
    place.done(&[
        "call",
        "update_scope",
        r#"{"scope": "acme:claude", "parents": ["acme:flag", "acme:variable"]}"#,
    ]);
    place.done(&["call", "write_knowledge", r#"{"content": "c", "context": "x", "scope": "acme:claude"}"#]);
    let drawn = place.done(&["scopes", "acme"]);
    let expected = "\
acme: ACME Corporation
  default, empty: ACME Corporation
  ├─ agents, empty: Named by the agents
  ├─ flag, empty: Named by the flag
  │  └─ claude (and below variable), 1 entry: Named by the claude
  └─ variable, empty: Named by the variable
";
    assert_eq!(drawn, expected);
    assert!(place.done(&["scopes"]).starts_with("global: Universal knowledge accessible everywhere\n"));
    let json: serde_json::Value = serde_json::from_str(&place.done(&["scopes", "--json"])).expect("JSON");
    assert_eq!(json["namespaces"]["acme"]["scopes"]["claude"]["parents"][1], "variable");
    assert_eq!(place.run(&["scopes", "beta"], &[]).status.code(), Some(3));
}

#[test]
fn history_keeps_to_the_scope_unless_all_is_asked_for() {
    let place = with_scopes();
    place.done(&["call", "store", r#"{"topic": "secret", "content": "Of the flag.", "scope": "acme:flag"}"#]);
    assert!(!place.done(&["history"]).contains("Of the flag."));
    assert!(place.done(&["--scope", "acme:flag", "history"]).contains("Of the flag."));
    assert!(place.done(&["history", "--all"]).contains("Of the flag."));
    assert!(place.done(&["undo", "--dry-run"]).contains("Of the flag."), "who sits at the terminal sees all");
}
