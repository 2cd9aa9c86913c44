//! Pairs of entries that contradict or repeat each other, side by side; one click settles a pair.

use kenning_model::{Entry, Id, TxId, clean};
use maud::{Markup, html};

use crate::difference;
use crate::request::{Ask, Page, Trouble};
use crate::review::{Kind, Progress, Waiting};
use crate::show::{actor, ago, button, counted, entry_label, number, scope, tags, transaction_link};

const PAGE: usize = 20;
/// The largest number of pairs that are counted.
const COUNTED_MAX: usize = 500;

pub(crate) fn show(ask: &Ask<'_>) -> Result<Page, Trouble> {
    let kind = match ask.fields.get("kind") {
        Some("duplicates") => Kind::Duplicate,
        _ => Kind::Contradiction,
    };
    let Progress { looked_at, total, is_whole } = ask.console.review.progress();
    let waiting = ask.console.review.waiting(ask, kind, COUNTED_MAX)?;
    let page = ask.fields.number("page").unwrap_or(0) as usize;
    let noun = if kind == Kind::Contradiction { "likely contradiction" } else { "near-duplicate" };
    let tabs = [
        (Kind::Contradiction, "Contradictions", ask.to("/contradictions")),
        (Kind::Duplicate, "Near-duplicates", ask.link("/contradictions", [("kind", "duplicates")])),
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
            ol.pairs { @for pair in waiting.iter().skip(page * PAGE).take(PAGE) { (pair_item(ask, pair)) } }
            (crate::show::pager(ask, "/contradictions", kept, page as u64, has_more))
        },
    )
}

fn pair_item(ask: &Ask<'_>, pair: &Waiting) -> Markup {
    let [newer, older] = &pair.entries;
    html! {
        li.pair data-item {
            (side(ask, newer, &older.0, difference::words(&clean(&older.2.content), &clean(&newer.2.content)), "Newer", pair.kind))
            (side(ask, older, &newer.0, html! { (clean(&older.2.content)) }, "Older", pair.kind))
        }
    }
}

fn side(
    ask: &Ask<'_>,
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
            h2 { a data-open href=(ask.to(&format!("/entry/{id}"))) { (entry_label(entry)) } }
            p.text { (text) }
            p.meta { span.kind { (age) } " " (scope(ask, entry.scope)) (tags(ask, &entry.tags)) " " (actor(ask, &entry.actor)) " " (ago(ask, entry.updated_at.unwrap_or(entry.recorded_at))) " " (transaction_link(ask, *tx)) }
            @if ask.writes() { p.do-line { (button(ask, "keep", label, &[("id", &own), ("other", &other)], "first")) } }
        }
    }
}
