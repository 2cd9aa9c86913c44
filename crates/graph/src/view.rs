//! What of the graph can be seen, and the steps that can be taken there.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use kenning_model::{Id, ScopeId, TxId, fold};
use rustc_hash::FxHashSet;

use crate::{AT, CHILD, Graph, Half, LABELS, LINK, MENTION, Node, NodeRef, Source};

/// The graph as of a transaction, from some scopes, along some relations.
pub struct View<'a> {
    graph: &'a Graph,
    at: TxId,
    scopes: &'a [ScopeId],
    only: Option<FxHashSet<u32>>,
    way: Way,
    /// Of each kind of label those that a section may have; none is any.
    labels: [Option<Vec<u32>>; LABELS],
    /// So many sections may speak of an entity before it is common; counted when it is first asked for.
    mentions_max: OnceCell<usize>,
}

/// A larger share of the sections in sight speaks of an entity only if it says nothing about any of them.
const COMMON_SHARE: f64 = 0.01;
/// Among few sections no share is large.
const COMMON_MENTIONS_MIN: usize = 10;

/// Along edges, against them, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
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
        let (only, way, labels) = (None, Way::Both, [const { None }; LABELS]);
        View { graph, at, scopes, only, way, labels, mentions_max: OnceCell::new() }
    }

    /// Only along these relations, whatever their case; none named is all.
    pub fn along(self, relations: &[String]) -> View<'a> {
        let numbers =
            || relations.iter().filter_map(|name| self.graph.relations.by_key.get(&fold(name))).flatten();
        let only = (!relations.is_empty()).then(|| numbers().copied().collect());
        View { only, ..self }
    }

    pub fn going(self, way: Way) -> View<'a> {
        View { way, ..self }
    }

    /// Only sections with one of these labels of each kind, whatever their case; no label named is any. The rest is out of
    /// sight.
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

    /// The relation's name as it was written.
    pub fn relation(&self, edge: &Edge) -> &'a str {
        &self.graph.relations.names[edge.relation as usize]
    }

    /// Every visible edge of a node, newest first, with what is at its other end.
    pub fn each(
        &self,
        node: NodeRef,
        found: &mut dyn FnMut(Edge, NodeRef) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for half in self.halves(node) {
            if half.relation == AT {
                // Whoever links to where this section is, links to this section.
                for link in self.halves(NodeRef(half.other)).filter(|link| link.relation == LINK) {
                    self.tell(node, LINK, link.other, false, found)?;
                }
            } else if half.relation == LINK && half.is_out {
                for place in self.halves(NodeRef(half.other)).filter(|place| place.relation == AT) {
                    self.tell(node, LINK, place.other, true, found)?;
                }
            } else {
                self.tell(node, half.relation, half.other, half.is_out, found)?;
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
        let is_this_way = match self.way {
            Way::Both => true,
            Way::Out => is_out,
            Way::In => !is_out,
        };
        if !is_this_way || self.only.as_ref().is_some_and(|only| !only.contains(&relation)) {
            return ControlFlow::Continue(());
        }
        let other = NodeRef(other);
        let (from, to) = if is_out { (node, other) } else { (other, node) };
        found(Edge { from, to, relation }, other)
    }

    fn halves(&self, node: NodeRef) -> impl Iterator<Item = &'a Half> {
        self.graph.halves[node.0 as usize].iter().rev().filter(|half| self.sees(half.version))
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
            && (matches!(version.source, Source::Triple(_)) || self.fits(&version.labels))
    }

    /// Whether anything that can be seen says that it is there.
    pub fn is_seen(&self, node: NodeRef) -> bool {
        self.halves(node).next().is_some()
    }

    /// Whether so many sections speak of an entity that two of them have nothing in common by it. It is shown, and facts lead
    /// on from it, but a walk that came to it from a section does not go on to the others.
    pub fn is_common(&self, node: NodeRef) -> bool {
        let halves = &self.graph.halves[node.0 as usize];
        if halves.len() <= COMMON_MENTIONS_MIN || !matches!(self.node(node), Node::Entity(_)) {
            return false;
        }
        let max = *self.mentions_max.get_or_init(|| {
            let versions = 0..self.graph.versions.len() as u32;
            let is_section = |version: &u32| {
                matches!(self.graph.versions[*version as usize].source, Source::Section(_))
                    && self.sees(*version)
            };
            let sections = versions.filter(is_section).count();
            COMMON_MENTIONS_MIN.max((sections as f64 * COMMON_SHARE) as usize)
        });
        self.mentioned_in(node).take(max + 1).count() > max
    }

    /// The sections that are part of a section or document, in no order.
    pub fn children(&self, node: NodeRef) -> impl Iterator<Item = Id> {
        let children = self.halves(node).filter(|half| half.relation == CHILD && !half.is_out);
        children.filter_map(|half| match self.graph.nodes[half.other as usize] {
            Node::Section(id) => Some(id),
            _ => None,
        })
    }

    /// The sections that mention an entity, newest first.
    pub fn mentioned_in(&self, entity: NodeRef) -> impl Iterator<Item = Id> {
        let mentions = self.halves(entity).filter(|half| half.relation == MENTION && !half.is_out);
        mentions.filter_map(|half| match self.graph.versions[half.version as usize].source {
            Source::Section(id) => Some(id),
            Source::Triple(_) => None,
        })
    }

    /// From what an entity is known: the newest section that mentions it, or else the newest triple that names it. What
    /// can't be seen is not there.
    pub fn known_from(&self, entity: NodeRef) -> Option<Source> {
        let source = |half: &Half| self.graph.versions[half.version as usize].source;
        let mention = self.mentioned_in(entity).next().map(Source::Section);
        mention.or_else(|| self.halves(entity).map(source).find(|source| matches!(source, Source::Triple(_))))
    }

    /// The triples on the ways from a folded name, in so many steps that all go along the relations or all against them: each
    /// once with the number of its step, nearest first and newest first in each step, `max` at most.
    ///
    /// `api -depends on-> auth -depends on-> db`: against `depends on` from `db`, two steps, gives `auth -> db` at 1 and
    /// `api -> auth` at 2.
    pub fn triples_from(&self, name: &str, is_out: bool, steps: u32, max: usize) -> Vec<(Id, u32)> {
        let Some(start) = self.find(&Node::Entity(name.to_owned())) else { return Vec::new() };
        let mut reached = FxHashSet::from_iter([start.0]);
        let mut nodes = vec![start];
        let mut found = Vec::new();
        for step in 1..=steps {
            let mut next = Vec::new();
            for node in nodes {
                for half in self.halves(node).filter(|half| half.is_out == is_out) {
                    let is_along = self.only.as_ref().is_none_or(|only| only.contains(&half.relation));
                    let Source::Triple(id) = self.graph.versions[half.version as usize].source else {
                        continue;
                    };
                    if !is_along {
                        continue;
                    }
                    if found.len() == max {
                        return found;
                    }
                    // A triple leads away from one node, which is gone through once, so it comes once.
                    found.push((id, step));
                    if reached.insert(half.other) {
                        next.push(NodeRef(half.other));
                    }
                }
            }
            nodes = next;
        }
        found
    }

    /// The triples with these folded ends, of which there must be one, newest first.
    pub fn triples(&self, subject: Option<&str>, object: Option<&str>) -> Vec<Id> {
        let find = |name: Option<&str>| name.map(|name| self.find(&Node::Entity(name.to_owned())));
        let (start, other, is_out) = match (find(subject), find(object)) {
            (Some(Some(subject)), None) => (subject, None, true),
            (None, Some(Some(object))) => (object, None, false),
            (Some(Some(subject)), Some(Some(object))) => {
                // From where there is less to look at.
                let many = |node: NodeRef| self.graph.halves[node.0 as usize].len();
                match many(subject) <= many(object) {
                    true => (subject, Some(object), true),
                    false => (object, Some(subject), false),
                }
            }
            _ => return Vec::new(),
        };
        let fits = |half: &&Half| {
            half.is_out == is_out
                && other.is_none_or(|other| half.other == other.0)
                && self.only.as_ref().is_none_or(|only| only.contains(&half.relation))
        };
        let id = |half: &Half| match self.graph.versions[half.version as usize].source {
            Source::Triple(id) => Some(id),
            Source::Section(_) => None,
        };
        self.halves(start).filter(fits).filter_map(id).collect()
    }
}
