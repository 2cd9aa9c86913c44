//! How alike two entries are, and whether they contradict each other.

use std::collections::HashMap;
use std::sync::Arc;

use kenning_model::{Entry, clean};
use kenning_retrieval::{Related, lex, related};

/// The least likeness at which two entries count as being about the same matter. Measured on
/// `tests/collisions.tsv`: half of the pairs that contradict each other are this much alike (the others share
/// few words), nine in ten duplicates, and one in twenty-five of the pairs about different things, half of
/// which share many words.
pub(crate) const ALIKE_MIN: f64 = 0.52;

/// The least `nearness` at which two entries may be about the same subject. Of the pairs about different
/// things one in fourteen is this near; all of those share most of their words.
pub(crate) const NEAR_MIN: f64 = 0.5;

/// Words that turn a statement into its opposite.
const NEGATIONS: [&str; 9] = ["not", "no", "never", "none", "nothing", "without", "cannot", "nor", "neither"];

/// Terms that say whether or how firmly something holds. They are left out when the subjects of two
/// statements are compared.
const POLARITY: [&str; 9] =
    ["never", "alway", "always", "none", "noth", "nothing", "without", "cannot", "neither"];

/// The most terms of a statement in which related words stand for each other. Longer statements about one
/// matter share enough words.
const SHORT_TERMS_MAX: usize = 12;

/// The weight of a number that only one of two statements has. A number is a statement about the matter and
/// not the matter, so it counts half.
const NUMBER_WEIGHT: f64 = 0.5;

/// The comparable content of an entry.
pub(crate) struct Statement {
    terms: HashMap<Arc<str>, Term>,
    negations: usize,
}

struct Term {
    /// The weight of a term, which is higher the earlier it stands, because a statement names its subject
    /// before what it says about it. Example: two services on two ports are two matters, two ports of one
    /// service are one.
    weight: f64,
    is_number: bool,
    /// The terms of related words, each with the cosine of the two words.
    related: Vec<(Arc<str>, f64)>,
}

impl Statement {
    pub(crate) fn new(topic: &str, content: &str) -> Statement {
        let (topic, content) = (clean(topic), clean(content));
        let mut words = lex::question_words(&topic);
        words.extend(lex::question_words(&content));
        words.retain(|word| !POLARITY.contains(&word.term.as_ref()));
        let is_short = words.len() <= SHORT_TERMS_MAX;
        let mut terms = HashMap::new();
        for word in words {
            let weight = 1.0 / (1.0 + terms.len() as f64).sqrt();
            terms.entry(word.term).or_insert_with(|| Term {
                weight,
                is_number: word.word.starts_with(|c: char| c.is_ascii_digit()),
                related: if is_short { related_terms(&word.word) } else { Vec::new() },
            });
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

    /// How much of a term the statement has: 1 for the term itself, less for a related one, 0 for neither.
    fn has(&self, text: &Arc<str>, term: &Term) -> f64 {
        if self.terms.contains_key(text) {
            return 1.0;
        }
        let theirs = term.related.iter().filter(|(related, _)| self.terms.contains_key(related));
        theirs.map(|(_, near)| *near).fold(0.0, f64::max)
    }

    /// The share of common terms: 1 if all are the same, 0 if none.
    fn likeness(&self, other: &Statement) -> f64 {
        self.share(other, |other, text, _| f64::from(other.terms.contains_key(text)), 1.0)
    }

    /// Like `likeness`, but related words stand for each other and differing numbers count less:
    /// `token lifetime: 15 minutes` is near to `tokens expire after 30 minutes`.
    pub(crate) fn nearness(&self, other: &Statement) -> f64 {
        self.share(other, Statement::has, NUMBER_WEIGHT)
    }

    fn share(
        &self,
        other: &Statement,
        has: impl Fn(&Statement, &Arc<str>, &Term) -> f64,
        number_weight: f64,
    ) -> f64 {
        let (mut shared, mut only) = (0.0, 0.0);
        for (one, other) in [(self, other), (other, self)] {
            for (text, term) in &one.terms {
                let had = has(other, text, term);
                shared += term.weight * had / 2.0;
                only += term.weight * (1.0 - had) * if term.is_number { number_weight } else { 1.0 };
            }
        }
        let all = shared + only;
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// Whether the two have a different number of negations, or each has terms that the other lacks.
    fn differs(&self, other: &Statement) -> bool {
        let has_more =
            |one: &Statement, other: &Statement| one.terms.keys().any(|term| !other.terms.contains_key(term));
        self.negations != other.negations || (has_more(self, other) && has_more(other, self))
    }
}

fn related_terms(word: &str) -> Vec<(Arc<str>, f64)> {
    let term = |related: Related| (lex::term_of(related.word), f64::from(related.cosine));
    related(word).map(term).collect()
}

/// The pairs of entries that most likely contradict each other, as positions in the given order.
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
