//! Pairs of entries that contradict or repeat each other, side by side; one click settles a pair.

use kenning_model::{Entry, Id, TxId, clean};
use maud::{Markup, html};

use crate::difference;
use crate::request::{Page, PageContext, Trouble};
use crate::review::{Kind, Progress, Waiting};
use crate::show::{actor, ago, button, counted, entry_label, number, scope, tags, transaction_link};

const PAGE: usize = 20;
/// The largest number of pairs that are counted.
const COUNTED_MAX: usize = 500;

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let kind = match ctx.fields.get("kind") {
        Some("duplicates") => Kind::Duplicate,
        _ => Kind::Contradiction,
    };
    let Progress { looked_at, total, is_whole } = ctx.console.review.progress();
    let waiting = ctx.console.review.waiting(ctx, kind, COUNTED_MAX)?;
    let page = ctx.fields.number("page").unwrap_or(0) as usize;
    let noun = if kind == Kind::Contradiction { "likely contradiction" } else { "near-duplicate" };
    let tabs = [
        (Kind::Contradiction, "Contradictions", ctx.to("/contradictions")),
        (Kind::Duplicate, "Near-duplicates", ctx.link("/contradictions", [("kind", "duplicates")])),
    ];
    let kept: &[(&str, &str)] = if kind == Kind::Duplicate { &[("kind", "duplicates")] } else { &[] };
    let has_more = waiting.len() > (page + 1) * PAGE;
    Page::new(
        "Contradictions",
        html! {
            h1 { (counted(waiting.len() as u64, noun)) @if waiting.len() == COUNTED_MAX { " or more" } }
            nav.tabs aria-label="Kinds" { @for (of, name, address) in tabs { a href=(address) aria-current=[(of == kind).then_some("true")] { (name) } } }
            p.quiet {
                "Of two entries one can hold; the other is suppressed: agents no longer get it, and it can be shown again."
                @if !is_whole { " Looking through the entries: " (number(looked_at)) " of " (number(total)) "." }
            }
            @if waiting.is_empty() {
                section.empty { h2 { @if is_whole { "Nothing to decide" } @else { "Nothing yet" } } }
            }
            ol.pairs { @for pair in waiting.iter().skip(page * PAGE).take(PAGE) { (pair_item(ctx, pair)) } }
            (crate::show::pager(ctx, "/contradictions", kept, page as u64, has_more))
        },
    )
}

fn pair_item(ctx: &PageContext<'_>, pair: &Waiting) -> Markup {
    let [newer, older] = &pair.entries;
    html! {
        li.pair data-item {
            (side(ctx, newer, &older.0, difference::words(&clean(&older.2.content), &clean(&newer.2.content)), "Newer", pair.kind))
            (side(ctx, older, &newer.0, html! { (clean(&older.2.content)) }, "Older", pair.kind))
        }
    }
}

fn side(
    ctx: &PageContext<'_>,
    (id, tx, entry): &(Id, TxId, Entry),
    other: &Id,
    text: Markup,
    age: &str,
    kind: Kind,
) -> Markup {
    let (own, other) = (id.to_string(), other.to_string());
    let label = if kind == Kind::Contradiction { "This one holds" } else { "Keep this one" };
    html! {
        article.side {
            h2 { a data-open href=(ctx.to(&format!("/entry/{id}"))) { (entry_label(entry)) } }
            p.text { (text) }
            p.meta { span.kind { (age) } " " (scope(ctx, entry.scope)) (tags(ctx, &entry.tags)) " " (actor(ctx, &entry.actor)) " " (ago(ctx, entry.updated_at.unwrap_or(entry.recorded_at))) " " (transaction_link(ctx, *tx)) }
            @if ctx.writes() { p.do-line { (button(ctx, "keep", label, &[("id", &own), ("other", &other)], "first")) } }
        }
    }
}
