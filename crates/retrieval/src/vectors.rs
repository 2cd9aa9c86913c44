//! Vectors quantised to bytes, with one scale each. A question is compared with every vector in its sight by the high
//! byte of each number. The best are compared again by both bytes, which is as exact as the number itself.

use simsimd::SpatialSimilarity;

/// A vector as bytes: number = (high + low / 256) * scale. All bytes of the zero vector are zero.
///
/// Example: the largest number of a vector is 1.27, so the scale is 0.01. The number 0.504 is 50.4 steps of it: the
/// high byte is 50, and the low byte is 0.4 * 256 = 102.
#[derive(Clone, Debug)]
pub struct QuantisedVector {
    pub(crate) high: Box<[i8]>,
    /// What rounding to the high byte leaves over, in steps 256 times finer.
    pub(crate) low: Box<[i8]>,
    pub(crate) scale: f32,
}

impl QuantisedVector {
    pub fn new(vector: &[f32]) -> QuantisedVector {
        let largest = vector.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        let (mut high, mut low) = (vec![0; vector.len()], vec![0; vector.len()]);
        if scale > 0.0 {
            for (at, value) in vector.iter().enumerate() {
                let steps = value / scale;
                high[at] = steps.round() as i8;
                low[at] = ((steps - steps.round()) * 256.0).round() as i8;
            }
        }
        QuantisedVector { high: high.into(), low: low.into(), scale }
    }

    /// The cosine of two vectors of length 1, approximated by the high bytes.
    pub(crate) fn cosine(&self, high: &[i8], scale: f32) -> f32 {
        let dot = <i8 as SpatialSimilarity>::dot(high, &self.high);
        dot.unwrap_or(0.0) as f32 * scale * self.scale
    }
}

/// The cosine, from both bytes of each number.
pub(crate) fn exact_cosine(question: &[f32], high: &[i8], low: &[i8], scale: f32) -> f32 {
    const LANES: usize = 8;
    let value = |high: i8, low: i8| f32::from(high) + f32::from(low) / 256.0;
    let mut sums = [0f32; LANES];
    let (eights, rest) = question.as_chunks::<LANES>();
    for ((question, high), low) in
        eights.iter().zip(high.as_chunks::<LANES>().0).zip(low.as_chunks::<LANES>().0)
    {
        for lane in 0..LANES {
            sums[lane] += question[lane] * value(high[lane], low[lane]);
        }
    }
    let from = question.len() - rest.len();
    let rest = (from..question.len()).map(|at| question[at] * value(high[at], low[at]));
    (sums.iter().sum::<f32>() + rest.sum::<f32>()) * scale
}

/// The high bytes and scales of many vectors, each in one array.
#[derive(Default)]
pub(crate) struct HighBytes {
    pub bytes: Vec<i8>,
    pub scales: Vec<f32>,
}

impl HighBytes {
    pub(crate) fn push(&mut self, vector: &QuantisedVector) {
        self.bytes.extend_from_slice(&vector.high);
        self.scales.push(vector.scale);
    }

    pub(crate) fn cosine(&self, number: usize, question: &QuantisedVector) -> f32 {
        let dim = question.high.len();
        question.cosine(&self.bytes[number * dim..(number + 1) * dim], self.scales[number])
    }
}
