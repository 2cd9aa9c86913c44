//! A text, and what it is broken into to be found.

use std::sync::Arc;

use crate::embed::{self, Token};
use crate::embedder::{Embedder, passage_texts, table_vector};
use crate::error::Error;
use crate::lex;
use crate::postings::{Frequency, link_to};
use crate::score::TITLE_WEIGHT;
use crate::vectors::Quantised;

/// A text as it is found: `title` words count for more, `labels` are found as a whole and only when they are asked for.
#[derive(Default)]
pub struct Document<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub labels: &'a [String],
}

/// A document broken into words and vectors. This is the work; it can be done on any thread.
pub struct Prepared {
    /// In order, each once.
    pub(crate) words: Vec<Word>,
    pub(crate) length: u32,
    pub(crate) passages: Vec<Passage>,
}

pub(crate) struct Word {
    pub text: Arc<str>,
    pub frequency: Frequency,
    /// What comes after it, each time that something does.
    pub links: Vec<u8>,
}

pub(crate) struct Passage {
    pub tokens: Box<[Token]>,
    /// None until a slow embedder has made it.
    pub vector: Option<Quantised>,
}

impl Prepared {
    /// With vectors, unless the embedder is slow.
    pub fn new(document: &Document<'_>, embedder: &Embedder) -> Prepared {
        let (title, body) = (lex::terms(document.title), lex::terms(document.body));
        let length = TITLE_WEIGHT * title.len() as u32 + body.len() as u32;
        let mut places: Vec<Place> = Vec::with_capacity(title.len() + body.len() + document.labels.len());
        for (terms, is_title) in [(title, true), (body, false)] {
            let links: Vec<_> = terms.iter().skip(1).map(|term| Some(link_to(term))).chain([None]).collect();
            places.extend(terms.into_iter().zip(links).map(|(term, link)| Place { term, is_title, link }));
        }
        // They count for nothing but a question made of them alone.
        let stop_words = lex::stop_words(document.title).into_iter();
        places.extend(stop_words.map(|term| Place { term, is_title: true, link: None }));
        let labels = document.labels.iter().map(|label| label_term(label).into());
        places.extend(labels.map(|term| Place { term, is_title: false, link: None }));
        Prepared { words: words(places), length, passages: passages(document, embedder) }
    }
}

impl Prepared {
    /// With the vectors of a slow embedder too.
    pub fn embedded(mut self, document: &Document<'_>, embedder: &Embedder) -> Result<Prepared, Error> {
        let vectors = embedder.passages(document)?;
        self.passages.iter_mut().zip(vectors).for_each(|(passage, vector)| passage.vector = Some(vector));
        Ok(self)
    }
}

/// A label is a term that no text has, since a text has no such character.
pub(crate) fn label_term(label: &str) -> String {
    format!("{LABEL}{label}")
}

pub(crate) const LABEL: char = '\0';

struct Place {
    term: Arc<str>,
    is_title: bool,
    link: Option<u16>,
}

fn words(mut places: Vec<Place>) -> Vec<Word> {
    // Stable, so the links of a word stay in the order of the text.
    places.sort_by(|a, b| a.term.cmp(&b.term));
    let mut words: Vec<Word> = Vec::with_capacity(places.len());
    for same in places.chunk_by(|a, b| a.term == b.term) {
        let title = same.iter().filter(|place| place.is_title).count();
        let links = same.iter().filter_map(|place| place.link).flat_map(u16::to_le_bytes).collect();
        let frequency = Frequency::new(title, same.len() - title);
        words.push(Word { text: same[0].term.clone(), frequency, links });
    }
    words
}

fn passages(document: &Document<'_>, embedder: &Embedder) -> Vec<Passage> {
    let passage = |text: String| {
        let tokens = embed::tokens(&text);
        let vector = (!embedder.is_slow()).then(|| table_vector(&tokens));
        Passage { tokens: tokens.iter().map(|(token, _)| *token).collect(), vector }
    };
    passage_texts(document).into_iter().map(passage).collect()
}
