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
}

impl NewEntry {
    /// An entry with nothing but what it must have.
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
}

impl Plan<'_> {
    pub(super) fn store(&self, new: &[NewEntry]) -> Result<Draft, Error> {
        let mut drawn = HashSet::new();
        let mut changes = Vec::with_capacity(new.len());
        let mut checked = None;
        for new in new {
            if checked != Some(new.scope) {
                self.check_scope(new.scope)?;
                checked = Some(new.scope);
            }
            let entry = self.new_entry(new.clone());
            check_validity(&entry)?;
            changes.push(self.create(Record::Entry(entry), &mut drawn)?);
        }
        Ok(Draft { changes, ..Draft::default() })
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
            version: 1,
            recorded_at: self.now,
            updated_at: None,
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

/// Checked here and not at the edge, because an update may bring only one of the two.
fn check_validity(entry: &Entry) -> Result<(), Error> {
    match (entry.valid_from, entry.valid_to) {
        (Some(from), Some(to)) if from >= to => {
            Err(Error::Invalid { what: format!("`valid_from` ({from}) must be before `valid_to` ({to})") })
        }
        _ => Ok(()),
    }
}
