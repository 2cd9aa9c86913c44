//! `kenning ingest` as people and scripts use it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().expect("a directory") };
        place.write(
            "guide/setup.md",
            "# Setup\n\nInstall it with `make install`.\n\n## Ports\n\nIt listens on port 8081.\n",
        );
        place.write("guide/use.rst", "Use\n===\n\nRun it.\n\nLimits\n------\n\nAt most 512 files at once.\n");
        place.write("notes.txt", "Call the help desk on extension 4711.");
        place.write("page.html", "<h1>Billing</h1><p>Invoices are sent on Mondays.</p>");
        place.write("ignored.md", "# Secret\n\nNobody reads this.");
        place.write(".gitignore", "ignored.md\n");
        place
    }

    fn docs(&self) -> std::path::PathBuf {
        self.dir.path().join("docs")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.docs().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        for name in ["DATA_DIR", "SCOPE", "ACTOR", "READ_ONLY", "TOOLSETS", "TOOL_NAMES", "LOG"] {
            command.env_remove(format!("KENNING_{name}"));
        }
        let data: &Path = &self.dir.path().join("data");
        command.current_dir(self.dir.path()).arg("--data-dir").arg(data).args(arguments);
        command.output().expect("kenning runs")
    }

    fn ingest(&self, more: &[&str]) -> Value {
        let docs = self.docs();
        let output = self.run(&[&["ingest", docs.to_str().expect("UTF-8"), "--json"], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {output:?}"))
    }

    /// The sentences that answer a question, all in one.
    fn quoted(&self, question: &str) -> String {
        let arguments = json!({"question": question}).to_string();
        let output = self.run(&["call", "kb.retrieve_evidence", &arguments, "--json"]);
        let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
        let quotes = reply["quotes"].as_array().unwrap_or_else(|| panic!("{reply}"));
        quotes.iter().filter_map(|quote| quote["quote"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn every_format_is_taken_in_and_asked() {
    let place = Place::new();
    let report = place.ingest(&[]);
    assert_eq!(
        report["written"],
        json!(["guide/setup.md", "guide/use.rst", "notes.txt", "page.html"]),
        "{report}"
    );
    for (question, answer) in [
        ("which port does it listen on?", "8081"),
        ("how many files at once?", "512"),
        ("extension of the help desk", "4711"),
        ("when are invoices sent?", "Mondays"),
    ] {
        assert!(place.quoted(question).contains(answer), "{question}: {}", place.quoted(question));
    }
    assert!(!place.quoted("what does nobody read?").contains("Nobody reads this"), "git ignores it");
}

#[test]
fn a_second_run_writes_what_changed_and_closes_what_is_gone() {
    let place = Place::new();
    place.ingest(&[]);
    let again = place.ingest(&[]);
    assert_eq!(
        (&again["written"], &again["unchanged"], &again["closed"]),
        (&json!([]), &json!(4), &json!([]))
    );
    place.write(
        "guide/setup.md",
        "# Setup\n\nInstall it with `make install`.\n\n## Ports\n\nIt listens on port 9999.\n",
    );
    fs::remove_file(place.docs().join("page.html")).expect("it was there");
    let dry = place.ingest(&["--dry-run"]);
    assert_eq!((&dry["written"], &dry["closed"]), (&json!(["guide/setup.md"]), &json!(["page.html"])));
    assert!(place.quoted("which port does it listen on?").contains("8081"), "a dry run writes nothing");
    let report = place.ingest(&[]);
    assert_eq!((&report["written"], &report["closed"]), (&dry["written"], &dry["closed"]));
    assert!(place.quoted("which port does it listen on?").contains("9999"));
    assert!(!place.quoted("when are invoices sent?").contains("Mondays"));
    // The newest transaction is the closing of the page.
    assert!(place.run(&["undo"]).status.success());
    assert!(place.quoted("when are invoices sent?").contains("Mondays"), "and it can be taken back");
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn what_can_not_be_read_is_said_and_the_rest_is_done() {
    let place = Place::new();
    place.write("latin.md", b"caf\xe9");
    place.write("binary.txt", b"a\0b");
    place.write("broken.md", "---\ntitle: [\n---\nText");
    place.write("huge.md", vec![b'x'; 17 * 1024 * 1024]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(place.docs(), place.docs().join("loop")).expect("a link");
    let report = place.ingest(&[]);
    let failed: Vec<&str> =
        report["failed"].as_array().expect("a list").iter().filter_map(|it| it["path"].as_str()).collect();
    for path in ["latin.md", "binary.txt", "broken.md", "huge.md"] {
        assert!(failed.contains(&path), "{path}: {report}");
    }
    assert_eq!(report["written"].as_array().map(Vec::len), Some(4), "{report}");
    // What was there and can't be read now is not taken for gone.
    place.write("notes.txt", b"a\0b");
    assert_eq!(place.ingest(&[])["closed"], json!([]));
    assert!(place.quoted("extension of the help desk").contains("4711"));
}
