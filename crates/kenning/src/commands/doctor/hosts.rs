//! Checks what each host has configured for Kenning: whether the program that it starts exists, and whether
//! its hooks run.

use std::path::Path;

use kenning_tools::recall::{HookRun, RecallLog};

use super::Finding;
use super::codex::{self, Trust};
use crate::commands::setup::edit::{Format, first_word};
use crate::commands::setup::hosts::{HOSTS, Host};
use crate::commands::setup::machine::{Machine, is_executable};
use crate::commands::setup::{self, Presence};
use crate::config::Config;

pub(super) fn check(config: &Config, machine: &Machine, fix: bool) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let log = RecallLog::existing(&config.data_dir()?);
    let runs = match log.map(|log| log.hook_runs()).transpose() {
        Ok(runs) => runs.unwrap_or_default(),
        Err(error) => {
            let advice = "delete recall.db in the data directory; it is a cache";
            findings.push(Finding::warning("recall log", format!("it can't be read: {error}"), advice));
            Vec::new()
        }
    };
    for host in &HOSTS {
        let launch = setup::launch(config, host, machine)?;
        let mut presence = setup::presence(host, machine, &launch);
        if fix && presence.entries.iter().any(|(_, program)| is_gone(machine, program.as_deref())) {
            if let Err(error) = setup::refresh(host, machine, &launch) {
                findings.push(Finding::problem(host.name, format!("{error:#}"), "change the entry by hand"));
            }
            presence = setup::presence(host, machine, &launch);
        }
        findings.extend(entry(host, machine, &presence));
        findings.extend(hooks(host, machine, &presence));
        if !presence.hooks.is_empty() {
            let of_host: Vec<&HookRun> = runs.iter().filter(|run| run.host == host.id).collect();
            findings.push(last_run(host, &of_host));
        }
    }
    Ok(findings)
}

fn is_gone(machine: &Machine, program: Option<&str>) -> bool {
    program.is_some_and(|program| path_of(machine, program).is_none())
}

/// The path of the program that a host starts; `None` if the program cannot be started.
fn path_of(machine: &Machine, program: &str) -> Option<std::path::PathBuf> {
    let path = Path::new(program);
    match path.is_absolute() {
        true => is_executable(path).then(|| path.to_owned()),
        false => machine.on_path(program),
    }
}

fn entry(host: &Host, machine: &Machine, presence: &Presence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, why) in &presence.problems {
        let says = format!("{} can't be read: {why}", machine.shown(path));
        findings.push(Finding::problem(host.name, says, "mend the file; the host can't read it either"));
    }
    if presence.entries.is_empty() && presence.problems.is_empty() && presence.installed {
        let says =
            format!("is installed and does not have Kenning; `kenning setup {}` changes that", host.id);
        findings.push(Finding::ok(host.name, says));
    }
    for (file, program) in &presence.entries {
        let file = machine.shown(file);
        let again = format!("kenning setup {}", host.id);
        let Some(program) = program else {
            // An entry for a remote server starts no program on this machine.
            findings.push(Finding::ok(host.name, format!("{file} has an entry that starts no program")));
            continue;
        };
        let canonical = |path: &Path| std::fs::canonicalize(path).ok();
        findings.push(match path_of(machine, program) {
            None => {
                Finding::problem(host.name, format!("{file} starts `{program}`, which is not there"), again)
            }
            Some(path) if canonical(&path) != canonical(&machine.program) => Finding::warning(
                host.name,
                format!("{file} starts {}, which is another program than this", path.display()),
                again,
            ),
            Some(_) => Finding::ok(host.name, format!("{file} starts this program")),
        });
    }
    findings
}

fn hooks(host: &Host, machine: &Machine, presence: &Presence) -> Vec<Finding> {
    let mut findings = Vec::new();
    let about = format!("{}, hooks", host.name);
    for path in &presence.hooks {
        let file = machine.shown(path);
        let Some(hooks) = read(path, Format::Json) else { continue };
        let again = format!("kenning setup {} --hooks", host.id);
        let gone = programs_in(&hooks).into_iter().find(|program| is_gone(machine, Some(program)));
        if let Some(program) = gone {
            let says = format!("{file} runs `{program}`, which is not there");
            findings.push(Finding::problem(about.clone(), says, again));
            continue;
        }
        // Codex is the only host that keeps its trust in hooks in a file that can be read.
        let configuration = path.with_file_name("config.toml");
        let trust = match host.id {
            "codex" => codex::trust(path, &hooks, &read(&configuration, Format::Toml).unwrap_or_default()),
            _ => Vec::new(),
        };
        let advice = "open `/hooks` in Codex and trust both";
        let with = |trust_wanted: Trust| trust.iter().filter(|(_, trust)| *trust == trust_wanted).count();
        findings.push(match (with(Trust::Untrusted), with(Trust::Disabled), with(Trust::Trusted)) {
            (0, 0, 0) => Finding::ok(about.clone(), format!("{file} runs them")),
            (0, 0, _) => Finding::ok(about.clone(), format!("{file} runs them, and Codex trusts them")),
            (0, _, _) => Finding::warning(about.clone(), format!("{file}: they are switched off"), advice),
            _ => Finding::warning(
                about.clone(),
                format!("{file}: Codex skips them until you trust them"),
                advice,
            ),
        });
    }
    findings
}

/// Reports when the host last ran a hook, and how the run ended.
fn last_run(host: &Host, runs: &[&HookRun]) -> Finding {
    let about = format!("{}, hooks", host.name);
    let Some(last) = runs.iter().max_by_key(|run| run.at) else {
        return Finding::ok(about, "have not run yet");
    };
    let at = last.at.round(jiff::Unit::Second).unwrap_or(last.at);
    let says = format!("last ran at {at}: {} in {} ms", last.outcome.as_str(), last.took_ms);
    match runs.iter().find(|run| run.failed_at == Some(run.at)) {
        None => Finding::ok(about, says),
        Some(failed) => {
            let why = failed.failure.as_deref().unwrap_or("it failed");
            let says = format!("{says}; the last at a {} failed: {why}", failed.event);
            Finding::warning(about, says, "if it stays so: kenning doctor --deep")
        }
    }
}

fn read(path: &Path, format: Format) -> Option<serde_json::Value> {
    format.value(&std::fs::read_to_string(path).ok()?).ok()
}

/// The programs that our hooks in a file run.
fn programs_in(hooks: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    let groups = hooks["hooks"].as_object().into_iter().flatten().flat_map(|(_, groups)| groups.as_array());
    for group in groups.flatten() {
        let inner = group["hooks"].as_array().map_or_else(|| vec![group], |all| all.iter().collect());
        for handler in inner.into_iter().filter(|handler| setup::edit::is_our_hook(handler)) {
            let bare = handler.get("args").and(handler["command"].as_str());
            let line = handler["command"].as_str().or_else(|| handler["bash"].as_str());
            found.extend(bare.or_else(|| line.map(|line| first_word(line).0)).map(str::to_owned));
        }
    }
    found
}
