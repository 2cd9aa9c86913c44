//! The questions of `Reader` in SQL.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};

use kenning_model::{
    Change, EntityType, GLOBAL, Id, Namespace, Record, ScopeId, ScopeName, ScopeNames, Timestamp,
    Transaction, TxId, Version,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params};

use super::derive::{NO_SCOPE, parted};
use super::log::{HEADER, LogRow, entity_type_of, kind_of, remembered_checksum};
use super::{failed, schema};
use crate::Error;
use crate::backend::{
    At, DocumentKind, DocumentKinds, DocumentSource, EntryFilter, KnownDocument, LOG_PAGE_BYTES, LogChange,
    LogPage, Position, Reader, RecordKey, Remembered, StoreId, Stored, Touched, TripleFilter, View,
};

/// So many rows are read for each change that is to be shown, in case most of them are not.
const LOOKED_AT: usize = 50;

/// Queries over a connection, whoever holds it.
pub(super) struct Sql<C>(pub C);

pub(super) const LOG_COLUMNS: &str = "log.tx_id, log.seq, log.kind, log.id, log.body, log.crc";

impl<C: Deref<Target = Connection>> Sql<C> {
    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self.0.prepare_cached(sql).map_err(failed)?;
        statement.query_map(params, read).and_then(Iterator::collect).map_err(failed)
    }

    fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Error> {
        let mut statement = self.0.prepare_cached(sql).map_err(failed)?;
        statement.query_row(params, read).optional().map_err(failed)
    }

    fn count(&self, sql: &str, params: impl Params) -> Result<u64, Error> {
        Ok(self.row(sql, params, |row| row.get(0))?.unwrap_or(0))
    }

    /// The version that a key names, read from the log.
    fn version(&self, RecordKey { entity_type, id, at }: RecordKey) -> Result<Option<Stored>, Error> {
        let (condition, at) = match at {
            At::Live(at) => ("v.tx_from <= ?2 AND (v.tx_to IS NULL OR v.tx_to > ?2)", at),
            At::Newest => ("v.tx_from > ?2", TxId::EMPTY),
            At::ClosedBy(at) => ("v.tx_to = ?2", at),
        };
        // Without the hint the planner walks the whole key backwards for the sake of the order.
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM {entity_type} AS v INDEXED BY {entity_type}_id
             JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq
             WHERE v.id = ?1 AND {condition} ORDER BY v.tx_from DESC LIMIT 1"
        );
        self.row(&sql, params![id.as_str(), at.0], LogRow::read)?.map(|row| stored(&row)).transpose()
    }

    fn page_of(&self, rows: &Versions<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM ({} ORDER BY tx_from DESC, seq DESC LIMIT {} OFFSET {}) AS v
             JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq ORDER BY v.tx_from DESC, v.seq DESC",
            rows.sql(),
            page.end - page.start,
            page.start,
        );
        self.rows(&sql, rows.params().as_slice(), LogRow::read)?.iter().map(stored).collect()
    }

    fn count_of(&self, rows: &Versions<'_>) -> Result<u64, Error> {
        self.count(&format!("SELECT count(*) FROM ({})", rows.sql()), rows.params().as_slice())
    }
}

/// The versions of a table that were live at a transaction and fit the filter.
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
        let fields = [
            ("subject_key = ?", filter.subject),
            ("predicate_key = ?", filter.predicate),
            ("object_key = ?", filter.object),
        ];
        let conditions = fields
            .into_iter()
            .filter_map(|(sql, value)| Some((sql, Box::new(value?) as Box<dyn ToSql + 'a>)))
            .collect();
        Versions { table: EntityType::Triple, at: filter.at.0, scopes: filter.scopes, conditions }
    }

    fn sql(&self) -> String {
        let mut sql = format!(
            "SELECT tx_from, seq FROM {} WHERE tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1) AND {}",
            self.table,
            in_scopes(self.scopes)
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
        self.rows(&sql, params![at.0], LogRow::read)?.iter().map(stored).collect()
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
        let found = self.row(&sql, params![at.0, source, path, scope.0], LogRow::read)?;
        found.map(|row| stored(&row)).transpose()
    }

    fn documents_below(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Vec<KnownDocument>, Error> {
        // A path is below another if that one is all of it up to a slash; no path sorts after the last code point.
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
        // Beside a maximum, SQLite takes the other columns from the row that has it.
        let sql = format!(
            "SELECT {LOG_COLUMNS}, v.documents FROM (
                 SELECT source, max(tx_from) AS tx_from, seq, sum(tx_to IS NULL OR tx_to > ?1) AS documents
                 FROM document WHERE scope = ?2 AND tx_from <= ?1 GROUP BY source
             ) AS v JOIN log ON log.tx_id = v.tx_from AND log.seq = v.seq WHERE v.documents > 0 ORDER BY v.source"
        );
        let columns = LOG_COLUMNS.split(',').count();
        let read = |row: &Row<'_>| Ok((LogRow::read(row)?, row.get(columns)?));
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
        self.rows(&sql, params![document.as_str(), at.0], LogRow::read)?.iter().map(stored).collect()
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
        // Both names were there from the later start to the earlier end, and a name has one owner at a time.
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
                // A namespace that has no row is the built-in one.
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
        // A scope at a time, since the index has them so. The planner must not prefer the key for the sake of the order.
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
            for row in self.rows(&sql, params![filter.at.0, scope.0, now, left], LogRow::read)? {
                pinned.push(stored(&row)?);
            }
        }
        Ok(pinned)
    }

    fn count_entries(&self, filter: &EntryFilter<'_>) -> Result<u64, Error> {
        self.count_of(&Versions::entries(filter))
    }

    fn count_by_scope(&self, entity_type: EntityType, at: TxId) -> Result<BTreeMap<ScopeId, u64>, Error> {
        let sql = format!(
            "SELECT scope, count(*) FROM {entity_type}
             WHERE tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1) GROUP BY scope"
        );
        let counts = self.rows(&sql, params![at.0], |row| Ok((ScopeId(row.get(0)?), row.get(1)?)))?;
        Ok(counts.into_iter().collect())
    }

    fn topics(&self, filter: &EntryFilter<'_>, prefix: &str, limit: usize) -> Result<Vec<String>, Error> {
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        // No topic key sorts after the prefix followed by the last code point.
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
        for row in self.rows(&sql, params![prefix, end, now], LogRow::read)? {
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
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM triple WHERE {} AND tx_from <= ?1 AND (tx_to IS NULL OR tx_to > ?1))",
            within(scopes)
        );
        Ok(self.row(&sql, params![at.0], |row| row.get(0))?.unwrap_or(false))
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
        self.count_of(&Versions::triples(filter))
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
            let row = LogRow::read(row).map_err(failed)?;
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

    fn transaction(&self, id: TxId, at: TxId, view: View<'_>) -> Result<Option<Transaction>, Error> {
        if id > at {
            return Ok(None);
        }
        // The header, and so many changes: what is not shown is looked at only so far, since a transaction may have
        // changed all there is. Whoever may not see everything is not told how much there is that they can't see, so for
        // them every change is looked at.
        let is_counted = !view.reach.is_everything() && view.changes_max > 0;
        let rows_max = match is_counted {
            true => i64::MAX as usize,
            false => view.changes_max.saturating_mul(LOOKED_AT).saturating_add(1).min(i64::MAX as usize),
        };
        let sql = format!("SELECT {LOG_COLUMNS} FROM log WHERE tx_id = ?1 ORDER BY seq LIMIT ?2");
        let rows = self.rows(&sql, params![id.0, rows_max], LogRow::read)?;
        let Some((first, rest)) = rows.split_first() else { return Ok(None) };
        let header = first.header()?;
        let mut changes = Vec::with_capacity(rest.len().min(view.changes_max));
        let is_own = view.own == Some(first.id.as_str());
        let is_asked_for =
            |record: &Record| is_own || view.scopes.is_none_or(|scopes| record.is_seen_from(scopes));
        let mut not_shown = 0;
        for row in rest {
            if changes.len() == view.changes_max && !is_counted {
                break;
            }
            let entity_type = entity_type_of(row.kind)
                .ok_or_else(|| Error::damaged(format!("transaction {id} has a change of no known type")))?;
            let entity = row.id()?;
            let is_seen = |record: &Record| is_asked_for(record) && view.reach.sees(entity, record);
            let closed = self.version(RecordKey { entity_type, id: entity, at: At::ClosedBy(id) })?;
            let before = closed.map(Version::from).filter(|closed| is_seen(&closed.record));
            let after = row.record()?.filter(is_seen);
            // Of whole transactions nothing is left out, whatever a damaged table says.
            let is_whole = view.reach.is_everything() && (is_own || view.scopes.is_none());
            if !is_whole && before.is_none() && after.is_none() {
                continue;
            }
            match changes.len() < view.changes_max {
                true => changes.push(Change { entity_type, id: entity, before, after }),
                false => not_shown += 1,
            }
        }
        Ok(Some(Transaction {
            id,
            at: header.at,
            actor: header.actor,
            origin: first.id.clone(),
            tool: header.tool,
            undoes: header.undoes,
            undone_by: self.undone_by(id, at)?,
            left_out: match is_counted {
                true => not_shown,
                false => (header.changes as usize).saturating_sub(changes.len()),
            },
            changes,
        }))
    }

    fn transactions_with(&self, touched: &Touched<'_>, page: Range<u64>) -> Result<Vec<TxId>, Error> {
        let sql = format!("SELECT DISTINCT {} ORDER BY tx_id DESC LIMIT ?4 OFFSET ?5", touched_sql(touched));
        let range = &touched.range;
        let params = params![range.start.0, range.end.0, touched.own, page.end - page.start, page.start];
        self.rows(&sql, params, |row| row.get(0).map(TxId))
    }

    fn count_transactions_with(&self, touched: &Touched<'_>) -> Result<u64, Error> {
        let sql = format!("SELECT count(*) FROM (SELECT DISTINCT {})", touched_sql(touched));
        self.count(&sql, params![touched.range.start.0, touched.range.end.0, touched.own])
    }

    fn newest_of(&self, origin: &str, before: TxId) -> Result<Option<TxId>, Error> {
        // A walk backwards: an index would cost every write a page, and own transactions are seldom far back.
        let sql =
            "SELECT tx_id FROM log WHERE seq = 0 AND id = ?1 AND tx_id < ?2 ORDER BY tx_id DESC LIMIT 1";
        self.row(sql, params![origin, before.0], |row| row.get(0).map(TxId))
    }

    fn is_taken(&self, id: Id) -> Result<bool, Error> {
        let tables = EntityType::ALL.map(|table| format!("EXISTS (SELECT 1 FROM {table} WHERE id = ?1)"));
        let sql = format!("SELECT {}", tables.join(" OR "));
        Ok(self.row(&sql, params![id.as_str()], |row| row.get(0))?.unwrap_or(false))
    }

    fn undone_by(&self, id: TxId, at: TxId) -> Result<Option<TxId>, Error> {
        let sql = "SELECT by_tx FROM undo WHERE target = ?1 AND by_tx <= ?2 ORDER BY by_tx DESC";
        for by in self.rows(sql, params![id.0, at.0], |row| row.get(0).map(TxId))? {
            // An undo that was itself undone no longer stands.
            if self.undone_by(by, at)?.is_none() {
                return Ok(Some(by));
            }
        }
        Ok(None)
    }

    fn recall(&self, actor: &str, key: &str) -> Result<Option<Remembered>, Error> {
        let sql =
            "SELECT actor, key, tool, digest, reply, at, crc FROM remembered WHERE actor = ?1 AND key = ?2";
        let found = self.row(sql, params![actor, key], |row| {
            let (sum, crc) = remembered_checksum(row)?;
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

    fn oldest_key(&self) -> Result<Option<Timestamp>, Error> {
        let oldest = self.row("SELECT min(at) FROM remembered", [], |row| row.get::<_, Option<i64>>(0))?;
        let damaged = |_| Error::damaged("an idempotency key has no time");
        oldest.flatten().map(Timestamp::from_millisecond).transpose().map_err(damaged)
    }
}

/// As `in_scopes`, where all scopes may be meant.
fn within(scopes: Option<&[ScopeId]>) -> String {
    scopes.map_or_else(|| "1".to_owned(), in_scopes)
}

fn in_scopes(scopes: &[ScopeId]) -> String {
    let numbers: Vec<String> = scopes.iter().map(|scope| scope.0.to_string()).collect();
    format!("scope IN ({})", numbers.join(", "))
}

/// The transactions that touched what is asked for, from ?1 to ?2, and those of origin ?3.
fn touched_sql(touched: &Touched<'_>) -> String {
    let kinds =
        EntityType::ALL.into_iter().filter(|it| touched.entity_type.is_none_or(|wanted| wanted == *it));
    let mut kinds: Vec<String> = kinds.map(|entity_type| kind_of(entity_type).to_string()).collect();
    if touched.entity_type.is_none() {
        kinds.push(HEADER.to_string());
    }
    let mut sql = format!("tx_id FROM touched WHERE kind IN ({})", kinds.join(", "));
    let condition = match (touched.reach.scopes(), touched.scopes) {
        // The parameter stands in every form of the statement.
        (None, None) => "(1 OR origin = ?3)".to_owned(),
        (None, Some(scopes)) => {
            let scopes: Vec<ScopeId> = [ScopeId(NO_SCOPE)].iter().chain(scopes).copied().collect();
            format!("({} OR origin = ?3)", in_scopes(&scopes))
        }
        (Some(reach), asked) => {
            let asked = touched.reach.within(asked.unwrap_or(&reach).to_vec());
            format!(
                "({} OR (origin = ?3 AND {}) OR (scope = {NO_SCOPE} AND tx_id IN ({})))",
                in_scopes(&asked),
                in_scopes(&reach),
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

/// Scopes of `global` name a namespace that has no row.
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
