//! Many changes of entries and triples in one transaction: all of them or none.

use std::collections::HashSet;

use kenning_model::{Change, EntityType, Id, Record, ScopeId, fold};

use super::{Draft, EntryPatch, NewEntry, NewTriple, Plan};
use crate::Error;
use crate::backend::TripleFilter;

#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// New entries. One of them may follow an earlier one of this list.
    pub entries: Vec<NewEntry>,
    pub updates: Vec<EntryUpdate>,
    /// The entries to delete.
    pub deletions: Vec<EntryDeletion>,
    /// Facts. A fact that exists in its scope already is not written again.
    pub triples: Vec<NewTriple>,
}

/// A change of an entry, only if it is at this version.
#[derive(Clone, Debug)]
pub struct EntryUpdate {
    pub id: Id,
    pub expected_version: u32,
    pub patch: EntryPatch,
}

/// A deletion of an entry, only if it is at this version.
#[derive(Clone, Copy, Debug)]
pub struct EntryDeletion {
    pub id: Id,
    pub expected_version: u32,
}

impl Plan<'_> {
    pub(super) fn batch(&self, batch: &Batch) -> Result<Draft, Error> {
        let mut draft = self.store(&batch.entries)?;
        let mut drawn: HashSet<Id> = draft.changes.iter().map(|change| change.id).collect();
        for EntryUpdate { id, expected_version, patch } in &batch.updates {
            draft.changes.extend(self.update(*id, patch, Some(*expected_version))?.changes);
        }
        for EntryDeletion { id, expected_version } in &batch.deletions {
            draft.changes.push(self.deleted_at(*id, *expected_version)?);
        }
        let mut changed = HashSet::new();
        if let Some(twice) = draft.changes.iter().find(|change| !changed.insert(change.id)) {
            return Err(Error::Invalid { what: format!("`{}` is named twice", twice.id) });
        }
        let mut known: HashSet<(ScopeId, [String; 3])> = HashSet::new();
        let mut checked = None;
        for new in &batch.triples {
            if checked != Some(new.scope) {
                self.check_scope(new.scope)?;
                checked = Some(new.scope);
            }
            let names @ [subject, predicate, object] =
                &[fold(&new.subject), fold(&new.predicate), fold(&new.object)];
            if !known.insert((new.scope, names.clone())) {
                continue;
            }
            let same = TripleFilter {
                scopes: &[new.scope],
                at: self.head,
                subject: Some(subject),
                predicate: Some(predicate),
                object: Some(object),
            };
            match self.reader.triples(&same, 0..1)?.pop() {
                Some(existing) => drop(draft.existing.get_or_insert(existing)),
                None => draft.changes.push(self.create(Record::Triple(self.triple(new)), &mut drawn)?),
            }
        }
        match draft.changes.is_empty() && draft.existing.is_none() {
            true => Err(Error::Invalid { what: "there is nothing to write".to_owned() }),
            false => Ok(draft),
        }
    }

    fn deleted_at(&self, id: Id, expected: u32) -> Result<Change, Error> {
        let current = self.live(EntityType::Entry, id)?.record.version();
        match current == expected {
            true => self.closed(EntityType::Entry, id),
            false => Err(Error::StaleVersion { id, expected, current }),
        }
    }
}
