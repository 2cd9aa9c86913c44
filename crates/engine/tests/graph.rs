//! The graph is a reading of the log: an engine that reads the log in pieces or all at once walks the same
//! graph, now and as of every earlier transaction; and it finds the same triples as the tables.

use std::ops::ControlFlow;

use kenning_engine::graph::{Node, NodeRef, View};
use kenning_engine::{Engine, Format};
use kenning_model::{EntityType, Id, ScopeId, TxId, fold};
use kenning_storage::{NewTriple, OnConflict, Request, TripleFilter, UndoTarget, UndoWish, Write};
use kenning_testkit::{TempStore, intake, make_scopes, scrambled};

const SCOPES: &[ScopeId] = &[ScopeId(1), ScopeId(2), ScopeId(3)];
const STEPS: u64 = 120;
const NAMES: u64 = 8;

struct Author<'a> {
    engine: &'a Engine,
    random: u64,
    triples: Vec<Id>,
}

impl Author<'_> {
    fn below(&mut self, many: u64) -> u64 {
        self.random = scrambled(self.random);
        (self.random >> 16) % many
    }

    fn commit(&self, write: Write) -> Option<Vec<Id>> {
        let (principal, tool) = (kenning_model::Principal::owner("author", "author").into(), "test".into());
        let committed = self.engine.commit(Request { principal, tool, write, keyed: None }).ok()?;
        Some(committed.tx.changes.iter().map(|change| change.id).collect())
    }

    /// Makes one random change: a triple, a page or a new state of one, a delete of either, or an undo of the
    /// newest transaction.
    fn step(&mut self) {
        match self.below(10) {
            0..=3 => {
                let scope = SCOPES[self.below(3) as usize];
                let [subject, object] =
                    [self.below(NAMES), self.below(NAMES)].map(|number| format!("Name {number}"));
                let predicate = format!("relation {}", self.below(3));
                let triple = NewTriple { scope, subject, predicate, object, source: None, confidence: None };
                let write = Write::Relate { triple, on_conflict: OnConflict::KeepBoth };
                self.triples.extend(self.commit(write).unwrap_or_default());
            }
            4 => {
                let many = self.triples.len() as u64;
                if many > 0 {
                    let at = self.below(many) as usize;
                    let id = self.triples[at];
                    self.commit(Write::Delete { entity_type: EntityType::Triple, id });
                }
            }
            5..=7 => {
                let (page, target, part) = (self.below(5), self.below(5), self.below(3));
                let text = format!(
                    "# Page {page}\n\nAbout `name_{part}` and [another](p{target}.md#part-{part}).\n\n## Part {part}\n\n`Name {part}` is here. [Whole](p{target}.md)\n"
                );
                let path = format!("p{page}.md");
                let book = intake("book");
                let prepared = book.prepare(&path, Format::Markdown, text.into_bytes(), &|_| None, None);
                if let Some(prepared) = prepared.expect("a document") {
                    book.put(self.engine, prepared.document).expect("it is taken in");
                }
            }
            8 => {
                let book = intake("book");
                if let Some(known) = book.known(self.engine, "").expect("documents").first() {
                    book.close(self.engine, known).expect("it is closed");
                }
            }
            _ => {
                let wish = UndoWish { target: UndoTarget::Newest(1), any_actor: true, within: None };
                self.commit(Write::Undo(wish));
            }
        }
    }
}

/// The nodes within three steps of every named node, with all their edges, as text.
fn walked(engine: &Engine, at: TxId, scopes: &[ScopeId]) -> Vec<String> {
    let snapshot = engine.snapshot_at(&kenning_testkit::owner(), Some(at)).expect("a snapshot");
    let name = |view: &View<'_>, node: NodeRef| format!("{:?}", view.node(node));
    snapshot
        .graph(&snapshot.sight_of(scopes.to_vec()), |view| {
            let starts = (0..NAMES).map(|number| Node::Entity(fold(&format!("Name {number}"))));
            let mut lines = Vec::new();
            for start in starts.filter_map(|node| view.find(&node)).filter(|node| view.is_seen(*node)) {
                let walk = view.expand(&[start], 3, 1_000);
                for reached in &walk.reached {
                    lines.push(format!("{} {}", reached.distance, name(&view, reached.node)));
                    let _ = view.each(reached.node, &mut |edge, other| {
                        lines.push(format!("  {} {}", view.relation(&edge), name(&view, other)));
                        ControlFlow::Continue(())
                    });
                }
            }
            lines
        })
        .expect("a walk")
}

#[test]
fn whoever_reads_the_log_walks_the_same_graph() {
    for seed in 0..12 {
        let store = TempStore::in_memory();
        let engine = store.engine();
        make_scopes(&engine, SCOPES.len() as u32);
        let mut author = Author { engine: &engine, random: scrambled(seed), triples: Vec::new() };
        // This engine reads after every transaction; the others read once, and in two pieces.
        let mut then = Vec::new();
        for _ in 0..STEPS {
            author.step();
            let at = engine.snapshot(&kenning_testkit::owner()).expect("a snapshot").at();
            then.push((at, walked(&engine, at, SCOPES)));
        }
        let (once, twice) = (store.engine(), store.engine());
        let half = then[then.len() / 2].0;
        walked(&twice, half, SCOPES);
        assert!(then.iter().any(|(_, lines)| lines.len() > 20), "there is something to walk");
        for (at, lines) in &then {
            assert_eq!(walked(&once, *at, SCOPES), *lines, "seed {seed}, as of {at}");
            assert_eq!(walked(&twice, *at, SCOPES), *lines, "seed {seed}, as of {at}, read in two pieces");
        }
        found_as_in_the_tables(&once, &then.iter().map(|(at, _)| *at).collect::<Vec<_>>());
    }
}

fn found_as_in_the_tables(engine: &Engine, moments: &[TxId]) {
    for at in moments.iter().step_by(7) {
        let snapshot = engine.snapshot_at(&kenning_testkit::owner(), Some(*at)).expect("a snapshot");
        let reader = engine.storage().expect("a store").reader().expect("a reader");
        for number in 0..NAMES {
            let (name, other, relation) = (format!("name {number}"), "name 1", "relation 1");
            let asked = [
                [Some(name.as_str()), None, None],
                [None, None, Some(name.as_str())],
                [Some(name.as_str()), Some(relation), None],
                [Some(name.as_str()), None, Some(other)],
                [Some(other), Some(relation), Some(name.as_str())],
            ];
            for fact in asked {
                let [subject, predicate, object] = fact;
                let scopes = &SCOPES[..2];
                let sight = snapshot.sight_of(scopes.to_vec());
                let filter = TripleFilter { scopes, at: *at, subject, predicate, object };
                let page = 1..4;
                let (found, total) = snapshot.triples(&sight, fact, page.clone()).expect("triples");
                assert_eq!(found, reader.triples(&filter, page).expect("triples"), "{fact:?} as of {at}");
                assert_eq!(total, reader.count_triples(&filter).expect("a count"));
            }
        }
    }
}
