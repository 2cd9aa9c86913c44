//! Rows of the log, the same on every backend: their format and their checksums.

use kenning_model::{
    Document, EntityType, Entry, Id, Namespace, Record, Scope, Section, Timestamp, Transaction, Triple, TxId,
};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::backend::Remembered;

/// The `kind` of a transaction's first row. The `kind` of a change is the number of its entity type.
pub(crate) const HEADER: i64 = 0;

pub(crate) fn kind_of(entity_type: EntityType) -> i64 {
    match entity_type {
        EntityType::Entry => 1,
        EntityType::Triple => 2,
        EntityType::Namespace => 3,
        EntityType::Scope => 4,
        EntityType::Document => 5,
        EntityType::Section => 6,
    }
}

pub(crate) fn entity_type_of(kind: i64) -> Option<EntityType> {
    EntityType::ALL.into_iter().find(|entity_type| kind_of(*entity_type) == kind)
}

/// Row 0 of a transaction. Its `id` column has the origin, so that one index finds the transactions of a
/// session.
#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub at: Timestamp,
    pub actor: String,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<TxId>,
    /// How many rows follow. It reveals a log that has lost the last rows of a transaction.
    pub changes: u32,
}

/// One row as it is stored in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    pub tx_id: u64,
    pub seq: u32,
    pub kind: i64,
    pub id: String,
    pub body: Option<String>,
    pub crc: i64,
}

impl LogRow {
    /// A row with its checksum.
    pub(crate) fn new(tx_id: u64, seq: u32, kind: i64, id: String, body: Option<String>) -> LogRow {
        let mut row = LogRow { tx_id, seq, kind, id, body, crc: 0 };
        row.crc = row.checksum();
        row
    }

    /// The type of the record that the row changes; none for the header of a transaction.
    pub fn changed_type(&self) -> Option<EntityType> {
        entity_type_of(self.kind)
    }

    fn checksum(&self) -> i64 {
        // The flag before the body tells an empty body from none.
        let body = self.body.as_deref().unwrap_or_default().as_bytes();
        checksum(&[
            &self.tx_id.to_le_bytes(),
            &self.seq.to_le_bytes(),
            &self.kind.to_le_bytes(),
            self.id.as_bytes(),
            &[u8::from(self.body.is_some())],
            body,
        ])
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.checksum() == self.crc
    }

    fn sound(&self) -> Result<&LogRow, Error> {
        match self.is_sound() {
            true => Ok(self),
            false => Err(Error::damaged(format!(
                "log row {} of transaction {} does not match its checksum",
                self.seq, self.tx_id
            ))),
        }
    }

    pub(crate) fn header(&self) -> Result<Header, Error> {
        self.sound()?.parse()
    }

    /// The version that this change wrote; `None` for a deletion.
    pub(crate) fn record(&self) -> Result<Option<Record>, Error> {
        self.sound()?;
        let entity_type = self.entity_type()?;
        if self.body.is_none() {
            return Ok(None);
        }
        Ok(Some(match entity_type {
            EntityType::Entry => Record::Entry(self.parse::<Entry>()?),
            EntityType::Triple => Record::Triple(self.parse::<Triple>()?),
            EntityType::Namespace => Record::Namespace(self.parse::<Namespace>()?),
            EntityType::Scope => Record::Scope(self.parse::<Scope>()?),
            EntityType::Document => Record::Document(self.parse::<Document>()?),
            EntityType::Section => Record::Section(self.parse::<Section>()?),
        }))
    }

    pub(crate) fn entity_type(&self) -> Result<EntityType, Error> {
        entity_type_of(self.kind).ok_or_else(|| self.unreadable())
    }

    pub(crate) fn id(&self) -> Result<Id, Error> {
        Id::parse(&self.id).ok_or_else(|| self.unreadable())
    }

    fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_str(self.body.as_deref().unwrap_or_default()).map_err(|_| self.unreadable())
    }

    fn unreadable(&self) -> Error {
        Error::damaged(format!("log row {} of transaction {} can't be read", self.seq, self.tx_id))
    }
}

/// The rows of a transaction: its header, and then its changes in order.
pub(crate) fn rows_of(tx: &Transaction) -> Vec<LogRow> {
    let header = Header {
        at: tx.at,
        actor: tx.actor.clone(),
        tool: tx.tool.clone(),
        undoes: tx.undoes.clone(),
        changes: tx.changes.len() as u32,
    };
    let row = |seq, kind, id: &str, body| LogRow::new(tx.id.0, seq, kind, id.to_owned(), body);
    let mut rows = Vec::with_capacity(1 + tx.changes.len());
    rows.push(row(0, HEADER, &tx.origin, Some(json(&header))));
    for (seq, change) in (1..).zip(&tx.changes) {
        let body = change.after.as_ref().map(body_of);
        rows.push(row(seq, kind_of(change.entity_type), change.id.as_str(), body));
    }
    rows
}

/// The same change with another version in it.
pub(crate) fn row_with(row: &LogRow, record: &Record) -> LogRow {
    LogRow::new(row.tx_id, row.seq, row.kind, row.id.clone(), Some(body_of(record)))
}

fn body_of(record: &Record) -> String {
    match record {
        Record::Entry(entry) => json(entry),
        Record::Triple(triple) => json(triple),
        Record::Namespace(namespace) => json(namespace),
        Record::Scope(scope) => json(scope),
        Record::Document(document) => json(document),
        Record::Section(section) => json(section),
    }
}

/// The checksum of a remembered idempotency key.
pub(crate) fn remembered_checksum(actor: &str, key: &str, value: &Remembered) -> i64 {
    checksum(&[
        actor.as_bytes(),
        key.as_bytes(),
        value.tool.as_bytes(),
        value.digest.as_bytes(),
        value.reply.as_bytes(),
        &value.at.as_millisecond().to_le_bytes(),
    ])
}

/// The CRC-32C of the parts. The length of each part comes before it, so that bytes can't move from one part
/// to the next unnoticed.
pub(crate) fn checksum(parts: &[&[u8]]) -> i64 {
    let sum = parts.iter().fold(0, |sum, part| {
        let sum = crc32c::crc32c_append(sum, &(part.len() as u32).to_le_bytes());
        crc32c::crc32c_append(sum, part)
    });
    i64::from(sum)
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("log bodies are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies as the table has them: that of a header, and of a record of each type that agents write.
    const BODIES: [&str; 5] = [
        r#"{"at":"2026-01-01T00:00:00Z","actor":"a","tool":"store","undoes":[3],"changes":1}"#,
        r#"{"scope":1,"topic":"deploys","content":"Use blue-green.","tags":["ops"],"actor":"a","version":1,"recorded_at":"2026-01-01T00:00:00Z"}"#,
        r#"{"scope":1,"subject":"a","predicate":"b","object":"c","actor":"a","version":1,"recorded_at":"2026-01-01T00:00:00Z"}"#,
        r#"{"name":"acme","description":"d","actor":"a","version":1,"recorded_at":"2026-01-01T00:00:00Z"}"#,
        r#"{"number":2,"namespace":"2KP57KTRLM","name":"web","description":"d","parents":[3],"actor":"a","version":1,"recorded_at":"2026-01-01T00:00:00Z"}"#,
    ];

    #[test]
    fn any_log_row_is_read_or_refused() {
        for (kind, body) in (0..).zip(BODIES) {
            let mut row =
                LogRow { tx_id: 7, seq: 1, kind, id: "2KP57KTRLM".into(), body: Some(body.into()), crc: 0 };
            row.crc = row.checksum();
            let is_read = if kind == HEADER { row.header().is_ok() } else { row.record().is_ok() };
            assert!(is_read, "the example is good: {body}");
        }
        kenning_testkit::fuzz::run("log row", &BODIES, |input| {
            let body = String::from_utf8_lossy(input).into_owned();
            for kind in -1..8 {
                let mut row = LogRow { tx_id: 7, seq: 1, kind, id: "2KP57KTRLM".into(), body: None, crc: 0 };
                row.crc = row.checksum();
                row.body = Some(body.clone());
                assert!(row.record().is_err() && row.header().is_err(), "the checksum is of another body");
                row.crc = row.checksum();
                let _ = (row.header(), row.id());
                // A record that was read can be written and read again.
                let Ok(Some(Record::Entry(entry))) = row.record() else { continue };
                row.body = Some(json(&entry));
                row.crc = row.checksum();
                assert!(
                    matches!(row.record(), Ok(Some(Record::Entry(again))) if json(&again) == json(&entry))
                );
            }
        });
    }
}
