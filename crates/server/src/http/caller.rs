//! The caller of a request: the one place that makes a principal from a request. Everything that is served
//! over HTTP gets its caller here.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use kenning_engine::Engine;
use kenning_model::{DEFAULT, Grants, Id, Principal, Right, ScopeName};
use kenning_tools::project::{NamedBy, ProjectSettings};
use kenning_tools::{SetStore, Usage};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::endpoint::Endpoint;
use super::jwt::{TokenRefusal, Tokens, Verified};
use super::keys::{self, Key, Keys};
use super::limits::{CurrentLimits, Meter};
use super::metrics::Metrics;
use super::refusal::Refusal;
use super::{Authentication, SESSION_IDLE_MAX};
use crate::audit::AuditLog;
use crate::edge::{self, Edge, Peer};
use crate::places::SharedPlaces;
use crate::{Options, mcp};

/// The most callers whose service is kept; beyond it the token service that was idle longest is dropped.
const SERVICES_MAX: usize = 4096;
/// The most addresses whose failures are counted. More are a distributed attack, and counting starts again.
const ADDRESSES_MAX: usize = 10_000;
/// A stream is cut no sooner than this after it began, even if its credential expires earlier.
const ANSWER_GRACE: Duration = Duration::from_secs(5);
const A_MINUTE: Duration = Duration::from_secs(60);

/// Decides who the caller is, and holds a service for every caller that is let in.
pub(super) struct Gate {
    pub(super) engine: Arc<Engine>,
    pub(super) options: Options,
    pub(super) authentication: Authentication,
    /// The beginning of the addresses of result sets.
    pub(super) base_url: String,
    /// The address of `/mcp`, as the audience claim of a token must name it.
    pub(super) resource: String,
    pub(super) limits: Arc<CurrentLimits>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) places: Arc<SharedPlaces>,
    pub(super) sets: Arc<SetStore>,
    /// The services by the subject and the rights of their principals.
    pub(super) services: Mutex<HashMap<String, Arc<PrincipalService>>>,
    /// For each address the number of requests with wrong credentials, and when the minute began in which
    /// they are counted.
    pub(super) failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    pub(super) is_behind_proxy: bool,
    pub(super) audit: Option<Arc<AuditLog>>,
    /// The calls that are under way.
    pub(super) calls: TaskTracker,
    pub(super) subscriptions_end: CancellationToken,
    pub(super) streams_end: CancellationToken,
}

pub(super) struct PrincipalService {
    pub(super) principal: Arc<Principal>,
    /// The settings that decide in which scope a call works that names none.
    pub(super) project: ProjectSettings,
    /// The name of the caller in the history and the audit log.
    name: String,
    /// The key that the service depends on, which may be revoked.
    key: Option<Key>,
    pub(super) mcp: Endpoint<mcp::Server>,
    pub(super) rows: Option<Router>,
    pub(super) usage: Arc<Usage>,
    pub(super) meter: Arc<Meter>,
    pub(super) edge: Edge,
    /// Cancelled when the key is revoked or expires; then every subscription and every stream of the service
    /// ends.
    pub(super) subscriptions_end: CancellationToken,
    streams_end: CancellationToken,
    /// When the service was last asked for, in seconds since the server started.
    last_used: AtomicU64,
}

impl PrincipalService {
    pub(super) fn by(&self, from: Option<Peer>) -> edge::Caller<'_> {
        edge::Caller { subject: &self.principal.subject, name: &self.name, from }
    }

    fn end(&self) {
        self.subscriptions_end.cancel();
        self.streams_end.cancel();
    }
}

/// The sender of a request.
pub(super) struct Caller {
    pub(super) service: Arc<PrincipalService>,
    pub(super) from: Option<Peer>,
    /// How long the credential stays valid; open streams to the caller end with it.
    pub(super) expires_in: Option<Duration>,
}

/// The principal and the settings that a valid credential stands for.
struct AcceptedCredential {
    principal: Principal,
    name: String,
    scope: String,
    key: Option<Key>,
    expires_at: Option<Timestamp>,
}

impl Gate {
    /// The caller of a request, with the service that belongs to it alone.
    pub(super) async fn caller(
        self: &Arc<Self>,
        headers: &HeaderMap,
        from: Option<Peer>,
    ) -> Result<Caller, Refusal> {
        if self.authentication.is_none() {
            let service = self.service(self.options.principal.subject.clone(), None).await?;
            return Ok(Caller { service, from, expires_in: None });
        }
        // An address with too many failures is refused before its credential is compared with any other.
        let counted = from.map(|peer| peer.0.ip()).filter(|ip| !self.is_behind_proxy && !ip.is_loopback());
        if counted.is_some_and(|ip| self.has_failed_too_often(ip)) {
            return Err(Refusal::TooManyFailures);
        }
        let accepted = match self.accepted(headers).await {
            Ok(accepted) => accepted,
            Err(refusal) => {
                if let Some(ip) = counted.filter(|_| matches!(refusal, Refusal::BadCredential { .. })) {
                    self.count_failure(ip);
                }
                let by = edge::Caller { subject: "", name: "", from };
                Edge { audit: self.audit.clone(), ..Edge::default() }.record(
                    by,
                    "authenticate",
                    refusal.outcome().to_owned(),
                );
                return Err(refusal);
            }
        };
        let expires_in = accepted.expires_at.map(|expires_at| {
            let left = expires_at.duration_since(self.engine.now());
            // The clocks may differ, so a token may be accepted for a moment after it expired; a call made
            // then still gets its answer.
            Duration::try_from(left).unwrap_or_default().max(ANSWER_GRACE)
        });
        let name = service_name(&accepted);
        Ok(Caller { service: self.service(name, Some(accepted)).await?, from, expires_in })
    }

    async fn service(
        self: &Arc<Self>,
        name: String,
        accepted: Option<AcceptedCredential>,
    ) -> Result<Arc<PrincipalService>, Refusal> {
        if let Some(service) = self.services().get(&name) {
            service.last_used.store(self.metrics.uptime_seconds(), Ordering::Relaxed);
            return Ok(service.clone());
        }
        // Making a service opens files, so it runs on a thread that may block.
        let gate = self.clone();
        let made = tokio::task::spawn_blocking(move || Arc::new(gate.make_service(accepted))).await;
        let made = made.map_err(|_| Refusal::Failed)?;
        let mut services = self.services();
        if services.len() >= SERVICES_MAX {
            let idle =
                services.iter().filter(|(_, service)| service.key.is_none() && service.meter.is_idle());
            let oldest = idle.min_by_key(|(_, service)| service.last_used.load(Ordering::Relaxed));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.retire(services.remove(&oldest));
            }
        }
        // Another request with the same credential may have inserted its service first.
        Ok(services.entry(name).or_insert(made).clone())
    }

    async fn accepted(self: &Arc<Self>, headers: &HeaderMap) -> Result<AcceptedCredential, Refusal> {
        let Authentication { keys, tokens } = &self.authentication;
        let shown = headers.get(header::AUTHORIZATION).ok_or_else(|| self.refused(false))?;
        let shown = shown.to_str().ok().and_then(|value| value.split_once(' '));
        let (scheme, shown) = shown.ok_or_else(|| self.refused(true))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(self.refused(true));
        }
        let shown = shown.trim();
        match (keys, tokens) {
            (Some(keys), _) if keys::is_key(shown) => self.accepted_by_key(keys, shown),
            (_, Some(tokens)) => self.accepted_by_token(tokens, shown).await,
            _ => Err(self.refused(true)),
        }
    }

    fn accepted_by_key(&self, keys: &Keys, shown: &str) -> Result<AcceptedCredential, Refusal> {
        let found = keys.find(shown, self.engine.now()).map_err(|error| {
            tracing::error!("keys can't be read: {error}");
            Refusal::Unavailable
        })?;
        let key = found.ok_or_else(|| self.refused(true))?;
        Ok(AcceptedCredential {
            principal: key.principal(),
            name: key.name.clone(),
            scope: key.scope.clone(),
            expires_at: key.expires_at,
            key: Some(key),
        })
    }

    async fn accepted_by_token(
        self: &Arc<Self>,
        tokens: &Tokens,
        shown: &str,
    ) -> Result<AcceptedCredential, Refusal> {
        let verified = match tokens.check(shown, self.engine.now()).await {
            Ok(verified) => verified,
            Err(TokenRefusal::Invalid(why)) => {
                tracing::info!("a token is refused: {why}");
                return Err(self.refused(true));
            }
            Err(TokenRefusal::NoRights) => return Err(self.without_rights()),
            Err(TokenRefusal::Unavailable) => return Err(Refusal::Unavailable),
        };
        // The names of namespaces are looked up for each request, since they may change.
        let gate = self.clone();
        let accepted = tokio::task::spawn_blocking(move || gate.accepted_by_rules(verified)).await;
        accepted.map_err(|_| Refusal::Failed)?
    }

    fn accepted_by_rules(&self, verified: Verified) -> Result<AcceptedCredential, Refusal> {
        let owner = Principal::owner("", "");
        let tree = self.engine.snapshot(&owner).and_then(|snapshot| snapshot.tree());
        let tree = tree.map_err(|error| {
            tracing::error!("namespaces can't be read: {error}");
            Refusal::Unavailable
        })?;
        let (mut rights, mut is_owner, mut scope) = (BTreeMap::<Id, Right>::new(), false, None);
        for rule in &verified.rules {
            is_owner |= rule.owner;
            for (name, right) in &rule.namespaces {
                let Some((id, _)) = tree.namespace(name) else {
                    tracing::warn!("a rule for tokens names the namespace `{name}`, which does not exist");
                    continue;
                };
                let known = rights.entry(id).or_insert(*right);
                *known = (*known).max(*right);
                scope.get_or_insert_with(|| ScopeName::new(name, DEFAULT).to_string());
            }
        }
        if !is_owner && rights.is_empty() {
            return Err(self.without_rights());
        }
        let named = verified.rules.iter().find_map(|rule| rule.scope.clone());
        let grants = if is_owner { Grants::Owner } else { Grants::Namespaces(rights) };
        let scope = named.or(scope.filter(|_| !is_owner));
        let Verified { subject, name, expires_at, .. } = verified;
        let principal = Principal { origin: subject.clone(), subject, actor: name.clone(), grants };
        Ok(AcceptedCredential {
            principal,
            name,
            scope: scope.unwrap_or_else(|| ScopeName::global_default().to_string()),
            key: None,
            expires_at: Some(expires_at),
        })
    }

    /// The refusal of a request without a valid credential, with the address that says where to get one.
    fn refused(&self, is_wrong: bool) -> Refusal {
        let metadata =
            self.authentication.tokens.as_ref().map(|tokens| (self.metadata_url(), scopes_of(tokens)));
        match is_wrong {
            true => Refusal::BadCredential { metadata },
            false => Refusal::NoCredential { metadata },
        }
    }

    fn without_rights(&self) -> Refusal {
        let scopes = self.authentication.tokens.as_ref().map(scopes_of).unwrap_or_default();
        Refusal::NoRights { metadata: self.metadata_url(), scopes }
    }

    /// The address of the metadata as RFC 9728 derives it: the path of the resource follows the well-known
    /// path.
    fn metadata_url(&self) -> String {
        let base = self.resource.trim_end_matches(super::MCP_PATH);
        format!("{base}{}{}", super::METADATA_PATH, super::MCP_PATH)
    }

    fn make_service(&self, accepted: Option<AcceptedCredential>) -> PrincipalService {
        let mut options = self.options.clone();
        let has_rates = accepted.is_some();
        let (mut name, mut key, mut scope) = (options.principal.actor.clone(), None, None);
        if let Some(accepted) = accepted {
            options.actor = Some(accepted.name.clone());
            options.principal = Arc::new(accepted.principal);
            (name, key, scope) = (accepted.name, accepted.key, Some(accepted.scope));
        }
        options.project = remote_project(&options.project, scope);
        let project = options.project.clone();
        let (subscriptions_end, streams_end) =
            (self.subscriptions_end.child_token(), self.streams_end.child_token());
        let rows_url = Some(self.base_url.clone());
        let principal = options.principal.clone();
        let meter = Arc::new(Meter::new(self.limits.clone(), has_rates));
        let (audit, metrics) = (self.audit.clone(), Some(self.metrics.clone()));
        let edge = Edge { meter: Some(meter.clone()), audit, metrics, places: self.places.clone() };
        let (engine, sets) = (self.engine.clone(), self.sets.clone());
        let server =
            mcp::Server::new(engine, options, sets, rows_url, subscriptions_end.clone(), edge.clone());
        let (rows, usage) = (server.sets.router(), server.usage.clone());
        let (limits, calls) = (self.limits.clone(), self.calls.clone());
        let mcp = Endpoint::new(move || server.sibling(), meter.clone(), limits, calls, streams_end.clone());
        let last_used = AtomicU64::new(self.metrics.uptime_seconds());
        PrincipalService {
            principal,
            project,
            name,
            key,
            mcp,
            rows,
            usage,
            meter,
            edge,
            subscriptions_end,
            streams_end,
            last_used,
        }
    }

    /// Ends the services of keys that are revoked or expired, and of tokens that were not used for hours.
    pub(super) fn end_revoked(&self) {
        let Some(keys) = &self.authentication.keys else { return self.end_idle() };
        let now = self.engine.now();
        // While the keys can't be read, new callers are refused and present callers keep their service.
        let Ok(live) = keys.list() else { return };
        let ended: Vec<String> = self
            .services()
            .iter()
            .filter(|(_, service)| {
                service.key.as_ref().is_some_and(|key| !live.contains(key) || !key.is_live(now))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            let service = self.services().remove(&name);
            self.retire(service);
        }
        self.end_idle();
    }

    fn end_idle(&self) {
        if self.authentication.is_none() {
            return;
        }
        let now = self.metrics.uptime_seconds();
        let is_idle = |service: &PrincipalService| {
            let idle = now.saturating_sub(service.last_used.load(Ordering::Relaxed));
            service.key.is_none() && service.meter.is_idle() && idle > SESSION_IDLE_MAX.as_secs()
        };
        let mut services = self.services();
        let idle: Vec<String> =
            services.iter().filter(|(_, service)| is_idle(service)).map(|(name, _)| name.clone()).collect();
        for name in idle {
            self.retire(services.remove(&name));
        }
    }

    fn retire(&self, service: Option<Arc<PrincipalService>>) {
        let Some(service) = service else { return };
        service.end();
        self.metrics.retire(&service.usage.counted());
    }

    pub(super) fn services(&self) -> MutexGuard<'_, HashMap<String, Arc<PrincipalService>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed_too_often(&self, ip: IpAddr) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let many =
            failures.get(&ip).filter(|(since, _)| since.elapsed() < A_MINUTE).map_or(0, |(_, many)| *many);
        many >= self.limits.get().failures_per_minute.get()
    }

    fn count_failure(&self, ip: IpAddr) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX {
            failures.clear();
        }
        let (since, many) = failures.entry(ip).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= A_MINUTE {
            (*since, *many) = (Instant::now(), 0);
        }
        *many += 1;
    }
}

fn scopes_of(tokens: &Tokens) -> String {
    tokens.scopes().into_iter().collect::<Vec<&str>>().join(" ")
}

/// The name of a service includes the rights of its principal: a new token of the same person may have other
/// rights, or another name for the history.
fn service_name(accepted: &AcceptedCredential) -> String {
    let subject = format!("{}\n{}", accepted.principal.subject, accepted.principal.actor);
    match (&accepted.key, &accepted.principal.grants) {
        (Some(_), _) => accepted.principal.subject.clone(),
        (None, Grants::Owner) => format!("{subject}\nowner {}", accepted.scope),
        (None, Grants::Namespaces(rights)) => {
            let rights: Vec<String> =
                rights.iter().map(|(id, right)| format!("{id}={}", right.as_str())).collect();
            format!("{subject}\n{} {}", rights.join(","), accepted.scope)
        }
    }
}

/// The files of a remote client are not on this machine, so neither its roots nor the server's own directory
/// can determine the scope of a call. The credential or the server's settings determine it.
fn remote_project(project: &ProjectSettings, of_credential: Option<String>) -> ProjectSettings {
    let named = match of_credential {
        Some(scope) => Some((scope, NamedBy::Credential)),
        None => project.named.clone(),
    };
    let everyones = || (ScopeName::global_default().to_string(), NamedBy::Server);
    ProjectSettings {
        named: Some(named.unwrap_or_else(everyones)),
        given: None,
        working_dir: None,
        home: None,
        fallback: project.fallback.clone(),
    }
}
