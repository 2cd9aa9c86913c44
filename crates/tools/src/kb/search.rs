//! `kb.search`: the sections to read, each with the sentences that answer best, but without the rest of their
//! text.

use kenning_engine::{Scoring, Sight, Snapshot, passage_ranges};
use kenning_model::Id;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_presentation::{Answer, Link};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document_search::{DocumentSearch, Filters, Hit, Manner, Mode, Source};
use super::{diagnostics, passage};
use crate::arguments::{CONTEXT_BYTES_MAX, Text, Whole};
use crate::code::counted;
use crate::documents::Scope;
use crate::memory::item::{as_data, one_line};
use crate::memory::query::degraded;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, ListTool, TableRow, Tool};
use crate::{Context, Stop};

pub(crate) struct Search;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    query: Text<CONTEXT_BYTES_MAX>,
    top_k: Option<Whole<1, 20>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    page_size: Option<Whole<1, 20>>,
    scope: Option<Scope>,
    filters: Option<Filters>,
    options: Option<Options>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    max_snippet_chars: Option<Whole<60, 500>>,
    /// 0 is any number.
    max_per_doc: Option<Whole<0, 20>>,
    include_scores: Option<bool>,
    include_debug: Option<bool>,
    mode: Option<Mode>,
    /// Default true.
    rewrite: Option<bool>,
    scoring: Option<HowScored>,
}

// How the sentences of a preview are chosen.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HowScored {
    Weighted,
    Overlap,
}

impl From<HowScored> for Scoring {
    fn from(scored: HowScored) -> Scoring {
        match scored {
            HowScored::Weighted => Scoring::Weighted,
            HowScored::Overlap => Scoring::Overlap,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    results: Vec<SearchResult>,
    next_cursor: Option<String>,
    /// There are more on a next page.
    partial: bool,
    /// page_size, byte_cap or none.
    limit_reason: &'static str,
    session_id: String,
    /// `kenning://diagnostics/{diagnostic_id}` tells how these came to be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    diagnostic_id: Option<String>,
    /// Of passages, if there are more than these.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    total_count: Option<u64>,
    #[serde(flatten)]
    set: Option<Attached>,
}

#[derive(Serialize, JsonSchema)]
struct SearchResult {
    passage_id: String,
    section_id: String,
    doc_tag: String,
    title: String,
    /// Of the document, below what was taken in.
    path: String,
    rank: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    score: Option<f64>,
    source: Source,
    preview: String,
    scratch_uri: String,
    size_bytes: usize,
    anchor: Option<String>,
}

pub(super) const TOP_K_DEFAULT: u64 = 5;
const MAX_PER_DOC_DEFAULT: u64 = 1;
const SNIPPET_CHARS_DEFAULT: u64 = 280;

impl Tool for Search {
    const NAME: &'static str = "kb.search";
    const ABOUT: &'static str = "Find sections of ingested documents; previews are the sentences that answer best. \
        Use to explore, or to choose what to read. Do not use for a question (`kb_retrieve_evidence`) or remembered facts (`query`). \
        Returns at most `top_k` (default 5, max 20) results, one per document, never whole text; read with `kb_read_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let options = input.options.unwrap_or_default();
        let query = input.query.0;
        let top_k = input.top_k.map_or(TOP_K_DEFAULT, |many| many.0);
        let (scope, filters) = (input.scope.unwrap_or_default(), input.filters.unwrap_or_default());
        let manner = Manner {
            max_per_doc: options.max_per_doc.map_or(MAX_PER_DOC_DEFAULT, |many| many.0),
            mode: options.mode.unwrap_or_default(),
            rewrites: options.rewrite.unwrap_or(true),
        };
        let (caller_scope, labels) = (&ctx.caller.scope, scope.labels());
        let name = format!("kb.search {caller_scope} {query:?} {top_k} {labels:?} {filters:?} {manner:?}");
        let page_size = input.page_size.map_or(TOP_K_DEFAULT, |many| many.0);
        let cursor = input.cursor.as_ref().map(|cursor| cursor.0.as_str());
        let listing = ctx.listing(name, page_size, cursor, None)?;
        let snapshot = &listing.snapshot;
        let search = DocumentSearch::new(ctx, snapshot, &scope, &filters, manner)?;
        let found = search.find(snapshot, &query, top_k as usize)?;
        let is_debugged = options.include_debug.unwrap_or(false);
        let previews = Previews {
            ctx,
            snapshot,
            sight: &search.sight,
            query: &query,
            chars: options.max_snippet_chars.map_or(SNIPPET_CHARS_DEFAULT, |chars| chars.0) as usize,
            scoring: options.scoring.map(Scoring::from).unwrap_or_default(),
            has_scores: is_debugged || options.include_scores.unwrap_or(false),
        };
        let shown = (1..).zip(&found.hits).skip(listing.rows().start as usize).take(page_size as usize);
        let results = shown.map(|(rank, hit)| previews.show(rank, hit)).collect::<Result<Vec<_>, _>>()?;
        let all = results.len();
        let results = take_rows(results, ROWS_BYTES_MAX, |row| row);
        let is_cut = results.len() < all;
        let page = listing.end(results, found.hits.len() as u64)?;
        let passages = found.passages.filter(|passages| *passages > page.items.len() as u64);
        let set = passages.and_then(|passages| ctx.set::<Self>(&listing, "Passages", passages));
        let output = Output {
            total_count: set.as_ref().map(|set| set.metadata.total_count),
            set,
            results: page.items,
            partial: page.next_cursor.is_some(),
            limit_reason: match (is_cut, &page.next_cursor) {
                (true, _) => "byte_cap",
                (false, Some(_)) => "page_size",
                (false, None) => "none",
            },
            next_cursor: page.next_cursor,
            session_id: ctx.caller.session(),
            diagnostic_id: is_debugged
                .then(|| diagnostics::keep(ctx, snapshot, Self::NAME, &query, &search, &found)),
        };
        ctx.record_shown(output.results.iter().filter_map(|found| Id::parse(&found.section_id)));
        let now = ctx.engine.now().to_string();
        Ok(Answer {
            set: output.set.as_ref().map(Attached::reference),
            links: output.results.iter().map(|found| found.link(&now)).collect(),
            duplicates: found.duplicates,
            meta: search_meta(found.is_degraded, ctx.caller.has_graph),
            ..Answer::text(output, |output| text(output, &query, search.is_narrowed()))
        })
    }
}

impl ListTool for Search {
    type Row = PassageRow;

    /// Every passage that matches, best first, with any number per document. The rows do not contain the
    /// text, because whole passages in every row would cost a model far more than the list is worth;
    /// `kb.read_excerpt` reads them.
    fn rows(ctx: &Context<'_>, input: Input) -> Result<Vec<PassageRow>, Stop> {
        let options = input.options.unwrap_or_default();
        let (scope, filters) = (input.scope.unwrap_or_default(), input.filters.unwrap_or_default());
        let manner =
            Manner { max_per_doc: 0, mode: Mode::VectorOnly, rewrites: options.rewrite.unwrap_or(true) };
        let listing = ctx.listing(String::new(), 1, None, None)?;
        let search = DocumentSearch::new(ctx, &listing.snapshot, &scope, &filters, manner)?;
        let passages = search.passages(&listing.snapshot, &input.query.0, listing.rows())?;
        let ranked = (listing.rows().start + 1..).zip(passages);
        let row = ranked.map(|(rank, passage)| PassageRow {
            rank,
            title: passage.section.title(),
            path: passage.path,
            doc_tag: passage.section.doc_tag.clone(),
            section_id: passage.id.to_string(),
            score: rounded(passage.score),
        });
        Ok(row.collect())
    }
}

/// A row of a result set of passages.
#[derive(Serialize)]
pub(crate) struct PassageRow {
    rank: u64,
    title: String,
    path: String,
    doc_tag: String,
    section_id: String,
    score: f64,
}

impl TableRow for PassageRow {
    const COLUMNS: Columns = &[
        ("rank", "integer"),
        ("title", "string"),
        ("path", "string"),
        ("doc_tag", "string"),
        ("section_id", "string"),
        ("score", "number"),
    ];
}

/// Shows each section that was found with a preview.
struct Previews<'a> {
    ctx: &'a Context<'a>,
    snapshot: &'a Snapshot<'a>,
    sight: &'a Sight,
    query: &'a str,
    chars: usize,
    scoring: Scoring,
    has_scores: bool,
}

impl Previews<'_> {
    /// Keeps a section for the caller, and shows the sentences of its best passage that answer best.
    fn show(&self, rank: u64, hit: &Hit) -> Result<SearchResult, Stop> {
        let (handle, kept) = passage::keep(self.ctx, self.snapshot, hit.id, &hit.section)?;
        let best_passage = hit.passages.first();
        let within = best_passage.and_then(|(number, _)| passage_ranges(&kept.text).into_iter().nth(*number));
        let within = within.unwrap_or(0..kept.text.len());
        let source = kenning_engine::FoundText::new(&kept.title, &kept.text[within.clone()]);
        let (preview, best) =
            passage::preview(self.snapshot, self.sight, self.query, &source, self.chars, self.scoring)?;
        kept.was_read(within.start + best.start..within.start + best.end);
        Ok(SearchResult {
            scratch_uri: passage::uri(self.ctx, &handle),
            passage_id: handle,
            section_id: kept.section_id.clone(),
            doc_tag: kept.doc_tag.clone(),
            title: kept.title.clone(),
            path: kept.path.clone(),
            rank,
            score: self.has_scores.then_some(rounded(hit.score)),
            source: hit.source,
            preview,
            size_bytes: kept.text.len(),
            anchor: Some(hit.section.anchor.clone()).filter(|anchor| !anchor.is_empty()),
        })
    }
}

impl SearchResult {
    fn link(&self, last_modified: &str) -> Link {
        Link {
            uri: self.scratch_uri.clone(),
            name: self.title.clone(),
            bytes: Some(self.size_bytes as u64),
            last_modified: last_modified.to_owned(),
        }
    }
}

fn text(output: &Output, query: &str, is_narrowed: bool) -> String {
    let query = kenning_presentation::text::quote(query, 200);
    if output.results.is_empty() && is_narrowed {
        return format!(
            "Found no section for {query} within `scope` and `filters`; leave them out to look further."
        );
    }
    if output.results.is_empty() {
        return format!(
            "Found no section for {query}. Try other words; `kenning ingest DIR` takes documents in."
        );
    }
    let line = |found: &SearchResult| {
        let SearchResult { rank, passage_id, section_id, preview, .. } = found;
        let [title, path] = [&found.title, &found.path].map(|text| one_line(text, 300));
        let doc_tag = one_line(&found.doc_tag, 64);
        let by = if found.source == Source::GraphExpanded { " (over the graph)" } else { "" };
        format!(
            "{rank}. {title} [{doc_tag}] {path}{by}, section {section_id}, passage {passage_id}\n   {preview}"
        )
    };
    let lines: Vec<String> = output.results.iter().map(line).collect();
    let more = match &output.next_cursor {
        Some(cursor) => format!("\nFor more pass `cursor`: \"{cursor}\"."),
        None => String::new(),
    };
    let debugged = match &output.diagnostic_id {
        Some(id) => format!("\nHow they were found: kenning://diagnostics/{id}"),
        None => String::new(),
    };
    format!(
        "Found {} for {query}. {}\nRead one with `kb_read_excerpt`, quote from several with `kb_extract_evidence`.{more}{debugged}",
        counted(output.results.len(), "section"),
        as_data(&lines.join("\n"))
    )
}

/// Reports in the metadata when vectors were missing, and when the graph is off: then links were not
/// followed, and there are no graph tools.
pub(super) fn search_meta(is_degraded: bool, has_graph: bool) -> Map<String, Value> {
    let mut meta = degraded(is_degraded);
    if !has_graph {
        meta.insert("io.kenning/graph_disabled".to_owned(), Value::Bool(true));
    }
    meta
}

/// Rounds a score to six decimal places; these are the same on every machine.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 1e6).round() / 1e6
}
