//! Answers the questions of `Reader` with SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};

use kenning_model::{
    EntityType, GLOBAL, Id, Namespace, Record, ScopeId, ScopeName, ScopeNames, Timestamp, TxId,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params};

use super::derive::parted;
use super::log::remembered_checksums;
use super::{failed, log, schema};
use crate::Error;
use crate::backend::{
    At, DocumentKind, DocumentKinds, DocumentSource, EntryFilter, KeptKey, KnownDocument, LOG_PAGE_BYTES,
    LogChange, LogPage, Position, Reader, RecordKey, Remembered, StoreId, Stored, Touched, TripleFilter,
};
use crate::derive::{Counter, CounterKey, NO_SCOPE, Shown, kind_bit};
use crate::log_row::{HEADER, LogRow, kind_of};

/// Queries over a connection that is borrowed or owned in any way.
pub(super) struct Sql<C>(pub C);

pub(super) const LOG_COLUMNS: &str = "log.tx_id, log.seq, log.kind, log.id, log.body, log.crc";

/// The value of a counter as of a transaction.
const TALLY: &str =
    "SELECT many FROM tally WHERE what = ?1 AND name = ?2 AND scope = ?3 AND kinds = ?4 AND tx_id <= ?5
                     ORDER BY tx_id DESC LIMIT 1";
/// The next counter of the same form, whose value may be 0 by now. The largest transaction number makes the
/// comparison skip all rows of the present counter in one look-up.
const NEXT_TALLY: &str = "SELECT scope, kinds FROM tally WHERE what = ?1 AND name = ?2
                          AND (scope, kinds, tx_id) > (?3, ?4, 9223372036854775807) ORDER BY scope, kinds LIMIT 1";
/// The newest transactions that a counter of transactions has counted.
const COUNTED: &str = "SELECT tx_id FROM tally WHERE what = ?1 AND name = ?2 AND scope = ?3 AND kinds = ?4
                       AND tx_id >= ?5 AND tx_id < ?6 ORDER BY tx_id DESC LIMIT ?7";
/// The entries of a scope that are valid only for a time, and at the time ?3.
const SHOWN_AT_TIMES: &str = "SELECT count(*) FROM entry INDEXED BY entry_window
                              WHERE scope = ?1 AND (valid_from IS NOT NULL OR valid_to IS NOT NULL) AND suppressed = 0
                              AND tx_from <= ?2 AND (tx_to IS NULL OR tx_to > ?2)
                              AND ifnull(valid_from, ?3) <= ?3 AND (valid_to IS NULL OR valid_to > ?3)";
/// A page that ends at or before this row is merged from the newest rows of each scope. A page further down
/// has to read past all rows before it anyway, which is faster with the key of the table.
const MERGED_ROWS: u64 = 1_000;
/// A page over more scopes than this uses the key of the table too.
const MERGED_SCOPES: usize = 64;

impl<C: Deref<Target = Connection>> Sql<C> {
    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self.0.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map(params, read).and_then(Iterator::collect).map_err(failed);
        #[cfg(test)]
        steps::taken_by(&statement);
        rows
    }

    fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Error> {
        let mut statement = self.0.prepare_cached(sql).map_err(failed)?;
        let row = statement.query_row(params, read).optional().map_err(failed);
        #[cfg(test)]
        steps::taken_by(&statement);
        row
    }

    fn count(&self, sql: &str, params: impl Params) -> Result<u64, Error> {
        Ok(self.row(sql, params, |row| row.get(0))?.unwrap_or(0))
    }

    /// Reads the version that a key names from the log.
    fn version(&self, RecordKey { entity_type, id, at }: RecordKey) -> Result<Option<Stored>, Error> {
        let (condition, at) = match at {
            At::Live(at) => ("v.tx_from <= ?2 AND (v.tx_to IS NULL OR v.tx_to > ?2)", at),
            At::Newest => ("v.tx_from > ?2", TxId::EMPTY),
            At::ClosedBy(at) => ("v.tx_to = ?2", at),
        };
        // Without the hint, the planner walks the whole key backwards to get the order.
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM {entity_type} AS v INDEXED BY {entity_type}_id
             JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.id = ?1 AND {condition} ORDER BY v.tx_from DESC LIMIT 1"
        );
        self.row(&sql, params![id.as_str(), at.0], log::read)?.map(|row| stored(&row)).transpose()
    }

    fn page_of(&self, rows: &Versions<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        self.rows(&rows.page_sql(page), rows.params().as_slice(), log::read)?.iter().map(stored).collect()
    }

    fn count_of(&self, rows: &Versions<'_>) -> Result<u64, Error> {
        let sql =
            format!("SELECT count(*) FROM ({})", rows.sql(&in_scopes(rows.scopes), rows.index_of_names()));
        self.count(&sql, rows.params().as_slice())
    }

    fn tally(&self, CounterKey { what, name, scope, kinds }: CounterKey<'_>, at: TxId) -> Result<u64, Error> {
        self.count(TALLY, params![what, name, scope.0, kinds, at.0])
    }

    /// The counters of a form that these scopes have or ever had; without scopes, those of all scopes.
    fn counters<'n>(
        &self,
        what: i64,
        name: &'n str,
        scopes: Option<&BTreeSet<ScopeId>>,
    ) -> Result<Vec<CounterKey<'n>>, Error> {
        let mut found = Vec::new();
        let firsts = scopes.map_or_else(|| vec![NO_SCOPE], |scopes| scopes.iter().copied().collect());
        for first in firsts {
            let (mut scope, mut kinds) = (first, -1);
            loop {
                let next = self.row(NEXT_TALLY, params![what, name, scope.0, kinds], |row| {
                    Ok((ScopeId(row.get(0)?), row.get(1)?))
                })?;
                match next {
                    Some(next) if scopes.is_none() || next.0 == first => (scope, kinds) = next,
                    _ => break,
                }
                found.push(CounterKey { what, name, scope, kinds });
            }
        }
        Ok(found)
    }

    /// The counters that together count exactly once each requested transaction that is not spread. None if
    /// counters can't answer the question.
    fn counters_of<'n>(&self, touched: &Touched<'n>) -> Result<Option<Vec<CounterKey<'n>>>, Error> {
        let reach: Option<BTreeSet<ScopeId>> =
            touched.reach.scopes().map(|scopes| scopes.into_iter().collect());
        let mut seen: BTreeSet<ScopeId> = match (touched.scopes, &reach) {
            (Some(scopes), _) => touched.reach.within(scopes.to_vec()).into_iter().collect(),
            (None, Some(reach)) => reach.clone(),
            (None, None) => return Ok(None),
        };
        if reach.is_none() {
            seen.insert(NO_SCOPE);
        }
        let mut counters = self.counters(Counter::TRANSACTIONS, "", Some(&seen))?;
        if let Some(own) = touched.own {
            let mut outside = self.counters(Counter::TRANSACTIONS_OF, own, None)?;
            outside.retain(|counter| {
                let is_reached = reach.as_ref().is_none_or(|reach| reach.contains(&counter.scope));
                is_reached && !seen.contains(&counter.scope)
            });
            counters.extend(outside);
        }
        let wanted: i64 = kinds_of(touched).into_iter().map(kind_bit).sum();
        counters.retain(|counter| counter.kinds & wanted != 0);
        Ok(Some(counters))
    }

    /// The requested transactions that no counter includes: the spread ones and, for a principal that does
    /// not see everything, those of its namespaces.
    fn uncounted(&self, touched: &Touched<'_>, limit: u64) -> Result<Vec<TxId>, Error> {
        let range = &touched.range;
        let mut found = self.rows(
            &spread_sql(touched),
            params![range.start.0, range.end.0, touched.own, limit],
            |row| row.get(0).map(TxId),
        )?;
        if let Some(namespaces) = touched.reach.namespaces() {
            let sql = format!(
                "SELECT DISTINCT tx_id FROM touched WHERE tx_id IN ({}) AND scope = {} AND spread = 0 AND {}
                 AND tx_id >= ?1 AND tx_id < ?2 ORDER BY tx_id DESC LIMIT ?3",
                changes_of_namespaces(&namespaces),
                NO_SCOPE.0,
                in_kinds(touched),
            );
            let of_namespaces =
                self.rows(&sql, params![range.start.0, range.end.0, limit], |row| row.get(0).map(TxId))?;
            found.extend(of_namespaces);
        }
        Ok(found)
    }
}

const SUBJECT: &str = "subject_key = ?";
const PREDICATE: &str = "predicate_key = ?";
const OBJECT: &str = "object_key = ?";

/// The versions of a table that were live at a transaction and match the filter.
struct Versions<'a> {
    table: EntityType,
    at: u64,
    scopes: &'a [ScopeId],
    conditions: Vec<(&'static str, Box<dyn ToSql + 'a>)>,
}

impl<'a> Versions<'a> {
    fn entries(filter: &EntryFilter<'a>) -> Versions<'a> {
        let mut conditions: Vec<(&'static str, Box<dyn ToSql + 'a>)> = Vec::new();
        if let Some(now) = filter.visible_at.map(Timestamp::as_millisecond) {
            conditions.push(("suppressed = 0 AND ifnull(valid_from, 0) <= ?", Box::new(now)));
            conditions.push(("(valid_to IS NULL OR valid_to > ?)", Box::new(now)));
        }
        Versions { table: EntityType::Entry, at: filter.at.0, scopes: filter.scopes, conditions }
    }

    fn triples(filter: &TripleFilter<'a>) -> Versions<'a> {
        let fields = [(SUBJECT, filter.subject), (PREDICATE, filter.predicate), (OBJECT, filter.object)];
        let conditions = fields
            .into_iter()
            .filter_map(|(sql, value)| Some((sql, Box::new(value?) as Box<dyn ToSql + 'a>)))
            .collect();
        Versions { table: EntityType::Triple, at: filter.at.0, scopes: filter.scopes, conditions }
    }

    /// The SQL for a page of these rows, newest first, joined with their rows of the log.
    fn page_sql(&self, page: Range<u64>) -> String {
        const NEWEST_FIRST: &str = "ORDER BY tx_from DESC, seq DESC";
        let scopes: BTreeSet<ScopeId> = self.scopes.iter().copied().collect();
        let wanted = format!("LIMIT {} OFFSET {}", page.end - page.start, page.start);
        let is_merged = page.end <= MERGED_ROWS && (1..=MERGED_SCOPES).contains(&scopes.len());
        let rows = match self.index_of_scope().filter(|_| is_merged) {
            Some(index) => {
                let newest = |scope: &ScopeId| {
                    let rows = self.sql(&format!("scope = {}", scope.0), index);
                    format!("SELECT tx_from, seq FROM ({rows} {NEWEST_FIRST} LIMIT {})", page.end)
                };
                scopes.iter().map(newest).collect::<Vec<_>>().join(" UNION ALL ")
            }
            None => self.sql(&in_scopes(self.scopes), self.index_of_names()),
        };
        format!(
            "SELECT {LOG_COLUMNS} FROM (SELECT tx_from, seq FROM ({rows}) {NEWEST_FIRST} {wanted}) AS v
             JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq ORDER BY v.tx_from DESC, v.seq DESC"
        )
    }

    /// The index by the rarest given name. SQLite knows no statistics here, and would take the index by scope and predicate, in which
    /// one predicate may have most of the triples of a scope.
    fn index_of_names(&self) -> &'static str {
        let has = |condition: &str| self.conditions.iter().any(|(sql, _)| *sql == condition);
        match self.table {
            EntityType::Triple if has(SUBJECT) => "INDEXED BY triple_subject",
            EntityType::Triple if has(OBJECT) => "INDEXED BY triple_object",
            _ => "",
        }
    }

    /// The index that has the matching rows of one scope in the order of time. None if the rows are few in
    /// any case.
    fn index_of_scope(&self) -> Option<&'static str> {
        let conditions: Vec<&str> = self.conditions.iter().map(|(sql, _)| *sql).collect();
        match (self.table, conditions.as_slice()) {
            (EntityType::Entry, _) => Some("INDEXED BY entry_scope"),
            (EntityType::Triple, []) => Some("INDEXED BY triple_scope"),
            (EntityType::Triple, [PREDICATE]) => Some("INDEXED BY triple_predicate"),
            _ => None,
        }
    }

    fn sql(&self, in_scopes: &str, index: &str) -> String {
        let mut sql = format!(
            "SELECT tx_from, seq FROM {} {index} WHERE tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1) AND {in_scopes}",
            self.table,
        );
        for (number, (condition, _)) in (2..).zip(&self.conditions) {
            sql.push_str(" AND ");
            sql.push_str(&condition.replace('?', &format!("?{number}")));
        }
        sql
    }

    fn params(&self) -> Vec<&dyn ToSql> {
        let mut params: Vec<&dyn ToSql> = vec![&self.at];
        params.extend(self.conditions.iter().map(|(_, value)| &**value));
        params
    }
}

impl<C: Deref<Target = Connection>> Reader for Sql<C> {
    fn head(&self) -> Result<TxId, Error> {
        Ok(TxId(self.count("SELECT ifnull(max(tx_id), 0) FROM log", [])?))
    }

    fn store_id(&self) -> Result<StoreId, Error> {
        schema::meta(&self.0, "id").map(StoreId)
    }

    fn log_checksum(&self, tx: TxId) -> Result<Option<u32>, Error> {
        let sums = self.rows("SELECT crc FROM log WHERE tx_id = ?1 ORDER BY seq", params![tx.0], |row| {
            row.get::<_, i64>(0)
        })?;
        let sum = |sum: u32, row: &i64| crc32c::crc32c_append(sum, &row.to_le_bytes());
        Ok((!sums.is_empty()).then(|| sums.iter().fold(0, sum)))
    }

    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Stored>>, Error> {
        keys.iter().map(|key| self.version(*key)).collect()
    }

    fn touches(
        &self,
        entity_type: EntityType,
        id: Id,
        scopes: Option<&[ScopeId]>,
    ) -> Result<Vec<TxId>, Error> {
        let within = match scopes.filter(|_| entity_type.has_scope()) {
            Some(scopes) => format!("AND {}", in_scopes(scopes)),
            None => String::new(),
        };
        let sql = format!(
            "SELECT tx_from FROM {entity_type} WHERE id = ?1 {within}
             UNION SELECT tx_to FROM {entity_type} WHERE id = ?1 AND tx_to IS NOT NULL {within} ORDER BY 1"
        );
        self.rows(&sql, params![id.as_str()], |row| row.get(0).map(TxId))
    }

    fn live(&self, entity_type: EntityType, at: TxId) -> Result<Vec<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM {entity_type} AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.tx_from <= ?1 AND (v.tx_to IS NULL OR v.tx_to > ?1) ORDER BY v.tx_from, v.seq"
        );
        self.rows(&sql, params![at.0], log::read)?.iter().map(stored).collect()
    }

    fn document_kinds(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<DocumentKinds, Error> {
        let within = within(scopes);
        let has = |condition: &str| {
            let sql = format!(
                "SELECT EXISTS (SELECT 1 FROM document
                 WHERE {condition} AND {within} AND tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1))"
            );
            Ok(self.row(&sql, params![at.0], |row| row.get(0))?.unwrap_or(false))
        };
        Ok(DocumentKinds {
            plain: has("pattern IS NULL")?,
            patterns: has("pattern > ''")?,
            beside_patterns: has("pattern = ''")?,
        })
    }

    fn all_in(&self, entity_type: EntityType, scopes: &[ScopeId], at: TxId) -> Result<Vec<Stored>, Error> {
        let rows = Versions { table: entity_type, at: at.0, scopes, conditions: Vec::new() };
        self.page_of(&rows, 0..self.count_of(&rows)?)
    }

    fn page_in(
        &self,
        entity_type: EntityType,
        scopes: &[ScopeId],
        at: TxId,
        page: Range<u64>,
    ) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions { table: entity_type, at: at.0, scopes, conditions: Vec::new() }, page)
    }

    fn document_at(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Option<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM document AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.source = ?2 AND v.path = ?3 AND v.scope = ?4 AND v.tx_from <= ?1
             AND (v.tx_to IS NULL OR v.tx_to > ?1)"
        );
        let found = self.row(&sql, params![at.0, source, path, scope.0], log::read)?;
        found.map(|row| stored(&row)).transpose()
    }

    fn documents_below(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Vec<KnownDocument>, Error> {
        // A path is below another one if it begins with that path and a slash. No path sorts after the last
        // code point.
        let (from, to) = match path.trim_end_matches('/') {
            "" => (String::new(), "\u{10ffff}".to_owned()),
            path => (format!("{path}/"), format!("{path}/\u{10ffff}")),
        };
        let sql = "SELECT v.id, v.path, v.hash FROM document AS v
                   WHERE v.source = ?2 AND (v.path = ?3 OR (v.path >= ?4 AND v.path < ?5)) AND v.scope = ?6
                   AND v.tx_from <= ?1 AND (v.tx_to IS NULL OR v.tx_to > ?1) ORDER BY v.path";
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?));
        let found = self.rows(sql, params![at.0, source, path, from, to, scope.0], read)?;
        let known = |(id, path, hash): (String, String, String)| {
            let id = Id::parse(&id).ok_or_else(|| Error::damaged(format!("the id of document {path}")))?;
            Ok(KnownDocument { id, path, hash })
        };
        found.into_iter().map(known).collect()
    }

    fn document_sources(&self, scope: ScopeId, at: TxId) -> Result<Vec<DocumentSource>, Error> {
        // In a query with max(), SQLite takes the other columns from the row with the maximum.
        let sql = format!(
            "SELECT {LOG_COLUMNS}, v.documents FROM (
                 SELECT source, max(tx_from) AS tx_from, seq, sum(tx_to IS NULL OR tx_to > ?1) AS documents
                 FROM document WHERE scope = ?2 AND tx_from <= ?1 GROUP BY source
             ) AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq WHERE v.documents > 0 ORDER BY v.source"
        );
        let columns = LOG_COLUMNS.split(',').count();
        let read = |row: &Row<'_>| Ok((log::read(row)?, row.get(columns)?));
        let known = |(row, documents): (LogRow, u64)| match stored(&row)?.record {
            Record::Document(document) => Ok(DocumentSource {
                name: document.source,
                documents,
                root: document.root,
                default_tag: document.default_tag,
                kind: if document.catalogue { DocumentKind::Pattern } else { DocumentKind::Plain },
                changed_at: document.updated_at.unwrap_or(document.recorded_at),
            }),
            _ => Err(Error::damaged("a version of a document is something else in the log")),
        };
        self.rows(&sql, params![at.0, scope.0], read)?.into_iter().map(known).collect()
    }

    fn document_of(&self, section: Id, at: TxId) -> Result<Option<Id>, Error> {
        let sql = "SELECT document FROM section INDEXED BY section_id
                   WHERE id = ?1 AND tx_from <= ?2 AND (tx_to IS NULL OR tx_to > ?2)";
        let document = self.row(sql, params![section.as_str(), at.0], |row| row.get::<_, String>(0))?;
        let damaged = || Error::damaged(format!("the document of section {section}"));
        document.map(|id| Id::parse(&id).ok_or_else(damaged)).transpose()
    }

    fn sections_of(&self, document: Id, at: TxId) -> Result<Vec<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM section AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.document = ?1 AND v.tx_from <= ?2 AND (v.tx_to IS NULL OR v.tx_to > ?2) ORDER BY v.position"
        );
        self.rows(&sql, params![document.as_str(), at.0], log::read)?.iter().map(stored).collect()
    }

    fn scope_named(&self, name: &ScopeName, at: TxId) -> Result<Option<ScopeId>, Error> {
        if *name == ScopeName::global_default() {
            return Ok(Some(ScopeId::GLOBAL_DEFAULT));
        }
        let sql = "SELECT s.number FROM scope AS s WHERE s.name = ?1
                   AND s.tx_from <= ?3 AND (s.tx_to IS NULL OR s.tx_to > ?3) AND s.namespace =
                   ifnull(?4, (SELECT n.id FROM namespace AS n WHERE n.name = ?2
                               AND n.tx_from <= ?3 AND (n.tx_to IS NULL OR n.tx_to > ?3)))";
        let params = params![name.name, name.namespace, at.0, global_id(name)];
        self.row(sql, params, |row| row.get(0).map(ScopeId))
    }

    fn scope_once_named(&self, name: &ScopeName) -> Result<Option<(ScopeId, TxId)>, Error> {
        // Both names held from the later start to the earlier end, and a name has one owner at a time.
        let sql =
            "SELECT s.number, (SELECT max(ifnull(v.tx_to, v.tx_from)) FROM scope AS v WHERE v.number = s.number)
                   FROM scope AS s LEFT JOIN namespace AS n ON n.id = s.namespace
                   WHERE s.name = ?1 AND (n.name = ?2 OR s.namespace = ?3)
                   AND ifnull(n.tx_from, 0) < ifnull(s.tx_to, ?4) AND s.tx_from < ifnull(n.tx_to, ?4)
                   ORDER BY min(ifnull(s.tx_to, ?4), ifnull(n.tx_to, ?4)) DESC LIMIT 1";
        let params = params![name.name, name.namespace, global_id(name), i64::MAX];
        self.row(sql, params, |row| Ok((ScopeId(row.get(0)?), TxId(row.get(1)?))))
    }

    fn scope_id(&self, scope: ScopeId) -> Result<Option<Id>, Error> {
        let id = self.row("SELECT id FROM scope WHERE number = ?1 LIMIT 1", params![scope.0], |row| {
            row.get::<_, String>(0)
        })?;
        Ok(id.and_then(|id| Id::parse(&id)))
    }

    fn namespace_once_named(&self, name: &str) -> Result<Option<Id>, Error> {
        let sql = "SELECT id FROM namespace WHERE name = ?1 ORDER BY ifnull(tx_to, ?2) DESC LIMIT 1";
        let id = self.row(sql, params![name, i64::MAX], |row| row.get::<_, String>(0))?;
        Ok(id.and_then(|id| Id::parse(&id)))
    }

    fn namespace_deleted_by(&self, name: &str) -> Result<Option<TxId>, Error> {
        let sql = "SELECT max(n.tx_to) FROM namespace AS n WHERE n.name = ?1
                   AND NOT EXISTS (SELECT 1 FROM namespace AS v WHERE v.id = n.id AND v.tx_to IS NULL)";
        let by = self.row(sql, params![name], |row| row.get::<_, Option<u64>>(0))?;
        Ok(by.flatten().map(TxId))
    }

    fn scope_names(&self, scopes: &[ScopeId], at: TxId) -> Result<ScopeNames, Error> {
        let sql = "SELECT (SELECT n.name FROM namespace AS n WHERE n.id = s.namespace AND n.tx_from <= ?2
                           ORDER BY n.tx_from DESC LIMIT 1), s.name
                   FROM scope AS s WHERE s.number = ?1 AND s.tx_from <= ?2 ORDER BY s.tx_from DESC LIMIT 1";
        let mut names = ScopeNames::default();
        for scope in scopes {
            if *scope == ScopeId::GLOBAL_DEFAULT || names.0.contains_key(scope) {
                continue;
            }
            let name = self.row(sql, params![scope.0, at.0], |row| {
                // A namespace without a row is the built-in one.
                let namespace: Option<String> = row.get(0)?;
                let name: String = row.get(1)?;
                Ok(ScopeName::new(namespace.as_deref().unwrap_or(GLOBAL), &name))
            })?;
            names.0.extend(name.map(|name| (*scope, name)));
        }
        Ok(names)
    }

    fn closure(&self, scope: ScopeId, at: TxId) -> Result<Vec<ScopeId>, Error> {
        if scope == ScopeId::GLOBAL_DEFAULT {
            return Ok(vec![scope]);
        }
        let sql =
            "SELECT sees FROM closure WHERE scope = ?1 AND tx_from <= ?2 AND (tx_to IS NULL OR tx_to > ?2)";
        let sees = self.row(sql, params![scope.0, at.0], |row| row.get::<_, String>(0))?;
        sees.map_or(Ok(Vec::new()), |sees| parted(&sees))
    }

    fn scopes_ever(&self, namespaces: &[Id]) -> Result<Vec<(ScopeId, Id)>, Error> {
        let sql = "SELECT DISTINCT number FROM scope WHERE namespace = ?1";
        let mut scopes = Vec::new();
        for namespace in namespaces {
            let numbers = self.rows(sql, params![namespace.as_str()], |row| row.get(0).map(ScopeId))?;
            scopes.extend(numbers.into_iter().map(|number| (number, *namespace)));
        }
        Ok(scopes)
    }

    fn next_scope(&self) -> Result<ScopeId, Error> {
        let built_in = ScopeId::GLOBAL_DEFAULT.0;
        let newest = self.row("SELECT max(number) FROM scope", [], |row| row.get::<_, Option<u32>>(0))?;
        Ok(ScopeId(newest.flatten().unwrap_or(built_in) + 1))
    }

    fn entries(&self, filter: &EntryFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::entries(filter), page)
    }

    fn pinned(&self, filter: &EntryFilter<'_>, limit: usize) -> Result<Vec<Stored>, Error> {
        // One scope at a time, as the index is ordered. The hint keeps the planner from using the key to get
        // the order.
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM (
                 SELECT tx_from, seq FROM entry INDEXED BY entry_pinned
                 WHERE pinned = 1 AND scope = ?2 AND tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1)
                 AND (?3 IS NULL OR (suppressed = 0 AND ifnull(valid_from, 0) <= ?3 AND (valid_to IS NULL OR valid_to > ?3)))
                 ORDER BY tx_from DESC, seq DESC LIMIT ?4
             ) AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq ORDER BY v.tx_from DESC, v.seq DESC"
        );
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        let mut pinned = Vec::new();
        for scope in filter.scopes {
            let left = limit - pinned.len();
            if left == 0 {
                break;
            }
            for row in self.rows(&sql, params![filter.at.0, scope.0, now, left], log::read)? {
                pinned.push(stored(&row)?);
            }
        }
        Ok(pinned)
    }

    fn count_entries(&self, filter: &EntryFilter<'_>) -> Result<u64, Error> {
        let mut many = 0;
        for scope in filter.scopes.iter().copied().collect::<BTreeSet<_>>() {
            let tally = |shown| self.tally(Counter::Entries { scope, shown }.key(), filter.at);
            many += tally(Shown::Always)?;
            let at_times = tally(Shown::AtTimes)?;
            many += match filter.visible_at.map(Timestamp::as_millisecond) {
                None => at_times + tally(Shown::Never)?,
                Some(_) if at_times == 0 => 0,
                Some(now) => self.count(SHOWN_AT_TIMES, params![scope.0, filter.at.0, now])?,
            };
        }
        Ok(many)
    }

    fn live_entries(&self, scopes: &[ScopeId]) -> Result<u64, Error> {
        self.count_entries(&EntryFilter { scopes, at: self.head()?, visible_at: None })
    }

    fn count_by_scope(&self, entity_type: EntityType, at: TxId) -> Result<BTreeMap<ScopeId, u64>, Error> {
        let what = match entity_type {
            EntityType::Entry => Some(Counter::ENTRIES),
            EntityType::Triple => Some(Counter::TRIPLES),
            _ => None,
        };
        if let Some(what) = what {
            let mut counts = BTreeMap::new();
            for counter in self.counters(what, "", None)? {
                *counts.entry(counter.scope).or_default() += self.tally(counter, at)?;
            }
            counts.retain(|_, many| *many > 0);
            return Ok(counts);
        }
        let sql = format!(
            "SELECT scope, count(*) FROM {entity_type}
             WHERE tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1) GROUP BY scope"
        );
        let counts = self.rows(&sql, params![at.0], |row| Ok((ScopeId(row.get(0)?), row.get(1)?)))?;
        Ok(counts.into_iter().collect())
    }

    fn topics(&self, filter: &EntryFilter<'_>, prefix: &str, limit: usize) -> Result<Vec<String>, Error> {
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        // No topic key with the prefix sorts after the prefix followed by the last code point.
        let end = format!("{prefix}\u{10ffff}");
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM (
                 SELECT topic_key, max(tx_from) AS tx_from, seq FROM entry
                 WHERE tx_to IS NULL AND topic_key <> '' AND {}
                 AND topic_key >= ?1 AND topic_key < ?2 AND (?3 IS NULL OR (suppressed = 0
                 AND ifnull(valid_from, 0) <= ?3 AND (valid_to IS NULL OR valid_to > ?3)))
                 GROUP BY topic_key ORDER BY topic_key LIMIT {limit}
             ) AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq ORDER BY v.topic_key",
            in_scopes(filter.scopes)
        );
        let mut topics = Vec::new();
        for row in self.rows(&sql, params![prefix, end, now], log::read)? {
            if let Record::Entry(entry) = stored(&row)?.record {
                topics.push(entry.topic);
            }
        }
        Ok(topics)
    }

    fn triples(&self, filter: &TripleFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::triples(filter), page)
    }

    fn has_triples(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<bool, Error> {
        let scopes = scopes.map(|scopes| scopes.iter().copied().collect());
        for counter in self.counters(Counter::TRIPLES, "", scopes.as_ref())? {
            if self.tally(counter, at)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn triple_names(&self, scopes: &[ScopeId], at: TxId, limit: usize) -> Result<Vec<[String; 2]>, Error> {
        let sql = format!(
            "SELECT subject_key, object_key FROM triple WHERE tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1)
             AND {} ORDER BY tx_from DESC, seq DESC LIMIT ?2",
            in_scopes(scopes)
        );
        self.rows(&sql, params![at.0, limit], |row| Ok([row.get(0)?, row.get(1)?]))
    }

    fn count_triples(&self, filter: &TripleFilter<'_>) -> Result<u64, Error> {
        if filter.subject.is_some() || filter.object.is_some() {
            return self.count_of(&Versions::triples(filter));
        }
        let mut many = 0;
        for scope in filter.scopes.iter().copied().collect::<BTreeSet<_>>() {
            let counter = match filter.predicate {
                Some(predicate) => Counter::TriplesOf { scope, predicate: predicate.into() },
                None => Counter::Triples { scope },
            };
            many += self.tally(counter.key(), filter.at)?;
        }
        Ok(many)
    }

    fn changes(
        &self,
        entity_types: &[EntityType],
        from: Position,
        end: TxId,
        limit: usize,
    ) -> Result<LogPage, Error> {
        let kinds: Vec<String> = entity_types.iter().map(|of| kind_of(*of).to_string()).collect();
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM log WHERE (tx_id, seq) >= (?1, max(?2, 1)) AND tx_id < ?3 AND seq > 0
             AND kind IN ({}) ORDER BY tx_id, seq",
            kinds.join(", ")
        );
        let mut statement = self.0.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params![from.tx.0, from.seq, end.0]).map_err(failed)?;
        let mut page = LogPage { changes: Vec::new(), next: None };
        let mut bytes = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            let row = log::read(row).map_err(failed)?;
            if page.changes.len() >= limit.max(1) || bytes >= LOG_PAGE_BYTES {
                page.next = Some(Position { tx: TxId(row.tx_id), seq: row.seq });
                break;
            }
            bytes += row.body.as_ref().map_or(0, String::len);
            page.changes.push(LogChange {
                tx: TxId(row.tx_id),
                entity_type: row.entity_type()?,
                id: row.id()?,
                after: row.record()?,
            });
        }
        Ok(page)
    }

    fn log_rows(&self, ids: &[TxId], rows_max: usize) -> Result<Vec<Vec<LogRow>>, Error> {
        let sql = format!("SELECT {LOG_COLUMNS} FROM log WHERE tx_id = ?1 ORDER BY seq LIMIT ?2");
        let rows_max = rows_max.min(i64::MAX as usize);
        ids.iter().map(|id| self.rows(&sql, params![id.0, rows_max], log::read)).collect()
    }

    fn undo_edges(&self, targets: &[TxId]) -> Result<Vec<(TxId, TxId)>, Error> {
        let sql = "WITH RECURSIVE edge(target, by_tx) AS (
                       SELECT target, by_tx FROM undo WHERE target = ?1
                       UNION SELECT undo.target, undo.by_tx FROM undo JOIN edge ON undo.target = edge.by_tx
                   ) SELECT target, by_tx FROM edge";
        let mut edges = Vec::new();
        for target in targets {
            edges
                .extend(self.rows(sql, params![target.0], |row| Ok((TxId(row.get(0)?), TxId(row.get(1)?))))?);
        }
        Ok(edges)
    }

    fn transactions_with(&self, touched: &Touched<'_>, page: Range<u64>) -> Result<Vec<TxId>, Error> {
        let range = &touched.range;
        if let Some(counters) = self.counters_of(touched)? {
            let mut newest: BTreeSet<TxId> = self.uncounted(touched, page.end)?.into_iter().collect();
            for CounterKey { what, name, scope, kinds } in counters {
                let params = params![what, name, scope.0, kinds, range.start.0, range.end.0, page.end];
                newest.extend(self.rows(COUNTED, params, |row| row.get(0).map(TxId))?);
            }
            let page = page.start as usize..page.end as usize;
            return Ok(newest.into_iter().rev().skip(page.start).take(page.len()).collect());
        }
        let sql = format!("SELECT DISTINCT {} ORDER BY tx_id DESC LIMIT ?4 OFFSET ?5", touched_sql(touched));
        let params = params![range.start.0, range.end.0, touched.own, page.end - page.start, page.start];
        self.rows(&sql, params, |row| row.get(0).map(TxId))
    }

    fn count_transactions_with(&self, touched: &Touched<'_>) -> Result<u64, Error> {
        if let Some(counters) = self.counters_of(touched)? {
            let before = |tx: TxId| TxId(tx.0.saturating_sub(1));
            let mut many = self.uncounted(touched, i64::MAX as u64)?.len() as u64;
            for counter in counters {
                let until = self.tally(counter, before(touched.range.end))?;
                many += until.saturating_sub(self.tally(counter, before(touched.range.start))?);
            }
            return Ok(many);
        }
        let sql = format!("SELECT count(*) FROM (SELECT DISTINCT {})", touched_sql(touched));
        self.count(&sql, params![touched.range.start.0, touched.range.end.0, touched.own])
    }

    fn newest_of(&self, origin: &str, before: TxId) -> Result<Option<TxId>, Error> {
        // This walks backwards without an index: an index would cost every write a page, and a session's own
        // transactions are seldom far back.
        let sql =
            "SELECT tx_id FROM log WHERE seq = 0 AND id = ?1 AND tx_id < ?2 ORDER BY tx_id DESC LIMIT 1";
        self.row(sql, params![origin, before.0], |row| row.get(0).map(TxId))
    }

    fn is_taken(&self, id: Id) -> Result<bool, Error> {
        let tables = EntityType::ALL.map(|table| format!("EXISTS (SELECT 1 FROM {table} WHERE id = ?1)"));
        let sql = format!("SELECT {}", tables.join(" OR "));
        Ok(self.row(&sql, params![id.as_str()], |row| row.get(0))?.unwrap_or(false))
    }

    fn recall(&self, actor: &str, key: &str) -> Result<Option<Remembered>, Error> {
        let sql =
            "SELECT actor, key, tool, digest, reply, at, crc FROM remembered WHERE actor = ?1 AND key = ?2";
        let found = self.row(sql, params![actor, key], |row| {
            let (sum, crc) = remembered_checksums(row)?;
            Ok((sum == crc, row.get(2)?, row.get(3)?, row.get(4)?, row.get::<_, i64>(5)?))
        })?;
        let Some((sound, tool, digest, reply, at)) = found else { return Ok(None) };
        let damaged = || Error::damaged("a remembered idempotency key does not match its checksum");
        if !sound {
            return Err(damaged());
        }
        let at = Timestamp::from_millisecond(at).map_err(|_| damaged())?;
        Ok(Some(Remembered { tool, digest, reply, at }))
    }

    fn kept_keys(&self, after: Option<(&str, &str)>, limit: usize) -> Result<Vec<KeptKey>, Error> {
        let (owner, key) = after.unwrap_or_default();
        let sql = "SELECT actor, key, tool, digest, reply, at, crc FROM remembered
                   WHERE (?4 OR (actor, key) > (?1, ?2)) ORDER BY actor, key LIMIT ?3";
        let found = self.rows(sql, params![owner, key, limit, after.is_none()], |row| {
            let (sum, crc) = remembered_checksums(row)?;
            let texts = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            Ok((sum == crc, texts, row.get::<_, i64>(5)?))
        })?;
        let kept = |(sound, [owner, key, tool, digest, reply], at): (bool, [String; 5], i64)| {
            let at = Timestamp::from_millisecond(at).ok().filter(|_| sound);
            let at =
                at.ok_or_else(|| Error::damaged("a remembered idempotency key does not match its checksum"))?;
            Ok(KeptKey { owner, key, value: Remembered { tool, digest, reply, at } })
        };
        found.into_iter().map(kept).collect()
    }

    fn oldest_key(&self) -> Result<Option<Timestamp>, Error> {
        let oldest = self.row("SELECT min(at) FROM remembered", [], |row| row.get::<_, Option<i64>>(0))?;
        let damaged = |_| Error::damaged("an idempotency key has no time");
        oldest.flatten().map(Timestamp::from_millisecond).transpose().map_err(damaged)
    }
}

/// Like `in_scopes`, but without scopes the condition is always true.
fn within(scopes: Option<&[ScopeId]>) -> String {
    scopes.map_or_else(|| "1".to_owned(), in_scopes)
}

fn in_scopes(scopes: &[ScopeId]) -> String {
    let numbers: Vec<String> = scopes.iter().map(|scope| scope.0.to_string()).collect();
    format!("scope IN ({})", numbers.join(", "))
}

/// The kinds of rows of the log that match the question.
fn kinds_of(touched: &Touched<'_>) -> Vec<i64> {
    match touched.entity_type {
        Some(entity_type) => vec![kind_of(entity_type)],
        None => EntityType::ALL.into_iter().map(kind_of).chain([HEADER]).collect(),
    }
}

fn in_kinds(touched: &Touched<'_>) -> String {
    let kinds: Vec<String> = kinds_of(touched).iter().map(i64::to_string).collect();
    format!("kind IN ({})", kinds.join(", "))
}

/// The newest matching transactions that concern several scopes, at most ?4.
fn spread_sql(touched: &Touched<'_>) -> String {
    let sql = touched_sql(touched).replace("FROM touched", "FROM touched INDEXED BY touched_spread");
    format!("SELECT DISTINCT {sql} AND spread = 1 ORDER BY tx_id DESC LIMIT ?4")
}

/// The transactions from ?1 to ?2 that touched what the question asks for, and those of origin ?3.
fn touched_sql(touched: &Touched<'_>) -> String {
    let mut sql = format!("tx_id FROM touched WHERE {}", in_kinds(touched));
    let condition = match (touched.reach.scopes(), touched.scopes) {
        // Every form of the statement must contain the parameter.
        (None, None) => "(1 OR origin = ?3)".to_owned(),
        (None, Some(scopes)) => {
            let scopes: Vec<ScopeId> = [NO_SCOPE].iter().chain(scopes).copied().collect();
            format!("({} OR origin = ?3)", in_scopes(&scopes))
        }
        (Some(reach), asked) => {
            let asked = touched.reach.within(asked.unwrap_or(&reach).to_vec());
            format!(
                "({} OR (origin = ?3 AND {}) OR (scope = {} AND tx_id IN ({})))",
                in_scopes(&asked),
                in_scopes(&reach),
                NO_SCOPE.0,
                changes_of_namespaces(&touched.reach.namespaces().unwrap_or_default())
            )
        }
    };
    sql.push_str(&format!(" AND {condition}"));
    sql.push_str(" AND tx_id >= ?1 AND tx_id < ?2");
    sql
}

/// The transactions that changed these namespaces or their scopes.
fn changes_of_namespaces(namespaces: &[Id]) -> String {
    let ids: Vec<String> = namespaces.iter().map(|id| format!("'{id}'")).collect();
    let ids = ids.join(", ");
    format!(
        "SELECT tx_from FROM namespace WHERE id IN ({ids}) UNION SELECT tx_to FROM namespace WHERE id IN ({ids})
         UNION SELECT tx_from FROM scope WHERE namespace IN ({ids})
         UNION SELECT tx_to FROM scope WHERE namespace IN ({ids})"
    )
}

/// The id of the built-in namespace, which scopes of `global` refer to and which has no row.
fn global_id(name: &ScopeName) -> Option<&'static str> {
    const GLOBAL_ID: Id = Namespace::GLOBAL_ID;
    (name.namespace == GLOBAL).then_some(GLOBAL_ID.as_str())
}

fn stored(row: &LogRow) -> Result<Stored, Error> {
    let id = row.id()?;
    let record = row
        .record()?
        .ok_or_else(|| Error::damaged(format!("`{id}` is live in a transaction that deleted it")))?;
    Ok(Stored { id, tx_id: TxId(row.tx_id), record })
}

/// Counts the steps of SQLite's virtual machine, which do not depend on the load of the computer.
#[cfg(test)]
mod steps {
    use std::cell::Cell;

    use rusqlite::{Statement, StatementStatus};

    thread_local! {
        static TAKEN: Cell<i64> = const { Cell::new(0) };
    }

    pub(super) fn taken_by(statement: &Statement<'_>) {
        let taken = statement.reset_status(StatementStatus::VmStep);
        TAKEN.set(TAKEN.get() + i64::from(taken));
    }

    /// The steps of all queries that `ask` runs on this thread.
    pub(super) fn of(ask: impl FnOnce()) -> i64 {
        TAKEN.set(0);
        ask();
        TAKEN.get()
    }
}

#[cfg(test)]
mod tests {
    use kenning_model::{Change, Transaction};
    use serde_json::json;

    use super::*;
    use crate::Reach;
    use crate::backend::Backend;
    use crate::embedded::Embedded;

    const HERE: ScopeId = ScopeId(1);
    /// A scope with little content in a store of any size.
    const RARE: ScopeId = ScopeId(2);
    const PAGE: Range<u64> = 0..20;

    fn change(number: u64, entity_type: EntityType, body: serde_json::Value) -> Change {
        let record = match entity_type {
            EntityType::Triple => Record::Triple(serde_json::from_value(body).expect("a triple")),
            _ => Record::Entry(serde_json::from_value(body).expect("an entry")),
        };
        Change {
            entity_type,
            id: Id::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            before: None,
            after: Some(record),
        }
    }

    /// A store with `many` entries and `many` triples, each in a transaction of its own. The first ten are in
    /// the rare scope.
    fn filled(dir: &std::path::Path, many: u64) -> Embedded {
        let store = Embedded::open(dir).expect("a store");
        let mut pending = store.begin().expect("a write begins");
        let time = "2026-01-01T00:00:00Z";
        for number in 1..=2 * many {
            let scope = if number <= 10 { RARE.0 } else { HERE.0 };
            let change = match number % 2 {
                0 => change(
                    number,
                    EntityType::Entry,
                    json!({
                        "scope": scope, "content": "text", "actor": "a", "version": 1, "recorded_at": time,
                    }),
                ),
                _ => change(
                    number,
                    EntityType::Triple,
                    json!({
                        "scope": scope, "subject": format!("s{number}"), "predicate": "is", "object": "o",
                        "actor": "a", "version": 1, "recorded_at": time,
                    }),
                ),
            };
            let tx = Transaction {
                id: TxId(number),
                at: time.parse().expect("a time"),
                actor: "a".to_owned(),
                origin: "here".to_owned(),
                tool: "test".to_owned(),
                undoes: Vec::new(),
                undone_by: None,
                changes: vec![change],
                left_out: 0,
            };
            pending.append(&tx).expect("it is appended");
        }
        pending.commit().expect("it is committed");
        store
    }

    /// The steps of each question in a store of this size.
    fn steps_of_questions(many: u64) -> Vec<(String, i64)> {
        let dir = tempfile::tempdir().expect("a directory");
        let store = filled(dir.path(), many);
        let reader = Sql(store.pooled().expect("a connection"));
        let mut taken = Vec::new();
        let mut ask = |what: &str, ask: &mut dyn FnMut()| {
            ask();
            taken.push((what.to_owned(), steps::of(ask)));
        };
        for (where_, scopes) in
            [("here", vec![HERE]), ("where little is", vec![RARE]), ("in both", vec![HERE, RARE])]
        {
            for back in [0, many / 2] {
                let at = TxId(2 * many - back);
                let visible_at = Some("2026-02-01T00:00:00Z".parse().expect("a time"));
                let entries = EntryFilter { scopes: &scopes, at, visible_at };
                let of =
                    |predicate| TripleFilter { scopes: &scopes, at, subject: None, predicate, object: None };
                let touched = |own| Touched {
                    reach: &Reach::Everything,
                    entity_type: None,
                    scopes: Some(&scopes),
                    own,
                    range: TxId(1)..at.next(),
                };
                let mut ask = |what: &str, asked: &mut dyn FnMut()| {
                    ask(&format!("{what} {where_}, {back} back"), asked)
                };
                ask("entries", &mut || drop(reader.entries(&entries, PAGE).expect("a page")));
                ask("count of entries", &mut || {
                    let expected = if scopes == [RARE] { 5 } else { 1 };
                    assert!(reader.count_entries(&entries).expect("a count") >= expected);
                });
                ask("triples", &mut || drop(reader.triples(&of(None), PAGE).expect("a page")));
                ask("triples by predicate", &mut || {
                    drop(reader.triples(&of(Some("is")), PAGE).expect("a page"))
                });
                ask("count of triples", &mut || {
                    assert!(reader.count_triples(&of(Some("is"))).expect("a count") > 0)
                });
                // What `relate` asks before it writes.
                let siblings = TripleFilter {
                    scopes: &scopes,
                    at,
                    subject: Some("s11"),
                    predicate: Some("is"),
                    object: None,
                };
                ask("triples by subject and predicate", &mut || {
                    drop(reader.triples(&siblings, PAGE).expect("a page"))
                });
                ask("count of triples by subject and predicate", &mut || {
                    assert!(reader.count_triples(&siblings).expect("a count") <= 1)
                });
                for own in [None, Some("here")] {
                    ask("history", &mut || {
                        drop(reader.transactions_with(&touched(own), PAGE).expect("a page"));
                    });
                    ask("count of the history", &mut || {
                        assert!(reader.count_transactions_with(&touched(own)).expect("a count") > 0);
                    });
                }
            }
        }
        taken
    }

    #[test]
    fn a_page_and_a_count_cost_the_same_in_a_store_of_any_size() {
        let (small, large) = (steps_of_questions(100), steps_of_questions(800));
        for ((what, small), (_, large)) in small.into_iter().zip(large) {
            assert!(large <= small * 3 / 2 + 100, "{what}: {large} steps, {small} in a small store");
        }
    }
}
