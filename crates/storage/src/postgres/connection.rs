//! Connections: a bounded pool, one deadline for everything that is waited for, and what a failure means for the caller.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::address::DatabaseUrl;
use super::hosts::Hosts;
use super::tls::Tls;
use crate::{Applied, Error};

/// A caller learns within this time that the database does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// A request holds a connection for one statement at a time, and a writer for its transaction.
const CONNECTIONS_MAX: usize = 16;

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The connections of one store.
pub(super) struct Connections {
    /// Runs the I/O of the connections and nothing else: callers wait on their own threads.
    runtime: Option<tokio::runtime::Runtime>,
    pool: Pool,
    hosts: Hosts,
    round_trips: AtomicU64,
}

impl Drop for Connections {
    fn drop(&mut self) {
        // Waiting for the tasks would panic on a thread that runs another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connections {
    /// Connects to nothing yet. The settings hold for every connection from its start.
    pub(super) fn new(url: &DatabaseUrl, settings: &[(&str, &str)]) -> Result<Connections, Error> {
        let unavailable = |reason: String| Error::Unavailable {
            applied: Applied::No,
            reason: format!("no connection: {reason}"),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kenning-postgres")
            .enable_all()
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        let mut configs = url.hosts.clone();
        for config in &mut configs {
            let mut options = config.get_options().unwrap_or_default().to_owned();
            for (name, value) in settings {
                options.push_str(&format!(" -c {name}={value}"));
            }
            config.options(options.trim());
        }
        let hosts = Hosts::new(configs, Tls::new(&url.tls)?);
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // How the hosts are reached is theirs to know; the address is not used.
        let manager = Manager::from_connect(tokio_postgres::Config::new(), hosts.clone(), manager);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        Ok(Connections { runtime: Some(runtime), pool, hosts, round_trips: AtomicU64::new(0) })
    }

    /// Waits on this thread, whatever runtime it may belong to.
    pub(super) fn wait<T>(&self, asked: impl Future<Output = T>) -> T {
        let _entered = self.runtime.as_ref().map(|runtime| runtime.enter());
        futures::executor::block_on(asked)
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// How a connection beside the pool is made.
    pub(super) fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    /// How often an answer of the server was waited for.
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// How many connections there are, busy and idle.
    pub(super) fn open(&self) -> usize {
        self.pool.status().size
    }

    /// Closes the connections that nobody uses: after one of them went silent, the others most likely did too.
    pub(super) fn forget_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    pub(super) fn count_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) async fn take(&self) -> Result<Object, Error> {
        let waited = tokio::time::timeout(PATIENCE, self.pool.get()).await;
        waited.map_err(|_| silent())?.map_err(|error| match error {
            PoolError::Backend(error) => failed(error),
            PoolError::Timeout(_) => silent(),
            other => Error::Unavailable { applied: Applied::No, reason: other.to_string() },
        })
    }

    /// One question in one round trip. A question changes nothing, so it is asked again where the connection turns out to have
    /// been lost since it was last used.
    pub(super) fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.wait(async {
            for is_last in [false, true] {
                let connection = self.take().await?;
                match self.query_on(connection, sql, parameters).await {
                    Err(Asking::Lost(_)) if !is_last => continue,
                    Err(Asking::Lost(error) | Asking::Refused(error)) => return Err(error),
                    Ok(rows) => return Ok(rows),
                }
            }
            unreachable!("the last round returns")
        })
    }

    async fn query_on(
        &self,
        connection: Object,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Asking> {
        self.count_round_trip();
        let asked = async {
            let statement = connection.prepare_cached(sql).await?;
            connection.query(&statement, parameters).await
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if is_lost(&error) => {
                self.forget_idle();
                discard(connection);
                Err(Asking::Lost(failed(error)))
            }
            Ok(Err(error)) => Err(Asking::Refused(failed(error))),
            // The answer may still come, and must not be taken for that of the next question.
            Err(_) => {
                self.forget_idle();
                discard(connection);
                Err(Asking::Refused(silent()))
            }
        }
    }
}

enum Asking {
    Lost(Error),
    Refused(Error),
}

/// Closes a connection instead of giving it back.
pub(super) fn discard(connection: Object) {
    drop(Object::take(connection));
}

pub(super) fn silent() -> Error {
    let reason = format!("the database has not answered for {} seconds", PATIENCE.as_secs());
    Error::Unavailable { applied: Applied::No, reason }
}

/// Whether the connection is gone, as opposed to a statement that was refused.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.code().is_none_or(|code| {
            // A server that takes no writes is a standby by now, and another one is what is looked for.
            let gone = [
                &SqlState::ADMIN_SHUTDOWN,
                &SqlState::CRASH_SHUTDOWN,
                &SqlState::CANNOT_CONNECT_NOW,
                &SqlState::READ_ONLY_SQL_TRANSACTION,
            ];
            code.code().starts_with("08") || gone.contains(&code)
        })
}

/// Maps an error to what a caller can do about it, without addresses or SQL.
pub(super) fn failed(error: tokio_postgres::Error) -> Error {
    let unavailable = |reason: &str| Error::Unavailable { applied: Applied::No, reason: reason.to_owned() };
    let Some(code) = error.code() else {
        // Either the connection failed, or a value did not fit its column, which is a bug.
        if std::error::Error::source(&error)
            .is_some_and(|source| source.is::<tokio_postgres::types::WrongType>())
        {
            return Error::Bug { what: error.to_string() };
        }
        tracing::debug!(%error, "the connection to the database failed");
        // Said by the client, which asks each server whether it takes writes.
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        if source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied) {
            return unavailable("the database is read-only at the moment");
        }
        return unavailable("there is no connection to the database");
    };
    let state = code.code();
    match state {
        "53300" => unavailable("the database has no connection left"),
        "53100" => unavailable("the disk of the database is full"),
        "25006" => unavailable("the database is read-only at the moment"),
        "55P03" => unavailable("another server has been writing for too long"),
        "57014" => unavailable("the database has ended a statement that took too long"),
        "57P01" | "57P02" | "57P03" => unavailable("the database is starting or stopping"),
        "3D000" => Error::Forbidden { what: "there is no such database on the server".to_owned() },
        "42501" => Error::Forbidden { what: "the database role lacks a right; docs/team.md lists them".to_owned() },
        "42P01" | "3F000" | "42703" => Error::Forbidden {
            what: "the database has no schema `kenning` that this program knows; open it once with a role that may make it"
                .to_owned(),
        },
        _ if state.starts_with("28") => {
            Error::Forbidden { what: "the database refuses this user or password".to_owned() }
        }
        _ if state.starts_with("08") || state.starts_with("53") || state.starts_with("40") => {
            unavailable("the database can't answer at the moment")
        }
        _ if state == "XX001" || state == "XX002" => Error::damaged("PostgreSQL reports damage to its files"),
        _ => {
            let what = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
            Error::Bug { what: format!("{state}: {what}") }
        }
    }
}
