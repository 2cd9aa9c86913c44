//! The power goes at every operation on the disk, and what was acknowledged is there.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::Instant;

use kenning_storage::{Sources, Storage};
use kenning_testkit::fault::{Disk, Faults, Operation, scratch_dir, write_image};
use kenning_testkit::{fixed_sources, scrambled};

use crate::script::{
    Acknowledged, Answers, Interlude, STEPS, check_sound, checkpoint, head, interlude_before,
};
use crate::seed;

const SEEDS: u64 = 3;

#[test]
fn no_acknowledged_transaction_is_lost_to_a_power_cut_at_any_operation() {
    let started = Instant::now();
    let seed = seed();
    let Recorded { mut disk, operations, acknowledged, acknowledged_at } = record();
    let dir = scratch_dir();
    let mut runs = 0;
    for (position, operation) in operations.iter().enumerate() {
        // A cut during a sync finds what a cut before it finds; any other operation may have got through.
        let is_sync = matches!(operation, Operation::Sync { .. });
        if !is_sync {
            disk.apply(operation);
        }
        let count = acknowledged_at.partition_point(|at| *at <= position);
        for number in 0..SEEDS {
            let image = disk.after_power_loss(scrambled(seed ^ (position as u64) << 8 ^ number));
            write_image(&image, dir.path()).expect("the image is written");
            let checked = catch_unwind(AssertUnwindSafe(|| check(dir.path(), &acknowledged, count)));
            if let Err(panic) = checked {
                println!(
                    "SEED={seed}: power loss at operation {position} ({operation:.40?}), image {number}"
                );
                resume_unwind(panic);
            }
            runs += 1;
        }
        if is_sync {
            disk.apply(operation);
        }
    }
    println!(
        "power loss: {} positions, {runs} runs, {STEPS} transactions, SEED={seed}, {:.1} s",
        operations.len(),
        started.elapsed().as_secs_f64()
    );
}

struct Recorded {
    disk: Disk,
    operations: Vec<Operation>,
    acknowledged: Acknowledged,
    /// How many operations had changed the disk when each step was acknowledged.
    acknowledged_at: Vec<usize>,
}

/// Plays the script once. It is the same up to any operation at which the power may go, so once is enough.
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
            Some(Interlude::Checkpoint) => checkpoint(dir.path(), "PASSIVE").expect("a checkpoint"),
            Some(Interlude::CheckpointAndTruncate) => {
                checkpoint(dir.path(), "TRUNCATE").expect("a checkpoint")
            }
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
    Recorded { disk, operations, acknowledged, acknowledged_at }
}

/// The store of the image holds what was acknowledged, and at most the one transaction under way besides.
fn check(dir: &Path, all: &Acknowledged, count: usize) {
    let storage = Storage::open(dir, later_sources()).expect("the image opens");
    check_sound(&storage);
    let found = head(&storage) as usize;
    assert!(found == count || found == count + 1, "{count} were acknowledged, {found} are there");
    let kept = all.first(found);
    assert_eq!(Answers::of(&storage).expect("the image answers"), kept.answers());
    kept.check_keys(&storage);
    if found < STEPS {
        storage.commit(kept.request(found)).expect("the script goes on");
        assert_eq!(head(&storage) as usize, found + 1);
    }
}

/// Ids that the script has not drawn.
fn later_sources() -> Sources {
    let sources = fixed_sources();
    for _ in 0..STEPS {
        (sources.id)();
    }
    sources
}
