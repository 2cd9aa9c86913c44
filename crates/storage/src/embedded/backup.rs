//! Copies of a store, taken and put back while others use it.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_MAX, BUSY_PAUSE, Embedded, connect, failed, files, pages, schema, sync_dir, verify};
use crate::backend::{Backend, Damage, Verified};
use crate::{Applied, Error};

/// Writes all of a store to a new file, as of one moment, and verifies what it wrote. Others may go on writing.
pub fn back_up(dir: &Path, to: &Path) -> Result<Verified, Error> {
    let store = Embedded::open(dir)?;
    new_file(to)?;
    let copied = (|| {
        let mut copy = connect(to, OpenFlags::default(), store.has_checksums)?;
        copy_pages(&*store.pooled()?, &mut copy)?;
        as_one_file(&copy)?;
        verified(&copy)
    })();
    if copied.is_err() {
        // An incomplete file must not look like a backup.
        let _ = fs::remove_file(to);
    }
    let verified = copied?;
    sync_dir(to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    Ok(verified)
}

/// Puts a backup in the place of what a store has, through SQLite, so that processes which have it open stay sound.
/// The store is another one afterwards: it has a new id. Nothing happens to it unless the backup is sound.
pub fn restore(dir: &Path, from: &Path) -> Result<Verified, Error> {
    restore_checked(dir, from, |_| Ok(()))
}

/// As `restore`; `check` may look at the content before it is put back, change it, or refuse it.
pub fn restore_checked(
    dir: &Path,
    from: &Path,
    check: impl FnOnce(Embedded) -> Result<(), Error>,
) -> Result<Verified, Error> {
    files::prepare_dir(dir)?;
    let copy = dir.join("store.db.restored");
    remove(&copy);
    let restored = put_back(dir, from, &copy, check);
    remove(&copy);
    restored
}

fn put_back(
    dir: &Path,
    from: &Path,
    copy: &Path,
    check: impl FnOnce(Embedded) -> Result<(), Error>,
) -> Result<Verified, Error> {
    let unreadable = |error: std::io::Error| Error::Invalid {
        what: format!("the backup can't be read: {}", error.kind()),
    };
    if fs::metadata(from).map_err(unreadable)?.len() == 0 {
        return Err(Error::Invalid { what: "the backup is empty".to_owned() });
    }
    new_file(copy)?;
    {
        let has_checksums = pages::has_checksums(from).map_err(unreadable)?;
        // The backup is only read, but a write-ahead log beside it belongs to it and is read too.
        let backup = connect(from, OpenFlags::SQLITE_OPEN_READ_WRITE, has_checksums)?;
        if schema::version(&backup)? == 0 {
            return Err(Error::Invalid { what: "the backup is not a store".to_owned() });
        }
        let mut own = connect(copy, OpenFlags::default(), has_checksums)?;
        copy_pages(&backup, &mut own)?;
        as_one_file(&own)?;
    }
    // Opening a backup of an older version migrates it.
    drop(Embedded::open_file(copy)?);
    if !pages::has_checksums(copy).map_err(unreadable)? {
        add_checksums(copy)?;
    }
    check(Embedded::open_file(copy)?)?;
    let source = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE, true)?;
    as_one_file(&source)?;
    let verified = verified(&source)?;
    schema::renew(&source)?;
    let store = match Embedded::open(dir) {
        // The store is damaged beyond repair, so nothing is lost by moving it aside.
        Err(Error::Damaged { .. }) => {
            put_aside(dir)?;
            Embedded::open(dir)?
        }
        store => store?,
    };
    if !store.has_checksums {
        let reason = "an older version of this program has the store open; end its sessions first".to_owned();
        return Err(Error::Unavailable { applied: Applied::No, reason });
    }
    copy_pages(&source, &mut store.connect()?)?;
    store.checkpoint()?;
    Ok(verified)
}

/// Gives a store of an older version pages with checksums. It has to be the only one that has the store open.
pub(super) fn add_checksums(path: &Path) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    remove(&new);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let conn = connect(path, flags, false)?;
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    as_one_file(&conn)?;
    // From here on no other process can use the store until the file was replaced.
    conn.execute_batch("BEGIN EXCLUSIVE; COMMIT").map_err(failed)?;
    new_file(&new)?;
    pages::reserve(&conn);
    let name = pages::system();
    let encoded: String = new.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let uri = format!("file:{encoded}?vfs={}", name.to_string_lossy());
    conn.execute("VACUUM INTO ?1", [uri]).map_err(failed)?;
    {
        let written = connect(&new, OpenFlags::SQLITE_OPEN_READ_WRITE, true)?;
        schema::put_has_checksums(&written)?;
    }
    fs::rename(&new, path).map_err(|error| files::unavailable("can't be written", &error))?;
    sync_dir(path.parent().unwrap_or(path))
}

fn copy_pages(from: &Connection, to: &mut Connection) -> Result<(), Error> {
    let _holes = pages::WithHoles::new();
    let backup = Backup::new(from, to).map_err(failed)?;
    let since = Instant::now();
    loop {
        // All pages in one step: with several steps, a write in between would restart the copy.
        match backup.step(-1).map_err(failed)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ if since.elapsed() < BUSY_MAX => std::thread::sleep(BUSY_PAUSE),
            _ => {
                let reason = "another process has been writing for too long".to_owned();
                return Err(Error::Unavailable { applied: Applied::No, reason });
            }
        }
    }
}

fn as_one_file(conn: &Connection) -> Result<(), Error> {
    let mode: String =
        conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(failed)?;
    if mode != "delete" {
        let reason = "another process has the file open".to_owned();
        return Err(Error::Unavailable { applied: Applied::No, reason });
    }
    Ok(())
}

fn verified(conn: &Connection) -> Result<Verified, Error> {
    let mut first: Option<Damage> = None;
    let verified = verify::verify(conn, &mut |damage| {
        first.get_or_insert(damage);
    })?;
    match first {
        Some(Damage { place, what }) => Err(Error::damaged(format!("{place}: {what}"))),
        None => Ok(verified),
    }
}

/// Creates an empty file that only its owner can read. A file that exists already is an error.
fn new_file(path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::Invalid { what: "there is such a file already".to_owned() }
        }
        kind => {
            Error::Unavailable { applied: Applied::No, reason: format!("the file can't be made: {kind}") }
        }
    };
    options.open(path).map(drop).map_err(refused)
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal", ".new"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // Deleting a file that does not exist is not an error.
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

fn put_aside(dir: &Path) -> Result<(), Error> {
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("{}{suffix}", super::STORE_FILE);
        match fs::rename(dir.join(&name), dir.join(format!("{name}.damaged"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(files::unavailable("can't be written", &error));
            }
            _ => {}
        }
    }
    Ok(())
}
