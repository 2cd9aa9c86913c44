//! Numbers for operators, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kenning_tools::Counted;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The labels of a counted request. The path is one of the server's own, so the number of different labels
/// stays small.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    path: &'static str,
}

/// Buckets from a tenth of a millisecond to 53 seconds, which is longer than a call may take.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 3.0, 13))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    tool: &'static str,
}

pub(crate) struct Metrics {
    registry: Registry,
    started: Instant,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<PathLabels, Histogram, fn() -> Histogram>,
    services: Gauge,
    calls: Family<ToolLabels, Counter>,
    call_seconds: Family<ToolLabels, Histogram, fn() -> Histogram>,
    errors: Family<ToolLabels, Counter>,
    bytes: Family<ToolLabels, Counter>,
    /// The counts of credentials that have ended, by tool, so that no counter ever decreases.
    ended: Mutex<BTreeMap<&'static str, Counted>>,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("kenning");
        let seconds = Family::new_with_constructor(durations as fn() -> Histogram);
        let (requests, services) = (Family::default(), Gauge::default());
        let (calls, errors, bytes) = (Family::default(), Family::default(), Family::default());
        registry.register("http_requests", "HTTP requests that were answered", requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until the answer to a request began",
            Unit::Seconds,
            seconds.clone(),
        );
        let call_seconds = Family::new_with_constructor(durations as fn() -> Histogram);
        registry.register_with_unit(
            "tool_call_duration",
            "Time that calls of tools took",
            Unit::Seconds,
            call_seconds.clone(),
        );
        registry.register("credentials_open", "Credentials that were used and still hold", services.clone());
        registry.register("tool_calls", "Calls of tools", calls.clone());
        registry.register("tool_errors", "Calls of tools that ended in an error", errors.clone());
        registry.register("tool_reply_bytes", "Bytes of the replies of tools", bytes.clone());
        Metrics {
            registry,
            started: Instant::now(),
            requests,
            seconds,
            services,
            calls,
            call_seconds,
            errors,
            bytes,
            ended: Mutex::default(),
        }
    }

    pub(crate) fn time_call(&self, tool: &'static str, took: Duration) {
        self.call_seconds.get_or_create(&ToolLabels { tool }).observe(took.as_secs_f64());
    }

    pub(super) fn uptime_seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    pub(super) fn count(&self, path: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path, status }).inc();
        self.seconds.get_or_create(&PathLabels { path }).observe(took.as_secs_f64());
    }

    /// Keeps the counts of a credential that has ended.
    pub(super) fn retire(&self, usage: &BTreeMap<&'static str, Counted>) {
        add(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner), usage);
    }

    /// The page that is scraped, with the counts of the open credentials so far.
    pub(super) fn page(&self, open: &[BTreeMap<&'static str, Counted>]) -> String {
        let mut total = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open.iter().for_each(|usage| add(&mut total, usage));
        self.services.set(open.len() as i64);
        for (tool, counted) in total {
            let labels = ToolLabels { tool };
            raise(&self.calls.get_or_create(&labels), counted.calls);
            raise(&self.errors.get_or_create(&labels), counted.errors);
            raise(&self.bytes.get_or_create(&labels), counted.bytes_returned);
        }
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut page, &self.registry);
        page
    }
}

fn add(total: &mut BTreeMap<&'static str, Counted>, more: &BTreeMap<&'static str, Counted>) {
    for (tool, counted) in more {
        let sum = total.entry(tool).or_default();
        sum.calls += counted.calls;
        sum.errors += counted.errors;
        sum.bytes_returned += counted.bytes_returned;
    }
}

/// Raises a counter to the total instead of adding to it, so that two scrapes at the same time count nothing
/// twice.
fn raise(counter: &Counter, total: u64) {
    counter.inner().fetch_max(total, std::sync::atomic::Ordering::Relaxed);
}
