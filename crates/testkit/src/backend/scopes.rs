//! The contract of backends for namespaces, scopes, and the records in them.

use std::collections::{BTreeMap, HashMap};

use kenning_model::{
    Change, DEFAULT, EntityType, Entry, Id, Namespace, Record, Scope, ScopeId, ScopeName, Status,
    Transaction, Triple, TxId, Version,
};
use kenning_storage::{Backend, Touched, View};

use super::{ALL, ELSEWHERE, HERE, commit, created, entry, id, moment, reader, transaction, triple};

pub fn a_scope_is_found_by_the_name_it_has(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(namespace("acme"))), (2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(3, Some(scope(3, 1, "web", &[])))]);
    log.write(&[(3, Some(scope(3, 1, "site", &[])))]);
    log.write(&[(1, Some(namespace("emca")))]);
    log.write(&[(4, Some(scope(4, 1, "web", &[])))]);
    log.write(&[(3, None)]);
    log.write(&[(5, Some(in_global(5, "web")))]);
    let reader = reader(backend);
    let check = |name: &str, expected: [u32; 8]| {
        for (at, expected) in (0..).zip(expected) {
            let found = reader.scope_named(&scope_name(name), TxId(at)).expect("an answer");
            assert_eq!(found.map_or(0, |scope| scope.0), expected, "`{name}` as of {at}");
        }
    };
    check("global:default", [1; 8]);
    check("acme:default", [0, 2, 2, 2, 0, 0, 0, 0]);
    check("acme:web", [0, 0, 3, 0, 0, 0, 0, 0]);
    check("acme:site", [0, 0, 0, 3, 0, 0, 0, 0]);
    check("emca:site", [0, 0, 0, 0, 3, 3, 0, 0]);
    check("emca:web", [0, 0, 0, 0, 0, 4, 4, 4]);
    check("global:web", [0, 0, 0, 0, 0, 0, 0, 5]);
    check("global:site", [0; 8]);
}

pub fn the_scope_that_had_a_name_last_is_found(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(namespace("acme"))), (2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(3, Some(scope(3, 1, "web", &[])))]);
    log.write(&[(4, Some(namespace("emca"))), (5, Some(scope(4, 4, DEFAULT, &[])))]);
    log.write(&[(6, Some(scope(5, 4, "web", &[])))]);
    log.write(&[(4, None), (5, None), (6, None)]);
    log.write(&[(1, Some(namespace("emca")))]);
    // Both names change in the same transaction, so there is never an `emca:site`.
    log.write(&[(1, Some(namespace("firm"))), (3, Some(scope(3, 1, "site", &[])))]);
    let once = |name: &str| {
        let once = reader(backend).scope_once_named(&scope_name(name)).expect("an answer");
        once.map(|(scope, tx)| (scope.0, tx.0))
    };
    assert_eq!(once("acme:web"), Some((3, 7)), "by another name of its namespace");
    assert_eq!(once("emca:web"), Some((3, 7)), "whoever came first, the last to have it counts");
    assert_eq!(once("emca:site"), None);
    assert_eq!(once("acme:site"), None);
    log.write(&[(3, None)]);
    for name in ["acme:web", "emca:web", "firm:site"] {
        assert_eq!(once(name), Some((3, 8)), "`{name}` ended when the scope did");
    }
    log.write(&[(7, Some(in_global(6, "web")))]);
    log.write(&[(7, None)]);
    assert_eq!(once("global:web"), Some((6, 10)));
}

pub fn scopes_are_called_what_they_were_called(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(namespace("acme"))), (2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(3, Some(scope(3, 1, "web", &[]))), (4, Some(in_global(4, "ops")))]);
    log.write(&[(3, Some(scope(3, 1, "site", &[])))]);
    log.write(&[(1, Some(namespace("emca")))]);
    log.write(&[(1, None), (2, None), (3, None), (4, None)]);
    let reader = reader(backend);
    let asked = [HERE, ScopeId(2), ScopeId(3), ScopeId(4), ScopeId(3), ScopeId(9)];
    let check = |at: u64, expected: [&str; 4]| {
        let names = reader.scope_names(&asked, TxId(at)).expect("an answer");
        assert_eq!([1, 2, 3, 4].map(|number| names.of(ScopeId(number))), expected, "as of {at}");
        assert!(!names.0.contains_key(&ScopeId(9)), "what never was has no name");
    };
    check(1, ["global:default", "acme:default", "unknown:3", "unknown:4"]);
    check(2, ["global:default", "acme:default", "acme:web", "global:ops"]);
    check(3, ["global:default", "acme:default", "acme:site", "global:ops"]);
    check(4, ["global:default", "emca:default", "emca:site", "global:ops"]);
    check(5, ["global:default", "emca:default", "emca:site", "global:ops"]);
}

pub fn a_scope_sees_the_nearest_first(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    let default = (2, Some(scope(2, 1, DEFAULT, &[])));
    log.write(&[(1, Some(namespace("acme"))), default]);
    log.write(&[(3, Some(scope(3, 1, "base", &[]))), (4, Some(scope(4, 1, "left", &[3])))]);
    log.write(&[(5, Some(scope(5, 1, "right", &[3]))), (6, Some(scope(6, 1, "tip", &[5, 4])))]);
    log.write(&[(5, Some(scope(5, 1, "right", &[])))]);
    log.write(&[(3, None), (4, Some(scope(4, 1, "left", &[])))]);
    log.write(&[(7, Some(in_global(7, "ops")))]);
    let reader = reader(backend);
    let check = |number: u32, at: u64, expected: &[u32]| {
        let closure = reader.closure(ScopeId(number), TxId(at)).expect("an answer");
        let closure: Vec<u32> = closure.into_iter().map(|scope| scope.0).collect();
        assert_eq!(closure, expected, "what {number} sees as of {at}");
    };
    for at in 0..=6 {
        check(1, at, &[1]);
        check(2, at, if at > 0 { &[2, 1] } else { &[] });
        check(9, at, &[]);
    }
    check(4, 2, &[4, 3, 2, 1]);
    check(6, 2, &[]);
    check(6, 3, &[6, 5, 4, 3, 2, 1]);
    check(5, 3, &[5, 3, 2, 1]);
    check(5, 4, &[5, 2, 1]);
    check(6, 4, &[6, 5, 4, 3, 2, 1]);
    check(3, 4, &[3, 2, 1]);
    check(3, 5, &[]);
    check(6, 5, &[6, 5, 4, 2, 1]);
    check(7, 6, &[7, 1]);
}

pub fn a_scope_number_is_given_once(backend: &dyn Backend) {
    let next = || reader(backend).next_scope().expect("an answer").0;
    assert_eq!(next(), 2, "one is built in");
    let mut log = Log::new(backend);
    log.write(&[(1, Some(namespace("acme"))), (2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(3, Some(scope(3, 1, "web", &[])))]);
    assert_eq!(next(), 4);
    log.write(&[(3, None)]);
    assert_eq!(next(), 4, "a deleted scope keeps its number");
    let mut pending = backend.begin().expect("a write begins");
    let made = transaction(4, vec![created(4, scope(4, 1, "web", &[]))]);
    pending.append(&made).expect("it is appended");
    assert_eq!(pending.reader().next_scope().expect("an answer").0, 5, "the pending ones count");
    drop(pending);
    assert_eq!(next(), 4, "one that was never committed has no number");
}

pub fn live_records_come_oldest_first(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(namespace("acme"))), (2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(4, Some(scope(3, 1, "web", &[]))), (3, Some(scope(4, 1, "ops", &[])))]);
    log.write(&[(2, Some(scope(2, 1, DEFAULT, &[])))]);
    log.write(&[(4, None)]);
    let reader = reader(backend);
    let live = |entity_type, at| -> Vec<Id> {
        let live = reader.live(entity_type, TxId(at)).expect("an answer");
        live.into_iter().map(|stored| stored.id).collect()
    };
    let at_each = |entity_type| [0, 1, 2, 3, 4].map(|at| live(entity_type, at));
    let ids = |numbers: &[u64]| numbers.iter().map(|number| id(*number)).collect::<Vec<_>>();
    assert_eq!(at_each(EntityType::Namespace), [ids(&[]), ids(&[1]), ids(&[1]), ids(&[1]), ids(&[1])]);
    let scopes = [ids(&[]), ids(&[2]), ids(&[2, 4, 3]), ids(&[4, 3, 2]), ids(&[3, 2])];
    assert_eq!(at_each(EntityType::Scope), scopes, "by the age of the version");
    assert_eq!(at_each(EntityType::Entry), [const { Vec::new() }; 5]);
}

pub fn things_are_counted_where_they_are(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    let hidden = Entry { status: Status::Suppressed, ..entry("hidden", HERE, 1) };
    log.write(&[(1, Some(in_scope(HERE))), (2, Some(Record::Entry(hidden)))]);
    log.write(&[(3, Some(in_scope(ELSEWHERE))), (4, Some(Record::Triple(triple("a", "is", "b"))))]);
    log.write(&[(1, Some(in_scope(ELSEWHERE)))]);
    log.write(&[(2, None)]);
    let reader = reader(backend);
    let check = |entity_type, expected: [&[(ScopeId, u64)]; 5]| {
        for (at, expected) in (0..).zip(expected) {
            let counts = reader.count_by_scope(entity_type, TxId(at)).expect("counts");
            assert_eq!(counts, BTreeMap::from_iter(expected.iter().copied()), "as of {at}");
        }
    };
    let both = [(HERE, 2), (ELSEWHERE, 1)];
    check(EntityType::Entry, [&[], &both[..1], &both, &[(HERE, 1), (ELSEWHERE, 2)], &[(ELSEWHERE, 2)]]);
    check(EntityType::Triple, [&[], &[], &[(HERE, 1)], &[(HERE, 1)], &[(HERE, 1)]]);
}

pub fn touches_keep_to_their_scopes(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(in_scope(HERE)))]);
    log.write(&[(1, Some(in_scope(ELSEWHERE)))]);
    log.write(&[(1, Some(in_scope(ELSEWHERE))), (2, Some(namespace("acme")))]);
    log.write(&[(1, None)]);
    let reader = reader(backend);
    let touches = |entity_type, number, scopes: Option<&[ScopeId]>| -> Vec<u64> {
        let touches = reader.touches(entity_type, id(number), scopes).expect("an answer");
        touches.into_iter().map(|tx| tx.0).collect()
    };
    assert_eq!(touches(EntityType::Entry, 1, None), [1, 2, 3, 4]);
    assert_eq!(touches(EntityType::Entry, 1, Some(&[HERE])), [1, 2], "also that it went");
    assert_eq!(touches(EntityType::Entry, 1, Some(&[ELSEWHERE])), [2, 3, 4]);
    assert_eq!(touches(EntityType::Entry, 1, Some(&[ELSEWHERE, HERE])), [1, 2, 3, 4], "each once");
    assert_eq!(touches(EntityType::Entry, 1, Some(&[])), [0; 0]);
    assert_eq!(touches(EntityType::Triple, 1, None), [0; 0], "an id of another type");
    assert_eq!(touches(EntityType::Namespace, 2, Some(&[])), [3], "what is in no scope is seen from all");
}

pub fn a_view_shows_what_is_in_its_scopes(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(in_scope(HERE))), (2, Some(in_scope(ELSEWHERE)))]);
    let moved = log.write(&[
        (1, Some(in_scope(ELSEWHERE))),
        (2, None),
        (3, Some(namespace("acme"))),
        (4, Some(in_scope(HERE))),
    ]);
    let reader = reader(backend);
    let seen = |scopes: Option<&[ScopeId]>, changes_max| {
        let seen = reader
            .transaction(TxId(2), TxId(2), View { scopes, changes_max, ..View::WHOLE })
            .expect("an answer");
        let Transaction { changes, left_out, .. } = seen.expect("transaction 2");
        assert_eq!(changes.len() + left_out, moved.changes.len(), "what is not shown is counted");
        changes
    };
    let [first, second, third, fourth] = &moved.changes[..] else { panic!("four changes were written") };
    let gone = Change { after: None, ..first.clone() };
    let come = Change { before: None, ..first.clone() };
    assert_eq!(seen(None, usize::MAX), moved.changes);
    assert_eq!(seen(Some(&[HERE, ELSEWHERE]), usize::MAX), moved.changes);
    assert_eq!(seen(Some(&[HERE]), usize::MAX), [gone.clone(), third.clone(), fourth.clone()]);
    assert_eq!(seen(Some(&[ELSEWHERE]), usize::MAX), [come, second.clone(), third.clone()]);
    assert_eq!(seen(Some(&[]), usize::MAX), moved.changes[2..3], "what is in no scope is seen from all");
    assert_eq!(seen(Some(&[HERE]), 2), [gone, third.clone()], "the first ones");
    assert_eq!(seen(None, 3), moved.changes[..3]);
    assert_eq!(seen(None, 0), []);
    let own = View { scopes: Some(&[]), own: Some("here"), ..View::WHOLE };
    let whole = reader.transaction(TxId(2), TxId(2), own).expect("an answer").expect("transaction 2");
    assert_eq!(whole.changes, moved.changes, "of one's own everything is seen");
    let others = View { own: Some("there"), ..own };
    let part = reader.transaction(TxId(2), TxId(2), others).expect("an answer").expect("transaction 2");
    assert_eq!(part.changes, moved.changes[2..3], "and of another's what is in sight");
    let header = reader.transaction(TxId(2), TxId(2), View::HEADER).expect("an answer");
    assert_eq!(header, Some(Transaction { changes: Vec::new(), left_out: 4, ..moved.clone() }));
}

pub fn transactions_are_found_by_scope(backend: &dyn Backend) {
    let mut log = Log::new(backend);
    log.write(&[(1, Some(in_scope(HERE)))]);
    log.write(&[(2, Some(in_scope(ELSEWHERE))), (3, Some(in_scope(ELSEWHERE)))]);
    log.write(&[(4, Some(namespace("acme"))), (5, Some(scope(3, 4, DEFAULT, &[])))]);
    log.write(&[(1, Some(in_scope(ELSEWHERE)))]);
    log.write(&[(6, Some(Record::Triple(Triple { scope: ELSEWHERE, ..triple("a", "is", "b") })))]);
    log.write(&[(4, None), (5, None), (2, None)]);
    // An undo may find nothing left to change.
    commit(backend, &[Transaction { undoes: vec![TxId(1)], ..transaction(7, Vec::new()) }]);
    let reader = reader(backend);
    let found = |entity_type, scopes: Option<&[ScopeId]>, range: (u64, u64)| -> Vec<u64> {
        let touched = Touched {
            reach: &kenning_storage::Reach::Everything,
            entity_type,
            scopes,
            own: None,
            range: TxId(range.0)..TxId(range.1),
        };
        let all = reader.transactions_with(&touched, ALL).expect("a page");
        assert_eq!(reader.count_transactions_with(&touched).expect("a count"), all.len() as u64);
        let pages = [0..2, 2..3, 3..9].map(|page| reader.transactions_with(&touched, page).expect("a page"));
        assert_eq!(pages.concat(), all);
        all.into_iter().map(|tx| tx.0).collect()
    };
    let all = (1, 9);
    assert_eq!(found(None, None, all), [7, 6, 5, 4, 3, 2, 1], "each once, what changed nothing too");
    assert_eq!(found(None, Some(&[HERE]), all), [7, 6, 4, 3, 1], "what is in no scope is seen from all");
    assert_eq!(found(None, Some(&[ELSEWHERE]), all), [7, 6, 5, 4, 3, 2]);
    assert_eq!(found(None, Some(&[HERE, ELSEWHERE]), all), [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(found(None, Some(&[]), all), [7, 6, 3]);
    assert_eq!(found(Some(EntityType::Entry), Some(&[ELSEWHERE]), all), [6, 4, 2]);
    assert_eq!(found(Some(EntityType::Triple), Some(&[HERE]), all), [0; 0]);
    assert_eq!(found(Some(EntityType::Scope), Some(&[HERE]), all), [6, 3]);
    assert_eq!(found(None, Some(&[HERE]), (3, 6)), [4, 3], "the end of the range is not in it");
}

/// Writes one transaction after another, and remembers the version before each change.
pub(super) struct Log<'a> {
    backend: &'a dyn Backend,
    head: u64,
    versions: HashMap<Id, (u32, Option<Version>)>,
    /// The origin of the transactions.
    pub(super) origin: &'static str,
}

impl Log<'_> {
    pub(super) fn new(backend: &dyn Backend) -> Log<'_> {
        Log { backend, head: 0, versions: HashMap::new(), origin: "here" }
    }

    /// Skips a transaction number that other code has used.
    pub(super) fn skip(&mut self) {
        self.head += 1;
    }

    pub(super) fn is_live(&self, number: u64) -> bool {
        self.versions.get(&id(number)).is_some_and(|(_, live)| live.is_some())
    }

    /// Writes a transaction in which each id gets this record, or is deleted if there is none.
    pub(super) fn write(&mut self, records: &[(u64, Option<Record>)]) -> Transaction {
        self.head += 1;
        let mut changes = Vec::new();
        for (number, record) in records {
            let (version, live) = self.versions.entry(id(*number)).or_default();
            *version += 1;
            let after = record.clone().map(|record| record.again(*version, moment(self.head as i64)));
            let written = after.clone().map(|record| Version { tx_id: TxId(self.head), record });
            let before = std::mem::replace(live, written);
            let known = before.as_ref().map(|before| before.record.entity_type());
            let entity_type = record.as_ref().map(Record::entity_type).or(known);
            let entity_type = entity_type.expect("what is deleted was there");
            changes.push(Change { entity_type, id: id(*number), before, after });
        }
        let tx = Transaction { origin: self.origin.to_owned(), ..transaction(self.head, changes) };
        commit(self.backend, std::slice::from_ref(&tx));
        tx
    }
}

fn scope_name(text: &str) -> ScopeName {
    ScopeName::parse(text).expect("two names")
}

fn in_scope(scope: ScopeId) -> Record {
    Record::Entry(entry("topic", scope, 1))
}

pub(super) fn namespace(name: &str) -> Record {
    Record::Namespace(Namespace {
        name: name.to_owned(),
        description: format!("about {name}"),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: moment(0),
        updated_at: None,
    })
}

pub(super) fn scope(number: u32, namespace: u64, name: &str, parents: &[u32]) -> Record {
    Record::Scope(Scope {
        number: ScopeId(number),
        namespace: id(namespace),
        name: name.to_owned(),
        description: format!("about {name}"),
        parents: parents.iter().map(|parent| ScopeId(*parent)).collect(),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: moment(0),
        updated_at: None,
    })
}

fn in_global(number: u32, name: &str) -> Record {
    match scope(number, 0, name, &[]) {
        Record::Scope(scope) => Record::Scope(Scope { namespace: Namespace::GLOBAL_ID, ..scope }),
        other => other,
    }
}
