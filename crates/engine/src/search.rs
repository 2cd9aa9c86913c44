//! Finding entries. A plain scan of the entries that are visible at the transaction: every match is found and
//! counted, and the order depends on the store at that transaction alone.

use std::ops::Range;

use kenning_model::{Entry, Id, Record, ScopeId, Timestamp, TxId, fold};
use kenning_storage::{EntryFilter, Error, Stored};

use crate::Snapshot;

/// What is sought. Words of one field are alternatives; both fields must match when both are given.
pub struct Question<'a> {
    pub scopes: &'a [ScopeId],
    /// Words sought in the topic.
    pub topic: Option<&'a str>,
    /// Words sought anywhere.
    pub content: Option<&'a str>,
    /// All of these must be there.
    pub tags: &'a [String],
    /// `None` takes suppressed and expired entries too.
    pub visible_at: Option<Timestamp>,
}

pub struct Found {
    pub hits: Vec<Hit>,
    pub total: u64,
}

pub struct Hit {
    pub stored: Stored,
    /// Why it matched; none when nothing but the order of time decided.
    pub explanation: Option<Explanation>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub score: f64,
    pub matched_terms: Vec<String>,
}

/// A word in the topic says more about an entry than one in its text.
const TOPIC_WEIGHT: f64 = 3.0;

impl Snapshot<'_> {
    pub fn search(&self, question: &Question<'_>, page: Range<u64>) -> Result<Found, Error> {
        let filter = EntryFilter { scopes: question.scopes, at: self.at(), visible_at: question.visible_at };
        if question.topic.is_none() && question.content.is_none() && question.tags.is_empty() {
            let hits = self.reader().entries(&filter, page)?;
            let hits = hits.into_iter().map(|stored| Hit { stored, explanation: None }).collect();
            return Ok(Found { hits, total: self.reader().count_entries(&filter)? });
        }
        let topic = question.topic.map(terms);
        let content = question.content.map(terms);
        let tags: Vec<String> = question.tags.iter().map(|tag| fold(tag)).collect();
        let mut matches: Vec<(Explanation, TxId, Id)> = Vec::new();
        self.reader().scan_entries(&filter, &mut |stored| {
            let Record::Entry(entry) = &stored.record else { return };
            let has_tag = |tag: &String| entry.tags.iter().any(|own| fold(own) == *tag);
            if tags.iter().all(has_tag)
                && let Some(explanation) = explain(entry, topic.as_deref(), content.as_deref())
            {
                matches.push((explanation, stored.tx_id, stored.id));
            }
        })?;
        matches.sort_by(|(a, a_tx, a_id), (b, b_tx, b_id)| {
            b.score.total_cmp(&a.score).then(b_tx.cmp(a_tx)).then(a_id.cmp(b_id))
        });
        let total = matches.len() as u64;
        let page = matches.into_iter().skip(page.start as usize).take((page.end - page.start) as usize);
        let mut hits = Vec::new();
        for (explanation, _, id) in page {
            if let Some(stored) = self.entry(id)? {
                hits.push(Hit { stored, explanation: Some(explanation) });
            }
        }
        Ok(Found { hits, total })
    }
}

/// `None` when a field that was asked for has no word in common with the entry.
fn explain(entry: &Entry, topic: Option<&[String]>, content: Option<&[String]>) -> Option<Explanation> {
    let in_topic: Vec<String> = words(&entry.topic).collect();
    let mut in_text: Vec<String> = words(&entry.content).collect();
    in_text.extend(entry.context.iter().flat_map(|context| words(context)));
    in_text.extend(entry.tags.iter().flat_map(|tag| words(tag)));
    let mut explanation = Explanation { score: 0.0, matched_terms: Vec::new() };
    for (asked, anywhere) in [(topic, false), (content, true)] {
        let Some(asked) = asked else { continue };
        let before = explanation.score;
        for term in asked {
            let score = match in_topic.contains(term) {
                true => TOPIC_WEIGHT,
                false if anywhere && in_text.contains(term) => 1.0,
                false => continue,
            };
            explanation.score += score;
            explanation.matched_terms.push(term.clone());
        }
        if explanation.score == before {
            return None;
        }
    }
    explanation.matched_terms.dedup();
    Some(explanation)
}

fn terms(text: &str) -> Vec<String> {
    let mut terms: Vec<String> = words(text).collect();
    terms.sort();
    terms.dedup();
    terms
}

/// Runs of letters and digits, without case and without the plural `s`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        let mut word = word.to_lowercase();
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
        word
    })
}
