//! A write under way. What it appends is collected, and sent ahead of the next question or with the COMMIT: many statements, one
//! round trip. The row of the store is locked from the beginning to the end, so the numbers are dense and in the order of the commits.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use futures::future::{Either, join_all, select};
use kenning_model::{EntityType, Id, Scope, ScopeId, Timestamp, Transaction, TxId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::{PATIENCE, Parameters, discard, failed, is_lost, silent};
use super::places::Places;
use super::reader::{Asked, Sql, Standing};
use super::rows::{DerivedChanges, VersionRow, joined, number, text};
use super::{LOCK, Postgres, info_checksum, standing_of};
use crate::backend::{Pending, Reader, Remembered, StoreId};
use crate::derive::{Columns, LiveScopes, RowOperation, derive};
use crate::log_row::{LogRow, remembered_checksum};
use crate::{Applied, Error};

/// More rows than this are sent on before the commit, so that no statement takes long.
const COLLECTED_MAX: usize = 2_000;
const COLLECTED_BYTES_MAX: usize = 8 << 20;
/// The number of rows that one statement overwrites.
const OVERWRITTEN: usize = 2_000;
/// A COMMIT that is not answered within this time is looked up, and the same time is left for the look-up.
const COMMIT_PATIENCE: Duration = Duration::from_millis(2_500);
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// Locks the store and finds out how far it is, in one round trip. A connection that was lost since its last use is replaced.
pub(super) fn begin(store: &Postgres) -> Result<PostgresPending<'_>, Error> {
    let (connection, standing) = store.connections.wait(async {
        for is_last in [false, true] {
            let connection = store.connections.take().await?;
            store.connections.count_round_trip();
            let locked = async {
                let statement = connection.prepare_cached(LOCK).await?;
                // Two separate statements, because a single one would read a snapshot from before it got the
                // lock.
                let (begun, rows) = futures::future::join(
                    connection.batch_execute("BEGIN"),
                    connection.query(&statement, &[&store.store]),
                )
                .await;
                begun?;
                rows
            };
            let locked = tokio::time::timeout(PATIENCE, locked).await;
            match locked {
                Ok(Ok(rows)) => match standing_of(rows.first()) {
                    Ok(standing) => return Ok((connection, standing)),
                    Err(error) => {
                        discard(connection);
                        return Err(error);
                    }
                },
                Ok(Err(error)) => {
                    discard(connection);
                    if is_lost(&error) {
                        store.connections.forget_idle();
                    }
                    if is_last || !is_lost(&error) {
                        return Err(failed(error));
                    }
                }
                Err(_) => {
                    store.connections.forget_idle();
                    discard(connection);
                    return Err(silent());
                }
            }
        }
        unreachable!("the last round returns")
    })?;
    let writing = Writing {
        store,
        connection: RefCell::new(Some(connection)),
        standing: Cell::new(standing),
        places: RefCell::new(None),
        is_tree_changed: Cell::new(false),
        collected: RefCell::default(),
        batch: rand::random(),
        first: Cell::new(None),
        first_key: RefCell::new(None),
    };
    Ok(PostgresPending { sql: Sql(writing) })
}

pub(super) struct PostgresPending<'a> {
    sql: Sql<Writing<'a>>,
}

struct Writing<'a> {
    store: &'a Postgres,
    /// None after an error: whatever was written is gone with the connection.
    connection: RefCell<Option<Object>>,
    standing: Cell<Standing>,
    places: RefCell<Option<Arc<Places>>>,
    /// Whether namespaces or scopes were changed since `places` was read.
    is_tree_changed: Cell<bool>,
    collected: RefCell<Collected>,
    /// A random number in the header row of the first transaction, by which a later look-up finds whether the
    /// commit took place.
    batch: [u8; 16],
    first: Cell<Option<TxId>>,
    /// The first remembered key with its actor and checksum, to look up a commit without a transaction.
    first_key: RefCell<Option<(String, String, i64)>>,
}

/// Rows that were appended and not sent yet.
#[derive(Default)]
struct Collected {
    log: Vec<LogRow>,
    bytes: usize,
    derived: DerivedChanges,
    others: Vec<Statement>,
}

/// A statement with its values. If `rows` is set, it must change exactly this many rows.
pub(super) struct Statement {
    sql: &'static str,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
    rows: Option<usize>,
}

impl Statement {
    pub(super) fn new(
        sql: &'static str,
        values: Vec<Box<dyn ToSql + Sync + Send>>,
        rows: Option<usize>,
    ) -> Statement {
        Statement { sql, values, rows }
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }

    pub(super) fn sql(&self) -> &'static str {
        self.sql
    }
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Box<dyn ToSql + Sync + Send>),*] };
}

/// The values of one column of many rows.
macro_rules! column {
    ($rows:expr, $row:ident => $value:expr) => {
        $rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}

/// The statements that apply the changes to the derived tables, in an order in which they can be run.
pub(super) fn statements_of(store: i32, changes: &DerivedChanges) -> Vec<Statement> {
    let DerivedChanges { closed, versions, closed_closures, closures, touched, undone, .. } = changes;
    let mut statements = Vec::new();
    if !closed.is_empty() {
        statements.push(Statement::new(
            "UPDATE kenning.version AS v SET tx_to = c.tx FROM unnest($2::smallint[], $3::text[], $4::bigint[]) AS c(kind, id, tx)
             WHERE v.store = $1 AND v.kind = c.kind AND v.id = c.id AND v.tx_to IS NULL",
            values![
                store,
                column!(closed, row => row.0),
                column!(closed, row => row.1.clone()),
                column!(closed, row => row.2),
            ],
            None,
        ));
    }
    if !versions.is_empty() {
        statements.push(Statement::new(
            "INSERT INTO kenning.version (store, tx_from, seq, tx_to, kind, id, scope, topic_key, suppressed, valid_from, valid_to,
                 pinned, subject_key, predicate_key, object_key, source, path, hash, pattern, document, position, name, number,
                 namespace)
             SELECT $1::int, * FROM unnest($2::bigint[], $3::int[], $4::bigint[], $5::smallint[], $6::text[], $7::bigint[],
                 $8::text[], $9::boolean[], $10::bigint[], $11::bigint[], $12::boolean[], $13::text[], $14::text[], $15::text[],
                 $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::int[], $22::text[], $23::bigint[],
                 $24::text[])",
            values![
                store,
                column!(versions, row => row.tx_from),
                column!(versions, row => row.seq),
                column!(versions, row => row.tx_to),
                column!(versions, row => row.kind),
                column!(versions, row => row.id.clone()),
                column!(versions, row => row.scope),
                column!(versions, row => row.topic_key.clone()),
                column!(versions, row => row.is_suppressed),
                column!(versions, row => row.valid_from),
                column!(versions, row => row.valid_to),
                column!(versions, row => row.is_pinned),
                column!(versions, row => row.subject_key.clone()),
                column!(versions, row => row.predicate_key.clone()),
                column!(versions, row => row.object_key.clone()),
                column!(versions, row => row.source.clone()),
                column!(versions, row => row.path.clone()),
                column!(versions, row => row.hash.clone()),
                column!(versions, row => row.pattern.clone()),
                column!(versions, row => row.document.clone()),
                column!(versions, row => row.position),
                column!(versions, row => row.name.clone()),
                column!(versions, row => row.number),
                column!(versions, row => row.namespace.clone()),
            ],
            Some(versions.len()),
        ));
    }
    if !closed_closures.is_empty() {
        statements.push(Statement::new(
            "UPDATE kenning.closure AS o SET tx_to = c.tx FROM unnest($2::bigint[], $3::bigint[]) AS c(scope, tx)
             WHERE o.store = $1 AND o.scope = c.scope AND o.tx_to IS NULL",
            values![
                store,
                column!(closed_closures, row => row.0),
                column!(closed_closures, row => row.1),
            ],
            None,
        ));
    }
    if !closures.is_empty() {
        statements.push(Statement::new(
            "INSERT INTO kenning.closure (store, scope, tx_from, tx_to, sees)
             SELECT $1::int, c.scope, c.tx_from, c.tx_to, string_to_array(c.sees, ',')::bigint[]
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS c(scope, tx_from, tx_to, sees)",
            values![
                store,
                column!(closures, row => row.scope),
                column!(closures, row => row.tx_from),
                column!(closures, row => row.tx_to),
                column!(closures, row => joined(&row.sees)),
            ],
            Some(closures.len()),
        ));
    }
    if !touched.is_empty() {
        statements.push(Statement::new(
            "INSERT INTO kenning.touched (store, tx_id, scope, kind, origin)
             SELECT $1::int, * FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::text[])",
            values![
                store,
                column!(touched, row => row.tx_id),
                column!(touched, row => row.scope),
                column!(touched, row => row.kind),
                column!(touched, row => row.origin.clone()),
            ],
            Some(touched.len()),
        ));
    }
    if !undone.is_empty() {
        statements.push(Statement::new(
            "INSERT INTO kenning.undo (store, target, by_tx) SELECT $1::int, * FROM unnest($2::bigint[], $3::bigint[])",
            values![store, column!(undone, row => row.0), column!(undone, row => row.1)],
            Some(undone.len()),
        ));
    }
    statements
}

impl Collected {
    fn is_large(&self) -> bool {
        self.log.len() > COLLECTED_MAX || self.bytes > COLLECTED_BYTES_MAX
    }

    /// The statements that write the collected rows. The collection is empty afterwards.
    fn take(&mut self, writing: &Writing<'_>) -> Vec<Statement> {
        let Collected { log, derived, others, .. } = std::mem::take(self);
        let store = writing.store.store;
        let mut statements = Vec::new();
        if !log.is_empty() {
            let first = writing.first.get().unwrap_or_default().0;
            let batch = |row: &LogRow| (row.tx_id == first && row.seq == 0).then(|| writing.batch.to_vec());
            statements.push(Statement::new(
                "INSERT INTO kenning.log (store, tx_id, seq, kind, id, body, crc, batch)
                 SELECT $1::int, * FROM unnest($2::bigint[], $3::int[], $4::smallint[], $5::text[], $6::text[], $7::bigint[],
                     $8::bytea[])",
                values![
                    store,
                    column!(log, row => row.tx_id as i64),
                    column!(log, row => row.seq as i32),
                    column!(log, row => row.kind as i16),
                    column!(log, row => text(&row.id).into_owned()),
                    column!(log, row => row.body.clone()),
                    column!(log, row => row.crc),
                    column!(log, row => batch(row)),
                ],
                Some(log.len()),
            ));
        }
        statements.extend(statements_of(store, &derived));
        statements.extend(others);
        statements
    }
}

/// The result of one statement of a round trip.
enum Done {
    Changed(u64),
    Rows(Vec<Row>),
    Ended,
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Done, tokio_postgres::Error>> + Send + 'a>>;

fn lost() -> Error {
    Error::Unavailable { applied: Applied::No, reason: "the connection of this write was lost".to_owned() }
}

impl Writing<'_> {
    /// Sends what was collected, and a question after it, in one round trip.
    fn send(&self, question: Option<(&str, Parameters<'_>)>) -> Result<Vec<Row>, Error> {
        let statements = self.collected.borrow_mut().take(self);
        let Some(connection) = self.connection.take() else { return Err(lost()) };
        let sent = self.store.connections.wait(async {
            self.store.connections.count_round_trip();
            let all = async {
                let prepared = prepared(&connection, &statements).await?;
                let mut asking: Vec<Asking<'_>> = Vec::new();
                for (statement, prepared) in statements.iter().zip(&prepared) {
                    asking.push(changing(&connection, statement, prepared));
                }
                if let Some((sql, parameters)) = question {
                    let prepared = connection.prepare_cached(sql).await.map_err(failed)?;
                    let connection = &connection;
                    asking.push(Box::pin(async move {
                        connection.query(&prepared, parameters).await.map(Done::Rows)
                    }));
                }
                checked(join_all(asking).await, &statements)
            };
            tokio::time::timeout(PATIENCE, all).await.unwrap_or_else(|_| Err(silent()))
        });
        match sent {
            Ok(rows) => {
                self.connection.replace(Some(connection));
                Ok(rows)
            }
            Err(error) => {
                discard(connection);
                Err(error)
            }
        }
    }

    /// Sends what was collected together with COMMIT.
    fn commit(&self) -> Result<(), Error> {
        let standing = self.standing.get();
        let mut statements = self.collected.borrow_mut().take(self);
        let Some(connection) = self.connection.take() else { return Err(lost()) };
        if self.first.get().is_some() {
            statements.push(Statement::new(
                "UPDATE kenning.store SET head = $2, tree = $3 WHERE store = $1",
                values![self.store.store, number(standing.head.tx), number(standing.tree)],
                Some(1),
            ));
        }
        let connections = &self.store.connections;
        let (channel, told) = (self.store.ears.channel(), standing.head.tx.to_string());
        let ended = connections.wait(async {
            connections.count_round_trip();
            // Nothing was committed if this fails.
            let prepared = async {
                let prepared = prepared(&connection, &statements).await?;
                let notify = connection.prepare_cached("SELECT pg_notify($1, $2)").await.map_err(failed)?;
                Ok::<_, Error>((prepared, notify))
            };
            let prepared = tokio::time::timeout(COMMIT_PATIENCE, prepared).await;
            let (prepared, notify) = match prepared.unwrap_or_else(|_| Err(silent())) {
                Ok(prepared) => prepared,
                Err(error) => return Ended::Refused(error),
            };
            let mut asking: Vec<Asking<'_>> = Vec::new();
            for (statement, prepared) in statements.iter().zip(&prepared) {
                asking.push(changing(&connection, statement, prepared));
            }
            let end = &connection;
            asking.push(Box::pin(async move { end.batch_execute("COMMIT").await.map(|()| Done::Ended) }));
            // After the commit, and not inside it: that would make the commits of all stores wait for each other. Nobody waits
            // for its answer.
            let telling = Box::pin(async {
                let _told = connection.query(&notify, &[&channel, &told]).await;
                std::future::pending::<()>().await;
            });
            let all = async {
                match select(join_all(asking), telling).await {
                    Either::Left((done, _)) => done,
                    Either::Right(((), asking)) => asking.await,
                }
            };
            let Ok(done) = tokio::time::timeout(COMMIT_PATIENCE, all).await else { return Ended::Unknown };
            // If a statement was refused, COMMIT has rolled back. If the connection was lost, nobody knows.
            if done.iter().any(|done| done.as_ref().is_err_and(is_lost)) {
                return Ended::Unknown;
            }
            match checked(done, &statements) {
                Ok(_) => Ended::Committed,
                Err(error) => Ended::Refused(error),
            }
        });
        match ended {
            Ended::Committed => {
                drop(connection);
                self.committed(standing);
                Ok(())
            }
            Ended::Refused(error) => {
                discard(connection);
                Err(error)
            }
            Ended::Unknown => {
                discard(connection);
                connections.forget_idle();
                match connections.wait(self.settle()) {
                    Some(true) => {
                        self.committed(standing);
                        Ok(())
                    }
                    Some(false) => {
                        let reason = "the database went away before the write was committed".to_owned();
                        Err(Error::Unavailable { applied: Applied::No, reason })
                    }
                    None => {
                        let reason = "the database went away during the commit".to_owned();
                        Err(Error::Unavailable { applied: Applied::Unknown, reason })
                    }
                }
            }
        }
    }

    fn committed(&self, standing: Standing) {
        if let Some(places) = self.places.take().filter(|_| !self.is_tree_changed.get()) {
            let mut known = self.store.known_places();
            if known.at < places.at && places.at <= standing.head.tx {
                *known = places;
            }
        }
        self.store.ears.committed();
    }

    /// Whether the commit took place, or none if the database does not say so in time. The lock on the store's row proves that the
    /// old connection has ended, one way or the other.
    async fn settle(&self) -> Option<bool> {
        let since = Instant::now();
        loop {
            let left = COMMIT_PATIENCE.saturating_sub(since.elapsed());
            if left.is_zero() {
                return None;
            }
            match tokio::time::timeout(left, self.look_up()).await {
                Ok(Ok(took_place)) => return Some(took_place),
                Ok(Err(error)) => tracing::debug!(%error, "the outcome of a commit is not known yet"),
                Err(_) => return None,
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    async fn look_up(&self) -> Result<bool, Error> {
        let connection = self.store.connections.take().await?;
        // If this look-up is aborted, its connection must not return to the pool with the lock.
        let mut connection = Discarded(Some(connection));
        let client = connection.0.as_mut().expect("taken on drop");
        let transaction = client.transaction().await.map_err(failed)?;
        let store = &self.store.store;
        transaction.query(LOCK, &[store]).await.map_err(failed)?;
        let key = self.first_key.borrow().clone();
        let found = match (self.first.get(), key) {
            (Some(first), _) => {
                let sql = "SELECT batch = $3 FROM kenning.log WHERE store = $1 AND tx_id = $2 AND seq = 0";
                transaction.query_opt(sql, &[store, &number(first), &&self.batch[..]]).await
            }
            (None, Some((actor, key, crc))) => {
                let sql =
                    "SELECT crc = $4 FROM kenning.remembered WHERE store = $1 AND actor = $2 AND key = $3";
                transaction.query_opt(sql, &[store, &text(&actor), &text(&key), &crc]).await
            }
            // The commit wrote nothing, so there is nothing to look up.
            (None, None) => return Ok(true),
        };
        let took_place = found.map_err(failed)?.and_then(|row| row.get::<_, Option<bool>>(0));
        transaction.rollback().await.map_err(failed)?;
        drop(connection.0.take());
        Ok(took_place == Some(true))
    }
}

/// A connection that is closed unless it is taken out.
struct Discarded(Option<Object>);

impl Drop for Discarded {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            discard(connection);
        }
    }
}

enum Ended {
    Committed,
    Refused(Error),
    Unknown,
}

async fn prepared(
    connection: &Object,
    statements: &[Statement],
) -> Result<Vec<tokio_postgres::Statement>, Error> {
    let mut prepared = Vec::with_capacity(statements.len());
    for statement in statements {
        prepared.push(connection.prepare_cached(statement.sql).await.map_err(failed)?);
    }
    Ok(prepared)
}

fn changing<'a>(
    connection: &'a Object,
    statement: &'a Statement,
    prepared: &'a tokio_postgres::Statement,
) -> Asking<'a> {
    let parameters = statement.parameters();
    Box::pin(async move { connection.execute(prepared, &parameters).await.map(Done::Changed) })
}

/// The rows of the question, if every statement did what it should. Each result is looked at: after a refused statement, the
/// server calls a COMMIT that rolled back a success.
fn checked(
    done: Vec<Result<Done, tokio_postgres::Error>>,
    statements: &[Statement],
) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    for (place, done) in done.into_iter().enumerate() {
        match done.map_err(failed)? {
            Done::Changed(rows) => {
                let expected = statements.get(place).and_then(|statement| statement.rows);
                if expected.is_some_and(|expected| expected as u64 != rows) {
                    return Err(Error::Bug { what: format!("a statement has written {rows} rows") });
                }
            }
            Done::Rows(rows) => found = rows,
            Done::Ended => {}
        }
    }
    Ok(found)
}

impl Asked for Writing<'_> {
    fn store(&self) -> i32 {
        self.store.store
    }

    fn id(&self) -> Result<StoreId, Error> {
        Ok(self.standing.get().head.store)
    }

    fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.send(Some((sql, parameters)))
    }

    fn checksum(&self, _: TxId) -> Option<u32> {
        None
    }

    fn standing(&self) -> Result<Standing, Error> {
        Ok(self.standing.get())
    }

    fn places(&self, _: Option<TxId>) -> Result<Arc<Places>, Error> {
        let known = self.places.borrow().clone();
        let standing = self.standing.get();
        let places = match known {
            Some(places) if !self.is_tree_changed.get() => return Ok(places),
            None if !self.is_tree_changed.get() => {
                let known = self.store.known_places().clone();
                // The lock keeps others from changing anything, so this is the newest state.
                if known.at >= standing.tree { known } else { self.read_places(&known)? }
            }
            known => {
                let known = known.unwrap_or_else(|| self.store.known_places().clone());
                self.read_places(&known)?
            }
        };
        self.is_tree_changed.set(false);
        self.places.replace(Some(places.clone()));
        Ok(places)
    }
}

impl Writing<'_> {
    fn read_places(&self, known: &Places) -> Result<Arc<Places>, Error> {
        let mut places = known.clone();
        let to = self.standing.get().head.tx;
        places.read_on(self.store.store, to, &|sql, parameters| self.query(sql, parameters))?;
        Ok(Arc::new(places))
    }
}

/// Scopes for a derivation, which asks for them only after a change of one.
impl LiveScopes for Writing<'_> {
    fn scopes_in(&self, namespace: Id) -> Result<Vec<(Id, Scope)>, Error> {
        self.places(None)?.scopes_in(namespace)
    }

    fn default_of(&self, namespace: Id) -> Result<Option<(Id, Scope)>, Error> {
        self.places(None)?.default_of(namespace)
    }

    fn numbered(&self, number: ScopeId) -> Result<Option<(Id, Scope)>, Error> {
        self.places(None)?.numbered(number)
    }

    fn closures_in(&self, namespace: Id) -> Result<std::collections::BTreeMap<ScopeId, Vec<ScopeId>>, Error> {
        self.places(None)?.closures_in(namespace)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // If the rollback fails, the connection is closed, which also rolls back.
        let Some(connection) = self.connection.take() else { return };
        let connections = &self.store.connections;
        let rolled_back = connections.wait(async {
            connections.count_round_trip();
            tokio::time::timeout(PATIENCE, connection.batch_execute("ROLLBACK")).await
        });
        match rolled_back {
            Ok(Ok(())) => drop(connection),
            _ => discard(connection),
        }
    }
}

impl Pending for PostgresPending<'_> {
    fn reader(&self) -> &dyn Reader {
        &self.sql
    }

    fn append_rows(&mut self, rows: &[LogRow], tx: &Transaction) -> Result<(), Error> {
        let writing = &self.sql.0;
        let derived = derive(tx, writing)?;
        let is_place =
            |entity_type: EntityType| matches!(entity_type, EntityType::Namespace | EntityType::Scope);
        let changes_tree = tx.changes.iter().any(|change| is_place(change.entity_type))
            || derived.operations.iter().any(|operation| {
                matches!(operation, RowOperation::OpenClosure { .. } | RowOperation::CloseClosure { .. })
            });
        let mut standing = writing.standing.get();
        standing.head.tx = tx.id;
        if changes_tree {
            standing.tree = tx.id;
            writing.is_tree_changed.set(true);
        }
        writing.standing.set(standing);
        if writing.first.get().is_none() {
            writing.first.set(Some(tx.id));
        }
        let is_large = {
            let mut collected = writing.collected.borrow_mut();
            collected.bytes +=
                rows.iter().filter_map(|row| row.body.as_ref()).map(String::len).sum::<usize>();
            collected.log.extend_from_slice(rows);
            collected.derived.add(&derived);
            collected.is_large()
        };
        match is_large {
            true => writing.send(None).map(drop),
            false => Ok(()),
        }
    }

    fn remember(&mut self, actor: &str, key: &str, value: &Remembered) -> Result<(), Error> {
        let writing = &self.sql.0;
        let crc = remembered_checksum(actor, key, value);
        writing.first_key.borrow_mut().get_or_insert_with(|| (actor.to_owned(), key.to_owned(), crc));
        let own = |value: &str| text(value).into_owned();
        let statement = Statement::new(
            "INSERT INTO kenning.remembered (store, actor, key, tool, digest, reply, at, crc)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (store, actor, key) DO UPDATE
             SET tool = excluded.tool, digest = excluded.digest, reply = excluded.reply, at = excluded.at, crc = excluded.crc",
            values![
                writing.store.store,
                own(actor),
                own(key),
                own(&value.tool),
                own(&value.digest),
                own(&value.reply),
                value.at.as_millisecond(),
                crc,
            ],
            Some(1),
        );
        writing.collected.borrow_mut().others.push(statement);
        Ok(())
    }

    fn forget_before(&mut self, at: Timestamp) -> Result<(), Error> {
        let writing = &self.sql.0;
        let statement = Statement::new(
            "DELETE FROM kenning.remembered WHERE store = $1 AND at < $2",
            values![writing.store.store, at.as_millisecond()],
            None,
        );
        writing.collected.borrow_mut().others.push(statement);
        Ok(())
    }

    fn overwrite(&mut self, rows: &[LogRow]) -> Result<(), Error> {
        let writing = &self.sql.0;
        let store = writing.store.store;
        for rows in rows.chunks(OVERWRITTEN) {
            let mut versions = Vec::with_capacity(rows.len());
            for row in rows {
                if let Some(record) = row.record()? {
                    versions.push(VersionRow::new(
                        row.tx_id as i64,
                        row.seq,
                        row.id()?,
                        &Columns::of(&record),
                    ));
                }
            }
            let log = Statement::new(
                "UPDATE kenning.log AS l SET body = c.body, crc = c.crc
                 FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[]) AS c(tx_id, seq, body, crc)
                 WHERE l.store = $1 AND l.tx_id = c.tx_id AND l.seq = c.seq",
                values![
                    store,
                    column!(rows, row => row.tx_id as i64),
                    column!(rows, row => row.seq as i32),
                    column!(rows, row => row.body.clone()),
                    column!(rows, row => row.crc),
                ],
                Some(rows.len()),
            );
            let version = Statement::new(
                "UPDATE kenning.version AS v SET topic_key = c.topic_key, subject_key = c.subject_key,
                     predicate_key = c.predicate_key, object_key = c.object_key, source = c.source, path = c.path,
                     hash = c.hash, pattern = c.pattern
                 FROM unnest($2::bigint[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                     $10::text[], $11::text[])
                     AS c(tx_from, seq, topic_key, subject_key, predicate_key, object_key, source, path, hash, pattern)
                 WHERE v.store = $1 AND v.tx_from = c.tx_from AND v.seq = c.seq",
                values![
                    store,
                    column!(versions, row => row.tx_from),
                    column!(versions, row => row.seq),
                    column!(versions, row => row.topic_key.clone()),
                    column!(versions, row => row.subject_key.clone()),
                    column!(versions, row => row.predicate_key.clone()),
                    column!(versions, row => row.object_key.clone()),
                    column!(versions, row => row.source.clone()),
                    column!(versions, row => row.path.clone()),
                    column!(versions, row => row.hash.clone()),
                    column!(versions, row => row.pattern.clone()),
                ],
                Some(versions.len()),
            );
            writing.collected.borrow_mut().others.extend([log, version]);
            writing.send(None).map_err(|error| match error {
                Error::Forbidden { .. } => Error::Forbidden {
                    what: "only the role that owns the schema `kenning` may overwrite rows of the log; run it with that role's URL"
                        .to_owned(),
                },
                other => other,
            })?;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<(), Error> {
        let writing = &self.sql.0;
        let (id, secret) = (rand::random::<[u8; 16]>(), rand::random::<[u8; 32]>());
        let crc = info_checksum(&id, &secret);
        writing.collected.borrow_mut().others.push(Statement::new(
            "UPDATE kenning.store SET id = $2, secret = $3, crc = $4 WHERE store = $1",
            values![writing.store.store, id.to_vec(), secret.to_vec(), crc],
            Some(1),
        ));
        // Files that servers have left contain words of the old text. Without its row a server that is leaving files at this moment
        // loses its claim, so the rows go first.
        for sql in [
            "DELETE FROM kenning.file_set WHERE store = $1",
            "DELETE FROM kenning.file_part WHERE store = $1",
        ] {
            let delete = Statement::new(sql, values![writing.store.store], None);
            writing.collected.borrow_mut().others.push(delete);
        }
        let mut standing = writing.standing.get();
        standing.head.store = StoreId(id);
        writing.standing.set(standing);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), Error> {
        self.sql.0.commit()
    }
}
