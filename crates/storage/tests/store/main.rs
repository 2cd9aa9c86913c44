//! What the store promises when the disk does not keep its own promises.

// The figures of a long run are worth reading.
#![allow(clippy::print_stdout)]

#[cfg(unix)]
mod power_loss;
#[cfg(unix)]
mod script;

/// The seed of a randomised test: `SEED` from the environment, or always the same.
fn seed() -> u64 {
    std::env::var("SEED").map_or(1, |text| text.parse().expect("SEED is a number"))
}
