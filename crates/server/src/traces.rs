//! Traces for operators: a span for each HTTP request and for each call of a tool, sent to a collector of OpenTelemetry (OTLP over
//! HTTP, in its JSON encoding). A span says which tool, how it ended and how long it took; nothing that is stored or asked for, no
//! scope, no caller and no address is in it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::{Client, Url, redirect};
use serde_json::{Value, json};

/// Spans wait to be sent together.
const SENT_EVERY: Duration = Duration::from_secs(2);
const SENT_AT_ONCE: usize = 512;
/// The most spans that wait to be sent. If the collector is too slow, the newest spans are dropped: no call waits for it.
const WAITING_MAX: usize = 8_192;
/// Spans that the collector has not accepted within this time are dropped.
const PATIENCE: Duration = Duration::from_secs(3);
/// That it does not answer is said so often.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Where a collector takes spans.
const PATH: &str = "/v1/traces";

/// Numbers of the protocol.
const KIND_INTERNAL: u32 = 1;
const KIND_SERVER: u32 = 2;
const STATUS_UNSET: u32 = 0;
const STATUS_ERROR: u32 = 2;

/// Sends spans in the background.
pub struct Traces {
    sender: Mutex<Option<SyncSender<Span>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// The trace that something belongs to, and the span that it is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    trace: u128,
    span: u64,
}

/// A piece of work with its beginning and its end.
#[derive(Clone, Debug)]
struct Span {
    context: TraceContext,
    parent: Option<u64>,
    name: String,
    kind: u32,
    began: SystemTime,
    took: Duration,
    /// Names that the conventions of OpenTelemetry have, where there is one.
    attributes: Vec<(&'static str, Value)>,
    is_error: bool,
}

impl TraceContext {
    pub(crate) fn new() -> TraceContext {
        // Zero means none.
        TraceContext { trace: rand::random::<u128>().max(1), span: rand::random::<u64>().max(1) }
    }

    fn below(parent: Option<TraceContext>) -> (TraceContext, Option<u64>) {
        let new = TraceContext::new();
        match parent {
            Some(parent) => (TraceContext { trace: parent.trace, ..new }, Some(parent.span)),
            None => (new, None),
        }
    }
}

impl Traces {
    /// Sends to the collector at this address, such as http://127.0.0.1:4318. Connects to nothing yet.
    pub fn start(address: &str) -> Result<Arc<Traces>, String> {
        let wrong = || format!("`{address}` is no address of a collector; write it as http://127.0.0.1:4318");
        let mut url = Url::parse(address).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        if matches!(url.path(), "" | "/") {
            url.set_path(PATH);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let http = Client::builder().redirect(redirect::Policy::none()).timeout(PATIENCE).build();
        let http = http.map_err(|error| error.to_string())?;
        let (sender, spans) = sync_channel(WAITING_MAX);
        let work = move || Collector { runtime, http, url, warned: None }.follow(&spans);
        let worker = std::thread::Builder::new().name("kenning-traces".to_owned()).spawn(work);
        let worker = Mutex::new(Some(worker.map_err(|error| error.to_string())?));
        Ok(Arc::new(Traces { sender: Mutex::new(Some(sender)), worker }))
    }

    /// An HTTP request that was answered. The route is one of the server's own.
    pub(crate) fn request(
        &self,
        context: TraceContext,
        method: &str,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        self.send(Span {
            context,
            parent: None,
            name: format!("{method} {route}"),
            kind: KIND_SERVER,
            began: SystemTime::now() - took,
            took,
            attributes: vec![
                ("http.request.method", json!(method)),
                ("http.route", json!(route)),
                ("http.response.status_code", json!(status)),
            ],
            is_error: status >= 500,
        });
    }

    /// A call of a tool; `outcome` is `ok` or the code of the error.
    pub(crate) fn call(
        &self,
        parent: Option<TraceContext>,
        tool: &'static str,
        outcome: &str,
        took: Duration,
    ) {
        let (context, parent) = TraceContext::below(parent);
        let is_error = outcome != "ok";
        let mut attributes = vec![
            ("mcp.method.name", json!("tools/call")),
            ("gen_ai.tool.name", json!(tool)),
            ("kenning.outcome", json!(outcome)),
        ];
        if is_error {
            attributes.push(("error.type", json!(outcome)));
        }
        self.send(Span {
            context,
            parent,
            name: format!("tools/call {tool}"),
            kind: KIND_INTERNAL,
            began: SystemTime::now() - took,
            took,
            attributes,
            is_error,
        });
    }

    fn send(&self, span: Span) {
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            // Where too many wait already, this one is dropped.
            let _ = sender.try_send(span);
        }
    }

    /// Sends what still waits, before the process ends.
    pub fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(worker) = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = worker.join();
        }
    }
}

/// Where spans go.
struct Collector {
    runtime: tokio::runtime::Runtime,
    http: Client,
    url: Url,
    warned: Option<Instant>,
}

impl Collector {
    /// Sends spans until nobody makes any more.
    fn follow(mut self, spans: &Receiver<Span>) {
        let (mut waiting, mut since) = (Vec::new(), Instant::now());
        loop {
            let next = spans.recv_timeout(SENT_EVERY.saturating_sub(since.elapsed()));
            let is_end = matches!(next, Err(RecvTimeoutError::Disconnected));
            if waiting.is_empty() {
                since = Instant::now();
            }
            waiting.extend(next);
            let is_due = is_end || since.elapsed() >= SENT_EVERY || waiting.len() >= SENT_AT_ONCE;
            if is_due && !waiting.is_empty() {
                self.export(&std::mem::take(&mut waiting));
            }
            if is_end {
                return;
            }
            if is_due {
                since = Instant::now();
            }
        }
    }

    fn export(&mut self, spans: &[Span]) {
        let request = self.http.post(self.url.clone()).header("content-type", "application/json");
        let request = request.body(encoded(spans).to_string());
        // Made inside the runtime, whose clock the request goes by.
        let problem = match self.runtime.block_on(async { request.send().await }) {
            Ok(response) if response.status().is_success() => return,
            Ok(response) => format!("it answers with {}", response.status().as_u16()),
            Err(error) => error.without_url().to_string(),
        };
        if self.warned.is_none_or(|last| last.elapsed() > WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(problem, "the collector does not take traces");
        }
    }
}

/// Spans as the protocol has them: `ExportTraceServiceRequest` in JSON, where ids are hexadecimal and large numbers are texts.
fn encoded(spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(encoded_span).collect();
    let resource =
        [("service.name", json!("kenning")), ("service.version", json!(env!("CARGO_PKG_VERSION")))];
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{"scope": {"name": "kenning"}, "spans": spans}],
    }]})
}

fn encoded_span(span: &Span) -> Value {
    let nanoseconds =
        |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
    let mut encoded = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": nanoseconds(span.began),
        "endTimeUnixNano": nanoseconds(span.began + span.took),
        "attributes": attributes(&span.attributes),
        "status": {"code": if span.is_error { STATUS_ERROR } else { STATUS_UNSET }},
    });
    if let Some(parent) = span.parent {
        encoded["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    encoded
}

fn attributes(named: &[(&'static str, Value)]) -> Vec<Value> {
    let value = |value: &Value| match value {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    named.iter().map(|(name, of)| json!({"key": name, "value": value(of)})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_encoded_as_the_protocol_says() {
        let span = Span {
            context: TraceContext { trace: 0xabc, span: 0x12 },
            parent: Some(0x11),
            name: "tools/call store".to_owned(),
            kind: KIND_INTERNAL,
            began: UNIX_EPOCH + Duration::from_secs(1),
            took: Duration::from_millis(5),
            attributes: vec![("gen_ai.tool.name", json!("store")), ("http.response.status_code", json!(200))],
            is_error: false,
        };
        let expected = json!({
            "traceId": "00000000000000000000000000000abc",
            "spanId": "0000000000000012",
            "name": "tools/call store",
            "kind": 1,
            "startTimeUnixNano": "1000000000",
            "endTimeUnixNano": "1005000000",
            "attributes": [
                {"key": "gen_ai.tool.name", "value": {"stringValue": "store"}},
                {"key": "http.response.status_code", "value": {"intValue": "200"}},
            ],
            "status": {"code": 0},
            "parentSpanId": "0000000000000011",
        });
        let whole = encoded(&[span]);
        assert_eq!(whole["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([expected]));
        assert_eq!(whole["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "kenning");
    }

    #[test]
    fn an_address_is_that_of_a_collector() {
        assert!(Traces::start("nonsense").is_err() && Traces::start("ftp://127.0.0.1").is_err());
        Traces::start("http://127.0.0.1:9").expect("nothing is asked yet").close();
    }
}
