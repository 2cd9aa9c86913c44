//! Chooses the sentences that answer a question from the texts that a search found. It uses no model: the
//! same question and the same texts give the same quotes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::question::weighted_words;
use crate::{embed, lex};

/// The weight of a term that is not in the span but next to it, or in the title.
const BESIDE: f32 = 0.5;
/// The bonus of the first text; later texts get less.
const PRIOR: f32 = 0.15;
/// A span with this number of words gets its full score; a shorter one may be a fragment.
const WORDS_FULL: f32 = 16.0;

/// A text that a search found. Sources are given best first.
#[derive(Default)]
pub struct FoundText<'a> {
    pub title: &'a str,
    pub text: &'a str,
    /// How well its passages fit the question according to the search, from 0 to 1 for the best of all; empty
    /// if not known.
    pub fits: Vec<PassageScore>,
}

/// How well a part of a text fits a question.
#[derive(Clone, Debug)]
pub struct PassageScore {
    pub range: Range<usize>,
    pub score: f32,
}

impl<'a> FoundText<'a> {
    pub fn new(title: &'a str, text: &'a str) -> FoundText<'a> {
        FoundText { title, text, fits: Vec::new() }
    }

    /// How well a part of the text fits according to the search that found it, or according to the rank of
    /// the source if the search did not say.
    fn prior(&self, rank: usize, range: &Range<usize>) -> f32 {
        if self.fits.is_empty() {
            return 1.0 / (1.0 + WINDOW_PRIOR_FALL * rank as f32);
        }
        let best = self.fits.iter().map(|fit| fit.score).fold(0.0, f32::max);
        let here = self.fits.iter().map(|fit| fit.score * fit.share_of(range)).fold(0.0, f32::max);
        here.max(FIT_ELSEWHERE * best)
    }

    /// Whether a part is in a passage that was found; true if the search did not say which passages it found.
    fn is_found_at(&self, range: &Range<usize>) -> bool {
        self.fits.is_empty() || self.fits.iter().any(|fit| fit.share_of(range) > 0.0)
    }
}

impl PassageScore {
    /// The share of the given range that lies within this one.
    fn share_of(&self, range: &Range<usize>) -> f32 {
        let common = self.range.end.min(range.end).saturating_sub(self.range.start.max(range.start));
        common as f32 / range.len().max(1) as f32
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// The number of the source, and the range in its text.
    pub source: usize,
    pub range: Range<usize>,
    pub score: f32,
    /// The share of the question that the quote covers, from 0 to 1.
    pub share: f32,
}

/// Upper bounds for what is quoted.
#[derive(Clone, Copy, Debug)]
pub struct QuoteLimits {
    pub quotes: usize,
    /// The most bytes in one quote.
    pub bytes: usize,
    /// The most sources that are quoted.
    pub sources: usize,
}

impl Default for QuoteLimits {
    /// Six quotes of 80 tokens of four bytes.
    fn default() -> QuoteLimits {
        QuoteLimits { quotes: 6, bytes: 320, sources: usize::MAX }
    }
}

/// A term of a question and how rare it is.
pub struct Rarity {
    pub term: Arc<str>,
    pub idf: f32,
}

/// The best spans of all sources, best first.
pub fn quotes(question: &[Rarity], sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let whole = question.iter().map(|rarity| rarity.idf).sum::<f32>().max(f32::MIN_POSITIVE);
    let mut quotes = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let title: HashSet<Arc<str>> = lex::terms(source.title).into_iter().collect();
        let ranges = spans(source.text, most.bytes);
        let terms: Vec<HashSet<Arc<str>>> = ranges
            .iter()
            .map(|range| lex::terms(&source.text[range.clone()]).into_iter().collect())
            .collect();
        for (at, range) in ranges.into_iter().enumerate() {
            let beside =
                [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| terms.get(at));
            let beside: Vec<&HashSet<Arc<str>>> = beside.chain([&title]).collect();
            let share = |rarity: &Rarity| match terms[at].contains(&rarity.term) {
                true => rarity.idf,
                false if beside.iter().any(|terms| terms.contains(&rarity.term)) => BESIDE * rarity.idf,
                false => 0.0,
            };
            let overlap = question.iter().map(share).sum::<f32>() / whole;
            let words = source.text[range.clone()].split_whitespace().count() as f32;
            let score = (overlap + PRIOR / (1 + number) as f32) * (0.5 + words / WORDS_FULL).min(1.0);
            quotes.push(Quote { source: number, range, score, share: overlap });
        }
    }
    best(quotes, sources, most.quotes)
}

/// The highest weight of a word that means nearly the same as a term of the question, and the least cosine
/// for it. This constant and those below were measured on questions about real trees of documents
/// (`docs/figures.md`).
const NEAR: f32 = 0.8;
const NEAR_MIN: f32 = 0.2;
/// The weights of a term directly before or after a window, and of a term in the title of its source.
const BESIDE_WINDOW: f32 = 0.5;
const TITLE_OF_WINDOW: f32 = 0.7;
/// The weight of the search's own score for a window, compared with the words that the window has.
const WINDOW_PRIOR: f32 = 1.6;
/// The share of the score of its source's best passage that a window gets, if no passage around the window
/// itself was found.
const FIT_ELSEWHERE: f32 = 0.85;
/// If no search score is known, how quickly later sources count for less than the first.
const WINDOW_PRIOR_FALL: f32 = 0.3;
/// The weight of the cosine of a window and the question.
const WINDOW_MEANING: f32 = 0.6;
/// The bonus of a full window over an empty one: the sentence that answers is often next to the one that has
/// the words of the question.
const FULL: f32 = 0.2;
/// The penalty for each further window from one source, so that a long section does not crowd out the others.
const AGAIN: f32 = 0.05;
/// A window whose score is below this share of the best one is left out.
const WORTH_MIN: f32 = 0.6;
/// A window is also left out if it covers less than this share of what the best chosen window covers of the
/// question.
const SHARE_MIN: f32 = 0.25;
/// The factor for windows of release notes, unless the question is about a release: release notes only say
/// that a feature was added, while the pages about it explain it.
const RELEASE_NOTES: f32 = 0.85;
/// The weight of a name, compared with other words, in judging whether a quote answers: a text that does not
/// mention Kubernetes does not answer a question about a Kubernetes probe, however many of the other words it
/// has.
const NAME_WEIGHT: f32 = 2.0;

/// A question, prepared to be compared with pieces of text.
struct Likeness<'a> {
    terms: &'a [Rarity],
    /// The vector of each term, if the table of vectors has one.
    meanings: Vec<Option<[f32; embed::DIM]>>,
    /// For each word seen so far, its credit for each term.
    known: HashMap<String, Vec<f32>>,
    /// The terms of the names in the question.
    names: HashSet<Arc<str>>,
    is_about_release: bool,
    /// The vector of the whole question.
    vector: [f32; embed::DIM],
}

impl<'a> Likeness<'a> {
    fn new(question: &str, terms: &'a [Rarity]) -> Likeness<'a> {
        let words: Vec<&str> = words(question).collect();
        let meaning = |rarity: &Rarity| {
            let word = words.iter().find(|word| lex::question_terms(word).first() == Some(&rarity.term))?;
            meaning(word)
        };
        let idf = |term: &str| terms.iter().find(|rarity| &*rarity.term == term).map(|rarity| rarity.idf);
        Likeness {
            terms,
            meanings: terms.iter().map(meaning).collect(),
            known: HashMap::new(),
            names: names(question),
            is_about_release: is_about_release(question),
            vector: embed::question_vector(&weighted_words(question, idf)),
        }
    }

    /// The credit for each term: 1 if the text has it, less if the text has a word that means nearly the
    /// same.
    fn credits(&mut self, text: &str) -> Vec<f32> {
        let has: HashSet<Arc<str>> = lex::terms(text).into_iter().collect();
        let mut credits = vec![0.0; self.terms.len()];
        for word in words(text).filter(|word| word.len() > 1) {
            let meanings = &self.meanings;
            let near = self.known.entry(word.to_owned()).or_insert_with(|| nearness(meanings, word));
            raise(&mut credits, near, 1.0);
        }
        for (credit, rarity) in credits.iter_mut().zip(self.terms) {
            if has.contains(&rarity.term) {
                *credit = 1.0;
            }
        }
        credits
    }

    /// The share of the question that these credits cover, from 0 to 1.
    fn share(&self, credits: &[f32]) -> f32 {
        self.share_by(credits, |rarity| rarity.idf)
    }

    /// Like `share`, with a higher weight for names.
    fn share_with_names(&self, credits: &[f32]) -> f32 {
        let weight = |rarity: &Rarity| if self.names.contains(&rarity.term) { NAME_WEIGHT } else { 1.0 };
        self.share_by(credits, |rarity| weight(rarity) * rarity.idf)
    }

    fn share_by(&self, credits: &[f32], weight: impl Fn(&Rarity) -> f32) -> f32 {
        let whole = self.terms.iter().map(&weight).sum::<f32>().max(f32::MIN_POSITIVE);
        credits.iter().zip(self.terms).map(|(credit, rarity)| credit * weight(rarity)).sum::<f32>() / whole
    }

    /// The cosine of the question and a text with these tokens.
    fn cosine(&self, tokens: Vec<(embed::Token, u32)>) -> f32 {
        let vector = embed::passage_vector(&embed::merged(tokens));
        self.vector.iter().zip(&vector).map(|(a, b)| a * b).sum()
    }
}

fn nearness(meanings: &[Option<[f32; embed::DIM]>], word: &str) -> Vec<f32> {
    let own = meaning(word);
    let near = |meaning: &Option<[f32; embed::DIM]>| {
        let (Some(meaning), Some(own)) = (meaning, &own) else { return 0.0 };
        let cosine: f32 = meaning.iter().zip(own).map(|(a, b)| a * b).sum();
        NEAR * ((cosine - NEAR_MIN) / (1.0 - NEAR_MIN)).max(0.0)
    };
    meanings.iter().map(near).collect()
}

fn meaning(word: &str) -> Option<[f32; embed::DIM]> {
    let tokens = embed::tokens(&word.to_lowercase());
    (!tokens.is_empty()).then(|| embed::passage_vector(&tokens))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
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

/// The best windows of all sources, best first. A window is as many consecutive sentences, list items, table
/// rows and code blocks as fit into a quote. A list stays together with the line that introduces it, if both
/// fit. Windows that are much worse than the best are left out.
pub fn windows(question: &str, terms: &[Rarity], sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let mut likeness = Likeness::new(question, terms);
    let mut windows = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        windows_of(number, source, &mut likeness, most.bytes, &mut windows);
    }
    windows.sort_by(|a, b| {
        let place = |quote: &Quote| (quote.source, quote.range.start);
        b.score.total_cmp(&a.score).then(place(a).cmp(&place(b)))
    });
    chosen(windows, sources, most)
}

/// Adds every window of one source that has at least one term of the question.
fn windows_of(
    number: usize,
    source: &FoundText<'_>,
    likeness: &mut Likeness<'_>,
    bytes_max: usize,
    windows: &mut Vec<Quote>,
) {
    let units = spans(source.text, bytes_max);
    let title = likeness.credits(source.title);
    let credits: Vec<Vec<f32>> =
        units.iter().map(|range| likeness.credits(&source.text[range.clone()])).collect();
    let title_tokens = embed::tokens(source.title);
    let is_release_notes = is_release_notes(source.title);
    // Only windows in passages that were found are compared by meaning, so the tokens of most units are never
    // needed.
    let mut tokens: Vec<Option<Vec<(embed::Token, u32)>>> = vec![None; units.len()];
    for start in 0..units.len() {
        let fits = |unit: &&Range<usize>| unit.end - units[start].start <= bytes_max;
        let mut end = start + units[start..].iter().take_while(fits).count().max(1);
        // A line that introduces a list belongs to the list, so it does not end a window.
        while end > start + 1 && source.text[units[end - 1].clone()].ends_with(':') {
            end -= 1;
        }
        let mut credit = vec![0.0; title.len()];
        credits[start..end].iter().for_each(|of_unit| raise(&mut credit, of_unit, 1.0));
        let beside = [start.checked_sub(1), Some(end)].into_iter().flatten();
        beside
            .filter_map(|at| credits.get(at))
            .for_each(|of_unit| raise(&mut credit, of_unit, BESIDE_WINDOW));
        raise(&mut credit, &title, TITLE_OF_WINDOW);
        if credit.iter().all(|credit| *credit == 0.0) {
            continue;
        }
        let range = units[start].start..units[end - 1].end;
        let full = (range.len() as f32 / bytes_max.max(1) as f32).min(1.0);
        let mut score = likeness.share(&credit) + WINDOW_PRIOR * source.prior(number, &range) + FULL * full;
        if source.is_found_at(&range) {
            let mut of_window = title_tokens.clone();
            for at in start..end {
                let text = &source.text[units[at].clone()];
                of_window.extend_from_slice(tokens[at].get_or_insert_with(|| embed::tokens(text)));
            }
            score += WINDOW_MEANING * likeness.cosine(of_window).max(0.0);
        }
        if !likeness.is_about_release && is_release_notes {
            score *= RELEASE_NOTES;
        }
        windows.push(Quote { source: number, range, score, share: likeness.share_with_names(&credit) });
    }
}

/// Chooses from windows that are ordered best first. Chosen windows do not overlap, and none repeats the text
/// of a better one.
fn chosen(windows: Vec<Quote>, sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let mut chosen: Vec<Quote> = Vec::new();
    let mut said: HashSet<String> = HashSet::new();
    // For each source the windows that are left, best first, numbered in the given order, and how many were
    // chosen. Only the first of each can be chosen next.
    let mut left: Vec<(VecDeque<(usize, Quote)>, usize)> =
        sources.iter().map(|_| Default::default()).collect();
    for (number, window) in windows.into_iter().enumerate() {
        left[window.source].0.push_back((number, window));
    }
    while chosen.len() < most.quotes {
        let quoted = left.iter().filter(|(_, many)| *many > 0).count();
        let firsts = left.iter().filter_map(|(windows, many)| {
            let (number, window) = windows.front()?;
            let has_room = *many > 0 || quoted < most.sources;
            has_room.then_some((window.score - AGAIN * *many as f32, *number, window.source))
        });
        // Of equal scores, the window that came first.
        let best = firsts.reduce(|best, next| {
            let is_better = next.0 > best.0 || (next.0 == best.0 && next.1 < best.1);
            if is_better { next } else { best }
        });
        let Some((worth, _, source)) = best else { break };
        if chosen.first().is_some_and(|best| worth < best.score * WORTH_MIN) {
            break;
        }
        let (windows, many) = &mut left[source];
        let Some((_, window)) = windows.pop_front() else { break };
        let best_share = chosen.iter().map(|quote| quote.share).fold(0.0, f32::max);
        if window.share < best_share * SHARE_MIN {
            continue;
        }
        let meets = |known: &Quote| {
            known.source == window.source
                && known.range.start < window.range.end
                && window.range.start < known.range.end
        };
        let text = &sources[window.source].text[window.range.clone()];
        let mut is_new = || said.insert(text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
        if !chosen.iter().any(meets) && is_new() {
            *many += 1;
            chosen.push(window);
        }
    }
    chosen
}

/// The line above a position without which the text there can't be understood: the header of a table for its
/// rows, the line that ends in a colon for the items of a list, the term or directive for the text indented
/// below it.
pub fn lead(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let first = text[start..].lines().next().unwrap_or_default();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let is_row = |line: &str| line.trim_start().starts_with('|');
    let mut lead: Option<Range<usize>> = None;
    let mut end = start;
    while end > 0 {
        let from = text[..end - 1].rfind('\n').map_or(0, |at| at + 1);
        let line = &text[from..end - 1];
        let range = from + depth(line)..from + line.trim_end().len();
        end = from;
        if is_row(first) {
            if !is_row(line) {
                break;
            }
            lead = Some(range);
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let is_list = is_item(first.trim_start()) && depth(line) <= depth(first);
        if is_list && (is_item(line.trim_start()) || depth(line) > 0 && depth(line) >= depth(first)) {
            continue;
        }
        let leads = if is_list { line.trim_end().ends_with(':') } else { depth(line) < depth(first) };
        if leads || depth(line) <= depth(first) {
            return leads.then_some(range);
        }
    }
    lead
}

/// The overlap score, exactly as the specification defines it: how many of the question's words of three or
/// more letters occur in a span, each with the same weight, also as parts of other words. Of equal scores the
/// shorter span comes first, then the earlier.
pub fn overlapping(question: &str, sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let question = question.to_lowercase();
    let words: HashSet<&str> = words(&question).filter(|word| word.chars().count() >= 3).collect();
    let mut quotes = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for range in plain_spans(source.text) {
            let span = source.text[range.clone()].to_lowercase();
            let has = words.iter().filter(|word| span.contains(**word)).count();
            let share = has as f32 / words.len().max(1) as f32;
            quotes.push(Quote { source: number, range, score: share, share });
        }
    }
    quotes.sort_by(|a, b| {
        let place = |quote: &Quote| (quote.range.len(), quote.source, quote.range.start);
        b.score.total_cmp(&a.score).then(place(a).cmp(&place(b)))
    });
    quotes.truncate(most.quotes);
    for quote in &mut quotes {
        let text = &sources[quote.source].text[quote.range.clone()];
        quote.range.end = quote.range.start + text.floor_char_boundary(most.bytes.min(text.len()));
    }
    quotes
}

/// Fenced code as a whole; other text is cut at blank lines, bullets, and marks that end a sentence and are
/// followed by a blank.
fn plain_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut push = |range: Range<usize>| {
        let span = &text[range.clone()];
        let start = range.start + span.len() - span.trim_start().len();
        if !span.trim().is_empty() {
            spans.push(start..start + span.trim().len());
        }
    };
    let (mut start, mut line_start, mut is_code) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let (trimmed, line_end) = (line.trim_start(), line_start + line.len());
        let is_fence = trimmed.starts_with("```");
        if !is_code && (trimmed.is_empty() || is_fence || is_item(trimmed)) {
            push(start..line_start);
            start = line_start;
        }
        if is_fence && is_code {
            push(start..line_end);
            start = line_end;
        } else if !is_fence && !is_code {
            // The dot after the number of a numbered item is part of the bullet and ends no sentence.
            let bullet = line.len() - trimmed.len()
                + if is_item(trimmed) { trimmed.find(' ').unwrap_or(0) } else { 0 };
            let ends = line.char_indices().zip(line.chars().skip(1).chain(['\n']));
            for ((at, mark), next) in ends {
                if matches!(mark, '.' | '?' | '!') && next.is_whitespace() && at >= bullet {
                    push(start..line_start + at + 1);
                    start = line_start + at + 1;
                }
            }
        }
        is_code ^= is_fence;
        line_start = line_end;
    }
    push(start..text.len());
    spans
}

/// The best quotes, best first; of equal scores the shorter, then the earlier. A repetition of a better quote
/// is left out. Quotes that share nothing with the question are left out if any quote shares something.
fn best(mut quotes: Vec<Quote>, sources: &[FoundText<'_>], many: usize) -> Vec<Quote> {
    if quotes.iter().any(|quote| quote.share > 0.0) {
        quotes.retain(|quote| quote.share > 0.0);
    }
    quotes.sort_by(|a, b| {
        let (length, other) = (a.range.len(), b.range.len());
        b.score
            .total_cmp(&a.score)
            .then(length.cmp(&other))
            .then((a.source, a.range.start).cmp(&(b.source, b.range.start)))
    });
    let mut said: HashSet<String> = HashSet::new();
    let mut chosen = Vec::new();
    for quote in quotes {
        if chosen.len() == many {
            break;
        }
        let text = &sources[quote.source].text[quote.range.clone()];
        if said.insert(text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()) {
            chosen.push(quote);
        }
    }
    chosen
}

/// Sentences, list items, rows of tables, and code as a whole.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    spans(text, usize::MAX)
}

/// Sentences, list items, rows of tables, and code as a whole; each is cut so that it is no longer than a
/// quote may be.
fn spans(text: &str, bytes_max: usize) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    // The fence of the code that the line is in, if it is in code.
    let mut in_code: Option<Fence> = None;
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let line_end = line_start + line.len();
        let trimmed = line.trim_start();
        let fence = Fence::of(trimmed);
        let is_row = trimmed.starts_with('|');
        let begins_anew =
            trimmed.is_empty() || is_item(trimmed) || trimmed.starts_with('#') || is_row || fence.is_some();
        if begins_anew && in_code.is_none() {
            push(text, start..line_start, bytes_max, &mut spans);
            start = line_start;
        }
        let ends_code = in_code.is_some_and(|open| fence.is_some_and(|fence| fence.closes(&open)));
        match in_code {
            _ if ends_code => in_code = None,
            None => in_code = fence,
            Some(_) => {}
        }
        if ends_code || (is_row && in_code.is_none()) {
            push(text, start..line_end, bytes_max, &mut spans);
            start = line_end;
        } else if in_code.is_none() {
            for end in sentence_ends(line) {
                push(text, start..line_start + end, bytes_max, &mut spans);
                start = line_start + end;
            }
        }
        line_start = line_end;
    }
    push(text, start..text.len(), bytes_max, &mut spans);
    spans
}

/// A line that begins or ends a block of code.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    marks: usize,
    /// Whether the line has nothing but the marks.
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Fence> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let marks = line.len() - rest.len();
        (marks >= 3).then(|| Fence { mark, marks, is_bare: rest.trim().is_empty() })
    }

    /// Whether this line ends the code that `open` began. A block of code may contain shorter fences.
    fn closes(&self, open: &Fence) -> bool {
        self.is_bare && self.mark == open.mark && self.marks >= open.marks
    }
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ ", "• "].iter().any(|bullet| line.starts_with(bullet))
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

/// The positions after marks that end a sentence. The dots in `4.2.1` are followed by no blank, and
/// `e.g. this` continues.
fn sentence_ends(line: &str) -> Vec<usize> {
    const GO_ON: [&str; 16] = [
        "e.g.", "i.e.", "etc.", "vs.", "cf.", "Mr.", "Mrs.", "Dr.", "St.", "No.", "Fig.", "al.", "approx.",
        "Inc.", "Ltd.", "U.S.",
    ];
    let mut ends = Vec::new();
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        if matches!(c, '。' | '！' | '？') {
            ends.push(end);
        }
        if !matches!(c, '.' | '?' | '!') {
            continue;
        }
        let closed = line[end..].trim_start_matches(['"', '\'', ')', ']', '”', '’']);
        // This is checked first, so that no word is read again for each of its marks.
        if !closed.starts_with(char::is_whitespace) {
            continue;
        }
        let word = line[..end].rsplit(char::is_whitespace).next().unwrap_or_default();
        let bare = word.trim_start_matches(['(', '"', '[']);
        let goes_on =
            GO_ON.iter().any(|known| known.eq_ignore_ascii_case(bare) && (*known != "No." || bare == *known))
                || (word.len() == 2 && word.starts_with(char::is_uppercase));
        if !goes_on {
            ends.push(line.len() - closed.len());
        }
    }
    ends
}

/// Adds a range without the blanks around it. A range that is too long is cut: after a comma, semicolon or
/// line break if there is one in the later part, else between words.
fn push(text: &str, range: Range<usize>, bytes_max: usize, spans: &mut Vec<Range<usize>>) {
    let blank = |side: &str| range.len() - side.len();
    let span = &text[range.clone()];
    let mut rest = range.start + blank(span.trim_start())..range.end - blank(span.trim_end());
    while rest.start < rest.end {
        let piece = &text[rest.clone()];
        let mut end = piece.len();
        if end > bytes_max {
            let first = piece.chars().next().map_or(1, char::len_utf8);
            let room = &piece[..piece.floor_char_boundary(bytes_max).max(first)];
            let cut = |marks: &[char]| room.rfind(marks).filter(|at| *at > bytes_max / 3).map(|at| at + 1);
            end = cut(&[';', ',', '\n']).or_else(|| cut(&[' '])).unwrap_or(room.len());
        }
        // A piece without letters or digits, such as a horizontal rule, is left out.
        if piece[..end].contains(char::is_alphanumeric) {
            spans.push(rest.start..rest.start + piece[..end].trim_end().len());
        }
        rest.start += end;
        rest.start += text[rest.clone()].len() - text[rest.clone()].trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<&str> {
        spans(text, QuoteLimits::default().bytes).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn texts_are_cut_where_a_reader_would() {
        let text = "Version 4.2.1 is out, e.g. for Linux. It runs!\n\n- one item\n- two items. More.\n```\nlet a = 1. ;\n\nb\n```\nEnd";
        assert_eq!(
            shown(text),
            [
                "Version 4.2.1 is out, e.g. for Linux.",
                "It runs!",
                "- one item",
                "- two items.",
                "More.",
                "```\nlet a = 1. ;\n\nb\n```",
                "End"
            ]
        );
        assert_eq!(
            shown(
                "See Fig. 3 of J. Smith et al. for more (approx. 3.5 s). Is `a.b()` enough? \"Yes.\" No. 5 is not."
            ),
            [
                "See Fig. 3 of J. Smith et al. for more (approx. 3.5 s).",
                "Is `a.b()` enough?",
                "\"Yes.\"",
                "No. 5 is not."
            ]
        );
        let table = "Limits. These hold:\n| name | what |\n|---|---|\n| `max` | 5. Larger ones are refused. |\nAfter it.";
        assert_eq!(
            shown(table),
            [
                "Limits.",
                "These hold:",
                "| name | what |",
                "| `max` | 5. Larger ones are refused. |",
                "After it."
            ]
        );
        let code = "Run it. Now.\n~~~sh\n# a comment. Two.\n```\n- no item\n| no row\n~~~\nDone. All.";
        assert_eq!(
            shown(code),
            ["Run it.", "Now.", "~~~sh\n# a comment. Two.\n```\n- no item\n| no row\n~~~", "Done.", "All."]
        );
        let nested = "Write:\n````md\n```sh\nrun. it.\n```\n````\nDone.";
        assert_eq!(shown(nested), ["Write:", "````md\n```sh\nrun. it.\n```\n````", "Done."]);
        assert_eq!(shown("Open.\n```\nnever. closed."), ["Open.", "```\nnever. closed."]);
        assert_eq!(
            shown("重启需要五分钟。请等待！好了吗？是的"),
            ["重启需要五分钟。", "请等待！", "好了吗？", "是的"]
        );
        let long = "many words, ".repeat(100);
        assert!(
            shown(&long).iter().all(|span| span.len() <= QuoteLimits::default().bytes && !span.is_empty())
        );
        assert!(shown(&"ü".repeat(1000)).concat() == "ü".repeat(1000));
        assert_eq!(shown(" \n\n "), Vec::<&str>::new());
    }

    #[test]
    fn the_sentence_that_answers_comes_first_wherever_it_stands() {
        let filler = "Deployments are described in the handbook. ".repeat(20);
        let text = format!("{filler}A rollback takes nine minutes on the old cluster.");
        let question: Vec<Rarity> = lex::question_terms("how long does a rollback take?")
            .into_iter()
            .map(|term| Rarity { term, idf: 2.0 })
            .collect();
        let sources = [FoundText::new("Deploying", &text)];
        let found = quotes(&question, &sources, QuoteLimits { quotes: 2, ..QuoteLimits::default() });
        assert!(text[found[0].range.clone()].starts_with("A rollback"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_was_said_already_and_what_has_nothing_of_the_question_is_left_out() {
        let sources = ["Ports are open. The port is 80.", "The  PORT is 80. It says so. Nothing here."]
            .map(|text| FoundText::new("", text));
        let question = [Rarity { term: "port".into(), idf: 1.0 }];
        let texts = |quotes: Vec<Quote>| -> Vec<String> {
            quotes.iter().map(|quote| sources[quote.source].text[quote.range.clone()].to_owned()).collect()
        };
        let mut said = texts(quotes(&question, &sources, QuoteLimits::default()));
        said.sort();
        assert_eq!(
            said,
            ["It says so.", "Ports are open.", "The port is 80."],
            "what is beside it may go on"
        );
    }

    #[test]
    fn the_plain_measure_is_that_of_the_specification() {
        let text =
            "E.g. a port. Is it open? Yes\n- the port is 80\n1. no. Ports!\n\n```\nport. 1.\n\nx\n```\nEnd";
        let spans: Vec<&str> = plain_spans(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(
            spans,
            [
                "E.g.",
                "a port.",
                "Is it open?",
                "Yes",
                "- the port is 80",
                "1. no.",
                "Ports!",
                "```\nport. 1.\n\nx\n```",
                "End"
            ]
        );
        let sources = [FoundText::new("", text)];
        let found = overlapping(
            "Which PORT is it?",
            &sources,
            QuoteLimits { quotes: 4, bytes: 10, ..QuoteLimits::default() },
        );
        let shown: Vec<(&str, f32)> =
            found.iter().map(|quote| (&text[quote.range.clone()], quote.share)).collect();
        assert_eq!(shown, [("Ports!", 0.5), ("a port.", 0.5), ("- the port", 0.5), ("```\nport. ", 0.5)]);
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
            QuoteLimits { bytes: 80, ..QuoteLimits::default() },
        );
        let shown: Vec<&str> = found.iter().map(|quote| &text[quote.range.clone()]).collect();
        assert_eq!(shown, ["Backups keep these rules:\n\n- they run at night\n- they are kept for a year"]);
    }

    fn rarities(question: &str) -> Vec<Rarity> {
        let terms = lex::question_terms(question).into_iter();
        terms.map(|term| Rarity { term, idf: 2.0 }).collect()
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
            windows(question, &rarities(question), &[source], most)[0].range.start
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
            windows(question, &rarities(question), &sources, most).len()
        };
        assert_eq!((quoted(3), quoted(2)), (3, 2));
    }

    #[test]
    fn release_notes_come_behind_the_page_unless_a_release_is_asked_for() {
        let text = "The cache can be cleared with a flag.";
        let sources =
            ["Tool 4.2 > Release 4.2.1 (May 2017)", "Cache"].map(|title| FoundText::new(title, text));
        let first = |question: &str| {
            windows(question, &rarities(question), &sources, QuoteLimits::default())[0].source
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
            windows(question, &rarities(question), &sources, QuoteLimits::default())[0].share
        };
        assert!(
            share("How do I run one test class with Surefire?")
                < share("How do I run one test class with surefire?")
        );
        assert_eq!(names("Maven runs it. Does Surefire, with JVM?").len(), 1);
    }

    #[test]
    fn what_stands_alone_has_a_lead() {
        let text = "Rules:\n\n- one\n- two\n\n| size | time |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n.. confval:: cache\n\n   Default: 5\n\nPlain.";
        let lead_of =
            |words: &str| lead(text, text.find(words).expect("it is there")).map(|range| &text[range]);
        assert_eq!(lead_of("- two"), Some("Rules:"));
        assert_eq!(lead_of("| 3"), Some("| size | time |"));
        assert_eq!(lead_of("Default"), Some(".. confval:: cache"));
        assert_eq!(lead_of("Plain"), None);
        assert_eq!(lead_of("Rules"), None);
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
            found.iter().map(|quote| &sources[quote.source].text[quote.range.clone()]).collect();
        assert_eq!(
            shown,
            ["A port. A port.", "A port.", "This port is open."],
            "the last of them stands alone"
        );
    }
}
