//! `search_patterns`: all patterns that match; the best of them are shown as cards.

use kenning_engine::{Counts, FoundPatterns, Overview, PatternQuestion, Sight, Snapshot};
use kenning_model::{Id, fold};
use kenning_presentation::budget::{REPLY_BYTES_MAX, json_bytes};
use kenning_presentation::card::{self, Markers, VERSION, card, index, passage, short_value, value};
use kenning_presentation::text::{clean, cut, quote};
use kenning_presentation::{Answer, Body, Format};
use kenning_storage::Stored;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::needs_input::{InputRequest, Needs};
use super::provenance::{MARKER, Provenance};
use super::{
    AnswerOrRequest, NO_CATALOGUE, Named, PATTERN, PatternRecord, SUGGESTIONS, Shape, named, overview, sight,
};
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, OptionalText, Text, Whole};
use crate::memory::query::degraded;
use crate::sets::{Attached, Columns, SetMetadata, SetResource};
use crate::tool::{Effect, ListTool, TableRow, Tool};
use crate::{Context, Listing, Stop};

pub(crate) struct SearchPatterns;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    q: Option<OptionalText<CONTEXT_BYTES_MAX>>,
    category: Option<Text<NAME_BYTES_MAX>>,
    difficulty: Option<Difficulty>,
    limit: Option<Whole<1, 100>>,
    #[serde(default)]
    format: Option<Shape>,
    limit_cards: Option<Whole<1, 10>>,
    include_provenance_panel: Option<bool>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Difficulty {
    Beginner,
    Intermediate,
    Advanced,
}

impl Difficulty {
    fn as_str(self) -> &'static str {
        match self {
            Difficulty::Beginner => "beginner",
            Difficulty::Intermediate => "intermediate",
            Difficulty::Advanced => "advanced",
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Results {
    #[schemars(extend("const" = "patternSearchResults:v1"))]
    kind: &'static str,
    query: Echo,
    metadata: Metadata,
    patterns: Vec<Summary>,
    /// What there is instead, where nothing matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Discovery")]
    discovery: Option<Discovery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Panel")]
    provenance: Option<Panel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    next_cursor: Option<String>,
    as_of_tx_id: u64,
    /// Where all matches are, if these are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SetResource")]
    resource: Option<SetResource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    total_count: Option<u64>,
}

/// The question as it was taken.
#[derive(Serialize, JsonSchema)]
struct Echo {
    q: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Difficulty")]
    difficulty: Option<Difficulty>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    limit: Option<u64>,
    format: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    total_count: u64,
    /// Of all matches, most first; at most 100.
    #[schemars(extend("additionalProperties" = {"type": "integer"}))]
    categories: Map<String, Value>,
    #[schemars(extend("additionalProperties" = {"type": "integer"}))]
    difficulties: Map<String, Value>,
    rendered_cards: usize,
    rendered_card_ids: Vec<String>,
    contract_markers: ContractMarkers,
    /// In the words that all sets have.
    #[serde(flatten)]
    of_set: Option<SetMetadata>,
}

#[derive(Serialize, JsonSchema)]
struct ContractMarkers {
    index: usize,
    cards: usize,
    version: &'static str,
}

#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Summary {
    id: String,
    title: String,
    category: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    difficulty: Option<String>,
    description: String,
    tags: Vec<String>,
}

#[derive(Clone, Serialize, JsonSchema)]
struct Discovery {
    /// All categories, most first; at most 100.
    #[schemars(extend("additionalProperties" = {"type": "integer"}))]
    categories: Map<String, Value>,
    suggestions: Vec<Named>,
    /// Whether the requested category exists.
    #[serde(skip)]
    has_category: bool,
}

/// Where all of it is from, and each pattern by its id.
#[derive(Serialize, JsonSchema)]
struct Panel {
    source: &'static str,
    timestamp: String,
    version: String,
    marker: &'static str,
    patterns: Vec<Origin>,
}

#[derive(Clone, Serialize, JsonSchema)]
struct Origin {
    id: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// If an unfiltered search has more matches than this, the reply asks for a filter instead of listing them.
const TOO_BROAD: usize = 20;
/// The number of best matches that such a reply lists.
const BEST: usize = 10;
const CARDS_DEFAULT: u64 = 3;
const COUNTS_MAX: usize = 100;
const COUNTS_BYTES_MAX: usize = 4 * 1024;
/// Categories with longer names are not offered as choices.
const CHOICE_BYTES_MAX: usize = 128;
const CHOICES_MAX: usize = 10;
/// The largest size of the patterns of a page, as JSON and as lines together.
const ROWS_BYTES_MAX: usize = 40 * 1024;
/// The largest size of the texts of all cards.
const CARDS_BYTES_MAX: usize = 8 * 1024;
/// A pattern that alone is larger than a page has its fields cut according to this size.
const FIELD_BYTES_MAX: usize = 8 * 1024;

impl Tool for SearchPatterns {
    const NAME: &'static str = "search_patterns";
    const ABOUT: &'static str = "Find patterns of the catalogue. Use when how something is best done may be \
        catalogued. Do not use for documents (`kb_search`) or facts (`query`). Returns all matches, the first `limitCards` \
        (default 3) as cards; asks to narrow more than 20. Then `get_pattern`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = AnswerOrRequest<Results>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<AnswerOrRequest<Results>>, Stop> {
        let cursor = input.cursor.as_ref().map(|cursor| cursor.0.clone());
        let cursor = cursor.as_deref();
        let asked = PatternSearch::new(input);
        let format = asked.format;
        if asked.q.is_empty() && cursor.is_some() {
            let message = "`q`: a cursor goes on with the question that it came from; repeat all arguments of the first page";
            return Err(Stop::invalid(message));
        }
        if asked.q.is_empty() {
            let overview = overview(ctx, asked.category.as_deref())?;
            return Ok(missing_query(&overview).into_answer(format));
        }
        let limit = asked.limit.unwrap_or(u64::from(u32::MAX));
        let listing = ctx.listing(asked.listing_name(ctx), limit, cursor, None)?;
        let snapshot = &listing.snapshot;
        let sight = sight(ctx, snapshot)?;
        let found = snapshot.search_patterns(&asked.question(&sight))?;
        let total = found.ids.len() as u64;
        // Callers that continue a list, or were asked already, want to see the patterns.
        let is_wanted = cursor.is_some() || ctx.has_answered;
        if found.about > TOO_BROAD
            && !asked.has_filter()
            && !is_wanted
            && let Some(request) = too_broad(&found)
        {
            let set = ctx.set::<Self>(&listing, "Patterns", total);
            return Ok(request.with_best(named(snapshot, &found.ids, BEST)?, set).into_answer(format));
        }
        let discovery =
            if found.ids.is_empty() { Some(Discovery::new(snapshot, &asked, &sight)?) } else { None };
        let mut page = PatternPage { first: listing.rows().start, ..PatternPage::default() };
        for id in listing.page_of(&found.ids) {
            if !page.take(snapshot, *id, asked.has_panel)? {
                break;
            }
        }
        let matches = Matches { asked, found, discovery };
        loop {
            let mut draft = matches.draft(&listing, &page)?;
            if draft.results.next_cursor.is_some() {
                draft.results.attach(ctx.set::<Self>(&listing, "Patterns", total));
            }
            // The page counts only its rows; here the whole reply is measured.
            if draft.fits(format) || !page.shorten() {
                return Ok(draft.into_answer(format, matches.found.is_degraded));
            }
        }
    }
}

impl ListTool for SearchPatterns {
    type Row = Summary;

    /// The whole patterns, without the provenance and the Markdown of a page.
    fn rows(ctx: &Context<'_>, input: Input) -> Result<Vec<Summary>, Stop> {
        let asked = PatternSearch::new(input);
        let listing = ctx.listing(asked.listing_name(ctx), 1, None, None)?;
        let snapshot = &listing.snapshot;
        let found = snapshot.search_patterns(&asked.question(&sight(ctx, snapshot)?))?;
        let mut rows = Vec::new();
        for id in listing.page_of(&found.ids) {
            let stored = stored_pattern(snapshot, *id)?;
            rows.extend(PatternRecord::of(&stored).map(|record| Summary::new(&record, usize::MAX)));
        }
        Ok(rows)
    }
}

impl TableRow for Summary {
    const COLUMNS: Columns = &[
        ("id", "string"),
        ("title", "string"),
        ("category", "string"),
        ("difficulty", "string"),
        ("description", "string"),
        ("tags", "json"),
    ];
}

/// The arguments of a search.
struct PatternSearch {
    q: String,
    category: Option<String>,
    difficulty: Option<Difficulty>,
    limit: Option<u64>,
    format: Format,
    cards: usize,
    has_panel: bool,
}

impl PatternSearch {
    fn new(input: Input) -> PatternSearch {
        PatternSearch {
            q: clean(&input.q.map(|q| q.0).unwrap_or_default()).trim().to_owned(),
            category: input.category.map(|category| category.0),
            difficulty: input.difficulty,
            limit: input.limit.map(|limit| limit.0),
            format: input.format.unwrap_or_default().into(),
            cards: input.limit_cards.map_or(CARDS_DEFAULT, |cards| cards.0) as usize,
            has_panel: input.include_provenance_panel.unwrap_or(false),
        }
    }

    fn question<'a>(&'a self, sight: &'a Sight) -> PatternQuestion<'a> {
        PatternQuestion {
            sight,
            text: &self.q,
            category: self.category.as_deref(),
            difficulty: self.difficulty.map(Difficulty::as_str),
            loosely: false,
        }
    }

    fn has_filter(&self) -> bool {
        self.category.is_some() || self.difficulty.is_some()
    }

    /// The name leaves out the format and the number of cards, so they may change from page to page.
    fn listing_name(&self, ctx: &Context<'_>) -> String {
        let difficulty = self.difficulty.map(Difficulty::as_str);
        format!("search_patterns {} {:?} {:?} {difficulty:?}", ctx.caller.scope, self.q, self.category)
    }
}

/// A search with all its matches, of which one page is shown.
struct Matches {
    asked: PatternSearch,
    found: FoundPatterns,
    discovery: Option<Discovery>,
}

impl Matches {
    fn draft(&self, listing: &Listing<'_>, page: &PatternPage) -> Result<Draft, Stop> {
        let Matches { asked, found, discovery } = self;
        let list =
            listing.end(page.rows.iter().map(|row| row.summary.clone()).collect(), found.ids.len() as u64)?;
        let origins: Vec<Origin> = page.rows.iter().filter_map(|row| row.origin.clone()).collect();
        let newest = origins.iter().map(|origin| origin.provenance.timestamp.clone()).max();
        let panel = newest.map(|timestamp| Panel {
            source: "kenning",
            timestamp,
            version: format!("transaction {}", list.as_of_tx_id),
            marker: MARKER,
            patterns: origins,
        });
        let (mut markdown, mut rendered) = (Vec::new(), Vec::new());
        if asked.format.has_markdown() {
            let view = View { asked, found, page, discovery: discovery.as_ref(), panel: panel.as_ref() };
            markdown = view.markdown();
            rendered = list.items.iter().take(asked.cards).map(|pattern| pattern.id.clone()).collect();
        }
        let markers = counted_markers(&markdown, &rendered, &list.items);
        let results = Results {
            kind: "patternSearchResults:v1",
            metadata: Metadata {
                total_count: list.total_count,
                categories: as_map(&found.categories),
                difficulties: as_map(&found.difficulties),
                rendered_cards: rendered.len(),
                rendered_card_ids: rendered,
                contract_markers: ContractMarkers {
                    index: markers.index,
                    cards: markers.cards,
                    version: VERSION,
                },
                of_set: None,
            },
            patterns: list.items,
            discovery: discovery.clone(),
            provenance: panel,
            next_cursor: list.next_cursor,
            as_of_tx_id: list.as_of_tx_id,
            resource: None,
            total_count: None,
            query: Echo {
                q: asked.q.clone(),
                category: asked.category.clone(),
                difficulty: asked.difficulty,
                limit: asked.limit,
                format: asked.format.as_str(),
            },
        };
        Ok(Draft { hint: results.hint(), results, markdown })
    }
}

/// A reply that may still be too large.
struct Draft {
    results: Results,
    markdown: Vec<String>,
    hint: String,
}

impl Draft {
    fn fits(&self, format: Format) -> bool {
        let structured = json_bytes(&self.results);
        let markdown: usize = self.markdown.iter().map(String::len).sum();
        let json = if format.has_json() { structured } else { 0 };
        structured.max(markdown + self.hint.len() + json) <= REPLY_BYTES_MAX
    }

    fn into_answer(self, format: Format, is_degraded: bool) -> Answer<AnswerOrRequest<Results>> {
        let Draft { results, markdown, hint } = self;
        Answer {
            set: results.set().as_ref().map(Attached::reference),
            meta: degraded(is_degraded),
            ..AnswerOrRequest::answer(results, Body::Formatted { format, markdown, hint: Some(hint) })
        }
    }
}

impl Results {
    fn attach(&mut self, set: Option<Attached>) {
        let Some(Attached { resource, metadata }) = set else { return };
        self.resource = Some(resource);
        self.total_count = Some(metadata.total_count);
        self.metadata.of_set = Some(metadata);
    }

    fn set(&self) -> Option<Attached> {
        Some(Attached { resource: self.resource.clone()?, metadata: self.metadata.of_set.clone()? })
    }

    /// The next steps that a model may take.
    fn hint(&self) -> String {
        if self.discovery.as_ref().is_some_and(Discovery::is_empty) {
            return NO_CATALOGUE.to_owned();
        }
        let mut hint = "`get_pattern` gives one whole, by its id.".to_owned();
        // The arguments are repeated, because some of them may come from a person's answer that the model
        // never saw.
        if let (Some(cursor), Ok(mut next)) = (&self.next_cursor, serde_json::to_value(&self.query)) {
            next["cursor"] = cursor.as_str().into();
            hint.push_str(&format!(" For more, call again with {next}."));
        }
        hint
    }
}

/// A page that is being filled. It ends early so that it does not grow too large.
#[derive(Default)]
struct PatternPage {
    /// The number of patterns on the pages before it.
    first: u64,
    rows: Vec<PageRow>,
    bytes: usize,
}

/// A pattern on the page.
struct PageRow {
    summary: Summary,
    /// Its line in the index.
    line: String,
    origin: Option<Origin>,
}

impl PatternPage {
    /// Adds a pattern; false if the page has no room for it.
    fn take(&mut self, snapshot: &Snapshot<'_>, id: Id, has_panel: bool) -> Result<bool, Stop> {
        let stored = stored_pattern(snapshot, id)?;
        let Some(record) = PatternRecord::of(&stored) else { return Err(missing(id)) };
        let origin = if has_panel { Some(origin(snapshot, &record)?) } else { None };
        let mut summary = Summary::new(&record, usize::MAX);
        let line = index_line(&summary, &record.pattern.summary);
        let around = line.len() + origin.as_ref().map_or(0, |origin| 2 * json_bytes(origin));
        if json_bytes(&summary) + around > ROWS_BYTES_MAX {
            summary = Summary::new(&record, FIELD_BYTES_MAX);
        }
        let bytes = json_bytes(&summary) + around;
        if !self.rows.is_empty() && self.bytes + bytes > ROWS_BYTES_MAX {
            return Ok(false);
        }
        self.bytes += bytes;
        self.rows.push(PageRow { summary, line, origin });
        Ok(true)
    }

    /// Removes a quarter of the rows; false if only one is left, which always fits.
    fn shorten(&mut self) -> bool {
        let many = self.rows.len();
        self.rows.truncate((many - many.div_ceil(4)).max(1));
        self.rows.len() < many
    }
}

/// The document of a pattern that the index found.
fn stored_pattern(snapshot: &Snapshot<'_>, id: Id) -> Result<Stored, Stop> {
    snapshot.document(id)?.ok_or_else(|| missing(id))
}

fn missing(id: Id) -> Stop {
    kenning_engine::Error::Damaged { what: format!("pattern {id} is in the log but not in its table") }.into()
}

fn origin(snapshot: &Snapshot<'_>, record: &PatternRecord<'_>) -> Result<Origin, Stop> {
    Ok(Origin { id: clean(&record.pattern.id), provenance: Provenance::new(snapshot, record)? })
}

impl Summary {
    fn new(PatternRecord { document, pattern, .. }: &PatternRecord<'_>, bytes_max: usize) -> Summary {
        let text = |text: &str, share: usize| cut(&clean(text), bytes_max / share);
        let tags_max = if bytes_max == usize::MAX { usize::MAX } else { COUNTS_MAX };
        Summary {
            // The id has to be whole, because a call uses it to name the pattern; ids have a cap of their
            // own.
            id: clean(&pattern.id),
            title: text(&document.title, 8),
            category: text(&pattern.category, 8),
            difficulty: pattern.difficulty.clone(),
            description: text(&pattern.description, 1),
            tags: document.tags.iter().take(tags_max).map(|tag| text(tag, 128)).collect(),
        }
    }
}

/// The line of a pattern in the index, with the facts that are needed to choose one.
fn index_line(pattern: &Summary, summary: &str) -> String {
    let [title, category] = [&pattern.title, &pattern.category].map(|text| short_value(text, 120));
    let difficulty = pattern.difficulty.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    let summary = match clean(summary).trim() {
        "" => String::new(),
        summary => format!(": {}", short_value(summary, 160)),
    };
    format!("{title} (id {}, {category}{difficulty}){summary}", value(&pattern.id))
}

/// The counts by name, as many as there is room for. The names are whole, because filters take whole names.
fn as_map(counts: &Counts) -> Map<String, Value> {
    let mut bytes = 0;
    let fits = |(name, _): &&(String, u64)| {
        bytes += name.len() + 8;
        bytes <= COUNTS_BYTES_MAX
    };
    counts
        .iter()
        .take(COUNTS_MAX)
        .take_while(fits)
        .map(|(name, many)| (clean(name), (*many).into()))
        .collect()
}

/// The Markdown of a page, for people.
struct View<'a> {
    asked: &'a PatternSearch,
    found: &'a FoundPatterns,
    page: &'a PatternPage,
    discovery: Option<&'a Discovery>,
    panel: Option<&'a Panel>,
}

impl View<'_> {
    fn markdown(&self) -> Vec<String> {
        let head = self.head();
        if let Some(discovery) = self.discovery {
            return vec![head, discovery.markdown(self.asked)];
        }
        let rows = &self.page.rows;
        let lines = rows.iter().map(|row| row.line.as_str());
        let mut blocks = vec![format!("{head}\n\n{}", index(PATTERN, self.page.first + 1, lines))];
        let cards = rows.iter().take(self.asked.cards);
        let text_bytes = CARDS_BYTES_MAX / cards.len().max(1);
        blocks.extend(cards.map(|row| pattern_card(&row.summary, text_bytes)));
        blocks.extend(self.panel.map(|panel| {
            let lines = panel.patterns.iter();
            let lines =
                lines.map(|origin| format!("\n- {}: {}", value(&origin.id), origin.provenance.line()));
            format!("## Provenance\n\nAs of {}.\n{}", panel.version, lines.collect::<String>())
        }));
        blocks
    }

    fn head(&self) -> String {
        let within = self.asked.category.as_ref().map(|name| format!(" in {}", short_value(name, 120)));
        let level = self.asked.difficulty.map(|level| format!(", {}", level.as_str()));
        let (shown, total) = (self.page.rows.len() as u64, self.found.ids.len() as u64);
        let mut head = format!(
            "# Search Results for {}{}{}\n\nFound **{total}** {}",
            card::unmarked(&quote(&self.asked.q, 200)),
            within.unwrap_or_default(),
            level.unwrap_or_default(),
            if total == 1 { "pattern" } else { "patterns" },
        );
        if self.found.categories.len() > 1 {
            head.push_str(&format!(" ({})", spread(&self.found.categories)));
        }
        if shown < total && shown > 0 {
            head.push_str(&format!("; here are {} to {}", self.page.first + 1, self.page.first + shown));
        }
        head.push('.');
        head
    }
}

/// The most frequent categories as text: `errors` 20, `streams` 5
fn spread(categories: &Counts) -> String {
    const SHOWN_MAX: usize = 5;
    let shown = categories.iter().take(SHOWN_MAX);
    let mut parts: Vec<String> =
        shown.map(|(name, many)| format!("{} {many}", short_value(name, 64))).collect();
    if let Some(more) = categories.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}

fn pattern_card(pattern: &Summary, text_bytes: usize) -> String {
    let tags: Vec<String> = pattern.tags.iter().take(12).map(|tag| short_value(tag, 64)).collect();
    let mut facts = vec![("id", value(&pattern.id)), ("category", short_value(&pattern.category, 120))];
    facts.extend(pattern.difficulty.iter().map(|difficulty| ("difficulty", difficulty.clone())));
    if !tags.is_empty() {
        facts.push(("tags", tags.join(", ")));
    }
    let parts: Vec<String> = match pattern.description.trim() {
        "" => Vec::new(),
        text => vec![passage(&cut(text, text_bytes), None)],
    };
    card(PATTERN, 2, &cut(&pattern.title, 300), &facts, &parts)
}

/// Counts the markers in the text. If they do not match the patterns, the reply is sent all the same and the
/// log has a warning.
fn counted_markers(markdown: &[String], rendered: &[String], patterns: &[Summary]) -> Markers {
    let markers = PATTERN.count(markdown);
    let found: Vec<&str> = patterns.iter().map(|pattern| pattern.id.as_str()).collect();
    if let Err(what) = markers.check(rendered, &found) {
        tracing::warn!("search_patterns: {what}");
    }
    markers
}

impl Discovery {
    /// The suggestions for a search without matches: all categories, and the nearest patterns, filled up with
    /// any others.
    fn new(snapshot: &Snapshot<'_>, asked: &PatternSearch, sight: &Sight) -> Result<Discovery, Stop> {
        let overview = snapshot.catalogue(sight, None)?;
        let loosely =
            PatternQuestion { category: None, difficulty: None, loosely: true, ..asked.question(sight) };
        let mut suggestions = named(snapshot, &snapshot.search_patterns(&loosely)?.ids, SUGGESTIONS)?;
        for (id, title) in &overview.names {
            if suggestions.len() < SUGGESTIONS && !suggestions.iter().any(|known| known.id == *id) {
                suggestions.push(Named::new(id, title));
            }
        }
        let is_category =
            |name: &String| overview.categories.iter().any(|(known, _)| fold(known) == fold(name));
        Ok(Discovery {
            has_category: asked.category.as_ref().is_none_or(is_category),
            categories: as_map(&overview.categories),
            suggestions,
        })
    }

    fn is_empty(&self) -> bool {
        self.suggestions.is_empty()
    }

    fn markdown(&self, asked: &PatternSearch) -> String {
        let mut text = PATTERN.discovery_marker();
        if self.is_empty() {
            text.push_str("\nThe catalogue is empty.");
            return text;
        }
        if let Some(name) = asked.category.as_ref().filter(|_| !self.has_category) {
            text.push_str(&format!("\nThere is no category {}.", short_value(name, 120)));
        }
        let categories: Vec<String> =
            self.categories.iter().map(|(name, many)| format!("{} {many}", value(name))).collect();
        text.push_str(&format!("\nCategories: {}\n\nYou may want to look at:", categories.join(", ")));
        for suggestion in &self.suggestions {
            text.push_str(&format!("\n{}", suggestion.line()));
        }
        text
    }
}

fn missing_query(overview: &Overview) -> InputRequest {
    // The best suggestions are tags that several but not too many patterns have; if there are not enough of
    // these, titles are suggested.
    let tags = overview.tags.iter().filter(|(_, many)| (2..=TOO_BROAD as u64).contains(many));
    let words = tags.map(|(name, _)| name).chain(overview.names.iter().map(|(_, title)| title));
    let mut values: Vec<(String, Option<String>)> = Vec::new();
    for word in words.filter(|word| word.len() <= CHOICE_BYTES_MAX) {
        if values.len() < SUGGESTIONS && !values.iter().any(|(known, _)| known == word) {
            values.push((clean(word), None));
        }
    }
    let about = "What the pattern is about.";
    let needs = InputRequest::new(
        "Search Query Needed",
        "What pattern are you looking for? Please provide a search query.".to_owned(),
        "Search query is required to find relevant patterns".to_owned(),
        vec![Needs { field: "q", about, values, is_required: true, is_closed: false }],
    );
    if overview.patterns == 0 { needs.in_vain(NO_CATALOGUE) } else { needs }
}

/// The request to narrow a search; `None` if there is nothing to narrow it by.
fn too_broad(found: &FoundPatterns) -> Option<InputRequest> {
    let many = found.ids.len();
    let needs = |field: &'static str, about: &'static str, counts: &Counts| {
        let is_short = |(name, _): &&(String, u64)| name.len() <= CHOICE_BYTES_MAX;
        let choice = |(name, many): &(String, u64)| {
            (clean(name), Some(format!("Filter by {} {field} ({many})", clean(name))))
        };
        let values: Vec<_> = counts.iter().filter(is_short).take(CHOICES_MAX).map(choice).collect();
        let is_closed = values.len() == counts.len();
        (!values.is_empty()).then_some(Needs { field, about, values, is_required: false, is_closed })
    };
    let needs: Vec<Needs> = [
        needs("category", "Only patterns of this category.", &found.categories),
        needs("difficulty", "Only patterns of this difficulty.", &found.difficulties),
    ]
    .into_iter()
    .flatten()
    .collect();
    let by: Vec<&str> = needs.iter().map(|needs| needs.field).collect();
    (!needs.is_empty()).then(|| {
        InputRequest::new(
            "Narrow Your Search",
            format!("Found {many} patterns. Would you like to narrow your search by {}?", by.join(" or ")),
            format!("Too many results ({many}). Narrowing filters will help find the right pattern."),
            needs,
        )
    })
}
