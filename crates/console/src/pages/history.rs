//! History: every transaction, newest first; one transaction with the versions before and after it; and undo,
//! with a preview of its effect.

use kenning_engine::Error;
use kenning_model::{EntityType, Id, Record, Transaction, TxId, clean};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::difference;
use crate::request::{Page, PageContext, Trouble};
use crate::show::{
    actor, ago, badge, counted, cut, label, moment, number, pager, record_link, scope, transaction_item,
    transaction_link,
};

const PAGE: u64 = 30;
const CHANGES_MAX: usize = 4;
/// A page shows at most this many changes of one transaction.
const SHOWN_MAX: usize = 100;
/// The largest number of transactions that are read to find those of one actor or tool.
const LOOKED_AT_MAX: u64 = 5_000;
const LOOKED_AT: u64 = 500;

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let page = ctx.fields.number("page").unwrap_or(0).min(100_000);
    let since = TxId(ctx.fields.number("since").unwrap_or(0));
    let id = match ctx.fields.get("id") {
        None => None,
        Some(text) => Some(
            Id::parse(text)
                .ok_or_else(|| Trouble::NotFound(format!("There is no id `{}`.", cut(text, 40))))?,
        ),
    };
    let entity_type = kind_of(ctx.fields.get("type"));
    let (actor, tool) = (ctx.fields.get("actor"), ctx.fields.get("tool"));
    let first = page * PAGE;
    let found = if actor.is_none() && tool.is_none() {
        let (found, total) =
            ctx.snapshot.history(id, entity_type, since, ctx.view(CHANGES_MAX), first..first + PAGE)?;
        Listed { has_more: total > first + PAGE, total: Some(total), found }
    } else {
        let is_meant = |tx: &Transaction| {
            actor.is_none_or(|actor| tx.actor == actor) && tool.is_none_or(|tool| tx.tool == tool)
        };
        looked_through(ctx, id, entity_type, since, first, is_meant)?
    };
    let names = ["actor", "tool", "type", "id", "since"];
    let kept: Vec<(&str, &str)> =
        names.iter().filter_map(|name| Some((*name, ctx.fields.get(name)?))).collect();
    Page::new(
        "History",
        html! {
            h1 { "History" @if let Some(total) = found.total { " " span.count { (counted(total, "transaction")) } } }
            (filters(ctx, &kept))
            @if found.found.is_empty() {
                section.empty { h2 { "Nothing" } p { "No transaction is like this." @if actor.is_some() || tool.is_some() { " Looked at were the last " (number(LOOKED_AT_MAX)) "." } } }
            } @else {
                form method="get" action=(format!("{}/undo", crate::BASE)) {
                    div #list data-refresh { (days(ctx, &found.found)) }
                    @if ctx.writes() { p.do-line.sticky { button type="submit" { "Undo the selected…" } } }
                }
                (pager(ctx, "/history", &kept, page, found.has_more))
            }
        },
    )
}

struct Listed {
    found: Vec<Transaction>,
    total: Option<u64>,
    has_more: bool,
}

/// Reads the newest transactions and keeps those that `is_meant` accepts, since there is no index for actors
/// and tools.
fn looked_through(
    ctx: &PageContext<'_>,
    id: Option<Id>,
    entity_type: Option<EntityType>,
    since: TxId,
    first: u64,
    is_meant: impl Fn(&Transaction) -> bool,
) -> Result<Listed, Error> {
    let mut ids = Vec::new();
    let (mut from, wanted) = (0, (first + PAGE + 1) as usize);
    while from < LOOKED_AT_MAX && ids.len() < wanted {
        let (some, total) =
            ctx.snapshot.history(id, entity_type, since, ctx.view(0), from..from + LOOKED_AT)?;
        ids.extend(some.iter().filter(|tx| is_meant(tx)).map(|tx| tx.id));
        from += LOOKED_AT;
        if from >= total {
            break;
        }
    }
    let has_more = ids.len() >= wanted;
    let mut found = Vec::new();
    for id in ids.into_iter().skip(first as usize).take(PAGE as usize) {
        found.extend(ctx.snapshot.transaction(id, ctx.view(CHANGES_MAX))?);
    }
    Ok(Listed { found, total: None, has_more })
}

fn kind_of(text: Option<&str>) -> Option<EntityType> {
    EntityType::ALL.into_iter().find(|kind| Some(kind.as_str()) == text)
}

fn filters(ctx: &PageContext<'_>, kept: &[(&str, &str)]) -> Markup {
    html! {
        form.search action=(format!("{}/history", crate::BASE)) aria-label="Filter the history" {
            @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
            label.hidden for="actor" { "Written by" }
            input #actor name="actor" value=(ctx.fields.get("actor").unwrap_or_default()) placeholder="Written by";
            label.hidden for="tool" { "With the tool" }
            input #tool name="tool" value=(ctx.fields.get("tool").unwrap_or_default()) placeholder="With the tool";
            label.hidden for="type" { "Of the type" }
            select #type name="type" {
                option value="" { "Everything" }
                @for kind in EntityType::ALL { option value=(kind.as_str()) selected[ctx.fields.get("type") == Some(kind.as_str())] { (kind.as_str()) } }
            }
            button type="submit" { "Filter" }
        }
        p.set { @for (name, value) in kept {
            @let others: Vec<(&str, &str)> = kept.iter().copied().filter(|(other, _)| other != name).collect();
            a.chip href=(ctx.link("/history", others)) title="Remove" { (name) ": " (cut(value, 60)) " ×" }
        } }
    }
}

/// The transactions grouped by the days on which they were made.
fn days(ctx: &PageContext<'_>, found: &[Transaction]) -> Markup {
    let day = |tx: &Transaction| tx.at.strftime("%A, %-d %B %Y").to_string();
    html! {
        @for some in found.chunk_by(|one, other| day(one) == day(other)) {
            section.day {
                h2 { (day(&some[0])) }
                ol.list { @for tx in some { (transaction_item(ctx, tx, ctx.writes())) } }
            }
        }
    }
}

fn parse(text: &str) -> Result<TxId, Trouble> {
    text.parse().map_err(|_| Trouble::NotFound(format!("There is no transaction `{}`.", cut(text, 40))))
}

fn transaction(ctx: &PageContext<'_>, tx: TxId) -> Result<Transaction, Trouble> {
    let unknown =
        || Trouble::NotFound(format!("There is no transaction {tx}; the newest is {}.", ctx.snapshot.at()));
    ctx.transaction(tx, SHOWN_MAX)?.ok_or_else(unknown)
}

pub(crate) fn show_transaction(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let tx = transaction(ctx, parse(ctx.id)?)?;
    let (head, own) = (ctx.snapshot.at(), tx.id.0);
    Page::new(
        format!("Transaction {}", tx.id),
        html! {
            p.crumbs { a href=(ctx.to("/history")) { "History" } }
            h1 { "Transaction " (tx.id) @if tx.undone_by.is_some() { " " span.mark.off { "undone" } } }
            p { (actor(ctx, &tx.actor)) " with " code { (clean(&tx.tool)) } ", " (moment(tx.at)) " (" (ago(ctx, tx.at)) ")"
                @for undone in &tx.undoes { ". It undoes " (transaction_link(ctx, *undone)) }
                @if let Some(by) = tx.undone_by { ". Undone by " (transaction_link(ctx, by)) }
                "."
            }
            div.do-line {
                @if ctx.writes() && tx.undone_by.is_none() {
                    a.button.first data-undo href=(ctx.to(&format!("/tx/{}/undo", tx.id))) { "Undo…" }
                }
                @if own > 1 { a.button rel="prev" href=(ctx.to(&format!("/tx/{}", own - 1))) { "← Before" } }
                @if own < head.0 { a.button rel="next" href=(ctx.to(&format!("/tx/{}", own + 1))) { "After →" } }
                a.button href=(format!("{}?as_of={own}", crate::BASE)) { "The store as of then" }
            }
            (changes(ctx, &tx))
        },
    )
}

fn changes(ctx: &PageContext<'_>, tx: &Transaction) -> Markup {
    html! {
        @if tx.changes.is_empty() { p.quiet { "Nothing that you may see was changed." } }
        @for change in &tx.changes {
            @let before = change.before.as_ref().map(|before| &before.record);
            @if let Some(record) = change.after.as_ref().or(before) {
                section.change data-item {
                    h2 {
                        (badge(change.op())) " "
                        @match record_link(ctx, change.entity_type, change.id, record) {
                            Some(address) => a data-open href=(address) { (label(record)) },
                            None => span { (label(record)) },
                        }
                        " " span.kind { (change.entity_type.as_str()) }
                        @if let Some(scope_id) = record.scope() { " " (scope(ctx, scope_id)) }
                    }
                    (difference::shown(ctx, before, change.after.as_ref()))
                }
            }
        }
        @if tx.left_out > 0 { p.quiet { "and " (counted(tx.left_out as u64, "more change")) } }
    }
}

/// The preview of an undo. It writes nothing.
pub(crate) fn show_undo(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let tx = transaction(ctx, parse(ctx.id)?)?;
    let plan = plan(ctx, tx.id);
    let back = ctx.to(&format!("/tx/{}", tx.id));
    Page::new(
        format!("Undo transaction {}", tx.id),
        html! {
            p.crumbs { a href=(ctx.to("/history")) { "History" } " / " a href=(back) { "Transaction " (tx.id) } }
            h1 { "Undo transaction " (tx.id) "?" }
            p { (actor(ctx, &tx.actor)) " made it with " code { (clean(&tx.tool)) } " " (ago(ctx, tx.at)) "." }
            @match &plan {
                Err(trouble) => { p.trouble role="alert" { (trouble.message()) } p { a.button href=(back) { "Back" } } },
                Ok(_) => {
                    div.do-line {
                        form.inline method="post" action=(format!("{}/do/undo", crate::BASE)) {
                            input type="hidden" name="token" value=(ctx.visitor.form_token);
                            input type="hidden" name="back" value=(back);
                            input type="hidden" name="tx" value=(tx.id);
                            button.first type="submit" data-undo { "Undo it" }
                        }
                        a.button href=(back) { "Cancel" }
                    }
                    h2 { "What that would do" }
                    (reversed(ctx, &tx))
                    p.quiet { "Nothing is lost: the undo is a transaction too, and can be undone." }
                },
            }
        },
    )
}

/// The tool's dry run of an undo, or the reason why it is impossible.
fn plan(ctx: &PageContext<'_>, tx: TxId) -> Result<Value, Trouble> {
    let arguments = json!({"tx_id": tx.0, "any_actor": true, "dry_run": true});
    let Value::Object(arguments) = arguments else { return Err(Trouble::NotFound(String::new())) };
    ctx.call("undo", arguments)
}

/// The inverse of a transaction's changes.
fn reversed(ctx: &PageContext<'_>, tx: &Transaction) -> Markup {
    html! {
        @for change in &tx.changes {
            @let before = change.before.as_ref().map(|before| &before.record);
            @if let Some(record) = before.or(change.after.as_ref()) {
                section.change {
                    h3 { (what_undo_does(before, change.after.as_ref())) " " span { (label(record)) } " " span.kind { (change.entity_type.as_str()) } }
                    @if before.is_some() && change.after.is_some() { (difference::shown(ctx, change.after.as_ref(), before)) }
                }
            }
        }
        @if tx.left_out > 0 { p.quiet { "and " (counted(tx.left_out as u64, "more change")) } }
    }
}

fn what_undo_does(before: Option<&Record>, after: Option<&Record>) -> &'static str {
    match (before, after) {
        (None, _) => "removes",
        (Some(_), None) => "brings back",
        (Some(_), Some(_)) => "changes back",
    }
}

/// The preview of undoing several transactions.
pub(crate) fn show_undo_many(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let mut all: Vec<TxId> = ctx.fields.all("tx").filter_map(|tx| tx.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all.reverse();
    let found = all.iter().map(|tx| transaction(ctx, *tx)).collect::<Result<Vec<_>, _>>()?;
    Page::new(
        "Undo several",
        html! {
            p.crumbs { a href=(ctx.to("/history")) { "History" } }
            h1 { "Undo " (counted(found.len() as u64, "transaction")) "?" }
            @if found.is_empty() { p { "Select transactions in the " a href=(ctx.to("/history")) { "history" } " first." } }
            @else {
                p.quiet { "The newest first, each by a transaction of its own. If one can't be undone, those before it in this list stay undone." }
                form method="post" action=(format!("{}/do/undo", crate::BASE)) {
                    input type="hidden" name="token" value=(ctx.visitor.form_token);
                    input type="hidden" name="back" value=(ctx.to("/history"));
                    @for tx in &found { input type="hidden" name="tx" value=(tx.id); }
                    p.do-line { button.first type="submit" { "Undo them" } a.button href=(ctx.to("/history")) { "Cancel" } }
                }
                @for tx in &found {
                    section { h2 { "#" (tx.id) " " (actor(ctx, &tx.actor)) " " (ago(ctx, tx.at)) }
                        @if let Err(trouble) = plan(ctx, tx.id) { p.trouble { (trouble.message()) } }
                        (reversed(ctx, tx))
                    }
                }
            }
        },
    )
}
