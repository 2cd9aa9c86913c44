//! The derived tables in SQL.

use std::collections::{BTreeMap, BTreeSet};

use kenning_model::{DEFAULT, Id, Record, Scope, ScopeId};
use rusqlite::{Connection, Params, params};

use super::reader::LOG_COLUMNS;
use super::{failed, log};
use crate::Error;
use crate::derive::{Columns, Counter, CounterKey, DerivedRows, LiveScopes, RowOperation};
use crate::log_row::LogRow;

/// The derived tables, each with the two columns that identify a row for a person.
pub(super) const TABLES: [(&str, [&str; 2]); 10] = [
    ("entry", ["id", "tx_from"]),
    ("triple", ["id", "tx_from"]),
    ("namespace", ["id", "tx_from"]),
    ("scope", ["id", "tx_from"]),
    ("document", ["id", "tx_from"]),
    ("section", ["id", "tx_from"]),
    ("closure", ["scope", "tx_from"]),
    ("touched", ["scope", "tx_id"]),
    ("undo", ["target", "by_tx"]),
    ("tally", ["scope", "tx_id"]),
];

/// The derived tables of one schema. A verification fills a second set of them in a temporary schema.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub conn: &'a Connection,
    pub schema: &'static str,
}

impl Tables<'_> {
    pub(super) fn apply(self, rows: &DerivedRows) -> Result<(), Error> {
        let (schema, tx) = (self.schema, rows.tx.0);
        for operation in &rows.operations {
            match operation {
                RowOperation::Undo { target } => {
                    self.execute(&format!("INSERT INTO {schema}.undo VALUES (?1, ?2)"), params![target.0, tx])
                }
                RowOperation::Close { entity_type, id } => self.execute(
                    &format!("UPDATE {schema}.{entity_type} SET tx_to = ?1 WHERE id = ?2 AND tx_to IS NULL"),
                    params![tx, id.as_str()],
                ),
                RowOperation::Open { seq, id, columns } => self.open(tx, *seq, *id, columns),
                RowOperation::CloseClosure { scope } => self.execute(
                    &format!("UPDATE {schema}.closure SET tx_to = ?1 WHERE scope = ?2 AND tx_to IS NULL"),
                    params![tx, scope.0],
                ),
                RowOperation::OpenClosure { scope, sees } => self.execute(
                    &format!("INSERT INTO {schema}.closure VALUES (?1, ?2, NULL, ?3)"),
                    params![scope.0, tx, joined(sees)],
                ),
                RowOperation::Touch { scope, kind, is_spread } => self.execute(
                    &format!("INSERT INTO {schema}.touched VALUES (?1, ?2, ?3, ?4, ?5)"),
                    params![scope.0, kind, tx, rows.origin, is_spread],
                ),
                RowOperation::Count { counter, by } => {
                    let CounterKey { what, name, scope, kinds } = counter.key();
                    self.execute(
                        &format!(
                            "INSERT INTO {schema}.tally VALUES (?1, ?2, ?3, ?4, ?5, ?6 + ifnull(
                                 (SELECT many FROM {schema}.tally WHERE what = ?1 AND name = ?2 AND scope = ?3
                                  AND kinds = ?4 ORDER BY tx_id DESC LIMIT 1), 0))"
                        ),
                        params![what, name, scope.0, kinds, tx, by],
                    )
                }
            }?;
        }
        Ok(())
    }

    fn open(self, tx: u64, seq: u32, id: Id, columns: &Columns) -> Result<(), Error> {
        let id = id.as_str();
        let insert = |table: &str, columns: &str| {
            format!("INSERT INTO {}.{table} VALUES (?1, ?2, NULL, ?3, {columns})", self.schema)
        };
        match columns {
            Columns::Entry { scope, topic_key, is_suppressed, valid_from, valid_to, is_pinned } => self
                .execute(
                    &insert("entry", "?4, ?5, ?6, ?7, ?8, ?9"),
                    params![tx, seq, id, scope.0, topic_key, is_suppressed, valid_from, valid_to, is_pinned],
                ),
            Columns::Triple { scope, subject_key, predicate_key, object_key } => self.execute(
                &insert("triple", "?4, ?5, ?6, ?7"),
                params![tx, seq, id, scope.0, subject_key, predicate_key, object_key],
            ),
            Columns::Document { scope, source, path, hash, pattern } => self.execute(
                &insert("document", "?4, ?5, ?6, ?7, ?8"),
                params![tx, seq, id, scope.0, source, path, hash, pattern],
            ),
            Columns::Section { scope, document, position } => self.execute(
                &insert("section", "?4, ?5, ?6"),
                params![tx, seq, id, scope.0, document.as_str(), position],
            ),
            Columns::Namespace { name } => {
                self.execute(&insert("namespace", "?4"), params![tx, seq, id, name])
            }
            Columns::Scope { number, namespace, name } => self.execute(
                &insert("scope", "?4, ?5, ?6"),
                params![tx, seq, id, number.0, namespace.as_str(), name],
            ),
        }
    }

    /// Updates the derived rows after these rows of the log have replaced others.
    pub(super) fn overwrite(self, rows: &[LogRow]) -> Result<(), Error> {
        let schema = self.schema;
        let mut predicates = BTreeSet::new();
        for row in rows {
            let Some(record) = row.record()? else { continue };
            let (tx, seq) = (row.tx_id, row.seq);
            match Columns::of(&record) {
                Columns::Entry { topic_key, .. } => self.execute(
                    &format!("UPDATE {schema}.entry SET topic_key = ?3 WHERE tx_from = ?1 AND seq = ?2"),
                    params![tx, seq, topic_key],
                )?,
                Columns::Triple { subject_key, predicate_key, object_key, .. } => {
                    let sql =
                        format!("SELECT predicate_key FROM {schema}.triple WHERE tx_from = ?1 AND seq = ?2");
                    let mut select = self.conn.prepare_cached(&sql).map_err(failed)?;
                    let before: String =
                        select.query_row(params![tx, seq], |row| row.get(0)).map_err(failed)?;
                    self.execute(
                        &format!(
                            "UPDATE {schema}.triple SET subject_key = ?3, predicate_key = ?4, object_key = ?5
                             WHERE tx_from = ?1 AND seq = ?2"
                        ),
                        params![tx, seq, subject_key, predicate_key, object_key],
                    )?;
                    predicates.extend([before, predicate_key]);
                }
                Columns::Document { source, path, hash, pattern, .. } => self.execute(
                    &format!(
                        "UPDATE {schema}.document SET source = ?3, path = ?4, hash = ?5, pattern = ?6
                         WHERE tx_from = ?1 AND seq = ?2"
                    ),
                    params![tx, seq, source, path, hash, pattern],
                )?,
                // The derived rows of these types contain no text.
                Columns::Section { .. } | Columns::Namespace { .. } | Columns::Scope { .. } => {}
            }
        }
        predicates.iter().try_for_each(|predicate| self.count_triples_of(predicate))
    }

    /// Counts the triples with a predicate anew, as of every transaction.
    fn count_triples_of(self, predicate: &str) -> Result<(), Error> {
        let (schema, what) = (self.schema, Counter::TRIPLES_OF);
        self.execute(&format!("DELETE FROM {schema}.tally WHERE what = {what} AND name = ?1"), [predicate])?;
        self.execute(
            &format!(
                "INSERT INTO {schema}.tally
                 SELECT {what}, ?1, scope, 0, tx_id, sum(change) OVER (PARTITION BY scope ORDER BY tx_id) FROM (
                     SELECT scope, tx_id, sum(change) AS change FROM (
                         SELECT scope, tx_from AS tx_id, 1 AS change FROM {schema}.triple WHERE predicate_key = ?1
                         UNION ALL
                         SELECT scope, tx_to, -1 FROM {schema}.triple WHERE predicate_key = ?1 AND tx_to IS NOT NULL
                     ) GROUP BY scope, tx_id HAVING sum(change) <> 0
                 )"
            ),
            [predicate],
        )
    }

    fn execute(self, sql: &str, params: impl Params) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(sql).map_err(failed)?;
        statement.execute(params).map(drop).map_err(failed)
    }

    fn live_scopes(self, condition: &str, params: impl Params) -> Result<Vec<(Id, Scope)>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM {}.scope AS v JOIN main.log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.tx_to IS NULL AND {condition}",
            self.schema
        );
        let mut select = self.conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = select.query(params).map_err(failed)?;
        let mut scopes = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let row = log::read(row).map_err(failed)?;
            if let (id, Some(Record::Scope(scope))) = (row.id()?, row.record()?) {
                scopes.push((id, scope));
            }
        }
        Ok(scopes)
    }
}

impl LiveScopes for Tables<'_> {
    fn scopes_in(&self, namespace: Id) -> Result<Vec<(Id, Scope)>, Error> {
        self.live_scopes("v.namespace = ?1", params![namespace.as_str()])
    }

    fn default_of(&self, namespace: Id) -> Result<Option<(Id, Scope)>, Error> {
        let condition = "v.namespace = ?1 AND v.name = ?2";
        Ok(self.live_scopes(condition, params![namespace.as_str(), DEFAULT])?.pop())
    }

    fn numbered(&self, number: ScopeId) -> Result<Option<(Id, Scope)>, Error> {
        Ok(self.live_scopes("v.number = ?1", params![number.0])?.pop())
    }

    fn closures_in(&self, namespace: Id) -> Result<BTreeMap<ScopeId, Vec<ScopeId>>, Error> {
        let sql = format!(
            "SELECT scope, sees FROM {0}.closure WHERE tx_to IS NULL
             AND scope IN (SELECT number FROM {0}.scope WHERE namespace = ?1)",
            self.schema
        );
        let mut select = self.conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = select.query(params![namespace.as_str()]).map_err(failed)?;
        let mut closures = BTreeMap::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let sees: String = row.get(1).map_err(failed)?;
            closures.insert(ScopeId(row.get(0).map_err(failed)?), parted(&sees)?);
        }
        Ok(closures)
    }
}

/// A closure as text, as the table stores it.
fn joined(scopes: &[ScopeId]) -> String {
    let numbers: Vec<String> = scopes.iter().map(|scope| scope.0.to_string()).collect();
    numbers.join(",")
}

pub(super) fn parted(sees: &str) -> Result<Vec<ScopeId>, Error> {
    let damaged = |_| Error::damaged("what a scope sees can't be read");
    sees.split(',').map(|number| number.parse().map(ScopeId).map_err(damaged)).collect()
}
