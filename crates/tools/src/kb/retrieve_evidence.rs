//! `kb.retrieve_evidence`: search and quote in one call. What to use unless there is a reason not to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::extract_evidence::{Quote, Wanted, doubt, quotes, shown};
use super::search::{HowScored, TOP_K_DEFAULT, graph_disabled};
use super::sought::{Filters, Manner, Mode, Sought};
use super::{diagnostics, passage};
use crate::arguments::{CONTEXT_BYTES_MAX, Text, Whole};
use crate::documents::Scope;
use crate::memory::query::degraded;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct RetrieveEvidence;

/// Where `kb.search` shows one section of each document, to choose from, all that answers is quoted here: of documents
/// with many sections, one alone leaves out up to a fifth of the answers (`docs/figures.md`).
const MAX_PER_DOC_DEFAULT: u64 = 0;

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
    #[serde(skip)]
    duplicates: usize,
    #[serde(skip)]
    is_degraded: bool,
    #[serde(skip)]
    has_graph: bool,
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

    fn call(ctx: &Context<'_>, input: Input) -> Result<Output, Stop> {
        let options = input.options.unwrap_or_default();
        let snapshot = ctx.engine.snapshot()?;
        let (scope, filters) = (input.scope.unwrap_or_default(), input.filters.unwrap_or_default());
        let manner = Manner {
            max_per_doc: options.max_per_doc.map_or(MAX_PER_DOC_DEFAULT, |many| many.0),
            mode: options.mode.unwrap_or_default(),
            rewrites: options.rewrite.unwrap_or(true),
        };
        let sought = Sought::new(ctx, &snapshot, &scope, &filters, manner)?;
        let top_k = input.top_k.map_or(TOP_K_DEFAULT, |many| many.0) as usize;
        let found = sought.find(&snapshot, &input.question.0, top_k)?;
        let mut passages = Vec::new();
        for hit in &found.hits {
            passages.push(passage::keep(ctx, &snapshot, hit.id, &hit.section)?);
        }
        let wanted = Wanted::new(
            input.max_quotes,
            input.max_quote_tokens,
            input.include_context_tokens,
            options.scoring,
        );
        let quotes = quotes(ctx, &snapshot, &input.question.0, &passages, &wanted)?;
        Ok(Output {
            doubt: doubt(&quotes, &wanted),
            quotes,
            diagnostics: Diagnostics {
                candidates: passages.len(),
                session_id: ctx.caller.session(),
                diagnostic_id: options.include_debug.unwrap_or(false).then(|| {
                    diagnostics::keep(ctx, &snapshot, Self::NAME, &input.question.0, &sought, &found)
                }),
            },
            has_graph: ctx.caller.has_graph,
            duplicates: found.duplicates,
            is_degraded: found.is_degraded,
        })
    }

    fn text(output: &Output) -> String {
        shown(&output.quotes, output.doubt)
    }

    fn duplicates(output: &Output) -> usize {
        output.duplicates
    }

    fn meta(output: &Output) -> Map<String, Value> {
        let mut meta = degraded(output.is_degraded);
        meta.extend(graph_disabled(output.has_graph));
        meta
    }
}
