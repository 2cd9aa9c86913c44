//! The ten nearest vectors by exact arithmetic: the reference for measuring recall.

/// The numbers of the ten best scores, best first; equal scores keep their order.
pub fn best10(scored: impl Iterator<Item = (f32, u32)>) -> Vec<u32> {
    const MANY: usize = 10;
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(MANY + 1);
    for (score, number) in scored {
        if best.len() < MANY || score > best[MANY - 1].0 {
            best.insert(best.partition_point(|(other, _)| *other >= score), (score, number));
            best.truncate(MANY);
        }
    }
    best.into_iter().map(|(_, number)| number).collect()
}

/// The ten rows nearest to the question. `vectors` holds rows of `dim` numbers, one after the other; `rows`
/// are the visible ones.
pub fn exact_top10(vectors: &[f32], dim: usize, question: &[f32], rows: &[u32]) -> Vec<u32> {
    let row = |number: u32| &vectors[number as usize * dim..][..dim];
    best10(rows.iter().map(|number| (dot(row(*number), question), *number)))
}

/// A dot product in sixteen separate sums, because the compiler may not reorder the additions of one float
/// sum.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}
