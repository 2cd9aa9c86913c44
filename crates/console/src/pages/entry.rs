//! An entry: its text, its authors and their reasons, its earlier versions, and the entries that contradict
//! or repeat it.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use kenning_model::{EntityType, Entry, Id, Record, ScopeName, Status, Transaction, TxId, clean, fold};
use kenning_storage::Stored;
use maud::{Markup, html};

use crate::difference;
use crate::fields::Fields;
use crate::markdown::rendered;
use crate::request::{Page, PageContext, Trouble};
use crate::review::{Kind, alike};
use crate::show::{actor, ago, button, cut, entry_label, hidden_why, moment, scope, tags, transaction_link};
use crate::{BASE, Console, Visitor, layout};

/// The largest number of versions that are shown.
const VERSIONS_MAX: usize = 30;
/// The largest number of calls that gave the entry: how many are read, and how many are shown.
const GIVEN_MAX: usize = 60;
const GIVEN_SHOWN_MAX: usize = 12;
/// The largest number of facts about the names in an entry.
const FACTS_MAX: usize = 12;
/// The largest number of words of one name, and the largest number of word sequences that are looked up.
const NAME_WORDS_MAX: usize = 3;
const NAMES_MAX: usize = 400;

/// A version with the transaction that wrote it.
struct EntryVersion {
    tx: Transaction,
    /// `None` if the transaction deleted the entry.
    entry: Option<Entry>,
}

fn parse(ctx: &PageContext<'_>) -> Result<Id, Trouble> {
    Id::parse(ctx.id).ok_or_else(|| unknown(ctx.id))
}

fn unknown(id: &str) -> Trouble {
    Trouble::NotFound(format!("There is no entry `{}`.", cut(id, 40)))
}

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let id = parse(ctx)?;
    let versions = versions(ctx, id)?;
    match ctx.snapshot.entry(id)? {
        Some(stored) => show_live(ctx, &stored, &versions),
        None => show_deleted(ctx, id, &versions),
    }
}

/// The versions of an entry that the visitor may see, newest first.
fn versions(ctx: &PageContext<'_>, id: Id) -> Result<Vec<EntryVersion>, Trouble> {
    let mut ids = ctx.snapshot.transactions_of(EntityType::Entry, id)?;
    ids.retain(|tx| *tx <= ctx.snapshot.at());
    let mut versions = Vec::new();
    let principal = &ctx.visitor.caller.principal;
    for tx in ids.into_iter().rev().take(VERSIONS_MAX) {
        let Some(tx) = ctx.snapshot.transaction(tx, ctx.view(0))? else { continue };
        let then = ctx.engine.snapshot_at(principal, Some(tx.id))?.entry(id)?;
        let entry = then.and_then(|stored| stored.record.as_entry().cloned());
        // If the entry moved from one scope out of sight to another, the visitor sees only one disappearance,
        // so the second is dropped.
        if entry.is_none() && versions.last().is_some_and(|later: &EntryVersion| later.entry.is_none()) {
            versions.pop();
        }
        versions.push(EntryVersion { tx, entry });
    }
    // An entry that came from a scope out of sight has no version before that for this visitor.
    while versions.last().is_some_and(|version| version.entry.is_none()) {
        versions.pop();
    }
    Ok(versions)
}

fn show_deleted(ctx: &PageContext<'_>, id: Id, versions: &[EntryVersion]) -> Result<Page, Trouble> {
    let Some((end, last)) = versions.first().zip(versions.iter().find_map(|version| version.entry.as_ref()))
    else {
        return Err(unknown(id.as_str()));
    };
    let tx = end.tx.id.to_string();
    Page::new(
        entry_label(last),
        html! {
            p.crumbs { (scope(ctx, last.scope)) }
            h1 { (entry_label(last)) " " span.mark.off { "deleted" } }
            p { "Deleted by " (actor(ctx, &end.tx.actor)) " " (ago(ctx, end.tx.at)) " in transaction " (transaction_link(ctx, end.tx.id)) "." }
            @if ctx.writes() { p.do-line { (button(ctx, "undo", "Bring it back", &[("tx", &tx)], "first")) } }
            section { h2 { "What it said" } (rendered(&last.content)) }
            (history(ctx, id, versions))
        },
    )
}

fn show_live(ctx: &PageContext<'_>, stored: &Stored, versions: &[EntryVersion]) -> Result<Page, Trouble> {
    let Some(entry) = stored.record.as_entry() else { return Err(unknown(stored.id.as_str())) };
    let id = stored.id;
    let title = entry_label(entry);
    Page::new(
        title.clone(),
        html! {
            p.crumbs { (scope(ctx, entry.scope)) }
            h1 {
                (title)
                @if entry.pinned { " " span.mark { "pinned" } }
                @if let Some(why) = hidden_why(entry, ctx.judged_at) { " " span.mark.off { (why) } }
            }
            (actions(ctx, id, entry))
            div.columns {
                div {
                    section.text-of { (rendered(&entry.content)) }
                    @if let Some(context) = &entry.context {
                        section { h2 { "Search words" } p.text { (clean(context)) } }
                    }
                    (others(ctx, id, entry)?)
                    (lines(ctx, versions))
                    (history(ctx, id, versions))
                }
                aside {
                    (provenance(ctx, stored, entry, versions))
                    (given_to(ctx, id))
                    (facts(ctx, entry)?)
                }
            }
        },
    )
}

fn actions(ctx: &PageContext<'_>, id: Id, entry: &Entry) -> Markup {
    let text = id.to_string();
    let own: &[(&str, &str)] = &[("id", &text)];
    let is_suppressed = entry.status == Status::Suppressed;
    let status = if is_suppressed { "suppressed" } else { "active" };
    let again: &[(&str, &str)] = &[("id", &text), ("status", status)];
    html! {
        @if ctx.writes() {
            div.do-line {
                a.button.first href=(ctx.to(&format!("/entry/{id}/edit"))) { "Edit" }
                @if entry.pinned { (button(ctx, "unpin", "Unpin", own, "")) } @else { (button(ctx, "pin", "Pin", own, "")) }
                @if hidden_why(entry, ctx.judged_at).is_some() { (button(ctx, "restore", "Show again", again, "")) }
                @else { (button(ctx, "suppress", "Suppress", own, "")) }
                a.button href=(ctx.to(&format!("/entry/{id}/move"))) { "Move" }
                (button(ctx, "delete", "Delete", own, "danger"))
            }
        } @else if let Some(why) = layout::cannot_write(ctx) {
            p.quiet { (why) }
        }
    }
}

fn provenance(ctx: &PageContext<'_>, stored: &Stored, entry: &Entry, versions: &[EntryVersion]) -> Markup {
    let first = versions.last().filter(|first| first.entry.is_some());
    let sizes: Vec<String> = entry.task_sizes.iter().map(|size| format!("{size:?}")).collect();
    html! {
        section.provenance {
            h2 { "Where it comes from" }
            dl {
                dt { "Written by" } dd { (actor(ctx, &entry.actor)) }
                dt { "In" } dd { (transaction_link(ctx, stored.tx_id)) @if let Some(version) = versions.first() { ", with " code { (clean(&version.tx.tool)) } } }
                @if let Some(source) = &entry.source { dt { "Source" } dd.long { (source_link(source)) } }
                dt { "Recorded" } dd { (moment(entry.recorded_at)) @if let Some(first) = first { @if first.tx.actor != entry.actor { " by " (actor(ctx, &first.tx.actor)) } } }
                @if let Some(at) = entry.updated_at { dt { "Changed" } dd { (moment(at)) } }
                dt { "Version" } dd { (entry.version) }
                @if let Some(sure) = entry.confidence { dt { "Confidence" } dd { (sure) } }
                @if let Some(from) = entry.valid_from { dt { "Valid from" } dd { (moment(from)) } }
                @if let Some(to) = entry.valid_to { dt { "Valid to" } dd { (moment(to)) } }
                @if !sizes.is_empty() { dt { "For tasks" } dd { (sizes.join(", ")) } }
                @if !entry.tags.is_empty() { dt { "Tags" } dd { (tags(ctx, &entry.tags)) } }
                @if let Some(follows) = entry.follows { dt { "Follows" } dd { a href=(ctx.to(&format!("/entry/{follows}"))) { (follows) } } }
                dt { "Id" } dd { code { (stored.id) } }
            }
        }
    }
}

/// The source of an entry. It is a link only if it is the address of a web page.
fn source_link(source: &str) -> Markup {
    let source = clean(source);
    let is_address = (source.starts_with("https://") || source.starts_with("http://"))
        && !source.contains(char::is_whitespace);
    html! { @if is_address { a href=(source) rel="noopener noreferrer nofollow" { (source) } } @else { (source) } }
}

/// The entries that contradict or repeat this one.
fn others(ctx: &PageContext<'_>, id: Id, entry: &Entry) -> Result<Markup, Trouble> {
    let pairs = alike(ctx.engine, &ctx.snapshot, id, entry)?;
    let ids: Vec<Id> = pairs.iter().map(|((one, other), _)| if *one == id { *other } else { *one }).collect();
    let records = ctx.snapshot.records(EntityType::Entry, &ids)?;
    let own = id.to_string();
    Ok(html! {
        @if !ids.is_empty() {
            section.others {
                h2 { "Says something else, or the same" }
                ol.list { @for ((_, kind), stored) in pairs.iter().zip(records) {
                    @if let Some((stored, other)) = stored.as_ref().and_then(|stored| Some((stored, stored.record.as_entry()?))) {
                        @let theirs = stored.id.to_string();
                        li.item data-item {
                            h3 { a data-open href=(ctx.to(&format!("/entry/{theirs}"))) { (entry_label(other)) }
                                " " span.mark class=[(*kind == Kind::Contradiction).then_some("warn")] { @if *kind == Kind::Contradiction { "may contradict" } @else { "nearly the same" } } }
                            p.text { (difference::words(&clean(&entry.content), &clean(&other.content))) }
                            p.meta { (scope(ctx, other.scope)) " " (actor(ctx, &other.actor)) " " (ago(ctx, other.updated_at.unwrap_or(other.recorded_at))) }
                            @if ctx.writes() {
                                p.do-line {
                                    (button(ctx, "keep", "This page's entry holds", &[("id", &own), ("other", &theirs)], ""))
                                    (button(ctx, "keep", "The other holds", &[("id", &theirs), ("other", &own)], ""))
                                }
                            }
                        }
                    }
                } }
            }
        }
    })
}

/// Each line of the text with the version that introduced it.
fn lines(ctx: &PageContext<'_>, versions: &[EntryVersion]) -> Markup {
    let known: Vec<(&EntryVersion, &Entry)> =
        versions.iter().rev().filter_map(|version| Some((version, version.entry.as_ref()?))).collect();
    let texts: Vec<String> = known.iter().map(|(_, entry)| clean(&entry.content)).collect();
    let blamed = difference::blame(&texts);
    let versions: BTreeSet<usize> = blamed.iter().map(|(from, _)| *from).collect();
    html! {
        @if known.len() > 1 && !blamed.is_empty() {
            section {
                h2 { "Who wrote which line" }
                @if versions.len() == 1 {
                    p.quiet { "All of it is from one version." }
                }
                table.blame {
                    thead.hidden { tr { th scope="col" { "From" } th scope="col" { "Line" } } }
                    tbody { @for (at, (from, line)) in blamed.iter().enumerate() {
                        @let (version, entry) = known[*from];
                        tr {
                            td { @if at == 0 || blamed[at - 1].0 != *from { (transaction_link(ctx, version.tx.id)) " " (actor(ctx, &entry.actor)) " " (ago(ctx, version.tx.at)) } }
                            td { (line.trim()) }
                        }
                    } }
                }
            }
        }
    }
}

fn history(ctx: &PageContext<'_>, id: Id, versions: &[EntryVersion]) -> Markup {
    let newest = versions.first().map_or(TxId::EMPTY, |version| version.tx.id);
    html! {
        section.versions {
            h2 { "Versions" }
            ol.list { @for (at, version) in versions.iter().enumerate() {
                @let before = versions.get(at + 1).and_then(|before| before.entry.clone());
                @let tx = version.tx.id.to_string();
                li.item data-item {
                    p.meta {
                        a.tx data-open href=(ctx.to(&format!("/tx/{tx}"))) { "#" (tx) } " "
                        strong { @match (&before, &version.entry) { (None, _) => "created", (Some(_), None) => "deleted", _ => "changed" } } " by "
                        (actor(ctx, &version.tx.actor)) " with " code { (clean(&version.tx.tool)) } " " (ago(ctx, version.tx.at))
                        @for undone in &version.tx.undoes { " " span.kind { "undoes " (transaction_link(ctx, *undone)) } }
                        @if let Some(by) = version.tx.undone_by { " " span.kind { "undone by " (transaction_link(ctx, by)) } }
                    }
                    @if version.entry.is_some() {
                        details open[at == 0 && before.is_some()] {
                            summary { @if before.is_some() { "What changed" } @else { "The first version" } }
                            (difference::shown(ctx, before.map(Record::Entry).as_ref(), version.entry.clone().map(Record::Entry).as_ref()))
                        }
                    }
                    @if ctx.writes() && version.tx.undone_by.is_none() && version.tx.id == newest && version.entry.is_some() {
                        p.do-line { a.button href=(ctx.to(&format!("/tx/{tx}/undo"))) data-undo { "Undo this" } }
                    }
                }
            } }
            @if versions.len() == VERSIONS_MAX { p { a href=(ctx.link("/history", [("id", id.as_str())])) { "All versions" } } }
        }
    }
}

/// The clients that the entry was given to, and the times. Calls in scopes that the visitor may not read are
/// left out.
fn given_to(ctx: &PageContext<'_>, id: Id) -> Markup {
    let given = ctx.recalled(|log| log.of_entry(id, GIVEN_MAX)).unwrap_or_default();
    let given = given.iter().filter(|given| ctx.knows_scope(&given.scope));
    let given: Vec<_> = given.take(GIVEN_SHOWN_MAX).collect();
    html! {
        @if !given.is_empty() {
            section {
                h2 { "Given to" }
                ul.plain { @for given in given {
                    li {
                        @if ctx.visitor.caller.principal.is_owner() { a href=(ctx.link("/sessions", [("session", given.session.as_str())])) { (clean(&given.client)) } }
                        @else { (clean(&given.client)) }
                        " by " code { (clean(&given.by)) } " " (ago(ctx, given.at))
                    }
                } }
            }
        }
    }
}

/// The facts of the graph about the names in an entry.
fn facts(ctx: &PageContext<'_>, entry: &Entry) -> Result<Markup, Trouble> {
    if !ctx.visitor.caller.has_graph {
        return Ok(html! {});
    }
    let names = names(&format!("{} {}", entry.topic, entry.content));
    let sight = ctx.everywhere();
    let found = ctx.snapshot.graph(&sight, |view| {
        let mut found: Vec<Id> = Vec::new();
        for name in &names {
            for id in view.triples(Some(name), None).into_iter().chain(view.triples(None, Some(name))) {
                if found.len() < FACTS_MAX && !found.contains(&id) {
                    found.push(id);
                }
            }
        }
        found
    })?;
    let triples = ctx.snapshot.records(EntityType::Triple, &found)?;
    Ok(html! {
        @if !found.is_empty() {
            section {
                h2 { "In the graph" }
                ul.facts { @for stored in triples.iter().flatten() {
                    @if let Some(triple) = stored.record.as_triple() {
                        li {
                            a href=(ctx.link("/graph", [("name", triple.subject.as_str())])) { (cut(&triple.subject, 80)) } " "
                            em { (cut(&triple.predicate, 60)) } " "
                            a href=(ctx.link("/graph", [("name", triple.object.as_str())])) { (cut(&triple.object, 80)) }
                        }
                    }
                } }
            }
        }
    })
}

/// The word sequences of a text that may be names, in the spelling of the graph.
fn names(text: &str) -> BTreeSet<String> {
    let folded = fold(text);
    let is_around = |c: char| ",;:?!\"'()`*.".contains(c);
    let words: Vec<&str> = folded.split_whitespace().map(|word| word.trim_matches(is_around)).collect();
    let runs = (1..=NAME_WORDS_MAX).flat_map(|many| words.windows(many).map(|run| run.join(" ")));
    runs.filter(|name| name.len() > 2).take(NAMES_MAX).collect()
}

/// The content of the edit form: the entry, or the fields that were sent and refused.
struct Draft {
    id: String,
    topic: String,
    content: String,
    context: String,
    tags: String,
    source: String,
    version: String,
}

impl Draft {
    fn of(id: Id, entry: &Entry) -> Draft {
        Draft {
            id: id.to_string(),
            topic: entry.topic.clone(),
            content: entry.content.clone(),
            context: entry.context.clone().unwrap_or_default(),
            tags: entry.tags.join(", "),
            source: entry.source.clone().unwrap_or_default(),
            version: entry.version.to_string(),
        }
    }

    fn sent(fields: &Fields) -> Draft {
        let text = |name: &str| fields.sent(name).unwrap_or_default().to_owned();
        Draft {
            id: text("id"),
            topic: text("topic"),
            content: text("content"),
            context: text("context"),
            tags: text("tags"),
            source: text("source"),
            version: text("version"),
        }
    }

    fn inputs(&self) -> Markup {
        html! {
            label for="topic" { "Topic" }
            input #topic name="topic" value=(self.topic) maxlength="512";
            label for="content" { "Text" }
            textarea #content name="content" rows="12" required { "\n" (self.content) }
            label for="tags" { "Tags, between commas" }
            input #tags name="tags" value=(self.tags);
            label for="source" { "Source" }
            input #source name="source" value=(self.source) maxlength="512";
        }
    }
}

pub(crate) fn show_edit(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let id = parse(ctx)?;
    let stored = ctx.snapshot.entry(id)?.ok_or_else(|| unknown(ctx.id))?;
    let Some(entry) = stored.record.as_entry() else { return Err(unknown(ctx.id)) };
    let draft = Draft::of(id, entry);
    let back = ctx.to(&format!("/entry/{id}"));
    Page::new(format!("Edit {}", entry_label(entry)), edit_form(&draft, &ctx.visitor.form_token, &back, None))
}

fn edit_form(draft: &Draft, token: &str, back: &str, trouble: Option<&str>) -> Markup {
    html! {
        h1 { "Edit" }
        @if let Some(trouble) = trouble { p.trouble role="alert" { (trouble) } }
        form.stack method="post" action=(format!("{BASE}/do/edit")) {
            input type="hidden" name="token" value=(token);
            input type="hidden" name="back" value=(back);
            input type="hidden" name="id" value=(draft.id);
            input type="hidden" name="version" value=(draft.version);
            (draft.inputs())
            label for="context" { "Search words: other words that someone may ask with" }
            textarea #context name="context" rows="2" { "\n" (draft.context) }
            p.do-line { button.first type="submit" { "Save" } a.button href=(back) { "Cancel" } }
        }
    }
}

/// The edit form with the refused fields, and the reason of the refusal.
pub(crate) fn edit_again(
    console: &Console,
    visitor: &Visitor,
    fields: &Fields,
    trouble: &Trouble,
) -> Response {
    let draft = Draft::sent(fields);
    let current = Id::parse(&draft.id).and_then(|id| {
        let snapshot = console.engine.snapshot(&visitor.caller.principal).ok()?;
        snapshot.entry(id).ok().flatten()?.record.as_entry().cloned()
    });
    let is_conflict = matches!(trouble, Trouble::Refused { code, .. } if code == "CONFLICT");
    let back = format!("{BASE}/entry/{}", draft.id);
    let body = html! {
        (edit_form(&draft, &visitor.form_token, &back, Some(&trouble.message())))
        @if let Some(current) = current.filter(|_| is_conflict) {
            section { h2 { "From what is there now to what you wrote" }
                p.text { (difference::words(&clean(&current.content), &clean(&draft.content))) }
                p { a.button href=(format!("{back}/edit")) { "Edit what is there now" } }
            }
        }
    };
    let status = if is_conflict { StatusCode::CONFLICT } else { StatusCode::BAD_REQUEST };
    (status, Html(layout::bare_page("Edit", &body).into_string())).into_response()
}

pub(crate) fn show_move(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let id = parse(ctx)?;
    let stored = ctx.snapshot.entry(id)?.ok_or_else(|| unknown(ctx.id))?;
    let Some(entry) = stored.record.as_entry() else { return Err(unknown(ctx.id)) };
    let back = ctx.to(&format!("/entry/{id}"));
    Page::new(
        format!("Move {}", entry_label(entry)),
        html! {
            h1 { "Move “" (entry_label(entry)) "”" }
            form.stack method="post" action=(format!("{BASE}/do/move")) {
                input type="hidden" name="token" value=(ctx.visitor.form_token);
                input type="hidden" name="back" value=(back);
                input type="hidden" name="id" value=(id);
                label for="scope" { "To the scope" }
                (scope_choice(ctx, Some(ctx.scope_name(entry.scope))))
                p.do-line { button.first type="submit" { "Move" } a.button href=(back) { "Cancel" } }
            }
        },
    )
}

fn scope_choice(ctx: &PageContext<'_>, chosen: Option<String>) -> Markup {
    let mut names: Vec<String> = ctx.names.0.values().map(ScopeName::to_string).collect();
    names.sort();
    html! { select #scope name="scope" { @for name in &names {
        option value=(name) selected[chosen.as_ref() == Some(name)] { (name) }
    } } }
}

/// The confirmation page before a delete, for visitors who follow a link.
pub(crate) fn show_delete(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let id = parse(ctx)?;
    let stored = ctx.snapshot.entry(id)?.ok_or_else(|| unknown(ctx.id))?;
    let Some(entry) = stored.record.as_entry() else { return Err(unknown(ctx.id)) };
    let text = id.to_string();
    Page::new(
        format!("Delete {}", entry_label(entry)),
        html! {
            h1 { "Delete “" (entry_label(entry)) "”?" }
            p { "It stays in the history and can be brought back." }
            p.do-line {
                (button(ctx, "delete", "Delete", &[("id", &text)], "danger"))
                a.button href=(ctx.to(&format!("/entry/{id}"))) { "Cancel" }
            }
        },
    )
}

pub(crate) fn show_new(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let draft = Draft::sent(&ctx.fields);
    let chosen = ctx.fields.get("scope").map_or_else(|| ctx.visitor.caller.scope.clone(), str::to_owned);
    Page::new(
        "Write an entry",
        html! {
            h1 { "Write an entry" }
            p.quiet { "One matter in an entry: agents get it when a task is about it." }
            form.stack method="post" action=(format!("{BASE}/do/add")) {
                input type="hidden" name="token" value=(ctx.visitor.form_token);
                input type="hidden" name="back" value=(ctx.to(""));
                label for="scope" { "Scope" }
                (scope_choice(ctx, Some(chosen)))
                (draft.inputs())
                p.do-line { button.first type="submit" { "Save" } a.button href=(ctx.to("")) { "Cancel" } }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn runs_of_words_are_names_as_the_graph_spells_them() {
        let names = names("The `Billing` service, not Stripe.");
        assert!(names.contains("billing") && names.contains("billing service") && names.contains("stripe"));
    }
}
