//! What is relevant to a query, on what an engineering organisation knows: `-- --nocapture` prints the figures.

use std::collections::{BTreeSet, HashMap};

use kenning_engine::{Engine, Question};
use kenning_model::{Id, ScopeId};
use kenning_storage::{NewEntry, Request, Write};
use kenning_testkit::TempStore;

const SCOPES: [ScopeId; 1] = [ScopeId::GLOBAL_DEFAULT];

#[test]
fn what_is_relevant_is_found_and_what_is_not_is_left_out() {
    let store = TempStore::in_memory();
    let engine = store.engine();
    let mut keys: HashMap<Id, &str> = HashMap::new();
    let mut queries: Vec<(&str, BTreeSet<&str>)> = Vec::new();
    for line in
        include_str!("relevance.tsv").lines().filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["entry", key, content, context] => {
                keys.insert(stored(&engine, content, context), key);
            }
            ["query", text, relevant] => {
                queries.push((text, relevant.split(',').filter(|key| !key.is_empty()).collect()));
            }
            _ => panic!("neither entry nor query: {line}"),
        }
    }
    let mut counts = Counts::default();
    for (text, relevant) in &queries {
        let found: BTreeSet<&str> = ask(&engine, text).iter().map(|id| keys[id]).collect();
        counts.add(&found, relevant);
    }
    eprintln!("{counts:?}: {}", counts.summary());
    // Half of what is relevant shares no word with the query that asks for it, by design of the set.
    assert!(counts.precision() >= 0.62, "{}", counts.summary());
    assert!(counts.recall() >= 0.62, "{}", counts.summary());
    assert!(counts.share_answered() >= 0.76, "{}", counts.summary());
    assert!(counts.share_silent() >= 0.87, "{}", counts.summary());
}

#[derive(Debug, Default)]
struct Counts {
    right: usize,
    wrong: usize,
    missed: usize,
    /// Queries with something relevant, and those of them that got some of it.
    with: usize,
    answered: usize,
    /// Queries without, and those of them that got nothing.
    without: usize,
    silent: usize,
}

impl Counts {
    fn add(&mut self, found: &BTreeSet<&str>, relevant: &BTreeSet<&str>) {
        let right = found.intersection(relevant).count();
        self.right += right;
        self.wrong += found.len() - right;
        self.missed += relevant.len() - right;
        match relevant.is_empty() {
            true => {
                (self.without, self.silent) = (self.without + 1, self.silent + usize::from(found.is_empty()))
            }
            false => (self.with, self.answered) = (self.with + 1, self.answered + usize::from(right > 0)),
        }
    }

    fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.wrong) as f64
    }

    fn recall(&self) -> f64 {
        self.right as f64 / (self.right + self.missed) as f64
    }

    fn share_answered(&self) -> f64 {
        self.answered as f64 / self.with as f64
    }

    fn share_silent(&self) -> f64 {
        self.silent as f64 / self.without as f64
    }

    fn summary(&self) -> String {
        format!(
            "precision {:.3}, recall {:.3}, answered {:.3}, silent where nothing is relevant {:.3}",
            self.precision(),
            self.recall(),
            self.share_answered(),
            self.share_silent()
        )
    }
}

fn ask(engine: &Engine, text: &str) -> Vec<Id> {
    let question = Question {
        scopes: &SCOPES,
        topic: None,
        content: Some(text),
        tags: &[],
        visible_at: None,
        relevant_only: true,
        explain: false,
    };
    engine.snapshot().and_then(|snapshot| snapshot.ranked(&question, 50)).expect("readable").0
}

fn stored(engine: &Engine, content: &str, context: &str) -> Id {
    let context = Some(context).filter(|context| !context.is_empty()).map(str::to_owned);
    let new = NewEntry { context, ..NewEntry::new(SCOPES[0], "", content) };
    let (actor, origin, tool) = ("tester".into(), "here".into(), "store".into());
    let request = Request { actor, origin, tool, write: Write::Store(new), keyed: None };
    engine.commit(request).expect("it is stored").tx.changes[0].id
}
