//! The words of a question, their postings in sight, and the weight of each word.
//!
//! Every statistic is counted over the documents in sight, as of the transaction of the question. So a document that the
//! caller may not see never changes an answer, and an answer as of an earlier transaction never changes.
//!
//! A word also stands for its variants. Example: a question has the word "deploymnet", which the vocabulary does not
//! have. The index has the term `deploy` (the stem of "deployment"), which has the same beginning as the stem
//! `deploymnet` and so is a lookalike. For "bill", which the vocabulary has, the related words are looked up instead, and
//! `invoic` (the stem of "invoice") becomes a variant at less weight.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::codes::QuestionCode;
use crate::document::LABEL;
use crate::embed;
use crate::error::Error;
use crate::evidence::Rarity;
use crate::index::Index;
use crate::lex::{self, QuestionWord};
use crate::part::{Doc, DocRanges, Part, Run, Sight};
use crate::postings::{Bigram, Frequency, bigram_hash};
use crate::related::related;
use crate::score::{BIGRAM_WEIGHT, Population, RELATED_WEIGHT, TITLE_SHARE, TermWeight};
use crate::search::{By, Question, in_part};
use crate::trigrams::{dice, dice_max, trigram_bit, trigram_bits, trigrams};

/// At most this many related words of a word are looked up; more add noise and reads.
const RELATED_MAX: usize = 8;
/// A question is judged by its meaning only if the embedder knows this share of its words, because the table of vectors
/// knows the words of one language.
const MEANINGFUL_SHARE: f32 = 0.5;
/// Lookalikes are searched for at most this many words of a question, because each search goes through every term.
const LOOKALIKES_FOR_MAX: usize = 8;
/// A word that this share of the documents has does not help to choose among them. It only adds to the score
/// of a document that matches by another word.
const EVERYWHERE_SHARE: f32 = 0.7;
/// A lookalike with at least this likeness is taken for the same word, mistyped or inflected.
const SAME_WORD_MIN: f32 = 0.6;
/// The weight of a stop word in the vector of a question; other words have their inverse document frequency.
const STOP_WORD_WEIGHT: f32 = 0.5;
/// With fewer documents than this in sight, no word counts as being in nearly every document.
const EVERYWHERE_TEXTS_MIN: i64 = 20;

/// The documents in sight, part by part.
pub(crate) struct Survey {
    pub parts: Vec<PartSurvey>,
    pub population: Population,
    /// The time after which the caller no longer waits.
    deadline: Option<Instant>,
}

pub(crate) struct PartSurvey {
    pub within: DocRanges,
    /// By local number; empty if no document in the ranges is absent.
    is_absent: Vec<bool>,
}

impl PartSurvey {
    fn new(part: &impl Part, sight: &Sight<'_>, population: &mut Population) -> Result<PartSurvey, Error> {
        let within = part.ranges(sight);
        let mut absent = Vec::new();
        part.absent(sight, &within, &mut |local| absent.push(local))?;
        population.many += i64::from(within.many);
        population.length += part.lengths(&within);
        let mut is_absent = Vec::new();
        if !absent.is_empty() {
            is_absent = vec![false; within.many as usize];
        }
        for local in absent {
            // A part may name an absent document twice; it is subtracted once.
            if !std::mem::replace(&mut is_absent[local as usize], true) {
                population.many -= 1;
                population.length -= i64::from(part.length(within.doc(local)));
            }
        }
        Ok(PartSurvey { within, is_absent })
    }

    pub(crate) fn is_absent(&self, local: u32) -> bool {
        self.is_absent.get(local as usize).copied().unwrap_or(false)
    }

    pub(crate) fn has_absent(&self) -> bool {
        !self.is_absent.is_empty()
    }
}

impl Survey {
    pub(crate) fn new(index: &Index, sight: &Sight<'_>, deadline: Option<Instant>) -> Result<Survey, Error> {
        let mut population = Population::default();
        let mut parts = Vec::with_capacity(index.segments.len() + 1);
        for number in 0..=index.segments.len() as u32 {
            parts.push(in_part!(index, number, part => PartSurvey::new(part, sight, &mut population)?));
        }
        Ok(Survey { parts, population, deadline })
    }

    /// Called before every term and every share of the documents, so that work ends soon after the deadline.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::OutOfTime),
            _ => Ok(()),
        }
    }

    /// The postings of a term in sight. `bigrams` are the next terms to count, if any.
    fn find(
        &self,
        index: &Index,
        text: &str,
        bigrams: &[Bigram],
        title_only: bool,
    ) -> Result<TermPostings, Error> {
        self.check_time()?;
        let mut found = TermPostings { parts: Vec::new(), many: 0, df: 0, bigram_df: vec![0; bigrams.len()] };
        for (surveyed, number) in self.parts.iter().zip(0..) {
            let mut own = PartPostings::new(bigrams.len());
            in_part!(index, number, part => if let Some(term) = part.term(text) {
                own.reserve(part.postings_max(&term).min(surveyed.within.many as usize));
                part.postings(&term, &surveyed.within, &mut |run| {
                    found.add(&mut own, &run, surveyed, bigrams, title_only, |doc| part.length(doc));
                })?;
            });
            found.parts.push(own);
        }
        Ok(found)
    }
}

/// The postings of a term in all parts.
struct TermPostings {
    parts: Vec<PartPostings>,
    /// The number of postings that count.
    many: u64,
    /// The number of documents in sight that have the term in their title or body; and, for each bigram, the number of
    /// those that have the bigram.
    df: i64,
    bigram_df: Vec<i64>,
}

impl TermPostings {
    /// Adds some postings of one part to the others of that part.
    fn add(
        &mut self,
        own: &mut PartPostings,
        run: &Run<'_>,
        surveyed: &PartSurvey,
        bigrams: &[Bigram],
        title_only: bool,
        length: impl Fn(Doc) -> u32,
    ) {
        let before = own.locals.len();
        own.locals.extend(run.locals());
        own.lengths.extend(run.postings.docs.iter().map(|doc| length(*doc)));
        own.frequencies.extend(run.postings.frequencies());
        let added = &mut own.frequencies[before..];
        if surveyed.has_absent() {
            for (frequency, local) in added.iter_mut().zip(&own.locals[before..]) {
                *frequency = if surveyed.is_absent(*local) { Frequency::NONE } else { *frequency };
            }
        }
        // Documents that have the term only in the text before them do not count in the document frequency.
        self.df += added.iter().map(|frequency| i64::from(frequency.is_own())).sum::<i64>();
        if title_only {
            added.iter_mut().for_each(|frequency| *frequency = frequency.of_title());
        }
        self.many += added.iter().map(|frequency| u64::from(!frequency.is_none())).sum::<u64>();
        for ((bigram, found), df) in bigrams.iter().zip(&mut own.bigrams).zip(&mut self.bigram_df) {
            run.postings.each_with(*bigram, &mut |number, often| {
                if !added[number].is_none() {
                    *df += 1;
                    found.push(((before + number) as u32, often.min(255) as u8));
                }
            });
        }
    }
}

/// The postings of a term in one part, in the order of the documents, as one list for each column. A posting that does not
/// count, because its document is not in sight or has the term in another field, has the frequency `Frequency::NONE`.
pub(crate) struct PartPostings {
    pub locals: Vec<u32>,
    pub lengths: Vec<u32>,
    pub frequencies: Vec<Frequency>,
    /// For each bigram the numbers of the postings that have it, and how often they do.
    pub bigrams: Vec<Vec<(u32, u8)>>,
}

impl PartPostings {
    fn new(bigrams: usize) -> PartPostings {
        PartPostings {
            locals: Vec::new(),
            lengths: Vec::new(),
            frequencies: Vec::new(),
            bigrams: vec![Vec::new(); bigrams],
        }
    }

    fn reserve(&mut self, many: usize) {
        self.locals.reserve_exact(many);
        self.lengths.reserve_exact(many);
        self.frequencies.reserve_exact(many);
    }

    /// The numbers of the postings of some local numbers.
    pub(crate) fn range(&self, locals: &Range<u32>) -> Range<usize> {
        let start = self.locals.partition_point(|local| *local < locals.start);
        let end = start + self.locals[start..].partition_point(|local| *local < locals.end);
        start..end
    }

    /// How often a document has the term, if it does.
    fn get(&self, local: u32) -> Option<Frequency> {
        let at = self.locals.binary_search(&local).ok()?;
        Some(self.frequencies[at]).filter(|frequency| !frequency.is_none())
    }
}

/// One side of a question: the words to find in the title, or those to find anywhere.
pub(crate) struct QuestionSide {
    pub title_only: bool,
    /// The words that have a posting in sight, each once. Words that nearly every document has come last.
    pub words: Vec<SearchWord>,
    /// The sum of the weights of all words.
    pub weight: f32,
    pub vector: Vec<f32>,
    pub code: QuestionCode,
    /// The vector that also counts the words that no document in sight has, if it differs from `vector` and
    /// was asked for.
    pub with_unknown: Option<(Vec<f32>, QuestionCode)>,
    /// Whether the embedder knows enough of the words to judge a document that has none of them.
    pub is_meaningful: bool,
}

pub(crate) struct SearchWord {
    /// The word itself if it is in sight, and other words that may stand for it. In each document the best one counts.
    pub variants: Vec<Variant>,
    /// The weights of the bigrams that begin with this word in the question.
    pub bigrams: Vec<TermWeight>,
    /// The share of the word in the weight of the question.
    pub share: f32,
    /// Whether nearly every document has the word. Such a word alone does not make a document match.
    pub is_everywhere: bool,
}

pub(crate) struct Variant {
    pub text: Arc<str>,
    pub kind: VariantKind,
    /// How similar it is to the word; 1 for the word itself.
    pub likeness: f32,
    pub worth: TermWeight,
    pub found: Vec<PartPostings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariantKind {
    Itself,
    /// A word with nearly the same spelling, for a word that may be mistyped.
    Lookalike,
    /// A word with nearly the same meaning.
    Related,
}

impl SearchWord {
    /// Whether no document in sight has the word or a variant of it.
    fn is_unknown(&self) -> bool {
        self.variants.is_empty()
    }

    /// The best variant that a document has and how much it counts, if the document has any.
    pub(crate) fn in_text(&self, part: u32, local: u32) -> Option<(&Variant, f32)> {
        let says = |variant: &'_ Variant| {
            let frequency = variant.found[part as usize].get(local)?;
            Some(variant.likeness * title_share(frequency))
        };
        let known = self.variants.iter().filter_map(|variant| Some((variant, says(variant)?)));
        known.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// The weight of the field that a word is in: the title counts for more than the body.
pub(crate) fn title_share(frequency: Frequency) -> f32 {
    if frequency.title() > 0 { TITLE_SHARE } else { 1.0 }
}

impl QuestionSide {
    /// Whether a document has a word of the question, or one that is spelt nearly the same. Words that nearly every
    /// document has do not count.
    pub(crate) fn has_word(&self, part: u32, local: u32) -> bool {
        let words = self.words.iter().filter(|word| !word.is_everywhere);
        let mut variants = words.flat_map(|word| &word.variants);
        variants.any(|variant| {
            let is_the_word = variant.kind != VariantKind::Related && variant.likeness >= SAME_WORD_MIN;
            is_the_word && variant.found[part as usize].get(local).is_some()
        })
    }
}

impl Index {
    pub(crate) fn ask(
        &self,
        text: &str,
        title_only: bool,
        question: &Question<'_>,
        survey: &Survey,
        by_meaning_too: bool,
    ) -> Result<QuestionSide, Error> {
        let sequence = if question.as_written { lex::written_words(text) } else { lex::question_words(text) };
        let known = sequence.iter().filter(|word| self.embedder.knows(&word.word)).count();
        let is_meaningful = known as f32 >= MEANINGFUL_SHARE * sequence.len() as f32;
        let population = survey.population;
        let mut words = Vec::new();
        let (mut looked_alike, mut weight) = (0, 0.0);
        // The weight of each word, and whether the word counts although it may be unknown.
        let mut meanings: Vec<(&QuestionWord, f32, bool)> = Vec::new();
        let mut distinct: Vec<&QuestionWord> = sequence.iter().collect();
        distinct.sort_by(|one, other| one.term.cmp(&other.term));
        distinct.dedup_by(|next, last| next.term == last.term);
        for asked in distinct {
            let bigrams = if title_only { Vec::new() } else { bigrams_after(&sequence, &asked.term) };
            let TermPostings { parts, many, df, bigram_df } =
                survey.find(self, &asked.term, &bigrams, title_only)?;
            let idf = population.idf_of(df);
            let bigram = |df: &i64| TermWeight::new(*df as f32, BIGRAM_WEIGHT, population);
            let mut word = SearchWord {
                variants: Vec::new(),
                bigrams: bigram_df.iter().map(bigram).collect(),
                share: population.rarity(df as f32),
                is_everywhere: population.many >= EVERYWHERE_TEXTS_MIN
                    && df as f32 >= EVERYWHERE_SHARE * population.many as f32,
            };
            if df > 0 || many > 0 {
                word.variants.push(Variant {
                    text: asked.term.clone(),
                    kind: VariantKind::Itself,
                    likeness: 1.0,
                    worth: TermWeight::new(df as f32, 1.0, population),
                    found: parts,
                });
            }
            if !question.as_written {
                if embed::row_of(&asked.word).is_some() {
                    self.add_related(survey, asked, idf, title_only, &mut word.variants)?;
                } else if looked_alike < LOOKALIKES_FOR_MAX {
                    looked_alike += 1;
                    self.add_lookalikes(survey, &asked.term, title_only, &mut word.variants)?;
                }
            }
            // A word without any variant in sight can be ignored, if the question asks for that.
            let counts = !(question.known_words_only && word.is_unknown());
            weight += if counts { idf } else { 0.0 };
            meanings.push((asked, idf, counts));
            words.push(word);
        }
        let shares: f32 = if question.known_words_only {
            words.iter().filter(|word| !word.is_unknown()).map(|word| word.share).sum()
        } else {
            words.iter().map(|word| word.share).sum()
        };
        words.retain(|word| !word.is_unknown());
        words.iter_mut().for_each(|word| word.share /= shares);
        if words.iter().all(|word| word.is_everywhere) {
            words.iter_mut().for_each(|word| word.is_everywhere = false);
        }
        words.sort_by_key(|word| word.is_everywhere);
        let vector_of = |with_unknown: bool| {
            let counted = |(_, weight, counts): &(&QuestionWord, f32, bool)| match *counts || with_unknown {
                true => *weight,
                false => 0.0,
            };
            // If no word is known, only the meaning is left: all words count the same in it.
            let is_lost = meanings.iter().map(counted).sum::<f32>() == 0.0;
            let weight = |term: &str| {
                let known = meanings.iter().find(|(known, _, _)| *known.term == *term);
                known.map(|known| if is_lost { population.idf_of(0) } else { counted(known) })
            };
            self.embedder.question(text, &weighted_words(text, weight))
        };
        let vector = if question.by == By::Words { Vec::new() } else { vector_of(false)? };
        let mut with_unknown = None;
        if by_meaning_too && meanings.iter().any(|(_, _, counts)| !counts) {
            let vector = vector_of(true)?;
            let code = QuestionCode::new(&vector);
            with_unknown = Some((vector, code));
        }
        Ok(QuestionSide {
            title_only,
            words,
            weight,
            code: QuestionCode::new(&vector),
            vector,
            with_unknown,
            is_meaningful,
        })
    }

    /// Adds the nearest related words that are in sight.
    fn add_related(
        &self,
        survey: &Survey,
        asked: &QuestionWord,
        idf: f32,
        title_only: bool,
        variants: &mut Vec<Variant>,
    ) -> Result<(), Error> {
        let mut many = 0;
        for near in related(&asked.word) {
            if many == RELATED_MAX {
                break;
            }
            let term = lex::term_of(near.word);
            let found = survey.find(self, &term, &[], title_only)?;
            if found.df == 0 {
                continue;
            }
            many += 1;
            // A rare related word must not count for more than the word of the question.
            let ratio = (idf / survey.population.idf_of(found.df)).min(1.0);
            let likeness = RELATED_WEIGHT * near.cosine;
            let worth = TermWeight::new(found.df as f32, likeness * ratio, survey.population);
            variants.push(Variant {
                text: term,
                kind: VariantKind::Related,
                likeness,
                worth,
                found: found.parts,
            });
        }
        Ok(())
    }

    /// For a word that the vocabulary does not have, adds up to four terms in sight that are spelt nearly the same: the word
    /// may be mistyped, inflected or compounded.
    fn add_lookalikes(
        &self,
        survey: &Survey,
        term: &str,
        title_only: bool,
        variants: &mut Vec<Variant>,
    ) -> Result<(), Error> {
        const CHARS_MIN: usize = 4;
        /// A word in sight is not mistyped, so only its other forms are wanted, whose spelling is more
        /// similar.
        const DICE_MIN_KNOWN: f32 = 0.6;
        const DICE_MIN: f32 = 0.45;
        const MANY: usize = 4;
        const WEIGHT: f32 = 0.9;
        // A word with digits is a name: if `job744` is in sight, `job74` is another name and not a misspelling of it.
        let names_one_thing = !variants.is_empty() && term.contains(|c: char| c.is_ascii_digit());
        if term.chars().count() < CHARS_MIN || names_one_thing {
            return Ok(());
        }
        let likeness_min = if variants.is_empty() { DICE_MIN } else { DICE_MIN_KNOWN };
        let (asked, bits) = (trigrams(term), trigram_bits(term));
        let asked_bits: Vec<u64> = asked.iter().map(trigram_bit).collect();
        // Similar words share trigrams, and so bits; the bound is half of that, since several trigrams can
        // have one bit.
        let bits_min = (DICE_MIN * asked.len() as f32 / 2.0) as u32;
        let mut alike: Vec<(f32, Arc<str>)> = Vec::new();
        let mut look = |known: &str, known_bits: u64| {
            if (known_bits & bits).count_ones() < bits_min
                || known.len() < CHARS_MIN
                || known.starts_with(LABEL)
            {
                return;
            }
            // Nearly all terms of the index are checked here, so most are ruled out by their bits before
            // their trigrams are made.
            let is_near =
                known.len().abs_diff(term.len()) <= 2 && dice_max(&asked_bits, known_bits) >= likeness_min;
            let spelling = if is_near { dice(&asked, &trigrams(known)) } else { 0.0 };
            let likeness = spelling.max(same_beginning(term, known));
            if likeness >= likeness_min && known != term {
                alike.push((likeness, known.into()));
            }
        };
        self.segments.iter().for_each(|segment| segment.each_term(&mut look));
        self.tail.each_term(&mut look);
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        alike.dedup();
        let mut many = 0;
        for (dice, known) in alike {
            if many == MANY {
                break;
            }
            let found = survey.find(self, &known, &[], title_only)?;
            if found.df > 0 {
                many += 1;
                let likeness = WEIGHT * dice;
                let worth = TermWeight::new(found.df as f32, likeness, survey.population);
                let kind = VariantKind::Lookalike;
                variants.push(Variant { text: known, kind, likeness, worth, found: found.parts });
            }
        }
        Ok(())
    }

    /// The terms of a question, each once, with its inverse document frequency in sight.
    pub fn rarities(&self, text: &str, sight: &Sight<'_>) -> Result<Vec<Rarity>, Error> {
        let survey = Survey::new(self, sight, None)?;
        let mut terms = lex::question_terms(text);
        terms.sort();
        terms.dedup();
        let rarity = |term: Arc<str>| {
            let df = survey.find(self, &term, &[], false)?.df;
            Ok(Rarity { term, idf: survey.population.idf(df as f32) })
        };
        terms.into_iter().map(rarity).collect()
    }
}

/// The length of the common beginning of two words compared with the words, if it is long enough to be a word itself.
/// Example: `lagerplatznummer` and `lagerplatz` have 2 * 10 / (16 + 10) = 0.77; `restart` and `restore` have 0.
fn same_beginning(one: &str, other: &str) -> f32 {
    const CHARS_MIN: usize = 6;
    let common = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    if common < CHARS_MIN {
        return 0.0;
    }
    2.0 * common as f32 / (one.chars().count() + other.chars().count()) as f32
}

/// The words of a question, each with its weight in the vector of the question. `weight` gives the weight of a term.
pub fn weighted_words(text: &str, weight: impl Fn(&str) -> Option<f32>) -> Vec<(String, f32)> {
    let counts = |word: &str| weight(&lex::term_of(word)).unwrap_or(0.0);
    let mut words = Vec::new();
    for (word, pieces) in lex::meaning_words(text) {
        if !pieces.is_empty() {
            // The pieces of an identifier tell its meaning: `getUserName` is get, user and name.
            words.extend(pieces.into_iter().map(|piece| {
                let counts = counts(&piece);
                (piece, counts)
            }));
            continue;
        }
        let counts = counts(&word);
        let is_stop_word = counts == 0.0 && lex::is_stop(&word);
        words.push((word, if is_stop_word { STOP_WORD_WEIGHT } else { counts }));
    }
    words
}

/// The bigrams of the question that begin with a term, each once.
fn bigrams_after(sequence: &[QuestionWord], term: &str) -> Vec<Bigram> {
    let pairs = sequence.windows(2).filter(|pair| *pair[0].term == *term);
    let mut next: Vec<Bigram> = pairs.map(|pair| bigram_hash(&pair[1].term)).collect();
    next.sort_unstable();
    next.dedup();
    next
}
