//! The audit log: who called which tool, the ids that the call was about, and how it ended. Stored content
//! never gets into it.
//!
//! Each line begins with a hash over the line itself and the hash of the line before, so a line that was
//! changed, removed or inserted is detected. Lines cut off at the end are detected only by somebody who has
//! kept the last hash elsewhere.
//!
//! ```text
//! {"chain":"5f0c…","at":"2026-11-18T20:00:00Z","what":"began","after":"0000…"}
//! {"chain":"91ab…","at":"2026-11-18T20:00:05Z","what":"tools/call","who":"key 3f9a0c41d2","name":"alice","from":"10.0.0.7","tool":"store","scope":"acme:web","ids":["K7H9M2PQX8"],"tx_id":42,"outcome":"ok","bytes":512,"ms":3.2}
//! ```

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

const HASH_DIGITS: usize = 64;
const BEFORE_HASH: &str = "{\"chain\":\"";
const AFTER_HASH: &str = "\",";
/// The most ids that one record names.
const IDS_MAX: usize = 20;
/// The name of a client, which the client chooses itself, is cut after this number of characters.
const NAME_CHARS_MAX: usize = 128;

/// A record of one call, or of one attempt to make a call.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Record<'a> {
    /// The method, such as `tools/call`, or an event of the server, such as `began`.
    pub(crate) what: &'a str,
    /// The principal's subject, which names the credential.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) who: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// The address that the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) tool: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) scope: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_id: Option<u64>,
    /// `ok`, or the code of the error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ms: Option<f64>,
    /// Only in the first record of a file: the hash of the last record of the file before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
}

impl Record<'_> {
    /// Takes from a reply the ids and numbers that the call was about, and no text.
    pub(crate) fn about(mut self, structured: &Value) -> Self {
        let id = |value: &Value| value.as_str().filter(|id| is_id(id)).map(str::to_owned);
        let mut ids: Vec<String> = id(&structured["id"]).into_iter().collect();
        for list in ["changed_ids", "ids"] {
            ids.extend(structured[list].as_array().into_iter().flatten().filter_map(id));
        }
        for list in ["items", "results", "nodes"] {
            ids.extend(structured[list].as_array().into_iter().flatten().filter_map(|item| id(&item["id"])));
        }
        let mut known = HashSet::new();
        ids.retain(|id| known.insert(id.clone()));
        ids.truncate(IDS_MAX);
        self.ids = ids;
        self.tx_id = structured["tx_id"].as_u64();
        self.scope = structured["scope"].as_str().unwrap_or_default().to_owned();
        self
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
        self
    }
}

/// Ids are short words. The check keeps other text that stands in the place of an id out of the log.
fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A log that records are appended to. One process at a time holds its lock.
pub struct AuditLog {
    path: PathBuf,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    last: String,
    /// The last record could not be written. Calls that write are refused until a record can be written
    /// again.
    is_failing: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the audit log {} can't be opened: {source}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("another process writes the audit log {}; give each server its own", path.display())]
    Taken { path: PathBuf },
}

impl AuditLog {
    pub fn open(path: &Path) -> Result<AuditLog, AuditError> {
        let unusable = |source| AuditError::Unusable { path: path.to_owned(), source };
        let mut file = opened(path).map_err(unusable)?;
        if file.try_lock().is_err() {
            return Err(AuditError::Taken { path: path.to_owned() });
        }
        let last = last_hash(path).map_err(unusable)?;
        let last = match last {
            Some(last) => {
                // A crash may have cut the last line short, so the next record begins on a line of its own.
                file.write_all(b"\n").map_err(unusable)?;
                last
            }
            None => begin(&mut file, &"0".repeat(HASH_DIGITS)).map_err(unusable)?,
        };
        Ok(AuditLog { path: path.to_owned(), open: Mutex::new(Open { file, last, is_failing: false }) })
    }

    /// Appends a record. If that fails, `is_writable` tells the next caller.
    pub(crate) fn write(&self, record: &Record<'_>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = open.append(&self.path, record);
        if let (Err(error), false) = (&written, open.is_failing) {
            tracing::error!("the audit log {} can't be written: {error}", self.path.display());
        }
        open.is_failing = written.is_err();
    }

    /// Whether a call that writes would be recorded.
    pub(crate) fn is_writable(&self) -> bool {
        let is_failing = self.open.lock().unwrap_or_else(PoisonError::into_inner).is_failing;
        if is_failing {
            self.write(&Record { what: "resumed", ..Record::default() });
        }
        !self.open.lock().unwrap_or_else(PoisonError::into_inner).is_failing
    }
}

impl Open {
    fn append(&mut self, path: &Path, record: &Record<'_>) -> io::Result<()> {
        // If the file was moved away to be archived, the records continue in a new one.
        if !is_same(&self.file.metadata()?, path) {
            let mut file = opened(path)?;
            self.last = match last_hash(path)? {
                Some(last) => last,
                None => begin(&mut file, &self.last)?,
            };
            self.file = file;
        }
        self.last = append(&mut self.file, &self.last, record)?;
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(open: &Metadata, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino()))
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, path: &Path) -> bool {
    path.exists()
}

fn opened(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn begin(file: &mut File, after: &str) -> io::Result<String> {
    append(file, after, &Record { what: "began", after: Some(after.to_owned()), ..Record::default() })
}

fn append(file: &mut File, last: &str, record: &Record<'_>) -> io::Result<String> {
    let at = Timestamp::now();
    let rest = format!("\"at\":\"{at}\",{}", &serde_json::to_string(record)?[1..]);
    let hash = chained(last, &rest);
    // A single write, so that a reader never sees half a line of an intact log.
    file.write_all(format!("{BEFORE_HASH}{hash}{AFTER_HASH}{rest}\n").as_bytes())?;
    Ok(hash)
}

fn chained(last: &str, rest: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(format!("{last}\n{rest}").as_bytes()))
}

/// The hash of a line and the text that it covers. A line that was cut short by a crash is not a record.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix(BEFORE_HASH)?;
    let (hash, rest) = line.split_at_checked(HASH_DIGITS)?;
    let rest = rest.strip_prefix(AFTER_HASH)?;
    rest.ends_with('}').then_some((hash, rest))
}

fn last_hash(path: &Path) -> io::Result<Option<String>> {
    let mut last = None;
    for line in BufReader::new(File::open(path)?).lines() {
        if let Some((hash, _)) = split(&line?) {
            last = Some(hash.to_owned());
        }
    }
    Ok(last)
}

/// The result of checking an audit log.
#[derive(Debug, PartialEq, Eq)]
pub struct Audited {
    pub records: u64,
    /// The hash of the last record. Somebody who keeps it elsewhere can later detect that the end was cut
    /// off.
    pub last: String,
    /// The numbers of lines that are not records, such as a line that a crash cut short.
    pub torn: Vec<u64>,
    /// The number of the first line that was not written directly after the line before it.
    pub broken_at: Option<u64>,
    /// Whether some record has the hash that was asked for.
    pub has: Option<bool>,
}

/// Checks a log from its first line to its last, and whether it contains the hash `kept`.
pub fn verify(path: &Path, kept: Option<&str>) -> io::Result<Audited> {
    let (torn, has) = (Vec::new(), kept.map(|_| false));
    let mut audited = Audited { records: 0, last: String::new(), torn, broken_at: None, has };
    for (line, number) in BufReader::new(File::open(path)?).lines().zip(1..) {
        let line = line?;
        if line.is_empty() {
            continue;
        }
        let Some((hash, rest)) = split(&line) else {
            audited.torn.push(number);
            continue;
        };
        if audited.records == 0 {
            let first: Value = serde_json::from_str(&line).unwrap_or_default();
            audited.last = first["after"].as_str().unwrap_or_default().to_owned();
        }
        if chained(&audited.last, rest) != hash {
            audited.broken_at = Some(number);
            return Ok(audited);
        }
        if kept == Some(hash) {
            audited.has = Some(true);
        }
        audited.last = hash.to_owned();
        audited.records += 1;
    }
    Ok(audited)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_id_of_a_call_stands_once() {
        let reply = json!({"id": "A2", "changed_ids": ["B3", "A2"], "items": [{"id": "B3"}, {"id": "C4"}, {"id": "no id"}]});
        assert_eq!(Record::default().about(&reply).ids, ["A2", "B3", "C4"]);
    }

    #[test]
    fn a_changed_removed_or_added_line_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.jsonl");
        let log = AuditLog::open(&path).expect("a log");
        assert!(matches!(AuditLog::open(&path), Err(AuditError::Taken { .. })), "one process has it");
        for tx in 1..=3 {
            let record = Record { what: "tools/call", tool: "store", ..Record::default() };
            log.write(&record.about(&json!({"id": "K7H9M2PQX8", "tx_id": tx, "content": "secret"})));
        }
        drop(log);
        // A crash in the middle of a line, and another start.
        let text = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(&path, format!("{text}{{\"chain\":\"00")).expect("writable");
        let log = AuditLog::open(&path).expect("a log");
        log.write(&Record { what: "tools/call", ..Record::default() });
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(!text.contains("secret") && text.contains("K7H9M2PQX8"), "{text}");
        let whole = verify(&path, None).expect("readable");
        assert_eq!((whole.records, whole.torn.len(), whole.broken_at), (5, 1, None));
        let has = |hash: &str| verify(&path, Some(hash)).expect("readable").has;
        assert_eq!((has(&whole.last), has("0")), (Some(true), Some(false)));
        let lines: Vec<&str> = text.lines().collect();
        let removed = [&lines[..2], &lines[3..]].concat().join("\n");
        let changed = text.replace("\"tx_id\":2", "\"tx_id\":9");
        let doubled = text.replace(lines[1], &format!("{}\n{}", lines[1], lines[1]));
        for (forged, at) in [(removed, 3), (changed, 3), (doubled, 3)] {
            std::fs::write(&path, &forged).expect("writable");
            assert_eq!(verify(&path, None).expect("readable").broken_at, Some(at), "{forged}");
        }
        // The log is moved away, as somebody who archives old logs does.
        let kept = dir.path().join("kept.jsonl");
        std::fs::write(&path, &text).expect("writable");
        std::fs::rename(&path, &kept).expect("movable");
        log.write(&Record { what: "tools/call", ..Record::default() });
        let (old, new) = (verify(&kept, None).expect("readable"), verify(&path, None).expect("readable"));
        assert_eq!((new.records, new.broken_at), (2, None));
        assert!(
            std::fs::read_to_string(&path).expect("readable").contains(&format!("\"after\":\"{}", old.last))
        );
    }
}
