//! Tests of the store's promises, also with a disk that does not keep its own.

// The printed figures of a long run are useful.
#![allow(clippy::print_stdout)]

#[cfg(unix)]
mod attacks;
#[cfg(unix)]
mod copy;
mod damage;
mod database;
mod database_failures;
mod embedded;
mod entry_limit;
#[cfg(unix)]
mod io_errors;
#[cfg(unix)]
mod power_loss;
mod purge;
mod refusals;
mod scopes;
#[cfg(unix)]
mod script;
mod undo;

/// The seed of a randomised test: `SEED` from the environment, otherwise a fixed one.
#[cfg(unix)]
fn seed() -> u64 {
    std::env::var("SEED").map_or(1, |text| text.parse().expect("SEED is a number"))
}

/// Runs `work` for each case, on all cores. A case that panics fails the test.
fn on_every_core<C: Sync, R: Send>(cases: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let one = || -> Vec<R> {
            let mine = || cases.get(next.fetch_add(1, Ordering::Relaxed));
            std::iter::from_fn(mine).map(&work).collect()
        };
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(one)).collect();
        started.into_iter().flat_map(|worker| worker.join().expect("every case holds")).collect()
    })
}
