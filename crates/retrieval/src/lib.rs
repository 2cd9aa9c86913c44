//! Finding texts by their words and by their meaning. Knows no store: whoever feeds it says which version of a text
//! was live from when to when, and every question names the moment for which it is asked.

pub mod embed;
mod index;
pub mod lex;
#[cfg(feature = "minilm")]
pub mod minilm;
mod passage;
mod score;
mod vectors;
mod wordpiece;

pub use index::{Document, Filter, Hit, Index, Place, Prepared, Question, Results};
