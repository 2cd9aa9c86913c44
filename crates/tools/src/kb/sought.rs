//! What a search of documents may look at, and what it finds there.

use std::collections::HashMap;

use kenning_engine::{SectionLabel, SectionQuestion, Snapshot};
use kenning_model::{Id, Record, ScopeId, Section, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{Moment, NAME_BYTES_MAX, TERM_BYTES_MAX, Text, Texts};
use crate::documents::Scope;
use crate::tool::closure;
use crate::{Context, Stop};

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Filters {
    doc_tag: Option<Texts<0, 32, NAME_BYTES_MAX>>,
    path_prefix: Option<Text<TERM_BYTES_MAX>>,
    updated_after: Option<Moment>,
}

/// What is sought, made ready.
pub(super) struct Sought {
    scopes: Vec<ScopeId>,
    only: Vec<(SectionLabel, Vec<String>)>,
    path_prefix: Option<String>,
    updated_after: Option<Timestamp>,
    max_per_doc: usize,
}

/// A section that was found.
pub(super) struct Hit {
    pub(super) id: Id,
    pub(super) section: Section,
    pub(super) score: f64,
}

pub(super) struct Hits {
    pub(super) hits: Vec<Hit>,
    /// How many were passed over because their document was there already.
    pub(super) duplicates: usize,
    pub(super) is_degraded: bool,
}

/// So many sections are read at a time, and so many are looked at in all before a search gives up.
const PAGE: u64 = 50;
const LOOKED_AT_MAX: u64 = 1_000;

impl Sought {
    pub(super) fn new(
        ctx: &Context<'_>,
        snapshot: &Snapshot<'_>,
        scope: Scope,
        filters: Filters,
        max_per_doc: i64,
    ) -> Result<Sought, Stop> {
        scope.check(ctx)?;
        let list =
            |texts: Option<Texts<0, 32, NAME_BYTES_MAX>>| texts.map(|texts| texts.0).unwrap_or_default();
        let mut only = scope.labels();
        only.push((SectionLabel::DocTag, list(filters.doc_tag)));
        Ok(Sought {
            scopes: closure(snapshot, &ctx.scope_name(None)?)?,
            only,
            path_prefix: filters.path_prefix.map(|prefix| prefix.0),
            updated_after: filters.updated_after.map(|moment| moment.0),
            max_per_doc: usize::try_from(max_per_doc).ok().filter(|many| *many > 0).unwrap_or(usize::MAX),
        })
    }

    /// The best sections, at most so many of them.
    pub(super) fn find(&self, snapshot: &Snapshot<'_>, text: &str, many: usize) -> Result<Hits, Stop> {
        let question = SectionQuestion { scopes: &self.scopes, text, only: &self.only };
        let mut found = Hits { hits: Vec::new(), duplicates: 0, is_degraded: false };
        let mut per_document: HashMap<Id, usize> = HashMap::new();
        let mut fitting: HashMap<Id, bool> = HashMap::new();
        let mut start = 0;
        while found.hits.len() < many && start < LOOKED_AT_MAX {
            let page = snapshot.search_sections(&question, start..start + PAGE)?;
            found.is_degraded |= page.is_degraded;
            start += PAGE;
            let is_last = start >= page.total;
            for (stored, score) in page.hits {
                let Record::Section(section) = stored.record else { continue };
                if found.hits.len() == many || !self.fits(snapshot, section.document, &mut fitting)? {
                    continue;
                }
                let already = per_document.entry(section.document).or_default();
                if *already >= self.max_per_doc {
                    found.duplicates += 1;
                    continue;
                }
                *already += 1;
                found.hits.push(Hit { id: stored.id, section, score });
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Whether a document is where and as new as was asked.
    fn fits(&self, snapshot: &Snapshot<'_>, id: Id, known: &mut HashMap<Id, bool>) -> Result<bool, Stop> {
        if self.path_prefix.is_none() && self.updated_after.is_none() {
            return Ok(true);
        }
        if let Some(fits) = known.get(&id) {
            return Ok(*fits);
        }
        let stored = snapshot.document(id)?;
        let fits = stored.as_ref().and_then(|stored| stored.record.as_document()).is_some_and(|document| {
            let is_below =
                self.path_prefix.as_ref().is_none_or(|prefix| document.path.starts_with(prefix.as_str()));
            let updated = document.updated.or(document.updated_at).unwrap_or(document.recorded_at);
            is_below && self.updated_after.is_none_or(|after| updated > after)
        });
        known.insert(id, fits);
        Ok(fits)
    }
}
