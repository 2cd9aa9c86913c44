//! Documents: the ingested documents by source; and one document with its sections and the documents that
//! link to it.

use std::collections::BTreeMap;

use kenning_engine::KnownDocument;
use kenning_engine::graph::{EdgeDirection, Node};
use kenning_model::{Document, Id, Scope, Section, clean};
use kenning_storage::Stored;
use maud::{Markup, html};

use crate::markdown::rendered;
use crate::request::{Page, PageContext, Trouble};
use crate::show::{ago, counted, cut, moment, number, scope};

/// The largest number of documents of a source in the list.
const LISTED_MAX: usize = 500;
/// The largest part of a document that is shown; a longer one is read section by section.
const SHOWN_BYTES_MAX: usize = 96 * 1024;
const NEIGHBOURS_MAX: usize = 12;

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let wanted = ctx.fields.get("scope").zip(ctx.fields.get("source"));
    let scopes: Vec<&Scope> =
        ctx.tree.namespaces().flat_map(|(id, _)| ctx.tree.scopes(id)).map(|(_, scope)| scope).collect();
    let counts = ctx.snapshot.count_by_scope(kenning_model::EntityType::Document)?;
    let mut sources = Vec::new();
    for known in scopes.iter().filter(|scope| counts.contains_key(&scope.number)) {
        for source in ctx.snapshot.document_sources(known.number)? {
            sources.push((known.number, source));
        }
    }
    let listed = match wanted {
        None => None,
        Some((scope, source)) => {
            let number = scopes.iter().find(|known| ctx.scope_name(known.number) == scope);
            let number = number
                .ok_or_else(|| Trouble::NotFound(format!("There is no scope `{}`.", cut(scope, 130))))?;
            Some((source, ctx.snapshot.documents_below(number.number, source, "")?))
        }
    };
    Page::new(
        "Documents",
        html! {
            h1 { "Documents" }
            @if sources.is_empty() {
                section.empty { h2 { "None were taken in" } p { "Take a directory in with " code { "kenning ingest DIR" } "." } }
            } @else {
                table {
                    thead { tr { th scope="col" { "Source" } th scope="col" { "Scope" } th.number scope="col" { "Documents" } th scope="col" { "Changed" } } }
                    tbody { @for (number_of, source) in &sources {
                        @let name = ctx.scope_name(*number_of);
                        tr data-item {
                            th scope="row" { a data-open href=(ctx.link("/documents", [("scope", name.as_str()), ("source", source.name.as_str())])) { (clean(&source.name)) } }
                            td { (scope(ctx, *number_of)) }
                            td.number { (number(source.documents)) }
                            td { (ago(ctx, source.changed_at)) }
                        }
                    } }
                }
            }
            @if let Some((source, documents)) = &listed {
                section {
                    h2 { (clean(source)) " " span.count { (counted(documents.len() as u64, "document")) } }
                    (paths(ctx, documents))
                    @if documents.len() > LISTED_MAX { p.quiet { "The first " (LISTED_MAX) " are listed; search finds the others." } }
                }
            }
        },
    )
}

/// The documents grouped by directory.
fn paths(ctx: &PageContext<'_>, documents: &[KnownDocument]) -> Markup {
    let mut by_directory: BTreeMap<&str, Vec<&KnownDocument>> = BTreeMap::new();
    for document in documents.iter().take(LISTED_MAX) {
        let directory = document.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        by_directory.entry(directory).or_default().push(document);
    }
    html! {
        @for (directory, documents) in by_directory {
            @if !directory.is_empty() { h3 { (clean(directory)) "/" } }
            ul.tree { @for document in documents {
                @let name = document.path.rsplit('/').next().unwrap_or_default();
                li { a data-open data-item href=(ctx.to(&format!("/document/{}", document.id))) { (clean(name)) } }
            } }
        }
    }
}

pub(crate) fn show_document(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let unknown = || Trouble::NotFound(format!("There is no document `{}`.", cut(ctx.id, 40)));
    let id = Id::parse(ctx.id).ok_or_else(unknown)?;
    let stored = ctx.snapshot.document(id)?.ok_or_else(unknown)?;
    let document = stored.record.as_document().ok_or_else(unknown)?;
    let sections = ctx.snapshot.sections_of(id)?;
    let neighbours = neighbours(ctx, id, &sections)?;
    let title = clean(&document.title);
    Page::new(
        title.clone(),
        html! {
            p.crumbs { a href=(ctx.to("/documents")) { "Documents" } " / " (clean(&document.source)) " / " (clean(&document.path)) }
            h1 { (title) }
            @if let Some(pattern) = &document.pattern {
                p.lead { (clean(&pattern.summary)) }
                @if let Some(when) = &pattern.use_when { p { strong { "Use when " } (clean(when)) } }
                @if let Some(when) = &pattern.avoid_when { p { strong { "Avoid when " } (clean(when)) } }
            }
            div.columns {
                article { (text(&sections)) }
                aside { (about(ctx, &stored, document)) (outline(&sections)) (mentions(ctx, &sections)) (others(ctx, &neighbours)) }
            }
        },
    )
}

fn text(sections: &[Stored]) -> Markup {
    let mut bytes = 0;
    let counted = sections.iter().filter_map(|stored| {
        let section = stored.record.as_section()?;
        bytes += section.text.len();
        Some((stored, section, bytes))
    });
    html! {
        @for (stored, section, bytes) in counted {
                @let level = section.level.clamp(1, 4) + 1;
                section.part id=(stored.id) {
                    @if section.level > 0 {
                        @let heading = clean(section.heading_path.last().map_or("", String::as_str));
                        @match level { 2 => h2 { (heading) }, 3 => h3 { (heading) }, _ => h4 { (heading) } }
                    }
                    @if bytes <= SHOWN_BYTES_MAX { (rendered(&section.text)) }
                    @else { p.quiet { "…" } }
                }
        }
    }
}

fn about(ctx: &PageContext<'_>, stored: &Stored, document: &Document) -> Markup {
    html! {
        section.provenance { h2 { "Where it comes from" } dl {
            dt { "Scope" } dd { (scope(ctx, document.scope)) }
            dt { "Source" } dd { (clean(&document.source)) }
            dt { "Path" } dd.long { (clean(&document.path)) }
            dt { "Tag" } dd { (clean(&document.doc_tag)) }
            @if let Some(updated) = document.updated { dt { "Of" } dd { (moment(updated)) } }
            dt { "Taken in" } dd { (ago(ctx, document.updated_at.unwrap_or(document.recorded_at))) " in " (crate::show::transaction_link(ctx, stored.tx_id)) }
            dt { "Version" } dd { (document.version) }
            @if let Some(pattern) = &document.pattern {
                dt { "Category" } dd { a href=(ctx.link("/patterns", [("category", pattern.category.as_str())])) { (clean(&pattern.category)) } }
                @if let Some(difficulty) = &pattern.difficulty { dt { "Difficulty" } dd { (clean(difficulty)) } }
                dt { "Pattern" } dd { code { (clean(&pattern.id)) } }
            }
        } }
    }
}

fn outline(sections: &[Stored]) -> Markup {
    let named: Vec<(&Id, &Section)> = sections
        .iter()
        .filter_map(|stored| Some((&stored.id, stored.record.as_section()?)))
        .filter(|(_, section)| section.level > 0)
        .collect();
    html! {
        @if named.len() > 1 {
            section { h2 { "Sections" } ul.outline { @for (id, section) in named {
                li class=(format!("level-{}", section.level.clamp(1, 4))) { a href=(format!("#{id}")) { (clean(section.heading_path.last().map_or("", String::as_str))) } }
            } } }
        }
    }
}

/// The names that the document mentions, each with a link to the graph.
fn mentions(ctx: &PageContext<'_>, sections: &[Stored]) -> Markup {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for mention in
        sections.iter().filter_map(|stored| stored.record.as_section()).flat_map(|section| &section.mentions)
    {
        *names.entry(&mention.name).or_default() += 1;
    }
    let mut names: Vec<(&str, usize)> = names.into_iter().collect();
    names.sort_by_key(|(name, many)| (std::cmp::Reverse(*many), *name));
    html! {
        @if !names.is_empty() { section { h2 { "Speaks of" } p.names { @for (name, _) in names.iter().take(30) {
            a.tag href=(ctx.link("/graph", [("name", *name)])) { (cut(name, 60)) } " "
        } } } }
    }
}

/// Sections of other documents that link to this document.
fn neighbours(ctx: &PageContext<'_>, id: Id, sections: &[Stored]) -> Result<Vec<Stored>, Trouble> {
    if !ctx.visitor.caller.has_graph {
        return Ok(Vec::new());
    }
    let sight = ctx.everywhere();
    let own: Vec<Id> = sections.iter().map(|stored| stored.id).collect();
    let found = ctx.snapshot.graph(&sight, |view| {
        let view = view.going(EdgeDirection::In);
        let mut found: Vec<Id> = Vec::new();
        let starts = own.iter().map(|id| Node::Section(*id)).chain([Node::Document(id)]);
        for start in starts.filter_map(|node| view.find(&node)) {
            // The walk may end early, because only the first few are shown.
            let _ = view.each(start, &mut |_, other| {
                if let Node::Section(other) = view.node(other)
                    && !own.contains(other)
                    && !found.contains(other)
                {
                    found.push(*other);
                }
                match found.len() < NEIGHBOURS_MAX {
                    true => std::ops::ControlFlow::Continue(()),
                    false => std::ops::ControlFlow::Break(()),
                }
            });
        }
        found
    })?;
    let records = ctx.snapshot.records(kenning_model::EntityType::Section, &found)?;
    Ok(records.into_iter().flatten().collect())
}

fn others(ctx: &PageContext<'_>, neighbours: &[Stored]) -> Markup {
    html! {
        @if !neighbours.is_empty() { section { h2 { "Linked from" } ul.plain { @for stored in neighbours {
            @if let Some(section) = stored.record.as_section() {
                li { a href=(format!("{}#{}", ctx.to(&format!("/document/{}", section.document)), stored.id)) { (section.title()) } }
            }
        } } } }
    }
}
