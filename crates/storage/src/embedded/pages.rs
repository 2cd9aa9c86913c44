//! Checksums of pages: a page that SQLite reads from the main file is the page that was written there, or an
//! error.
//!
//! | bytes of a page | content |
//! |---|---|
//! | 0..4092 | the page as SQLite uses it |
//! | 4092..4096 | CRC-32C of the page's offset in the file (8 bytes) and of bytes 0..4092, little-endian |
//!
//! So a changed page is detected, and also a valid page in a wrong place. Checksums of rows could not detect
//! that: if a page of an index is lost, the rows that it leads to are never read. SQLite leaves the last four
//! bytes alone and calls this module for every page that it reads or writes. The write-ahead log beside the
//! file has SQLite's own checksums.
//!
//! The callbacks use C types, so this is the only module of the product that may use unsafe code.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use rusqlite::{Connection, ffi};

pub(super) const PAGE: usize = 4096;
/// The length of the checksum at the end of each page.
const CHECKSUM: usize = 4;
/// The position in the file's header of the number of bytes of each page that SQLite does not use.
const RESERVED_AT: usize = 20;

/// SQLite's code for a page that does not match its checksum.
pub(super) const MISMATCH: c_int = ffi::SQLITE_IOERR_DATA;

/// Whether the pages of a store have checksums. A store that does not exist yet will have them.
pub(super) fn has_checksums(path: &Path) -> io::Result<bool> {
    let mut header = [0; RESERVED_AT + 1];
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file?,
    };
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(file.metadata()?.len() == 0),
        read => read.map(|()| usize::from(header[RESERVED_AT]) == CHECKSUM),
    }
}

/// Makes SQLite leave room for the checksums, in a new file or in one that is about to be rewritten.
pub(super) fn reserve(conn: &Connection) {
    let mut bytes = CHECKSUM as c_int;
    // SAFETY: the connection is open, and SQLite reads and writes one `int` during the call.
    unsafe {
        ffi::sqlite3_file_control(
            conn.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut bytes).cast::<c_void>(),
        );
    }
}

thread_local! {
    static HOLES: Cell<u32> = const { Cell::new(0) };
    static UNCHECKED: Cell<u32> = const { Cell::new(0) };
}

/// As long as a value of this type exists, this thread reads pages without checking their checksums. Pages
/// may come from another program, such as SQLite's own shell. The rows of the log have checksums of their
/// own.
pub(super) struct Unchecked(());

impl Unchecked {
    pub(super) fn new() -> Unchecked {
        UNCHECKED.set(UNCHECKED.get() + 1);
        Unchecked(())
    }
}

impl Drop for Unchecked {
    fn drop(&mut self) {
        UNCHECKED.set(UNCHECKED.get() - 1);
    }
}

/// As long as a value of this type exists, this thread accepts pages of zeros. SQLite leaves such holes where
/// it allocated a page and freed it again, and reads them when it reuses them or copies the whole file.
pub(super) struct WithHoles(());

impl WithHoles {
    pub(super) fn new() -> WithHoles {
        HOLES.set(HOLES.get() + 1);
        WithHoles(())
    }
}

impl Drop for WithHoles {
    fn drop(&mut self) {
        HOLES.set(HOLES.get() - 1);
    }
}

/// A VFS of SQLite that adds checksums to the default VFS, and its name.
struct System {
    default: *mut ffi::sqlite3_vfs,
    name: CString,
    tables: Vec<*const Table>,
}

// SAFETY: SQLite itself uses a VFS from every thread, and none is changed after it was registered.
unsafe impl Send for System {}

/// One VFS for each default VFS so far, because tests change the default.
static SYSTEMS: Mutex<Vec<System>> = Mutex::new(Vec::new());

/// The methods of a file: ours, and those of the default VFS, which has opened it.
#[repr(C)]
struct Table {
    ours: ffi::sqlite3_io_methods,
    below: *const ffi::sqlite3_io_methods,
}

/// The name of the VFS that keeps checksums.
pub(super) fn system() -> CString {
    let mut systems = SYSTEMS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a VFS is never unregistered. Its description may be copied: ours differs only in the name and
    // in how files are opened.
    unsafe {
        let default = ffi::sqlite3_vfs_find(ptr::null());
        if let Some(known) = systems.iter().find(|system| system.default == default) {
            return known.name.clone();
        }
        let name = CString::new(format!("kenning{}", systems.len())).expect("no zero in it");
        let ours = Box::into_raw(Box::new(ptr::read(default)));
        (*ours).zName = name.clone().into_raw();
        (*ours).pNext = ptr::null_mut();
        (*ours).xOpen = Some(open);
        ffi::sqlite3_vfs_register(ours, 0);
        systems.push(System { default, name: name.clone(), tables: Vec::new() });
        name
    }
}

unsafe extern "C" fn open(
    ours: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let mut systems = SYSTEMS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the arguments are SQLite's own. The default VFS opens the file in the same place; after that
    // only the table of methods is replaced, and that table lives as long as the process.
    unsafe {
        let name = CStr::from_ptr((*ours).zName);
        let Some(system) = systems.iter_mut().find(|system| system.name.as_c_str() == name) else {
            return ffi::SQLITE_CANTOPEN;
        };
        let Some(open_below) = (*system.default).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = open_below(system.default, path, file, flags, out_flags);
        if code == ffi::SQLITE_OK && flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            (*file).pMethods = table_of(system, (*file).pMethods).cast();
        }
        code
    }
}

/// The methods of a file, with reading and writing replaced by those that use checksums.
unsafe fn table_of(system: &mut System, below: *const ffi::sqlite3_io_methods) -> *const Table {
    // SAFETY: tables are created here and never freed.
    unsafe {
        if let Some(known) = system.tables.iter().find(|table| (***table).below == below) {
            return *known;
        }
        let mut ours = *below;
        ours.xRead = Some(read);
        ours.xWrite = Some(write);
        // From version 3 on, SQLite could map pages into memory and so avoid the checks.
        ours.iVersion = ours.iVersion.min(2);
        let table = Box::into_raw(Box::new(Table { ours, below })).cast_const();
        system.tables.push(table);
        table
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: only files to which `open` has given a `Table` are read here, and `into` has room for `count`
    // bytes.
    unsafe {
        let table = (*file).pMethods.cast::<Table>();
        let Some(read_below) = (*(*table).below).xRead else { return ffi::SQLITE_IOERR_READ };
        let code = read_below(file, into, count, at);
        let is_past_end = code == ffi::SQLITE_IOERR_SHORT_READ;
        if !(code == ffi::SQLITE_OK || is_past_end) || !is_page(count, at) || UNCHECKED.get() > 0 {
            return code;
        }
        // The part of a page beyond the end of the file reads as zeros.
        let page = slice::from_raw_parts(into.cast::<u8>(), PAGE);
        let is_hole = || (HOLES.get() > 0 || is_past_end) && page.iter().all(|byte| *byte == 0);
        if page[PAGE - CHECKSUM..] == checksum(page, at) || is_hole() { code } else { MISMATCH }
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: as in `read`; the page is copied, because SQLite's own copy must not change.
    unsafe {
        let table = (*file).pMethods.cast::<Table>();
        let Some(write_below) = (*(*table).below).xWrite else { return ffi::SQLITE_IOERR_WRITE };
        if !is_page(count, at) {
            return write_below(file, from, count, at);
        }
        let mut page = [0; PAGE];
        page.copy_from_slice(slice::from_raw_parts(from.cast::<u8>(), PAGE));
        let sum = checksum(&page, at);
        page[PAGE - CHECKSUM..].copy_from_slice(&sum);
        write_below(file, page.as_ptr().cast(), count, at)
    }
}

fn is_page(count: c_int, at: i64) -> bool {
    count as usize == PAGE && at % PAGE as i64 == 0
}

fn checksum(page: &[u8], at: i64) -> [u8; CHECKSUM] {
    let place = crc32c::crc32c(&at.to_le_bytes());
    crc32c::crc32c_append(place, &page[..PAGE - CHECKSUM]).to_le_bytes()
}
