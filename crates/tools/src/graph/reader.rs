//! The graph as the server's scope sees it, and the form in which its nodes are shown.

use kenning_engine::graph::{Edge, EdgeOrigin, Node, NodeRef, View};
use kenning_engine::{SectionLabel, Sight, Snapshot};
use kenning_model::{Id, Mention, Section, fold};
use kenning_presentation::text::{clean, cut};

use super::{EdgeItem, NodeItem};
use crate::documents::Scope;
use crate::tool::sight;
use crate::{Caller, Code, Context, Stop};

/// The prefix of an entity's id, so that the name of an entity can't be taken for the id of a section.
const ENTITY: &str = "entity:";
const TITLE_BYTES_MAX: usize = 300;
const SNIPPET_BYTES_MAX: usize = 200;

pub(crate) struct GraphReader<'a> {
    caller: &'a Caller,
    snapshot: &'a Snapshot<'a>,
    sight: Sight,
    scope: Scope,
}

/// A node that a walk met, with the source that is needed to show it.
pub(crate) struct VisitedNode {
    pub(crate) node: Node,
    known_from: Option<EdgeOrigin>,
}

impl<'a> GraphReader<'a> {
    pub(crate) fn new(
        ctx: &Context<'a>,
        snapshot: &'a Snapshot<'a>,
        scope: Option<Scope>,
    ) -> Result<GraphReader<'a>, Stop> {
        if !ctx.caller.has_graph {
            let message =
                "the graph is off on this server (`--no-graph`); use `kb_search` or `kb_retrieve_evidence`";
            return Err(Stop::new(Code::InvalidArgument, message));
        }
        let scope = scope.unwrap_or_default();
        scope.check(ctx)?;
        let sight = sight(snapshot, &ctx.scope_name(None)?)?;
        Ok(GraphReader { caller: ctx.caller, snapshot, sight, scope })
    }

    /// Calls `at` with a view of the graph. Sections that the scope argument excludes are not in the view.
    pub(crate) fn look<T>(&self, at: impl FnOnce(View<'_>) -> T) -> Result<T, Stop> {
        let labels = self.scope.labels();
        let of = |kind: SectionLabel| {
            labels.iter().find(|(label, _)| *label == kind).map_or(&[][..], |(_, values)| values.as_slice())
        };
        let wanted = [SectionLabel::DocTag, SectionLabel::Repository, SectionLabel::Environment].map(of);
        Ok(self.snapshot.graph(&self.sight, |view| at(view.labelled(wanted)))?)
    }

    pub(crate) fn section(&self, id: Id) -> Result<Option<Section>, Stop> {
        let section = self.snapshot.section(id)?.map(|stored| stored.record);
        Ok(section.and_then(|record| record.as_section().cloned()))
    }

    /// Finds the node with this name: a section or document by its id, a section by the id of one of its
    /// passages, an entity by its id or its name.
    pub(crate) fn find(&self, view: &View<'_>, name: &str) -> Option<NodeRef> {
        let passage = self.caller.scratch.get(&self.caller.scratch_owner(self.snapshot), name);
        let name = passage.as_ref().map_or(name, |passage| &passage.section_id);
        let entity = Node::Entity(fold(name.strip_prefix(ENTITY).unwrap_or(name)));
        let known = match Id::parse(name) {
            Some(id) => vec![Node::Section(id), Node::Document(id), entity],
            None => vec![entity],
        };
        known.iter().filter_map(|node| view.find(node)).find(|node| view.is_seen(*node))
    }

    /// Finds a section by its id or by the id of one of its passages.
    pub(crate) fn find_section(&self, name: &str) -> Result<Option<(Id, Section)>, Stop> {
        let found = self.look(|view| self.find(&view, name).map(|node| view.node(node).clone()))?;
        let Some(Node::Section(id)) = found else { return Ok(None) };
        Ok(self.section(id)?.map(|section| (id, section)))
    }

    /// The nodes with these ids and names, without duplicates, and the names for which there is no node.
    pub(crate) fn find_all(&self, view: &View<'_>, names: &[String]) -> (Vec<NodeRef>, Vec<String>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match self.find(view, name) {
                Some(node) if found.contains(&node) => {}
                Some(node) => found.push(node),
                None => missing.push(clean(name)),
            }
        }
        (found, missing)
    }

    pub(crate) fn show(&self, met: &VisitedNode) -> Result<Option<NodeItem>, Stop> {
        match &met.node {
            Node::Section(id) => Ok(self.section(*id)?.map(|section| section_item(*id, &section))),
            Node::Document(id) => {
                let stored = self.snapshot.document(*id)?;
                Ok(stored.as_ref().and_then(|stored| stored.record.as_document()).map(|document| NodeItem {
                    id: id.to_string(),
                    label: Some("document".to_owned()),
                    title: Some(cut(&clean(&document.title), TITLE_BYTES_MAX)),
                    level: Some(0),
                    doc_tag: Some(clean(&document.doc_tag)),
                    path: Some(clean(&document.path)),
                    ..NodeItem::default()
                }))
            }
            Node::Entity(name) => self.entity(name, met.known_from),
            Node::Place(..) => Ok(None),
        }
    }

    /// An entity, with its name spelt as in the section or triple where it occurs.
    fn entity(&self, name: &str, known_from: Option<EdgeOrigin>) -> Result<Option<NodeItem>, Stop> {
        Ok(match known_from {
            None => None,
            Some(EdgeOrigin::Section(id)) => self.section(id)?.and_then(|section| {
                section.mentions.iter().find(|mention| fold(&mention.name) == name).map(mention_item)
            }),
            Some(EdgeOrigin::Triple(id)) => {
                let stored = self.snapshot.triple(id)?;
                stored.as_ref().and_then(|stored| stored.record.as_triple()).map(|triple| {
                    let spelt = [&triple.subject, &triple.object].into_iter().find(|end| fold(end) == name);
                    entity_item("entity", spelt.map_or(name, |spelt| spelt.as_str()))
                })
            }
        })
    }
}

pub(crate) fn met(view: &View<'_>, node: NodeRef) -> VisitedNode {
    let known_from = match view.node(node) {
        Node::Entity(_) => view.known_from(node),
        _ => None,
    };
    VisitedNode { node: view.node(node).clone(), known_from }
}

pub(crate) fn node_id(node: &Node) -> String {
    match node {
        Node::Document(id) | Node::Section(id) => id.to_string(),
        Node::Entity(name) => entity_id(name),
        Node::Place(_, anchor) => anchor.clone(),
    }
}

pub(crate) fn entity_id(name: &str) -> String {
    format!("{ENTITY}{}", clean(&fold(name)))
}

pub(crate) fn edge_item(view: &View<'_>, edge: &Edge) -> EdgeItem {
    EdgeItem {
        from: node_id(view.node(edge.from)),
        r#type: clean(view.relation(edge)),
        to: node_id(view.node(edge.to)),
    }
}

pub(crate) fn section_item(id: Id, section: &Section) -> NodeItem {
    NodeItem {
        id: id.to_string(),
        label: Some("section".to_owned()),
        title: Some(cut(&section.title(), TITLE_BYTES_MAX)),
        level: Some(section.level),
        tokens: Some(section.text.len().div_ceil(4)),
        doc_tag: Some(clean(&section.doc_tag)),
        anchor: Some(section.anchor.clone()).filter(|anchor| !anchor.is_empty()),
        path: None,
        snippet: None,
    }
}

pub(crate) fn mention_item(mention: &Mention) -> NodeItem {
    entity_item(&mention.label, &mention.name)
}

fn entity_item(label: &str, spelt: &str) -> NodeItem {
    NodeItem {
        id: entity_id(spelt),
        label: Some(label.to_owned()),
        title: Some(cut(&clean(spelt), TITLE_BYTES_MAX)),
        ..NodeItem::default()
    }
}

/// The beginning of a section's text, on one line.
pub(crate) fn snippet(section: &Section) -> String {
    crate::memory::item::one_line(&clean(&section.text), SNIPPET_BYTES_MAX)
}
