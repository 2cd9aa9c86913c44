//! The backend on PostgreSQL: one log for many servers. A server keeps nothing of the store but caches, so any number of them
//! may serve the same store, and one database holds any number of stores.

mod address;
mod connection;
mod ears;
mod hosts;
mod left_files;
mod pending;
mod places;
mod reader;
mod rows;
mod schema;
mod tls;
mod verify;

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kenning_model::TxId;
use tokio_postgres::{Client, Row};

use self::connection::{Connections, Parameters, failed};
use self::ears::Ears;
use self::places::Places;
use self::reader::{Asked, Sql, Standing};
use self::rows::{get, tx};
use crate::backend::{
    Backend, Damage, FileSet, Head, LeftFile, Pending, ReadFile, Reader, StoreId, StoreInfo, Verified,
};
use crate::log_row::checksum;
use crate::{Applied, Error};

pub use address::{DEFAULT_STORE, DatabaseUrl};

/// The settings of every connection. A statement that waits for the write lock gives up before its caller
/// does. The lock of a server that went silent inside a transaction is released.
const SETTINGS: [(&str, &str); 4] = [
    ("lock_timeout", "4500ms"),
    ("idle_in_transaction_session_timeout", "20s"),
    ("default_transaction_isolation", "read\\ committed"),
    // Questions are short; compiling them takes longer than answering them.
    ("jit", "off"),
];

pub struct Postgres {
    connections: Connections,
    /// The number that stands for the store in every key.
    store: i32,
    /// The id that the store had when it was looked at last.
    seen: Mutex<StoreId>,
    info: Mutex<Option<StoreInfo>>,
    checksum: Mutex<Option<(TxId, u32)>>,
    places: Mutex<Arc<Places>>,
    ears: Ears,
}

impl Postgres {
    /// Opens the store and makes it if there is none; brings the schema of the database up to date if that is needed.
    pub fn open(url: &DatabaseUrl) -> Result<Postgres, Error> {
        Postgres::opened(url, true)
    }

    /// Opens the store that must be there already, and changes nothing.
    pub fn open_existing(url: &DatabaseUrl) -> Result<Postgres, Error> {
        Postgres::opened(url, false)
    }

    /// Whether the database has the store.
    pub fn is_there(url: &DatabaseUrl) -> Result<bool, Error> {
        let gate = Gate::new(url)?;
        gate.0.wait(async {
            let client = gate.0.take().await?;
            if !schema::is_made(&client).await? {
                return Ok(false);
            }
            Ok(number_of(&client, url.store()).await?.is_some())
        })
    }

    fn opened(url: &DatabaseUrl, creates: bool) -> Result<Postgres, Error> {
        let gate = Gate::new(url)?;
        let missing = || {
            let reason = format!("there is no store `{}` in the database yet", url.store());
            Error::Unavailable { applied: Applied::No, reason }
        };
        let store = gate.0.wait(async {
            let mut client = gate.0.take().await?;
            if !schema::is_usable(&client).await? {
                if !creates {
                    let outdated = schema::is_made(&client).await?;
                    return Err(if outdated { schema::outdated() } else { missing() });
                }
                schema::migrate(&mut client).await?;
            }
            match number_of(&client, url.store()).await? {
                Some(store) => Ok(store),
                None if !creates => Err(missing()),
                None => create(&client, url.store()).await,
            }
        })?;
        drop(gate);
        let number = store.to_string();
        let settings = [("kenning.store_name", url.store()), ("kenning.store", &number)];
        let connections = Connections::new(url, &[&settings[..], &SETTINGS].concat())?;
        let (places, ears) = (Mutex::default(), Ears::new(store));
        let opened = Postgres {
            connections,
            store,
            seen: Mutex::default(),
            info: Mutex::default(),
            checksum: Mutex::default(),
            places,
            ears,
        };
        opened.standing()?;
        Ok(opened)
    }

    /// How many connections are open, busy and idle.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    fn pooled(&self) -> Pooled<'_> {
        Pooled { store: self, known: Cell::new(None) }
    }

    fn known_places(&self) -> MutexGuard<'_, Arc<Places>> {
        locked(&self.places)
    }

    /// Namespaces and scopes, at least up to this standing of the store.
    fn places_at(&self, standing: Standing) -> Result<Arc<Places>, Error> {
        let known = self.known_places().clone();
        if known.at >= standing.tree {
            return Ok(known);
        }
        let mut places = Places::clone(&known);
        places.read_on(self.store, standing.head.tx, &|sql, parameters| {
            self.connections.query(sql, parameters)
        })?;
        let places = Arc::new(places);
        let mut known = self.known_places();
        if known.at < places.at {
            *known = places.clone();
        }
        Ok(places)
    }

    fn standing(&self) -> Result<Standing, Error> {
        let rows = self.connections.query(STANDING, &[&self.store])?;
        let standing = standing_of(rows.first())?;
        *locked(&self.seen) = standing.head.store;
        if let Some(row) = rows.first()
            && let Some(sums) = get::<Option<Vec<i64>>>(row, 3)?.filter(|sums| sums.len() <= SUMMED_MAX)
        {
            *self.known_checksum() = Some((standing.head.tx, transaction_checksum(&sums)));
        }
        Ok(standing)
    }

    /// The checksum of the transaction that was the newest at the last look. It stays valid, because the log
    /// only grows.
    fn known_checksum(&self) -> MutexGuard<'_, Option<(TxId, u32)>> {
        locked(&self.checksum)
    }

    fn read_info(&self) -> Result<StoreInfo, Error> {
        let sql = "SELECT id, secret, crc FROM kenning.store WHERE store = $1";
        let rows = self.connections.query(sql, &[&self.store])?;
        let row = rows.first().ok_or_else(dropped)?;
        let (id, secret): (&[u8], &[u8]) = (get(row, 0)?, get(row, 1)?);
        let damaged = || Error::damaged("the store's row in `kenning.store` does not match its checksum");
        if info_checksum(id, secret) != get::<i64>(row, 2)? {
            return Err(damaged());
        }
        let id = StoreId(id.try_into().map_err(|_| damaged())?);
        Ok(StoreInfo { id, secret: secret.try_into().map_err(|_| damaged())? })
    }
}

/// The guarded values are only ever replaced as a whole, so a poisoned lock still guards a sound value.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The checksum of a transaction from those of its rows.
fn transaction_checksum(sums: &[i64]) -> u32 {
    sums.iter().fold(0, |sum, row| crc32c::crc32c_append(sum, &row.to_le_bytes()))
}

/// The head of the store, and the checksums of its last transaction unless that one is large.
const STANDING: &str = "SELECT s.head, s.tree, s.id, (
         SELECT array_agg(l.crc) FROM (
             SELECT crc FROM kenning.log WHERE store = s.store AND tx_id = s.head ORDER BY seq LIMIT 65
         ) AS l)
     FROM kenning.store AS s WHERE s.store = $1";
/// A transaction with more rows than this counts as large.
const SUMMED_MAX: usize = 64;
/// Only the head of the store, and it is locked. A statement that reads more would read a snapshot from
/// before it got the lock.
const LOCK: &str = "SELECT head, tree, id FROM kenning.store WHERE store = $1 FOR UPDATE";

fn standing_of(row: Option<&Row>) -> Result<Standing, Error> {
    let row = row.ok_or_else(dropped)?;
    let damaged = |_| Error::damaged("the id of the store has another length");
    let store = StoreId(get::<Vec<u8>>(row, 2)?.try_into().map_err(damaged)?);
    Ok(Standing { head: Head { store, tx: tx(row, 0)? }, tree: tx(row, 1)? })
}

fn dropped() -> Error {
    Error::Unavailable { applied: Applied::No, reason: "the store was dropped from the database".to_owned() }
}

/// Connections of a store whose number is not known yet: they see its row, and no row of any other table.
struct Gate(Connections);

impl Gate {
    fn new(url: &DatabaseUrl) -> Result<Gate, Error> {
        let settings = [("kenning.store_name", url.store()), ("kenning.store", "0")];
        Ok(Gate(Connections::new(url, &[&settings[..], &SETTINGS].concat())?))
    }
}

async fn number_of(client: &Client, name: &str) -> Result<Option<i32>, Error> {
    let row = client
        .query_opt("SELECT store FROM kenning.store WHERE name = $1", &[&name])
        .await
        .map_err(failed)?;
    row.map(|row| get(&row, 0)).transpose()
}

async fn create(client: &Client, name: &str) -> Result<i32, Error> {
    let (id, secret) = (rand::random::<[u8; 16]>(), rand::random::<[u8; 32]>());
    let crc = info_checksum(&id, &secret);
    let parameters: Parameters<'_> = &[&name, &&id[..], &&secret[..], &crc];
    client
        .execute(
            "INSERT INTO kenning.store (name, id, secret, crc) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
            parameters,
        )
        .await
        .map_err(failed)?;
    // Another server may have created the store in the meantime.
    number_of(client, name)
        .await?
        .ok_or_else(|| Error::Bug { what: "a new store can't be found in the database".to_owned() })
}

fn info_checksum(id: &[u8], secret: &[u8]) -> i64 {
    checksum(&[b"id", id, b"secret", secret])
}

impl Backend for Postgres {
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Error> {
        Ok(Box::new(Sql(self.pooled())))
    }

    fn begin(&self) -> Result<Box<dyn Pending + '_>, Error> {
        Ok(Box::new(pending::begin(self)?))
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<Verified, Error> {
        verify::verify(self, report)
    }

    fn info(&self) -> Result<StoreInfo, Error> {
        // Id and secret change together, and every request begins with a look at the id.
        let seen = *locked(&self.seen);
        if let Some(info) = locked(&self.info).filter(|info| info.id == seen) {
            return Ok(info);
        }
        let info = self.read_info()?;
        *locked(&self.info) = Some(info);
        Ok(info)
    }

    fn wait(&self, seen: Option<Head>, patience: Duration) -> Result<Head, Error> {
        self.ears.wait(self, seen, patience)
    }

    fn mend(&self) -> Result<bool, Error> {
        verify::mend(self)
    }

    fn checkpoint(&self) -> Result<(), Error> {
        // PostgreSQL decides by itself when its write-ahead log is taken into the tables.
        Ok(())
    }

    fn scrub(&self) -> Result<(), Error> {
        verify::scrub(self)
    }

    fn leave_files(&self, set: &FileSet, read: ReadFile<'_>) -> Result<bool, Error> {
        left_files::leave(self, set, read)
    }

    fn left_files(&self, name: &str) -> Result<Option<FileSet>, Error> {
        left_files::find(self, name)
    }

    fn read_left_file(
        &self,
        set: &FileSet,
        file: &LeftFile,
        take: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<bool, Error> {
        left_files::read(self, set, file, take)
    }

    fn forget_left_files(&self, set: &FileSet) -> Result<(), Error> {
        left_files::forget(self, set)
    }

    fn keeps_files(&self) -> bool {
        true
    }

    fn round_trips(&self) -> u64 {
        self.connections.round_trips()
    }
}

/// Takes a free connection for each query, so that a reader that is kept open holds no connection.
struct Pooled<'a> {
    store: &'a Postgres,
    known: Cell<Option<Standing>>,
}

impl Asked for Pooled<'_> {
    fn store(&self) -> i32 {
        self.store.store
    }

    fn id(&self) -> Result<StoreId, Error> {
        Ok(self.known.get().map_or_else(|| self.standing(), Ok)?.head.store)
    }

    fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.store.connections.query(sql, parameters)
    }

    fn checksum(&self, at: TxId) -> Option<u32> {
        self.store.known_checksum().filter(|(tx, _)| *tx == at).map(|(_, sum)| sum)
    }

    fn standing(&self) -> Result<Standing, Error> {
        let standing = self.store.standing()?;
        self.known.set(Some(standing));
        Ok(standing)
    }

    fn places(&self, at: Option<TxId>) -> Result<Arc<Places>, Error> {
        let known = self.known.get().filter(|known| at.is_none_or(|at| at <= known.head.tx));
        let standing = known.map_or_else(|| self.standing(), Ok)?;
        self.store.places_at(standing)
    }
}
