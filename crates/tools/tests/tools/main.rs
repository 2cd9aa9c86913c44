//! Plays every transcript, and checks what is published of every tool: schemas, sizes, documentation.

mod bounds;
mod documents;
mod published;
mod transcripts;
