//! Random histories of namespaces, scopes and their content, compared with a simple model of their meaning.
//! For every write the model tells whether it is refused and why, and the resulting state. After every step
//! the store is read as of now and as of a random earlier transaction, from every scope.

mod model;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;

use kenning_engine::{By, Engine, Question, Sight, Snapshot, Stored};
use kenning_model::{Change, EntityType, Id, Record, ScopeId, ScopeName, Transaction, TxId};
use kenning_storage::{
    Committed, DEPTH_MAX, EntryFilter, NewNamespace, NewScope, Request, Touched, TripleFilter, UndoPlan,
    UndoWish, View, Write,
};
use kenning_testkit::TempStore;
use proptest::prelude::*;

use crate::model::{Draft, Lost, Model, RecordContent, Refused, Sides, State, Version, built_in, numbers};
use crate::steps::{NAMES, NAMESPACES, Op, WORDS, step};

const ALL: Range<u64> = 0..1000;
/// How many transactions of the history are read with all their changes.
const PAGE: u64 = 12;

/// `PROPTEST_CASES=5000` runs it longer.
#[test]
fn any_history_of_scopes_reads_as_the_model_says() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(128);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let steps = prop::collection::vec(step(), 1..50);
    // Most histories begin with a chain of scopes, and some of these chains are nearly as deep as allowed.
    let chain = prop_oneof![1 => Just(0), 3 => Just(3), 1 => DEPTH_MAX - 2..=DEPTH_MAX];
    proptest!(config, |(chain in chain, steps in steps)| {
        let store = TempStore::in_memory();
        let mut run = Run { engine: store.engine(), model: Model::new() };
        run.make_chain(chain);
        for (who, op, earlier, from) in &steps {
            let before = run.model.head();
            run.play(*who, op);
            run.check_invariants();
            // If nothing was written, the current state was compared after the step before.
            if run.model.head() > before {
                run.check(run.model.head(), from);
            }
            run.check(earlier.index(run.model.states.len()), from);
        }
        let mut damage = Vec::new();
        run.engine.verify(&mut |found| damage.push(found)).expect("verifiable");
        prop_assert!(damage.is_empty(), "{:?}", damage);
        let (_, _, earlier, from) = &steps[0];
        run.check_search(run.model.head());
        run.check_search(earlier.index(run.model.states.len()));
        // A second process, which has nothing in memory, reads the same.
        run.engine = store.engine();
        run.check(run.model.head(), from);
        run.check_search(run.model.head());
    });
}

struct Run {
    engine: Engine,
    model: Model,
}

impl Run {
    /// Makes a namespace with a chain of this many scopes, each of which inherits from the one before.
    fn make_chain(&mut self, length: usize) {
        let description = || "in a row".to_owned();
        if length > 0 {
            let new = NewNamespace { name: "acme".to_owned(), description: description() };
            self.commit(0, &"a namespace", Write::CreateNamespace(new));
        }
        for level in 1..=length {
            let name = |level: usize| ScopeName::new("acme", &format!("level-{level}"));
            let parents = if level > 1 { vec![name(level - 1)] } else { Vec::new() };
            let new = NewScope { name: name(level), description: description(), parents };
            self.commit(0, &"a scope in a row", Write::CreateScope(new));
        }
    }

    fn play(&mut self, who: usize, op: &Op) {
        for (who, write) in self.model.writes(who, op) {
            self.commit(who, op, write);
        }
    }

    fn commit(&mut self, who: usize, op: &dyn Debug, write: Write) {
        let expected = self.model.draft(who, &write);
        let facts = match &write {
            Write::Relate { triple, .. } if expected.is_ok() => Some(self.model.facts(triple)),
            _ => None,
        };
        if let Write::Undo(wish) = &write {
            self.check_preview(who, wish, &expected);
        }
        let head = self.model.head();
        let principal = caller(who).into();
        let request = Request { principal, tool: "test".into(), write, keyed: None };
        match (expected, self.engine.commit(request)) {
            (Err(expected), Err(error)) => {
                assert_eq!(Refused::of(&error), expected, "{op:?} after transaction {head}: {error}");
            }
            (Ok(draft), Ok(done)) => {
                if let Some((existing, conflicts)) = facts {
                    let named = done.existing.as_ref().map(|stored| stored.id);
                    assert!(named.map_or(existing.is_empty(), |id| existing.contains(&id)), "{named:?}");
                    assert!(done.conflicts.iter().all(|stored| conflicts.contains(&stored.id)));
                    assert_eq!(done.conflict_count as usize, conflicts.len());
                }
                self.written(who, draft, &done);
            }
            (expected, done) => {
                let done = done.map(|done| done.tx.changes);
                panic!("{op:?} after transaction {head}: expected {expected:?}, got {done:?}")
            }
        }
    }

    fn written(&mut self, who: usize, mut draft: Draft, done: &Committed) {
        if draft.changes.is_empty() && !draft.existing.is_empty() {
            assert!(!done.is_new);
            assert!(draft.existing.contains(&(done.tx.id.0 as usize)), "{} of {draft:?}", done.tx.id);
            return;
        }
        assert!(done.is_new);
        assert_eq!(done.tx.id.0 as usize, self.model.head() + 1);
        assert_eq!(numbers(&done.tx.undoes), draft.undoes);
        if !draft.undoes.is_empty() {
            self.check_nothing_is_lost(&draft);
        }
        let ids = done.tx.changes.iter().map(|change| change.id);
        draft.take_ids(ids.filter(|id| !self.model.versions.contains_key(id)));
        self.model.push(who, &draft);
        let written = sides(&done.tx);
        assert_eq!(written, self.model.changes(self.model.head(), &self.model.scopes_ever()));
        assert_eq!(done.tx.changes.len(), written.len(), "an id changes once");
    }

    /// Holds for any rules of undo: an undo finds each id in the state in which its targets left it.
    fn check_nothing_is_lost(&self, draft: &Draft) {
        for (id, _) in &draft.changes {
            let id = id.expect("an undo makes nothing new");
            let mut left = self.model.now().content_of(id);
            for target in draft.undoes.iter().filter(|tx| self.model.touched(**tx, id)) {
                assert_eq!(
                    left,
                    self.model.states[*target].content_of(id),
                    "`{id}` was changed after {target}"
                );
                left = self.model.states[target - 1].content_of(id);
            }
        }
    }

    fn check_preview(&self, who: usize, wish: &UndoWish, expected: &Result<Draft, Refused>) {
        let principal = caller(who);
        let plan = UndoPlan { wish: wish.clone(), principal: &principal };
        let planned = self.engine.storage().expect("it is open").plan_undo(&plan);
        match (planned, expected) {
            (Ok(planned), Ok(draft)) => {
                let content =
                    |change: &Change| (Some(change.id), change.after.as_ref().map(RecordContent::of));
                let mut planned: Vec<_> = planned.changes.iter().map(content).collect();
                planned.sort_by_key(|(id, _)| *id);
                assert_eq!(planned, draft.changes);
            }
            (Err(error), Err(expected)) => assert_eq!(Refused::of(&error), *expected, "{error}"),
            (planned, expected) => panic!("expected {expected:?}, planned {planned:?}"),
        }
    }

    /// The store as of a transaction has the content that the model had then. `from` chooses the scope whose
    /// history is read completely.
    fn check(&self, at: usize, from: &prop::sample::Index) {
        let state = &self.model.states[at];
        let snapshot = self
            .engine
            .snapshot_at(&kenning_testkit::owner(), Some(TxId(at as u64)))
            .expect("an earlier transaction");
        self.check_tree(&snapshot, state);
        self.check_names(&snapshot, at, from);
        for scope in self.model.scopes_ever() {
            let sight = snapshot.sight(scope).expect("readable");
            let closure = sight.scopes();
            assert_eq!(*closure, state.closure(scope), "what {scope:?} sees as of {at}");
            if !closure.is_empty() {
                self.check_content(&snapshot, state, &sight);
                self.check_touched(at, closure);
            }
        }
        for entity_type in [EntityType::Entry, EntityType::Triple] {
            let mut expected: BTreeMap<ScopeId, u64> = BTreeMap::new();
            for version in state.0.values().filter(|version| version.content.entity_type() == entity_type) {
                *expected.entry(version.content.scope().expect("it is in one")).or_default() += 1;
            }
            assert_eq!(snapshot.count_by_scope(entity_type).expect("readable"), expected);
        }
        let live: Vec<ScopeId> = state.places().map(|place| place.number).collect();
        self.check_history(&snapshot, at, &state.closure(*from.get(&live)));
    }

    fn check_tree(&self, snapshot: &Snapshot<'_>, state: &State) {
        let tree = snapshot.tree().expect("readable");
        let mut found = BTreeMap::new();
        for (namespace, record) in tree.namespaces() {
            found.insert(namespace, (record.version, RecordContent::of(&Record::Namespace(record.clone()))));
            for (id, scope) in tree.scopes(namespace) {
                let default = Some(state.default_of(namespace)).filter(|default| *default != scope.number);
                let parents: Vec<ScopeId> = scope.parents.iter().copied().chain(default).collect();
                assert_eq!(tree.parents(scope), parents, "its own in the order given, then the default");
                let id = if scope.number == ScopeId::GLOBAL_DEFAULT { built_in() } else { id };
                found.insert(id, (scope.version, RecordContent::of(&Record::Scope(scope.clone()))));
            }
        }
        let of_tree = state.0.iter().filter(|(_, version)| version.content.scope().is_none());
        assert_eq!(found, of_tree.map(|(id, it)| (*id, (it.number, it.content.clone()))).collect());
    }

    fn check_names(&self, snapshot: &Snapshot<'_>, at: usize, from: &prop::sample::Index) {
        let ever = self.model.scopes_ever();
        let names = snapshot.scope_names(&ever).expect("readable");
        for scope in ever {
            match self.model.last_name(scope, at) {
                Some(name) => assert_eq!(names.of(scope), name.to_string()),
                None => assert!(!names.0.contains_key(&scope), "{scope:?} has no name yet as of {at}"),
            }
        }
        let unknown = from.index(NAMESPACES.len() * NAMES.len());
        let names = NAMESPACES.iter().flat_map(|namespace| NAMES.map(|name| ScopeName::new(namespace, name)));
        for (number, name) in names.enumerate() {
            let expected = self.model.find(&name, at);
            // A single name that never existed is enough, since each look-up of one searches for similar
            // names, which is slow.
            if expected != Err(Lost::Never) || number == unknown {
                let found = snapshot.scope(&name).map_err(|error| Refused::of(&error));
                assert_eq!(found, expected.map_err(Refused::UnknownScope), "`{name}` as of {at}");
            }
        }
    }

    fn check_content(&self, snapshot: &Snapshot<'_>, state: &State, sight: &Sight) {
        let closure = sight.scopes();
        let entries = state.seen(EntityType::Entry, closure);
        let found = snapshot.search(&question(sight), ALL).expect("readable");
        assert_eq!(found.total as usize, entries.len());
        let hits: Vec<Stored> = found.hits.into_iter().map(|hit| hit.stored).collect();
        assert!(hits.is_sorted_by(|one, next| one.tx_id >= next.tx_id), "newest first");
        assert_eq!(versions(&hits), entries);

        let visible = Question { visible_at: Some(self.engine.now()), ..question(sight) };
        let visible = snapshot.search(&visible, ALL).expect("readable").hits;
        let is_hidden =
            |content: &RecordContent| matches!(content, RecordContent::Entry { suppressed: true, .. });
        let expected = entries.iter().filter(|(_, version)| !is_hidden(&version.content)).map(|(id, _)| *id);
        assert_eq!(visible.iter().map(|hit| hit.stored.id).collect::<BTreeSet<_>>(), expected.collect());

        let (triples, count) = snapshot.triples(sight, [None; 3], ALL).expect("readable");
        assert_eq!(versions(&triples), state.seen(EntityType::Triple, closure));
        assert_eq!(count as usize, triples.len());
    }

    /// The transactions up to `at` that touched something in sight, or nothing at all, newest first.
    fn in_sight(&self, at: usize, closure: &[ScopeId], id: Option<Id>) -> Vec<usize> {
        let is_seen = |tx: &usize| match id {
            Some(id) => self.model.change(*tx, id, closure).is_some(),
            None => !self.model.changes(*tx, closure).is_empty() || self.model.changed_nothing(*tx),
        };
        (1..=at).rev().filter(is_seen).collect()
    }

    fn check_touched(&self, at: usize, closure: &[ScopeId]) {
        let reader = self.engine.storage().and_then(|storage| storage.reader()).expect("readable");
        let range = TxId(1)..TxId(at as u64 + 1);
        let touched = Touched {
            reach: &kenning_storage::Reach::Everything,
            entity_type: None,
            scopes: Some(closure),
            own: None,
            range,
        };
        let found = reader.transactions_with(&touched, ALL).expect("readable");
        assert_eq!(numbers(&found), self.in_sight(at, closure, None), "from {closure:?} as of {at}");
    }

    fn check_history(&self, snapshot: &Snapshot<'_>, at: usize, closure: &[ScopeId]) {
        let view = |changes_max| View { scopes: Some(closure), changes_max, ..View::WHOLE };
        let history = |id: Option<Id>, changes_max: usize, page| {
            snapshot.history(id, None, TxId::EMPTY, view(changes_max), page).expect("readable")
        };
        let expected = self.in_sight(at, closure, None);
        let (found, total) = history(None, usize::MAX, 0..PAGE);
        assert_eq!(total as usize, expected.len());
        let page = &expected[..expected.len().min(PAGE as usize)];
        assert_eq!(found.iter().map(|tx| tx.id.0 as usize).collect::<Vec<_>>(), page);
        for tx in &found {
            let number = tx.id.0 as usize;
            let changes = self.model.changes(number, closure);
            assert_eq!(sides(tx), changes, "what {closure:?} sees of transaction {number}");
            assert_eq!(tx.left_out, self.model.log[number - 1].touched.len() - changes.len());
            assert_eq!(tx.undone_by.map(|by| by.0 as usize), self.model.undone_by(number, at));
        }
        let (page, total) = history(None, 1, 1..4);
        assert_eq!(total as usize, expected.len());
        for (cut, whole) in page.iter().zip(found.iter().skip(1)) {
            assert_eq!(cut.changes, whole.changes[..whole.changes.len().min(1)]);
            assert_eq!(cut.changes.len() + cut.left_out, whole.changes.len() + whole.left_out);
        }
        assert_eq!(page.len(), found.len().saturating_sub(1).min(3));
        for id in self.model.log.get(at.wrapping_sub(1)).map_or(&[][..], |logged| &logged.touched) {
            let (found, total) = history(Some(*id), usize::MAX, ALL);
            let expected = self.in_sight(at, closure, Some(*id));
            assert_eq!(found.iter().map(|tx| tx.id.0 as usize).collect::<Vec<_>>(), expected);
            assert_eq!(total as usize, expected.len());
        }
    }

    /// The index is filled change by change. A search by words finds all matching entries in sight and no
    /// others.
    fn check_search(&self, at: usize) {
        let snapshot = self
            .engine
            .snapshot_at(&kenning_testkit::owner(), Some(TxId(at as u64)))
            .expect("an earlier transaction");
        let state = &self.model.states[at];
        for place in state.places() {
            let closure = state.closure(place.number);
            let entries = state.seen(EntityType::Entry, &closure);
            let sight = snapshot.sight_of(closure);
            for word in WORDS {
                let asked = Question { content: Some(word), ..question(&sight) };
                let found = snapshot.search(&asked, ALL).expect("readable");
                let found: BTreeSet<Id> = found.hits.iter().map(|hit| hit.stored.id).collect();
                assert!(found.iter().all(|id| entries.contains_key(id)), "`{word}` as of {at}: {found:?}");
                let has_word = |content: &RecordContent| matches!(content, RecordContent::Entry { content, .. } if content.starts_with(word));
                for (id, _) in entries.iter().filter(|(_, version)| has_word(&version.content)) {
                    assert!(found.contains(id), "`{word}` as of {at} is in `{id}`");
                }
            }
        }
    }

    /// Conditions that hold whatever the model says.
    fn check_invariants(&self) {
        let snapshot = self.engine.snapshot(&kenning_testkit::owner()).expect("readable");
        assert_eq!(snapshot.at().0 as usize, self.model.head(), "a write that is refused leaves nothing");
        let tree = snapshot.tree().expect("readable");
        let mut live = BTreeMap::new();
        for (namespace, _) in tree.namespaces() {
            for (_, scope) in tree.scopes(namespace) {
                live.insert(scope.number, tree.name(scope));
                assert!(!snapshot.sight(scope.number).expect("readable").scopes().is_empty(), "{scope:?}");
            }
        }
        assert_eq!(live.values().collect::<BTreeSet<_>>().len(), live.len(), "each name once: {live:?}");
        let reader = self.engine.storage().and_then(|storage| storage.reader()).expect("readable");
        let (scopes, at) = (&*self.model.scopes_ever(), snapshot.at());
        let entries = EntryFilter { scopes, at, visible_at: None };
        let triples = TripleFilter { scopes, at, subject: None, predicate: None, object: None };
        let mut stored = reader.entries(&entries, ALL).expect("readable");
        stored.extend(reader.triples(&triples, ALL).expect("readable"));
        for stored in stored {
            let scope = stored.record.scope().expect("it is in one");
            assert!(live.contains_key(&scope), "`{}` is in {scope:?}, which is gone", stored.id);
        }
    }
}

fn caller(who: usize) -> kenning_model::Principal {
    kenning_model::Principal::owner(format!("actor {who}"), format!("session {who}"))
}

fn question(sight: &Sight) -> Question<'_> {
    Question {
        sight,
        topic: None,
        content: None,
        tags: &[],
        visible_at: None,
        by: By::WordsAndMeaning,
        known_words_only: false,
        explain: false,
    }
}

fn versions(stored: &[Stored]) -> BTreeMap<Id, Version> {
    stored.iter().map(|stored| (stored.id, Version::of(stored))).collect()
}

fn sides(tx: &Transaction) -> BTreeMap<Id, Sides> {
    tx.changes.iter().map(|change| (change.id, Sides::of(tx.id, change))).collect()
}
