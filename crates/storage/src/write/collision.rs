//! Decides which of several contradicting entries is active; the others are suppressed.

use kenning_model::{Change, EntityType, Id, Record, Scope, Status, TxId};

use super::{Draft, Plan};
use crate::Error;
use crate::backend::Stored;

impl Plan<'_> {
    pub(super) fn resolve(&self, active: Id, suppressed: &[Id]) -> Result<Draft, Error> {
        let mut changes = Vec::new();
        let mut newest = None;
        let holder = self.live(EntityType::Entry, active)?;
        changes.extend(self.with_status(active, Status::Active)?);
        for (at, id) in suppressed.iter().enumerate() {
            if *id == active || suppressed[..at].contains(id) {
                let what = format!("`{id}` is named twice; an entry is either active or suppressed");
                return Err(Error::Invalid { what });
            }
            self.check_collides(&holder, *id)?;
            changes.extend(self.with_status(*id, Status::Suppressed)?);
            let hidden = self.hidden_in(*id)?;
            newest = newest.filter(|newest: &Stored| newest.tx_id > hidden.tx_id).or(Some(hidden));
        }
        // If everything is settled already, the answer is the transaction that settled it, which is the one
        // to undo.
        Ok(Draft { changes, existing: newest.or(Some(holder)), ..Draft::default() })
    }

    /// Refuses two entries that no scope sees together, because they can't contradict each other.
    fn check_collides(&self, active: &Stored, id: Id) -> Result<(), Error> {
        let other = self.live(EntityType::Entry, id)?;
        let (Some(one), Some(two)) = (active.record.scope(), other.record.scope()) else { return Ok(()) };
        if one == two {
            return Ok(());
        }
        let tree = self.tree()?;
        let sees_both = |scope: &Scope| {
            let closure = tree.closure(scope);
            closure.contains(&one) && closure.contains(&two)
        };
        let is_seen =
            tree.namespaces().any(|(namespace, _)| tree.scopes(namespace).any(|(_, scope)| sees_both(scope)));
        match is_seen {
            true => Ok(()),
            false => Err(Error::NeverTogether { one: active.id, other: id }),
        }
    }

    /// For a suppressed entry, the version with which it became suppressed; for any other entry, its live
    /// version.
    fn hidden_in(&self, id: Id) -> Result<Stored, Error> {
        let is_hidden = |stored: &Stored| {
            stored.record.as_entry().is_some_and(|entry| entry.status == Status::Suppressed)
        };
        let mut found = self.live(EntityType::Entry, id)?;
        while is_hidden(&found) {
            match self.reader.record(EntityType::Entry, id, TxId(found.tx_id.0 - 1))? {
                Some(before) if is_hidden(&before) => found = before,
                _ => break,
            }
        }
        Ok(found)
    }

    /// The change that gives an entry this status; none if the entry has it already. The author stays the
    /// same, because the content is still theirs.
    pub(super) fn with_status(&self, id: Id, status: Status) -> Result<Option<Change>, Error> {
        let before = self.live(EntityType::Entry, id)?;
        let Record::Entry(current) = &before.record else {
            return Err(Error::damaged(format!("`{id}` is not an entry")));
        };
        if current.status == status {
            return Ok(None);
        }
        let mut entry = current.clone();
        entry.status = status;
        entry.version += 1;
        entry.updated_at = Some(self.now);
        let after = Some(Record::Entry(entry));
        Ok(Some(Change { entity_type: EntityType::Entry, id, before: Some(before.into()), after }))
    }
}
