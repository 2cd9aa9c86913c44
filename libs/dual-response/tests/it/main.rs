//! The crate from outside: one program, so that it links once.

// A test that cannot go on says so by stopping.
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
