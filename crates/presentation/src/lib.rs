//! The form of replies: blocks of text and data, their size limits, cursors, and the treatment of stored text
//! in replies. This crate knows no tool and no protocol.

mod answer;
mod ask;
pub mod budget;
pub mod card;
pub mod cursor;
mod format;
mod reply;
pub mod text;

pub use answer::{Answer, Body, Note, Profile, SetReference, render};
pub use ask::{Ask, Field};
pub use format::Format;
pub use reply::{Block, Content, Link, Reply};
