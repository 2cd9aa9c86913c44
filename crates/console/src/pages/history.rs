//! History: every transaction, newest first; one transaction with the versions before and after it; and undo,
//! with a preview of its effect.

use kenning_engine::Error;
use kenning_model::{EntityType, Id, Record, Transaction, TxId, clean};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::difference;
use crate::request::{Ask, Page, Trouble};
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

pub(crate) fn show(ask: &Ask<'_>) -> Result<Page, Trouble> {
    let page = ask.fields.number("page").unwrap_or(0).min(100_000);
    let since = TxId(ask.fields.number("since").unwrap_or(0));
    let id = match ask.fields.get("id") {
        None => None,
        Some(text) => Some(
            Id::parse(text)
                .ok_or_else(|| Trouble::NotFound(format!("There is no id `{}`.", cut(text, 40))))?,
        ),
    };
    let entity_type = kind_of(ask.fields.get("type"));
    let (actor, tool) = (ask.fields.get("actor"), ask.fields.get("tool"));
    let first = page * PAGE;
    let found = if actor.is_none() && tool.is_none() {
        let (found, total) =
            ask.snapshot.history(id, entity_type, since, ask.view(CHANGES_MAX), first..first + PAGE)?;
        Listed { has_more: total > first + PAGE, total: Some(total), found }
    } else {
        let is_meant = |tx: &Transaction| {
            actor.is_none_or(|actor| tx.actor == actor) && tool.is_none_or(|tool| tx.tool == tool)
        };
        looked_through(ask, id, entity_type, since, first, is_meant)?
    };
    let names = ["actor", "tool", "type", "id", "since"];
    let kept: Vec<(&str, &str)> =
        names.iter().filter_map(|name| Some((*name, ask.fields.get(name)?))).collect();
    Page::new(
        "History",
        html! {
            h1 { "History" @if let Some(total) = found.total { " " span.count { (counted(total, "transaction")) } } }
            (filters(ask, &kept))
            @if found.found.is_empty() {
                section.empty { h2 { "Nothing" } p { "No transaction is like this." @if actor.is_some() || tool.is_some() { " Looked at were the last " (number(LOOKED_AT_MAX)) "." } } }
            } @else {
                form method="get" action=(format!("{}/undo", crate::BASE)) {
                    div #list data-refresh { (days(ask, &found.found)) }
                    @if ask.writes() { p.do-line.sticky { button type="submit" { "Undo the selected…" } } }
                }
                (pager(ask, "/history", &kept, page, found.has_more))
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
    ask: &Ask<'_>,
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
            ask.snapshot.history(id, entity_type, since, ask.view(0), from..from + LOOKED_AT)?;
        ids.extend(some.iter().filter(|tx| is_meant(tx)).map(|tx| tx.id));
        from += LOOKED_AT;
        if from >= total {
            break;
        }
    }
    let has_more = ids.len() >= wanted;
    let mut found = Vec::new();
    for id in ids.into_iter().skip(first as usize).take(PAGE as usize) {
        found.extend(ask.snapshot.transaction(id, ask.view(CHANGES_MAX))?);
    }
    Ok(Listed { found, total: None, has_more })
}

fn kind_of(text: Option<&str>) -> Option<EntityType> {
    EntityType::ALL.into_iter().find(|kind| Some(kind.as_str()) == text)
}

fn filters(ask: &Ask<'_>, kept: &[(&str, &str)]) -> Markup {
    html! {
        form.search action=(format!("{}/history", crate::BASE)) aria-label="Filter the history" {
            @if let Some(tx) = ask.as_of { input type="hidden" name="as_of" value=(tx); }
            label.hidden for="actor" { "Written by" }
            input #actor name="actor" value=(ask.fields.get("actor").unwrap_or_default()) placeholder="Written by";
            label.hidden for="tool" { "With the tool" }
            input #tool name="tool" value=(ask.fields.get("tool").unwrap_or_default()) placeholder="With the tool";
            label.hidden for="type" { "Of the type" }
            select #type name="type" {
                option value="" { "Everything" }
                @for kind in EntityType::ALL { option value=(kind.as_str()) selected[ask.fields.get("type") == Some(kind.as_str())] { (kind.as_str()) } }
            }
            button type="submit" { "Filter" }
        }
        p.set { @for (name, value) in kept {
            @let others: Vec<(&str, &str)> = kept.iter().copied().filter(|(other, _)| other != name).collect();
            a.chip href=(ask.link("/history", others)) title="Remove" { (name) ": " (cut(value, 60)) " ×" }
        } }
    }
}

/// The transactions grouped by the days on which they were made.
fn days(ask: &Ask<'_>, found: &[Transaction]) -> Markup {
    let day = |tx: &Transaction| tx.at.strftime("%A, %-d %B %Y").to_string();
    html! {
        @for some in found.chunk_by(|one, other| day(one) == day(other)) {
            section.day {
                h2 { (day(&some[0])) }
                ol.list { @for tx in some { (transaction_item(ask, tx, ask.writes())) } }
            }
        }
    }
}

fn parse(text: &str) -> Result<TxId, Trouble> {
    text.parse().map_err(|_| Trouble::NotFound(format!("There is no transaction `{}`.", cut(text, 40))))
}

fn transaction(ask: &Ask<'_>, tx: TxId) -> Result<Transaction, Trouble> {
    let unknown =
        || Trouble::NotFound(format!("There is no transaction {tx}; the newest is {}.", ask.snapshot.at()));
    ask.transaction(tx, SHOWN_MAX)?.ok_or_else(unknown)
}

pub(crate) fn show_transaction(ask: &Ask<'_>) -> Result<Page, Trouble> {
    let tx = transaction(ask, parse(ask.id)?)?;
    let (head, own) = (ask.snapshot.at(), tx.id.0);
    Page::new(
        format!("Transaction {}", tx.id),
        html! {
            p.crumbs { a href=(ask.to("/history")) { "History" } }
            h1 { "Transaction " (tx.id) @if tx.undone_by.is_some() { " " span.mark.off { "undone" } } }
            p { (actor(ask, &tx.actor)) " with " code { (clean(&tx.tool)) } ", " (moment(tx.at)) " (" (ago(ask, tx.at)) ")"
                @for undone in &tx.undoes { ". It undoes " (transaction_link(ask, *undone)) }
                @if let Some(by) = tx.undone_by { ". Undone by " (transaction_link(ask, by)) }
                "."
            }
            div.do-line {
                @if ask.writes() && tx.undone_by.is_none() {
                    a.button.first data-undo href=(ask.to(&format!("/tx/{}/undo", tx.id))) { "Undo…" }
                }
                @if own > 1 { a.button rel="prev" href=(ask.to(&format!("/tx/{}", own - 1))) { "← Before" } }
                @if own < head.0 { a.button rel="next" href=(ask.to(&format!("/tx/{}", own + 1))) { "After →" } }
                a.button href=(format!("{}?as_of={own}", crate::BASE)) { "The store as of then" }
            }
            (changes(ask, &tx))
        },
    )
}

fn changes(ask: &Ask<'_>, tx: &Transaction) -> Markup {
    html! {
        @if tx.changes.is_empty() { p.quiet { "Nothing that you may see was changed." } }
        @for change in &tx.changes {
            @let before = change.before.as_ref().map(|before| &before.record);
            @if let Some(record) = change.after.as_ref().or(before) {
                section.change data-item {
                    h2 {
                        (badge(change.op())) " "
                        @match record_link(ask, change.entity_type, change.id, record) {
                            Some(address) => a data-open href=(address) { (label(record)) },
                            None => span { (label(record)) },
                        }
                        " " span.kind { (change.entity_type.as_str()) }
                        @if let Some(scope_id) = record.scope() { " " (scope(ask, scope_id)) }
                    }
                    (difference::shown(ask, before, change.after.as_ref()))
                }
            }
        }
        @if tx.left_out > 0 { p.quiet { "and " (counted(tx.left_out as u64, "more change")) } }
    }
}

/// The preview of an undo. It writes nothing.
pub(crate) fn show_undo(ask: &Ask<'_>) -> Result<Page, Trouble> {
    let tx = transaction(ask, parse(ask.id)?)?;
    let plan = plan(ask, tx.id);
    let back = ask.to(&format!("/tx/{}", tx.id));
    Page::new(
        format!("Undo transaction {}", tx.id),
        html! {
            p.crumbs { a href=(ask.to("/history")) { "History" } " / " a href=(back) { "Transaction " (tx.id) } }
            h1 { "Undo transaction " (tx.id) "?" }
            p { (actor(ask, &tx.actor)) " made it with " code { (clean(&tx.tool)) } " " (ago(ask, tx.at)) "." }
            @match &plan {
                Err(trouble) => { p.trouble role="alert" { (trouble.said()) } p { a.button href=(back) { "Back" } } },
                Ok(_) => {
                    div.do-line {
                        form.inline method="post" action=(format!("{}/do/undo", crate::BASE)) {
                            input type="hidden" name="token" value=(ask.visitor.form_token);
                            input type="hidden" name="back" value=(back);
                            input type="hidden" name="tx" value=(tx.id);
                            button.first type="submit" data-undo { "Undo it" }
                        }
                        a.button href=(back) { "Cancel" }
                    }
                    h2 { "What that would do" }
                    (reversed(ask, &tx))
                    p.quiet { "Nothing is lost: the undo is a transaction too, and can be undone." }
                },
            }
        },
    )
}

/// The tool's dry run of an undo, or the reason why it is impossible.
fn plan(ask: &Ask<'_>, tx: TxId) -> Result<Value, Trouble> {
    let arguments = json!({"tx_id": tx.0, "any_actor": true, "dry_run": true});
    let Value::Object(arguments) = arguments else { return Err(Trouble::NotFound(String::new())) };
    ask.call("undo", arguments)
}

/// The inverse of a transaction's changes.
fn reversed(ask: &Ask<'_>, tx: &Transaction) -> Markup {
    html! {
        @for change in &tx.changes {
            @let before = change.before.as_ref().map(|before| &before.record);
            @if let Some(record) = before.or(change.after.as_ref()) {
                section.change {
                    h3 { (what_undo_does(before, change.after.as_ref())) " " span { (label(record)) } " " span.kind { (change.entity_type.as_str()) } }
                    @if before.is_some() && change.after.is_some() { (difference::shown(ask, change.after.as_ref(), before)) }
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
pub(crate) fn show_undo_many(ask: &Ask<'_>) -> Result<Page, Trouble> {
    let mut all: Vec<TxId> = ask.fields.all("tx").filter_map(|tx| tx.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all.reverse();
    let found = all.iter().map(|tx| transaction(ask, *tx)).collect::<Result<Vec<_>, _>>()?;
    Page::new(
        "Undo several",
        html! {
            p.crumbs { a href=(ask.to("/history")) { "History" } }
            h1 { "Undo " (counted(found.len() as u64, "transaction")) "?" }
            @if found.is_empty() { p { "Select transactions in the " a href=(ask.to("/history")) { "history" } " first." } }
            @else {
                p.quiet { "The newest first, each by a transaction of its own. If one can't be undone, those before it in this list stay undone." }
                form method="post" action=(format!("{}/do/undo", crate::BASE)) {
                    input type="hidden" name="token" value=(ask.visitor.form_token);
                    input type="hidden" name="back" value=(ask.to("/history"));
                    @for tx in &found { input type="hidden" name="tx" value=(tx.id); }
                    p.do-line { button.first type="submit" { "Undo them" } a.button href=(ask.to("/history")) { "Cancel" } }
                }
                @for tx in &found {
                    section { h2 { "#" (tx.id) " " (actor(ask, &tx.actor)) " " (ago(ask, tx.at)) }
                        @if let Err(trouble) = plan(ask, tx.id) { p.trouble { (trouble.said()) } }
                        (reversed(ask, tx))
                    }
                }
            }
        },
    )
}
