//! The disk fails at every operation, once or until it is repaired. The store says what became of each write,
//! and continues.

use std::path::Path;
use std::time::Instant;

use kenning_model::{Transaction, TxId};
use kenning_storage::{Applied, Error, Sources, Storage};
use kenning_testkit::fault::{Fault, Faults, Kind, Lasts, Operation, scratch_dir, write_image};
use kenning_testkit::{fixed_sources, fixed_start, scrambled};
use tempfile::TempDir;

use crate::script::{
    Acknowledged, Answers, Interlude, check_sound, checkpoint, head, interlude_before, later_sources,
};
use crate::{on_every_core, seed};

/// Nearly two rounds of the script, with every kind of write and every interlude.
const STEPS: usize = 18;
/// How many steps a run plays after its fault.
const STEPS_AFTER: usize = 3;

#[test]
fn a_disk_that_fails_at_any_operation_costs_no_more_than_the_failed_write() {
    let started = Instant::now();
    let seed = seed();
    println!("I/O errors: SEED={seed}");
    let operations = {
        let dir = scratch_dir();
        let faults = Faults::watch(dir.path());
        // The close at the end is not recorded, because its faults could not be reported to anybody.
        let _open = Run::new(dir.path(), &faults).play();
        faults.recording().1
    };
    let cases: Vec<Fault> = (0..).zip(&operations).flat_map(|(at, operation)| cases(at, operation)).collect();
    let ended = on_every_core(&cases, |fault| run(*fault, scrambled(seed ^ fault.at as u64)));
    let count = |wanted: fn(&Ended) -> bool| ended.iter().filter(|one| wanted(one)).count();
    println!(
        "I/O errors: {} positions, {} runs, SEED={seed}, {:.1} s; the first answer to the fault: \
         {} not applied, {} unknown, {} not opened, {} none",
        operations.len(),
        cases.len(),
        started.elapsed().as_secs_f64(),
        count(|one| matches!(one, Ended::Refused(Applied::No))),
        count(|one| matches!(one, Ended::Refused(Applied::Unknown))),
        count(|one| matches!(one, Ended::NotOpened)),
        count(|one| matches!(one, Ended::Unnoticed)),
    );
}

#[test]
fn a_write_that_failed_half_way_can_not_be_continued() {
    let dir = scratch_dir();
    let faults = Faults::watch(dir.path());
    let storage = Storage::open(dir.path(), fixed_sources()).expect("the store opens");
    // More than SQLite keeps in memory, so that pages are written before the commit.
    let content = "much ".repeat(100_000);
    let tx = |number: u64| Transaction {
        id: TxId(number),
        at: fixed_start(),
        actor: "tester".to_owned(),
        origin: content.clone(),
        tool: "test".to_owned(),
        undoes: Vec::new(),
        undone_by: None,
        changes: Vec::new(),
        left_out: 0,
    };
    let mut pending = storage.backend().begin().expect("a write begins");
    faults.fail(Fault { at: 0, kind: Kind::Full, lasts: Lasts::UntilHealed });
    let failed = (1..=80).find(|number| pending.append(&tx(*number)).is_err());
    faults.heal();
    let failed = failed.expect("the disk is full before it is committed");
    // SQLite has rolled back, and would now run each statement in a transaction of its own.
    for attempt in [pending.append(&tx(failed + 1)), pending.commit()] {
        assert!(
            matches!(attempt, Err(Error::Unavailable { applied: Applied::No, .. })),
            "the rest of a write that was rolled back: {attempt:?}"
        );
    }
    assert_eq!(head(&storage), 0);
    check_sound(&storage);
    storage.commit(Acknowledged::default().request(0)).expect("the next write is accepted");
}

/// The faults that have different effects for this operation.
fn cases(at: usize, operation: &Operation) -> Vec<Fault> {
    let mut cases = Vec::new();
    for kind in [Kind::Io, Kind::Full, Kind::Sync] {
        for lasts in [Lasts::Once, Lasts::UntilHealed] {
            // For a failed sync, both durations are the same fault, so one of them is left out.
            if operation.is_hit_by(kind) && (kind, lasts) != (Kind::Sync, Lasts::Once) {
                cases.push(Fault { at, kind, lasts });
            }
        }
    }
    cases
}

/// How the store first reacted to the fault.
#[derive(Clone, Copy, Debug)]
enum Ended {
    Refused(Applied),
    NotOpened,
    Unnoticed,
}

fn run(fault: Fault, seed: u64) -> Ended {
    let dir = scratch_dir();
    let faults = Faults::watch(dir.path());
    faults.fail(fault);
    let mut run = Run::new(dir.path(), &faults);
    let storage = run.play();
    let Run { acknowledged, ended, .. } = run;
    let answers = acknowledged.answers();
    assert!(faults.failed(), "{fault:?} did not happen");
    assert_eq!(Answers::of(&storage).expect("the store answers"), answers, "{fault:?}, same store");

    // Writes that a failed sync has lost stay lost, and no later sync may be taken for a repair. That holds
    // while the store is open: a store that is opened again reads the system's cache, and can't know that the
    // disk has less.
    let (mut disk, operations) = faults.recording();
    let sync_failed = operations.iter().any(|operation| matches!(operation, Operation::FailedSync { .. }));
    if sync_failed && !matches!(ended, Ended::NotOpened) {
        operations.iter().for_each(|operation| disk.apply(operation));
        let image = scratch_dir();
        write_image(&disk.after_power_loss(seed), image.path()).expect("the image is written");
        let left = Storage::open(image.path(), later_sources()).expect("the image opens");
        check_sound(&left);
        assert_eq!(Answers::of(&left).expect("the image answers"), answers, "{fault:?}, power loss");
    }

    drop(storage);
    drop(faults);
    let reopened = Storage::open(dir.path(), later_sources()).expect("the store opens again");
    check_sound(&reopened);
    assert_eq!(Answers::of(&reopened).expect("the store answers"), answers, "{fault:?}, reopened");
    acknowledged.check_keys(&reopened);
    ended
}

struct Run<'a> {
    dir: &'a Path,
    faults: &'a Faults,
    sources: Sources,
    acknowledged: Acknowledged,
    ended: Ended,
}

impl Run<'_> {
    fn new<'a>(dir: &'a Path, faults: &'a Faults) -> Run<'a> {
        Run {
            dir,
            faults,
            sources: fixed_sources(),
            acknowledged: Acknowledged::default(),
            ended: Ended::Unnoticed,
        }
    }

    /// Plays the script until a few steps after the fault.
    fn play(&mut self) -> Storage {
        let mut storage = self.open();
        let mut after = 0;
        for step in 0..STEPS {
            match interlude_before(step) {
                // The checkpoint of another process may succeed or fail here.
                Some(Interlude::Checkpoint) => drop(checkpoint(self.dir)),
                Some(Interlude::Reopen) => {
                    drop(storage);
                    storage = self.open();
                }
                None => {}
            }
            if let Err(error) = self.step(&storage, step) {
                self.check_refusal(&storage, step, &error);
                self.faults.heal();
                self.step(&storage, step).expect("writes resume when the fault is gone");
            }
            after += usize::from(self.faults.failed());
            if after > STEPS_AFTER {
                break;
            }
        }
        self.faults.heal();
        storage
    }

    fn step(&mut self, storage: &Storage, step: usize) -> Result<(), Error> {
        let committed = storage.commit(self.acknowledged.request(step))?;
        self.acknowledged.add(step, committed);
        Ok(())
    }

    fn open(&mut self) -> Storage {
        Storage::open(self.dir, self.sources.clone()).unwrap_or_else(|error| {
            assert!(
                matches!(error, Error::Unavailable { applied: Applied::No, .. }),
                "opening fails with {error:?}"
            );
            self.note(Ended::NotOpened);
            self.faults.heal();
            Storage::open(self.dir, self.sources.clone()).expect("the store opens when the fault is gone")
        })
    }

    /// While the fault lasts, nothing is written and everything can be read.
    fn check_refusal(&mut self, storage: &Storage, step: usize, error: &Error) {
        let Error::Unavailable { applied, .. } = error else { panic!("step {step} fails with {error:?}") };
        self.note(Ended::Refused(*applied));
        let answers = Answers::of(storage).expect("reads work while writes fail");
        assert_eq!(answers, self.acknowledged.answers(), "after step {step} was refused with {error:?}");
        let left =
            head(&Storage::open(self.killed().path(), later_sources()).expect("the copy opens")) as usize;
        let may_be_there = *applied == Applied::Unknown && left == step + 1;
        assert!(left == step || may_be_there, "step {step} is {applied:?} and {left} are there after a kill");
    }

    /// A copy of the files as another process would find them if this one were killed now.
    fn killed(&self) -> TempDir {
        let copy = scratch_dir();
        for file in std::fs::read_dir(self.dir).expect("the directory is read") {
            let file = file.expect("a file");
            if !file.file_name().to_string_lossy().ends_with("-shm") {
                std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("it is copied");
            }
        }
        copy
    }

    fn note(&mut self, ended: Ended) {
        if let Ended::Unnoticed = self.ended {
            self.ended = ended;
        }
    }
}
