//! Finds sections over the graph that share no word with the question: from the best hits along their links,
//! and from the entities that the question names along the triples about them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use kenning_engine::graph::{LINKS_TO, Node, View};
use kenning_engine::{Sight, Snapshot};
use kenning_model::{Id, fold};

use super::document_search::Hit;
use crate::Stop;

/// The number of best hits whose links are followed.
const SEEDS: usize = 3;
/// The score of a linked section, as a share of the score of the hit that the link comes from or goes to.
/// Measured: a larger share pushes answers out of the best five.
const LINKED: f64 = 0.4;
/// The score of a section that mentions an entity which a triple connects to an entity that the question
/// names.
const RELATED: f64 = 0.4;
/// The largest number of words of one name.
const NAME_WORDS_MAX: usize = 5;
/// An entity that more sections than this mention does not help to choose between them.
const MENTIONS_MAX: usize = 10;
const CANDIDATES_MAX: usize = 20;

/// The sections that the graph leads to and the search did not find, best first, with their scores.
pub(super) fn expand(
    snapshot: &Snapshot<'_>,
    sight: &Sight,
    hits: &[Hit],
    question: &str,
) -> Result<Vec<(Id, f64)>, Stop> {
    let worth = snapshot.graph(sight, |view| {
        let mut worth: HashMap<Id, f64> = HashMap::new();
        let mut found = |id: Id, score: f64| {
            if !hits.iter().any(|hit| hit.id == id) {
                let known = worth.entry(id).or_insert(score);
                *known = known.max(score);
            }
        };
        related(&view, question, &mut |id| found(id, RELATED));
        let view = view.along(&[LINKS_TO.to_owned()]);
        for hit in hits.iter().take(SEEDS) {
            let Some(node) = view.find(&Node::Section(hit.id)) else { continue };
            let _ = view.each(node, &mut |_, other| {
                if let Node::Section(id) = view.node(other) {
                    found(*id, hit.score * LINKED);
                }
                ControlFlow::Continue(())
            });
        }
        worth
    })?;
    let mut worth: Vec<(Id, f64)> = worth.into_iter().collect();
    worth.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    worth.truncate(CANDIDATES_MAX);
    Ok(worth)
}

/// Finds sections that mention an entity which a triple connects to an entity that the question names.
fn related(view: &View<'_>, question: &str, found: &mut dyn FnMut(Id)) {
    let is_edge = |c: char| !c.is_alphanumeric();
    let words: Vec<&str> = question
        .split_whitespace()
        .map(|word| word.trim_matches(is_edge))
        .filter(|word| !word.is_empty())
        .collect();
    for start in 0..words.len() {
        for end in start + 1..=words.len().min(start + NAME_WORDS_MAX) {
            let name = Node::Entity(fold(&words[start..end].join(" ")));
            let Some(named) = view.find(&name) else { continue };
            let _ = view.each(named, &mut |_, other| {
                if let Node::Entity(_) = view.node(other) {
                    let mentions: Vec<Id> = view.mentioned_in(other).take(MENTIONS_MAX + 1).collect();
                    if mentions.len() <= MENTIONS_MAX {
                        mentions.into_iter().for_each(&mut *found);
                    }
                }
                ControlFlow::Continue(())
            });
        }
    }
}
