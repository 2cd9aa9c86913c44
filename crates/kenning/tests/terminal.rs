//! What users see and do on the terminal: the real binary on a store that is the same in each run.
//! `UPDATE_EXPECT=1` rewrites the expected output in `tests/terminal`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kenning_engine::{Engine, Sources};
use kenning_model::{EntityType, Id, ScopeId, ScopeName};
use kenning_storage::{EntryPatch, NewEntry, NewNamespace, NewScope, NewTriple, OnConflict, Request, Write};
use serde_json::Value;
use tempfile::TempDir;

/// A data directory and a working directory.
struct Place {
    dir: TempDir,
    /// The ids of the entries, in the order in which they were made.
    ids: Vec<Id>,
}

const DEPLOYMENT: &str = "We deploy blue-green, and never on Fridays. Before a deployment the smoke tests run; after it, \
    somebody watches the error rate for half an hour.";

impl Place {
    fn empty() -> Place {
        let place = Place { dir: tempfile::tempdir().expect("a directory"), ids: Vec::new() };
        std::fs::create_dir_all(place.path("work")).expect("a directory");
        std::fs::create_dir_all(place.path("home")).expect("a directory");
        place
    }

    /// A store with seven transactions, a minute apart.
    fn new() -> Place {
        let mut place = Place::empty();
        let minutes = Arc::new(AtomicI64::new(0));
        let clock = minutes.clone();
        let now = move || {
            kenning_testkit::fixed_start() + jiff::SignedDuration::from_mins(clock.load(Ordering::Relaxed))
        };
        let fixed = kenning_testkit::fixed_sources();
        let drawn = AtomicI64::new(0);
        // The first entry has the id that the help uses in its examples.
        let id = move || match drawn.fetch_add(1, Ordering::Relaxed) {
            0 => Id::parse("K7H9M2PQX8").expect("an id"),
            _ => (fixed.id)(),
        };
        let engine = Engine::new(place.path("data"), Sources { now: Arc::new(now), id: Arc::new(id) });
        let commit = |write| {
            minutes.fetch_add(1, Ordering::Relaxed);
            let principal =
                kenning_model::Principal { actor: "alice".to_owned(), ..kenning_testkit::owner() };
            let tool = match &write {
                Write::Update { .. } => "update",
                Write::Relate { .. } => "relate",
                Write::CreateNamespace(_) => "create_namespace",
                Write::CreateScope(_) => "create_scope",
                _ => "store",
            };
            let request = Request { principal: principal.into(), tool: tool.to_owned(), write, keyed: None };
            engine.commit(request).expect("it is written").tx.changes[0].id
        };
        let entry = |topic: &str, content: &str, tags: &[&str]| NewEntry {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..NewEntry::new(ScopeId::GLOBAL_DEFAULT, topic, content)
        };
        let first = commit(Write::Store(entry("deployment", DEPLOYMENT, &["ops", "release"])));
        let style = NewEntry { pinned: true, ..entry("style", "Comments say why, not what.", &[]) };
        let second = commit(Write::Store(style));
        let third = commit(Write::Store(entry(
            "tests",
            "Tests use port 5433; 5432 is the developer's own.",
            &["ops"],
        )));
        let content = Some(DEPLOYMENT.replace("half an hour", "an hour and says so in #ops"));
        let patch = EntryPatch { content, tags: Some(vec!["ops".to_owned()]), ..EntryPatch::default() };
        commit(Write::Update { id: first, patch, expected_version: None });
        let description = "ACME Corporation".to_owned();
        commit(Write::CreateNamespace(NewNamespace { name: "acme".to_owned(), description }));
        let (name, description) = (ScopeName::new("acme", "web"), "The web shop".to_owned());
        commit(Write::CreateScope(NewScope { name, description, parents: Vec::new() }));
        let triple = NewTriple {
            scope: ScopeId::GLOBAL_DEFAULT,
            subject: "checkout".to_owned(),
            predicate: "owned by".to_owned(),
            object: "team red".to_owned(),
            source: None,
            confidence: None,
        };
        commit(Write::Relate { triple, on_conflict: OnConflict::KeepBoth });
        place.ids = vec![first, second, third];
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        command.env_clear().current_dir(self.path("work"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("KENNING_DATA_DIR", self.path("data"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// A shell command line in which `kenning` is the program under test.
    fn shell(&self, line: &str) -> Command {
        let dir = Path::new(env!("CARGO_BIN_EXE_kenning")).parent().expect("a directory");
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.env_clear().current_dir(self.path("work")).env("PATH", path);
        command.env("HOME", self.path("home")).env("KENNING_DATA_DIR", self.path("data"));
        command.args(["-c", line]).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("kenning runs")
    }

    /// The output of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The stderr of a command that must end with this code.
    fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Every line of a command's output as JSON.
    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.done(arguments);
        printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    fn with_stdin(&self, arguments: &[&str], stdin: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kenning runs");
        child.stdin.take().expect("piped").write_all(stdin.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    }

    fn id(&self, number: usize) -> &str {
        self.ids[number].as_str()
    }
}

/// Compares the output with the expected file.
fn check(name: &str, shown: &str) {
    let path = Path::new("tests/terminal").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all("tests/terminal").expect("writable");
        std::fs::write(&path, shown).expect("writable");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == shown,
        "{} is not what is shown; UPDATE_EXPECT=1 rewrites it:\n{shown}",
        path.display()
    );
}

#[test]
fn pictures() {
    let place = Place::new();
    for (name, arguments) in [
        ("list", vec!["list"]),
        ("show", vec!["show", place.id(0)]),
        ("search", vec!["search", "deploy", "on", "friday"]),
        ("history", vec!["history", "--all"]),
        ("diff", vec!["diff", place.id(0)]),
        ("graph", vec!["graph", "checkout"]),
        ("tags", vec!["tags"]),
    ] {
        check(&format!("{name}.txt"), &place.done(&arguments));
        // The same in colour, for a terminal of 100 columns.
        let mut command = place.command(&arguments);
        let output = command.env("CLICOLOR_FORCE", "1").env("COLUMNS", "100").output().expect("kenning runs");
        check(&format!("{name}.ansi"), &String::from_utf8(output.stdout).expect("text"));
    }
}

#[test]
fn entries_are_listed_by_topic_tag_and_scope() {
    let place = Place::new();
    let topics = |arguments: &[&str]| -> Vec<String> {
        let lines = place.lines(&[&["list", "--json"], arguments].concat());
        lines.iter().map(|line| line["topic"].as_str().expect("a topic").to_owned()).collect()
    };
    assert_eq!(topics(&[]), ["deployment", "tests", "style"], "what was changed last comes first");
    assert_eq!(topics(&["--tag", "OPS"]).len(), 2);
    assert_eq!(topics(&["--tag", "ops", "--tag", "release"]), [""; 0]);
    assert_eq!(topics(&["--topic", "deployments"]), ["deployment"]);
    assert_eq!(topics(&["--limit", "1"]), ["deployment"]);
    assert_eq!(topics(&["--as-of", "2"]), ["style", "deployment"]);
    assert_eq!(topics(&["--as-of", "2026-01-01T00:01:30Z"]), ["deployment"]);
    place.done(&["add", "--scope", "acme:web", "--topic", "shop", "The shop opens at nine."]);
    assert_eq!(topics(&["--all"]), ["shop", "deployment", "tests", "style"]);
    assert_eq!(topics(&[]), ["deployment", "tests", "style"]);
    assert_eq!(topics(&["--scope", "acme:web"])[0], "shop");
    assert!(place.refused(&["list", "--as-of", "99"], 3).contains("the newest is 8"));
    assert!(
        place
            .refused(&["list", "--as-of", "soon"], 2)
            .contains("neither the number of a transaction nor a time")
    );
    let few = place.refused(&["list", "--limit", "1"], 0);
    assert!(few.contains("1 of 3 entries; `--limit 3` shows all"), "{few}");
}

#[test]
fn an_entry_is_added_shown_deleted_and_brought_back() {
    let place = Place::empty();
    assert!(
        place
            .refused(&["list"], 3)
            .contains(&format!("there is no store in {}", place.path("data").display()))
    );
    let added = place.with_stdin(&["add", "--tag", "ops", "--pin", "--json"], "# Ports\n\nTests use 5433.\n");
    let added: Value = serde_json::from_slice(&added.stdout).expect("JSON");
    let id = added["id"].as_str().expect("an id");
    let shown = place.lines(&["show", id, "--json"]).remove(0);
    assert_eq!(shown["kind"], "entry");
    assert_eq!(shown["topic"], "Ports");
    assert_eq!(shown["content"], "# Ports\n\nTests use 5433.");
    assert_eq!((&shown["pinned"], &shown["tags"][0]), (&Value::Bool(true), &Value::from("ops")));
    // An id is found in upper and lower case.
    place.done(&["show", &id.to_lowercase()]);
    let missing = place.refused(&["rm", id, "K7H9M2PQX8"], 3);
    assert!(
        missing.contains("K7H9M2PQX8") && missing.contains(&place.path("data").display().to_string()),
        "{missing}"
    );
    assert_eq!(place.lines(&["list", "--json"]).len(), 1, "nothing is deleted if one id is wrong");
    assert!(place.done(&["rm", id]).contains(&format!("kenning undelete {id}")));
    assert!(place.refused(&["list"], 0).contains("there are no such entries"));
    let deleted = place.done(&["show", id]);
    assert!(
        deleted.starts_with("Deleted by transaction 2") && deleted.contains("Tests use 5433."),
        "{deleted}"
    );
    place.done(&["undelete", id]);
    assert_eq!(place.lines(&["show", id, "--json"])[0]["version"], 2);
    assert!(place.refused(&["undelete", id], 2).contains("is not deleted"));
    assert!(place.refused(&["undelete", "K7H9M2PQX8"], 3).contains("there is no deleted entry or fact"));
    assert!(place.refused(&["--read-only", "rm", id], 1).contains("read-only"));
    assert!(place.refused(&["add"], 2).contains("must not be empty"), "nothing came from stdin");
    assert!(place.done(&["verify"]).contains("all sound"));
}

#[test]
fn an_entry_is_brought_back_alone_and_only_into_a_scope_that_is_there() {
    let place = Place::new();
    let kept = |text: &str| {
        let added = place.done(&["add", "--scope", "acme:web", text, "--json"]);
        let added: Value = serde_json::from_str(&added).expect("JSON");
        added["id"].as_str().expect("an id").to_owned()
    };
    let (one, other) = (kept("The shop opens at nine."), kept("The shop closes at six."));
    place.done(&["call", "delete_scope", r#"{"scope": "acme:web"}"#]);
    let refused = place.refused(&["undelete", &one], 1);
    assert!(refused.contains("the scope of") && refused.contains("kenning undo 10"), "{refused}");
    place.done(&["undo", "10"]);
    place.done(&["rm", &one, &other]);
    place.done(&["undelete", &other]);
    assert!(place.done(&["show", &one]).starts_with("Deleted by transaction 12"));
    assert!(!place.done(&["show", &other]).contains("Deleted by"));
}

#[test]
fn facts_documents_sections_and_patterns_are_shown() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("work/docs")).expect("a directory");
    let guide =
        "# Guide\n\nHow it works.\n\n## Retries\n\nA call that failed is tried again after a pause.\n";
    std::fs::write(place.path("work/docs/guide.md"), guide).expect("writable");
    std::fs::create_dir_all(place.path("work/patterns")).expect("a directory");
    let pattern = "---\nid: retry-backoff\ntitle: Retry with backoff\ncategory: errors\n---\nTry a call that failed again.\n";
    std::fs::write(place.path("work/patterns/retry.md"), pattern).expect("writable");
    place.done(&["ingest", "docs"]);
    place.done(&["ingest", "--kind", "patterns", "patterns"]);
    place.done(&["add", "--topic", "retries", "A failed call is retried three times."]);
    let found = place.lines(&["search", "retry a failed call", "--json"]);
    let kinds: Vec<&str> = found.iter().filter_map(|hit| hit["kind"].as_str()).collect();
    assert!(["entry", "document", "pattern"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    for hit in &found {
        // A result that was found only by its meaning has no word to mark.
        let is_alike = hit["topic"] == "deployment" || hit["topic"] == "style" || hit["topic"] == "tests";
        assert!(is_alike || !hit["matches"].as_array().expect("a list").is_empty(), "{hit}");
        place.done(&["show", hit["id"].as_str().expect("an id")]);
    }
    let only = place.lines(&["search", "--kind", "pattern", "retry a failed call", "--json"]);
    assert_eq!((only.len(), &only[0]["id"]), (1, &Value::from("retry-backoff")));
    let text = place.done(&["search", "retry a failed call"]);
    assert!(text.contains("ENTRY\n") && text.contains("DOCUMENT\n") && text.contains("PATTERN\n"), "{text}");
    assert!(!text.contains("```") && !text.contains("as data"), "{text}");
    let is_of_guide = |hit: &&Value| hit["kind"] == "document" && hit.to_string().contains("Retries");
    let document = found.iter().find(is_of_guide).expect("a document");
    let whole = place.done(&["show", document["document"].as_str().expect("an id")]);
    assert!(whole.contains("docs/guide.md") || whole.contains("guide.md"), "{whole}");
    assert!(whole.contains("Retries") && whole.contains("tried again after a pause"), "{whole}");
    let facts = place.lines(&["history", "--all", "--json"]);
    let fact = facts[0]["items"].as_array().expect("a list").iter().find(|item| item["tool"] == "relate");
    let fact = fact.expect("the fact")["changes"][0]["id"].as_str().expect("an id").to_owned();
    assert!(place.done(&["show", &fact]).contains("checkout ─ owned by → team red"));
    place.done(&["rm", &fact]);
    place.done(&["undelete", &fact]);
    assert!(place.refused(&["rm", document["id"].as_str().expect("an id")], 2).contains("kenning documents"));
}

#[test]
fn what_is_not_there_ends_with_3_and_a_wrong_word_with_2() {
    let place = Place::new();
    for arguments in [
        &["show", "K7H9M2PQX9"][..],
        &["scopes", "nope"],
        &["--scope", "nope:web", "list"],
        &["--scope", "nope:web", "search", "x"],
        &["--scope", "nope:web", "add", "x"],
        &["history", "K7H9M2PQX9"],
        &["undo", "99"],
        &["documents", "nope"],
    ] {
        place.refused(arguments, 3);
    }
    for arguments in
        [&["--scope", "Nope", "list"][..], &["lst"], &["list", "--nope"], &["list", "--limit", "many"]]
    {
        place.refused(arguments, 2);
    }
    assert!(place.refused(&["serch", "x"], 2).contains("'search'"));
    let unknown = place.refused(&["--scope", "acme:wep", "list"], 3);
    assert!(unknown.contains("acme:web") && unknown.contains("`kenning scopes`"), "{unknown}");
    assert!(!unknown.contains("get_namespaces"), "{unknown}");
}

#[test]
fn stored_text_does_not_work_the_terminal() {
    let place = Place::empty();
    place.done(&["add", "--topic", "a\u{1b}]0;title\u{7}", "\u{1b}[2Jgone\u{202e}"]);
    for arguments in [&["list"][..], &["search", "gone"], &["history"], &["list", "--color", "always"]] {
        let shown = place.done(arguments);
        let has_styles_only = shown.split('\u{1b}').skip(1).all(|rest| {
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
            rest.starts_with('[') && rest[end..].starts_with('m')
        });
        assert!(has_styles_only && !shown.contains('\u{7}') && !shown.contains('\u{202e}'), "{shown:?}");
    }
}

#[test]
fn colour_comes_when_it_is_wanted() {
    let place = Place::new();
    let shown = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = place.command(arguments);
        let output = command.envs(environment.iter().copied()).output().expect("kenning runs");
        String::from_utf8(output.stdout).expect("text").contains('\u{1b}')
    };
    assert!(!shown(&["list"], &[]), "a pipe gets none");
    assert!(shown(&["list", "--color", "always"], &[]));
    assert!(shown(&["list"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!shown(&["list", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!shown(&["list"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

/// A closed pipe is not an error: the program that reads the output, such as `head`, may stop early.
#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    for arguments in
        [&["list"][..], &["history", "--all"], &["search", "deploy"], &["--help"], &["list", "--json"]]
    {
        let mut child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kenning runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn an_undelete_is_undone_like_any_other_change() {
    let place = Place::new();
    place.done(&["rm", place.id(2)]);
    place.done(&["undelete", place.id(2)]);
    let undone = place.done(&["undo"]);
    assert!(undone.starts_with("Took back transaction 9"), "{undone}");
    assert!(place.done(&["show", place.id(2)]).starts_with("Deleted by transaction 10"));
    let engine = Engine::new(place.path("data"), Engine::real_sources());
    let snapshot = engine.snapshot(&kenning_testkit::owner()).expect("readable");
    assert_eq!(
        snapshot.records(EntityType::Entry, &place.ids).expect("readable").iter().flatten().count(),
        2
    );
}

/// Runs `kenning edit` with an editor that executes this script on the file.
fn edited(place: &Place, script: &str, arguments: &[&str]) -> Output {
    let mut command = place.command(arguments);
    command.env("VISUAL", format!("sh -c '{script}' sh")).output().expect("kenning runs")
}

/// The path of the file with the text that could not be saved.
fn kept_file(said: &str) -> String {
    let rest = said.split("Your text is in ").nth(1).unwrap_or_else(|| panic!("no file is named: {said}"));
    rest.split(';').next().unwrap_or_default().to_owned()
}

#[cfg(unix)]
#[test]
fn an_entry_is_edited() {
    let place = Place::new();
    let id = place.id(0);
    let unchanged = edited(&place, "true", &["edit", id]);
    assert!(
        unchanged.status.success()
            && String::from_utf8_lossy(&unchanged.stderr).contains("nothing was changed")
    );
    assert_eq!(place.lines(&["show", id, "--json"])[0]["version"], 2);
    let changed = edited(
        &place,
        "sed -i s/Fridays/Sundays/ \"$1\"; sed -i \"s/^tags: .*/tags: []/\" \"$1\"",
        &["edit", id],
    );
    assert!(changed.status.success(), "{changed:?}");
    let entry = place.lines(&["show", id, "--json"]).remove(0);
    assert_eq!(entry["version"], 3);
    assert!(
        entry["content"].as_str().expect("text").contains("never on Sundays") && entry["tags"].is_null(),
        "{entry}"
    );
    // An editor that fails, and an editor that leaves an invalid entry.
    let failed = edited(&place, "exit 1", &["edit", id]);
    assert_eq!(failed.status.code(), Some(1));
    let bad = edited(&place, "sed -i s/^pinned:.*/pinned:\\ perhaps/ \"$1\"", &["edit", id]);
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(bad.status.code(), Some(2), "{said}");
    assert!(said.contains("line 6"), "{said}");
    let file = kept_file(&said);
    let text = std::fs::read_to_string(&file).expect("the text is kept").replace("perhaps", "true");
    std::fs::write(&file, text).expect("writable");
    place.done(&["edit", id, "--from", &file]);
    assert_eq!(place.lines(&["show", id, "--json"])[0]["pinned"], true);
    std::fs::remove_file(&file).expect("it is still there");
}

#[cfg(unix)]
#[test]
fn what_somebody_else_has_changed_meanwhile_is_not_overwritten() {
    let place = Place::new();
    let id = place.id(1);
    let update = format!(r#"{{"id": "{id}", "content": "Comments say why."}}"#);
    let program = env!("CARGO_BIN_EXE_kenning");
    std::fs::write(place.path("update.json"), update).expect("writable");
    let other = format!("{program} call update - < {} > /dev/null", place.path("update.json").display());
    let output = edited(&place, &format!("sed -i s/not/never/ \"$1\"; {other}"), &["edit", id]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it is at version 2, your text began with version 1"), "{said}");
    assert_eq!(place.lines(&["show", id, "--json"])[0]["content"], "Comments say why.");
    let file = kept_file(&said);
    assert_eq!(place.run(&["edit", id, "--from", &file]).status.code(), Some(1), "it goes on refusing");
    let text = std::fs::read_to_string(&file).expect("kept").replace("version: 1", "version: 2");
    std::fs::write(&file, text).expect("writable");
    place.done(&["edit", id, "--from", &file]);
    assert_eq!(place.lines(&["show", id, "--json"])[0]["content"], "Comments say why, never what.");
    std::fs::remove_file(&file).expect("it is still there");
}

#[test]
fn versions_are_compared() {
    let place = Place::new();
    let id = place.id(0);
    let plain = place.done(&["diff", id]);
    assert!(plain.contains("[-half -]") || plain.contains("[-half-]"), "{plain}");
    let both = place.lines(&["diff", id, "--from", "1", "--to", "7", "--json"]).remove(0);
    assert_eq!((&both["from"]["version"], &both["to"]["version"]), (&Value::from(1), &Value::from(2)));
    assert_eq!(both["changed"], serde_json::json!(["content", "tags"]));
    assert!(place.done(&["diff", id, "--to", "2"]).contains("there was no version before"));
    place.refused(&["diff", place.id(2), "--to", "1"], 3);
    place.refused(&["diff", "K7H9M2PQX9"], 3);
    place.done(&["rm", id]);
    assert!(place.done(&["diff", id]).contains("(deleted)"));
}

#[test]
fn the_graph_is_shown() {
    let place = Place::new();
    let shown = place.done(&["graph", "team red"]);
    assert_eq!(shown, "FROM      RELATION  TO\ncheckout  owned by  team red\n");
    assert!(place.refused(&["graph", "nobody"], 3).contains("nothing is called `nobody`"));
    place.refused(&["graph", "checkout", "--hops", "9"], 2);
}

#[test]
fn settings_come_from_flags_variables_the_project_and_the_user() {
    let place = Place::new();
    let file = place.path("home/.config/kenning/config.toml");
    let user = place.done(&["config", "path"]);
    assert_eq!(Path::new(user.trim_end()), file);
    let holds = |arguments: &[&str], environment: &[(&str, &str)], name: &str| {
        let mut command = place.command(&[&["config", "show", "--json"], arguments].concat());
        let output = command.envs(environment.iter().copied()).output().expect("kenning runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let found = lines.into_iter().find(|line| line["name"] == name).expect("the setting");
        let said = |field: &str| found[field].as_str().expect("text").to_owned();
        (said("value"), said("origin"), String::from_utf8(output.stderr).expect("text"))
    };
    let content = |arguments: &[&str], environment: &[(&str, &str)]| {
        let (value, origin, _) = holds(arguments, environment, "content");
        (
            value,
            Path::new(&origin)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
        )
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(content(&[], &[]), pair("auto", "default"));
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("writable");
    std::fs::write(&file, "content = \"full\"\nread_only = true\ntolsets = \"memory\"\n").expect("writable");
    assert_eq!(content(&[], &[]), pair("full", "config.toml"));
    let project = place.path("work/.kenning.toml");
    std::fs::write(&project, "content = \"text\"\ndata-dir = \"/elsewhere\"\nread-only = false\n")
        .expect("writable");
    assert_eq!(content(&[], &[]), pair("text", ".kenning.toml"));
    assert_eq!(content(&[], &[("KENNING_CONTENT", "auto")]), pair("auto", "KENNING_CONTENT"));
    assert_eq!(content(&["--content", "full"], &[("KENNING_CONTENT", "auto")]), pair("full", "--content"));
    let (value, origin, said) = holds(&[], &[], "data-dir");
    assert_eq!((value, origin.as_str()), (place.path("data").display().to_string(), "KENNING_DATA_DIR"));
    assert!(said.contains("there is no setting `tolsets`; did you mean `toolsets`?"), "{said}");
    assert!(said.contains("`data-dir` is ignored: a project's file may set"), "{said}");
    assert!(said.contains("`read-only` is ignored"), "{said}");
    // The user's file applies, whatever the project's file says.
    place.refused(&["add", "x"], 1);
    std::fs::write(&file, "content = \"everything\"\n").expect("writable");
    assert!(place.refused(&["list"], 2).contains("it is one of auto, text, full"));
    std::fs::write(&file, "content = \n").expect("writable");
    assert!(place.refused(&["list"], 2).contains("config.toml"));
    std::fs::remove_file(&file).expect("it is there");
    std::fs::write(&project, "scope: this is no TOML\n").expect("writable");
    assert!(place.refused(&["list"], 0).contains("the file is ignored"));
}

#[test]
fn help_has_what_a_command_uses_and_other_options_are_taken_all_the_same() {
    let place = Place::new();
    let list = place.done(&["list", "--help"]);
    assert!(list.contains("--scope") && !list.contains("--toolsets") && !list.contains("--actor"), "{list}");
    let serve = place.done(&["serve", "--help"]);
    assert!(
        serve.contains("--toolsets") && serve.contains("--content") && serve.contains("--read-only"),
        "{serve}"
    );
    assert!(!place.done(&["verify", "--help"]).contains("--scope"));
    for arguments in [
        &["list", "--toolsets", "memory"][..],
        &["--toolsets", "memory", "list"],
        &["verify", "--scope", "acme:web"],
    ] {
        place.done(arguments);
    }
}

/// The commands that the help lists.
fn commands(place: &Place) -> Vec<String> {
    let help = place.done(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).expect("commands").split("\n\n").next().expect("commands");
    let first = |line: &str| Some(line.split_whitespace().next()?.to_owned());
    listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(first)
        .collect()
}

#[cfg(unix)]
#[test]
fn the_examples_of_the_help_work() {
    let mut many = 0;
    let names = commands(&Place::empty());
    for command in names.iter().filter(|command| *command != "help") {
        let place = Place::new();
        let help = place.done(&[command, "--help"]);
        let Some(examples) = help.split("Examples:\n").nth(1) else { continue };
        std::fs::create_dir(place.path("work/patterns")).expect("a directory");
        let pattern =
            "---\nid: retry-backoff\ntitle: Retry with backoff\n---\nTry a call that failed again.\n";
        std::fs::write(place.path("work/patterns/retry.md"), pattern).expect("writable");
        place.done(&["ingest", "--kind", "patterns", "patterns"]);
        place.done(&["export", "-o", "kenning.jsonl"]);
        let memory = "{\"type\":\"entity\",\"name\":\"api\",\"entityType\":\"service\",\"observations\":[\"It is slow.\"]}\n";
        std::fs::create_dir_all(place.path("home/vault")).expect("a directory");
        std::fs::write(place.path("home/memory.jsonl"), memory).expect("writable");
        std::fs::write(
            place.path("home/vault/note.md"),
            "# Coffee\n\n- [fact] It is brewed at 94 degrees.\n",
        )
        .expect("writable");
        std::fs::write(place.path("work/CLAUDE.md"), "# Rules\n\n- Never deploy on Fridays.\n")
            .expect("writable");
        // Some examples need a repository with a remote or a server elsewhere, or run until they are stopped.
        let can_run = |line: &&str| !["git ", "--url ", "--watch"].iter().any(|part| line.contains(part));
        for example in examples.lines().take_while(|line| line.starts_with("  ")).filter(can_run) {
            let output = place.shell(example).env("VISUAL", "true").output().expect("a shell");
            assert!(output.status.success(), "{example}: {output:?}");
            many += 1;
        }
    }
    assert!(many >= 30, "only {many} examples were found");
}

#[test]
fn completions_and_man_pages_come_from_the_same_definitions() {
    let place = Place::empty();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.done(&["completions", shell]);
        assert!(script.contains("undelete") && script.contains("data-dir"), "{shell}");
    }
    assert!(place.done(&["man"]).starts_with(".ie"));
    place.done(&["man", "--dir", "man1"]);
    for command in commands(&place).iter().filter(|command| *command != "help") {
        assert!(place.path("work/man1").join(format!("kenning-{command}.1")).is_file(), "{command}");
    }
}

/// A table in colour that fits the width of a pseudo-terminal, which the program `script` provides if it is
/// installed.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colour_and_lines_that_fit() {
    let place = Place::new();
    let has_script = Command::new("script").arg("--version").output().is_ok();
    if !has_script {
        return;
    }
    let mut shell = place.shell("script -qec 'stty cols 60 rows 20; kenning list' /dev/null");
    let output = shell.env("TERM", "xterm").output().expect("a shell");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && shown.contains('\u{1b}'), "{shown:?}");
    let plain = anstream::adapter::strip_str(&shown).to_string();
    let widest = plain.lines().map(|line| line.trim_end().chars().count()).max();
    assert_eq!(widest, Some(60), "{plain}");
    assert!(plain.contains('…'), "{plain}");
}

/// The commands of a page.
#[cfg(unix)]
fn commands_of(page: &str) -> String {
    page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// What a script prints; it ends at the first command that fails.
#[cfg(unix)]
fn printed_by(place: &Place, script: &str) -> String {
    let output = place.shell(&format!("set -e\n{script}")).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The commands of the README in their order, in one shell, but for those that build, go on until they are stopped, or need another
/// program or machine.
#[cfg(unix)]
#[test]
fn the_readme_works() {
    const ELSEWHERE: [&str; 12] = [
        "cargo ",
        "scripts/",
        "claude ",
        "kenning serve",
        "kenning ui",
        "kenning doctor",
        "kenning token revoke",
        "kenning migrate",
        "kenning model",
        "kenning show ID",
        "kenning edit ID",
        "KENNING_DATABASE=",
    ];
    let page = std::fs::read_to_string("../../README.md").expect("the README");
    let is_here = |line: &&str| !ELSEWHERE.iter().any(|start| line.starts_with(start));
    let commands = commands_of(&page);
    let script: Vec<&str> = commands.lines().filter(is_here).collect();
    let place = Place::empty();
    let write = |name: &str, text: &str| {
        let path = place.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("writable");
    };
    write(
        "home/memory.jsonl",
        "{\"type\":\"entity\",\"name\":\"api\",\"entityType\":\"service\",\"observations\":[\"It is slow.\"]}\n",
    );
    write("home/vault/note.md", "# Coffee\n\n- [fact] It is brewed at 94 degrees.\n");
    write("work/CLAUDE.md", "# Rules\n\n- Never push to main by force.\n");
    write("work/docs/keys.md", "# Keys\n\nAn idempotency key is kept for seven days.\n");
    let shown = printed_by(&place, &script.join("\n"));
    for part in ["acme:web", "kept for seven days", "retry-backoff", "kenning_", "Blue-green; never on"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // What a session reads after the first entry, as it is printed there.
    let place = Place::empty();
    place.done(&["add", "--topic", "deployment", "We deploy blue-green, and never on Fridays."]);
    let start = "echo '{\"hook_event_name\":\"SessionStart\",\"session_id\":\"x\",\"source\":\"startup\",\"cwd\":\"'$PWD'\"}' | \
        KENNING_HOOK_DEADLINE_MS=30000 kenning hook";
    let answer: Value = serde_json::from_str(&printed_by(&place, start)).expect("JSON");
    let told = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("a text");
    let told = told.lines().filter(|line| !line.contains("kenning-memory")).map(without_id);
    let printed =
        page.split("````text\n").nth(1).and_then(|rest| rest.split("````").next()).expect("a block");
    assert_eq!(told.collect::<Vec<_>>(), printed.lines().map(without_id).collect::<Vec<_>>());
}

/// A line of an entry without the entry's id.
#[cfg(unix)]
fn without_id(line: &str) -> &str {
    line.split_once(' ').filter(|(word, _)| Id::parse(word).is_some()).map_or(line, |(_, rest)| rest)
}

/// Runs the commands of the tutorial in their order, in one shell.
#[cfg(unix)]
#[test]
fn the_tutorial_works() {
    let page = std::fs::read_to_string("../../docs/tutorial.md").expect("the tutorial");
    let shown = printed_by(&Place::empty(), &commands_of(&page));
    assert!(
        shown.contains("We deploy blue-green") && shown.contains("on call answers within ten minutes"),
        "{shown}"
    );
}

/// Every page that the book lists exists, and the book lists every page.
#[test]
fn the_book_has_every_page() {
    let summary = std::fs::read_to_string("../../docs/SUMMARY.md").expect("the summary");
    let mut listed: Vec<&str> =
        summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let pages = std::fs::read_dir("../../docs").expect("readable").flatten();
    let names = pages.map(|page| page.file_name().to_string_lossy().into_owned());
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    listed.sort_unstable();
    pages.sort_unstable();
    assert_eq!(listed, pages);
}
