//! A search of documents: the part of the documents that it covers, and its hits.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use kenning_engine::{Error, Explanation, PassageHit, SectionLabel, SectionQuestion, Sight, Snapshot};
use kenning_model::{Id, Record, Section, Timestamp, clean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expansion;
use crate::arguments::{Moment, NAME_BYTES_MAX, TERM_BYTES_MAX, Text, Texts};
use crate::documents::{Labels, Scope};
use crate::tool::sight;
use crate::{Code, Context, Stop};

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filters {
    doc_tag: Option<Texts<0, 32, NAME_BYTES_MAX>>,
    path_prefix: Option<Text<TERM_BYTES_MAX>>,
    updated_after: Option<Moment>,
}

// Whether a search follows the links of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    // Follows links if there is a graph.
    #[default]
    Auto,
    VectorOnly,
    HybridLocal,
}

/// The options of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// 0 means no limit.
    pub(crate) max_per_doc: u64,
    pub(crate) mode: Mode,
    /// Whether the search also matches the parts of identifiers, related words, and for words that the table of
    /// vectors does not know, similarly spelt ones.
    pub(crate) rewrites: bool,
}

/// A search whose options and filters have been resolved.
pub(crate) struct DocumentSearch {
    pub(super) sight: Sight,
    only: Vec<(SectionLabel, Vec<String>)>,
    path_prefix: Option<String>,
    updated_after: Option<Timestamp>,
    max_per_doc: usize,
    follows_links: bool,
    as_written: bool,
    /// For each document that was examined, whether it passes the filters by path and time.
    fitting: RefCell<HashMap<Id, bool>>,
}

/// A section that was found.
pub(crate) struct Hit {
    pub(crate) id: Id,
    pub(crate) section: Section,
    pub(crate) score: f64,
    pub(crate) source: Source,
    /// The numbers of the passages by which the section was found, each with its score, best first. This list
    /// and `why` are empty for a section that only the graph led to.
    pub(crate) passages: Vec<(usize, f64)>,
    pub(crate) why: Option<Explanation>,
}

/// Where a hit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Hybrid,
    /// It shares no word with the question.
    Vector,
    /// Meaning could not be judged yet.
    Bm25,
    GraphExpanded,
}

pub(crate) struct Hits {
    pub(crate) hits: Vec<Hit>,
    /// The number of sections that were left out because their document had its share of hits already.
    pub(crate) duplicates: usize,
    pub(crate) is_degraded: bool,
    /// The number of all passages that match; `None` if counting would mean examining too many.
    pub(crate) passages: Option<u64>,
}

/// A passage that matches, as a row of a result set.
pub(crate) struct Matching {
    pub(crate) id: Id,
    pub(crate) section: Section,
    pub(crate) path: String,
    pub(crate) score: f64,
}

/// The number of passages that the first look examines. If a few documents have most of them, each further
/// look is four times as large, until `LOOKED_AT_MAX` passages have been examined.
const PAGE: u64 = 50;
const LOOKED_AT_MAX: u64 = 5_000;
/// The index does not know the path and the date of a document, so filters by these examine each passage that
/// matches. If there are more passages than this, no result set is offered.
const SET_LOOKED_AT_MAX: u64 = 2_000;

impl DocumentSearch {
    pub(crate) fn new(
        ctx: &Context<'_>,
        snapshot: &Snapshot<'_>,
        scope: &Scope,
        filters: &Filters,
        manner: Manner,
    ) -> Result<DocumentSearch, Stop> {
        scope.check(ctx)?;
        if manner.mode == Mode::HybridLocal && !ctx.caller.has_graph {
            let message = "`options.mode`: the graph is off on this server (`--no-graph`); leave it out, or take vector_only";
            return Err(Stop::new(Code::InvalidArgument, message));
        }
        let mut only = scope.labels();
        let doc_tags = filters.doc_tag.as_ref().map(|tags| tags.0.clone());
        only.push((SectionLabel::DocTag, doc_tags.unwrap_or_default()));
        Ok(DocumentSearch {
            sight: sight(snapshot, &ctx.scope_name(None)?)?,
            only,
            path_prefix: filters
                .path_prefix
                .as_ref()
                .map(|prefix| prefix.0.trim_start_matches('/').to_owned()),
            updated_after: filters.updated_after.map(|moment| moment.0),
            max_per_doc: match manner.max_per_doc {
                0 => usize::MAX,
                many => many as usize,
            },
            follows_links: ctx.caller.has_graph && manner.mode != Mode::VectorOnly,
            as_written: !manner.rewrites,
            fitting: RefCell::default(),
        })
    }

    pub(crate) fn is_narrowed(&self) -> bool {
        self.only.iter().any(|(_, values)| !values.is_empty()) || self.looks_at_documents()
    }

    pub(crate) fn follows_links(&self) -> bool {
        self.follows_links
    }

    /// The best sections, at most `many`.
    pub(crate) fn find(&self, snapshot: &Snapshot<'_>, text: &str, many: usize) -> Result<Hits, Stop> {
        let mut found = self.search(snapshot, text, many)?;
        if self.follows_links {
            self.follow(snapshot, text, many, &mut found)?;
        }
        Ok(found)
    }

    fn search(&self, snapshot: &Snapshot<'_>, text: &str, many: usize) -> Result<Hits, Stop> {
        let question =
            SectionQuestion { sight: &self.sight, text, only: &self.only, as_written: self.as_written };
        let mut found = Hits { hits: Vec::new(), duplicates: 0, is_degraded: false, passages: None };
        // Each section is one hit, at the rank of its best passage.
        let mut known: HashSet<Id> = HashSet::new();
        let (mut start, mut size) = (0, PAGE);
        while found.hits.len() < many && start < LOOKED_AT_MAX {
            let page = snapshot.search_passages(&question, start..start + size)?;
            found.is_degraded |= page.is_degraded;
            found.passages = Some(page.total);
            (start, size) = (start + size, size * 4);
            let is_last = start >= page.total;
            for PassageHit { section: id, passage, why } in page.hits {
                if !known.insert(id) {
                    let hit = found.hits.iter_mut().find(|hit| hit.id == id);
                    hit.into_iter().for_each(|hit| hit.passages.push((passage, why.total)));
                    continue;
                }
                if found.hits.len() == many {
                    continue;
                }
                // Most sections are left out here by their document alone, before their text is read.
                let document = snapshot.document_of(id)?.ok_or_else(|| missing(id))?;
                if !self.fits(snapshot, document)? {
                    continue;
                }
                if found.of_document(document) >= self.max_per_doc {
                    found.duplicates += 1;
                    continue;
                }
                let section = section(snapshot, id)?;
                let source = match (page.is_degraded, why.matched_terms.is_empty()) {
                    (true, _) => Source::Bm25,
                    (false, true) => Source::Vector,
                    (false, false) => Source::Hybrid,
                };
                let (score, passages, why) = (why.total, vec![(passage, why.total)], Some(why));
                found.hits.push(Hit { id, section, score, source, passages, why });
            }
            if is_last {
                break;
            }
        }
        if self.looks_at_documents() {
            let total = found.passages.unwrap_or_default();
            found.passages = match total <= SET_LOOKED_AT_MAX {
                true => Some(self.fitting_passages(snapshot, &question)?.len() as u64),
                false => None,
            };
        }
        Ok(found)
    }

    fn looks_at_documents(&self) -> bool {
        self.path_prefix.is_some() || self.updated_after.is_some()
    }

    /// The passages whose documents pass the filters by path and time.
    fn fitting_passages(
        &self,
        snapshot: &Snapshot<'_>,
        question: &SectionQuestion<'_>,
    ) -> Result<Vec<PassageHit>, Stop> {
        let mut fitting = Vec::new();
        for hit in snapshot.search_passages(question, 0..SET_LOOKED_AT_MAX)?.hits {
            let document = snapshot.document_of(hit.section)?.ok_or_else(|| missing(hit.section))?;
            if self.fits(snapshot, document)? {
                fitting.push(hit);
            }
        }
        Ok(fitting)
    }

    /// The passages that match, with any number per section.
    pub(crate) fn passages(
        &self,
        snapshot: &Snapshot<'_>,
        text: &str,
        rows: Range<u64>,
    ) -> Result<Vec<Matching>, Stop> {
        let question =
            SectionQuestion { sight: &self.sight, text, only: &self.only, as_written: self.as_written };
        let hits = if self.looks_at_documents() {
            let all = self.fitting_passages(snapshot, &question)?.into_iter();
            all.skip(rows.start as usize).take((rows.end - rows.start) as usize).collect()
        } else {
            snapshot.search_passages(&question, rows)?.hits
        };
        let mut passages = Vec::new();
        for PassageHit { section: id, why, .. } in hits {
            let section = section(snapshot, id)?;
            let document = snapshot.document(section.document)?;
            let path = document.as_ref().and_then(|stored| stored.record.as_document());
            passages.push(Matching {
                id,
                path: path.map(|document| clean(&document.path)).unwrap_or_default(),
                score: why.total,
                section,
            });
        }
        Ok(passages)
    }

    /// Inserts the sections that the graph leads to, each at the rank of its score.
    fn follow(&self, snapshot: &Snapshot<'_>, text: &str, many: usize, found: &mut Hits) -> Result<(), Stop> {
        for (id, score) in expansion::expand(snapshot, &self.sight, &found.hits, text)? {
            if found.hits.len() >= many && found.hits.last().is_some_and(|last| last.score >= score) {
                // The expansion is ordered by score, so no later section can be better.
                break;
            }
            let Some((id, section)) = with_text(snapshot, id)? else { continue };
            if found.hits.iter().any(|hit| hit.id == id)
                || !Labels::of(&section).fit(&self.only)
                || !self.fits(snapshot, section.document)?
            {
                continue;
            }
            if found.of_document(section.document) >= self.max_per_doc {
                found.duplicates += 1;
                continue;
            }
            let at = found.hits.partition_point(|hit| hit.score >= score);
            let (source, passages, why) = (Source::GraphExpanded, Vec::new(), None);
            found.hits.insert(at, Hit { id, section, score, source, passages, why });
            found.hits.truncate(many);
        }
        Ok(())
    }

    /// Whether a document passes the filters by path and time.
    fn fits(&self, snapshot: &Snapshot<'_>, id: Id) -> Result<bool, Stop> {
        if !self.looks_at_documents() {
            return Ok(true);
        }
        if let Some(fits) = self.fitting.borrow().get(&id) {
            return Ok(*fits);
        }
        let stored = snapshot.document(id)?;
        let fits = stored.as_ref().and_then(|stored| stored.record.as_document()).is_some_and(|document| {
            let is_below =
                self.path_prefix.as_ref().is_none_or(|prefix| document.path.starts_with(prefix.as_str()));
            let updated = document.updated.or(document.updated_at).unwrap_or(document.recorded_at);
            is_below && self.updated_after.is_none_or(|after| updated > after)
        });
        self.fitting.borrow_mut().insert(id, fits);
        Ok(fits)
    }
}

/// The error for a section that is in the index or in the graph but not in its table. All three are derived
/// from the log, so the table is damaged.
fn missing(id: Id) -> Error {
    Error::Damaged { what: format!("section `{id}` is in the log but not in its table") }
}

fn section(snapshot: &Snapshot<'_>, id: Id) -> Result<Section, Stop> {
    match snapshot.section(id)?.map(|stored| stored.record) {
        Some(Record::Section(section)) => Ok(section),
        _ => Err(missing(id).into()),
    }
}

/// The section, or if it is only a heading, the first section below it that has text: links to a page lead to
/// its title.
fn with_text(snapshot: &Snapshot<'_>, id: Id) -> Result<Option<(Id, Section)>, Stop> {
    let linked = section(snapshot, id)?;
    if !linked.text.trim().is_empty() {
        return Ok(Some((id, linked)));
    }
    let sections = snapshot.sections_of(linked.document)?.into_iter();
    let below = sections.filter_map(|stored| match stored.record {
        Record::Section(section) if section.position > linked.position => Some((stored.id, section)),
        _ => None,
    });
    let mut below = below.take_while(|(_, section)| section.level > linked.level);
    Ok(below.find(|(_, section)| !section.text.trim().is_empty()))
}

impl Hits {
    fn of_document(&self, document: Id) -> usize {
        self.hits.iter().filter(|hit| hit.section.document == document).count()
    }
}
