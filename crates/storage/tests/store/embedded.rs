//! The embedded backend keeps the promises that every backend makes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kenning_storage::Embedded;
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
