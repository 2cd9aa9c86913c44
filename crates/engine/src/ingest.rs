//! Ingesting a file: its bytes become one transaction, or none if the stored document is the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kenning_documents::pattern::{self, Difficulty, Parsed};
use kenning_documents::{Files, Format, Label, Section, included, parse};
use kenning_model::{Link, Mention, Pattern, Principal, ScopeId};
use kenning_storage::{DocumentKind, Error, KnownDocument, NewDocument, NewSection, Request, Write};
use sha2::{Digest, Sha256};

use crate::Engine;

/// Is raised when files are split differently, so that all files are ingested again.
const SECTIONING: u32 = 5;

/// The settings of one run that ingests files.
pub struct Intake {
    pub principal: Arc<Principal>,
    pub scope: ScopeId,
    pub source: String,
    pub kind: DocumentKind,
    /// The tag of documents that name none.
    pub doc_tag: String,
    /// `root_of` the directory that the paths are relative to; empty if there is none.
    pub root: String,
}

/// A hash that distinguishes directories without writing their paths into the log. The path must be
/// canonical.
pub fn root_of(directory: &Path) -> String {
    hex_of(Sha256::new().chain_update(directory.as_os_str().as_encoded_bytes()))
}

/// The first sixteen bytes of a hash in hexadecimal, which are enough to avoid collisions.
fn hex_of(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A file that is to be ingested.
pub struct Prepared {
    pub document: NewDocument,
    /// Warnings for the author of the file.
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
    /// The documents that were ingested from a path and below it, and are still stored.
    pub fn known(&self, engine: &Engine, below: &str) -> Result<Vec<KnownDocument>, Error> {
        engine.snapshot(&self.principal)?.documents_below(self.scope, &self.source, below)
    }

    /// Prepares a file for `put`; `None` if the stored document is the same. `path` is relative to the root
    /// of the run; `files` gives the files that this one includes; `known` is the stored document at the
    /// path. An outdated `known` does no harm, since `put` compares again.
    pub fn prepare(
        &self,
        path: &str,
        format: Format,
        bytes: Vec<u8>,
        files: Files<'_>,
        known: Option<&KnownDocument>,
    ) -> Result<Option<Prepared>, IntakeError> {
        // A file has changed if a file that it includes has changed.
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
        // The table of paths is derived, so the path is checked against the record, whose checksum every read
        // checks, before the document is deleted.
        let stored = engine.snapshot(&self.principal)?.document(known.id)?;
        match stored.as_ref().and_then(|stored| stored.record.as_document()) {
            Some(document) if document.path == known.path => {
                self.commit(engine, Write::DeleteDocuments { ids: vec![known.id] })
            }
            Some(_) => Err(Error::Damaged { what: format!("the path of document {}", known.id) }),
            // Another process has deleted it already.
            None => Ok(()),
        }
    }

    fn commit(&self, engine: &Engine, write: Write) -> Result<(), Error> {
        let principal = self.principal.clone();
        engine.commit(Request { principal, tool: "ingest".to_owned(), write, keyed: None }).map(drop)
    }

    fn prepared(&self, path: &str, hash: String, parsed: Parsed) -> Prepared {
        let Parsed { document, pattern, mut warnings } = parsed;
        let about = document.about;
        let mut names = Names::new(document.sections.len());
        let title = names.repeated("title", document.title);
        let mut label = |what, value: Option<String>| value.map(|value| names.repeated(what, value));
        let doc_tag = label("doc_tag", about.doc_tag).unwrap_or_else(|| self.doc_tag.clone());
        let repository = label("repository", about.repository);
        let environment = label("environment", about.environment);
        let tags = names.tags(about.tags);
        let pattern = pattern.map(|pattern| Box::new(new_pattern(pattern, &mut names)));
        let sections = document.sections.into_iter();
        let sections = sections.map(|section| new_section(&title, section, &mut names)).collect();
        warnings.extend(names.warning());
        let document = NewDocument {
            scope: self.scope,
            source: self.source.clone(),
            path: path.to_owned(),
            doc_tag,
            tags,
            repository,
            environment,
            updated: about.updated,
            root: self.root.clone(),
            default_tag: self.doc_tag.clone(),
            catalogue: self.kind == DocumentKind::Pattern,
            pattern,
            hash,
            sections,
            title,
        };
        Prepared { document, warnings }
    }

    /// A hash over the bytes and over the settings that decide how they are ingested.
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

fn new_pattern(pattern: pattern::Pattern, names: &mut Names) -> Pattern {
    let mut text = |what, text: String| names.cut_to(what, text, PATTERN_TEXT_BYTES_MAX);
    let [summary, description] =
        [("summary", pattern.summary), ("description", pattern.description)].map(|(what, it)| text(what, it));
    let use_when = pattern.use_when.map(|it| text("use_when", it));
    let avoid_when = pattern.avoid_when.map(|it| text("avoid_when", it));
    let mut name = |what, name: String| names.cut_to(what, name, NAME_BYTES_MAX);
    let related = pattern.related.into_iter().take(RELATED_MAX);
    Pattern {
        id: name("id", pattern.id),
        category: name("category", pattern.category),
        related: related.map(|id| name("related", id)).collect(),
        difficulty: pattern.difficulty.map(Difficulty::as_str).map(str::to_owned),
        summary,
        description,
        use_when,
        avoid_when,
    }
}

/// The longest text of a pattern, the same as of an entry; replies show less.
const PATTERN_TEXT_BYTES_MAX: usize = 32 * 1024;
const RELATED_MAX: usize = 64;

/// The longest name. A file that has a whole page of text as its title would otherwise show it in every
/// reply.
const NAME_BYTES_MAX: usize = 512;
/// The most bytes that the sections of one file together use for repeated names (title, headings above them,
/// tags, labels). Only files with thousands of sections get shorter names than `NAME_BYTES_MAX` by this.
const REPEATED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The approximate number of names that a section repeats: its title, six headings, three labels and its
/// tags, few of which are long.
const REPEATED_NAMES: usize = 8;
/// The tags of a file together are at most as long as this number of names.
const TAGS_NAMES_MAX: usize = 4;

/// Shortens names, and notes which ones, for the author of the file.
struct Names {
    /// The longest name among those that every section repeats.
    bytes_max: usize,
    cut: BTreeSet<&'static str>,
}

impl Names {
    fn new(sections: usize) -> Names {
        let bytes_max = REPEATED_BYTES_MAX / REPEATED_NAMES / sections.max(1);
        Names { bytes_max: bytes_max.clamp(16, NAME_BYTES_MAX), cut: BTreeSet::new() }
    }

    fn cut_to(&mut self, what: &'static str, mut name: String, bytes_max: usize) -> String {
        if name.len() > bytes_max {
            self.cut.insert(what);
            name.truncate(name.floor_char_boundary(bytes_max));
        }
        name
    }

    fn repeated(&mut self, what: &'static str, name: String) -> String {
        self.cut_to(what, name, self.bytes_max)
    }

    fn tags(&mut self, tags: Vec<String>) -> Vec<String> {
        let all = tags.len();
        let mut room = TAGS_NAMES_MAX * self.bytes_max;
        let mut kept = Vec::new();
        for tag in tags {
            let tag = self.repeated("tags", tag);
            let Some(left) = room.checked_sub(tag.len()) else { break };
            room = left;
            kept.push(tag);
        }
        if kept.len() < all {
            self.cut.insert("tags");
        }
        kept
    }

    fn warning(&self) -> Option<String> {
        let names: Vec<&str> = self.cut.iter().copied().collect();
        (!names.is_empty()).then(|| {
            let bytes_max = self.bytes_max;
            format!("too long and cut (a name may have {bytes_max} bytes): {}", names.join(", "))
        })
    }
}

fn new_section(title: &str, mut section: Section, names: &mut Names) -> NewSection {
    if let Some(own) = section.heading_path.pop() {
        section.heading_path =
            section.heading_path.into_iter().map(|above| names.repeated("headings", above)).collect();
        section.heading_path.push(names.cut_to("headings", own, NAME_BYTES_MAX));
    }
    section.anchor = names.cut_to("headings", section.anchor, NAME_BYTES_MAX);
    // The first heading is most often the title, or the title of a web page is that heading followed by the
    // name of the site. Then the title is not put in front of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: String) -> Prepared {
        let [source, doc_tag] = ["docs", "docs"].map(str::to_owned);
        let principal = Arc::new(Principal::owner("me", "here"));
        let (scope, kind, root) = (ScopeId::GLOBAL_DEFAULT, DocumentKind::Plain, String::new());
        let intake = Intake { principal, scope, source, kind, doc_tag, root };
        let prepared = intake.prepare("a.md", Format::Markdown, text.into_bytes(), &|_| None, None);
        prepared.expect("a good file").expect("it is new")
    }

    #[test]
    fn long_names_of_a_file_are_cut_and_said() {
        let long = "x".repeat(4 << 20);
        let tags = vec!["t".repeat(600); 200].join(", ");
        let front = format!("---\ntitle: {long}\ndoc_tag: {long}\nrepository: {long}\ntags: [{tags}]\n---\n");
        let Prepared { document, warnings } =
            prepared(format!("{front}# {long}\n\nText.\n\n## Short\n\nMore.\n"));
        assert_eq!(
            warnings,
            ["too long and cut (a name may have 512 bytes): doc_tag, headings, repository, tags, title"]
        );
        let names = [&document.title, &document.doc_tag].into_iter().chain(&document.repository);
        let headings = document.sections.iter().flat_map(|section| &section.heading_path);
        assert!(names.chain(headings).chain(&document.tags).all(|name| name.len() <= NAME_BYTES_MAX));
        assert_eq!(document.tags.len(), TAGS_NAMES_MAX);
        assert_eq!(prepared("# Title\n\nText.\n".to_owned()).warnings, [""; 0]);
    }

    #[test]
    fn sections_repeat_little_of_a_file_however_many_they_are() {
        let (long, tag) = ("y".repeat(500), "t".repeat(500));
        let front = format!("---\ntitle: {long}\ntags: [{tag}, {tag}, {tag}]\nrepository: {long}\n---\n");
        let text = format!("{front}# {long}\n\n## {long}\n\n{}", "### a\n\nb\n\n".repeat(10_000));
        let Prepared { document, warnings } = prepared(text);
        let of_section = |section: &NewSection| section.heading_path.iter().map(String::len).sum::<usize>();
        let of_document = document.tags.iter().map(String::len).sum::<usize>() + document.doc_tag.len();
        let repeated: usize = document.sections.iter().map(|section| of_section(section) + of_document).sum();
        assert!(document.sections.len() >= 10_000 && repeated <= 2 * REPEATED_BYTES_MAX, "{repeated} bytes");
        assert_eq!(warnings.len(), 1);
    }
}
