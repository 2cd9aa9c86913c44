//! What can be written, and the plan from a wish to the changes of one transaction. Plans are made inside the
//! write transaction, against its reader, so what a plan saw still holds when it is committed.

mod entry;
mod triple;
mod undo;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kenning_model::{Change, EntityType, Id, Record, Timestamp, Transaction, TxId};

use crate::backend::{Backend, Reader, Remembered, Stored};
use crate::group::Answers;
use crate::{Error, KEY_KEPT, Sources};

pub use entry::{EntryPatch, NewEntry};
pub use triple::{NewTriple, OnConflict};
pub use undo::{UndoPlan, UndoTarget};

/// One write, as a tool asks for it.
pub enum Write {
    Store(NewEntry),
    /// Many at once, all or none.
    StoreAll(Vec<NewEntry>),
    Update {
        id: Id,
        patch: EntryPatch,
        expected_version: Option<u32>,
    },
    Delete {
        entity_type: EntityType,
        id: Id,
    },
    Relate {
        triple: NewTriple,
        on_conflict: OnConflict,
    },
    Undo {
        target: UndoTarget,
        any_actor: bool,
    },
}

pub struct Request {
    pub actor: String,
    pub origin: String,
    pub tool: String,
    pub write: Write,
    pub keyed: Option<Keyed>,
}

/// An idempotency key: the call it stands for and how to say its reply once more.
pub struct Keyed {
    pub key: String,
    /// Of the tool's arguments.
    pub digest: String,
    pub reply: Box<dyn Fn(&Committed) -> String + Send>,
}

#[derive(Clone, Debug)]
pub struct Committed {
    pub tx: Transaction,
    /// False when there was nothing to write, or it was written before.
    pub is_new: bool,
    /// `relate`: the newest of the live triples with the same subject and predicate and another object, and how many
    /// there are.
    pub conflicts: Vec<Stored>,
    pub conflict_count: u64,
    /// `relate`: the identical triple that was there already.
    pub existing: Option<Stored>,
    /// The remembered reply, when the idempotency key was seen before.
    pub again: Option<String>,
}

/// The changes a plan came to, before they have a number.
#[derive(Default)]
struct Draft {
    changes: Vec<Change>,
    undoes: Vec<TxId>,
    conflicts: Vec<Stored>,
    conflict_count: u64,
    existing: Option<Stored>,
}

struct Plan<'a> {
    reader: &'a dyn Reader,
    sources: &'a Sources,
    head: TxId,
    now: Timestamp,
    actor: &'a str,
    origin: &'a str,
}

/// Commits a batch: every request is planned on what those before it wrote, then all become durable together.
pub(crate) fn run(backend: &dyn Backend, sources: &Sources, batch: Vec<Request>) -> Answers {
    match run_all(backend, sources, &batch) {
        Ok(answers) => answers,
        Err(error) => batch.iter().map(|_| Err(error.for_group())).collect(),
    }
}

fn run_all(backend: &dyn Backend, sources: &Sources, batch: &[Request]) -> Result<Answers, Error> {
    let mut pending = backend.begin()?;
    let mut head = pending.reader().head()?;
    let mut answers = Vec::with_capacity(batch.len());
    let mut wrote = false;
    for request in batch {
        let now = (sources.now)();
        let planned = catch_unwind(AssertUnwindSafe(|| {
            if let Some(known) = recalled(pending.reader(), request, now)? {
                return Ok(Planned::Known(known));
            }
            let plan = Plan {
                reader: pending.reader(),
                sources,
                head,
                now,
                actor: &request.actor,
                origin: &request.origin,
            };
            plan.draft(&request.write).map(Planned::New)
        }))
        .unwrap_or_else(|_| Err(Error::Bug { what: format!("`{}` panicked while planning", request.tool) }));
        let draft = match planned {
            Ok(Planned::New(draft)) => draft,
            Ok(Planned::Known(committed)) => {
                answers.push(Ok(committed));
                continue;
            }
            // A refused request has written nothing yet, so the others of its group go on.
            Err(refused) => {
                answers.push(Err(refused));
                continue;
            }
        };
        let (is_new, tx) = match &draft.existing {
            // Nothing to write: the answer is the transaction that wrote it before.
            Some(existing) if draft.changes.is_empty() => {
                let tx = pending.reader().transaction(existing.tx_id, head)?;
                (false, tx.ok_or_else(|| Error::damaged("the transaction of a live triple is missing"))?)
            }
            _ => {
                head = head.next();
                let tx = Transaction {
                    id: head,
                    at: now,
                    actor: request.actor.clone(),
                    origin: request.origin.clone(),
                    tool: request.tool.clone(),
                    undoes: draft.undoes,
                    undone_by: None,
                    changes: draft.changes,
                };
                pending.append(&tx)?;
                wrote = true;
                (true, tx)
            }
        };
        let committed = Committed {
            tx,
            is_new,
            conflicts: draft.conflicts,
            conflict_count: draft.conflict_count,
            existing: draft.existing,
            again: None,
        };
        if let Some(keyed) = &request.keyed {
            let reply = (keyed.reply)(&committed);
            let value =
                Remembered { tool: request.tool.clone(), digest: keyed.digest.clone(), reply, at: now };
            pending.forget_before(now - KEY_KEPT)?;
            pending.remember(&request.actor, &keyed.key, &value)?;
            wrote = true;
        }
        answers.push(Ok(committed));
    }
    if wrote {
        pending.commit()?;
    }
    Ok(answers)
}

enum Planned {
    New(Draft),
    Known(Committed),
}

fn recalled(reader: &dyn Reader, request: &Request, now: Timestamp) -> Result<Option<Committed>, Error> {
    let Some(keyed) = &request.keyed else { return Ok(None) };
    let Some(known) = reader.recall(&request.actor, &keyed.key)? else { return Ok(None) };
    if known.at < now - KEY_KEPT {
        return Ok(None);
    }
    if known.tool != request.tool || known.digest != keyed.digest {
        return Err(Error::KeyReused { tool: known.tool });
    }
    let tx = Transaction {
        id: TxId::EMPTY,
        at: known.at,
        actor: request.actor.clone(),
        origin: request.origin.clone(),
        tool: known.tool,
        undoes: Vec::new(),
        undone_by: None,
        changes: Vec::new(),
    };
    Ok(Some(Committed {
        tx,
        is_new: false,
        conflicts: Vec::new(),
        conflict_count: 0,
        existing: None,
        again: Some(known.reply),
    }))
}

impl Plan<'_> {
    fn draft(&self, write: &Write) -> Result<Draft, Error> {
        match write {
            Write::Store(new) => self.store(std::slice::from_ref(new)),
            Write::StoreAll(new) => self.store(new),
            Write::Update { id, patch, expected_version } => self.update(*id, patch, *expected_version),
            Write::Delete { entity_type, id } => self.delete(*entity_type, *id),
            Write::Relate { triple, on_conflict } => self.relate(triple, *on_conflict),
            Write::Undo { target, any_actor } => self.undo(target, *any_actor),
        }
    }

    fn live(&self, entity_type: EntityType, id: Id) -> Result<Stored, Error> {
        self.reader.record(entity_type, id, self.head)?.ok_or(Error::UnknownId { entity_type, id })
    }

    /// Deleting is the same for every type: a closing version, which an undo takes back.
    fn delete(&self, entity_type: EntityType, id: Id) -> Result<Draft, Error> {
        let before = Some(self.live(entity_type, id)?.into());
        Ok(Draft { changes: vec![Change { entity_type, id, before, after: None }], ..Draft::default() })
    }

    /// `drawn` are ids that the same draft uses already.
    fn create(&self, record: Record, drawn: &mut HashSet<Id>) -> Result<Change, Error> {
        let id = self.fresh_id(drawn)?;
        Ok(Change { entity_type: record.entity_type(), id, before: None, after: Some(record) })
    }

    /// An id names one thing, so it is fresh only if no type ever had it.
    fn fresh_id(&self, drawn: &mut HashSet<Id>) -> Result<Id, Error> {
        // 50 random bits collide about once in a million at a million entries; eight in a row is a broken source.
        for _ in 0..8 {
            let id = (self.sources.id)();
            if !self.reader.is_taken(id)? && drawn.insert(id) {
                return Ok(id);
            }
        }
        Err(Error::Bug { what: "eight drawn ids in a row were taken".into() })
    }
}

pub(crate) fn preview_undo(
    reader: &dyn Reader,
    sources: &Sources,
    request: &UndoPlan<'_>,
) -> Result<Transaction, Error> {
    let now = (sources.now)();
    let head = reader.head()?;
    let plan = Plan { reader, sources, head, now, actor: request.actor, origin: request.origin };
    let draft = plan.undo(&request.target, request.any_actor)?;
    Ok(Transaction {
        id: head.next(),
        at: now,
        actor: request.actor.to_owned(),
        origin: request.origin.to_owned(),
        tool: "undo".to_owned(),
        undoes: draft.undoes,
        undone_by: None,
        changes: draft.changes,
    })
}
