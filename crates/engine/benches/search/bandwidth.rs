//! The lower bound for a scan: how long it takes to read a number of bytes from memory once.

use std::hint::black_box;
use std::time::Instant;

/// Several times the last-level cache of a large server, so that the bytes come from memory.
const BUFFER_BYTES_MIN: usize = 1 << 30;
const TRIES_MIN: usize = 4;
const TRIES_MAX: usize = 64;
/// One thread reads about a quarter more per second from memory when it reads from four places in turn.
const STREAMS: usize = 4;
const LANES: usize = 8;

/// The shortest time of several tries, each over a part of the buffer that no earlier try has read.
pub fn read_seconds(bytes: usize) -> f64 {
    let words = bytes.div_ceil(size_of::<u64>()).max(1).next_multiple_of(STREAMS * LANES);
    // The buffer is filled with ones, because the system need not back pages of zeros with memory.
    let buffer = vec![1u64; (words * TRIES_MIN).max(BUFFER_BYTES_MIN / size_of::<u64>())];
    let tries = (buffer.len() / words).min(TRIES_MAX);
    let seconds = buffer.chunks(buffer.len() / tries).take(tries).map(|stretch| {
        let since = Instant::now();
        black_box(sum(black_box(&stretch[..words])));
        since.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

fn sum(words: &[u64]) -> u64 {
    let (lines, _) = words.as_chunks::<LANES>();
    let many = lines.len() / STREAMS;
    let mut sums = [0u64; LANES];
    for at in 0..many {
        for stream in 0..STREAMS {
            let line = &lines[stream * many + at];
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*word);
            }
        }
    }
    sums.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}
