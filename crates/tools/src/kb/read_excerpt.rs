//! `kb.read_excerpt`: a bounded piece of a passage.

use std::ops::Range;

use kenning_model::Id;
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Citation, passage};
use crate::arguments::{NAME_BYTES_MAX, Text, Whole};
use crate::documents::Scope;
use crate::memory::item::as_data;
use crate::scratch::Passage;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct ReadExcerpt;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Or a section_id.
    passage_id: Text<NAME_BYTES_MAX>,
    max_tokens: Option<Whole<1, 800>>,
    start_char: Option<Whole<0, 1_000_000>>,
    scope: Option<Scope>,
    options: Option<Options>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    format: Option<Format>,
    /// Default true.
    include_citation: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Text,
    // One sentence per line.
    Bullets,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    passage_id: String,
    excerpt: String,
    /// There is more behind it.
    truncated: bool,
    next_start_char: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Citation")]
    citation: Option<Citation>,
}

const TOKENS_DEFAULT: u64 = 300;
pub(super) const TOKEN_BYTES: usize = 4;
pub(super) const EXCERPT_BYTES_MAX: usize = 32 * 1024;

impl Tool for ReadExcerpt {
    const NAME: &'static str = "kb.read_excerpt";
    const ABOUT: &'static str = "Read a piece of a passage that `kb_search` found. \
        Use when the preview or quotes are not enough. Do not use on many passages; narrow down to three first. \
        Returns at most `max_tokens` (default 300, max 800); for more pass `next_start_char` as `start_char`, or call `kb_expand_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let (handle, kept) = passage::find(ctx, &input.passage_id.0, &input.scope.unwrap_or_default())?;
        let start = input.start_char.map_or(0, |start| start.0 as usize);
        let chars = kept.text.chars().count();
        if start > chars {
            let message =
                format!("`start_char`: {start} is beyond the end, the passage has {chars} characters");
            return Err(Stop::invalid(message));
        }
        let from = byte_at(&kept.text, start);
        let tokens = input.max_tokens.map_or(TOKENS_DEFAULT, |tokens| tokens.0) as usize;
        let bytes = bytes_for(tokens);
        let options = input.options.unwrap_or_default();
        let to = word_end(&kept.text, from, from + bytes);
        let (to, lines) = match options.format {
            Some(Format::Bullets) => {
                let (end, lines) = bullets(&kept.text[from..to], bytes);
                (from + end, Some(lines))
            }
            _ => (to, None),
        };
        let output = excerpt(ctx, handle, &kept, from..to);
        Ok(Answer::text(
            Output {
                excerpt: lines.unwrap_or(output.excerpt),
                citation: output.citation.filter(|_| options.include_citation.unwrap_or(true)),
                ..output
            },
            shown,
        ))
    }
}

pub(super) fn shown(output: &Output) -> String {
    let about =
        output.citation.as_ref().map(|citation| format!(" From {}.", citation.shown())).unwrap_or_default();
    let more = match output.next_start_char {
        Some(next) => format!("\nThere is more: `start_char` {next}."),
        None => String::new(),
    };
    format!("Excerpt of passage {}.{about} {}{more}", output.passage_id, as_data(&output.excerpt))
}

/// A piece of a passage; the piece is recorded as the part that was read last.
pub(super) fn excerpt(ctx: &Context<'_>, passage_id: String, kept: &Passage, range: Range<usize>) -> Output {
    kept.was_read(range.clone());
    ctx.record_shown(Id::parse(&kept.section_id));
    let text = &kept.text;
    let is_cut = range.end < text.len();
    Output {
        excerpt: text[range.clone()].to_owned(),
        truncated: is_cut,
        next_start_char: is_cut.then(|| text[..range.end].chars().count()),
        citation: Some(Citation {
            section_id: kept.section_id.clone(),
            doc_tag: kept.doc_tag.clone(),
            title: kept.title.clone(),
            path: kept.path.clone(),
            uri: passage::uri(ctx, &passage_id),
        }),
        passage_id,
    }
}

pub(super) fn bytes_for(tokens: usize) -> usize {
    (tokens * TOKEN_BYTES).min(EXCERPT_BYTES_MAX)
}

/// The end of the last whole word before a position, unless that would drop more than half of the text.
pub(super) fn word_end(text: &str, from: usize, to: usize) -> usize {
    let to = text.floor_char_boundary(to.min(text.len()));
    let from = from.min(to);
    let is_between = to == text.len() || text[to..].starts_with(char::is_whitespace);
    let blank = text[from..to]
        .rfind(char::is_whitespace)
        .map(|at| from + at)
        .filter(|at| *at > from + (to - from) / 2);
    match blank {
        Some(blank) if !is_between => text.ceil_char_boundary(blank + 1),
        _ => to,
    }
}

fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// As many sentences as fit, one per line, and the position where the last of them ends. The list marks count
/// towards the limit.
fn bullets(text: &str, bytes_max: usize) -> (usize, String) {
    let (mut end, mut lines) = (0, String::new());
    for range in kenning_engine::sentences(text) {
        let sentence = text[range.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
        // Items of a list already have a mark, so it is removed first.
        let marks = ["- ", "* ", "+ ", "• "];
        let bare = marks.iter().find_map(|mark| sentence.strip_prefix(mark)).unwrap_or(&sentence);
        let line = format!("{}- {bare}", if lines.is_empty() { "" } else { "\n" });
        if lines.len() + line.len() > bytes_max {
            break;
        }
        lines.push_str(&line);
        end = range.end;
    }
    if lines.is_empty() {
        // Not even the first sentence fits, so it is cut.
        end = word_end(text, 0, bytes_max.saturating_sub("- ".len()).max(1));
        lines = format!("- {}", text[..end].split_whitespace().collect::<Vec<_>>().join(" "));
    }
    (end, lines)
}
