//! Walks over a small graph of sections and triples, and walks compared with a simple search over random
//! graphs.

use std::collections::BTreeSet;

use kenning_graph::{Edge, EdgeDirection, EdgeOrigin, Graph, Node, View};
use kenning_model::{
    Document, EntityType, Id, Link, Mention, Record, ScopeId, Section, Timestamp, Triple, TxId,
};
use proptest::prelude::*;

const HERE: ScopeId = ScopeId(1);
const THERE: ScopeId = ScopeId(2);
const MANY: usize = 1_000;

fn triple(scope: ScopeId, subject: &str, predicate: &str, object: &str) -> Record {
    Record::Triple(Triple {
        scope,
        subject: subject.to_owned(),
        predicate: predicate.to_owned(),
        object: object.to_owned(),
        source: None,
        actor: "tester".to_owned(),
        confidence: None,
        version: 1,
        recorded_at: Timestamp::UNIX_EPOCH,
        updated_at: None,
        purged: None,
    })
}

fn document(path: &str) -> Record {
    Record::Document(Document {
        scope: HERE,
        source: "handbook".to_owned(),
        path: path.to_owned(),
        title: path.to_owned(),
        doc_tag: "handbook".to_owned(),
        tags: Vec::new(),
        repository: None,
        environment: None,
        updated: None,
        root: String::new(),
        default_tag: String::new(),
        catalogue: false,
        pattern: None,
        hash: String::new(),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: Timestamp::UNIX_EPOCH,
        updated_at: None,
        purged: None,
    })
}

struct Part<'a> {
    document: u64,
    position: u32,
    anchor: &'a str,
    parent: Option<u64>,
    links: &'a [(&'a str, &'a str)],
    mentions: &'a [&'a str],
}

fn section(part: &Part<'_>) -> Record {
    let link = |(path, anchor): &(&str, &str)| Link {
        path: (*path).to_owned(),
        anchor: (!anchor.is_empty()).then(|| (*anchor).to_owned()),
    };
    let mention = |name: &&str| Mention { label: "term".to_owned(), name: (*name).to_owned() };
    Record::Section(Section {
        scope: HERE,
        document: Id::from_bits(part.document),
        position: part.position,
        level: 1,
        heading_path: vec![part.anchor.to_owned()],
        anchor: part.anchor.to_owned(),
        text: String::new(),
        parent: part.parent.map(Id::from_bits),
        doc_tag: "handbook".to_owned(),
        tags: Vec::new(),
        repository: None,
        environment: None,
        links: part.links.iter().map(link).collect(),
        mentions: part.mentions.iter().map(mention).collect(),
        actor: "tester".to_owned(),
        version: 1,
        recorded_at: Timestamp::UNIX_EPOCH,
        updated_at: None,
        purged: None,
    })
}

/// A graph with one change in each transaction, numbered from 1.
fn graph(changes: &[(u64, EntityType, Option<Record>)]) -> Graph {
    let mut graph = Graph::default();
    for (tx, (id, entity_type, after)) in (1..).zip(changes) {
        graph.apply(TxId(tx), *entity_type, Id::from_bits(*id), after.as_ref());
        graph.reached(TxId(tx));
    }
    graph
}

/// Two pages: `snapshots.md` has a section that links to a section of `retention.md`.
fn handbook() -> Graph {
    let deleting = Part {
        document: 10,
        position: 1,
        anchor: "deleting",
        parent: Some(11),
        links: &[("retention.md", "policy"), ("retention.md", ""), ("nowhere.md", "")],
        mentions: &["kenning undo", "Retention"],
    };
    let part = |document, position, anchor, parent| Part {
        document,
        position,
        anchor,
        parent,
        links: &[],
        mentions: &["Retention"],
    };
    graph(&[
        (10, EntityType::Document, Some(document("snapshots.md"))),
        (11, EntityType::Section, Some(section(&part(10, 0, "snapshots", None)))),
        (12, EntityType::Section, Some(section(&deleting))),
        (20, EntityType::Document, Some(document("retention.md"))),
        (21, EntityType::Section, Some(section(&part(20, 0, "retention", None)))),
        (22, EntityType::Section, Some(section(&part(20, 1, "policy", Some(21))))),
        (30, EntityType::Triple, Some(triple(HERE, "retention", "owned by", "Team Falcon"))),
        (31, EntityType::Triple, Some(triple(THERE, "Team Falcon", "meets in", "Room 4"))),
        (32, EntityType::Triple, Some(triple(HERE, "retention", "links_to", "the law"))),
    ])
}

fn name(view: &View<'_>, node: kenning_graph::NodeRef) -> String {
    match view.node(node) {
        Node::Section(id) | Node::Document(id) => id.bits().to_string(),
        Node::Entity(name) => name.clone(),
        Node::Place(..) => "a place".to_owned(),
    }
}

fn told(view: &View<'_>, edge: &Edge) -> String {
    format!("{} {} {}", name(view, edge.from), view.relation(edge), name(view, edge.to))
}

fn reached(view: &View<'_>, starts: &[Node], hops: u8) -> String {
    let starts: Vec<_> = starts.iter().filter_map(|start| view.find(start)).collect();
    let walk = view.expand(&starts, hops, MANY);
    let names: Vec<String> = walk.reached.iter().map(|reached| name(view, reached.node)).collect();
    names.join(", ")
}

fn at(id: u64) -> Node {
    Node::Section(Id::from_bits(id))
}

fn called(name: &str) -> Node {
    Node::Entity(name.to_owned())
}

const NOW: TxId = TxId(9);

#[test]
fn a_section_is_linked_to_what_it_belongs_to_points_to_and_speaks_of() {
    let graph = handbook();
    let view = graph.view(NOW, &[HERE]);
    // A link to a page leads to its first section; a link to a missing page leads nowhere.
    assert_eq!(reached(&view, &[at(12)], 1), "11, 22, 21, kenning undo, retention");
    assert_eq!(reached(&view, &[at(22)], 1), "21, 12, retention");
    assert_eq!(reached(&view, &[at(11)], 1), "12, 10, retention", "newest first");
    let out = graph.view(NOW, &[HERE]).going(EdgeDirection::Out);
    assert_eq!(reached(&out, &[at(22)], 1), "21, retention");
    let links = graph.view(NOW, &[HERE]).along(&["LINKS_TO".to_owned()]);
    assert_eq!(reached(&links, &[at(12)], 1), "22, 21");
    assert_eq!(reached(&links, &[called("retention")], 2), "the law", "a triple of the same name is no link");
    assert_eq!(reached(&links.along(&["nothing".to_owned()]), &[at(12)], 3), "");
}

#[test]
fn what_is_out_of_sight_is_no_way_through() {
    let graph = handbook();
    let here = graph.view(NOW, &[HERE]);
    assert_eq!(reached(&here, &[called("team falcon")], 1), "retention");
    let both = graph.view(NOW, &[HERE, THERE]);
    assert_eq!(reached(&both, &[called("team falcon")], 1), "room 4, retention");
    let room = here.find(&called("room 4")).expect("a node");
    assert_eq!(here.known_from(room), None);
    assert_eq!(both.known_from(room), Some(EdgeOrigin::Triple(Id::from_bits(31))));
    let retention = here.find(&called("retention")).expect("a node");
    assert_eq!(here.known_from(retention), Some(EdgeOrigin::Section(Id::from_bits(22))));
    let nobody = graph.view(NOW, &[]);
    assert_eq!(reached(&nobody, &[at(12)], 3), "");
}

#[test]
fn sections_of_other_labels_are_out_of_sight_and_triples_have_none() {
    let graph = handbook();
    let reached_with = |labels: [&[&str]; 3]| {
        let labels = labels.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let view = graph.view(NOW, &[HERE]).labelled([&labels[0], &labels[1], &labels[2]]);
        reached(&view, &[called("retention")], 1)
    };
    let all = "the law, team falcon, 22, 21, 12, 11";
    assert_eq!(reached_with([&[], &[], &[]]), all);
    assert_eq!(reached_with([&["other", "Handbook"], &[], &[]]), all);
    assert_eq!(reached_with([&["other"], &[], &[]]), "the law, team falcon");
    assert_eq!(reached_with([&[], &["core"], &[]]), "the law, team falcon", "it has no repository");
}

#[test]
fn a_walk_is_taken_as_of_its_transaction() {
    let mut graph = handbook();
    graph.apply(TxId(10), EntityType::Section, Id::from_bits(22), None);
    graph.apply(
        TxId(11),
        EntityType::Triple,
        Id::from_bits(30),
        Some(&triple(HERE, "retention", "owned by", "Team Owl")),
    );
    let owner = ["owned by".to_owned()];
    let reached_at = |tx, start| reached(&graph.view(TxId(tx), &[HERE]).along(&owner), &[start], 1);
    assert_eq!(reached_at(6, called("retention")), "");
    assert_eq!(reached_at(10, called("retention")), "team falcon");
    assert_eq!(reached_at(11, called("retention")), "team owl");
    assert_eq!(reached(&graph.view(TxId(9), &[HERE]), &[at(12)], 1), "11, 22, 21, kenning undo, retention");
    assert_eq!(reached(&graph.view(TxId(10), &[HERE]), &[at(12)], 1), "11, 21, kenning undo, retention");
}

#[test]
fn edges_are_told_in_their_own_direction_and_a_walk_ends_where_it_must() {
    let graph = handbook();
    let view = graph.view(NOW, &[HERE]);
    let starts = [at(12), at(22)].map(|node| view.find(&node).expect("a node"));
    let walk = view.expand(&starts, 1, MANY);
    let edges: BTreeSet<String> = walk
        .reached
        .iter()
        .map(|reached| reached.node)
        .chain(starts)
        .flat_map(|node| walk.edges_to(node))
        .map(|edge| told(&view, &edge))
        .collect();
    let expected = [
        "12 child_of 11",
        "12 links_to 21",
        "12 links_to 22",
        "12 mentions kenning undo",
        "12 mentions retention",
        "22 child_of 21",
        "22 mentions retention",
    ];
    assert_eq!(edges.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let edges: Vec<String> = walk.edges_to(walk.reached[0].node).map(|edge| told(&view, &edge)).collect();
    assert_eq!(edges, ["12 child_of 11"]);
    let cut = view.expand(&starts, 3, 2);
    assert_eq!((cut.reached.len(), cut.is_cut), (2, true));
    assert!(!walk.is_cut);
}

#[test]
fn what_every_section_speaks_of_is_no_way_from_one_to_another() {
    let parts: Vec<Record> = (0..15)
        .map(|number| {
            let mentions: &[&str] = if number < 2 { &["Rust", "Pin"] } else { &["Rust"] };
            section(&Part {
                document: 100 + number,
                position: 0,
                anchor: "x",
                parent: None,
                links: &[],
                mentions,
            })
        })
        .collect();
    let mut changes: Vec<(u64, EntityType, Option<Record>)> =
        parts.into_iter().zip(1..).map(|(part, id)| (id, EntityType::Section, Some(part))).collect();
    changes.push((50, EntityType::Triple, Some(triple(HERE, "rust", "made by", "Mozilla"))));
    changes.push((51, EntityType::Triple, Some(triple(HERE, "rust", "has", "crates"))));
    let graph = graph(&changes);
    let view = graph.view(TxId(99), &[HERE]);
    assert_eq!(reached(&view, &[at(1)], 2), "100, rust, pin, crates, mozilla, 2");
    assert_eq!(
        reached(&view, &[called("rust")], 1).matches(", ").count(),
        16,
        "whoever asks for it gets all"
    );
    let ways = |from: Node, to: Node| {
        let [from, to] = [from, to].map(|node| view.find(&node).expect("a node"));
        let paths = view.shortest(from, to, 4, 9, MANY).paths;
        paths
            .iter()
            .map(|path| path.nodes.iter().map(|node| name(&view, *node)).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(ways(at(1), at(2)), ["1 pin 2"]);
    assert!(ways(at(3), at(4)).is_empty());
    assert_eq!(ways(at(3), called("mozilla")), ["3 rust mozilla"]);
    assert_eq!(ways(called("crates"), at(4)), ["crates rust 4"]);
    assert_eq!(ways(called("crates"), called("mozilla")), ["crates rust mozilla"]);
    assert_eq!(ways(at(3), called("rust")), ["3 rust"]);
}

#[test]
fn labels_and_names_of_pages_lead_there_from_anywhere() {
    let part =
        |document, anchor, links| Part { document, position: 0, anchor, parent: None, links, mentions: &[] };
    let target: &[(&str, &str)] = &[(Link::LABELLED, "cache_dir")];
    let graph = graph(&[
        (10, EntityType::Document, Some(document("reference/options.rst"))),
        (11, EntityType::Section, Some(section(&part(10, "options", target)))),
        (20, EntityType::Document, Some(document("how-to/cache.rst"))),
        (
            21,
            EntityType::Section,
            Some(section(&part(20, "cache", &[(Link::LABEL, "cache_dir"), (Link::LABEL, "none")]))),
        ),
        (30, EntityType::Document, Some(document("notes/Some Note.md"))),
        (31, EntityType::Section, Some(section(&part(30, "note", &[(":page/options", "")])))),
    ]);
    let view = graph.view(NOW, &[HERE]).along(&["links_to".to_owned()]);
    assert_eq!(reached(&view, &[at(21)], 1), "11");
    assert_eq!(reached(&view, &[at(31)], 1), "11");
    assert_eq!(reached(&view.going(EdgeDirection::Out), &[at(11)], 1), "", "to have a label is no link");
}

#[test]
fn a_page_is_found_by_every_way_to_name_it() {
    let pages = ["start.md", "sub/setup.md", "sub/dir/README.md", "guide/index.html"];
    let mut changes = Vec::new();
    for (number, path) in (1..).zip(pages) {
        let links: &[(&str, &str)] = match number {
            1 => &[
                ("", "Top"),
                ("sub/setup", "STEPS"),
                ("sub/dir/", ""),
                ("guide", ""),
                ("handbook/sub/setup.md", "steps"),
                ("sub", ""),
                ("sub/setup", "nothing"),
            ],
            _ => &[],
        };
        let anchor = if number == 2 { "steps" } else { "top" };
        let part = Part { document: number * 10, position: 0, anchor, parent: None, links, mentions: &[] };
        changes.push((number * 10, EntityType::Document, Some(document(path))));
        changes.push((number, EntityType::Section, Some(section(&part))));
    }
    let graph = graph(&changes);
    let view = graph.view(TxId(8), &[HERE]).along(&["links_to".to_owned()]);
    assert_eq!(reached(&view, &[at(1)], 1), "2, 3, 4");
    let own = view.find(&at(1)).expect("a node");
    let mut to_itself = 0;
    let _ = view.each(own, &mut |_, other| {
        to_itself += usize::from(other == own);
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(to_itself, 2, "the link to its own beginning, from either end");
}

#[test]
fn paths_are_the_shortest_there_are() {
    let graph = handbook();
    let view = graph.view(NOW, &[HERE]);
    let shown = |from: Node, to: Node, hops, many| -> Vec<String> {
        let [from, to] = [from, to].map(|node| view.find(&node).expect("a node"));
        let paths = view.shortest(from, to, hops, many, MANY).paths;
        let line = |path: &kenning_graph::Path| {
            assert_eq!(path.nodes.len(), path.edges.len() + 1);
            let mut line = name(&view, path.nodes[0]);
            for (edge, node) in path.edges.iter().zip(&path.nodes[1..]) {
                line += &format!(" -{}- {}", view.relation(edge), name(&view, *node));
            }
            line
        };
        paths.iter().map(line).collect()
    };
    assert_eq!(
        shown(at(12), called("team falcon"), 3, 10),
        ["12 -mentions- retention -owned by- team falcon"]
    );
    assert_eq!(shown(at(12), Node::Document(Id::from_bits(20)), 3, 10), ["12 -links_to- 21 -child_of- 20"]);
    assert_eq!(shown(at(11), at(22), 2, 10).len(), 2, "over its part, and over what both mention");
    assert_eq!(shown(at(11), at(22), 2, 1).len(), 1);
    assert_eq!(shown(at(12), called("room 4"), 5, 10), [""; 0]);
    assert_eq!(shown(at(12), called("team falcon"), 1, 10), [""; 0]);
}

#[test]
fn triples_are_found_from_either_end() {
    let graph = handbook();
    let ids = |scopes: &[ScopeId], subject, object| -> Vec<u64> {
        graph.view(NOW, scopes).triples(subject, object).iter().map(Id::bits).collect()
    };
    assert_eq!(ids(&[HERE], Some("retention"), None), [32, 30]);
    assert_eq!(ids(&[HERE], None, Some("team falcon")), [30]);
    assert_eq!(ids(&[HERE], Some("retention"), Some("team falcon")), [30]);
    assert_eq!(ids(&[HERE], Some("team falcon"), None), [0; 0]);
    assert_eq!(ids(&[THERE], Some("team falcon"), None), [31]);
    assert_eq!(ids(&[HERE], Some("unknown"), Some("team falcon")), [0; 0]);
}

/// Subject, predicate and object by number, the scope, and which earlier triple is deleted first, if any.
type Fact = (u8, u8, u8, bool, u8);

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn walks_and_paths_are_what_a_plain_search_finds(
        facts in prop::collection::vec((0u8..9, 0u8..3, 0u8..9, any::<bool>(), 0u8..4), 1..40),
        as_of in 0u64..120,
        sees_both in any::<bool>(),
        ends in (0u8..9, 0u8..9),
        hops in 1u8..5,
    ) {
        let scopes: &[ScopeId] = if sees_both { &[HERE, THERE] } else { &[HERE] };
        let (graph, edges) = told_and_plain(&facts, as_of, scopes);
        let view = graph.view(TxId(as_of), scopes);
        let plain = distances(&edges, ends.0);
        let (Some(a), Some(b)) = (view.find(&called(&ends.0.to_string())), view.find(&called(&ends.1.to_string())))
        else { return Ok(()) };
        let walk = view.expand(&[a], hops, MANY);
        let mut found: Vec<(String, u8)> =
            walk.reached.iter().map(|reached| (name(&view, reached.node), reached.distance)).collect();
        found.sort();
        let expected: Vec<(String, u8)> = plain
            .iter()
            .filter(|(_, distance)| (1..=hops).contains(distance))
            .map(|(node, distance)| (node.to_string(), *distance))
            .collect();
        prop_assert_eq!(found, expected);
        let paths = view.shortest(a, b, hops, MANY, MANY).paths;
        let distance = plain.iter().find(|(node, _)| *node == ends.1).map(|(_, distance)| *distance);
        let many = match distance {
            Some(distance) if (1..=hops).contains(&distance) => ways(&edges, ends.0, ends.1, distance),
            _ => 0,
        };
        prop_assert_eq!(paths.len(), many);
        let all: BTreeSet<Vec<String>> =
            paths.iter().map(|path| path.edges.iter().map(|edge| told(&view, edge)).collect()).collect();
        for path in &paths {
            prop_assert_eq!(path.edges.len(), usize::from(distance.unwrap_or(0)));
            prop_assert_eq!((path.nodes[0], path.nodes[path.nodes.len() - 1]), (a, b));
        }
        // Two triples may have the same content, so only paths that read differently are counted.
        prop_assert!(all.len() <= paths.len());
    }
}

/// The same facts as a graph and as a list of pairs of ends.
fn told_and_plain(facts: &[Fact], as_of: u64, scopes: &[ScopeId]) -> (Graph, Vec<(u8, u8)>) {
    let mut graph = Graph::default();
    let mut tx = 0;
    let mut live: Vec<(u64, u64, Option<u64>, ScopeId, u8, u8)> = Vec::new();
    for (number, (subject, predicate, object, is_here, deleted)) in (0u64..).zip(facts) {
        if *deleted > 0
            && let Some(row) = live.iter_mut().rev().filter(|row| row.2.is_none()).nth(usize::from(*deleted))
        {
            tx += 1;
            row.2 = Some(tx);
            graph.apply(TxId(tx), EntityType::Triple, Id::from_bits(row.0), None);
        }
        tx += 1;
        let scope = if *is_here { HERE } else { THERE };
        let record = triple(scope, &subject.to_string(), &predicate.to_string(), &object.to_string());
        graph.apply(TxId(tx), EntityType::Triple, Id::from_bits(number), Some(&record));
        live.push((number, tx, None, scope, *subject, *object));
    }
    let is_seen = |(_, from, to, scope, _, _): &&(u64, u64, Option<u64>, ScopeId, u8, u8)| {
        *from <= as_of && to.is_none_or(|to| as_of < to) && scopes.contains(scope)
    };
    (graph, live.iter().filter(is_seen).map(|row| (row.4, row.5)).collect())
}

fn distances(edges: &[(u8, u8)], start: u8) -> Vec<(u8, u8)> {
    let mut known = vec![(start, 0u8)];
    for distance in 1..9 {
        for (from, to) in edges.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]) {
            let is_near = known.contains(&(from, distance - 1));
            if is_near && !known.iter().any(|(node, _)| *node == to) {
                known.push((to, distance));
            }
        }
    }
    known.sort();
    known
}

/// The number of walks of this length. For the shortest length these are the shortest paths.
fn ways(edges: &[(u8, u8)], from: u8, to: u8, length: u8) -> usize {
    if length == 0 {
        return usize::from(from == to);
    }
    let next = edges.iter().flat_map(|(a, b)| {
        let back = (a != b).then_some((*b, *a));
        [Some((*a, *b)), back].into_iter().flatten()
    });
    next.filter(|(start, _)| *start == from).map(|(_, end)| ways(edges, end, to, length - 1)).sum()
}
