//! Passages: sections that a search has found, kept for the caller that searched, so that it can read them in
//! bounded pieces.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kenning_engine::StoreId;
use kenning_model::{Id, Principal, Section, Timestamp};
use kenning_presentation::text::clean;
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::documents::Labels;

/// A passage is kept for this long after it was last read.
const KEPT: Duration = Duration::from_secs(30 * 60);
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const HANDLES_MAX: u64 = 100_000;
const TRACES_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// A warning is logged once per this many evicted passages.
const WARN_EVERY: u64 = 1_000;

pub struct Scratch {
    passages: Cache<(ScratchOwner, String), Arc<Passage>>,
    /// Handles by owner, section and version, so that a section that is found again keeps its handle.
    handles: Cache<(ScratchOwner, Id, u32), String>,
    /// The diagnostics of searches, as JSON.
    traces: Cache<(ScratchOwner, String), Arc<str>>,
    evicted: Arc<AtomicU64>,
}

/// For whom something is kept, and from which store it is. A store gets another id when a backup is put into its place, and when
/// something is removed from it for good; then nothing of before can be read any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScratchOwner {
    origin: String,
    store: StoreId,
}

impl ScratchOwner {
    pub fn new(principal: &Principal, store: StoreId) -> ScratchOwner {
        ScratchOwner { origin: principal.origin.clone(), store }
    }
}

/// A section as it was when it was found.
pub struct Passage {
    pub section_id: String,
    pub doc_tag: String,
    pub repository: Option<String>,
    pub environment: Option<String>,
    pub title: String,
    /// The path of its document, relative to the ingested directory.
    pub path: String,
    pub text: String,
    /// The time at which the passage was kept.
    pub created_at: Timestamp,
    /// The byte range of the passage that was read last, or that answers the search best.
    window: Mutex<Range<usize>>,
}

impl Passage {
    /// A cleaned copy of a section from the document at this path.
    pub fn new(id: Id, section: &Section, path: &str, created_at: Timestamp) -> Passage {
        Passage {
            section_id: id.to_string(),
            doc_tag: clean(&section.doc_tag),
            repository: section.repository.clone(),
            environment: section.environment.clone(),
            title: section.title(),
            path: clean(path),
            text: clean(&section.text),
            created_at,
            window: Mutex::new(0..0),
        }
    }

    pub(crate) fn labels(&self) -> Labels<'_> {
        let (repository, environment) = (self.repository.as_deref(), self.environment.as_deref());
        Labels { doc_tag: &self.doc_tag, repository, environment }
    }

    pub(crate) fn window(&self) -> Range<usize> {
        self.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn was_read(&self, window: Range<usize>) {
        *self.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = window;
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        let evicted = Arc::new(AtomicU64::new(0));
        let counted = evicted.clone();
        let passages = Cache::builder()
            .max_capacity(BYTES_MAX)
            .weigher(|_, passage: &Arc<Passage>| u32::try_from(passage.text.len() + 256).unwrap_or(u32::MAX))
            .time_to_idle(KEPT)
            // The default policy refuses new items when the cache is full, so a handle could be dead before
            // the caller gets it.
            .eviction_policy(EvictionPolicy::lru())
            .eviction_listener(move |_, _, cause| {
                if cause == RemovalCause::Size {
                    let many = counted.fetch_add(1, Ordering::Relaxed) + 1;
                    if many == 1 || many.is_multiple_of(WARN_EVERY) {
                        tracing::warn!(many, "passages had to give way before their time");
                    }
                }
            })
            .build();
        let traces = Cache::builder()
            .max_capacity(TRACES_BYTES_MAX)
            .weigher(|_, trace: &Arc<str>| u32::try_from(trace.len()).unwrap_or(u32::MAX))
            .time_to_idle(KEPT)
            .build();
        let handles = Cache::builder().max_capacity(HANDLES_MAX).time_to_idle(KEPT).build();
        Scratch { passages, handles, traces, evicted }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("evicted", &self.evicted).finish_non_exhaustive()
    }
}

impl Scratch {
    /// The handle and the passage of this version of a section, if it is kept for `owner` already.
    pub(crate) fn kept(&self, owner: &ScratchOwner, id: Id, version: u32) -> Option<(String, Arc<Passage>)> {
        let handle = self.handles.get(&(owner.clone(), id, version))?;
        Some((handle.clone(), self.get(owner, &handle)?))
    }

    /// Keeps a passage for `owner`; for any other caller it does not exist.
    pub(crate) fn keep(
        &self,
        owner: &ScratchOwner,
        handle: &str,
        (id, version): (Id, u32),
        passage: Passage,
    ) -> Arc<Passage> {
        let passage = Arc::new(passage);
        self.passages.insert((owner.clone(), handle.to_owned()), passage.clone());
        self.handles.insert((owner.clone(), id, version), handle.to_owned());
        passage
    }

    pub fn get(&self, owner: &ScratchOwner, handle: &str) -> Option<Arc<Passage>> {
        self.passages.get(&(owner.clone(), handle.to_owned()))
    }

    pub(crate) fn put_trace(&self, owner: &ScratchOwner, handle: &str, trace: String) {
        self.traces.insert((owner.clone(), handle.to_owned()), trace.into());
    }

    /// The number of passages that were evicted because of the size limit.
    pub fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The diagnostics of a search, as JSON.
    pub fn trace(&self, owner: &ScratchOwner, handle: &str) -> Option<Arc<str>> {
        self.traces.get(&(owner.clone(), handle.to_owned()))
    }
}
