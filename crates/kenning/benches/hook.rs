//! What a hook costs, from the start of its process to the end, compared with processes that do nothing; and
//! what 1,000 prompts are answered.
//!
//! `cargo bench -p kenning --bench hook`; `-- 10000` measures only that size.
#![allow(clippy::print_stdout)]

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kenning_engine::Engine;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const SIZES: [usize; 2] = [10_000, 100_000];
const ROUNDS: usize = 200;
const PROMPTS: usize = 1_000;
const PROMPTS_OF_SESSION: usize = 20;
const DEADLINE: Duration = Duration::from_millis(150);
const STORED_AT_ONCE: usize = 100;

/// Topics that are stored and asked for.
const THINGS: [&str; 20] = [
    "deployment",
    "invoice",
    "login",
    "search index",
    "backup",
    "payment gateway",
    "mobile app",
    "cache",
    "release notes",
    "warehouse scanner",
    "customer email",
    "tax rate",
    "image upload",
    "error budget",
    "feature flag",
    "data export",
    "password reset",
    "shipping label",
    "price list",
    "audit log",
];
const TEAMS: [&str; 12] = [
    "platform",
    "checkout",
    "billing",
    "growth",
    "mobile",
    "logistics",
    "support",
    "security",
    "finance",
    "content",
    "identity",
    "analytics",
];
const RULES: [&str; 10] = [
    "must be approved by two people before it goes live",
    "is kept for ninety days and then removed",
    "runs at four in the morning and never on Fridays",
    "is written in the imperative and names its ticket",
    "goes through the staging cluster in Frankfurt first",
    "may only be changed with a migration that can be undone",
    "is measured against a limit of two hundred milliseconds",
    "needs a fallback for readers without a network",
    "is encrypted with the key of its own region",
    "is announced in the channel of its owners a day ahead",
];
/// Prompts that have nothing to do with the stored entries.
const ELSEWHERE: [&str; 10] = [
    "ok, go ahead",
    "thanks!",
    "yes",
    "tune my cello by ear",
    "bake a sourdough loaf with rye",
    "which platform does the train to Turin leave from",
    "how do I fold a paper crane",
    "hm, try that again please",
    "who wrote the baritone arias",
    "knit a cardigan from merino yarn",
];

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { SIZES.to_vec() } else { asked };
    println!("from the start of a process to its end, {ROUNDS} rounds in turns: p50, p99, at most (ms)");
    for size in sizes {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
        fill(dir.path(), size);
        cold(dir.path(), size);
        prompts(dir.path(), size);
    }
}

fn content(number: usize) -> String {
    let (thing, team) = (THINGS[number % THINGS.len()], TEAMS[number / 7 % TEAMS.len()]);
    let (rule, other) = (RULES[number / 3 % RULES.len()], RULES[number / 11 % RULES.len()]);
    format!("The {thing} of team {team} number {number} {rule}; what it depends on {other}.")
}

fn fill(dir: &Path, size: usize) {
    let engine = Engine::new(dir.to_owned(), Engine::real_sources());
    let caller = Caller::new(None, Engine::new_origin(), "global:default".to_owned());
    let tool = find("store_many").expect("a tool");
    let numbers: Vec<usize> = (0..size).collect();
    for some in numbers.chunks(STORED_AT_ONCE) {
        let entries: Vec<Value> = some
            .iter()
            .map(|number| json!({"topic": THINGS[number % THINGS.len()], "content": content(*number), "pinned": *number < 5}))
            .collect();
        let Value::Object(arguments) = json!({ "entries": entries }) else { unreachable!("an object") };
        let reply = dispatch(&engine, &caller, Access::ReadWrite, tool, arguments);
        assert!(!reply.is_error, "{}", reply.structured);
    }
    engine.rebuild().expect("an index");
    engine.close();
}

fn cold(dir: &Path, size: usize) {
    let mut names = vec!["kenning hook, a prompt", "kenning hook, a start", "/bin/true"];
    names.extend(["python3", "node"].into_iter().filter(|name| run(name, dir, "", "").is_some()));
    let mut times: Vec<Vec<Duration>> = names.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        let (session, prompt) = (format!("cold {round}"), about(round));
        for (name, times) in names.iter().zip(&mut times) {
            let since = Instant::now();
            run(name, dir, &session, &prompt).expect("it ran before");
            times.push(since.elapsed());
        }
    }
    for (name, times) in names.iter().zip(&mut times) {
        println!("{size} entries, {name}: {}", shown(times));
    }
}

fn about(number: usize) -> String {
    let (thing, team) = (THINGS[number * 7 % THINGS.len()], TEAMS[number % TEAMS.len()]);
    format!("Please change the {thing} of team {team}, and tell me when it may go live?")
}

fn shown(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    format!("{:.1}, {:.1}, {:.1}", at(0.5), at(0.99), at(1.0))
}

/// Runs a program as a host does, and returns its output; `None` if the program can't be run.
fn run(name: &str, dir: &Path, session: &str, prompt: &str) -> Option<String> {
    let mut command = match name {
        "python3" => {
            let mut command = Command::new("python3");
            command.args(["-c", "import sys, json; json.load(sys.stdin)"]);
            command
        }
        "node" => {
            let mut command = Command::new("node");
            command.args(["-e", "JSON.parse(require('fs').readFileSync(0))"]);
            command
        }
        "/bin/true" => Command::new("/bin/true"),
        _ => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
            command.arg("hook").arg("--data-dir").arg(dir).current_dir(dir);
            command
        }
    };
    let event = if name.ends_with("start") { "SessionStart" } else { "UserPromptSubmit" };
    let payload = json!({"session_id": session, "transcript_path": "/t", "cwd": dir, "hook_event_name": event,
        "source": "startup", "prompt": prompt});
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.ok()?;
    // `true` does not read its input, so this write may fail.
    let _ = child.stdin.take()?.write_all(payload.to_string().as_bytes());
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sends the prompts of several sessions, as users type them: most are about stored entries, some repeat an
/// earlier one, and some are about nothing that is stored.
fn prompts(dir: &Path, size: usize) {
    let (mut times, mut late, mut repeats, mut said) = (Vec::new(), 0, 0, 0);
    let (mut elsewhere, mut silent) = (0, 0);
    let mut given: HashSet<String> = HashSet::new();
    for number in 0..PROMPTS {
        if number % PROMPTS_OF_SESSION == 0 {
            given.clear();
        }
        let session = format!("session {}", number / PROMPTS_OF_SESSION);
        let is_elsewhere = number % 5 == 4;
        let prompt = match number % 5 {
            4 => ELSEWHERE[number / 5 % ELSEWHERE.len()].to_owned(),
            // The same question as the prompt before.
            3 => about(number - 1),
            2 => format!("{} {}", about(number), "The log says:\n```\nat frame of a stack\n```\n".repeat(50)),
            _ => about(number),
        };
        let since = Instant::now();
        let answer = run("kenning hook, a prompt", dir, &session, &prompt).expect("it ends with 0");
        let took = since.elapsed();
        late += usize::from(took > DEADLINE);
        times.push(took);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default();
        let ids = text.lines().filter_map(|line| line.split(' ').next()).filter(|word| word.len() == 10);
        repeats += ids.filter(|id| !given.insert((*id).to_owned())).count();
        said += usize::from(!text.is_empty());
        elsewhere += usize::from(is_elsewhere);
        silent += usize::from(is_elsewhere && text.is_empty());
    }
    println!(
        "{size} entries, {PROMPTS} prompts in sessions of {PROMPTS_OF_SESSION}: {}; {late} over {} ms, {said} answered, {repeats} entries \
         repeated, silent on {silent} of {elsewhere} about nothing that is stored",
        shown(&mut times),
        DEADLINE.as_millis()
    );
}
