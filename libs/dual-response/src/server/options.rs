//! The options of a server, with their defaults.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use url::Url;

use super::executor::{AnyExecutor, Registered};
use super::page::PageLimits;
use super::{
    Authorizer, ContentStyle, DualResponseServer, Error, Executor, IdIsEnough, Inner, MemoryStore,
    ResourceStore, cleanup,
};

const EXPIRATION_DEFAULT: Duration = Duration::from_secs(15 * 60);
const SAMPLE_ROWS_DEFAULT: usize = 15;
const CLEANUP_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
/// Long enough that a person who comes back to a link is told that it has expired, and not that it never
/// existed.
const EXPIRED_KEPT_DEFAULT: Duration = Duration::from_secs(60 * 60);
const PAGE_ROWS_DEFAULT: u64 = 100;
const PAGE_ROWS_MAX_DEFAULT: u64 = 1000;
/// A page has fewer rows rather than more bytes than this.
const PAGE_BYTES_MAX_DEFAULT: usize = 16 << 20;
/// The size of a sample in the model's context, about 2,000 tokens.
const SAMPLE_BYTES_MAX_DEFAULT: usize = 8 << 10;
const SNAPSHOT_BYTES_MAX_DEFAULT: usize = 64 << 20;

/// Schemes that already have a meaning for hosts: a resource must not be taken for a page, a file or a view.
const TAKEN_SCHEMES: [&str; 7] = ["http", "https", "file", "ui", "javascript", "data", "about"];

pub(super) struct Options {
    pub(super) base_url: Option<Url>,
    pub(super) default_expiration: Duration,
    pub(super) default_sample_size: usize,
    pub(super) cleanup_interval: Option<Duration>,
    pub(super) keep_expired: Duration,
    pub(super) extend_on_access: Option<Duration>,
    pub(super) expired_as_not_found: bool,
    pub(super) page_limits: PageLimits,
    pub(super) page_bytes_max: usize,
    pub(super) sample_bytes_max: usize,
    pub(super) snapshot_bytes_max: usize,
    pub(super) uri_prefix: String,
    pub(super) content_style: ContentStyle,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) ids: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Options {
    pub(super) fn uri_of(&self, id: &str) -> String {
        format!("{}{id}", self.uri_prefix)
    }

    pub(super) fn url_of(&self, id: &str) -> Option<String> {
        let base_url = self.base_url.as_ref()?;
        Some(format!("{}/{id}", base_url.as_str().trim_end_matches('/')))
    }
}

/// Options of a [`DualResponseServer`].
pub struct ServerBuilder {
    base_url: Option<String>,
    uri_scheme: String,
    uri_path: String,
    store: Arc<dyn ResourceStore>,
    authorizer: Arc<dyn Authorizer>,
    executors: HashMap<&'static str, Arc<dyn AnyExecutor>>,
    /// All options except those that are derived from the base URL, the scheme and the path.
    options: Options,
}

impl ServerBuilder {
    pub(super) fn new(base_url: Option<String>) -> Self {
        let options = Options {
            base_url: None,
            uri_prefix: String::new(),
            default_expiration: EXPIRATION_DEFAULT,
            default_sample_size: SAMPLE_ROWS_DEFAULT,
            cleanup_interval: Some(CLEANUP_INTERVAL_DEFAULT),
            keep_expired: EXPIRED_KEPT_DEFAULT,
            extend_on_access: None,
            expired_as_not_found: false,
            page_limits: PageLimits { rows_default: PAGE_ROWS_DEFAULT, rows_max: PAGE_ROWS_MAX_DEFAULT },
            page_bytes_max: PAGE_BYTES_MAX_DEFAULT,
            sample_bytes_max: SAMPLE_BYTES_MAX_DEFAULT,
            snapshot_bytes_max: SNAPSHOT_BYTES_MAX_DEFAULT,
            content_style: ContentStyle::default(),
            clock: Arc::new(Timestamp::now),
            ids: Arc::new(random_id),
        };
        Self {
            base_url,
            uri_scheme: "resource".into(),
            uri_path: String::new(),
            store: Arc::new(MemoryStore::new()),
            authorizer: Arc::new(IdIsEnough),
            executors: HashMap::new(),
            options,
        }
    }

    /// Sets the store for resources. Default: [`MemoryStore`].
    pub fn store(self, store: impl ResourceStore) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// As `store`, for a store that other code uses too.
    pub fn shared_store(self, store: Arc<dyn ResourceStore>) -> Self {
        Self { store, ..self }
    }

    /// Sets the rules for the rights of callers. Default: [`IdIsEnough`].
    pub fn authorizer(self, authorizer: impl Authorizer) -> Self {
        Self { authorizer: Arc::new(authorizer), ..self }
    }

    /// Registers an executor under its name.
    pub fn executor<E: Executor>(mut self, executor: E) -> Self {
        self.executors.insert(E::NAME, Arc::new(Registered(Arc::new(executor))));
        self
    }

    /// Sets how long a resource lives. Default: 15 minutes.
    pub fn default_expiration(mut self, default_expiration: Duration) -> Self {
        self.options.default_expiration = default_expiration;
        self
    }

    /// Sets the number of rows in a sample. Default: 15.
    pub fn default_sample_size(mut self, default_sample_size: usize) -> Self {
        self.options.default_sample_size = default_sample_size;
        self
    }

    /// Sets how often expired resources are removed; with `None` only calls of `cleanup_once` do so. Default:
    /// every minute.
    pub fn cleanup_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.options.cleanup_interval = interval.into();
        self
    }

    /// Sets how long an expired resource is answered with 410 (expired) before it is removed and answered
    /// with 404. Default: an hour.
    pub fn keep_expired(mut self, keep_expired: Duration) -> Self {
        self.options.keep_expired = keep_expired;
        self
    }

    /// Lets each access extend the life of a resource to this time from the access, if that is longer.
    /// Default: off.
    pub fn extend_on_access(mut self, extend: impl Into<Option<Duration>>) -> Self {
        self.options.extend_on_access = extend.into();
        self
    }

    /// Answers 404 for an expired resource, as the first draft of the pattern did. Default: off, which means
    /// 410.
    pub fn expired_as_not_found(mut self, expired_as_not_found: bool) -> Self {
        self.options.expired_as_not_found = expired_as_not_found;
        self
    }

    /// Sets the default and the largest number of rows of a page. Default: 100 and 1,000.
    pub fn page_rows(mut self, rows_default: u64, rows_max: u64) -> Self {
        self.options.page_limits = PageLimits { rows_default, rows_max };
        self
    }

    /// Sets the largest size of a page; with larger rows, a page has fewer of them. Default: 16 MiB.
    pub fn page_bytes_max(mut self, page_bytes_max: usize) -> Self {
        self.options.page_bytes_max = page_bytes_max;
        self
    }

    /// Sets the largest size of a sample; with larger rows, a sample has fewer of them. Default: 8 KiB.
    pub fn sample_bytes_max(mut self, sample_bytes_max: usize) -> Self {
        self.options.sample_bytes_max = sample_bytes_max;
        self
    }

    /// Sets the largest size of a snapshot; a larger one is refused. Default: 64 MiB.
    pub fn snapshot_bytes_max(mut self, snapshot_bytes_max: usize) -> Self {
        self.options.snapshot_bytes_max = snapshot_bytes_max;
        self
    }

    /// Sets the scheme of resource URIs. Default: `resource`, as in `resource://abc123`.
    pub fn uri_scheme(self, scheme: impl Into<String>) -> Self {
        Self { uri_scheme: scheme.into(), ..self }
    }

    /// Sets the part between scheme and id: with `query`, `resource://query/abc123`. Default: nothing.
    pub fn uri_path(self, path: impl Into<String>) -> Self {
        Self { uri_path: path.into(), ..self }
    }

    /// Sets the content of a tool result's text. Default: the summary and the sample.
    pub fn content_style(mut self, content_style: ContentStyle) -> Self {
        self.options.content_style = content_style;
        self
    }

    /// Sets the source of the time. Default: the system's clock.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.options.clock = Arc::new(clock);
        self
    }

    /// Sets the source of ids. An id has at most 128 letters, digits, `-` and `_`, and must be hard to guess.
    /// Default: 128 random bits.
    pub fn ids(mut self, ids: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.options.ids = Arc::new(ids);
        self
    }

    /// Makes the server; fails if an option is invalid.
    pub fn build(self) -> Result<DualResponseServer, Error> {
        let mut options = self.options;
        let PageLimits { rows_default, rows_max } = options.page_limits;
        if rows_default == 0 || rows_default > rows_max {
            return invalid(format!("a page of {rows_default} rows is not within 1 to {rows_max}"));
        }
        if options.cleanup_interval.is_some_and(|interval| interval.is_zero()) {
            return invalid("a cleanup without pause would do nothing else; use `None` for none".into());
        }
        options.base_url = self.base_url.as_deref().map(checked_base_url).transpose()?;
        options.uri_prefix = checked_uri_prefix(&self.uri_scheme, &self.uri_path)?;
        let inner = Inner {
            options,
            store: self.store,
            authorizer: self.authorizer,
            executors: self.executors,
            live: Mutex::default(),
            cleanup: Mutex::new(cleanup::Task::NotStarted),
        };
        Ok(DualResponseServer { inner: Arc::new(inner) })
    }
}

fn checked_base_url(text: &str) -> Result<Url, Error> {
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return invalid(format!("base_url `{text}` is not a URL: {error}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return invalid(format!("base_url `{text}` must begin with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return invalid(format!("base_url `{text}` must have no query and no fragment"));
    }
    Ok(url)
}

fn checked_uri_prefix(scheme: &str, path: &str) -> Result<String, Error> {
    let after_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.chars().all(after_first) {
        return invalid(format!(
            "`{scheme}` is not a URI scheme: a lower-case letter, then letters, digits, + - ."
        ));
    }
    if TAKEN_SCHEMES.contains(&scheme) {
        return invalid(format!("the scheme `{scheme}` means something else to hosts"));
    }
    if !path.split('/').all(|part| path.is_empty() || is_id(part)) {
        return invalid(format!(
            "the URI path `{path}` must be names of letters, digits, - and _ between slashes"
        ));
    }
    let slash = if path.is_empty() { "" } else { "/" };
    Ok(format!("{scheme}://{path}{slash}"))
}

fn invalid<T>(what: String) -> Result<T, Error> {
    Err(Error::InvalidOption { what })
}

/// Whether a text can be the id of a resource: it has only characters without a special meaning in URLs and
/// paths.
pub(super) fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn random_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness; without it no id is safe to hand out");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(url: &str) -> Result<DualResponseServer, Error> {
        DualResponseServer::builder(url).build()
    }

    #[test]
    fn base_url_is_http_without_query_or_fragment() {
        let server = build("https://api.example.com/resources").unwrap();
        let url = Some("https://api.example.com/resources/abc123".to_owned());
        assert_eq!(server.url_of("abc123"), url);
        let slash = build("https://api.example.com/resources/").unwrap();
        assert_eq!(slash.url_of("abc123"), url);
        for url in ["", "ftp://x/y", "resources", "https://x/y?a=1", "https://x/y#z"] {
            assert_eq!(build(url).unwrap_err().code().as_str(), "INVALID_OPTION", "{url}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let server = build("http://localhost/r").unwrap();
        let options = &server.inner.options;
        assert_eq!(options.default_expiration.as_millis(), 900_000);
        assert_eq!(options.default_sample_size, 15);
        assert_eq!(options.cleanup_interval.unwrap().as_millis(), 60_000);
        assert_eq!(server.uri_of("abc123"), "resource://abc123");
    }

    #[test]
    fn custom_schemes_are_checked() {
        let of = |scheme: &str, path: &str| {
            DualResponseServer::builder("http://localhost/r").uri_scheme(scheme).uri_path(path).build()
        };
        assert_eq!(of("knowledge", "query").unwrap().uri_of("abc"), "knowledge://query/abc");
        let rows = of("kenning", "rows").unwrap();
        assert_eq!(rows.uri_of("abc"), "kenning://rows/abc");
        assert_eq!(rows.id_of("kenning://rows/abc"), Some("abc"));
        for other in ["kenning://rows/", "kenning://rows/a/b", "kenning://abc", "resource://abc", "abc"] {
            assert_eq!(rows.id_of(other), None, "{other}");
        }
        for (scheme, path) in [
            ("http", ""),
            ("ui", ""),
            ("javascript", ""),
            ("", ""),
            ("1a", ""),
            ("a b", ""),
            ("a", ".."),
            ("a", "/"),
        ] {
            assert!(of(scheme, path).is_err(), "{scheme} {path}");
        }
    }

    #[test]
    fn ids_have_128_random_bits() {
        let id = random_id();
        assert_eq!(id.len(), 32);
        assert!(is_id(&id));
        assert_ne!(id, random_id());
        for bad in ["", "..", "a/b", "a%2Fb", "é", &"x".repeat(129)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
