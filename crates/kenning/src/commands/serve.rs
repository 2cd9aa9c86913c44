//! `kenning serve`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use kenning_engine::Engine;
use kenning_model::{DEFAULT, Id, Principal, Right, ScopeName};
use kenning_server::http::keys::Keys;
use kenning_server::http::{Authentication, HttpListener, HttpOptions};
use kenning_server::{Options, RowsListener};
use tokio_util::sync::CancellationToken;

use super::{Outcome, complain, usage};
use crate::config::Config;

#[derive(Args, Default)]
pub struct Serve {
    /// Also serve the rows behind replies over HTTP, here; a loopback address such as 127.0.0.1:8788
    #[arg(long, env = "KENNING_ROWS_LISTEN", value_name = "ADDR")]
    rows_listen: Option<SocketAddr>,
    /// Reach these namespaces alone, each with a right (read, write, share, admin): acme,docs=read [default right: admin]
    #[arg(long, env = "KENNING_NAMESPACES", value_name = "NAME[=RIGHT],…", value_delimiter = ',')]
    namespaces: Vec<String>,
    #[command(flatten)]
    http: Http,
}

/// MCP over HTTP instead of standard streams.
#[derive(Args, Default)]
pub struct Http {
    /// Speak MCP over HTTP at this address, such as 127.0.0.1:8787, under the path /mcp
    #[arg(long = "http", env = "KENNING_HTTP", value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// How callers prove who they are [default: none on a loopback address]
    #[arg(long, env = "KENNING_AUTH", requires = "address")]
    auth: Option<Auth>,
    /// Further names under which clients address the server: kenning.example,kenning.example:8443
    #[arg(
        long,
        env = "KENNING_ALLOWED_HOSTS",
        value_name = "HOST,…",
        value_delimiter = ',',
        requires = "address"
    )]
    allowed_hosts: Vec<String>,
    /// Web pages that may address the server: https://app.example [default: none]
    #[arg(
        long,
        env = "KENNING_ALLOWED_ORIGINS",
        value_name = "ORIGIN,…",
        value_delimiter = ',',
        requires = "address"
    )]
    allowed_origins: Vec<String>,
    /// Where clients reach the server if not at its own address: https://kenning.example
    #[arg(long, env = "KENNING_PUBLIC_URL", value_name = "URL", requires = "address")]
    public_url: Option<String>,
    /// How many requests each key may make in a second; twice as many at once [default: 100]
    #[arg(long, env = "KENNING_REQUESTS_PER_SECOND", value_name = "NUMBER", requires = "address")]
    requests_per_second: Option<NonZeroU32>,
    /// Listen beyond this machine without TLS, because a proxy before the server has it
    #[arg(long, env = "KENNING_BEHIND_PROXY", requires = "address", value_parser = FalseyValueParser::new())]
    behind_proxy: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Auth {
    /// Whoever reaches the port may do everything
    None,
    /// A key that `kenning token create` has made, as `Authorization: Bearer KEY`
    Keys,
}

/// An agent that works in parallel makes some ten calls in a second.
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

impl Http {
    /// What of it is safe, or why it is not.
    fn options(&self, config: &Config, address: SocketAddr) -> anyhow::Result<HttpOptions> {
        let is_local = address.ip().is_loopback();
        let auth = match self.auth {
            Some(auth) => auth,
            None if is_local => Auth::None,
            None => {
                return Err(usage(format!(
                    "{address} can be reached from other machines, so callers must prove who they are: make a key with \
                     `kenning token create NAME` and start with `--auth keys`, or listen on 127.0.0.1"
                )));
            }
        };
        if !is_local && auth == Auth::None {
            return Err(usage(format!(
                "`--auth none` is for loopback addresses; {address} can be reached from other machines"
            )));
        }
        if !is_local && !self.behind_proxy {
            return Err(usage(format!(
                "keys would cross the network unencrypted at {address}: put a proxy with TLS before the server and say so \
                 with `--behind-proxy`, or listen on 127.0.0.1"
            )));
        }
        let authentication = match auth {
            Auth::None => Authentication::None,
            Auth::Keys => Authentication::Keys(Keys::in_dir(&config.data_dir()?)),
        };
        Ok(HttpOptions {
            authentication,
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            requests_per_second: self.requests_per_second.unwrap_or(REQUESTS_PER_SECOND),
            public_url: self.public_url.clone(),
        })
    }
}

pub fn run(config: &Config, serve: Serve) -> anyhow::Result<Outcome> {
    let http = match serve.http.address {
        Some(address) => Some((address, serve.http.options(config, address)?)),
        None => None,
    };
    if http.is_some() && serve.rows_listen.is_some() {
        return Err(usage("`--http` serves rows itself; leave `--rows-listen` out"));
    }
    let (engine, mut options) = (config.engine()?, config.options()?);
    if !serve.namespaces.is_empty() {
        confine(&engine, &mut options, &serve.namespaces)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = engine.clone();
    let served = runtime.block_on(async {
        survive_file_limits();
        if let Some((address, http)) = http {
            return serve_http(engine, options, address, http).await;
        }
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

/// Serves until the process is asked to stop; requests that are under way are finished first.
async fn serve_http(
    engine: Arc<Engine>,
    options: Options,
    address: SocketAddr,
    http: HttpOptions,
) -> anyhow::Result<()> {
    let listener =
        HttpListener::bind(address).await.with_context(|| format!("{address} can't be listened on"))?;
    complain(&format!("Kenning speaks MCP at http://{}/mcp; Ctrl-C ends it", listener.address()));
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let asked = tokio::spawn(async move {
        asked_to_stop().await;
        asked.cancel();
    });
    kenning_server::http::serve_http(engine, options, http, listener, stop).await;
    asked.abort();
    Ok(())
}

/// Keeps all calls to some namespaces. They are known by their ids from here on, so a rename changes nothing.
fn confine(engine: &Engine, options: &mut Options, namespaces: &[String]) -> anyhow::Result<()> {
    let (rights, first) = rights_of(engine, &options.principal, namespaces)?;
    options.project.fallback.get_or_insert(first);
    options.principal = Arc::new(Principal::confined("", options.principal.origin.clone(), rights));
    Ok(())
}

/// Rights by namespace as people write them, such as `acme` or `docs=read`, and the `default` of the first namespace.
pub(super) fn rights_of(
    engine: &Engine,
    owner: &Principal,
    namespaces: &[String],
) -> anyhow::Result<(BTreeMap<Id, Right>, ScopeName)> {
    let tree = engine.snapshot(owner)?.tree()?;
    let (mut rights, mut first) = (BTreeMap::new(), None);
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
        first.get_or_insert_with(|| ScopeName::new(name.trim(), DEFAULT));
    }
    Ok((rights, first.unwrap_or_else(ScopeName::global_default)))
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
