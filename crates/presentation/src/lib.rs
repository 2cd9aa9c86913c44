//! How replies look: blocks of text and data, their budgets, cursors, and what is done to stored text on its way
//! out. Knows no tool and no protocol.

pub mod budget;
pub mod cursor;
mod reply;
pub mod text;

pub use reply::{Block, Link, Reply};
