//! Plain data types that all other crates use: ids, scopes, entries, triples, changes, transactions. No I/O,
//! no async, no rules: `storage` decides what may be written, `presentation` how it is shown.

mod clean;
mod document;
mod entry;
mod id;
mod principal;
mod purged;
mod scope;
mod transaction;
mod triple;

pub use clean::clean;
pub use document::{Document, Link, Mention, Pattern, Section};
pub use entry::{Entry, Status, TaskSize};
pub use id::{Id, TxId};
pub use jiff::Timestamp;
pub use principal::{Grants, Principal, Right};
pub use purged::{PURGED_TEXT, Tombstone};
pub use scope::{DEFAULT, GLOBAL, GLOBAL_ABOUT, Namespace, Scope, ScopeId, ScopeName, ScopeNames, is_name};
pub use transaction::{Change, EntityType, Op, Record, Transaction, Version};
pub use triple::{Triple, fold};
