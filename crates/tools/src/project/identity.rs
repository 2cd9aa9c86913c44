//! The identity of a project: two directories belong to the same project if they have the same git directory
//! or the same remote; without git, the path decides.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file;

/// The facts by which a project is recognised in another session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(super) struct Identity {
    /// The canonical path of the git directory that all worktrees share; without git that of the project's
    /// directory.
    pub(super) path: PathBuf,
    /// The address of `origin` without scheme, user and password: `github.com/acme/web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remote: Option<String>,
}

impl Identity {
    /// The project that a directory belongs to. A repository that is the whole home directory does not count
    /// as a project.
    pub(super) fn of(dir: &Path, home: Option<&Path>) -> Identity {
        let dir = canonical(dir);
        let mut below_home = dir.ancestors().take_while(|dir| Some(*dir) != home);
        let root = below_home.find(|dir| file::is_there(&dir.join(".git")));
        let Some(root) = root else { return Identity { path: dir, remote: None } };
        match git_dir(root) {
            Some(git) => {
                let config = file::read(&git.join("config")).unwrap_or_default();
                Identity { remote: remote(&config), path: git }
            }
            None => Identity { path: root.to_owned(), remote: None },
        }
    }

    pub(super) fn is_same(&self, other: &Identity) -> bool {
        self.path == other.path || (self.remote.is_some() && self.remote == other.remote)
    }
}

fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The git directory of a work tree. If `.git` is a file that points to another directory, that directory has
/// to point back, as those of worktrees and submodules do. Otherwise an unpacked archive could claim to be
/// any repository.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    let about = std::fs::symlink_metadata(&git).ok()?;
    if about.is_dir() {
        return Some(canonical(&git));
    }
    let pointer = file::read(&git).ok()?;
    let target = canonical(&root.join(pointer.strip_prefix("gitdir:")?.trim()));
    if let Ok(back) = file::read(&target.join("gitdir")) {
        let is_worktree = canonical(&target.join(back.trim())) == canonical(&git);
        let common = file::read(&target.join("commondir")).ok()?;
        return is_worktree.then(|| canonical(&target.join(common.trim())));
    }
    let config = file::read(&target.join("config")).ok()?;
    let work_tree = values(&config, "core", "worktree").next()?;
    (canonical(&target.join(work_tree)) == root).then_some(target)
}

/// The address of the remote `origin`, or else of the first remote.
fn remote(config: &str) -> Option<String> {
    let origin = values(config, "remote \"origin\"", "url").next();
    origin.or_else(|| values(config, "remote ", "url").next()).and_then(address)
}

/// The values of a key in the sections whose names begin with `section`.
fn values<'a>(config: &'a str, section: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let mut is_in = false;
    config.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            is_in = name.trim_end_matches(']').starts_with(section);
            return None;
        }
        let (name, value) = line.split_once('=').filter(|_| is_in)?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim().trim_matches('"'))
    })
}

/// Reduces the URL of a remote to host and path, without user or token: `git@github.com:acme/web.git`,
/// `ssh://git@github.com/acme/web` and `https://TOKEN@github.com/acme/web.git` have the same address. A path
/// on this machine has none; such a project is identified by its git directory.
fn address(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':').filter(|(host, _)| !host.contains('/') && host.len() > 1)?,
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
    let path = path.split(['?', '#']).next()?.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_remote_has_many_spellings_and_none_keeps_a_secret() {
        for url in [
            "git@github.com:acme/web.git",
            "ssh://git@GitHub.com/acme/web",
            "https://user:s3cret@github.com/acme/web.git",
            "https://github.com/acme/web/",
        ] {
            assert_eq!(address(url).as_deref(), Some("github.com/acme/web"), "{url}");
        }
        for url in ["../web", "/srv/git/web.git", "file:///srv/git/web", "C:\\web", "", "https://"] {
            assert_eq!(address(url), None, "{url}");
        }
        let config = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@host.org:me/web\n\
            [remote \"origin\"]\n\turl = git@host.org:acme/web\n\tfetch = +refs\n[branch \"main\"]\n\turl = no\n";
        assert_eq!(remote(config).as_deref(), Some("host.org/acme/web"));
        assert_eq!(remote("[core]\nurl = git@host.org:acme/web\n"), None);
    }

    #[test]
    fn a_worktree_is_its_repository_and_a_forged_pointer_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = canonical(dir.path());
        let write = |path: &str, text: &str| {
            let path = top.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write("web/.git/config", "[remote \"origin\"]\nurl = git@host.org:acme/web\n");
        write("web/.git/worktrees/side/gitdir", &format!("{}\n", top.join("side/.git").display()));
        write("web/.git/worktrees/side/commondir", "../..\n");
        write("side/.git", &format!("gitdir: {}\n", top.join("web/.git/worktrees/side").display()));
        write("forged/.git", &format!("gitdir: {}\n", top.join("web/.git").display()));
        write("stolen/.git", &format!("gitdir: {}\n", top.join("web/.git/worktrees/side").display()));
        write("web/part/x", "");
        write("plain/x", "");
        write("clone/.git/config", "[remote \"origin\"]\nurl = https://host.org/acme/web.git\n");
        write("web/sub/.git", "gitdir: ../.git/modules/sub\n");
        write("web/.git/modules/sub/config", "[core]\nworktree = ../../../sub\n");
        let of = |path: &str| Identity::of(&top.join(path), None);
        let web = of("web");
        assert_eq!(web.path, top.join("web/.git"));
        for same in ["web/part", "side", "clone"] {
            assert!(web.is_same(&of(same)), "{same}");
        }
        for other in ["forged", "stolen", "plain", "web/sub"] {
            assert!(!web.is_same(&of(other)), "{other}");
        }
        assert_eq!(of("web/sub").path, top.join("web/.git/modules/sub"));
        assert_eq!(of("forged").path, top.join("forged"));
    }
}
