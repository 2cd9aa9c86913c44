//! Walks over a million triples between 200,000 entities, a few of which very many triples point to.
//!
//! `cargo bench -p kenning-graph --bench walks`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use kenning_graph::{Graph, Node, NodeRef};
use kenning_model::{EntityType, Id, Record, ScopeId, Timestamp, Triple, TxId};
use kenning_testkit::measure::{at_most, p50};
use kenning_testkit::scrambled;

const ENTITIES: u64 = 200_000;
const TRIPLES: u64 = 1_000_000;
const PREDICATES: u64 = 20;
const SCOPE: ScopeId = ScopeId(1);
const ASKED: usize = 2_000;
/// The same limits as in the tools.
const NODES_MAX: usize = 2_000;
const PATH_NODES_MAX: usize = 50_000;

fn main() {
    let since = Instant::now();
    let graph = graph();
    println!("{TRIPLES} triples applied in {:.2} s", since.elapsed().as_secs_f64());
    let view = graph.view(graph.at(), &[SCOPE]);
    let entity = |number: u64| -> NodeRef {
        let at = scrambled(number) % ENTITIES;
        // An entity that no triple names is not in the graph.
        (at..).find_map(|at| view.find(&Node::Entity(format!("entity {at}")))).expect("an entity")
    };
    let starts: Vec<NodeRef> = (0..ASKED as u64).map(entity).collect();
    let ends: Vec<NodeRef> = (0..ASKED as u64).map(|number| entity(number + TRIPLES)).collect();
    let one = p50("1 hop, both ways", ASKED, |at| {
        std::hint::black_box(view.expand(&starts[at..=at], 1, NODES_MAX));
    });
    at_most("1 hop", one, 5.0);
    let two = p50("2 hops, both ways", ASKED, |at| {
        std::hint::black_box(view.expand(&starts[at..=at], 2, NODES_MAX));
    });
    at_most("2 hops", two, 100.0);
    let mut found = 0;
    let path = p50("shortest path of at most 4", ASKED, |at| {
        let paths = view.shortest(starts[at], ends[at], 4, 1, PATH_NODES_MAX).paths;
        found += paths.len();
    });
    println!("  a path was found for {found} of {} questions", 2 * ASKED);
    at_most("path", path, 300.0);
}

/// Objects are drawn so that a few are named by very many triples, as in real graphs.
fn graph() -> Graph {
    let mut graph = Graph::default();
    for number in 0..TRIPLES {
        let random = scrambled(number);
        let subject = random % ENTITIES;
        let share = scrambled(random) as f64 / u64::MAX as f64;
        let object = (share.powi(3) * ENTITIES as f64) as u64;
        let record = Record::Triple(Triple {
            scope: SCOPE,
            subject: format!("entity {subject}"),
            predicate: format!("relation {}", scrambled(random + 1) % PREDICATES),
            object: format!("entity {object}"),
            source: None,
            actor: "bench".to_owned(),
            confidence: None,
            version: 1,
            recorded_at: Timestamp::UNIX_EPOCH,
            updated_at: None,
            purged: None,
        });
        graph.apply(TxId(number + 1), EntityType::Triple, Id::from_bits(number), Some(&record));
    }
    graph.reached(TxId(TRIPLES));
    graph
}
