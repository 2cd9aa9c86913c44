//! The shortest paths between two nodes, searched from both ends at once.

use std::ops::ControlFlow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Edge, MENTION, NodeRef, View};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// From one end to the other.
    pub nodes: Vec<NodeRef>,
    /// The edges between neighbouring nodes, in either direction.
    pub edges: Vec<Edge>,
}

#[derive(Default)]
pub struct Paths {
    /// The paths found, all equally short.
    pub paths: Vec<Path>,
    /// Whether the search stopped at its limit, so that a path may exist although none was found.
    pub is_cut: bool,
}

/// The nodes that were reached from one end.
struct Side {
    distances: FxHashMap<NodeRef, u8>,
    layer: Vec<NodeRef>,
    radius: u8,
    /// Common entities that were reached from a section. The search does not continue from them to other
    /// sections.
    from_sections: FxHashSet<NodeRef>,
}

impl Side {
    fn new(start: NodeRef) -> Side {
        let distances = FxHashMap::from_iter([(start, 0)]);
        Side { distances, layer: vec![start], radius: 0, from_sections: FxHashSet::default() }
    }
}

impl View<'_> {
    /// The shortest paths between two nodes, ignoring the direction of edges: at most `many` paths of at most
    /// `hops` edges, visiting at most `nodes_max` nodes.
    pub fn shortest(&self, a: NodeRef, b: NodeRef, hops: u8, many: usize, nodes_max: usize) -> Paths {
        let mut sides = [Side::new(a), Side::new(b)];
        if a == b {
            return Paths::default();
        }
        let met = loop {
            let [left, right] = &sides;
            if left.radius + right.radius == hops || left.layer.is_empty() || right.layer.is_empty() {
                return Paths::default();
            }
            if left.distances.len() + right.distances.len() > nodes_max {
                return Paths { is_cut: true, ..Paths::default() };
            }
            // Extending the smaller layer costs less.
            let (near, far) = match &mut sides {
                [left, right] if left.layer.len() <= right.layer.len() => (left, right),
                [left, right] => (right, left),
            };
            let met = self.next_layer(near, far);
            if !met.is_empty() {
                break met;
            }
        };
        let mut paths = Vec::new();
        let [left, right] = &sides;
        for node in met {
            let heads = self.back(node, left, many);
            let tails = self.back(node, right, many);
            for head in &heads {
                for tail in tails.iter().take(many - paths.len()) {
                    let mut nodes: Vec<NodeRef> = head.iter().rev().map(|(node, _)| *node).collect();
                    let mut edges: Vec<Edge> = head.iter().rev().filter_map(|(_, edge)| *edge).collect();
                    nodes.extend(tail.iter().skip(1).map(|(node, _)| *node));
                    edges.extend(tail.iter().filter_map(|(_, edge)| *edge));
                    paths.push(Path { nodes, edges });
                }
            }
            if paths.len() == many {
                break;
            }
        }
        Paths { paths, is_cut: false }
    }

    /// Extends this side by one step; returns the nodes that the other side has reached too, in the order in
    /// which they were found.
    fn next_layer(&self, near: &mut Side, far: &Side) -> Vec<NodeRef> {
        let mut met = Vec::new();
        near.radius += 1;
        for node in std::mem::take(&mut near.layer) {
            let is_common = near.radius > 1 && self.is_common(node);
            let _ = self.each(node, &mut |edge, other| {
                let is_mention = edge.relation == MENTION;
                // The last step may lead from a common entity to the section that is the other end.
                let is_end = far.distances.get(&other) == Some(&0) && !near.from_sections.contains(&node);
                if is_common && is_mention && !is_end {
                    return ControlFlow::Continue(());
                }
                if let std::collections::hash_map::Entry::Vacant(unknown) = near.distances.entry(other) {
                    unknown.insert(near.radius);
                    near.layer.push(other);
                    let is_from_section =
                        is_mention && far.distances.get(&other) != Some(&0) && self.is_common(other);
                    if is_from_section {
                        near.from_sections.insert(other);
                    }
                    let is_way = !(is_from_section && far.from_sections.contains(&other));
                    if is_way && far.distances.contains_key(&other) {
                        met.push(other);
                    }
                }
                ControlFlow::Continue(())
            });
        }
        met
    }

    /// The shortest paths from a node back to the start of a side: each node with the edge that leads to it
    /// from the previous one.
    fn back(&self, node: NodeRef, side: &Side, many: usize) -> Vec<Vec<(NodeRef, Option<Edge>)>> {
        let mut ways = vec![vec![(node, None)]];
        for distance in (0..side.distances[&node]).rev() {
            let mut longer = Vec::new();
            for way in &ways {
                let (last, _) = way[way.len() - 1];
                let _ = self.each(last, &mut |edge, other| {
                    if side.distances.get(&other) == Some(&distance) {
                        let mut way = way.clone();
                        way.push((other, Some(edge)));
                        longer.push(way);
                    }
                    match longer.len() < many {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                if longer.len() == many {
                    break;
                }
            }
            ways = longer;
        }
        ways
    }
}
