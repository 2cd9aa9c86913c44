//! Failures of the store, the disk or the host: a hook must still exit with code 0, write nothing to stderr,
//! end in time, and record the failure for `doctor`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kenning_engine::Engine;
use kenning_tools::recall::{HookOutcome, HookRun, RecallLog};
use serde_json::json;

use crate::Place;

/// The time that a process needs to start and end beyond its own deadline, with room for a busy machine. The
/// locks and pipes that hooks meet in these tests would block for far longer.
const SLACK: Duration = Duration::from_secs(2);

/// A hook with the default deadline.
fn in_time(place: &Place) -> Command {
    let mut command = place.kenning("web", &["hook"]);
    command.env_remove("KENNING_HOOK_DEADLINE_MS");
    command
}

fn took(since: Instant, most: Duration) {
    let took = since.elapsed();
    assert!(took < most, "it took {took:?}");
}

fn run_of(place: &Place, event: &str) -> HookRun {
    let log = RecallLog::existing(&place.data()).expect("runs are noted");
    let runs = log.hook_runs().expect("the log can be read");
    runs.into_iter().find(|run| run.event == event).expect("a run")
}

#[test]
fn runs_are_noted_without_what_they_said() {
    let place = Place::new();
    place.start("a-session-name", "startup");
    place.prompt("a-session-name", "When may we deploy?");
    place.prompt("a-session-name", "hello there");
    let (start, prompt) = (run_of(&place, "start"), run_of(&place, "prompt"));
    assert_eq!((start.host.as_str(), start.outcome, start.runs), ("claude-code", HookOutcome::Said, 1));
    assert_eq!((prompt.outcome, prompt.runs, prompt.failures), (HookOutcome::Silent, 2, 0));
    let log = RecallLog::existing(&place.data()).expect("it is there");
    let given: Vec<_> = log.sessions(10).expect("read");
    assert_eq!(given.len(), 1);
    let by: Vec<String> =
        log.of_session(&given[0].session).expect("read").into_iter().map(|it| it.by).collect();
    assert_eq!(by, ["hook prompt", "hook start"]);
    for file in ["recall.db", "recall.db-wal"] {
        let bytes = std::fs::read(place.data().join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        for content in ["blue-green", "imperative", "deploy", "a-session-name"] {
            assert!(!text.contains(content), "{file} has {content}");
        }
    }
}

#[test]
fn a_dry_run_says_the_same_and_notes_nothing() {
    let place = Place::new();
    let payload = json!({"session_id": "s", "transcript_path": "/t", "cwd": place.path("web"),
        "hook_event_name": "SessionStart", "source": "startup"});
    let dry = place.hook(&["--dry-run"], &payload.to_string());
    assert!(!place.data().join("recall.db").exists());
    assert_eq!(dry.stdout, place.hook(&[], &payload.to_string()).stdout);
}

#[test]
fn without_a_recall_log_sessions_are_not_told_twice_and_read_only_writes_nothing() {
    let place = Place::new();
    let payload = |event: &str| {
        json!({"session_id": "s", "transcript_path": "/t", "cwd": place.path("web"), "hook_event_name": event,
            "source": "startup", "prompt": "When may we deploy?"})
        .to_string()
    };
    assert!(!place.hook(&["--read-only"], &payload("SessionStart")).stdout.is_empty());
    assert!(place.hook(&["--read-only"], &payload("UserPromptSubmit")).stdout.is_empty());
    assert!(!place.data().join("recall.db").exists());
    assert!(!place.hook(&["--no-recall-log"], &payload("UserPromptSubmit")).stdout.is_empty());
    assert!(place.hook(&["--no-recall-log"], &payload("UserPromptSubmit")).stdout.is_empty());
    let log = RecallLog::existing(&place.data()).expect("it is there");
    assert_eq!(log.sessions(10).expect("read"), []);
}

#[test]
fn a_store_that_is_locked_or_broken_is_silence_and_a_row() {
    let mut place = Place::new();
    // The engine of this test moves to another directory, so that nobody has the store open and it can be
    // locked.
    place.engine = Engine::new(place.path("elsewhere"), kenning_testkit::fixed_sources());
    let lock = rusqlite::Connection::open(place.data().join("store.db")).expect("it opens");
    lock.execute_batch("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE; CREATE TABLE locked (x)")
        .expect("locked");
    let (since, payload) = (Instant::now(), place.prompt_payload("s", "When may we deploy?"));
    assert_eq!(place.told_by(in_time(&place), &payload), "");
    took(since, Duration::from_millis(150) + SLACK);
    let run = run_of(&place, "prompt");
    assert_eq!(run.failures, 1, "{run:?}");
    drop(lock);
    assert!(!place.prompt("s", "When may we deploy?").is_empty(), "nothing was lost");
    let broken = Place::new();
    broken.engine.close();
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::write(broken.data().join(file), b"no store at all ".repeat(4_096));
    }
    assert_eq!(broken.start("s", "startup"), "");
    assert_eq!(broken.prompt("s", "When may we deploy?"), "");
    let run = run_of(&broken, "prompt");
    assert_eq!((run.outcome, run.failures), (HookOutcome::Failed, 1), "{run:?}");
    assert!(run.failure.expect("a reason").contains("store"));
}

/// Only a server writes the index. Without a server, a hook reads the newest transactions from the log
/// itself.
#[test]
fn a_hook_writes_no_index() {
    let place = Place::new();
    place.engine.close();
    let index = place.data().join("index");
    let _ = std::fs::remove_dir_all(&index);
    assert!(place.prompt("s", "When may we deploy?").contains("blue-green"));
    let made = std::fs::read_dir(index.join("entries")).into_iter().flatten().count();
    assert_eq!(made, 0, "nothing was written");
}

#[cfg(unix)]
#[test]
fn a_disk_that_hangs_and_a_host_that_says_nothing_end_in_time() {
    let place = Place::new();
    place.start("s", "startup");
    // Opening a pipe that nobody writes to blocks for ever, like a dead network disk.
    place.write("web/.git/config", "");
    let store = place.data().join("store.db");
    std::fs::rename(&store, place.data().join("aside.db")).expect("moved");
    let made = Command::new("mkfifo").arg(&store).status().expect("mkfifo runs");
    assert!(made.success());
    let (since, payload) = (Instant::now(), place.prompt_payload("s", "When may we deploy?"));
    assert_eq!(place.told_by(in_time(&place), &payload), "");
    took(since, Duration::from_millis(150) + SLACK);
    let since = Instant::now();
    let mut child = in_time(&place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    // The input pipe stays open and empty.
    let input = child.stdin.take();
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    took(since, Duration::from_millis(300) + SLACK);
    drop(input);
    let run = run_of(&place, "other");
    assert_eq!(run.outcome, HookOutcome::CutOff, "{run:?}");
}

#[test]
fn input_that_is_no_payload_and_arguments_that_are_wrong_end_with_nothing() {
    let place = Place::new();
    let long =
        format!("{{\"hook_event_name\": \"UserPromptSubmit\", \"prompt\": \"{}\"}}", "x".repeat(5 << 20));
    let odd = ["", "null", "[]", "{}", "{\"hook_event_name\": 7}", "\u{feff}{}", "{\"a\":", &long];
    for input in odd {
        assert!(place.hook(&[], input).stdout.is_empty(), "{}", &input[..input.len().min(40)]);
    }
    assert!(place.run(place.kenning("web", &["hook"]), b"\xff\xfe{\"prompt\": \"\x80\"}").stdout.is_empty());
    for arguments in
        [&["hook", "--bogus"][..], &["hook", "--host", "nobody"], &["--tool-names", "odd", "hook"]]
    {
        let output = place.kenning("web", arguments).output().expect("it runs");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{arguments:?}: {output:?}");
    }
}
