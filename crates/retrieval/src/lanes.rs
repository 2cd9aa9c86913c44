//! Maximum, count and sum over the scores of all documents in sight. The loops keep eight running values side by side,
//! which the compiler turns into vector instructions.

const LANES: usize = 8;

/// The largest of the numbers, or `least` if that is larger.
#[inline(always)]
pub(crate) fn largest(numbers: &[f32], least: f32) -> f32 {
    let mut most = [least; LANES];
    let (eights, rest) = numbers.as_chunks::<LANES>();
    for eight in eights {
        for lane in 0..LANES {
            most[lane] = if eight[lane] > most[lane] { eight[lane] } else { most[lane] };
        }
    }
    most.iter().chain(rest).fold(least, |most, number| if *number > most { *number } else { most })
}

/// How many of the numbers are above the bar.
#[inline(always)]
pub(crate) fn count_above(numbers: &[f32], bar: f32) -> u64 {
    // A chunk is short enough that no lane's count overflows.
    numbers.chunks(1 << 20).map(|numbers| u64::from(count_some(numbers, bar))).sum()
}

#[inline(always)]
fn count_some(numbers: &[f32], bar: f32) -> u32 {
    let mut counts = [0u32; LANES];
    let (eights, rest) = numbers.as_chunks::<LANES>();
    for eight in eights {
        for lane in 0..LANES {
            counts[lane] += u32::from(eight[lane] > bar);
        }
    }
    counts.iter().sum::<u32>() + rest.iter().map(|number| u32::from(*number > bar)).sum::<u32>()
}

/// The sum of the numbers above the bar, each rounded to whole units. Whole numbers add up to the same sum in every
/// order, so the result does not depend on which segment a document is in.
#[inline(always)]
pub(crate) fn sum_above(numbers: &[f32], bar: f32, units: f32) -> i64 {
    // A chunk is short enough that no lane's sum overflows.
    numbers.chunks(4096).map(|numbers| i64::from(sum_some(numbers, bar, units))).sum()
}

#[inline(always)]
fn sum_some(numbers: &[f32], bar: f32, units: f32) -> i32 {
    let in_units = |number: f32| if number > bar { (number * units) as i32 } else { 0 };
    let mut sums = [0i32; LANES];
    let (eights, rest) = numbers.as_chunks::<LANES>();
    for eight in eights {
        for lane in 0..LANES {
            sums[lane] += in_units(eight[lane]);
        }
    }
    sums.iter().sum::<i32>() + rest.iter().map(|number| in_units(*number)).sum::<i32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_one_by_one() {
        let numbers: Vec<f32> = (0..5001).map(|n| ((n * 7919 % 2001) as f32 - 1000.0) / 1000.0).collect();
        for many in [0, 1, 7, 8, 9, 4097, 5001] {
            let numbers = &numbers[..many];
            assert_eq!(largest(numbers, -2.0), numbers.iter().copied().fold(-2.0, f32::max));
            let above: Vec<f32> = numbers.iter().copied().filter(|number| *number > 0.25).collect();
            assert_eq!(count_above(numbers, 0.25), above.len() as u64);
            let sum = above.iter().map(|number| (number * 1000.0) as i64).sum::<i64>();
            assert_eq!(sum_above(numbers, 0.25, 1000.0), sum);
        }
    }
}
