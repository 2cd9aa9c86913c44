//! What a question asks for: its words, where they stand in what may be seen, and what each of them is worth there.
//!
//! Every number is counted in sight, as of the moment of the question. So nothing that the question may not see changes an
//! answer, and an answer as of an earlier moment never changes.

use std::sync::Arc;
use std::time::Instant;

use crate::document::LABEL;
use crate::embed;
use crate::error::Error;
use crate::evidence::Rarity;
use crate::index::Index;
use crate::lex::{self, QuestionWord};
use crate::part::{Part, Sight, Stretches};
use crate::postings::{Frequency, Link, count_links, link_to};
use crate::related::related;
use crate::score::{BIGRAM_WEIGHT, Population, RELATED_WEIGHT, TITLE_SHARE, Worth, counted};
use crate::search::{By, Question, in_part};
use crate::trigrams::{dice, dice_max, trigram_bit, trigram_bits, trigrams};
use crate::vectors::Quantised;

/// So many related words of a word are sought; more add noise and reading.
const RELATED_MAX: usize = 8;
/// The table of vectors knows the words of one language. A question is judged by its meaning only if it knows this share of
/// the question's words.
const MEANINGFUL_SHARE: f32 = 0.5;
/// For so many words of a question words that look alike are sought: each takes a look at every term there is.
const LOOKALIKES_FOR_MAX: usize = 8;
/// A word that so large a share of the texts has says nothing about which of them is meant. It adds to the score of what
/// matches by another word.
const EVERYWHERE_SHARE: f32 = 0.7;
/// A word that is spelt this much alike is taken for the same word, mistyped or inflected.
const SAME_WORD_MIN: f32 = 0.6;
/// What a stop word counts when the meaning of a question is judged; other words count by how rare they are.
const STOP_WORD_WEIGHT: f32 = 0.5;
/// In fewer texts than this no share is large.
const EVERYWHERE_TEXTS_MIN: i64 = 20;

/// What is in sight, part by part.
pub(crate) struct Survey {
    pub parts: Vec<SurveyedPart>,
    pub population: Population,
    /// When nobody waits for the answer any more.
    deadline: Option<Instant>,
}

pub(crate) struct SurveyedPart {
    pub within: Stretches,
    /// By local number; empty when everything in the stretches is there.
    is_absent: Vec<bool>,
}

impl SurveyedPart {
    fn new(part: &impl Part, sight: &Sight<'_>, population: &mut Population) -> Result<SurveyedPart, Error> {
        let within = part.stretches(sight);
        let mut absent = Vec::new();
        part.absent(sight, &within, &mut |local| absent.push(local))?;
        population.many += i64::from(within.many);
        population.length += part.lengths(&within);
        let mut is_absent = Vec::new();
        if !absent.is_empty() {
            is_absent = vec![false; within.many as usize];
        }
        for local in absent {
            // A version may be told twice.
            if !std::mem::replace(&mut is_absent[local as usize], true) {
                population.many -= 1;
                population.length -= i64::from(part.length(within.doc(local)));
            }
        }
        Ok(SurveyedPart { within, is_absent })
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
            parts.push(in_part!(index, number, part => SurveyedPart::new(part, sight, &mut population)?));
        }
        Ok(Survey { parts, population, deadline })
    }

    /// Asked before every term and every share of the texts: work ends soon after its time is over.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::OutOfTime),
            _ => Ok(()),
        }
    }

    /// Everything in sight that has a term. `links` are what may come after it, if that is of interest.
    fn find(&self, index: &Index, text: &str, links: &[Link], title_only: bool) -> Result<Found, Error> {
        self.check_time()?;
        let mut found = Found { parts: Vec::new(), df: 0, bigram_df: vec![0; links.len()] };
        for (surveyed, number) in self.parts.iter().zip(0..) {
            let mut occurrences =
                Occurrences { postings: Vec::new(), bigrams: vec![Vec::new(); links.len()] };
            in_part!(index, number, part => if let Some(term) = part.term(text) {
                let within = &surveyed.within;
                part.postings(&term, within, !links.is_empty(), &mut |local, doc, frequency, follows| {
                    if surveyed.is_absent(local) {
                        return;
                    }
                    // The words of the text before are not words of this one.
                    found.df += i64::from(frequency.title() + frequency.body() > 0);
                    if counted(frequency, title_only) > 0.0 {
                        occurrences.postings.push(Posting { local, length: part.length(doc), frequency });
                        for (at, link) in links.iter().enumerate() {
                            let often = count_links(follows, *link).min(255) as u8;
                            found.bigram_df[at] += i64::from(often > 0);
                            occurrences.bigrams[at].push(often);
                        }
                    }
                })?;
            });
            found.parts.push(occurrences);
        }
        Ok(found)
    }
}

/// Where a term stands, and in how many texts.
struct Found {
    parts: Vec<Occurrences>,
    df: i64,
    bigram_df: Vec<i64>,
}

/// Where a term stands in one part, in order.
pub(crate) struct Occurrences {
    pub postings: Vec<Posting>,
    /// For each of the terms that may come after it, how often it does, posting by posting.
    pub bigrams: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Posting {
    pub local: u32,
    pub length: u32,
    pub frequency: Frequency,
}

impl Occurrences {
    /// Those of some local numbers.
    pub(crate) fn range(&self, locals: &std::ops::Range<u32>) -> std::ops::Range<usize> {
        let start = self.postings.partition_point(|posting| posting.local < locals.start);
        let end = start + self.postings[start..].partition_point(|posting| posting.local < locals.end);
        start..end
    }

    fn get(&self, local: u32) -> Option<&Posting> {
        let at = self.postings.binary_search_by_key(&local, |posting| posting.local).ok()?;
        Some(&self.postings[at])
    }
}

/// One side of a question: a text that is sought somewhere.
pub(crate) struct Ask {
    pub title_only: bool,
    /// Those that stand anywhere in sight, each once; those that stand everywhere come last.
    pub words: Vec<AskedWord>,
    /// What all words of the question are worth together.
    pub weight: f32,
    pub vector: Vec<f32>,
    pub quantised: Quantised,
    /// Whether the embedder knows enough of the words to say what a text without any of them means.
    pub is_meaningful: bool,
}

pub(crate) struct AskedWord {
    /// The word itself if it is in sight, and what may stand for it. The best of them counts in each text.
    pub variants: Vec<Variant>,
    /// What the terms are worth that come after it in the question and in a text.
    pub bigrams: Vec<Worth>,
    /// The share of the word in the weight of the question.
    pub share: f32,
    /// Too common to be the reason why a text matches.
    pub is_everywhere: bool,
}

pub(crate) struct Variant {
    pub text: Arc<str>,
    pub kind: VariantKind,
    /// How much it is like the word, 1 for the word itself.
    pub likeness: f32,
    pub worth: Worth,
    pub found: Vec<Occurrences>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariantKind {
    Itself,
    /// Spelt nearly the same, for a word that may be mistyped.
    Lookalike,
    /// Means nearly the same.
    Related,
}

impl AskedWord {
    /// Whether nothing in sight has the word, or anything that may stand for it.
    fn is_unknown(&self) -> bool {
        self.variants.is_empty()
    }

    /// The variant that a text has and how much it says, if it has any.
    pub(crate) fn in_text(&self, part: u32, local: u32) -> Option<(&Variant, f32)> {
        let says = |variant: &'_ Variant| {
            let posting = variant.found[part as usize].get(local)?;
            Some(variant.likeness * title_share(posting.frequency))
        };
        let known = self.variants.iter().filter_map(|variant| Some((variant, says(variant)?)));
        known.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// A word in the title says more about the matter.
pub(crate) fn title_share(frequency: Frequency) -> f32 {
    if frequency.title() > 0 { TITLE_SHARE } else { 1.0 }
}

impl Ask {
    /// Whether a text has a word of the question, or one that is spelt nearly the same, which is not everywhere.
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
    ) -> Result<Ask, Error> {
        let sequence = if question.as_written { lex::written_words(text) } else { lex::question_words(text) };
        let known = sequence.iter().filter(|word| self.embedder.knows(&word.word)).count();
        let is_meaningful = known as f32 >= MEANINGFUL_SHARE * sequence.len() as f32;
        let population = survey.population;
        let mut words = Vec::new();
        let (mut looked_alike, mut weight) = (0, 0.0);
        // What each word counts in the question's vector.
        let mut meanings: Vec<(&QuestionWord, f32)> = Vec::new();
        let mut distinct: Vec<&QuestionWord> = sequence.iter().collect();
        distinct.sort_by(|one, other| one.term.cmp(&other.term));
        distinct.dedup_by(|next, last| next.term == last.term);
        for asked in distinct {
            let links = if title_only { Vec::new() } else { next_links(&sequence, &asked.term) };
            let Found { parts, df, bigram_df } = survey.find(self, &asked.term, &links, title_only)?;
            let idf = population.idf_of(df);
            let bigram = |df: &i64| Worth::new(*df as f32, BIGRAM_WEIGHT, population);
            let mut word = AskedWord {
                variants: Vec::new(),
                bigrams: bigram_df.iter().map(bigram).collect(),
                share: population.rarity(df as f32),
                is_everywhere: population.many >= EVERYWHERE_TEXTS_MIN
                    && df as f32 >= EVERYWHERE_SHARE * population.many as f32,
            };
            if df > 0 || parts.iter().any(|found| !found.postings.is_empty()) {
                word.variants.push(Variant {
                    text: asked.term.clone(),
                    kind: VariantKind::Itself,
                    likeness: 1.0,
                    worth: Worth::new(df as f32, 1.0, population),
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
            // What nothing in sight has, and nothing like it, may be left out of account.
            let counts = !(question.known_words_only && word.is_unknown());
            weight += if counts { idf } else { 0.0 };
            meanings.push((asked, if counts { idf } else { 0.0 }));
            words.push(word);
        }
        if weight == 0.0 {
            // None of the words is known: then their meaning is all there is.
            meanings.iter_mut().for_each(|(_, counts)| *counts = population.idf_of(0));
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
        let vector = if question.by == By::Words {
            Vec::new()
        } else {
            let weight = |term: &str| {
                let known = meanings.iter().find(|(known, _)| *known.term == *term);
                known.map(|(_, counts)| *counts)
            };
            self.embedder.question(text, &weighted_words(text, weight))?
        };
        Ok(Ask { title_only, words, weight, quantised: Quantised::new(&vector), vector, is_meaningful })
    }

    /// The nearest words in sight that mean nearly the same.
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
            // A rare related word must not count for more than the word that was asked for.
            let ratio = (idf / survey.population.idf_of(found.df)).min(1.0);
            let likeness = RELATED_WEIGHT * near.cosine;
            let worth = Worth::new(found.df as f32, likeness * ratio, survey.population);
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

    /// For a word that the vocabulary does not have, up to four in sight that look like it: it may be mistyped, inflected or
    /// compounded.
    fn add_lookalikes(
        &self,
        survey: &Survey,
        term: &str,
        title_only: bool,
        variants: &mut Vec<Variant>,
    ) -> Result<(), Error> {
        const CHARS_MIN: usize = 4;
        /// For a word that is in sight only its other forms are of interest.
        const DICE_MIN_KNOWN: f32 = 0.6;
        const DICE_MIN: f32 = 0.45;
        const MANY: usize = 4;
        const WEIGHT: f32 = 0.9;
        // A word with digits names one thing: where `job744` is known, `job74` is another and no misspelling of it.
        let names_one_thing = !variants.is_empty() && term.contains(|c: char| c.is_ascii_digit());
        if term.chars().count() < CHARS_MIN || names_one_thing {
            return Ok(());
        }
        let likeness_min = if variants.is_empty() { DICE_MIN } else { DICE_MIN_KNOWN };
        let (asked, bits) = (trigrams(term), trigram_bits(term));
        let asked_bits: Vec<u64> = asked.iter().map(trigram_bit).collect();
        // What looks alike shares trigrams, and shared trigrams are shared bits; a few may fall on one bit.
        let bits_min = (DICE_MIN * asked.len() as f32 / 2.0) as u32;
        let mut alike: Vec<(f32, Arc<str>)> = Vec::new();
        let mut look = |known: &str, known_bits: u64| {
            if (known_bits & bits).count_ones() < bits_min
                || known.len() < CHARS_MIN
                || known.starts_with(LABEL)
            {
                return;
            }
            // Nearly all words of the index come here, so what can't be alike enough is told by its bits alone.
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
                let worth = Worth::new(found.df as f32, likeness, survey.population);
                let kind = VariantKind::Lookalike;
                variants.push(Variant { text: known, kind, likeness, worth, found: found.parts });
            }
        }
        Ok(())
    }

    /// The terms of a question, each once, and how rare each is in sight; the rarest is what nobody uses.
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

/// How much of two words their common beginning is, if it is long enough to be a word itself: `lagerplatznummer` and
/// `lagerplatz` have .77, words that only begin alike have 0.
fn same_beginning(one: &str, other: &str) -> f32 {
    const CHARS_MIN: usize = 6;
    let common = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    if common < CHARS_MIN {
        return 0.0;
    }
    2.0 * common as f32 / (one.chars().count() + other.chars().count()) as f32
}

/// The words of a question, each with what it counts when the meaning of the question is judged. `weight` gives what a
/// term that was sought counts.
pub fn weighted_words(text: &str, weight: impl Fn(&str) -> Option<f32>) -> Vec<(String, f32)> {
    let counts = |word: &str| weight(&lex::term_of(word)).unwrap_or(0.0);
    let mut words = Vec::new();
    for (word, pieces) in lex::meaning_words(text) {
        if !pieces.is_empty() {
            // Of an identifier the pieces say what is meant.
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

/// Links to what comes after a term in the question, each once.
fn next_links(sequence: &[QuestionWord], term: &str) -> Vec<Link> {
    let pairs = sequence.windows(2).filter(|pair| *pair[0].term == *term);
    let mut next: Vec<Link> = pairs.map(|pair| link_to(&pair[1].term)).collect();
    next.sort_unstable();
    next.dedup();
    next
}
