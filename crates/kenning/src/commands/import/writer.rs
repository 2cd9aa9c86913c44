//! The path that every imported entry and fact takes into the store: it is checked against the size limits,
//! compared with what is stored already, and written in batches.

use std::collections::HashSet;
use std::sync::Arc;

use kenning_engine::Engine;
use kenning_model::{EntityType, Principal, Record, ScopeId, Timestamp, clean, fold};
use kenning_storage::{Batch, Follows, NewEntry, NewTriple, Request, Write};
use sha2::{Digest, Sha256};

use super::Target;
use crate::commands::entry_file::{CONTEXT_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX, TOPIC_BYTES_MAX};
use crate::commands::live::live_records;
use crate::commands::split::{CONTENT_BYTES_MAX, parts};

/// The size limit of each name in a fact.
const NAME_BYTES_MAX: usize = 1024;

/// At most this many entries and facts go into one transaction, so that other processes can write in between.
const BATCH_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// At most this many refusals are kept for the report; further ones are only counted.
const REFUSALS_MAX: usize = 10_000;

/// An entry as a file has it, before it is checked.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundEntry {
    pub topic: String,
    pub content: String,
    pub context: Option<String>,
    pub tags: Vec<String>,
    pub task_sizes: Vec<kenning_model::TaskSize>,
    pub source: Option<String>,
    pub confidence: Option<f64>,
    pub pinned: bool,
    pub valid_from: Option<Timestamp>,
    pub valid_to: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FoundTriple {
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub source: Option<String>,
    pub confidence: Option<f64>,
}

/// The place in a file that an entry or fact comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePosition<'a> {
    pub file: &'a str,
    pub line: Option<u64>,
}

pub(super) struct Refusal {
    pub place: String,
    pub line: Option<u64>,
    pub why: String,
}

#[derive(Default)]
pub(super) struct Report {
    pub dry_run: bool,
    pub entries: u64,
    pub triples: u64,
    pub unchanged: u64,
    pub transactions: u64,
    pub refused: Vec<Refusal>,
    pub refused_count: u64,
    pub notes: Vec<String>,
}

/// The first half of a SHA-256, which is enough to tell any two texts apart.
type Hash = [u8; 16];

pub(super) struct Writer<'a> {
    engine: &'a Engine,
    principal: Arc<Principal>,
    scope: ScopeId,
    pin: bool,
    dry_run: bool,
    /// The hash of every live entry and fact of the scopes that are written to.
    known: HashSet<Hash>,
    read: HashSet<ScopeId>,
    batch: Batch,
    bytes: usize,
    report: Report,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        target: &Target,
        pin: bool,
        dry_run: bool,
    ) -> anyhow::Result<Writer<'a>> {
        let mut writer = Writer {
            engine,
            principal: target.principal.clone(),
            scope: target.scope.unwrap_or(ScopeId::GLOBAL_DEFAULT),
            pin,
            dry_run,
            known: HashSet::new(),
            read: HashSet::new(),
            batch: Batch::default(),
            bytes: 0,
            report: Report { dry_run, ..Report::default() },
        };
        if target.scope.is_some() {
            writer.go_to(writer.scope)?;
        }
        Ok(writer)
    }

    /// From here on, imported entries and facts are written to this scope.
    pub(super) fn go_to(&mut self, scope: ScopeId) -> anyhow::Result<()> {
        self.scope = scope;
        if !self.read.insert(scope) {
            return Ok(());
        }
        let reader = self.engine.storage()?.reader()?;
        let known = &mut self.known;
        live_records(
            &*reader,
            &[EntityType::Entry, EntityType::Triple],
            Some(scope),
            reader.head()?,
            |stored| {
                known.insert(match &stored.record {
                    Record::Triple(triple) => {
                        triple_hash(scope, &triple.subject, &triple.predicate, &triple.object)
                    }
                    Record::Entry(entry) => entry_hash(scope, &entry.topic, &entry.content),
                    _ => return Ok(()),
                });
                Ok(())
            },
        )
    }

    pub(super) fn entry(&mut self, place: SourcePosition<'_>, found: FoundEntry) -> anyhow::Result<()> {
        if clean(&found.content).trim().is_empty() {
            self.refuse(place, "it has no text");
            return Ok(());
        }
        if found.topic.len() > TOPIC_BYTES_MAX {
            self.refuse(place, too_long("the topic", &found.topic, TOPIC_BYTES_MAX));
            return Ok(());
        }
        let confidence = found.confidence.filter(|confidence| (0.0..=1.0).contains(confidence));
        if confidence != found.confidence {
            self.refuse(place, "the confidence is not between 0 and 1; the entry is taken without it");
        }
        let (mut valid_from, mut valid_to) = (found.valid_from, found.valid_to);
        if let (Some(from), Some(to)) = (valid_from, valid_to)
            && from >= to
        {
            self.refuse(place, "its validity ends before it begins; the entry is taken without it");
            (valid_from, valid_to) = (None, None);
        }
        let texts = parts(&found.content);
        if texts.iter().all(|text| self.known.contains(&entry_hash(self.scope, &found.topic, text))) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let entry = NewEntry {
            scope: self.scope,
            content: String::new(),
            context: self.bounded(place, "context", found.context, CONTEXT_BYTES_MAX),
            tags: self.tags(place, found.tags),
            task_sizes: found.task_sizes,
            source: self.bounded(place, "source", found.source, TOPIC_BYTES_MAX),
            confidence,
            valid_from,
            valid_to,
            pinned: found.pinned || self.pin,
            follows: None,
            topic: found.topic,
        };
        // The parts of one text stay in one transaction, because each part refers to the one before it.
        let bytes = found.content.len();
        if !self.batch.entries.is_empty() && self.bytes + bytes > BATCH_BYTES_MAX {
            self.flush()?;
        }
        if texts.len() > 1 {
            let note = format!(
                "{}: {} bytes are more than the cap of {CONTENT_BYTES_MAX}, so the text became {} entries that follow each other",
                place.file,
                found.content.len(),
                texts.len()
            );
            self.note(note);
        }
        for (number, text) in texts.iter().enumerate() {
            self.known.insert(entry_hash(self.scope, &entry.topic, text));
            let follows = (number > 0).then(|| Follows::Earlier(self.batch.entries.len() - 1));
            self.batch.entries.push(NewEntry { content: (*text).to_owned(), follows, ..entry.clone() });
        }
        self.bytes += bytes;
        self.flush_if_full()
    }

    pub(super) fn triple(&mut self, place: SourcePosition<'_>, found: FoundTriple) -> anyhow::Result<()> {
        for (name, text) in
            [("subject", &found.subject), ("predicate", &found.predicate), ("object", &found.object)]
        {
            if clean(text).trim().is_empty() {
                self.refuse(place, format!("the {name} of the fact is empty"));
                return Ok(());
            }
            if text.len() > NAME_BYTES_MAX {
                self.refuse(place, too_long(&format!("the {name} of the fact"), text, NAME_BYTES_MAX));
                return Ok(());
            }
        }
        if !self.known.insert(triple_hash(self.scope, &found.subject, &found.predicate, &found.object)) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let source = self.bounded(place, "source", found.source, TOPIC_BYTES_MAX);
        let FoundTriple { subject, predicate, object, confidence, .. } = found;
        self.batch.triples.push(NewTriple {
            scope: self.scope,
            subject,
            predicate,
            object,
            source,
            confidence,
        });
        self.flush_if_full()
    }

    pub(super) fn refuse(&mut self, place: SourcePosition<'_>, why: impl Into<String>) {
        self.report.refused_count += 1;
        if self.report.refused.len() < REFUSALS_MAX {
            self.report.refused.push(Refusal {
                place: place.file.to_owned(),
                line: place.line,
                why: why.into(),
            });
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.report.notes.len() < REFUSALS_MAX {
            self.report.notes.push(note);
        }
    }

    pub(super) fn finish(mut self) -> anyhow::Result<Report> {
        self.flush()?;
        Ok(self.report)
    }

    fn bounded(
        &mut self,
        place: SourcePosition<'_>,
        name: &str,
        text: Option<String>,
        bytes_max: usize,
    ) -> Option<String> {
        let text = text.filter(|text| !clean(text).trim().is_empty())?;
        if text.len() > bytes_max {
            self.refuse(
                place,
                format!(
                    "{}; the entry is taken without it",
                    too_long(&format!("the {name}"), &text, bytes_max)
                ),
            );
            return None;
        }
        Some(text)
    }

    fn tags(&mut self, place: SourcePosition<'_>, found: Vec<String>) -> Vec<String> {
        let mut tags: Vec<String> = Vec::new();
        for tag in found {
            if clean(&tag).trim().is_empty() || tags.contains(&tag) {
                continue;
            }
            if tag.len() > TAG_BYTES_MAX {
                self.refuse(
                    place,
                    format!("{}; the entry is taken without it", too_long("a tag", &tag, TAG_BYTES_MAX)),
                );
            } else if tags.len() >= TAGS_MAX {
                self.refuse(place, format!("the tag `{tag}` is one more than the cap of {TAGS_MAX}"));
            } else {
                tags.push(tag);
            }
        }
        tags
    }

    fn flush_if_full(&mut self) -> anyhow::Result<()> {
        let many = self.batch.entries.len() + self.batch.triples.len();
        match many >= BATCH_MAX || self.bytes >= BATCH_BYTES_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let (entries, triples) = (batch.entries.len() as u64, batch.triples.len() as u64);
        if entries + triples == 0 {
            return Ok(());
        }
        let written = match self.dry_run {
            true => triples,
            false => {
                let (principal, tool) = (self.principal.clone(), "import".to_owned());
                let write = Write::Batch(Box::new(batch));
                let committed = self.engine.commit(Request { principal, tool, write, keyed: None })?;
                self.report.transactions += u64::from(committed.is_new);
                // A fact that another process has written in the meantime exists already, so the commit has
                // no change for it.
                (committed.tx.changes.len() as u64).saturating_sub(entries).min(triples)
            }
        };
        self.report.entries += entries;
        self.report.triples += written;
        self.report.unchanged += triples - written;
        Ok(())
    }
}

fn too_long(what: &str, text: &str, bytes_max: usize) -> String {
    format!("{what} has {} bytes, and the cap is {bytes_max}", text.len())
}

fn entry_hash(scope: ScopeId, topic: &str, content: &str) -> Hash {
    hash("entry", scope, &[topic, content])
}

fn triple_hash(scope: ScopeId, subject: &str, predicate: &str, object: &str) -> Hash {
    hash("triple", scope, &[&fold(subject), &fold(predicate), &fold(object)])
}

fn hash(of: &str, scope: ScopeId, texts: &[&str]) -> Hash {
    let mut hash = Sha256::new().chain_update(of).chain_update(scope.0.to_le_bytes());
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    std::array::from_fn({
        let bytes = hash.finalize();
        move |at| bytes[at]
    })
}
