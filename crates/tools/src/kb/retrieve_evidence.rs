//! `kb.retrieve_evidence`: search and quote in one call; the tool to use first for any question about
//! documents.

use std::ops::Range;

use kenning_engine::{PassageScore, Snapshot, passage_ranges};
use kenning_presentation::Answer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document_search::{DocumentSearch, Filters, Hits, Manner, Mode};
use super::extract_evidence::{BriefQuote, Candidate, Quote, Wanted, quotes, sections, shown};
use super::search::{HowScored, TOP_K_DEFAULT, search_meta};
use super::{diagnostics, passage};
use crate::arguments::{CONTEXT_BYTES_MAX, Text, Whole};
use crate::documents::Scope;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct RetrieveEvidence;

/// `kb.search` shows one section per document, for the caller to choose from; here every section may be
/// quoted. In documents with many sections, quoting from one section alone leaves out up to a fifth of the
/// answers (`docs/figures.md`).
const MAX_PER_DOC_DEFAULT: u64 = 0;

/// The number of sections that are searched for quotes, for each section that may be quoted in the end.
/// Ranking the quotes of more sections gives a better order than ranking the sections alone.
const CANDIDATES_PER_SECTION: usize = 4;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    question: Text<CONTEXT_BYTES_MAX>,
    top_k: Option<Whole<1, 20>>,
    max_quotes: Option<Whole<1, 12>>,
    max_quote_tokens: Option<Whole<1, 200>>,
    include_context_tokens: Option<Whole<0, 200>>,
    scope: Option<Scope>,
    filters: Option<Filters>,
    options: Option<Options>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// 0, the default, is any number.
    max_per_doc: Option<Whole<0, 20>>,
    include_debug: Option<bool>,
    mode: Option<Mode>,
    /// Default true.
    rewrite: Option<bool>,
    scoring: Option<HowScored>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    quotes: Vec<Quote>,
    /// There only where the quotes most likely do not answer the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    doubt: Option<&'static str>,
    diagnostics: Diagnostics,
}

#[derive(Serialize, JsonSchema)]
struct Diagnostics {
    /// How many sections were quoted from.
    candidates: usize,
    session_id: String,
    /// `kenning://diagnostics/{diagnostic_id}` tells how they came to be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    diagnostic_id: Option<String>,
}

impl Tool for RetrieveEvidence {
    const NAME: &'static str = "kb.retrieve_evidence";
    const ABOUT: &'static str = "Quote the sentences of ingested documents that answer a question, with citations. \
        Use first for any question about the documentation. Do not use for remembered facts (`query`, `get_task_context`). \
        Returns at most `max_quotes` (default 6, max 12) quotes from the best `top_k` (default 5, max 20) sections; for more around a quote call `kb_expand_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let options = input.options.unwrap_or_default();
        let snapshot = ctx.snapshot()?;
        let (scope, filters) = (input.scope.unwrap_or_default(), input.filters.unwrap_or_default());
        let manner = Manner {
            max_per_doc: options.max_per_doc.map_or(MAX_PER_DOC_DEFAULT, |many| many.0),
            mode: options.mode.unwrap_or_default(),
            rewrites: options.rewrite.unwrap_or(true),
        };
        let search = DocumentSearch::new(ctx, &snapshot, &scope, &filters, manner)?;
        let top_k = input.top_k.map_or(TOP_K_DEFAULT, |many| many.0) as usize;
        // The original `overlap` algorithm quotes from the best sections alone; the default one lets the
        // quotes of more sections compete.
        let many = match options.scoring {
            Some(HowScored::Overlap) => top_k,
            _ => top_k * CANDIDATES_PER_SECTION,
        };
        let found = search.find(&snapshot, &input.question.0, many)?;
        let candidates = candidates(ctx, &snapshot, &found)?;
        let wanted = Wanted {
            passages: top_k,
            ..Wanted::new(
                input.max_quotes,
                input.max_quote_tokens,
                input.include_context_tokens,
                options.scoring,
            )
        };
        let (quotes, doubt) = quotes(ctx, &snapshot, &input.question.0, &candidates, &wanted)?;
        ctx.record_shown(sections(&quotes));
        let output = Output {
            quotes,
            doubt,
            diagnostics: Diagnostics {
                candidates: candidates.len().min(top_k),
                session_id: ctx.caller.session(),
                diagnostic_id: options.include_debug.unwrap_or(false).then(|| {
                    diagnostics::keep(ctx, &snapshot, Self::NAME, &input.question.0, &search, &found)
                }),
            },
        };
        Ok(Answer {
            duplicates: found.duplicates,
            meta: search_meta(found.is_degraded, ctx.caller.has_graph),
            ..Answer::text(output, |output| shown(&output.quotes, output.doubt))
        })
    }
}

/// The best sentences of documents for a question that is asked as a part of something else, such as a
/// briefing; the graph is not used. The result is empty if the sentences most likely do not answer the
/// question.
pub(crate) fn brief_evidence(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    question: &str,
    max_quotes: usize,
) -> Result<Vec<BriefQuote>, Stop> {
    let manner = Manner { max_per_doc: MAX_PER_DOC_DEFAULT, mode: Mode::VectorOnly, rewrites: true };
    let search = DocumentSearch::new(ctx, snapshot, &Scope::default(), &Filters::default(), manner)?;
    let found = search.find(snapshot, question, BRIEF_SECTIONS * CANDIDATES_PER_SECTION)?;
    let candidates = candidates(ctx, snapshot, &found)?;
    let wanted =
        Wanted { max_quotes, passages: BRIEF_SECTIONS, ..Wanted::new(None, None, Some(Whole(0)), None) };
    match quotes(ctx, snapshot, question, &candidates, &wanted)? {
        (_, Some(_)) => Ok(Vec::new()),
        (quotes, None) => Ok(quotes.into_iter().map(Quote::into_brief).collect()),
    }
}

/// The number of sections that a brief answer may quote from.
const BRIEF_SECTIONS: usize = 3;

/// The sections that were found, each with the scores of its passages relative to the best hit.
fn candidates(ctx: &Context<'_>, snapshot: &Snapshot<'_>, found: &Hits) -> Result<Vec<Candidate>, Stop> {
    let best = found.hits.first().map_or(0.0, |hit| hit.score).max(f64::MIN_POSITIVE);
    let mut candidates = Vec::new();
    for hit in &found.hits {
        let (handle, kept) = passage::keep(ctx, snapshot, hit.id, &hit.section)?;
        let ranges = passage_ranges(&kept.text);
        let fit = |range: Range<usize>, score: f64| PassageScore { range, score: (score / best) as f32 };
        let mut fits: Vec<PassageScore> = hit
            .passages
            .iter()
            .filter_map(|(at, score)| Some(fit(ranges.get(*at)?.clone(), *score)))
            .collect();
        if fits.is_empty() {
            // The graph led to the section as a whole, so there is no passage with a score.
            fits.push(fit(0..kept.text.len(), hit.score));
        }
        candidates.push(Candidate { handle, kept, fits });
    }
    Ok(candidates)
}
