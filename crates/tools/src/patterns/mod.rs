//! The catalogue of patterns. Its replies are Markdown for people and JSON for programs, and follow a
//! contract of versioned kinds.

mod get_pattern;
mod needs_input;
mod provenance;
mod search_patterns;
pub(crate) mod tool_error;

use kenning_engine::{Overview, Sight, Snapshot};
use kenning_model::{Document, Id, Pattern};
use kenning_presentation::card::{Kind, short_value, value};
use kenning_presentation::text::{clean, cut};
use kenning_presentation::{Answer, Body, Format};
use kenning_storage::Stored;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::needs_input::NeedsInput;
use crate::tool::{ToolRow, list_row, row};
use crate::{Context, Stop};

pub(crate) fn tools() -> Vec<ToolRow> {
    vec![list_row::<search_patterns::SearchPatterns>(), row::<get_pattern::GetPattern>()]
}

const PATTERN: Kind = Kind("pattern");

/// The largest number of suggestions when the request can't be answered as it is.
const SUGGESTIONS: usize = 5;
/// The largest size of a title in a list of patterns.
const TITLE_BYTES_MAX: usize = 300;

/// The hint for an empty catalogue; people are not asked anything then, because there is nothing to choose.
const NO_CATALOGUE: &str = "The catalogue is empty; `kenning ingest --kind patterns DIR` fills it.";

/// Markdown for people (default), JSON for programs.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Shape {
    #[default]
    Markdown,
    Json,
    Both,
}

impl From<Shape> for Format {
    fn from(shape: Shape) -> Format {
        match shape {
            Shape::Markdown => Format::Markdown,
            Shape::Json => Format::Json,
            Shape::Both => Format::Both,
        }
    }
}

/// What was asked for, or what is needed before it can be told.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum AnswerOrRequest<T> {
    Answer(Box<T>),
    NeedsInput(Box<NeedsInput>),
}

impl<T> AnswerOrRequest<T> {
    fn answer(output: T, body: Body) -> Answer<AnswerOrRequest<T>> {
        Answer::new(AnswerOrRequest::Answer(Box::new(output)), body)
    }
}

/// The part of the catalogue that the caller's scope sees.
fn sight(ctx: &Context<'_>, snapshot: &Snapshot<'_>) -> Result<Sight, Stop> {
    crate::tool::sight(snapshot, &ctx.scope_name(None)?)
}

/// A document that is a pattern.
struct PatternRecord<'a> {
    stored: &'a Stored,
    document: &'a Document,
    pattern: &'a Pattern,
}

impl PatternRecord<'_> {
    fn of(stored: &Stored) -> Option<PatternRecord<'_>> {
        let document = stored.record.as_document()?;
        Some(PatternRecord { stored, document, pattern: document.pattern.as_deref()? })
    }
}

/// A pattern by what it is called.
#[derive(Clone, Serialize, JsonSchema)]
struct Named {
    id: String,
    title: String,
}

impl Named {
    fn new(id: &str, title: &str) -> Named {
        Named { id: clean(id), title: cut(&clean(title), TITLE_BYTES_MAX) }
    }

    fn line(&self) -> String {
        format!("- {} (id {})", short_value(&self.title, 120), value(&self.id))
    }
}

/// The ids and titles of the first of these documents, at most `many`.
fn named(snapshot: &Snapshot<'_>, ids: &[Id], many: usize) -> Result<Vec<Named>, Stop> {
    let mut named = Vec::new();
    for id in ids.iter().take(many) {
        let stored = snapshot.document(*id)?;
        let record = stored.as_ref().and_then(PatternRecord::of);
        named.extend(record.map(|record| Named::new(&record.pattern.id, &record.document.title)));
    }
    Ok(named)
}

/// The time in ISO 8601 format with milliseconds, in UTC.
fn moment(at: kenning_model::Timestamp) -> String {
    format!("{at:.3}")
}

/// The whole catalogue as the caller sees it now.
fn overview(ctx: &Context<'_>, category: Option<&str>) -> Result<Overview, Stop> {
    let snapshot = ctx.snapshot()?;
    Ok(snapshot.catalogue(&sight(ctx, &snapshot)?, category)?)
}
