//! Writes facts of the graph, and handles facts that contradict them.

use std::collections::HashSet;

use kenning_model::{Change, EntityType, Record, ScopeId, Triple, fold};

use super::{Draft, Plan};
use crate::Error;
use crate::backend::{Stored, TripleFilter};

#[derive(Clone, Debug)]
pub struct NewTriple {
    pub scope: ScopeId,
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

/// How many contradicting facts are returned; each may have 3 KiB.
const NAMED_MAX: u64 = 8;
/// How many facts are read at a time when they are replaced.
const PAGE: u64 = 500;

impl Plan<'_> {
    pub(super) fn relate(&self, new: &NewTriple, on_conflict: OnConflict) -> Result<Draft, Error> {
        let (subject, predicate, object) = (fold(&new.subject), fold(&new.predicate), fold(&new.object));
        self.check_scope(new.scope)?;
        // Contradicting facts are searched in all scopes that the scope and the principal see.
        let closure = self.reach.within(self.reader.closure(new.scope, self.head)?);
        let siblings = TripleFilter {
            scopes: &closure,
            at: self.head,
            subject: Some(&subject),
            predicate: Some(&predicate),
            object: None,
        };
        let same = TripleFilter { object: Some(&object), ..siblings };
        let here =
            |stored: &Stored| stored.record.as_triple().is_some_and(|triple| triple.scope == new.scope);
        let differs =
            |stored: &Stored| stored.record.as_triple().is_some_and(|triple| fold(&triple.object) != object);
        let same_count = self.reader.count_triples(&same)?;
        let existing = self.reader.triples(&same, 0..same_count)?.into_iter().find(here);
        let conflict_count = self.reader.count_triples(&siblings)? - same_count;
        let mut conflicts = self.reader.triples(&siblings, 0..NAMED_MAX + same_count)?;
        conflicts.retain(differs);
        conflicts.truncate(NAMED_MAX as usize);
        let mut changes = Vec::new();
        if existing.is_none() {
            if on_conflict == OnConflict::Reject && conflict_count > 0 {
                return Err(Error::Contradiction { conflicts, many: conflict_count });
            }
            changes.push(self.create(Record::Triple(self.triple(new)), &mut HashSet::new())?);
        }
        if on_conflict == OnConflict::Replace {
            for start in (0..conflict_count + same_count).step_by(PAGE as usize) {
                // Facts of other scopes are not replaced: only those in the scope of the new fact are
                // deleted.
                let page = self.reader.triples(&siblings, start..start + PAGE)?;
                changes.extend(page.into_iter().filter(|stored| differs(stored) && here(stored)).map(
                    |stored| {
                        let id = stored.id;
                        Change {
                            entity_type: EntityType::Triple,
                            id,
                            before: Some(stored.into()),
                            after: None,
                        }
                    },
                ));
            }
        }
        Ok(Draft { changes, conflicts, conflict_count, existing, ..Draft::default() })
    }

    pub(super) fn triple(&self, new: &NewTriple) -> Triple {
        Triple {
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
            purged: None,
        }
    }
}
