//! A walk: all nodes within a few steps.

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;

use crate::{Edge, MENTION, NodeRef, View};

pub struct Walk {
    /// The nodes that were reached, nearest first, without the starts.
    pub reached: Vec<Reached>,
    /// How often an edge led to a node that was known already.
    pub again: usize,
    /// Whether the walk stopped at its limit, so that nodes are missing.
    pub is_cut: bool,
    edges: Vec<(Edge, NodeRef)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub node: NodeRef,
    pub distance: u8,
}

impl View<'_> {
    /// Returns all nodes within this number of steps, but at most `nodes_max`. The walk does not continue
    /// from one section to another through a common entity.
    pub fn expand(&self, starts: &[NodeRef], hops: u8, nodes_max: usize) -> Walk {
        let mut walk = Walk { reached: Vec::new(), again: 0, is_cut: false, edges: Vec::new() };
        let mut distances: FxHashMap<NodeRef, u8> = starts.iter().map(|start| (*start, 0)).collect();
        let mut layer = starts.to_vec();
        for distance in 1..=hops {
            let mut next = Vec::new();
            for node in layer {
                let is_common = distance > 1 && self.is_common(node);
                let done = self.each(node, &mut |edge, other| {
                    if is_common && edge.relation == MENTION {
                        return ControlFlow::Continue(());
                    }
                    match distances.get(&other) {
                        None if walk.reached.len() == nodes_max => {
                            walk.is_cut = true;
                            return ControlFlow::Break(());
                        }
                        None => {
                            distances.insert(other, distance);
                            walk.reached.push(Reached { node: other, distance });
                            next.push(other);
                            walk.edges.push((edge, other));
                        }
                        Some(known) => {
                            walk.again += 1;
                            // An edge between two starts is returned once, at the start that it leads from.
                            let is_between = *known == 0 && distance == 1 && edge.from == node;
                            if *known == distance || is_between {
                                walk.edges.push((edge, other));
                            }
                        }
                    }
                    ControlFlow::Continue(())
                });
                if done.is_break() {
                    return walk;
                }
            }
            layer = next;
        }
        walk
    }
}

impl Walk {
    /// The edges by which a node was reached; for a start, the edges from another start.
    pub fn edges_to(&self, node: NodeRef) -> impl Iterator<Item = Edge> {
        self.edges.iter().filter(move |(_, other)| *other == node).map(|(edge, _)| *edge)
    }
}
