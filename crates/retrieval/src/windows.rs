//! Chooses the stretches of text that answer a question. Every window of every source gets a score, a weighted sum of
//! eleven features whose weights were learned, and the best windows are quoted. It uses no other model: the same question
//! and the same texts give the same quotes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::evidence::{FoundText, Quote, QuoteLimits, Rarity, spans, unseen, words};
use crate::question::weighted_words;
use crate::{embed, lex};

/// The credit of a word that means the same as a term of the question but is another word, and the least cosine for any
/// credit.
const NEAR: f32 = 0.8;
const NEAR_MIN: f32 = 0.2;
/// The credits of a term directly before or after a window, and of a term in the title of its source.
const BESIDE: f32 = 0.5;
const IN_TITLE: f32 = 0.7;
/// The share of the score of its source's best passage that a window gets, if no passage around the window
/// itself was found.
const FIT_ELSEWHERE: f32 = 0.85;
/// If no search score is known, how quickly later sources count for less than the first.
const FALL_BY_RANK: f32 = 0.3;
/// The share of the room for a quote that a window fills. Windows that fill it all have as many answers, but the sixth
/// part of the tokens goes into sentences around them.
const ROOM_SHARE: f32 = 0.78;
/// The penalty for each further window from one source, so that a long section does not crowd out the others.
const AGAIN: f32 = 0.4;
/// A window whose score is this much lower than the best one is left out: according to the scores it is exp(4.5), that
/// is 90 times, less likely to have the answer.
const WORSE_MAX: f32 = 4.5;
/// A window is also left out if it covers less than this share of what the best chosen window covers of the
/// question.
const SHARE_MIN: f32 = 0.25;
/// The weight of a name, compared with other words, in the confidence of a quote.
const NAME_WEIGHT: f32 = 2.0;
/// If the score of the best window is below this, the question is most likely not answered.
const CERTAIN_MIN: f32 = 9.5;
/// How much a best score must be higher if a name of the question is in no quote: a text that does not mention Kubernetes
/// does not answer a question about a Kubernetes probe, however many of the other words it has.
const NAME_MISSING: f32 = 4.1;

/// What is known of a window. The shares of a question are weighted by how rare its terms are.
#[derive(Clone, Copy, Debug, Default)]
struct Features {
    /// The share of the question that the window has, with its neighbours and its title, by words that are equal or near.
    covered: f32,
    /// The share that it has by equal words alone.
    equal: f32,
    /// The share that it has if each term counts by the cosine of the nearest word.
    near: f32,
    /// The mean credit of the terms, however rare they are.
    mean: f32,
    /// The score of its passage in the search, compared with the best.
    fit: f32,
    /// 1 if its passage was found.
    found: f32,
    /// The best cosine of the question and a sentence, if its passage was found.
    sentence: f32,
    /// The cosine of the question and the title of the source.
    title: f32,
    /// How full the window is.
    full: f32,
    /// The logarithm of the length of the source: of the many windows of a long text some look good by chance.
    length: f32,
    /// 1 if the source has release notes and the question is not about a release: they only say that a feature was
    /// added, while the pages about it explain it.
    release_notes: f32,
}

impl Features {
    /// How likely the window has the answer, as a logarithm. The weights are those of a softmax over all windows of a
    /// question, fitted to the questions about five real trees (`docs/figures.md` says how). That `equal` is negative only
    /// takes back a part of `covered`, in which equal words count: equal and near words are worth nearly the same.
    fn score(&self) -> f32 {
        7.63 * self.covered - 9.61 * self.equal
            + 7.51 * self.near
            + 5.61 * self.mean
            + 4.86 * self.fit
            + 0.60 * self.found
            + 2.59 * self.sentence
            + 3.57 * self.title
            + 0.68 * self.full
            - 0.30 * self.length
            - 1.66 * self.release_notes
    }
}

/// The quotes that answer a question best.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Best first.
    pub quotes: Vec<Quote>,
    /// Whether the quotes most likely do not answer the question.
    pub is_doubtful: bool,
}

/// The best windows of all sources. A window is as many consecutive sentences, list items, table
/// rows and code blocks as fit into most of a quote; what a reader does not see of them takes no room. A list stays
/// together with the line that introduces it, if both fit. Windows that are much worse than the best are left out.
pub fn windows(question: &str, terms: &[Rarity], sources: &[FoundText<'_>], most: QuoteLimits) -> Evidence {
    let mut likeness = Likeness::new(question, terms);
    let mut windows = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        windows_of(number, source, &mut likeness, most.bytes, &mut windows);
    }
    windows.sort_by(|a, b| {
        let place = |window: &Window| (window.quote.source, window.quote.range.start);
        b.quote.score.total_cmp(&a.quote.score).then(place(a).cmp(&place(b)))
    });
    let best = windows.first().map_or(0.0, |best| best.quote.score);
    windows.retain(|window| window.quote.score >= best - WORSE_MAX);
    let chosen = chosen(windows, sources, most);
    let lacks = |at: &usize| likeness.is_name[*at] && chosen.iter().all(|window| window.equal[*at] == 0.0);
    let lacks_name = (0..terms.len()).any(|at| lacks(&at));
    Evidence {
        is_doubtful: !chosen.is_empty() && best < CERTAIN_MIN + if lacks_name { NAME_MISSING } else { 0.0 },
        quotes: chosen.into_iter().map(|window| window.quote).collect(),
    }
}

struct Window {
    quote: Quote,
    /// 1 for each term of the question that the window or the title of its source has.
    equal: Vec<f32>,
}

/// Adds every window of one source that has something of the question.
fn windows_of(
    number: usize,
    source: &FoundText<'_>,
    likeness: &mut Likeness<'_>,
    bytes_max: usize,
    windows: &mut Vec<Window>,
) {
    let unseen = unseen(source.text);
    let units = spans(source.text, bytes_max);
    let shown: Vec<String> = units.iter().map(|unit| unseen.shown(source.text, unit.clone())).collect();
    let credits: Vec<Credits> = shown.iter().map(|unit| likeness.credits(unit)).collect();
    let all: Vec<Vec<f32>> = credits.iter().map(Credits::all).collect();
    let of_title = likeness.credits(source.title);
    let title = of_title.all();
    let room = ((bytes_max as f32 * ROOM_SHARE) as usize).max(1);
    let of_source = Features {
        title: likeness.cosine(source.title),
        length: (1.0 + source.text.len() as f32).ln(),
        release_notes: match !likeness.is_about_release && is_release_notes(source.title) {
            true => 1.0,
            false => 0.0,
        },
        ..Features::default()
    };
    // Only sentences in passages that were found are compared by meaning; in long sections these are few.
    let mut cosines: Vec<Option<f32>> = vec![None; units.len()];
    for start in 0..units.len() {
        let (mut end, mut size) = (start + 1, shown[start].len());
        while end < units.len() {
            let gap = units[end].start - units[end - 1].end;
            if size + gap + shown[end].len() > room {
                break;
            }
            size += gap + shown[end].len();
            end += 1;
        }
        // A line that introduces a list belongs to the list, so it does not end a window.
        while end > start + 1 && shown[end - 1].ends_with(':') {
            end -= 1;
            size -= units[end].start - units[end - 1].end + shown[end].len();
        }
        let mut own = likeness.nothing();
        credits[start..end].iter().for_each(|unit| own.raise(unit));
        let mut covered = own.all();
        let mean = covered.iter().sum::<f32>() / covered.len().max(1) as f32;
        let beside = [start.checked_sub(1), Some(end)].into_iter().flatten();
        beside.filter_map(|at| all.get(at)).for_each(|unit| raise(&mut covered, unit, BESIDE));
        raise(&mut covered, &title, IN_TITLE);
        if covered.iter().all(|credit| *credit == 0.0) {
            continue;
        }
        let range = units[start].start..units[end - 1].end;
        let mut features = Features {
            covered: likeness.share(&covered),
            equal: likeness.share(&own.equal),
            near: likeness.share(&own.near),
            mean,
            fit: fit(source, number, &range),
            full: (size as f32 / room as f32).min(1.0),
            ..of_source
        };
        if is_found_at(source, &range) {
            features.found = 1.0;
            for at in start..end {
                let cosine = *cosines[at].get_or_insert_with(|| likeness.cosine(&shown[at]));
                features.sentence = features.sentence.max(cosine);
            }
        }
        let mut equal = own.equal;
        raise(&mut equal, &of_title.equal, 1.0);
        let share = likeness.share_with_names(&covered);
        let quote = Quote { source: number, range, score: features.score(), share };
        windows.push(Window { quote, equal });
    }
}

/// How well a part of a source fits according to the search that found it, or according to the rank of
/// the source if the search did not say.
fn fit(source: &FoundText<'_>, rank: usize, range: &Range<usize>) -> f32 {
    if source.fits.is_empty() {
        return 1.0 / (1.0 + FALL_BY_RANK * rank as f32);
    }
    let best = source.fits.iter().map(|fit| fit.score).fold(0.0, f32::max);
    let here = source.fits.iter().map(|fit| fit.score * fit.share_of(range)).fold(0.0, f32::max);
    here.max(FIT_ELSEWHERE * best)
}

/// Whether a part is in a passage that was found; true if the search did not say which passages it found.
fn is_found_at(source: &FoundText<'_>, range: &Range<usize>) -> bool {
    source.fits.is_empty() || source.fits.iter().any(|fit| fit.share_of(range) > 0.0)
}

/// A question, prepared to be compared with pieces of text.
struct Likeness<'a> {
    terms: &'a [Rarity],
    /// The sum of the weights of all terms.
    whole: f32,
    /// The vector of each term, if the table of vectors has one.
    meanings: Vec<Option<[f32; embed::DIM]>>,
    /// For each word seen so far, its cosine with each term.
    known: HashMap<String, Vec<f32>>,
    /// For each term whether it belongs to a name.
    is_name: Vec<bool>,
    is_about_release: bool,
    /// The vector of the whole question.
    vector: [f32; embed::DIM],
}

/// What a piece of text has of each term of the question.
#[derive(Clone, Debug, Default)]
struct Credits {
    /// 1 for a term that it has.
    equal: Vec<f32>,
    /// The cosine of the nearest word.
    near: Vec<f32>,
}

impl Credits {
    fn of_term(&self, at: usize) -> f32 {
        self.equal[at].max(NEAR * ((self.near[at] - NEAR_MIN) / (1.0 - NEAR_MIN)).max(0.0))
    }

    fn all(&self) -> Vec<f32> {
        (0..self.equal.len()).map(|at| self.of_term(at)).collect()
    }

    fn raise(&mut self, others: &Credits) {
        raise(&mut self.equal, &others.equal, 1.0);
        raise(&mut self.near, &others.near, 1.0);
    }
}

impl<'a> Likeness<'a> {
    fn new(question: &str, terms: &'a [Rarity]) -> Likeness<'a> {
        let words: Vec<&str> = words(question).collect();
        let meaning = |rarity: &Rarity| {
            let word = words.iter().find(|word| lex::question_terms(word).first() == Some(&rarity.term))?;
            meaning(word)
        };
        let idf = |term: &str| terms.iter().find(|rarity| &*rarity.term == term).map(|rarity| rarity.idf);
        let names = names(question);
        Likeness {
            terms,
            whole: terms.iter().map(|rarity| rarity.idf).sum::<f32>().max(f32::MIN_POSITIVE),
            meanings: terms.iter().map(meaning).collect(),
            known: HashMap::new(),
            is_name: terms.iter().map(|rarity| names.contains(&rarity.term)).collect(),
            is_about_release: is_about_release(question),
            vector: embed::question_vector(&weighted_words(question, idf)),
        }
    }

    fn nothing(&self) -> Credits {
        Credits { equal: vec![0.0; self.terms.len()], near: vec![0.0; self.terms.len()] }
    }

    fn credits(&mut self, text: &str) -> Credits {
        let has: HashSet<Arc<str>> = lex::terms(text).into_iter().collect();
        let mut credits = self.nothing();
        for word in words(text).filter(|word| word.len() > 1) {
            let meanings = &self.meanings;
            let cosines = self.known.entry(word.to_owned()).or_insert_with(|| cosines(meanings, word));
            raise(&mut credits.near, cosines, 1.0);
        }
        for (equal, rarity) in credits.equal.iter_mut().zip(self.terms) {
            *equal = f32::from(u8::from(has.contains(&rarity.term)));
        }
        credits
    }

    /// The share of the question that these credits cover, from 0 to 1.
    fn share(&self, credits: &[f32]) -> f32 {
        credits.iter().zip(self.terms).map(|(credit, rarity)| credit * rarity.idf).sum::<f32>() / self.whole
    }

    /// Like `share`, with a higher weight for names.
    fn share_with_names(&self, credits: &[f32]) -> f32 {
        let weight = |at: usize| if self.is_name[at] { NAME_WEIGHT } else { 1.0 } * self.terms[at].idf;
        let whole = (0..self.terms.len()).map(weight).sum::<f32>().max(f32::MIN_POSITIVE);
        credits.iter().enumerate().map(|(at, credit)| credit * weight(at)).sum::<f32>() / whole
    }

    fn cosine(&self, text: &str) -> f32 {
        let vector = embed::passage_vector(&embed::tokens(text));
        self.vector.iter().zip(&vector).map(|(a, b)| a * b).sum::<f32>().max(0.0)
    }
}

fn cosines(meanings: &[Option<[f32; embed::DIM]>], word: &str) -> Vec<f32> {
    let own = meaning(word);
    let cosine = |meaning: &Option<[f32; embed::DIM]>| {
        let (Some(meaning), Some(own)) = (meaning, &own) else { return 0.0 };
        meaning.iter().zip(own).map(|(a, b)| a * b).sum()
    };
    meanings.iter().map(cosine).collect()
}

fn meaning(word: &str) -> Option<[f32; embed::DIM]> {
    let tokens = embed::tokens(&word.to_lowercase());
    (!tokens.is_empty()).then(|| embed::passage_vector(&tokens))
}

/// Raises each credit to the other one, if that is higher.
fn raise(credits: &mut [f32], others: &[f32], weight: f32) {
    for (credit, other) in credits.iter_mut().zip(others) {
        *credit = credit.max(other * weight);
    }
}

/// The terms of the names in a question: words in the middle of a sentence that begin with a capital letter and do not
/// consist of capital letters. In "How do I run one class with Maven Surefire?" these are `maven` and `surefir`.
fn names(question: &str) -> HashSet<Arc<str>> {
    let mut terms = HashSet::new();
    let mut begins_sentence = true;
    for word in question.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_name = bare.starts_with(char::is_uppercase) && bare.contains(char::is_lowercase);
        if is_name && !begins_sentence {
            terms.extend(lex::question_terms(bare));
        }
        begins_sentence = word.ends_with(['.', '?', '!', ':', ';']);
    }
    terms
}

fn is_about_release(question: &str) -> bool {
    const WORDS: [&str; 9] = [
        "release",
        "releases",
        "released",
        "version",
        "versions",
        "changelog",
        "changed",
        "dropped",
        "since",
    ];
    words(&question.to_lowercase()).any(|word| WORDS.contains(&word))
}

/// Whether a title belongs to release notes: it says so, or one of its headings has a version and a year,
/// such as "Release 1.6.1 (released May 16, 2017)".
fn is_release_notes(title: &str) -> bool {
    const NAMES: [&str; 4] = ["changelog", "change log", "release notes", "release history"];
    let lower = title.to_lowercase();
    let has_release = |heading: &str| {
        let mut numbers = heading.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let is_version = |number: &str| number.trim_matches('.').contains('.');
        let mut digits = heading.split(|c: char| !c.is_ascii_digit());
        numbers.any(is_version) && digits.any(|digits| digits.len() == 4 && digits.starts_with(['1', '2']))
    };
    NAMES.iter().any(|name| lower.contains(name)) || title.split(" > ").any(has_release)
}

/// Chooses from windows that are ordered best first. Chosen windows do not overlap, and none repeats the text
/// of a better one.
fn chosen(windows: Vec<Window>, sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Window> {
    let mut chosen: Vec<Window> = Vec::new();
    let mut said: HashSet<String> = HashSet::new();
    // For each source the windows that are left, best first, numbered in the given order, and how many were
    // chosen. Only the first of each can be chosen next.
    let mut left: Vec<(VecDeque<(usize, Window)>, usize)> =
        sources.iter().map(|_| Default::default()).collect();
    for (number, window) in windows.into_iter().enumerate() {
        left[window.quote.source].0.push_back((number, window));
    }
    while chosen.len() < most.quotes {
        let quoted = left.iter().filter(|(_, many)| *many > 0).count();
        let firsts = left.iter().filter_map(|(windows, many)| {
            let (number, window) = windows.front()?;
            let has_room = *many > 0 || quoted < most.sources;
            has_room.then_some((window.quote.score - AGAIN * *many as f32, *number, window.quote.source))
        });
        // Of equal scores, the window that came first.
        let best = firsts.reduce(|best, next| {
            let is_better = next.0 > best.0 || (next.0 == best.0 && next.1 < best.1);
            if is_better { next } else { best }
        });
        let Some((_, _, source)) = best else { break };
        let (windows, many) = &mut left[source];
        let Some((_, window)) = windows.pop_front() else { break };
        let best_share = chosen.iter().map(|window| window.quote.share).fold(0.0, f32::max);
        if window.quote.share < best_share * SHARE_MIN {
            continue;
        }
        let Quote { source: own, range, .. } = &window.quote;
        let meets = |Window { quote: known, .. }: &Window| {
            known.source == *own && known.range.start < range.end && range.start < known.range.end
        };
        let text = &sources[*own].text[range.clone()];
        let mut is_new = || said.insert(text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
        if !chosen.iter().any(meets) && is_new() {
            *many += 1;
            chosen.push(window);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::PassageScore;

    fn rarities(question: &str) -> Vec<Rarity> {
        let terms = lex::question_terms(question).into_iter();
        terms.map(|term| Rarity { term, idf: 2.0 }).collect()
    }

    #[test]
    fn a_window_has_its_lead_in_and_what_is_far_below_the_best_is_left_out() {
        let text = "Backups keep these rules:\n\n- they run at night\n- they are kept for a year\n\nUnrelated words about nothing.";
        let terms: Vec<Rarity> = lex::question_terms("which rules do backups keep")
            .into_iter()
            .map(|term| Rarity { term, idf: 2.0 })
            .collect();
        let sources = [FoundText::new("", text), FoundText::new("", "Coffee is made of beans.")];
        let found = windows(
            "which rules do backups keep",
            &terms,
            &sources,
            QuoteLimits { bytes: 96, ..QuoteLimits::default() },
        );
        let shown: Vec<&str> = found.quotes.iter().map(|quote| &text[quote.range.clone()]).collect();
        assert_eq!(shown, ["Backups keep these rules:\n\n- they run at night\n- they are kept for a year"]);
    }

    #[test]
    fn a_window_in_the_passage_that_was_found_comes_before_one_elsewhere() {
        let text = "The port of the server is open. Nothing else.\n\nThe port of the server is eighty.";
        let question = "which port does the server have";
        let second = text.find("The port of the server is eighty").expect("it is there");
        let found = |range: Range<usize>| {
            let source =
                FoundText { fits: vec![PassageScore { range, score: 1.0 }], ..FoundText::new("", text) };
            let most = QuoteLimits { bytes: 50, quotes: 1, ..QuoteLimits::default() };
            windows(question, &rarities(question), &[source], most).quotes[0].range.start
        };
        assert_eq!(found(0..second), 0);
        assert_eq!(found(second..text.len()), second);
    }

    #[test]
    fn quotes_are_from_no_more_sources_than_are_wanted() {
        let texts = ["The port is 80.", "A port is open.", "Every port is closed."];
        let sources = texts.map(|text| FoundText::new("", text));
        let question = "which port";
        let quoted = |sources_max: usize| {
            let most = QuoteLimits { sources: sources_max, ..QuoteLimits::default() };
            windows(question, &rarities(question), &sources, most).quotes.len()
        };
        assert_eq!((quoted(3), quoted(2)), (3, 2));
    }

    #[test]
    fn release_notes_come_behind_the_page_unless_a_release_is_asked_for() {
        let text = "The cache can be cleared with a flag.";
        let sources =
            ["Tool 4.2 > Release 4.2.1 (May 2017)", "Cache"].map(|title| FoundText::new(title, text));
        let first = |question: &str| {
            windows(question, &rarities(question), &sources, QuoteLimits::default()).quotes[0].source
        };
        assert_eq!(first("how is it cleared with a flag"), 1);
        assert_eq!(first("which release has the flag that it is cleared with"), 0);
        assert!(
            is_release_notes("Release Notes > Local preview") && !is_release_notes("Python 3.10 support")
        );
    }

    #[test]
    fn a_name_that_is_missing_makes_a_quote_less_certain() {
        let sources = [FoundText::new("", "One test class is run like this.")];
        let share = |question: &str| {
            windows(question, &rarities(question), &sources, QuoteLimits::default()).quotes[0].share
        };
        assert!(
            share("How do I run one test class with Surefire?")
                < share("How do I run one test class with surefire?")
        );
        assert_eq!(names("Maven runs it. Does Surefire, with JVM?").len(), 1);
    }

    /// If the time grew with the square of the text, this test would take minutes.
    #[test]
    fn of_many_equal_windows_one_is_chosen_and_the_best_of_the_others() {
        let equal = "A port. ".repeat(60_000);
        let marks = ".".repeat(200_000);
        let sources =
            [equal.as_str(), marks.as_str(), "This port is open."].map(|text| FoundText::new("", text));
        let question = "which port";
        let most = QuoteLimits { bytes: 20, ..QuoteLimits::default() };
        let found = windows(question, &rarities(question), &sources, most);
        let shown: Vec<&str> =
            found.quotes.iter().map(|quote| &sources[quote.source].text[quote.range.clone()]).collect();
        assert_eq!(
            shown,
            ["This port is open.", "A port. A port.", "A port."],
            "the last of them stands alone"
        );
    }

    #[test]
    fn what_a_reader_does_not_see_takes_no_room() {
        let target = "x".repeat(300);
        let text = format!("The [port]({target}) is 80.\n\nIt is open to everybody.");
        let found = windows(
            "which port",
            &rarities("which port"),
            &[FoundText::new("", &text)],
            QuoteLimits::default(),
        );
        assert_eq!(found.quotes[0].range, 0..text.len(), "both sentences fit into one quote");
    }

    #[test]
    fn a_question_about_something_else_is_doubtful() {
        let question = "Which port does the server listen on by default?";
        let doubts = |question: &str| {
            let source = FoundText::new("Server > port", "By default, the server listens on port 8080.");
            windows(question, &rarities(question), &[source], QuoteLimits::default()).is_doubtful
        };
        assert!(!doubts(question));
        assert!(doubts("How do I brew coffee by default?"));
        let asked = |name: &str| format!("Which port does the server of {name} listen on by default?");
        assert!(!doubts(&asked("redmine or gitlab or jenkins")));
        assert!(doubts(&asked("Redmine or gitlab or jenkins")), "a name is missing");
        assert!(!windows(question, &rarities(question), &[], QuoteLimits::default()).is_doubtful);
    }
}
