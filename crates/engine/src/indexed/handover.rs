//! How servers on one database hand the index to each other. A server that has written segments leaves them in the store as a set of files;
//! a new server begins with that set and reads only the part of the log that comes after it. The set is a cache like the segments
//! themselves: one that is damaged, of another log or of another format is not used, and the log is read from its beginning.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kenning_model::TxId;
use kenning_retrieval::Error::Damaged;
use kenning_retrieval::{Reached, Writer};
use kenning_storage::{FileSet, LeftFile, Reader};

use super::{BEHIND_MAX, Failed, Indexed, PATIENCE_TO_ASK, append, check_source};
use crate::locked;

/// A set is left again after so many transactions. A new server reads as many into memory while its first question waits.
const LEFT_EVERY: u64 = BEHIND_MAX;
/// A set is left again when the log has grown by a fourth too, since a transaction can have thousands of changes; a log that is
/// shorter than this is read as fast as a set.
const LEFT_MIN: u64 = 64;
/// How often a question that waits looks whether the directory is filled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether segments up to `at` are worth leaving when the last set goes to `left`.
fn is_due(at: u64, left: u64) -> bool {
    let passed = at.saturating_sub(left);
    passed >= LEFT_EVERY || (passed >= LEFT_MIN && passed >= at / 4)
}

impl Indexed {
    fn set_name(&self) -> String {
        format!("{} {}", self.of, self.directory.kind())
    }

    /// Whether what lies between two transactions is read by filling the directory, and not into memory. An empty directory is filled even
    /// from a short log if another server may have left something, since a transaction can have thousands of changes.
    pub(super) fn is_far(&self, to: u64, from: u64) -> bool {
        let passed = to.saturating_sub(from);
        let may_be_left = from == 0 && self.is_kept && self.storage.backend().keeps_files();
        passed > BEHIND_MAX || (may_be_left && passed >= LEFT_MIN)
    }

    /// Leaves the segments in the store if that is due, on a thread of its own: the segments go on meanwhile.
    pub(super) fn leave(self: &Arc<Self>) {
        if !self.leaves_files
            || !self.storage.backend().keeps_files()
            || self.stop.load(Ordering::Acquire)
            || self.memory_only.load(Ordering::Acquire)
            || !self.directory.at().is_ok_and(|at| is_due(at, self.left_at.load(Ordering::Acquire)))
        {
            return;
        }
        let mut leaver = locked(&self.leaver);
        if leaver.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let indexed = self.clone();
        let leave = move || {
            super::yield_to_others();
            match indexed.leave_now() {
                Ok(()) => {}
                Err(Failed::Store(error)) => tracing::debug!(%error, "no files are left for other servers"),
                Err(Failed::Index(error)) => tracing::debug!(%error, "no files are left for other servers"),
                Err(Failed::Busy) => {}
            }
        };
        *leaver = std::thread::Builder::new().name("kenning-leave".into()).spawn(leave).ok();
    }

    fn leave_now(&self) -> Result<(), Failed> {
        let reader = self.storage.reader()?;
        let backend = self.storage.backend();
        let files = self.directory.files()?;
        let name = self.set_name();
        let there = backend.left_files(&name)?.filter(|set| check_set(&*reader, set).is_ok());
        let left_at = there.map_or(0, |set| set.at.0);
        // Whatever comes of it: it is tried again only when it is due again.
        self.left_at.store(left_at.max(files.at), Ordering::Release);
        if !is_due(files.at, left_at) {
            self.left_at.store(left_at, Ordering::Release);
            return Ok(());
        }
        let left = files.names().map(|(name, bytes)| LeftFile { name: name.to_owned(), bytes }).collect();
        let set = FileSet { name, at: TxId(files.at), manifest: files.manifest.clone(), files: left };
        check_set(&*reader, &set)?;
        let is_left = backend.leave_files(&set, &|file, range| {
            let bytes = files.read(&file.name, range).ok()?;
            (!self.stop.load(Ordering::Acquire)).then_some(bytes)
        })?;
        match is_left {
            true => tracing::debug!(at = files.at, "segments were left for other servers"),
            // Another server was at it, or the last set is half a minute old.
            false => self.left_at.store(left_at, Ordering::Release),
        }
        Ok(())
    }

    /// Fills an empty directory with what another server has left. False if there is nothing of use.
    pub(super) fn take_left(&self, reader: &dyn Reader, writer: &Writer<'_>) -> Result<bool, Failed> {
        let backend = self.storage.backend();
        // Segments that were thrown away may have come from there.
        if !backend.keeps_files() || self.directory.at()? > 0 || self.thrown_away.load(Ordering::Acquire) > 0
        {
            return Ok(false);
        }
        for is_last in [false, true] {
            let Some(set) = backend.left_files(&self.set_name())? else { return Ok(false) };
            match self.adopt(reader, writer, &set) {
                Ok(true) => {
                    tracing::debug!(at = set.at.0, "the index begins with what another server has left");
                    self.left_at.store(set.at.0, Ordering::Release);
                    return Ok(true);
                }
                // Another set has taken its place most likely.
                Ok(false) if !is_last => continue,
                Ok(false) => tracing::warn!("files that another server has left are missing"),
                Err(Failed::Index(error @ Damaged { .. })) => {
                    tracing::warn!(%error, "what another server has left can't be used");
                }
                // The directory can't be written, or the server is about to stop.
                Err(Failed::Index(error)) => {
                    tracing::debug!(%error, "what another server has left was not taken");
                    return Ok(false);
                }
                Err(other) => return Err(other),
            }
            if self.leaves_files {
                backend.forget_left_files(&set)?;
            }
            break;
        }
        Ok(false)
    }

    /// Takes a set into the directory. False if its files went while they were read.
    fn adopt(&self, reader: &dyn Reader, writer: &Writer<'_>, set: &FileSet) -> Result<bool, Failed> {
        check_set(reader, set)?;
        let (mut is_gone, mut failed) = (false, None);
        let mut fetch = |name: &str, out: &mut dyn Write| {
            let Some(file) = set.files.iter().find(|file| file.name == name) else { return Ok(false) };
            let mut take = |bytes: &[u8]| match self.stop.load(Ordering::Acquire) {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => out.write_all(bytes),
            };
            match self.storage.backend().read_left_file(set, file, &mut take) {
                Ok(true) => return Ok(true),
                Ok(false) => is_gone = true,
                Err(error) => failed = Some(error),
            }
            Err(io::Error::other("a file could not be read from the database"))
        };
        let adopted = writer.adopt(&set.manifest, &mut fetch);
        if is_gone {
            return Ok(false);
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(adopted.map(|()| true)?),
        }
    }

    /// Begins with what another server has left and writes segments up to the end of the log, unless another process does.
    pub(super) fn begin(&self) -> Result<(), Failed> {
        let reader = self.storage.reader()?;
        let head = reader.head()?;
        if let Ok(Some(writer)) = self.directory.lock(&self.stop)
            && self.is_far(head.0, self.directory.at()?)
        {
            self.take_left(&*reader, &writer)?;
            if self.is_far(head.0, self.directory.at()?) {
                append(&writer, &*reader, self.of, head, &self.embedder, &self.stop, None)?;
            }
        }
        Ok(())
    }

    /// Begins in the background before anyone asks.
    pub(crate) fn prepare(self: &Arc<Self>) {
        let mut worker = locked(&self.worker);
        let is_busy = worker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if self.is_kept && self.storage.backend().keeps_files() && !is_busy {
            self.is_beginning.store(true, Ordering::Release);
            let is_started = self.start(&mut worker, |indexed| {
                let begun = indexed.begin();
                indexed.is_beginning.store(false, Ordering::Release);
                begun
            });
            self.is_beginning.fetch_and(is_started, Ordering::AcqRel);
        }
    }

    /// Whether the directory is being filled. A thread that has ended, however it did, fills nothing.
    pub(crate) fn is_beginning(&self) -> bool {
        self.is_beginning.load(Ordering::Acquire) && self.is_at_work()
    }

    /// Starts filling the directory in the background and waits for a moment, so that a caller who wants an answer in time gets one from
    /// the newest records.
    pub(super) fn wait_for_beginning(
        self: &Arc<Self>,
        at: TxId,
        deadline: Option<Instant>,
    ) -> Result<(), Failed> {
        let is_far =
            || -> Result<bool, Failed> { Ok(at.0.saturating_sub(self.directory.at()?) > BEHIND_MAX) };
        let (Some(_), true) = (deadline, self.is_kept && self.storage.backend().keeps_files()) else {
            return Ok(());
        };
        if self.memory_only.load(Ordering::Acquire) || !is_far()? {
            return Ok(());
        }
        self.prepare();
        let since = Instant::now();
        while self.is_at_work() {
            if since.elapsed() > PATIENCE_TO_ASK {
                return Err(Failed::Busy);
            }
            std::thread::sleep(LOOK_EVERY);
            if !is_far()? {
                break;
            }
        }
        Ok(())
    }

    fn is_at_work(&self) -> bool {
        locked(&self.worker).thread.as_ref().is_some_and(|thread: &JoinHandle<()>| !thread.is_finished())
    }
}

/// A set can be used if its files were made from this log and cover what it says.
fn check_set(reader: &dyn Reader, set: &FileSet) -> Result<(), Failed> {
    let damaged = |what| Failed::from(Damaged { what });
    let reached =
        Reached::of_manifest(&set.manifest).ok_or_else(|| damaged("the manifest is of another format"))?;
    if TxId(reached.at) != set.at || reached.at == 0 {
        return Err(damaged("the manifest tells of another transaction"));
    }
    check_source(reader, &reached)
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn a_set_is_left_when_a_new_server_would_miss_it() {
        // A log that grows by single transactions, then by loads.
        for (at, left, due) in [
            (10, 0, false),
            (64, 0, true),
            (100, 64, false),
            (128, 64, true),
            (1_000, 800, false),
            (1_000, 750, true),
            (100_000, 98_001, false),
            (100_000, 98_000, true),
            (5, 10, false),
        ] {
            assert_eq!(is_due(at, left), due, "{at} after {left}");
        }
    }
}
