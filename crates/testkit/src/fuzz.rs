//! Feeds a decoder with inputs that nobody would write: valid examples with random damage. The seed alone
//! determines a run.
//!
//! `SEED=7` repeats a run, `FUZZ_SECONDS=600` makes it last that long; `scripts/fuzz` does so for every target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The number of inputs, if no duration is given.
const CASES: u64 = 3_000;
/// The largest input.
const BYTES_MAX: usize = 4096;
/// The longest time for one input. It is generous because tests run without optimisation and in parallel.
const CASE_MAX: Duration = Duration::from_secs(5);

/// Calls `target` with damaged examples. Panics with the seed and the input if `target` panics or is slow.
pub fn run(name: &str, examples: &[impl AsRef<[u8]>], target: impl Fn(&[u8])) {
    let examples: Vec<&[u8]> = examples.iter().map(AsRef::as_ref).collect();
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let seconds: Option<u64> = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let since = Instant::now();
    let (mut random, mut cases) = (Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), 0);
    let mut slowest = Duration::ZERO;
    loop {
        let is_over = match seconds {
            Some(seconds) => since.elapsed() >= Duration::from_secs(seconds),
            None => cases == CASES,
        };
        if is_over {
            break;
        }
        cases += 1;
        let input = damaged(&examples, &mut random);
        let began = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let took = began.elapsed();
        slowest = slowest.max(took);
        let shown = String::from_utf8_lossy(&input).escape_debug().to_string();
        assert!(done.is_ok(), "{name}: seed {seed}, case {cases} panics: {shown}");
        assert!(took < CASE_MAX, "{name}: seed {seed}, case {cases} takes {took:?}: {shown}");
    }
    println!("{name}: seed {seed}, {cases} cases in {:.1?}, the slowest {slowest:.1?}", since.elapsed());
}

/// Xorshift: a small generator with the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// Byte sequences that often confuse parsers.
const ODDITIES: [&[u8]; 24] = [
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\"",
    b"\\",
    b"{",
    b"[",
    b"<",
    b"---\n",
    b"```",
    b"===",
    b"\xf0\x9f\x92\xa9",
    b"\xe2\x80\xae",
    b"9999999999999999999",
    b"-1",
    b"%2f",
    b"..",
    b"&#x",
    b"::",
    b"\n\n#",
    b" ",
];

fn damaged(examples: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = examples[random.below(examples.len())].to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(40)).min(input.len());
        match random.below(7) {
            0 => drop(input.drain(at..end)),
            1 => input.truncate(at),
            2 => {
                let oddity = ODDITIES[random.below(ODDITIES.len())];
                input.splice(at..at, oddity.repeat(1 + random.below(4)));
            }
            3 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece.repeat(1 + random.below(30)));
            }
            4 => {
                let other = examples[random.below(examples.len())];
                let from = random.below(other.len());
                input.splice(at..end, other[from..].iter().copied());
            }
            5 if at < input.len() => input[at] ^= 1 << random.below(8),
            _ => {
                let oddity = ODDITIES[random.below(ODDITIES.len())];
                input.splice(at..end, oddity.iter().copied());
            }
        }
        input.truncate(BYTES_MAX);
    }
    input
}
