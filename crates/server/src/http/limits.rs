//! How much each caller may ask for, and how long a connection may take. A file can change these limits while
//! the server runs.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use serde::Deserialize;

/// A caller that was silent for a while may make the requests of this number of seconds at once.
const BURST_SECONDS: NonZeroU32 = NonZeroU32::new(2).expect("not zero");

/// The limits of a server. Those of callers hold for each credential separately, so a busy caller takes
/// nothing from the others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests that a caller may make in a second, on average; twice as many at once.
    pub requests_per_second: NonZeroU32,
    /// Calls that write which a caller may make in a second, on average; twice as many at once.
    pub writes_per_second: NonZeroU32,
    /// Requests of a caller that may be under way, subscriptions included.
    pub requests_at_once: NonZeroUsize,
    /// Subscriptions of a caller, each of which is a request that lasts.
    pub subscriptions: NonZeroUsize,
    /// Sessions of a caller's clients before 2026-07-28.
    pub sessions: NonZeroUsize,
    /// Bytes of one request.
    pub body_bytes: NonZeroUsize,
    /// Bytes of all requests of a caller that are being received or carried out.
    pub bodies_bytes: NonZeroUsize,
    /// Requests with a wrong credential from one address in a minute, after which further ones are refused
    /// without checking them.
    pub failures_per_minute: NonZeroU32,
    /// Seconds that the body of a request may take to arrive.
    pub body_seconds: NonZeroU32,
    /// Seconds that an answer may take to begin.
    pub answer_seconds: NonZeroU32,
    /// Seconds that the head of a request may take to arrive, and that a connection may be idle.
    pub header_seconds: NonZeroU32,
    /// Seconds for which a client may read none of the data that is sent to it.
    pub stalled_seconds: NonZeroU32,
    /// Live entries that a namespace may have after a write through this server that adds to them; `None`
    /// for no limit.
    pub entries_per_namespace: Option<NonZeroU64>,
}

const fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

const fn size(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("not zero")
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // An agent that works in parallel makes some ten calls in a second.
            requests_per_second: number(100),
            writes_per_second: number(50),
            requests_at_once: size(64),
            subscriptions: size(16),
            sessions: size(64),
            body_bytes: size(4 * 1024 * 1024),
            bodies_bytes: size(16 * 1024 * 1024),
            failures_per_minute: number(60),
            body_seconds: number(30),
            answer_seconds: number(60),
            header_seconds: number(15),
            stalled_seconds: number(30),
            // What is too many depends on the machine; one namespace may well be all of the store.
            entries_per_namespace: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    #[error("the limits can't be read from {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is no file of limits: {source}", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
}

/// The current limits, which can be read again.
pub struct CurrentLimits {
    file: Option<PathBuf>,
    /// The value of a flag, which overrides the file.
    requests_per_second: Option<NonZeroU32>,
    current: RwLock<Arc<Limits>>,
    read: Mutex<Option<Stamp>>,
}

/// Time and size of a file, which show that it has changed.
pub(super) type Stamp = (SystemTime, u64);

pub(super) fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let found = std::fs::metadata(path)?;
    Ok((found.modified()?, found.len()))
}

impl CurrentLimits {
    pub fn new(
        file: Option<PathBuf>,
        requests_per_second: Option<NonZeroU32>,
    ) -> Result<CurrentLimits, LimitsError> {
        let limits =
            CurrentLimits { file, requests_per_second, current: RwLock::default(), read: Mutex::default() };
        limits.reload()?;
        Ok(limits)
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn get(&self) -> Arc<Limits> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again if it has changed. A file that can't be parsed changes nothing, and is reported
    /// once.
    pub(super) fn reload(&self) -> Result<bool, LimitsError> {
        let mut limits = Limits::default();
        if let Some(path) = &self.file {
            let unreadable = |source| LimitsError::Unreadable { path: path.clone(), source };
            let stamp = stamp(path).map_err(unreadable)?;
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if *read == Some(stamp) {
                return Ok(false);
            }
            *read = Some(stamp);
            let text = std::fs::read_to_string(path).map_err(unreadable)?;
            limits = serde_json::from_str(&text)
                .map_err(|source| LimitsError::Malformed { path: path.clone(), source })?;
        }
        if let Some(requests_per_second) = self.requests_per_second {
            limits.requests_per_second = requests_per_second;
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
        Ok(true)
    }
}

/// The requests, subscriptions and bytes that one caller has under way, and its limits.
pub(crate) struct Meter {
    limits: Arc<CurrentLimits>,
    /// Whether the rate limits apply. Without authentication all callers share one meter, so one caller would
    /// slow down the others.
    has_rates: bool,
    requests: Rate,
    writes: Rate,
    under_way: AtomicUsize,
    subscriptions: AtomicUsize,
    body_bytes: AtomicUsize,
}

/// Why a caller has to wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) why: &'static str,
    pub(crate) seconds: u64,
}

const A_MOMENT: u64 = 1;

impl Meter {
    pub(super) fn new(limits: Arc<CurrentLimits>, has_rates: bool) -> Meter {
        Meter {
            limits,
            has_rates,
            requests: Rate::default(),
            writes: Rate::default(),
            under_way: AtomicUsize::new(0),
            subscriptions: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes a place for one more request.
    pub(super) fn request(self: &Arc<Self>) -> Result<Held, Wait> {
        let limits = self.limits.get();
        if self.has_rates {
            self.requests
                .take(limits.requests_per_second)
                .map_err(|seconds| Wait { why: "this credential makes too many requests", seconds })?;
        }
        self.hold(|meter| &meter.under_way, 1, limits.requests_at_once)
            .ok_or(Wait { why: "this credential has too many requests under way", seconds: A_MOMENT })
    }

    /// Counts a call that writes, or says how long it has to wait.
    pub(crate) fn write(&self) -> Result<(), Wait> {
        if !self.has_rates {
            return Ok(());
        }
        let taken = self.writes.take(self.limits.get().writes_per_second);
        taken.map_err(|seconds| Wait { why: "this credential writes too often", seconds })
    }

    /// Takes a place for one more subscription.
    pub(crate) fn subscription(self: &Arc<Self>) -> Option<Held> {
        self.hold(|meter| &meter.subscriptions, 1, self.limits.get().subscriptions)
    }

    /// Takes room for more bytes of a request.
    pub(super) fn body(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        self.hold(|meter| &meter.body_bytes, bytes, self.limits.get().bodies_bytes)
    }

    fn hold(
        self: &Arc<Self>,
        count: fn(&Meter) -> &AtomicUsize,
        many: usize,
        max: NonZeroUsize,
    ) -> Option<Held> {
        let before = count(self).fetch_add(many, Ordering::Relaxed);
        let held = Held { meter: self.clone(), count, many };
        (before.saturating_add(many) <= max.get()).then_some(held)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }
}

/// A share of a caller's limits, which is given back when this value is dropped.
pub(crate) struct Held {
    meter: Arc<Meter>,
    count: fn(&Meter) -> &AtomicUsize,
    many: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.count)(&self.meter).fetch_sub(self.many, Ordering::Relaxed);
    }
}

/// A rate limit per second. It starts anew when the configured limit changes.
#[derive(Default)]
struct Rate(Mutex<Option<(NonZeroU32, DefaultDirectRateLimiter)>>);

impl Rate {
    /// Takes one place, or returns the number of seconds after which the caller may try again.
    fn take(&self, per_second: NonZeroU32) -> Result<(), u64> {
        let mut rate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.as_ref().is_none_or(|(known, _)| *known != per_second) {
            let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(BURST_SECONDS));
            *rate = Some((per_second, RateLimiter::direct(quota)));
        }
        let Some((_, limiter)) = &*rate else { return Ok(()) };
        limiter.check().map_err(|until| {
            let wait: Duration = until.wait_time_from(DefaultClock::default().now());
            wait.as_secs_f64().ceil().max(1.0) as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_limits_and_a_wrong_one_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("limits.json");
        std::fs::write(&path, r#"{"requests_at_once": 1}"#).expect("writable");
        let limits = Arc::new(CurrentLimits::new(Some(path.clone()), Some(number(7))).expect("limits"));
        assert_eq!((limits.get().requests_at_once, limits.get().requests_per_second), (size(1), number(7)));
        let meter = Arc::new(Meter::new(limits.clone(), false));
        let first = meter.request().expect("there is room");
        assert!(meter.request().is_err(), "and no more");
        for wrong in [r#"{"requests": 1}"#, r#"{"requests_at_once": 0}"#, "{"] {
            std::fs::write(&path, wrong).expect("writable");
            assert!(limits.reload().is_err(), "{wrong}");
            assert_eq!(limits.get().requests_at_once, size(1));
        }
        std::fs::write(&path, r#"{"requests_at_once": 2, "writes_per_second": 1}"#).expect("writable");
        assert!(limits.reload().expect("limits"));
        assert!(!limits.reload().expect("limits"), "it is read once");
        let second = meter.request().expect("there is more room");
        drop((first, second));
        assert!(meter.is_idle());
        let metered = Meter::new(limits, true);
        let written = (0..5).filter(|_| metered.write().is_ok()).count();
        assert_eq!(written, 2, "twice as many at once");
        assert_eq!(metered.write().expect_err("too often").seconds, 1);
    }
}
