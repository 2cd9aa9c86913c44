//! `kb.extract_evidence`: the sentences of some passages that answer a question.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use kenning_engine::{FoundText, PassageScore, QuoteLimits, Scoring, Snapshot};
use kenning_model::Id;
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_presentation::text::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::passage;
use super::read_excerpt::TOKEN_BYTES;
use super::search::HowScored;
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Text, Texts, Whole};
use crate::code::counted;
use crate::documents::Scope;
use crate::memory::item::{as_data, one_line};
use crate::scratch::Passage;
use crate::tool::{Effect, Tool, sight};
use crate::{Context, Stop};

pub(crate) struct ExtractEvidence;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    question: Text<CONTEXT_BYTES_MAX>,
    passage_ids: Texts<1, 20, NAME_BYTES_MAX>,
    max_quotes: Option<Whole<1, 12>>,
    max_quote_tokens: Option<Whole<1, 200>>,
    include_context_tokens: Option<Whole<0, 200>>,
    scope: Option<Scope>,
    options: Option<Options>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    scoring: Option<HowScored>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    quotes: Vec<Quote>,
    /// There only where the quotes most likely do not answer the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    doubt: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Quote {
    quote: String,
    passage_id: String,
    section_id: String,
    title: String,
    /// Of the document, below what was taken in.
    path: String,
    uri: String,
    /// How much of the question it has, 0 to 1.
    confidence: f64,
    context_before: String,
    context_after: String,
    /// For the text of the reply: an earlier line without which the quote can't be understood.
    #[serde(skip)]
    lead: Option<String>,
    #[serde(skip)]
    start: usize,
}

/// The sections that are quoted from, without duplicates.
pub(super) fn sections(quotes: &[Quote]) -> Vec<Id> {
    let mut sections: Vec<Id> = quotes.iter().filter_map(|quote| Id::parse(&quote.section_id)).collect();
    let mut known = HashSet::new();
    sections.retain(|id| known.insert(*id));
    sections
}

/// A quote with the details that are needed to find it again.
pub(crate) struct BriefQuote {
    pub(crate) quote: String,
    pub(crate) section_id: String,
    pub(crate) title: String,
    pub(crate) path: String,
}

impl Quote {
    pub(super) fn into_brief(self) -> BriefQuote {
        let Quote { quote, section_id, title, path, .. } = self;
        BriefQuote { quote, section_id, title, path }
    }
}

/// A passage that may be quoted from.
pub(super) struct Candidate {
    pub(super) handle: String,
    pub(super) kept: Arc<Passage>,
    /// How well the parts of the passage fit the question; empty if the caller chose the passage.
    pub(super) fits: Vec<PassageScore>,
}

impl Candidate {
    fn source(&self) -> FoundText<'_> {
        FoundText { title: &self.kept.title, text: &self.kept.text, fits: self.fits.clone() }
    }
}

/// The limits of a reply: how many quotes, how long, and from how many passages.
pub(super) struct Wanted {
    pub(super) max_quotes: usize,
    pub(super) max_quote_tokens: usize,
    pub(super) context_tokens: usize,
    pub(super) scoring: Scoring,
    /// The largest number of passages that are quoted from.
    pub(super) passages: usize,
}

const QUOTE_CHARS_MAX: usize = 500;
/// The line that leads to a quote may have this many bytes even if the call asks for less context.
const CONTEXT_BYTES_MIN: usize = 40;

impl Wanted {
    pub(super) fn new(
        max_quotes: Option<Whole<1, 12>>,
        max_quote_tokens: Option<Whole<1, 200>>,
        context_tokens: Option<Whole<0, 200>>,
        scoring: Option<HowScored>,
    ) -> Wanted {
        Wanted {
            max_quotes: max_quotes.map_or(6, |many| many.0 as usize),
            max_quote_tokens: max_quote_tokens.map_or(80, |many| many.0 as usize),
            context_tokens: context_tokens.map_or(20, |many| many.0 as usize),
            scoring: scoring.map(Scoring::from).unwrap_or_default(),
            passages: usize::MAX,
        }
    }
}

impl Tool for ExtractEvidence {
    const NAME: &'static str = "kb.extract_evidence";
    const ABOUT: &'static str = "Quote the sentences of found passages that answer a question. \
        Use after `kb_search` when you have chosen passages. Do not use without passages (`kb_retrieve_evidence` does both). \
        Returns at most `max_quotes` (default 6, max 12) quotes of `max_quote_tokens` (default 80, max 200) with citations; for more call `kb_expand_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let scope = input.scope.unwrap_or_default();
        let mut passages = Vec::new();
        for handle in input.passage_ids.0 {
            let (handle, kept) = passage::find(ctx, &handle, &scope)?;
            passages.push(Candidate { handle, kept, fits: Vec::new() });
        }
        let wanted = Wanted::new(
            input.max_quotes,
            input.max_quote_tokens,
            input.include_context_tokens,
            input.options.unwrap_or_default().scoring,
        );
        let quotes = quotes(ctx, &ctx.snapshot()?, &input.question.0, &passages, &wanted)?;
        ctx.record_shown(sections(&quotes));
        Ok(Answer::text(Output { doubt: doubt(&quotes, &wanted), quotes }, text))
    }
}

fn text(output: &Output) -> String {
    shown(&output.quotes, output.doubt)
}

/// If the confidence of the best quote is below this, the question is most likely not answered. Measured on
/// questions about real trees, some of which ask about something else (`docs/figures.md`).
const DOUBTED: f64 = 0.31;
const DOUBT: &str = "These most likely do not answer the question.";

/// The warning in a reply if none of the quotes is likely to answer the question.
pub(super) fn doubt(quotes: &[Quote], wanted: &Wanted) -> Option<&'static str> {
    let best = quotes.iter().map(|quote| quote.confidence).fold(0.0, f64::max);
    (wanted.scoring == Scoring::Weighted && !quotes.is_empty() && best < DOUBTED).then_some(DOUBT)
}

/// Two quotes of a passage with a gap of at most this many bytes count as adjacent, since only blanks fit
/// between them.
const GAP_BYTES_MAX: usize = 4;

/// The text of the reply, with one citation for all quotes of a passage. It names sections and not passages,
/// because the tools accept both but a section's id stays valid in later sessions.
pub(super) fn shown(quotes: &[Quote], doubt: Option<&str>) -> String {
    if quotes.is_empty() {
        return "No sentence answers this. Try `kb_search` with other words.".to_owned();
    }
    let mut text = String::new();
    for (number, of_passage) in (1..).zip(by_passage(quotes)) {
        let first = of_passage[0];
        let [title, path] = [&first.title, &first.path].map(|text| one_line(text, 200));
        text.push_str(&format!("{number}. {title} ({path}, section {})\n", first.section_id));
        let mut end = first.start;
        for quote in of_passage {
            match &quote.lead {
                Some(lead) => text.push_str(&format!("   {} […]\n", one_line(lead, 200))),
                None if quote.start > end + GAP_BYTES_MAX => text.push_str("   […]\n"),
                None => {}
            }
            end = quote.start + quote.quote.len();
            text.push_str(&format!("   {}\n", squeezed(&quote.quote).replace('\n', "\n   ")));
        }
    }
    let doubt = doubt.map(|doubt| format!("{doubt} ")).unwrap_or_default();
    format!(
        "{doubt}Found {}. {}\nFor more around one call `kb_expand_excerpt` with its section as `passage_id`.",
        counted(quotes.len(), "quote"),
        as_data(text.trim_end())
    )
}

/// The quotes grouped by passage: within a passage in the order of the text, the passages in the order of
/// their best quotes.
fn by_passage(quotes: &[Quote]) -> Vec<Vec<&Quote>> {
    let mut passages: Vec<Vec<&Quote>> = Vec::new();
    for quote in quotes {
        match passages.iter_mut().find(|of_passage| of_passage[0].passage_id == quote.passage_id) {
            Some(of_passage) => of_passage.push(quote),
            None => passages.push(vec![quote]),
        }
    }
    passages.iter_mut().for_each(|of_passage| of_passage.sort_by_key(|quote| quote.start));
    passages
}

/// Removes blank lines and the indentation that all lines but the first have in common.
fn squeezed(quote: &str) -> String {
    let lines: Vec<&str> = quote.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines.iter().skip(1).map(depth).min().unwrap_or_default();
    let line = |(at, line): (usize, &&str)| line[if at == 0 { 0 } else { shared }..].to_owned();
    lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

pub(super) fn quotes(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    question: &str,
    passages: &[Candidate],
    wanted: &Wanted,
) -> Result<Vec<Quote>, Stop> {
    let sources: Vec<FoundText<'_>> = passages.iter().map(|candidate| candidate.source()).collect();
    let bytes = (wanted.max_quote_tokens * TOKEN_BYTES).min(QUOTE_CHARS_MAX);
    let most = QuoteLimits { quotes: wanted.max_quotes, bytes, sources: wanted.passages };
    let sight = sight(snapshot, &ctx.scope_name(None)?)?;
    let found = snapshot.section_windows(&sight, question, &sources, most, wanted.scoring)?;
    // `kb.expand_excerpt` grows the excerpt that was marked as read last, so the best quote of a passage is
    // marked last.
    found.iter().rev().for_each(|quote| passages[quote.source].kept.was_read(quote.range.clone()));
    let quote = |found: &kenning_engine::Quote| {
        let Candidate { handle, kept, .. } = &passages[found.source];
        let context_bytes = wanted.context_tokens * TOKEN_BYTES;
        let (before, after) = around(&kept.text, &found.range, context_bytes);
        let lead = kenning_engine::lead(&kept.text, found.range.start).filter(|_| context_bytes > 0);
        let lead = lead.map(|range| cut(&kept.text[range], context_bytes.max(CONTEXT_BYTES_MIN)));
        Quote {
            start: found.range.start,
            quote: kept.text[found.range.clone()].to_owned(),
            passage_id: handle.clone(),
            section_id: kept.section_id.clone(),
            title: kept.title.clone(),
            path: kept.path.clone(),
            uri: passage::uri(ctx, handle),
            confidence: (f64::from(found.share.clamp(0.0, 1.0)) * 1e3).round() / 1e3,
            // A line that leads to the quote is its context, even if it stands far before it.
            context_before: lead.clone().unwrap_or_else(|| before.to_owned()),
            context_after: after.to_owned(),
            lead,
        }
    };
    Ok(take_rows(found.iter().map(quote).collect(), ROWS_BYTES_MAX, |row| row))
}

/// The whole words directly before and after a quote, within `bytes` on each side.
fn around<'a>(text: &'a str, range: &Range<usize>, bytes: usize) -> (&'a str, &'a str) {
    let from = text.ceil_char_boundary(range.start.saturating_sub(bytes));
    let to = text.floor_char_boundary((range.end + bytes).min(text.len()));
    let (before, after) = (&text[from..range.start], &text[range.end..to]);
    let before = match (from, before.find(char::is_whitespace)) {
        (0, _) | (_, None) => before,
        (_, Some(at)) => &before[at..],
    };
    let after = match (to == text.len(), after.rfind(char::is_whitespace)) {
        (true, _) | (_, None) => after,
        (false, Some(at)) => &after[..at],
    };
    (before.trim(), after.trim())
}
