//! Tokens of identity providers: the server is a resource server (RFC 9068) that checks them and never issues any.
//!
//! The content of a token never decides how the token is checked: the settings give the algorithms, the
//! issuers and the addresses of their keys. Addresses or keys in a token's header are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, decode_header};
use kenning_model::Right;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::limits::{Stamp, stamp};

/// The longest token that is accepted; a longer one is not parsed.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The largest difference between the clocks of issuer and server that is allowed for.
const LEEWAY_SECONDS: f64 = 30.0;
const KEYS_FRESH: Duration = Duration::from_secs(10 * 60);
/// How long the last keys of an issuer stay valid while the issuer can't be reached.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two requests to an issuer for an unknown key. A token may name any key, so
/// without it callers could make the server ask all the time.
const ASK_AGAIN: Duration = Duration::from_secs(60);
const FETCH_MAX: Duration = Duration::from_secs(5);
const KEYS_BYTES_MAX: usize = 1024 * 1024;

/// The settings of `--jwt`, as its file has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// The audience that tokens must name [default: the address of `/mcp` under the public URL].
    #[serde(default)]
    pub audience: Option<String>,
    pub issuers: Vec<IssuerSettings>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The issuer, exactly as its tokens have it in `iss`.
    pub issuer: String,
    /// The address of its keys.
    #[serde(default)]
    pub jwks_url: Option<String>,
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<SignatureAlgorithm>,
    /// The `typ` of its access tokens. ID tokens must not be among them.
    #[serde(default = "default_types")]
    pub token_types: Vec<String>,
    /// The claim with the name of the caller in the history.
    #[serde(default = "default_name")]
    pub name_claim: String,
    /// The rights of its tokens. A token gets the rights of all rules that match it.
    pub rights: Vec<RightRule>,
}

/// A rule: a token in which `claim` has the value `value` gets these rights.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RightRule {
    /// The path of a claim, in which `a.b` looks inside an object. Its value is a text of words separated by
    /// spaces, like `scope`, or a list.
    pub claim: String,
    pub value: String,
    /// Whether the token has all rights.
    #[serde(default)]
    pub owner: bool,
    #[serde(default)]
    pub namespaces: BTreeMap<String, Right>,
    /// The scope of calls that name none [default: that of the first namespace].
    #[serde(default)]
    pub scope: Option<String>,
}

/// Algorithms with a public key. An algorithm with a shared secret would let everybody who can check a token
/// also make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SignatureAlgorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

impl SignatureAlgorithm {
    fn is(self, algorithm: Algorithm) -> bool {
        format!("{self:?}") == format!("{algorithm:?}")
    }
}

fn default_algorithms() -> Vec<SignatureAlgorithm> {
    vec![SignatureAlgorithm::RS256, SignatureAlgorithm::ES256, SignatureAlgorithm::EdDSA]
}

fn default_types() -> Vec<String> {
    vec!["at+jwt".to_owned()]
}

fn default_name() -> String {
    "sub".to_owned()
}

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("there is no issuer in the settings")]
    NoIssuer,
    #[error("`{issuer}` needs `jwks_url` or `jwks_file`, one of them")]
    NoKeys { issuer: String },
    #[error("the keys of `{issuer}` must come by https: {url}")]
    Unencrypted { issuer: String, url: String },
    #[error("`{issuer}` has a rule for `{claim}` that gives nothing; say `owner` or `namespaces`")]
    EmptyRule { issuer: String, claim: String },
    #[error("the HTTP client can't be made: {0}")]
    Client(#[from] reqwest::Error),
}

/// The content of a token that was checked.
pub(super) struct Verified {
    pub(super) subject: String,
    pub(super) name: String,
    pub(super) expires_at: Timestamp,
    pub(super) rules: Vec<RightRule>,
}

/// The reasons why a token gives no access.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// The reason is for the log; callers are not told which check failed.
    Invalid(&'static str),
    /// The token is valid, but no rule gives it a right.
    NoRights,
    /// The issuer's keys are not known.
    Unavailable,
}

/// The issuers that are trusted.
pub struct Tokens {
    audience: String,
    issuers: Vec<Issuer>,
}

struct Issuer {
    settings: IssuerSettings,
    keys: KeySet,
}

impl Tokens {
    pub fn new(settings: TokenSettings, resource: &str) -> Result<Tokens, TokensError> {
        if settings.issuers.is_empty() {
            return Err(TokensError::NoIssuer);
        }
        let issuers = settings.issuers.into_iter().map(|settings| {
            let keys = KeySet::of(&settings)?;
            if let Some(rule) = settings.rights.iter().find(|rule| !rule.owner && rule.namespaces.is_empty())
            {
                let (issuer, claim) = (settings.issuer.clone(), rule.claim.clone());
                return Err(TokensError::EmptyRule { issuer, claim });
            }
            Ok(Issuer { settings, keys })
        });
        let issuers = issuers.collect::<Result<Vec<Issuer>, TokensError>>()?;
        Ok(Tokens { audience: settings.audience.unwrap_or_else(|| resource.to_owned()), issuers })
    }

    /// The document from which clients learn which servers issue tokens (RFC 9728).
    pub(super) fn metadata(&self, resource: &str) -> Value {
        let issuers: Vec<&str> = self.issuers.iter().map(|issuer| issuer.settings.issuer.as_str()).collect();
        json!({
            "resource": resource,
            "authorization_servers": issuers,
            "scopes_supported": self.scopes(),
            "bearer_methods_supported": ["header"],
            "resource_name": "Kenning",
        })
    }

    /// The OAuth scopes that give a right.
    pub(super) fn scopes(&self) -> BTreeSet<&str> {
        let rules = self.issuers.iter().flat_map(|issuer| &issuer.settings.rights);
        rules.filter(|rule| matches!(&*rule.claim, "scope" | "scp")).map(|rule| &*rule.value).collect()
    }

    pub(super) async fn check(&self, token: &str, now: Timestamp) -> Result<Verified, TokenRefusal> {
        use TokenRefusal::Invalid;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Invalid("it is too long"));
        }
        let header = decode_header(token).map_err(|_| Invalid("its header can't be read"))?;
        let (message, signature) = token.rsplit_once('.').ok_or(Invalid("it has no signature"))?;
        let payload = message.split_once('.').ok_or(Invalid("it has no claims"))?.1;
        let payload = data_encoding::BASE64URL_NOPAD.decode(payload.as_bytes());
        let payload = payload.map_err(|_| Invalid("its claims are not base64"))?;
        let claims: Map<String, Value> =
            serde_json::from_slice(&payload).map_err(|_| Invalid("its claims are not JSON"))?;
        // The issuer that a token names only selects the keys; a valid signature by one of them then confirms
        // the name.
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(Invalid("it names no issuer"))?;
        let issuer = self.issuers.iter().find(|known| known.settings.issuer == issuer);
        let issuer = issuer.ok_or(Invalid("its issuer is not trusted"))?;
        if !issuer.settings.algorithms.iter().any(|allowed| allowed.is(header.alg)) {
            return Err(Invalid("its algorithm is not allowed"));
        }
        let kind = header.typ.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix("application/").unwrap_or(kind);
        if !issuer.settings.token_types.iter().any(|allowed| allowed.eq_ignore_ascii_case(kind)) {
            return Err(Invalid("it is no access token"));
        }
        if header.crit.is_some() {
            return Err(Invalid("it has critical headers, none of which is known"));
        }
        let key = issuer.keys.key(header.kid.as_deref(), header.alg).await?;
        let is_signed = jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, header.alg);
        if !is_signed.unwrap_or(false) {
            return Err(Invalid("its signature is wrong"));
        }
        let expires_at = self.check_claims(&claims, now)?;
        let rules: Vec<RightRule> = issuer
            .settings
            .rights
            .iter()
            .filter(|rule| has(&claims, &rule.claim, &rule.value))
            .cloned()
            .collect();
        if rules.is_empty() {
            return Err(TokenRefusal::NoRights);
        }
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str).filter(|text| !text.is_empty());
        let sub = text("sub").ok_or(Invalid("it names no subject"))?;
        let name = text(&issuer.settings.name_claim).unwrap_or(sub).to_owned();
        let subject = format!("token {sub}\n{}", issuer.settings.issuer);
        Ok(Verified { subject, name, expires_at, rules })
    }

    /// Checks the times and the audience; returns when the token expires.
    fn check_claims(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Timestamp, TokenRefusal> {
        use TokenRefusal::Invalid;
        let is_meant = match claims.get("aud") {
            Some(Value::String(audience)) => *audience == self.audience,
            Some(Value::Array(audiences)) => audiences.iter().any(|audience| *audience == *self.audience),
            _ => false,
        };
        if !is_meant {
            return Err(Invalid("it is for another audience"));
        }
        let now = now.as_second() as f64;
        let expires =
            claims.get("exp").and_then(Value::as_f64).ok_or(Invalid("it does not say when it expires"))?;
        if now >= expires + LEEWAY_SECONDS {
            return Err(Invalid("it has expired"));
        }
        for claim in ["nbf", "iat"] {
            match claims.get(claim) {
                None => {}
                Some(Value::Number(from))
                    if from.as_f64().is_some_and(|from| now >= from - LEEWAY_SECONDS) => {}
                Some(_) => return Err(Invalid("it is not valid yet")),
            }
        }
        // A time that is too large to represent means that the token practically never expires.
        Ok(Timestamp::from_second(expires as i64).unwrap_or(Timestamp::MAX))
    }
}

/// Whether a claim has a value: as the whole of a text, as one of the words of a text, or as one of a list.
fn has(claims: &Map<String, Value>, path: &str, value: &str) -> bool {
    // A claim whose name contains dots, such as `https://acme.example/roles`, is looked up whole before the
    // dots are read as a path.
    let claim = claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        rest.split('.').try_fold(claims.get(first)?, |claim, name| claim.get(name))
    });
    match claim {
        Some(Value::String(text)) => text.split(' ').any(|word| word == value),
        Some(Value::Array(values)) => values.iter().any(|one| one == value),
        _ => false,
    }
}

/// Whether a key can be used with this algorithm.
fn fits(jwk: &Jwk, algorithm: Algorithm) -> bool {
    let is_for_signatures = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    let is_for_algorithm =
        jwk.common.key_algorithm.is_none_or(|declared| format!("{declared:?}") == format!("{algorithm:?}"));
    let is_of_kind = match (&jwk.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512)
        | (AlgorithmParameters::RSA(_), Algorithm::PS256 | Algorithm::PS384 | Algorithm::PS512) => true,
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => key.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES384) => key.curve == EllipticCurve::P384,
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => key.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    is_for_signatures && is_for_algorithm && is_of_kind
}

/// The keys of an issuer.
struct KeySet {
    source: Source,
    held: Mutex<HeldKeys>,
    /// Allows one request to the issuer at a time.
    asking: tokio::sync::Mutex<()>,
}

enum Source {
    File(PathBuf),
    Url { url: reqwest::Url, http: reqwest::Client },
}

#[derive(Default)]
struct HeldKeys {
    keys: Option<Arc<JwkSet>>,
    read: Option<Stamp>,
    fetched: Option<Instant>,
    /// When the issuer was last asked because its keys were old.
    tried: Option<Instant>,
    /// When the issuer was last asked for a key that was not known.
    asked_for_unknown: Option<Instant>,
}

impl KeySet {
    fn of(settings: &IssuerSettings) -> Result<KeySet, TokensError> {
        let issuer = settings.issuer.clone();
        let source = match (&settings.jwks_file, &settings.jwks_url) {
            (Some(path), None) => Source::File(path.clone()),
            (None, Some(text)) => {
                let unencrypted = || TokensError::Unencrypted { issuer: issuer.clone(), url: text.clone() };
                let url = reqwest::Url::parse(text).map_err(|_| unencrypted())?;
                let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
                let is_here = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
                if url.scheme() != "https" && !is_here {
                    return Err(unencrypted());
                }
                // Redirects are not followed, since keys from another address than the configured one can't
                // be trusted.
                let mut http =
                    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(FETCH_MAX);
                if is_here {
                    http = http.no_proxy();
                }
                Source::Url { url, http: http.build()? }
            }
            _ => return Err(TokensError::NoKeys { issuer }),
        };
        Ok(KeySet { source, held: Mutex::default(), asking: tokio::sync::Mutex::default() })
    }

    async fn key(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<DecodingKey, TokenRefusal> {
        self.refresh_old().await;
        let keys = self.held().keys.clone().ok_or(TokenRefusal::Unavailable)?;
        if let Some(key) = find(&keys, kid, algorithm) {
            return key;
        }
        if self.may_ask_for_unknown() {
            self.fetch().await;
            let keys = self.held().keys.clone().ok_or(TokenRefusal::Unavailable)?;
            if let Some(key) = find(&keys, kid, algorithm) {
                return key;
            }
        }
        Err(TokenRefusal::Invalid("its key is not known"))
    }

    async fn refresh_old(&self) {
        if let Source::File(path) = &self.source {
            self.read_file(path);
            return;
        }
        let is_due = |held: &HeldKeys| {
            let is_old = held.fetched.is_none_or(|fetched| fetched.elapsed() > KEYS_FRESH);
            let pause = if held.keys.is_some() { ASK_AGAIN } else { FETCH_MAX };
            is_old && held.tried.is_none_or(|tried| tried.elapsed() > pause)
        };
        if is_due(&self.held()) {
            let _one = self.asking.lock().await;
            // Another task may have fetched the keys while this one waited for the lock.
            if !is_due(&self.held()) {
                return;
            }
            self.held().tried = Some(Instant::now());
            self.fetch().await;
            let mut held = self.held();
            if held.fetched.is_some_and(|fetched| fetched.elapsed() > KEYS_KEPT) {
                held.keys = None;
            }
        }
    }

    fn may_ask_for_unknown(&self) -> bool {
        let mut held = self.held();
        let may = matches!(self.source, Source::Url { .. })
            && held.asked_for_unknown.is_none_or(|asked| asked.elapsed() > ASK_AGAIN);
        if may {
            held.asked_for_unknown = Some(Instant::now());
        }
        may
    }

    fn read_file(&self, path: &PathBuf) {
        let read = stamp(path).and_then(|stamp| {
            let mut held = self.held();
            if held.read != Some(stamp) {
                held.keys = Some(Arc::new(keys_of(&std::fs::read(path)?)?));
                held.read = Some(stamp);
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!("keys of an issuer can't be read from {}: {error}", path.display());
        }
    }

    async fn fetch(&self) {
        let Source::Url { url, http } = &self.source else { return };
        match fetched(url, http).await {
            Ok(keys) => {
                let mut held = self.held();
                held.keys = Some(Arc::new(keys));
                held.fetched = Some(Instant::now());
            }
            Err(error) => tracing::error!("keys of an issuer can't be read from {url}: {error}"),
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldKeys> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn fetched(url: &reqwest::Url, http: &reqwest::Client) -> std::io::Result<JwkSet> {
    let mut response = http.get(url.clone()).send().await.map_err(std::io::Error::other)?;
    if !response.status().is_success() {
        return Err(std::io::Error::other(format!("status {}", response.status())));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(std::io::Error::other)? {
        body.extend_from_slice(&chunk);
        if body.len() > KEYS_BYTES_MAX {
            return Err(std::io::Error::other("more than 1 MiB"));
        }
    }
    keys_of(&body)
}

/// Keys of an unknown kind are skipped, so that they do not make the other keys unusable.
fn keys_of(text: &[u8]) -> std::io::Result<JwkSet> {
    #[derive(Deserialize)]
    struct Listed {
        keys: Vec<Value>,
    }
    let Listed { keys } = serde_json::from_slice(text)?;
    Ok(JwkSet { keys: keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect() })
}

/// The key with this name, or the only one if the token names none.
fn find(keys: &JwkSet, kid: Option<&str>, algorithm: Algorithm) -> Option<Result<DecodingKey, TokenRefusal>> {
    let mut fitting = keys.keys.iter().filter(|key| {
        fits(key, algorithm) && kid.is_none_or(|kid| key.common.key_id.as_deref() == Some(kid))
    });
    let key = fitting.next()?;
    if kid.is_none() && fitting.next().is_some() {
        return None;
    }
    Some(DecodingKey::from_jwk(key).map_err(|_| TokenRefusal::Invalid("its key is malformed")))
}
