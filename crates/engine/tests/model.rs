//! Random histories of store, update, delete, relate and undo, compared with a simple model of their meaning.
//! After every step the store is read as of a random earlier transaction and must agree with the model.

use std::collections::BTreeMap;

use kenning_engine::{Engine, EntryHit, Error, Question, Snapshot};
use kenning_model::{EntityType, Id, Record, ScopeId, TxId, fold};
use kenning_retrieval::{By, Document, Embedder, Index, Limits, Prepared, Sight, Version};
use kenning_storage::{
    Committed, EntryPatch, NewEntry, NewTriple, OnConflict, Request, Stored, UndoTarget, UndoWish, View,
    Write,
};
use kenning_testkit::TempStore;
use proptest::prelude::*;

const SCOPES: [ScopeId; 1] = [ScopeId::GLOBAL_DEFAULT];

fn undo(target: UndoTarget, any_actor: bool) -> Write {
    Write::Undo(UndoWish { target, any_actor, within: None })
}

#[derive(Clone, Debug)]
enum Op {
    Store { word: u8 },
    Update { which: usize, word: u8, stale: bool },
    Delete { which: usize },
    Relate { subject: u8, object: u8, on_conflict: u8 },
    UndoTx { which: usize, any_actor: bool },
    UndoNewest { count: u32, any_actor: bool },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any::<u8>().prop_map(|word| Op::Store { word: word % 8 }),
        3 => (any::<usize>(), any::<u8>(), prop::bool::weighted(0.2))
            .prop_map(|(which, word, stale)| Op::Update { which, word: word % 8, stale }),
        2 => any::<usize>().prop_map(|which| Op::Delete { which }),
        3 => (0..3u8, 0..3u8, 0..3u8)
            .prop_map(|(subject, object, on_conflict)| Op::Relate { subject, object, on_conflict }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, any_actor)| Op::UndoTx { which, any_actor }),
        2 => (1..4u32, any::<bool>()).prop_map(|(count, any_actor)| Op::UndoNewest { count, any_actor }),
    ]
}

/// A step: who does it, the operation, and the earlier transaction that is read afterwards.
fn step() -> impl Strategy<Value = (usize, Op, prop::sample::Index)> {
    (0..2usize, op(), any::<prop::sample::Index>())
}

/// The content of an entry or triple, without version numbers and times.
#[derive(Clone, Debug, PartialEq)]
enum RecordContent {
    Entry { content: String },
    Triple { subject: String, object: String },
}

type State = BTreeMap<Id, RecordContent>;

#[derive(Default)]
struct Model {
    /// The state after each transaction; the first is the empty store.
    states: Vec<State>,
    log: Vec<Logged>,
    versions: BTreeMap<Id, u32>,
}

struct Logged {
    who: usize,
    undoes: Vec<usize>,
    touched: Vec<Id>,
}

impl Model {
    fn now(&self) -> &State {
        self.states.last().expect("never empty")
    }

    fn ids(&self, wanted: fn(&RecordContent) -> bool) -> Vec<Id> {
        self.now().iter().filter(|(_, content)| wanted(content)).map(|(id, _)| *id).collect()
    }

    /// Adds a committed transaction to the model.
    fn push(&mut self, who: usize, undoes: Vec<usize>, state: State) {
        let before = self.now();
        let mut touched: Vec<Id> = before.keys().chain(state.keys()).copied().collect();
        touched.sort();
        touched.dedup();
        touched.retain(|id| before.get(id) != state.get(id));
        self.states.push(state);
        self.log.push(Logged { who, undoes, touched });
    }

    /// The undo that is in effect for a transaction. Transactions are numbered from 1.
    fn undone_by(&self, tx: usize) -> Option<usize> {
        (tx + 1..=self.log.len())
            .rev()
            .find(|by| self.log[by - 1].undoes.contains(&tx) && self.undone_by(*by).is_none())
    }

    fn stands(&self, tx: usize) -> bool {
        self.undone_by(tx).is_none() && self.log[tx - 1].undoes.is_empty()
    }

    /// Whether a transaction is an undo that, for this id, takes back only transactions after `oldest`.
    fn cancelled(&self, tx: usize, oldest: usize, id: &Id) -> bool {
        let here: Vec<usize> = self.log[tx - 1]
            .undoes
            .iter()
            .copied()
            .filter(|target| self.log[target - 1].touched.contains(id))
            .collect();
        !here.is_empty() && here.iter().all(|target| *target > oldest)
    }

    /// The newest transactions in effect that `who` may undo, or `None` if there are fewer than `count`.
    fn newest(&self, who: Option<usize>, count: usize) -> Option<Vec<usize>> {
        let own = |tx: &usize| who.is_none_or(|who| self.log[tx - 1].who == who);
        let found: Vec<usize> =
            (1..=self.log.len()).rev().filter(own).filter(|tx| self.stands(*tx)).take(count).collect();
        (found.len() == count).then_some(found)
    }

    /// The state after undoing these transactions, or the later transactions that prevent it.
    fn undone(&self, targets: &[usize]) -> Result<State, Vec<usize>> {
        let mut state = self.now().clone();
        let mut later = Vec::new();
        for tx in targets {
            for id in &self.log[tx - 1].touched {
                let oldest =
                    *targets.iter().filter(|t| self.log[*t - 1].touched.contains(id)).min().expect("one");
                let since = (oldest + 1..=self.log.len())
                    .filter(|l| !targets.contains(l) && self.log[l - 1].touched.contains(id));
                // A transaction that was undone is represented by the undo.
                let standing = since.map(|l| self.undone_by(l).unwrap_or(l));
                later.extend(standing.filter(|l| !self.cancelled(*l, oldest, id)));
                match self.states[oldest - 1].get(id) {
                    Some(content) => state.insert(*id, content.clone()),
                    None => state.remove(id),
                };
            }
        }
        later.sort();
        later.dedup();
        if later.is_empty() { Ok(state) } else { Err(later) }
    }
}

struct Run {
    engine: Engine,
    model: Model,
}

impl Run {
    fn commit(&self, who: usize, write: Write) -> Result<Committed, Error> {
        self.engine.commit(Request {
            principal: kenning_model::Principal::owner(format!("actor {who}"), format!("session {who}"))
                .into(),
            tool: "test".into(),
            write,
            keyed: None,
        })
    }

    fn play(&mut self, who: usize, op: &Op) {
        match op {
            Op::Store { word } => self.store(who, *word),
            Op::Update { which, word, stale } => self.update(who, *which, *word, *stale),
            Op::Delete { which } => self.delete(who, *which),
            Op::Relate { subject, object, on_conflict } => self.relate(who, *subject, *object, *on_conflict),
            Op::UndoTx { which, any_actor } => self.undo_tx(who, *which, *any_actor),
            Op::UndoNewest { count, any_actor } => self.undo_newest(who, *count, *any_actor),
        }
    }

    fn store(&mut self, who: usize, word: u8) {
        let content = WORDS[word as usize].to_owned();
        let new = NewEntry::new(ScopeId::GLOBAL_DEFAULT, "topic", &content);
        let done = self.commit(who, Write::Store(new)).expect("storing is always possible");
        let id = done.tx.changes[0].id;
        let mut state = self.model.now().clone();
        assert!(self.model.versions.insert(id, 1).is_none(), "an id is never used twice");
        state.insert(id, RecordContent::Entry { content });
        self.model.push(who, Vec::new(), state);
    }

    fn update(&mut self, who: usize, which: usize, word: u8, stale: bool) {
        let ids = self.model.ids(|content| matches!(content, RecordContent::Entry { .. }));
        let Some(id) = ids.get(which % ids.len().max(1)).copied() else { return };
        // The number makes the content unique, so every update changes something.
        let content = format!("{} number {}", WORDS[word as usize], self.model.log.len());
        let patch = EntryPatch { content: Some(content.clone()), ..EntryPatch::default() };
        let current = self.model.versions[&id];
        let expected_version = Some(if stale { current + 1 } else { current });
        let done = self.commit(who, Write::Update { id, patch, expected_version });
        if stale {
            assert!(matches!(done, Err(Error::StaleVersion { current: found, .. }) if found == current));
            return;
        }
        done.expect("the version is the one that the model knows");
        let mut state = self.model.now().clone();
        state.insert(id, RecordContent::Entry { content });
        *self.model.versions.get_mut(&id).expect("known") += 1;
        self.model.push(who, Vec::new(), state);
    }

    fn delete(&mut self, who: usize, which: usize) {
        let ids = self.model.ids(|_| true);
        let Some(id) = ids.get(which % ids.len().max(1)).copied() else {
            let nobody = Write::Delete { entity_type: EntityType::Entry, id: Id::from_bits(7) };
            assert!(matches!(self.commit(who, nobody), Err(Error::UnknownId { .. })));
            return;
        };
        let entity_type = match self.model.now()[&id] {
            RecordContent::Entry { .. } => EntityType::Entry,
            RecordContent::Triple { .. } => EntityType::Triple,
        };
        self.commit(who, Write::Delete { entity_type, id }).expect("it is there");
        let mut state = self.model.now().clone();
        state.remove(&id);
        self.model.push(who, Vec::new(), state);
    }

    fn relate(&mut self, who: usize, subject: u8, object: u8, on_conflict: u8) {
        let (subject, object) = (format!("Subject {subject}"), format!("Object {object}"));
        let on_conflict =
            [OnConflict::KeepBoth, OnConflict::Replace, OnConflict::Reject][on_conflict as usize];
        let triple = NewTriple {
            scope: ScopeId::GLOBAL_DEFAULT,
            // A difference in case does not make another fact.
            subject: subject.to_uppercase(),
            predicate: "is".into(),
            object: object.clone(),
            source: None,
            confidence: None,
        };
        let same = |content: &RecordContent| matches!(content, RecordContent::Triple { subject: s, object: o } if *s == fold(&subject) && *o == fold(&object));
        let other = |content: &RecordContent| matches!(content, RecordContent::Triple { subject: s, object: o } if *s == fold(&subject) && *o != fold(&object));
        // An undo can bring back a fact that was stored again meanwhile; then either of the two may be named.
        let existing: Vec<Id> =
            self.model.now().iter().filter(|(_, content)| same(content)).map(|(id, _)| *id).collect();
        let conflicts: Vec<Id> =
            self.model.now().iter().filter(|(_, content)| other(content)).map(|(id, _)| *id).collect();
        let done = self.commit(who, Write::Relate { triple, on_conflict });
        if on_conflict == OnConflict::Reject && existing.is_empty() && !conflicts.is_empty() {
            assert!(matches!(done, Err(Error::Contradiction { .. })));
            return;
        }
        let done = done.expect("nothing is against it");
        let mut named: Vec<Id> = done.conflicts.iter().map(|stored| stored.id).collect();
        named.sort();
        assert_eq!(named, conflicts);
        let named = done.existing.as_ref().map(|stored| stored.id);
        assert!(named.map_or(existing.is_empty(), |id| existing.contains(&id)), "{named:?} of {existing:?}");
        let mut state = self.model.now().clone();
        if on_conflict == OnConflict::Replace {
            conflicts.iter().for_each(|id| drop(state.remove(id)));
        }
        if existing.is_empty() {
            let id = done.tx.changes[0].id;
            self.model.versions.insert(id, 1);
            state.insert(id, RecordContent::Triple { subject: fold(&subject), object: fold(&object) });
        }
        if state != *self.model.now() {
            self.model.push(who, Vec::new(), state);
        }
    }

    fn undo_tx(&mut self, who: usize, which: usize, any_actor: bool) {
        if self.model.log.is_empty() {
            return;
        }
        let tx = 1 + which % self.model.log.len();
        let done = self.commit(who, undo(UndoTarget::Tx(TxId(tx as u64)), any_actor));
        if !any_actor && self.model.log[tx - 1].who != who {
            assert!(matches!(done, Err(Error::NotYours { .. })), "{done:?}");
        } else if let Some(by) = self.model.undone_by(tx) {
            assert!(matches!(done, Err(Error::AlreadyUndone { by: named, .. }) if named.0 as usize == by));
        } else {
            self.undone(who, vec![tx], done);
        }
    }

    fn undo_newest(&mut self, who: usize, count: u32, any_actor: bool) {
        let done = self.commit(who, undo(UndoTarget::Newest(count), any_actor));
        match self.model.newest((!any_actor).then_some(who), count as usize) {
            None => assert!(matches!(done, Err(Error::TooFewToUndo { .. })), "{done:?}"),
            Some(targets) => self.undone(who, targets, done),
        }
    }

    fn undone(&mut self, who: usize, targets: Vec<usize>, done: Result<Committed, Error>) {
        match (self.model.undone(&targets), done) {
            (Err(expected), Err(Error::ChangedSince { later, .. })) => {
                let later: Vec<usize> = later.iter().map(|tx| tx.0 as usize).collect();
                assert_eq!(later, expected);
            }
            (Ok(state), Ok(done)) => {
                assert_eq!(done.tx.undoes.iter().map(|tx| tx.0 as usize).collect::<Vec<_>>(), targets);
                for change in &done.tx.changes {
                    if let Some(after) = &change.after {
                        let version = self.model.versions.get_mut(&change.id).expect("it was there once");
                        *version += 1;
                        assert_eq!(after.version(), *version);
                    }
                }
                self.model.push(who, targets, state);
            }
            (expected, done) => panic!("undo of {targets:?}: expected {expected:?}, got {done:?}"),
        }
    }

    /// The store as of a transaction has the content that the model had then.
    fn check(&self, at: usize) {
        let expected = &self.model.states[at];
        let snapshot = self
            .engine
            .snapshot_at(&kenning_testkit::owner(), Some(TxId(at as u64)))
            .expect("an earlier transaction");
        let sight = seen(&snapshot);
        let question = Question {
            sight: &sight,
            topic: None,
            content: None,
            tags: &[],
            visible_at: None,
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: true,
        };
        let found = snapshot.search(&question, 0..1000).expect("readable");
        let (triples, triple_count) = snapshot.triples(&sight, [None; 3], 0..1000).expect("readable");
        assert_eq!(found.total as usize, found.hits.len());
        assert_eq!(triple_count as usize, triples.len());
        let stored: State = found
            .hits
            .iter()
            .map(|hit| &hit.stored)
            .chain(&triples)
            .map(|stored| (stored.id, content_of(stored)))
            .collect();
        assert_eq!(&stored, expected, "as of transaction {at}");
        let (newest, total) = snapshot.history(None, None, TxId::EMPTY, View::WHOLE, 0..1).expect("readable");
        assert_eq!(total as usize, at);
        if let Some(tx) = newest.first() {
            let logged = &self.model.log[at - 1];
            let mut touched: Vec<Id> = tx.changes.iter().map(|change| change.id).collect();
            touched.sort();
            assert_eq!(touched, logged.touched);
            assert_eq!(tx.undoes.iter().map(|tx| tx.0 as usize).collect::<Vec<_>>(), logged.undoes);
        }
    }
}

/// Words of the entries: some are similar in meaning, some in spelling.
const WORDS: [&str; 8] =
    ["deploy", "deployment", "release", "banana", "apple", "getUserName", "user", "bananas"];

impl Run {
    /// The index was filled change by change and holds every version. As of an earlier transaction it gives
    /// the answer of an index built from the entries of that transaction alone.
    fn check_search(&self, at: usize) {
        let snapshot = self
            .engine
            .snapshot_at(&kenning_testkit::owner(), Some(TxId(at as u64)))
            .expect("an earlier transaction");
        let sight = seen(&snapshot);
        let question = Question {
            sight: &sight,
            topic: None,
            content: None,
            tags: &[],
            visible_at: None,
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: true,
        };
        let mut live = snapshot.search(&question, 0..1000).expect("readable").hits;
        live.reverse();
        let mut fresh = Index::default();
        for (hit, number) in live.iter().zip(0..) {
            let Record::Entry(entry) = &hit.stored.record else { panic!("not an entry") };
            let document = Document { title: &entry.topic, body: &entry.content, ..Document::default() };
            let version = Version {
                group: 0,
                limits: Limits::NONE,
                marks: Vec::new(),
                prepared: Prepared::new(&document, &Embedder::Table),
            };
            fresh.change(1, number, false, Some(version)).expect("memory");
        }
        for text in ["deploy the user", "fruit", "topic", "bananna", "nothing of that kind"] {
            let sight = Sight { at: 1, groups: &[0], labels: &[], valid_at: None };
            let by = By::WordsAndMeaning;
            let asked = kenning_retrieval::Question {
                title: None,
                text: Some(text),
                sight,
                by,
                as_written: false,
                known_words_only: false,
                least: kenning_retrieval::MatchMinimum::Some,
                with_nearest: true,
                explain: false,
            };
            let expected = fresh.search(&asked, 0..1000).expect("memory").hits;
            let id = |number: u64| live[number as usize].stored.id;
            let expected: Vec<(Id, f64)> =
                expected.iter().map(|hit| (id(hit.key), f64::from(hit.score))).collect();
            let question = Question { content: Some(text), ..question };
            let found = snapshot.search(&question, 0..1000).expect("readable");
            let score = |hit: &EntryHit| hit.explanation.as_ref().expect("it was ranked").total;
            let found: Vec<(Id, f64)> = found.hits.iter().map(|hit| (hit.stored.id, score(hit))).collect();
            assert_eq!(found, expected, "`{text}` as of transaction {at}");
        }
    }
}

/// The sight of every question in this test.
fn seen(snapshot: &Snapshot<'_>) -> kenning_engine::Sight {
    snapshot.sight_of(SCOPES.to_vec())
}

fn content_of(stored: &Stored) -> RecordContent {
    match &stored.record {
        Record::Entry(entry) => RecordContent::Entry { content: entry.content.clone() },
        Record::Triple(triple) => {
            RecordContent::Triple { subject: fold(&triple.subject), object: fold(&triple.object) }
        }
        other => panic!("nobody has written {other:?}"),
    }
}

/// `PROPTEST_CASES=5000` runs it longer.
#[test]
fn any_history_reads_as_the_model_says() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..50))| {
        let store = TempStore::in_memory();
        let mut run = Run { engine: store.engine(), model: Model { states: vec![State::new()], ..Model::default() } };
        for (who, op, earlier) in &steps {
            run.play(*who, op);
            run.check(run.model.log.len());
            run.check(earlier.index(run.model.states.len()));
        }
        let mut damage = Vec::new();
        run.engine.verify(&mut |found| damage.push(found)).expect("verifiable");
        prop_assert!(damage.is_empty(), "{:?}", damage);
        run.check_search(run.model.log.len());
        run.check_search(steps[0].2.index(run.model.states.len()));
        // A second process, which has nothing in memory, reads the same.
        run.engine = store.engine();
        run.check(run.model.log.len());
        run.check_search(run.model.log.len());
    });
}
