#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "csv")]
pub mod csv;
#[cfg(feature = "rmcp")]
mod mcp;
#[cfg(feature = "server")]
pub mod server;
pub mod wire;

#[cfg(feature = "axum")]
pub use axum;
#[cfg(feature = "postgres")]
pub use deadpool_postgres;
pub use jiff;
#[cfg(feature = "client")]
pub use reqwest;
#[cfg(feature = "rmcp")]
pub use rmcp;
#[cfg(feature = "sqlite")]
pub use rusqlite;
pub use wire::{Column, ColumnType, Order, Row, Sort};

/// Any error of the caller's own code: a query, a store or a transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
