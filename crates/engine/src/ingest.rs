//! Taking a file in: from its bytes to one transaction, or to none if it is there already.

use std::path::Path;

use kenning_documents::pattern::{self, Difficulty, Parsed};
use kenning_documents::{Files, Format, Label, Section, included, parse};
use kenning_model::{Link, Mention, Pattern, ScopeId};
use kenning_storage::{DocumentKind, Error, KnownDocument, NewDocument, NewSection, Request, Write};
use sha2::{Digest, Sha256};

use crate::Engine;

/// Grows when files are cut in another way, so that they are all taken in again.
const SECTIONING: u32 = 5;

/// What a run takes files in for.
pub struct Intake {
    pub actor: String,
    pub origin: String,
    pub scope: ScopeId,
    pub source: String,
    pub kind: DocumentKind,
    /// Of documents that name none.
    pub doc_tag: String,
    /// `root_of` the directory that paths are below; empty where there is none.
    pub root: String,
}

/// Tells directories apart without saying in the log where they are. The path is canonical.
pub fn root_of(directory: &Path) -> String {
    hex_of(Sha256::new().chain_update(directory.as_os_str().as_encoded_bytes()))
}

/// Sixteen bytes tell any two apart.
fn hex_of(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A file that is to be taken in.
pub struct Prepared {
    pub document: NewDocument,
    /// What its author should look at.
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it is a binary file")]
    Binary,
    #[error(transparent)]
    Unreadable(#[from] kenning_documents::Error),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Intake {
    /// What was taken in at a path and below it, and is there.
    pub fn known(&self, engine: &Engine, below: &str) -> Result<Vec<KnownDocument>, Error> {
        engine.snapshot()?.documents_below(self.scope, &self.source, below)
    }

    /// A file that is to be taken in, or nothing if it is there as it is. `path` is below what is taken in; `files` gives
    /// what it includes; `known` is what is there at the path. Whoever knows an older state writes nothing twice: `put`
    /// looks again.
    pub fn prepare(
        &self,
        path: &str,
        format: Format,
        bytes: Vec<u8>,
        files: Files<'_>,
        known: Option<&KnownDocument>,
    ) -> Result<Option<Prepared>, IntakeError> {
        // A file has changed if something that it includes has.
        let whole = std::str::from_utf8(&bytes).ok().and_then(|text| included(format, path, text, files));
        let bytes = whole.map_or(bytes, String::into_bytes);
        let hash = self.hash(format, &bytes);
        if known.is_some_and(|known| known.hash == hash) {
            return Ok(None);
        }
        let text = String::from_utf8(bytes).map_err(|_| IntakeError::NotText)?;
        if text.contains('\0') {
            return Err(IntakeError::Binary);
        }
        let parsed = match self.kind {
            DocumentKind::Pattern => pattern::parse(format, path, &text)?,
            DocumentKind::Plain => {
                Parsed { document: parse(format, path, &text)?, pattern: None, warnings: Vec::new() }
            }
        };
        Ok(Some(self.prepared(path, hash, parsed)))
    }

    pub fn put(&self, engine: &Engine, document: NewDocument) -> Result<(), Error> {
        self.commit(engine, Write::PutDocument(Box::new(document)))
    }

    pub fn close(&self, engine: &Engine, known: &KnownDocument) -> Result<(), Error> {
        // The table of paths is derived; the log, which every read checks, has the last word before anything goes.
        let stored = engine.snapshot()?.document(known.id)?;
        match stored.as_ref().and_then(|stored| stored.record.as_document()) {
            Some(document) if document.path == known.path => {
                self.commit(engine, Write::DeleteDocuments { ids: vec![known.id] })
            }
            Some(_) => Err(Error::Damaged { what: format!("the path of document {}", known.id) }),
            // Another process was faster.
            None => Ok(()),
        }
    }

    fn commit(&self, engine: &Engine, write: Write) -> Result<(), Error> {
        let (actor, origin) = (self.actor.clone(), self.origin.clone());
        engine.commit(Request { actor, origin, tool: "ingest".to_owned(), write, keyed: None }).map(drop)
    }

    fn prepared(&self, path: &str, hash: String, parsed: Parsed) -> Prepared {
        let Parsed { document, pattern, warnings } = parsed;
        let title = bounded(document.title);
        let document = NewDocument {
            scope: self.scope,
            source: self.source.clone(),
            path: path.to_owned(),
            doc_tag: document.about.doc_tag.map_or_else(|| self.doc_tag.clone(), bounded),
            tags: document.about.tags.into_iter().map(bounded).collect(),
            repository: document.about.repository.map(bounded),
            environment: document.about.environment.map(bounded),
            updated: document.about.updated,
            root: self.root.clone(),
            default_tag: self.doc_tag.clone(),
            catalogue: self.kind == DocumentKind::Pattern,
            pattern: pattern.map(new_pattern).map(Box::new),
            hash,
            sections: document.sections.into_iter().map(|section| new_section(&title, section)).collect(),
            title,
        };
        Prepared { document, warnings }
    }

    /// Of the bytes, and of what else decides what becomes of them.
    fn hash(&self, format: Format, bytes: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{SECTIONING}\n{format:?}\n{}\n", self.doc_tag));
        if self.kind == DocumentKind::Pattern {
            hash.update("pattern\n");
        }
        hash.update(bytes);
        hex_of(hash)
    }
}

fn new_pattern(pattern: pattern::Pattern) -> Pattern {
    Pattern {
        id: pattern.id,
        summary: pattern.summary,
        description: pattern.description,
        category: pattern.category,
        difficulty: pattern.difficulty.map(Difficulty::as_str).map(str::to_owned),
        related: pattern.related,
        use_when: pattern.use_when,
        avoid_when: pattern.avoid_when,
    }
}

/// What names a thing is short; a file that has a page for a title would be shown with it in every reply.
const NAME_BYTES_MAX: usize = 512;

fn bounded(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX.min(name.len())));
    name
}

fn new_section(title: &str, mut section: Section) -> NewSection {
    section.heading_path = section.heading_path.into_iter().map(bounded).collect();
    // The first heading is most often the title, or the title of a web page goes on with the name of its site; it is not
    // said twice.
    let is_title = |first: &str| {
        let site = title.strip_prefix(first).map(str::trim_start);
        site.is_some_and(|site| site.is_empty() || site.starts_with(['—', '–', '-', '|', '·', '•']))
    };
    let heading_path = match section.heading_path.first() {
        Some(first) if is_title(first) => section.heading_path,
        _ => [vec![title.to_owned()], section.heading_path].concat(),
    };
    let mention = |mention: kenning_documents::Mention| Mention {
        label: match mention.label {
            Label::Code => "code",
            Label::Command => "command",
            Label::Term => "term",
            Label::Name => "name",
        }
        .to_owned(),
        name: mention.name,
    };
    NewSection {
        level: section.level,
        heading_path,
        anchor: section.anchor,
        text: section.text,
        parent: section.parent,
        links: section.links.into_iter().map(|link| Link { path: link.path, anchor: link.anchor }).collect(),
        mentions: section.mentions.into_iter().map(mention).collect(),
    }
}
