//! `kenning serve`

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use kenning_engine::{Engine, Location};
use kenning_model::{DEFAULT, Id, Principal, Right, ScopeName};
use kenning_server::audit::AuditLog;
use kenning_server::connect::{Remote, RemoteToken};
use kenning_server::http::jwt::{TokenSettings, Tokens};
use kenning_server::http::keys::Keys;
use kenning_server::http::limits::CurrentLimits;
use kenning_server::http::tls::Tls;
use kenning_server::http::{Authentication, HttpListener, HttpOptions};
use kenning_server::traces::Traces;
use kenning_server::{Options, RowsListener};
use tokio_util::sync::CancellationToken;

use super::backup::rotation::Schedule;
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
    /// Note which entries were given to whom over HTTP too, ids alone; on standard streams that is noted unless --no-recall-log
    #[arg(long, env = "KENNING_RECALL_LOG", value_parser = FalseyValueParser::new())]
    recall_log: bool,
    /// Send a span for each request and each call of a tool to the OpenTelemetry collector at this address (OTLP over HTTP), such as
    /// http://127.0.0.1:4318: which tool, how it ended and how long it took, and nothing that is stored or asked for
    #[arg(long, env = "KENNING_OTLP", value_name = "URL")]
    otlp: Option<String>,
    #[command(flatten)]
    backups: Schedule,
    #[command(flatten)]
    http: Http,
    #[command(flatten)]
    connect: Connect,
}

/// Another server in the place of a store of this machine.
#[derive(Args, Default)]
pub struct Connect {
    /// Pass everything on to the Kenning server at this address, such as https://kenning.example/mcp; its key or token comes from --token-file or from KENNING_TOKEN
    #[arg(
        long = "connect",
        env = "KENNING_CONNECT",
        value_name = "URL",
        conflicts_with_all = ["address", "rows_listen", "namespaces", "otlp"]
    )]
    url: Option<String>,
    /// The file with the key or token for --connect; read again for each request
    #[arg(long, env = "KENNING_TOKEN_FILE", value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Send the token of --connect unencrypted to another machine, because the network between is trusted
    #[arg(long, env = "KENNING_PLAIN_HTTP", requires = "url", value_parser = FalseyValueParser::new())]
    plain_http: bool,
}

/// Set for a token in the environment, where a flag would show it in the list of processes.
const TOKEN_VARIABLE: &str = "KENNING_TOKEN";

impl Connect {
    fn remote(self) -> anyhow::Result<Option<Remote>> {
        let Some(url) = self.url else { return Ok(None) };
        let token = remote_token(self.token_file)?;
        Ok(Some(Remote { url, token, allows_plain_http: self.plain_http }))
    }
}

/// The key or token for a remote server: from a file, else from the environment.
pub(super) fn remote_token(file: Option<PathBuf>) -> anyhow::Result<RemoteToken> {
    let variable = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty());
    Ok(match (file, variable) {
        (Some(file), _) => {
            std::fs::read_to_string(&file).map_err(|error| {
                usage(format!("the token can't be read from {}: {error}", file.display()))
            })?;
            RemoteToken::File(file)
        }
        (None, Some(token)) => RemoteToken::Text(token),
        (None, None) => RemoteToken::None,
    })
}

/// MCP over HTTP instead of standard streams.
#[derive(Args, Default)]
pub struct Http {
    /// Speak MCP over HTTP at this address, such as 127.0.0.1:8787, under the path /mcp
    #[arg(long = "http", env = "KENNING_HTTP", value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// How callers prove who they are: none, keys, jwt, or keys,jwt [default: none on a loopback address]
    #[arg(long, env = "KENNING_AUTH", requires = "address", value_delimiter = ',')]
    auth: Vec<Auth>,
    /// The JSON file that says whose tokens are taken and what they open; see docs/operations.md
    #[arg(long, env = "KENNING_JWT", value_name = "FILE", requires = "address")]
    jwt: Option<PathBuf>,
    /// Speak TLS with the certificates of this PEM file; read again when it changes
    #[arg(long, env = "KENNING_TLS_CERT", value_name = "FILE", requires_all = ["address", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The PEM file with the private key of --tls-cert
    #[arg(long, env = "KENNING_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The JSON file with limits for callers and connections, read again when it changes; see docs/operations.md
    #[arg(long, env = "KENNING_LIMITS", value_name = "FILE", requires = "address")]
    limits: Option<PathBuf>,
    /// Append to this file who called what, and how it ended; `kenning audit verify` checks it
    #[arg(long, env = "KENNING_AUDIT_LOG", value_name = "FILE", requires = "address")]
    audit_log: Option<PathBuf>,
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
    /// How many requests each caller may make in a second; twice as many at once [default: 100]
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
    /// An access token of an identity provider that --jwt names
    Jwt,
}

impl Http {
    /// The options of the HTTP server, or an error if the combination is not safe.
    fn options(&self, config: &Config, address: SocketAddr) -> anyhow::Result<HttpOptions> {
        let is_local = address.ip().is_loopback();
        if self.auth.is_empty() && !is_local {
            return Err(usage(format!(
                "{address} can be reached from other machines, so callers must prove who they are: make a key with \
                 `kenning token create NAME` and start with `--auth keys`, or listen on 127.0.0.1"
            )));
        }
        let auth: &[Auth] = if self.auth.is_empty() { &[Auth::None] } else { &self.auth };
        if auth.contains(&Auth::None) {
            if !is_local {
                return Err(usage(format!(
                    "`--auth none` is for loopback addresses; {address} can be reached from other machines"
                )));
            }
            if auth.len() > 1 {
                return Err(usage("`--auth none` lets everybody in, so nothing else goes with it"));
            }
        }
        if !is_local && !self.behind_proxy && self.tls_cert.is_none() {
            return Err(usage(format!(
                "keys would cross the network unencrypted at {address}: give the server a certificate with `--tls-cert` and \
                 `--tls-key`, put a proxy with TLS before it and say so with `--behind-proxy`, or listen on 127.0.0.1"
            )));
        }
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(Tls::from_files(certificate.clone(), key.clone())),
            _ => None,
        };
        let tls = tls.transpose().map_err(|error| usage(error.to_string()))?.map(Arc::new);
        let keys = match auth.contains(&Auth::Keys) {
            true => Some(Keys::in_dir(&config.data_dir()?)),
            false => None,
        };
        let tokens = match (&self.jwt, auth.contains(&Auth::Jwt)) {
            (Some(file), true) => Some(self.tokens(file, address, tls.is_some())?),
            (None, true) => {
                return Err(usage("`--auth jwt` needs `--jwt FILE`, which says whose tokens are taken"));
            }
            (Some(_), false) => return Err(usage("`--jwt` is for `--auth jwt`")),
            (None, false) => None,
        };
        let limits = CurrentLimits::new(self.limits.clone(), self.requests_per_second);
        let audit = self.audit_log.as_deref().map(AuditLog::open).transpose();
        Ok(HttpOptions {
            authentication: Authentication { keys, tokens },
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            limits: Arc::new(limits.map_err(|error| usage(error.to_string()))?),
            public_url: self.public_url.clone(),
            tls,
            audit: audit.map_err(|error| usage(error.to_string()))?.map(Arc::new),
            is_behind_proxy: self.behind_proxy,
        })
    }

    fn tokens(&self, file: &Path, address: SocketAddr, has_tls: bool) -> anyhow::Result<Tokens> {
        let wrong = |error: &dyn std::fmt::Display| usage(format!("`--jwt` {}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let settings: TokenSettings = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        // Port 0 is known only when it was bound, so tokens for it need an audience in the settings.
        let resource = kenning_server::http::resource_of(address, self.public_url.as_deref(), has_tls);
        Tokens::new(settings, &resource).map_err(|error| wrong(&error))
    }
}

pub fn run(config: &Config, serve: Serve) -> anyhow::Result<Outcome> {
    if let Some(remote) = serve.connect.remote()? {
        return connect(remote);
    }
    let http = match serve.http.address {
        Some(address) => Some((address, serve.http.options(config, address)?)),
        None => None,
    };
    if http.is_some() && serve.rows_listen.is_some() {
        return Err(usage("`--http` serves rows itself; leave `--rows-listen` out"));
    }
    let (engine, mut options) = (config.engine()?, config.options()?);
    // Over HTTP, people could read in the log what others were given. So only an administrator can turn it
    // on.
    if http.is_some() && !serve.recall_log {
        options.recall = None;
    }
    options.traces = match &serve.otlp {
        Some(address) => Some(Traces::start(address).map_err(|why| usage(format!("`--otlp`: {why}")))?),
        None => None,
    };
    let (recall, traces) = (options.recall.clone(), options.traces.clone());
    if !serve.namespaces.is_empty() {
        confine(&engine, &mut options, &serve.namespaces)?;
    }
    if http.is_none() && std::io::stdin().is_terminal() {
        complain(
            "this waits for an MCP client to speak to it on stdin; Ctrl-C ends it. A client starts it by itself: \
             `claude mcp add -s user kenning -- kenning serve`. `kenning --help` shows the commands for people",
        );
    }
    // An error is ignored here: the first call asks a database that is away now once more, and reports the error.
    if http.is_some() && matches!(config.location()?, Location::Database(_)) {
        let _asked_again = engine.prepare();
    }
    // The schedule of backups ends when this guard is dropped.
    let _backups = serve.backups.start(config)?;
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
            // Another session may have taken the port. Serving memory is more important than serving rows
            // over HTTP, so this is only a warning.
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
    if let Some(recall) = recall {
        recall.close();
    }
    if let Some(traces) = traces {
        traces.close();
    }
    served?;
    Ok(Outcome::Done)
}

/// Serves the standard streams from a remote server. No file of this machine is touched.
fn connect(remote: Remote) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = kenning_server::serve_remote(remote) => served,
            () = asked_to_stop() => Ok(()),
        }
    });
    runtime.shutdown_background();
    served.map_err(|error| usage(error.to_string()))?;
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
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    complain(&format!("Kenning speaks MCP at {scheme}://{}/mcp; Ctrl-C ends it", listener.address()));
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

/// Restricts all calls to these namespaces. They are stored by id, so a later rename changes nothing.
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

pub(super) async fn asked_to_stop() {
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
