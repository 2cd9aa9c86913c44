//! Facts about the machine that the setup needs: where hosts look for their files, and how to call this
//! program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}

/// The environment variables that say where files are.
const VARIABLES: [&str; 7] =
    ["APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "LOCALAPPDATA", "PATH", "XDG_CONFIG_HOME"];

pub struct Machine {
    pub platform: Platform,
    pub home: PathBuf,
    /// The root of the repository that the command was started in, else its directory.
    pub project: PathBuf,
    /// The path of the running program.
    pub program: PathBuf,
    pub variables: BTreeMap<&'static str, OsString>,
}

impl Machine {
    pub fn this() -> anyhow::Result<Machine> {
        let home = etcetera::home_dir().context("there is no home directory")?;
        let working_dir = std::env::current_dir().context("the working directory can't be read")?;
        let given =
            |name: &'static str| Some((name, std::env::var_os(name).filter(|value| !value.is_empty())?));
        Ok(Machine {
            platform: match std::env::consts::OS {
                "windows" => Platform::Windows,
                "macos" => Platform::MacOs,
                _ => Platform::Linux,
            },
            project: project(&working_dir, &home),
            program: std::env::current_exe().context("this program can't tell its own path")?,
            variables: VARIABLES.into_iter().filter_map(given).collect(),
            home,
        })
    }

    /// Expands a path of the table of hosts: `~` or a variable, then names that may end in `*`. A `*` matches
    /// only existing names, so the result may be empty or several paths.
    pub fn expand(&self, written: &str) -> Vec<PathBuf> {
        let (first, rest) = written.split_once('/').unwrap_or((written, ""));
        let Some(root) = self.root(first) else { return Vec::new() };
        let mut paths = vec![root];
        for name in rest.split('/').filter(|name| !name.is_empty()) {
            paths = match name.strip_suffix('*') {
                Some(prefix) => paths.iter().flat_map(|dir| beginning_with(dir, prefix)).collect(),
                None => paths.into_iter().map(|dir| dir.join(name)).collect(),
            };
        }
        paths
    }

    /// The directory that a variable stands for: the one that the environment names, otherwise the host's
    /// default.
    fn root(&self, name: &str) -> Option<PathBuf> {
        let given = |name: &str| self.variables.get(name).map(PathBuf::from);
        Some(match name {
            "~" => self.home.clone(),
            "$CONFIG" => given("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config")),
            "$APPDATA" => given("APPDATA").unwrap_or_else(|| self.home.join("AppData").join("Roaming")),
            "$LOCALAPPDATA" => {
                given("LOCALAPPDATA").unwrap_or_else(|| self.home.join("AppData").join("Local"))
            }
            "$CLAUDE" => given("CLAUDE_CONFIG_DIR").unwrap_or_else(|| self.home.join(".claude")),
            // If the variable is not set, this file is beside Claude's directory and not in it.
            "$CLAUDE_JSON" => given("CLAUDE_CONFIG_DIR").unwrap_or_else(|| self.home.clone()),
            "$CODEX" => given("CODEX_HOME").unwrap_or_else(|| self.home.join(".codex")),
            "$COPILOT" => given("COPILOT_HOME").unwrap_or_else(|| self.home.join(".copilot")),
            "$PROJECT" => self.project.clone(),
            _ => return None,
        })
    }

    /// The path of the program that a shell would start by this name.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        let endings: &[&str] = if self.platform == Platform::Windows { &[".exe", ".cmd"] } else { &[""] };
        let dirs = self.variables.get("PATH")?;
        std::env::split_paths(dirs)
            .flat_map(|dir| endings.iter().map(move |ending| dir.join(format!("{name}{ending}"))))
            .find(|path| is_executable(path))
    }

    /// The command that hosts start: the bare name if a shell finds this same program by it, because such an
    /// entry stays valid after an update; otherwise the path.
    pub fn command(&self, may_be_name: bool) -> String {
        let canonical = |path: &Path| std::fs::canonicalize(path).ok();
        let named = self.on_path("kenning").filter(|path| {
            let program = canonical(path);
            program.is_some() && program == canonical(&self.program)
        });
        match named {
            Some(_) if may_be_name => "kenning".to_owned(),
            Some(path) => path.display().to_string(),
            None => self.program.display().to_string(),
        }
    }

    /// A path in short form for messages, relative to the project or to `~`.
    pub fn shown(&self, path: &Path) -> String {
        if let Ok(below) = path.strip_prefix(&self.project)
            && self.project != self.home
        {
            return below.display().to_string();
        }
        match path.strip_prefix(&self.home) {
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => path.display().to_string(),
        }
    }
}

fn beginning_with(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(inside) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = inside
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    found.sort();
    found
}

/// The root of the repository that a directory is in. The home directory itself is never a project.
fn project(dir: &Path, home: &Path) -> PathBuf {
    let mut below_home = dir.ancestors().take_while(|dir| *dir != home);
    below_home.find(|dir| dir.join(".git").exists()).unwrap_or(dir).to_owned()
}

#[cfg(unix)]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub fn is_executable(path: &Path) -> bool {
    path.is_file()
}
