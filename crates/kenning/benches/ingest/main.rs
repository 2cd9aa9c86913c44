//! How fast `kenning ingest` takes in a tree of Markdown files, and how soon it finds that nothing has
//! changed. It always runs the real binary, and compares it with a floor that is measured in the same run:
//! reading and hashing every file.
//!
//! `cargo bench -p kenning --bench ingest`; `-- --quick` for a short run, `-- tree DIR 5000` only writes the
//! files.
#![allow(clippy::print_stdout)]

mod tree;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};

struct Sizes {
    files: usize,
    rounds: usize,
    /// The numbers of files for which the memory is measured.
    memory: [usize; 2],
}

const FULL: Sizes = Sizes { files: 5_000, rounds: 5, memory: [1_000, 10_000] };
const QUICK: Sizes = Sizes { files: 500, rounds: 3, memory: [100, 1_000] };
/// The longest time for a run that changes nothing, as a share of the first run.
const AGAIN_MAX: f64 = 1.0 / 20.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, dir, files, ..] = &arguments[..]
        && command == "tree"
    {
        tree::write(Path::new(dir), files.parse().expect("how many files"));
        return;
    }
    let sizes = if arguments.iter().any(|argument| argument == "--quick") { QUICK } else { FULL };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the disk");
    let docs = dir.path().join("docs");
    let bytes = tree::write(&docs, sizes.files);
    println!("{} files, {:.1} MB", sizes.files, bytes as f64 / 1e6);

    let floor = median(sizes.rounds, |_| timed(|| read_and_hash(&docs)));
    let first = median(sizes.rounds, |round| {
        let data = dir.path().join(format!("data-{round}"));
        let ran = ingest(&data, &docs);
        assert_eq!(ran.written, sizes.files, "all of them");
        ran.took
    });
    let data = dir.path().join("data-0");
    let again = median(sizes.rounds, |_| {
        let ran = ingest(&data, &docs);
        assert_eq!(ran.written, 0, "nothing has changed");
        ran.took
    });
    println!("  first run: {first:.2?}, {:.0} files/s", sizes.files as f64 / first.as_secs_f64());
    println!("  run that writes nothing: {again:.1?}");
    println!("  floor, read and hashed: {floor:.1?}");
    println!("  first run / floor = {:.1}", share(first, floor));
    println!("  run that writes nothing / floor = {:.2}", share(again, floor));
    println!("  run that writes nothing / first run = {:.3}  (at most {AGAIN_MAX})", share(again, first));

    for files in sizes.memory {
        let (docs, data) =
            (dir.path().join(format!("docs-{files}")), dir.path().join(format!("memory-{files}")));
        tree::write(&docs, files);
        let (first, again) = (ingest(&data, &docs), ingest(&data, &docs));
        println!(
            "  {files} files: resident at most {} MB, {} MB when nothing has changed",
            first.resident_kb / 1000,
            again.resident_kb / 1000
        );
    }
}

struct Ran {
    written: usize,
    took: Duration,
    /// The peak of resident memory, as the system counts it.
    resident_kb: u64,
}

fn ingest(data: &Path, docs: &Path) -> Ran {
    let since = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kenning"))
        .args(["ingest", "--json", "--source", "docs", "--data-dir"])
        .args([data, docs])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kenning runs");
    let status = format!("/proc/{}/status", child.id());
    let watching = std::thread::spawn(move || {
        let mut most = 0;
        // The file disappears with the process. The peak only grows, so little is missed after the last
        // reading.
        while let Ok(status) = std::fs::read_to_string(&status) {
            let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { break };
            most = line.trim().trim_end_matches(" kB").parse().unwrap_or(most);
            std::thread::sleep(Duration::from_millis(2));
        }
        most
    });
    let mut report = String::new();
    let mut output = child.stdout.take().expect("it is piped");
    std::io::Read::read_to_string(&mut output, &mut report).expect("text");
    assert!(child.wait().expect("it is ours").success());
    let took = since.elapsed();
    let report: Value = serde_json::from_str(&report).expect("a report");
    let written = report["written"].as_array().map_or(0, Vec::len);
    Ran { written, took, resident_kb: watching.join().expect("it reads a file") }
}

fn read_and_hash(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("of some type").is_dir() {
            true => read_and_hash(&entry.path()),
            false => {
                let bytes = std::fs::read(entry.path()).expect("a file");
                std::hint::black_box(Sha256::digest(bytes));
            }
        }
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let since = Instant::now();
    work();
    since.elapsed()
}

fn median(rounds: usize, work: impl FnMut(usize) -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..rounds).map(work).collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn share(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}
