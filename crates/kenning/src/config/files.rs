//! Settings from files: the user's `config.toml`, and a project's `.kenning.toml`, which another person may
//! have written. A value from a file becomes the default of the option with that name, so flags and the
//! environment take precedence.

use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml_edit::{DocumentMut, Item, Value};

use crate::commands::usage;

/// The path below the user's configuration directory.
const USER_FILE: &str = "kenning/config.toml";
const PROJECT_FILE: &str = ".kenning.toml";
/// A longer file can't be a settings file.
const BYTES_MAX: u64 = 64 * 1024;

/// The settings that a project may set: how tools are listed, and how replies look to its agents. A cloned
/// repository must not be able to decide where data is stored, who is named as the author, whether writes are
/// allowed, or what a server listens to.
const OF_PROJECTS: [&str; 4] = ["toolsets", "tool-names", "content", "no-graph"];
/// The key of the scope. The code that finds the scope of a project reads it, because it also checks whether
/// the project is trusted.
const SCOPE: &str = "scope";

/// The settings of all files that exist, the user's first. A value of the project takes precedence.
#[derive(Default)]
pub struct Files {
    pub user: Option<PathBuf>,
    pub project: Option<PathBuf>,
    set: Vec<Set>,
}

/// One option that a file sets, and its value.
struct Set {
    key: String,
    value: String,
    file: PathBuf,
}

/// An option that files may set, and the command that it belongs to; `None` for an option of all commands.
pub struct Setting<'a> {
    pub key: &'a str,
    pub arg: &'a Arg,
    pub command: Option<&'a str>,
}

/// Every option that has an environment variable, under its long name: the options of all commands and those
/// of `serve`.
pub fn settings(definition: &Command) -> Vec<Setting<'_>> {
    let mut settings = settings_of(definition, None);
    if let Some(serve) = definition.find_subcommand("serve") {
        for setting in settings_of(serve, Some("serve")) {
            if !settings.iter().any(|known| known.key == setting.key) {
                settings.push(setting);
            }
        }
    }
    settings
}

fn settings_of<'a>(command: &'a Command, name: Option<&'a str>) -> Vec<Setting<'a>> {
    let args = command.get_arguments().filter(|arg| arg.get_env().is_some());
    args.filter_map(|arg| Some(Setting { key: arg.get_long()?, arg, command: name })).collect()
}

impl Files {
    /// Reads the user's file, and the file of the project that contains `start`. `say` gets a message for
    /// each part of the project's file that is ignored.
    pub fn read(
        definition: &Command,
        config_dir: Option<&Path>,
        start: Option<&Path>,
        home: Option<&Path>,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<Files> {
        let settings = settings(definition);
        let mut files = Files { user: config_dir.map(|dir| dir.join(USER_FILE)), ..Files::default() };
        if let Some(file) = files.user.clone()
            && let Some(text) = read(&file)
        {
            let wrong = |what: String| usage(format!("{}: {what}", file.display()));
            for (key, value) in parse(&text).map_err(wrong)? {
                let Some(setting) = settings.iter().find(|setting| setting.key == key) else {
                    say(&format!("{}: {}", file.display(), unknown(&key, &settings)));
                    continue;
                };
                if key == SCOPE {
                    let why =
                        "a scope belongs to a project: use the project's files, `--scope` or KENNING_SCOPE";
                    say(&format!("{}: `scope` is ignored; {why}", file.display()));
                    continue;
                }
                let value = value.and_then(|value| checked(setting, value)).map_err(wrong)?;
                files.set.push(Set { key, value, file: file.clone() });
            }
        }
        files.project = start.and_then(|start| project_file(start, home));
        if let Some(file) = files.project.clone()
            && let Some(text) = read(&file)
        {
            files.read_project(&settings, &file, &text, say);
        }
        Ok(files)
    }

    /// Applies a project's file. No content of that file may make commands fail; each part that is ignored is
    /// reported.
    fn read_project(&mut self, settings: &[Setting<'_>], file: &Path, text: &str, say: &dyn Fn(&str)) {
        let say = |what: String| say(&format!("{}: {what}", file.display()));
        let values = match parse(text) {
            Ok(values) => values,
            Err(what) => return say(format!("{what}; the file is ignored")),
        };
        for (key, value) in values.into_iter().filter(|(key, _)| key != SCOPE) {
            let Some(setting) = settings.iter().find(|setting| setting.key == key) else {
                say(unknown(&key, settings));
                continue;
            };
            if !OF_PROJECTS.contains(&key.as_str()) {
                say(format!(
                    "`{key}` is ignored: a project's file may set {} and the scope, since the project may be somebody else's",
                    OF_PROJECTS.join(", ")
                ));
                continue;
            }
            match value.and_then(|value| checked(setting, value)) {
                Ok(value) => self.set.push(Set { key, value, file: file.to_owned() }),
                Err(what) => say(format!("{what}; that is ignored")),
            }
        }
    }

    /// The value of a setting in the files, and the file that it comes from.
    pub fn value(&self, key: &str) -> Option<(&str, &Path)> {
        let set = self.set.iter().rfind(|set| set.key == key)?;
        Some((&set.value, &set.file))
    }

    /// The definition of the command line, with the values of the files as defaults.
    pub fn apply(&self, definition: Command) -> Command {
        let places: Vec<(String, Option<String>, String)> = settings(&definition)
            .iter()
            .filter_map(|setting| {
                let (value, _) = self.value(setting.key)?;
                Some((setting.arg.get_id().to_string(), setting.command.map(str::to_owned), value.to_owned()))
            })
            .collect();
        places.into_iter().fold(definition, |definition, (id, command, value)| match command {
            None => {
                let of_commands = |mut command: Command| {
                    if command.get_arguments().any(|arg| arg.get_id() == id.as_str()) {
                        command = command.mut_arg(&id, |arg| arg.default_value(value.clone()));
                    }
                    command
                };
                of_commands(definition).mut_subcommands(of_commands)
            }
            Some(command) => definition.mut_subcommand(command, |command| {
                command.mut_arg(&id, |arg| arg.default_value(value.clone()))
            }),
        })
    }
}

fn read(file: &Path) -> Option<String> {
    let about = std::fs::metadata(file).ok()?;
    if !about.is_file() || about.len() > BYTES_MAX {
        return None;
    }
    std::fs::read_to_string(file).ok()
}

/// The nearest `.kenning.toml`, from `start` up to the root of the repository. The home directory itself is
/// never a project.
fn project_file(start: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for dir in start.ancestors().take_while(|dir| Some(*dir) != home) {
        let file = dir.join(PROJECT_FILE);
        if std::fs::symlink_metadata(&file).is_ok_and(|about| about.is_file()) {
            return Some(file);
        }
        if std::fs::symlink_metadata(dir.join(".git")).is_ok() {
            break;
        }
    }
    None
}

/// A key, and either its value as it would be typed or an error message about the value.
type KeyAndValue = (String, Result<String, String>);

fn parse(text: &str) -> Result<Vec<KeyAndValue>, String> {
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let typed = |key: &str, value: &Value| match value {
        Value::String(text) => Ok(text.value().clone()),
        Value::Integer(number) => Ok(number.value().to_string()),
        Value::Boolean(truth) => Ok(truth.value().to_string()),
        Value::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
            texts.map(|texts| texts.join(",")).ok_or_else(|| format!("`{key}` must be a list of texts"))
        }
        _ => Err(format!("`{key}` must be a text, a number, true or false, or a list of texts")),
    };
    let value = |(key, item): (&str, &Item)| {
        let value = match item.as_value() {
            Some(value) => typed(key, value),
            None => Err(format!("`{key}` must be a value, not a table")),
        };
        (key.replace('_', "-"), value)
    };
    Ok(document.iter().map(value).collect())
}

/// The value, if the option accepts it.
fn checked(setting: &Setting<'_>, value: String) -> Result<String, String> {
    let takes_value = setting.arg.get_action().takes_values();
    if !takes_value {
        let is_truth = value == "true" || value == "false";
        return is_truth.then_some(value).ok_or_else(|| format!("`{}` must be true or false", setting.key));
    }
    // Whether the option requires another one is not checked, because the other one may come from a flag or a
    // variable.
    let arg = Arg::new("value")
        .long("value")
        .value_parser(setting.arg.get_value_parser().clone())
        .action(setting.arg.get_action().clone());
    let arg = match setting.arg.get_value_delimiter() {
        Some(delimiter) => arg.value_delimiter(delimiter),
        None => arg,
    };
    let tried =
        Command::new("kenning").arg(arg).try_get_matches_from(["kenning", &format!("--value={value}")]);
    tried.map(|_| value.clone()).map_err(|_| {
        let possible: Vec<String> =
            setting.arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let one_of = if possible.is_empty() {
            String::new()
        } else {
            format!("; it is one of {}", possible.join(", "))
        };
        format!("`{value}` is no value for `{}`{one_of}", setting.key)
    })
}

/// The message for an unknown key, such as ``there is no setting `tolsets`; did you mean `toolsets`?``
fn unknown(key: &str, settings: &[Setting<'_>]) -> String {
    const NEAR: f64 = 0.8;
    let near = |setting: &Setting<'_>| strsim::jaro_winkler(key, setting.key);
    let nearest = settings.iter().max_by(|one, other| near(one).total_cmp(&near(other)));
    let hint = nearest.filter(|nearest| near(nearest) >= NEAR);
    let hint = hint.map(|nearest| format!("; did you mean `{}`?", nearest.key)).unwrap_or_default();
    format!("there is no setting `{}`{hint}", crate::commands::line(key))
}
