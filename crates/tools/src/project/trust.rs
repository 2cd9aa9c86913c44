//! The scopes that each project may name in its files: a list beside the store. It is not in the log, because
//! what one user allows on one machine must not apply elsewhere.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kenning_engine::{Error, Snapshot};
use kenning_model::{ScopeId, ScopeName};
use serde::{Deserialize, Serialize};

use super::identity::Identity;

/// The file in the data directory. Each line is one decision and later lines override earlier ones, so two
/// processes that append at the same time lose nothing.
pub(super) const TRUST_FILE: &str = "trust.jsonl";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fact {
    project: Identity,
    scope: String,
    /// The number of the scope with that name, if it existed. A different scope that gets the name later is
    /// not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<ScopeId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

/// A scope that a project may name.
#[derive(Clone, Debug, PartialEq)]
pub struct Trusted {
    pub scope: String,
    /// The git directory; without git the project's directory.
    pub path: PathBuf,
    pub remote: Option<String>,
}

pub(super) struct Trust {
    file: PathBuf,
    facts: Vec<Fact>,
}

impl Trust {
    /// Reads the list from the data directory. A file that can't be read allows nothing.
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
        // The last line about a project and a scope decides. A line that a crash has cut short is ignored.
        for fact in text.lines().rev().filter_map(|line| serde_json::from_str::<Fact>(line).ok()) {
            let is_last = known.insert((fact.project.clone(), fact.scope.clone()));
            if is_last && !fact.removed {
                facts.push(fact);
            }
        }
        facts.reverse();
        Trust { file, facts }
    }

    /// Whether a project may name this existing scope. Both the trusted name and the name in the project's
    /// file are followed through renames.
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

    /// Records that a project may name a scope, unless that is recorded already.
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

    /// Withdraws the permission to name a scope, from one project or without one from every project; returns
    /// the number of permissions.
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
            // The line before may have been cut short, so a line break comes first.
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

/// The number of the scope that has this name, or had it before a rename.
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
