//! The contract of backends for counts: each count is the length of the list as of every transaction, and the
//! lists follow from the transactions.

use std::collections::BTreeMap;

use kenning_model::{
    Change, EntityType, Entry, Id, Record, Right, ScopeId, Status, Timestamp, Transaction, Triple, TxId, fold,
};
use kenning_storage::{Backend, EntryFilter, Reach, Reader, Touched, TripleFilter};

use super::scopes::{Log, namespace};
use super::{ALL, commit, entry, id, moment, reader, transaction, triple};
use crate::scrambled;

const TRANSACTIONS: u64 = 60;
const SCOPES: [ScopeId; 3] = [ScopeId(1), ScopeId(2), ScopeId(7)];
const PREDICATES: [&str; 2] = ["Runs on", "is"];
const NAMESPACE: u64 = 90;

/// A sequence of pseudo-random numbers that is always the same.
struct NumberSequence(u64);

impl NumberSequence {
    fn below(&mut self, many: u64) -> u64 {
        self.0 += 1;
        scrambled(self.0) % many
    }
}

pub fn counts_are_those_of_the_lists(backend: &dyn Backend) {
    let mut numbers = NumberSequence(0);
    let mut log = Log::new(backend);
    let mut written: Vec<Transaction> = Vec::new();
    for number in 1..=TRANSACTIONS {
        // An undo that finds nothing to change leaves an empty transaction.
        if number % 20 == 0 {
            let empty = Transaction { undoes: vec![TxId(1)], ..transaction(number, Vec::new()) };
            commit(backend, std::slice::from_ref(&empty));
            log.skip();
            written.push(empty);
            continue;
        }
        let mut records: BTreeMap<u64, Option<Record>> = BTreeMap::new();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(24);
            let is_gone = numbers.below(5) == 0 && log.is_live(at);
            records.insert(at, (!is_gone).then(|| record(at, &mut numbers)));
        }
        if numbers.below(8) == 0 {
            records.insert(NAMESPACE, Some(namespace(&format!("n{number}"))));
        }
        log.origin = if numbers.below(3) == 0 { "there" } else { "here" };
        written.push(log.write(&records.into_iter().collect::<Vec<_>>()));
    }
    let reader = reader(backend);
    for at in (0..=TRANSACTIONS).step_by(7).chain([TRANSACTIONS]) {
        of_records(&*reader, &written, TxId(at));
        of_transactions(&*reader, &written, TxId(at));
    }
    for scopes in lists_of_scopes() {
        let all = EntryFilter { scopes: &scopes, at: TxId(TRANSACTIONS), visible_at: None };
        let counted = reader.count_entries(&all).expect("a count");
        assert_eq!(reader.live_entries(&scopes).expect("a count"), counted, "{scopes:?}");
    }
}

/// An entry for an even number, a triple for an odd one, in any scope.
fn record(number: u64, numbers: &mut NumberSequence) -> Record {
    let scope = SCOPES[numbers.below(3) as usize];
    if number % 2 == 1 {
        let predicate = PREDICATES[numbers.below(2) as usize];
        return Record::Triple(Triple { scope, ..triple("api", predicate, &format!("host {number}")) });
    }
    let status = if numbers.below(4) == 0 { Status::Suppressed } else { Status::Active };
    let valid_from = (numbers.below(4) == 0).then(|| moment(20));
    let valid_to = (numbers.below(4) == 0).then(|| moment(40));
    Record::Entry(Entry { status, valid_from, valid_to, ..entry("topic", scope, 1) })
}

fn lists_of_scopes() -> [Vec<ScopeId>; 4] {
    [Vec::new(), vec![SCOPES[1]], vec![SCOPES[2], SCOPES[0], SCOPES[2]], SCOPES.to_vec()]
}

fn of_records(reader: &dyn Reader, written: &[Transaction], at: TxId) {
    let mut live: BTreeMap<Id, (TxId, usize, &Record)> = BTreeMap::new();
    for tx in written.iter().filter(|tx| tx.id <= at) {
        for (seq, change) in tx.changes.iter().enumerate() {
            live.remove(&change.id);
            live.extend(change.after.as_ref().map(|record| (change.id, (tx.id, seq, record))));
        }
    }
    let listed = |is_wanted: &dyn Fn(&Record) -> bool| -> Vec<Id> {
        let mut found: Vec<_> = live.iter().filter(|(_, (_, _, record))| is_wanted(record)).collect();
        found.sort_by_key(|(_, (tx, seq, _))| std::cmp::Reverse((*tx, *seq)));
        found.into_iter().map(|(id, _)| *id).collect()
    };
    let ids =
        |stored: Vec<kenning_storage::Stored>| -> Vec<Id> { stored.into_iter().map(|it| it.id).collect() };
    let is_in =
        |record: &Record, scopes: &[ScopeId]| record.scope().is_some_and(|scope| scopes.contains(&scope));
    for scopes in &lists_of_scopes() {
        for visible_at in [None, Some(moment(10)), Some(moment(30)), Some(moment(50))] {
            let filter = EntryFilter { scopes, at, visible_at };
            let expected = listed(&|record| {
                record.as_entry().is_some_and(|entry| is_shown(entry, visible_at)) && is_in(record, scopes)
            });
            assert_eq!(reader.count_entries(&filter).expect("a count"), expected.len() as u64, "as of {at}");
            assert_eq!(ids(reader.entries(&filter, ALL).expect("a page")), expected);
            let pages = [0..2, 2..5, 5..2000].map(|page| ids(reader.entries(&filter, page).expect("a page")));
            assert_eq!(pages.concat(), expected);
        }
        for predicate in [None, Some("runs on"), Some("is"), Some("has")] {
            let filter = TripleFilter { scopes, at, subject: None, predicate, object: None };
            let expected = listed(&|record| {
                let fits = |triple: &Triple| predicate.is_none_or(|wanted| fold(&triple.predicate) == wanted);
                record.as_triple().is_some_and(fits) && is_in(record, scopes)
            });
            assert_eq!(reader.count_triples(&filter).expect("a count"), expected.len() as u64, "as of {at}");
            let pages = [0..3, 3..2000].map(|page| ids(reader.triples(&filter, page).expect("a page")));
            assert_eq!(pages.concat(), expected);
            if predicate.is_none() {
                assert_eq!(reader.has_triples(at, Some(scopes)).expect("an answer"), !expected.is_empty());
            }
        }
    }
    for entity_type in [EntityType::Entry, EntityType::Triple] {
        let mut expected: BTreeMap<ScopeId, u64> = BTreeMap::new();
        for (_, _, record) in live.values().filter(|(_, _, record)| record.entity_type() == entity_type) {
            *expected.entry(record.scope().expect("it has one")).or_default() += 1;
        }
        assert_eq!(reader.count_by_scope(entity_type, at).expect("counts"), expected, "as of {at}");
    }
}

fn is_shown(entry: &Entry, visible_at: Option<Timestamp>) -> bool {
    visible_at.is_none_or(|now| {
        entry.status == Status::Active
            && entry.valid_from.is_none_or(|from| from <= now)
            && entry.valid_to.is_none_or(|to| now < to)
    })
}

fn of_transactions(reader: &dyn Reader, written: &[Transaction], at: TxId) {
    let rights = BTreeMap::from([(id(NAMESPACE), Right::Read)]);
    let confined = |scopes: &[ScopeId]| Reach::Some {
        rights: rights.clone(),
        scopes: scopes.iter().map(|scope| (*scope, id(NAMESPACE))).collect(),
    };
    let reaches = [Reach::Everything, confined(&SCOPES[..1]), confined(&SCOPES)];
    for reach in &reaches {
        for scopes in lists_of_scopes().iter().map(|scopes| Some(&scopes[..])).chain([None]) {
            for entity_type in
                [None, Some(EntityType::Entry), Some(EntityType::Triple), Some(EntityType::Namespace)]
            {
                for own in [None, Some("here"), Some("there"), Some("nowhere")] {
                    let touched = Touched { reach, entity_type, scopes, own, range: TxId(3)..at.next() };
                    let expected: Vec<TxId> = written
                        .iter()
                        .rev()
                        .filter(|tx| touched.range.contains(&tx.id) && concerns(tx, &touched))
                        .map(|tx| tx.id)
                        .collect();
                    let page = |page| reader.transactions_with(&touched, page).expect("a page");
                    let what =
                        format!("{entity_type:?} in {scopes:?} of {own:?} within {reach:?} as of {at}");
                    assert_eq!([page(0..2), page(2..5), page(5..2000)].concat(), expected, "{what}");
                    let many = reader.count_transactions_with(&touched).expect("a count");
                    assert_eq!(many, expected.len() as u64, "{what}");
                }
            }
        }
    }
}

/// Whether a query for transactions has to find this one, decided by its changes.
fn concerns(tx: &Transaction, touched: &Touched<'_>) -> bool {
    let Touched { reach, entity_type, scopes, own, .. } = touched;
    if tx.changes.is_empty() {
        return entity_type.is_none() && reach.is_everything();
    }
    let is_own = *own == Some(tx.origin.as_str());
    let is_seen = |change: &Change, record: &Record| match record.scope() {
        None => reach.sees(change.id, record),
        Some(scope) => {
            let is_asked = scopes.is_none_or(|scopes| scopes.contains(&scope));
            (is_asked || is_own) && reach.sees_scope(scope)
        }
    };
    let of_type = |change: &&Change| entity_type.is_none_or(|wanted| change.entity_type == wanted);
    tx.changes.iter().filter(of_type).any(|change| {
        let before = change.before.as_ref().map(|before| &before.record);
        before.into_iter().chain(&change.after).any(|record| is_seen(change, record))
    })
}
