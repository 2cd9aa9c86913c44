//! `search_sections`: `kb.search` with its old reply, which has a field for every signal; a signal that no
//! longer exists is null.

use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Meta;
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Text, Whole};
use crate::code::counted;
use crate::kb::document_search::{DocumentSearch, Filters, Hit, Manner, Mode, Source};
use crate::kb::search::rounded;
use crate::memory::item::{as_data, one_line};
use crate::tool::{Effect, Tool};
use crate::{Context, Listing, Stop};

pub(super) struct SearchSections;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    query: Text<CONTEXT_BYTES_MAX>,
    top_k: Option<Whole<1, 100>>,
    filters: Option<Filters>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    page_size: Option<Whole<1, 100>>,
    // Accepted for old clients, and ignored.
    #[serde(rename = "session_id")]
    _session_id: Option<Text<NAME_BYTES_MAX>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    results: Vec<SectionResult>,
    cursor: Option<String>,
    next_cursor: Option<String>,
    partial: bool,
    limit_reason: &'static str,
    session_id: String,
    meta: Meta,
}

#[derive(Serialize, JsonSchema)]
struct SectionResult {
    section_id: String,
    title: String,
    tokens: usize,
    doc_tag: String,
    score: f64,
    rank: u64,
    source: Source,
    fusion_method: &'static str,
    fused_score: f64,
    title_vec_score: Option<f64>,
    entity_vec_score: Option<f64>,
    doc_title_sparse_score: Option<f64>,
    lexical_vec_score: Option<f64>,
    rerank_score: Option<f64>,
    graph_score: Option<f64>,
    graph_distance: Option<u8>,
    connection_count: usize,
    mention_count: usize,
    entity_boost_applied: bool,
    entity_metadata: Option<Map<String, Value>>,
    rrf_field_contributions: Option<Map<String, Value>>,
}

const TOP_K_DEFAULT: u64 = 20;
const PAGE_SIZE_DEFAULT: u64 = 25;

impl Tool for SearchSections {
    const NAME: &'static str = "search_sections";
    const ABOUT: &'static str = "Old `kb_search`: no previews, every score. Use if told to. Do not use otherwise. \
        Returns at most `page_size` (25, max 100) of `top_k` (20, max 100) sections.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let filters = input.filters.unwrap_or_default();
        let top_k = input.top_k.map_or(TOP_K_DEFAULT, |many| many.0);
        let cursor = input.cursor.map(|cursor| cursor.0);
        let listing = Listing::begin(
            ctx.engine,
            &ctx.caller.principal,
            format!("search_sections {} {:?} {top_k} {filters:?}", ctx.caller.scope, input.query.0),
            input.page_size.map_or(PAGE_SIZE_DEFAULT, |size| size.0),
            cursor.as_deref(),
            None,
        )?;
        let manner = Manner { max_per_doc: 0, mode: Mode::Auto, rewrites: true };
        let search = DocumentSearch::new(ctx, &listing.snapshot, &Default::default(), &filters, manner)?;
        let found = search.find(&listing.snapshot, &input.query.0, top_k as usize)?;
        let rows = listing.rows();
        let shown = (1..).zip(&found.hits).skip(rows.start as usize).take((rows.end - rows.start) as usize);
        let results: Vec<SectionResult> = shown.map(|(rank, hit)| row(rank, hit)).collect();
        let all = results.len();
        let results = take_rows(results, ROWS_BYTES_MAX, |row| row);
        let is_cut = results.len() < all;
        let page = listing.end(results, found.hits.len() as u64)?;
        let output = Output {
            meta: Meta::of(&page.items, found.duplicates),
            results: page.items,
            cursor,
            partial: page.next_cursor.is_some(),
            limit_reason: match (is_cut, &page.next_cursor) {
                (true, _) => "byte_cap",
                (false, Some(_)) => "page_size",
                (false, None) => "none",
            },
            next_cursor: page.next_cursor,
            session_id: ctx.caller.session(),
        };
        Ok(Answer { duplicates: found.duplicates, ..Answer::text(output, text) })
    }
}

fn text(output: &Output) -> String {
    let said = format!("Found {}.", counted(output.results.len(), "section"));
    let line = |found: &SectionResult| {
        let SectionResult { rank, section_id, title, doc_tag, score, .. } = found;
        format!("{rank}. {section_id} {} [{}] {score}", one_line(title, 300), one_line(doc_tag, 64))
    };
    let more = match &output.next_cursor {
        Some(cursor) => format!("\nFor more pass `cursor`: \"{cursor}\"."),
        None => String::new(),
    };
    match output.results.is_empty() {
        true => said,
        false => {
            let lines: Vec<String> = output.results.iter().map(line).collect();
            format!("{said} {}{more}", as_data(&lines.join("\n")))
        }
    }
}

fn row(rank: u64, hit: &Hit) -> SectionResult {
    let score = rounded(hit.score);
    let section = &hit.section;
    let is_linked = hit.source == Source::GraphExpanded;
    SectionResult {
        section_id: hit.id.to_string(),
        title: section.title(),
        tokens: section.text.len().div_ceil(4),
        doc_tag: kenning_presentation::text::clean(&section.doc_tag),
        score,
        rank,
        source: hit.source,
        fusion_method: "convex",
        fused_score: score,
        title_vec_score: None,
        entity_vec_score: None,
        doc_title_sparse_score: None,
        lexical_vec_score: hit.why.as_ref().map(|why| rounded(why.lexical)),
        rerank_score: None,
        graph_score: is_linked.then_some(score),
        graph_distance: is_linked.then_some(1),
        connection_count: section.links.iter().filter(|link| link.leads()).count(),
        mention_count: section.mentions.len(),
        entity_boost_applied: false,
        entity_metadata: None,
        rrf_field_contributions: None,
    }
}
