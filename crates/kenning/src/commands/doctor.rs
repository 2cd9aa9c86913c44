//! `kenning doctor`: checks everything between an agent and its memory, and says what to do about each
//! problem.

mod codex;
mod hosts;
mod store;

use clap::Args;
use kenning_server::client::{Client, ClientError, Era};
use kenning_tools::project::DefaultScope;
use serde::Serialize;
use serde_json::{Value, json};

use super::setup::machine::Machine;
use super::{Outcome, line, print};
use crate::config::Config;
use crate::terminal::{self, ADDED, BOLD, PLAIN, REMOVED, Text};

#[derive(Args)]
pub struct Doctor {
    /// Mend what can be mended: permissions, the search index, entries of hosts that start a program that is gone
    #[arg(long)]
    fix: bool,
    /// Also check every row of the store against its log, as `verify` does
    #[arg(long)]
    deep: bool,
    /// Print for programs
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Problem,
}

#[derive(Debug, Serialize)]
struct Finding {
    about: String,
    state: State,
    says: String,
    /// What the user should do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(about: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { about: about.into(), state: State::Ok, says: says.into(), advice: None }
    }

    fn warning(about: impl Into<String>, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { state: State::Warning, advice: Some(advice.into()), ..Finding::ok(about, says) }
    }

    fn problem(about: impl Into<String>, says: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { state: State::Problem, advice: Some(advice.into()), ..Finding::ok(about, says) }
    }
}

pub fn run(config: &Config, doctor: Doctor) -> anyhow::Result<Outcome> {
    let machine = Machine::this()?;
    let mut findings = vec![program(&machine)];
    findings.extend(store::check(config, doctor.fix, doctor.deep)?);
    findings.extend([Era::Modern, Era::Legacy].map(|era| round_trip(config, &machine, era)));
    findings.push(scope(config)?);
    findings.push(hook(config, &machine));
    findings.extend(hosts::check(config, &machine, doctor.fix)?);
    let has_problems = findings.iter().any(|finding| finding.state == State::Problem);
    match doctor.json {
        true => print(&json!({"ok": !has_problems, "findings": findings}).to_string())?,
        false => tell(&findings)?,
    }
    Ok(if has_problems { Outcome::Failed } else { Outcome::Done })
}

fn tell(findings: &[Finding]) -> anyhow::Result<()> {
    let width = findings.iter().map(|finding| finding.about.chars().count()).max().unwrap_or(0);
    for Finding { about, state, says, advice } in findings {
        let (style, state) = match state {
            State::Ok => (ADDED, "ok"),
            State::Warning => (BOLD, "warning"),
            State::Problem => (REMOVED, "PROBLEM"),
        };
        let mut shown = Text::styled(style, format!("{state:<7}"));
        shown.push(PLAIN, format!("  {about:<width$}  {}", line(says)));
        if let Some(advice) = advice {
            shown.push(PLAIN, format!("\n{:<7}  {:<width$}  → {}", "", "", line(advice)));
        }
        terminal::print(&shown)?;
    }
    let count = |state: State| findings.iter().filter(|finding| finding.state == state).count();
    Ok(print(&match (count(State::Problem), count(State::Warning)) {
        (0, 0) => "\nAll is well".to_owned(),
        (problems, warnings) => format!("\nProblems: {problems}, warnings: {warnings}"),
    })?)
}

fn program(machine: &Machine) -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    let says = format!("Kenning {version}, {}", machine.program.display());
    let canonical = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    match machine.on_path("kenning") {
        Some(path) if canonical(&path) != canonical(&machine.program) => Finding::warning(
            "program",
            format!("{says}; but `kenning` on the path is {}", path.display()),
            "remove one of the two, or hosts and you may use different versions",
        ),
        Some(_) => Finding::ok("program", says),
        None => Finding::ok("program", format!("{says}, which is not on the path")),
    }
}

/// Starts this program as a host does, and lists its tools over MCP.
fn round_trip(config: &Config, machine: &Machine, era: Era) -> Finding {
    let (about, protocol) = match era {
        Era::Modern => ("MCP", "2026-07-28"),
        Era::Legacy => ("MCP, older hosts", "2025-11-25"),
    };
    let talk = || -> Result<usize, ClientError> {
        let mut command = std::process::Command::new(&machine.program);
        command.arg("serve").stderr(std::process::Stdio::null());
        if let Some(dir) = &config.data_dir {
            command.arg("--data-dir").arg(dir);
        }
        let mut client = Client::start(command, era, "kenning-doctor")?;
        if era == Era::Modern {
            client.request("server/discover", json!({}))?;
        }
        let tools = client.request("tools/list", json!({}))?["tools"].as_array().map_or(0, Vec::len);
        client.finish()?;
        Ok(tools)
    };
    match talk() {
        Ok(0) => Finding::problem(
            about,
            "the server lists no tools",
            "see `kenning serve --help` for `--toolsets`",
        ),
        Ok(tools) => Finding::ok(about, format!("a server starts and lists {tools} tools ({protocol})")),
        Err(error) => Finding::problem(
            about,
            format!("a server does not answer: {error}"),
            "run `kenning serve` by hand with KENNING_LOG=debug and look at its messages",
        ),
    }
}

fn scope(config: &Config) -> anyhow::Result<Finding> {
    let engine = config.engine()?;
    let (scope, _) = config.scope_finder().find(&engine, &config.principal());
    Ok(match &scope {
        DefaultScope::Untrusted { scope, file } => Finding::warning(
            "scope",
            format!("`{file}` names `{scope}`, which was not made from this project, so it is not followed"),
            format!("if the project is yours: kenning trust {scope}"),
        ),
        DefaultScope::Conflicting { .. } => {
            let why = scope.refusal().map(|stop| stop.message).unwrap_or_default();
            Finding::warning("scope", why, "name one scope in the project's files")
        }
        DefaultScope::Nothing { malformed: Some(file) } => Finding::warning(
            "scope",
            format!("the line `scope:` in `{file}` has no proper name, so `global:default` is used"),
            "write it as `scope: NAMESPACE:SCOPE`",
        ),
        DefaultScope::Nothing { malformed: None } => {
            Finding::ok("scope", "`global:default`, which all projects see; nothing here names another")
        }
        DefaultScope::Found { scope, file } => Finding::ok("scope", format!("`{scope}`, named by `{file}`")),
        DefaultScope::Named { scope, .. } => Finding::ok("scope", format!("`{scope}`, as you said")),
    })
}

/// Runs `kenning hook` as a host does at the start of a session in this directory, to see what the model
/// would be told.
fn hook(config: &Config, machine: &Machine) -> Finding {
    let event = json!({
        "hook_event_name": "SessionStart",
        "session_id": "doctor",
        "source": "startup",
        "cwd": machine.project,
    });
    let mut command = std::process::Command::new(&machine.program);
    command.args(["hook", "--dry-run"]);
    if let Some(dir) = &config.data_dir {
        command.arg("--data-dir").arg(dir);
    }
    let since = std::time::Instant::now();
    let said = answer(command, &event.to_string());
    let took = since.elapsed().as_millis();
    match said {
        Ok(text) if text.trim().is_empty() => {
            Finding::ok("hook here", format!("a session that starts here would be told nothing ({took} ms)"))
        }
        Ok(text) => {
            let answer: Value = serde_json::from_str(&text).unwrap_or_default();
            let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or(&text);
            let many = context.chars().count();
            Finding::ok(
                "hook here",
                format!("a session that starts here would be told {many} characters ({took} ms)"),
            )
        }
        Err(error) => Finding::problem(
            "hook here",
            format!("the hook can't be run: {error}"),
            "run `kenning hook --dry-run` by hand and look at its messages",
        ),
    }
}

fn answer(mut command: std::process::Command, input: &str) -> anyhow::Result<String> {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "it ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
