//! The index: words and vectors of every version of every text, in memory.
//!
//! A version has a moment from which and a moment to which it was live. A question names its moment, and idf, mean
//! length and order depend on what was live then and on nothing else, so a later write never moves a row.

use std::collections::HashMap;

use crate::embed::{self, TokenCounts};
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
    terms: Vec<(String, Frequency)>,
    bigrams: Vec<((String, String), u32)>,
    length: u32,
    passages: Vec<(Vec<(u32, u32)>, Quantised)>,
}

#[derive(Clone, Copy, Default)]
struct Frequency {
    title: u32,
    body: u32,
}

impl Frequency {
    fn weighted(self) -> u32 {
        TITLE_WEIGHT * self.title + self.body
    }
}

impl Prepared {
    pub fn new(document: &Document<'_>) -> Prepared {
        let title = lex::terms(document.title);
        let body = lex::terms(document.body);
        let length = TITLE_WEIGHT * title.len() as u32 + body.len() as u32;
        let mut bigrams: HashMap<(String, String), u32> = HashMap::new();
        for sequence in [&title, &body] {
            for pair in sequence.windows(2) {
                *bigrams.entry((pair[0].clone(), pair[1].clone())).or_default() += 1;
            }
        }
        let mut terms: HashMap<String, Frequency> = HashMap::new();
        title.into_iter().for_each(|term| terms.entry(term).or_default().title += 1);
        body.into_iter().for_each(|term| terms.entry(term).or_default().body += 1);
        let mut parts = passage::passages(document.body);
        if parts.is_empty() {
            parts.push("");
        }
        let passages = parts
            .into_iter()
            .map(|part| {
                let tokens = embed::tokens(&format!("{} {part}", document.title));
                let vector = Quantised::new(&embed::passage_vector(&tokens));
                (tokens, vector)
            })
            .collect();
        Prepared {
            terms: terms.into_iter().collect(),
            bigrams: bigrams.into_iter().collect(),
            length,
            passages,
        }
    }
}

/// Which version of which text, as the caller knows it.
pub type Place = u32;

#[derive(Default)]
pub struct Index {
    slots: Vec<Slot>,
    vocabulary: HashMap<String, u32>,
    postings: Vec<Postings>,
    bigrams: HashMap<(u32, u32), Postings>,
    vectors: Vectors,
    passages: Vec<Place>,
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
    passage_count: u32,
    terms: Box<[u32]>,
    bigrams: Box<[(u32, u32)]>,
    tokens: Box<[Box<[u32]>]>,
}

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
    terms: Vec<String>,
}

impl Results {
    /// The terms of the question that the hit has.
    pub fn matched_terms(&self, hit: &Hit) -> Vec<String> {
        let has = |at: &usize| hit.matched & bit(*at) != 0;
        (0..self.terms.len()).filter(has).map(|at| self.terms[at].clone()).collect()
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
        let mut terms = Vec::with_capacity(prepared.terms.len());
        for (term, frequency) in prepared.terms {
            let id = self.term_id(term);
            let postings = &mut self.postings[id as usize];
            postings.entries.push((place, frequency));
            postings.live += 1;
            terms.push(id);
        }
        let mut bigrams = Vec::with_capacity(prepared.bigrams.len());
        for ((first, second), many) in prepared.bigrams {
            let pair = (self.vocabulary[&first], self.vocabulary[&second]);
            let postings = self.bigrams.entry(pair).or_default();
            postings.entries.push((place, Frequency { title: 0, body: many }));
            postings.live += 1;
            bigrams.push(pair);
        }
        let first_passage = self.passages.len() as u32;
        let mut tokens = Vec::with_capacity(prepared.passages.len());
        for (counted, vector) in prepared.passages {
            self.vectors.push(&vector);
            self.passages.push(place);
            self.counts.add(&counted);
            tokens.push(counted.iter().map(|(token, _)| *token).collect());
        }
        self.population.many += 1;
        self.population.length += u64::from(prepared.length);
        self.slots.push(Slot {
            from,
            to: u64::MAX,
            length: prepared.length,
            first_passage,
            passage_count: self.passages.len() as u32 - first_passage,
            terms: terms.into(),
            bigrams: bigrams.into(),
            tokens: tokens.into(),
        });
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
        for term in &slot.terms {
            self.postings[*term as usize].live -= 1;
        }
        for pair in &slot.bigrams {
            if let Some(postings) = self.bigrams.get_mut(pair) {
                postings.live -= 1;
            }
        }
        for tokens in &slot.tokens {
            let counted: Vec<(u32, u32)> = tokens.iter().map(|token| (*token, 1)).collect();
            self.counts.remove(&counted);
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

    fn term_id(&mut self, term: String) -> u32 {
        let next = self.postings.len() as u32;
        let id = *self.vocabulary.entry(term).or_insert(next);
        if id == next {
            self.postings.push(Postings::default());
        }
        id
    }

    /// The terms of the question that somebody uses, each with its weight; for a word that nobody uses, up to
    /// three that look like it.
    fn question_terms(&self, question: &Question<'_>, now: &At<'_>) -> Vec<(String, u32, f32)> {
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

    fn lookalikes(&self, term: &str, now: &At<'_>) -> Vec<(String, u32, f32)> {
        const CHARS_MIN: usize = 4;
        const DICE_MIN: f32 = 0.45;
        const MANY: usize = 3;
        const WEIGHT: f32 = 0.9;
        let length = term.chars().count();
        if length < CHARS_MIN {
            return Vec::new();
        }
        let asked = trigrams(term);
        let mut alike: Vec<(f32, &String, u32)> = self
            .vocabulary
            .iter()
            .filter(|(known, _)| known.len().abs_diff(term.len()) <= 2 && known.len() >= CHARS_MIN)
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
        terms: &[(String, u32, f32)],
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
                let counted = match question.title_only {
                    true => TITLE_WEIGHT * frequency.title,
                    false => frequency.weighted(),
                };
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
        for postings in pairs.iter().filter_map(|pair| self.bigrams.get(pair)) {
            let df = now.df(postings);
            for (place, frequency) in &postings.entries {
                let slot = &self.slots[*place as usize];
                // What is not visible has matched nothing.
                if slot.is_live_at(now.at) && lexical.matched[*place as usize] != 0 {
                    let score = bm25(frequency.body as f32, slot.length, df, now.population);
                    lexical.scores[*place as usize] += BIGRAM_WEIGHT * score;
                }
            }
        }
    }

    /// How near every visible text is to the question, by its best passage, oldest first.
    fn cosines(&self, question: &Question<'_>, now: &At<'_>, visible: Filter<'_>) -> Vec<(Place, f32)> {
        let tokens = embed::tokens(question.text);
        let vector = Quantised::new(&embed::question_vector(&tokens, &now.counts(&tokens)));
        let mut cosines = Vec::new();
        for (place, slot) in (0..).zip(&self.slots) {
            if slot.is_live_at(now.at) && visible(place) {
                let passages = slot.first_passage..slot.first_passage + slot.passage_count;
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

    fn counts(&self, asked: &[(u32, u32)]) -> std::borrow::Cow<'a, TokenCounts> {
        if self.is_present {
            return std::borrow::Cow::Borrowed(&self.index.counts);
        }
        let mut counts = TokenCounts::default();
        for slot in self.index.slots.iter().filter(|slot| slot.is_live_at(self.at)) {
            for tokens in &slot.tokens {
                let here = asked.iter().filter(|(token, _)| tokens.contains(token)).copied();
                counts.add(&here.collect::<Vec<_>>());
            }
        }
        std::borrow::Cow::Owned(counts)
    }
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
