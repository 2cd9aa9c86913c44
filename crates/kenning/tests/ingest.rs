//! `kenning ingest` as people and scripts use it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use kenning_engine::{Engine, root_of};
use kenning_model::ScopeId;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time that a test waits for an expected event.
const SOON: Duration = Duration::from_secs(60);

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

    fn docs(&self) -> PathBuf {
        self.dir.path().join("docs")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.docs().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        for name in
            ["DATA_DIR", "SCOPE", "ACTOR", "READ_ONLY", "TOOLSETS", "TOOL_NAMES", "ROWS_LISTEN", "LOG"]
        {
            command.env_remove(format!("KENNING_{name}"));
        }
        command.current_dir(self.dir.path()).arg("--data-dir").arg(self.data()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("kenning runs")
    }

    fn ingest_command(&self, more: &[&str]) -> Command {
        let docs = self.docs();
        self.command(&[&["ingest", docs.to_str().expect("UTF-8"), "--json"], more].concat())
    }

    fn ingest(&self, more: &[&str]) -> Value {
        report(&self.ingest_command(more).output().expect("kenning runs"))
    }

    /// The quoted sentences that answer a question, joined into one text.
    fn quoted(&self, question: &str) -> String {
        let arguments = json!({"question": question}).to_string();
        let output = self.run(&["call", "kb.retrieve_evidence", &arguments, "--json"]);
        let reply: Value = serde_json::from_slice(&output.stdout).expect("a reply");
        let quotes = reply["quotes"].as_array().unwrap_or_else(|| panic!("{reply}"));
        quotes.iter().filter_map(|quote| quote["quote"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {output:?}"))
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
fn newer_formats_are_taken_in_and_asked() {
    let place = Place::new();
    place.write("a.adoc", "= Parking\n\n== Visitors\n\nVisitors park on level 3.\n");
    place.write("b.org", "* Canteen\nLunch is served until 14:30.\n");
    place.write(
        "c.ipynb",
        r##"{"cells": [{"cell_type": "markdown", "source": ["# Model\n", "The learning rate is 0.02."]}]}"##,
    );
    place.write("d.dat", "Printers\n========\n\n.. note:: The printer code is 9911.\n");
    assert_eq!(place.ingest(&[])["failed"], json!([]));
    for (question, answer) in [
        ("where do visitors park?", "level 3"),
        ("until when is lunch served in the canteen?", "14:30"),
        ("which learning rate does the model have?", "0.02"),
    ] {
        assert!(place.quoted(question).contains(answer), "{question}");
    }
    let file = place.docs().join("d.dat");
    let output = place.run(&["ingest", file.to_str().expect("UTF-8"), "--format", "rst"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(place.quoted("what is the printer code?").contains("Note: The printer code is 9911."));
}

#[test]
fn the_format_of_plain_text_can_be_said() {
    let place = Place::new();
    place.write("notes.txt", "# Phones of the help desk\nIts extension is 4711.\n");
    place.ingest(&[]);
    assert!(
        place.quoted("which extension has the help desk?").contains("# Phones of the help desk"),
        "it is plain text"
    );
    assert_eq!(
        place.ingest(&["--format", "md"])["written"],
        json!(["notes.txt"]),
        "the others are as they were"
    );
    assert!(!place.quoted("which extension has the help desk?").contains("# Phones"));
    assert_eq!(place.ingest(&["--format", "md"])["written"], json!([]));
}

#[test]
fn what_a_file_includes_is_part_of_it_if_it_is_in_the_tree() {
    let place = Place::new();
    place.write("guide/part.inc", "The gate opens at 06:45.\n");
    place.write("guide/.secret", "The safe code is 5150.\n");
    fs::write(place.dir.path().join("outside.inc"), "The vault code is 8086.\n").expect("a file");
    place.write(
        "guide/gate.rst",
        "Gate\n====\n\n.. include:: part.inc\n.. include:: .secret\n.. include:: ../../outside.inc\n\nEnd of it.\n",
    );
    let report = place.ingest(&[]);
    assert_eq!(report["failed"], json!([]));
    assert!(place.quoted("when does the gate open?").contains("06:45"));
    for question in ["what is the code of the safe?", "what is the code of the vault?"] {
        let quoted = place.quoted(question);
        assert!(!quoted.contains("5150") && !quoted.contains("8086"), "{quoted}");
    }
    place.write("guide/part.inc", "The gate opens at 07:15.\n");
    assert_eq!(place.ingest(&[])["written"], json!(["guide/gate.rst"]), "what it includes has changed");
    assert!(place.quoted("when does the gate open?").contains("07:15"));
}

#[test]
fn a_few_bad_files_do_not_keep_the_others_out() {
    let place = Place::new();
    for number in 0..40 {
        place.write(&format!("many/{number}.md"), format!("# Page {number}\n\nRoom {number} has a lamp.\n"));
    }
    place.write("many/bytes.md", [b'#', b' ', 0xff, 0xfe]);
    place.write("many/broken.ipynb", "{\"cells\": [");
    place.write("many/broken.md", "---\ntitle: [\n---\nText.\n");
    let output = place.ingest_command(&[]).output().expect("kenning runs");
    assert_eq!(output.status.code(), Some(1));
    let report = report(&output);
    assert_eq!(report["written"].as_array().map(Vec::len), Some(44), "{report}");
    let failed: Vec<String> = reasons(&report).into_iter().map(|(path, _)| path).collect();
    assert_eq!(failed, ["many/broken.ipynb", "many/broken.md", "many/bytes.md"]);
    assert!(place.quoted("what does room 39 have?").contains("Room 39 has a lamp."));
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
    // The newest transaction is the one that closed the page.
    assert!(place.run(&["undo"]).status.success());
    assert!(place.quoted("when are invoices sent?").contains("Mondays"), "and it can be taken back");
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn a_document_is_as_old_as_its_file() {
    let place = Place::new();
    place.write("dated.md", "---\nupdated: 2024-05-01\n---\n# Dated\n\nIt says when the gate opens.\n");
    let touch = |path: &str, day: u64| {
        let file = fs::File::options().write(true).open(place.docs().join(path)).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(day * 24 * 60 * 60)).expect("a time");
    };
    touch("notes.txt", 1);
    touch("dated.md", 1);
    place.ingest(&[]);
    let found_after = |date: &str, query: &str| {
        let arguments = json!({"query": query, "filters": {"updated_after": date}}).to_string();
        let reply = report(&place.run(&["call", "kb.search", &arguments, "--json"]));
        reply["results"].as_array().unwrap_or_else(|| panic!("{reply}")).len()
    };
    let found = |query: &str| {
        ["1970-01-01T00:00:00Z", "1970-01-03T00:00:00Z", "2024-06-01T00:00:00Z"]
            .map(|date| found_after(date, query) > 0)
    };
    assert_eq!(found("help desk extension 4711"), [true, false, false]);
    assert_eq!(found("when the gate opens"), [true, true, false], "what it says itself goes first");
    touch("notes.txt", 20_000);
    assert_eq!(place.ingest(&[])["unchanged"], json!(5), "nothing else has changed");
}

#[test]
fn what_was_taken_in_is_listed_and_removed() {
    let place = Place::new();
    let said = |arguments: &[&str]| {
        let output = place.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(place.run(&["documents"]).status.code(), Some(3), "there is no store yet");
    assert!(!place.data().exists());
    place.ingest(&[]);
    place.ingest(&["--source", "handbook"]);
    let table = said(&["documents"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["SOURCE", "DOCUMENTS"], ["docs", "4"], ["handbook", "4"]], "{table}");
    let lines = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let sources = lines(&said(&["documents", "--json"]));
    assert_eq!((&sources[1]["source"], &sources[1]["documents"]), (&json!("handbook"), &json!(4)));
    let paths = "guide/setup.md: Setup\nguide/use.rst: Use\nnotes.txt: notes\npage.html: Billing\n";
    assert_eq!(said(&["documents", "docs"]), paths);
    let documents = lines(&said(&["documents", "docs", "--json"]));
    assert_eq!((&documents[0]["path"], &documents[0]["title"]), (&json!("guide/setup.md"), &json!("Setup")));
    assert_eq!(place.run(&["documents", "wiki"]).status.code(), Some(3));
    assert!(said(&["scopes"]).contains("default, 8 documents: "), "{}", said(&["scopes"]));

    let output = place.run(&["documents", "docs", "--remove", "--read-only"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let removed = said(&["documents", "docs", "--remove"]);
    let (tx, undo) = (9, "`kenning undo 9` brings all back");
    assert_eq!(removed, format!("Removed 4 documents of `docs` in transaction {tx}; {undo}\n"));
    assert_eq!(place.run(&["documents", "docs"]).status.code(), Some(3));
    assert_eq!(said(&["documents", "handbook"]), paths, "the other is left alone");
    said(&["undo", "9"]);
    assert_eq!(said(&["documents", "docs"]), paths);
    assert_eq!(place.ingest(&["--source", "docs"])["unchanged"], json!(4));
    assert_eq!(
        lines(&said(&["documents", "handbook", "--remove", "--json"])),
        [json!({"source": "handbook", "removed": 4, "tx_id": 11})]
    );
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn the_undo_of_a_long_document_is_told_shortly() {
    let place = Place { dir: tempfile::tempdir().expect("a directory") };
    let sections: Vec<String> = (1..=50).map(|part| format!("## Part {part}\n\nIt says {part}.\n")).collect();
    place.write("long.md", format!("# Long\n\nText.\n\n{}", sections.join("\n")));
    place.ingest(&[]);
    let undone = String::from_utf8(place.run(&["undo"]).stdout).expect("text");
    // The changes are the document, its first section, and fifty parts.
    assert!(undone.ends_with(" and 42 more\n") && undone.matches(", ").count() == 9, "{undone}");
}

#[test]
fn directories_of_one_name_leave_each_other_alone() {
    let place = Place::new();
    place.write("one/docs/a.md", "# One\n\nThe first gate opens at seven.\n");
    place.write("two/docs/b.md", "# Two\n\nThe second gate opens at nine.\n");
    let ingest = |path: &str, more: &[&str]| {
        let path = place.docs().join(path);
        place.run(&[&["ingest", path.to_str().expect("UTF-8"), "--json"], more].concat())
    };
    assert_eq!(report(&ingest("one/docs", &[]))["written"], json!(["a.md"]));
    let refused = ingest("two/docs", &[]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(why.contains("`docs`") && why.contains("--source") && why.contains("--moved"), "{why}");
    assert!(place.quoted("when does the first gate open?").contains("seven"));
    assert_eq!(report(&ingest("two/docs", &["--source", "two"]))["written"], json!(["b.md"]));
    // From now on each source is found by its directory.
    for (path, source) in [("one/docs", "docs"), ("two/docs", "two")] {
        let again = report(&ingest(path, &[]));
        let is_so = (&again["source"], &again["unchanged"], &again["closed"]);
        assert_eq!(is_so, (&json!(source), &json!(1), &json!([])), "{again}");
    }
    assert_eq!(ingest("two/docs", &["--source", "docs"]).status.code(), Some(2), "nor by its name");
    // Another scope does not have these sources.
    for (tool, arguments) in [
        ("create_namespace", json!({"name": "acme", "description": "a company"})),
        ("create_scope", json!({"scope": "acme:web", "description": "a site", "parents": []})),
    ] {
        assert!(place.run(&["call", tool, &arguments.to_string()]).status.success());
    }
    let other = report(&ingest("two/docs", &["--scope", "acme:web"]));
    assert_eq!((&other["source"], &other["written"]), (&json!("docs"), &json!(["b.md"])));
    assert_eq!(report(&ingest("one/docs", &[]))["unchanged"], json!(1));
    // If one directory has two sources, the program cannot know which is meant.
    assert_eq!(report(&ingest("one/docs", &["--source", "first"]))["written"], json!(["a.md"]));
    assert_eq!(
        report(&ingest("one/docs", &[]))["source"],
        json!("docs"),
        "but for the name of the directory"
    );
    assert_eq!(report(&ingest("two/docs", &["--source", "second"]))["written"], json!(["b.md"]));
    let refused = ingest("two/docs", &[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("as `second` and as `two`"), "{refused:?}");
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn a_part_is_taken_in_as_part_of_the_whole() {
    let place = Place::new();
    let ingest = |path: &str, more: &[&str]| {
        let path = place.docs().join(path);
        report(&place.run(&[&["ingest", path.to_str().expect("UTF-8"), "--json"], more].concat()))
    };
    place.ingest(&["--source", "handbook", "--doc-tag", "book"]);
    place.write("guide/more.md", "# More\n\nThe gate opens at seven.\n");
    place.write("later.md", "# Later\n\nNobody asked for this yet.\n");
    fs::remove_file(place.docs().join("guide/use.rst")).expect("it was there");
    fs::remove_file(place.docs().join("page.html")).expect("it was there");
    for more in [&["--dry-run", "--source", "handbook"][..], &[]] {
        let part = ingest("guide", more);
        assert_eq!(part["source"], json!("handbook"));
        assert_eq!(
            (&part["written"], &part["unchanged"], &part["closed"]),
            (&json!(["guide/more.md"]), &json!(1), &json!(["guide/use.rst"])),
            "{part}"
        );
    }
    assert!(place.quoted("when are invoices sent?").contains("Mondays"), "the rest is not looked at");
    // A single file of the source, taken in by itself.
    place.write("guide/setup.md", "# Setup\n\n## Ports\n\nIt listens on port 9999.\n");
    let one = ingest("guide/setup.md", &[]);
    assert_eq!(
        (&one["source"], &one["written"], &one["closed"]),
        (&json!("handbook"), &json!(["guide/setup.md"]), &json!([])),
        "{one}"
    );
    assert!(place.quoted("which port does it listen on?").contains("9999"));
    // The tag stays the same as before.
    let whole = place.ingest(&[]);
    assert_eq!(
        (&whole["written"], &whole["unchanged"], &whole["closed"]),
        (&json!(["later.md"]), &json!(3), &json!(["page.html"])),
        "{whole}"
    );
    let other = place.ingest(&["--doc-tag", "other"]);
    assert_eq!(other["written"].as_array().map(Vec::len), Some(4), "another tag is another document");
    assert_eq!(place.ingest(&[])["unchanged"], json!(4));
    // A subdirectory may still become a source of its own.
    let own = ingest("guide", &["--source", "guide"]);
    assert_eq!(own["written"], json!(["more.md", "setup.md"]), "{own}");
    assert_eq!(ingest("guide", &[])["source"], json!("guide"), "the nearest is meant");
    assert_eq!(own["twice"], json!([]));
    assert_eq!(place.ingest(&[])["twice"], json!(["guide"]), "its files are there twice");
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn a_directory_that_was_moved_goes_on_as_the_same_source() {
    let place = Place::new();
    place.ingest(&["--source", "handbook"]);
    let moved = place.dir.path().join("moved");
    fs::rename(place.docs(), &moved).expect("a directory");
    fs::remove_file(moved.join("page.html")).expect("it was there");
    let ingest = |more: &[&str]| {
        let path = moved.to_str().expect("UTF-8");
        place.run(&[&["ingest", path, "--source", "handbook", "--json"], more].concat())
    };
    assert_eq!(ingest(&[]).status.code(), Some(2));
    let report = report(&ingest(&["--moved"]));
    assert_eq!(
        (&report["written"], &report["closed"]),
        (&json!(["guide/setup.md", "guide/use.rst", "notes.txt"]), &json!(["page.html"])),
        "{report}"
    );
    let engine = Engine::new(place.data(), Engine::real_sources());
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("a store");
    let scope = ScopeId::GLOBAL_DEFAULT;
    for known in snapshot.documents_below(scope, "handbook", "").expect("documents") {
        let stored = snapshot.document(known.id).expect("a record").expect("it is live");
        let root = &stored.record.as_document().expect("a document").root;
        let now = root_of(&moved.canonicalize().expect("it is there"));
        assert_eq!(*root, now, "every document knows, not only those that have changed: {}", known.path);
    }
    for (path, unchanged) in [("guide", 2), ("notes.txt", 1), ("", 3)] {
        let path = moved.join(path);
        let output = place.run(&["ingest", path.to_str().expect("UTF-8"), "--json"]);
        let again = self::report(&output);
        let is_so = (&again["source"], &again["unchanged"]);
        assert_eq!(is_so, (&json!("handbook"), &json!(unchanged)), "{again}");
    }
    assert!(place.run(&["verify"]).status.success());
}

#[test]
fn what_can_not_be_read_is_said_and_the_rest_is_done() {
    let place = Place::new();
    place.write("latin.md", b"caf\xe9");
    place.write("binary.txt", b"a\0b");
    place.write("broken.md", "---\ntitle: [\n---\nText");
    place.write("empty.md", "");
    place.write("huge.md", "");
    let huge = fs::File::options().write(true).open(place.docs().join("huge.md")).expect("a file");
    huge.set_len(50 * 1024 * 1024).expect("a hole takes no room");
    let output = place.ingest_command(&[]).output().expect("kenning runs");
    let failed = reasons(&report(&output));
    let wanted = [
        ("binary.txt", "it is a binary file"),
        ("broken.md", "the front matter can't be read: "),
        ("huge.md", "its 52428800 bytes are more than the cap of 16777216"),
        ("latin.md", "it is not UTF-8 text"),
    ];
    assert_eq!(failed.len(), wanted.len(), "{failed:?}");
    for ((path, why), (wanted, because)) in failed.iter().zip(wanted) {
        assert!(path == wanted && why.starts_with(because), "{path}: {why}");
    }
    assert_eq!(output.status.code(), Some(1), "some have failed");
    assert_eq!(report(&output)["written"].as_array().map(Vec::len), Some(5), "an empty file is a document");
    assert!(place.quoted("extension of the help desk").contains("4711"));
    // A file that existed and can't be read now does not count as deleted.
    place.write("notes.txt", b"a\0b");
    place.write("page.html", b"caf\xe9");
    assert_eq!(place.ingest(&[])["closed"], json!([]));
    assert!(place.quoted("extension of the help desk").contains("4711"));
    // The output for people is one line for each failure, and a count.
    let docs = place.docs();
    let output = place.run(&["ingest", docs.to_str().expect("UTF-8")]);
    let [said, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(said, "Took 0 in as `docs`; 3 unchanged, 0 closed, 6 failed\n");
    assert_eq!(complaints.lines().count(), 6, "{complaints}");
    for path in ["binary.txt", "broken.md", "huge.md", "latin.md", "notes.txt", "page.html"] {
        fs::remove_file(place.docs().join(path)).expect("it was there");
    }
    let output = place.ingest_command(&[]).output().expect("kenning runs");
    assert_eq!(report(&output)["closed"], json!(["notes.txt", "page.html"]));
    assert_eq!(output.status.code(), Some(0), "none has failed");
}

/// The paths of the files that failed, each with the reason.
fn reasons(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let failed = report["failed"].as_array().expect("a list");
    failed.iter().map(|failed| (text(&failed["path"]), text(&failed["error"]))).collect()
}

#[cfg(unix)]
#[test]
fn names_that_are_not_text_and_links_in_a_circle_do_no_harm() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let place = Place::new();
    fs::write(place.docs().join(std::ffi::OsStr::from_bytes(b"caf\xe9.md")), "# Menu").expect("a file");
    symlink(place.docs(), place.docs().join("guide/loop")).expect("a link");
    symlink("self.md", place.docs().join("self.md")).expect("a link");
    symlink("nowhere.md", place.docs().join("dangling.md")).expect("a link");
    let report = place.ingest(&[]);
    assert_eq!(reasons(&report), [("caf\u{fffd}.md".to_owned(), "its name is not UTF-8".to_owned())]);
    assert_eq!(report["written"].as_array().map(Vec::len), Some(4), "links are not followed: {report}");
    assert_eq!(report["links"], json!(["dangling.md", "guide/loop", "self.md"]));
    symlink("nowhere.so", place.docs().join("library.so")).expect("a link");
    let output = place.run(&["ingest", place.docs().to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("it is a link")).collect();
    assert_eq!(told.len(), 3, "what would be no document anyway is not told: {said}");
}

#[test]
fn a_named_file_of_no_known_format_is_told() {
    let place = Place::new();
    place.write("data.bin", "01");
    let file = place.docs().join("data.bin");
    let output = place.run(&["ingest", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said,
        "kenning: data.bin: it is no Markdown, MDX, HTML, reStructuredText, AsciiDoc, Org, notebook (.ipynb) or plain text by its name\n"
    );
    assert_eq!(place.ingest(&[])["failed"], json!([]), "beside documents there may be anything");
}

#[test]
fn a_dry_run_makes_no_store() {
    let place = Place::new();
    let dry = place.ingest(&["--dry-run"]);
    assert_eq!(dry["written"].as_array().map(Vec::len), Some(4), "{dry}");
    assert!(!place.data().exists());
    let output = place.ingest_command(&["--dry-run", "--scope", "acme:web"]).output().expect("kenning runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!place.data().exists());
}

#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_said_and_not_taken_for_gone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let place = Place::new();
    // The superuser can read any file, so under that user Kenning is run as another user.
    let is_superuser = fs::metadata(place.dir.path()).expect("it is there").uid() == 0;
    if is_superuser {
        fs::create_dir(place.data()).expect("a directory");
        for path in [place.dir.path(), &place.data(), &place.docs()] {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("the superuser may");
        }
    }
    let ingest = || {
        let mut command = place.ingest_command(&[]);
        if is_superuser {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().expect("kenning runs")
    };
    assert_eq!(report(&ingest())["written"].as_array().map(Vec::len), Some(4));
    let forbid = |path: &str, mode| {
        let path = place.docs().join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    forbid("notes.txt", 0o000);
    forbid("guide", 0o000);
    let output = ingest();
    let report = report(&output);
    // The directory must be readable again before it can be removed.
    forbid("guide", 0o755);
    let failed = reasons(&report);
    assert_eq!(failed.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["guide", "notes.txt"]);
    for (path, why) in failed {
        assert!(why.to_lowercase().starts_with("it can't be read: permission denied"), "{path}: {why}");
    }
    assert_eq!((&report["closed"], &report["unchanged"]), (&json!([]), &json!(1)), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_same_files_in_two_scopes_are_two_sets_of_documents() {
    let place = Place::new();
    for (tool, arguments) in [
        ("create_namespace", json!({"name": "acme", "description": "a company"})),
        ("create_scope", json!({"scope": "acme:web", "description": "a site", "parents": []})),
    ] {
        assert!(place.run(&["call", tool, &arguments.to_string()]).status.success());
    }
    let scopes = [["--scope", "acme:web"], ["--scope", "global:default"]];
    for scope in scopes {
        assert_eq!(place.ingest(&scope)["written"].as_array().map(Vec::len), Some(4));
    }
    for scope in scopes {
        let again = place.ingest(&scope);
        assert_eq!((&again["written"], &again["unchanged"]), (&json!([]), &json!(4)), "{scope:?}");
    }
    fs::remove_file(place.docs().join("page.html")).expect("it was there");
    assert_eq!(place.ingest(&scopes[0])["closed"], json!(["page.html"]));
    assert!(place.quoted("when are invoices sent?").contains("Mondays"), "it is still there for all");
    // Deleting a scope deletes its documents. After an undo, deleting the namespace deletes them too.
    let call = |tool: &str, arguments: Value| {
        String::from_utf8(place.run(&["call", tool, &arguments.to_string()]).stdout).expect("text")
    };
    let deleted = call("delete_scope", json!({"scope": "acme:web"}));
    assert!(deleted.starts_with("Deleted scope `acme:web` with 0 entries and 3 documents in"), "{deleted}");
    assert!(place.run(&["undo"]).status.success());
    let deleted = call("delete_namespace", json!({"name": "acme"}));
    assert!(deleted.contains(" with 2 scopes, 0 entries and 3 documents in"), "{deleted}");
    assert!(place.run(&["verify"]).status.success());
}

/// A run that is killed has taken in each file completely or not at all. The next run continues from there.
#[test]
fn a_run_that_was_killed_is_gone_on_with() {
    const FILES: u64 = 400;
    let place = Place { dir: tempfile::tempdir().expect("a directory") };
    for number in 0..FILES {
        let sections: Vec<String> =
            (0..8).map(|part| format!("## Part {part}\n\nIt says {number}-{part}.\n")).collect();
        place.write(&format!("{number:03}.md"), format!("# File {number}\n\n{}", sections.join("\n")));
    }
    let engine = Engine::new(place.data(), Engine::real_sources());
    let mut before = 0;
    for more in [20, 60, 100] {
        let mut child = place.ingest_command(&[]).stdout(Stdio::null()).spawn().expect("kenning runs");
        wait_until(|| engine.head().expect("the store can be read").0 >= before + more);
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        // Each document is one transaction, and there are no other transactions.
        before = engine.head().expect("the store can be read").0;
        let dry = place.ingest(&["--dry-run"]);
        assert_eq!(dry["unchanged"], json!(before), "{dry}");
        assert!(place.run(&["verify"]).status.success());
    }
    assert!(before < FILES, "all were taken in before it could be killed");
    let last = place.ingest(&[]);
    assert_eq!(last["written"].as_array().map(Vec::len), Some((FILES - before) as usize));
    assert_eq!(place.ingest(&[])["unchanged"], json!(FILES));
    assert_eq!(engine.head().expect("the store can be read").0, FILES, "none was written twice");
    assert!(place.quoted("what does part 7 of file 399 say?").contains("399-7"));
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "it never came");
        std::thread::yield_now();
    }
}

/// A running `kenning ingest --watch`.
struct Watching {
    child: Child,
    lines: Receiver<Value>,
}

impl Watching {
    fn start(place: &Place) -> Watching {
        let mut child =
            place.ingest_command(&["--watch"]).stdout(Stdio::piped()).spawn().expect("kenning runs");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(serde_json::from_str(&line).expect("lines of JSON")).is_err() {
                    break;
                }
            }
        });
        Watching { child, lines }
    }

    /// Reads reports until exactly these files were written and closed.
    fn expect(&self, written: &[&str], closed: &[&str]) {
        let wanted = [written, closed].map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        let mut seen: [BTreeSet<String>; 2] = Default::default();
        while seen != wanted {
            let line = self.lines.recv_timeout(SOON);
            let line = line.unwrap_or_else(|_| panic!("{wanted:?} never came, only {seen:?}"));
            assert_eq!(line["failed"], json!([]), "{line}");
            for (of, seen) in ["written", "closed"].into_iter().zip(&mut seen) {
                let paths = line[of].as_array().expect("a list");
                seen.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            let is_wanted = seen.iter().zip(&wanted).all(|(seen, wanted)| seen.is_subset(wanted));
            assert!(is_wanted, "{line} is more than {wanted:?}");
        }
    }

    #[cfg(unix)]
    fn interrupt(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
        self.child.wait().expect("it is ours").code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The process may have ended already, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[test]
fn what_changes_is_taken_in_while_it_is_watched() {
    let place = Place::new();
    let at = |path: &str| place.docs().join(path);
    let mut watching = Watching::start(&place);
    watching.expect(&["guide/setup.md", "guide/use.rst", "notes.txt", "page.html"], &[]);

    place.write("new.md", "# New\n\nThe gate opens at seven.\n");
    watching.expect(&["new.md"], &[]);
    assert!(place.quoted("when does the gate open?").contains("seven"));

    // Editors save by renaming a new file over the old one.
    place.write("guide/.setup.md.swp", "# Setup\n\n## Ports\n\nIt listens on port 9999.\n");
    fs::rename(at("guide/.setup.md.swp"), at("guide/setup.md")).expect("a file");
    watching.expect(&["guide/setup.md"], &[]);
    assert!(place.quoted("which port does it listen on?").contains("9999"));

    fs::rename(at("new.md"), at("renamed.md")).expect("a file");
    watching.expect(&["renamed.md"], &["new.md"]);
    fs::remove_file(at("renamed.md")).expect("a file");
    watching.expect(&[], &["renamed.md"]);

    // A directory disappears and returns: its files must be watched as before.
    let outside = place.dir.path().join("outside");
    fs::rename(at("guide"), &outside).expect("a directory");
    watching.expect(&[], &["guide/setup.md", "guide/use.rst"]);
    fs::rename(&outside, at("guide")).expect("a directory");
    watching.expect(&["guide/setup.md", "guide/use.rst"], &[]);
    place.write("guide/use.rst", "Use\n===\n\nWalk it.\n");
    watching.expect(&["guide/use.rst"], &[]);

    place.write("deep/er/still.md", "# Still\n\nHere.\n");
    place.write("deep/other.md", "# Other\n\nThere.\n");
    watching.expect(&["deep/er/still.md", "deep/other.md"], &[]);
    place.write("deep/er/still.md", "# Still\n\nNot any more.\n");
    watching.expect(&["deep/er/still.md"], &[]);
    fs::remove_dir_all(at("deep")).expect("a directory");
    watching.expect(&[], &["deep/er/still.md", "deep/other.md"]);

    // Ignored files are not taken in, and a file that becomes ignored is closed.
    place.write("ignored.md", "# Secret\n\nStill nobody reads this.\n");
    place.write("last.md", "# Last\n\nIt is over.\n");
    watching.expect(&["last.md"], &[]);
    place.write(".gitignore", "ignored.md\nnotes.txt\n");
    watching.expect(&[], &["notes.txt"]);
    place.write(".gitignore", "notes.txt\n");
    watching.expect(&["ignored.md"], &[]);

    assert_eq!(watching.interrupt(), Some(0));
    assert_eq!(place.ingest(&[])["unchanged"], json!(5), "a run finds nothing to do");
    assert!(place.run(&["verify"]).status.success());
}

#[cfg(unix)]
#[test]
fn one_file_is_watched_as_well() {
    let place = Place::new();
    let file = place.docs().join("notes.txt");
    let mut command =
        place.command(&["ingest", file.to_str().expect("UTF-8"), "--watch", "--source", "one", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("kenning runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut next =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    assert_eq!(next()["written"], json!(["notes.txt"]));
    place.write("page.html", "<h1>Billing</h1><p>Nobody watches this.</p>");
    place.write("notes.tmp", "Call extension 4712.");
    fs::rename(place.docs().join("notes.tmp"), &file).expect("a file");
    assert_eq!(next()["written"], json!(["notes.txt"]));
    // Without its file the watch ends with an error, and the document stays in the store.
    fs::remove_file(&file).expect("it was there");
    assert_eq!(child.wait().expect("it is ours").code(), Some(1));
    assert!(place.quoted("which extension?").contains("4712"));
}
