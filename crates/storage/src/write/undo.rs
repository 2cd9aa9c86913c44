//! Taking transactions back by committing what reverses them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kenning_model::{Change, EntityType, Id, Transaction, TxId, Version};

use super::{Draft, Plan};
use crate::Error;

#[derive(Clone, Debug)]
pub enum UndoTarget {
    Tx(TxId),
    /// The newest transactions of this origin (of anyone, with `any_actor`) that are neither an undo nor undone.
    Newest(u32),
}

/// The question `what would this undo do?`.
pub struct UndoPlan<'a> {
    pub target: UndoTarget,
    pub any_actor: bool,
    pub actor: &'a str,
    pub origin: &'a str,
}

impl Plan<'_> {
    pub(super) fn undo(&self, target: &UndoTarget, any_actor: bool) -> Result<Draft, Error> {
        let targets = match target {
            UndoTarget::Tx(tx) => vec![self.undoable(*tx, any_actor)?],
            UndoTarget::Newest(count) => self.newest(*count, any_actor)?,
        };
        let undoes: Vec<TxId> = targets.iter().map(|tx| tx.id).collect();
        // Newest first: the last one to touch an id has the state that the oldest of them found.
        let mut touched: Vec<(TxId, Change)> = Vec::new();
        let mut places: HashMap<(EntityType, Id), usize> = HashMap::new();
        for tx in targets {
            for change in tx.changes {
                match places.entry((change.entity_type, change.id)) {
                    Entry::Occupied(place) => touched[*place.get()] = (tx.id, change),
                    Entry::Vacant(place) => {
                        place.insert(touched.len());
                        touched.push((tx.id, change));
                    }
                }
            }
        }
        let mut later = Vec::new();
        let mut changes = Vec::new();
        for (oldest, change) in touched {
            let touches = self.reader.touches(change.entity_type, change.id)?;
            for tx in touches.iter().copied().filter(|tx| *tx > oldest && !undoes.contains(tx)) {
                if !self.is_cancelled(tx, oldest, &touches)? {
                    later.push(tx);
                }
            }
            changes.extend(self.restored(change)?);
        }
        if !later.is_empty() {
            later.sort_unstable();
            later.dedup();
            return Err(Error::ChangedSince { targets: undoes, later });
        }
        Ok(Draft { changes, undoes, ..Draft::default() })
    }

    /// The change that gives an id the state it had before `change`; none when it has that state already.
    fn restored(&self, change: Change) -> Result<Option<Change>, Error> {
        let Change { entity_type, id, before: wanted, .. } = change;
        let latest = self.reader.latest(entity_type, id)?;
        let version = latest.map_or(0, |stored| stored.record.version()) + 1;
        let before = self.reader.record(entity_type, id, self.head)?.map(Version::from);
        if wanted.is_none() && before.is_none() {
            return Ok(None);
        }
        let after = wanted.map(|wanted| wanted.record.again(version, self.now));
        Ok(Some(Change { entity_type, id, before, after }))
    }

    fn undoable(&self, id: TxId, any_actor: bool) -> Result<Transaction, Error> {
        let unknown = Error::UnknownTx { tx: id, head: self.head };
        let tx = self.reader.transaction(id, self.head)?.ok_or(unknown)?;
        if !any_actor && tx.origin != self.origin && tx.actor != self.actor {
            return Err(Error::NotYours { tx: id, actor: tx.actor });
        }
        match tx.undone_by {
            Some(by) => Err(Error::AlreadyUndone { tx: id, by }),
            None => Ok(tx),
        }
    }

    fn newest(&self, count: u32, any_actor: bool) -> Result<Vec<Transaction>, Error> {
        let mut found = Vec::new();
        let mut before = self.head.next();
        while found.len() < count as usize {
            let next = match any_actor {
                true => (before > TxId(1)).then(|| TxId(before.0 - 1)),
                false => self.reader.newest_of(self.origin, before)?,
            };
            let Some(id) = next else {
                return Err(Error::TooFewToUndo { asked: count, found: found.len() as u32, any_actor });
            };
            before = id;
            let tx = self.reader.transaction(id, self.head)?;
            let tx = tx.ok_or_else(|| Error::damaged(format!("transaction {id} is missing")))?;
            if tx.undoes.is_empty() && tx.undone_by.is_none() {
                found.push(tx);
            }
        }
        Ok(found)
    }

    /// A transaction and the standing undo of it leave an id as they found it, so neither is in the way of undoing
    /// `oldest`, provided that both came after it. `touches` are the transactions that touched the id.
    fn is_cancelled(&self, id: TxId, oldest: TxId, touches: &[TxId]) -> Result<bool, Error> {
        if self.reader.undone_by(id, self.head)?.is_some() {
            return Ok(true);
        }
        let tx = self.reader.transaction(id, self.head)?;
        let undoes = tx.map(|tx| tx.undoes).unwrap_or_default();
        let here = |target: &&TxId| touches.contains(target);
        Ok(undoes.iter().any(|target| here(&target))
            && undoes.iter().filter(here).all(|target| *target > oldest))
    }
}
