//! The client side: finds dual responses in tool results and fetches the rows behind them.
//!
//! It does not contain the model's API, or the transport and protocol of MCP.

mod batches;
mod error;
mod guard;
mod ndjson;
mod parse;
mod parsed;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::Value;
use url::{Origin, Url};

pub use batches::BatchOptions;
pub use error::{ClientError, ClientErrorCode};
pub use parsed::{FetchOptions, FetchResult, ParsedDualResponse};
pub use transport::{BodyStream, HttpSend};

use guard::Guard;
use transport::ReqwestSend;

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Twice the size of the largest page that a server of this crate sends.
const RESPONSE_BYTES_MAX_DEFAULT: usize = 32 << 20;

/// Finds dual responses in tool results and fetches their rows. Cheap to clone.
#[derive(Clone)]
pub struct DualResponseClient {
    inner: Arc<Inner>,
}

struct Inner {
    base_url: Option<Url>,
    http: Arc<dyn HttpSend>,
    headers: HeaderMap,
    headers_for: Vec<(Origin, HeaderName, HeaderValue)>,
    timeout: Duration,
    response_bytes_max: usize,
    guard: Arc<Guard>,
}

impl DualResponseClient {
    /// A client with all defaults.
    pub fn new() -> Result<Self, ClientError> {
        Self::builder().build()
    }

    /// A client with options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            base_url: None,
            http: None,
            headers: Vec::new(),
            headers_for: Vec::new(),
            allowed: Vec::new(),
            timeout: TIMEOUT_DEFAULT,
            response_bytes_max: RESPONSE_BYTES_MAX_DEFAULT,
            allow_private: false,
        }
    }

    /// Parses a tool result; `None` if it is not a dual response. It accepts the result, its structured
    /// content, a text block that contains this content as JSON, or the text of such a block.
    pub fn parse(&self, tool_result: &Value) -> Option<ParsedDualResponse> {
        self.try_parse(tool_result).ok()
    }

    /// As `parse`, with the reason if it is not a dual response.
    pub fn try_parse(&self, tool_result: &Value) -> Result<ParsedDualResponse, ClientError> {
        parse::tool_result(self, tool_result)
    }

    /// Parses the structured content of a tool result; `None` if it is not a dual response.
    pub fn parse_structured(&self, structured_content: &Value) -> Option<ParsedDualResponse> {
        parse::structured(self, structured_content, None).ok()
    }
}

impl std::fmt::Debug for DualResponseClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers may contain secrets, so they are left out.
        let base_url = self.inner.base_url.as_ref().map(Url::as_str);
        f.debug_struct("DualResponseClient").field("base_url", &base_url).finish_non_exhaustive()
    }
}

/// Options of a [`DualResponseClient`].
pub struct ClientBuilder {
    base_url: Option<String>,
    http: Option<Transport>,
    headers: Vec<(String, String)>,
    headers_for: Vec<(String, String, String)>,
    allowed: Vec<String>,
    timeout: Duration,
    response_bytes_max: usize,
    allow_private: bool,
}

enum Transport {
    Reqwest(reqwest::Client),
    Own(Arc<dyn HttpSend>),
}

impl ClientBuilder {
    /// Fetches every resource below this URL, whatever address a tool result has. Default: the address in the
    /// result.
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self { base_url: Some(base_url.into()), ..self }
    }

    /// Sends requests with this HTTP client, which then decides about proxies, name resolution and redirects.
    /// The address is still checked first, and a reply from another origin is refused. The default HTTP
    /// client uses no proxy, checks each address that a name resolves to, and follows no redirect to another
    /// origin.
    pub fn http(self, http: reqwest::Client) -> Self {
        Self { http: Some(Transport::Reqwest(http)), ..self }
    }

    /// Sends requests with another implementation.
    pub fn transport(self, transport: impl HttpSend) -> Self {
        Self { http: Some(Transport::Own(Arc::new(transport))), ..self }
    }

    /// Adds a header to all requests. A header with a credential requires `base_url`, or `header_for` in
    /// place of this method, because a tool result must not be able to choose who receives it.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a header to requests to one origin, such as `https://api.example.com`; that origin is then
    /// trusted.
    pub fn header_for(
        mut self,
        origin: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.headers_for.push((origin.into(), name.into(), value.into()));
        self
    }

    /// Trusts an origin, also if it is private or without TLS.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.allowed.push(origin.into());
        self
    }

    /// Allows tool results that point into private networks. Default: off.
    pub fn allow_private(self, allow_private: bool) -> Self {
        Self { allow_private, ..self }
    }

    /// The largest time for a request, and for silence within a stream. Default: 30 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The largest size of a reply, or of one line of a stream. Default: 32 MiB.
    pub fn response_bytes_max(self, response_bytes_max: usize) -> Self {
        Self { response_bytes_max, ..self }
    }

    /// Makes the client; fails if an option is invalid.
    pub fn build(self) -> Result<DualResponseClient, ClientError> {
        let base_url = self.base_url.as_deref().map(parse_origin).transpose()?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let (name, value) = parse_header(name, value)?;
            if base_url.is_none() && is_credential(&name) {
                let what = format!(
                    "`{name}` would go wherever a tool result points; use `header_for` or `base_url`"
                );
                return Err(ClientError::InvalidOption { what });
            }
            headers.append(name, value);
        }
        let mut trusted: Vec<Url> = base_url.iter().cloned().collect();
        let mut headers_for = Vec::new();
        for (origin, name, value) in &self.headers_for {
            let (url, (name, value)) = (parse_origin(origin)?, parse_header(name, value)?);
            headers_for.push((url.origin(), name, value));
            trusted.push(url);
        }
        for origin in &self.allowed {
            trusted.push(parse_origin(origin)?);
        }
        let guard = Arc::new(Guard::new(trusted, self.allow_private));
        let http = match self.http {
            Some(Transport::Own(own)) => own,
            Some(Transport::Reqwest(client)) => Arc::new(ReqwestSend(client)),
            None => Arc::new(ReqwestSend::guarded(&guard)?),
        };
        let (timeout, response_bytes_max) = (self.timeout, self.response_bytes_max);
        let inner = Inner { base_url, http, headers, headers_for, timeout, response_bytes_max, guard };
        Ok(DualResponseClient { inner: Arc::new(inner) })
    }
}

fn parse_origin(text: &str) -> Result<Url, ClientError> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(ClientError::InvalidOption { what: format!("`{text}` is not an http or https address") }),
    }
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ClientError> {
    match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        (Ok(name), Ok(mut value)) => {
            value.set_sensitive(is_credential(&name));
            Ok((name, value))
        }
        _ => Err(ClientError::InvalidOption { what: format!("`{name}` is not a header that can be sent") }),
    }
}

fn is_credential(name: &HeaderName) -> bool {
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE].contains(name) || name == "x-api-key"
}
