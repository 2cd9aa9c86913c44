//! What the same work costs without a store: the least time that the disk and the pipes allow.

pub mod echo;
pub mod group_log;
pub mod write;
