//! Plays every transcript, and checks what is published about every tool: schemas, sizes, documentation.

mod agent;
mod bounds;
mod documents;
mod lenient;
mod long_sections;
mod patterns;
mod principals;
mod published;
mod round_trips;
mod session;
mod sets;
mod tokens;
mod transcripts;
