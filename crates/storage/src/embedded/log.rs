//! Rows of the log: their form, their checksums, and what is derived from each.

use kenning_model::{
    Document, EntityType, Entry, Id, Namespace, Record, Scope, Section, Timestamp, Transaction, Triple, TxId,
};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::derive::Derived;
use super::failed;
use crate::Error;
use crate::backend::Remembered;

/// The `kind` of a transaction's first row; its changes have the number of their entity type.
pub(super) const HEADER: i64 = 0;

pub(super) fn kind_of(entity_type: EntityType) -> i64 {
    match entity_type {
        EntityType::Entry => 1,
        EntityType::Triple => 2,
        EntityType::Namespace => 3,
        EntityType::Scope => 4,
        EntityType::Document => 5,
        EntityType::Section => 6,
    }
}

pub(super) fn entity_type_of(kind: i64) -> Option<EntityType> {
    EntityType::ALL.into_iter().find(|entity_type| kind_of(*entity_type) == kind)
}

/// Row 0 of a transaction. Its `id` column holds the origin, so that one index finds a session's own.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub at: Timestamp,
    pub actor: String,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<TxId>,
    /// How many rows follow; a log that lost its tail of a transaction is found out by this.
    pub changes: u32,
}

/// One row as it stands in the table.
pub(super) struct LogRow {
    pub tx_id: u64,
    pub seq: u32,
    pub kind: i64,
    pub id: String,
    pub body: Option<String>,
    pub crc: i64,
}

impl LogRow {
    /// Expects the columns tx_id, seq, kind, id, body, crc.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<LogRow> {
        Ok(LogRow {
            tx_id: row.get(0)?,
            seq: row.get(1)?,
            kind: row.get(2)?,
            id: row.get(3)?,
            body: row.get(4)?,
            crc: row.get(5)?,
        })
    }

    fn checksum(&self) -> i64 {
        // The length tells an empty body from none.
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

    pub(super) fn is_sound(&self) -> bool {
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

    pub(super) fn header(&self) -> Result<Header, Error> {
        self.sound()?.parse()
    }

    /// The version that this change wrote; `None` for a delete.
    pub(super) fn record(&self) -> Result<Option<Record>, Error> {
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

    pub(super) fn entity_type(&self) -> Result<EntityType, Error> {
        entity_type_of(self.kind).ok_or_else(|| self.unreadable())
    }

    pub(super) fn id(&self) -> Result<Id, Error> {
        Id::parse(&self.id).ok_or_else(|| self.unreadable())
    }

    fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_str(self.body.as_deref().unwrap_or_default()).map_err(|_| self.unreadable())
    }

    fn unreadable(&self) -> Error {
        Error::damaged(format!("log row {} of transaction {} can't be read", self.seq, self.tx_id))
    }

    fn insert(mut self, conn: &Connection) -> Result<(), Error> {
        self.crc = self.checksum();
        let mut insert =
            conn.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6)").map_err(failed)?;
        let row = params![self.tx_id, self.seq, self.kind, self.id, self.body, self.crc];
        insert.execute(row).map(drop).map_err(failed)
    }
}

pub(super) fn append(conn: &Connection, tx: &Transaction) -> Result<(), Error> {
    let header = Header {
        at: tx.at,
        actor: tx.actor.clone(),
        tool: tx.tool.clone(),
        undoes: tx.undoes.clone(),
        changes: tx.changes.len() as u32,
    };
    let row =
        |seq, kind, id: &str, body| LogRow { tx_id: tx.id.0, seq, kind, id: id.to_owned(), body, crc: 0 };
    row(0, HEADER, &tx.origin, Some(json(&header))).insert(conn)?;
    let mut derived = Derived::new(conn, "main", tx.id, &tx.origin);
    derived.undo(&tx.undoes)?;
    for (seq, change) in (1..).zip(&tx.changes) {
        let body = change.after.as_ref().map(|record| match record {
            Record::Entry(entry) => json(entry),
            Record::Triple(triple) => json(triple),
            Record::Namespace(namespace) => json(namespace),
            Record::Scope(scope) => json(scope),
            Record::Document(document) => json(document),
            Record::Section(section) => json(section),
        });
        row(seq, kind_of(change.entity_type), change.id.as_str(), body).insert(conn)?;
        let id = change.id.as_str();
        if change.before.is_some() {
            derived.close(change.entity_type, id)?;
        }
        if let Some(record) = &change.after {
            derived.open(seq, id, record)?;
        }
    }
    derived.end()
}

pub(super) fn remember(conn: &Connection, actor: &str, key: &str, value: &Remembered) -> Result<(), Error> {
    let at = value.at.as_millisecond();
    let crc = checksum(&[
        actor.as_bytes(),
        key.as_bytes(),
        value.tool.as_bytes(),
        value.digest.as_bytes(),
        value.reply.as_bytes(),
        &at.to_le_bytes(),
    ]);
    conn.prepare_cached("INSERT OR REPLACE INTO remembered VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .and_then(|mut insert| {
            insert.execute(params![actor, key, value.tool, value.digest, value.reply, at, crc])
        })
        .map(drop)
        .map_err(failed)
}

/// The checksum of a whole row of `remembered`, and the one that stands in it.
pub(super) fn remembered_checksum(row: &Row<'_>) -> rusqlite::Result<(i64, i64)> {
    let mut texts: Vec<String> = Vec::with_capacity(5);
    for column in 0..5 {
        texts.push(row.get(column)?);
    }
    let at: i64 = row.get(5)?;
    let mut parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let at = at.to_le_bytes();
    parts.push(&at);
    Ok((checksum(&parts), row.get(6)?))
}

/// CRC-32C over the parts, each led by its length so that bytes can't wander from one part to the next.
pub(super) fn checksum(parts: &[&[u8]]) -> i64 {
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

    /// Bodies as the table has them, of a header and of a record of each type that agents write.
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
                // What can be read can be written and read again.
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
