//! Everything an agent can call, one file per tool. Knows no protocol: MCP and `kenning call` both come in through
//! `dispatch`.

mod arguments;
mod code;
mod dispatch;
mod listing;
pub mod memory;
mod schema;
mod tool;

pub use code::{Code, Stop};
pub use dispatch::{Access, dispatch, find};
pub use listing::{List, Listing};
pub use tool::{
    Caller, Context, Definition, Effect, Family, SCOPES, TOOL_NAME_BYTES_MAX, definitions, families,
    resolve_scope,
};
