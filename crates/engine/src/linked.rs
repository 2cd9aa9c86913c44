//! The graph, kept level with the log: read from it before the first walk, and before every walk that looks further.

use std::sync::RwLock;

use kenning_graph::{Graph, View};
use kenning_model::EntityType;
use kenning_storage::{Error, StoreId};

use crate::{Sight, Snapshot};

/// What edges are read from, and what says where sections are.
const READ: &[EntityType] = &[EntityType::Triple, EntityType::Document, EntityType::Section];

#[derive(Default)]
pub(crate) struct Linked(RwLock<State>);

#[derive(Default)]
struct State {
    /// The store that the graph was read from.
    store: StoreId,
    graph: Graph,
}

impl Linked {
    fn with<T>(&self, snapshot: &Snapshot<'_>, walk: impl FnOnce(&Graph) -> T) -> Result<T, Error> {
        let Linked(lock) = self;
        let (at, store) = (snapshot.at(), snapshot.store());
        {
            let state = lock.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if state.graph.at() >= at && state.store == store {
                return Ok(walk(&state.graph));
            }
        }
        let mut state = lock.write().unwrap_or_else(|poisoned| {
            // What was half applied can't be gone on from.
            lock.clear_poison();
            let mut state = poisoned.into_inner();
            *state = State::default();
            state
        });
        if state.store != store {
            *state = State { store, graph: Graph::default() };
        }
        if state.graph.at() < at {
            let range = state.graph.at().next()..at.next();
            let graph = &mut state.graph;
            let read = snapshot.reader().changes(READ, range, &mut |tx, entity_type, id, after| {
                graph.apply(tx, entity_type, id, after.as_ref());
            });
            if let Err(error) = read {
                *state = State::default();
                return Err(error);
            }
            state.graph.reached(at);
        }
        Ok(walk(&state.graph))
    }
}

impl Snapshot<'_> {
    /// Walks the part of the graph that is in sight.
    pub fn graph<T>(&self, sight: &Sight, walk: impl FnOnce(View<'_>) -> T) -> Result<T, Error> {
        self.linked().with(self, |graph| walk(graph.view(sight.at, &sight.scopes)))
    }
}
