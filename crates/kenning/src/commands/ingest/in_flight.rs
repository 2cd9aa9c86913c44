//! Limits how many bytes of files are worked on at once, because cutting a file needs many times its size in
//! memory.

use std::sync::{Condvar, Mutex, PoisonError};

use super::locked;

/// The limit for all files together. A larger file is worked on alone.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

#[derive(Default)]
pub(super) struct InFlight {
    bytes: Mutex<u64>,
    permit_returned: Condvar,
}

/// Counts the file against the limit until it is dropped.
pub(super) struct Permit<'a> {
    in_flight: &'a InFlight,
    bytes: u64,
}

impl InFlight {
    /// Waits until the file fits below the limit.
    pub(super) fn enter(&self, bytes: u64) -> Permit<'_> {
        let bytes = bytes.min(BYTES_MAX);
        let has_no_room = |others: &mut u64| *others + bytes > BYTES_MAX;
        let others = self.permit_returned.wait_while(locked(&self.bytes), has_no_room);
        *others.unwrap_or_else(PoisonError::into_inner) += bytes;
        Permit { in_flight: self, bytes }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *locked(&self.in_flight.bytes) -= self.bytes;
        self.in_flight.permit_returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_worked_on_than_there_is_room_for() {
        const LARGE: u64 = BYTES_MAX + 1;
        let in_flight = InFlight::default();
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [1, BYTES_MAX / 2, LARGE, BYTES_MAX / 2, BYTES_MAX, 0, LARGE, BYTES_MAX / 3] {
                let (in_flight, now, most) = (&in_flight, &now, &most);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let permit = in_flight.enter(bytes);
                        most.fetch_max(
                            now.fetch_add(permit.bytes, Ordering::SeqCst) + permit.bytes,
                            Ordering::SeqCst,
                        );
                        std::thread::yield_now();
                        now.fetch_sub(permit.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), BYTES_MAX, "a large one fills it, and none goes beside it");
        assert_eq!(*locked(&in_flight.bytes), 0);
    }
}
