//! The stores for resources.

pub(super) mod memory;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod record;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;
