//! Reads and replaces a file of a host. Links are followed and permissions stay the same. A crash leaves
//! either the old file or the new one. The text from before the first change is kept beside the file.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A larger file can't be a configuration file.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// At most this many links in a row are followed.
const LINKS_MAX: usize = 16;
/// The file's text from before the first change is kept under the file's name with this ending.
pub const KEPT: &str = ".before-kenning";

pub struct HostFile {
    /// The real path, after following links.
    path: PathBuf,
    /// `None` if the file does not exist.
    pub text: Option<String>,
}

impl HostFile {
    pub fn read(named: &Path) -> anyhow::Result<HostFile> {
        let path = behind_links(named)?;
        let text = text_of(&path)?;
        Ok(HostFile { path, text })
    }

    /// The file as it was before the first change.
    pub fn original_text(&self) -> anyhow::Result<Option<String>> {
        text_of(&self.kept_path())
    }

    pub fn kept_path(&self) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(KEPT);
        name.into()
    }

    /// Replaces the text. With `keep`, the old text is saved beside the file.
    pub fn write(&self, text: &str, keep: bool) -> anyhow::Result<()> {
        self.check_unchanged()?;
        let dir = self.path.parent().context("the file has no directory")?;
        std::fs::create_dir_all(dir).with_context(|| format!("{} can't be made", dir.display()))?;
        if let (true, Some(before)) = (keep, &self.text) {
            self.put(&self.kept_path(), before)?;
        }
        self.put(&self.path, text)
    }

    /// Writes `text` back, or with `None` removes the file, and removes the kept copy.
    pub fn restore(&self, text: Option<&str>) -> anyhow::Result<()> {
        self.check_unchanged()?;
        match text {
            Some(text) => self.put(&self.path, text)?,
            None => std::fs::remove_file(&self.path)
                .with_context(|| format!("{} can't be removed", self.path.display()))?,
        }
        match std::fs::remove_file(self.kept_path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Fails if the file has changed since it was read. Hosts write their files too, and some do it often.
    fn check_unchanged(&self) -> anyhow::Result<()> {
        if text_of(&self.path)? != self.text {
            bail!("{} was changed by somebody else just now; try again", self.path.display());
        }
        Ok(())
    }

    fn put(&self, path: &Path, text: &str) -> anyhow::Result<()> {
        let written = || -> std::io::Result<()> {
            let dir = path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::Builder::new().prefix(".kenning-").tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            match std::fs::metadata(&self.path) {
                Ok(about) => file.as_file().set_permissions(about.permissions())?,
                Err(_) => usual_permissions(file.as_file(), dir)?,
            }
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        written().with_context(|| format!("{} can't be written", path.display()))
    }
}

/// A new file gets the read permissions of its directory.
#[cfg(unix)]
fn usual_permissions(file: &std::fs::File, dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let dir_mode = std::fs::metadata(dir)?.permissions().mode();
    let mode = 0o600 | (dir_mode & 0o044);
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn usual_permissions(_: &std::fs::File, _: &Path) -> std::io::Result<()> {
    Ok(())
}

fn behind_links(named: &Path) -> anyhow::Result<PathBuf> {
    let mut path = named.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(path),
        }
    }
    bail!("{} is a chain of links without an end", named.display())
}

fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", path.display())),
    };
    if !about.is_file() || about.len() > BYTES_MAX {
        bail!("{} is no configuration file", path.display());
    }
    let bytes = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => bail!("{} is not written in UTF-8, so it is left alone", path.display()),
    }
}
