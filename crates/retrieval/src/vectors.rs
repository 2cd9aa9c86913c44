//! Vectors quantised to two bytes for each number, with one scale for each vector. That is precise enough
//! that the rounding does not matter for the cosine with a question.

/// A vector as bytes: number = (high + low / 256) * scale. All bytes of the zero vector are zero.
///
/// Example: the largest number of a vector is 1.27, so the scale is 0.01. The number 0.504 is 50.4 steps of it: the
/// high byte is 50, and the low byte is 0.4 * 256 = 102.
#[derive(Clone, Debug)]
pub struct QuantisedVector {
    pub(crate) high: Box<[i8]>,
    /// The remainder after rounding to the high byte, in steps that are 256 times finer.
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

    pub(crate) fn numbers(&self) -> impl Iterator<Item = f32> {
        self.high.iter().zip(&self.low).map(|(high, low)| value(*high, *low) * self.scale)
    }

    /// The cosine of this vector and the question, both of length 1.
    pub(crate) fn cosine(&self, question: &[f32]) -> f32 {
        cosine(question, &self.high, &self.low, self.scale)
    }
}

fn value(high: i8, low: i8) -> f32 {
    f32::from(high) + f32::from(low) / 256.0
}

/// The cosine, from both bytes of each number.
pub(crate) fn cosine(question: &[f32], high: &[i8], low: &[i8], scale: f32) -> f32 {
    const LANES: usize = 8;
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
