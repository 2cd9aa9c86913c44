//! What makes vectors of texts.

use std::borrow::Cow;

use crate::document::Document;
use crate::embed::{self, Token};
use crate::error::Error;
use crate::passage;
use crate::vectors::Quantised;

/// Vectors of different embedders are never compared: each has its own file.
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

    /// Which vectors these are.
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

    /// Then vectors are made in the background, and questions go by words until they are there.
    pub fn is_slow(&self) -> bool {
        match self {
            Embedder::Table => false,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => true,
        }
    }

    /// Whether a word has a meaning for it.
    pub(crate) fn knows(&self, word: &str) -> bool {
        match self {
            Embedder::Table => embed::row_of(word).is_some(),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => true,
        }
    }

    /// As near as this is a match for the few nearest texts, so that a question in other words finds something.
    pub(crate) fn floor_of_nearest(&self) -> f32 {
        match self {
            Embedder::Table => 0.15,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.15,
        }
    }

    /// How near a text without a word of the question must be to be a match, measured on `tests/paraphrases.tsv`: the
    /// table finds four in five and lets one in a hundred others through, the encoder nine in ten and three.
    pub(crate) fn floor(&self) -> f32 {
        match self {
            Embedder::Table => 0.24,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.25,
        }
    }

    /// The same for texts of many passages, of which the best is near to much: measured on the titles of a catalogue of 300
    /// patterns, one in a hundred others comes through.
    pub(crate) fn floor_of_many(&self) -> f32 {
        match self {
            Embedder::Table => 0.40,
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(_) => 0.45,
        }
    }

    /// `words` are those of the question with what each counts; an encoder reads the question itself.
    #[cfg_attr(not(feature = "minilm"), expect(unused_variables, reason = "only an encoder reads the text"))]
    pub(crate) fn question(&self, text: &str, words: &[(String, f32)]) -> Result<Vec<f32>, Error> {
        match self {
            Embedder::Table => Ok(embed::question_vector(words).to_vec()),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => Ok(model.embed(&[text])?.swap_remove(0)),
        }
    }

    /// One vector for each passage of a document.
    pub fn passages(&self, document: &Document<'_>) -> Result<Vec<Quantised>, Error> {
        let texts = passage_texts(document);
        match self {
            Embedder::Table => Ok(texts.iter().map(|text| table_vector(&embed::tokens(text))).collect()),
            #[cfg(feature = "minilm")]
            Embedder::MiniLm(model) => {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                Ok(model.embed(&texts)?.iter().map(|vector| Quantised::new(vector)).collect())
            }
        }
    }
}

pub(crate) fn table_vector(tokens: &[(Token, u32)]) -> Quantised {
    Quantised::new(&embed::passage_vector(tokens))
}

/// Every passage says what it belongs to. There is one at least.
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
