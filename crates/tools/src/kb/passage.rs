//! Passages as the tools return them: a handle, a URI and a title.

use std::ops::Range;
use std::sync::Arc;

use kenning_engine::{FoundText, QuoteLimits, Scoring, Sight, Snapshot};
use kenning_model::{Id, Section};

use crate::documents::Scope;
use crate::scratch::Passage;
use crate::tool::sight;
use crate::{Code, Context, Stop};

/// The URI of the resource with the whole text of a passage.
pub(super) fn uri(ctx: &Context<'_>, handle: &str) -> String {
    format!("kenning://scratch/{}/{handle}", ctx.caller.session())
}

/// Keeps a section for the caller and returns its handle. A section that was found before keeps its handle.
pub(super) fn keep(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    id: Id,
    section: &Section,
) -> Result<(String, Arc<Passage>), Stop> {
    let (scratch, owner) = (&ctx.caller.scratch, ctx.caller.scratch_owner(snapshot));
    if let Some(kept) = scratch.kept(&owner, id, section.version) {
        return Ok(kept);
    }
    let stored = snapshot.document(section.document)?;
    let path = stored.as_ref().and_then(|stored| stored.record.as_document()).map_or("", |it| &it.path);
    let (handle, passage) = (ctx.engine.new_handle(), Passage::new(id, section, path, ctx.engine.now()));
    let kept = scratch.keep(&owner, &handle, (id, section.version), passage);
    Ok((handle, kept))
}

/// The passage with this handle; or, if `name` is the id of a section, a passage for that section.
pub(super) fn find(ctx: &Context<'_>, name: &str, scope: &Scope) -> Result<(String, Arc<Passage>), Stop> {
    scope.check(ctx)?;
    let snapshot = ctx.snapshot()?;
    let (handle, kept) = match ctx.caller.scratch.get(&ctx.caller.scratch_owner(&snapshot), name) {
        Some(kept) => (name.to_owned(), kept),
        None => of_section(ctx, &snapshot, name)?.ok_or_else(|| {
            let shown = kenning_presentation::text::quote(name, 64);
            Stop::new(
                Code::NotFound,
                format!("there is no passage {shown} any more, or never was; search again with `kb_search` for a new one"),
            )
        })?,
    };
    match kept.labels().fit(&scope.labels()) {
        true => Ok((handle, kept)),
        false => {
            let message = format!(
                "passage `{handle}` is outside of the `scope` of this call; leave it out or widen it"
            );
            Err(Stop::new(Code::ScopeViolation, message))
        }
    }
}

fn of_section(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    name: &str,
) -> Result<Option<(String, Arc<Passage>)>, Stop> {
    let Some(id) = Id::parse(name) else { return Ok(None) };
    let sight = sight(snapshot, &ctx.scope_name(None)?)?;
    let stored = snapshot.section(id)?.filter(|stored| sight.sees_record(&stored.record));
    let section = stored.as_ref().and_then(|stored| stored.record.as_section());
    section.map(|section| keep(ctx, snapshot, id, section)).transpose()
}

/// Up to three sentences that answer the question best, in the order of the text, within `chars_max`; and the
/// range of the best sentence.
pub(super) fn preview(
    snapshot: &Snapshot<'_>,
    sight: &Sight,
    question: &str,
    source: &FoundText<'_>,
    chars_max: usize,
    scoring: Scoring,
) -> Result<(String, Range<usize>), Stop> {
    const SENTENCES: usize = 3;
    let most = QuoteLimits { quotes: SENTENCES, bytes: chars_max, ..QuoteLimits::default() };
    let quotes = snapshot.section_quotes(sight, question, std::slice::from_ref(source), most, scoring)?;
    let text = source.text;
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
