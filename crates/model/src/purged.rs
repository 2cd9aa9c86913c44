//! The tombstone: the part of a version that stays after its text was purged.

use serde::{Deserialize, Serialize};

use crate::{Document, Entry, Record, Section, Triple, TxId};

/// Stands where a version that was purged needs a text.
pub const PURGED_TEXT: &str = "[purged]";

/// Says of a version that its text was removed for good. Scope, author, times and number of the version stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The transaction that removed it.
    pub by: TxId,
    /// A hash of what was there, under a secret that the store gave up with the text: a short text can't be guessed from it.
    pub hash: String,
}

impl Record {
    /// Whether the text of this version was removed for good, and by which transaction.
    pub fn tombstone(&self) -> Option<&Tombstone> {
        match self {
            Record::Entry(entry) => entry.purged.as_ref(),
            Record::Triple(triple) => triple.purged.as_ref(),
            Record::Document(document) => document.purged.as_ref(),
            Record::Section(section) => section.purged.as_ref(),
            Record::Namespace(_) | Record::Scope(_) => None,
        }
    }

    /// The same version without anything that somebody wrote. None for namespaces and scopes, which can't be purged.
    pub fn purged(self, tombstone: Tombstone) -> Option<Record> {
        let (text, purged) = (PURGED_TEXT.to_owned(), Some(tombstone));
        Some(match self {
            Record::Entry(entry) => Record::Entry(Entry {
                topic: String::new(),
                content: text,
                context: None,
                tags: Vec::new(),
                task_sizes: Vec::new(),
                source: None,
                confidence: None,
                purged,
                ..entry
            }),
            Record::Triple(triple) => Record::Triple(Triple {
                subject: text.clone(),
                predicate: text.clone(),
                object: text,
                source: None,
                confidence: None,
                purged,
                ..triple
            }),
            Record::Document(document) => Record::Document(Document {
                source: text.clone(),
                path: text.clone(),
                title: text,
                doc_tag: String::new(),
                tags: Vec::new(),
                repository: None,
                environment: None,
                updated: None,
                root: String::new(),
                default_tag: String::new(),
                pattern: None,
                hash: String::new(),
                purged,
                ..document
            }),
            Record::Section(section) => Record::Section(Section {
                heading_path: vec![text],
                anchor: String::new(),
                text: String::new(),
                doc_tag: String::new(),
                tags: Vec::new(),
                repository: None,
                environment: None,
                links: Vec::new(),
                mentions: Vec::new(),
                purged,
                ..section
            }),
            Record::Namespace(_) | Record::Scope(_) => return None,
        })
    }
}
