//! The index: words and vectors of every version of every text, in memory.
//!
//! A version has a moment from which and a moment to which it was live. A question names its moment, and idf, mean
//! length and order depend on what was live then and on nothing else, so a later write never moves a row.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::embed::{self, Token, TokenCounts};
use crate::score::{BIGRAM_WEIGHT, DENSE_FLOOR, Fusion, Population, TITLE_WEIGHT, bm25};
use crate::vectors::{Quantised, Vectors};
use crate::{lex, passage};

/// A text as it is found: `title` words count for more.
pub struct Document<'a> {
    pub title: &'a str,
    pub body: &'a str,
}

/// A document broken into words and vectors. This is the work; it can be done on any thread.
pub struct Prepared {
    title: Vec<Arc<str>>,
    title_stop_words: Vec<Arc<str>>,
    body: Vec<Arc<str>>,
    passages: Vec<(Box<[Token]>, Quantised)>,
}

impl Prepared {
    pub fn new(document: &Document<'_>) -> Prepared {
        let mut parts = passage::passages(document.body);
        if parts.is_empty() {
            parts.push("");
        }
        let passages = parts
            .into_iter()
            .map(|part| {
                let tokens = embed::tokens(&format!("{} {part}", document.title));
                let vector = Quantised::new(&embed::passage_vector(&tokens));
                (tokens.iter().map(|(token, _)| *token).collect(), vector)
            })
            .collect();
        Prepared {
            title: lex::terms(document.title),
            title_stop_words: lex::stop_words(document.title),
            body: lex::terms(document.body),
            passages,
        }
    }
}

/// How often a term stands in the two parts of a text.
#[derive(Clone, Copy, Default)]
struct Frequency {
    title: u16,
    body: u16,
}

impl Frequency {
    fn weighted(self, title_only: bool) -> u32 {
        let title = TITLE_WEIGHT * u32::from(self.title);
        if title_only { title } else { title + u32::from(self.body) }
    }
}

/// Which version of which text, as the caller knows it.
pub type Place = u32;

#[derive(Default)]
pub struct Index {
    slots: Vec<Slot>,
    vocabulary: FxHashMap<Arc<str>, u32>,
    postings: Vec<Postings>,
    vectors: Vectors,
    counts: TokenCounts,
    population: Population,
    /// The last moment at which anything was added or closed.
    newest: u64,
}

struct Slot {
    from: u64,
    /// When it was closed; `u64::MAX` while it is live.
    to: u64,
    length: u32,
    /// Its passages are neighbours.
    first_passage: u32,
    /// The tokens of each passage.
    tokens: Box<[Box<[Token]>]>,
    /// Its terms in order: title, body, and the title's stop words, all apart.
    sequence: Box<[u32]>,
}

/// Stands between title and body in a sequence: nothing is its neighbour.
const BREAK: u32 = u32::MAX;

impl Slot {
    fn is_live_at(&self, at: u64) -> bool {
        self.from <= at && at < self.to
    }
}

#[derive(Default)]
struct Postings {
    entries: Vec<(Place, Frequency)>,
    /// How many of them are live now.
    live: u32,
    /// One bit for each of the term's trigrams, to see at a glance what can't look like it.
    trigrams: u64,
}

pub struct Question<'a> {
    pub text: &'a str,
    /// Only words of the title count.
    pub title_only: bool,
    /// The moment for which it is asked.
    pub at: u64,
}

/// Decides which versions may be seen at all; asked before anything is counted as a hit.
pub type Filter<'a> = &'a dyn Fn(Place) -> bool;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub place: Place,
    pub score: f32,
    /// Relative to the best of all hits, as they enter the score.
    pub lexical: f32,
    pub dense: f32,
    /// Which of the question's terms are in it, one bit each.
    matched: u64,
}

/// Every match, in no order.
pub struct Results {
    pub hits: Vec<Hit>,
    terms: Vec<Arc<str>>,
}

impl Results {
    /// The terms of the question that the hit has.
    pub fn matched_terms(&self, hit: &Hit) -> Vec<String> {
        let has = |at: &usize| hit.matched & bit(*at) != 0;
        (0..self.terms.len()).filter(has).map(|at| self.terms[at].to_string()).collect()
    }
}

/// Terms beyond the 64th share the last bit; nobody reads an explanation that long.
fn bit(term: usize) -> u64 {
    1 << term.min(63)
}

impl Hit {
    /// The same text found by two questions, which count the same.
    pub fn mean(&self, other: &Hit) -> Hit {
        let mean = |a: f32, b: f32| (a + b) / 2.0;
        Hit {
            score: mean(self.score, other.score),
            lexical: mean(self.lexical, other.lexical),
            dense: mean(self.dense, other.dense),
            ..*self
        }
    }

    /// Best first, the newest first among equals.
    pub fn order(&self, other: &Hit) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.place.cmp(&self.place))
    }
}

/// What the words of a question say about each version.
struct Lexical {
    scores: Vec<f32>,
    matched: Vec<u64>,
}

impl Index {
    /// Adds a version that is live from `from` on. Places are counted from 0 in the order of adding.
    pub fn add(&mut self, from: u64, prepared: Prepared) -> Place {
        let place = self.slots.len() as Place;
        self.newest = self.newest.max(from);
        let mut sequence = Vec::with_capacity(prepared.title.len() + prepared.body.len() + 1);
        for term in prepared.title {
            sequence.push(self.term_id(term));
        }
        let title_length = sequence.len();
        sequence.push(BREAK);
        let body_length = prepared.body.len() + 1;
        for term in prepared.body {
            sequence.push(self.term_id(term));
        }
        let length = TITLE_WEIGHT * title_length as u32 + (sequence.len() - title_length - 1) as u32;
        // They count for nothing but a question made of them alone.
        for term in prepared.title_stop_words {
            sequence.push(BREAK);
            sequence.push(self.term_id(term));
        }
        let body = title_length..title_length + body_length;
        for (term, frequency) in frequencies(&sequence, |at| !body.contains(&at)) {
            let postings = &mut self.postings[term as usize];
            postings.entries.push((place, frequency));
            postings.live += 1;
        }
        let mut tokens = Vec::with_capacity(prepared.passages.len());
        let mut first_passage = None;
        for (distinct, vector) in prepared.passages {
            let passage = self.vectors.push(&vector);
            first_passage.get_or_insert(passage);
            self.counts.add(distinct.iter().copied());
            tokens.push(distinct);
        }
        self.population.many += 1;
        self.population.length += u64::from(length);
        let first_passage = first_passage.unwrap_or(0);
        let (tokens, sequence) = (tokens.into(), sequence.into());
        self.slots.push(Slot { from, to: u64::MAX, length, first_passage, tokens, sequence });
        place
    }

    /// Closes a version: it is live before `to` and not from then on.
    pub fn close(&mut self, place: Place, to: u64) {
        let slot = &mut self.slots[place as usize];
        if slot.to != u64::MAX {
            return;
        }
        slot.to = to;
        self.newest = self.newest.max(to);
        self.population.many -= 1;
        self.population.length -= u64::from(slot.length);
        for (term, _) in frequencies(&slot.sequence, |_| false) {
            self.postings[term as usize].live -= 1;
        }
        for tokens in &slot.tokens {
            self.counts.remove(tokens.iter().copied());
        }
    }

    /// Every version that is live at the moment, may be seen, and shares a word with the question or means much
    /// the same.
    pub fn search(&self, question: &Question<'_>, visible: Filter<'_>) -> Results {
        let now = At::new(self, question.at);
        let terms = self.question_terms(question, &now);
        let mut lexical = Lexical { scores: vec![0.0; self.slots.len()], matched: vec![0; self.slots.len()] };
        self.score_terms(&terms, question, &now, visible, &mut lexical);
        if !question.title_only {
            self.score_bigrams(question, &now, &mut lexical);
        }
        let cosines = self.cosines(question, &now, visible);
        let best = lexical.scores.iter().copied().fold(0.0, f32::max);
        let fusion = Fusion::new(best, cosines.iter().map(|(_, cosine)| *cosine));
        let mut hits: Vec<Hit> = Vec::new();
        for (place, cosine) in cosines {
            let (score, matched) = (lexical.scores[place as usize], lexical.matched[place as usize]);
            let means_the_same = !question.title_only && cosine >= DENSE_FLOOR;
            if matched != 0 || means_the_same {
                let (total, dense) = (fusion.total(score, cosine), fusion.dense(cosine));
                hits.push(Hit { place, score: total, lexical: fusion.lexical(score), dense, matched });
            }
        }
        Results { hits, terms: terms.into_iter().map(|(term, _, _)| term).collect() }
    }

    fn term_id(&mut self, term: Arc<str>) -> u32 {
        if let Some(id) = self.vocabulary.get(&term) {
            return *id;
        }
        let id = self.postings.len() as u32;
        self.postings.push(Postings { trigrams: trigram_bits(&term), ..Postings::default() });
        self.vocabulary.insert(term, id);
        id
    }

    /// The terms of the question that somebody uses, each with its weight; for a word that nobody uses, up to
    /// three that look like it.
    fn question_terms(&self, question: &Question<'_>, now: &At<'_>) -> Vec<(Arc<str>, u32, f32)> {
        let mut asked = lex::question_terms(question.text);
        asked.sort();
        asked.dedup();
        let mut terms = Vec::new();
        for term in asked {
            match self.vocabulary.get(&term) {
                Some(id) if now.df(&self.postings[*id as usize]) > 0 => terms.push((term, *id, 1.0)),
                _ => terms.extend(self.lookalikes(&term, now)),
            }
        }
        terms
    }

    fn lookalikes(&self, term: &str, now: &At<'_>) -> Vec<(Arc<str>, u32, f32)> {
        const CHARS_MIN: usize = 4;
        const DICE_MIN: f32 = 0.45;
        const MANY: usize = 3;
        const WEIGHT: f32 = 0.9;
        let length = term.chars().count();
        if length < CHARS_MIN {
            return Vec::new();
        }
        let (asked, bits) = (trigrams(term), trigram_bits(term));
        // What looks alike shares trigrams, and shared trigrams are shared bits; a few may fall on one bit.
        let bits_min = (DICE_MIN * asked.len() as f32 / 2.0) as u32;
        let mut alike: Vec<(f32, &Arc<str>, u32)> = self
            .vocabulary
            .iter()
            .filter(|(known, _)| known.len().abs_diff(term.len()) <= 2 && known.len() >= CHARS_MIN)
            .filter(|(_, id)| (self.postings[**id as usize].trigrams & bits).count_ones() >= bits_min)
            .map(|(known, id)| (dice(&asked, &trigrams(known)), known, *id))
            .filter(|(dice, _, _)| *dice >= DICE_MIN)
            .filter(|(_, _, id)| now.df(&self.postings[*id as usize]) > 0)
            .collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        alike.truncate(MANY);
        alike.into_iter().map(|(dice, known, id)| (known.clone(), id, WEIGHT * dice)).collect()
    }

    fn score_terms(
        &self,
        terms: &[(Arc<str>, u32, f32)],
        question: &Question<'_>,
        now: &At<'_>,
        visible: Filter<'_>,
        lexical: &mut Lexical,
    ) {
        for (at, (_, id, weight)) in terms.iter().enumerate() {
            let postings = &self.postings[*id as usize];
            let df = now.df(postings);
            for (place, frequency) in &postings.entries {
                let slot = &self.slots[*place as usize];
                let counted = frequency.weighted(question.title_only);
                if counted == 0 || !slot.is_live_at(now.at) || !visible(*place) {
                    continue;
                }
                lexical.scores[*place as usize] +=
                    weight * bm25(counted as f32, slot.length, df, now.population);
                lexical.matched[*place as usize] |= bit(at);
            }
        }
    }

    /// Words side by side in the question that stand side by side in a text which matched already.
    fn score_bigrams(&self, question: &Question<'_>, now: &At<'_>, lexical: &mut Lexical) {
        let asked = lex::question_terms(question.text);
        let mut pairs: Vec<(u32, u32)> = asked
            .windows(2)
            .filter_map(|pair| Some((*self.vocabulary.get(&pair[0])?, *self.vocabulary.get(&pair[1])?)))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        for pair in pairs {
            let found = self.pair_postings(pair, now);
            for (place, many) in &found {
                // What is not visible has matched nothing.
                if lexical.matched[*place as usize] != 0 {
                    let length = self.slots[*place as usize].length;
                    let score = bm25(*many as f32, length, found.len() as u32, now.population);
                    lexical.scores[*place as usize] += BIGRAM_WEIGHT * score;
                }
            }
        }
    }

    /// The live versions in which two terms are neighbours, and how often.
    fn pair_postings(&self, (first, second): (u32, u32), now: &At<'_>) -> Vec<(Place, usize)> {
        let entries = |term: u32| &self.postings[term as usize].entries;
        let (rare, other) = match entries(first).len() < entries(second).len() {
            true => (entries(first), entries(second)),
            false => (entries(second), entries(first)),
        };
        let mut rest = other.as_slice();
        let mut found = Vec::new();
        for (place, _) in rare {
            rest = &rest[rest.partition_point(|(other, _)| other < place)..];
            let slot = &self.slots[*place as usize];
            if rest.first().is_some_and(|(other, _)| other == place) && slot.is_live_at(now.at) {
                let many = slot.sequence.windows(2).filter(|pair| *pair == [first, second]).count();
                if many > 0 {
                    found.push((*place, many));
                }
            }
        }
        found
    }

    /// How near every visible text is to the question, by its best passage, oldest first.
    fn cosines(&self, question: &Question<'_>, now: &At<'_>, visible: Filter<'_>) -> Vec<(Place, f32)> {
        let tokens = embed::tokens(question.text);
        let vector = Quantised::new(&embed::question_vector(&tokens, &now.counts(&tokens)));
        let mut cosines = Vec::new();
        for (place, slot) in (0..).zip(&self.slots) {
            if slot.is_live_at(now.at) && visible(place) {
                let passages = slot.first_passage..slot.first_passage + slot.tokens.len() as u32;
                let best = passages.map(|passage| self.vectors.cosine(passage, &vector)).fold(-1.0, f32::max);
                cosines.push((place, best));
            }
        }
        cosines
    }
}

/// What was live at a moment. For the present it is counted already; for the past it is counted anew.
struct At<'a> {
    index: &'a Index,
    at: u64,
    is_present: bool,
    population: Population,
}

impl<'a> At<'a> {
    fn new(index: &'a Index, at: u64) -> At<'a> {
        let is_present = index.newest <= at;
        let population = match is_present {
            true => index.population,
            false => {
                let live = index.slots.iter().filter(|slot| slot.is_live_at(at));
                live.fold(Population::default(), |sum, slot| Population {
                    many: sum.many + 1,
                    length: sum.length + u64::from(slot.length),
                })
            }
        };
        At { index, at, is_present, population }
    }

    fn df(&self, postings: &Postings) -> u32 {
        match self.is_present {
            true => postings.live,
            false => {
                let live =
                    |(place, _): &&(Place, Frequency)| self.index.slots[*place as usize].is_live_at(self.at);
                postings.entries.iter().filter(live).count() as u32
            }
        }
    }

    fn counts(&self, asked: &[(Token, u32)]) -> std::borrow::Cow<'a, TokenCounts> {
        if self.is_present {
            return std::borrow::Cow::Borrowed(&self.index.counts);
        }
        let mut counts = TokenCounts::default();
        for slot in self.index.slots.iter().filter(|slot| slot.is_live_at(self.at)) {
            for tokens in &slot.tokens {
                counts.add(
                    asked.iter().map(|(token, _)| *token).filter(|token| tokens.binary_search(token).is_ok()),
                );
            }
        }
        std::borrow::Cow::Owned(counts)
    }
}

/// How often each term stands in a sequence, and how often where `is_title` says so.
fn frequencies(sequence: &[u32], is_title: impl Fn(usize) -> bool) -> Vec<(u32, Frequency)> {
    let mut terms: Vec<(u32, bool)> = sequence
        .iter()
        .enumerate()
        .map(|(at, term)| (*term, is_title(at)))
        .filter(|(term, _)| *term != BREAK)
        .collect();
    terms.sort_unstable();
    let mut counted: Vec<(u32, Frequency)> = Vec::with_capacity(terms.len());
    for (term, in_title) in terms {
        if counted.last().is_none_or(|(last, _)| *last != term) {
            counted.push((term, Frequency::default()));
        }
        if let Some((_, frequency)) = counted.last_mut() {
            let count = if in_title { &mut frequency.title } else { &mut frequency.body };
            *count = count.saturating_add(1);
        }
    }
    counted
}

fn trigram_bits(word: &str) -> u64 {
    let bit = |three: &[char; 3]| {
        let mixed =
            three.iter().fold(0u64, |sum, c| (sum ^ u64::from(*c)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        1u64 << (mixed >> 58)
    };
    trigrams(word).iter().map(bit).fold(0, |bits, bit| bits | bit)
}

fn trigrams(word: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
    let mut trigrams: Vec<[char; 3]> =
        padded.windows(3).map(|three| [three[0], three[1], three[2]]).collect();
    trigrams.sort_unstable();
    trigrams.dedup();
    trigrams
}

fn dice(a: &[[char; 3]], b: &[[char; 3]]) -> f32 {
    let shared = a.iter().filter(|three| b.binary_search(three).is_ok()).count();
    2.0 * shared as f32 / (a.len() + b.len()).max(1) as f32
}
