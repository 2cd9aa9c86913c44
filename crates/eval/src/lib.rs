//! How well search finds what it should: labelled questions over labelled texts, asked of the same engine that the
//! tools ask.

mod measure;
mod set;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use kenning_engine::{Engine, Question};
use kenning_model::{Id, ScopeId};
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::TempStore;

pub use measure::{Interval, Scores};
pub use set::{Asked, Set, Text};

/// How many hits a question is judged by.
const DEPTH: usize = 10;

/// Stores the texts, asks the questions, and judges the answers.
pub fn evaluate(set: &Set) -> anyhow::Result<Scores> {
    let store = TempStore::in_memory();
    let engine = Engine::new(store.path().to_owned(), Engine::real_sources());
    let mut scopes = Scopes::default();
    let mut groups: HashMap<Id, &str> = HashMap::new();
    for text in &set.texts {
        let id = put(&engine, text, scopes.of(&text.scope))?;
        groups.insert(id, text.group());
    }
    // The first question builds the index; it is asked once without being timed.
    if let Some(asked) = set.questions.first() {
        ask(&engine, asked, &scopes.seen_from(asked))?;
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
            // A document counts once, by its best passage.
            if !ranking.contains(&group) {
                ranking.push(group);
            }
        }
        ranking.truncate(DEPTH);
        judged.push(measure::Judged::new(&ranking, &asked.relevant, took));
    }
    Ok(Scores::of(&judged))
}

fn put(engine: &Engine, text: &Text, scope: ScopeId) -> anyhow::Result<Id> {
    let new = NewEntry::new(scope, &text.title, &text.text);
    let request = Request {
        actor: "eval".into(),
        origin: "eval".into(),
        tool: "store".into(),
        write: Write::Store(new),
        keyed: None,
    };
    let done = engine.commit(request)?;
    Ok(done.tx.changes[0].id)
}

/// Some more than are judged, since several may belong to one document.
fn ask(engine: &Engine, asked: &Asked, scopes: &[ScopeId]) -> anyhow::Result<Vec<Id>> {
    let question = Question {
        scopes,
        topic: None,
        content: Some(&asked.text),
        tags: &[],
        visible_at: Some(engine.now()),
        explain: false,
    };
    let found = engine.snapshot()?.search(&question, 0..5 * DEPTH as u64)?;
    Ok(found.hits.into_iter().map(|hit| hit.stored.id).collect())
}

/// The names of a set's scopes as numbers.
#[derive(Default)]
struct Scopes(HashMap<String, ScopeId>);

impl Scopes {
    fn of(&mut self, name: &str) -> ScopeId {
        let next = ScopeId(self.0.len() as u32 + 1);
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    fn seen_from(&self, asked: &Asked) -> Vec<ScopeId> {
        let wanted = |name: &str| asked.scope.as_ref().is_none_or(|scope| scope == name);
        self.0.iter().filter(|(name, _)| wanted(name)).map(|(_, scope)| *scope).collect()
    }
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
