//! Which scopes a project may name in its files: a list beside the store, because what one user allows on one machine
//! is nothing that the log should carry elsewhere.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kenning_engine::{Error, Snapshot};
use kenning_model::{ScopeId, ScopeName};
use serde::{Deserialize, Serialize};

use super::identity::Identity;

/// The file in the data directory. Each line is a fact, the later ones hold, so that two processes that write at the
/// same time lose nothing.
pub(super) const TRUST_FILE: &str = "trust.jsonl";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fact {
    project: Identity,
    scope: String,
    /// The scope of that name, if there was one. Another one that gets the name later is not meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<ScopeId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

/// A scope that a project may name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trusted {
    pub scope: String,
    /// The git directory, or without git the project's own.
    pub path: PathBuf,
    pub remote: Option<String>,
}

pub(super) struct Trust {
    file: PathBuf,
    facts: Vec<Fact>,
}

impl Trust {
    /// What the data directory holds. A file that can't be read allows nothing.
    pub(super) fn read(dir: &Path) -> Trust {
        let file = dir.join(TRUST_FILE);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                tracing::warn!("{TRUST_FILE} can't be read, so no project's scope is trusted: {error}");
                String::new()
            }
        };
        let (mut facts, mut known) = (Vec::new(), HashSet::new());
        // The last fact about a project and a scope holds. A line that was cut short by a crash is no fact.
        for fact in text.lines().rev().filter_map(|line| serde_json::from_str::<Fact>(line).ok()) {
            let is_last = known.insert((fact.project.clone(), fact.scope.clone()));
            if is_last && !fact.removed {
                facts.push(fact);
            }
        }
        facts.reverse();
        Trust { file, facts }
    }

    /// Whether a project may name this scope, which is there. Both names are followed through renames.
    pub(super) fn allows(
        &self,
        snapshot: &Snapshot<'_>,
        projects: &[Identity],
        scope: ScopeId,
    ) -> Result<bool, Error> {
        let of_project = |fact: &&Fact| projects.iter().any(|project| project.is_same(&fact.project));
        for fact in self.facts.iter().filter(of_project) {
            let Some(name) = ScopeName::parse(&fact.scope) else { continue };
            let is_it = number(snapshot, &name)? == Some(scope);
            if is_it && fact.number.is_none_or(|number| number == scope) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn list(&self) -> Vec<Trusted> {
        let trusted = |fact: &Fact| Trusted {
            scope: fact.scope.clone(),
            path: fact.project.path.clone(),
            remote: fact.project.remote.clone(),
        };
        self.facts.iter().map(trusted).collect()
    }

    /// Notes that a project may name a scope; nothing is written that is known.
    pub(super) fn add(
        &self,
        project: &Identity,
        scope: &ScopeName,
        number: Option<ScopeId>,
    ) -> io::Result<()> {
        let fact = Fact { project: project.clone(), scope: scope.to_string(), number, removed: false };
        let is_known = |known: &Fact| {
            known.project == fact.project && known.scope == fact.scope && known.number == fact.number
        };
        if self.facts.iter().any(is_known) {
            return Ok(());
        }
        self.append(&[fact])
    }

    /// Takes back what a project, or without one every project, may name; gives how many facts that were.
    pub(super) fn remove(&self, project: Option<&Identity>, scope: &ScopeName) -> io::Result<usize> {
        let scope = scope.to_string();
        let is_meant = |fact: &&Fact| {
            fact.scope == scope && project.is_none_or(|project| project.is_same(&fact.project))
        };
        let gone: Vec<Fact> = self
            .facts
            .iter()
            .filter(is_meant)
            .map(|fact| Fact { number: None, removed: true, ..fact.clone() })
            .collect();
        self.append(&gone)?;
        Ok(gone.len())
    }

    fn append(&self, facts: &[Fact]) -> io::Result<()> {
        if facts.is_empty() {
            return Ok(());
        }
        let mut lines = String::new();
        for fact in facts {
            // The line before may have been cut short.
            lines.push('\n');
            lines.push_str(&serde_json::to_string(fact)?);
        }
        lines.push('\n');
        let mut file = open_private(&self.file)?;
        file.write_all(lines.as_bytes())?;
        file.sync_data()
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The scope that has a name, or had it and was renamed.
pub(super) fn number(snapshot: &Snapshot<'_>, name: &ScopeName) -> Result<Option<ScopeId>, Error> {
    match snapshot.scope(name) {
        Ok(scope) => Ok(Some(scope)),
        Err(Error::UnknownScope { .. }) => match snapshot.renamed(name)? {
            Some(now) => snapshot.scope(&now).map(Some),
            None => Ok(None),
        },
        Err(error) => Err(error),
    }
}
