//! Sets up the scope of a project: creates it, trusts it, and names it in the file that the host's agents
//! read.

use anyhow::bail;
use kenning_model::{DEFAULT, ScopeName};
use serde_json::{Map, Value, json};

use super::file::HostFile;
use super::hosts::Host;
use super::machine::Machine;
use super::{Step, complain, path_on_terminal};
use crate::commands::run_tool;
use crate::config::Config;
use kenning_tools::scope_name;

pub struct ScopeSetup {
    scope: ScopeName,
    /// The file that gets the line with the scope. `None` if the host's entry names the scope instead.
    file: Option<&'static str>,
    /// The scope that a file of the project names already, and that file.
    named: Option<(ScopeName, String)>,
    remove: bool,
}

/// Which of the two the store does not have yet.
struct Missing {
    namespace: bool,
    scope: bool,
}

impl ScopeSetup {
    /// `None` if no scope was given.
    pub fn new(config: &Config, host: &Host, remove: bool) -> anyhow::Result<Option<ScopeSetup>> {
        let Some(scope) = config.flagged_scope() else { return Ok(None) };
        let scope = scope_name(scope).map_err(|stop| super::usage(stop.message))?;
        let engine = config.engine()?;
        let (_, project) = config.scope_finder().find(&engine, &config.principal());
        let named = project.scope_line().map(|(scope, file)| (scope.clone(), file.to_owned()));
        if let (Some((other, file)), false, Some(_)) = (&named, remove, host.instructions)
            && *other != scope
        {
            bail!("`{file}` names the scope `{other}` already; change that line, or leave `--scope` out");
        }
        Ok(Some(ScopeSetup { scope, file: host.instructions, named, remove }))
    }

    /// The change of the host's file that adds or removes the line.
    pub fn step(&self, machine: &Machine) -> anyhow::Result<Option<Step>> {
        let Some(name) = self.file else { return Ok(None) };
        let path = machine.project.join(name);
        let file = HostFile::read(&path)?;
        let text = match (&file.text, self.remove) {
            (None, true) => return Ok(None),
            (Some(text), true) => {
                let kept = file.original_text()?;
                let is_only_difference = |kept: &String| with_line(kept, &self.scope) == *text;
                match kept.filter(is_only_difference) {
                    Some(kept) => Some(kept),
                    None => Some(without_line(text, &self.scope)).filter(|text| !text.trim().is_empty()),
                }
            }
            (_, false) if self.named.is_some() => return Ok(None),
            (text, false) => Some(with_line(text.as_deref().unwrap_or_default(), &self.scope)),
        };
        let step = Step { shown: machine.shown(&path), keep: !self.remove, file, text };
        Ok((step.text != step.file.text).then_some(step))
    }

    /// Describes what will be created in the store, for the user to confirm.
    pub fn about(&self, config: &Config) -> anyhow::Result<Option<String>> {
        let missing = self.missing(config)?;
        let namespace = missing.namespace.then(|| format!("the namespace `{}`", self.scope.namespace));
        let scope = missing.scope.then(|| format!("the scope `{}`", self.scope));
        let names: Vec<String> = namespace.into_iter().chain(scope).collect();
        Ok((!names.is_empty()).then(|| format!("Makes {} in the store", names.join(" and "))))
    }

    fn missing(&self, config: &Config) -> anyhow::Result<Missing> {
        if self.scope == ScopeName::global_default() {
            return Ok(Missing { namespace: false, scope: false });
        }
        let engine = config.engine()?;
        // A preview must not create a store.
        if !engine.is_there() {
            return Ok(Missing { namespace: true, scope: self.scope.name != DEFAULT });
        }
        let tree = engine.snapshot(&config.principal())?.tree()?;
        let namespace = tree.namespace(&self.scope.namespace).is_none();
        let scope = self.scope.name != DEFAULT && tree.scope(&self.scope).is_none();
        Ok(Missing { namespace, scope })
    }

    /// Creates what is missing, and trusts this project to name the scope.
    pub fn make(&self, config: &Config) -> anyhow::Result<()> {
        let missing = self.missing(config)?;
        let ScopeName { namespace, name } = &self.scope;
        if missing.namespace {
            call(config, "create_namespace", json!({"name": namespace, "description": namespace}))?;
        }
        if missing.scope {
            let about = format!("The project {name}");
            call(config, "create_scope", json!({"scope": self.scope.to_string(), "description": about}))?;
        }
        if self.scope == ScopeName::global_default() {
            return Ok(());
        }
        let (engine, principal) = (config.engine()?, config.principal());
        let (_, project) = config.scope_finder().find(&engine, &principal);
        if let Err(error) = project.trust(&engine, &principal, &self.scope) {
            complain(&format!("the project can't be allowed to name `{}`: {error}", self.scope));
        }
        Ok(())
    }
}

fn call(config: &Config, tool: &str, arguments: Value) -> anyhow::Result<()> {
    let arguments: Map<String, Value> = match arguments {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let reply = run_tool(config, tool, arguments)?;
    if reply.is_error {
        bail!("{}", path_on_terminal(&reply.text()));
    }
    Ok(())
}

fn line(scope: &ScopeName) -> String {
    format!("scope: {scope}")
}

fn with_line(text: &str, scope: &ScopeName) -> String {
    let newline = super::toml::newline_of(text);
    let before = match text {
        "" => String::new(),
        text if text.ends_with('\n') => format!("{text}{newline}"),
        text => format!("{text}{newline}{newline}"),
    };
    format!("{before}{}{newline}", line(scope))
}

/// The text without the line, and without the empty line before it.
fn without_line(text: &str, scope: &ScopeName) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if let Some(at) = lines.iter().position(|there| there.trim_end() == line(scope)) {
        lines.remove(at);
        if at > 0 && lines[at - 1].trim().is_empty() {
            lines.remove(at - 1);
        }
    }
    lines.concat()
}
