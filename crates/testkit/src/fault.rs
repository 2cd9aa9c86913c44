//! A disk that fails on demand, and its content after a power failure.
//!
//! SQLite's default file system is wrapped in one that counts every operation that changes a watched
//! directory, can let any of them fail, and keeps a journal. From the journal, the disk after a power failure
//! at any operation can be built. The wrapper becomes the default of the process, so the product opens its
//! files as always. Directories that are not watched are passed through, and so is shared memory, because a
//! power failure loses all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::{fs, io, ptr, slice};

use rusqlite::ffi;
use tempfile::TempDir;

use crate::scrambled;

/// The unit that a disk writes either whole or not at all.
const SECTOR: usize = 512;

/// A directory that is watched until this value is dropped.
pub struct Faults {
    dir: PathBuf,
    watched: Arc<Mutex<Watched>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every operation that changes the disk reports an I/O error.
    Io,
    /// Every operation that needs space finds none.
    Full,
    /// Writes succeed, and the sync after them fails.
    Sync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    Once,
    UntilHealed,
}

#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The first operation to fail, counted from 0 since the start of the watch.
    pub at: usize,
    pub kind: Kind,
    pub lasts: Lasts,
}

/// One change of the disk that took place.
#[derive(Clone, Debug)]
pub enum Operation {
    Create {
        file: Arc<str>,
    },
    Write {
        file: Arc<str>,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: Arc<str>,
        size: usize,
    },
    /// `directory` is set for the first sync of a new journal, because SQLite syncs its directory at the same
    /// time.
    Sync {
        file: Arc<str>,
        directory: bool,
    },
    /// Data that was not synced before this is lost: the kernel reports such a loss once and then forgets it.
    FailedSync {
        file: Arc<str>,
    },
    Delete {
        file: Arc<str>,
        directory: bool,
    },
}

#[derive(Default)]
struct Watched {
    fault: Option<Fault>,
    failed: bool,
    count: usize,
    journal: Vec<Operation>,
    /// The files that existed when they were first opened, with their content.
    found: BTreeMap<Arc<str>, Vec<u8>>,
    known: BTreeSet<Arc<str>>,
}

impl Faults {
    /// Starts to count the operations in this directory. No connection may have opened it yet.
    pub fn watch(dir: &Path) -> Faults {
        install();
        let dir = dir.canonicalize().expect("the watched directory is there");
        let watched = Arc::new(Mutex::new(Watched::default()));
        locked(directories()).insert(dir.clone(), watched.clone());
        Faults { dir, watched }
    }

    /// The number of operations that changed the disk.
    pub fn count(&self) -> usize {
        locked(&self.watched).count
    }

    pub fn fail(&self, fault: Fault) {
        locked(&self.watched).fault = Some(fault);
    }

    pub fn heal(&self) {
        locked(&self.watched).fault = None;
    }

    /// Whether any operation was made to fail.
    pub fn failed(&self) -> bool {
        locked(&self.watched).failed
    }

    /// The disk before the first operation, and every operation since.
    pub fn recording(&self) -> (Disk, Vec<Operation>) {
        let watched = locked(&self.watched);
        (Disk::with(&watched.found), watched.journal.clone())
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        locked(directories()).remove(&self.dir);
    }
}

impl Operation {
    /// Whether a fault of this kind can hit the operation.
    pub fn is_hit_by(&self, kind: Kind) -> bool {
        match kind {
            Kind::Io => true,
            Kind::Full => matches!(self, Operation::Write { .. } | Operation::Create { .. }),
            Kind::Sync => matches!(self, Operation::Sync { .. }),
        }
    }

    fn failure(&self, kind: Kind) -> c_int {
        match (self, kind) {
            // This is how the default file system reports that it can't create a file, whatever the reason.
            (Operation::Create { .. }, _) => ffi::SQLITE_CANTOPEN,
            (Operation::Write { .. }, Kind::Full) => ffi::SQLITE_FULL,
            (Operation::Write { .. }, _) => ffi::SQLITE_IOERR_WRITE,
            (Operation::Truncate { .. }, _) => ffi::SQLITE_IOERR_TRUNCATE,
            (Operation::Sync { .. } | Operation::FailedSync { .. }, _) => ffi::SQLITE_IOERR_FSYNC,
            (Operation::Delete { .. }, _) => ffi::SQLITE_IOERR_DELETE,
        }
    }
}

impl Watched {
    /// Counts the operation and adds its effect to the journal; returns the error code if the operation has
    /// to fail.
    fn admit(&mut self, operation: Operation) -> Result<(), c_int> {
        let at = self.count;
        self.count += 1;
        let due = self.fault.filter(|fault| match fault.lasts {
            Lasts::Once => at == fault.at,
            Lasts::UntilHealed => at >= fault.at,
        });
        let Some(fault) = due.filter(|fault| operation.is_hit_by(fault.kind)) else {
            self.journal.push(operation);
            return Ok(());
        };
        self.failed = true;
        let code = operation.failure(fault.kind);
        match operation {
            // A failed write leaves its first half on the disk, as a full disk does.
            Operation::Write { file, offset, mut bytes } => {
                bytes.truncate(bytes.len() / 2);
                self.journal.push(Operation::Write { file, offset, bytes });
            }
            Operation::Sync { file, .. } => self.journal.push(Operation::FailedSync { file }),
            _ => {}
        }
        Err(code)
    }
}

/// The disk below the cache of the operating system: the data that is certainly on it, and the data that may
/// be.
#[derive(Clone, Default)]
pub struct Disk {
    files: Vec<Contents>,
    /// The directory as running programs see it, and its state at the last sync.
    names: BTreeMap<Arc<str>, usize>,
    synced_names: BTreeMap<Arc<str>, usize>,
}

#[derive(Clone, Default)]
struct Contents {
    synced: Vec<u8>,
    pending: Vec<Patch>,
}

#[derive(Clone)]
enum Patch {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size: usize },
}

impl Disk {
    fn with(found: &BTreeMap<Arc<str>, Vec<u8>>) -> Disk {
        let mut disk = Disk::default();
        for (number, (name, bytes)) in found.iter().enumerate() {
            disk.files.push(Contents { synced: bytes.clone(), pending: Vec::new() });
            disk.names.insert(name.clone(), number);
        }
        disk.synced_names = disk.names.clone();
        disk
    }

    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { file } => {
                self.names.insert(file.clone(), self.files.len());
                self.files.push(Contents::default());
            }
            Operation::Write { file, offset, bytes } => {
                let patch = Patch::Write { offset: *offset, bytes: bytes.clone() };
                self.contents(file).pending.push(patch);
            }
            Operation::Truncate { file, size } => {
                self.contents(file).pending.push(Patch::Truncate { size: *size });
            }
            Operation::Sync { file, directory } => {
                let contents = self.contents(file);
                for patch in std::mem::take(&mut contents.pending) {
                    patch.apply(&mut contents.synced);
                }
                self.sync_names(*directory);
            }
            Operation::FailedSync { file } => self.contents(file).pending.clear(),
            Operation::Delete { file, directory } => {
                self.names.remove(file);
                self.sync_names(*directory);
            }
        }
    }

    /// The content of the disk if the power fails now. Each sector that was not synced has any one of the
    /// states that it went through, and each name that was not synced is in the state before or after its
    /// change; `seed` decides.
    pub fn after_power_loss(&self, seed: u64) -> BTreeMap<Arc<str>, Vec<u8>> {
        let mut random = Random(seed);
        // Some power failures lose nearly everything that was not synced, others nearly nothing.
        let lost_percent = [10, 50, 90][random.below(3) as usize];
        let mut image = BTreeMap::new();
        let names: BTreeSet<&Arc<str>> = self.names.keys().chain(self.synced_names.keys()).collect();
        for name in names {
            let (now, before) = (self.names.get(name), self.synced_names.get(name));
            let kept = if now != before && random.percent(lost_percent) { before } else { now };
            if let Some(number) = kept {
                image.insert(name.clone(), self.files[*number].after_power_loss(&mut random, lost_percent));
            }
        }
        image
    }

    fn contents(&mut self, file: &str) -> &mut Contents {
        let number = self.names.get(file).expect("an operation is on a file that is there");
        &mut self.files[*number]
    }

    fn sync_names(&mut self, directory: bool) {
        if directory {
            self.synced_names = self.names.clone();
        }
    }
}

/// A temporary directory in memory if the machine has such a place, because thousands of stores are made in
/// it.
pub fn scratch_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// Writes an image into a directory, in place of the files that are there.
pub fn write_image(image: &BTreeMap<Arc<str>, Vec<u8>>, dir: &Path) -> io::Result<()> {
    for old in fs::read_dir(dir)? {
        fs::remove_file(old?.path())?;
    }
    for (name, bytes) in image {
        fs::write(dir.join(&**name), bytes)?;
    }
    Ok(())
}

impl Contents {
    fn after_power_loss(&self, random: &mut Random, lost_percent: u64) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // A sector that missed one write can't get a later one, because the cache has only one state of it.
        let mut stale = BTreeSet::new();
        for patch in &self.pending {
            match patch {
                Patch::Truncate { .. } if random.percent(lost_percent) => {}
                Patch::Truncate { .. } => patch.apply(&mut bytes),
                Patch::Write { offset, bytes: written } => {
                    let end = offset + written.len();
                    for sector in offset / SECTOR..end.div_ceil(SECTOR) {
                        if stale.contains(&sector) || random.percent(lost_percent) {
                            stale.insert(sector);
                            continue;
                        }
                        let (from, to) = ((*offset).max(sector * SECTOR), end.min((sector + 1) * SECTOR));
                        put(&mut bytes, from, &written[from - offset..to - offset]);
                    }
                }
            }
        }
        bytes
    }
}

impl Patch {
    fn apply(&self, contents: &mut Vec<u8>) {
        match self {
            Patch::Write { offset, bytes } => put(contents, *offset, bytes),
            Patch::Truncate { size } => contents.resize(*size, 0),
        }
    }
}

fn put(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[offset..end].copy_from_slice(bytes);
}

/// Pseudo-random numbers, the same for the same seed on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = scrambled(self.0);
        self.0 % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

type Directories = Mutex<BTreeMap<PathBuf, Arc<Mutex<Watched>>>>;

fn directories() -> &'static Directories {
    static DIRECTORIES: Directories = Mutex::new(BTreeMap::new());
    &DIRECTORIES
}

/// A test that fails while it holds one of these locks leaves the value sound, so other tests can go on.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The watched directory of a path, and the name of the file in it.
fn watched(path: *const c_char) -> Option<(Arc<Mutex<Watched>>, Arc<str>)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: SQLite passes a path that ends in a zero and outlives the call.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let watched = locked(directories()).get(path.parent()?)?.clone();
    Some((watched, path.file_name()?.to_str()?.into()))
}

/// A file of a watched directory. The default file system's own file follows it in memory.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    handle: *mut Handle,
}

struct Handle {
    watched: Arc<Mutex<Watched>>,
    name: Arc<str>,
    /// Whether the next sync is the first of a new journal.
    syncs_directory: bool,
}

/// The file system that was the default, and the one that wraps it. Both live as long as the process.
struct Systems {
    inner: *mut ffi::sqlite3_vfs,
    _outer: *mut ffi::sqlite3_vfs,
}

// SAFETY: SQLite itself uses both from every thread, and neither is changed once it is registered.
unsafe impl Send for Systems {}
unsafe impl Sync for Systems {}

static SYSTEMS: OnceLock<Systems> = OnceLock::new();

fn install() {
    SYSTEMS.get_or_init(|| {
        // SAFETY: the default file system is never unregistered, and its description may be copied: ours differs
        // in the name, the two calls that change the directory, and the size of a file.
        unsafe {
            let inner = ffi::sqlite3_vfs_find(ptr::null());
            let outer = Box::into_raw(Box::new(ptr::read(inner)));
            (*outer).zName = c"faults".as_ptr();
            (*outer).pNext = ptr::null_mut();
            (*outer).szOsFile += size_of::<File>() as c_int;
            (*outer).xOpen = Some(open);
            (*outer).xDelete = Some(delete);
            assert_eq!(ffi::sqlite3_vfs_register(outer, 1), ffi::SQLITE_OK, "SQLite takes a file system");
            Systems { inner, _outer: outer }
        }
    });
}

fn inner_system() -> *mut ffi::sqlite3_vfs {
    SYSTEMS.get().expect("called only by the installed file system").inner
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let inner = inner_system();
    // SAFETY: the arguments are SQLite's own; `file` has room for our header and the inner file.
    unsafe {
        let inner_open = (*inner).xOpen.expect("every file system opens");
        let Some((watched, name)) = watched(path) else {
            return inner_open(inner, path, file, flags, out_flags);
        };
        (*file).pMethods = ptr::null();
        let creates = flags & ffi::SQLITE_OPEN_CREATE != 0;
        if let Err(code) = admit_open(&watched, &name, path, creates) {
            return code;
        }
        let below = file.cast::<File>().add(1).cast::<ffi::sqlite3_file>();
        let code = inner_open(inner, path, below, flags, out_flags);
        if code == ffi::SQLITE_OK {
            let journals =
                ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;
            let syncs_directory = creates && flags & journals != 0;
            (*file.cast::<File>()).handle =
                Box::into_raw(Box::new(Handle { watched, name, syncs_directory }));
            (*file).pMethods = &METHODS;
        }
        code
    }
}

/// Counts the opening of a file as a change only if it creates the file.
fn admit_open(
    watched: &Mutex<Watched>,
    name: &Arc<str>,
    path: *const c_char,
    creates: bool,
) -> Result<(), c_int> {
    let mut watched = locked(watched);
    // SAFETY: as in `watched`.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    if !path.exists() {
        if creates {
            watched.admit(Operation::Create { file: name.clone() })?;
            watched.known.insert(name.clone());
        }
        return Ok(());
    }
    if watched.known.insert(name.clone()) {
        let bytes = fs::read(path).map_err(|_| ffi::SQLITE_CANTOPEN)?;
        watched.found.insert(name.clone(), bytes);
    }
    Ok(())
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, path: *const c_char, syncs_directory: c_int) -> c_int {
    if let Some((watched, file)) = watched(path) {
        let mut watched = locked(&watched);
        // SQLite also deletes files that may not exist.
        if watched.known.contains(&file) {
            let operation = Operation::Delete { file: file.clone(), directory: syncs_directory != 0 };
            if let Err(code) = watched.admit(operation) {
                return code;
            }
            watched.known.remove(&file);
        }
    }
    let inner = inner_system();
    // SAFETY: the arguments are SQLite's own.
    unsafe { (*inner).xDelete.expect("every file system deletes")(inner, path, syncs_directory) }
}

/// The handle of a file that `open` made.
///
/// # Safety
/// `file` is open and one of ours, and no other call is on it: SQLite uses a file from one thread at a time.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Handle {
    // SAFETY: see above.
    unsafe { &mut *(*file.cast::<File>()).handle }
}

/// Calls a method of the default file system on the file below ours.
macro_rules! below {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls a method only on an open file, and the one below was opened together with it.
        unsafe {
            let below = $file.cast::<File>().add(1).cast::<ffi::sqlite3_file>();
            (*(*below).pMethods).$method.expect("the default file system has every method")(below $(, $argument)*)
        }
    }};
}

macro_rules! passed_on {
    ($($name:ident is $method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $type)*) -> $result {
            below!(file, $method $(, $argument)*)
        }
    )*};
}

passed_on! {
    read is xRead(into: *mut c_void, count: c_int, offset: i64) -> c_int;
    file_size is xFileSize(size: *mut i64) -> c_int;
    lock is xLock(level: c_int) -> c_int;
    unlock is xUnlock(level: c_int) -> c_int;
    check_reserved_lock is xCheckReservedLock(result: *mut c_int) -> c_int;
    file_control is xFileControl(operation: c_int, argument: *mut c_void) -> c_int;
    sector_size is xSectorSize() -> c_int;
    device_characteristics is xDeviceCharacteristics() -> c_int;
    shm_map is xShmMap(region: c_int, size: c_int, extend: c_int, to: *mut *mut c_void) -> c_int;
    shm_lock is xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier is xShmBarrier() -> ();
    shm_unmap is xShmUnmap(delete: c_int) -> c_int;
}

/// Version 2 has no memory-mapped pages, whose writes would not pass through this file system.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = below!(file, xClose);
    // SAFETY: `open` made the handle, and a file is closed once.
    drop(unsafe { Box::from_raw((*file.cast::<File>()).handle) });
    code
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: `from` holds `count` bytes.
    let (handle, bytes) = unsafe { (handle(file), slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    let operation =
        Operation::Write { file: handle.name.clone(), offset: offset as usize, bytes: bytes.to_vec() };
    let admitted = locked(&handle.watched).admit(operation);
    match admitted {
        Ok(()) => below!(file, xWrite, from, count, offset),
        Err(code) => {
            below!(file, xWrite, from, count / 2, offset);
            code
        }
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: the file is ours and open.
    let handle = unsafe { handle(file) };
    let operation = Operation::Truncate { file: handle.name.clone(), size: size as usize };
    let admitted = locked(&handle.watched).admit(operation);
    match admitted {
        Ok(()) => below!(file, xTruncate, size),
        Err(code) => code,
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is ours and open.
    let handle = unsafe { handle(file) };
    let operation = Operation::Sync { file: handle.name.clone(), directory: handle.syncs_directory };
    let admitted = locked(&handle.watched).admit(operation);
    match admitted {
        // The journal takes the place of the disk, so the real file is not synced, which would only cost
        // time.
        Ok(()) => {
            handle.syncs_directory = false;
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}
