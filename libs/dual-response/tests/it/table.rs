//! Checks that the tests named by the table in `docs/conformance.md` exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all tests in the files below a folder: functions that follow a test attribute.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut after_attribute = false;
            for line in text.lines().map(str::trim) {
                let declared = line.strip_prefix("async fn ").or(line.strip_prefix("fn "));
                if let (true, Some(rest)) = (after_attribute, declared) {
                    found.insert(rest.split(['(', '<']).next().unwrap().to_owned());
                }
                after_attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            }
        } else if path.to_str().is_some_and(|path| path.ends_with(".test.js")) {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.strip_prefix("test('")?.split('\'').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_row_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    for folder in ["src", "tests", "js/test"] {
        tests_below(&root.join(folder), &mut tests);
    }
    // A macro makes tests of the rules for stores, so their names are added.
    let promises = fs::read_to_string(root.join("src/server/store_tests.rs")).unwrap();
    tests.extend(
        promises
            .lines()
            .filter_map(|line| Some(line.strip_prefix("pub async fn ")?.split('(').next()?.to_owned())),
    );

    let table = fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Seed")).collect();
    assert!(rows.len() >= 90, "the table has {} rows", rows.len());
    for row in rows {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named in: {row}");
        for name in names {
            assert!(tests.contains(name), "there is no test `{name}`, named in: {row}");
        }
    }
}
