//! The graph, kept level with the log: read from it before the first walk, and before every walk that looks further.

use std::sync::RwLock;

use kenning_graph::{Graph, View};
use kenning_model::EntityType;
use kenning_storage::Error;

use crate::{Sight, Snapshot};

/// What edges are read from, and what says where sections are.
const READ: &[EntityType] = &[EntityType::Triple, EntityType::Document, EntityType::Section];

#[derive(Default)]
pub(crate) struct Linked {
    graph: RwLock<Graph>,
}

impl Linked {
    fn with<T>(&self, snapshot: &Snapshot<'_>, walk: impl FnOnce(&Graph) -> T) -> Result<T, Error> {
        let at = snapshot.at();
        {
            let graph = self.graph.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if graph.at() >= at {
                return Ok(walk(&graph));
            }
        }
        let mut graph = match self.graph.write() {
            Ok(graph) => graph,
            Err(poisoned) => {
                // What was half applied can't be gone on from.
                let mut graph = poisoned.into_inner();
                *graph = Graph::default();
                self.graph.clear_poison();
                graph
            }
        };
        if graph.at() < at {
            let range = graph.at().next()..at.next();
            let read = snapshot.reader().changes(READ, range, &mut |tx, entity_type, id, after| {
                graph.apply(tx, entity_type, id, after.as_ref());
            });
            if let Err(error) = read {
                *graph = Graph::default();
                return Err(error);
            }
            graph.reached(at);
        }
        Ok(walk(&graph))
    }
}

impl Snapshot<'_> {
    /// Walks the part of the graph that is in sight.
    pub fn graph<T>(&self, sight: &Sight, walk: impl FnOnce(View<'_>) -> T) -> Result<T, Error> {
        self.linked().with(self, |graph| walk(graph.view(sight.at, &sight.scopes)))
    }
}
