//! Permits for the work on the store that runs at the same time. Each such call takes a thread and often a connection to the store, so
//! without a bound, a crowd of callers would take memory without getting answers sooner.

use std::sync::Arc;

use kenning_engine::CallKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most writes of all callers. They wait together for one sync, so many of them cost little; threads must be left for reads.
const WRITES_MAX: usize = 256;

/// The permits that all callers of a process share.
pub(crate) struct SharedPlaces {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    /// For the subscriptions of all callers.
    turns: Arc<Semaphore>,
}

impl SharedPlaces {
    /// Waits for the turn of a subscription.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }
}

impl Default for SharedPlaces {
    fn default() -> SharedPlaces {
        // Twice as many reads as one caller may have, so that a caller with slow reads holds up nobody else.
        let reads = Arc::new(Semaphore::new(2 * reads_of_one()));
        // Half of the processors are left for calls.
        let turns = Arc::new(Semaphore::new((reads_of_one() / 4).max(1)));
        SharedPlaces { reads, writes: Arc::new(Semaphore::new(WRITES_MAX)), turns }
    }
}

/// The permits of one caller.
#[derive(Clone)]
pub(crate) struct Places {
    reads: Arc<Semaphore>,
    shared: Arc<SharedPlaces>,
}

/// The permits of one call, returned when this is dropped.
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] Vec<OwnedSemaphorePermit>);

impl Places {
    pub(crate) fn new(shared: Arc<SharedPlaces>) -> Places {
        Places { reads: Arc::new(Semaphore::new(reads_of_one())), shared }
    }

    /// Waits for a place. A caller waits for its own permits first, so few of its calls wait where others wait too.
    ///
    /// Writes in a session with an order need no permit: the earliest may be the last to ask for one, and those that hold all
    /// permits would wait for it.
    pub(crate) async fn take(&self, kind: CallKind, is_ordered: bool) -> Place {
        let semaphores: &[&Arc<Semaphore>] = match kind {
            CallKind::Read => &[&self.reads, &self.shared.reads],
            CallKind::Write | CallKind::ExclusiveWrite if is_ordered => &[],
            CallKind::Write | CallKind::ExclusiveWrite => &[&self.shared.writes],
        };
        let mut permits = Vec::new();
        for semaphore in semaphores {
            // No semaphore is ever closed.
            permits.extend(Arc::clone(semaphore).acquire_owned().await.ok());
        }
        Place(permits)
    }
}

/// The most reads of one caller. More would not finish sooner, and would leave no processor to writes.
fn reads_of_one() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn all_callers_together_are_bounded_and_one_does_not_take_all_places() {
        let shared = Arc::new(SharedPlaces::default());
        let [slow, other, third] = [(); 3].map(|()| Places::new(shared.clone()));
        let gets = async |places: &Places| {
            timeout(Duration::from_millis(20), places.take(CallKind::Read, false)).await.ok()
        };
        let mut held = Vec::new();
        for _ in 0..reads_of_one() {
            held.push(gets(&slow).await.expect("a caller has places of its own"));
        }
        assert!(gets(&slow).await.is_none(), "its places are taken");
        for _ in 0..reads_of_one() {
            held.push(gets(&other).await.expect("another caller has places"));
        }
        assert!(gets(&third).await.is_none(), "the places of all are taken");
        assert!(timeout(Duration::from_millis(20), third.take(CallKind::Write, false)).await.is_ok());
        held.clear();
        assert!(gets(&third).await.is_some(), "a place that is given back is taken again");
    }
}
