//! The graph: names, the facts about them, and the paths between two names. It is drawn without a script.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use kenning_engine::graph::{Edge, Node, NodeRef, View};
use kenning_model::{EntityType, Id, clean, fold};
use maud::{Markup, html};

use crate::request::{Page, PageContext, Trouble};
use crate::show::{button, counted, cut, scope};

const NEIGHBOURS_MAX: usize = 200;
/// The largest number of neighbours in the drawing.
const DRAWN_MAX: usize = 16;
const NAMES_MAX: usize = 120;
const HOPS: u8 = 4;
const PATHS_MAX: usize = 5;
const NODES_MAX: usize = 20_000;

/// The size of the drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;

/// A neighbour of a name in the graph.
struct Neighbour {
    relation: String,
    is_out: bool,
    target: NeighbourTarget,
}

#[derive(Clone, PartialEq)]
enum NeighbourTarget {
    Name(String),
    Section(Id),
    Document(Id),
}

/// Two nodes of a path, the relation between them, and whether it points from the first to the second.
type MetEdge = (Option<NeighbourTarget>, String, bool, Option<NeighbourTarget>);

struct Step {
    from: String,
    relation: String,
    to: String,
}

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    if !ctx.visitor.caller.has_graph {
        return Err(Trouble::NotFound("Kenning was started without the graph.".to_owned()));
    }
    let (name, to) = (ctx.fields.get("name"), ctx.fields.get("to"));
    let body = match (name, to) {
        (None, _) => names(ctx)?,
        (Some(name), None) => around(ctx, name)?,
        (Some(name), Some(to)) => between(ctx, name, to)?,
    };
    let title = name.map_or_else(|| "Graph".to_owned(), |name| format!("{} · Graph", cut(name, 60)));
    Page::new(
        title,
        html! {
            h1 { @match name { Some(name) => (cut(name, 120)), None => "Graph" } }
            form.search action=(format!("{}/graph", crate::BASE)) aria-label="Look at a name" {
                @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
                label.hidden for="name" { "Name" }
                input #name name="name" value=(name.unwrap_or_default()) placeholder="Name" required;
                label.hidden for="to" { "Path to" }
                input #to name="to" value=(to.unwrap_or_default()) placeholder="Path to another name";
                button type="submit" { "Look" }
            }
            (body)
        },
    )
}

/// The names in the newest facts, in alphabetical order.
fn names(ctx: &PageContext<'_>) -> Result<Markup, Trouble> {
    let names = ctx.snapshot.names_in_triples(&ctx.everywhere())?;
    Ok(html! {
        @if names.is_empty() {
            section.empty { h2 { "No facts yet" } p { "Agents write them with " code { "relate" } "; documents bring the names that they mention." } }
        } @else {
            h2 { "Names in facts" }
            p.names { @for name in names.iter().take(NAMES_MAX) { a.tag data-item data-open href=(ctx.link("/graph", [("name", name.as_str())])) { (cut(name, 60)) } " " } }
            @if names.len() > NAMES_MAX { p.quiet { "and " (counted((names.len() - NAMES_MAX) as u64, "more name")) } }
        }
    })
}

fn target(view: &View<'_>, node: NodeRef) -> Option<NeighbourTarget> {
    match view.node(node) {
        Node::Entity(name) => Some(NeighbourTarget::Name(name.clone())),
        Node::Section(id) => Some(NeighbourTarget::Section(*id)),
        Node::Document(id) => Some(NeighbourTarget::Document(*id)),
        Node::Place(..) => None,
    }
}

fn around(ctx: &PageContext<'_>, name: &str) -> Result<Markup, Trouble> {
    let sight = ctx.everywhere();
    let found = ctx.snapshot.graph(&sight, |view| {
        let mut found: Vec<Neighbour> = Vec::new();
        let Some(node) = view.find(&Node::Entity(fold(name))) else { return found };
        // The walk may end early; the neighbours that it met are shown.
        let _ = view.each(node, &mut |edge: Edge, other: NodeRef| {
            if let Some(target) = target(&view, other) {
                found.push(Neighbour {
                    relation: view.relation(&edge).to_owned(),
                    is_out: edge.from == node,
                    target,
                });
            }
            match found.len() < NEIGHBOURS_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        found
    })?;
    if found.is_empty() {
        return Ok(
            html! { section.empty { h2 { "Nothing is said of it" } p { "Look for it in the " a href=(ctx.link("/search", [("q", name)])) { "entries and documents" } "." } } },
        );
    }
    let labels = labels(ctx, found.iter().map(|neighbour| &neighbour.target))?;
    let folded = fold(name);
    let (as_subject, _) = ctx.snapshot.triples(&sight, [Some(&folded), None, None], 0..50)?;
    let (as_object, _) = ctx.snapshot.triples(&sight, [None, None, Some(&folded)], 0..50)?;
    Ok(html! {
        (drawing(ctx, name, &found, &labels))
        @if !as_subject.is_empty() || !as_object.is_empty() {
            section { h2 { "Facts" } table.facts {
                thead.hidden { tr { th scope="col" { "Subject" } th scope="col" { "Predicate" } th scope="col" { "Object" } th scope="col" { "Where" } } }
                tbody { @for stored in as_subject.iter().chain(&as_object) {
                    @if let Some(triple) = stored.record.as_triple() {
                        @let id = stored.id.to_string();
                        tr data-item {
                            td { a href=(ctx.link("/graph", [("name", triple.subject.as_str())])) { (cut(&triple.subject, 120)) } }
                            td { em { (cut(&triple.predicate, 80)) } }
                            td { a data-open href=(ctx.link("/graph", [("name", triple.object.as_str())])) { (cut(&triple.object, 120)) } }
                            td.quiet { (scope(ctx, triple.scope)) " " (crate::show::actor(ctx, &triple.actor)) " " (crate::show::ago(ctx, triple.updated_at.unwrap_or(triple.recorded_at))) " " (crate::show::transaction_link(ctx, stored.tx_id)) }
                            td { @if ctx.writes() { (button(ctx, "forget-fact", "Delete", &[("id", &id)], "danger")) } }
                        }
                    }
                } }
            } }
        }
        @let sections: Vec<&Neighbour> = found.iter().filter(|neighbour| matches!(neighbour.target, NeighbourTarget::Section(_))).collect();
        @if !sections.is_empty() {
            section { h2 { "Documents that speak of it" } ul.plain { @for neighbour in sections {
                li { a href=(address(ctx, &neighbour.target, &labels)) { (label(&neighbour.target, &labels)) } }
            } } }
        }
    })
}

/// The titles of sections and documents, each with the document that it belongs to.
type Labels = BTreeMap<Id, (String, Id)>;

fn labels<'w>(
    ctx: &PageContext<'_>,
    all: impl Iterator<Item = &'w NeighbourTarget>,
) -> Result<Labels, Trouble> {
    let (mut sections, mut documents) = (Vec::new(), Vec::new());
    for target in all {
        match target {
            NeighbourTarget::Section(id) => sections.push(*id),
            NeighbourTarget::Document(id) => documents.push(*id),
            NeighbourTarget::Name(_) => {}
        }
    }
    let mut labels = Labels::new();
    for stored in ctx.snapshot.records(EntityType::Section, &sections)?.into_iter().flatten() {
        if let Some(section) = stored.record.as_section() {
            labels.insert(stored.id, (section.title(), section.document));
        }
    }
    for stored in ctx.snapshot.records(EntityType::Document, &documents)?.into_iter().flatten() {
        if let Some(document) = stored.record.as_document() {
            labels.insert(stored.id, (clean(&document.title), stored.id));
        }
    }
    Ok(labels)
}

fn label(target: &NeighbourTarget, labels: &Labels) -> String {
    match target {
        NeighbourTarget::Name(name) => clean(name),
        NeighbourTarget::Section(id) | NeighbourTarget::Document(id) => {
            labels.get(id).map_or_else(|| id.to_string(), |(name, _)| name.clone())
        }
    }
}

fn address(ctx: &PageContext<'_>, target: &NeighbourTarget, labels: &Labels) -> String {
    match target {
        NeighbourTarget::Name(name) => ctx.link("/graph", [("name", name.as_str())]),
        NeighbourTarget::Document(id) => ctx.to(&format!("/document/{id}")),
        NeighbourTarget::Section(id) => {
            let document = labels.get(id).map_or(*id, |(_, document)| *document);
            format!("{}#{id}", ctx.to(&format!("/document/{document}")))
        }
    }
}

/// The name in the middle with its neighbours around it. All positions are attributes, because the policy
/// forbids inline styles.
fn drawing(ctx: &PageContext<'_>, name: &str, found: &[Neighbour], labels: &Labels) -> Markup {
    let drawn: Vec<&Neighbour> = found.iter().take(DRAWN_MAX).collect();
    let place = |at: usize| {
        let angle =
            std::f64::consts::TAU * at as f64 / drawn.len().max(1) as f64 - std::f64::consts::FRAC_PI_2;
        (WIDTH / 2.0 + angle.cos() * WIDTH * 0.36, HEIGHT / 2.0 + angle.sin() * HEIGHT * 0.40)
    };
    let show = |value: f64| format!("{value:.0}");
    html! {
        svg.graph viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="group" aria-label=(format!("{} and {}", cut(name, 60), counted(found.len() as u64, "neighbour"))) {
            @for (at, neighbour) in drawn.iter().enumerate() {
                @let (x, y) = place(at);
                line x1=(show(WIDTH / 2.0)) y1=(show(HEIGHT / 2.0)) x2=(show(x)) y2=(show(y)) {}
                text.relation x=(show((WIDTH / 2.0 + x) / 2.0)) y=(show((HEIGHT / 2.0 + y) / 2.0 - 3.0)) text-anchor="middle" {
                    @if neighbour.is_out { (cut(&neighbour.relation, 22)) " →" } @else { "← " (cut(&neighbour.relation, 22)) }
                }
            }
            @for (at, neighbour) in drawn.iter().enumerate() {
                @let (x, y) = place(at);
                a href=(address(ctx, &neighbour.target, labels)) {
                    circle class=(if matches!(neighbour.target, NeighbourTarget::Name(_)) { "name" } else { "page" }) cx=(show(x)) cy=(show(y)) r="6" {}
                    text x=(show(x)) y=(show(y + 20.0)) text-anchor="middle" { (cut(&label(&neighbour.target, labels), 26)) }
                }
            }
            circle.middle cx=(show(WIDTH / 2.0)) cy=(show(HEIGHT / 2.0)) r="9" {}
            text.middle x=(show(WIDTH / 2.0)) y=(show(HEIGHT / 2.0 + 24.0)) text-anchor="middle" { (cut(name, 40)) }
        }
        @if found.len() > drawn.len() { p.quiet { "Drawn are " (drawn.len()) " of " (counted(found.len() as u64, "neighbour")) "." } }
    }
}

/// The shortest paths from one name to another.
fn between(ctx: &PageContext<'_>, name: &str, to: &str) -> Result<Markup, Trouble> {
    let sight = ctx.everywhere();
    let mut met: Vec<NeighbourTarget> = Vec::new();
    let paths: Option<Vec<Vec<MetEdge>>> = ctx.snapshot.graph(&sight, |view| {
        let (one, other) = (view.find(&Node::Entity(fold(name)))?, view.find(&Node::Entity(fold(to)))?);
        let paths = view.shortest(one, other, HOPS, PATHS_MAX, NODES_MAX).paths;
        let step = |nodes: &[NodeRef], edge: &Edge| {
            (
                target(&view, nodes[0]),
                view.relation(edge).to_owned(),
                edge.from == nodes[0],
                target(&view, nodes[1]),
            )
        };
        Some(
            paths
                .iter()
                .map(|path| {
                    path.nodes.windows(2).zip(&path.edges).map(|(nodes, edge)| step(nodes, edge)).collect()
                })
                .collect(),
        )
    })?;
    let paths = paths.unwrap_or_default();
    for (from, _, _, to) in paths.iter().flatten() {
        met.extend(from.clone());
        met.extend(to.clone());
    }
    let labels = labels(ctx, met.iter())?;
    let shown = |target: &Option<NeighbourTarget>| {
        target.as_ref().map_or_else(String::new, |target| label(target, &labels))
    };
    let steps: Vec<Vec<Step>> = paths
        .iter()
        .map(|path| {
            let step = |(one, relation, is_out, other): &MetEdge| {
                let (from, to) = if *is_out { (one, other) } else { (other, one) };
                Step { from: shown(from), relation: relation.clone(), to: shown(to) }
            };
            path.iter().map(step).collect()
        })
        .collect();
    Ok(html! {
        @if steps.is_empty() {
            section.empty { h2 { "No way within " (HOPS) " steps" } p { "from " (cut(name, 80)) " to " (cut(to, 80)) } }
        } @else {
            h2 { "From " (cut(name, 80)) " to " (cut(to, 80)) }
            ol.list { @for path in &steps { li.item data-item { ul.facts { @for step in path {
                li { (cut(&step.from, 80)) " " em { (cut(&step.relation, 60)) } " " (cut(&step.to, 80)) }
            } } } } }
        }
    })
}
