//! The additions of the server to each call of one caller: its limits, the audit log, and the numbers for
//! operators.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kenning_presentation::Reply;
use kenning_tools::{Code, Definition, Stop};
use serde_json::json;

use crate::audit::{AuditLog, Record};
use crate::http::limits::{Held, Meter};
use crate::http::metrics::Metrics;
use crate::places::SharedPlaces;

/// The first three are `None` on standard streams, where the caller is the owner.
#[derive(Clone, Default)]
pub(crate) struct Edge {
    pub(crate) meter: Option<Arc<Meter>>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) metrics: Option<Arc<Metrics>>,
    /// The places that this caller shares with all others of the process.
    pub(crate) places: Arc<SharedPlaces>,
}

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) std::net::SocketAddr);

impl Edge {
    /// The reason why a call may not be made now.
    pub(crate) fn refusal(&self, tool: &Definition) -> Option<Stop> {
        if !tool.effect.writes() {
            return None;
        }
        if let Some(meter) = &self.meter
            && let Err(wait) = meter.write()
        {
            let text = format!("{}; try again in {} s", wait.why, wait.seconds);
            let stop = Stop::new(Code::RateLimited, text).with("retry_after_seconds", json!(wait.seconds));
            return Some(stop.with("outcome", json!("not_applied")));
        }
        if let Some(audit) = &self.audit
            && !audit.is_writable()
        {
            let text = "the audit log can't be written, so nothing else may be; reading goes on";
            return Some(Stop::new(Code::BackendUnavailable, text).with("outcome", json!("not_applied")));
        }
        None
    }

    /// Takes a place for a subscription of the caller: an error if all places are taken, `None` if there is
    /// no limit.
    pub(crate) fn subscription(&self) -> Result<Option<Held>, &'static str> {
        match &self.meter {
            None => Ok(None),
            Some(meter) => meter
                .subscription()
                .map(Some)
                .ok_or("this credential has too many subscriptions; end one first"),
        }
    }

    pub(crate) fn record_call(&self, by: Caller<'_>, tool: &Definition, reply: &Reply, since: Instant) {
        if let Some(metrics) = &self.metrics {
            metrics.time_call(tool.name, since.elapsed());
        }
        let Some(audit) = &self.audit else { return };
        let outcome = outcome_of(reply);
        let record = Record {
            what: "tools/call",
            who: by.subject,
            from: by.from.map(|peer| peer.0.ip().to_string()),
            tool: tool.name,
            outcome,
            bytes: Some(reply.structured_bytes()),
            ms: Some(milliseconds(since.elapsed())),
            ..Record::default()
        };
        audit.write(&record.named(by.name).about(&reply.structured));
    }

    /// Records a request other than a call, by its method; `outcome` is `ok` or the code of the error.
    pub(crate) fn record(&self, by: Caller<'_>, what: &str, outcome: String) {
        let Some(audit) = &self.audit else { return };
        let from = by.from.map(|peer| peer.0.ip().to_string());
        audit.write(&Record { what, who: by.subject, from, outcome, ..Record::default() }.named(by.name));
    }
}

/// The caller of a request, as the audit log names it.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) subject: &'a str,
    pub(crate) name: &'a str,
    pub(crate) from: Option<Peer>,
}

/// How a call ended: `ok`, or the code of the error.
pub(crate) fn outcome_of(reply: &Reply) -> String {
    if !reply.is_error {
        return "ok".to_owned();
    }
    let structured = &reply.structured;
    let code = structured["error"]["code"].as_str().or(structured["details"]["code"].as_str());
    code.unwrap_or("ERROR").to_owned()
}

fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).round() / 10.0
}
