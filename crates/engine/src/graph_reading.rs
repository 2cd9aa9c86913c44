//! The graph as a reading of the log: the links of every version of sections, documents and triples.

use kenning_graph::{Graph, View};
use kenning_model::EntityType;
use kenning_storage::{Error, LogChange};

use crate::reading::{Follower, Reading};
use crate::{Sight, Snapshot};

pub(crate) type GraphReading = Reading<Graph>;

impl Follower for Graph {
    /// Edges come from triples and sections; documents give the paths of sections.
    const KINDS: &'static [EntityType] = &[EntityType::Triple, EntityType::Document, EntityType::Section];

    fn apply(&mut self, change: &LogChange) {
        Graph::apply(self, change.tx, change.entity_type, change.id, change.after.as_ref());
    }
}

impl Snapshot<'_> {
    /// Walks the part of the graph that is in sight.
    pub fn graph<T>(&self, sight: &Sight, walk: impl FnOnce(View<'_>) -> T) -> Result<T, Error> {
        let walk = |graph: &Graph| walk(graph.view(sight.at, &sight.scopes));
        self.graph_reading().with(self.reader(), self.store(), self.at(), walk)
    }
}
