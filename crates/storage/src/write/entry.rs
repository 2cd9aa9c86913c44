//! Storing and updating entries.

use std::collections::HashSet;

use kenning_model::{Change, EntityType, Entry, Id, Record, ScopeId, Status, TaskSize, Timestamp};

use super::{Draft, Plan};
use crate::Error;

#[derive(Clone, Debug)]
pub struct NewEntry {
    pub scope: ScopeId,
    pub topic: String,
    pub content: String,
    pub context: Option<String>,
    pub tags: Vec<String>,
    pub task_sizes: Vec<TaskSize>,
    pub source: Option<String>,
    pub confidence: Option<f64>,
    pub valid_from: Option<Timestamp>,
    pub valid_to: Option<Timestamp>,
    pub pinned: bool,
    pub follows: Option<Follows>,
}

/// The entry that a new entry follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    Entry(Id),
    /// The entry at this place of the same list of new entries, which has no id yet.
    Earlier(usize),
}

impl NewEntry {
    /// An entry with only the required fields.
    pub fn new(scope: ScopeId, topic: impl Into<String>, content: impl Into<String>) -> NewEntry {
        NewEntry {
            scope,
            topic: topic.into(),
            content: content.into(),
            context: None,
            tags: Vec::new(),
            task_sizes: Vec::new(),
            source: None,
            confidence: None,
            valid_from: None,
            valid_to: None,
            pinned: false,
            follows: None,
        }
    }
}

/// What an update changes. For a field that can be unset, `Some(None)` unsets it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryPatch {
    pub scope: Option<ScopeId>,
    pub topic: Option<String>,
    pub content: Option<String>,
    pub context: Option<Option<String>>,
    pub tags: Option<Vec<String>>,
    pub task_sizes: Option<Vec<TaskSize>>,
    pub source: Option<Option<String>>,
    pub confidence: Option<Option<f64>>,
    pub valid_from: Option<Option<Timestamp>>,
    pub valid_to: Option<Option<Timestamp>>,
    pub pinned: Option<bool>,
    pub follows: Option<Option<Id>>,
}

impl Plan<'_> {
    pub(super) fn store(&self, new: &[NewEntry]) -> Result<Draft, Error> {
        let mut drawn = HashSet::new();
        let mut changes: Vec<Change> = Vec::with_capacity(new.len());
        let mut checked = None;
        let is_list = new.len() > 1;
        for (index, new) in new.iter().enumerate() {
            if checked != Some(new.scope) {
                self.check_scope(new.scope)?;
                checked = Some(new.scope);
            }
            let mut entry = self.new_entry(new.clone());
            let checked = check_validity(&entry).and_then(|()| self.followed(new, &changes));
            entry.follows = checked.map_err(|error| match error {
                Error::Invalid { what } if is_list => {
                    Error::Invalid { what: format!("`entries[{index}]`: {what}") }
                }
                other => other,
            })?;
            changes.push(self.create(Record::Entry(entry), &mut drawn)?);
        }
        Ok(Draft { changes, ..Draft::default() })
    }

    /// The id of the entry that a new one follows; `before` are the changes of the list so far, one for each
    /// entry.
    fn followed(&self, new: &NewEntry, before: &[Change]) -> Result<Option<Id>, Error> {
        match new.follows {
            None => Ok(None),
            Some(Follows::Entry(id)) => {
                self.check_follows(id, new.scope)?;
                Ok(Some(id))
            }
            Some(Follows::Earlier(index)) => {
                let earlier = before.get(index).ok_or_else(|| Error::Invalid {
                    what: format!("`follows`: {index} is not the index of an earlier entry of the list"),
                })?;
                match earlier.after.as_ref().and_then(Record::scope) == Some(new.scope) {
                    true => Ok(Some(earlier.id)),
                    false => Err(self.follows_elsewhere(&format!("entry {index} of the list"), new.scope)?),
                }
            }
        }
    }

    /// Checks that the entry to follow is live and in this scope.
    fn check_follows(&self, id: Id, scope: ScopeId) -> Result<Entry, Error> {
        match self.live(EntityType::Entry, id)?.record {
            Record::Entry(entry) if entry.scope == scope => Ok(entry),
            _ => Err(self.follows_elsewhere(&format!("`{id}`"), scope)?),
        }
    }

    fn follows_elsewhere(&self, named: &str, scope: ScopeId) -> Result<Error, Error> {
        let scope = self.reader.scope_names(&[scope], self.head)?.of(scope);
        Ok(Error::Invalid {
            what: format!(
                "`follows`: {named} is not in scope `{scope}`, and an entry follows one of its own scope; \
                 leave `follows` out, or `update` with `clear: [\"follows\"]` when moving an entry"
            ),
        })
    }

    /// Checks the entry that `id` is to follow, and that the chain of predecessors does not return to `id`.
    fn check_chain(&self, id: Id, follows: Id, scope: ScopeId) -> Result<(), Error> {
        let mut seen = HashSet::from([follows]);
        let mut next = match follows == id {
            true => Some(id),
            false => self.check_follows(follows, scope)?.follows,
        };
        while let Some(at) = next {
            if at == id {
                let what = format!("`follows`: `{id}` would come before itself");
                return Err(Error::Invalid { what });
            }
            // An undo may have left a circle elsewhere, and a predecessor may be deleted, so the chain may
            // also end here.
            next = match self.reader.record(EntityType::Entry, at, self.head)? {
                Some(stored) if seen.insert(at) => stored.record.as_entry().and_then(|entry| entry.follows),
                _ => None,
            };
        }
        Ok(())
    }

    fn new_entry(&self, new: NewEntry) -> Entry {
        Entry {
            scope: new.scope,
            topic: new.topic,
            content: new.content,
            context: new.context,
            tags: new.tags,
            task_sizes: new.task_sizes,
            source: new.source,
            actor: self.actor.to_owned(),
            confidence: new.confidence,
            valid_from: new.valid_from,
            valid_to: new.valid_to,
            status: Status::Active,
            pinned: new.pinned,
            follows: None,
            version: 1,
            recorded_at: self.now,
            updated_at: None,
            purged: None,
        }
    }

    pub(super) fn update(
        &self,
        id: Id,
        patch: &EntryPatch,
        expected_version: Option<u32>,
    ) -> Result<Draft, Error> {
        let before = self.live(EntityType::Entry, id)?;
        let Record::Entry(current) = &before.record else {
            return Err(Error::damaged(format!("`{id}` is not an entry")));
        };
        if let Some(expected) = expected_version
            && expected != current.version
        {
            return Err(Error::StaleVersion { id, expected, current: current.version });
        }
        let mut entry = current.clone();
        let patch = patch.clone();
        if let Some(scope) = patch.scope {
            self.check_scope(scope)?;
        }
        set(&mut entry.scope, patch.scope);
        set(&mut entry.topic, patch.topic);
        set(&mut entry.content, patch.content);
        set(&mut entry.context, patch.context);
        set(&mut entry.tags, patch.tags);
        set(&mut entry.task_sizes, patch.task_sizes);
        set(&mut entry.source, patch.source);
        set(&mut entry.confidence, patch.confidence);
        set(&mut entry.valid_from, patch.valid_from);
        set(&mut entry.valid_to, patch.valid_to);
        set(&mut entry.pinned, patch.pinned);
        set(&mut entry.follows, patch.follows);
        if let Some(follows) = entry.follows
            && (entry.follows != current.follows || entry.scope != current.scope)
        {
            self.check_chain(id, follows, entry.scope)?;
        }
        entry.actor = self.actor.to_owned();
        entry.version += 1;
        entry.updated_at = Some(self.now);
        check_validity(&entry)?;
        let change = Change {
            entity_type: EntityType::Entry,
            id,
            before: Some(before.into()),
            after: Some(Record::Entry(entry)),
        };
        Ok(Draft { changes: vec![change], ..Draft::default() })
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// This is checked here and not at the edge, because an update may set only one of the two.
fn check_validity(entry: &Entry) -> Result<(), Error> {
    match (entry.valid_from, entry.valid_to) {
        (Some(from), Some(to)) if from >= to => {
            Err(Error::Invalid { what: format!("`valid_from` ({from}) must be before `valid_to` ({to})") })
        }
        _ => Ok(()),
    }
}
