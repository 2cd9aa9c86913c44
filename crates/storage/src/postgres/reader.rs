//! The questions of `Reader` in SQL. Each is one round trip; those about namespaces and scopes are answered from memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use kenning_model::{EntityType, Id, Record, ScopeId, ScopeName, ScopeNames, Timestamp, TxId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Parameters;
use super::places::Places;
use super::rows::{LOG_COLUMNS, from_text, get, id, log_row, number, numbers, scope, text, tx};
use super::transaction_checksum;
use crate::Error;
use crate::backend::{
    At, DocumentKind, DocumentKinds, DocumentSource, EntryFilter, Head, KeptKey, KnownDocument,
    LOG_PAGE_BYTES, LogChange, LogPage, Position, Reader, RecordKey, Remembered, StoreId, Stored, Touched,
    TripleFilter,
};
use crate::derive::NO_SCOPE;
use crate::log_row::{HEADER, LogRow, kind_of, remembered_checksum};

/// The head of a store, and when its scopes last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub head: Head,
    /// The last transaction that changed a namespace or a scope.
    pub tree: TxId,
}

/// A source of answers: the pool, or the connection of a write in progress.
pub(super) trait Asked {
    fn store(&self) -> i32;
    /// The id that the store had when this source was last asked.
    fn id(&self) -> Result<StoreId, Error>;
    fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error>;
    /// The checksum of a transaction, if it is at hand.
    fn checksum(&self, at: TxId) -> Option<u32>;
    /// The present head of the store.
    fn standing(&self) -> Result<Standing, Error>;
    /// Namespaces and scopes up to a transaction, or up to the newest one that is known.
    fn places(&self, at: Option<TxId>) -> Result<Arc<Places>, Error>;
}

pub(super) struct Sql<A>(pub A);

/// The versions that were live at `$2`.
const LIVE: &str = "v.tx_from <= $2 AND (v.tx_to IS NULL OR v.tx_to > $2)";
const JOIN_LOG: &str =
    "JOIN kenning.log ON log.store = v.store AND log.tx_id = v.tx_from AND log.seq = v.seq";
/// The condition that an entry is visible at the moment `$4`.
const VISIBLE: &str = "($4::bigint IS NULL OR (NOT v.suppressed AND coalesce(v.valid_from, 0) <= $4
                        AND (v.valid_to IS NULL OR v.valid_to > $4)))";

impl<A: Asked> Sql<A> {
    fn rows<T>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.0.query(sql, parameters)?.iter().map(read).collect()
    }

    fn row<T>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.0.query(sql, parameters)?.first().map(read).transpose()
    }

    fn page_of(&self, versions: &Versions<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        let (limit, offset) = (page.end.saturating_sub(page.start), page.start);
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM (SELECT v.store, v.tx_from, v.seq {} ORDER BY v.tx_from DESC, v.seq DESC
             LIMIT {limit} OFFSET {offset}) AS v {JOIN_LOG} ORDER BY v.tx_from DESC, v.seq DESC",
            versions.sql(),
        );
        versions.ask(&sql, self, |row| stored(&log_row(row, 0)?))
    }

    fn count_of(&self, versions: &Versions<'_>) -> Result<u64, Error> {
        let counts =
            versions.ask(&format!("SELECT count(*) {}", versions.sql()), self, |row| get::<i64>(row, 0))?;
        Ok(counts.first().copied().unwrap_or(0) as u64)
    }
}

/// The versions of a type that were live at a transaction and fit the filter.
struct Versions<'a> {
    kind: i64,
    at: TxId,
    scopes: &'a [ScopeId],
    visible_at: Option<Option<i64>>,
    /// Columns with the whole values that they must have.
    values: Vec<(&'static str, &'a str)>,
}

impl<'a> Versions<'a> {
    fn of(entity_type: EntityType, scopes: &'a [ScopeId], at: TxId) -> Versions<'a> {
        Versions { kind: kind_of(entity_type), at, scopes, visible_at: None, values: Vec::new() }
    }

    fn entries(filter: &EntryFilter<'a>) -> Versions<'a> {
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        Versions { visible_at: Some(now), ..Versions::of(EntityType::Entry, filter.scopes, filter.at) }
    }

    fn triples(filter: &TripleFilter<'a>) -> Versions<'a> {
        let fields = [
            ("subject_key", filter.subject),
            ("predicate_key", filter.predicate),
            ("object_key", filter.object),
        ];
        let values = fields.into_iter().filter_map(|(column, value)| Some((column, value?))).collect();
        Versions { values, ..Versions::of(EntityType::Triple, filter.scopes, filter.at) }
    }

    fn sql(&self) -> String {
        let mut sql = format!(
            "FROM kenning.version AS v WHERE v.store = $1 AND v.kind = {} AND {LIVE} AND v.scope = ANY($3)",
            self.kind
        );
        if self.visible_at.is_some() {
            sql.push_str(&format!(" AND {VISIBLE}"));
        }
        for (parameter, (column, _)) in (4..).zip(&self.values) {
            sql.push_str(&format!(" AND v.{column} = ${parameter}"));
        }
        sql
    }

    fn ask<T, A: Asked>(
        &self,
        sql: &str,
        asked: &Sql<A>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let (store, at, scopes) = (asked.0.store(), number(self.at), numbers(self.scopes));
        let values: Vec<_> = self.values.iter().map(|(_, value)| text(value).into_owned()).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&store, &at, &scopes];
        parameters.extend(self.visible_at.iter().map(|now| now as &(dyn ToSql + Sync)));
        parameters.extend(values.iter().map(|value| value as &(dyn ToSql + Sync)));
        asked.rows(sql, &parameters, read)
    }
}

/// Whether all versions of the type are in memory.
fn is_place(entity_type: EntityType) -> bool {
    matches!(entity_type, EntityType::Namespace | EntityType::Scope)
}

impl<A: Asked> Reader for Sql<A> {
    fn head(&self) -> Result<TxId, Error> {
        Ok(self.0.standing()?.head.tx)
    }

    fn store_id(&self) -> Result<StoreId, Error> {
        self.0.id()
    }

    fn standing(&self) -> Result<Head, Error> {
        Ok(self.0.standing()?.head)
    }

    fn log_checksum(&self, at: TxId) -> Result<Option<u32>, Error> {
        if let Some(sum) = self.0.checksum(at) {
            return Ok(Some(sum));
        }
        let sql = "SELECT crc FROM kenning.log WHERE store = $1 AND tx_id = $2 ORDER BY seq";
        let sums = self.rows(sql, &[&self.0.store(), &number(at)], |row| get::<i64>(row, 0))?;
        Ok((!sums.is_empty()).then(|| transaction_checksum(&sums)))
    }

    fn records(&self, keys: &[RecordKey]) -> Result<Vec<Option<Stored>>, Error> {
        let mut found: Vec<Option<Stored>> = keys.iter().map(|_| None).collect();
        let (mut kinds, mut ids, mut hows, mut ats, mut places) = (vec![], vec![], vec![], vec![], vec![]);
        for (key, place) in keys.iter().zip(0..) {
            if is_place(key.entity_type) {
                let at = match key.at {
                    At::Live(at) | At::ClosedBy(at) => Some(at),
                    At::Newest => None,
                };
                found[place] = self.0.places(at)?.version(key.entity_type, key.id, key.at);
                continue;
            }
            let (how, at) = match key.at {
                At::Live(at) => (0_i16, at),
                At::Newest => (1, TxId::EMPTY),
                At::ClosedBy(at) => (2, at),
            };
            kinds.push(kind_of(key.entity_type) as i16);
            ids.push(key.id.as_str());
            hows.push(how);
            ats.push(number(at));
            places.push(place);
        }
        if places.is_empty() {
            return Ok(found);
        }
        let sql = format!(
            "SELECT k.n, {LOG_COLUMNS}
             FROM unnest($2::smallint[], $3::text[], $4::smallint[], $5::bigint[]) WITH ORDINALITY AS k(kind, id, how, at, n)
             CROSS JOIN LATERAL (
                 SELECT v.store, v.tx_from, v.seq FROM kenning.version AS v
                 WHERE v.store = $1 AND v.id = k.id AND v.kind = k.kind AND CASE k.how
                     WHEN 0 THEN v.tx_from <= k.at AND (v.tx_to IS NULL OR v.tx_to > k.at)
                     WHEN 1 THEN true ELSE v.tx_to = k.at END
                 ORDER BY v.tx_from DESC LIMIT 1
             ) AS v {JOIN_LOG}"
        );
        let rows = self.0.query(&sql, &[&self.0.store(), &kinds, &ids, &hows, &ats])?;
        for row in rows {
            let key = places.get(get::<i64>(&row, 0)? as usize - 1).copied();
            let key = key.ok_or_else(|| Error::Bug { what: "a row of no key".to_owned() })?;
            found[key] = Some(stored(&log_row(&row, 1)?)?);
        }
        Ok(found)
    }

    fn touches(
        &self,
        entity_type: EntityType,
        id: Id,
        scopes: Option<&[ScopeId]>,
    ) -> Result<Vec<TxId>, Error> {
        let scopes = scopes.filter(|_| entity_type.has_scope()).map(numbers);
        let from = format!(
            "FROM kenning.version WHERE store = $1 AND kind = {} AND id = $2 AND ($3::bigint[] IS NULL OR scope = ANY($3))",
            kind_of(entity_type)
        );
        let sql = format!("SELECT tx_from {from} UNION SELECT tx_to {from} AND tx_to IS NOT NULL ORDER BY 1");
        self.rows(&sql, &[&self.0.store(), &id.as_str(), &scopes], |row| tx(row, 0))
    }

    fn live(&self, entity_type: EntityType, at: TxId) -> Result<Vec<Stored>, Error> {
        if is_place(entity_type) {
            return Ok(self.0.places(Some(at))?.live(entity_type, at));
        }
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM kenning.version AS v {JOIN_LOG}
             WHERE v.store = $1 AND v.kind = {} AND {LIVE} ORDER BY v.tx_from, v.seq",
            kind_of(entity_type)
        );
        self.rows(&sql, &[&self.0.store(), &number(at)], |row| stored(&log_row(row, 0)?))
    }

    fn document_kinds(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<DocumentKinds, Error> {
        let has = |condition: &str| {
            format!(
                "EXISTS (SELECT 1 FROM kenning.version AS v WHERE v.store = $1 AND v.kind = 5 AND {condition}
                 AND ($3::bigint[] IS NULL OR v.scope = ANY($3)) AND {LIVE})"
            )
        };
        let [plain, patterns, beside] = ["v.pattern IS NULL", "v.pattern > ''", "v.pattern = ''"].map(has);
        let sql = format!("SELECT {plain}, {patterns}, {beside}");
        let read = |row: &Row| {
            Ok(DocumentKinds { plain: get(row, 0)?, patterns: get(row, 1)?, beside_patterns: get(row, 2)? })
        };
        Ok(self.row(&sql, &[&self.0.store(), &number(at), &scopes.map(numbers)], read)?.unwrap_or_default())
    }

    fn all_in(&self, entity_type: EntityType, scopes: &[ScopeId], at: TxId) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::of(entity_type, scopes, at), 0..i64::MAX as u64)
    }

    fn page_in(
        &self,
        entity_type: EntityType,
        scopes: &[ScopeId],
        at: TxId,
        page: Range<u64>,
    ) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::of(entity_type, scopes, at), page)
    }

    fn document_at(
        &self,
        scope: ScopeId,
        source: &str,
        path: &str,
        at: TxId,
    ) -> Result<Option<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM kenning.version AS v {JOIN_LOG}
             WHERE v.store = $1 AND v.kind = 5 AND {LIVE} AND v.source = $3 AND v.path = $4 AND v.scope = $5"
        );
        let (source, path, scope) = (text(source), text(path), i64::from(scope.0));
        let parameters: Parameters<'_> = &[&self.0.store(), &number(at), &source, &path, &scope];
        self.row(&sql, parameters, |row| stored(&log_row(row, 0)?))
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
        let sql = format!(
            "SELECT v.id, v.path, v.hash FROM kenning.version AS v
             WHERE v.store = $1 AND v.kind = 5 AND {LIVE} AND v.source = $3
             AND (v.path = $4 OR (v.path >= $5 AND v.path < $6)) AND v.scope = $7 ORDER BY v.path"
        );
        let parameters: Parameters<'_> = &[
            &self.0.store(),
            &number(at),
            &text(source),
            &text(path),
            &text(&from),
            &text(&to),
            &i64::from(scope.0),
        ];
        self.rows(&sql, parameters, |row| {
            Ok(KnownDocument {
                id: id(row, 0)?,
                path: from_text(get(row, 1)?),
                hash: from_text(get(row, 2)?),
            })
        })
    }

    fn document_sources(&self, scope: ScopeId, at: TxId) -> Result<Vec<DocumentSource>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS}, v.documents FROM (
                 SELECT DISTINCT ON (v.source) v.store, v.source, v.tx_from, v.seq,
                     count(*) FILTER (WHERE v.tx_to IS NULL OR v.tx_to > $2) OVER (PARTITION BY v.source) AS documents
                 FROM kenning.version AS v WHERE v.store = $1 AND v.kind = 5 AND v.scope = $3 AND v.tx_from <= $2
                 ORDER BY v.source, v.tx_from DESC, v.seq
             ) AS v {JOIN_LOG} WHERE v.documents > 0 ORDER BY v.source"
        );
        let read = |row: &Row| match stored(&log_row(row, 0)?)?.record {
            Record::Document(document) => Ok(DocumentSource {
                name: document.source,
                documents: get::<i64>(row, 6)? as u64,
                root: document.root,
                default_tag: document.default_tag,
                kind: if document.catalogue { DocumentKind::Pattern } else { DocumentKind::Plain },
                changed_at: document.updated_at.unwrap_or(document.recorded_at),
            }),
            _ => Err(Error::damaged("a version of a document is something else in the log")),
        };
        self.rows(&sql, &[&self.0.store(), &number(at), &i64::from(scope.0)], read)
    }

    fn document_of(&self, section: Id, at: TxId) -> Result<Option<Id>, Error> {
        let sql = format!(
            "SELECT v.document FROM kenning.version AS v WHERE v.store = $1 AND v.kind = 6 AND {LIVE} AND v.id = $3"
        );
        self.row(&sql, &[&self.0.store(), &number(at), &section.as_str()], |row| id(row, 0))
    }

    fn sections_of(&self, document: Id, at: TxId) -> Result<Vec<Stored>, Error> {
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM kenning.version AS v {JOIN_LOG}
             WHERE v.store = $1 AND v.kind = 6 AND {LIVE} AND v.document = $3 ORDER BY v.position"
        );
        let parameters: Parameters<'_> = &[&self.0.store(), &number(at), &document.as_str()];
        self.rows(&sql, parameters, |row| stored(&log_row(row, 0)?))
    }

    fn scope_named(&self, name: &ScopeName, at: TxId) -> Result<Option<ScopeId>, Error> {
        Ok(self.0.places(Some(at))?.scope_named(name, at))
    }

    fn scope_once_named(&self, name: &ScopeName) -> Result<Option<(ScopeId, TxId)>, Error> {
        Ok(self.0.places(None)?.scope_once_named(name))
    }

    fn scope_id(&self, scope: ScopeId) -> Result<Option<Id>, Error> {
        Ok(self.0.places(None)?.scope_id(scope))
    }

    fn namespace_once_named(&self, name: &str) -> Result<Option<Id>, Error> {
        Ok(self.0.places(None)?.namespace_once_named(name))
    }

    fn namespace_deleted_by(&self, name: &str) -> Result<Option<TxId>, Error> {
        Ok(self.0.places(None)?.namespace_deleted_by(name))
    }

    fn scope_names(&self, scopes: &[ScopeId], at: TxId) -> Result<ScopeNames, Error> {
        if scopes.iter().all(|scope| *scope == ScopeId::GLOBAL_DEFAULT) {
            return Ok(ScopeNames::default());
        }
        Ok(self.0.places(Some(at))?.scope_names(scopes, at))
    }

    fn closure(&self, scope: ScopeId, at: TxId) -> Result<Vec<ScopeId>, Error> {
        if scope == ScopeId::GLOBAL_DEFAULT {
            return Ok(vec![scope]);
        }
        Ok(self.0.places(Some(at))?.closure(scope, at))
    }

    fn scopes_ever(&self, namespaces: &[Id]) -> Result<Vec<(ScopeId, Id)>, Error> {
        Ok(self.0.places(None)?.scopes_ever(namespaces))
    }

    fn next_scope(&self) -> Result<ScopeId, Error> {
        Ok(self.0.places(None)?.next_scope())
    }

    fn entries(&self, filter: &EntryFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::entries(filter), page)
    }

    fn pinned(&self, filter: &EntryFilter<'_>, limit: usize) -> Result<Vec<Stored>, Error> {
        // One scope at a time, as the index is ordered; the nearest scope comes first.
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM unnest($3::bigint[]) WITH ORDINALITY AS s(scope, n)
             CROSS JOIN LATERAL (
                 SELECT v.store, v.tx_from, v.seq FROM kenning.version AS v
                 WHERE v.store = $1 AND v.kind = 1 AND v.pinned AND v.scope = s.scope AND {LIVE} AND {VISIBLE}
                 ORDER BY v.tx_from DESC, v.seq DESC LIMIT $5
             ) AS v {JOIN_LOG} ORDER BY s.n, v.tx_from DESC, v.seq DESC LIMIT $5"
        );
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> =
            &[&self.0.store(), &number(filter.at), &numbers(filter.scopes), &now, &limit];
        self.rows(&sql, parameters, |row| stored(&log_row(row, 0)?))
    }

    fn count_entries(&self, filter: &EntryFilter<'_>) -> Result<u64, Error> {
        self.count_of(&Versions::entries(filter))
    }

    fn live_entries(&self, scopes: &[ScopeId]) -> Result<u64, Error> {
        let sql = "SELECT coalesce(sum(many), 0)::bigint FROM kenning.entry_count WHERE store = $1 AND scope = ANY($2)";
        let counted = self.rows(sql, &[&self.0.store(), &numbers(scopes)], |row| get::<i64>(row, 0))?;
        Ok(counted.first().copied().unwrap_or(0) as u64)
    }

    fn count_by_scope(&self, entity_type: EntityType, at: TxId) -> Result<BTreeMap<ScopeId, u64>, Error> {
        let sql = format!(
            "SELECT v.scope, count(*) FROM kenning.version AS v
             WHERE v.store = $1 AND v.kind = {} AND {LIVE} GROUP BY v.scope",
            kind_of(entity_type)
        );
        let read = |row: &Row| Ok((scope(row, 0)?, get::<i64>(row, 1)? as u64));
        Ok(self.rows(&sql, &[&self.0.store(), &number(at)], read)?.into_iter().collect())
    }

    fn topics(&self, filter: &EntryFilter<'_>, prefix: &str, limit: usize) -> Result<Vec<String>, Error> {
        // No topic key with the prefix sorts after the prefix followed by the last code point.
        let end = format!("{prefix}\u{10ffff}");
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM (
                 SELECT DISTINCT ON (v.topic_key) v.store, v.topic_key, v.tx_from, v.seq FROM kenning.version AS v
                 WHERE v.store = $1 AND v.kind = 1 AND v.tx_to IS NULL AND v.topic_key <> '' AND v.scope = ANY($5)
                 AND v.topic_key >= $2 AND v.topic_key < $3 AND {VISIBLE}
                 ORDER BY v.topic_key, v.tx_from DESC, v.seq LIMIT $6
             ) AS v {JOIN_LOG} ORDER BY v.topic_key"
        );
        let now = filter.visible_at.map(Timestamp::as_millisecond);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> =
            &[&self.0.store(), &text(prefix), &text(&end), &now, &numbers(filter.scopes), &limit];
        let found = self.rows(&sql, parameters, |row| stored(&log_row(row, 0)?))?;
        let topic = |stored: Stored| match stored.record {
            Record::Entry(entry) => Some(entry.topic),
            _ => None,
        };
        Ok(found.into_iter().filter_map(topic).collect())
    }

    fn triples(&self, filter: &TripleFilter<'_>, page: Range<u64>) -> Result<Vec<Stored>, Error> {
        self.page_of(&Versions::triples(filter), page)
    }

    fn has_triples(&self, at: TxId, scopes: Option<&[ScopeId]>) -> Result<bool, Error> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM kenning.version AS v WHERE v.store = $1 AND v.kind = 2
             AND ($3::bigint[] IS NULL OR v.scope = ANY($3)) AND {LIVE})"
        );
        let parameters: Parameters<'_> = &[&self.0.store(), &number(at), &scopes.map(numbers)];
        Ok(self.row(&sql, parameters, |row| get(row, 0))?.unwrap_or(false))
    }

    fn triple_names(&self, scopes: &[ScopeId], at: TxId, limit: usize) -> Result<Vec<[String; 2]>, Error> {
        let sql = format!(
            "SELECT v.subject_key, v.object_key FROM kenning.version AS v WHERE v.store = $1 AND v.kind = 2 AND {LIVE}
             AND v.scope = ANY($3) ORDER BY v.tx_from DESC, v.seq DESC LIMIT $4"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = &[&self.0.store(), &number(at), &numbers(scopes), &limit];
        self.rows(&sql, parameters, |row| Ok([from_text(get(row, 0)?), from_text(get(row, 1)?)]))
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
        let kinds: Vec<i16> = entity_types.iter().map(|of| kind_of(*of) as i16).collect();
        // The row after the page says where the next page begins; its body is not read.
        let sql = format!(
            "SELECT log.tx_id, log.seq, log.kind, log.id, CASE WHEN log.is_on_page THEN log.body END, log.crc, log.is_on_page
             FROM (
                 SELECT {LOG_COLUMNS}, log.n <= $6::bigint AND coalesce(log.bytes, 0) < $7::bigint AS is_on_page,
                     lag(log.n <= $6::bigint AND coalesce(log.bytes, 0) < $7::bigint, 1, true) OVER (ORDER BY log.n) AS is_read
                 FROM (
                     SELECT {LOG_COLUMNS}, row_number() OVER w AS n,
                         sum(octet_length(log.body)) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
                     FROM (
                         SELECT {LOG_COLUMNS} FROM kenning.log WHERE log.store = $1 AND (log.tx_id, log.seq) >= ($2, $3)
                         AND log.tx_id < $4 AND log.seq > 0 AND log.kind = ANY($5)
                         ORDER BY log.tx_id, log.seq LIMIT $6::bigint + 1
                     ) AS log WINDOW w AS (ORDER BY log.tx_id, log.seq)
                 ) AS log
             ) AS log WHERE log.is_read ORDER BY log.tx_id, log.seq"
        );
        let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX - 1).min(i64::MAX - 1);
        let seq = i32::try_from(from.seq).unwrap_or(i32::MAX);
        let parameters: Parameters<'_> = &[
            &self.0.store(),
            &number(from.tx),
            &seq,
            &number(end),
            &kinds,
            &limit,
            &(LOG_PAGE_BYTES as i64),
        ];
        let mut page = LogPage { changes: Vec::new(), next: None };
        for row in self.0.query(&sql, parameters)? {
            let is_on_page: bool = get(&row, 6)?;
            let row = log_row(&row, 0)?;
            if !is_on_page {
                page.next = Some(Position { tx: TxId(row.tx_id), seq: row.seq });
                break;
            }
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
        // The rows of a transaction are numbered from 0.
        let sql = format!(
            "SELECT {LOG_COLUMNS} FROM kenning.log WHERE store = $1 AND tx_id = ANY($2) AND seq < $3 ORDER BY tx_id, seq"
        );
        let seq_max = i32::try_from(rows_max).unwrap_or(i32::MAX);
        let wanted: Vec<i64> = ids.iter().map(|id| number(*id)).collect();
        let mut found: HashMap<u64, Vec<LogRow>> = HashMap::new();
        for row in self.0.query(&sql, &[&self.0.store(), &wanted, &seq_max])? {
            let row = log_row(&row, 0)?;
            found.entry(row.tx_id).or_default().push(row);
        }
        Ok(ids.iter().map(|id| found.get(&id.0).cloned().unwrap_or_default()).collect())
    }

    fn undo_edges(&self, targets: &[TxId]) -> Result<Vec<(TxId, TxId)>, Error> {
        let sql = "WITH RECURSIVE edge(target, by_tx) AS (
                       SELECT target, by_tx FROM kenning.undo WHERE store = $1 AND target = ANY($2)
                       UNION SELECT undo.target, undo.by_tx FROM kenning.undo JOIN edge ON undo.target = edge.by_tx
                       WHERE undo.store = $1
                   ) SELECT target, by_tx FROM edge";
        let targets: Vec<i64> = targets.iter().map(|target| number(*target)).collect();
        self.rows(sql, &[&self.0.store(), &targets], |row| Ok((tx(row, 0)?, tx(row, 1)?)))
    }

    fn transactions_with(&self, touched: &Touched<'_>, page: Range<u64>) -> Result<Vec<TxId>, Error> {
        let asked = TouchedQuestion::new(touched);
        let sql = format!(
            "SELECT DISTINCT tx_id {} ORDER BY tx_id DESC LIMIT {} OFFSET {}",
            asked.sql(),
            page.end.saturating_sub(page.start),
            page.start
        );
        asked.ask(&sql, self, |row| tx(row, 0))
    }

    fn count_transactions_with(&self, touched: &Touched<'_>) -> Result<u64, Error> {
        let asked = TouchedQuestion::new(touched);
        let counts = asked
            .ask(&format!("SELECT count(DISTINCT tx_id) {}", asked.sql()), self, |row| get::<i64>(row, 0))?;
        Ok(counts.first().copied().unwrap_or(0) as u64)
    }

    fn newest_of(&self, origin: &str, before: TxId) -> Result<Option<TxId>, Error> {
        let sql = "SELECT tx_id FROM kenning.touched WHERE store = $1 AND origin = $2 AND tx_id < $3
                   ORDER BY tx_id DESC LIMIT 1";
        self.row(sql, &[&self.0.store(), &text(origin), &number(before)], |row| tx(row, 0))
    }

    fn is_taken(&self, id: Id) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM kenning.version WHERE store = $1 AND id = $2)";
        Ok(self.row(sql, &[&self.0.store(), &id.as_str()], |row| get(row, 0))?.unwrap_or(false))
    }

    fn recall(&self, actor: &str, key: &str) -> Result<Option<Remembered>, Error> {
        let sql = "SELECT tool, digest, reply, at, crc FROM kenning.remembered
                   WHERE store = $1 AND actor = $2 AND key = $3";
        let parameters: Parameters<'_> = &[&self.0.store(), &text(actor), &text(key)];
        self.row(sql, parameters, |row| {
            let (value, crc) = remembered(row, 0)?;
            match remembered_checksum(actor, key, &value) == crc {
                true => Ok(value),
                false => Err(Error::damaged("a remembered idempotency key does not match its checksum")),
            }
        })
    }

    fn kept_keys(&self, after: Option<(&str, &str)>, limit: usize) -> Result<Vec<KeptKey>, Error> {
        let (owner, key) = after.unwrap_or_default();
        let sql = "SELECT actor, key, tool, digest, reply, at, crc FROM kenning.remembered
                   WHERE store = $1 AND ($2::boolean OR (actor, key) > ($3, $4)) ORDER BY actor, key LIMIT $5";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> =
            &[&self.0.store(), &after.is_none(), &text(owner), &text(key), &limit];
        self.rows(sql, parameters, |row| {
            let (owner, key) = (from_text(get(row, 0)?), from_text(get(row, 1)?));
            let (value, crc) = remembered(row, 2)?;
            match remembered_checksum(&owner, &key, &value) == crc {
                true => Ok(KeptKey { owner, key, value }),
                false => Err(Error::damaged("a remembered idempotency key does not match its checksum")),
            }
        })
    }

    fn oldest_key(&self) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT min(at) FROM kenning.remembered WHERE store = $1";
        let oldest = self.row(sql, &[&self.0.store()], |row| get::<Option<i64>>(row, 0))?.flatten();
        let damaged = |_| Error::damaged("an idempotency key has no time");
        oldest.map(Timestamp::from_millisecond).transpose().map_err(damaged)
    }
}

/// The record of an idempotency key and its checksum, from the columns tool, digest, reply, at, crc.
pub(super) fn remembered(row: &Row, from: usize) -> Result<(Remembered, i64), Error> {
    let at = Timestamp::from_millisecond(get(row, from + 3)?)
        .map_err(|_| Error::damaged("an idempotency key has no time"))?;
    let value = Remembered {
        tool: from_text(get(row, from)?),
        digest: from_text(get(row, from + 1)?),
        reply: from_text(get(row, from + 2)?),
        at,
    };
    Ok((value, get(row, from + 4)?))
}

/// Selects the transactions that touched what a question asks for.
struct TouchedQuestion {
    kinds: Vec<i16>,
    range: Range<i64>,
    own: Option<String>,
    /// The requested scopes; `None` means all.
    asked: Option<Vec<i64>>,
    /// What may be seen at all, if not everything: the scopes, and the namespaces whose changes may be seen.
    reach: Option<(Vec<i64>, Vec<String>)>,
}

impl TouchedQuestion {
    fn new(touched: &Touched<'_>) -> TouchedQuestion {
        let is_wanted = |it: &EntityType| touched.entity_type.is_none_or(|wanted| wanted == *it);
        let mut kinds: Vec<i16> =
            EntityType::ALL.into_iter().filter(is_wanted).map(|it| kind_of(it) as i16).collect();
        if touched.entity_type.is_none() {
            kinds.push(HEADER as i16);
        }
        let (asked, reach) = match (touched.reach.scopes(), touched.scopes) {
            (None, None) => (None, None),
            (None, Some(scopes)) => {
                (Some(numbers(&[NO_SCOPE].iter().chain(scopes).copied().collect::<Vec<_>>())), None)
            }
            (Some(reach), asked) => {
                let asked = touched.reach.within(asked.unwrap_or(&reach).to_vec());
                let namespaces = touched.reach.namespaces().unwrap_or_default();
                let namespaces = namespaces.iter().map(ToString::to_string).collect();
                (Some(numbers(&asked)), Some((numbers(&reach), namespaces)))
            }
        };
        TouchedQuestion {
            kinds,
            range: number(touched.range.start)..number(touched.range.end),
            own: touched.own.map(|own| text(own).into_owned()),
            asked,
            reach,
        }
    }

    fn sql(&self) -> String {
        let condition = match (&self.asked, &self.reach) {
            (None, _) => "true".to_owned(),
            (Some(_), None) => "(scope = ANY($5) OR origin = $6)".to_owned(),
            (Some(_), Some(_)) => {
                // The transactions that changed these namespaces or their scopes.
                let versions = |column: &str| {
                    format!(
                        "SELECT {column} FROM kenning.version WHERE store = $1 AND ((kind = 3 AND id = ANY($8)) OR (kind = 4 AND namespace = ANY($8)))"
                    )
                };
                format!(
                    "(scope = ANY($5) OR (origin = $6 AND scope = ANY($7)) OR (scope = {} AND tx_id IN ({} UNION {})))",
                    NO_SCOPE.0,
                    versions("tx_from"),
                    versions("tx_to")
                )
            }
        };
        format!(
            "FROM kenning.touched WHERE store = $1 AND tx_id >= $2 AND tx_id < $3 AND kind = ANY($4) AND {condition}"
        )
    }

    fn ask<T, A: Asked>(
        &self,
        sql: &str,
        asked: &Sql<A>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let store = asked.0.store();
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&store, &self.range.start, &self.range.end, &self.kinds];
        if let Some(scopes) = &self.asked {
            parameters.extend([scopes as &(dyn ToSql + Sync), &self.own]);
        }
        if let Some((scopes, namespaces)) = &self.reach {
            parameters.extend([scopes as &(dyn ToSql + Sync), namespaces]);
        }
        asked.rows(sql, &parameters, read)
    }
}

fn stored(row: &LogRow) -> Result<Stored, Error> {
    let id = row.id()?;
    let record = row
        .record()?
        .ok_or_else(|| Error::damaged(format!("`{id}` is live in a transaction that deleted it")))?;
    Ok(Stored { id, tx_id: TxId(row.tx_id), record })
}
