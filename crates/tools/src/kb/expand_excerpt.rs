//! `kb.expand_excerpt`: a little more text around the excerpt that was read last.

use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::passage;
use super::read_excerpt::{EXCERPT_BYTES_MAX, Output, bytes_for, excerpt, shown, word_end};
use crate::arguments::{NAME_BYTES_MAX, Text, Whole};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct ExpandExcerpt;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    passage_id: Text<NAME_BYTES_MAX>,
    before_tokens: Option<Whole<0, 800>>,
    after_tokens: Option<Whole<0, 800>>,
    scope: Option<Scope>,
}

pub(super) const TOKENS_DEFAULT: u64 = 150;

impl Tool for ExpandExcerpt {
    const NAME: &'static str = "kb.expand_excerpt";
    const ABOUT: &'static str = "Grow what you read last of a passage, else its best span, on either side. \
        Use when an excerpt or quote lacks its context. Do not use to read on from the end (`kb_read_excerpt` with `start_char`). \
        Returns the grown excerpt, by `before_tokens` and `after_tokens` (default 150, max 800 each), at most 32 KiB.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let (handle, kept) = passage::find(ctx, &input.passage_id.0, &input.scope.unwrap_or_default())?;
        let bytes = |tokens: Option<Whole<0, 800>>| {
            bytes_for(tokens.map_or(TOKENS_DEFAULT, |tokens| tokens.0) as usize)
        };
        let window = kept.window();
        let start =
            word_start(&kept.text, window.start.saturating_sub(bytes(input.before_tokens)), window.start);
        let end = (window.end + bytes(input.after_tokens)).min(start + EXCERPT_BYTES_MAX);
        let end = word_end(&kept.text, window.end.max(start), end);
        Ok(Answer::text(excerpt(ctx, handle, &kept, start..end), shown))
    }
}

/// The beginning of the first whole word between two positions.
fn word_start(text: &str, from: usize, to: usize) -> usize {
    let from = text.ceil_char_boundary(from);
    if from == 0 || text[..from].ends_with(char::is_whitespace) {
        return from;
    }
    let rest = &text[from..to.max(from)];
    rest.find(char::is_whitespace)
        .map_or(from, |at| from + at + rest[at..].chars().next().map_or(1, char::len_utf8))
}
