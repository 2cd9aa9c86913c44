//! The catalogue of patterns in memory, which follows the log. It holds, for each version, the fields by
//! which patterns are counted and chosen; their texts are read from the log.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kenning_model::{Document, EntityType, Id, Pattern, Record, ScopeId, TxId, fold};
use kenning_retrieval::evidence::Rarity;
use kenning_retrieval::{By, MatchMinimum, lex};
use kenning_storage::{Error, LogChange, Stored};

use crate::reading::Follower;
use crate::search::{Asked, PatternLabel};
use crate::{Sight, Snapshot};

/// Every version of every pattern.
#[derive(Default)]
pub(crate) struct Catalogue {
    versions: HashMap<Id, Vec<PatternVersion>>,
    /// For each pattern id, the documents that had it at some time.
    by_pattern: HashMap<String, Vec<Id>>,
    /// For each source, the transaction in which its first pattern was ingested.
    sources: HashMap<(ScopeId, String), TxId>,
}

/// A version of a pattern.
struct PatternVersion {
    from: TxId,
    to: Option<TxId>,
    scope: ScopeId,
    pattern: String,
    title: String,
    title_key: String,
    category: String,
    category_key: String,
    difficulty: Option<String>,
    tags: Vec<String>,
    /// The terms of its id, title, summary, tags and category, sorted.
    about: Vec<Arc<str>>,
    precedence: Precedence,
}

/// Decides which of several patterns with one id in one scope is found: the smallest place. That is a pattern
/// of the source that was ingested first, and within a source the one with the shortest path, since
/// translations lie deeper than their original.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    since: TxId,
    source: String,
    depth: usize,
    path: String,
}

impl Follower for Catalogue {
    const KINDS: &'static [EntityType] = &[EntityType::Document];

    fn apply(&mut self, change: &LogChange) {
        let (tx, id) = (change.tx, change.id);
        let after = change.after.as_ref().and_then(Record::as_document);
        if let Some(last) = self.versions.get_mut(&id).and_then(|versions| versions.last_mut()) {
            last.to = last.to.or(Some(tx));
        }
        let Some((document, pattern)) = after.and_then(|after| Some((after, after.pattern.as_ref()?))) else {
            return;
        };
        let named = self.by_pattern.entry(pattern.id.clone()).or_default();
        if !named.contains(&id) {
            named.push(id);
        }
        let (source, path) = (document.source.clone(), document.path.clone());
        let since = *self.sources.entry((document.scope, source.clone())).or_insert(tx);
        self.versions.entry(id).or_default().push(PatternVersion {
            from: tx,
            to: None,
            scope: document.scope,
            pattern: pattern.id.clone(),
            title: document.title.clone(),
            title_key: fold(&document.title),
            category: pattern.category.clone(),
            category_key: fold(&pattern.category),
            difficulty: pattern.difficulty.clone(),
            tags: document.tags.clone(),
            about: about(document, pattern),
            precedence: Precedence { since, source, depth: path.matches('/').count(), path },
        });
    }
}

fn about(document: &Document, pattern: &Pattern) -> Vec<Arc<str>> {
    let named = [&pattern.id, &document.title, &pattern.summary, &pattern.category];
    let texts = named.into_iter().chain(&document.tags);
    let mut terms: Vec<Arc<str>> = texts.flat_map(|text| lex::terms(text)).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// The part of the catalogue that is in sight. Of the patterns with one id it shows the nearest.
struct View<'a> {
    state: &'a Catalogue,
    sight: &'a Sight,
}

impl<'a> View<'a> {
    fn seen(&self, id: Id) -> Option<&'a PatternVersion> {
        let at = self.sight.at;
        let is_live = |version: &&PatternVersion| version.from <= at && version.to.is_none_or(|to| to > at);
        let version = self.state.versions.get(&id)?.iter().rev().find(is_live)?;
        self.sight.sees(version.scope).then_some(version)
    }

    /// The document whose pattern has this id.
    fn named(&self, pattern: &str) -> Option<Id> {
        let ids = self.state.by_pattern.get(pattern)?;
        let of_it = |id: &Id| self.seen(*id).filter(|version| version.pattern == pattern);
        let distance = |version: &PatternVersion| self.sight.distance(version.scope);
        let candidates = ids
            .iter()
            .filter_map(|id| of_it(id).map(|version| (distance(version), &version.precedence, *id)));
        candidates.min().map(|(_, _, id)| id)
    }

    /// The pattern of a document, unless another pattern with the same id hides it.
    fn found(&self, id: Id) -> Option<&'a PatternVersion> {
        let version = self.seen(id)?;
        let is_only = self.state.by_pattern.get(&version.pattern).is_some_and(|ids| ids.len() == 1);
        (is_only || self.named(&version.pattern) == Some(id)).then_some(version)
    }

    fn all(&self) -> impl Iterator<Item = (Id, &'a PatternVersion)> {
        self.state.versions.keys().filter_map(|id| Some((*id, self.found(*id)?)))
    }
}

/// A search for patterns.
#[derive(Clone, Copy)]
pub struct PatternQuestion<'a> {
    pub sight: &'a Sight,
    pub text: &'a str,
    pub category: Option<&'a str>,
    pub difficulty: Option<&'a str>,
    /// Whether patterns that match less than half of the question are found too.
    pub loosely: bool,
}

/// Names with the number of patterns that have them, most frequent first.
pub type Counts = Vec<(String, u64)>;

pub struct FoundPatterns {
    /// All matches, best first.
    pub ids: Vec<Id>,
    /// How many of them match by id, title, summary, tags or category, and not only somewhere in their text.
    pub about: usize,
    pub categories: Counts,
    pub difficulties: Counts,
    pub is_degraded: bool,
}

/// A pattern that shares its id with another pattern, and whether it is the one that is found.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct OfOneId {
    pub path: String,
    pub id: String,
    /// The path of the other pattern.
    pub other: String,
    pub is_found: bool,
}

impl OfOneId {
    fn new(version: &PatternVersion, other: &PatternVersion, is_found: bool) -> OfOneId {
        let Precedence { source, path, .. } = &other.precedence;
        let other = match *source == version.precedence.source {
            true => path.clone(),
            false => format!("{path} of `{source}`"),
        };
        OfOneId { path: version.precedence.path.clone(), id: version.pattern.clone(), other, is_found }
    }
}

/// Counts and names of the patterns that there are to choose from.
#[derive(Default)]
pub struct Overview {
    pub patterns: u64,
    pub categories: Counts,
    pub difficulties: Counts,
    pub tags: Counts,
    /// Ids and titles of the patterns, ordered by id.
    pub names: Vec<(String, String)>,
}

impl Snapshot<'_> {
    /// The patterns that match. Unlike other searches this one returns all matches, because every answer
    /// states how they are distributed over the categories.
    pub fn search_patterns(&self, question: &PatternQuestion<'_>) -> Result<FoundPatterns, Error> {
        let category = question.category.map(|name| vec![PatternLabel::Category.of(name)]);
        let difficulty = question.difficulty.map(|name| vec![PatternLabel::Difficulty.of(name)]);
        let asked = Asked {
            sight: question.sight,
            title: None,
            text: Some(question.text),
            labels: category.into_iter().chain(difficulty).collect(),
            visible_at: None,
            by: By::WordsAndMeaning,
            as_written: false,
            known_words_only: false,
            least: if question.loosely { MatchMinimum::Some } else { MatchMinimum::Half },
            with_nearest: false,
            explain: false,
        };
        let matches = self.patterns().search(self.reader(), self.deadline(), &asked, 0..u64::MAX)?;
        let rarities =
            self.patterns().rarities(self.reader(), self.deadline(), question.sight, question.text)?;
        let half = rarities.iter().map(|rarity| rarity.idf).sum::<f32>() / 2.0;
        self.with_catalogue(question.sight, |view| {
            let key = fold(question.text.trim());
            let (mut named, mut ids) = (Vec::new(), Vec::with_capacity(matches.hits.len()));
            let (mut categories, mut difficulties) = (Tally::default(), Tally::default());
            let mut about = 0;
            for hit in &matches.hits {
                let Some(version) = view.found(hit.id) else { continue };
                let has = |rarity: &&Rarity| version.about.binary_search(&rarity.term).is_ok();
                let weight: f32 = rarities.iter().filter(has).map(|rarity| rarity.idf).sum();
                about += usize::from(weight >= half && weight > 0.0);
                // A question that is exactly a title or an id asks for that pattern, so it comes first.
                let is_named = version.title_key == key || fold(&version.pattern) == key;
                if is_named { &mut named } else { &mut ids }.push(hit.id);
                categories.add(&version.category_key, &version.category);
                version.difficulty.iter().for_each(|name| difficulties.add(name, name));
            }
            named.append(&mut ids);
            FoundPatterns {
                ids: named,
                about,
                categories: categories.counts(),
                difficulties: difficulties.counts(),
                is_degraded: matches.is_degraded,
            }
        })
    }

    /// The document that is the pattern of this id.
    pub fn pattern(&self, sight: &Sight, id: &str) -> Result<Option<Stored>, Error> {
        let document = self.with_catalogue(sight, |view| view.named(id))?;
        document.map_or(Ok(None), |document| self.document(document))
    }

    pub fn catalogue(&self, sight: &Sight, category: Option<&str>) -> Result<Overview, Error> {
        let category = category.map(fold);
        self.with_catalogue(sight, |view| {
            let [mut categories, mut difficulties, mut tags] = [(); 3].map(|()| Tally::default());
            let mut overview = Overview::default();
            for (_, version) in view.all() {
                if category.as_ref().is_some_and(|category| version.category_key != *category) {
                    continue;
                }
                overview.patterns += 1;
                categories.add(&version.category_key, &version.category);
                version.difficulty.iter().for_each(|name| difficulties.add(name, name));
                for tag in version.tags.iter().collect::<HashSet<_>>() {
                    tags.add(tag, tag);
                }
                overview.names.push((version.pattern.clone(), version.title.clone()));
            }
            overview.names.sort_unstable();
            let [categories, difficulties, tags] = [categories, difficulties, tags].map(Tally::counts);
            Overview { categories, difficulties, tags, ..overview }
        })
    }

    /// The patterns of this source that share an id with other patterns of the scope.
    pub fn patterns_of_one_id(&self, scope: ScopeId, source: &str) -> Result<Vec<OfOneId>, Error> {
        let here = Sight { at: self.at(), scopes: vec![scope] };
        self.with_catalogue(&here, |view| {
            let mut shared = Vec::new();
            for (pattern, ids) in view.state.by_pattern.iter().filter(|(_, ids)| ids.len() > 1) {
                let Some(first) = view.named(pattern).and_then(|first| view.seen(first)) else { continue };
                let of_it = |id: &Id| view.seen(*id).filter(|version| version.pattern == *pattern);
                for version in
                    ids.iter().filter_map(of_it).filter(|version| version.precedence != first.precedence)
                {
                    if version.precedence.source == source {
                        shared.push(OfOneId::new(version, first, false));
                    } else if first.precedence.source == source {
                        shared.push(OfOneId::new(first, version, true));
                    }
                }
            }
            shared.sort_unstable();
            shared
        })
    }

    fn with_catalogue<T>(&self, sight: &Sight, look: impl FnOnce(View<'_>) -> T) -> Result<T, Error> {
        let look = |state: &Catalogue| look(View { state, sight });
        self.known_patterns().with(self.reader(), self.store(), sight.at, look)
    }
}

/// Counts names, ignoring differences in spelling such as case.
#[derive(Default)]
struct Tally<'a>(HashMap<&'a str, HashMap<&'a str, u64>>);

impl<'a> Tally<'a> {
    fn add(&mut self, key: &'a str, spelling: &'a str) {
        *self.0.entry(key).or_default().entry(spelling).or_default() += 1;
    }

    /// The counts, most frequent first and then by name; each name in its most frequent spelling.
    fn counts(self) -> Counts {
        let count = |spellings: HashMap<&str, u64>| {
            let many = spellings.values().sum();
            let commonest = spellings.into_iter().max_by_key(|(name, many)| (*many, Reverse(*name)));
            (commonest.map_or_else(String::new, |(name, _)| name.to_owned()), many)
        };
        let mut counts: Counts = self.0.into_values().map(count).collect();
        counts.sort_unstable_by(|(one, many), (other, more)| more.cmp(many).then_with(|| one.cmp(other)));
        counts
    }
}
