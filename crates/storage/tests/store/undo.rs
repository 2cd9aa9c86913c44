//! What prevents an undo, and what does not.

use std::time::Instant;

use kenning_model::{EntityType, ScopeId, TxId};
use kenning_storage::{EntryPatch, Error, Storage, UndoTarget, UndoWish, Write};
use kenning_testkit::TempStore;

use crate::scopes::{
    check_sound, commit, commit_as, count_in, entry_in, make_namespace, make_scope, new_entry, open,
    scope_of, undo, wrote,
};

#[test]
fn what_an_undo_found_gone_and_left_so_is_not_brought_back_by_the_undo_of_something_older() {
    let store = TempStore::new();
    let storage = open(&store, 0);
    let done = |who, write| commit_as(&storage, who, write).expect("it is written");
    let stored = done("one", entry_in(ScopeId::GLOBAL_DEFAULT));
    let id = stored.changes[0].id;
    let patch = EntryPatch { content: Some("Canary.".to_owned()), ..EntryPatch::default() };
    let updated = done("other", Write::Update { id, patch, expected_version: None });
    let update_undone = done("other", undo(updated.id));
    let deleted = done("one", Write::Delete { entity_type: EntityType::Entry, id });
    let newest = UndoWish { target: UndoTarget::Newest(2), any_actor: false, within: None };
    let all_undone = done("one", Write::Undo(newest));
    assert_eq!(all_undone.undoes, [deleted.id, stored.id]);
    assert_eq!(all_undone.changes, [], "what was stored is gone already");
    assert_eq!(in_the_way(&storage, update_undone.id), [all_undone.id]);
    for tx in [all_undone.id, deleted.id, update_undone.id] {
        wrote(&storage, Write::Undo(UndoWish { target: UndoTarget::Tx(tx), any_actor: true, within: None }));
    }
    assert_eq!(count_in(&storage, ScopeId::GLOBAL_DEFAULT), 1);
    check_sound(&storage);
}

#[test]
fn an_undo_that_would_take_a_scope_away_names_only_what_holds_it() {
    let store = TempStore::new();
    let storage = open(&store, 0);
    make_namespace(&storage, "acme");
    let web = make_scope(&storage, "acme:web");
    let scope = scope_of(&storage, "acme:web");
    let store_one = || wrote(&storage, entry_in(scope));
    let undone = store_one();
    wrote(&storage, undo(undone.id));
    let deleted = store_one().changes[0].id;
    wrote(&storage, Write::Delete { entity_type: EntityType::Entry, id: deleted });
    let elsewhere = wrote(&storage, entry_in(ScopeId::GLOBAL_DEFAULT)).changes[0].id;
    let patch = EntryPatch { scope: Some(scope), ..EntryPatch::default() };
    let moved = wrote(&storage, Write::Update { id: elsewhere, patch, expected_version: None });
    let stored = store_one();
    assert_eq!(in_the_way(&storage, web.id), [moved.id, stored.id]);
    for tx in [stored.id, moved.id, web.id] {
        wrote(&storage, undo(tx));
    }
    check_sound(&storage);
}

#[test]
fn undoing_a_large_delete_again_costs_about_what_it_cost_the_first_time() {
    const MANY: usize = 500;
    /// If every id read all that touched it, the second undo would cost `MANY` times as much.
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

/// The transactions that are named as preventing an undo.
fn in_the_way(storage: &Storage, tx: TxId) -> Vec<TxId> {
    let wish = UndoWish { target: UndoTarget::Tx(tx), any_actor: true, within: None };
    match commit(storage, Write::Undo(wish)) {
        Err(Error::ChangedSince { targets, later }) => {
            assert_eq!(targets, [tx]);
            later
        }
        other => panic!("nothing was in the way: {other:?}"),
    }
}
