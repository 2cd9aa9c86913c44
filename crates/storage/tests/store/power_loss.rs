//! The power fails at every operation on the disk, and every acknowledged write survives.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::Instant;

use kenning_storage::Storage;
use kenning_testkit::fault::{Disk, Faults, Operation, scratch_dir, write_image};
use kenning_testkit::{fixed_sources, scrambled};

use crate::script::{
    Acknowledged, Answers, Interlude, STEPS, check_sound, checkpoint, head, interlude_before, later_sources,
};
use crate::{on_every_core, seed};

const SEEDS: u64 = 3;
const STRETCH: usize = 32;

#[test]
fn no_acknowledged_transaction_is_lost_to_a_power_cut_at_any_operation() {
    let started = Instant::now();
    let seed = seed();
    let recorded = record();
    let positions: Vec<usize> = (0..recorded.operations.len()).collect();
    // Neighbouring positions share most operations, so each worker goes along its own stretch of the
    // recording.
    let stretches: Vec<&[usize]> = positions.chunks(STRETCH).collect();
    let runs: usize = on_every_core(&stretches, |stretch| cut_along(&recorded, stretch, seed)).iter().sum();
    println!(
        "power loss: {} positions, {runs} runs, {STEPS} transactions, SEED={seed}, {:.1} s",
        positions.len(),
        started.elapsed().as_secs_f64()
    );
}

/// Cuts the power at each of these operations. Returns the number of images that were checked.
fn cut_along(recorded: &Recorded, stretch: &[usize], seed: u64) -> usize {
    let Recorded { disk, operations, expected, acknowledged_at } = recorded;
    let mut disk = disk.clone();
    operations[..stretch[0]].iter().for_each(|operation| disk.apply(operation));
    let dir = scratch_dir();
    for position in stretch.iter().copied() {
        let operation = &operations[position];
        // A cut during a sync leaves the same state as a cut before it; any other operation may have been
        // completed.
        let is_sync = matches!(operation, Operation::Sync { .. });
        if !is_sync {
            disk.apply(operation);
        }
        let count = acknowledged_at.partition_point(|at| *at <= position);
        for number in 0..SEEDS {
            let image = disk.after_power_loss(scrambled(seed ^ (position as u64) << 8 ^ number));
            write_image(&image, dir.path()).expect("the image is written");
            let checked = catch_unwind(AssertUnwindSafe(|| check(dir.path(), expected, count)));
            if let Err(panic) = checked {
                println!(
                    "SEED={seed}: power loss at operation {position} ({operation:.40?}), image {number}"
                );
                resume_unwind(panic);
            }
        }
        if is_sync {
            disk.apply(operation);
        }
    }
    stretch.len() * SEEDS as usize
}

struct Recorded {
    disk: Disk,
    operations: Vec<Operation>,
    /// The answers of a store that contains the first 0, 1, 2, ... of the transactions.
    expected: Vec<(Acknowledged, Answers)>,
    /// For each step, how many operations had changed the disk when it was acknowledged.
    acknowledged_at: Vec<usize>,
}

/// Plays the script once. All runs are the same up to the operation at which the power fails, so one
/// recording is enough.
fn record() -> Recorded {
    let dir = scratch_dir();
    let faults = Faults::watch(dir.path());
    let open = |sources| Storage::open(dir.path(), sources).expect("the store opens");
    let sources = fixed_sources();
    let mut storage = open(sources.clone());
    let mut acknowledged = Acknowledged::default();
    let mut acknowledged_at = Vec::new();
    for step in 0..STEPS {
        match interlude_before(step) {
            Some(Interlude::Checkpoint) => checkpoint(dir.path()).expect("a checkpoint"),
            Some(Interlude::Reopen) => {
                drop(storage);
                storage = open(sources.clone());
            }
            None => {}
        }
        let committed = storage.commit(acknowledged.request(step)).expect("the step is accepted");
        acknowledged.add(step, committed);
        acknowledged_at.push(faults.count());
    }
    drop(storage);
    let (disk, operations) = faults.recording();
    let expected =
        (0..=STEPS).map(|count| acknowledged.first(count)).map(|kept| (kept.clone(), kept.answers()));
    Recorded { disk, operations, expected: expected.collect(), acknowledged_at }
}

/// Checks that the store of the image contains what was acknowledged, and at most the one transaction in
/// progress besides.
fn check(dir: &Path, expected: &[(Acknowledged, Answers)], count: usize) {
    let storage = Storage::open(dir, later_sources()).expect("the image opens");
    check_sound(&storage);
    let found = head(&storage) as usize;
    assert!(found == count || found == count + 1, "{count} were acknowledged, {found} are there");
    let (kept, answers) = &expected[found];
    assert_eq!(Answers::of(&storage).expect("the image answers"), *answers);
    kept.check_keys(&storage);
    if found < STEPS {
        storage.commit(kept.request(found)).expect("the script goes on");
        assert_eq!(head(&storage) as usize, found + 1);
    }
}
