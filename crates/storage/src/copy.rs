//! Copies a log exactly: every row of every transaction and the idempotency keys, byte for byte. A log that
//! is copied in was not planned by this program, so it is checked before anything is derived from it.

use std::collections::HashSet;

use kenning_model::{
    Change, EntityType, Id, Namespace, Record, Scope, ScopeId, Transaction, TxId, Version, is_name,
};

use crate::backend::{At, KeptKey, Pending, Reader, RecordKey};
use crate::log_row::{HEADER, LogRow};
use crate::tree::Tree;
use crate::{Error, Storage};

/// A part of a log that is copied from one store to another.
pub enum LogItem {
    /// The header of a transaction, or one of its changes.
    Row(LogRow),
    Key(KeptKey),
}

/// How many changes are read at a time. A transaction with more changes is still read as a whole.
const CHANGES_MAX: usize = 128;
/// How many headers, or idempotency keys, are read at a time.
const PAGE: usize = 256;

/// Passes the transactions up to `to` in their order, each as its header followed by its changes, and after
/// them the idempotency keys.
pub fn read_log<E: From<Error>>(
    reader: &dyn Reader,
    to: TxId,
    mut take: impl FnMut(LogItem) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = TxId(1);
    while next <= to {
        let ids: Vec<TxId> = (next.0..=to.0).take(PAGE).map(TxId).collect();
        next = TxId(next.0 + ids.len() as u64);
        let headers = reader.log_rows(&ids, 1)?;
        let (mut together, mut many) = (Vec::new(), 0);
        for (id, header) in ids.iter().zip(&headers) {
            let changes = match header.first() {
                Some(header) => header.header()?.changes as usize,
                None => return Err(Error::damaged(format!("transaction {id} is missing")).into()),
            };
            if many + changes > CHANGES_MAX && !together.is_empty() {
                read_rows(reader, &together, &mut take)?;
                (together, many) = (Vec::new(), 0);
            }
            together.push(*id);
            many += changes;
        }
        read_rows(reader, &together, &mut take)?;
    }
    let mut after: Option<(String, String)> = None;
    loop {
        let last = after.as_ref().map(|(owner, key)| (&**owner, &**key));
        let page = reader.kept_keys(last, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.owner.clone(), last.key.clone()));
        page.into_iter().try_for_each(|kept| take(LogItem::Key(kept)))?;
    }
}

fn read_rows<E: From<Error>>(
    reader: &dyn Reader,
    ids: &[TxId],
    take: &mut impl FnMut(LogItem) -> Result<(), E>,
) -> Result<(), E> {
    for row in reader.log_rows(ids, usize::MAX)?.into_iter().flatten() {
        if !row.is_sound() {
            let what =
                format!("log row {} of transaction {} does not match its checksum", row.seq, row.tx_id);
            return Err(Error::damaged(what).into());
        }
        take(LogItem::Row(row))?;
    }
    Ok(())
}

impl Storage {
    /// Appends a log to a store without transactions. Numbers, times, actors, ids and idempotency keys stay
    /// the same. If `next` fails or a transaction is not sound, nothing is appended.
    pub fn append_log<E: From<Error>>(
        &self,
        mut next: impl FnMut() -> Result<Option<LogItem>, E>,
    ) -> Result<TxId, E> {
        let mut pending = self.backend.begin()?;
        if pending.reader().head()? != TxId::EMPTY {
            let what =
                "the store has transactions already, and a log is copied into an empty store".to_owned();
            return Err(Error::Invalid { what }.into());
        }
        let mut copying = Copying::new(&*pending)?;
        let mut rows: Vec<LogRow> = Vec::new();
        loop {
            match next()? {
                Some(LogItem::Row(row)) => {
                    if row.seq == 0 && !rows.is_empty() {
                        copying.append(&mut *pending, &std::mem::take(&mut rows))?;
                    }
                    rows.push(row);
                }
                Some(LogItem::Key(KeptKey { owner, key, value })) => {
                    if !rows.is_empty() {
                        copying.append(&mut *pending, &std::mem::take(&mut rows))?;
                    }
                    pending.remember(&owner, &key, &value)?;
                }
                None => break,
            }
        }
        if !rows.is_empty() {
            copying.append(&mut *pending, &rows)?;
        }
        pending.commit()?;
        Ok(copying.head)
    }
}

/// The state after the earlier transactions, which is needed to check the next one.
struct Copying {
    head: TxId,
    tree: Tree,
    next_scope: ScopeId,
}

impl Copying {
    fn new(pending: &dyn Pending) -> Result<Copying, Error> {
        let reader = pending.reader();
        Ok(Copying {
            head: TxId::EMPTY,
            tree: Tree::read(reader, TxId::EMPTY)?,
            next_scope: reader.next_scope()?,
        })
    }

    fn append(&mut self, pending: &mut dyn Pending, rows: &[LogRow]) -> Result<(), Error> {
        let number = self.head.next();
        let named = |error: Error| match error {
            Error::Invalid { what } => Error::Invalid { what: format!("transaction {number}: {what}") },
            // The row comes from another log, so this store is not damaged.
            Error::Damaged { what } => Error::Invalid { what: format!("transaction {number}: {what}") },
            other => other,
        };
        let tx = self.transaction(pending.reader(), rows).map_err(named)?;
        pending.append_rows(rows, &tx)?;
        self.head = number;
        Ok(())
    }

    /// The transaction that consists of these rows, with the versions that its changes closed.
    fn transaction(&mut self, reader: &dyn Reader, rows: &[LogRow]) -> Result<Transaction, Error> {
        let Some((first, rows)) = rows.split_first() else { return Err(invalid("it has no header")) };
        let id = self.head.next();
        if first.seq != 0 || first.kind != HEADER || first.tx_id != id.0 {
            return Err(invalid("its header is missing, or the numbers have a gap"));
        }
        let header = first.header()?;
        if header.changes as usize != rows.len() {
            let what = format!("it has {} changes, and its header says {}", rows.len(), header.changes);
            return Err(Error::Invalid { what });
        }
        if header.undoes.iter().any(|target| *target == TxId::EMPTY || *target >= id) {
            return Err(invalid("it takes back a transaction that does not come before it"));
        }
        let mut changes = Vec::with_capacity(rows.len());
        let mut known = HashSet::new();
        for (seq, row) in (1..).zip(rows) {
            if row.tx_id != id.0 || row.seq != seq {
                return Err(invalid("its changes are out of order"));
            }
            let change =
                Change { entity_type: row.entity_type()?, id: row.id()?, before: None, after: row.record()? };
            if change.id == Namespace::GLOBAL_ID || !known.insert(change.id) {
                let what = format!("it changes `{}` twice, or what is built in", change.id);
                return Err(Error::Invalid { what });
            }
            changes.push(change);
        }
        let keys = |at: At| -> Vec<RecordKey> {
            let key = |change: &Change| RecordKey { entity_type: change.entity_type, id: change.id, at };
            changes.iter().map(key).collect()
        };
        let before = reader.records(&keys(At::Live(self.head)))?;
        let newest = reader.records(&keys(At::Newest))?;
        for ((change, before), newest) in changes.iter_mut().zip(before).zip(newest) {
            change.before = before.map(Version::from);
            if change.before.is_none() && change.after.is_none() {
                let what = format!("it deletes {} `{}`, which is not there", change.entity_type, change.id);
                return Err(Error::Invalid { what });
            }
            if newest.is_none() && reader.is_taken(change.id)? {
                return Err(Error::Invalid {
                    what: format!("`{}` names something of another type", change.id),
                });
            }
            let earlier = newest.as_ref().and_then(|stored| stored.record.as_scope());
            self.check_names(change, earlier)?;
        }
        self.check_scopes(&changes)?;
        Ok(Transaction {
            id,
            at: header.at,
            actor: header.actor,
            origin: first.id.clone(),
            tool: header.tool,
            undoes: header.undoes,
            undone_by: None,
            changes,
            left_out: 0,
        })
    }

    /// Checks that a scope keeps its number and its namespace, and that a new scope has an unused number.
    fn check_names(&mut self, change: &Change, earlier: Option<&Scope>) -> Result<(), Error> {
        let name = match &change.after {
            Some(Record::Namespace(namespace)) => &namespace.name,
            Some(Record::Scope(scope)) => {
                let is_kept = match earlier {
                    Some(earlier) => earlier.number == scope.number && earlier.namespace == scope.namespace,
                    None => scope.number >= self.next_scope && scope.number.0 < u32::MAX,
                };
                if !is_kept {
                    let what = format!("scope `{}` has the number of another scope", change.id);
                    return Err(Error::Invalid { what });
                }
                self.next_scope = self.next_scope.max(ScopeId(scope.number.0 + 1));
                &scope.name
            }
            _ => return Ok(()),
        };
        match is_name(name) {
            true => Ok(()),
            false => Err(Error::Invalid {
                what: format!("{} `{}` has no good name", change.entity_type, change.id),
            }),
        }
    }

    /// Checks that the scopes are sound after the transaction, and that every record is in a scope that
    /// exists.
    fn check_scopes(&mut self, changes: &[Change]) -> Result<(), Error> {
        if changes.iter().any(|change| !change.entity_type.has_scope()) {
            self.tree = self.tree.clone().after(changes);
            self.tree.check().map_err(|what| Error::Invalid { what })?;
        }
        for change in changes {
            let scope = change.after.as_ref().and_then(Record::scope);
            if scope.is_some_and(|scope| self.tree.get(scope).is_none()) {
                let what = format!("{} `{}` is in a scope that is not there", change.entity_type, change.id);
                return Err(Error::Invalid { what });
            }
        }
        Ok(())
    }
}

fn invalid(what: &str) -> Error {
    Error::Invalid { what: what.to_owned() }
}

impl LogItem {
    /// The header of a transaction, from a log that was written to a file.
    pub fn header(tx: TxId, origin: &str, body: String) -> LogItem {
        LogItem::Row(LogRow::new(tx.0, 0, HEADER, origin.to_owned(), Some(body)))
    }

    /// A change of a transaction: the new version of an id as JSON, or none for a deletion.
    pub fn change(tx: TxId, seq: u32, entity_type: EntityType, id: Id, body: Option<String>) -> LogItem {
        let kind = crate::log_row::kind_of(entity_type);
        LogItem::Row(LogRow::new(tx.0, seq, kind, id.as_str().to_owned(), body))
    }
}
