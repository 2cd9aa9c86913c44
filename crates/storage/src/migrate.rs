//! Copies the log of one store into another store, on any backends, with the same numbers, times, rows and
//! idempotency keys. After an interruption, the next run continues where the copy ended.

use kenning_model::{Transaction, TxId};

use crate::backend::{Damage, Reader, Verified, View};
use crate::{Error, Storage};

/// How many transactions are copied in one commit.
const TRANSACTIONS: usize = 500;
const KEYS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// How many transactions an earlier run had copied.
    pub already: u64,
    pub transactions: u64,
    pub keys: u64,
    pub verified: Verified,
}

/// Copies what `from` has and `to` lacks, compares both logs row by row, and verifies `to`. `progress` gets
/// the number of transactions that are copied, and the total. `from` is not changed.
pub fn migrate(from: &Storage, to: &Storage, progress: &mut dyn FnMut(u64, u64)) -> Result<Migrated, Error> {
    let source = from.reader()?;
    let head = source.head()?;
    let already = to.reader()?.head()?;
    check_beginning(&*source, &*to.reader()?, already, head)?;
    let mut at = already;
    while at < head {
        progress(at.0, head.0);
        let ids: Vec<TxId> = (at.0 + 1..=head.0).take(TRANSACTIONS).map(TxId).collect();
        let rows = source.log_rows(&ids, usize::MAX)?;
        let transactions = source.transactions(&ids, head, View::WHOLE)?;
        let mut pending = to.backend().begin()?;
        // Another process may have written to the target in the meantime; the two logs must not be mixed.
        if pending.reader().head()? != at {
            return Err(Error::Invalid {
                what: "another process writes to the target; nothing of it was changed since".into(),
            });
        }
        for ((id, rows), transaction) in ids.iter().zip(rows).zip(transactions) {
            let missing = || Error::damaged(format!("transaction {id} is missing"));
            let transaction = Transaction { undone_by: None, ..transaction.ok_or_else(missing)? };
            pending.append_rows(&rows, &transaction)?;
        }
        pending.commit()?;
        at = ids.last().copied().unwrap_or(head);
    }
    progress(head.0, head.0);
    let keys = copy_keys(&*source, to)?;
    compare(&*source, &*to.reader()?, head)?;
    let mut first: Option<Damage> = None;
    let verified = to.backend().verify(&mut |damage| {
        first.get_or_insert(damage);
    })?;
    match first {
        Some(Damage { place, what }) => Err(Error::damaged(format!("{place}: {what}"))),
        None => Ok(Migrated { already: already.0, transactions: head.0 - already.0, keys, verified }),
    }
}

/// The target's transactions must be the beginning of the source's log.
fn check_beginning(source: &dyn Reader, target: &dyn Reader, already: TxId, head: TxId) -> Result<(), Error> {
    let is_same = already == TxId::EMPTY
        || (already <= head && source.log_checksum(already)? == target.log_checksum(already)?);
    match is_same {
        true => Ok(()),
        false => Err(Error::Invalid {
            what: format!(
                "the target has {already} transactions that are not the beginning of the source's log; name an empty store"
            ),
        }),
    }
}

fn copy_keys(source: &dyn Reader, to: &Storage) -> Result<u64, Error> {
    let (mut after, mut copied): (Option<(String, String)>, u64) = (None, 0);
    loop {
        let page = source.kept_keys(after.as_ref().map(|(owner, key)| (&**owner, &**key)), KEYS)?;
        let Some(last) = page.last() else { return Ok(copied) };
        after = Some((last.owner.clone(), last.key.clone()));
        copied += page.len() as u64;
        let mut pending = to.backend().begin()?;
        for kept in &page {
            pending.remember(&kept.owner, &kept.key, &kept.value)?;
        }
        pending.commit()?;
    }
}

/// Compares the rows of both logs by their checksums, which are checked against the rows.
fn compare(source: &dyn Reader, target: &dyn Reader, head: TxId) -> Result<(), Error> {
    let mut at = TxId::EMPTY;
    while at < head {
        let ids: Vec<TxId> = (at.0 + 1..=head.0).take(TRANSACTIONS).map(TxId).collect();
        let (one, other) = (source.log_rows(&ids, usize::MAX)?, target.log_rows(&ids, usize::MAX)?);
        for ((id, one), other) in ids.iter().zip(&one).zip(&other) {
            let sums = |rows: &[crate::LogRow]| rows.iter().map(|row| row.crc).collect::<Vec<_>>();
            if sums(one) != sums(other) || !other.iter().all(crate::LogRow::is_sound) {
                return Err(Error::damaged(format!("transaction {id} differs between source and target")));
            }
        }
        at = ids.last().copied().unwrap_or(head);
    }
    Ok(())
}
