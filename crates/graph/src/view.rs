//! The visible part of the graph, and the steps that a walk can take in it.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use kenning_model::{Id, ScopeId, TxId, fold};
use rustc_hash::FxHashSet;

use crate::{CHILD, EdgeEnd, EdgeOrigin, Graph, LABELS, LINK, MENTION, Node, NodeRef, PLACE_TO_SECTION};

/// The graph as of a transaction, restricted to some scopes and some relations.
pub struct View<'a> {
    graph: &'a Graph,
    at: TxId,
    scopes: &'a [ScopeId],
    only: Option<FxHashSet<u32>>,
    direction: EdgeDirection,
    /// For each kind of label, those that a section may have; `None` allows all.
    labels: [Option<Vec<u32>>; LABELS],
    /// The number of sections that may mention an entity before it counts as common; computed when it is
    /// first needed.
    mentions_max: OnceCell<usize>,
}

/// An entity that a larger share of the visible sections mentions is common: it does not distinguish them.
const COMMON_SHARE: f64 = 0.01;
/// An entity with at most this number of mentions is never common, since in a small graph few mentions are a
/// large share.
const COMMON_MENTIONS_MIN: usize = 10;

/// The direction in which edges are followed: along, against, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EdgeDirection {
    #[default]
    Both,
    Out,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    pub from: NodeRef,
    pub to: NodeRef,
    pub(crate) relation: u32,
}

impl<'a> View<'a> {
    pub(crate) fn new(graph: &'a Graph, at: TxId, scopes: &'a [ScopeId]) -> View<'a> {
        let (only, direction, labels) = (None, EdgeDirection::Both, [const { None }; LABELS]);
        View { graph, at, scopes, only, direction, labels, mentions_max: OnceCell::new() }
    }

    /// Restricts the view to these relations, ignoring case; an empty list allows all.
    pub fn along(self, relations: &[String]) -> View<'a> {
        let numbers =
            || relations.iter().filter_map(|name| self.graph.relations.by_key.get(&fold(name))).flatten();
        let only = (!relations.is_empty()).then(|| numbers().copied().collect());
        View { only, ..self }
    }

    pub fn going(self, direction: EdgeDirection) -> View<'a> {
        View { direction, ..self }
    }

    /// Restricts the view to sections with one of these labels of each kind, ignoring case; an empty list
    /// allows all. Other sections are out of sight.
    pub fn labelled(self, labels: [&[String]; LABELS]) -> View<'a> {
        let number = |label: &String| self.graph.labels.get_index_of(&fold(label)).map(|at| at as u32);
        let labels = labels
            .map(|names| (!names.is_empty()).then(|| names.iter().filter_map(number).collect::<Vec<_>>()));
        View { labels, mentions_max: OnceCell::new(), ..self }
    }

    pub fn find(&self, node: &Node) -> Option<NodeRef> {
        self.graph.nodes.get_index_of(node).map(|at| NodeRef(at as u32))
    }

    pub fn node(&self, node: NodeRef) -> &'a Node {
        &self.graph.nodes[node.0 as usize]
    }

    /// The name of the relation in its original spelling.
    pub fn relation(&self, edge: &Edge) -> &'a str {
        &self.graph.relations.names[edge.relation as usize]
    }

    /// Passes every visible edge of a node to `found`, newest first, with the node at its other end.
    pub fn each(
        &self,
        node: NodeRef,
        found: &mut dyn FnMut(Edge, NodeRef) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for end in self.edge_ends(node) {
            if end.relation == PLACE_TO_SECTION {
                // A link to the place of this section is a link to this section.
                for link in self.edge_ends(NodeRef(end.other)).filter(|link| link.relation == LINK) {
                    self.tell(node, LINK, link.other, false, found)?;
                }
            } else if end.relation == LINK && end.is_out {
                for place in
                    self.edge_ends(NodeRef(end.other)).filter(|place| place.relation == PLACE_TO_SECTION)
                {
                    self.tell(node, LINK, place.other, true, found)?;
                }
            } else {
                self.tell(node, end.relation, end.other, end.is_out, found)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn tell(
        &self,
        node: NodeRef,
        relation: u32,
        other: u32,
        is_out: bool,
        found: &mut dyn FnMut(Edge, NodeRef) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let is_this_way = match self.direction {
            EdgeDirection::Both => true,
            EdgeDirection::Out => is_out,
            EdgeDirection::In => !is_out,
        };
        if !is_this_way || self.only.as_ref().is_some_and(|only| !only.contains(&relation)) {
            return ControlFlow::Continue(());
        }
        let other = NodeRef(other);
        let (from, to) = if is_out { (node, other) } else { (other, node) };
        found(Edge { from, to, relation }, other)
    }

    fn edge_ends(&self, node: NodeRef) -> impl Iterator<Item = &'a EdgeEnd> {
        self.graph.edge_ends[node.0 as usize].iter().rev().filter(|end| self.sees(end.version))
    }

    fn fits(&self, labels: &[u32; LABELS]) -> bool {
        let each = self.labels.iter().zip(labels);
        each.into_iter().all(|(wanted, own)| wanted.as_ref().is_none_or(|wanted| wanted.contains(own)))
    }

    fn sees(&self, version: u32) -> bool {
        let version = &self.graph.versions[version as usize];
        version.from <= self.at
            && self.at < version.to
            && self.scopes.contains(&version.scope)
            && (matches!(version.source, EdgeOrigin::Triple(_)) || self.fits(&version.labels))
    }

    /// Whether a visible record names the node.
    pub fn is_seen(&self, node: NodeRef) -> bool {
        self.edge_ends(node).next().is_some()
    }

    /// Whether so many sections mention an entity that a common mention does not relate two of them. Such an
    /// entity is shown, and triples lead on from it, but a walk that reached it from a section does not
    /// continue to other sections.
    pub fn is_common(&self, node: NodeRef) -> bool {
        let edge_ends = &self.graph.edge_ends[node.0 as usize];
        if edge_ends.len() <= COMMON_MENTIONS_MIN || !matches!(self.node(node), Node::Entity(_)) {
            return false;
        }
        let max = *self.mentions_max.get_or_init(|| {
            let versions = 0..self.graph.versions.len() as u32;
            let is_section = |version: &u32| {
                matches!(self.graph.versions[*version as usize].source, EdgeOrigin::Section(_))
                    && self.sees(*version)
            };
            let sections = versions.filter(is_section).count();
            COMMON_MENTIONS_MIN.max((sections as f64 * COMMON_SHARE) as usize)
        });
        self.mentioned_in(node).take(max + 1).count() > max
    }

    /// The sections directly within a section or document, in no particular order.
    pub fn children(&self, node: NodeRef) -> impl Iterator<Item = Id> {
        let children = self.edge_ends(node).filter(|end| end.relation == CHILD && !end.is_out);
        children.filter_map(|end| match self.graph.nodes[end.other as usize] {
            Node::Section(id) => Some(id),
            _ => None,
        })
    }

    /// The sections that mention an entity, newest first.
    pub fn mentioned_in(&self, entity: NodeRef) -> impl Iterator<Item = Id> {
        let mentions = self.edge_ends(entity).filter(|end| end.relation == MENTION && !end.is_out);
        mentions.filter_map(|end| match self.graph.versions[end.version as usize].source {
            EdgeOrigin::Section(id) => Some(id),
            EdgeOrigin::Triple(_) => None,
        })
    }

    /// The visible record by which an entity is known: the newest section that mentions it, or else the
    /// newest triple that names it. `None` if no visible record names it.
    pub fn known_from(&self, entity: NodeRef) -> Option<EdgeOrigin> {
        let source = |end: &EdgeEnd| self.graph.versions[end.version as usize].source;
        let mention = self.mentioned_in(entity).next().map(EdgeOrigin::Section);
        mention.or_else(|| {
            self.edge_ends(entity).map(source).find(|source| matches!(source, EdgeOrigin::Triple(_)))
        })
    }

    /// The triples reached from a folded name in at most this number of steps, all along the relations or all
    /// against them. Each triple is returned once with the number of its step, nearest first, newest first
    /// within a step, at most `max` in all.
    ///
    /// Example: `api -depends on-> auth -depends on-> db`. Two steps from `db` against `depends on` give
    /// `auth -> db` with step 1 and `api -> auth` with step 2.
    pub fn triples_from(&self, name: &str, is_out: bool, steps: u32, max: usize) -> Vec<(Id, u32)> {
        let Some(start) = self.find(&Node::Entity(name.to_owned())) else { return Vec::new() };
        let mut reached = FxHashSet::from_iter([start.0]);
        let mut nodes = vec![start];
        let mut found = Vec::new();
        for step in 1..=steps {
            let mut next = Vec::new();
            for node in nodes {
                for end in self.edge_ends(node).filter(|end| end.is_out == is_out) {
                    let is_along = self.only.as_ref().is_none_or(|only| only.contains(&end.relation));
                    let EdgeOrigin::Triple(id) = self.graph.versions[end.version as usize].source else {
                        continue;
                    };
                    if !is_along {
                        continue;
                    }
                    if found.len() == max {
                        return found;
                    }
                    // A triple leads away from one node, and each node is visited once, so a triple is found
                    // once.
                    found.push((id, step));
                    if reached.insert(end.other) {
                        next.push(NodeRef(end.other));
                    }
                }
            }
            nodes = next;
        }
        found
    }

    /// The triples with these folded ends, newest first. At least one end must be given.
    pub fn triples(&self, subject: Option<&str>, object: Option<&str>) -> Vec<Id> {
        let find = |name: Option<&str>| name.map(|name| self.find(&Node::Entity(name.to_owned())));
        let (start, other, is_out) = match (find(subject), find(object)) {
            (Some(Some(subject)), None) => (subject, None, true),
            (None, Some(Some(object))) => (object, None, false),
            (Some(Some(subject)), Some(Some(object))) => {
                // Starts at the end that has fewer edges.
                let many = |node: NodeRef| self.graph.edge_ends[node.0 as usize].len();
                match many(subject) <= many(object) {
                    true => (subject, Some(object), true),
                    false => (object, Some(subject), false),
                }
            }
            _ => return Vec::new(),
        };
        let fits = |end: &&EdgeEnd| {
            end.is_out == is_out
                && other.is_none_or(|other| end.other == other.0)
                && self.only.as_ref().is_none_or(|only| only.contains(&end.relation))
        };
        let id = |end: &EdgeEnd| match self.graph.versions[end.version as usize].source {
            EdgeOrigin::Triple(id) => Some(id),
            EdgeOrigin::Section(_) => None,
        };
        self.edge_ends(start).filter(fits).filter_map(id).collect()
    }
}
