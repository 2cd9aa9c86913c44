//! Answering a question. Whatever the parts are, each text is scored by the same function from the same numbers, in
//! the same order of additions, so an answer depends on the texts alone and not on where they lie.

use std::ops::Range;
use std::sync::Arc;

use crate::document::{LABEL, label_term};
use crate::embed;
use crate::error::Error;
use crate::index::Index;
use crate::lex;
use crate::part::{Doc, Drift, Part, Place, Sight, Stretches};
use crate::postings::{Link, count_links, link_to};
use crate::score::{DENSE_FLOOR, Fusion, Population, Spread, Worth, counted};
use crate::trigrams::{dice, trigram_bits, trigrams};
use crate::vectors::Quantised;

/// How many of the best are compared a second time, with all that is known of their vectors.
const RESCORED: usize = 64;
/// The score of what may not be seen.
const HIDDEN: f32 = f32::NEG_INFINITY;

pub struct Question<'a> {
    /// Words sought in the title.
    pub title: Option<&'a str>,
    /// Words sought anywhere, and their meaning. Both must hold when both are given, and count the same.
    pub text: Option<&'a str>,
    pub sight: Sight<'a>,
    pub by: By,
    /// Whether hits say which terms they matched.
    pub explain: bool,
}

/// What a question goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    WordsAndMeaning,
    Words,
    Meaning,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub place: Place,
    pub key: u64,
    pub score: f32,
    /// Relative to the best of all hits, as they enter the score.
    pub lexical: f32,
    pub dense: f32,
    /// The terms of the question that it has, if the question asked for them.
    pub matched: Vec<String>,
}

/// One page of the matches, best first, the newest first among equals, and how many there are.
pub struct Results {
    pub hits: Vec<Hit>,
    pub total: u64,
    /// Meaning was asked for, but not all vectors are there yet.
    pub is_degraded: bool,
}

/// One side of a question: a text that is sought somewhere.
struct Ask {
    title_only: bool,
    terms: Vec<AskedTerm>,
    vector: Vec<f32>,
    quantised: Quantised,
}

struct AskedTerm {
    text: Arc<str>,
    worth: Worth,
    /// What comes after it in the question.
    pairs: Vec<(Link, Worth)>,
}

/// What the sides of a question say about the texts of one part.
struct Scored {
    within: Stretches,
    /// For each side the words' score and the cosine of each text.
    sides: Vec<(Vec<f32>, Vec<f32>)>,
    has_vectors: bool,
}

/// A text that may be on the page, and the part it is in.
#[derive(Clone, Copy)]
struct Candidate {
    score: f32,
    place: Place,
    part: u32,
    doc: Doc,
    local: u32,
}

impl Candidate {
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.place.cmp(&self.place))
    }
}

/// Runs the same code for every part, of whatever kind it is.
macro_rules! in_part {
    ($index:expr, $number:expr, $part:ident => $body:expr) => {
        match $index.segments.get($number as usize) {
            Some($part) => $body,
            None => {
                let $part = &$index.tail;
                $body
            }
        }
    };
}

impl Index {
    /// Every version that is live at the moment, may be seen, and shares a word with the question or means much the
    /// same; without a text, everything that may be seen, newest first.
    pub fn search(&self, question: &Question<'_>, page: Range<u64>) -> Result<Results, Error> {
        let then = Then::new(self, question.sight.at)?;
        let sides = [(question.title, true), (question.text, false)];
        let asks = sides
            .into_iter()
            .filter_map(|(text, title_only)| Some(self.ask(text?, title_only, &then)))
            .collect::<Result<Vec<Ask>, Error>>()?;
        let parts = 0..=self.segments.len() as u32;
        let mut scored = parts
            .map(|number| in_part!(self, number, part => score(part, question, &asks)))
            .collect::<Result<Vec<Scored>, Error>>()?;
        let has_vectors = scored.iter().all(|scored| scored.has_vectors);
        if !has_vectors {
            let cosines =
                scored.iter_mut().flat_map(|scored| &mut scored.sides).flat_map(|(_, cosines)| cosines);
            cosines.filter(|cosine| **cosine != HIDDEN).for_each(|cosine| *cosine = 0.0);
        }
        let by_meaning = question.by != By::Words && has_vectors;
        let fusions = (0..asks.len())
            .map(|side| self.fusion(&asks[side], side, &scored, by_meaning))
            .collect::<Result<Vec<Fusion>, Error>>()?;
        let judge = Judge { asks: &asks, fusions: &fusions, by: question.by, by_meaning };
        let (mut best, total) = self.candidates(&judge, &scored, page.end);
        if by_meaning {
            self.rescore(&judge, &scored, &mut best)?;
        }
        let page = page.start.min(best.len() as u64) as usize..page.end.min(best.len() as u64) as usize;
        let mut hits = Vec::with_capacity(page.len());
        for candidate in &best[page] {
            let matched = if question.explain { self.matched(&asks, candidate)? } else { Vec::new() };
            hits.push(in_part!(self, candidate.part, part => {
                let (lexical, dense) = judge.parts(part, &scored[candidate.part as usize], candidate)?;
                let key = part.key(candidate.doc)?;
                Hit { place: candidate.place, key, score: candidate.score, lexical, dense, matched }
            }));
        }
        Ok(Results { hits, total, is_degraded: question.by != By::Words && !has_vectors })
    }

    /// What is usual among all that one side of the question may see.
    fn fusion(&self, ask: &Ask, side: usize, scored: &[Scored], by_meaning: bool) -> Result<Fusion, Error> {
        let mut spread = Spread::default();
        // The nearest, the newest of equals: what lies where must not decide.
        let mut nearest: Option<(f32, Place, u32, Doc)> = None;
        for (scored, number) in scored.iter().zip(0..) {
            let (lexical, cosines) = &scored.sides[side];
            for (stretch, first) in scored.within.iter() {
                for (doc, local) in stretch.clone().zip(first as usize..) {
                    let cosine = cosines[local];
                    if cosine == HIDDEN {
                        continue;
                    }
                    spread.add(lexical[local], cosine);
                    if nearest.is_none_or(|(most, ..)| cosine >= most) {
                        let place = in_part!(self, number, part => part.place(doc));
                        if nearest.is_none_or(|(most, newest, ..)| (cosine, place) > (most, newest)) {
                            nearest = Some((cosine, place, number, doc));
                        }
                    }
                }
            }
        }
        let cosine_max = match nearest {
            Some((_, _, number, doc)) if by_meaning => {
                in_part!(self, number, part => part.exact_cosine(doc, &ask.vector)?)
            }
            _ => 0.0,
        };
        Ok(spread.fusion(cosine_max, by_meaning))
    }

    /// The best of all, enough of them for the page and for a second look, and how many matches there are.
    fn candidates(&self, judge: &Judge<'_>, scored: &[Scored], wanted: u64) -> (Vec<Candidate>, u64) {
        let keep = usize::try_from(wanted).unwrap_or(usize::MAX).max(RESCORED);
        let room = keep.saturating_mul(2).max(1024);
        let (mut best, mut total, mut floor) = (Vec::<Candidate>::new(), 0, f32::MIN);
        for (scored, part) in scored.iter().zip(0..) {
            for (stretch, first) in scored.within.iter() {
                for doc in stretch.clone() {
                    let local = first + doc - stretch.start;
                    let Some(score) = judge.score(scored, local as usize) else { continue };
                    total += 1;
                    if score < floor {
                        continue;
                    }
                    let place = in_part!(self, part, part => part.place(doc));
                    best.push(Candidate { score, place, part, doc, local });
                    if best.len() >= room {
                        best.select_nth_unstable_by(keep, Candidate::order);
                        best.truncate(keep);
                        floor = best.iter().map(|candidate| candidate.score).fold(f32::MAX, f32::min);
                    }
                }
            }
        }
        best.sort_unstable_by(Candidate::order);
        best.truncate(keep);
        (best, total)
    }

    /// Always the same number of the best, whatever page is asked for, so that pages fit together.
    fn rescore(&self, judge: &Judge<'_>, scored: &[Scored], best: &mut [Candidate]) -> Result<(), Error> {
        let many = best.len().min(RESCORED);
        for candidate in &mut best[..many] {
            let scored = &scored[candidate.part as usize];
            candidate.score =
                in_part!(self, candidate.part, part => judge.exact_score(part, scored, candidate)?);
        }
        best[..many].sort_unstable_by(Candidate::order);
        Ok(())
    }

    fn ask(&self, text: &str, title_only: bool, then: &Then) -> Result<Ask, Error> {
        let sequence = lex::question_terms(text);
        let mut asked = sequence.clone();
        asked.sort();
        asked.dedup();
        let mut known: Vec<(Arc<str>, i64)> = Vec::new();
        let mut terms = Vec::new();
        for term in asked {
            match then.df(self, &term)? {
                0 => {
                    for (alike, df, weight) in self.lookalikes(&term, then)? {
                        let worth = Worth::new(df as f32, weight, then.population);
                        terms.push(AskedTerm { text: alike, worth, pairs: Vec::new() });
                    }
                }
                df => {
                    let worth = Worth::new(df as f32, 1.0, then.population);
                    terms.push(AskedTerm { text: term.clone(), worth, pairs: Vec::new() });
                    known.push((term, df));
                }
            }
        }
        if !title_only {
            let df =
                |term: &Arc<str>| known.iter().find(|(known, _)| known == term).map(|(_, df)| *df as f32);
            let mut pairs: Vec<&[Arc<str>]> = sequence.windows(2).collect();
            pairs.sort();
            pairs.dedup();
            for pair in pairs {
                if let (Some(one), Some(other)) = (df(&pair[0]), df(&pair[1]))
                    && let Some(term) = terms.iter_mut().find(|term| term.text == pair[0])
                {
                    let worth = Worth::of_pair([one, other], then.population);
                    term.pairs.push((link_to(&pair[1]), worth));
                }
            }
        }
        let tokens = embed::tokens(text);
        let vector =
            embed::question_vector(&tokens, &[&self.counts, &self.tail.counts, &then.counts]).to_vec();
        Ok(Ask { title_only, terms, quantised: Quantised::new(&vector), vector })
    }

    /// For a word that nobody uses, up to three that look like it, each with how many texts have it and its weight.
    fn lookalikes(&self, term: &str, then: &Then) -> Result<Vec<(Arc<str>, i64, f32)>, Error> {
        const CHARS_MIN: usize = 4;
        const DICE_MIN: f32 = 0.45;
        const MANY: usize = 3;
        const WEIGHT: f32 = 0.9;
        if term.chars().count() < CHARS_MIN {
            return Ok(Vec::new());
        }
        let (asked, bits) = (trigrams(term), trigram_bits(term));
        // What looks alike shares trigrams, and shared trigrams are shared bits; a few may fall on one bit.
        let bits_min = (DICE_MIN * asked.len() as f32 / 2.0) as u32;
        let mut alike: Vec<(f32, Arc<str>)> = Vec::new();
        let mut look = |known: &str, known_bits: u64| {
            let near = known.len().abs_diff(term.len()) <= 2 && known.len() >= CHARS_MIN;
            if near && (known_bits & bits).count_ones() >= bits_min && !known.starts_with(LABEL) {
                let dice = dice(&asked, &trigrams(known));
                if dice >= DICE_MIN {
                    alike.push((dice, known.into()));
                }
            }
        };
        self.segments.iter().for_each(|segment| segment.each_term(&mut look));
        self.tail.each_term(&mut look);
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        alike.dedup();
        let mut found = Vec::new();
        for (dice, known) in alike {
            let df = then.df(self, &known)?;
            if df > 0 && found.len() < MANY {
                found.push((known, df, WEIGHT * dice));
            }
        }
        Ok(found)
    }

    fn matched(&self, asks: &[Ask], candidate: &Candidate) -> Result<Vec<String>, Error> {
        let here = Stretches::new(vec![candidate.doc..candidate.doc + 1]);
        let mut matched = Vec::new();
        for ask in asks {
            for asked in &ask.terms {
                let mut has = false;
                in_part!(self, candidate.part, part => {
                    if let Some(term) = part.term(&asked.text) {
                        part.postings(&term, &here, &mut |_, frequency, _| {
                            has |= counted(frequency, ask.title_only) > 0;
                        })?;
                    }
                });
                if has {
                    matched.push(asked.text.to_string());
                }
            }
        }
        matched.sort();
        matched.dedup();
        Ok(matched)
    }
}

/// Turns what is known of a text into a score.
struct Judge<'a> {
    asks: &'a [Ask],
    fusions: &'a [Fusion],
    by: By,
    by_meaning: bool,
}

impl Judge<'_> {
    /// None when it is no match.
    fn score(&self, scored: &Scored, local: usize) -> Option<f32> {
        let mut sum = 0.0;
        for ((ask, fusion), (lexical, cosines)) in self.asks.iter().zip(self.fusions).zip(&scored.sides) {
            let (lexical, cosine) = (lexical[local], cosines[local]);
            let means_the_same = self.by_meaning && !ask.title_only && cosine >= DENSE_FLOOR;
            let matches = cosine != HIDDEN && (lexical > 0.0 || means_the_same || self.by == By::Meaning);
            if !matches {
                return None;
            }
            sum += fusion.total(lexical, cosine);
        }
        match self.asks.len() {
            0 => (scored.sides[0].1[local] != HIDDEN).then_some(0.0),
            sides => Some(sum / sides as f32),
        }
    }

    fn exact_score(&self, part: &impl Part, scored: &Scored, candidate: &Candidate) -> Result<f32, Error> {
        let mut sum = 0.0;
        for ((ask, fusion), (lexical, _)) in self.asks.iter().zip(self.fusions).zip(&scored.sides) {
            let cosine = part.exact_cosine(candidate.doc, &ask.vector)?;
            sum += fusion.total(lexical[candidate.local as usize], cosine);
        }
        Ok(sum / self.asks.len().max(1) as f32)
    }

    /// The words' and the meaning's share of a score.
    fn parts(&self, part: &impl Part, scored: &Scored, candidate: &Candidate) -> Result<(f32, f32), Error> {
        let (mut words, mut meaning) = (0.0, 0.0);
        for ((ask, fusion), (lexical, _)) in self.asks.iter().zip(self.fusions).zip(&scored.sides) {
            words += fusion.lexical(lexical[candidate.local as usize]);
            if self.by_meaning {
                meaning += fusion.dense(part.exact_cosine(candidate.doc, &ask.vector)?);
            }
        }
        let sides = self.asks.len().max(1) as f32;
        Ok((words / sides, meaning / sides))
    }
}

fn score(part: &impl Part, question: &Question<'_>, asks: &[Ask]) -> Result<Scored, Error> {
    let within = part.stretches(&question.sight);
    let many = within.many as usize;
    let mut hidden = vec![false; many];
    part.hidden(&question.sight, &within, &mut |local| hidden[local as usize] = true)?;
    hide_unlabelled(part, question.sight.labels, &within, &mut hidden)?;
    let mut has_vectors = true;
    let mut sides = Vec::with_capacity(asks.len());
    for ask in asks {
        let mut lexical = vec![0.0; many];
        if question.by != By::Meaning {
            score_words(part, ask, &within, &mut lexical)?;
        }
        let mut cosines = vec![0.0; many];
        if question.by != By::Words {
            has_vectors &= part.cosines(&within, &ask.quantised, &mut cosines)?;
        }
        sides.push((lexical, cosines));
    }
    if asks.is_empty() {
        sides.push((Vec::new(), vec![0.0; many]));
    }
    for (_, cosines) in &mut sides {
        cosines
            .iter_mut()
            .zip(&hidden)
            .filter(|(_, hidden)| **hidden)
            .for_each(|(cosine, _)| *cosine = HIDDEN);
    }
    Ok(Scored { within, sides, has_vectors })
}

fn score_words(part: &impl Part, ask: &Ask, within: &Stretches, lexical: &mut [f32]) -> Result<(), Error> {
    let lengths: Vec<u32> =
        within.docs.iter().flat_map(|docs| docs.clone()).map(|doc| part.length(doc)).collect();
    for asked in &ask.terms {
        let Some(term) = part.term(&asked.text) else { continue };
        part.postings(&term, within, &mut |local, frequency, links| {
            let often = counted(frequency, ask.title_only);
            if often > 0 {
                let length = lengths[local as usize];
                let score = &mut lexical[local as usize];
                *score += asked.worth.of(often as f32, length);
                for (link, worth) in &asked.pairs {
                    let often = count_links(links, *link);
                    if often > 0 {
                        *score += worth.of(often as f32, length);
                    }
                }
            }
        })?;
    }
    Ok(())
}

fn hide_unlabelled(
    part: &impl Part,
    labels: &[String],
    within: &Stretches,
    hidden: &mut [bool],
) -> Result<(), Error> {
    for label in labels {
        let mut has = vec![false; hidden.len()];
        if let Some(term) = part.term(&label_term(label)) {
            part.postings(&term, within, &mut |local, _, _| has[local as usize] = true)?;
        }
        hidden.iter_mut().zip(has).for_each(|(hidden, has)| *hidden |= !has);
    }
    Ok(())
}

/// The counts of the moment for which a question is asked: those of today, less what came since, and with what went.
struct Then {
    population: Population,
    /// What has to be added to the counts of today.
    counts: embed::TokenCounts,
    /// Of each part; empty when the question is for today.
    drifts: Vec<Drift>,
}

impl Then {
    fn new(index: &Index, at: u64) -> Result<Then, Error> {
        let mut population = index.population.plus(index.tail.population);
        let mut counts = embed::TokenCounts::default();
        let mut drifts = Vec::new();
        if at < index.newest() {
            for number in 0..=index.segments.len() as u32 {
                in_part!(index, number, part => {
                    let drift = part.drift(at)?;
                    for (docs, times) in [(&drift.came, -1), (&drift.went, 1)] {
                        for doc in docs {
                            population.add(part.length(*doc), i64::from(times));
                            part.tokens(*doc, &mut |tokens| counts.add(tokens.iter().copied(), times))?;
                        }
                    }
                    drifts.push(drift);
                });
            }
        }
        Ok(Then { population, counts, drifts })
    }

    /// How many texts had the term.
    fn df(&self, index: &Index, text: &str) -> Result<i64, Error> {
        let mut df = 0;
        for number in 0..=index.segments.len() as u32 {
            in_part!(index, number, part => {
                let Some(term) = part.term(text) else { continue };
                df += i64::from(term.live);
                let Some(drift) = self.drifts.get(number as usize) else { continue };
                if drift.came.is_empty() && drift.went.is_empty() {
                    continue;
                }
                part.postings(&term, &part.whole(), &mut |doc, _, _| {
                    df += i64::from(drift.went.binary_search(&doc).is_ok());
                    df -= i64::from(drift.came.binary_search(&doc).is_ok());
                })?;
            });
        }
        Ok(df)
    }
}
