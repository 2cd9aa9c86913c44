//! All tools, one file per tool. This crate knows no protocol: MCP and `kenning call` both enter through
//! `dispatch`.

mod arguments;
pub mod briefing;
mod code;
mod compat;
mod disclosure;
mod dispatch;
mod documents;
mod elsewhere;
mod graph;
mod kb;
mod keyed;
pub mod knowledge;
mod lenient;
mod listing;
pub mod memory;
mod patterns;
pub mod project;
pub mod recall;
mod schema;
mod scratch;
mod sets;
mod tool;
mod usage;

pub use code::{Code, Stop};
pub use disclosure::NamedScopes;
pub use dispatch::{Access, KEY as IDEMPOTENCY_KEY, asked_format, dispatch, dispatch_answered, find};
pub use listing::{List, Listing};
pub use scratch::{Passage, Scratch, ScratchOwner};
pub use sets::{Attached, ResultSets, SETS_FILE, SetStore, SetsOverHttp, forget_sets};
pub use tool::{
    Caller, Context, Definition, Effect, Family, TOOL_NAME_BYTES_MAX, definitions, families, renamed_note,
    scope_name, sight,
};
pub use usage::{Counted, Usage};
