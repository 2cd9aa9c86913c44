//! Finding texts by their words and by their meaning. This crate knows no store: the engine feeds it the versions of each
//! text with the transactions between which each version was live, and every question names the transaction for which
//! it is asked. In this crate a *document* is one version of one text. `docs/index-format.md` describes the files.

mod codes;
mod directory;
mod document;
pub mod embed;
mod embedder;
mod error;
pub mod evidence;
pub mod excerpt;
mod highlight;
mod index;
mod lanes;
pub mod lex;
mod memory;
#[cfg(feature = "minilm")]
pub mod minilm;
mod pages;
mod part;
mod passage;
mod postings;
mod question;
mod related;
mod score;
mod search;
mod segment;
mod trigrams;
mod unseen;
mod vectors;
pub mod windows;
mod wordpiece;

pub use directory::{Directory, IndexFiles, Reached, Writer};
pub use document::{Document, Prepared};
pub use embedder::Embedder;
pub use error::Error;
pub use highlight::highlight;
pub use index::{Index, Known};
pub use memory::{Memory, Version};
pub use part::{Limits, Place, Sight};
pub use passage::passage_ranges;
pub use question::weighted_words;
pub use related::{Related, related};
pub use search::{By, Hit, MatchMinimum, Question, Results, TextResults, Why};
pub use segment::TextLookup;
pub use unseen::Unseen;
