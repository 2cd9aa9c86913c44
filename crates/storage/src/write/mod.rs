//! The possible writes, and the plan that turns a write into the changes of one transaction. Plans are made
//! inside the write transaction with its own reader, so the state that a plan has seen still holds when it is
//! committed.

mod batch;
mod collision;
mod document;
mod entry;
mod namespace;
mod quota;
mod scope;
mod triple;
mod undo;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kenning_model::{
    Change, EntityType, Id, Namespace, Principal, Record, ScopeId, ScopeName, ScopeNames, Timestamp,
    Transaction, TxId,
};

use crate::backend::{Backend, Pending, Reader, Remembered, Stored, View};
use crate::group::Answers;
use crate::tree::Tree;
use crate::{Error, KEY_KEPT, KEY_KEPT_TRANSACTIONS, KEYS_FORGOTTEN, Reach, Sources};

pub use batch::{Batch, EntryDeletion, EntryUpdate};
pub use document::{NewDocument, NewSection};
pub use entry::{EntryPatch, Follows, NewEntry};
pub use namespace::{NamespacePatch, NewNamespace};
pub use quota::EntryLimit;
pub use scope::{NewScope, ScopePatch};
pub use triple::{NewTriple, OnConflict};
pub use undo::{Author, UndoPlan, UndoTarget, UndoWish};

/// One write, as a tool asks for it.
pub enum Write {
    Store(NewEntry),
    /// Several new entries: all of them or none.
    StoreAll(Vec<NewEntry>),
    /// Changes of several kinds: all of them or none.
    Batch(Box<Batch>),
    Update {
        id: Id,
        patch: EntryPatch,
        expected_version: Option<u32>,
    },
    Delete {
        entity_type: EntityType,
        id: Id,
    },
    /// Restores one deleted record as it was. Other records that were deleted with it stay deleted.
    Restore {
        entity_type: EntityType,
        id: Id,
    },
    Relate {
        triple: NewTriple,
        on_conflict: OnConflict,
    },
    /// One entry stays active, the others are suppressed.
    Resolve {
        active: Id,
        suppressed: Vec<Id>,
    },
    CreateNamespace(NewNamespace),
    UpdateNamespace {
        name: String,
        patch: NamespacePatch,
    },
    DeleteNamespace {
        name: String,
    },
    CreateScope(NewScope),
    UpdateScope {
        name: ScopeName,
        patch: ScopePatch,
    },
    DeleteScope {
        name: ScopeName,
    },
    PutDocument(Box<NewDocument>),
    /// Deletes documents with their sections: all of them or none.
    DeleteDocuments {
        ids: Vec<Id>,
    },
    Undo(UndoWish),
    /// Suppresses all live entries that an author has written.
    Quarantine(Author),
}

pub struct Request {
    pub principal: Arc<Principal>,
    pub tool: String,
    pub write: Write,
    pub keyed: Option<Keyed>,
}

/// An idempotency key: the call that it stands for, and a function that writes the reply for a repetition.
pub struct Keyed {
    pub key: String,
    /// The digest of the tool's arguments.
    pub digest: String,
    pub reply: Box<dyn Fn(&Committed) -> String + Send>,
}

#[derive(Clone, Debug)]
pub struct Committed {
    pub tx: Transaction,
    /// False if there was nothing to write, or if it was written before.
    pub is_new: bool,
    /// `relate`: the newest live triples with the same subject and predicate and another object, and how many
    /// there are.
    pub conflicts: Vec<Stored>,
    pub conflict_count: u64,
    /// What existed already: for `relate` the identical triple, for a collision the entry that was suppressed
    /// last.
    pub existing: Option<Stored>,
    /// The names of the scopes of all these records.
    pub names: ScopeNames,
    /// The scopes after a change of scopes. For a new scope, only those that it inherits from.
    pub tree: Option<Tree>,
    /// The remembered reply, if the idempotency key was used before.
    pub again: Option<String>,
}

/// The changes of a plan, before they have a transaction number.
#[derive(Default)]
struct Draft {
    changes: Vec<Change>,
    undoes: Vec<TxId>,
    conflicts: Vec<Stored>,
    conflict_count: u64,
    existing: Option<Stored>,
    tree: Option<Tree>,
}

struct Plan<'a> {
    reader: &'a dyn Reader,
    sources: &'a Sources,
    head: TxId,
    now: Timestamp,
    actor: &'a str,
    origin: &'a str,
    /// What the principal may see and change.
    reach: Reach,
}

impl<'a> Plan<'a> {
    fn new(
        reader: &'a dyn Reader,
        sources: &'a Sources,
        head: TxId,
        now: Timestamp,
        principal: &'a Principal,
    ) -> Result<Plan<'a>, Error> {
        let reach = Reach::of(principal, reader)?;
        Ok(Plan { reader, sources, head, now, actor: &principal.actor, origin: &principal.origin, reach })
    }
}

/// Commits a batch: each request is planned on top of the writes of those before it, and then all become
/// durable together.
pub(crate) fn run(
    backend: &dyn Backend,
    sources: &Sources,
    limit: &EntryLimit,
    batch: Vec<Request>,
) -> Answers {
    match run_all(backend, sources, limit, &batch) {
        Ok(answers) => answers,
        Err(error) => batch.iter().map(|_| Err(error.for_group())).collect(),
    }
}

fn run_all(
    backend: &dyn Backend,
    sources: &Sources,
    limit: &EntryLimit,
    batch: &[Request],
) -> Result<Answers, Error> {
    let mut pending = backend.begin()?;
    let mut head = pending.reader().head()?;
    let mut answers = Vec::with_capacity(batch.len());
    let mut wrote = false;
    for request in batch {
        let now = (sources.now)();
        let planned = catch_unwind(AssertUnwindSafe(|| {
            if let Some(known) = recalled(pending.reader(), request)? {
                return Ok(Planned::Known(known));
            }
            let plan = Plan::new(pending.reader(), sources, head, now, &request.principal)?;
            let draft = plan.draft(&request.write)?;
            plan.reach.check(&draft.changes, plan.reader, head)?;
            let takes_back = matches!(request.write, Write::Undo(_) | Write::Restore { .. });
            plan.check_entry_limit(&draft.changes, takes_back, limit)?;
            Ok(Planned::New(draft))
        }))
        .unwrap_or_else(|_| Err(Error::Bug { what: format!("`{}` panicked while planning", request.tool) }));
        let draft = match planned {
            Ok(Planned::New(draft)) => draft,
            Ok(Planned::Known(committed)) => {
                answers.push(Ok(committed));
                continue;
            }
            // A refused request has written nothing yet, so the other requests of its group continue.
            Err(refused) => {
                answers.push(Err(refused));
                continue;
            }
        };
        let (is_new, tx) = match &draft.existing {
            // There is nothing to write: the answer is the transaction that wrote it before.
            Some(existing) if draft.changes.is_empty() => {
                let tx = pending.reader().transaction(existing.tx_id, head, View::WHOLE)?;
                (false, tx.ok_or_else(|| Error::damaged("the transaction of a live version is missing"))?)
            }
            _ => {
                head = head.next();
                let tx = Transaction {
                    id: head,
                    at: now,
                    actor: request.principal.actor.clone(),
                    origin: request.principal.origin.clone(),
                    tool: request.tool.clone(),
                    undoes: draft.undoes,
                    undone_by: None,
                    changes: draft.changes,
                    left_out: 0,
                };
                pending.append(&tx)?;
                wrote = true;
                (true, tx)
            }
        };
        let shown = draft.conflicts.iter().chain(&draft.existing);
        let names = names_of(pending.reader(), &tx, shown, head)?;
        let committed = Committed {
            tx,
            is_new,
            conflicts: draft.conflicts,
            conflict_count: draft.conflict_count,
            existing: draft.existing,
            names,
            tree: draft.tree,
            again: None,
        };
        if let Some(keyed) = &request.keyed {
            let reply = (keyed.reply)(&committed);
            let value =
                Remembered { tool: request.tool.clone(), digest: keyed.digest.clone(), reply, at: now };
            forget_old_keys(&mut *pending, head, now)?;
            pending.remember(&request.principal.key_owner(), &keyed.key, &value)?;
            wrote = true;
        }
        answers.push(Ok(committed));
    }
    if wrote {
        pending.commit()?;
    }
    Ok(answers)
}

/// The names of the scopes in which a transaction wrote or closed something.
fn names_of<'a>(
    reader: &dyn Reader,
    tx: &Transaction,
    shown: impl Iterator<Item = &'a Stored>,
    at: TxId,
) -> Result<ScopeNames, Error> {
    let sides = tx.changes.iter().flat_map(|change| {
        let before = change.before.as_ref().map(|before| &before.record);
        before.into_iter().chain(&change.after)
    });
    let records = sides.chain(shown.map(|stored| &stored.record));
    let scopes: BTreeSet<ScopeId> = records.filter_map(Record::scope).collect();
    reader.scope_names(&scopes.into_iter().collect::<Vec<_>>(), at)
}

/// Deletes keys that are old by the clock and by the log. Only a few are deleted at a time, so that one wrong
/// reading of the clock costs little.
fn forget_old_keys(pending: &mut dyn Pending, head: TxId, now: Timestamp) -> Result<(), Error> {
    let Some(oldest) = pending.reader().oldest_key()?.filter(|oldest| *oldest < now - KEY_KEPT) else {
        return Ok(());
    };
    let Some(tx) = head.0.checked_sub(KEY_KEPT_TRANSACTIONS).filter(|tx| *tx > 0) else { return Ok(()) };
    let header = pending.reader().transaction(TxId(tx), head, View::HEADER)?;
    let Some(then) = header.map(|header| header.at) else { return Ok(()) };
    let some = oldest.checked_add(KEYS_FORGOTTEN).unwrap_or(oldest);
    pending.forget_before(some.min(then).min(now - KEY_KEPT))
}

enum Planned {
    New(Draft),
    Known(Committed),
}

fn recalled(reader: &dyn Reader, request: &Request) -> Result<Option<Committed>, Error> {
    let Some(keyed) = &request.keyed else { return Ok(None) };
    let Some(known) = reader.recall(&request.principal.key_owner(), &keyed.key)? else { return Ok(None) };
    if known.tool != request.tool || known.digest != keyed.digest {
        return Err(Error::KeyReused { tool: known.tool });
    }
    let tx = Transaction {
        id: TxId::EMPTY,
        at: known.at,
        actor: request.principal.actor.clone(),
        origin: request.principal.origin.clone(),
        tool: known.tool,
        undoes: Vec::new(),
        undone_by: None,
        changes: Vec::new(),
        left_out: 0,
    };
    Ok(Some(Committed {
        tx,
        is_new: false,
        conflicts: Vec::new(),
        conflict_count: 0,
        existing: None,
        names: ScopeNames::default(),
        tree: None,
        again: Some(known.reply),
    }))
}

impl Plan<'_> {
    fn draft(&self, write: &Write) -> Result<Draft, Error> {
        match write {
            Write::Store(new) => self.store(std::slice::from_ref(new)),
            Write::StoreAll(new) => self.store(new),
            Write::Batch(batch) => self.batch(batch),
            Write::Update { id, patch, expected_version } => self.update(*id, patch, *expected_version),
            Write::Delete { entity_type, id } => self.delete(*entity_type, *id),
            Write::Restore { entity_type, id } => self.restore(*entity_type, *id),
            Write::Relate { triple, on_conflict } => self.relate(triple, *on_conflict),
            Write::Resolve { active, suppressed } => self.resolve(*active, suppressed),
            Write::CreateNamespace(new) => self.create_namespace(new),
            Write::UpdateNamespace { name, patch } => self.update_namespace(name, patch),
            Write::DeleteNamespace { name } => self.delete_namespace(name),
            Write::CreateScope(new) => self.create_scope(new),
            Write::UpdateScope { name, patch } => self.update_scope(name, patch),
            Write::DeleteScope { name } => self.delete_scope(name),
            Write::PutDocument(new) => self.put_document(new),
            Write::DeleteDocuments { ids } => self.delete_documents(ids),
            Write::Undo(wish) => self.undo(wish),
            Write::Quarantine(author) => self.quarantine(author),
        }
    }

    /// The live record with this id, if it is in reach; otherwise the id is unknown.
    fn live(&self, entity_type: EntityType, id: Id) -> Result<Stored, Error> {
        let stored = self.reader.record(entity_type, id, self.head)?;
        let in_reach = stored.filter(|stored| self.reach.sees(id, &stored.record));
        in_reach.ok_or(Error::UnknownId { entity_type, id })
    }

    fn delete(&self, entity_type: EntityType, id: Id) -> Result<Draft, Error> {
        Ok(Draft { changes: vec![self.closed(entity_type, id)?], ..Draft::default() })
    }

    /// Restores only records that stand alone: a document needs its sections, and a scope its namespace.
    fn restore(&self, entity_type: EntityType, id: Id) -> Result<Draft, Error> {
        let stands_alone = matches!(entity_type, EntityType::Entry | EntityType::Triple);
        let latest = if stands_alone { self.reader.latest(entity_type, id)? } else { None };
        let in_reach = latest.filter(|latest| self.reach.sees(id, &latest.record));
        let Some(latest) = in_reach else { return Err(Error::UnknownId { entity_type, id }) };
        if self.reader.record(entity_type, id, self.head)?.is_some() {
            return Err(Error::Invalid { what: format!("{entity_type} `{id}` is not deleted") });
        }
        if let Some(tombstone) = latest.record.tombstone() {
            let what = format!("{entity_type} `{id}` was removed for good in transaction {}", tombstone.by);
            return Err(Error::Invalid { what });
        }
        if let Some(scope) = latest.record.scope() {
            self.check_scope(scope)?;
        }
        let version = latest.record.version() + 1;
        let after = Some(latest.record.again(version, self.now));
        let changes = vec![Change { entity_type, id, before: None, after }];
        Ok(Draft { changes, ..Draft::default() })
    }

    /// The change that deletes a record. It is the same for every type: the live version is closed, and an
    /// undo opens it again.
    fn closed(&self, entity_type: EntityType, id: Id) -> Result<Change, Error> {
        let before = Some(self.live(entity_type, id)?.into());
        Ok(Change { entity_type, id, before, after: None })
    }

    /// The change that creates a record. `drawn` are the ids that the same draft uses already.
    fn create(&self, record: Record, drawn: &mut HashSet<Id>) -> Result<Change, Error> {
        let id = self.fresh_id(drawn)?;
        Ok(Change { entity_type: record.entity_type(), id, before: None, after: Some(record) })
    }

    /// A new id. An id names one record, so it must be unused in all types.
    fn fresh_id(&self, drawn: &mut HashSet<Id>) -> Result<Id, Error> {
        // 50 random bits collide about once in a million at a million entries; eight collisions in a row mean
        // a broken source.
        for _ in 0..8 {
            let id = (self.sources.id)();
            if id != Namespace::GLOBAL_ID && !self.reader.is_taken(id)? && drawn.insert(id) {
                return Ok(id);
            }
        }
        Err(Error::Bug { what: "eight drawn ids in a row were taken".into() })
    }
}

pub(crate) fn preview_undo(
    reader: &dyn Reader,
    sources: &Sources,
    limit: &EntryLimit,
    request: &UndoPlan<'_>,
) -> Result<Transaction, Error> {
    let now = (sources.now)();
    let head = reader.head()?;
    let plan = Plan::new(reader, sources, head, now, request.principal)?;
    let draft = plan.undo(&request.wish)?;
    plan.reach.check(&draft.changes, reader, head)?;
    plan.check_entry_limit(&draft.changes, true, limit)?;
    Ok(planned("undo", head, now, request.principal, draft))
}

pub(crate) fn preview_quarantine(
    reader: &dyn Reader,
    sources: &Sources,
    author: &Author,
    principal: &Principal,
) -> Result<Transaction, Error> {
    let now = (sources.now)();
    let head = reader.head()?;
    let plan = Plan::new(reader, sources, head, now, principal)?;
    let draft = plan.quarantine(author)?;
    plan.reach.check(&draft.changes, reader, head)?;
    Ok(planned("quarantine", head, now, principal, draft))
}

/// The transaction that a draft would become.
fn planned(tool: &str, head: TxId, now: Timestamp, principal: &Principal, draft: Draft) -> Transaction {
    Transaction {
        id: head.next(),
        at: now,
        actor: principal.actor.clone(),
        origin: principal.origin.clone(),
        tool: tool.to_owned(),
        undoes: draft.undoes,
        undone_by: None,
        changes: draft.changes,
        left_out: 0,
    }
}
