//! A document, and the terms and vectors by which it is found.

use std::sync::Arc;

use crate::embed;
use crate::embedder::{Embedder, passage_texts, table_vector};
use crate::error::Error;
use crate::lex;
use crate::postings::{Frequency, bigram_hash};
use crate::score::TITLE_WEIGHT;
use crate::vectors::QuantisedVector;

/// The fields by which a document is found. Words of the title count for more than words of the body.
#[derive(Default)]
pub struct Document<'a> {
    pub title: &'a str,
    pub body: &'a str,
    /// Search words that the author gave. They count as words of the body, but do not add to the length by which BM25
    /// divides.
    pub context: &'a str,
    /// The text before this one, in a conversation for example. Its words count for little, and do not add to the length.
    pub neighbour: &'a str,
    /// Labels to filter by. Each is one term, which no word of a question ever equals.
    pub labels: &'a [String],
}

/// The terms and vectors of a document. Making them is most of the work of indexing, and any thread can do it.
pub struct Prepared {
    /// Sorted by text, each term once.
    pub(crate) words: Vec<Word>,
    pub(crate) length: u32,
    /// One for each passage; `None` until a slow embedder has made it.
    pub(crate) vectors: Vec<Option<QuantisedVector>>,
}

pub(crate) struct Word {
    pub text: Arc<str>,
    pub frequency: Frequency,
    /// The hashes of the terms that follow this one, two bytes for each occurrence that has a next term.
    pub bigrams: Vec<u8>,
}

impl Prepared {
    /// Makes the terms, and also the vectors unless the embedder is slow.
    pub fn new(document: &Document<'_>, embedder: &Embedder) -> Prepared {
        let fields = [
            (Field::Title, document.title),
            (Field::Body, document.body),
            (Field::Body, document.context),
            (Field::Neighbour, document.neighbour),
        ];
        let fields = fields.map(|(field, text)| (field, lex::terms(text)));
        let length = TITLE_WEIGHT * fields[0].1.len() as u32 + fields[1].1.len() as u32;
        let mut occurrences: Vec<FieldTerm> = Vec::new();
        for (field, terms) in fields {
            let follows = |term: &Arc<str>| (field != Field::Neighbour).then(|| bigram_hash(term));
            let bigrams: Vec<_> = terms.iter().skip(1).map(follows).chain([None]).collect();
            occurrences.extend(terms.into_iter().zip(bigrams).map(|(term, bigram)| FieldTerm {
                term,
                field,
                bigram,
            }));
        }
        // Stop words of a title only matter to a question that consists of stop words alone ("The Who").
        let stop_words = lex::stop_words(document.title).into_iter();
        occurrences.extend(stop_words.map(|term| FieldTerm { term, field: Field::Title, bigram: None }));
        let labels = document.labels.iter().map(|label| label_term(label).into());
        occurrences.extend(labels.map(|term| FieldTerm { term, field: Field::Body, bigram: None }));
        Prepared { words: words(occurrences), length, vectors: vectors(document, embedder) }
    }
}

impl Prepared {
    /// Adds the vectors that `new` leaves out when the embedder is slow.
    pub fn embedded(mut self, document: &Document<'_>, embedder: &Embedder) -> Result<Prepared, Error> {
        self.vectors = embedder.passages(document)?.into_iter().map(Some).collect();
        Ok(self)
    }
}

/// The term of a label. It begins with a character that the tokenizer never leaves in a term, so no word equals it.
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

struct FieldTerm {
    term: Arc<str>,
    field: Field,
    bigram: Option<u16>,
}

fn words(mut occurrences: Vec<FieldTerm>) -> Vec<Word> {
    // A stable sort keeps the bigrams of a term in the order of the text.
    occurrences.sort_by(|a, b| a.term.cmp(&b.term));
    let mut words: Vec<Word> = Vec::with_capacity(occurrences.len());
    for same in occurrences.chunk_by(|a, b| a.term == b.term) {
        let count = |field: Field| same.iter().filter(|occurrence| occurrence.field == field).count();
        let bigrams =
            same.iter().filter_map(|occurrence| occurrence.bigram).flat_map(u16::to_le_bytes).collect();
        let frequency = Frequency::new(count(Field::Title), count(Field::Body), count(Field::Neighbour));
        words.push(Word { text: same[0].term.clone(), frequency, bigrams });
    }
    words
}

fn vectors(document: &Document<'_>, embedder: &Embedder) -> Vec<Option<QuantisedVector>> {
    let vector = |text: String| (!embedder.is_slow()).then(|| table_vector(&embed::tokens(&text)));
    passage_texts(document).into_iter().map(vector).collect()
}
