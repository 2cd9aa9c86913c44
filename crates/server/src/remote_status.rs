//! How a server on HTTP stands, asked from outside: whether it answers, whether it can read its store, and its numbers if whoever asks
//! may see them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode, Url};
use serde::Serialize;

use crate::connect::{ConnectError, Remote, innermost_cause};

/// A server that takes longer than this counts as not answering.
const PATIENCE: Duration = Duration::from_secs(10);
/// The numbers of a server are some kilobytes.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// The reason that the server gives when it is not ready.
const REASON_BYTES_MAX: usize = 200;

/// Programs rely on the names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RemoteStatus {
    pub url: String,
    /// Whether the process answers.
    pub is_alive: bool,
    /// Whether it can answer calls.
    pub is_ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long the answer to whether it is ready took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_ms: Option<f64>,
    /// For owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_numbers: Option<String>,
}

/// Since the server was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    pub credentials_open: u64,
    pub requests: u64,
    /// Of these, how many had which status other than 2xx.
    pub statuses: BTreeMap<u16, u64>,
    pub calls: u64,
    /// By tool; those that were never called are left out.
    pub tools: BTreeMap<String, ToolNumbers>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolNumbers {
    pub calls: u64,
    pub errors: u64,
}

/// Asks a server. An error says that it can't be asked; one that does not answer is not alive.
pub async fn status_of(remote: &Remote) -> Result<RemoteStatus, ConnectError> {
    let (http, mcp) = remote.client()?;
    let at = |path: &str| {
        let mut url = mcp.clone();
        // A proxy may serve it below a path.
        let below = mcp.path().strip_suffix("/mcp").unwrap_or(mcp.path()).trim_end_matches('/').to_owned();
        url.set_path(&format!("{below}{path}"));
        url
    };
    let mut status = RemoteStatus { url: at("").to_string(), ..RemoteStatus::default() };
    match get(&http, at("/healthz"), remote, false).await {
        Ok((code, _)) if code.is_success() => status.is_alive = true,
        Ok((code, _)) => {
            status.problem = Some(format!("it answers with {}, which no Kenning server does", code.as_u16()));
            return Ok(status);
        }
        Err(why) => {
            status.problem = Some(why);
            return Ok(status);
        }
    }
    let since = Instant::now();
    match get(&http, at("/readyz"), remote, false).await {
        Ok((code, _)) if code.is_success() => {
            status.is_ready = true;
            status.ready_ms = Some((since.elapsed().as_secs_f64() * 10_000.0).round() / 10.0);
        }
        Ok((_, said)) => status.problem = Some(cut(&said).to_owned()),
        Err(why) => status.problem = Some(why),
    }
    match get(&http, at("/metrics"), remote, true).await {
        Ok((code, page)) if code.is_success() => status.numbers = Some(Numbers::read(&page)),
        Ok((StatusCode::UNAUTHORIZED, _)) => {
            let why = match remote.token {
                crate::connect::RemoteToken::None => "they need a key of an owner",
                _ => "the server does not know this key or token",
            };
            status.no_numbers = Some(why.to_owned());
        }
        Ok((StatusCode::FORBIDDEN, _)) => status.no_numbers = Some("they are for keys of owners".to_owned()),
        Ok((code, _)) => status.no_numbers = Some(format!("the server answers with {}", code.as_u16())),
        Err(why) => status.no_numbers = Some(why),
    }
    Ok(status)
}

/// The answer to one question, or why there is none. The token is shown only where it opens something.
async fn get(
    http: &Client,
    url: Url,
    remote: &Remote,
    shows_token: bool,
) -> Result<(StatusCode, String), String> {
    let mut request = http.get(url).timeout(PATIENCE);
    if shows_token {
        request = request.headers(remote.token.headers()?);
    }
    let mut response = request.send().await.map_err(|error| innermost_cause(&error))?;
    let (code, mut body) = (response.status(), Vec::new());
    while let Some(part) = response.chunk().await.map_err(|error| innermost_cause(&error))? {
        if body.len() + part.len() > PAGE_BYTES_MAX {
            return Err("the answer has more bytes than any of a Kenning server".to_owned());
        }
        body.extend_from_slice(&part);
    }
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_BYTES_MAX)]
}

impl Numbers {
    /// What a page in the format of Prometheus says; lines about other things are passed over.
    fn read(page: &str) -> Numbers {
        let mut numbers = Numbers::default();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((what, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            let (name, labels) = what.split_once('{').unwrap_or((what, ""));
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split_once('"').map(|(value, _)| value)
            };
            match (name, label("status"), label("tool")) {
                ("kenning_credentials_open", ..) => numbers.credentials_open = value,
                ("kenning_http_requests_total", Some(status), _) => {
                    numbers.requests += value;
                    match status.parse() {
                        Ok(status) if !(200..300).contains(&status) => {
                            *numbers.statuses.entry(status).or_default() += value;
                        }
                        _ => {}
                    }
                }
                ("kenning_tool_calls_total", _, Some(tool)) if value > 0 => {
                    numbers.calls += value;
                    numbers.tools.entry(tool.to_owned()).or_default().calls = value;
                }
                ("kenning_tool_errors_total", _, Some(tool)) if value > 0 => {
                    numbers.tools.entry(tool.to_owned()).or_default().errors = value;
                }
                _ => {}
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_page() {
        let page = "# TYPE kenning_http_requests counter\n\
            kenning_http_requests_total{path=\"/mcp\",status=\"200\"} 7\n\
            kenning_http_requests_total{path=\"/mcp\",status=\"429\"} 2\n\
            kenning_http_requests_total{path=\"other\",status=\"429\"} 1\n\
            kenning_http_request_duration_seconds_sum{path=\"/mcp\"} 0.5\n\
            kenning_credentials_open 3\n\
            kenning_tool_calls_total{tool=\"store\"} 4\nkenning_tool_errors_total{tool=\"store\"} 1\n\
            kenning_tool_calls_total{tool=\"query\"} 0\nnonsense\n# EOF\n";
        let store = ToolNumbers { calls: 4, errors: 1 };
        let expected = Numbers {
            credentials_open: 3,
            requests: 10,
            statuses: [(429, 3)].into(),
            calls: 4,
            tools: [("store".to_owned(), store)].into(),
        };
        assert_eq!(Numbers::read(page), expected);
    }
}
