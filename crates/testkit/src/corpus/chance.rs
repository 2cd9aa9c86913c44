//! Pseudo-random numbers that are the same on every machine and in every run.

use crate::scrambled;

pub struct Chance(u64);

impl Chance {
    /// A separate sequence for each kind and number.
    pub fn new(kind: &str, number: usize) -> Chance {
        let start = kind.bytes().fold(0, |sum, byte| scrambled(sum ^ u64::from(byte)));
        Chance(scrambled(start.wrapping_add(number as u64)))
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        self.0 = scrambled(self.0);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, (low, high): (usize, usize)) -> usize {
        low + (self.share() * (high - low + 1) as f64) as usize
    }

    /// A rank below `many`; rank r has a frequency proportional to 1 / (r + offset) (Zipf–Mandelbrot).
    pub fn rank(&mut self, many: usize, offset: f64) -> usize {
        let rank = offset * ((many as f64 + offset) / offset).powf(self.share()) - offset;
        (rank as usize).min(many - 1)
    }
}

/// The share of draws in which `Chance::rank` returns this rank.
pub fn rank_share(rank: usize, many: usize, offset: f64) -> f64 {
    let from = rank as f64 + offset;
    ((from + 1.0) / from).ln() / ((many as f64 + offset) / offset).ln()
}
