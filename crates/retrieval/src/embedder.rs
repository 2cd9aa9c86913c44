//! The embedder: makes vectors of texts.

use std::borrow::Cow;

use crate::document::Document;
use crate::embed::{self, Token};
use crate::error::Error;
use crate::passage;
use crate::vectors::QuantisedVector;

/// Vectors of different embedders are never compared; each embedder has files of its own beside a segment.
#[derive(Default)]
pub enum Embedder {
    /// The table that is compiled in.
    #[default]
    Table,
    /// A sentence encoder, which finds paraphrases better and takes a thousand times as long.
    #[cfg(feature = "minilm")]
    MiniLm(Box<crate::minilm::MiniLm>),
}

impl Embedder {
    /// The sentence encoder in this directory.
    #[cfg(feature = "minilm")]
    pub fn minilm(dir: &std::path::Path) -> Result<Embedder, Error> {
        Ok(Embedder::MiniLm(Box::new(crate::minilm::MiniLm::load(dir)?)))
    }

    /// A hash that identifies the model, and so the vectors.
    pub fn identity(&self) -> &str {
        match self {
            Embedder::Table => embed::IDENTITY,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => model.identity(),
        }
    }

    pub(crate) fn dim(&self) -> usize {
        match self {
            Embedder::Table => embed::DIM,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => model.dim(),
        }
    }

    /// Whether vectors are made in the background. Until they are made, questions are answered by words alone.
    pub fn is_slow(&self) -> bool {
        match self {
            Embedder::Table => false,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => true,
        }
    }

    /// Whether the embedder has a vector for a word.
    pub(crate) fn knows(&self, word: &str) -> bool {
        match self {
            Embedder::Table => embed::row_of(word).is_some(),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => true,
        }
    }

    /// The lowest cosine at which one of the few nearest documents matches, so that a question in other words
    /// than the documents finds something.
    pub(crate) fn floor_of_nearest(&self) -> f32 {
        match self {
            Embedder::Table => 0.15,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.15,
        }
    }

    /// The lowest cosine at which a document without a word of the question matches. Measured on
    /// `tests/paraphrases.tsv`: the table finds four in five answers and one in a hundred other entries, the
    /// encoder nine in ten and three in a hundred.
    pub(crate) fn floor(&self) -> f32 {
        match self {
            Embedder::Table => 0.24,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.25,
        }
    }

    /// The same bound for documents of many passages, whose best passage is near to many questions. Measured
    /// on the titles of a catalogue of 300 patterns: one in a hundred of the others matches.
    pub(crate) fn floor_of_many(&self) -> f32 {
        match self {
            Embedder::Table => 0.40,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.45,
        }
    }

    /// The vector of a question. The table uses `words`, the words of the question with their weights; an encoder reads
    /// the text itself.
    #[cfg_attr(not(feature = "minilm"), expect(unused_variables, reason = "only an encoder reads the text"))]
    pub(crate) fn question(&self, text: &str, words: &[(String, f32)]) -> Result<Vec<f32>, Error> {
        match self {
            Embedder::Table => Ok(embed::question_vector(words).to_vec()),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => Ok(model.embed(&[text])?.swap_remove(0)),
        }
    }

    /// One vector for each passage of a document.
    pub fn passages(&self, document: &Document<'_>) -> Result<Vec<QuantisedVector>, Error> {
        let texts = passage_texts(document);
        match self {
            Embedder::Table => Ok(texts.iter().map(|text| table_vector(&embed::tokens(text))).collect()),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                Ok(model.embed(&texts)?.iter().map(|vector| QuantisedVector::new(vector)).collect())
            }
        }
    }
}

pub(crate) fn table_vector(tokens: &[(Token, u32)]) -> QuantisedVector {
    QuantisedVector::new(&embed::passage_vector(tokens))
}

/// The texts of the passages of a document, at least one. Each begins with the title, so that a passage from the middle
/// of a document still says what it is about.
pub(crate) fn passage_texts(document: &Document<'_>) -> Vec<String> {
    let text = match document.context {
        "" => Cow::Borrowed(document.body),
        context => Cow::Owned(format!("{}\n{context}", document.body)),
    };
    let mut parts = passage::passages(&text);
    if parts.is_empty() {
        parts.push("");
    }
    parts.into_iter().map(|part| format!("{} {part}", document.title)).collect()
}
