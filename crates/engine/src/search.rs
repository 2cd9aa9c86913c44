//! Finding entries by words, meaning, tags and age.

use std::ops::Range;

use kenning_model::{EntityType, Id, Timestamp, fold};
use kenning_retrieval::evidence::{FoundText, Quote, QuoteLimits, Rarity, overlapping, quotes};
use kenning_retrieval::windows::{Evidence, windows};
use kenning_retrieval::{By, MatchMinimum, Why};
use kenning_storage::{EntryFilter, Error, Stored};

use crate::indexed::Match;
use crate::{Sight, Snapshot};

/// A search for entries. Words of one field are alternatives; both fields must match when both are given.
pub struct Question<'a> {
    pub sight: &'a Sight,
    /// Words to find in the topic.
    pub topic: Option<&'a str>,
    /// Words to find anywhere in the entry, also by their meaning.
    pub content: Option<&'a str>,
    /// The entry must have all of these tags.
    pub tags: &'a [String],
    /// The time at which an entry must be valid and not suppressed; `None` includes suppressed and expired
    /// entries.
    pub visible_at: Option<Timestamp>,
    pub by: By,
    /// Ignores words that no visible text has, unless all words are of that kind.
    pub known_words_only: bool,
    /// Whether hits say why they matched.
    pub explain: bool,
}

/// A search of an index, whatever kind of records the index holds.
#[derive(Clone)]
pub(crate) struct Asked<'a> {
    pub sight: &'a Sight,
    pub title: Option<&'a str>,
    pub text: Option<&'a str>,
    /// For each of these lists, a record must have one of its labels.
    pub labels: Vec<Vec<String>>,
    pub visible_at: Option<Timestamp>,
    pub by: By,
    pub as_written: bool,
    pub known_words_only: bool,
    pub least: MatchMinimum,
    /// Whether the few nearest records match even if their meaning is further away than the usual limit.
    pub with_nearest: bool,
    pub explain: bool,
}

impl Asked<'_> {
    /// The same search in the types of the index; `groups` are those of its sight.
    pub(crate) fn of_index<'q>(&'q self, groups: &'q [u32]) -> kenning_retrieval::Question<'q> {
        let valid_at = self.visible_at.map(|now| now.as_millisecond());
        kenning_retrieval::Question {
            title: self.title,
            text: self.text,
            sight: kenning_retrieval::Sight { at: self.sight.at.0, groups, labels: &self.labels, valid_at },
            by: self.by,
            as_written: self.as_written,
            known_words_only: self.known_words_only,
            least: self.least,
            with_nearest: self.with_nearest,
            explain: self.explain,
        }
    }
}

impl<'a> From<&Question<'a>> for Asked<'a> {
    fn from(question: &Question<'a>) -> Asked<'a> {
        Asked {
            sight: question.sight,
            title: question.topic,
            text: question.content,
            labels: question.tags.iter().map(|tag| vec![fold(tag)]).collect(),
            visible_at: question.visible_at,
            by: question.by,
            as_written: false,
            known_words_only: question.known_words_only,
            least: MatchMinimum::Some,
            with_nearest: true,
            explain: question.explain,
        }
    }
}

/// The labels by which a search for sections can be restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionLabel {
    DocTag,
    Repository,
    Environment,
}

impl SectionLabel {
    pub(crate) fn of(self, value: &str) -> String {
        let kind = match self {
            SectionLabel::DocTag => "doc_tag",
            SectionLabel::Repository => "repository",
            SectionLabel::Environment => "environment",
        };
        format!("{kind}={}", fold(value))
    }
}

/// The labels by which a search for patterns can be restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternLabel {
    Category,
    Difficulty,
}

impl PatternLabel {
    pub(crate) fn of(self, value: &str) -> String {
        let kind = match self {
            PatternLabel::Category => "category",
            PatternLabel::Difficulty => "difficulty",
        };
        format!("{kind}={}", fold(value))
    }
}

/// How sentences are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scoring {
    /// By how rare the words are, and by the words around them.
    #[default]
    Weighted,
    /// By the number of words that they share with the question.
    Overlap,
}

/// A search for passages of documents.
pub struct SectionQuestion<'a> {
    pub sight: &'a Sight,
    pub text: &'a str,
    /// A section must have one value of each list; an empty list restricts nothing.
    pub only: &'a [(SectionLabel, Vec<String>)],
    /// Takes the words exactly as written: identifiers are not split, and an unknown word is not replaced by
    /// a similar one.
    pub as_written: bool,
}

/// The passages found, with the ids of their sections; a caller reads the sections that it wants.
pub struct FoundPassages {
    /// The best first.
    pub hits: Vec<PassageHit>,
    pub total: u64,
    pub is_degraded: bool,
}

pub struct PassageHit {
    pub section: Id,
    /// The number of the passage in its section, in the order of `passage_ranges` of the clean text.
    pub passage: usize,
    pub why: Explanation,
}

pub struct Found {
    pub hits: Vec<EntryHit>,
    pub total: u64,
    /// Whether words alone decided, because some vectors are not made yet.
    pub is_degraded: bool,
}

pub struct EntryHit {
    pub stored: Stored,
    /// Why the entry matched, if that was asked for; `None` if entries were only ordered by time.
    pub explanation: Option<Explanation>,
}

/// The parts of a score, relative to the best match, which has 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    pub total: f64,
    pub lexical: f64,
    pub dense: f64,
    pub matched_terms: Vec<String>,
}

impl Explanation {
    pub(crate) fn new(score: f32, why: &Why) -> Explanation {
        let [total, lexical, dense] = [score, why.lexical, why.dense].map(f64::from);
        Explanation { total, lexical, dense, matched_terms: why.matched.clone() }
    }
}

impl Snapshot<'_> {
    /// The sentences of these texts that answer the question, best first. Words are weighted by how rare they
    /// are in entries.
    pub fn quotes(
        &self,
        sight: &Sight,
        question: &str,
        sources: &[FoundText<'_>],
        most: QuoteLimits,
    ) -> Result<Vec<Quote>, Error> {
        let rarities = self.indexed().rarities(self.reader(), self.deadline(), sight, question)?;
        Ok(quotes(&rarities, sources, most))
    }

    /// The terms of some questions, and how rare each is among the entries in sight; `excerpt` chooses by
    /// them.
    pub fn rarities(&self, sight: &Sight, questions: &[&str]) -> Result<Vec<Rarity>, Error> {
        self.indexed().rarities(self.reader(), self.deadline(), sight, &questions.join("\n"))
    }

    /// The newest entries in sight, without counting how many there are.
    pub fn newest_entries(&self, sight: &Sight, now: Timestamp, many: u64) -> Result<Vec<Stored>, Error> {
        let filter = EntryFilter { scopes: &sight.scopes, at: sight.at, visible_at: Some(now) };
        self.reader().entries(&filter, 0..many)
    }

    /// The sentences of sections that answer the question, best first.
    pub fn section_quotes(
        &self,
        sight: &Sight,
        question: &str,
        sources: &[FoundText<'_>],
        most: QuoteLimits,
        scoring: Scoring,
    ) -> Result<Vec<Quote>, Error> {
        if scoring == Scoring::Overlap {
            return Ok(overlapping(question, sources, most));
        }
        let rarities = self.sections().rarities(self.reader(), self.deadline(), sight, question)?;
        Ok(quotes(&rarities, sources, most))
    }

    /// The parts of sections that answer the question, best first.
    pub fn section_windows(
        &self,
        sight: &Sight,
        question: &str,
        sources: &[FoundText<'_>],
        most: QuoteLimits,
        scoring: Scoring,
    ) -> Result<Evidence, Error> {
        if scoring == Scoring::Overlap {
            return Ok(Evidence { quotes: overlapping(question, sources, most), is_doubtful: false });
        }
        let rarities = self.sections().rarities(self.reader(), self.deadline(), sight, question)?;
        Ok(windows(question, &rarities, sources, most))
    }

    /// One page of the passages of documents that match, best first.
    pub fn search_passages(
        &self,
        question: &SectionQuestion<'_>,
        page: Range<u64>,
    ) -> Result<FoundPassages, Error> {
        let only = question.only.iter().filter(|(_, values)| !values.is_empty());
        let labels = only.map(|(label, values)| values.iter().map(|value| label.of(value)).collect());
        let asked = Asked {
            sight: question.sight,
            title: None,
            text: Some(question.text),
            labels: labels.collect(),
            visible_at: None,
            by: By::WordsAndMeaning,
            as_written: question.as_written,
            known_words_only: false,
            least: MatchMinimum::Some,
            with_nearest: false,
            explain: true,
        };
        let matches = self.sections().search(self.reader(), self.deadline(), &asked, page)?;
        let hit = |found: Match| PassageHit {
            section: found.id,
            passage: found.passage,
            // If the question had nothing to rank by, all hits are equally good.
            why: found.explanation.unwrap_or_default(),
        };
        let hits = matches.hits.into_iter().map(hit).collect();
        Ok(FoundPassages { hits, total: matches.total, is_degraded: matches.is_degraded })
    }

    /// One page of the matches, best first; newest first if the question has nothing to rank by.
    pub fn search(&self, question: &Question<'_>, page: Range<u64>) -> Result<Found, Error> {
        if question.topic.is_none() && question.content.is_none() && question.tags.is_empty() {
            let filter = EntryFilter {
                scopes: &question.sight.scopes,
                at: question.sight.at,
                visible_at: question.visible_at,
            };
            let hits = self.reader().entries(&filter, page)?;
            let hits = hits.into_iter().map(|stored| EntryHit { stored, explanation: None }).collect();
            return Ok(Found { hits, total: self.reader().count_entries(&filter)?, is_degraded: false });
        }
        let matches = self.indexed().search(self.reader(), self.deadline(), &question.into(), page)?;
        let ids: Vec<Id> = matches.hits.iter().map(|hit| hit.id).collect();
        let records = self.found(EntityType::Entry, &ids)?.into_iter();
        let explanations = matches.hits.into_iter().map(|hit| hit.explanation);
        let hits = records.zip(explanations).map(|(stored, explanation)| EntryHit { stored, explanation });
        let hits = hits.collect();
        Ok(Found { hits, total: matches.total, is_degraded: matches.is_degraded })
    }
}
