//! Answering a question. Every document is scored by the same function from the same numbers, added in the same order.
//! So an answer depends on the documents alone, and not on how they are spread over segments and tail.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::Instant;

use crate::document::label_term;
use crate::error::Error;
use crate::index::Index;
use crate::lanes::{count_above, largest};
use crate::part::{Doc, DocRanges, Part, Place, Sight};
use crate::question::{PartSurvey, QuestionSide, SearchWord, Survey, Variant, VariantKind, title_share};
use crate::score::{Fusion, HALF, HIDDEN, Spread, counted};

/// How many of the best documents are compared a second time, by both bytes of their vectors.
const RESCORED: usize = 20;
/// This many of the nearest documents match even if their cosine is below the floor for all others.
const NEAREST: usize = 5;
/// The score of a document that does not match.
const NO_MATCH: f32 = -1.0;
/// How many documents are scored at a time, so that their scores fit into the second-level cache of a processor. Tests
/// have few documents, and use small shares to have several of them.
const SHARE: u32 = if cfg!(debug_assertions) { 5 } else { 131_072 };
/// So many documents are compared with all vectors that are asked together: a quarter of a megabyte, which fits into the cache.
const COMPARED_TOGETHER: u32 = if cfg!(debug_assertions) { 3 } else { 1_024 };
/// So many documents, counted once for each text, are scored together; they take up to twelve bytes each, about 48 MB in all.
const SCORES_TOGETHER: usize = if cfg!(debug_assertions) { 40 } else { 4_000_000 };
/// Below this number of documents, starting threads costs more than it saves.
const THREAD_MIN: u32 = if cfg!(debug_assertions) { 8 } else { 65_536 };
/// The best score is kept for each block of this many documents, so that most blocks are skipped when candidates are
/// collected.
const BLOCK: usize = 128;

pub struct Question<'a> {
    /// Words to find in the title. If `title` and `text` are both given, a match needs both, and they count the same.
    pub title: Option<&'a str>,
    /// Words to find anywhere, and their meaning.
    pub text: Option<&'a str>,
    pub sight: Sight<'a>,
    pub by: By,
    /// Takes the words as they are written: identifiers as a whole, no words that are spelt alike, no related words.
    pub as_written: bool,
    /// Ignores words that no document in sight has, unless the question has no others.
    pub known_words_only: bool,
    /// How much of the question a match needs.
    pub least: Least,
    /// Whether the few nearest documents match even if their cosine is below the floor for all others.
    pub with_nearest: bool,
    /// Whether hits say why they match.
    pub explain: bool,
}

/// How much of a question a document must have to be a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Least {
    /// Any term, or a meaning that is near enough.
    #[default]
    Some,
    /// Half of the question's weight in words, or a meaning that is near enough for a long document.
    Half,
}

/// What documents are ranked by.
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
    /// The cosine of the question and the document, from -1 to 1.
    pub cosine: f32,
    /// Whether the document has a word of the question that is not in nearly every document.
    pub has_word: bool,
    /// Only if the question has `explain` set and a text to rank by.
    pub why: Option<Why>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The score by words, relative to the best of all hits, as it enters the total.
    pub lexical: f32,
    /// The same for the meaning.
    pub dense: f32,
    /// The terms of the question that the document has, and the variants that it has in place of others.
    pub matched: Vec<String>,
}

/// One page of the matches, best first and the newest first among equals, and the number of all matches.
pub struct Results {
    pub hits: Vec<Hit>,
    pub total: u64,
    /// The question asks for the meaning, but some vectors are not made yet.
    pub is_degraded: bool,
    /// Whether a document without a word of the question can be judged by its meaning.
    pub is_meaningful: bool,
}

/// What one of several texts finds that are asked together.
pub struct TextResults {
    pub by_both: Results,
    /// Words count here that no document in sight has.
    pub by_meaning: Results,
}

/// The scores of some documents of one part, for each side of the question.
struct ShareScores {
    part: u32,
    within: DocRanges,
    /// The local number of the first document, among all documents in sight of the part.
    first: u32,
    sides: Vec<SideScores>,
    has_vectors: bool,
}

impl ShareScores {
    /// Takes the scores of the last side away, as those of a question with that side alone.
    fn split_last(&mut self) -> ShareScores {
        ShareScores {
            part: self.part,
            within: self.within.clone(),
            first: self.first,
            sides: self.sides.pop().into_iter().collect(),
            has_vectors: self.has_vectors,
        }
    }

    /// All local numbers, one block at a time.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let many = self.within.many as usize;
        (0..many).step_by(BLOCK).map(move |start| start..many.min(start + BLOCK))
    }
}

/// Scores by local number. A document that is not in sight has 0 for words and `HIDDEN` as its cosine.
struct SideScores {
    lexical: Vec<f32>,
    cosines: Vec<f32>,
    /// The share of the question's weight that each document has in words; empty unless a match needs it.
    shares: Vec<f32>,
    spread: Spread,
    /// The cosines with the other vector of the question, if it has one, and their spread.
    with_unknown: Option<(Vec<f32>, Spread)>,
}

impl SideScores {
    /// From here on these are scores by meaning alone.
    fn leave_meaning(&mut self) {
        self.lexical.clear();
        match self.with_unknown.take() {
            Some((cosines, spread)) => (self.cosines, self.spread) = (cosines, spread),
            None => self.spread = Spread::of(&[], &self.cosines),
        }
    }
}

/// A document that may be on the page, and the part it is in.
#[derive(Clone, Copy)]
struct Candidate {
    score: f32,
    place: Place,
    part: u32,
    /// Which of the `ShareScores` has the document, and its local number there.
    scored: u32,
    local: u32,
    doc: Doc,
}

impl Candidate {
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.place.cmp(&self.place))
    }
}

/// Runs the same code for a part of either type, a segment or the tail; the code is compiled for both.
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
pub(crate) use in_part;

impl Index {
    /// Finds every document in sight that shares a word with the question or has nearly the same meaning. A question
    /// without a text finds every document in sight, newest first.
    pub fn search(&self, question: &Question<'_>, page: Range<u64>) -> Result<Results, Error> {
        self.search_until(question, page, None)
    }

    /// As `search`, but ends with `Error::OutOfTime` soon after the deadline.
    pub fn search_until(
        &self,
        question: &Question<'_>,
        page: Range<u64>,
        deadline: Option<Instant>,
    ) -> Result<Results, Error> {
        let survey = Survey::new(self, &question.sight, deadline)?;
        let sides = [(question.title, true), (question.text, false)];
        let asks = sides
            .into_iter()
            .filter_map(|(text, title_only)| Some(self.ask(text?, title_only, question, &survey, false)))
            .collect::<Result<Vec<QuestionSide>, Error>>()?;
        let mut scored = self.score_all(question, &survey, &asks)?;
        self.results(question, &asks, &mut scored, page)
    }

    /// Answers several texts in one pass over the documents: for each, the best by words and meaning together and the best by meaning
    /// alone. The results are those of a question each; `text` and `by` of the question are ignored.
    pub fn search_texts_until(
        &self,
        texts: &[&str],
        question: &Question<'_>,
        most: u64,
        deadline: Option<Instant>,
    ) -> Result<Vec<TextResults>, Error> {
        let by_both = Question { text: None, by: By::WordsAndMeaning, ..*question };
        let by_meaning = Question { by: By::Meaning, known_words_only: false, ..by_both };
        let survey = Survey::new(self, &question.sight, deadline)?;
        let many: usize = survey.parts.iter().map(|surveyed| surveyed.within.many as usize).sum();
        let mut found = Vec::with_capacity(texts.len());
        for texts in texts.chunks((SCORES_TOGETHER / many.max(1)).max(1)) {
            let ask = |text: &&str| self.ask(text, false, &by_both, &survey, true);
            let asks = texts.iter().map(ask).collect::<Result<Vec<QuestionSide>, Error>>()?;
            let mut together = self.score_all(&by_both, &survey, &asks)?;
            // Last first, so that each takes its scores from the end.
            let mut of_texts = Vec::with_capacity(asks.len());
            for mut ask in asks.into_iter().rev() {
                survey.check_time()?;
                let mut scored: Vec<ShareScores> = together.iter_mut().map(ShareScores::split_last).collect();
                let by_both = self.results(&by_both, std::slice::from_ref(&ask), &mut scored, 0..most)?;
                scored.iter_mut().flat_map(|scored| &mut scored.sides).for_each(SideScores::leave_meaning);
                if let Some((vector, quantised)) = ask.with_unknown.take() {
                    (ask.vector, ask.quantised) = (vector, quantised);
                }
                let by_meaning =
                    self.results(&by_meaning, std::slice::from_ref(&ask), &mut scored, 0..most)?;
                of_texts.push(TextResults { by_both, by_meaning });
            }
            of_texts.reverse();
            found.append(&mut of_texts);
        }
        Ok(found)
    }

    /// One page of the documents that match, from the scores of all.
    fn results(
        &self,
        question: &Question<'_>,
        asks: &[QuestionSide],
        scored: &mut [ShareScores],
        page: Range<u64>,
    ) -> Result<Results, Error> {
        let has_vectors = scored.iter().all(|scored| scored.has_vectors);
        if !has_vectors {
            let cosines =
                scored.iter_mut().flat_map(|scored| &mut scored.sides).flat_map(|side| &mut side.cosines);
            cosines.filter(|cosine| **cosine != HIDDEN).for_each(|cosine| *cosine = 0.0);
        }
        let by_meaning = question.by != By::Words && has_vectors;
        let fusions = (0..asks.len())
            .map(|side| self.fusion(&asks[side], side, scored, by_meaning))
            .collect::<Result<Vec<Fusion>, Error>>()?;
        let judge = Judge {
            asks,
            fusions: &fusions,
            by: question.by,
            by_meaning,
            least: question.least,
            floors: (0..asks.len()).map(|side| self.floor(&asks[side], side, scored, question)).collect(),
        };
        let (mut best, total) = self.candidates(&judge, scored, page.end);
        if by_meaning {
            self.rescore(&judge, scored, &mut best)?;
        }
        let page = page.start.min(best.len() as u64) as usize..page.end.min(best.len() as u64) as usize;
        let mut hits = Vec::with_capacity(page.len());
        for candidate in &best[page] {
            hits.push(self.hit(&judge, scored, candidate, question.explain)?);
        }
        let is_degraded = question.by != By::Words && !has_vectors;
        Ok(Results { hits, total, is_degraded, is_meaningful: asks.iter().all(|ask| ask.is_meaningful) })
    }

    /// Scores all documents in sight, in shares whose scores fit into the cache, and on several threads if there are many.
    fn score_all(
        &self,
        question: &Question<'_>,
        survey: &Survey,
        asks: &[QuestionSide],
    ) -> Result<Vec<ShareScores>, Error> {
        static THREADS: LazyLock<usize> =
            LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        let mut shares = Vec::new();
        for (surveyed, number) in survey.parts.iter().zip(0..) {
            let many = surveyed.within.many.div_ceil(SHARE);
            let mut first = 0;
            for within in surveyed.within.clone().shares(many) {
                let next = first + within.many;
                shares.push(Share { part: number, surveyed, first, within });
                first = next;
            }
        }
        let score = |share: Share<'_>| {
            survey.check_time()?;
            in_part!(self, share.part, part => score(part, share, question, asks))
        };
        let many: u32 = shares.iter().map(|share| share.within.many).sum();
        // Scoring by words alone takes less time than starting threads.
        if question.by == By::Words || many < THREAD_MIN || *THREADS == 1 {
            return shares.into_iter().map(score).collect();
        }
        let mut each: Vec<Vec<_>> = (0..*THREADS).map(|_| Vec::new()).collect();
        for share in shares {
            // Each share goes to the thread that has the fewest documents so far.
            let burden = |shares: &Vec<Share<'_>>| shares.iter().map(|share| share.within.many).sum::<u32>();
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
            let mut scored = own.into_iter().map(score).collect::<Result<Vec<ShareScores>, Error>>()?;
            for thread in started {
                scored.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(scored)
        })
    }

    /// The cosine from which on a document matches by its meaning: what the embedder says, or less for the few nearest.
    fn floor(&self, ask: &QuestionSide, side: usize, scored: &[ShareScores], question: &Question<'_>) -> f32 {
        if !ask.is_meaningful {
            return f32::MAX;
        }
        match question.least {
            Least::Half => self.embedder.floor_of_many(),
            Least::Some if !question.with_nearest => self.embedder.floor(),
            Least::Some => {
                let nearest = nearest(scored.iter().map(|scored| &scored.sides[side].cosines[..]));
                self.embedder.floor().min(nearest.max(self.embedder.floor_of_nearest()))
            }
        }
    }

    /// How the scores of one side are combined, from the statistics over all documents in sight.
    fn fusion(
        &self,
        ask: &QuestionSide,
        side: usize,
        scored: &[ShareScores],
        by_meaning: bool,
    ) -> Result<Fusion, Error> {
        let spreads = scored.iter().map(|scored| scored.sides[side].spread);
        let spread = spreads.fold(Spread::NONE, Spread::plus);
        if !by_meaning || spread.nearest == HIDDEN {
            return Ok(spread.fusion(0.0, by_meaning, ask.weight));
        }
        // Among equally near documents the newest is taken, so that the result does not depend on their parts.
        let mut nearest: Option<(Place, u32, Doc)> = None;
        for scored in scored {
            let number = scored.part;
            for (range, first) in scored.within.iter() {
                let cosines = &scored.sides[side].cosines[first as usize..][..range.len()];
                for (doc, _) in range.clone().zip(cosines).filter(|(_, cosine)| **cosine == spread.nearest) {
                    let place = in_part!(self, number, part => part.place(doc));
                    nearest = nearest.max(Some((place, number, doc)));
                }
            }
        }
        let exact = match nearest {
            Some((_, number, doc)) => in_part!(self, number, part => part.exact_cosine(doc, &ask.vector)?),
            None => 0.0,
        };
        Ok(spread.fusion(exact, by_meaning, ask.weight))
    }

    /// The best documents, enough for the page and for the second comparison, and the number of all matches.
    fn candidates(&self, judge: &Judge<'_>, scored: &[ShareScores], wanted: u64) -> (Vec<Candidate>, u64) {
        let keep = usize::try_from(wanted).unwrap_or(usize::MAX).max(RESCORED);
        let mut buffer = [0.0; BLOCK];
        let mut total = 0;
        // The best score of each block. The `keep`-th largest of these is a floor that all wanted documents reach, since
        // `keep` blocks each have a document that is at least as good.
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

    /// Compares the best documents again by their exact cosines. Their number does not depend on the page, so that pages
    /// neither repeat nor skip a document.
    fn rescore(
        &self,
        judge: &Judge<'_>,
        scored: &[ShareScores],
        best: &mut [Candidate],
    ) -> Result<(), Error> {
        let many = best.len().min(RESCORED);
        for candidate in &mut best[..many] {
            candidate.score = self.shares(judge, scored, candidate)?.iter().map(|share| share.2).sum::<f32>()
                / judge.asks.len().max(1) as f32;
        }
        best[..many].sort_unstable_by(Candidate::order);
        Ok(())
    }

    /// For each side of the question: the score by words, the score by meaning, and the total.
    fn shares(
        &self,
        judge: &Judge<'_>,
        scored: &[ShareScores],
        candidate: &Candidate,
    ) -> Result<Vec<(f32, f32, f32)>, Error> {
        let sides = &scored[candidate.scored as usize].sides;
        let mut shares = Vec::with_capacity(judge.asks.len());
        for ((ask, fusion), side) in judge.asks.iter().zip(judge.fusions).zip(sides) {
            let lexical = side.lexical.get(candidate.local as usize).copied().unwrap_or(0.0);
            let cosine = if judge.by_meaning {
                in_part!(self, candidate.part, part => part.exact_cosine(candidate.doc, &ask.vector)?)
            } else {
                0.0
            };
            shares.push((fusion.lexical(lexical), fusion.dense(cosine), fusion.total(lexical, cosine)));
        }
        Ok(shares)
    }

    fn hit(
        &self,
        judge: &Judge<'_>,
        scored: &[ShareScores],
        candidate: &Candidate,
        explain: bool,
    ) -> Result<Hit, Error> {
        let key = in_part!(self, candidate.part, part => part.key(candidate.doc));
        let scored_here = &scored[candidate.scored as usize];
        let cosines = scored_here.sides.last().map_or(&[][..], |side| &side.cosines);
        let cosine = cosines.get(candidate.local as usize).copied().unwrap_or(0.0);
        let has_word =
            judge.asks.iter().any(|ask| ask.has_word(candidate.part, scored_here.first + candidate.local));
        let (place, score) = (candidate.place, candidate.score);
        let hit = Hit { place, key, score, cosine, has_word, why: None };
        if !explain || judge.asks.is_empty() {
            return Ok(hit);
        }
        let shares = self.shares(judge, scored, candidate)?;
        let mean =
            |share: fn(&(f32, f32, f32)) -> f32| shares.iter().map(share).sum::<f32>() / shares.len() as f32;
        let matched = matched(judge.asks, candidate.part, scored_here.first + candidate.local);
        Ok(Hit {
            why: Some(Why { lexical: mean(|share| share.0), dense: mean(|share| share.1), matched }),
            ..hit
        })
    }
}

/// The cosine of the last of the `NEAREST` documents; `HIDDEN` if there are fewer.
fn nearest<'a>(cosines: impl Iterator<Item = &'a [f32]>) -> f32 {
    let mut best = [HIDDEN; NEAREST];
    for block in cosines.flat_map(|cosines| cosines.chunks(BLOCK)) {
        // Most blocks have no document that is near enough.
        if largest(block, HIDDEN) <= best[NEAREST - 1] {
            continue;
        }
        for cosine in block.iter().filter(|cosine| **cosine > HIDDEN) {
            if *cosine > best[NEAREST - 1] {
                best[NEAREST - 1] = *cosine;
                best.sort_unstable_by(|a, b| b.total_cmp(a));
            }
        }
    }
    best[NEAREST - 1]
}

/// The terms of a question that a document has, or the variants that it has in their place.
fn matched(asks: &[QuestionSide], part: u32, local: u32) -> Vec<String> {
    let words = asks.iter().flat_map(|ask| &ask.words);
    let shown = |(variant, _): (&Variant, f32)| match variant.kind {
        VariantKind::Related => format!("{} (related word)", variant.text),
        VariantKind::Itself | VariantKind::Lookalike => variant.text.to_string(),
    };
    let mut matched: Vec<String> = words.filter_map(|word| word.in_text(part, local)).map(shown).collect();
    matched.sort();
    matched.dedup();
    matched
}

/// Some of the documents in sight of a part, to be scored on one thread.
struct Share<'a> {
    part: u32,
    surveyed: &'a PartSurvey,
    /// The local number of the first document, among all documents in sight of the part.
    first: u32,
    within: DocRanges,
}

/// Decides which documents match, and combines their scores.
struct Judge<'a> {
    asks: &'a [QuestionSide],
    fusions: &'a [Fusion],
    by: By,
    by_meaning: bool,
    least: Least,
    /// For each side, the cosine from which on a document matches by its meaning.
    floors: Vec<f32>,
}

impl Judge<'_> {
    /// Whether documents can be ordered by the scores of their words as they are, without combining anything.
    fn is_by_words(&self) -> bool {
        self.by == By::Words && self.asks.len() == 1 && self.least == Least::Some
    }

    /// The score of each of these documents, and the score above which a document matches.
    fn scores<'a>(
        &self,
        scored: &'a ShareScores,
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

    /// The score of each of these documents, or `NO_MATCH`.
    fn score(&self, scored: &ShareScores, locals: Range<usize>, out: &mut [f32]) {
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

    fn score_side(&self, side: usize, scored: &ShareScores, locals: Range<usize>, out: &mut [f32]) {
        let (fusion, SideScores { lexical, cosines, shares, .. }) =
            (&self.fusions[side], &scored.sides[side]);
        if self.least != Least::Some {
            for (local, out) in locals.zip(out) {
                let (lexical, cosine) = (lexical[local], cosines.get(local).copied().unwrap_or(0.0));
                let by_meaning = self.by_meaning && !self.asks[side].title_only;
                let is_enough = shares[local] >= HALF || (by_meaning && cosine >= self.floors[side]);
                *out = if is_enough { fusion.total(lexical, cosine) } else { NO_MATCH };
            }
            return;
        }
        let floor = match self.by {
            By::Meaning => -1.5,
            _ if self.by_meaning && !self.asks[side].title_only => self.floors[side],
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
    share: Share<'_>,
    question: &Question<'_>,
    asks: &[QuestionSide],
) -> Result<ShareScores, Error> {
    let Share { part: number, surveyed, first, within } = share;
    let many = within.many as usize;
    let mut hidden = Vec::new();
    if surveyed.has_absent() {
        hidden.extend((0..within.many).filter(|local| surveyed.is_absent(first + local)));
    }
    part.limited(&question.sight, &within, &mut |local| hidden.push(local));
    hide_unlabelled(part, question.sight.labels, &within, &mut hidden)?;
    let mut has_vectors = true;
    let mut sides = Vec::with_capacity(asks.len());
    for ask in asks {
        let (mut lexical, mut cosines, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        if question.by != By::Meaning || question.least != Least::Some {
            lexical = vec![0.0; many];
            score_words(ask, number, first, &mut lexical);
        }
        if question.least != Least::Some {
            shares = vec![0.0; many];
            score_shares(ask, number, first, &mut shares);
        }
        if question.by != By::Words {
            cosines = vec![0.0; many];
        }
        let with_unknown = ask.with_unknown.as_ref().map(|_| (vec![0.0; many], Spread::NONE));
        sides.push(SideScores { lexical, cosines, shares, spread: Spread::NONE, with_unknown });
    }
    if question.by != By::Words {
        has_vectors = score_meaning(part, &within, asks, &mut sides)?;
    }
    if asks.is_empty() {
        let (lexical, shares, with_unknown) = (Vec::new(), Vec::new(), None);
        sides.push(SideScores {
            lexical,
            cosines: vec![0.0; many],
            shares,
            spread: Spread::NONE,
            with_unknown,
        });
    }
    for SideScores { lexical, cosines, shares, spread, with_unknown } in &mut sides {
        for local in &hidden {
            lexical.get_mut(*local as usize).into_iter().for_each(|score| *score = 0.0);
            shares.get_mut(*local as usize).into_iter().for_each(|share| *share = 0.0);
            cosines.get_mut(*local as usize).into_iter().for_each(|cosine| *cosine = HIDDEN);
        }
        *spread = Spread::of(lexical, cosines);
        if let Some((cosines, spread)) = with_unknown {
            hidden.iter().for_each(|local| cosines[*local as usize] = HIDDEN);
            *spread = Spread::of(&[], cosines);
        }
    }
    Ok(ShareScores { part: number, within, first, sides, has_vectors })
}

/// Compares all vectors of a question with some documents before it goes on to the next ones, so that the bytes of a document are
/// read from memory once, however many texts are asked together. False when there are no vectors.
fn score_meaning(
    part: &impl Part,
    within: &DocRanges,
    asks: &[QuestionSide],
    sides: &mut [SideScores],
) -> Result<bool, Error> {
    let vectors = asks.iter().map(|ask| 1 + usize::from(ask.with_unknown.is_some())).sum::<usize>();
    let pieces = if vectors > 1 { within.many.div_ceil(COMPARED_TOGETHER) } else { 1 };
    let mut first = 0;
    for piece in within.clone().shares(pieces) {
        let locals = first..first + piece.many as usize;
        first = locals.end;
        for (ask, side) in asks.iter().zip(&mut *sides) {
            if !part.cosines(&piece, &ask.quantised, &mut side.cosines[locals.clone()])? {
                return Ok(false);
            }
            if let (Some((_, quantised)), Some((cosines, _))) = (&ask.with_unknown, &mut side.with_unknown) {
                part.cosines(&piece, quantised, &mut cosines[locals.clone()])?;
            }
        }
    }
    Ok(true)
}

/// Adds, for each word of the question, the score of its best variant in each document, and of the bigrams.
///
/// Example: the question "deploy friday" and a document "rollout on Friday". "deploy" has the variants `deploy` (itself)
/// and `rollout` (related, at less weight); the document has only `rollout`, which counts. "friday" counts as itself. The
/// bigram does not count, because the document does not have "friday" right after "deploy".
fn score_words(ask: &QuestionSide, part: u32, first: u32, lexical: &mut [f32]) {
    let locals = first..first + lexical.len() as u32;
    // For each document, the best score of the variants of one word, and the sum of the scores of its bigrams.
    let mut says: Vec<[f32; 2]> = Vec::new();
    for word in &ask.words {
        let mut add = |local: usize, score: f32| {
            if !word.is_everywhere || lexical[local] > 0.0 {
                lexical[local] += score;
            }
        };
        if let [only] = &word.variants[..] {
            each_score(word, only, ask, part, &locals, &mut |local, score, beside| {
                add(local, score + beside)
            });
            continue;
        }
        says.resize(locals.len(), [0.0; 2]);
        let mut touched = Vec::new();
        for variant in &word.variants {
            each_score(word, variant, ask, part, &locals, &mut |local, score, beside| {
                let [best, sum] = &mut says[local];
                if *best == 0.0 {
                    touched.push(local);
                }
                *best = best.max(score);
                *sum += beside;
            });
        }
        for local in touched {
            let [best, beside] = std::mem::take(&mut says[local]);
            add(local, best + beside);
        }
    }
}

/// Passes on, for each document that has a variant of a word, the score of the variant and the score of the bigrams.
fn each_score(
    word: &SearchWord,
    variant: &Variant,
    ask: &QuestionSide,
    part: u32,
    locals: &Range<u32>,
    each: &mut impl FnMut(usize, f32, f32),
) {
    let found = &variant.found[part as usize];
    for at in found.range(locals) {
        let posting = &found.postings[at];
        let score = variant.worth.of(counted(posting.frequency, ask.title_only), posting.length);
        let mut beside = 0.0;
        for (worth, often) in word.bigrams.iter().zip(&found.bigrams) {
            if often[at] > 0 {
                beside += worth.of(f32::from(often[at]), posting.length);
            }
        }
        each((posting.local - locals.start) as usize, score, beside);
    }
}

/// The share of the question's weight that each document has in words.
fn score_shares(ask: &QuestionSide, part: u32, first: u32, shares: &mut [f32]) {
    let locals = first..first + shares.len() as u32;
    let mut best: Vec<f32> = vec![0.0; shares.len()];
    for word in &ask.words {
        for variant in &word.variants {
            let found = &variant.found[part as usize];
            for posting in &found.postings[found.range(&locals)] {
                let best = &mut best[(posting.local - first) as usize];
                *best = best.max(variant.likeness * title_share(posting.frequency));
            }
        }
        for (share, best) in shares.iter_mut().zip(&mut best) {
            *share += word.share * std::mem::take(best);
        }
    }
}

fn hide_unlabelled(
    part: &impl Part,
    labels: &[Vec<String>],
    within: &DocRanges,
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
