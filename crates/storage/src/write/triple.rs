//! Writing facts of the graph, and what to do about facts that say otherwise.

use kenning_model::{Change, EntityType, Record, ScopeId, Triple, fold};

use super::{Draft, Plan};
use crate::Error;
use crate::backend::{Stored, TripleFilter};

#[derive(Clone, Debug)]
pub struct NewTriple {
    pub scope: ScopeId,
    /// Where facts that say otherwise are looked for: what the scope can see.
    pub closure: Vec<ScopeId>,
    pub subject: String,
    pub predicate: String,
    pub object: String,
    pub source: Option<String>,
    pub confidence: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    KeepBoth,
    Replace,
    Reject,
}

/// More facts than this about one subject and predicate are not all read for one `relate`.
const SIBLINGS_MAX: u64 = 1000;

impl Plan<'_> {
    pub(super) fn relate(&self, new: &NewTriple, on_conflict: OnConflict) -> Result<Draft, Error> {
        let (subject, predicate, object) = (fold(&new.subject), fold(&new.predicate), fold(&new.object));
        let siblings = TripleFilter {
            scopes: &new.closure,
            at: self.head,
            subject: Some(&subject),
            predicate: Some(&predicate),
            object: None,
        };
        let (same, conflicts): (Vec<Stored>, Vec<Stored>) = self
            .reader
            .triples(&siblings, 0..SIBLINGS_MAX)?
            .into_iter()
            .partition(|stored| triple_of(stored).is_some_and(|triple| fold(&triple.object) == object));
        let existing =
            same.into_iter().find(|stored| triple_of(stored).is_some_and(|triple| triple.scope == new.scope));
        let mut changes = Vec::new();
        match on_conflict {
            OnConflict::Reject if existing.is_none() && !conflicts.is_empty() => {
                return Err(Error::Contradiction { conflicts });
            }
            // Facts of another scope are that scope's business: only those beside the new one give way.
            OnConflict::Replace => {
                for stored in &conflicts {
                    if triple_of(stored).is_some_and(|triple| triple.scope == new.scope) {
                        changes.push(Change {
                            entity_type: EntityType::Triple,
                            id: stored.id,
                            before: Some(stored.clone().into()),
                            after: None,
                        });
                    }
                }
            }
            OnConflict::Reject | OnConflict::KeepBoth => {}
        }
        if existing.is_none() {
            let triple = Triple {
                scope: new.scope,
                subject: new.subject.clone(),
                predicate: new.predicate.clone(),
                object: new.object.clone(),
                source: new.source.clone(),
                actor: self.actor.to_owned(),
                confidence: new.confidence,
                version: 1,
                recorded_at: self.now,
                updated_at: None,
            };
            changes.insert(0, self.create(Record::Triple(triple))?);
        }
        Ok(Draft { changes, conflicts, existing, ..Draft::default() })
    }
}

fn triple_of(stored: &Stored) -> Option<&Triple> {
    match &stored.record {
        Record::Triple(triple) => Some(triple),
        Record::Entry(_) => None,
    }
}
