//! Many processes write to one store while another one watches it.

use std::collections::BTreeSet;
use std::thread;

use kenning_server::client::Era;
use kenning_testkit::TempStore;
use serde_json::json;

use crate::subscriptions::{SOON, TRANSACTIONS, change_of, subscribe};
use crate::{call, number, read_all, start, text};

const PROCESSES: u64 = 8;
const WRITES: u64 = 200;

#[test]
fn eight_processes_write_and_a_modern_ninth_sees_it_all() {
    write_and_watch(Era::Modern);
}

#[test]
fn eight_processes_write_and_a_legacy_ninth_sees_it_all() {
    write_and_watch(Era::Legacy);
}

fn write_and_watch(era: Era) {
    let store = TempStore::new();
    let mut watcher = start(store.path(), era, "watcher");
    subscribe(&mut watcher, era, &[TRANSACTIONS]);
    let writing: Vec<_> = (0..PROCESSES)
        .map(|writer| {
            let mut client = start(store.path(), Era::Modern, &format!("writer {writer}"));
            thread::spawn(move || {
                let write = |nth| {
                    let content = format!("fact {nth} of writer {writer}");
                    let reply = call(&mut client, "store", json!({"topic": "facts", "content": content}));
                    (number(&reply["tx_id"]), text(&reply["id"]).to_owned(), content)
                };
                (0..WRITES).map(write).collect::<Vec<_>>()
            })
        })
        .collect();
    for tx in 1..=PROCESSES * WRITES {
        let notice = watcher.notice(SOON).expect("the watcher lives").expect("a notice for each transaction");
        let expected = json!({
            "resource_uri": TRANSACTIONS,
            "tx_id": tx,
            "change_type": "upsert",
            "changed_ids": [tx.to_string()],
        });
        assert_eq!(change_of(&notice), &expected, "each transaction once and in order: {notice}");
    }
    let told: BTreeSet<_> =
        writing.into_iter().flat_map(|thread| thread.join().expect("a writer ends well")).collect();

    let entries = read_all(&mut watcher, "knowledge://entries");
    let kept: BTreeSet<_> = entries
        .iter()
        .map(|item| (number(&item["tx_id"]), text(&item["id"]).to_owned(), text(&item["content"]).to_owned()))
        .collect();
    assert_eq!(entries.len() as u64, PROCESSES * WRITES);
    assert_eq!(kept, told, "what is there is what was acknowledged");
    let numbers: Vec<u64> = told.iter().map(|(tx, ..)| *tx).collect();
    assert_eq!(numbers, (1..=PROCESSES * WRITES).collect::<Vec<_>>(), "transaction numbers are dense");
    eprintln!(
        "many: {} rows of {PROCESSES} processes, {era:?} watcher saw each once, in order",
        entries.len()
    );
}
