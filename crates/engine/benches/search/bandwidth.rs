//! The floor of a scan: how long it takes to read so many bytes from memory once.

use std::hint::black_box;
use std::time::Instant;

/// Several times the last cache of a large server.
const BUFFER_BYTES_MIN: usize = 1 << 30;
const TRIES_MIN: usize = 4;
const TRIES_MAX: usize = 64;
/// One thread gets a quarter more out of memory when it reads at four places at a time.
const STREAMS: usize = 4;
const LANES: usize = 8;

/// The best of several tries, each over a stretch that no try before it has touched.
pub fn read_seconds(bytes: usize) -> f64 {
    let words = bytes.div_ceil(size_of::<u64>()).max(1).next_multiple_of(STREAMS * LANES);
    // Ones, because pages of zeros need not be in memory at all.
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
