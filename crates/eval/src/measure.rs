//! Scores of replies.

use std::collections::HashMap;
use std::time::Duration;

use kenning_testkit::scrambled;
use serde::Serialize;

use crate::microseconds;

/// The judged reply to one question.
pub struct Judged {
    ndcg: f64,
    recall_5: f64,
    recall_10: f64,
    reciprocal_rank: f64,
    took: Duration,
    /// `None` if this was not measured.
    pub answered: Option<bool>,
}

impl Judged {
    pub fn new(ranking: &[&str], relevant: &HashMap<String, f64>, took: Duration) -> Judged {
        let gain = |text: &&str| relevant.get(*text).copied().unwrap_or(0.0);
        let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
        let gained: f64 = ranking.iter().enumerate().map(|(rank, text)| gain(text) * discount(rank)).sum();
        let mut best: Vec<f64> = relevant.values().copied().collect();
        best.sort_by(|a, b| b.total_cmp(a));
        let possible: f64 = best.iter().take(10).enumerate().map(|(rank, gain)| gain * discount(rank)).sum();
        let found = |many: usize| ranking.iter().take(many).filter(|text| gain(text) > 0.0).count() as f64;
        let first = ranking.iter().position(|text| gain(text) > 0.0);
        Judged {
            ndcg: gained / possible,
            recall_5: found(5) / relevant.len() as f64,
            recall_10: found(10) / relevant.len() as f64,
            reciprocal_rank: first.map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
            took,
            answered: None,
        }
    }
}

/// A mean, with the bounds that contain it for 95 % of resampled sets of questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// The means over a set, with the names of the published tables.
#[derive(Clone, Debug, Serialize)]
pub struct Scores {
    #[serde(rename = "ndcg@10")]
    pub ndcg: f64,
    #[serde(rename = "recall@5")]
    pub recall_5: f64,
    #[serde(rename = "recall@10")]
    pub recall_10: f64,
    pub mrr: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// The share of questions whose answer is in the quoted sentences; not measured without evidence.
    pub evidence: Option<f64>,
    #[serde(skip)]
    pub ndcg_interval: Interval,
}

impl Scores {
    pub fn of(judged: &[Judged]) -> Scores {
        let ndcg: Vec<f64> = judged.iter().map(|one| one.ndcg).collect();
        let mean_of = |value: fn(&Judged) -> f64| mean(&judged.iter().map(value).collect::<Vec<_>>());
        let mut times: Vec<Duration> = judged.iter().map(|one| one.took).collect();
        times.sort();
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
        Scores {
            ndcg: mean(&ndcg),
            recall_5: mean_of(|one| one.recall_5),
            recall_10: mean_of(|one| one.recall_10),
            mrr: mean_of(|one| one.reciprocal_rank),
            p50_us: microseconds(at(0.5)),
            p99_us: microseconds(at(0.99)),
            evidence: evidence(judged),
            ndcg_interval: bootstrap(&ndcg),
        }
    }
}

/// The share of questions whose answer was quoted, of those with known answers.
fn evidence(judged: &[Judged]) -> Option<f64> {
    let answered: Vec<f64> =
        judged.iter().filter_map(|one| one.answered).map(|yes| f64::from(u8::from(yes))).collect();
    (!answered.is_empty()).then(|| mean(&answered))
}

/// Whether a quote contains an answer; for an answer longer than a quote, half of its sequences of five words
/// are enough.
pub fn answers(quotes: &[&str], answers: &[String]) -> bool {
    let folded = |text: &str| text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let quotes: Vec<String> = quotes.iter().map(|quote| folded(quote)).collect();
    answers.iter().map(|answer| folded(answer)).any(|answer| {
        let words: Vec<&str> = answer.split(' ').collect();
        let said = |part: &str| quotes.iter().any(|quote| quote.contains(part));
        let many = words.windows(5).filter(|five| said(&five.join(" "))).count();
        said(&answer) || (words.len() >= 5 && 2 * many >= words.len() - 4)
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean, and the bounds of the means of questions that are drawn again with repetition. The draws are
/// always the same.
fn bootstrap(values: &[f64]) -> Interval {
    const DRAWS: usize = 2000;
    let many = values.len().max(1);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|draw| {
            let pick = |at: usize| values.get(scrambled((draw * many + at) as u64) as usize % many).copied();
            (0..many).filter_map(pick).sum::<f64>() / many as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Interval { mean: mean(values), low: means[DRAWS / 40], high: means[DRAWS - 1 - DRAWS / 40] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_is_judged_by_where_the_good_ones_stand() {
        let relevant = HashMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]);
        let judge = |ranking: &[&str]| Judged::new(ranking, &relevant, Duration::ZERO);
        assert_eq!(judge(&["a", "b"]).ndcg, 1.0);
        let late = judge(&["x", "a"]);
        assert_eq!((late.recall_5, late.reciprocal_rank), (0.5, 0.5));
        assert!((late.ndcg - 0.6309 / 1.6309).abs() < 1e-3, "{}", late.ndcg);
        assert_eq!(judge(&[]).ndcg, 0.0);
    }

    #[test]
    fn the_interval_holds_the_mean() {
        let interval = bootstrap(&[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        assert!(interval.low < interval.mean && interval.mean < interval.high, "{interval:?}");
    }
}
