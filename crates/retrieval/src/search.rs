//! Answering a question. Whatever the parts are, each text is scored by the same function from the same numbers, in
//! the same order of additions, so an answer depends on the texts alone and not on where they lie.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use crate::document::{LABEL, label_term};
use crate::embed;
use crate::error::Error;
use crate::evidence::Rarity;
use crate::index::Index;
use crate::lanes::{count_above, largest};
use crate::lex;
use crate::part::{Doc, Drift, Part, Place, Sight, Stretches, Term};
use crate::postings::{Link, count_links, link_to};
use crate::score::{
    Fusion, HIDDEN, Population, RELEVANT, RELEVANT_BY_WORDS, Spread, TITLE_SHARE, Worth, counted,
};
use crate::trigrams::{dice, trigram_bits, trigrams};
use crate::vectors::Quantised;

/// How many of the best are compared a second time, with all that is known of their vectors.
const RESCORED: usize = 20;
/// The score of what does not match.
const NO_MATCH: f32 = -1.0;
/// So many texts at a time: what is counted for them fits into the second cache of a processor. Tests share out what
/// little they have.
const SHARE: u32 = if cfg!(debug_assertions) { 5 } else { 131_072 };
/// So many texts are worth another thread.
const THREAD_MIN: u32 = if cfg!(debug_assertions) { 8 } else { 65_536 };
/// So many texts are scored together.
const BLOCK: usize = 128;

pub struct Question<'a> {
    /// Words sought in the title.
    pub title: Option<&'a str>,
    /// Words sought anywhere, and their meaning. Both must hold when both are given, and count the same.
    pub text: Option<&'a str>,
    pub sight: Sight<'a>,
    pub by: By,
    /// Takes the words as they stand: identifiers whole, and no lookalike for a word that nobody uses.
    pub as_written: bool,
    /// How much of the question a match has at least.
    pub least: Least,
    /// Whether hits say why they match.
    pub explain: bool,
}

/// How much of a question something must have to be a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Least {
    /// A term of it, or a meaning that is near enough.
    #[default]
    Some,
    /// Half of its weight in words, or a meaning that is near enough for a long text.
    Half,
    /// So much of both together that it is about the same matter.
    Relevant,
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
    /// If the question asked for it, and there was anything to rank by.
    pub why: Option<Why>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Relative to the best of all hits, as they enter the score.
    pub lexical: f32,
    pub dense: f32,
    /// The terms of the question that it has.
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
    /// Where each part has it.
    found: Vec<Option<Term>>,
    worth: Worth,
    /// How much of the question a text has that has this term, from 0 to 1.
    share: f32,
    /// What comes after it in the question.
    pairs: Vec<(Link, Worth)>,
}

/// What the sides of a question say about some texts of one part.
struct Scored {
    part: u32,
    within: Stretches,
    sides: Vec<Side>,
    has_vectors: bool,
}

impl Scored {
    /// All local numbers, some at a time.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let many = self.within.many as usize;
        (0..many).step_by(BLOCK).map(move |start| start..many.min(start + BLOCK))
    }
}

/// By local number. What may not be seen has no words and is `HIDDEN`.
struct Side {
    lexical: Vec<f32>,
    cosines: Vec<f32>,
    /// How much of the question each has; empty unless that is asked.
    shares: Vec<f32>,
    spread: Spread,
}

/// A text that may be on the page, and the part it is in.
#[derive(Clone, Copy)]
struct Candidate {
    score: f32,
    place: Place,
    part: u32,
    /// Which of the `Scored` has it, and where.
    scored: u32,
    local: u32,
    doc: Doc,
}

impl Candidate {
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.place.cmp(&self.place))
    }
}

/// A term that looks like another: where each part has it, how many texts do, and its weight.
type Alike = (Arc<str>, Vec<Option<Term>>, i64, f32);

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
            .filter_map(|(text, title_only)| Some(self.ask(text?, title_only, question, &then)))
            .collect::<Result<Vec<Ask>, Error>>()?;
        let mut scored = self.score_all(question, &asks)?;
        let has_vectors = scored.iter().all(|scored| scored.has_vectors);
        if !has_vectors {
            let cosines =
                scored.iter_mut().flat_map(|scored| &mut scored.sides).flat_map(|side| &mut side.cosines);
            cosines.filter(|cosine| **cosine != HIDDEN).for_each(|cosine| *cosine = 0.0);
        }
        let by_meaning = question.by != By::Words && has_vectors;
        let fusions = (0..asks.len())
            .map(|side| self.fusion(&asks[side], side, &scored, by_meaning))
            .collect::<Result<Vec<Fusion>, Error>>()?;
        let judge = Judge {
            asks: &asks,
            fusions: &fusions,
            by: question.by,
            by_meaning,
            least: question.least,
            floor: match question.least {
                Least::Half => self.embedder.floor_of_many(),
                _ => self.embedder.floor(),
            },
        };
        let (mut best, total) = self.candidates(&judge, &scored, page.end);
        if by_meaning {
            self.rescore(&judge, &scored, &mut best)?;
        }
        let page = page.start.min(best.len() as u64) as usize..page.end.min(best.len() as u64) as usize;
        let mut hits = Vec::with_capacity(page.len());
        for candidate in &best[page] {
            hits.push(self.hit(&judge, &scored, candidate, question.explain)?);
        }
        Ok(Results { hits, total, is_degraded: question.by != By::Words && !has_vectors })
    }

    /// Everything that may be seen, in shares whose scores stay near the processor, and on several threads where
    /// there is much.
    fn score_all(&self, question: &Question<'_>, asks: &[Ask]) -> Result<Vec<Scored>, Error> {
        static THREADS: LazyLock<usize> =
            LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        let mut shares = Vec::new();
        for number in 0..=self.segments.len() as u32 {
            let within = in_part!(self, number, part => part.stretches(&question.sight));
            let many = within.many.div_ceil(SHARE);
            shares.extend(within.shares(many).into_iter().map(|within| (number, within)));
        }
        let score = |(number, within): (u32, Stretches)| in_part!(self, number, part => score(part, number, within, question, asks));
        let many: u32 = shares.iter().map(|(_, within)| within.many).sum();
        // Words alone take less time than it takes to share them out.
        if question.by == By::Words || many < THREAD_MIN || *THREADS == 1 {
            return shares.into_iter().map(score).collect();
        }
        let mut each: Vec<Vec<_>> = (0..*THREADS).map(|_| Vec::new()).collect();
        for share in shares {
            // To whom has the least.
            let burden =
                |shares: &Vec<(u32, Stretches)>| shares.iter().map(|share| share.1.many).sum::<u32>();
            let least = (0..each.len()).min_by_key(|at| burden(&each[*at])).unwrap_or(0);
            each[least].push(share);
        }
        std::thread::scope(|scope| {
            let own = each.swap_remove(0);
            let started: Vec<_> = each
                .into_iter()
                .map(|shares| {
                    scope.spawn(move || shares.into_iter().map(score).collect::<Result<Vec<_>, _>>())
                })
                .collect();
            let mut scored = own.into_iter().map(score).collect::<Result<Vec<Scored>, Error>>()?;
            for thread in started {
                scored.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(scored)
        })
    }

    /// What is usual among all that one side of the question may see.
    fn fusion(&self, ask: &Ask, side: usize, scored: &[Scored], by_meaning: bool) -> Result<Fusion, Error> {
        let spreads = scored.iter().map(|scored| scored.sides[side].spread);
        let spread = spreads.fold(Spread::NONE, Spread::plus);
        if !by_meaning || spread.nearest == HIDDEN {
            return Ok(spread.fusion(0.0, by_meaning));
        }
        // The nearest, the newest of equals: what lies where must not decide.
        let mut nearest: Option<(Place, u32, Doc)> = None;
        for scored in scored {
            let number = scored.part;
            for (stretch, first) in scored.within.iter() {
                let cosines = &scored.sides[side].cosines[first as usize..][..stretch.len()];
                for (doc, _) in stretch.clone().zip(cosines).filter(|(_, cosine)| **cosine == spread.nearest)
                {
                    let place = in_part!(self, number, part => part.place(doc));
                    nearest = nearest.max(Some((place, number, doc)));
                }
            }
        }
        let exact = match nearest {
            Some((_, number, doc)) => in_part!(self, number, part => part.exact_cosine(doc, &ask.vector)?),
            None => 0.0,
        };
        Ok(spread.fusion(exact, by_meaning))
    }

    /// The best of all, enough of them for the page and for a second look, and how many matches there are.
    fn candidates(&self, judge: &Judge<'_>, scored: &[Scored], wanted: u64) -> (Vec<Candidate>, u64) {
        let keep = usize::try_from(wanted).unwrap_or(usize::MAX).max(RESCORED);
        let mut buffer = [0.0; BLOCK];
        let mut total = 0;
        // The best of each block. As many as are wanted of these are a bar that the wanted ones all reach.
        let mut bests: Vec<f32> = Vec::new();
        for scored in scored {
            for locals in scored.blocks() {
                let (scores, bar) = judge.scores(scored, locals, &mut buffer);
                total += count_above(scores, bar);
                bests.push(largest(scores, NO_MATCH));
            }
        }
        let mut floor = NO_MATCH;
        if keep < bests.len() {
            floor = *bests.clone().select_nth_unstable_by(keep - 1, |a, b| b.total_cmp(a)).1;
        }
        let mut best = Vec::new();
        let mut bests = bests.into_iter();
        for (number, scored) in scored.iter().enumerate() {
            for locals in scored.blocks() {
                if bests.next().is_none_or(|best| best < floor) {
                    continue;
                }
                let first = locals.start;
                let (scores, bar) = judge.scores(scored, locals, &mut buffer);
                for (at, score) in
                    scores.iter().enumerate().filter(|(_, score)| **score > bar && **score >= floor)
                {
                    let local = (first + at) as u32;
                    let doc = scored.within.doc(local);
                    let place = in_part!(self, scored.part, part => part.place(doc));
                    best.push(Candidate {
                        score: *score,
                        place,
                        scored: number as u32,
                        local,
                        part: scored.part,
                        doc,
                    });
                }
            }
        }
        best.sort_unstable_by(Candidate::order);
        best.truncate(keep);
        if judge.is_by_words() {
            best.iter_mut().for_each(|found| found.score = judge.fusions[0].total(found.score, 0.0));
        }
        (best, total)
    }

    /// Always the same number of the best, whatever page is asked for, so that pages fit together.
    fn rescore(&self, judge: &Judge<'_>, scored: &[Scored], best: &mut [Candidate]) -> Result<(), Error> {
        let many = best.len().min(RESCORED);
        for candidate in &mut best[..many] {
            candidate.score = self.shares(judge, scored, candidate)?.iter().map(|share| share.2).sum::<f32>()
                / judge.asks.len().max(1) as f32;
        }
        best[..many].sort_unstable_by(Candidate::order);
        Ok(())
    }

    /// For each side of the question the words' share, the meaning's, and the score that they make.
    fn shares(
        &self,
        judge: &Judge<'_>,
        scored: &[Scored],
        candidate: &Candidate,
    ) -> Result<Vec<(f32, f32, f32)>, Error> {
        let sides = &scored[candidate.scored as usize].sides;
        let mut shares = Vec::with_capacity(judge.asks.len());
        for ((ask, fusion), side) in judge.asks.iter().zip(judge.fusions).zip(sides) {
            let lexical = side.lexical.get(candidate.local as usize).copied().unwrap_or(0.0);
            let cosine = match judge.by_meaning {
                true => {
                    in_part!(self, candidate.part, part => part.exact_cosine(candidate.doc, &ask.vector)?)
                }
                false => 0.0,
            };
            shares.push((fusion.lexical(lexical), fusion.dense(cosine), fusion.total(lexical, cosine)));
        }
        Ok(shares)
    }

    fn hit(
        &self,
        judge: &Judge<'_>,
        scored: &[Scored],
        candidate: &Candidate,
        explain: bool,
    ) -> Result<Hit, Error> {
        let key = in_part!(self, candidate.part, part => part.key(candidate.doc));
        let hit = Hit { place: candidate.place, key, score: candidate.score, why: None };
        if !explain || judge.asks.is_empty() {
            return Ok(hit);
        }
        let shares = self.shares(judge, scored, candidate)?;
        let mean =
            |share: fn(&(f32, f32, f32)) -> f32| shares.iter().map(share).sum::<f32>() / shares.len() as f32;
        let matched = self.matched(judge.asks, candidate)?;
        Ok(Hit {
            why: Some(Why { lexical: mean(|share| share.0), dense: mean(|share| share.1), matched }),
            ..hit
        })
    }

    fn ask(&self, text: &str, title_only: bool, question: &Question<'_>, then: &Then) -> Result<Ask, Error> {
        let sequence = match question.as_written {
            true => lex::written_terms(text),
            false => lex::question_terms(text),
        };
        let mut asked = sequence.clone();
        asked.sort();
        asked.dedup();
        let mut known: Vec<(Arc<str>, i64)> = Vec::new();
        let mut terms = Vec::new();
        let mut weight = 0.0;
        for term in asked {
            let found = self.find(&term);
            let df = then.df(self, &found)?;
            let share = then.population.rarity(df as f32);
            weight += share;
            match df {
                0 if question.as_written => {}
                0 => {
                    for (text, found, df, likeness) in self.lookalikes(&term, then)? {
                        let worth = Worth::new(df as f32, likeness, then.population);
                        terms.push(AskedTerm {
                            text,
                            found,
                            worth,
                            share: likeness * share,
                            pairs: Vec::new(),
                        });
                    }
                }
                df => {
                    let worth = Worth::new(df as f32, 1.0, then.population);
                    terms.push(AskedTerm { text: term.clone(), found, worth, share, pairs: Vec::new() });
                    known.push((term, df));
                }
            }
        }
        terms.iter_mut().for_each(|term| term.share /= weight);
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
        let vector = match question.by {
            By::Words => Vec::new(),
            _ => self.embedder.question(text, &[&self.counts, &self.tail.counts, &then.counts])?,
        };
        Ok(Ask { title_only, terms, quantised: Quantised::new(&vector), vector })
    }

    /// The terms of a question, each once, and how rare each is at a moment; the rarest is what nobody uses.
    pub fn rarities(&self, text: &str, at: u64) -> Result<Vec<Rarity>, Error> {
        let then = Then::new(self, at)?;
        let mut terms = lex::question_terms(text);
        terms.sort();
        terms.dedup();
        let rarity = |term: Arc<str>| {
            let df = then.df(self, &self.find(&term))?;
            Ok(Rarity { term, idf: then.population.idf(df as f32) })
        };
        terms.into_iter().map(rarity).collect()
    }

    /// For a word that nobody uses, up to three that look like it, each with how many texts have it and its weight.
    fn lookalikes(&self, term: &str, then: &Then) -> Result<Vec<Alike>, Error> {
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
            let places = self.find(&known);
            let df = then.df(self, &places)?;
            if df > 0 && found.len() < MANY {
                found.push((known, places, df, WEIGHT * dice));
            }
        }
        Ok(found)
    }

    /// Where each part has a term.
    fn find(&self, text: &str) -> Vec<Option<Term>> {
        let segments = self.segments.iter().map(|segment| segment.term(text));
        segments.chain([self.tail.term(text)]).collect()
    }

    fn matched(&self, asks: &[Ask], candidate: &Candidate) -> Result<Vec<String>, Error> {
        let here = Stretches::one(candidate.doc..candidate.doc + 1);
        let mut matched = Vec::new();
        for ask in asks {
            for asked in &ask.terms {
                let mut has = false;
                if let Some(term) = &asked.found[candidate.part as usize] {
                    in_part!(self, candidate.part, part => {
                        part.postings(term, &here, false, &mut |_, _, frequency, _| {
                            has |= counted(frequency, ask.title_only) > 0;
                        })?;
                    });
                }
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

/// Turns what is known of texts into scores.
struct Judge<'a> {
    asks: &'a [Ask],
    fusions: &'a [Fusion],
    by: By,
    by_meaning: bool,
    least: Least,
    /// As near as this is a match.
    floor: f32,
}

impl Judge<'_> {
    /// Then the order is that of the words' scores as they stand.
    fn is_by_words(&self) -> bool {
        self.by == By::Words && self.asks.len() == 1 && self.least == Least::Some
    }

    /// The score of each of these texts, and above which they match.
    fn scores<'a>(
        &self,
        scored: &'a Scored,
        locals: Range<usize>,
        buffer: &'a mut [f32],
    ) -> (&'a [f32], f32) {
        if self.is_by_words() {
            return (&scored.sides[0].lexical[locals], 0.0);
        }
        let buffer = &mut buffer[..locals.len()];
        self.score(scored, locals, buffer);
        (buffer, NO_MATCH)
    }

    /// The score of each of these texts, or `NO_MATCH`.
    fn score(&self, scored: &Scored, locals: Range<usize>, out: &mut [f32]) {
        match self.asks.len() {
            0 => {
                let cosines = &scored.sides[0].cosines[locals];
                out.iter_mut()
                    .zip(cosines)
                    .for_each(|(out, cosine)| *out = if *cosine == HIDDEN { NO_MATCH } else { 0.0 });
            }
            1 => self.score_side(0, scored, locals, out),
            sides => {
                let mut other = [0.0; BLOCK];
                self.score_side(0, scored, locals.clone(), out);
                for side in 1..sides {
                    let other = &mut other[..out.len()];
                    self.score_side(side, scored, locals.clone(), other);
                    for (out, other) in out.iter_mut().zip(other) {
                        *out = if *out >= 0.0 && *other >= 0.0 { *out + *other } else { NO_MATCH };
                    }
                }
                out.iter_mut().filter(|out| **out >= 0.0).for_each(|out| *out /= sides as f32);
            }
        }
    }

    fn score_side(&self, side: usize, scored: &Scored, locals: Range<usize>, out: &mut [f32]) {
        let (fusion, Side { lexical, cosines, shares, .. }) = (&self.fusions[side], &scored.sides[side]);
        if self.least != Least::Some {
            for (local, out) in locals.zip(out) {
                let (lexical, cosine) = (lexical[local], cosines.get(local).copied().unwrap_or(0.0));
                let by_meaning = self.by_meaning && !self.asks[side].title_only;
                let is_enough = match (self.least, by_meaning) {
                    (Least::Relevant, true) => shares[local] + cosine >= RELEVANT,
                    (Least::Half, true) => shares[local] >= RELEVANT_BY_WORDS || cosine >= self.floor,
                    (_, false) => shares[local] >= RELEVANT_BY_WORDS,
                    (Least::Some, true) => true,
                };
                *out = if is_enough { fusion.total(lexical, cosine) } else { NO_MATCH };
            }
            return;
        }
        let floor = match self.by {
            By::Meaning => -1.5,
            _ if self.by_meaning && !self.asks[side].title_only => self.floor,
            _ => f32::MAX,
        };
        match (lexical.is_empty(), cosines.is_empty()) {
            (false, true) => {
                for (out, lexical) in out.iter_mut().zip(&lexical[locals]) {
                    *out = if *lexical > 0.0 { fusion.total(*lexical, 0.0) } else { NO_MATCH };
                }
            }
            (true, _) => {
                for (out, cosine) in out.iter_mut().zip(&cosines[locals]) {
                    *out = if *cosine >= floor { fusion.total(0.0, *cosine) } else { NO_MATCH };
                }
            }
            (false, false) => {
                for ((out, lexical), cosine) in
                    out.iter_mut().zip(&lexical[locals.clone()]).zip(&cosines[locals])
                {
                    let matches = (*lexical > 0.0) | (*cosine >= floor);
                    *out = if matches { fusion.total(*lexical, *cosine) } else { NO_MATCH };
                }
            }
        }
    }
}

fn score(
    part: &impl Part,
    number: u32,
    within: Stretches,
    question: &Question<'_>,
    asks: &[Ask],
) -> Result<Scored, Error> {
    let many = within.many as usize;
    let mut hidden = Vec::new();
    part.hidden(&question.sight, &within, &mut |local| hidden.push(local))?;
    hide_unlabelled(part, question.sight.labels, &within, &mut hidden)?;
    let mut has_vectors = true;
    let mut sides = Vec::with_capacity(asks.len());
    for ask in asks {
        let (mut lexical, mut cosines, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        if question.by != By::Meaning || question.least != Least::Some {
            lexical = vec![0.0; many];
            shares = vec![0.0; if question.least == Least::Some { 0 } else { many }];
            score_words(part, number, ask, &within, &mut lexical, &mut shares)?;
        }
        if question.by != By::Words {
            cosines = vec![0.0; many];
            has_vectors &= part.cosines(&within, &ask.quantised, &mut cosines)?;
        }
        sides.push(Side { lexical, cosines, shares, spread: Spread::NONE });
    }
    if asks.is_empty() {
        let (lexical, shares) = (Vec::new(), Vec::new());
        sides.push(Side { lexical, cosines: vec![0.0; many], shares, spread: Spread::NONE });
    }
    for Side { lexical, cosines, shares, spread } in &mut sides {
        for local in &hidden {
            lexical.get_mut(*local as usize).into_iter().for_each(|score| *score = 0.0);
            shares.get_mut(*local as usize).into_iter().for_each(|share| *share = 0.0);
            cosines.get_mut(*local as usize).into_iter().for_each(|cosine| *cosine = HIDDEN);
        }
        *spread = Spread::of(lexical, cosines);
    }
    Ok(Scored { part: number, within, sides, has_vectors })
}

fn score_words(
    part: &impl Part,
    number: u32,
    ask: &Ask,
    within: &Stretches,
    lexical: &mut [f32],
    shares: &mut [f32],
) -> Result<(), Error> {
    for asked in &ask.terms {
        let Some(term) = &asked.found[number as usize] else { continue };
        part.postings(term, within, !asked.pairs.is_empty(), &mut |local, doc, frequency, links| {
            let often = counted(frequency, ask.title_only);
            if often > 0 {
                let length = part.length(doc);
                let mut score = asked.worth.of(often as f32, length);
                for (link, worth) in &asked.pairs {
                    let often = count_links(links, *link);
                    if often > 0 {
                        score += worth.of(often as f32, length);
                    }
                }
                lexical[local as usize] += score;
                if let Some(of) = shares.get_mut(local as usize) {
                    *of += if frequency.title() > 0 { TITLE_SHARE * asked.share } else { asked.share };
                }
            }
        })?;
    }
    Ok(())
}

fn hide_unlabelled(
    part: &impl Part,
    labels: &[Vec<String>],
    within: &Stretches,
    hidden: &mut Vec<u32>,
) -> Result<(), Error> {
    for alternatives in labels {
        let mut has = vec![false; within.many as usize];
        for label in alternatives {
            if let Some(term) = part.term(&label_term(label)) {
                part.postings(&term, within, false, &mut |local, _, _, _| has[local as usize] = true)?;
            }
        }
        hidden.extend(has.iter().zip(0..).filter(|(has, _)| !**has).map(|(_, local)| local));
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

    /// How many texts had a term that each part has there.
    fn df(&self, index: &Index, found: &[Option<Term>]) -> Result<i64, Error> {
        let mut df = 0;
        for (number, term) in found.iter().enumerate() {
            let Some(term) = term else { continue };
            df += i64::from(term.live);
            let Some(drift) = self.drifts.get(number) else { continue };
            if drift.came.is_empty() && drift.went.is_empty() {
                continue;
            }
            in_part!(index, number, part => part.postings(term, &part.whole(), false, &mut |_, doc, _, _| {
                df += i64::from(drift.went.binary_search(&doc).is_ok());
                df -= i64::from(drift.came.binary_search(&doc).is_ok());
            })?);
        }
        Ok(df)
    }
}
