//! How a search came to its results. It is kept beside the passages for debugging and never part of a reply.

use kenning_engine::Snapshot;
use serde_json::json;

use super::document_search::{DocumentSearch, Hit, Hits};
use super::search::rounded;
use crate::Context;

pub(super) fn keep(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    tool: &str,
    question: &str,
    search: &DocumentSearch,
    found: &Hits,
) -> String {
    let candidate = |(rank, hit): (usize, &Hit)| {
        let parts = hit.why.as_ref();
        json!({
            "rank": rank,
            "section_id": hit.id,
            "title": hit.section.title(),
            "source": hit.source,
            "score": rounded(hit.score),
            "lexical": parts.map(|why| rounded(why.lexical)),
            "dense": parts.map(|why| rounded(why.dense)),
            "matched_terms": parts.map(|why| &why.matched_terms),
        })
    };
    let candidates: Vec<_> = (1..).zip(&found.hits).map(candidate).collect();
    let trace = json!({
        "tool": tool,
        "question": kenning_presentation::text::clean(question),
        "at": ctx.engine.now().to_string(),
        "as_of_tx_id": snapshot.at(),
        "scope": ctx.caller.scope,
        "mode": if search.follows_links() { "hybrid_local" } else { "vector_only" },
        "degraded": found.is_degraded,
        "duplicates_suppressed": found.duplicates,
        "candidates": candidates,
    });
    let handle = ctx.engine.new_handle();
    ctx.caller.scratch.put_trace(&ctx.caller.scratch_owner(snapshot), &handle, trace.to_string());
    handle
}
