//! The embedded backend keeps the promises that every backend makes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use kenning_storage::{Backend, Embedded};
use kenning_testkit::TempStore;
use kenning_testkit::backend::PROMISES;

#[test]
fn embedded_keeps_every_promise() {
    let mut broken = Vec::new();
    for (name, promise) in PROMISES {
        let store = TempStore::new();
        let backend = Embedded::open(store.path()).expect("a fresh store opens");
        if catch_unwind(AssertUnwindSafe(|| promise(&backend))).is_err() {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "broken promises: {broken:?}");
}

#[test]
fn a_store_that_several_open_at_once_is_created_once() {
    const OPENERS: usize = 6;
    for round in 0..100 {
        let store = TempStore::new();
        let start = Barrier::new(OPENERS);
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                start.wait();
                Embedded::open(store.path()).and_then(|backend| backend.info())
            };
            let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().expect("an opener ends")).collect()
        });
        let first = secrets[0].as_ref().expect("the first opener gets a store");
        for secret in &secrets {
            assert_eq!(secret.as_ref().expect("every opener gets the store"), first, "round {round}");
        }
    }
}
