//! `query`: find entries by words, tags and time.

use kenning_engine::{By, EntryHit, Explanation, Found, Question, Sight, Snapshot, excerpt};
use kenning_model::{EntityType, Id, ScopeName, Timestamp, TxId};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_EMBEDDED_BYTES_MAX, take_rows};
use kenning_presentation::text::quote;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::item::{Detail, EntryItem, LeanEntry, as_data, entry_items, entry_lines, one_line};
use crate::arguments::{
    CONTEXT_BYTES_MAX, EntryIds, Moment, NAME_BYTES_MAX, TERM_BYTES_MAX, Tags, Text, Tx, Whole, unknown_id,
};
use crate::code::counted;
use crate::elsewhere::elsewhere;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, ListTool, TableRow, Tool, sight};
use crate::{Context, List, Listing, Stop};

pub(crate) struct Query;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Words sought in topics.
    topic: Option<Text<TERM_BYTES_MAX>>,
    /// Words sought anywhere.
    content: Option<Text<CONTEXT_BYTES_MAX>>,
    /// All must be there.
    tags: Option<Tags>,
    /// These entries, whole.
    ids: Option<EntryIds>,
    /// Where to look; default the project's scope.
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// How many at most; default 20.
    limit: Option<Whole<1, 200>>,
    /// `next_cursor` of the page before.
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    /// Only what this session wrote.
    own_only: Option<bool>,
    /// Recorded at or after this time.
    since: Option<Moment>,
    /// Recorded before this time.
    until: Option<Moment>,
    /// The store as it was at this transaction.
    as_of_tx_id: Option<Tx>,
    /// The store as it was at this time.
    as_of: Option<Moment>,
    /// Also suppressed and expired ones.
    include_suppressed: Option<bool>,
    /// Say why each matched.
    explain: Option<bool>,
    /// `full`: all fields.
    detail: Option<Detail>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten)]
    list: List<Item>,
    /// Where there are matches, if there are none here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    elsewhere: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Item {
    Lean(Box<Explained<LeanEntry>>),
    Full(Box<Explained<EntryItem>>),
}

/// An entry and, if that was asked, why it matched.
#[derive(Serialize, JsonSchema)]
struct Explained<T> {
    #[serde(flatten)]
    entry: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Why")]
    explain: Option<Why>,
}

/// Why an entry matched.
#[derive(Serialize, JsonSchema)]
struct Why {
    /// 0 to 1, relative to the best match, as are the two parts of it.
    total: f64,
    lexical: f64,
    dense: f64,
    matched_terms: Vec<String>,
    /// The scope that it came from.
    scope: String,
}

/// The arguments by which entries are searched.
struct SearchTerms {
    scope: Option<String>,
    topic: Option<String>,
    content: Option<String>,
    tags: Vec<String>,
    at: Option<TxId>,
    suppressed_too: bool,
}

/// The largest length of a resource URI; a longer question gets the URI of the whole list instead.
const ADDRESS_BYTES_MAX: usize = 1024;

const LIMIT_DEFAULT: u64 = 20;

/// How many bytes of an entry are shown, by its rank: `(5, 2000)` gives ranks below 5 up to 2000 bytes each.
/// The best hits get the most room, and the room of a hit does not depend on the requested number of hits.
const ROOM: [(usize, usize); 4] = [(5, 2000), (10, 1000), (20, 400), (usize::MAX, 250)];

impl Tool for Query {
    const NAME: &'static str = "query";
    const ABOUT: &'static str = "Find entries. Use to look something up, to answer from memory, and to read entries whole (`ids`). \
        Any word or like meaning matches, the best come first; without words the newest. \
        Do not use before a task (`get_task_context`), for links (`query_graph`) or past changes (`history`). \
        Returns at most `limit` (20, max 200), long ones as their best parts; for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let is_full = input.detail == Some(Detail::Full);
        let search = EntrySearch::begin(ctx, input)?;
        let EntrySearch { listing, scope, sight, terms, ids, .. } = &search;
        let snapshot = &listing.snapshot;
        let found = search.find()?;
        ctx.record_shown(found.hits.iter().map(|hit| hit.stored.id));
        let texts = terms.texts();
        let rarities =
            if is_full || texts.is_empty() { Vec::new() } else { snapshot.rarities(sight, &texts)? };
        let entries = entry_items(snapshot, found.hits.iter().map(|hit| &hit.stored))?;
        let explained = found.hits.into_iter().map(|hit| hit.explanation);
        let first = listing.rows().start as usize;
        let item = |(rank, (entry, why)): (usize, (EntryItem, Option<Explanation>))| {
            let explain = why.map(|why| Why::new(why, &entry));
            if is_full {
                return Item::Full(Box::new(Explained { entry, explain }));
            }
            let room = if ids.is_some() { usize::MAX } else { room(first + rank) };
            let parts = |text: &str, room: usize| excerpt(&rarities, text, room);
            let entry = LeanEntry::new(entry, &scope.to_string(), room, parts);
            Item::Lean(Box::new(Explained { entry, explain }))
        };
        let items = entries.into_iter().zip(explained).enumerate().map(item).collect();
        let items = take_rows(items, ROWS_EMBEDDED_BYTES_MAX, Item::cut_to_fit);
        let list = listing.end(items, found.total)?;
        let set = list.next_cursor.as_ref().and_then(|_| ctx.set::<Self>(listing, "Entries", found.total));
        let elsewhere = if found.total == 0 { search.elsewhere(&texts)? } else { None };
        let output = Output { list: list.with(set), elsewhere };
        Ok(Answer {
            set: output.list.set.as_ref().map(Attached::reference),
            meta: degraded(found.is_degraded),
            resource: Some(terms.address()),
            ..Answer::text(output, |output| text(output, terms))
        })
    }
}

impl ListTool for Query {
    type Row = EntryItem;

    fn rows(ctx: &Context<'_>, input: Input) -> Result<Vec<EntryItem>, Stop> {
        let search = EntrySearch::begin(ctx, input)?;
        let found = search.find()?;
        entry_items(&search.listing.snapshot, found.hits.iter().map(|hit| &hit.stored))
    }
}

impl TableRow for EntryItem {
    const COLUMNS: Columns = &[
        ("id", "string"),
        ("topic", "string"),
        ("content", "string"),
        ("tags", "json"),
        ("scope", "string"),
        ("context", "string"),
        ("task_sizes", "json"),
        ("source", "string"),
        ("actor", "string"),
        ("pinned", "boolean"),
        ("follows", "string"),
        ("confidence", "number"),
        ("valid_from", "datetime"),
        ("valid_to", "datetime"),
        ("status", "string"),
        ("version", "integer"),
        ("recorded_at", "datetime"),
        ("updated_at", "datetime"),
        ("tx_id", "integer"),
    ];
}

/// A search whose arguments have been parsed.
struct EntrySearch<'a> {
    listing: Listing<'a>,
    scope: ScopeName,
    sight: Sight,
    terms: SearchTerms,
    ids: Option<Vec<String>>,
    narrowed: Narrowed,
    /// The moment at which entries have to be valid: an answer as of a past time has the entries that were
    /// valid then.
    judged_at: Timestamp,
    explain: bool,
}

impl<'a> EntrySearch<'a> {
    fn begin(ctx: &Context<'a>, input: Input) -> Result<EntrySearch<'a>, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let past = input.as_of.map(|moment| moment.0);
        let terms = SearchTerms {
            scope: input.scope.map(|scope| scope.0),
            topic: input.topic.map(|topic| topic.0),
            content: input.content.map(|content| content.0),
            tags: input.tags.map(|tags| tags.0).unwrap_or_default(),
            at: ctx.as_of(input.as_of_tx_id.map(|tx| TxId(tx.0)), input.as_of)?,
            suppressed_too: input.include_suppressed.unwrap_or(false),
        };
        let ids = input.ids.map(|ids| ids.0);
        let narrowed = Narrowed {
            own: input.own_only.unwrap_or(false).then(|| ctx.caller.principal.origin.clone()),
            since: input.since.map(|moment| moment.0),
            until: input.until.map(|moment| moment.0),
        };
        let mut name = terms.listing_name(&scope);
        if narrowed.is_narrow() || ids.is_some() || past.is_some() {
            name = format!("{name} {narrowed:?} {ids:?} {past:?}");
        }
        let limit = input.limit.map_or(LIMIT_DEFAULT, |limit| limit.0);
        let cursor = input.cursor.as_ref().map(|cursor| cursor.0.as_str());
        let listing = ctx.listing(name, limit, cursor, terms.at)?;
        let judged_at = match (past, terms.at) {
            (Some(moment), _) => moment,
            (None, Some(at)) => listing.snapshot.time_of(at)?.unwrap_or(listing.asked_at),
            (None, None) => listing.asked_at,
        };
        let sight = sight(&listing.snapshot, &scope)?;
        let explain = input.explain.unwrap_or(false);
        Ok(EntrySearch { listing, scope, sight, terms, ids, narrowed, judged_at, explain })
    }

    /// The entries of the page.
    fn find(&self) -> Result<Found, Stop> {
        let (snapshot, terms) = (&self.listing.snapshot, &self.terms);
        let question = Question {
            sight: &self.sight,
            topic: terms.topic.as_deref(),
            content: terms.content.as_deref(),
            tags: &terms.tags,
            visible_at: (!terms.suppressed_too).then_some(self.judged_at),
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: self.explain,
        };
        match &self.ids {
            Some(ids) => named(snapshot, &self.sight, ids, &self.listing),
            None if self.narrowed.is_narrow() => self.narrowed.search(snapshot, &question, &self.listing),
            None => Ok(snapshot.search(&question, self.listing.rows())?),
        }
    }

    /// The numbers of matches elsewhere, for a search by words that found nothing here.
    fn elsewhere(&self, texts: &[&str]) -> Result<Option<Map<String, Value>>, Stop> {
        if texts.is_empty() {
            return Ok(None);
        }
        let Listing { snapshot, asked_at, .. } = &self.listing;
        let places = elsewhere(snapshot, &self.sight, &self.scope, texts, *asked_at)?;
        let places: Map<String, Value> =
            places.into_iter().map(|(place, many)| (place, many.into())).collect();
        Ok(Some(places).filter(|places| !places.is_empty()))
    }
}

fn text(Output { list, elsewhere }: &Output, terms: &SearchTerms) -> String {
    let total = counted(list.total_count as usize, "entry");
    let matching = terms.words();
    if list.items.is_empty() {
        let places = elsewhere
            .iter()
            .flatten()
            .map(|(place, many)| format!("{place}: {}", many.as_str().unwrap_or_default()));
        let places: Vec<String> = places.collect();
        let hint = match (matching.is_empty(), places.is_empty()) {
            (true, _) => " Keep something with `store`.".to_owned(),
            (false, true) => " Try other words, or leave them out to see the newest.".to_owned(),
            (false, false) => format!(" Elsewhere: {}.", places.join("; ")),
        };
        return format!("Found {total}{matching}. As of transaction {}.{hint}", list.as_of_tx_id);
    }
    let lines: Vec<String> = list.items.iter().map(Item::lines).collect();
    let more = more(list.items.len(), list.total_count, list.next_cursor.as_deref());
    let at = list.as_of_tx_id;
    format!("Found {total}{matching}. As of transaction {at}. {}{more}", as_data(&lines.join("\n")))
}

fn room(rank: usize) -> usize {
    ROOM.iter().find(|(ranks, _)| rank < *ranks).map_or(0, |(_, bytes)| *bytes)
}

/// The filters that the index does not know.
#[derive(Debug)]
struct Narrowed {
    /// Only entries that this origin wrote.
    own: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Narrowed {
    fn is_narrow(&self) -> bool {
        self.own.is_some() || self.since.is_some() || self.until.is_some()
    }

    /// Examines every match, so that the total is exact.
    fn search(
        &self,
        snapshot: &Snapshot<'_>,
        question: &Question<'_>,
        listing: &Listing<'_>,
    ) -> Result<Found, Stop> {
        let mut found = snapshot.search(question, 0..i64::MAX as u64)?;
        let mut kept = Vec::new();
        for hit in found.hits {
            let Some(entry) = hit.stored.record.as_entry() else { continue };
            let is_when = self.since.is_none_or(|since| entry.recorded_at >= since)
                && self.until.is_none_or(|until| entry.recorded_at < until);
            let is_whose = match &self.own {
                Some(own) => snapshot.origin_of(hit.stored.tx_id)?.as_ref() == Some(own),
                None => true,
            };
            if is_when && is_whose {
                kept.push(hit);
            }
        }
        found.total = kept.len() as u64;
        let rows = listing.rows();
        found.hits =
            kept.into_iter().skip(rows.start as usize).take((rows.end - rows.start) as usize).collect();
        Ok(found)
    }
}

/// The entries with these ids that are in sight, in the order of the ids.
fn named(
    snapshot: &Snapshot<'_>,
    sight: &Sight,
    ids: &[String],
    listing: &Listing<'_>,
) -> Result<Found, Stop> {
    let mut hits = Vec::new();
    for text in ids {
        let stored = Id::parse(text).map(|id| snapshot.entry(id)).transpose()?.flatten();
        let seen = stored.filter(|stored| sight.sees_record(&stored.record));
        let Some(stored) = seen else { return Err(unknown_id(EntityType::Entry, text)) };
        hits.push(EntryHit { stored, explanation: None });
    }
    let (total, rows) = (hits.len() as u64, listing.rows());
    let hits = hits.into_iter().skip(rows.start as usize).take((rows.end - rows.start) as usize).collect();
    Ok(Found { hits, total, is_degraded: false })
}

/// The metadata of a reply whose ranking used words alone.
pub(crate) fn degraded(is_degraded: bool) -> Map<String, Value> {
    let why = "by words only: vectors are still being made";
    is_degraded.then(|| ("io.kenning/degraded".to_owned(), why.into())).into_iter().collect()
}

impl Item {
    fn lines(&self) -> String {
        let (lines, explain) = match self {
            Item::Lean(shown) => (shown.entry.lines(), &shown.explain),
            Item::Full(shown) => (entry_lines(&shown.entry, FULL_BYTES), &shown.explain),
        };
        let Some(why) = explain else { return lines };
        let terms = one_line(&why.matched_terms.join(", "), 300);
        format!(
            "{lines}\n  (score {:.3}: words {:.3}, meaning {:.3}; matched: {terms})",
            why.total, why.lexical, why.dense
        )
    }

    fn cut_to_fit(self) -> Item {
        match self {
            Item::Full(shown) => {
                let Explained { entry, explain } = *shown;
                Item::Full(Box::new(Explained { entry: entry.cut_to_fit(), explain }))
            }
            Item::Lean(_) => self,
        }
    }
}

/// The number of bytes of a full entry that the text shows.
const FULL_BYTES: usize = 2000;

impl Why {
    fn new(explanation: Explanation, entry: &EntryItem) -> Why {
        // Six decimal places are enough to tell matches apart.
        let rounded = |score: f64| (score * 1e6).round() / 1e6;
        Why {
            total: rounded(explanation.total),
            lexical: rounded(explanation.lexical),
            dense: rounded(explanation.dense),
            matched_terms: explanation.matched_terms,
            scope: entry.scope.clone(),
        }
    }
}

/// The name of a listing of entries; the resource `knowledge://entries` uses the same name, so its cursors
/// and those of `query` are interchangeable.
pub fn listing_name(
    scope: &ScopeName,
    [topic, content]: [Option<&str>; 2],
    tags: &[String],
    at: Option<TxId>,
    suppressed_too: bool,
) -> String {
    format!("entries {scope} {topic:?} {content:?} {tags:?} {at:?} {suppressed_too}")
}

impl SearchTerms {
    fn texts(&self) -> Vec<&str> {
        [self.topic.as_deref(), self.content.as_deref()].into_iter().flatten().collect()
    }

    fn listing_name(&self, scope: &ScopeName) -> String {
        let words = [self.topic.as_deref(), self.content.as_deref()];
        listing_name(scope, words, &self.tags, self.at, self.suppressed_too)
    }

    /// The URI of the resource that has the same list.
    fn address(&self) -> String {
        const ENTRIES: &str = "knowledge://entries";
        let mut parameters: Vec<(&str, String)> = Vec::new();
        parameters.extend(self.scope.as_ref().map(|scope| ("scope", percent_encoded(scope))));
        parameters.extend(self.topic.as_ref().map(|topic| ("topic", percent_encoded(topic))));
        parameters.extend(self.content.as_ref().map(|content| ("content", percent_encoded(content))));
        if !self.tags.is_empty() {
            let tags: Vec<String> = self.tags.iter().map(|tag| percent_encoded(tag)).collect();
            parameters.push(("tags", tags.join(",")));
        }
        parameters.extend(self.at.map(|at| ("as_of_tx_id", at.to_string())));
        if self.suppressed_too {
            parameters.push(("include_suppressed", "true".to_owned()));
        }
        let query: Vec<String> =
            parameters.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let address =
            if query.is_empty() { ENTRIES.to_owned() } else { format!("{ENTRIES}?{}", query.join("&")) };
        if address.len() <= ADDRESS_BYTES_MAX { address } else { ENTRIES.to_owned() }
    }

    /// The search terms as text: ` matching "deployment" tagged "ops"`
    fn words(&self) -> String {
        let mut words = String::new();
        for text in [&self.topic, &self.content].into_iter().flatten() {
            let and = if words.is_empty() { " matching" } else { " and" };
            words.push_str(&format!("{and} {}", quote(text, 200)));
        }
        if !self.tags.is_empty() {
            words.push_str(&format!(" tagged {}", quote(&self.tags.join(", "), 200)));
        }
        words
    }
}

/// The line that tells how to get the next page, if there is one.
pub(crate) fn more(shown: usize, total: u64, next_cursor: Option<&str>) -> String {
    match next_cursor {
        Some(cursor) => format!("\n{shown} of {total} shown; for more pass `cursor`: \"{cursor}\"."),
        None => String::new(),
    }
}

/// Encodes everything but the characters that RFC 3986 calls unreserved.
fn percent_encoded(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}
