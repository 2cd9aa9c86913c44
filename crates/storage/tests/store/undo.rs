//! What stands in the way of an undo, and what does not.

use std::time::Instant;

use kenning_storage::Write;
use kenning_testkit::TempStore;

use crate::scopes::{count_in, make_namespace, new_entry, open, scope_of, undo, wrote};

#[test]
fn undoing_a_large_delete_again_costs_about_what_it_cost_the_first_time() {
    const MANY: usize = 500;
    /// If every id read the whole of what touched it, the second would cost `MANY` times as much.
    const TIMES_MAX: u32 = 30;
    let store = TempStore::in_memory();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    let scope = scope_of(&storage, "acme:default");
    wrote(&storage, Write::StoreAll(vec![new_entry(scope); MANY]));
    let deletion = wrote(&storage, Write::DeleteNamespace { name: "acme".to_owned() }).id;
    let undone = |tx| {
        let started = Instant::now();
        (wrote(&storage, undo(tx)).id, started.elapsed())
    };
    let (undo_of_it, first) = undone(deletion);
    undone(undo_of_it);
    let (_, second) = undone(deletion);
    assert_eq!(count_in(&storage, scope), MANY as u64);
    assert!(second < TIMES_MAX * first, "first {first:?}, then {second:?}");
}
