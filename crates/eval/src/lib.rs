//! Measures how well search finds what it should: labelled questions about labelled texts, asked of the
//! engine that the tools use.

mod catalogue;
mod conversations;
mod documents;
mod library;
mod measure;
mod questions;
mod recall;
mod set;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use kenning_engine::{By, Embedder, Engine, Found, FoundText, Question, QuoteLimits};
use kenning_model::{Entry, Id, Principal, ScopeId};
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::{TempStore, make_scopes};

pub use catalogue::{Specific, ask_catalogue};
pub use conversations::{Conversations, ShownScores, Unit, evaluate_conversations};
pub use documents::{Files, evaluate_documents};
pub use library::{Library, quoted, text_of};
pub use measure::{Interval, Scores, answers};
pub use questions::{Figures, JudgedReply, TreeQuestion, ask_tree};
pub use recall::{HookScores, Organisation, RecallScores, evaluate_recall, evaluate_recall_hook};
pub use set::{LabelledQuestion, Set, Text};

/// The number of hits by which a question is judged.
const DEPTH: usize = 10;
const STORED_AT_ONCE: usize = 500;
/// The number of texts that may be quoted from, and the number of quotes.
const QUOTED: usize = 5;
const QUOTES: usize = 6;

/// Stores the texts, asks the questions, and judges the replies.
pub fn evaluate(set: &Set, embedder: Embedder, with_evidence: bool) -> anyhow::Result<Scores> {
    let store = TempStore::in_memory();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources()).with_embedder(embedder);
    let mut scopes = Scopes::default();
    for text in &set.texts {
        scopes.of(&text.scope);
    }
    make_scopes(&engine, scopes.0.len() as u32);
    let mut groups: HashMap<Id, &str> = HashMap::new();
    for texts in set.texts.chunks(STORED_AT_ONCE) {
        let ids = put(&engine, texts, &mut scopes)?;
        groups.extend(ids.into_iter().zip(texts.iter().map(Text::group)));
    }
    // The first questions wait for the index; they are not timed.
    if let Some(asked) = set.questions.first() {
        while search(&engine, asked, &scopes.seen_from(asked))?.is_degraded {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let mut judged = Vec::new();
    for asked in set.questions.iter().filter(|asked| !asked.relevant.is_empty()) {
        let seen = scopes.seen_from(asked);
        let since = Instant::now();
        let found = ask(&engine, asked, &seen)?;
        let took = since.elapsed();
        let mut ranking: Vec<&str> = Vec::new();
        for id in found {
            let group = groups.get(&id).copied().context("every hit is a text of the set")?;
            // A document counts once, at the rank of its best passage.
            if !ranking.contains(&group) {
                ranking.push(group);
            }
        }
        ranking.truncate(DEPTH);
        let mut one = measure::Judged::new(&ranking, &asked.relevant, took);
        if with_evidence && !asked.answers.is_empty() {
            one.answered = Some(is_answered(&engine, asked, &seen)?);
        }
        judged.push(one);
    }
    Ok(Scores::of(&judged))
}

/// The principal that asks and writes.
fn owner() -> Principal {
    Principal::owner("eval", "eval")
}

fn put(engine: &Engine, texts: &[Text], scopes: &mut Scopes) -> anyhow::Result<Vec<Id>> {
    let new =
        texts.iter().map(|text| NewEntry::new(scopes.of(&text.scope), &text.title, &text.text)).collect();
    let request =
        Request { principal: owner().into(), tool: "store".into(), write: Write::StoreAll(new), keyed: None };
    let done = engine.commit(request)?;
    Ok(done.tx.changes.iter().map(|change| change.id).collect())
}

/// Whether the quoted sentences contain the answer.
fn is_answered(engine: &Engine, asked: &LabelledQuestion, scopes: &[ScopeId]) -> anyhow::Result<bool> {
    let found = search(engine, asked, scopes)?;
    let entries: Vec<&Entry> =
        found.hits.iter().take(QUOTED).filter_map(|hit| hit.stored.record.as_entry()).collect();
    let sources: Vec<FoundText<'_>> =
        entries.iter().map(|entry| FoundText::new(&entry.topic, &entry.content)).collect();
    let snapshot = engine.snapshot(&owner())?;
    let sight = snapshot.sight_of(scopes.to_vec());
    let quotes = snapshot.quotes(
        &sight,
        &asked.text,
        &sources,
        QuoteLimits { quotes: QUOTES, ..QuoteLimits::default() },
    )?;
    let texts: Vec<&str> =
        quotes.iter().map(|quote| &sources[quote.source].text[quote.range.clone()]).collect();
    Ok(measure::answers(&texts, &asked.answers))
}

/// The ids of the hits. There are more than are judged, because several may belong to one document.
fn ask(engine: &Engine, asked: &LabelledQuestion, scopes: &[ScopeId]) -> anyhow::Result<Vec<Id>> {
    let found = search(engine, asked, scopes)?;
    Ok(found.hits.into_iter().map(|hit| hit.stored.id).collect())
}

fn search(engine: &Engine, asked: &LabelledQuestion, scopes: &[ScopeId]) -> anyhow::Result<Found> {
    let snapshot = engine.snapshot(&owner())?;
    let sight = snapshot.sight_of(scopes.to_vec());
    let question = Question {
        sight: &sight,
        topic: None,
        content: Some(&asked.text),
        tags: &[],
        visible_at: Some(engine.now()),
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: false,
    };
    Ok(snapshot.search(&question, 0..5 * DEPTH as u64)?)
}

/// The names of a set's scopes, with numbers.
#[derive(Default)]
struct Scopes(HashMap<String, ScopeId>);

impl Scopes {
    fn of(&mut self, name: &str) -> ScopeId {
        let next = ScopeId(self.0.len() as u32 + 1);
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    fn seen_from(&self, asked: &LabelledQuestion) -> Vec<ScopeId> {
        let wanted = |name: &str| asked.scope.as_ref().is_none_or(|scope| scope == name);
        self.0.iter().filter(|(name, _)| wanted(name)).map(|(_, scope)| *scope).collect()
    }
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
