//! A script of 48 transactions of every kind, and the answers of a store that acknowledged some of them.

use std::collections::BTreeMap;
use std::path::Path;

use kenning_model::{EntityType, Id, ScopeId, Transaction, TxId};
use kenning_storage::{
    Backend, Committed, Embedded, EntryFilter, EntryPatch, Error, HistoryQuery, Keyed, NamespacePatch,
    NewEntry, NewNamespace, NewTriple, OnConflict, Request, Sources, Storage, Stored, TripleFilter,
    UndoTarget, UndoWish, View, Write,
};
use kenning_testkit::fixed_sources;

pub const STEPS: usize = 48;
/// The steps of one round; each round refers to what its own earlier steps wrote.
const ROUND: usize = 12;
/// The built-in scope, and the scope that each round creates.
const SCOPES: [ScopeId; 5] = [ScopeId(1), ScopeId(2), ScopeId(3), ScopeId(4), ScopeId(5)];

/// Something that happens between two steps, so that the main file is used and not only the write-ahead log.
pub enum Interlude {
    /// Another process copies the log into the main file and empties the log.
    Checkpoint,
    /// The store is closed and opened again.
    Reopen,
}

pub fn interlude_before(step: usize) -> Option<Interlude> {
    match step {
        4 | 13 | 25 | 35 => Some(Interlude::Checkpoint),
        9 | 17 | 31 => Some(Interlude::Reopen),
        _ => None,
    }
}

/// Checkpoints as another process would. It may fail if the disk does.
pub fn checkpoint(dir: &Path) -> Result<(), Error> {
    Embedded::open(dir)?.checkpoint()
}

/// The transactions and replies that the store has acknowledged to the caller.
#[derive(Clone, Default)]
pub struct Acknowledged {
    pub txs: Vec<Transaction>,
    /// The step of each idempotency key, and the reply to its first use.
    pub keyed: Vec<(usize, String)>,
}

impl Acknowledged {
    /// The request of a step: the next one, or one that was acknowledged before.
    pub fn request(&self, step: usize) -> Request {
        let tool = [
            "store",
            "store",
            "relate",
            "update",
            "relate",
            "delete",
            "undo",
            "undo",
            "store",
            "update",
            "create_namespace",
            "update_namespace",
        ][step % ROUND];
        let keyed = [0, 3, 4, 6].contains(&(step % ROUND)).then(|| Keyed {
            key: format!("key {step}"),
            digest: format!("digest {step}"),
            reply: Box::new(reply),
        });
        Request {
            principal: kenning_model::Principal::owner("tester", format!("origin {}", step % 3)).into(),
            tool: tool.to_owned(),
            write: self.write(step),
            keyed,
        }
    }

    fn write(&self, step: usize) -> Write {
        let round = step / ROUND;
        let earlier = |of_round: usize| &self.txs[round * ROUND + of_round];
        let entry = |topic: &str, content: String| NewEntry {
            scope: [SCOPES[0], SCOPES[round]][step % 2],
            topic: format!("{topic} {round}"),
            content,
            context: None,
            tags: vec!["fault".to_owned()],
            task_sizes: Vec::new(),
            source: None,
            confidence: None,
            valid_from: None,
            valid_to: None,
            pinned: step.is_multiple_of(3),
            follows: None,
        };
        let triple = |object: &str| NewTriple {
            scope: SCOPES[0],
            subject: format!("service {round}"),
            predicate: "runs on".to_owned(),
            object: object.to_owned(),
            source: None,
            confidence: Some(0.5),
        };
        let undo = |tx| Write::Undo(UndoWish { target: UndoTarget::Tx(tx), any_actor: true, within: None });
        let name = format!("round{round}");
        match step % ROUND {
            0 => Write::Store(entry("Deploys", format!("Blue-green since round {round}."))),
            // Longer than a page, so that it needs overflow pages.
            1 => Write::Store(entry("Runbook", format!("step {step}; ").repeat(600))),
            2 => Write::Relate { triple: triple("Kubernetes"), on_conflict: OnConflict::KeepBoth },
            3 => Write::Update {
                id: written(earlier(0)),
                patch: EntryPatch { content: Some("Canary.".to_owned()), ..EntryPatch::default() },
                expected_version: Some(1),
            },
            4 => Write::Relate { triple: triple("Nomad"), on_conflict: OnConflict::Replace },
            5 => Write::Delete { entity_type: EntityType::Entry, id: written(earlier(0)) },
            6 => undo(earlier(5).id),
            7 => undo(earlier(6).id),
            8 => {
                let valid_to = Some("2030-01-01T00:00:00Z".parse().expect("a good moment"));
                Write::Store(NewEntry { valid_to, confidence: Some(0.9), ..entry("Owner", "Ops".to_owned()) })
            }
            9 => Write::Update {
                id: written(earlier(8)),
                patch: EntryPatch { scope: Some(SCOPES[round]), ..EntryPatch::default() },
                expected_version: None,
            },
            10 => Write::CreateNamespace(NewNamespace { name, description: format!("Made at step {step}") }),
            _ => {
                let patch = NamespacePatch { name: Some(format!("{name}-renamed")), description: None };
                Write::UpdateNamespace { name, patch }
            }
        }
    }

    pub fn add(&mut self, step: usize, committed: Committed) {
        if self.request(step).keyed.is_some() {
            self.keyed.push((step, reply(&committed)));
        }
        self.txs.push(committed.tx);
    }

    /// The first `count` acknowledgements, for a caller that got no later one.
    pub fn first(&self, count: usize) -> Acknowledged {
        let keyed = self.keyed.iter().filter(|(step, _)| *step < count).cloned().collect();
        Acknowledged { txs: self.txs[..count].to_vec(), keyed }
    }

    /// The answers of a store that contains exactly these transactions.
    pub fn answers(&self) -> Answers {
        let mut live = BTreeMap::new();
        for tx in &self.txs {
            for change in &tx.changes {
                match &change.after {
                    Some(record) => {
                        let stored = Stored { id: change.id, tx_id: tx.id, record: record.clone() };
                        live.insert(change.id, stored)
                    }
                    None => live.remove(&change.id),
                };
            }
        }
        let of = |entity_type| {
            let of_type = |(_, stored): &(&Id, &Stored)| stored.record.entity_type() == entity_type;
            live.iter().filter(of_type).map(|(id, stored)| (*id, stored.clone())).collect::<BTreeMap<_, _>>()
        };
        let mut places = of(EntityType::Namespace);
        places.extend(of(EntityType::Scope));
        let (entries, triples) = (of(EntityType::Entry), of(EntityType::Triple));
        let history =
            self.txs.iter().rev().map(|tx| Transaction { undone_by: self.undone_by(tx.id), ..tx.clone() });
        Answers { history: history.collect(), entries, triples, places }
    }

    fn undone_by(&self, id: TxId) -> Option<TxId> {
        let undos = self.txs.iter().rev().filter(|tx| tx.undoes.contains(&id)).map(|tx| tx.id);
        undos.into_iter().find(|by| self.undone_by(*by).is_none())
    }

    /// Checks that each acknowledged key gets its reply again and that nothing is written.
    pub fn check_keys(&self, storage: &Storage) {
        for (step, first) in &self.keyed {
            let again = storage.commit(self.request(*step)).expect("a known key is answered");
            assert_eq!(again.again.as_ref(), Some(first), "the reply of step {step}");
        }
        assert_eq!(head(storage), self.txs.len() as u64, "a known key writes nothing");
    }
}

/// The answers to every question about the content of a store.
#[derive(Debug, PartialEq)]
pub struct Answers {
    /// Newest first.
    pub history: Vec<Transaction>,
    pub entries: BTreeMap<Id, Stored>,
    pub triples: BTreeMap<Id, Stored>,
    pub places: BTreeMap<Id, Stored>,
}

impl Answers {
    pub fn of(storage: &Storage) -> Result<Answers, Error> {
        let reader = storage.reader()?;
        let at = reader.head()?;
        let all = HistoryQuery { id: None, entity_type: None, since: TxId::EMPTY, at, view: View::WHOLE };
        let by_id = |rows: Vec<Stored>| rows.into_iter().map(|stored| (stored.id, stored)).collect();
        let mut places = reader.live(EntityType::Namespace, at)?;
        places.extend(reader.live(EntityType::Scope, at)?);
        let entries = EntryFilter { scopes: &SCOPES, at, visible_at: None };
        let triples = TripleFilter { scopes: &SCOPES, at, subject: None, predicate: None, object: None };
        Ok(Answers {
            history: storage.history(&all, 0..u64::MAX)?.0,
            entries: by_id(reader.entries(&entries, 0..1000)?),
            triples: by_id(reader.triples(&triples, 0..1000)?),
            places: by_id(places),
        })
    }
}

/// Sources with ids that the script has not drawn.
pub fn later_sources() -> Sources {
    let sources = fixed_sources();
    // A step draws at most two ids.
    for _ in 0..2 * STEPS {
        (sources.id)();
    }
    sources
}

pub fn head(storage: &Storage) -> u64 {
    storage.reader().and_then(|reader| reader.head()).expect("the head can be read").0
}

pub fn check_sound(storage: &Storage) {
    let mut damages = Vec::new();
    let verified =
        storage.backend().verify(&mut |damage| damages.push(damage)).expect("the store can be verified");
    assert_eq!(damages, [], "the store is damaged");
    assert_eq!(verified.transactions, head(storage), "every transaction was verified");
}

fn reply(committed: &Committed) -> String {
    format!("transaction {} changed {}", committed.tx.id, written(&committed.tx))
}

fn written(tx: &Transaction) -> Id {
    tx.changes[0].id
}
