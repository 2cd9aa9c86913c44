//! `kenning verify` in a script: what it prints and its exit codes.

use std::fs;
use std::process::{Command, Output};

use kenning_storage::STORE_FILE;
use kenning_testkit::TempStore;
use kenning_testkit::damage::{closed_store, tables};

const PAGE: usize = 4096;

#[test]
fn a_sound_store_is_sound() {
    let output = verify(&closed_store(), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(printed(&output).trim_end().ends_with("all sound"), "{output:?}");
}

#[test]
fn damage_in_every_table_is_printed_and_the_exit_code_is_1() {
    let sound = closed_store();
    let store = TempStore::new();
    let path = store.path().join(STORE_FILE);
    fs::write(&path, &sound).expect("the store is written");
    for table in tables(&path) {
        let row = &table.rows[table.rows.len() / 2];
        let value = row.iter().find(|value| !value.bytes_at.is_empty()).expect("a value with bytes");
        let mut bytes = sound.clone();
        bytes[value.bytes_at[0]] ^= 1;
        let output = verify(&bytes, &[]);
        assert_eq!(output.status.code(), Some(1), "{}: {output:?}", table.name);
        let named = printed(&output)
            .lines()
            .any(|line| line.starts_with("damaged: ") && line.contains(table.name.as_str()));
        assert!(named, "{}: {output:?}", table.name);
    }
}

#[test]
fn a_program_reads_the_damage_as_json() {
    let mut bytes = closed_store();
    bytes[3 * PAGE..4 * PAGE].fill(0);
    let output = verify(&bytes, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: serde_json::Value = serde_json::from_str(&printed(&output)).expect("one JSON value");
    assert_eq!(report["ok"], false);
    assert!(report["damage"].as_array().is_some_and(|damage| !damage.is_empty()), "{report}");
}

#[test]
fn a_truncated_store_and_a_zeroed_page_are_reported() {
    let sound = closed_store();
    let zeroed = |page: usize| {
        let mut bytes = sound.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        bytes
    };
    let last = sound.len() / PAGE - 1;
    let mut cases: Vec<Vec<u8>> = [0, 1, 5, last].map(zeroed).to_vec();
    cases.extend([sound.len() / 2, PAGE, 100].map(|length| sound[..length].to_vec()));
    for (number, bytes) in cases.iter().enumerate() {
        let output = verify(bytes, &[]);
        assert_eq!(output.status.code(), Some(1), "case {number}: {output:?}");
        assert!(printed(&output).starts_with("damaged: "), "case {number}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "case {number}: {output:?}");
    }
}

fn verify(bytes: &[u8], flags: &[&str]) -> Output {
    let store = TempStore::new();
    fs::write(store.path().join(STORE_FILE), bytes).expect("the store is written");
    Command::new(env!("CARGO_BIN_EXE_kenning"))
        .arg("verify")
        .args(flags)
        .arg("--data-dir")
        .arg(store.path())
        .output()
        .expect("the binary runs")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
