//! A log as lines of JSON: a first line that describes the file, then every transaction with its changes,
//! then the idempotency keys, and a last line with counts and a hash of the lines before it.
//! [The format](../../../../docs/import.md).

use std::io::{self, BufRead, Read, Write};

use kenning_model::{EntityType, Id, Timestamp, TxId};
use kenning_storage::{KeptKey, LogItem, LogRow, Remembered};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The version of the format. A program that knows only older ones refuses the file.
pub const FORMAT: u32 = 1;
/// The longest line that is read from a file. The longest lines of a log are sections of documents, which are
/// shorter.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// The first line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Head {
    pub kenning: Content,
    pub format: u32,
    /// The version of the program that wrote the file.
    pub program: String,
    /// The id of the store. A copy of the store has another id.
    pub store: String,
    /// The transaction as of which the file was written.
    pub at_tx: u64,
    /// For a file with live records: the scope that they belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// The whole history.
    Log,
    /// The live records of one scope.
    Live,
}

/// The content of the last line: counts and a hash, which a reader compares with what it has read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub transactions: u64,
    pub changes: u64,
    pub keys: u64,
    /// The SHA-256 of all lines between the first and the last.
    pub sha256: String,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    end: End,
}

#[derive(Serialize, Deserialize)]
struct KeyLine {
    key: String,
    owner: String,
    tool: String,
    digest: String,
    reply: String,
    at: Timestamp,
}

/// Writes the lines of such a file, and counts them for the last line.
pub struct LogWriter<W> {
    out: W,
    hash: Sha256,
    end: End,
}

impl<W: Write> LogWriter<W> {
    pub fn begin(mut out: W, head: &Head) -> io::Result<LogWriter<W>> {
        writeln!(out, "{}", json(head))?;
        Ok(LogWriter { out, hash: Sha256::new(), end: End::default() })
    }

    pub fn item(&mut self, item: &LogItem) -> io::Result<()> {
        match item {
            LogItem::Row(row) => match row.changed_type() {
                None => {
                    self.end.transactions += 1;
                    let LogRow { tx_id, id, body, .. } = row;
                    let body = body.as_deref().unwrap_or("null");
                    self.line(&format!(r#"{{"tx":{tx_id},"origin":{},"header":{body}}}"#, json(id)))
                }
                Some(of) => self.change(of, &row.id, row.body.as_deref()),
            },
            LogItem::Key(KeptKey { owner, key, value }) => {
                self.end.keys += 1;
                let Remembered { tool, digest, reply, at } = value.clone();
                let line = KeyLine { key: key.clone(), owner: owner.clone(), tool, digest, reply, at };
                self.line(&json(&line))
            }
        }
    }

    /// Writes the new version of a record, as JSON.
    pub fn change(&mut self, of: EntityType, id: &str, after: Option<&str>) -> io::Result<()> {
        self.end.changes += 1;
        let after = after.unwrap_or("null");
        self.line(&format!(r#"{{"change":{},"id":{},"after":{after}}}"#, json(&of), json(&id)))
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.hash.update(line);
        self.hash.update("\n");
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    pub fn end(mut self) -> io::Result<(W, End)> {
        self.end.sha256 = hex(self.hash);
        writeln!(self.out, "{}", json(&EndLine { end: self.end.clone() }))?;
        Ok((self.out, self.end))
    }
}

/// One line of such a file after the first.
pub enum LogLine {
    Item(LogItem),
    /// The last line; it was found to agree with all lines before it.
    End(End),
}

/// Reads the lines after the first, and checks them against the last.
pub struct LogReader {
    hash: Sha256,
    seen: End,
    tx: TxId,
    seq: u32,
}

#[derive(Deserialize)]
struct Line<'a> {
    tx: Option<u64>,
    origin: Option<String>,
    #[serde(borrow)]
    header: Option<&'a RawValue>,
    change: Option<EntityType>,
    id: Option<Id>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    end: Option<End>,
}

impl LogReader {
    pub fn new() -> LogReader {
        LogReader { hash: Sha256::new(), seen: End::default(), tx: TxId::EMPTY, seq: 0 }
    }

    pub fn take(&mut self, line: &str) -> Result<LogLine, String> {
        let read: Line<'_> = serde_json::from_str(line).map_err(|error| unreadable(&error))?;
        if let Some(end) = read.end {
            self.seen.sha256 = hex(std::mem::take(&mut self.hash));
            return match self.seen == end {
                true => Ok(LogLine::End(end)),
                false => Err("what came before it is not what was exported".to_owned()),
            };
        }
        self.hash.update(line);
        self.hash.update("\n");
        let body = |raw: &RawValue| raw.get().to_owned();
        match read {
            Line { tx: Some(tx), origin: Some(origin), header: Some(header), .. } => {
                self.seen.transactions += 1;
                (self.tx, self.seq) = (TxId(tx), 0);
                Ok(LogLine::Item(LogItem::header(self.tx, &origin, body(header))))
            }
            Line { change: Some(of), id: Some(id), after, .. } => {
                self.seen.changes += 1;
                self.seq += 1;
                Ok(LogLine::Item(LogItem::change(self.tx, self.seq, of, id, after.map(body))))
            }
            _ => {
                let KeyLine { key, owner, tool, digest, reply, at } = serde_json::from_str(line)
                    .map_err(|_| "it is no transaction, no change and no key".to_owned())?;
                self.seen.keys += 1;
                let value = Remembered { tool, digest, reply, at };
                Ok(LogLine::Item(LogItem::Key(KeptKey { owner, key, value })))
            }
        }
    }
}

/// Why a line can't be read, without the type names and line numbers of the JSON parser.
pub fn unreadable(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => format!("it can't be read: {error}"),
        _ => format!("it is no JSON: {error}"),
    }
}

/// The lines of a file, each with its number. A line that is too long or not UTF-8 is skipped, and an error
/// is returned in its place.
pub struct Lines<R> {
    input: R,
    number: u64,
    line: Vec<u8>,
}

/// A line, or why it can't be read.
pub type NumberedLine<'a> = (u64, Result<&'a str, String>);

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Lines<R> {
        Lines { input, number: 0, line: Vec::new() }
    }

    pub fn next(&mut self) -> io::Result<Option<NumberedLine<'_>>> {
        self.line.clear();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            self.line.pop_if(|byte| *byte == b'\r');
        } else if self.line.len() > LINE_BYTES_MAX {
            self.line = Vec::new();
            skip_line(&mut self.input)?;
            let what = format!("the line has more bytes than the cap of {LINE_BYTES_MAX}");
            return Ok(Some((self.number, Err(what))));
        }
        let line = std::str::from_utf8(&self.line).map_err(|_| "the line is not UTF-8".to_owned());
        Ok(Some((self.number, line.map(|line| line.trim_start_matches('\u{feff}')))))
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (many, is_over) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(many);
        if is_over {
            return Ok(());
        }
    }
}

pub fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_bytes_that_are_no_text_are_passed_over() {
        let mut text = b"first\n\xff\xfe\r\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', LINE_BYTES_MAX + 10));
        text.extend(b"\nlast");
        let mut lines = Lines::new(io::BufReader::new(&*text));
        let mut read = Vec::new();
        while let Some((number, line)) = lines.next().expect("it is in memory") {
            read.push((number, line.map(str::to_owned).map_err(|_| ())));
        }
        assert_eq!(read, [(1, Ok("first".into())), (2, Err(())), (3, Err(())), (4, Ok("last".into()))]);
    }
}
