//! Memory: entries and triples. Every change of them can be seen in the history and undone.

mod changed;
mod delete;
mod history;
pub mod item;
mod names;
pub mod query;
mod query_graph;
mod read_rows;
mod relate;
pub(crate) mod similar;
mod store;
mod store_many;
mod undo;
mod update;

use crate::tool::{ToolRow, list_row, row};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![
        row::<store::Store>(),
        row::<store_many::StoreMany>(),
        row::<update::Update>(),
        list_row::<query::Query>(),
        row::<delete::Delete>(),
        row::<relate::Relate>(),
        list_row::<query_graph::QueryGraph>(),
        row::<undo::Undo>(),
        list_row::<history::History>(),
        row::<read_rows::ReadRows>(),
    ]
}
