//! A connection to whichever host of an address can be used: after a failover that is another one than before.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use super::connection::PATIENCE;
use super::tls::{Encrypted, Tls};

/// So much of the time that a caller waits is left for the question itself.
const LEFT_FOR_THE_QUESTION: Duration = Duration::from_millis(500);

type Connected = (Client, Connection<Socket, Encrypted<Socket>>);
type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

/// The hosts, of which the one that answered last is tried first.
#[derive(Clone)]
pub(super) struct Hosts {
    configs: Arc<Vec<Config>>,
    last: Arc<AtomicUsize>,
    tls: Tls,
}

impl Hosts {
    pub(super) fn new(configs: Vec<Config>, tls: Tls) -> Hosts {
        Hosts { configs: Arc::new(configs), last: Arc::default(), tls }
    }

    /// Each host has its share of the time: one that takes the connection and says nothing must not keep anybody from the next one. There
    /// is no error to return if none of them says anything.
    pub(super) async fn connect(&self) -> Result<Connected, Option<Error>> {
        let many = self.configs.len();
        let share = (PATIENCE - LEFT_FOR_THE_QUESTION) / many.max(1) as u32;
        let first = self.last.load(Ordering::Relaxed);
        let mut refused = None;
        for place in (0..many).map(|next| (first + next) % many) {
            match tokio::time::timeout(share, self.configs[place].connect(self.tls.clone())).await {
                Ok(Ok(connected)) => {
                    self.last.store(place, Ordering::Relaxed);
                    return Ok(connected);
                }
                // An error that a server reports says more than the fact that another server does not answer.
                Ok(Err(error)) if refused.as_ref().is_none_or(|known: &Error| known.code().is_none()) => {
                    refused = Some(error);
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Err(refused)
    }
}

impl Connect for Hosts {
    fn connect(&self, _: &Config) -> Connecting<'_> {
        Box::pin(async move {
            let (client, connection) = match Hosts::connect(self).await {
                Ok(connected) => connected,
                Err(Some(error)) => return Err(error),
                // The pool waits for a connection as long as it may.
                Err(None) => return std::future::pending().await,
            };
            let driven = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to the database ended");
                }
            });
            Ok((client, driven))
        })
    }
}
