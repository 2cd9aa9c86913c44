//! A text, and what it is broken into to be found.

use std::sync::Arc;

use crate::embed;
use crate::embedder::{Embedder, passage_texts, table_vector};
use crate::error::Error;
use crate::lex;
use crate::postings::{Frequency, link_to};
use crate::score::TITLE_WEIGHT;
use crate::vectors::Quantised;

/// A text as it is found. Words of the title count for more.
#[derive(Default)]
pub struct Document<'a> {
    pub title: &'a str,
    pub body: &'a str,
    /// Search words that the author gave. They count as words of the body, and do not make the text longer.
    pub context: &'a str,
    /// The text before this one, in a conversation for example. Its words count for little, and do not make this text
    /// longer.
    pub neighbour: &'a str,
    /// Found as a whole, and only when they are asked for.
    pub labels: &'a [String],
}

/// A document broken into words and vectors. This is the work; it can be done on any thread.
pub struct Prepared {
    /// In order, each once.
    pub(crate) words: Vec<Word>,
    pub(crate) length: u32,
    /// One for each passage; None until a slow embedder has made it.
    pub(crate) vectors: Vec<Option<Quantised>>,
}

pub(crate) struct Word {
    pub text: Arc<str>,
    pub frequency: Frequency,
    /// What comes after it, each time that something does.
    pub links: Vec<u8>,
}

impl Prepared {
    /// With vectors, unless the embedder is slow.
    pub fn new(document: &Document<'_>, embedder: &Embedder) -> Prepared {
        let fields = [
            (Field::Title, document.title),
            (Field::Body, document.body),
            (Field::Body, document.context),
            (Field::Neighbour, document.neighbour),
        ];
        let fields = fields.map(|(field, text)| (field, lex::terms(text)));
        let length = TITLE_WEIGHT * fields[0].1.len() as u32 + fields[1].1.len() as u32;
        let mut places: Vec<Place> = Vec::new();
        for (field, terms) in fields {
            let follows = |term: &Arc<str>| (field != Field::Neighbour).then(|| link_to(term));
            let links: Vec<_> = terms.iter().skip(1).map(follows).chain([None]).collect();
            places.extend(terms.into_iter().zip(links).map(|(term, link)| Place { term, field, link }));
        }
        // They count for nothing but a question made of them alone.
        let stop_words = lex::stop_words(document.title).into_iter();
        places.extend(stop_words.map(|term| Place { term, field: Field::Title, link: None }));
        let labels = document.labels.iter().map(|label| label_term(label).into());
        places.extend(labels.map(|term| Place { term, field: Field::Body, link: None }));
        Prepared { words: words(places), length, vectors: vectors(document, embedder) }
    }
}

impl Prepared {
    /// With the vectors of a slow embedder too.
    pub fn embedded(mut self, document: &Document<'_>, embedder: &Embedder) -> Result<Prepared, Error> {
        self.vectors = embedder.passages(document)?.into_iter().map(Some).collect();
        Ok(self)
    }
}

/// A label is a term that no text has, since a text has no such character.
pub(crate) fn label_term(label: &str) -> String {
    format!("{LABEL}{label}")
}

pub(crate) const LABEL: char = '\0';

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Title,
    Body,
    Neighbour,
}

struct Place {
    term: Arc<str>,
    field: Field,
    link: Option<u16>,
}

fn words(mut places: Vec<Place>) -> Vec<Word> {
    // Stable, so the links of a word stay in the order of the text.
    places.sort_by(|a, b| a.term.cmp(&b.term));
    let mut words: Vec<Word> = Vec::with_capacity(places.len());
    for same in places.chunk_by(|a, b| a.term == b.term) {
        let count = |field: Field| same.iter().filter(|place| place.field == field).count();
        let links = same.iter().filter_map(|place| place.link).flat_map(u16::to_le_bytes).collect();
        let frequency = Frequency::new(count(Field::Title), count(Field::Body), count(Field::Neighbour));
        words.push(Word { text: same[0].term.clone(), frequency, links });
    }
    words
}

fn vectors(document: &Document<'_>, embedder: &Embedder) -> Vec<Option<Quantised>> {
    let vector = |text: String| (!embedder.is_slow()).then(|| table_vector(&embed::tokens(&text)));
    passage_texts(document).into_iter().map(vector).collect()
}
