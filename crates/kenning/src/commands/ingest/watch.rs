//! `--watch`: keeps taking in changes. An event only says where to look; the directory is then listed as in
//! any other run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kenning_engine::Format;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Run, complain, locked};

/// An editor makes several changes when it saves a file. They are taken as complete when no further change
/// has come for this long.
const QUIET: Duration = Duration::from_millis(200);
/// If changes never stop, those that have come are taken in after this time.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// If more places than this have changed, the whole root is listed instead.
const PLACES_MAX: usize = 64;
/// A change of one of these files may affect all files beside and below it.
const RULES: [&str; 2] = [".gitignore", ".ignore"];

pub(super) fn run(run: Run<'_>, as_json: bool) -> anyhow::Result<()> {
    let changes = Arc::new(Changes::new(run.root.clone()));
    let mut watched = Watched::new(changes.clone())?;
    // A single file is watched through its directory, because a save may replace the file.
    watched.add(if run.root.is_file() { run.root.parent().unwrap_or(&run.root) } else { &run.root })?;
    std::thread::scope(|scope| {
        let signals = install_stop_signals()?;
        let (stopped, changes) = (&run.stopped, &changes);
        // This thread ends with the process, or when the sender `end` is dropped below.
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(move || {
            if signals.wait(ended) {
                stopped.store(true, Ordering::Relaxed);
                changes.stop();
            }
        });
        let done = follow(&run, changes, &mut watched, as_json);
        drop(end);
        done
    })
}

fn follow(run: &Run<'_>, changes: &Changes, watched: &mut Watched, as_json: bool) -> anyhow::Result<()> {
    let mut places = vec![run.root.clone()];
    let mut is_first = true;
    loop {
        if !run.root.exists() {
            bail!("{} is gone; what was taken in from there stays as it is", run.root.display());
        }
        watched.forget(&places);
        let mut listed = run.list(&places);
        // A file may be created after its directory was listed and before the directory is watched. Listing
        // once more finds it.
        while watched.add_all(&listed.dirs)? {
            listed = run.list(&places);
        }
        let report = run.take_in(&places, listed)?;
        let has_changed =
            !report.written.is_empty() || !report.closed.is_empty() || !report.failed.is_empty();
        if is_first || has_changed {
            run.tell(&report, as_json)?;
        }
        if is_first && !as_json {
            complain(&format!("watching {}; Ctrl-C ends it", run.root.display()));
        }
        is_first = false;
        match changes.wait() {
            Some(next) => places = next,
            None => return Ok(()),
        }
    }
}

/// The places that have changed since the last run.
struct Changes {
    root: PathBuf,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    places: BTreeSet<PathBuf>,
    /// How many changes have been reported. `wait` compares it to see whether more have come.
    told: u64,
    is_stopped: bool,
}

impl Changes {
    fn new(root: PathBuf) -> Changes {
        Changes { root, state: Mutex::default(), more: Condvar::new() }
    }

    fn tell(&self, event: notify::Result<Event>) {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!("a change could not be told: {error}");
                return self.add([self.root.clone()]);
            }
        };
        match event.kind {
            _ if event.need_rescan() => self.add([self.root.clone()]),
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => self.add(event.paths),
            // Reading a file, as this process does too, changes nothing.
            EventKind::Access(_) => {}
            _ => self.add(event.paths),
        }
    }

    fn add(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let places: Vec<PathBuf> = paths.into_iter().filter_map(|path| self.place(path)).collect();
        if places.is_empty() {
            return;
        }
        let mut state = locked(&self.state);
        state.told += 1;
        state.places.extend(places);
        if state.places.len() > PLACES_MAX {
            state.places = BTreeSet::from([self.root.clone()]);
        }
        self.more.notify_all();
    }

    /// The place to list after a change of this path; `None` if the change does not matter.
    fn place(&self, path: PathBuf) -> Option<PathBuf> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if RULES.contains(&name) {
            return path.parent().filter(|dir| dir.starts_with(&self.root)).map(Path::to_owned);
        }
        let is_other = Format::of(&path).is_none() && path.is_file();
        (path.starts_with(&self.root) && !is_other).then_some(path)
    }

    fn stop(&self) {
        locked(&self.state).is_stopped = true;
        self.more.notify_all();
    }

    /// Waits for a change and then for the changes that follow it closely. `None` when the run is to stop.
    fn wait(&self) -> Option<Vec<PathBuf>> {
        let mut state = locked(&self.state);
        while state.places.is_empty() && !state.is_stopped {
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let since = Instant::now();
        while !state.is_stopped && since.elapsed() < WAIT_MAX {
            let told = state.told;
            let waited = self
                .more
                .wait_timeout_while(state, QUIET, |state| state.told == told && !state.is_stopped)
                .unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                break;
            }
        }
        let places = std::mem::take(&mut state.places);
        (!state.is_stopped).then(|| places.into_iter().collect())
    }
}

/// The watched directories. Each is watched without its subdirectories, because those that git ignores may be
/// huge and are not needed.
struct Watched {
    watcher: RecommendedWatcher,
    dirs: BTreeSet<PathBuf>,
}

impl Watched {
    fn new(changes: Arc<Changes>) -> anyhow::Result<Watched> {
        let watcher = notify::recommended_watcher(move |event| changes.tell(event))
            .map_err(why_not)
            .context("files can't be watched")?;
        Ok(Watched { watcher, dirs: BTreeSet::new() })
    }

    /// Watches these directories. True if one of them was not watched before.
    fn add_all(&mut self, dirs: &[PathBuf]) -> anyhow::Result<bool> {
        let mut has_new = false;
        for dir in dirs {
            has_new |= self.add(dir)?;
        }
        Ok(has_new)
    }

    fn add(&mut self, dir: &Path) -> anyhow::Result<bool> {
        if self.dirs.contains(dir) {
            return Ok(false);
        }
        match self.watcher.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => Ok(self.dirs.insert(dir.to_owned())),
            // The directory was deleted in the meantime; the change of its parent is reported too.
            Err(_) if !dir.exists() => Ok(false),
            Err(error) => Err(why_not(error)).with_context(|| format!("{} can't be watched", dir.display())),
        }
    }

    /// Stops watching the directories at and below these places, since each may have been replaced by a new
    /// directory with the same name.
    fn forget(&mut self, places: &[PathBuf]) {
        let is_old = |dir: &PathBuf| places.iter().any(|place| dir.starts_with(place));
        for dir in self.dirs.extract_if(.., |dir| is_old(dir)).collect::<Vec<_>>() {
            // A deleted directory is not watched any more; the resulting error can be ignored.
            let _ = self.watcher.unwatch(&dir);
        }
    }
}

/// Explains why a directory can't be watched. The usual reason is a limit of the system, and the system's own
/// message misleads.
fn why_not(error: notify::Error) -> anyhow::Error {
    const TOO_MANY_OPEN_FILES: i32 = 24;
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => anyhow::anyhow!(
            "the system allows no more watches; raise `fs.inotify.max_user_watches`, or run `kenning ingest` now and \
             then without `--watch`"
        ),
        notify::ErrorKind::Io(io) if io.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => anyhow::anyhow!(
            "the system allows no more watchers; raise `fs.inotify.max_user_instances`, or run `kenning ingest` now \
             and then without `--watch`"
        ),
        _ => error.into(),
    }
}

/// Waits for Ctrl-C or for the system's request to end (SIGTERM).
struct StopSignals {
    runtime: tokio::runtime::Runtime,
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

/// Installs the signal handlers: from here on these signals do not kill the process.
fn install_stop_signals() -> anyhow::Result<StopSignals> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let _entered = runtime.enter();
        let signals = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        drop(_entered);
        Ok(StopSignals { runtime, signals })
    }
    #[cfg(not(unix))]
    Ok(StopSignals { runtime })
}

impl StopSignals {
    /// True when a signal has come; false when the run has ended without one.
    fn wait(self, ended: tokio::sync::oneshot::Receiver<()>) -> bool {
        #[cfg(unix)]
        {
            let StopSignals { runtime, signals: [mut interrupt, mut terminate] } = self;
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => true,
                    _ = terminate.recv() => true,
                    _ = ended => false,
                }
            })
        }
        #[cfg(not(unix))]
        self.runtime.block_on(async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => true,
                _ = ended => false,
            }
        })
    }
}
