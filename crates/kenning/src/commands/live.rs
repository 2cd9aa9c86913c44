//! Reads the records that are live in a store as of a transaction, in the order of the log and one page at a
//! time.

use kenning_model::{EntityType, Record, ScopeId, TxId};
use kenning_storage::{At, Position, Reader, RecordKey, Stored};

/// How many changes are read at a time.
const PAGE: usize = 500;

/// Passes every live record of these types to `take`, in the order in which their current versions were
/// written.
pub fn live_records(
    reader: &dyn Reader,
    entity_types: &[EntityType],
    scope: Option<ScopeId>,
    at: TxId,
    mut take: impl FnMut(Stored) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut from = Position::before(TxId(1));
    loop {
        let page = reader.changes(entity_types, from, at.next(), PAGE)?;
        let is_in = |record: &Record| scope.is_none_or(|scope| record.scope() == Some(scope));
        let written: Vec<_> =
            page.changes.into_iter().filter(|change| change.after.as_ref().is_some_and(is_in)).collect();
        let key = |entity_type, id| RecordKey { entity_type, id, at: At::Live(at) };
        let keys: Vec<RecordKey> = written.iter().map(|change| key(change.entity_type, change.id)).collect();
        for (change, stored) in written.into_iter().zip(reader.records(&keys)?) {
            // If the record was changed again later, it is passed on at that later change.
            if let Some(stored) = stored.filter(|stored| stored.tx_id == change.tx) {
                take(stored)?;
            }
        }
        match page.next {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}
