//! Takes documents in: one transaction for each document, with changes only where the file has changed.

use std::collections::{HashMap, HashSet};

use kenning_model::{
    Change, Document, EntityType, Id, Link, Mention, Namespace, Pattern, Record, ScopeId, Section, Timestamp,
    Version,
};
use sha2::{Digest, Sha256};

use super::{Draft, Plan};
use crate::Error;

#[derive(Clone, Debug)]
pub struct NewDocument {
    pub scope: ScopeId,
    pub source: String,
    pub path: String,
    pub title: String,
    pub doc_tag: String,
    pub tags: Vec<String>,
    pub repository: Option<String>,
    pub environment: Option<String>,
    pub updated: Option<Timestamp>,
    pub root: String,
    pub default_tag: String,
    pub catalogue: bool,
    pub pattern: Option<Box<Pattern>>,
    pub hash: String,
    pub sections: Vec<NewSection>,
}

#[derive(Clone, Debug)]
pub struct NewSection {
    pub level: u8,
    pub heading_path: Vec<String>,
    pub anchor: String,
    pub text: String,
    /// The place of the parent section in this list.
    pub parent: Option<usize>,
    pub links: Vec<Link>,
    pub mentions: Vec<Mention>,
}

impl Plan<'_> {
    /// The changes that make the stored document equal to the new one. An unchanged document is not written
    /// again.
    pub(super) fn put_document(&self, new: &NewDocument) -> Result<Draft, Error> {
        self.check_scope(new.scope)?;
        let existing = self.reader.document_at(new.scope, &new.source, &new.path, self.head)?;
        if let Some(stored) = &existing
            && stored
                .record
                .as_document()
                .is_some_and(|document| document.hash == new.hash && document.root == new.root)
        {
            return Ok(Draft { existing, ..Draft::default() });
        }
        let scope = new.scope.0.to_string();
        let id = match &existing {
            Some(stored) => stored.id,
            None => {
                self.stable_id(EntityType::Document, &[&scope, &new.source, &new.path], 0, &HashSet::new())?
            }
        };
        let mut changes = vec![self.set(EntityType::Document, id, |version, recorded_at| {
            Record::Document(Document {
                scope: new.scope,
                source: new.source.clone(),
                path: new.path.clone(),
                title: new.title.clone(),
                doc_tag: new.doc_tag.clone(),
                tags: new.tags.clone(),
                repository: new.repository.clone(),
                environment: new.environment.clone(),
                updated: new.updated,
                root: new.root.clone(),
                default_tag: new.default_tag.clone(),
                catalogue: new.catalogue,
                pattern: new.pattern.clone(),
                hash: new.hash.clone(),
                actor: self.actor.to_owned(),
                version,
                recorded_at,
                updated_at: (version > 1).then_some(self.now),
                purged: None,
            })
        })?];
        changes.extend(self.put_sections(new, id)?);
        Ok(Draft { changes, ..Draft::default() })
    }

    /// The changes of a document's sections. Unchanged sections are not written again.
    fn put_sections(&self, new: &NewDocument, document: Id) -> Result<Vec<Change>, Error> {
        let mut before: HashMap<Id, Section> = HashMap::new();
        for stored in self.reader.sections_of(document, self.head)? {
            if let Record::Section(section) = stored.record {
                before.insert(stored.id, section);
            }
        }
        let scope = new.scope.0.to_string();
        let mut drawn = HashSet::new();
        // How often each heading has occurred so far. A changelog may repeat a heading hundreds of times.
        let mut repeated: HashMap<&str, u32> = HashMap::new();
        let headings: Vec<String> =
            new.sections.iter().map(|section| section.heading_path.join("\n")).collect();
        let mut ids: Vec<Id> = Vec::with_capacity(new.sections.len());
        let mut changes = Vec::new();
        for (position, (section, headings)) in (0..).zip(new.sections.iter().zip(&headings)) {
            let of = [scope.as_str(), &new.source, &new.path, "#", headings];
            let before_it = repeated.entry(headings).or_default();
            let id = self.stable_id(EntityType::Section, &of, *before_it, &drawn)?;
            *before_it += 1;
            drawn.insert(id);
            let parent = section.parent.and_then(|at| ids.get(at).copied());
            ids.push(id);
            let record = |version: u32, recorded_at: Timestamp| Section {
                scope: new.scope,
                document,
                position,
                level: section.level,
                heading_path: section.heading_path.clone(),
                anchor: section.anchor.clone(),
                text: section.text.clone(),
                parent,
                doc_tag: new.doc_tag.clone(),
                tags: new.tags.clone(),
                repository: new.repository.clone(),
                environment: new.environment.clone(),
                links: section.links.clone(),
                mentions: section.mentions.clone(),
                actor: self.actor.to_owned(),
                version,
                recorded_at,
                updated_at: (version > 1).then_some(self.now),
                purged: None,
            };
            let is_same = before.remove(&id).is_some_and(|old| {
                let same = Section {
                    updated_at: old.updated_at,
                    actor: old.actor.clone(),
                    ..record(old.version, old.recorded_at)
                };
                same == old
            });
            if !is_same {
                changes.push(self.set(EntityType::Section, id, |version, recorded_at| {
                    Record::Section(record(version, recorded_at))
                })?);
            }
        }
        let mut gone: Vec<Id> = before.into_keys().collect();
        gone.sort_unstable();
        for id in gone {
            changes.push(self.closed(EntityType::Section, id)?);
        }
        Ok(changes)
    }

    /// Deletes documents together with their sections.
    pub(super) fn delete_documents(&self, ids: &[Id]) -> Result<Draft, Error> {
        let mut changes = Vec::new();
        for id in ids {
            changes.push(self.closed(EntityType::Document, *id)?);
            for stored in self.reader.sections_of(*id, self.head)? {
                changes.push(self.closed(EntityType::Section, stored.id)?);
            }
        }
        Ok(Draft { changes, ..Draft::default() })
    }

    /// The change that gives an id this record, whether the id is live, was deleted, or is new.
    fn set(
        &self,
        entity_type: EntityType,
        id: Id,
        record: impl FnOnce(u32, Timestamp) -> Record,
    ) -> Result<Change, Error> {
        let latest = self.reader.latest(entity_type, id)?;
        let recorded_at = latest.as_ref().map_or(self.now, |latest| match &latest.record {
            Record::Document(document) => document.recorded_at,
            Record::Section(section) => section.recorded_at,
            _ => self.now,
        });
        let version = latest.map_or(0, |latest| latest.record.version()) + 1;
        let before = self.reader.record(entity_type, id, self.head)?.map(Version::from);
        Ok(Change { entity_type, id, before, after: Some(record(version, recorded_at)) })
    }

    /// An id that is the same for the same path and headings in every store, so that an id that an agent has
    /// noted stays valid. `number` distinguishes sections with the same path and headings.
    fn stable_id(
        &self,
        entity_type: EntityType,
        of: &[&str],
        number: u32,
        drawn: &HashSet<Id>,
    ) -> Result<Id, Error> {
        const ATTEMPTS: u32 = 64;
        for attempt in number..number.saturating_add(ATTEMPTS) {
            let mut hash = Sha256::new();
            for part in of {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
            // Only as many bytes as the number needs are hashed.
            let used = (4 - attempt.leading_zeros() as usize / 8).max(1);
            hash.update(&attempt.to_le_bytes()[..used]);
            let digest = hash.finalize();
            let bits = digest.iter().take(8).fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
            let id = Id::from_bits(bits);
            // About once in a million stores, the id belongs to something else.
            let is_free = self.reader.latest(entity_type, id)?.is_some() || !self.reader.is_taken(id)?;
            if is_free && id != Namespace::GLOBAL_ID && !drawn.contains(&id) {
                return Ok(id);
            }
        }
        Err(Error::Bug { what: format!("{ATTEMPTS} ids in a row are taken") })
    }
}
