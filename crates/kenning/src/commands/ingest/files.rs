//! Lists the files below a directory that are documents, without those that git ignores.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use kenning_engine::Format;

/// A larger file is not taken in; documents that people read are smaller.
pub(super) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A larger file is not included into other documents.
const INCLUDED_BYTES_MAX: u64 = 1024 * 1024;

pub(super) struct File {
    /// Relative to the base directory, with `/` as the separator.
    pub(super) path: String,
    pub(super) at: PathBuf,
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct Listed {
    pub(super) files: Vec<File>,
    /// Directories that a watcher must watch, because files may be created in them.
    pub(super) dirs: Vec<PathBuf>,
    /// Paths that could not be listed, each with the reason.
    pub(super) failed: Vec<(String, String)>,
    /// Symbolic links to files or directories that would otherwise have been taken in. They are not followed.
    pub(super) links: Vec<String>,
    /// Files and directories that could not be read, so their content is unknown.
    unread: Vec<String>,
}

impl Listed {
    /// Whether a file may exist at the path although the listing does not contain it, because the path could
    /// not be read.
    pub(super) fn may_have(&self, path: &str) -> bool {
        self.unread.iter().any(|unread| {
            let rest = path.strip_prefix(unread.as_str());
            unread.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn fail(&mut self, path: String, why: String) {
        self.unread.push(path.clone());
        self.failed.push((path, why));
    }
}

/// Lists the files at these places and below them. The directories above a place are visited too, because
/// their ignore files may apply to it.
pub(super) fn list(
    root: &Path,
    base: &Path,
    places: &[PathBuf],
    format_of: &dyn Fn(&Path) -> Option<Format>,
) -> Listed {
    let mut listed = Listed::default();
    let is_wanted = |path: &Path| format_of(path).is_some();
    let wanted = places.to_vec();
    let walk = WalkBuilder::new(root)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let path = entry.path();
            wanted.iter().any(|place| path.starts_with(place) || place.starts_with(path))
        })
        .build();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            // The file was deleted during the listing.
            Err(error) if error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => {
                continue;
            }
            Err(error) => {
                let why =
                    error.io_error().map_or_else(|| error.to_string(), |error| error.kind().to_string());
                let path = path_of(&error).map(|path| shown_below(base, path)).unwrap_or_default();
                listed.fail(path, format!("it can't be read: {why}"));
                continue;
            }
        };
        let path = entry.path();
        let Some(file_type) = entry.file_type() else { continue };
        if file_type.is_dir() {
            listed.dirs.push(path.to_owned());
        }
        if file_type.is_symlink() && (is_wanted(path) || path.is_dir()) {
            listed.links.push(shown_below(base, path));
        }
        // A file that the user named gets an error if its format is not supported. Other files beside
        // documents are skipped silently.
        if file_type.is_file() && entry.depth() == 0 && !is_wanted(path) {
            // A document format that is not supported here means that the run takes in patterns, so the error
            // names their formats.
            let names = if Format::of(path).is_some() { "Markdown or MDX" } else { Format::NAMES };
            listed.fail(shown_below(base, path), format!("it is no {names} by its name"));
        }
        if !file_type.is_file() || !is_wanted(path) {
            continue;
        }
        let Some(name) = path_below(base, path) else {
            listed.failed.push((shown_below(base, path), "its name is not UTF-8".to_owned()));
            continue;
        };
        match entry.metadata().map(|about| about.len()) {
            Ok(bytes) if bytes > FILE_BYTES_MAX => {
                listed.fail(name, format!("its {bytes} bytes are more than the cap of {FILE_BYTES_MAX}"));
            }
            // If the size can't be read, the file can't be read either; the later read reports the reason.
            bytes => listed.files.push(File { path: name, at: path.to_owned(), bytes: bytes.unwrap_or(0) }),
        }
    }
    listed
}

/// The text of a file that a document includes. The file must be below the base, not reached through a link,
/// and not hidden.
pub(super) fn text_below(base: &Path, path: &str) -> Option<String> {
    if path.split('/').any(|part| part.starts_with('.')) {
        return None;
    }
    let mut below = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::CurDir => {}
            Component::ParentDir if below.pop() => {}
            _ => return None,
        }
    }
    let (bytes, _) = read_below(base, &below, INCLUDED_BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}

/// Reads a regular file below a directory, and returns its bytes and metadata. The file may be replaced by a
/// link or a pipe after it was listed. So no part of the path may be a link, a pipe is opened without waiting
/// for a writer, and the metadata is that of the opened file.
pub(super) fn read_below(base: &Path, below: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, fs::Metadata)> {
    let file = open_below(base, below)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no regular file any more"));
    }
    let mut bytes = Vec::with_capacity(about.len().min(bytes_max) as usize);
    if file.take(bytes_max + 1).read_to_end(&mut bytes)? as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more bytes than the cap of {bytes_max}")));
    }
    Ok((bytes, about))
}

#[cfg(unix)]
fn open_below(base: &Path, below: &Path) -> io::Result<fs::File> {
    use rustix::fs::{Mode, OFlags, open, openat};
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut dir = open(base, flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut names = below.components().peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let kind = if is_last { OFlags::NONBLOCK } else { OFlags::DIRECTORY };
        dir = match openat(&dir, name.as_os_str(), flags | kind, Mode::empty()) {
            // These errors mean that a part of the path is a link.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(io::Error::other("it is a link now, or below one, and links are not followed"));
            }
            opened => opened?,
        };
    }
    Ok(dir.into())
}

#[cfg(not(unix))]
fn open_below(base: &Path, below: &Path) -> io::Result<fs::File> {
    let path = base.join(below);
    if fs::symlink_metadata(&path)?.is_symlink() {
        return Err(io::Error::other("it is a link now, and links are not followed"));
    }
    fs::File::open(path)
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}

/// Like `path_below`, but also for names that are not UTF-8; for messages only.
fn shown_below(base: &Path, path: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned()
}

pub(super) fn path_below(base: &Path, path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.strip_prefix(base).ok()?.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}
