//! Rows of the tables: how the values of the model stand in columns.

use std::borrow::Cow;
use std::collections::HashMap;

use kenning_model::{EntityType, Id, ScopeId, TxId};
use tokio_postgres::Row;

use super::connection::failed;
use crate::Error;
use crate::derive::{Columns, DerivedRows, RowOperation};
use crate::log_row::{LogRow, checksum, kind_of};

/// A `text` of PostgreSQL can't hold U+0000. It stands as two U+0001, and U+0001 as U+0001 U+0002, so different texts stay
/// different and keep their order.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', '\u{1}']) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => written.push_str("\u{1}\u{1}"),
            '\u{1}' => written.push_str("\u{1}\u{2}"),
            c => written.push(c),
        }
    }
    Cow::Owned(written)
}

/// The original of a text that `text` has encoded.
pub(super) fn from_text(written: String) -> String {
    if !written.contains('\u{1}') {
        return written;
    }
    let mut text = String::with_capacity(written.len());
    let mut chars = written.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1}' if chars.next() == Some('\u{1}') => text.push('\0'),
            c => text.push(c),
        }
    }
    text
}

pub(super) const LOG_COLUMNS: &str = "log.tx_id, log.seq, log.kind, log.id, log.body, log.crc";

pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    column: usize,
) -> Result<T, Error> {
    row.try_get(column).map_err(failed)
}

pub(super) fn tx(row: &Row, column: usize) -> Result<TxId, Error> {
    Ok(TxId(get::<i64>(row, column)? as u64))
}

pub(super) fn scope(row: &Row, column: usize) -> Result<ScopeId, Error> {
    Ok(ScopeId(get::<i64>(row, column)? as u32))
}

pub(super) fn id(row: &Row, column: usize) -> Result<Id, Error> {
    let id: &str = get(row, column)?;
    Id::parse(id).ok_or_else(|| Error::damaged(format!("`{id}` is no id")))
}

/// The number for SQL. A number above the largest of SQL becomes that largest one, which means the same.
pub(super) fn number(tx: TxId) -> i64 {
    i64::try_from(tx.0).unwrap_or(i64::MAX)
}

pub(super) fn numbers(scopes: &[ScopeId]) -> Vec<i64> {
    scopes.iter().map(|scope| i64::from(scope.0)).collect()
}

/// A row of the log from `LOG_COLUMNS` that begin at a column.
pub(super) fn log_row(row: &Row, from: usize) -> Result<LogRow, Error> {
    Ok(LogRow {
        tx_id: tx(row, from)?.0,
        seq: get::<i32>(row, from + 1)? as u32,
        kind: i64::from(get::<i16>(row, from + 2)?),
        id: from_text(get(row, from + 3)?),
        body: get(row, from + 4)?,
        crc: get(row, from + 5)?,
    })
}

/// A row of the table `version`, which has the derived columns of all types.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VersionRow {
    pub tx_from: i64,
    pub seq: i32,
    pub tx_to: Option<i64>,
    pub kind: i16,
    pub id: String,
    pub scope: Option<i64>,
    pub topic_key: Option<String>,
    pub is_suppressed: Option<bool>,
    pub valid_from: Option<i64>,
    pub valid_to: Option<i64>,
    pub is_pinned: Option<bool>,
    pub subject_key: Option<String>,
    pub predicate_key: Option<String>,
    pub object_key: Option<String>,
    pub source: Option<String>,
    pub path: Option<String>,
    pub hash: Option<String>,
    pub pattern: Option<String>,
    pub document: Option<String>,
    pub position: Option<i32>,
    pub name: Option<String>,
    pub number: Option<i64>,
    pub namespace: Option<String>,
}

pub(super) const VERSION_COLUMNS: &str = "tx_from, seq, tx_to, kind, id, scope, topic_key, suppressed, valid_from, valid_to, \
     pinned, subject_key, predicate_key, object_key, source, path, hash, pattern, document, position, name, number, namespace";

impl VersionRow {
    pub(super) fn new(tx: i64, seq: u32, id: Id, columns: &Columns) -> VersionRow {
        let row = VersionRow { tx_from: tx, seq: seq as i32, id: id.to_string(), ..VersionRow::default() };
        let kind = |entity_type| kind_of(entity_type) as i16;
        let at = |scope: &ScopeId| Some(i64::from(scope.0));
        let some = |value: &str| Some(text(value).into_owned());
        match columns {
            Columns::Entry { scope, topic_key, is_suppressed, valid_from, valid_to, is_pinned } => {
                VersionRow {
                    kind: kind(EntityType::Entry),
                    scope: at(scope),
                    topic_key: some(topic_key),
                    is_suppressed: Some(*is_suppressed),
                    valid_from: *valid_from,
                    valid_to: *valid_to,
                    is_pinned: Some(*is_pinned),
                    ..row
                }
            }
            Columns::Triple { scope, subject_key, predicate_key, object_key } => VersionRow {
                kind: kind(EntityType::Triple),
                scope: at(scope),
                subject_key: some(subject_key),
                predicate_key: some(predicate_key),
                object_key: some(object_key),
                ..row
            },
            Columns::Document { scope, source, path, hash, pattern } => VersionRow {
                kind: kind(EntityType::Document),
                scope: at(scope),
                source: some(source),
                path: some(path),
                hash: some(hash),
                pattern: pattern.as_deref().and_then(some),
                ..row
            },
            Columns::Section { scope, document, position } => VersionRow {
                kind: kind(EntityType::Section),
                scope: at(scope),
                document: Some(document.to_string()),
                position: Some(*position as i32),
                ..row
            },
            Columns::Namespace { name } => {
                VersionRow { kind: kind(EntityType::Namespace), name: some(name), ..row }
            }
            Columns::Scope { number, namespace, name } => VersionRow {
                kind: kind(EntityType::Scope),
                number: at(number),
                namespace: Some(namespace.to_string()),
                name: some(name),
                ..row
            },
        }
    }

    pub(super) fn read(row: &Row) -> Result<VersionRow, Error> {
        Ok(VersionRow {
            tx_from: get(row, 0)?,
            seq: get(row, 1)?,
            tx_to: get(row, 2)?,
            kind: get(row, 3)?,
            id: get(row, 4)?,
            scope: get(row, 5)?,
            topic_key: get(row, 6)?,
            is_suppressed: get(row, 7)?,
            valid_from: get(row, 8)?,
            valid_to: get(row, 9)?,
            is_pinned: get(row, 10)?,
            subject_key: get(row, 11)?,
            predicate_key: get(row, 12)?,
            object_key: get(row, 13)?,
            source: get(row, 14)?,
            path: get(row, 15)?,
            hash: get(row, 16)?,
            pattern: get(row, 17)?,
            document: get(row, 18)?,
            position: get(row, 19)?,
            name: get(row, 20)?,
            number: get(row, 21)?,
            namespace: get(row, 22)?,
        })
    }

    /// A digest of every column but `tx_to`.
    pub(super) fn digest(&self) -> i64 {
        checksum(&[format!("{:?}", VersionRow { tx_to: None, ..self.clone() }).as_bytes()])
    }
}

pub(super) struct TouchedRow {
    pub tx_id: i64,
    pub scope: i64,
    pub kind: i16,
    pub origin: String,
}

pub(super) struct ClosureRow {
    pub scope: i64,
    pub tx_from: i64,
    pub tx_to: Option<i64>,
    pub sees: Vec<ScopeId>,
}

/// The changes of the derived tables by several transactions, in a form that needs one statement for each
/// table. A row that is both opened and closed by these transactions is inserted once, with both ends.
#[derive(Default)]
pub(super) struct DerivedChanges {
    /// Versions in the tables that are closed: type, id, transaction.
    pub closed: Vec<(i16, String, i64)>,
    pub versions: Vec<VersionRow>,
    /// Closures in the tables that are closed: scope, transaction.
    pub closed_closures: Vec<(i64, i64)>,
    pub closures: Vec<ClosureRow>,
    pub touched: Vec<TouchedRow>,
    /// The undone transaction, and the one that undid it.
    pub undone: Vec<(i64, i64)>,
    live: HashMap<(i16, String), usize>,
    live_closures: HashMap<i64, usize>,
}

/// How many rows of a table are written with one statement.
const PART: usize = 5_000;

impl DerivedChanges {
    /// Splits the changes into parts, each of which needs one statement for each table.
    pub(super) fn parts(self) -> Vec<DerivedChanges> {
        fn chunks<T>(
            rows: Vec<T>,
            put: impl Fn(&mut DerivedChanges, Vec<T>),
            parts: &mut Vec<DerivedChanges>,
        ) {
            let mut rows = rows.into_iter().peekable();
            let mut place = 0;
            while rows.peek().is_some() {
                if parts.len() == place {
                    parts.push(DerivedChanges::default());
                }
                put(&mut parts[place], rows.by_ref().take(PART).collect());
                place += 1;
            }
        }
        let mut parts = Vec::new();
        chunks(self.versions, |part, rows| part.versions = rows, &mut parts);
        chunks(self.closures, |part, rows| part.closures = rows, &mut parts);
        chunks(self.touched, |part, rows| part.touched = rows, &mut parts);
        chunks(self.undone, |part, rows| part.undone = rows, &mut parts);
        parts
    }

    pub(super) fn add(&mut self, rows: &DerivedRows) {
        let at = number(rows.tx);
        for operation in &rows.operations {
            match operation {
                RowOperation::Undo { target } => self.undone.push((number(*target), at)),
                RowOperation::Close { entity_type, id } => {
                    let key = (kind_of(*entity_type) as i16, id.to_string());
                    match self.live.remove(&key) {
                        Some(row) => self.versions[row].tx_to = Some(at),
                        None => self.closed.push((key.0, key.1, at)),
                    }
                }
                RowOperation::Open { seq, id, columns } => {
                    let row = VersionRow::new(at, *seq, *id, columns);
                    self.live.insert((row.kind, row.id.clone()), self.versions.len());
                    self.versions.push(row);
                }
                RowOperation::CloseClosure { scope } => {
                    let scope = i64::from(scope.0);
                    match self.live_closures.remove(&scope) {
                        Some(row) => self.closures[row].tx_to = Some(at),
                        None => self.closed_closures.push((scope, at)),
                    }
                }
                RowOperation::OpenClosure { scope, sees } => {
                    let scope = i64::from(scope.0);
                    self.live_closures.insert(scope, self.closures.len());
                    self.closures.push(ClosureRow { scope, tx_from: at, tx_to: None, sees: sees.clone() });
                }
                RowOperation::Touch { scope, kind, .. } => self.touched.push(TouchedRow {
                    tx_id: at,
                    scope: i64::from(scope.0),
                    kind: *kind as i16,
                    origin: text(&rows.origin).into_owned(),
                }),
                // PostgreSQL counts rows when asked: stored counters would be one more statement in the
                // transaction that all servers wait for.
                RowOperation::Count { .. } => {}
            }
        }
    }
}

/// A closure as text. A statement takes several closures at once, and an array of arrays can't have rows of
/// different lengths.
pub(super) fn joined(scopes: &[ScopeId]) -> String {
    let numbers: Vec<String> = scopes.iter().map(|scope| scope.0.to_string()).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_reads_back_and_keeps_its_order() {
        let texts = [
            "",
            "\0",
            "\0\0",
            "\0a",
            "\u{1}",
            "\u{1}\0",
            "\u{1}\u{2}",
            "\u{2}",
            "a",
            "a\0b",
            "a\u{1}b",
            "ab",
        ];
        let written: Vec<String> = texts.iter().map(|it| text(it).into_owned()).collect();
        assert!(written.is_sorted(), "{written:?}");
        for (one, written) in texts.iter().zip(written) {
            assert!(!written.contains('\0'));
            assert_eq!(from_text(written), *one);
        }
    }
}
