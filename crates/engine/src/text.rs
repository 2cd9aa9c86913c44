//! The texts of records for the search index.

use std::ops::Range;

use kenning_model::{Document, EntityType, Entry, Id, Record, Section, TxId, clean, fold};
use kenning_retrieval::{Embedder, Prepared, passage_ranges};
use kenning_storage::{At, Error, Reader, RecordKey, Stored};

use crate::search::{PatternLabel, SectionLabel};

/// A record, with the other records that its text in the index is made of.
pub(crate) struct IndexedText {
    pub(crate) record: Record,
    /// The sections of a pattern, which is indexed as one text.
    sections: Vec<Section>,
    /// The text of the entry that this entry follows, as it was when this version was written.
    neighbour: String,
}

impl From<Record> for IndexedText {
    fn from(record: Record) -> IndexedText {
        IndexedText { record, sections: Vec::new(), neighbour: String::new() }
    }
}

impl IndexedText {
    pub(crate) fn read(
        reader: &dyn Reader,
        of: EntityType,
        id: Id,
        at: TxId,
    ) -> Result<Option<IndexedText>, Error> {
        let Some(stored) = reader.record(of, id, at)? else { return Ok(None) };
        let mut text = IndexedText::from(stored.record);
        if let Some(key) = text.neighbour_key(at) {
            text.set_neighbour(reader.records(&[key])?.pop().flatten());
        }
        text.read_sections(reader, id, at)?;
        Ok(Some(text))
    }

    /// The key of the entry that this entry follows, if any. It is read as of the time when this version was
    /// written, so that the same log always gives the same index.
    pub(crate) fn neighbour_key(&self, at: TxId) -> Option<RecordKey> {
        let id = self.record.as_entry()?.follows?;
        Some(RecordKey { entity_type: EntityType::Entry, id, at: At::Live(at) })
    }

    pub(crate) fn set_neighbour(&mut self, neighbour: Option<Stored>) {
        if let Some(Record::Entry(entry)) = neighbour.map(|stored| stored.record)
            // If that entry was moved to another scope meanwhile, its words must not be found through this
            // one.
            && self.record.scope() == Some(entry.scope)
        {
            self.neighbour = clean(&entry.content);
        }
    }

    /// Reads the sections of a pattern. Every change of a section makes a new version of the document, so
    /// these are the sections of this version.
    pub(crate) fn read_sections(&mut self, reader: &dyn Reader, id: Id, at: TxId) -> Result<(), Error> {
        if self.record.as_document().is_some_and(|document| document.pattern.is_some()) {
            let sections = reader.sections_of(id, at)?.into_iter();
            self.sections = sections.filter_map(|stored| section_of(stored.record)).collect();
        }
        Ok(())
    }

    /// One text for each passage; most records have a single one.
    pub(crate) fn texts(&self) -> Vec<Text> {
        match &self.record {
            Record::Entry(entry) => vec![Text { neighbour: self.neighbour.clone(), ..Text::of_entry(entry) }],
            Record::Section(section) => Text::of_section(section),
            Record::Document(document) => Text::of_pattern(document, &self.sections).into_iter().collect(),
            // Other types of records are not indexed.
            _ => Vec::new(),
        }
    }
}

fn section_of(record: Record) -> Option<Section> {
    match record {
        Record::Section(section) => Some(section),
        _ => None,
    }
}

pub(crate) struct Text {
    title: String,
    body: String,
    context: String,
    neighbour: String,
    labels: Vec<String>,
}

impl Text {
    fn of_entry(entry: &Entry) -> Text {
        // The author's search words count as much as the words of the entry.
        let about = entry.context.iter().chain(&entry.tags);
        let context: Vec<String> = about.map(|words| clean(words)).collect();
        let mut labels: Vec<String> = entry.tags.iter().map(|tag| fold(tag)).collect();
        labels.sort();
        labels.dedup();
        let (title, body) = (clean(&entry.topic), clean(&entry.content));
        Text { title, body, context: context.join("\n"), neighbour: String::new(), labels }
    }

    /// A section is indexed by its passages, and ranks by the best of them: in the whole of a long section,
    /// the sentences that answer would count for little.
    fn of_section(section: &Section) -> Vec<Text> {
        let title = section.title();
        let mut labels = vec![SectionLabel::DocTag.of(&section.doc_tag)];
        labels.extend(section.repository.iter().map(|name| SectionLabel::Repository.of(name)));
        labels.extend(section.environment.iter().map(|name| SectionLabel::Environment.of(name)));
        let text = clean(&section.text);
        // A heading without text of its own gets no passage. It is found through the sections below it, whose
        // titles contain its words.
        let ranges = passage_ranges(&text);
        let tags: String = section.tags.iter().map(|tag| format!(" {}", clean(tag))).collect();
        let passage = |range: Range<usize>| Text {
            title: title.clone(),
            body: format!("{}{tags}", &text[range]),
            context: String::new(),
            neighbour: String::new(),
            labels: labels.clone(),
        };
        ranges.into_iter().map(passage).collect()
    }

    /// A pattern is one text, because it matches by how much of a question it covers, wherever the words are.
    fn of_pattern(document: &Document, sections: &[Section]) -> Option<Text> {
        let pattern = document.pattern.as_ref()?;
        let mut body = clean(&pattern.summary);
        let told = [&pattern.description].into_iter().chain(&pattern.use_when).chain(&pattern.avoid_when);
        // Text that was taken from a section is not indexed twice.
        let told = told.filter(|text| !sections.iter().any(|section| section.text == **text));
        let about = [&pattern.category].into_iter().chain(&document.tags);
        let text = sections
            .iter()
            .flat_map(|section| section.heading_path.last().into_iter().chain([&section.text]));
        for more in told.chain(about).chain(text) {
            body.push('\n');
            body.push_str(&clean(more));
        }
        let mut labels = vec![PatternLabel::Category.of(&pattern.category)];
        labels.extend(pattern.difficulty.iter().map(|difficulty| PatternLabel::Difficulty.of(difficulty)));
        let (context, neighbour) = (String::new(), String::new());
        Some(Text { title: clean(&document.title), body, context, neighbour, labels })
    }

    pub(crate) fn document(&self) -> kenning_retrieval::Document<'_> {
        let Text { title, body, context, neighbour, labels } = self;
        kenning_retrieval::Document { title, body, context, neighbour, labels }
    }

    pub(crate) fn prepared(&self, embedder: &Embedder) -> Prepared {
        Prepared::new(&self.document(), embedder)
    }
}
