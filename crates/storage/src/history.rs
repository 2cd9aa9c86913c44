//! Transactions as the history shows them, the same on every backend: the author, the changes that the view
//! shows with their versions before and after, and whether the transaction is undone.

use kenning_model::{Change, EntityType, Id, Record, Transaction, TxId, Version};

use crate::Error;
use crate::backend::{At, Reader, RecordKey, View};
use crate::log_row::{LogRow, entity_type_of};

/// How many rows are read for each change that is to be shown, because most rows may not be shown.
const LOOKED_AT: usize = 50;

/// These transactions as of `at`, in the requested order; none for a transaction that did not exist yet. They
/// are read together: first the rows of all, then the undo chains of all, then the versions that their
/// changes closed.
pub(crate) fn transactions<R: Reader + ?Sized>(
    reader: &R,
    ids: &[TxId],
    at: TxId,
    view: View<'_>,
) -> Result<Vec<Option<Transaction>>, Error> {
    // The header and a bounded number of changes: a transaction may have changed everything in the store, so
    // only some rows beyond the shown ones are read. A principal that does not see everything must not learn
    // how many changes it can't see. For such a principal every change is read, and only the visible ones are
    // counted.
    let is_counted = !view.reach.is_everything() && view.changes_max > 0;
    let rows_max =
        if is_counted { usize::MAX } else { view.changes_max.saturating_mul(LOOKED_AT).saturating_add(1) };
    let known: Vec<TxId> = ids.iter().copied().filter(|id| *id <= at).collect();
    if known.is_empty() {
        return Ok(ids.iter().map(|_| None).collect());
    }
    let rows = reader.log_rows(&known, rows_max)?;
    let undone = UndoChains::read(reader, &known)?;
    let mut shown = Vec::with_capacity(known.len());
    for (id, rows) in known.iter().zip(&rows) {
        let found = match rows.split_first() {
            Some((header, changes)) => Some(ShownTransaction::new(*id, header, changes, view, is_counted)?),
            None => None,
        };
        shown.push(found);
    }
    // Usually everything fits into the first round.
    loop {
        let mut keys = Vec::new();
        for transaction in shown.iter_mut().flatten() {
            transaction.next_keys(&mut keys);
        }
        if keys.is_empty() {
            break;
        }
        let mut closed = reader.records(&keys)?.into_iter();
        for transaction in shown.iter_mut().flatten() {
            for _ in 0..transaction.asked {
                transaction.show(closed.next().flatten().map(Version::from))?;
            }
        }
    }
    let mut shown = known.iter().zip(shown);
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let transaction = if *id <= at { shown.next().and_then(|(_, shown)| shown) } else { None };
        found.push(match transaction {
            Some(transaction) => Some(transaction.into_transaction(undone.standing(*id, at))?),
            None => None,
        });
    }
    Ok(found)
}

/// A transaction whose changes are being examined.
struct ShownTransaction<'a> {
    id: TxId,
    header: &'a LogRow,
    rows: std::slice::Iter<'a, LogRow>,
    view: View<'a>,
    is_own: bool,
    is_counted: bool,
    /// How many of the next rows wait for the versions that they closed.
    asked: usize,
    changes: Vec<Change>,
    not_shown: usize,
}

impl<'a> ShownTransaction<'a> {
    fn new(
        id: TxId,
        header: &'a LogRow,
        rows: &'a [LogRow],
        view: View<'a>,
        is_counted: bool,
    ) -> Result<ShownTransaction<'a>, Error> {
        // A damaged header is reported before anything else is read.
        header.header()?;
        for row in rows {
            key_of(id, row)?;
        }
        Ok(ShownTransaction {
            id,
            header,
            rows: rows.iter(),
            view,
            is_own: view.own == Some(header.id.as_str()),
            is_counted,
            asked: 0,
            changes: Vec::new(),
            not_shown: 0,
        })
    }

    /// Requests the versions that the next rows closed, for as many rows as there may be changes left to
    /// show.
    fn next_keys(&mut self, keys: &mut Vec<RecordKey>) {
        let wanted = if self.is_counted {
            usize::MAX
        } else {
            self.view.changes_max.saturating_sub(self.changes.len())
        };
        let before = keys.len();
        keys.extend(self.rows.as_slice().iter().take(wanted).filter_map(|row| key_of(self.id, row).ok()));
        self.asked = keys.len() - before;
    }

    /// Examines the next row, with the version that it closed.
    fn show(&mut self, closed: Option<Version>) -> Result<(), Error> {
        let Some(row) = self.rows.next() else { return Ok(()) };
        let RecordKey { entity_type, id, .. } = key_of(self.id, row)?;
        let View { reach, scopes, changes_max, .. } = self.view;
        let is_asked_for =
            |record: &Record| self.is_own || scopes.is_none_or(|scopes| record.is_seen_from(scopes));
        let is_seen = |record: &Record| is_asked_for(record) && reach.sees(id, record);
        let before = closed.filter(|closed| is_seen(&closed.record));
        let after = row.record()?.filter(is_seen);
        // A view of whole transactions leaves nothing out, even if a damaged table says otherwise.
        let is_whole = reach.is_everything() && (self.is_own || scopes.is_none());
        if !is_whole && before.is_none() && after.is_none() {
            return Ok(());
        }
        if self.changes.len() < changes_max {
            self.changes.push(Change { entity_type, id, before, after });
        } else {
            self.not_shown += 1;
        }
        Ok(())
    }

    fn into_transaction(self, undone_by: Option<TxId>) -> Result<Transaction, Error> {
        let header = self.header.header()?;
        let left_out = if self.is_counted {
            self.not_shown
        } else {
            (header.changes as usize).saturating_sub(self.changes.len())
        };
        Ok(Transaction {
            id: self.id,
            at: header.at,
            actor: header.actor,
            origin: self.header.id.clone(),
            tool: header.tool,
            undoes: header.undoes,
            undone_by,
            left_out,
            changes: self.changes,
        })
    }
}

/// The key of the version that a change closed, if it closed one.
fn key_of(tx: TxId, row: &LogRow) -> Result<RecordKey, Error> {
    let unknown = || Error::damaged(format!("transaction {tx} has a change of no known type"));
    let entity_type: EntityType = entity_type_of(row.kind).ok_or_else(unknown)?;
    let id: Id = row.id()?;
    Ok(RecordKey { entity_type, id, at: At::ClosedBy(tx) })
}

/// For some transactions and all their undos, which transaction was undone by which.
pub(crate) struct UndoChains(Vec<(TxId, TxId)>);

impl UndoChains {
    pub(crate) fn read<R: Reader + ?Sized>(reader: &R, targets: &[TxId]) -> Result<UndoChains, Error> {
        Ok(UndoChains(reader.undo_edges(targets)?))
    }

    /// The newest undo of a transaction that is in effect as of `at`, which means that it was not undone
    /// itself. For example, if 5 undoes 4 and 6 undoes 5, then 4 is undone by 5 as of transaction 5, and by
    /// none as of 6.
    pub(crate) fn standing(&self, id: TxId, at: TxId) -> Option<TxId> {
        let undone = self.0.iter().filter(|(target, by)| *target == id && *by <= at).map(|(_, by)| *by);
        undone.filter(|by| self.standing(*by, at).is_none()).max()
    }
}
