//! `kenning hook`: the program that a host runs at the start of a session and before each prompt. It reads
//! one JSON object and answers in the host's format or not at all. It always ends with exit code 0, and
//! always before its deadline.

mod answer;
mod payload;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::exit;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, CommandFactory};
use kenning_engine::Engine;
use kenning_model::Timestamp;
use kenning_tools::briefing::{self, Briefing, LastSession, Start};
use kenning_tools::recall::{self, HookOutcome, HookRunNote, HookSession, RecallLog, RecallNote, session_of};
use kenning_tools::{Caller, Code, Stop};

use self::payload::{Environment, Event, Host, Payload, Source};
use crate::config::{Arguments, Config};

#[derive(Args)]
pub struct Hook {
    /// Which host calls [default: told by what it writes]
    #[arg(long, value_name = "NAME", value_enum)]
    host: Option<Host>,
    /// End after so long [default: 150 after a prompt, 300 at a start]
    #[arg(long, env = "KENNING_HOOK_DEADLINE_MS", value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    deadline_ms: Option<u64>,
    /// Answer and note nothing: neither what was said nor that the hook ran
    #[arg(long)]
    dry_run: bool,
}

/// The process ends after this many milliseconds, even if the disk or another process hangs. For a session
/// start, and below for a prompt.
const START_MS: u64 = 300;
const PROMPT_MS: u64 = 150;
/// The run gives up waiting for an answer this long before the deadline, so that there is time to write the
/// run to the recall log.
const NOTING_MS: u64 = 20;
/// A search stops this long before that moment and returns what it has found so far, so that there is time to
/// write the answer.
const WRITING_MS: u64 = 25;
/// How long a hook waits for another process that writes to the recall log.
const RECALL_BUSY_MAX: Duration = Duration::from_millis(15);
/// The recall log stores these words in place of the name of a tool. A session start and a prompt are the only
/// two cases.
const HOOK_START: &str = "hook start";
const HOOK_PROMPT: &str = "hook prompt";

/// Whether these arguments call `kenning hook`: it is so if the first argument that names a command is
/// `hook`.
pub fn is_called(arguments: impl Iterator<Item = OsString>) -> bool {
    let commands = Arguments::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    let mut called = arguments.filter_map(|argument| argument.into_string().ok());
    called.find(|argument| names.contains(&argument.as_str())).is_some_and(|name| name == "hook")
}

/// What is known about the run so far. The main thread needs it for the log even when the worker does not
/// answer in time.
#[derive(Clone, Copy)]
struct RunContext {
    host: &'static str,
    event: &'static str,
}

/// The result of the worker.
struct HookResult {
    output: Option<String>,
    failure: Option<&'static str>,
    /// The open recall log. `None` if nothing may be written to it or if opening it failed.
    log: Option<RecallLog>,
}

/// Answers the hook and ends the process.
pub fn run(config: &Config, hook: Hook, started: Instant) -> ! {
    // A panic ends without an answer, which is allowed. Its message is suppressed because it may contain a
    // part of a prompt.
    std::panic::set_hook(Box::new(|_| {}));
    let deadline = Deadline::watch(started, hook.deadline_ms.unwrap_or(START_MS));
    let context =
        Arc::new(Mutex::new(RunContext { host: hook.host.map_or("unknown", Host::name), event: "other" }));
    let (sender, answers) = channel();
    let (shared_context, worker_deadline) = (context.clone(), deadline.clone());
    let (config, notes) = (config.clone(), !hook.dry_run && !config.read_only);
    let dir = config.local_dir().ok();
    let log_dir = dir.clone().filter(|dir| notes && dir.is_dir());
    // Reading the input and the store may hang, so a thread of its own does it while this thread watches the
    // time.
    let worker = std::thread::Builder::new().spawn(move || {
        let done = work(&config, &hook, &shared_context, &worker_deadline);
        let _ = sender.send(done);
    });
    if worker.is_err() {
        exit(0);
    }
    let mut done = None;
    // The deadline becomes shorter once the event is known to be a prompt, so it is checked again every 10
    // ms.
    while done.is_none() && Instant::now() < deadline.gives_up() {
        let left = deadline.gives_up().saturating_duration_since(Instant::now());
        match answers.recv_timeout(left.min(Duration::from_millis(10))) {
            Ok(answer) => done = Some(answer),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                done = Some(HookResult { output: None, failure: Some("an answer has failed"), log: None });
            }
        }
    }
    let context = *context.lock().unwrap_or_else(PoisonError::into_inner);
    let (output, failure, log) = match done {
        Some(HookResult { output, failure, log }) => (output, failure, log),
        None => (None, Some("the deadline passed"), None),
    };
    let outcome = match (&output, failure) {
        (_, Some("the deadline passed")) => HookOutcome::CutOff,
        (_, Some(_)) => HookOutcome::Failed,
        (Some(_), None) => HookOutcome::Said,
        (None, None) => HookOutcome::Silent,
    };
    if let Some(output) = output {
        let mut stdout = std::io::stdout().lock();
        // If the host has closed the pipe, the error cannot be reported to anybody.
        let _ = writeln!(stdout, "{output}").and_then(|()| stdout.flush());
    }
    if let Some(dir) = log_dir {
        note_run(log, &dir, context, outcome, failure, started);
    }
    exit(0);
}

/// Writes to the recall log how the run went, after the answer was written.
fn note_run(
    log: Option<RecallLog>,
    dir: &Path,
    context: RunContext,
    outcome: HookOutcome,
    failure: Option<&'static str>,
    started: Instant,
) {
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let note = HookRunNote {
        host: context.host,
        event: context.event,
        at: Timestamp::now(),
        took_ms,
        outcome,
        failure,
    };
    let log = log.map_or_else(|| RecallLog::open_within(dir, RECALL_BUSY_MAX), Ok);
    // If the log cannot be written either, `doctor` notices that the last recorded run was long ago.
    let _ = log.and_then(|log| log.note_run(&note));
}

/// Ends the process at the deadline, whatever the other threads are waiting for.
#[derive(Clone)]
struct Deadline {
    started: Instant,
    allowed_ms: Arc<Mutex<u64>>,
    watcher: std::thread::Thread,
}

impl Deadline {
    fn watch(started: Instant, allowed_ms: u64) -> Deadline {
        let allowed_ms = Arc::new(Mutex::new(allowed_ms));
        let allowed = allowed_ms.clone();
        let watching = std::thread::Builder::new().spawn(move || {
            loop {
                let allowed = *allowed.lock().unwrap_or_else(PoisonError::into_inner);
                let left =
                    (started + Duration::from_millis(allowed)).saturating_duration_since(Instant::now());
                if left.is_zero() {
                    exit(0);
                }
                std::thread::park_timeout(left);
            }
        });
        // Without the watcher thread nothing may begin that could hang, so the process ends at once.
        let Ok(watching) = watching else { exit(0) };
        Deadline { started, allowed_ms, watcher: watching.thread().clone() }
    }

    fn allow(&self, allowed_ms: u64) {
        *self.allowed_ms.lock().unwrap_or_else(PoisonError::into_inner) = allowed_ms;
        self.watcher.unpark();
    }

    fn before(&self, ms: u64) -> Instant {
        let allowed = *self.allowed_ms.lock().unwrap_or_else(PoisonError::into_inner);
        self.started + Duration::from_millis(allowed.saturating_sub(ms))
    }

    fn gives_up(&self) -> Instant {
        self.before(NOTING_MS)
    }

    fn searches_until(&self) -> Instant {
        self.before(NOTING_MS + WRITING_MS)
    }
}

fn work(config: &Config, hook: &Hook, context: &Mutex<RunContext>, deadline: &Deadline) -> HookResult {
    let silent = |failure| HookResult { output: None, failure, log: None };
    let Ok(fields) = payload::read(std::io::stdin()) else { return silent(Some("the input can't be read")) };
    let payload = payload::understand(&fields, hook.host, Environment::read());
    *context.lock().unwrap_or_else(PoisonError::into_inner) =
        RunContext { host: payload.host.name(), event: payload.event.name() };
    if matches!(payload.event, Event::Prompt(_)) {
        deadline.allow(hook.deadline_ms.unwrap_or(PROMPT_MS));
    }
    if payload.event == Event::Other || !payload.host.listens() {
        return silent(None);
    }
    let Ok(engine) = config.engine_for_one_answer() else {
        return silent(Some("there is no data directory"));
    };
    // A missing store is not an error: nothing was stored yet.
    if !engine.is_there() {
        return silent(None);
    }
    let engine = engine.until(deadline.searches_until());
    let caller = config.caller_in(&engine, payload.dirs.clone(), payload.host.name());
    let mut turn = Turn { config, engine: &engine, caller: &caller, payload: &payload, log: None };
    let answered = if hook.dry_run || config.read_only { turn.answer_only() } else { turn.answer() };
    let log = turn.log.take();
    match answered {
        Ok(briefing) => HookResult {
            output: answer::of(&payload, &briefing).map(|answer| answer.to_string()),
            failure: None,
            log,
        },
        Err(failure) => HookResult { output: None, failure: Some(failure), log },
    }
}

/// The handling of one event of a session.
struct Turn<'a> {
    config: &'a Config,
    engine: &'a Engine,
    caller: &'a Caller,
    payload: &'a Payload,
    log: Option<RecallLog>,
}

impl Turn<'_> {
    /// The answer for a session of which no earlier answers are known.
    fn answer_only(&self) -> Result<Briefing, &'static str> {
        let given = Default::default();
        let briefing = match &self.payload.event {
            Event::Start(_) => {
                let start = Start { given: &given, is_again: false, began: None, last: None };
                briefing::start(self.engine, self.caller, &start)
            }
            // With `--read-only` it cannot be recorded which entries the session was given, and repeating
            // them with every prompt would be worse than giving none.
            Event::Prompt(_) if self.config.read_only => Ok(Briefing::default()),
            Event::Prompt(prompt) => briefing::prompt(self.engine, self.caller, prompt, &given),
            Event::Compaction | Event::Other => Ok(Briefing::default()),
        };
        briefing.map_err(|stop| failure(&stop))
    }

    /// Answers the event. The answer is recorded before it is written out, so that no entry is given twice if
    /// the hook is killed in between.
    fn answer(&mut self) -> Result<Briefing, &'static str> {
        let dir = self.engine.dir();
        let log = RecallLog::open_within(dir, RECALL_BUSY_MAX).map_err(|error| recall_failure(&error))?;
        let log = self.log.insert(log);
        let Some(host_session) = &self.payload.session else {
            // Without a session id it is unknown which entries the session was given, so only its start is
            // answered.
            return match self.payload.event {
                Event::Start(_) => self.answer_only(),
                _ => Ok(Briefing::default()),
            };
        };
        let session = session_of(host_session);
        let failed = |error: recall::Error| recall_failure(&error);
        let known = log.hook_session(&session).map_err(failed)?;
        let project = self.caller.project.key().unwrap_or_default();
        let (forgets, briefing) = match &self.payload.event {
            Event::Compaction => {
                // Not every host sends a session start after a compaction, so the log forgets here what the
                // session was given.
                if let Some(known) = &known {
                    log.note_hook(&session, known, true, &[], None).map_err(failed)?;
                }
                return Ok(Briefing::default());
            }
            Event::Other => return Ok(Briefing::default()),
            Event::Prompt(prompt) => {
                let given = log.hook_given(&session).map_err(failed)?;
                (false, briefing::prompt(self.engine, self.caller, prompt, &given))
            }
            Event::Start(source) => {
                let forgets = matches!(source, Source::Clear | Source::Compact);
                let is_again = known.is_some() && !forgets;
                let given =
                    if forgets { Default::default() } else { log.hook_given(&session).map_err(failed)? };
                let last = match &known {
                    Some(known) => Some(last_session(known)),
                    None => {
                        let before = log.hook_session_before(&session, &project, &self.caller.scope);
                        before.map_err(failed)?.as_ref().map(last_session)
                    }
                };
                let began = known.as_ref().map(|known| known.began_tx);
                let began = began.filter(|_| *source == Source::Compact);
                let start = Start { given: &given, is_again, began, last };
                (forgets, briefing::start(self.engine, self.caller, &start))
            }
        };
        let briefing = briefing.map_err(|stop| failure(&stop))?;
        let is_prompt = matches!(self.payload.event, Event::Prompt(_));
        let begins_anew = matches!(self.payload.event, Event::Start(Source::Clear));
        let now = self.engine.now();
        let session_now = HookSession {
            project,
            scope: self.caller.scope.clone(),
            began_tx: match &known {
                Some(known) if !begins_anew => known.began_tx,
                _ => briefing.at,
            },
            seen_tx: briefing.at,
            prompts: match &known {
                Some(known) if !begins_anew => known.prompts + u64::from(is_prompt),
                _ => u64::from(is_prompt),
            },
            seen_at: now,
        };
        let given = RecallNote {
            at: now,
            session: session.clone(),
            client: self.payload.host.name().to_owned(),
            by: if is_prompt { HOOK_PROMPT } else { HOOK_START }.to_owned(),
            scope: briefing.scope.clone(),
            ids: briefing.said.iter().map(|(id, _)| *id).collect(),
        };
        let given = self.config.keeps_recall_log().then_some(&given);
        log.note_hook(&session, &session_now, forgets, &briefing.said, given).map_err(failed)?;
        Ok(briefing)
    }
}

fn last_session(known: &HookSession) -> LastSession {
    LastSession { began: known.began_tx, seen: known.seen_tx, at: known.seen_at, prompts: known.prompts }
}

/// The reason for a missing answer, in fixed words that contain no stored text.
fn failure(stop: &Stop) -> &'static str {
    match stop.code {
        Code::Timeout => "the deadline passed",
        Code::BackendUnavailable => "the store is locked or can't be read",
        Code::NotFound | Code::PermissionDenied => "the scope can't be read",
        _ => "the store can't be read",
    }
}

fn recall_failure(error: &recall::Error) -> &'static str {
    match error {
        recall::Error::Locked => "the recall log is locked",
        recall::Error::Unreadable(_) | recall::Error::Io(_) => "the recall log can't be read",
    }
}
