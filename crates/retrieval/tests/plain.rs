//! The index compared with a simple scorer that reads every text for every question: both find the same
//! matches with the same scores, however the versions are distributed over segments and memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kenning_retrieval::{
    By, Directory, Document, Embedder, Error, Index, Known, Limits, MatchMinimum, Memory, Prepared, Question,
    Reached, Sight, Version, embed, lex,
};
use proptest::prelude::*;

const WORDS: [&str; 14] = [
    "deploy",
    "deployment",
    "release",
    "rollback",
    "banana",
    "apple",
    "getUserName",
    "user",
    "name",
    "node.js",
    "the",
    "on",
    "Friday",
    "tokens",
];
const LAST: u64 = 40;

/// A version of a text, and when it was live.
#[derive(Clone, Debug)]
struct TextVersion {
    key: u64,
    title: String,
    body: String,
    context: String,
    neighbour: String,
    group: u32,
    is_suppressed: bool,
    is_labelled: bool,
    from: u64,
    to: u64,
}

fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), words).prop_map(|words| words.join(" "))
}

/// The versions of one text, one after the other, some with a gap, the last perhaps without an end.
fn lives() -> impl Strategy<Value = Vec<TextVersion>> {
    let texts = (text(0..4), text(0..40), text(0..4), text(0..6));
    let life = (texts, 0..3u32, any::<[bool; 3]>(), 1..12u64, 0..3u64);
    prop::collection::vec(life, 1..4).prop_map(|lives| {
        let mut at = 1;
        lives
            .into_iter()
            .map(|((title, body, context, neighbour), group, [suppressed, labelled, more], life, gap)| {
                let (from, to) = (at + gap.saturating_sub(1), at + gap.saturating_sub(1) + life);
                at = to;
                let is_suppressed = suppressed && more;
                let is_labelled = labelled;
                TextVersion {
                    key: 0,
                    title,
                    body,
                    context,
                    neighbour,
                    group,
                    is_suppressed,
                    is_labelled,
                    from,
                    to,
                }
            })
            .collect()
    })
}

fn text_versions() -> impl Strategy<Value = Vec<TextVersion>> {
    prop::collection::vec(lives(), 1..14).prop_map(|texts| {
        let keyed = texts.into_iter().zip(1..).flat_map(|(lives, key)| {
            lives.into_iter().map(move |version| TextVersion { key: key * 77 % 1009, ..version })
        });
        keyed.collect()
    })
}

#[derive(Clone, Debug)]
struct SearchCase {
    title: Option<String>,
    text: Option<String>,
    groups: Vec<u32>,
    labelled: bool,
    with_suppressed: bool,
    half: bool,
    at: u64,
}

fn search_case() -> impl Strategy<Value = SearchCase> {
    let title = prop::option::weighted(0.3, text(1..3));
    let content = prop::option::weighted(0.9, text(1..6));
    let groups = prop::sample::subsequence(vec![0, 1, 2], 1..=3);
    (title, content, groups, any::<[bool; 4]>(), 1..LAST + 2).prop_map(
        |(title, text, groups, [a, b, c, d], at)| SearchCase {
            title,
            text,
            groups,
            labelled: a && b,
            with_suppressed: c,
            half: d,
            at,
        },
    )
}

impl TextVersion {
    fn prepared(&self) -> Prepared {
        let labels: &[String] = if self.is_labelled { &["label".to_owned()] } else { &[] };
        let document = Document {
            title: &self.title,
            body: &self.body,
            context: &self.context,
            neighbour: &self.neighbour,
            labels,
        };
        Prepared::new(&document, &Embedder::Table)
    }

    fn version(&self) -> Version {
        let limits = Limits { suppressed: self.is_suppressed, ..Limits::NONE };
        Version { group: self.group, limits, marks: Vec::new(), prepared: self.prepared() }
    }

    /// Whether an answer may show the version. A suppressed version, or one without the label, still counts
    /// in the statistics of its group.
    fn is_seen(&self, case: &SearchCase) -> bool {
        (self.is_labelled || !case.labelled) && (!self.is_suppressed || case.with_suppressed)
    }
}

/// Passes on the changes at one transaction.
fn each_change(
    versions: &[TextVersion],
    moment: u64,
    mut each: impl FnMut(u64, bool, Option<Version>) -> Result<(), Error>,
) -> Result<(), Error> {
    for version in versions.iter().filter(|version| version.to == moment) {
        let next = versions.iter().find(|next| next.key == version.key && next.from == moment);
        each(version.key, true, next.map(TextVersion::version))?;
    }
    let fresh = |version: &&TextVersion| {
        let follows = |other: &TextVersion| other.key == version.key && other.to == moment;
        version.from == moment && !versions.iter().any(follows)
    };
    for version in versions.iter().filter(fresh) {
        each(version.key, false, Some(version.version()))?;
    }
    Ok(())
}

/// BM25 and fusion as the notes on search define them, computed by reading every text. Returns keys and
/// scores.
fn plain(versions: &[TextVersion], case: &SearchCase) -> Option<Vec<(u64, f64)>> {
    let is_live = |v: &&TextVersion| v.from <= case.at && case.at < v.to && case.groups.contains(&v.group);
    let live: Vec<&TextVersion> = versions.iter().filter(is_live).collect();
    let sides: Vec<Vec<Option<f64>>> = [(&case.title, true), (&case.text, false)]
        .into_iter()
        .filter_map(|(text, title_only)| Some(plain_side(&live, text.as_ref()?, title_only, case)))
        .collect::<Option<_>>()?;
    let found = (0..live.len())
        .filter(|at| live[*at].is_seen(case))
        .filter_map(|at| {
            let scores = sides.iter().map(|side| side[at]).collect::<Option<Vec<f64>>>()?;
            Some((live[at].key, scores.iter().sum::<f64>() / (scores.len() as f64).max(1.0)))
        })
        .collect();
    Some(found)
}

/// The score of each version, `None` for a version that does not match. The whole result is `None` if
/// rounding decides about a match, or about whether meaning counts.
fn plain_side(
    live: &[&TextVersion],
    question: &str,
    title_only: bool,
    case: &SearchCase,
) -> Option<Vec<Option<f64>>> {
    let terms_of = |v: &TextVersion| {
        let (title, body, context) = (lex::terms(&v.title), lex::terms(&v.body), lex::terms(&v.context));
        // The counts of each term in the title, in everything, and in the text itself.
        let mut counts: HashMap<String, [f64; 3]> = HashMap::new();
        for (terms, add) in [
            (&title, [3.0, 3.0, 1.0]),
            (&lex::stop_words(&v.title), [3.0, 3.0, 1.0]),
            (&body, [0.0, 1.0, 1.0]),
            (&context, [0.0, 1.0, 1.0]),
            (&lex::terms(&v.neighbour), [0.0, 0.3, 0.0]),
        ] {
            for term in terms {
                let count = counts.entry(term.to_string()).or_default();
                *count = [count[0] + add[0], count[1] + add[1], count[2] + add[2]];
            }
        }
        let mut pairs: HashMap<(String, String), f64> = HashMap::new();
        for sequence in [&title, &body, &context] {
            for pair in sequence.windows(2) {
                *pairs.entry((pair[0].to_string(), pair[1].to_string())).or_default() += 1.0;
            }
        }
        (counts, pairs, (3 * title.len() + body.len()) as f64)
    };
    let read: Vec<_> = live.iter().map(|v| terms_of(v)).collect();
    let many = live.len() as f64;
    let mean = (read.iter().map(|(_, _, length)| length).sum::<f64>() / many.max(1.0)).max(30.0);
    let idf = |df: f64| (1.0 + (many - df + 0.5) / (df + 0.5)).ln();
    let bm25 = |frequency: f64, length: f64, df: f64| {
        idf(df) * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length.max(30.0) / mean))
    };
    let df = |term: &str| {
        read.iter().filter(|(counts, _, _)| counts.get(term).is_some_and(|count| count[2] > 0.0)).count()
            as f64
    };
    let pair_df =
        |pair: &(String, String)| read.iter().filter(|(_, pairs, _)| pairs.contains_key(pair)).count() as f64;
    let words = lex::written_words(question);
    let sequence: Vec<String> = words.iter().map(|word| word.term.to_string()).collect();
    let mut terms = sequence.clone();
    terms.sort();
    terms.dedup();
    let mut pairs: Vec<(String, String)> =
        sequence.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    pairs.sort();
    pairs.dedup();
    let is_everywhere = |term: &String| many >= 20.0 && df(term) >= 0.7 * many;
    let known: Vec<&String> = terms.iter().filter(|term| df(term) > 0.0).collect();
    let counts_everywhere = known.iter().all(|term| is_everywhere(term));
    let lexical: Vec<f64> = read
        .iter()
        .map(|(counts, met, length)| {
            let frequency = |term: &String| counts.get(term).map_or(0.0, |c| c[usize::from(!title_only)]);
            let beside = |term: &String| {
                let after = pairs.iter().filter(|pair| !title_only && pair.0 == *term);
                after
                    .filter_map(|pair| Some((pair, met.get(pair)?)))
                    .map(|(pair, often)| 0.3 * bm25(*often, *length, pair_df(pair)))
                    .sum::<f64>()
            };
            let says = |term: &String| match frequency(term) > 0.0 {
                true => bm25(frequency(term), *length, df(term)) + beside(term),
                false => 0.0,
            };
            let telling: f64 =
                terms.iter().filter(|term| counts_everywhere || !is_everywhere(term)).map(says).sum();
            let common: f64 =
                terms.iter().filter(|term| !counts_everywhere && is_everywhere(term)).map(says).sum();
            if telling > 0.0 { telling + common } else { 0.0 }
        })
        .collect();
    let idf_of = |term: &String| if df(term) == 0.0 { (1.0 + many).ln() } else { idf(df(term)) };
    let weight: f64 = terms.iter().map(idf_of).sum();
    let vector = embed::question_vector(&kenning_retrieval::weighted_words(question, |term| {
        terms.iter().find(|known| **known == *term).map(|known| idf_of(known) as f32)
    }));
    let cosines: Vec<f64> = live
        .iter()
        .map(|v| {
            let context = if v.context.is_empty() { String::new() } else { format!("\n{}", v.context) };
            let tokens = embed::tokens(&format!("{} {}{context}", v.title, v.body));
            let passage = embed::passage_vector(&tokens);
            passage.iter().zip(&vector).map(|(a, b)| f64::from(a * b)).sum::<f64>()
        })
        .collect();
    let seen: Vec<usize> = (0..live.len()).filter(|at| live[*at].is_seen(case)).collect();
    let mean = seen.iter().map(|at| cosines[*at]).sum::<f64>() / (seen.len() as f64).max(1.0);
    let nearest = seen.iter().map(|at| cosines[*at]).fold(f64::MIN, f64::max);
    let dense = |at: usize| if nearest - mean > 0.01 { (cosines[at] - mean) / (nearest - mean) } else { 0.0 };
    if (nearest - mean - 0.01).abs() < 0.01 {
        return None;
    }
    let best = seen.iter().map(|at| lexical[*at]).fold(0.0, f64::max);
    let full = best.max(0.6 * weight);
    // A store of few texts is treated as if it had 500.
    let rarity = |term: &String| (1.0 + (many.max(500.0) - df(term) + 0.5) / (df(term) + 0.5)).ln();
    let all: f64 = terms.iter().map(rarity).sum();
    // A word in the title counts for more.
    let has = |at: usize, term: &String| match read[at].0.get(term) {
        Some([title, ..]) if *title > 0.0 => 1.4 * rarity(term),
        Some([_, whole, _]) if !title_only && *whole > 0.0 => rarity(term),
        _ => 0.0,
    };
    let share = |at: usize| terms.iter().map(|term| has(at, term)).sum::<f64>() / all;
    let mut near: Vec<f64> = seen.iter().map(|at| cosines[*at]).collect();
    near.sort_by(|a, b| b.total_cmp(a));
    let fifth = near.get(4).copied().unwrap_or(-4.0);
    let is_known = |word: &&lex::QuestionWord| embed::words().any(|(_, known)| known == word.word);
    let is_meaningful = 2 * words.iter().filter(is_known).count() >= words.len();
    let floor = match (is_meaningful, case.half) {
        (false, _) => f64::MAX,
        (true, true) => 0.40,
        (true, false) => fifth.clamp(0.15, 0.24),
    };
    // Quantised vectors may give another result for a text that is exactly at the bound.
    let is_close = |one: f64, other: f64| (one - other).abs() < 0.01;
    let at_bar = |at: &usize| {
        (!title_only && is_close(cosines[*at], floor) && cosines[*at] != fifth)
            || (!title_only && is_close(floor, fifth) && is_close(cosines[*at], fifth))
            || (case.half && is_close(share(*at), 0.5))
    };
    if seen.iter().any(at_bar) {
        return None;
    }
    let scores = (0..live.len())
        .map(|at| {
            let is_near = !title_only && cosines[at] >= floor;
            let matches = if case.half { share(at) >= 0.5 || is_near } else { lexical[at] > 0.0 || is_near };
            let words = if full > 0.0 { lexical[at] / full } else { 0.0 };
            let meaning = dense(at).clamp(0.0, 1.0);
            matches.then_some(0.6 * words + 0.4 * meaning)
        })
        .collect();
    Some(scores)
}

/// The change to the directory at a transaction: none, a write, or a write and a merge.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Stay,
    Write,
    Merge,
}

fn search(index: &Index, case: &SearchCase) -> Vec<(u64, f32)> {
    let labels: &[Vec<String>] =
        if case.labelled { &[vec!["none has this".into(), "label".into()]] } else { &[] };
    let valid_at = (!case.with_suppressed).then_some(0);
    let question = Question {
        title: case.title.as_deref(),
        text: case.text.as_deref(),
        sight: Sight { at: case.at, groups: &case.groups, labels, valid_at },
        by: By::WordsAndMeaning,
        // Related words and lookalikes have their own tests.
        as_written: true,
        known_words_only: false,
        least: if case.half { MatchMinimum::Half } else { MatchMinimum::Some },
        with_nearest: true,
        explain: false,
    };
    let results = index.search(&question, 0..1000).expect("readable");
    assert_eq!(results.total, results.hits.len() as u64);
    results.hits.iter().map(|hit| (hit.key, hit.score)).collect()
}

/// Texts that are searched together give the results of separate searches.
fn search_together(index: &Index, cases: &[SearchCase]) {
    let texts: Vec<&str> = cases.iter().filter_map(|case| case.text.as_deref()).collect();
    let SearchCase { groups, at, with_suppressed, .. } = &cases[0];
    let valid_at = (!with_suppressed).then_some(0);
    let question = |text, by| Question {
        title: None,
        text,
        sight: Sight { at: *at, groups, labels: &[], valid_at },
        by,
        as_written: false,
        known_words_only: by != By::Meaning,
        least: MatchMinimum::Some,
        with_nearest: true,
        explain: false,
    };
    let together =
        index.search_texts_until(&texts, &question(None, By::WordsAndMeaning), 9, None).expect("readable");
    assert_eq!(together.len(), texts.len());
    for (text, found) in texts.into_iter().zip(together) {
        for (by, found) in [(By::WordsAndMeaning, found.by_both), (By::Meaning, found.by_meaning)] {
            let alone = index.search(&question(Some(text), by), 0..9).expect("readable");
            assert_eq!((found.hits, found.total), (alone.hits, alone.total), "{text} {by:?}");
            let states = [found.is_degraded, found.is_meaningful];
            assert_eq!(states, [alone.is_degraded, alone.is_meaningful]);
        }
    }
}

/// An index that was never written to the disk, and one that was opened from the disk after all the steps.
fn build(versions: &[TextVersion], steps: &[Step]) -> (Index, Index) {
    let dir = tempfile::tempdir().expect("a directory");
    let directory = Directory::new(dir.path().to_owned(), Arc::default());
    let mut plain = Index::default();
    for moment in 1..=LAST {
        each_change(versions, moment, |key, ends, after| plain.change(moment, key, ends, after))
            .expect("memory");
        let step = steps[moment as usize % steps.len()];
        if step == Step::Stay {
            continue;
        }
        let stop = AtomicBool::new(false);
        let writer = directory.lock(&stop).expect("writable").expect("nobody else");
        let (mut tail, Reached { at, .. }): (Memory, Reached) = writer.begin().expect("readable");
        for moment in at + 1..=moment {
            let change = |key, ends: bool, after| {
                tail.change(moment, key, ends, after);
                Ok(())
            };
            each_change(versions, moment, change).expect("memory");
        }
        writer.append(&tail, Reached { at: moment, source: String::new() }).expect("writable");
        if step == Step::Merge {
            writer.merge(&Known::default()).expect("readable");
        }
    }
    let (mut found, Reached { at, .. }) = directory.open(None).expect("readable");
    for moment in at + 1..=LAST {
        each_change(versions, moment, |key, ends, after| found.change(moment, key, ends, after))
            .expect("memory");
    }
    (plain, found)
}

/// `PROPTEST_CASES=1000` runs it longer.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_question_is_answered_as_by_reading_everything(
        versions in text_versions(),
        steps in prop::collection::vec(prop::sample::select(&[Step::Stay, Step::Write, Step::Merge][..]), 1..12),
        questions in prop::collection::vec(search_case(), 8),
    ) {
        let (memory, disk) = build(&versions, &steps);
        search_together(&disk, &questions[..3]);
        for case in &questions {
            let found = search(&memory, case);
            prop_assert_eq!(&search(&disk, case), &found, "segments and memory differ: {:?}", case);
            let mut found: Vec<(u64, f64)> = found.into_iter().map(|(key, score)| (key, f64::from(score))).collect();
            let Some(mut expected) = plain(&versions, case) else { continue };
            if case.text.is_none() && case.title.is_none() {
                expected.iter_mut().for_each(|(_, score)| *score = 0.0);
            }
            found.sort_by_key(|(key, _)| *key);
            expected.sort_by_key(|(key, _)| *key);
            let keys = |hits: &[(u64, f64)]| hits.iter().map(|(key, _)| *key).collect::<Vec<_>>();
            // Quantised vectors may exclude a text that is exactly at the floor; none of these words is.
            prop_assert_eq!(keys(&found), keys(&expected), "{:?}", case);
            for ((_, found), (key, expected)) in found.iter().zip(&expected) {
                prop_assert!((found - expected).abs() < 0.02, "{}: {} and {}", key, found, expected);
            }
        }
    }
}

/// Blocks of documents are skipped once there are enough better ones. A long page has none to skip, so a short page
/// must be its beginning. The best documents are far apart, and most of the others have a word of the question.
#[test]
fn a_page_is_the_beginning_of_the_whole_list() {
    let mut index = Index::default();
    for key in 0..4_000_u64 {
        let words = [3, 5, 7].map(|step| WORDS[(key / step % 9 * step) as usize % WORDS.len()]);
        let (title, body) =
            (if key % 37 == 0 { "Friday rollback" } else { words[0] }, format!("{words:?} {}", words[1]));
        let context = if key % 501 == 0 { "user tokens" } else { "" };
        let document = Document { title, body: &body, context, neighbour: "", labels: &[] };
        let prepared = Prepared::new(&document, &Embedder::Table);
        let version = Version { group: 0, limits: Limits::NONE, marks: Vec::new(), prepared };
        index.change(1 + key, key, false, Some(version)).expect("memory");
    }
    let sight = Sight { at: 4_000, groups: &[0], labels: &[], valid_at: None };
    for (text, by) in [
        ("rollback on Friday", By::WordsAndMeaning),
        ("user tokens", By::Words),
        ("a banana and an apple", By::Meaning),
        ("getUserName", By::WordsAndMeaning),
    ] {
        let question = Question {
            title: None,
            text: Some(text),
            sight,
            by,
            as_written: false,
            known_words_only: false,
            least: MatchMinimum::Some,
            with_nearest: true,
            explain: false,
        };
        let page = index.search(&question, 0..10).expect("readable");
        let whole = index.search(&question, 0..4_000).expect("readable");
        assert_eq!((page.hits, page.total), (whole.hits[..10].to_vec(), whole.total), "{text} {by:?}");
        assert!(whole.total > 1_000, "{} match {text}, too few to skip some", whole.total);
    }
}
