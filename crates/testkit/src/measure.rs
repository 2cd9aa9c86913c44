//! Medians and ratios in the form in which benchmarks print them.
#![allow(clippy::print_stdout)]

use std::time::Instant;

/// Calls `ask` for each number once to warm up and once to measure; returns the median time in microseconds.
pub fn p50(name: &str, many: usize, mut ask: impl FnMut(usize)) -> f64 {
    (0..many).for_each(&mut ask);
    let mut times: Vec<f64> = (0..many)
        .map(|number| {
            let since = Instant::now();
            ask(number);
            since.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[many * percent / 100];
    println!("{name:<48} p50 {:>8.1} µs, p95 {:>7.0} µs, p99 {:>7.0} µs", at(50), at(95), at(99));
    times[many / 2]
}

pub fn ratio(name: &str, ours: f64, theirs: f64, bar: f64) {
    println!("  {name:<50} {:>8.3}  (at most {bar})", ours / theirs);
}

pub fn at_most(name: &str, micros: f64, bar: f64) {
    println!("  {name:<50} {micros:>8.1}  (at most {bar} µs)");
}
