//! `kenning setup HOST`: writes an entry for this program into the configuration of a host, and removes it
//! again.

#[cfg(test)]
mod documentation;
pub mod edit;
mod file;
pub mod hosts;
mod json;
pub mod machine;
mod scope;
mod toml;
mod yaml;

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use super::{Outcome, complain, path_on_terminal, print, usage};
use crate::config::Config;
use crate::terminal::{self, ADDED, BOLD, NAME, PLAIN, REMOVED, Table, Text};
use edit::Refusal;
use file::HostFile;
use hosts::{HOSTS, Host, Launch, Level, Target};
use machine::Machine;
use scope::ScopeSetup;

/// How many unchanged lines a diff shows around a change. Only one, because the file may contain keys.
const CONTEXT_LINES: usize = 1;

/// Write Kenning into the configuration of a host. Everything else of the file stays as it is.
#[derive(Args)]
pub struct Setup {
    /// The host [default: list the hosts, and which of them have Kenning]
    host: Option<String>,
    /// Also have the host ask for memory by itself at every session start and prompt
    #[arg(long, requires = "host")]
    hooks: bool,
    /// Write into the project's files instead of the user's
    #[arg(long, requires = "host")]
    project: bool,
    /// Print what belongs into which file, and write nothing
    #[arg(long, requires = "host", conflicts_with_all = ["remove", "dry_run"])]
    print: bool,
    /// Take Kenning out of the host's files; with --hooks, only the hooks
    #[arg(long, requires = "host")]
    remove: bool,
    /// Show what would change, and write nothing
    #[arg(long, requires = "host")]
    dry_run: bool,
    /// Do not ask before writing
    #[arg(long, short, requires = "host")]
    yes: bool,
    /// Print the list for programs
    #[arg(long, conflicts_with = "host")]
    json: bool,
}

/// A file that is to be changed.
struct Step {
    file: HostFile,
    shown: String,
    /// The new text. `None` means that the file is removed.
    text: Option<String>,
    /// Whether the file has no entry of ours yet. Its present text is then kept, so that `--remove` can
    /// restore it.
    keep: bool,
}

pub fn run(config: &Config, setup: Setup) -> anyhow::Result<Outcome> {
    let machine = Machine::this()?;
    let Some(id) = &setup.host else { return list(config, &machine, setup.json) };
    let Some(host) = Host::find(id) else {
        let ids: Vec<&str> = HOSTS.iter().map(|host| host.id).collect();
        return Err(usage(format!("there is no host `{id}`; there are {}", ids.join(", "))));
    };
    let level = if setup.project { Level::Project } else { Level::User };
    if setup.project && host.servers.project.is_none() {
        return Err(usage(format!(
            "{} has no configuration for a project; leave `--project` out",
            host.name
        )));
    }
    if setup.hooks && host.hooks.is_none() {
        return Err(usage(format!(
            "{} gives nothing of what a hook says to its model; leave `--hooks` out",
            host.name
        )));
    }
    let launch = launch(config, host, &machine)?;
    let scope = ScopeSetup::new(config, host, setup.remove)?;
    if setup.print {
        return print_pieces(host, &machine, level, &launch, setup.hooks);
    }
    let mut steps = steps(host, &machine, level, &launch, &setup)?;
    steps.extend(scope.as_ref().map(|scope| scope.step(&machine)).transpose()?.flatten());
    let makes =
        scope.as_ref().filter(|_| !setup.remove).map(|scope| scope.about(config)).transpose()?.flatten();
    if steps.is_empty() && makes.is_none() {
        print(&match setup.remove {
            true => format!("{} has nothing of Kenning", host.name),
            false => format!("{} has Kenning already", host.name),
        })?;
        return Ok(Outcome::Done);
    }
    for step in &steps {
        show(step)?;
    }
    if let Some(makes) = &makes {
        print(makes)?;
    }
    if setup.dry_run {
        return Ok(Outcome::Done);
    }
    if !setup.yes && std::io::stdin().is_terminal() && !confirmed()? {
        complain("nothing was written");
        return Ok(Outcome::Failed);
    }
    for step in &steps {
        step.write(setup.remove)?;
    }
    if let (Some(scope), false) = (&scope, setup.remove) {
        scope.make(config)?;
    }
    tell_next(host, &setup)?;
    Ok(Outcome::Done)
}

/// The program and arguments that the host starts. A host has its own environment, so the data directory and
/// scope that were given here are written into the entry.
pub fn launch(config: &Config, host: &Host, machine: &Machine) -> anyhow::Result<Launch> {
    let arguments = match &config.data_dir {
        Some(dir) => {
            let dir = std::path::absolute(dir).with_context(|| format!("{} is no path", dir.display()))?;
            vec!["--data-dir".to_owned(), dir.display().to_string()]
        }
        None => Vec::new(),
    };
    // A host that does not know projects never reads a file with a scope line, so its entry names the scope.
    let scope = config.flagged_scope().filter(|_| host.instructions.is_none()).map(str::to_owned);
    Ok(Launch { program: machine.command(host.servers.has_path), arguments, scope })
}

/// The files of the host, with the pieces that belong into each: first those with the entry, then those with
/// hooks. Both may be in one file.
pub fn targets(host: &Host, machine: &Machine, level: Level, launch: &Launch) -> (Vec<Target>, Vec<Target>) {
    let servers = host.server_targets(machine, level, launch).unwrap_or_default();
    (servers, host.hook_targets(machine, level, launch))
}

fn steps(
    host: &Host,
    machine: &Machine,
    level: Level,
    launch: &Launch,
    setup: &Setup,
) -> anyhow::Result<Vec<Step>> {
    let (servers, hooks) = targets(host, machine, level, launch);
    let wanted_servers = servers.into_iter().filter(|_| !(setup.remove && setup.hooks));
    let mut wanted: Vec<Target> = wanted_servers.collect();
    for hook in hooks {
        // Hooks that are installed already are updated together with the entry.
        if setup.remove || setup.hooks || has_ours(&hook)? {
            match wanted.iter_mut().find(|target| target.path == hook.path) {
                Some(target) => target.pieces.extend(hook.pieces),
                None => wanted.push(hook),
            }
        }
    }
    let mut steps = Vec::new();
    for target in wanted {
        steps.extend(step(&target, machine, setup.remove)?);
    }
    Ok(steps)
}

/// Updates all files of a host that have an entry of ours, so that the host starts this program.
pub fn refresh(host: &Host, machine: &Machine, launch: &Launch) -> anyhow::Result<()> {
    for level in [Level::User, Level::Project] {
        let (servers, hooks) = targets(host, machine, level, launch);
        for target in servers.into_iter().chain(hooks) {
            if has_ours(&target)?
                && let Some(step) = step(&target, machine, false)?
            {
                step.file.write(step.text.as_deref().unwrap_or_default(), step.keep)?;
            }
        }
    }
    Ok(())
}

fn has_ours(target: &Target) -> anyhow::Result<bool> {
    let Some(text) = HostFile::read(&target.path)?.text else { return Ok(false) };
    // A file that can't be parsed contains nothing that could be updated.
    let Ok(value) = target.format.value(&text) else { return Ok(false) };
    Ok(target.pieces.iter().any(|piece| piece.is_anyhow_in(&value)))
}

fn step(target: &Target, machine: &Machine, remove: bool) -> anyhow::Result<Option<Step>> {
    let shown = machine.shown(&target.path);
    let file = HostFile::read(&target.path)?;
    let refused = |Refusal(why): Refusal| anyhow::anyhow!("{shown} is left as it is: {why}");
    let (text, keep) = match (&file.text, remove) {
        (None, true) => return Ok(None),
        (Some(text), true) => {
            let kept = file.original_text()?;
            (target.format.removed(text, &target.pieces, kept.as_deref()).map_err(refused)?, false)
        }
        (text, false) => {
            let text = text.as_deref().unwrap_or_default();
            let advice = |Refusal(why): Refusal| {
                anyhow::anyhow!("{shown} is left as it is: {why}. `--print` shows what to add by hand")
            };
            let is_new = target.format.strip(text, &target.pieces).is_ok_and(|stripped| stripped == text);
            (Some(target.format.apply(text, &target.pieces).map_err(advice)?), is_new)
        }
    };
    Ok((text != file.text).then_some(Step { file, shown, text, keep }))
}

impl Step {
    fn write(&self, remove: bool) -> anyhow::Result<()> {
        let verb = match (&self.text, remove) {
            (None, _) => {
                self.file.restore(None)?;
                "Removed"
            }
            (Some(text), true) if self.file.original_text()?.as_ref() == Some(text) => {
                self.file.restore(Some(text))?;
                "Restored"
            }
            (Some(text), true) => {
                self.file.write(text, false)?;
                "Wrote"
            }
            (Some(text), false) => {
                self.file.write(text, self.keep)?;
                "Wrote"
            }
        };
        let was_kept = self.keep && self.file.text.is_some();
        let kept =
            if was_kept { format!("; as it was: {}{}", self.shown, file::KEPT) } else { String::new() };
        Ok(print(&format!("{verb} {}{}", path_on_terminal(&self.shown), path_on_terminal(&kept)))?)
    }
}

/// Prints the lines that are removed and added.
fn show(step: &Step) -> anyhow::Result<()> {
    let before = step.file.text.as_deref().unwrap_or_default();
    let after = step.text.as_deref().unwrap_or_default();
    let mut shown = Text::styled(BOLD, path_on_terminal(&step.shown));
    if step.file.text.is_none() {
        shown.push(PLAIN, " (new)");
    }
    let diff = TextDiff::from_lines(before, after);
    for (at, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if at > 0 {
            shown.push(PLAIN, "\n  …");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (style, sign) = match change.tag() {
                ChangeTag::Delete => (REMOVED, '-'),
                ChangeTag::Insert => (ADDED, '+'),
                ChangeTag::Equal => (PLAIN, ' '),
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            shown.push(PLAIN, "\n");
            shown.push(style, format!("{sign} {line}"));
        }
    }
    Ok(terminal::print(&shown)?)
}

fn confirmed() -> anyhow::Result<bool> {
    eprint!("Write this? [Y/n] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    // The end of the input does not count as consent.
    Ok(!answer.is_empty() && matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

fn tell_next(host: &Host, setup: &Setup) -> anyhow::Result<()> {
    if setup.remove {
        return Ok(print(&format!(
            "Kenning is out of {}. What it knows stays in the data directory.",
            host.name
        ))?);
    }
    print(host.next)?;
    if setup.hooks {
        print(host.next_for_hooks)?;
    }
    Ok(print(&format!("To see that it works: {}", host.check))?)
}

fn print_pieces(
    host: &Host,
    machine: &Machine,
    level: Level,
    launch: &Launch,
    with_hooks: bool,
) -> anyhow::Result<Outcome> {
    let (servers, hooks) = targets(host, machine, level, launch);
    for target in servers.into_iter().chain(hooks.into_iter().filter(|_| with_hooks)) {
        let text = target.format.apply("", &target.pieces).map_err(|Refusal(why)| anyhow::anyhow!(why))?;
        print(&format!("{}\n{text}", path_on_terminal(&machine.shown(&target.path))))?;
    }
    Ok(Outcome::Done)
}

/// What a host's files contain for Kenning.
pub struct Presence {
    pub installed: bool,
    /// The files with an entry, each with the program that it starts.
    pub entries: Vec<(std::path::PathBuf, Option<String>)>,
    /// The files with hooks.
    pub hooks: Vec<std::path::PathBuf>,
    /// Files that can't be read, and why.
    pub problems: Vec<(std::path::PathBuf, String)>,
}

pub fn presence(host: &Host, machine: &Machine, launch: &Launch) -> Presence {
    let installed = host.is_installed(machine);
    let mut presence = Presence { installed, entries: Vec::new(), hooks: Vec::new(), problems: Vec::new() };
    for level in [Level::User, Level::Project] {
        let (servers, hooks) = targets(host, machine, level, launch);
        let all = servers.into_iter().map(|target| (target, false));
        for (target, is_hook) in all.chain(hooks.into_iter().map(|target| (target, true))) {
            let read = HostFile::read(&target.path).map_err(|error| format!("{error:#}"));
            let value = read.and_then(|file| {
                let text = file.text.map(|text| target.format.value(&text).map_err(|Refusal(why)| why));
                text.transpose()
            });
            let is_known = presence.problems.iter().any(|(path, _)| *path == target.path);
            match value {
                Ok(None) => {}
                Err(_) if is_known => {}
                Err(why) => presence.problems.push((target.path, why)),
                Ok(Some(file)) if target.pieces.iter().any(|piece| piece.is_anyhow_in(&file)) => {
                    match is_hook {
                        true => presence.hooks.push(target.path),
                        false => {
                            let entry = edit::at(&file, &[host.servers.under, "kenning"]);
                            let program = entry.and_then(|entry| host.servers.shape.program_of(entry));
                            presence.entries.push((target.path, program.map(str::to_owned)));
                        }
                    }
                }
                Ok(Some(_)) => {}
            }
        }
    }
    presence
}

fn list(config: &Config, machine: &Machine, as_json: bool) -> anyhow::Result<Outcome> {
    let mut table = Table::new(&["HOST", "NAME", "INSTALLED", "KENNING", "WHERE"]);
    for host in &HOSTS {
        let presence = presence(host, machine, &launch(config, host, machine)?);
        if as_json {
            let row = json!({
                "host": host.id,
                "name": host.name,
                "installed": presence.installed,
                "configured": !presence.entries.is_empty(),
                "hooks": !presence.hooks.is_empty(),
                "takes_hooks": host.hooks.is_some(),
                "files": presence.entries.iter().map(|(path, _)| path).collect::<Vec<_>>(),
            });
            print(&row.to_string())?;
            continue;
        }
        let has = match (presence.entries.is_empty(), presence.hooks.is_empty(), host.hooks.is_some()) {
            _ if !presence.problems.is_empty() => "unreadable",
            (true, true, _) => "–",
            (true, false, _) => "only hooks",
            (false, false, _) => "with hooks",
            (false, true, true) => "without hooks",
            (false, true, false) => "yes",
        };
        let unreadable = presence.problems.iter().map(|(path, _)| path);
        let paths = presence.entries.iter().map(|(path, _)| path).chain(unreadable);
        let files: Vec<String> = paths.map(|path| machine.shown(path)).collect();
        let installed = if presence.installed { "yes" } else { "–" };
        let cells = [host.name, installed, has, &files.join(", ")].map(Text::plain);
        table.row(std::iter::once(Text::styled(NAME, host.id)).chain(cells).collect());
    }
    if as_json {
        return Ok(Outcome::Done);
    }
    terminal::print(&table.text())?;
    print(
        "\n`kenning setup HOST --hooks` sets one up, `--remove` takes Kenning out, `--dry-run` shows what would change.",
    )?;
    Ok(Outcome::Done)
}
