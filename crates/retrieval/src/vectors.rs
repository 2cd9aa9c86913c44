//! Vectors as bytes: one scale per vector, compared exactly, all of them.

use simsimd::SpatialSimilarity;

use crate::embed::DIM;

#[derive(Default)]
pub struct Vectors {
    bytes: Vec<i8>,
    scales: Vec<f32>,
}

/// A vector of length 1 as bytes; `None` when it is zero.
#[derive(Clone)]
pub struct Quantised {
    bytes: [i8; DIM],
    scale: f32,
}

impl Quantised {
    pub fn new(vector: &[f32; DIM]) -> Quantised {
        let largest = vector.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        let mut bytes = [0; DIM];
        if scale > 0.0 {
            for (byte, value) in bytes.iter_mut().zip(vector) {
                *byte = (value / scale).round() as i8;
            }
        }
        Quantised { bytes, scale }
    }
}

impl Vectors {
    /// Gives the place of the vector.
    pub fn push(&mut self, vector: &Quantised) -> u32 {
        self.bytes.extend_from_slice(&vector.bytes);
        self.scales.push(vector.scale);
        (self.scales.len() - 1) as u32
    }

    /// The cosine of two vectors of length 1.
    pub fn cosine(&self, place: u32, question: &Quantised) -> f32 {
        let from = place as usize * DIM;
        let dot = <i8 as SpatialSimilarity>::dot(&self.bytes[from..from + DIM], &question.bytes);
        dot.unwrap_or(0.0) as f32 * self.scales[place as usize] * question.scale
    }
}
