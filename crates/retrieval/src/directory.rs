//! The directory of an index: its segments, and a manifest that names them and the last transaction that they cover.
//!
//! Many processes read the directory and one at a time writes to it. A segment is complete on the disk before the
//! manifest names it, it is removed only after the manifest no longer names it, and a rename replaces the manifest in
//! one step. So a process that dies at any moment leaves a directory that can be read. Checksums find damage of other
//! kinds, and the index is then built again from the log.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::embedder::Embedder;
use crate::error::{Error, damaged};
use crate::index::{Index, Known};
use crate::memory::Memory;
use crate::pages::{Pages, PagesWriter, read_exact_at};
use crate::part::Place;
use crate::segment::{Segment, Source, Span, TextLookup, vectors_file, write};

/// The version of the format, which is raised with every change of the files or of the tokenizer. An index of
/// another format is not read but built again.
const FORMAT: u64 = 9;
const MANIFEST: &str = "manifest";
const LOCK: &str = "lock";
/// A merge makes one segment of at least this many neighbours.
const MERGED: usize = 4;
/// A segment is named by so many hexadecimal digits.
const SEGMENT_NAME: usize = 16;
/// How often a reader that finds a segment gone reads the manifest again. Merges are rare, so a segment that is gone
/// every time means damage.
const TRIES: usize = 20;

pub struct Directory {
    path: PathBuf,
    embedder: Arc<Embedder>,
}

/// The last transaction that the segments cover, and the log that they were written from. The engine refuses an index
/// of another log; it also decides which text identifies a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last transaction that the segments cover.
    pub at: u64,
    /// Identifies the log, in one line; empty before the first transaction.
    pub source: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Manifest {
    reached: Reached,
    next_place: Place,
    segments: Vec<String>,
}

impl Directory {
    pub fn new(path: PathBuf, embedder: Arc<Embedder>) -> Directory {
        Directory { path, embedder }
    }

    /// Opens the index, and says which part of the log its segments cover. Segments that `known` has open are shared.
    pub fn open(&self, known: Option<&Known>) -> Result<(Index, Reached), Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let manifest = self.manifest()?;
            match self.open_segments(&manifest, known) {
                // A merge removed the vectors after the words were opened: read the new manifest.
                Ok(segments) if !Known(segments.clone()).has_vectors() && self.manifest()? != manifest => {}
                Ok(segments) => {
                    let index = Index::new(segments, manifest.next_place, self.embedder.clone())?;
                    return Ok((index, manifest.reached));
                }
                // Another process merged the segment away after this one read the manifest.
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.map_or_else(|| damaged("segments come and go"), Error::Io))
    }

    fn open_segments(&self, manifest: &Manifest, known: Option<&Known>) -> Result<Vec<Arc<Segment>>, Error> {
        let open = |name: &String| {
            let known = known.iter().flat_map(|known| &known.0).find(|segment| segment.name == *name);
            match known {
                Some(segment) => Ok(segment.clone()),
                None => Segment::open(&self.path, name, self.embedder.identity()).map(Arc::new),
            }
        };
        manifest.segments.iter().map(open).collect()
    }

    /// Whether there ever was an index.
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// The last transaction that the segments cover.
    pub fn at(&self) -> Result<u64, Error> {
        Ok(self.manifest()?.reached.at)
    }

    fn manifest(&self) -> Result<Manifest, Error> {
        let file = match Pages::open(&self.path.join(MANIFEST)) {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Manifest::default());
            }
            file => file?,
        };
        let text = file.read(0..file.len(), |bytes| String::from_utf8_lossy(bytes).into_owned())?;
        Manifest::parse(&text).ok_or_else(|| damaged("the manifest is of another format"))
    }

    /// The format and the model of the index. Only indexes with the same kind can use each other's files.
    pub fn kind(&self) -> String {
        format!("{FORMAT} {}", self.embedder.identity())
    }

    /// The files of the index as they are now. They stay readable when later segments take their place.
    pub fn files(&self) -> Result<IndexFiles, Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let manifest = self.manifest()?;
            match self.open_files(&manifest) {
                // Another process merged a segment away after this one read the manifest.
                Err(error) if error.kind() == io::ErrorKind::NotFound => last = Some(error),
                files => {
                    let (at, manifest) = (manifest.reached.at, manifest.text());
                    return Ok(IndexFiles { at, manifest, files: files? });
                }
            }
        }
        Err(last.map_or_else(|| damaged("segments come and go"), Error::Io))
    }

    fn open_files(&self, manifest: &Manifest) -> io::Result<Vec<IndexFile>> {
        let mut files = Vec::new();
        for segment in &manifest.segments {
            for (name, is_needed) in segment_files(segment, self.embedder.identity()) {
                match File::open(self.path.join(&name)) {
                    // Vectors that are not made yet are made by whoever takes the files.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !is_needed => {}
                    file => {
                        let file = file?;
                        files.push(IndexFile { bytes: file.metadata()?.len(), name, file });
                    }
                }
            }
        }
        Ok(files)
    }

    /// Whether the manifest names other segments than `known`.
    pub fn is_newer(&self, known: &Known) -> Result<bool, Error> {
        Ok(!self.manifest()?.segments.iter().eq(known.0.iter().map(|segment| &segment.name)))
    }

    /// Opens vectors that another process has made after the segments were opened.
    pub fn attach_vectors(&self, known: &Known) -> Result<(), Error> {
        known.0.iter().try_for_each(|segment| segment.attach_vectors(&self.path, self.embedder.identity()))
    }

    /// Takes the lock for writing; none while another process has it. Long work of the writer ends with
    /// `Error::Stopped` soon after `stop` is set.
    pub fn lock<'a>(&'a self, stop: &'a AtomicBool) -> io::Result<Option<Writer<'a>>> {
        create_private_dir(&self.path)?;
        let lock = private_file().create(true).truncate(false).write(true).open(self.path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Writer { directory: self, stop, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The files of an index at one moment, open.
pub struct IndexFiles {
    /// The last transaction that they cover.
    pub at: u64,
    pub manifest: String,
    files: Vec<IndexFile>,
}

struct IndexFile {
    name: String,
    bytes: u64,
    file: File,
}

impl IndexFiles {
    /// The files by name, each with its length.
    pub fn names(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.name.as_str(), file.bytes))
    }

    pub fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let found = self.files.iter().find(|file| file.name == name).ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        read_exact_at(&found.file, &mut bytes, range.start)?;
        Ok(bytes)
    }
}

/// The files of a segment, and whether it is of no use without them.
fn segment_files(segment: &str, identity: &str) -> [(String, bool); 2] {
    [(format!("{segment}.words"), true), (vectors_file(segment, identity), false)]
}

impl Reached {
    /// The position in the log up to which the segments of a manifest go; `None` if the manifest has another format.
    pub fn of_manifest(text: &str) -> Option<Reached> {
        Manifest::parse(text).map(|manifest| manifest.reached)
    }
}

impl Manifest {
    fn text(&self) -> String {
        let Reached { at, source } = &self.reached;
        let mut lines = vec![FORMAT.to_string(), at.to_string(), source.clone(), self.next_place.to_string()];
        lines.extend(self.segments.iter().cloned());
        lines.join("\n")
    }

    fn parse(text: &str) -> Option<Manifest> {
        let mut lines = text.lines();
        if lines.next()?.parse() != Ok(FORMAT) {
            return None;
        }
        let reached = Reached { at: lines.next()?.parse().ok()?, source: lines.next()?.to_owned() };
        let next_place = lines.next()?.parse().ok()?;
        Some(Manifest { reached, next_place, segments: lines.map(str::to_owned).collect() })
    }
}

/// The right to write to the directory, held by one process at a time.
pub struct Writer<'a> {
    directory: &'a Directory,
    stop: &'a AtomicBool,
    /// The operating system releases the lock when the file is closed, however the process ends.
    _lock: File,
}

impl Writer<'_> {
    /// Writes the tail, which covers the log from the end of the segments up to `to`, as one more segment.
    pub fn append(&self, tail: &Memory, to: Reached) -> Result<(), Error> {
        let mut manifest = self.directory.manifest()?;
        if manifest.reached.at != tail.begun_at {
            // The files were removed while the log was read. A segment behind them would hide that their part of the
            // log is missing.
            return Err(damaged("the segments before it are gone"));
        }
        if tail.changes() > 0 {
            let span = Span { first: manifest.reached.at + 1, last: to.at };
            manifest.segments.push(self.write(&[tail as &dyn Source], span)?);
        }
        manifest.reached = to;
        manifest.next_place = tail.next_place;
        self.put(&manifest)
    }

    /// An empty tail, and the end of the segments. The caller feeds the tail with the transactions after that end and
    /// then appends it.
    pub fn begin(&self) -> Result<(Memory, Reached), Error> {
        let manifest = self.directory.manifest()?;
        let mut tail = Memory::after(manifest.next_place);
        tail.begun_at = manifest.reached.at;
        Ok((tail, manifest.reached))
    }

    /// Merges neighbours until none are left that `to_merge` chooses.
    pub fn merge(&self, known: &Known) -> Result<(), Error> {
        while self.merge_once(known, to_merge)? {}
        Ok(())
    }

    /// Merges all segments into one.
    pub fn merge_all(&self, known: &Known) -> Result<(), Error> {
        self.merge_once(known, |sizes| (sizes.len() > 1).then_some(0..sizes.len())).map(drop)
    }

    fn merge_once(&self, known: &Known, choose: fn(&[u64]) -> Option<Range<usize>>) -> Result<bool, Error> {
        let mut manifest = self.directory.manifest()?;
        let segments = self.directory.open_segments(&manifest, Some(known))?;
        let index = Index::new(segments, manifest.next_place, self.directory.embedder.clone())?;
        let sizes: Vec<u64> = index.segments.iter().map(|open| u64::from(open.segment.totals.docs)).collect();
        let Some(range) = choose(&sizes) else { return Ok(false) };
        let merged = &index.segments[range.clone()];
        // A merged segment has vectors only if all its sources have them. So a merge of some with and some without
        // would lose vectors that are expensive to make.
        let with = merged.iter().filter(|open| open.segment.vectors.get().is_some()).count();
        if with > 0 && with < merged.len() {
            return Ok(false);
        }
        let (Some(first), Some(last)) = (merged.first(), merged.last()) else { return Ok(false) };
        let span = Span { first: first.segment.totals.first, last: last.segment.totals.last };
        let sources: Vec<&dyn Source> = merged.iter().map(|open| open as &dyn Source).collect();
        let name = self.write(&sources, span)?;
        manifest.segments.splice(range, [name]);
        self.put(&manifest)?;
        Ok(true)
    }

    /// Makes the vectors that are missing. `text` finds a version by its key and the transaction at which it began.
    pub fn embed(&self, segments: &Known, text: TextLookup<'_>) -> Result<(), Error> {
        let Directory { path, embedder } = self.directory;
        for segment in segments.0.iter().filter(|segment| segment.vectors.get().is_none()) {
            segment.embed(path, embedder, text, self.stop)?;
        }
        Ok(())
    }

    /// Fills the empty directory with the files of another index of this kind, which were read elsewhere. `fetch` writes a file of this
    /// name, or says that there is none. Every page of every file is checked before the manifest names it.
    pub fn adopt(
        &self,
        manifest: &str,
        fetch: &mut dyn FnMut(&str, &mut dyn Write) -> io::Result<bool>,
    ) -> Result<(), Error> {
        let manifest =
            Manifest::parse(manifest).ok_or_else(|| damaged("the manifest is of another format"))?;
        if self.directory.manifest()? != Manifest::default() {
            return Err(damaged("there is an index already"));
        }
        let adopted = self.adopt_files(&manifest, fetch);
        match adopted {
            Ok(()) => self.put(&manifest),
            Err(error) => {
                self.sweep(&Manifest::default())?;
                Err(error)
            }
        }
    }

    fn adopt_files(
        &self,
        manifest: &Manifest,
        fetch: &mut dyn FnMut(&str, &mut dyn Write) -> io::Result<bool>,
    ) -> Result<(), Error> {
        let Directory { path, embedder } = self.directory;
        for segment in &manifest.segments {
            // The name becomes a part of a path.
            if segment.len() != SEGMENT_NAME || !segment.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(damaged("a segment has no name of ours"));
            }
            for (name, is_needed) in segment_files(segment, embedder.identity()) {
                let path = path.join(&name);
                let mut file = private_file().create(true).truncate(true).write(true).open(&path)?;
                if fetch(&name, &mut file)? {
                    file.sync_data()?;
                    Pages::open(&path)?.check(self.stop)?;
                } else if is_needed {
                    return Err(damaged("a file of a segment is missing"));
                } else {
                    fs::remove_file(&path)?;
                }
            }
            Segment::open(path, segment, embedder.identity())?;
        }
        Ok(())
    }

    /// Removes the manifest and all segments.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.path.join(MANIFEST)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sweep(&Manifest::default()),
        }
    }

    fn write(&self, sources: &[&dyn Source], span: Span) -> Result<String, Error> {
        // A random name never names two different segments, not even after `clear`, so a process that still has the old
        // one open cannot take one for the other.
        let name = format!("{:0SEGMENT_NAME$x}", RandomState::new().build_hasher().finish());
        let written = write(&self.directory.path, &name, &self.directory.embedder, sources, span, self.stop);
        if written.is_err() {
            // Writers that are stopped often must not fill the disk with unfinished segments.
            self.sweep(&self.directory.manifest()?)?;
        }
        written.map(|()| name)
    }

    fn put(&self, manifest: &Manifest) -> Result<(), Error> {
        let (path, new) = (self.directory.path.join(MANIFEST), self.directory.path.join("manifest.new"));
        let mut file = PagesWriter::create(&new)?;
        file.write(manifest.text().as_bytes())?;
        file.finish()?;
        fs::rename(new, path)?;
        sync_directory(&self.directory.path)?;
        Ok(self.sweep(manifest)?)
    }

    /// Removes every file that the manifest does not name.
    fn sweep(&self, manifest: &Manifest) -> io::Result<()> {
        let named: HashSet<&str> = manifest.segments.iter().map(String::as_str).collect();
        for file in fs::read_dir(&self.directory.path)? {
            let file = file?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            let stem = name.split('.').next().unwrap_or_default();
            if !named.contains(stem) && name != MANIFEST && name != LOCK {
                // Some systems refuse to remove an open file; the next sweep removes it.
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(())
    }
}

/// Chooses the neighbours to merge: at least `MERGED` of them, as few and as new as possible, of which none is larger than
/// all others together. So the segment of a document at least doubles each time that the document is written again, and
/// small segments between large ones hold nothing up.
///
/// Example: of the sizes 900, 60, 50, 40, 30 the last four become one segment of 180. 900 has to wait until as much is beside it.
fn to_merge(sizes: &[u64]) -> Option<Range<usize>> {
    let fits = |range: &Range<usize>| {
        let sizes = sizes[range.clone()].iter().map(|size| (*size).max(1));
        sizes.clone().max().is_some_and(|largest| 2 * largest <= sizes.sum())
    };
    let ends = (MERGED..=sizes.len()).rev();
    ends.flat_map(|end| (0..=end - MERGED).rev().map(move |start| start..end)).find(fits)
}

/// Files that only the user may read, because the index contains the words of what the user stored.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, Prepared};
    use crate::memory::Version;
    use crate::part::Limits;

    #[test]
    fn segments_of_any_sizes_stay_few() {
        assert_eq!(to_merge(&[900, 60, 50, 40, 30]), Some(1..5));
        assert_eq!(to_merge(&[900, 60, 50, 40]), None);
        // Full segments with remains of a few documents between them, as updates leave them.
        for remains in [vec![], vec![3], vec![20, 1], vec![9, 30, 2, 0]] {
            let (mut sizes, mut written): (Vec<u64>, u64) = (Vec::new(), 0);
            for size in std::iter::repeat_n(std::iter::once(512).chain(remains.clone()), 1_000).flatten() {
                sizes.push(size);
                while let Some(range) = to_merge(&sizes) {
                    let merged = sizes[range.clone()].iter().sum();
                    written += merged;
                    sizes.splice(range, [merged]);
                }
                // Each is about half as large as the one before, with its remains.
                assert!(sizes.len() <= 10 * (1 + remains.len()), "{sizes:?}");
            }
            let documents: u64 = sizes.iter().sum();
            assert!(written < 10 * documents, "each document is written again {} times", written / documents);
        }
    }

    #[test]
    fn a_segment_is_not_put_behind_others_than_it_was_begun_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().to_owned(), Arc::default());
        let stop = AtomicBool::new(false);
        let writer = directory.lock(&stop).expect("writable").expect("nobody else writes");
        let begin = |at: u64| {
            let (mut tail, from) = writer.begin().expect("readable");
            let document = Document { body: "some words", ..Document::default() };
            let prepared = Prepared::new(&document, &Embedder::Table);
            let version = Version { group: 0, limits: Limits::NONE, marks: Vec::new(), prepared };
            tail.change(at, at, false, Some(version));
            (tail, from)
        };
        let to = |at: u64| Reached { at, source: "this log".to_owned() };
        let (tail, from) = begin(1);
        assert_eq!(from, Reached::default());
        writer.append(&tail, to(1)).expect("writable");
        let (tail, from) = begin(2);
        assert_eq!(from, to(1));
        fs::remove_file(dir.path().join(MANIFEST)).expect("removable");
        assert!(matches!(writer.append(&tail, to(2)), Err(Error::Damaged { .. })));
        assert_eq!(directory.at().expect("readable"), 0, "the first transaction is not skipped");
    }

    #[test]
    fn any_segment_of_good_pages_is_opened_or_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().to_owned(), Arc::default());
        let stop = AtomicBool::new(false);
        let writer = directory.lock(&stop).expect("writable").expect("nobody else writes");
        let (mut tail, _) = writer.begin().expect("readable");
        for at in 1..4 {
            let document = Document { body: "some words of a text", ..Document::default() };
            let prepared = Prepared::new(&document, &Embedder::Table);
            let version = Version { group: 0, limits: Limits::NONE, marks: vec![7], prepared };
            tail.change(at, at % 2, at > 2, Some(version));
        }
        writer.append(&tail, Reached { at: 3, source: "this log".to_owned() }).expect("writable");
        let name = directory.manifest().expect("readable").segments.remove(0);
        let path = dir.path().join(format!("{name}.words"));
        let file = Pages::open(&path).expect("a segment");
        let example = file.read(0..file.len(), <[u8]>::to_vec).expect("readable");
        kenning_testkit::fuzz::run("segment", &[example], |input| {
            // The file is written with valid checksums, so that the damage reaches the decoders.
            let mut pages = PagesWriter::create(&path).expect("writable");
            pages.write(input).and_then(|()| pages.finish()).expect("writable");
            if let Ok(segment) = Segment::open(dir.path(), &name, Embedder::Table.identity()) {
                let _ = segment.closings();
            }
        });
    }

    #[test]
    fn any_manifest_is_read_or_refused() {
        let reached = Reached { at: 42, source: "0123456789abcdef 01234567".to_owned() };
        let segments = vec!["47a16064a0de5468".to_owned(), "25e075319c2484c4".to_owned()];
        let example = Manifest { reached, next_place: 7, segments };
        assert_eq!(Manifest::parse(&example.text()), Some(example.clone()));
        kenning_testkit::fuzz::run("manifest", &[example.text()], |input| {
            let _ = Manifest::parse(&String::from_utf8_lossy(input));
        });
    }
}
