//! `kenning search`: finds entries, documents and patterns, and marks the words that matched.

use clap::{Args, ValueEnum};
use kenning_engine::{
    By, Explanation, FoundText, PatternQuestion, Question, QuoteLimits, Scoring, SectionQuestion, Sight,
    Snapshot, excerpt, highlight, passage_ranges,
};
use kenning_model::{Id, clean};
use kenning_tools::memory::item::{EntryItem, entry_items, one_line};
use serde_json::{Value, json};

use super::refusal::Refused;
use super::store::{AsOf, Store};
use super::{Outcome, complain, line, print};
use crate::config::Config;
use crate::terminal::{self, BOLD, DIM, ID, MARK, NAME, PLAIN, Text, width};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning search when do we deploy
  kenning search --kind entry --tag ops fridays
  kenning search --kind document,pattern 'retry a call that failed'
  kenning search deploys --as-of 1 --json")]
pub struct Search {
    /// What to look for, in your own words
    #[arg(required = true)]
    words: Vec<String>,
    /// What to look through [default: everything]
    #[arg(short, long, value_delimiter = ',', value_name = "KIND")]
    kind: Vec<Kind>,
    /// How many of each kind
    #[arg(short = 'n', long, default_value_t = 5)]
    limit: u64,
    /// Only entries with this tag; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// In every scope, not only in what --scope sees
    #[arg(long)]
    all: bool,
    /// The store as it was at this transaction or time
    #[arg(long, value_name = "TX|TIME")]
    as_of: Option<AsOf>,
    /// Say why each entry matched
    #[arg(long)]
    explain: bool,
    /// Print for programs: a line for each
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Entry,
    Document,
    Pattern,
}

/// At most this many bytes of a text are shown.
const EXCERPT_BYTES: usize = 320;
/// Several passages may be of one document, so more passages are requested than results are shown.
const PASSAGES_FOR_EACH: u64 = 4;

/// One result, of any kind.
struct Hit {
    kind: &'static str,
    /// The id or name that `kenning show` takes.
    id: String,
    title: String,
    /// Shown after the title: a scope, a path, or a category.
    about: String,
    text: String,
    explanation: Option<Explanation>,
    /// Further fields for the JSON output.
    more: Value,
}

pub fn run(config: &Config, search: Search) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, search.as_of)?;
    let snapshot = store.snapshot()?;
    let scope = store.scope(&snapshot)?;
    let sight = match search.all {
        true => store.whole_sight(&snapshot)?,
        false => store.sight(&snapshot, &scope)?,
    };
    let content = store.engine.content(&store.caller.principal, None)?;
    let words = search.words.join(" ");
    // The option `--tag` filters by tags of entries only, so with it documents and patterns are left out.
    let wants = |kind: Kind| match search.kind.is_empty() {
        true => kind == Kind::Entry || search.tag.is_empty(),
        false => search.kind.contains(&kind),
    };
    let looking =
        Looking { store: &store, snapshot: &snapshot, sight: &sight, words: &words, limit: search.limit };
    let mut hits = Vec::new();
    if wants(Kind::Entry) {
        hits.extend(looking.entries(&search, &scope.to_string())?);
    }
    if wants(Kind::Document) && content.documents {
        hits.extend(looking.sections()?);
    }
    if wants(Kind::Pattern) && content.patterns {
        hits.extend(looking.patterns()?);
    }
    if search.json {
        for hit in &hits {
            print(&hit.as_json(&words).to_string())?;
        }
        return Ok(Outcome::Done);
    }
    if hits.is_empty() {
        let more = if search.all { "" } else { "; `--all` looks in every scope" };
        complain(&format!("nothing matches in what `{scope}` sees ({}){more}", store.dir.display()));
        return Ok(Outcome::Done);
    }
    let has_kinds = hits.iter().any(|hit| hit.kind != hits[0].kind);
    let (mut shown, mut last) = (Text::new(), "");
    for hit in &hits {
        if !shown.is_empty() {
            shown.push(PLAIN, "\n\n");
        }
        if has_kinds && hit.kind != last {
            shown.push(DIM, format!("{}\n", hit.kind.to_uppercase()));
            last = hit.kind;
        }
        shown.append(hit.text(&words));
    }
    terminal::print(&shown)?;
    Ok(Outcome::Done)
}

struct Looking<'a> {
    store: &'a Store,
    snapshot: &'a Snapshot<'a>,
    sight: &'a Sight,
    words: &'a str,
    limit: u64,
}

impl Looking<'_> {
    fn entries(&self, search: &Search, asked: &str) -> anyhow::Result<Vec<Hit>> {
        let question = Question {
            sight: self.sight,
            topic: None,
            content: Some(self.words),
            tags: &search.tag,
            visible_at: Some(self.store.judged_at(self.snapshot)?),
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: search.explain,
        };
        let found = self.snapshot.search(&question, 0..self.limit)?;
        if found.is_degraded {
            complain("these were found by words alone: the vectors for meaning are still being made");
        }
        let rarities = self.snapshot.rarities(self.sight, &[self.words])?;
        let items =
            entry_items(self.snapshot, found.hits.iter().map(|hit| &hit.stored)).map_err(Refused::from)?;
        let hit = |(item, explanation): (EntryItem, Option<Explanation>)| {
            let elsewhere = Some(item.scope.clone()).filter(|scope| scope != asked);
            let tags = (!item.tags.is_empty()).then(|| item.tags.join(", "));
            let about: Vec<String> = elsewhere.into_iter().chain(tags).collect();
            Hit {
                kind: "entry",
                id: item.id.clone(),
                title: item.topic.clone(),
                about: about.join("  "),
                text: excerpt(&rarities, &item.content, EXCERPT_BYTES),
                explanation,
                more: json!(item),
            }
        };
        let explained = found.hits.into_iter().map(|hit| hit.explanation);
        Ok(items.into_iter().zip(explained).map(hit).collect())
    }

    /// The best sections, at most one of each document.
    fn sections(&self) -> anyhow::Result<Vec<Hit>> {
        let question = SectionQuestion { sight: self.sight, text: self.words, only: &[], as_written: false };
        let found =
            self.snapshot.search_passages(&question, 0..self.limit.saturating_mul(PASSAGES_FOR_EACH))?;
        let (mut hits, mut known): (Vec<Hit>, Vec<Id>) = Default::default();
        for passage in found.hits {
            let stored = self.snapshot.section(passage.section)?;
            let Some(section) = stored.as_ref().and_then(|stored| stored.record.as_section()) else {
                continue;
            };
            if known.contains(&section.document) || hits.len() as u64 == self.limit {
                continue;
            }
            known.push(section.document);
            let document = self.snapshot.document(section.document)?;
            let document = document.as_ref().and_then(|stored| stored.record.as_document());
            let path = document.map(|document| format!("{}/{}", document.source, document.path));
            let (path, title) = (path.unwrap_or_default(), section.title());
            let text = clean(&section.text);
            let range = passage_ranges(&text).into_iter().nth(passage.passage).unwrap_or(0..text.len());
            let text = self.preview(&title, &text[range])?;
            let more =
                json!({"document": section.document.to_string(), "path": path, "doc_tag": section.doc_tag});
            let (id, about) = (passage.section.to_string(), path);
            hits.push(Hit { kind: "document", id, title, about, text, explanation: None, more });
        }
        Ok(hits)
    }

    /// The sentences that answer the question best, in the order of the text.
    fn preview(&self, title: &str, text: &str) -> anyhow::Result<String> {
        let source = FoundText::new(title, text);
        let most = QuoteLimits { quotes: 3, bytes: EXCERPT_BYTES, ..QuoteLimits::default() };
        let sources = std::slice::from_ref(&source);
        let quotes =
            self.snapshot.section_quotes(self.sight, self.words, sources, most, Scoring::Weighted)?;
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        for quote in &quotes {
            bytes += quote.range.len();
            if chosen.is_empty() || bytes <= EXCERPT_BYTES {
                chosen.push(quote.range.clone());
            }
        }
        chosen.sort_by_key(|range| range.start);
        let parts: Vec<String> = chosen.into_iter().map(|range| line(&text[range])).collect();
        Ok(if parts.is_empty() { one_line(text, EXCERPT_BYTES) } else { parts.join(" […] ") })
    }

    fn patterns(&self) -> anyhow::Result<Vec<Hit>> {
        let (category, difficulty) = (None, None);
        let question =
            PatternQuestion { sight: self.sight, text: self.words, category, difficulty, loosely: false };
        let found = self.snapshot.search_patterns(&question)?;
        let mut hits = Vec::new();
        for id in found.ids.into_iter().take(self.limit as usize) {
            let stored = self.snapshot.document(id)?;
            let Some(document) = stored.as_ref().and_then(|stored| stored.record.as_document()) else {
                continue;
            };
            let Some(pattern) = &document.pattern else { continue };
            hits.push(Hit {
                kind: "pattern",
                id: pattern.id.clone(),
                title: document.title.clone(),
                about: pattern.category.clone(),
                text: one_line(&clean(&pattern.summary), EXCERPT_BYTES),
                explanation: None,
                more: json!({"document": id.to_string(), "category": pattern.category, "tags": document.tags}),
            });
        }
        Ok(hits)
    }
}

impl Hit {
    /// One line with id, title and place, and below it the excerpt.
    fn text(&self, words: &str) -> Text {
        let title = line(&self.title);
        let mut shown = Text::styled(ID, line(&self.id));
        shown.push(PLAIN, "  ");
        for (text, is_match) in marked(&title, words) {
            shown.push(if is_match { MARK } else { BOLD }, text);
        }
        if !self.about.is_empty() {
            shown.push(NAME, format!("  {}", line(&self.about)));
        }
        if let Some(why) = &self.explanation {
            let terms = one_line(&why.matched_terms.join(", "), 200);
            let scores =
                format!("score {:.3}: words {:.3}, meaning {:.3}", why.total, why.lexical, why.dense);
            shown.push(DIM, format!("\n  {scores}; matched: {terms}"));
        }
        let excerpt = line(&self.text);
        shown.push(PLAIN, "\n");
        shown.append(Text::marked(&excerpt, &highlight(words, &excerpt), MARK).wrapped(2, width()));
        shown
    }

    /// The JSON object of a hit: the fields that all kinds have, and those of its own kind.
    fn as_json(&self, words: &str) -> Value {
        let matches: Vec<&str> =
            highlight(words, &self.text).into_iter().map(|range| &self.text[range]).collect();
        let mut shown = json!({
            "kind": self.kind,
            "id": self.id,
            "title": self.title,
            "excerpt": self.text,
            "matches": matches,
        });
        if let Some(fields) = shown.as_object_mut() {
            for (name, value) in self.more.as_object().into_iter().flatten() {
                fields.entry(name.clone()).or_insert_with(|| value.clone());
            }
            if let Some(why) = &self.explanation {
                let rounded = |score: f64| (score * 1e6).round() / 1e6;
                let [total, lexical, dense] = [why.total, why.lexical, why.dense].map(rounded);
                let terms = &why.matched_terms;
                let why = json!({"total": total, "lexical": lexical, "dense": dense, "matched_terms": terms});
                fields.insert("explain".to_owned(), why);
            }
        }
        shown
    }
}

/// A text in pieces. The boolean says whether the piece matched the search words.
fn marked<'a>(text: &'a str, words: &str) -> Vec<(&'a str, bool)> {
    let (mut pieces, mut end) = (Vec::new(), 0);
    for range in highlight(words, text) {
        pieces.push((&text[end..range.start], false));
        pieces.push((&text[range.clone()], true));
        end = range.end;
    }
    pieces.push((&text[end..], false));
    pieces
}
