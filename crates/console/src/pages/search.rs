//! Search: entries, documents and patterns for the same words, with filters for each kind.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kenning_engine::{By, EntryHit, Explanation, PatternQuestion, Question, SectionQuestion, Sight, excerpt};
use kenning_model::{EntityType, Id, ScopeName, clean};
use maud::{Markup, html};

use crate::request::{Page, PageContext, Trouble};
use crate::show::{EXCERPT_BYTES, ago, counted, cut, entry_item, marked, number, pager};

const PAGE: usize = 20;
/// The best matches that are examined: with a filter that the index does not know, and to count the values of
/// facets.
const LOOKED_AT_MAX: u64 = 1_000;
const LOOKED_AT_FOR_FACETS: u64 = 200;
/// The largest number of hits of each other kind that are shown beside the entries.
const BESIDE_MAX: usize = 5;
/// The largest number of values of each facet.
const VALUES_MAX: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Entries,
    Documents,
    Patterns,
}

const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::All, "", "All"),
    (Kind::Entries, "entries", "Entries"),
    (Kind::Documents, "documents", "Documents"),
    (Kind::Patterns, "patterns", "Patterns"),
];

/// The filters of a search, in the order of the form.
const FACETS: [(&str, &str); 4] =
    [("scope", "Scope"), ("tag", "Tag"), ("actor", "Written by"), ("source", "Source")];

struct Search<'a> {
    ctx: &'a PageContext<'a>,
    words: Option<&'a str>,
    kind: Kind,
    sight: Sight,
    since: Option<Timestamp>,
    hidden_too: bool,
    page: u64,
}

pub(crate) fn show(ctx: &PageContext<'_>) -> Result<Page, Trouble> {
    let search = Search::begin(ctx)?;
    let entries = match search.kind {
        Kind::All | Kind::Entries => Some(search.entries()?),
        Kind::Documents | Kind::Patterns => None,
    };
    let sections = match search.kind {
        Kind::Documents => search.sections(PAGE)?,
        Kind::All => search.sections(BESIDE_MAX)?,
        Kind::Entries | Kind::Patterns => None,
    };
    let patterns = match search.kind {
        Kind::Patterns => search.patterns(PAGE)?,
        Kind::All => search.patterns(BESIDE_MAX)?,
        Kind::Entries | Kind::Documents => None,
    };
    let is_nothing = entries.as_ref().is_none_or(|found| found.shown.is_empty())
        && sections.is_none()
        && patterns.is_none();
    let title = ctx
        .fields
        .get("q")
        .map_or_else(|| "Search".to_owned(), |words| format!("{} · Search", cut(words, 60)));
    Page::new(
        title,
        html! {
            h1.hidden { "Search" }
            (search.form())
            div.columns.with-facets #results data-results {
                div {
                    @if let Some(found) = &entries { (search.entry_list(found)?) }
                    @if let Some(markup) = sections { (markup) }
                    @if let Some(markup) = patterns { (markup) }
                    @if is_nothing { (search.nothing()) }
                }
                aside aria-label="Narrow the search" { @if let Some(found) = &entries { (search.facets(found)) } }
            }
        },
    )
}

/// A filter: its name, its title, and its values with the number of hits for each.
type Facet = (&'static str, &'static str, Vec<(String, u64)>);

struct Entries {
    shown: Vec<EntryHit>,
    /// The number of all matches, or of those examined if `is_part` is set.
    total: u64,
    /// Whether there are more matches than were examined.
    is_part: bool,
    /// The most frequent values of each facet.
    facets: Vec<Facet>,
    has_more: bool,
}

impl<'a> Search<'a> {
    fn begin(ctx: &'a PageContext<'a>) -> Result<Search<'a>, Trouble> {
        let kind = ctx.fields.get("kind").unwrap_or_default();
        let kind = KINDS.iter().find(|(_, name, _)| *name == kind).map_or(Kind::All, |(kind, ..)| *kind);
        let sight = match ctx.fields.get("scope") {
            None => ctx.everywhere(),
            Some(text) => {
                let unknown = || Trouble::NotFound(format!("There is no scope `{}`.", cut(text, 130)));
                let name = ScopeName::parse(text).ok_or_else(unknown)?;
                let (_, scope) = ctx.tree.scope(&name).ok_or_else(unknown)?;
                ctx.snapshot.sight_of(vec![scope.number])
            }
        };
        let days = ctx.fields.number("days").filter(|days| (1..=3650).contains(days));
        let since = days.map(|days| ctx.judged_at - jiff::SignedDuration::from_hours(24 * days as i64));
        Ok(Search {
            ctx,
            words: ctx.fields.get("q").map(|words| &words[..words.floor_char_boundary(2000)]),
            kind,
            sight,
            since,
            hidden_too: ctx.fields.get("hidden").is_some(),
            page: ctx.fields.number("page").unwrap_or(0).min(10_000),
        })
    }

    /// A link to this search with some of its fields changed.
    fn with(&self, changed: &[(&str, &str)]) -> String {
        let names = ["q", "kind", "scope", "tag", "actor", "source", "days", "hidden"];
        let fields = names.map(|name| {
            let own = self.ctx.fields.get(name).unwrap_or_default();
            (name, changed.iter().find(|(known, _)| *known == name).map_or(own, |(_, value)| *value))
        });
        self.ctx.link("/search", fields)
    }

    fn entries(&self) -> Result<Entries, Trouble> {
        let ctx = self.ctx;
        let tags: Vec<String> = ctx.fields.all("tag").map(str::to_owned).collect();
        let question = Question {
            sight: &self.sight,
            topic: None,
            content: self.words,
            tags: &tags,
            visible_at: (!self.hidden_too).then_some(ctx.judged_at),
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: true,
        };
        let (actor, source) = (ctx.fields.get("actor"), ctx.fields.get("source"));
        let is_narrow = actor.is_some() || source.is_some() || self.since.is_some();
        let first = self.page * PAGE as u64;
        let looked_at =
            if is_narrow { LOOKED_AT_MAX } else { LOOKED_AT_FOR_FACETS.max(first + PAGE as u64 + 1) };
        // Without a filter, a page beyond the range for facets makes this range longer.
        let found = ctx.snapshot.search(&question, 0..looked_at)?;
        let all = found.total;
        let mut hits = found.hits;
        hits.retain(|hit| {
            hit.stored.record.as_entry().is_some_and(|entry| {
                actor.is_none_or(|actor| entry.actor == actor)
                    && source.is_none_or(|source| entry.source.as_deref() == Some(source))
                    && self.since.is_none_or(|since| entry.updated_at.unwrap_or(entry.recorded_at) >= since)
            })
        });
        let (total, is_part) = if is_narrow { (hits.len() as u64, all > looked_at) } else { (all, false) };
        let facets = FACETS.iter().map(|(name, title)| (*name, *title, self.values(name, &hits))).collect();
        let has_more = total > first + PAGE as u64;
        let shown = hits.into_iter().skip(first as usize).take(PAGE).collect();
        Ok(Entries { shown, total, is_part, facets, has_more })
    }

    fn values(&self, facet: &str, hits: &[EntryHit]) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for entry in hits.iter().filter_map(|hit| hit.stored.record.as_entry()) {
            match facet {
                "scope" => *counts.entry(self.ctx.scope_name(entry.scope)).or_default() += 1,
                "tag" => entry.tags.iter().for_each(|tag| *counts.entry(tag.clone()).or_default() += 1),
                "actor" => *counts.entry(entry.actor.clone()).or_default() += 1,
                _ => {
                    if let Some(source) = &entry.source {
                        *counts.entry(source.clone()).or_default() += 1;
                    }
                }
            }
        }
        let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
        counts.sort_by(|(one, many), (other, more)| more.cmp(many).then_with(|| one.cmp(other)));
        counts.truncate(VALUES_MAX);
        counts
    }

    fn form(&self) -> Markup {
        let ctx = self.ctx;
        html! {
            form.search action=(format!("{}/search", crate::BASE)) role="search" aria-label="Search with filters" data-search {
                @if let Some(tx) = ctx.as_of { input type="hidden" name="as_of" value=(tx); }
                @for name in ["kind", "scope", "tag", "actor", "source"] {
                    @if let Some(value) = ctx.fields.get(name) { input type="hidden" name=(name) value=(value); }
                }
                label.hidden for="q" { "Words" }
                input #q type="search" name="q" value=(self.words.unwrap_or_default()) placeholder="Words, or a question"
                    autocomplete="off" maxlength="2000";
                label.hidden for="days" { "Written within" }
                select #days name="days" {
                    @for (days, name) in [("", "Any time"), ("1", "Last day"), ("7", "Last week"), ("30", "Last month"), ("365", "Last year")] {
                        option value=(days) selected[ctx.fields.get("days").unwrap_or_default() == days] { (name) }
                    }
                }
                label.check { input type="checkbox" name="hidden" value="1" checked[self.hidden_too]; " hidden too" }
                button type="submit" { "Search" }
            }
            nav.tabs aria-label="Kinds" {
                @for (kind, value, name) in KINDS {
                    a href=(self.with(&[("kind", value)])) aria-current=[(kind == self.kind).then_some("true")] { (name) }
                }
            }
            @let set = FACETS.iter().filter_map(|(name, title)| Some((*name, *title, ctx.fields.get(name)?)));
            p.set { @for (name, title, value) in set {
                a.chip href=(self.with(&[(name, "")])) title="Remove" { (title) ": " (cut(value, 80)) " ×" }
            } }
        }
    }

    fn entry_list(&self, found: &Entries) -> Result<Markup, Trouble> {
        if found.shown.is_empty() {
            return Ok(html! {});
        }
        let ctx = self.ctx;
        let rarities = match self.words {
            Some(words) => ctx.snapshot.rarities(&self.sight, &[words])?,
            None => Vec::new(),
        };
        let page = self.page;
        let names = ["q", "kind", "scope", "tag", "actor", "source", "days", "hidden"];
        let kept: Vec<(&str, &str)> =
            names.iter().filter_map(|name| Some((*name, ctx.fields.get(name)?))).collect();
        Ok(html! {
            section {
                h2 { (counted(found.total, "entry")) @if found.is_part { " among the best " (number(LOOKED_AT_MAX)) } }
                ol.list { @for hit in &found.shown {
                    @if let Some(entry) = hit.stored.record.as_entry() {
                        @let text = clean(&excerpt(&rarities, &entry.content, EXCERPT_BYTES));
                        @let terms = hit.explanation.as_ref().map(|why| why.matched_terms.clone()).unwrap_or_default();
                        (entry_item(ctx, hit.stored.id, entry, &text, &terms, why(hit.explanation.as_ref())))
                    }
                } }
                (pager(ctx, "/search", &kept, page, found.has_more))
            }
        })
    }

    fn sections(&self, many: usize) -> Result<Option<Markup>, Trouble> {
        let Some(words) = self.words else { return Ok(None) };
        let ctx = self.ctx;
        let question = SectionQuestion { sight: &self.sight, text: words, only: &[], as_written: false };
        let page = if self.kind == Kind::Documents { self.page } else { 0 };
        let found = ctx.snapshot.search_passages(&question, page * many as u64..(page + 1) * many as u64)?;
        if found.hits.is_empty() {
            return Ok(None);
        }
        let rarities = ctx.snapshot.rarities(&self.sight, &[words])?;
        let ids: Vec<Id> = found.hits.iter().map(|hit| hit.section).collect();
        let sections = ctx.snapshot.records(EntityType::Section, &ids)?;
        let hits: Vec<_> = found.hits.iter().zip(&sections).collect();
        let has_more = found.total > (page + 1) * many as u64;
        Ok(Some(html! {
            section {
                h2 { (counted(found.total, "passage")) " of documents" }
                ol.list { @for (hit, stored) in hits {
                    @if let Some(section) = stored.as_ref().and_then(|stored| stored.record.as_section()) {
                        li.item data-item {
                            h3 { a data-open href=(format!("{}#{}", ctx.to(&format!("/document/{}", section.document)), hit.section)) { (section.title()) } }
                            p.text { (marked(&clean(&excerpt(&rarities, &section.text, EXCERPT_BYTES)), &hit.why.matched_terms)) }
                            p.meta { span.kind { "document" } " " (crate::show::scope(ctx, section.scope)) " " span.tag { (clean(&section.doc_tag)) } " " (ago(ctx, section.updated_at.unwrap_or(section.recorded_at))) }
                            (why(Some(&hit.why)))
                        }
                    }
                } }
                @if self.kind == Kind::Documents { (pager(ctx, "/search", &[("q", words), ("kind", "documents")], page, has_more)) }
                @else if has_more { p { a href=(self.with(&[("kind", "documents")])) { "All " (counted(found.total, "passage")) } } }
            }
        }))
    }

    fn patterns(&self, many: usize) -> Result<Option<Markup>, Trouble> {
        let Some(words) = self.words else { return Ok(None) };
        let ctx = self.ctx;
        let question = PatternQuestion {
            sight: &self.sight,
            text: words,
            category: None,
            difficulty: None,
            loosely: false,
        };
        let found = ctx.snapshot.search_patterns(&question)?;
        if found.ids.is_empty() {
            return Ok(None);
        }
        let total = found.ids.len();
        let shown: Vec<Id> = found.ids.into_iter().take(many).collect();
        let records = ctx.snapshot.records(EntityType::Document, &shown)?;
        Ok(Some(html! {
            section {
                h2 { (counted(total as u64, "pattern")) }
                ol.list { @for stored in records.into_iter().flatten() {
                    @if let Some((document, pattern)) = stored.record.as_document().and_then(|document| Some((document, document.pattern.as_ref()?))) {
                        li.item data-item {
                            h3 { a data-open href=(ctx.to(&format!("/document/{}", stored.id))) { (clean(&document.title)) } }
                            p.text { (cut(&pattern.summary, EXCERPT_BYTES)) }
                            p.meta { span.kind { "pattern" } " " span.tag { (clean(&pattern.category)) } @if let Some(difficulty) = &pattern.difficulty { " " span.tag { (clean(difficulty)) } } }
                        }
                    }
                } }
                @if total > many && self.kind == Kind::All { p { a href=(self.with(&[("kind", "patterns")])) { "All " (counted(total as u64, "pattern")) } } }
            }
        }))
    }

    fn facets(&self, found: &Entries) -> Markup {
        html! {
            @for (name, title, values) in &found.facets {
                @if values.len() > 1 || self.ctx.fields.get(name).is_some() {
                    section.facet {
                        h2 { (title) }
                        ul.plain { @for (value, many) in values {
                            @let is_set = self.ctx.fields.get(name) == Some(value.as_str());
                            li { a href=(self.with(&[(name, if is_set { "" } else { value.as_str() })])) aria-current=[is_set.then_some("true")] {
                                span.value { (cut(value, 60)) } " " span.count { (number(*many)) }
                            } }
                        } }
                    }
                }
            }
            @if !found.shown.is_empty() && found.total > LOOKED_AT_FOR_FACETS { p.quiet { "Counted in the first " (number(LOOKED_AT_FOR_FACETS)) "." } }
        }
    }

    fn nothing(&self) -> Markup {
        let ctx = self.ctx;
        let hidden = ctx.fields.get("hidden").is_none();
        html! {
            section.empty {
                h2 { "Nothing found" }
                p { "Try other words"
                    @if ctx.fields.get("scope").is_some() { ", or " a href=(self.with(&[("scope", "")])) { "look in every scope" } }
                    @if hidden { ", or " a href=(self.with(&[("hidden", "1")])) { "look at hidden entries too" } }
                    "." }
            }
        }
    }
}

/// The reason of a match: the matched words, and the scores for words and for meaning.
fn why(why: Option<&Explanation>) -> Markup {
    let Some(why) = why else { return html! {} };
    html! {
        p.why {
            "matched "
            @if why.matched_terms.is_empty() { "by meaning" } @else {
                @for term in why.matched_terms.iter().take(8) { code { (clean(term)) } " " }
            }
            span.score { "words " meter min="0" max="1" value=(round(why.lexical)) aria-label="words" {} }
            span.score { "meaning " meter min="0" max="1" value=(round(why.dense)) aria-label="meaning" {} }
        }
    }
}

fn round(share: f64) -> String {
    format!("{:.2}", share.clamp(0.0, 1.0))
}
