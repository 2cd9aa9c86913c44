//! Sessions: their writes, from the log, and what they were given, from the recall log.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kenning_model::{EntityType, Id, TxId, clean};
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use crate::request::{Page, PageContext, Trouble};
use crate::show::{actor, ago, counted, entry_label, moment, number, transaction_link};

/// The number of newest transactions that are read.
const LOOKED_AT: u64 = 2_000;
const SHOWN_MAX: usize = 100;
/// The number of bytes of a hash by which sessions are distinguished; their real names are secrets of a
/// credential or a process.
const NAME_BYTES: usize = 3;

/// The writes of one process or credential under one name.
struct Session {
    name: String,
    actor: String,
    first: Timestamp,
    last: Timestamp,
    newest: TxId,
    writes: u64,
    tools: BTreeMap<String, u64>,
}

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    match ctx.fields.get("session") {
        // Sessions of all principals are in the log, so only the owner may look into one.
        Some(session) if ctx.visitor.caller.principal.is_owner() => show_session(ctx, session),
        Some(_) => Err(Trouble::NotFound("There is no such session.".to_owned())),
        None => show_all(ctx),
    }
}

/// The entries that one session was given, newest first.
fn show_session(ctx: &PageContext<'_>, session: &str) -> Result<Page, Trouble> {
    let given = ctx.recalled(|log| log.of_session(session)).unwrap_or_default();
    let Some(newest) = given.first() else {
        return Err(Trouble::NotFound("There is no such session.".to_owned()));
    };
    let client = clean(&newest.client);
    let shown = &given[..given.len().min(SHOWN_MAX)];
    Page::new(
        format!("Session of {client}"),
        html! {
            p.crumbs { a href=(ctx.to("/sessions")) { "Sessions" } }
            h1 { "What " (client) " was given" }
            ol.list { @for given in shown {
                li.item data-item {
                    p.meta { code { (clean(&given.by)) } " " span.scope { (clean(&given.scope)) } " " (ago(ctx, given.at)) }
                    (entries(ctx, &given.ids)?)
                }
            } }
            @if given.len() > shown.len() { p.quiet { "and " (counted((given.len() - shown.len()) as u64, "earlier call")) } }
        },
    )
}

fn entries(ctx: &PageContext<'_>, ids: &[Id]) -> Result<Markup, Trouble> {
    let records = ctx.snapshot.records(EntityType::Entry, ids)?;
    Ok(html! {
        ul.changes { @for (id, stored) in ids.iter().zip(records) { li {
            @match stored.as_ref().and_then(|stored| stored.record.as_entry()) {
                Some(entry) => a data-open href=(ctx.to(&format!("/entry/{id}"))) { (entry_label(entry)) },
                None => a href=(ctx.to(&format!("/entry/{id}"))) { code { (id) } },
            }
        } } }
    })
}

/// The sessions that were given something, for the owner.
fn readers(ctx: &PageContext<'_>) -> Markup {
    let is_owner = ctx.visitor.caller.principal.is_owner();
    let readers =
        if is_owner { ctx.recalled(|log| log.sessions(SHOWN_MAX)).unwrap_or_default() } else { Vec::new() };
    html! {
        @if !readers.is_empty() {
            section {
                h2 { "Who was given what" }
                div.wide tabindex="0" role="region" aria-label="Who was given what" { table {
                    thead { tr { th scope="col" { "Client" } th.number scope="col" { "Calls" } th.number scope="col" { "Entries" } th scope="col" { "From" } th scope="col" { "Last" } } }
                    tbody { @for reader in &readers {
                        tr data-item {
                            th scope="row" { a data-open href=(ctx.link("/sessions", [("session", reader.session.as_str())])) { (clean(&reader.client)) } }
                            td.number { (number(reader.calls)) }
                            td.number { (number(reader.ids)) }
                            td { (moment(reader.first)) }
                            td { (ago(ctx, reader.last)) }
                        }
                    } }
                } }
            }
        }
    }
}

fn show_all(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let (found, total) = ctx.snapshot.history(None, None, TxId::EMPTY, ctx.view(0), 0..LOOKED_AT)?;
    let looked_at = found.len() as u64;
    let mut sessions: BTreeMap<(String, String), Session> = BTreeMap::new();
    for tx in found {
        let session = sessions.entry((tx.origin.clone(), tx.actor.clone())).or_insert_with(|| Session {
            name: HEXLOWER.encode(&Sha256::digest(&tx.origin)[..NAME_BYTES]),
            actor: tx.actor.clone(),
            first: tx.at,
            last: tx.at,
            newest: tx.id,
            writes: 0,
            tools: BTreeMap::new(),
        });
        session.first = session.first.min(tx.at);
        session.writes += 1;
        *session.tools.entry(tx.tool).or_default() += 1;
    }
    let mut sessions: Vec<Session> = sessions.into_values().collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.newest));
    Page::new(
        "Sessions",
        html! {
            h1 { "Sessions" }
            (readers(ctx))
            h2 { "Who wrote" }
            p.quiet { "Who wrote, by process or key, in the last " (number(looked_at)) " of " (number(total)) " transactions." }
            @if sessions.is_empty() { section.empty { h2 { "Nobody has written yet" } } }
            @else {
                div.wide tabindex="0" role="region" aria-label="Sessions" { table {
                    thead { tr { th scope="col" { "Who" } th scope="col" { "Session" } th.number scope="col" { "Writes" } th scope="col" { "With" } th scope="col" { "From" } th scope="col" { "Last" } } }
                    tbody { @for session in sessions.iter().take(SHOWN_MAX) {
                        tr data-item {
                            th scope="row" { (actor(ctx, &session.actor)) }
                            td { code { (session.name) } }
                            td.number { (number(session.writes)) }
                            td { @for (tool, many) in &session.tools { code { (clean(tool)) } " " (number(*many)) " " } }
                            td { (moment(session.first)) }
                            td { (ago(ctx, session.last)) " " (transaction_link(ctx, session.newest)) }
                        }
                    } }
                } }
            }
        },
    )
}
