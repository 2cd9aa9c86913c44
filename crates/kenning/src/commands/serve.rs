//! `kenning serve`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use kenning_engine::Engine;
use kenning_model::{DEFAULT, Principal, Right, ScopeName};
use kenning_server::{Options, RowsListener};

use super::{Outcome, usage};
use crate::config::Config;

#[derive(Args, Default)]
pub struct Serve {
    /// Also serve the rows behind replies over HTTP, here; a loopback address such as 127.0.0.1:8788
    #[arg(long, env = "KENNING_ROWS_LISTEN", value_name = "ADDR")]
    rows_listen: Option<SocketAddr>,
    /// Reach these namespaces alone, each with a right (read, write, share, admin): acme,docs=read [default right: admin]
    #[arg(long, env = "KENNING_NAMESPACES", value_name = "NAME[=RIGHT],…", value_delimiter = ',')]
    namespaces: Vec<String>,
}

pub fn run(config: &Config, serve: Serve) -> anyhow::Result<Outcome> {
    let (engine, mut options) = (config.engine()?, config.options()?);
    if !serve.namespaces.is_empty() {
        confine(&engine, &mut options, &serve.namespaces)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = engine.clone();
    let served = runtime.block_on(async {
        survive_file_limits();
        let rows = match serve.rows_listen {
            Some(address) if !address.ip().is_loopback() => {
                return Err(usage(format!(
                    "rows are served on this machine only; {address} is no loopback address"
                )));
            }
            // Another session may have the port: memory is worth more than rows over HTTP.
            Some(address) => RowsListener::bind(address)
                .await
                .inspect_err(|error| tracing::warn!("rows are not served over HTTP: {error}"))
                .ok(),
            None => None,
        };
        tokio::select! {
            served = kenning_server::serve_stdio(engine, options, rows) => Ok(served?),
            () = asked_to_stop() => anyhow::Ok(()),
        }
    });
    // Calls that still run may end with the process: what they have not committed is not acknowledged.
    runtime.shutdown_background();
    store.close();
    served?;
    Ok(Outcome::Done)
}

/// Keeps all calls to some namespaces. They are known by their ids from here on, so a rename changes nothing.
fn confine(engine: &Engine, options: &mut Options, namespaces: &[String]) -> anyhow::Result<()> {
    let tree = engine.snapshot(&options.principal)?.tree()?;
    let mut rights = BTreeMap::new();
    for namespace in namespaces {
        let (name, right) = namespace.split_once('=').unwrap_or((namespace, Right::Admin.as_str()));
        let Some(right) = Right::parse(right.trim()) else {
            return Err(usage(format!(
                "`--namespaces`: there is no right `{right}`; a right is read, write, share or admin"
            )));
        };
        let Some((id, _)) = tree.namespace(name.trim()) else {
            return Err(usage(format!(
                "`--namespaces`: there is no namespace `{name}`; make it with `kenning call create_namespace`"
            )));
        };
        rights.insert(id, right);
        options.project.fallback.get_or_insert_with(|| ScopeName::new(name.trim(), DEFAULT));
    }
    options.principal = Arc::new(Principal::confined("", options.principal.origin.clone(), rights));
    Ok(())
}

/// Past a file size limit the system sends a signal that kills; with a handler the write fails instead, and the
/// failure is reported like a full disk.
fn survive_file_limits() {
    #[cfg(target_os = "linux")]
    {
        const SIGXFSZ: i32 = 25;
        let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
        if let Err(error) = tokio::signal::unix::signal(kind) {
            tracing::warn!("a file size limit would end this process: {error}");
        }
    }
}

async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let hears = |kind| async move {
            match signal(kind) {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hears(SignalKind::terminate()) => {}
            () = hears(SignalKind::interrupt()) => {}
            () = hears(SignalKind::hangup()) => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
