//! The files of a store: who may read them, and whether they are still the files that were opened.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::STORE_FILE;
use crate::{Applied, Error};

pub(super) fn unavailable(what: &str, error: &io::Error) -> Error {
    Error::Unavailable {
        applied: Applied::No,
        reason: format!("the data directory {what}: {}", error.kind()),
    }
}

/// The main file, the write-ahead log and the shared memory, as they were when the store was opened.
#[derive(Default)]
pub(super) struct Files(Vec<(PathBuf, Option<Identity>)>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Files {
    pub(super) fn of(path: &Path) -> Files {
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        // The log comes last, because its length is returned.
        let paths = [path.to_owned(), beside("-shm"), beside("-wal")];
        Files(paths.into_iter().map(|path| (path.clone(), identity(&path).map(|(it, _)| it))).collect())
    }

    /// The length of the write-ahead log, or what happened to the files. A write to a removed file would be
    /// lost, and a process with another shared memory would not see the locks of the others.
    pub(super) fn check(&self) -> Result<u64, String> {
        let mut length = 0;
        for (path, known) in &self.0 {
            let now = identity(path);
            if known.is_some() && now.map(|(it, _)| it) != *known {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let what = if now.is_some() { "replaced" } else { "removed" };
                return Err(format!(
                    "{name} was {what} while this process had it open; nothing more is written: end every session that \
                     uses the data directory, then start again (`kenning restore` brings a backup back)"
                ));
            }
            length = now.map_or(0, |(_, length)| length);
        }
        Ok(length)
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(Identity, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).ok()?;
    Some((Identity { device: metadata.dev(), inode: metadata.ino() }, metadata.len()))
}

/// On other systems an open file can't be removed.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<(Identity, u64)> {
    Some((Identity { device: 0, inode: 0 }, fs::metadata(path).ok()?.len()))
}

/// Makes the data private: directories get mode 0700 and files 0600. If that is not possible, the store is
/// refused.
#[cfg(unix)]
pub(super) fn prepare_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.map_err(|error| unavailable("can't be created", &error))?;
    let mode = fs::metadata(dir).map_err(|error| unavailable("can't be read", &error))?.mode();
    // Another user with write access may have put any file there.
    if mode & 0o022 != 0 {
        let what = "others may write to the data directory; take that right away (chmod 700)".to_owned();
        return Err(Error::Forbidden { what });
    }
    make_private(dir)?;
    // SQLite gives its log and its shared memory the permissions of the main file.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(STORE_FILE));
    match file {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(unavailable("can't be written", &error))
        }
        _ => Ok(()),
    }
}

/// Removes the permissions of other users, in this directory and all below it.
#[cfg(unix)]
fn make_private(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let mend = |path: &Path, mode: u32, private: u32| {
        if mode & 0o077 == 0 {
            return Ok(());
        }
        fs::set_permissions(path, fs::Permissions::from_mode(private)).map_err(|_| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let what = format!(
                "others have rights to `{name}` in the data directory; take them away (chmod {private:o})"
            );
            Error::Forbidden { what }
        })
    };
    let unreadable = |error: io::Error| unavailable("can't be read", &error);
    mend(dir, fs::metadata(dir).map_err(unreadable)?.mode(), 0o700)?;
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        // Another process may have removed the file in the meantime.
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
        if metadata.is_dir() {
            make_private(&entry.path())?;
        } else if metadata.is_file() {
            match mend(&entry.path(), metadata.mode(), 0o600) {
                Err(_) if !entry.path().exists() => {}
                done => done?,
            }
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn prepare_dir(dir: &Path) -> Result<(), Error> {
    let _ = (STORE_FILE, OpenOptions::new());
    DirBuilder::new().recursive(true).create(dir).map_err(|error| unavailable("can't be created", &error))
}
