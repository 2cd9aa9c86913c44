//! How much two entries say the same, and whether they say different things about one matter.

use std::collections::HashMap;
use std::sync::Arc;

use kenning_model::{Entry, clean};
use kenning_retrieval::lex;

/// From here on two entries speak of the same matter. Measured on `tests/collisions.tsv`: of the pairs that contradict
/// each other half are this much alike (the others share few words), of duplicates nine in ten, and of pairs about
/// different things, half of which share many words, one in twenty-five.
pub(crate) const ALIKE_MIN: f64 = 0.52;

/// What turns a statement into its opposite.
const NEGATIONS: [&str; 9] = ["not", "no", "never", "none", "nothing", "without", "cannot", "nor", "neither"];

/// Terms that say how firmly something is said, not what.
const POLARITY: [&str; 9] =
    ["never", "alway", "always", "none", "noth", "nothing", "without", "cannot", "neither"];

/// What an entry says, as far as it can be compared.
pub(crate) struct Statement {
    /// Each term once, with its weight. What a statement is about comes before what it says about it, so the earlier
    /// a term stands the more it counts: two services on two ports are two matters, two ports of one service are not.
    terms: HashMap<Arc<str>, f64>,
    negations: usize,
}

impl Statement {
    pub(crate) fn new(topic: &str, content: &str) -> Statement {
        let (topic, content) = (clean(topic), clean(content));
        let mut terms = HashMap::new();
        let is_said = |term: &Arc<str>| !POLARITY.contains(&term.as_ref());
        for term in lex::terms(&topic).into_iter().chain(lex::terms(&content)).filter(is_said) {
            let weight = 1.0 / (1.0 + terms.len() as f64).sqrt();
            terms.entry(term).or_insert(weight);
        }
        let lower = content.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’');
        let is_negation =
            |word: &&str| NEGATIONS.contains(word) || word.ends_with("n't") || word.ends_with("n’t");
        Statement { terms, negations: words.filter(is_negation).count() }
    }

    fn of(entry: &Entry) -> Statement {
        Statement::new(&entry.topic, &entry.content)
    }

    /// 1 for the same terms, 0 for none in common.
    pub(crate) fn likeness(&self, other: &Statement) -> f64 {
        let only = |one: &Statement, other: &Statement| -> f64 {
            one.terms
                .iter()
                .filter(|(term, _)| !other.terms.contains_key(*term))
                .map(|(_, weight)| weight)
                .sum()
        };
        let both = |(term, weight): (&Arc<str>, &f64)| Some((weight + other.terms.get(term)?) / 2.0);
        let shared: f64 = self.terms.iter().filter_map(both).sum();
        let all = shared + only(self, other) + only(other, self);
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// One of them negates, or each has something in the place of what the other has.
    fn differs(&self, other: &Statement) -> bool {
        let has_more =
            |one: &Statement, other: &Statement| one.terms.keys().any(|term| !other.terms.contains_key(term));
        self.negations != other.negations || (has_more(self, other) && has_more(other, self))
    }
}

/// The pairs of entries that most likely contradict each other, by their places, in order.
pub fn collisions(entries: &[&Entry]) -> Vec<[usize; 2]> {
    let statements: Vec<Statement> = entries.iter().map(|entry| Statement::of(entry)).collect();
    let mut pairs = Vec::new();
    for (one, statement) in statements.iter().enumerate() {
        for (other, second) in statements.iter().enumerate().skip(one + 1) {
            if statement.differs(second) && statement.likeness(second) >= ALIKE_MIN {
                pairs.push([one, other]);
            }
        }
    }
    pairs
}
