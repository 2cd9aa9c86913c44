//! Tests of the public interface, in one program so that only one has to be linked.

// A test fails by panicking, so `unwrap` is fine here.
#![allow(clippy::unwrap_used)]

mod client;
mod create;
mod export;
mod guard;
mod lifecycle;
mod mcp;
mod owners;
mod rest;
mod restart;
mod stores;
mod support;
mod table;
