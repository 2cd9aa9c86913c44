//! What is derived from the log: which version was live when, what each scope sees, which transactions concern it.

use std::collections::{BTreeMap, BTreeSet};

use kenning_model::{DEFAULT, EntityType, Id, Record, Scope, ScopeId, Status, Timestamp, TxId, fold};
use rusqlite::{Connection, Params, params};

use super::failed;
use super::log::{HEADER, LogRow, kind_of};
use super::reader::LOG_COLUMNS;
use crate::Error;
use crate::tree::Tree;

/// The tables, each with the two columns that tell a person which row is meant.
pub(super) const TABLES: [(&str, [&str; 2]); 9] = [
    ("entry", ["id", "tx_from"]),
    ("triple", ["id", "tx_from"]),
    ("namespace", ["id", "tx_from"]),
    ("scope", ["id", "tx_from"]),
    ("document", ["id", "tx_from"]),
    ("section", ["id", "tx_from"]),
    ("closure", ["scope", "tx_from"]),
    ("touched", ["scope", "tx_id"]),
    ("undo", ["target", "by_tx"]),
];

/// The scope under which `touched` has what belongs to none.
pub(super) const NO_SCOPE: u32 = 0;

/// The derivation of one transaction. `schema` is where the tables are: a verification derives them a second time,
/// elsewhere.
pub(super) struct Derived<'a> {
    conn: &'a Connection,
    schema: &'static str,
    tx: TxId,
    origin: String,
    touched: BTreeSet<(u32, i64)>,
    /// How many versions of scopes were closed, and the scopes that were opened.
    closed_scopes: usize,
    opened_scopes: Vec<Scope>,
}

impl<'a> Derived<'a> {
    pub(super) fn new(conn: &'a Connection, schema: &'static str, tx: TxId, origin: &str) -> Derived<'a> {
        let (origin, touched) = (origin.to_owned(), BTreeSet::new());
        Derived { conn, schema, tx, origin, touched, closed_scopes: 0, opened_scopes: Vec::new() }
    }

    pub(super) fn undo(&self, undoes: &[TxId]) -> Result<(), Error> {
        for target in undoes {
            self.conn
                .prepare_cached(&format!("INSERT INTO {}.undo VALUES (?1, ?2)", self.schema))
                .and_then(|mut insert| insert.execute(params![target.0, self.tx.0]))
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Closes the version of an id that is live.
    pub(super) fn close(&mut self, entity_type: EntityType, id: &str) -> Result<(), Error> {
        let scope = if entity_type.has_scope() { "scope" } else { "0" };
        let sql = format!(
            "UPDATE {}.{entity_type} SET tx_to = ?1 WHERE id = ?2 AND tx_to IS NULL RETURNING {scope}",
            self.schema
        );
        let mut update = self.conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = update.query(params![self.tx.0, id]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            self.touched.insert((row.get(0).map_err(failed)?, kind_of(entity_type)));
            self.closed_scopes += usize::from(entity_type == EntityType::Scope);
        }
        Ok(())
    }

    /// Makes a version the live one of its id.
    pub(super) fn open(&mut self, seq: u32, id: &str, record: &Record) -> Result<(), Error> {
        let scope = record.scope().map_or(NO_SCOPE, |scope| scope.0);
        self.touched.insert((scope, kind_of(record.entity_type())));
        self.opened_scopes.extend(record.as_scope().cloned());
        let insert = |columns: &str| {
            let sql = format!(
                "INSERT INTO {}.{} VALUES (?1, ?2, NULL, ?3, {columns})",
                self.schema,
                record.entity_type()
            );
            self.conn.prepare_cached(&sql)
        };
        let tx = self.tx.0;
        let inserted = match record {
            Record::Entry(entry) => insert("?4, ?5, ?6, ?7, ?8, ?9").and_then(|mut insert| {
                insert.execute(params![
                    tx,
                    seq,
                    id,
                    scope,
                    fold(&entry.topic),
                    entry.status == Status::Suppressed,
                    entry.valid_from.map(Timestamp::as_millisecond),
                    entry.valid_to.map(Timestamp::as_millisecond),
                    entry.pinned,
                ])
            }),
            Record::Triple(triple) => insert("?4, ?5, ?6, ?7").and_then(|mut insert| {
                let [subject, predicate, object] =
                    [&triple.subject, &triple.predicate, &triple.object].map(|text| fold(text));
                insert.execute(params![tx, seq, id, scope, subject, predicate, object])
            }),
            Record::Document(document) => insert("?4, ?5, ?6, ?7, ?8").and_then(|mut insert| {
                let (source, path, hash) = (&document.source, &document.path, &document.hash);
                let pattern = document.pattern.as_ref().map(|pattern| pattern.id.as_str());
                let pattern = pattern.or(document.catalogue.then_some(""));
                insert.execute(params![tx, seq, id, scope, source, path, hash, pattern])
            }),
            Record::Section(section) => insert("?4, ?5, ?6").and_then(|mut insert| {
                insert.execute(params![tx, seq, id, scope, section.document.as_str(), section.position])
            }),
            Record::Namespace(namespace) => {
                insert("?4").and_then(|mut insert| insert.execute(params![tx, seq, id, namespace.name]))
            }
            Record::Scope(scope) => insert("?4, ?5, ?6").and_then(|mut insert| {
                let namespace = scope.namespace.as_str();
                insert.execute(params![tx, seq, id, scope.number.0, namespace, scope.name])
            }),
        };
        inserted.map(drop).map_err(failed)
    }

    /// What follows from all changes of the transaction together.
    pub(super) fn end(mut self) -> Result<(), Error> {
        // An undo that found nothing to change is part of the history all the same.
        if self.touched.is_empty() && self.tx != TxId::EMPTY {
            self.touched.insert((NO_SCOPE, HEADER));
        }
        match &self.opened_scopes[..] {
            [] if self.closed_scopes == 0 => {}
            // No other scope changed, so none can inherit from this one yet.
            [made] if self.closed_scopes == 0 && made.name != DEFAULT => self.close_over_new(made)?,
            _ => self.close_over()?,
        }
        let sql = format!("INSERT INTO {}.touched VALUES (?1, ?2, ?3, ?4)", self.schema);
        let mut insert = self.conn.prepare_cached(&sql).map_err(failed)?;
        for (scope, kind) in &self.touched {
            insert.execute(params![scope, kind, self.tx.0, self.origin]).map_err(failed)?;
        }
        Ok(())
    }

    /// Works out anew what the scopes see in every namespace in which one has changed.
    fn close_over(&self) -> Result<(), Error> {
        let sql =
            format!("SELECT DISTINCT namespace FROM {}.scope WHERE tx_from = ?1 OR tx_to = ?1", self.schema);
        let mut changed = self.conn.prepare_cached(&sql).map_err(failed)?;
        let namespaces = changed
            .query_map(params![self.tx.0], |row| row.get::<_, String>(0))
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(failed)?;
        for namespace in namespaces {
            let before = self.closures(&namespace)?;
            let after = self.closures_now(&namespace)?;
            for scope in before.keys().filter(|scope| before.get(scope) != after.get(scope)) {
                let sql = format!(
                    "UPDATE {}.closure SET tx_to = ?1 WHERE scope = ?2 AND tx_to IS NULL",
                    self.schema
                );
                let mut close = self.conn.prepare_cached(&sql).map_err(failed)?;
                close.execute(params![self.tx.0, scope]).map_err(failed)?;
            }
            for (scope, sees) in after.iter().filter(|(scope, sees)| before.get(scope) != Some(sees)) {
                self.open_closure(*scope, sees)?;
            }
        }
        Ok(())
    }

    /// Works out what one new scope sees. Of the other scopes it reads those alone that this one inherits from.
    fn close_over_new(&self, made: &Scope) -> Result<(), Error> {
        let default = params![made.namespace.as_str(), DEFAULT];
        let mut scopes = self.live_scopes("v.namespace = ?1 AND v.name = ?2", default)?;
        let (mut next, mut known) = (vec![made.number], BTreeSet::new());
        while let Some(number) = next.pop() {
            if known.insert(number) {
                let found = self.live_scopes("v.number = ?1", params![number.0])?;
                next.extend(found.iter().flat_map(|(_, scope)| &scope.parents));
                scopes.extend(found);
            }
        }
        self.open_closure(made.number.0, &joined(&Tree::of_scopes(scopes).closure(made)))
    }

    fn open_closure(&self, scope: u32, sees: &str) -> Result<(), Error> {
        let sql = format!("INSERT INTO {}.closure VALUES (?1, ?2, NULL, ?3)", self.schema);
        let mut open = self.conn.prepare_cached(&sql).map_err(failed)?;
        open.execute(params![scope, self.tx.0, sees]).map(drop).map_err(failed)
    }

    /// As the table has it.
    fn closures(&self, namespace: &str) -> Result<BTreeMap<u32, String>, Error> {
        let sql = format!(
            "SELECT scope, sees FROM {0}.closure WHERE tx_to IS NULL
             AND scope IN (SELECT number FROM {0}.scope WHERE namespace = ?1)",
            self.schema
        );
        let mut select = self.conn.prepare_cached(&sql).map_err(failed)?;
        let rows = select.query_map(params![namespace], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(failed)
    }

    /// As the scopes of the namespace say.
    fn closures_now(&self, namespace: &str) -> Result<BTreeMap<u32, String>, Error> {
        let tree = Tree::of_scopes(self.live_scopes("v.namespace = ?1", params![namespace])?);
        let namespace = Id::parse(namespace).ok_or_else(|| Error::damaged("a namespace has no id"))?;
        Ok(tree.scopes(namespace).map(|(_, scope)| (scope.number.0, joined(&tree.closure(scope)))).collect())
    }

    fn live_scopes(&self, condition: &str, params: impl Params) -> Result<Vec<(Id, Scope)>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM {}.scope AS v JOIN main.log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.tx_to IS NULL AND {condition}",
            self.schema
        );
        let mut select = self.conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = select.query(params).map_err(failed)?;
        let mut scopes = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let row = LogRow::read(row).map_err(failed)?;
            if let (id, Some(Record::Scope(scope))) = (row.id()?, row.record()?) {
                scopes.push((id, scope));
            }
        }
        Ok(scopes)
    }
}

/// A closure as the table has it.
fn joined(scopes: &[ScopeId]) -> String {
    let numbers: Vec<String> = scopes.iter().map(|scope| scope.0.to_string()).collect();
    numbers.join(",")
}

pub(super) fn parted(sees: &str) -> Result<Vec<ScopeId>, Error> {
    let damaged = |_| Error::damaged("what a scope sees can't be read");
    sees.split(',').map(|number| number.parse().map(ScopeId).map_err(damaged)).collect()
}
