//! Answering a question. Every document is scored by the same function from the same numbers, added in the same order.
//! So an answer depends on the documents alone, and not on how they are spread over segments and tail.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::codes::QuestionCode;
use crate::document::label_term;
use crate::error::Error;
use crate::index::Index;
use crate::lanes::{count_above, largest};
use crate::part::{Doc, DocRanges, Part, Place, Sight};
use crate::question::{PartSurvey, QuestionSide, SearchWord, Survey, Variant, VariantKind, title_share};
use crate::score::{Fusion, HALF, HIDDEN, Spread, TermWeight, counted};

/// How many of the best documents by words and meaning together get a finer estimate of their cosine, and how many of
/// the best by that get the cosine itself.
const REFINED: usize = 256;
const RESCORED: usize = 64;
/// This many of the nearest documents match even if their cosine is below the floor for all others.
const NEAREST: usize = 5;
/// This many documents match by their meaning alone, at most.
const NEAR_MAX: usize = 100;
/// The number of documents, nearest by the rough estimate, that get a finer one.
const NEAREST_REFINED: usize = 2_048;
/// The number of documents, nearest by the finer estimate, whose cosines are computed at a time, and the most in all.
/// The first batch has more than can match by their meaning; further ones follow while one of them may be
/// among the ten nearest.
const COMPARED: usize = 128;
const COMPARED_MAX: usize = 1_024;
const NEAREST_TO_FIND: usize = 10;
/// Finer estimates are rarely wrong by more than this, which is three times their standard deviation.
const ESTIMATE_ERROR: f32 = 0.07;
/// The score of a document that does not match.
const NO_MATCH: f32 = -1.0;
/// How many documents are scored at a time, so that their scores fit into the second-level cache of a processor. Tests
/// have few documents, and use small shares to have several of them.
const SHARE: u32 = if cfg!(debug_assertions) { 5 } else { 131_072 };
/// The number of documents that are compared with all vectors of the question before the next ones: a quarter
/// of a megabyte, which fits into the cache.
const COMPARED_TOGETHER: u32 = if cfg!(debug_assertions) { 3 } else { 1_024 };
/// The most documents, counted once for each text, that are scored together. Each takes up to twelve bytes,
/// so all take about 48 MB.
const SCORES_TOGETHER: usize = if cfg!(debug_assertions) { 40 } else { 4_000_000 };
/// Below this number of documents, starting threads costs more than it saves.
const THREAD_MIN: u32 = if cfg!(debug_assertions) { 8 } else { 65_536 };
/// The number of postings whose scores are computed together, by vector instructions.
const SCORED_TOGETHER: usize = 128;
/// The best scores are kept for each block of this many documents, so that most blocks are skipped when candidates are
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
    pub least: MatchMinimum,
    /// Whether the few nearest documents match even if their cosine is below the floor for all others.
    pub with_nearest: bool,
    /// Whether hits say why they match.
    pub explain: bool,
}

/// How much of a question a document must have to be a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchMinimum {
    /// Any term, or a meaning that is near enough.
    #[default]
    Some,
    /// Half of the question's weight in words, or a meaning that is near enough for a long document.
    Half,
}

/// The criteria by which documents are ranked.
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
    /// The cosine of the question and the document, from -1 to 1; for documents far down the list only its
    /// estimate.
    pub cosine: f32,
    /// Whether the document has a word of the question that is not in nearly every document.
    pub has_word: bool,
    /// Present only if the question has `explain` set and a text to rank by.
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

/// One page of the matches, best first, newest first among equal scores, and the number of all matches.
pub struct Results {
    pub hits: Vec<Hit>,
    pub total: u64,
    /// Whether the question asks for the meaning, but some vectors are not made yet.
    pub is_degraded: bool,
    /// Whether a document without a word of the question can be judged by its meaning.
    pub is_meaningful: bool,
}

/// The results for one of several texts that are searched together.
pub struct TextResults {
    pub by_both: Results,
    /// The results by meaning alone. Words that no document in sight has count in these.
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
    /// Removes the scores of the last side and returns them as the scores of a question with that side alone.
    fn split_last(&mut self) -> ShareScores {
        ShareScores {
            part: self.part,
            within: self.within.clone(),
            first: self.first,
            sides: self.sides.pop().into_iter().collect(),
            has_vectors: self.has_vectors,
        }
    }
}

/// All local numbers, one block at a time.
fn blocks(many: usize) -> impl Iterator<Item = Range<usize>> {
    (0..many).step_by(BLOCK).map(move |start| start..many.min(start + BLOCK))
}

/// Scores by local number. A document that is not in sight has 0 for words and `HIDDEN` as its cosine.
#[derive(Default)]
struct SideScores {
    lexical: Vec<f32>,
    /// The rough estimates. Those of documents that may be on the page are replaced by finer ones or by the cosines
    /// themselves.
    cosines: Vec<f32>,
    /// The local numbers of the documents that match by their meaning, in order.
    near: Vec<u32>,
    /// The share of the question's weight that each document has in words; empty unless a match needs it.
    shares: Vec<f32>,
    spread: Spread,
    blocks: Vec<BlockScores>,
    /// The estimates for the second vector of the question (`with_unknown`), if there is one.
    with_unknown: Option<Vec<f32>>,
}

impl SideScores {
    /// Computes what is known of the scores as a whole, once each of them is there.
    #[inline(always)]
    fn sum_up(&mut self) {
        let SideScores { lexical, cosines, .. } = self;
        self.spread = Spread::default();
        self.blocks.clear();
        for locals in blocks(lexical.len().max(cosines.len())) {
            let lexical = lexical.get(locals.clone()).unwrap_or_default();
            let cosines = cosines.get(locals).unwrap_or_default();
            let spread = Spread::of(lexical, cosines);
            self.blocks.push(BlockScores {
                lexical_max: spread.lexical_max(),
                cosine_max: largest(cosines, HIDDEN),
                with_words: count_above(lexical, 0.0) as u32,
                in_sight: spread.many() as u32,
            });
            self.spread = self.spread.plus(spread);
        }
    }

    /// Turns these scores into scores by meaning alone.
    fn leave_meaning(&mut self) {
        self.lexical.clear();
        self.near.clear();
        if let Some(cosines) = self.with_unknown.take() {
            self.cosines = cosines;
        }
        self.sum_up();
    }
}

/// What is known of a block of documents without another look at each.
#[derive(Clone, Copy)]
struct BlockScores {
    lexical_max: f32,
    /// No cosine of the block is larger. (It may be that of a document whose estimate was replaced since.)
    cosine_max: f32,
    /// The number of documents with a word of the question.
    with_words: u32,
    /// The number of documents that have a cosine, so of those in sight.
    in_sight: u32,
}

/// How many documents of a block match, and a score that none of them exceeds.
struct BlockOutlook {
    matches: u64,
    score_max: f32,
}

/// A document that may be on the page, and the part it is in.
#[derive(Clone, Copy)]
struct Candidate {
    /// The score by which candidates are ordered.
    score: f32,
    place: Place,
    part: u32,
    /// The position of the document's `ShareScores`, and its local number in it.
    scored: u32,
    local: u32,
    doc: Doc,
}

impl Candidate {
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| other.place.cmp(&self.place))
    }
}

/// One of the documents that are nearest to one side of a question, with its cosine or a finer estimate of it.
struct Near {
    candidate: Candidate,
    cosine: f32,
}

impl Near {
    fn order(&self, other: &Near) -> std::cmp::Ordering {
        other.cosine.total_cmp(&self.cosine).then_with(|| other.candidate.place.cmp(&self.candidate.place))
    }
}

/// The rough estimate of a document that was replaced, and whether by a finer one only or by the cosine.
struct Estimate {
    rough: f32,
    is_fine: bool,
}

/// The estimates that were replaced, by the side of the question, the `ShareScores` and the local number in it.
type Estimates = FxHashMap<(usize, u32, u32), Estimate>;

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

    /// Like `search`, but ends with `Error::OutOfTime` soon after the deadline.
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
        let nearest = self.nearest_of_all(question, &asks, &scored)?;
        self.results(question, &asks, &nearest, &mut scored, page)
    }

    /// Searches for several texts in one pass over the documents: for each, the best by words and meaning
    /// together and the best by meaning alone. The results are the same as those of separate questions;
    /// `text` and `by` of the question are ignored.
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
            // The last text comes first, because each takes its scores from the end.
            let mut of_texts = Vec::with_capacity(asks.len());
            for mut ask in asks.into_iter().rev() {
                survey.check_time()?;
                let mut scored: Vec<ShareScores> = together.iter_mut().map(ShareScores::split_last).collect();
                let asks = std::slice::from_ref(&ask);
                let mut nearest = self.nearest_of_all(&by_both, asks, &scored)?;
                let by_both = self.results(&by_both, asks, &nearest, &mut scored, 0..most)?;
                scored.iter_mut().flat_map(|scored| &mut scored.sides).for_each(SideScores::leave_meaning);
                if let Some((vector, code)) = ask.with_unknown.take() {
                    (ask.vector, ask.code) = (vector, code);
                    nearest = self.nearest_of_all(&by_meaning, std::slice::from_ref(&ask), &scored)?;
                }
                let asks = std::slice::from_ref(&ask);
                let by_meaning = self.results(&by_meaning, asks, &nearest, &mut scored, 0..most)?;
                of_texts.push(TextResults { by_both, by_meaning });
            }
            of_texts.reverse();
            found.append(&mut of_texts);
        }
        Ok(found)
    }

    /// One page of the documents that match, from the scores of all documents and the nearest documents of
    /// each side.
    fn results(
        &self,
        question: &Question<'_>,
        asks: &[QuestionSide],
        nearest: &[Vec<Near>],
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
        let mut replaced = Estimates::default();
        let mut fusions = Vec::with_capacity(asks.len());
        for (side, ask) in asks.iter().enumerate() {
            let nearest = nearest.get(side).map_or(&[][..], Vec::as_slice);
            let spreads = scored.iter().map(|scored| scored.sides[side].spread);
            let mut spread = spreads.fold(Spread::default(), Spread::plus);
            nearest.iter().for_each(|near| spread.replace(near.candidate.score, near.cosine));
            fusions.push(spread.fusion(first_cosine(nearest), by_meaning, ask.weight));
            self.mark_near(ask, side, nearest, scored, question);
            for near in nearest {
                replace(scored, side, &near.candidate, near.cosine, false, &mut replaced);
            }
        }
        let judge = Judge { asks, fusions: &fusions, by: question.by, by_meaning, least: question.least };
        let (mut best, total) = self.candidates(&judge, scored, page.end);
        if by_meaning {
            self.rescore(&judge, scored, &mut best, &mut replaced)?;
        }
        let page = page.start.min(best.len() as u64) as usize..page.end.min(best.len() as u64) as usize;
        let hits = best[page]
            .iter()
            .map(|candidate| self.hit(&judge, scored, candidate, question.explain))
            .collect();
        // The estimates are restored, so that a following search by meaning alone starts from the same
        // numbers as a separate one.
        for ((side, number, local), estimate) in replaced {
            scored[number as usize].sides[side].cosines[local as usize] = estimate.rough;
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
            // Each share goes to the thread with the fewest documents so far.
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

    /// The nearest documents of each side; empty if there are no vectors.
    fn nearest_of_all(
        &self,
        question: &Question<'_>,
        asks: &[QuestionSide],
        scored: &[ShareScores],
    ) -> Result<Vec<Vec<Near>>, Error> {
        if question.by == By::Words || scored.iter().any(|scored| !scored.has_vectors) {
            return Ok(Vec::new());
        }
        asks.iter().enumerate().map(|(side, ask)| self.nearest(ask, side, scored)).collect()
    }

    /// The documents that are nearest to one side of the question, the nearest first. They are chosen by their rough
    /// estimates, then by the finer ones, and ordered by their cosines.
    fn nearest(&self, ask: &QuestionSide, side: usize, scored: &[ShareScores]) -> Result<Vec<Near>, Error> {
        let outlook = |scored: &ShareScores, block: usize| {
            let BlockScores { cosine_max, in_sight, .. } = scored.sides[side].blocks[block];
            Some(BlockOutlook { matches: u64::from(in_sight), score_max: cosine_max })
        };
        let (chosen, _) = self.best_by(scored, NEAREST_REFINED, outlook, |scored, locals, estimates| {
            estimates[..locals.len()].copy_from_slice(&scored.sides[side].cosines[locals]);
            HIDDEN
        });
        let fine = self.fine(chosen.iter(), &ask.code)?;
        let mut refined: Vec<Near> =
            chosen.into_iter().zip(fine).map(|(candidate, cosine)| Near { candidate, cosine }).collect();
        refined.sort_unstable_by(Near::order);
        refined.truncate(COMPARED_MAX);
        let mut nearest: Vec<Near> = Vec::new();
        for some in refined.chunks(COMPARED) {
            let tenth = nearest.get(NEAREST_TO_FIND - 1).map_or(HIDDEN, |near| near.cosine);
            if nearest.len() >= COMPARED && some[0].cosine + ESTIMATE_ERROR < tenth {
                break;
            }
            let cosines = self.cosines(some.iter().map(|near| &near.candidate), &ask.vector)?;
            let found = some.iter().zip(cosines);
            nearest.extend(found.map(|(near, cosine)| Near { candidate: near.candidate, cosine }));
            nearest.sort_unstable_by(Near::order);
        }
        Ok(nearest)
    }

    /// The cosines of some documents, in their order.
    fn cosines<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Candidate>,
        vector: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let docs: Vec<(u32, Doc)> = candidates.map(|candidate| (candidate.part, candidate.doc)).collect();
        in_order(&docs, |number, docs, out| in_part!(self, number, part => part.cosines(docs, vector, out)))
    }

    /// The finer estimates of the cosines of some documents, in their order.
    fn fine<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Candidate>,
        code: &QuestionCode,
    ) -> Result<Vec<f32>, Error> {
        let docs: Vec<(u32, Doc)> = candidates.map(|candidate| (candidate.part, candidate.doc)).collect();
        in_order(&docs, |number, docs, out| in_part!(self, number, part => part.fine(docs, code, out)))
    }

    /// Notes the documents that match one side by their meaning: the nearest ones, down to the floor for this
    /// question.
    fn mark_near(
        &self,
        ask: &QuestionSide,
        side: usize,
        nearest: &[Near],
        scored: &mut [ShareScores],
        question: &Question<'_>,
    ) {
        scored.iter_mut().for_each(|scored| scored.sides[side].near.clear());
        // By meaning alone all documents in sight match anyway.
        let is_alone = question.by == By::Meaning && question.least == MatchMinimum::Some;
        if !ask.is_meaningful || ask.title_only || is_alone {
            return;
        }
        let floor = match question.least {
            MatchMinimum::Half => self.embedder.floor_of_many(),
            MatchMinimum::Some if !question.with_nearest => self.embedder.floor(),
            MatchMinimum::Some => {
                let last = nearest.get(NEAREST - 1).map_or(HIDDEN, |near| near.cosine);
                self.embedder.floor().min(last.max(self.embedder.floor_of_nearest()))
            }
        };
        for near in nearest.iter().take(NEAR_MAX).take_while(|near| near.cosine >= floor) {
            scored[near.candidate.scored as usize].sides[side].near.push(near.candidate.local);
        }
        scored.iter_mut().for_each(|scored| scored.sides[side].near.sort_unstable());
    }

    /// The best documents, enough for the page and for rescoring, and the number of all matches.
    fn candidates(&self, judge: &Judge<'_>, scored: &[ShareScores], wanted: u64) -> (Vec<Candidate>, u64) {
        let keep = usize::try_from(wanted).unwrap_or(usize::MAX).max(REFINED);
        let outlook = |scored: &ShareScores, block: usize| judge.outlook(scored, block);
        let (mut best, total) = self
            .best_by(scored, keep, outlook, |scored, locals, buffer| judge.scores(scored, locals, buffer));
        if judge.is_by_words() {
            best.iter_mut().for_each(|found| found.score = judge.fusions[0].total(found.score, 0.0));
        }
        (best, total)
    }

    /// The `keep` documents with the highest scores, newest first among equal scores, and the number of all
    /// documents with a score above the bar. `scores` writes the scores of some documents and returns the
    /// bar; `outlook` says what is known of a block without that, if it is known.
    fn best_by(
        &self,
        scored: &[ShareScores],
        keep: usize,
        outlook: impl Fn(&ShareScores, usize) -> Option<BlockOutlook>,
        mut scores: impl FnMut(&ShareScores, Range<usize>, &mut [f32; BLOCK]) -> f32,
    ) -> (Vec<Candidate>, u64) {
        let mut total = 0;
        // The score that no document of the block exceeds, the position of its `ShareScores`, and the block.
        let mut order: Vec<(f32, u32, usize)> = Vec::new();
        for (scored, number) in scored.iter().zip(0..) {
            for block in 0..(scored.within.many as usize).div_ceil(BLOCK) {
                match outlook(scored, block) {
                    Some(BlockOutlook { matches: 0, .. }) => {}
                    Some(BlockOutlook { matches, score_max }) => {
                        total += matches;
                        order.push((score_max, number, block));
                    }
                    None => order.push((f32::INFINITY, number, block)),
                }
            }
        }
        // After the most promising blocks the others have nothing to add.
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        let mut buffer = [0.0; BLOCK];
        let mut best: Vec<Candidate> = Vec::new();
        // The score of the worst of the best so far.
        let mut floor = f32::MIN;
        for (score_max, number, block) in order {
            if score_max < floor {
                break;
            }
            let scored = &scored[number as usize];
            let locals = block * BLOCK..scored.within.many.min((block as u32 + 1) * BLOCK as u32) as usize;
            let (first, many) = (locals.start, locals.len());
            let bar = scores(scored, locals, &mut buffer);
            if score_max == f32::INFINITY {
                total += count_above(&buffer[..many], bar);
            }
            let is_wanted = |score: f32| score > bar && score >= floor;
            for (at, score) in buffer[..many].iter().enumerate().filter(|(_, score)| is_wanted(**score)) {
                let local = (first + at) as u32;
                let doc = scored.within.doc(local);
                let place = in_part!(self, scored.part, part => part.place(doc));
                best.push(Candidate { score: *score, place, scored: number, local, part: scored.part, doc });
            }
            if best.len() >= keep.saturating_mul(2) && keep > 0 {
                best.select_nth_unstable_by(keep - 1, Candidate::order);
                best.truncate(keep);
                floor = best[keep - 1].score;
            }
        }
        best.sort_unstable_by(Candidate::order);
        best.truncate(keep);
        (best, total)
    }

    /// Computes the scores of the best documents again, with better numbers in place of the rough estimates: first with
    /// finer estimates, then those of the best with their cosines. How many there are does not depend on the
    /// page, so pages neither repeat nor skip a document.
    fn rescore(
        &self,
        judge: &Judge<'_>,
        scored: &mut [ShareScores],
        best: &mut [Candidate],
        replaced: &mut Estimates,
    ) -> Result<(), Error> {
        for (many, is_fine) in [(REFINED, true), (RESCORED, false)] {
            let many = best.len().min(many);
            let best = &mut best[..many];
            for (side, ask) in judge.asks.iter().enumerate() {
                let is_better = |known: &Estimate| !known.is_fine || is_fine;
                let is_known = |candidate: &&Candidate| {
                    replaced.get(&(side, candidate.scored, candidate.local)).is_some_and(is_better)
                };
                let unknown: Vec<Candidate> =
                    best.iter().filter(|candidate| !is_known(candidate)).copied().collect();
                let cosines = match is_fine {
                    true => self.fine(unknown.iter(), &ask.code)?,
                    false => self.cosines(unknown.iter(), &ask.vector)?,
                };
                for (candidate, cosine) in unknown.iter().zip(cosines) {
                    replace(scored, side, candidate, cosine, is_fine, replaced);
                }
            }
            for candidate in &mut *best {
                let totals = judge.shares(scored, candidate).map(|share| share.2);
                candidate.score = totals.sum::<f32>() / judge.asks.len().max(1) as f32;
            }
            best.sort_unstable_by(Candidate::order);
        }
        Ok(())
    }

    fn hit(&self, judge: &Judge<'_>, scored: &[ShareScores], candidate: &Candidate, explain: bool) -> Hit {
        let key = in_part!(self, candidate.part, part => part.key(candidate.doc));
        let scored_here = &scored[candidate.scored as usize];
        let cosines = scored_here.sides.last().map_or(&[][..], |side| &side.cosines);
        let cosine = cosines.get(candidate.local as usize).copied().unwrap_or(0.0);
        let has_word =
            judge.asks.iter().any(|ask| ask.has_word(candidate.part, scored_here.first + candidate.local));
        let (place, score) = (candidate.place, candidate.score);
        let hit = Hit { place, key, score, cosine, has_word, why: None };
        if !explain || judge.asks.is_empty() {
            return hit;
        }
        let shares: Vec<(f32, f32, f32)> = judge.shares(scored, candidate).collect();
        let mean =
            |share: fn(&(f32, f32, f32)) -> f32| shares.iter().map(share).sum::<f32>() / shares.len() as f32;
        let matched = matched(judge.asks, candidate.part, scored_here.first + candidate.local);
        Hit {
            why: Some(Why { lexical: mean(|share| share.0), dense: mean(|share| share.1), matched }),
            ..hit
        }
    }
}

/// Replaces the estimate of a document by a finer one or by its cosine, and remembers the rough estimate.
fn replace(
    scored: &mut [ShareScores],
    side: usize,
    candidate: &Candidate,
    cosine: f32,
    is_fine: bool,
    replaced: &mut Estimates,
) {
    let (scores, local) = (&mut scored[candidate.scored as usize].sides[side], candidate.local as usize);
    let block = &mut scores.blocks[local / BLOCK];
    block.cosine_max = block.cosine_max.max(cosine);
    let last = std::mem::replace(&mut scores.cosines[local], cosine);
    let known = replaced.entry((side, candidate.scored, candidate.local));
    known.or_insert(Estimate { rough: last, is_fine }).is_fine = is_fine;
}

/// Asks each part for a number of each of its documents, in the order of the documents there, in which a part
/// reads neighbouring vectors together. Returns the numbers in the order of `docs`.
fn in_order(
    docs: &[(u32, Doc)],
    of_part: impl Fn(u32, &[Doc], &mut [f32]) -> Result<(), Error>,
) -> Result<Vec<f32>, Error> {
    let mut order: Vec<usize> = (0..docs.len()).collect();
    order.sort_unstable_by_key(|at| docs[*at]);
    let mut found = vec![0.0; docs.len()];
    for places in order.chunk_by(|one, other| docs[*one].0 == docs[*other].0) {
        let of_docs: Vec<Doc> = places.iter().map(|at| docs[*at].1).collect();
        let mut numbers = vec![0.0; places.len()];
        of_part(docs[places[0]].0, &of_docs, &mut numbers)?;
        places.iter().zip(numbers).for_each(|(at, number)| found[*at] = number);
    }
    Ok(found)
}

/// The cosine of the nearest document. If there is none, `HIDDEN`, with which meaning does not distinguish
/// documents.
fn first_cosine(nearest: &[Near]) -> f32 {
    nearest.first().map_or(HIDDEN, |near| near.cosine)
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
    least: MatchMinimum,
}

impl Judge<'_> {
    /// Whether documents can be ordered by the scores of their words alone, without combining anything.
    fn is_by_words(&self) -> bool {
        self.by == By::Words && self.asks.len() == 1 && self.least == MatchMinimum::Some
    }

    /// What is known of a block without the scores of its documents. Nothing is, if a match needs more than one word or one
    /// side, or if some documents of the block match by their meaning.
    fn outlook(&self, scored: &ShareScores, block: usize) -> Option<BlockOutlook> {
        let ([fusion], [side]) = (self.fusions, &scored.sides[..]) else { return None };
        let BlockScores { lexical_max, cosine_max, with_words, in_sight } = side.blocks[block];
        let near = side.near.partition_point(|local| (*local as usize) < block * BLOCK);
        let is_near = side.near.get(near).is_some_and(|local| (*local as usize) < (block + 1) * BLOCK);
        if self.least != MatchMinimum::Some || is_near {
            return None;
        }
        let matches = u64::from(if side.lexical.is_empty() { in_sight } else { with_words });
        let score_max = match side.cosines.is_empty() {
            _ if self.is_by_words() => lexical_max,
            true => fusion.total(lexical_max, 0.0),
            false => fusion.total(lexical_max, cosine_max),
        };
        Some(BlockOutlook { matches, score_max })
    }

    /// Writes the score of each of these documents, and returns the score above which a document matches.
    fn scores(&self, scored: &ShareScores, locals: Range<usize>, out: &mut [f32]) -> f32 {
        let out = &mut out[..locals.len()];
        if self.is_by_words() {
            out.copy_from_slice(&scored.sides[0].lexical[locals]);
            return 0.0;
        }
        self.score(scored, locals, out);
        NO_MATCH
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
        let (fusion, SideScores { lexical, cosines, shares, near, .. }) =
            (&self.fusions[side], &scored.sides[side]);
        let all = locals.clone();
        match (lexical.is_empty(), cosines.is_empty()) {
            _ if self.least != MatchMinimum::Some => {
                for (local, out) in locals.clone().zip(&mut *out) {
                    let cosine = cosines.get(local).copied().unwrap_or(0.0);
                    let is_enough = shares[local] >= HALF;
                    *out = if is_enough { fusion.total(lexical[local], cosine) } else { NO_MATCH };
                }
            }
            (false, true) => {
                for (out, lexical) in out.iter_mut().zip(&lexical[all]) {
                    *out = if *lexical > 0.0 { fusion.total(*lexical, 0.0) } else { NO_MATCH };
                }
            }
            // By meaning alone, every document in sight matches with the score of its cosine.
            (true, _) => {
                for (out, cosine) in out.iter_mut().zip(&cosines[all]) {
                    *out = if *cosine > HIDDEN { fusion.total(0.0, *cosine) } else { NO_MATCH };
                }
            }
            (false, false) => {
                for ((out, lexical), cosine) in out.iter_mut().zip(&lexical[all.clone()]).zip(&cosines[all]) {
                    *out = if *lexical > 0.0 { fusion.total(*lexical, *cosine) } else { NO_MATCH };
                }
            }
        }
        let from = near.partition_point(|local| (*local as usize) < locals.start);
        for local in near[from..].iter().map(|local| *local as usize).take_while(|local| *local < locals.end)
        {
            out[local - locals.start] = fusion.total(lexical[local], cosines[local]);
        }
    }

    /// For each side of the question: the score by words, the score by meaning, and the total.
    fn shares(&self, scored: &[ShareScores], candidate: &Candidate) -> impl Iterator<Item = (f32, f32, f32)> {
        let sides = &scored[candidate.scored as usize].sides;
        let local = candidate.local as usize;
        self.fusions.iter().zip(sides).map(move |(fusion, side)| {
            let lexical = side.lexical.get(local).copied().unwrap_or(0.0);
            let cosine = if self.by_meaning { side.cosines[local] } else { 0.0 };
            (fusion.lexical(lexical), fusion.dense(cosine), fusion.total(lexical, cosine))
        })
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
        if question.by != By::Meaning || question.least != MatchMinimum::Some {
            lexical = vec![0.0; many];
            pulp::Arch::new().dispatch(|| score_words(ask, number, first, &mut lexical));
        }
        if question.least != MatchMinimum::Some {
            shares = vec![0.0; many];
            score_shares(ask, number, first, &mut shares);
        }
        if question.by != By::Words {
            cosines = vec![0.0; many];
        }
        let with_unknown = ask.with_unknown.as_ref().map(|_| vec![0.0; many]);
        sides.push(SideScores { lexical, cosines, shares, with_unknown, ..SideScores::default() });
    }
    if question.by != By::Words {
        has_vectors = score_meaning(part, &within, asks, &mut sides)?;
    }
    if asks.is_empty() {
        sides.push(SideScores { cosines: vec![0.0; many], ..SideScores::default() });
    }
    // The oldest supported processors have instructions for four numbers at once, others for eight.
    for side in &mut sides {
        let SideScores { lexical, cosines, shares, with_unknown, .. } = &mut *side;
        for local in &hidden {
            lexical.get_mut(*local as usize).into_iter().for_each(|score| *score = 0.0);
            shares.get_mut(*local as usize).into_iter().for_each(|share| *share = 0.0);
            cosines.get_mut(*local as usize).into_iter().for_each(|cosine| *cosine = HIDDEN);
            with_unknown.iter_mut().for_each(|cosines| cosines[*local as usize] = HIDDEN);
        }
        pulp::Arch::new().dispatch(|| side.sum_up());
    }
    Ok(ShareScores { part: number, within, first, sides, has_vectors })
}

/// Compares all vectors of a question with a few documents before the next ones, so that the bytes of a
/// document are read from memory once, however many texts are searched together. False if there are no
/// vectors.
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
            if !part.rough(&piece, &ask.code, &mut side.cosines[locals.clone()])? {
                return Ok(false);
            }
            if let (Some((_, code)), Some(estimates)) = (&ask.with_unknown, &mut side.with_unknown) {
                part.rough(&piece, code, &mut estimates[locals.clone()])?;
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
#[inline(always)]
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
#[inline(always)]
fn each_score(
    word: &SearchWord,
    variant: &Variant,
    ask: &QuestionSide,
    part: u32,
    locals: &Range<u32>,
    each: &mut impl FnMut(usize, f32, f32),
) {
    let found = &variant.found[part as usize];
    let rows = found.range(locals);
    let from = |list: &Vec<(u32, u8)>| list.partition_point(|(row, _)| (*row as usize) < rows.start);
    // Only the word itself has bigrams; for its other variants these lists are empty.
    let mut bigrams: Vec<(&TermWeight, &[(u32, u8)])> =
        word.bigrams.iter().zip(&found.bigrams).map(|(worth, list)| (worth, &list[from(list)..])).collect();
    let (mut scores, mut beside) = ([0.0; SCORED_TOGETHER], [0.0; SCORED_TOGETHER]);
    for start in rows.clone().step_by(SCORED_TOGETHER) {
        let rows = start..rows.end.min(start + SCORED_TOGETHER);
        let (locals_here, lengths) = (&found.locals[rows.clone()], &found.lengths[rows.clone()]);
        let columns = found.frequencies[rows.clone()].iter().zip(lengths);
        for (score, (frequency, length)) in scores.iter_mut().zip(columns) {
            *score = variant.worth.of(counted(*frequency, ask.title_only), *length);
        }
        let mut has_bigrams = false;
        for (worth, list) in &mut bigrams {
            while let Some(((row, often), rest)) = list.split_first()
                && (*row as usize) < rows.end
            {
                let at = *row as usize - rows.start;
                beside[at] += worth.of(f32::from(*often), lengths[at]);
                has_bigrams = true;
                *list = rest;
            }
        }
        for ((local, score), beside) in locals_here.iter().zip(&scores).zip(&beside) {
            each((*local - locals.start) as usize, *score, *beside);
        }
        if has_bigrams {
            beside.fill(0.0);
        }
    }
}

/// The share of the question's weight that each document has in words.
fn score_shares(ask: &QuestionSide, part: u32, first: u32, shares: &mut [f32]) {
    let locals = first..first + shares.len() as u32;
    let mut best: Vec<f32> = vec![0.0; shares.len()];
    for word in &ask.words {
        for variant in &word.variants {
            let found = &variant.found[part as usize];
            let rows = found.range(&locals);
            for (local, frequency) in found.locals[rows.clone()].iter().zip(&found.frequencies[rows]) {
                if !frequency.is_none() {
                    let best = &mut best[(*local - first) as usize];
                    *best = best.max(variant.likeness * title_share(*frequency));
                }
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
                part.postings(&term, within, &mut |run| {
                    run.locals().for_each(|local| has[local as usize] = true)
                })?;
            }
        }
        hidden.extend(has.iter().zip(0..).filter(|(has, _)| !**has).map(|(_, local)| local));
    }
    Ok(())
}
