//! Home: the amount of content, the latest changes and their authors, and the pairs that wait for a decision.

use std::collections::{BTreeMap, HashSet};

use jiff::SignedDuration;
use kenning_engine::Error;
use kenning_model::{EntityType, Scope, ScopeId, Transaction, TxId};
use maud::{Markup, html};

use crate::request::{Page, PageContext, Trouble};
use crate::review::{Kind, Progress};
use crate::show::{actor, ago, counted, number, transaction_item};

/// The latest transactions: how many are counted by author, and how many are shown.
const COUNTED_MAX: u64 = 300;
const SHOWN_MAX: u64 = 8;
const CHANGES_MAX: usize = 3;
/// The largest number of pairs that are counted.
const WAITING_MAX: usize = 100;
/// A namespace with at most this many scopes is shown unfolded.
const SCOPES_OPEN_MAX: usize = 12;

const LATELY: SignedDuration = SignedDuration::from_hours(24);

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let counts = Counts {
        entries: ctx.snapshot.count_by_scope(EntityType::Entry)?,
        triples: ctx.snapshot.count_by_scope(EntityType::Triple)?,
        documents: documents(ctx)?,
    };
    let since = ctx.engine.newest_at(ctx.judged_at - LATELY)?;
    // Counting needs no changes of the transactions, and reading them for all is what would take time.
    let (counted, total) = ctx.snapshot.history(None, None, since, ctx.view(0), 0..COUNTED_MAX)?;
    let (recent, _) = ctx.snapshot.history(None, None, since, ctx.view(CHANGES_MAX), 0..SHOWN_MAX)?;
    let is_empty =
        counts.entries.is_empty() && counts.documents.is_empty() && ctx.snapshot.at() == TxId::EMPTY;
    Page::new(
        "Home",
        html! {
            h1.hidden { "Home" }
            @if is_empty { (welcome(ctx)) } @else {
                div.columns {
                    div {
                        (totals(ctx, &counts))
                        (changed(ctx, since, &counted, &recent, total))
                    }
                    div {
                        (waiting(ctx)?)
                        (tree(ctx, &counts))
                    }
                }
            }
        },
    )
}

struct Counts {
    entries: BTreeMap<ScopeId, u64>,
    triples: BTreeMap<ScopeId, u64>,
    documents: BTreeMap<ScopeId, u64>,
}

fn documents(ctx: &PageContext<'_>) -> Result<BTreeMap<ScopeId, u64>, Error> {
    let mut documents = ctx.snapshot.count_by_scope(EntityType::Document)?;
    documents.retain(|_, many| *many > 0);
    Ok(documents)
}

fn welcome(ctx: &PageContext<'_>) -> Markup {
    html! {
        section.empty {
            h2 { "Nothing is known yet" }
            p { "Agents write here as they work. Connect one with " code { "kenning setup" }
                ", take documents in with " code { "kenning ingest DIR" } ", or write the first entry yourself." }
            @if ctx.writes() { p { a.button href=(ctx.to("/new")) { "Write an entry" } } }
        }
    }
}

fn totals(ctx: &PageContext<'_>, counts: &Counts) -> Markup {
    let sum = |counts: &BTreeMap<ScopeId, u64>| counts.values().sum::<u64>();
    let figures = [
        (sum(&counts.entries), "entry", ctx.link("/search", [("kind", "entries")])),
        (sum(&counts.triples), "fact", ctx.to("/graph")),
        (sum(&counts.documents), "document", ctx.to("/documents")),
        (ctx.snapshot.at().0, "transaction", ctx.to("/history")),
    ];
    html! {
        ul.figures {
            @for (many, noun, address) in figures {
                li { a href=(address) { strong { (number(many)) } " " span { (counted(many, noun).split_once(' ').map_or("", |(_, noun)| noun)) } } }
            }
        }
        @if ctx.writes() { p.do-line { a.button href=(ctx.to("/new")) { "Write an entry" } } }
    }
}

/// The amount of an actor's work.
#[derive(Default)]
struct ActorActivity {
    transactions: u64,
    changes: u64,
    last: Option<jiff::Timestamp>,
}

impl ActorActivity {
    fn add(&mut self, tx: &Transaction) {
        self.transactions += 1;
        self.last = self.last.max(Some(tx.at));
        self.changes += (tx.changes.len() + tx.left_out) as u64;
    }
}

fn changed(
    ctx: &PageContext<'_>,
    since: TxId,
    counted_ones: &[Transaction],
    recent: &[Transaction],
    total: u64,
) -> Markup {
    let mut by_actor: BTreeMap<&str, ActorActivity> = BTreeMap::new();
    counted_ones.iter().for_each(|tx| by_actor.entry(&tx.actor).or_default().add(tx));
    let mut by_actor: Vec<(&str, ActorActivity)> = by_actor.into_iter().collect();
    by_actor.sort_by_key(|(name, activity)| (std::cmp::Reverse(activity.transactions), *name));
    let since = since.to_string();
    html! {
        section #changed data-refresh {
            h2 { "Last 24 hours" }
            @if recent.is_empty() {
                p.quiet { "Nothing was written." }
            } @else {
                table.by {
                    thead { tr { th scope="col" { "Who" } th.number scope="col" { "Transactions" } th.number scope="col" { "Changes" } th scope="col" { "Last" } } }
                    tbody {
                        @for (name, activity) in &by_actor {
                            tr {
                                th scope="row" { (actor(ctx, name)) }
                                td.number { (number(activity.transactions)) }
                                td.number { (number(activity.changes)) }
                                td { @if let Some(last) = activity.last { (ago(ctx, last)) } }
                            }
                        }
                    }
                }
                @if total > counted_ones.len() as u64 {
                    p.quiet { "Counted are the last " (number(counted_ones.len() as u64)) " of " (counted(total, "transaction")) "." }
                }
                ol.list { @for tx in recent { (transaction_item(ctx, tx, false)) } }
                p { a href=(ctx.link("/history", [("since", since.as_str())])) { "All " (counted(total, "transaction")) } }
            }
        }
    }
}

fn waiting(ctx: &PageContext<'_>) -> Result<Markup, Error> {
    let review = &ctx.console.review;
    let Progress { looked_at, total, is_whole } = review.progress();
    let contradictions = review.waiting(ctx, Kind::Contradiction, WAITING_MAX)?.len();
    let duplicates = review.waiting(ctx, Kind::Duplicate, WAITING_MAX)?.len();
    let many = |count: usize| match count {
        WAITING_MAX.. => format!("{WAITING_MAX} or more"),
        count => number(count as u64),
    };
    let lines = [
        (contradictions, "likely contradictions", ctx.to("/contradictions")),
        (duplicates, "near-duplicates", ctx.link("/contradictions", [("kind", "duplicates")])),
    ];
    Ok(html! {
        section.waiting #waiting data-refresh {
            h2 { "To decide" }
            ul.plain {
                @for (count, what, address) in lines {
                    li class=[(count > 0).then_some("open")] { a href=(address) { strong { (many(count)) } " " (what) } }
                }
            }
            @if !is_whole {
                p.quiet { "Looking through the entries: " (number(looked_at)) " of " (number(total)) "." }
            }
            (health(ctx))
        }
    })
}

fn health(ctx: &PageContext<'_>) -> Markup {
    let is_degraded = !ctx.engine.is_warm();
    html! {
        p.quiet {
            @if is_degraded { "Search is warming up; answers are complete, only slower." }
            @else { span.ok aria-hidden="true" { "●" } " Store and search index are in order." }
        }
    }
}

fn tree(ctx: &PageContext<'_>, counts: &Counts) -> Markup {
    html! {
        section {
            h2 { "Scopes" }
            @for (id, namespace) in ctx.tree.namespaces() {
                @let scopes: Vec<&Scope> = ctx.tree.scopes(id).map(|(_, scope)| scope).collect();
                details.namespace open[scopes.len() <= SCOPES_OPEN_MAX] {
                    summary { strong { (namespace.name) } " " span.quiet { (kenning_model::clean(&namespace.description)) } }
                    ul.tree { (branch(ctx, counts, &scopes, None, &mut HashSet::new())) }
                }
            }
        }
    }
}

/// The scopes below a parent. A scope with several parents is shown only once, below its first one.
fn branch(
    ctx: &PageContext<'_>,
    counts: &Counts,
    scopes: &[&Scope],
    parent: Option<ScopeId>,
    shown: &mut HashSet<ScopeId>,
) -> Markup {
    let is_here = |scope: &&&Scope| {
        let first = scope.parents.iter().find(|parent| scopes.iter().any(|scope| scope.number == **parent));
        first.copied() == parent
    };
    let here: Vec<&&Scope> = scopes.iter().filter(is_here).collect();
    html! {
        @for scope in here {
            @if shown.insert(scope.number) {
                @let name = ctx.scope_name(scope.number);
                @let entries = counts.entries.get(&scope.number).copied().unwrap_or_default();
                @let facts = counts.triples.get(&scope.number).copied().unwrap_or_default();
                @let documents = counts.documents.get(&scope.number).copied().unwrap_or_default();
                li {
                    a href=(ctx.link("/search", [("scope", name.as_str())])) title=(kenning_model::clean(&scope.description)) { (scope.name) }
                    span.counts {
                        " " (counted(entries, "entry"))
                        @if facts > 0 { ", " (counted(facts, "fact")) }
                        @if documents > 0 { ", " (counted(documents, "document")) }
                    }
                    @let below = branch(ctx, counts, scopes, Some(scope.number), shown);
                    @if !below.0.is_empty() { ul { (below) } }
                }
            }
        }
    }
}
