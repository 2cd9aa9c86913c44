//! The project that a session works in, and the scope of calls that name none.
//!
//! The scope line in a project's files is only a request, because anybody may have written the repository. It
//! is followed if the scope does not exist yet, if the scope was made from this project, or if the user has
//! allowed it. Otherwise any repository could make an agent read the knowledge of another project.

mod file;
mod identity;
mod trust;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;
use kenning_engine::{Engine, Error};
use kenning_model::{Principal, ScopeId, ScopeName, TxId};

use sha2::{Digest, Sha256};

use crate::tool::renamed_note;
use crate::{Code, Stop};
use file::{FileStamp, Line};
use identity::Identity;
use trust::{TRUST_FILE, Trust};

pub use trust::Trusted;

/// The largest number of conflicting scopes that an error lists.
const SHOWN_MAX: usize = 4;

/// The places in which the scope of a session is searched, besides the roots of its client.
#[derive(Clone, Debug, Default)]
pub struct ProjectSettings {
    /// The scope that the user has configured, and the place of that setting.
    pub named: Option<(String, NamedBy)>,
    /// The project's directory according to the host, from the environment.
    pub given: Option<PathBuf>,
    pub working_dir: Option<PathBuf>,
    /// The home directory, which never counts as a project.
    pub home: Option<PathBuf>,
    /// The scope of calls if neither the user nor the project names one; without it they go to
    /// `global:default`. A server that is confined to some namespaces has one of their scopes here.
    pub fallback: Option<ScopeName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    Flag,
    Environment,
    Namespaces,
    /// The key with which a remote client calls.
    Credential,
    /// No setting: a remote server has no project, so everything goes to the scope that everyone sees.
    Server,
}

impl NamedBy {
    fn as_str(self) -> &'static str {
        match self {
            NamedBy::Flag => "--scope",
            NamedBy::Environment => "KENNING_SCOPE",
            NamedBy::Namespaces => "--namespaces",
            NamedBy::Credential => "the key",
            NamedBy::Server => "the server",
        }
    }
}

/// The scope of calls that name none, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultScope {
    /// The user has configured it.
    Named { scope: String, by: NamedBy },
    /// A file of the project names it.
    Found { scope: ScopeName, file: String },
    /// A file of the project names it, but the user has not allowed that.
    Untrusted { scope: ScopeName, file: String },
    /// The roots of the client name different scopes.
    Conflicting { found: Vec<(ScopeName, String)> },
    /// No scope is named. `malformed` is a file whose scope line has an invalid name.
    Nothing { malformed: Option<String> },
}

impl DefaultScope {
    /// The scope that reads use.
    pub fn scope(&self) -> String {
        match self {
            DefaultScope::Named { scope, .. } => scope.clone(),
            DefaultScope::Found { scope, .. } => scope.to_string(),
            _ => ScopeName::global_default().to_string(),
        }
    }

    /// The error for a write that names no scope, if such writes are refused.
    pub fn refusal(&self) -> Option<Stop> {
        match self {
            DefaultScope::Untrusted { scope, file } => {
                let message = format!(
                    "`{file}` names the scope `{scope}`, which was not made from this project, so it is not followed. If \
                     the project is the user's own, they allow it once with `kenning trust {scope}`, run in the project. \
                     What all projects may see goes to `scope` `global:default`."
                );
                Some(Stop::new(Code::PermissionDenied, message))
            }
            DefaultScope::Conflicting { found } => {
                let shown: Vec<String> = found
                    .iter()
                    .take(SHOWN_MAX)
                    .map(|(scope, file)| format!("`{scope}` in `{file}`"))
                    .collect();
                Some(Stop::invalid(format!(
                    "the client's roots name different scopes ({}), so none is followed; say with `scope` which is meant",
                    shown.join(", ")
                )))
            }
            _ => None,
        }
    }

    /// The text for the instructions: the scope of calls that name none, the setting that it comes from, and
    /// how to change it.
    pub fn about(&self, engine: &Engine, principal: &Principal) -> String {
        let goes_to = |scope: &str| format!("Calls that name no `scope` go to `{scope}`.");
        let elsewhere = "Calls that name no `scope` read `global:default` and may not write:";
        match self {
            DefaultScope::Named { scope, by } => {
                let by = by.as_str();
                match renamed(engine, principal, ScopeName::parse(scope)) {
                    Some(now) => format!("{} {}", goes_to(&now), renamed_note(scope, &now)),
                    None => format!("{} This scope was set with `{by}`.", goes_to(scope)),
                }
            }
            DefaultScope::Found { scope, file } => match renamed(engine, principal, Some(scope.clone())) {
                Some(now) => format!("{} {}", goes_to(&now), renamed_note(&scope.to_string(), &now)),
                None => {
                    let scope = scope.to_string();
                    format!("{} This scope is named by the project's `{file}`.", goes_to(&scope))
                }
            },
            DefaultScope::Untrusted { .. } | DefaultScope::Conflicting { .. } => {
                format!("{elsewhere} {}", self.refusal().map(|stop| stop.message).unwrap_or_default())
            }
            DefaultScope::Nothing { malformed } => {
                let why = match malformed {
                    Some(file) => format!("the line `scope:` in `{file}` has no proper name"),
                    None => "no scope is configured".to_owned(),
                };
                format!(
                    "Calls that name no `scope` go to `global:default`, which every project sees: {why}. The line `scope: \
                     NAMESPACE:SCOPE` in the project's CLAUDE.md or AGENTS.md changes that."
                )
            }
        }
    }
}

/// The present name of a scope that was renamed since it was configured. A store that does not exist is not
/// created for this question, and if the store can't be read, the calls will report that.
fn renamed(engine: &Engine, principal: &Principal, name: Option<ScopeName>) -> Option<String> {
    let name = name.filter(|name| *name != ScopeName::global_default())?;
    let snapshot = engine.is_there().then(|| engine.snapshot(principal).ok())??;
    Some(snapshot.renamed(&name).ok()??.to_string())
}

/// The directories that a session works in, with the identities by which trust is granted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Project {
    parts: Vec<Part>,
}

/// One root of the client, or the single directory of the session.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    line: Line,
    /// The identities of the directory and of the one with the file; without git these may differ.
    identities: Vec<Identity>,
}

impl Project {
    /// A key by which other processes recognise the same project; it reveals nothing about the project, and
    /// all worktrees of a repository have the same key. `None` if no directory is known.
    pub fn key(&self) -> Option<String> {
        let identity = self.parts.first()?.identities.first()?;
        let path = identity.path.as_os_str().as_encoded_bytes();
        Some(HEXLOWER.encode(&Sha256::new().chain_update("project ").chain_update(path).finalize()[..16]))
    }

    /// The scope that a file of the project names, whether it is followed or not, and that file.
    pub fn scope_line(&self) -> Option<(&ScopeName, &str)> {
        self.parts.iter().find_map(|part| Some((part.line.scope.as_ref()?, part.line.file.as_deref()?)))
    }

    /// Allows this project to name a scope in its files from now on.
    pub fn trust(&self, engine: &Engine, principal: &Principal, scope: &ScopeName) -> io::Result<()> {
        let snapshot = engine.is_there().then(|| engine.snapshot(principal).ok()).flatten();
        let number = snapshot.and_then(|snapshot| trust::number(&snapshot, scope).ok()).flatten();
        let trust = Trust::read(engine.dir());
        for identity in self.meant_for(scope) {
            trust.add(identity, scope, number)?;
        }
        Ok(())
    }

    /// The identities to trust. If there are several roots, which may belong to different people, only those
    /// whose files name the scope.
    fn meant_for<'a>(&'a self, scope: &ScopeName) -> Vec<&'a Identity> {
        let names = |part: &&Part| part.line.scope.as_ref() == Some(scope) || self.parts.len() == 1;
        self.parts.iter().filter(names).flat_map(|part| &part.identities).collect()
    }

    /// Withdraws that permission, for this project or for every project; returns the number of permissions
    /// withdrawn.
    pub fn distrust(&self, dir: &Path, scope: &ScopeName, everywhere: bool) -> io::Result<usize> {
        let trust = || Trust::read(dir);
        if everywhere {
            return trust().remove(None, scope);
        }
        let mut many = 0;
        for identity in self.parts.iter().flat_map(|part| &part.identities) {
            many += trust().remove(Some(identity), scope)?;
        }
        Ok(many)
    }
}

/// Every scope that some project may name, as listed in the data directory.
pub fn trusted(dir: &Path) -> Vec<Trusted> {
    Trust::read(dir).list()
}

/// Finds the scope of a session, and finds it again after a file, the roots, the store or the list of trusted
/// scopes has changed.
#[derive(Debug)]
pub struct ScopeFinder {
    settings: ProjectSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    roots: Vec<PathBuf>,
    files: Option<ProjectFiles>,
}

/// The content of the files when they were last read.
#[derive(Debug)]
struct ProjectFiles {
    seen: Vec<FileStamp>,
    project: Arc<Project>,
    decision: Option<ScopeDecision>,
}

/// The decision whether the line is followed. It depends on the store and on the list of trusted scopes at
/// the time of a call.
#[derive(Debug)]
struct ScopeDecision {
    at: Option<TxId>,
    trust: FileStamp,
    scope: DefaultScope,
}

impl ScopeFinder {
    pub fn new(settings: ProjectSettings) -> ScopeFinder {
        ScopeFinder { settings, state: Mutex::default() }
    }

    /// Whether the user has configured the scope, so that files are not searched for it.
    pub fn is_named(&self) -> bool {
        self.settings.named.is_some()
    }

    /// Sets the client's roots, when they become known or change.
    pub fn set_roots(&self, roots: Vec<PathBuf>) {
        let mut state = self.state();
        if state.roots != roots {
            *state = State { roots, files: None };
        }
    }

    /// The scope at this moment, and the project that it belongs to.
    pub fn find(&self, engine: &Engine, principal: &Principal) -> (DefaultScope, Arc<Project>) {
        let mut state = self.state();
        // A scope that the user has configured does not change with the files.
        let is_current =
            |files: &ProjectFiles| self.is_named() || files.seen.iter().all(|seen| seen.is_unchanged());
        let files = match state.files.take().filter(is_current) {
            Some(files) => files,
            None => self.read_files(&state.roots),
        };
        let files = state.files.insert(files);
        let project = files.project.clone();
        let scope = match &self.settings.named {
            Some((scope, by)) => DefaultScope::Named { scope: scope.clone(), by: *by },
            None => match (files.decide(engine, principal), &self.settings.fallback) {
                (DefaultScope::Nothing { .. }, Some(scope)) => {
                    DefaultScope::Named { scope: scope.to_string(), by: NamedBy::Namespaces }
                }
                (decision, _) => decision,
            },
        };
        (scope, project)
    }

    /// Searches the files. The project is that of the first source that names a directory.
    fn read_files(&self, roots: &[PathBuf]) -> ProjectFiles {
        let settings = &self.settings;
        let canonical = |dir: &Path| std::fs::canonicalize(dir).ok().filter(|dir| dir.is_dir());
        let mut starts: Vec<PathBuf> = roots.iter().filter_map(|root| canonical(root)).collect();
        if starts.is_empty() {
            let one = settings.given.as_deref().and_then(canonical);
            starts.extend(one.or_else(|| canonical(settings.working_dir.as_deref()?)));
        }
        let home = settings.home.as_deref().map(|home| canonical(home).unwrap_or_else(|| home.to_owned()));
        let mut seen = Vec::new();
        let parts = starts
            .iter()
            .map(|start| {
                let line = file::find(start, home.as_deref(), &mut seen);
                let mut identities = vec![Identity::of(start, home.as_deref())];
                let of_file = Identity::of(&line.dir, home.as_deref());
                if !identities.contains(&of_file) {
                    identities.push(of_file);
                }
                Part { line, identities }
            })
            .collect();
        ProjectFiles { seen, project: Arc::new(Project { parts }), decision: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProjectFiles {
    fn decide(&mut self, engine: &Engine, principal: &Principal) -> DefaultScope {
        let parts = &self.project.parts;
        let mut found: Vec<(ScopeName, String)> = Vec::new();
        for Part { line, .. } in parts {
            if let (Some(scope), Some(file)) = (&line.scope, &line.file)
                && !found.iter().any(|(known, _)| known == scope)
            {
                found.push((scope.clone(), file.clone()));
            }
        }
        if found.len() > 1 {
            return DefaultScope::Conflicting { found };
        }
        let Some((scope, file)) = found.pop() else {
            let malformed = parts.iter().find_map(|part| part.line.file.clone());
            return DefaultScope::Nothing { malformed };
        };
        if scope == ScopeName::global_default() {
            return DefaultScope::Found { scope, file };
        }
        let snapshot = engine.is_there().then(|| engine.snapshot(principal)).transpose();
        let at = snapshot.as_ref().ok().and_then(|snapshot| Some(snapshot.as_ref()?.at()));
        if let Some(decision) = &self.decision
            && decision.at == at
            && decision.trust.is_unchanged()
        {
            return decision.scope.clone();
        }
        let trust = FileStamp::at(engine.dir().join(TRUST_FILE));
        let follows = |number: ScopeId| -> Result<bool, Error> {
            let names = |part: &&Part| part.line.scope.as_ref() == Some(&scope);
            let projects: Vec<Identity> =
                parts.iter().filter(names).flat_map(|part| part.identities.clone()).collect();
            let snapshot = engine.snapshot(principal)?;
            Trust::read(engine.dir()).allows(&snapshot, &projects, number)
        };
        let number = snapshot.and_then(|snapshot| match snapshot {
            Some(snapshot) => trust::number(&snapshot, &scope),
            None => Ok(None),
        });
        let is_followed = match number {
            // A scope that does not exist has no content to protect.
            Ok(None) => true,
            Ok(Some(number)) => follows(number).unwrap_or(false),
            // If the store can't be read, each call reports that itself.
            Err(_) => false,
        };
        let scope = match is_followed {
            true => DefaultScope::Found { scope, file },
            false => DefaultScope::Untrusted { scope, file },
        };
        self.decision = Some(ScopeDecision { at, trust, scope: scope.clone() });
        scope
    }
}
