//! Memory: entries and triples, every change of which can be seen and taken back.

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

use crate::tool::{Row, row};

pub(crate) fn tools() -> Vec<Row> {
    vec![
        row::<store::Store>(),
        row::<store_many::StoreMany>(),
        row::<update::Update>(),
        row::<query::Query>(),
        row::<delete::Delete>(),
        row::<relate::Relate>(),
        row::<query_graph::QueryGraph>(),
        row::<undo::Undo>(),
        row::<history::History>(),
        row::<read_rows::ReadRows>(),
    ]
}
