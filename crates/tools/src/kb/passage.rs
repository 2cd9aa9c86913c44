//! Passages as the tools hand them out: a handle, an address, and a title.

use std::ops::Range;
use std::sync::Arc;

use kenning_engine::{Most, Scoring, Snapshot, Source};
use kenning_model::Section;
use kenning_presentation::text::clean;

use super::sought::Hit;
use crate::arguments::{NAME_BYTES_MAX, Text};
use crate::scratch::Passage;
use crate::{Code, Context, Stop};

/// What a client reads a passage whole under.
pub(super) fn uri(ctx: &Context<'_>, handle: &str) -> String {
    format!("kenning://scratch/{}/{handle}", ctx.caller.session())
}

/// `Snapshots > Deleting a snapshot`
pub(super) fn title(section: &Section) -> String {
    section.heading_path.iter().map(|heading| clean(heading)).collect::<Vec<_>>().join(" > ")
}

/// Keeps a section that was found, with the span that answers the question best.
pub(super) fn keep(ctx: &Context<'_>, hit: &Hit, best: Range<usize>, text: String) -> (String, Arc<Passage>) {
    let handle = ctx.engine.new_handle();
    let section = &hit.section;
    let passage = Passage::new(
        hit.id.to_string(),
        clean(&section.doc_tag),
        title(section),
        text,
        ctx.engine.now(),
        best,
    );
    let kept = ctx.caller.scratch.put(&ctx.caller.origin, &handle, passage);
    (handle, kept)
}

pub(super) fn find(ctx: &Context<'_>, handle: &Text<NAME_BYTES_MAX>) -> Result<Arc<Passage>, Stop> {
    ctx.caller.scratch.get(&ctx.caller.origin, &handle.0).ok_or_else(|| {
        let shown = kenning_presentation::text::quote(&handle.0, 64);
        Stop::new(
            Code::NotFound,
            format!("there is no passage {shown} any more, or never was; search again with `kb.search` for a new one"),
        )
    })
}

/// Up to three sentences that answer best, in the order of the text, within so many characters; and where the best is.
pub(super) fn preview(
    snapshot: &Snapshot<'_>,
    question: &str,
    title: &str,
    text: &str,
    chars_max: usize,
    scoring: Scoring,
) -> Result<(String, Range<usize>), Stop> {
    const SENTENCES: usize = 3;
    let most = Most { quotes: SENTENCES, bytes: chars_max };
    let quotes = snapshot.section_quotes(question, &[Source { title, text }], most, scoring)?;
    let Some(best) = quotes.first().map(|quote| quote.range.clone()) else {
        return Ok((String::new(), 0..0));
    };
    let mut chosen: Vec<Range<usize>> = Vec::new();
    let mut chars = 0;
    for quote in &quotes {
        let more = text[quote.range.clone()].chars().count()
            + if chosen.is_empty() { 0 } else { GAP.chars().count() };
        let is_worth = quote.score >= quotes[0].score / 2.0;
        if chars + more <= chars_max && is_worth {
            chars += more;
            chosen.push(quote.range.clone());
        }
    }
    chosen.sort_by_key(|range| range.start);
    let shown: Vec<String> = chosen.into_iter().map(|range| one_line(&text[range])).collect();
    Ok((shown.join(GAP), best))
}

const GAP: &str = " … ";

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
