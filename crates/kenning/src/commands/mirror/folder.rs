//! The files of a mirror. All files are read at once; each one is written separately, and only if it has not
//! changed since it was read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ignore::WalkBuilder;
use sha2::{Digest, Sha256};

use crate::commands::entry_file::EntryFile;
use crate::commands::log_file::hex;

/// An entry is always shorter, so a longer file is not an entry.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(super) struct Folder {
    root: PathBuf,
    /// The files, by their paths relative to the root.
    pub(super) files: BTreeMap<String, File>,
}

pub(super) struct File {
    hash: Option<String>,
    pub(super) read: Result<EntryFile, String>,
}

impl Folder {
    /// Reads every Markdown file that is not hidden. A directory that can't be read is an error, because its
    /// files would otherwise look deleted.
    pub(super) fn read(root: &Path) -> anyhow::Result<Folder> {
        let mut files = BTreeMap::new();
        if !root.exists() {
            return Ok(Folder { root: root.to_owned(), files });
        }
        // Files that git ignores are read too: a new line in `.gitignore` must not delete an entry.
        let walk =
            WalkBuilder::new(root).standard_filters(false).hidden(true).sort_by_file_path(Path::cmp).build();
        for found in walk {
            let found = found.with_context(|| format!("{} can't be read as a whole", root.display()))?;
            let is_markdown = found.path().extension().is_some_and(|ending| ending == "md");
            let Some(file_type) = found.file_type().filter(|of| !of.is_dir() && is_markdown) else {
                continue;
            };
            let below = found.path().strip_prefix(root).unwrap_or(found.path());
            let path = below.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
            let file = match (file_type.is_file(), below.to_str()) {
                (true, Some(_)) => read_file(found.path()),
                (true, None) => File { hash: None, read: Err("its name is not UTF-8".to_owned()) },
                (false, _) => {
                    let why = "it is a link or no file, and links are not followed".to_owned();
                    File { hash: None, read: Err(why) }
                }
            };
            files.insert(path, file);
        }
        Ok(Folder { root: root.to_owned(), files })
    }

    /// Replaces the text of a file, if the file has not changed since it was read.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let at = self.place(path)?;
        self.check(path, &at)?;
        let dir = at.parent().unwrap_or(&self.root);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(".kenning-").tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            #[cfg(unix)]
            {
                // The file gets the permissions that it had, or the usual ones for a project. A temporary
                // file would be private to its owner.
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(&at).map_or(0o644, |about| about.permissions().mode());
                file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
            }
            file.persist(&at)?;
            Ok(())
        };
        write().map_err(|error| format!("it can't be written: {}", error.kind()))
    }

    /// Removes a file, if the file has not changed since it was read.
    pub(super) fn remove(&self, path: &str) -> Result<(), String> {
        let at = self.place(path)?;
        self.check(path, &at)?;
        match fs::remove_file(&at) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("it can't be removed: {}", error.kind()))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, path: &str, at: &Path) -> Result<(), String> {
        let now = match fs::symlink_metadata(at) {
            Ok(about) if about.is_file() => read_file(at).hash,
            Ok(_) => return Err("it is a link or no file, and links are not followed".to_owned()),
            Err(_) => None,
        };
        match self.files.get(path).and_then(|file| file.hash.clone()) == now {
            true => Ok(()),
            false => Err("it was changed meanwhile; the next run looks at it again".to_owned()),
        }
    }

    /// The absolute path of a file, after checking that no part of the path is a link.
    fn place(&self, path: &str) -> Result<PathBuf, String> {
        let parts: Vec<&str> = path.split('/').collect();
        if parts.iter().any(|part| part.is_empty() || part.starts_with('.')) {
            return Err("it is hidden or outside the folder".to_owned());
        }
        let mut at = self.root.clone();
        for part in &parts[..parts.len() - 1] {
            at.push(part);
            let made = fs::create_dir(&at).is_ok();
            if !made && !fs::symlink_metadata(&at).is_ok_and(|about| about.is_dir()) {
                return Err("what it is in is no directory, and links are not followed".to_owned());
            }
        }
        Ok(at.join(parts[parts.len() - 1]))
    }
}

fn read_file(path: &Path) -> File {
    let failed = |why: String| File { hash: None, read: Err(why) };
    match fs::metadata(path) {
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            return failed(format!("its {} bytes are more than the cap of {FILE_BYTES_MAX}", about.len()));
        }
        Ok(_) => {}
        Err(error) => return failed(format!("it can't be read: {}", error.kind())),
    }
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return failed(format!("it can't be read: {}", error.kind())),
    };
    let hash = Some(hex(Sha256::new().chain_update(&bytes)));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let read = match String::from_utf8(bytes) {
        Ok(text) => EntryFile::read(&text, &stem).and_then(|file| file.checked()),
        Err(_) => Err("it is not UTF-8".to_owned()),
    };
    File { hash, read }
}
