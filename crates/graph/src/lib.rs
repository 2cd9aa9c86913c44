//! The graph: the triples that were stored, and the links of documents (the parent of each section, what it
//! links to, and what it mentions). It is filled from the log with every version, so a walk can be taken as
//! of any transaction. This crate reads no files; each walk is given the scopes that it may see.

mod path;
mod view;
mod walk;

use indexmap::IndexSet;
use kenning_model::{EntityType, Id, Link, Record, ScopeId, Section, TxId, fold};
use rustc_hash::{FxBuildHasher, FxHashMap};

pub use path::{Path, Paths};
pub use view::{Edge, EdgeDirection, View};
pub use walk::{Reached, Walk};

/// From a section to the section or document that contains it.
pub const CHILD_OF: &str = "child_of";
/// From a section to another section that it links to.
pub const LINKS_TO: &str = "links_to";
/// From a section to an entity that it mentions.
pub const MENTIONS: &str = "mentions";

/// The number of a node in this graph. It is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef(u32);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Document(Id),
    Section(Id),
    /// An entity that triples or documents name, by its folded name.
    Entity(String),
    /// The target of a link: the number of a page, and an anchor in it, or an empty one. If a section is at
    /// that place, the place has an edge to it.
    Place(u32, String),
}

/// The record that an edge was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeOrigin {
    Triple(Id),
    Section(Id),
}

#[derive(Default)]
pub struct Graph {
    nodes: IndexSet<Node, FxBuildHasher>,
    /// For each node its edges, in the order of the log.
    edge_ends: Vec<Vec<EdgeEnd>>,
    relations: Relations,
    /// The versions that edges were read from. An edge exists as long as its version is live.
    versions: Vec<Version>,
    live: FxHashMap<EdgeOrigin, u32>,
    /// The pages: scope, source and path. Links refer to them.
    pages: IndexSet<(ScopeId, String, String), FxBuildHasher>,
    page_of: FxHashMap<Id, u32>,
    /// The labels of sections, folded.
    labels: IndexSet<String, FxBuildHasher>,
    at: TxId,
}

/// An edge as stored at one of its ends.
#[derive(Clone, Copy)]
struct EdgeEnd {
    other: u32,
    relation: u32,
    version: u32,
    is_out: bool,
}

struct Version {
    source: EdgeOrigin,
    scope: ScopeId,
    /// The numbers of a section's tag, repository and environment.
    labels: [u32; LABELS],
    from: TxId,
    /// The transaction that ended it.
    to: TxId,
}

/// The number of kinds of labels of a section: doc_tag, repository, environment.
pub const LABELS: usize = 3;
/// Stands for a label that a section does not have.
const NO_LABEL: u32 = u32::MAX;

const OPEN: TxId = TxId(u64::MAX);

/// The names of relations, in their original spelling.
struct Relations {
    /// The relations of documents come first and are kept apart, since a triple may have a predicate of the
    /// same name.
    names: Vec<String>,
    of_triples: FxHashMap<String, u32>,
    by_key: FxHashMap<String, Vec<u32>>,
}

const CHILD: u32 = 0;
const LINK: u32 = 1;
const MENTION: u32 = 2;
/// From a place to the section at that place. Walks pass through such edges and never return them.
const PLACE_TO_SECTION: u32 = u32::MAX;

impl Default for Relations {
    fn default() -> Relations {
        let (of_triples, by_key) = (FxHashMap::default(), FxHashMap::default());
        let mut relations = Relations { names: Vec::new(), of_triples, by_key };
        for (number, name) in [(CHILD, CHILD_OF), (LINK, LINKS_TO), (MENTION, MENTIONS)] {
            let given = relations.add(name);
            debug_assert_eq!(given, number);
        }
        relations
    }
}

impl Relations {
    fn of_triple(&mut self, predicate: &str) -> u32 {
        if let Some(number) = self.of_triples.get(predicate) {
            return *number;
        }
        let number = self.add(predicate);
        self.of_triples.insert(predicate.to_owned(), number);
        number
    }

    fn add(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.by_key.entry(fold(name)).or_default().push(number);
        number
    }
}

impl Graph {
    /// The transaction up to which the log was read.
    pub fn at(&self) -> TxId {
        self.at
    }

    /// Notes that all changes up to this transaction were applied.
    pub fn reached(&mut self, at: TxId) {
        self.at = at;
    }

    /// Applies one change; changes must come in the order of the log.
    pub fn apply(&mut self, tx: TxId, entity_type: EntityType, id: Id, after: Option<&Record>) {
        let source = match entity_type {
            EntityType::Triple => EdgeOrigin::Triple(id),
            EntityType::Section => EdgeOrigin::Section(id),
            EntityType::Document => {
                if let Some(document) = after.and_then(Record::as_document) {
                    let page = (document.scope, document.source.clone(), document.path.clone());
                    let page = self.pages.insert_full(page).0 as u32;
                    self.page_of.insert(id, page);
                }
                return;
            }
            EntityType::Entry | EntityType::Namespace | EntityType::Scope => return,
        };
        if let Some(version) = self.live.remove(&source) {
            self.versions[version as usize].to = tx;
        }
        let Some(record) = after else { return };
        let Some(scope) = record.scope() else { return };
        let version = self.versions.len() as u32;
        let labels = record.as_section().map_or([NO_LABEL; LABELS], |section| self.labels_of(section));
        self.versions.push(Version { source, scope, labels, from: tx, to: OPEN });
        self.live.insert(source, version);
        match record {
            Record::Triple(triple) => {
                let from = self.node(Node::Entity(fold(&triple.subject)));
                let to = self.node(Node::Entity(fold(&triple.object)));
                let relation = self.relations.of_triple(&triple.predicate);
                self.link(from, relation, to, version);
            }
            Record::Section(section) => self.link_section(id, section, version),
            _ => {}
        }
    }

    /// Adds the edges of a section. Walks visit the newest edge first, so the edge added last here, to the
    /// parent, is visited first.
    fn link_section(&mut self, id: Id, section: &Section, version: u32) {
        let own = self.node(Node::Section(id));
        for mention in section.mentions.iter().rev() {
            let entity = self.node(Node::Entity(fold(&mention.name)));
            self.link(own, MENTION, entity, version);
        }
        if let Some(page) = self.page_of.get(&section.document).copied() {
            let (scope, source, path) = self.pages[page as usize].clone();
            for link in section.links.iter().rev() {
                let anchor = fold(link.anchor.as_deref().unwrap_or_default());
                if !link.leads() {
                    let labels = (scope, source.clone(), Link::LABEL.to_owned());
                    let labels = self.pages.insert_full(labels).0 as u32;
                    let place = self.node(Node::Place(labels, anchor));
                    self.link(place, PLACE_TO_SECTION, own, version);
                    continue;
                }
                for path in targets(&path, &source, &link.path) {
                    let page = self.pages.insert_full((scope, source.clone(), path.to_owned())).0 as u32;
                    let place = self.node(Node::Place(page, anchor.clone()));
                    self.link(own, LINK, place, version);
                }
            }
            let mut anchors = vec![fold(&section.anchor)];
            if section.position == 0 {
                // A link to a whole page leads to its first section.
                anchors.push(String::new());
            }
            anchors.sort();
            anchors.dedup();
            if section.position == 0 {
                let named = (scope, source.clone(), Link::page_named(name_of(&path)));
                let page = self.pages.insert_full(named).0 as u32;
                let place = self.node(Node::Place(page, String::new()));
                self.link(place, PLACE_TO_SECTION, own, version);
            }
            for path in known_as(&path) {
                let page = self.pages.insert_full((scope, source.clone(), path.to_owned())).0 as u32;
                for anchor in anchors.iter().filter(|anchor| !anchor.is_empty() || section.position == 0) {
                    let place = self.node(Node::Place(page, anchor.clone()));
                    self.link(place, PLACE_TO_SECTION, own, version);
                }
            }
        }
        let parent = match section.parent {
            Some(parent) => Node::Section(parent),
            None => Node::Document(section.document),
        };
        let parent = self.node(parent);
        self.link(own, CHILD, parent, version);
    }

    fn labels_of(&mut self, section: &Section) -> [u32; LABELS] {
        let written = [Some(&section.doc_tag), section.repository.as_ref(), section.environment.as_ref()];
        written.map(|label| label.map_or(NO_LABEL, |label| self.labels.insert_full(fold(label)).0 as u32))
    }

    fn node(&mut self, node: Node) -> u32 {
        let (at, is_new) = self.nodes.insert_full(node);
        if is_new {
            self.edge_ends.push(Vec::new());
        }
        at as u32
    }

    fn link(&mut self, from: u32, relation: u32, to: u32, version: u32) {
        self.edge_ends[from as usize].push(EdgeEnd { other: to, relation, version, is_out: true });
        self.edge_ends[to as usize].push(EdgeEnd { other: from, relation, version, is_out: false });
    }

    /// The graph as of a transaction, for a reader of these scopes.
    pub fn view<'a>(&'a self, at: TxId, scopes: &'a [ScopeId]) -> View<'a> {
        View::new(self, at, scopes)
    }
}

/// The paths that a link may mean: its own page, the given path, and, if the path begins with the name of the
/// source, the rest of it.
fn targets<'a>(own: &'a str, source: &str, link: &'a str) -> Vec<&'a str> {
    let path = match link.trim_end_matches('/') {
        "" if link.is_empty() => own,
        path => path,
    };
    let below = path.strip_prefix(source).and_then(|rest| rest.strip_prefix('/'));
    [Some(path), below].into_iter().flatten().collect()
}

/// The name of a file without its directory and ending.
fn name_of(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

/// The names of a page: its path, the path without its ending, and for an index page its directory.
fn known_as(path: &str) -> Vec<&str> {
    let stem =
        path.rsplit_once('.').map_or(path, |(stem, ending)| if ending.contains('/') { path } else { stem });
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let stands_for = ["index", "readme"].iter().any(|known| name.eq_ignore_ascii_case(known));
    let mut names = vec![path, stem];
    if stands_for {
        names.push(directory);
    }
    names.dedup();
    names
}
