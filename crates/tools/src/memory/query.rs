//! `query`: find entries by words, tags and time.

use kenning_engine::{By, Explanation, Question};
use kenning_model::{ScopeName, TxId};
use kenning_presentation::budget::{ROWS_EMBEDDED_BYTES_MAX, excerpt_bytes};
use kenning_presentation::text::quote;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::item::{EntryItem, as_data, entry_items, entry_lines, one_line};
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, TERM_BYTES_MAX, Tags, Text, Tx, Whole};
use crate::code::counted;
use crate::sets::{Attached, Columns};
use crate::tool::{Effect, Tool, sight};
use crate::{Context, List, Stop};

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
    scope: Option<Text<NAME_BYTES_MAX>>,
    limit: Option<Whole<1, 200>>,
    cursor: Option<Text<CONTEXT_BYTES_MAX>>,
    /// The store as it was then.
    as_of_tx_id: Option<Tx>,
    include_suppressed: Option<bool>,
    /// Say why each matched.
    explain: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten)]
    list: List<Item>,
    #[serde(skip)]
    asked: Asked,
    #[serde(skip)]
    is_degraded: bool,
}

#[derive(Serialize, JsonSchema)]
struct Item {
    #[serde(flatten)]
    entry: EntryItem,
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

/// What was asked, for the first line of the text and the address of the resource.
#[derive(Default)]
struct Asked {
    scope: Option<String>,
    topic: Option<String>,
    content: Option<String>,
    tags: Vec<String>,
    at: Option<TxId>,
    suppressed_too: bool,
}

/// Addresses are at most this long; a longer question has none of its own.
const ADDRESS_BYTES_MAX: usize = 1024;

const LIMIT_DEFAULT: u64 = 20;

impl Tool for Query {
    const NAME: &'static str = "query";
    const ABOUT: &'static str = "Find entries. Use before you start on a task or answer from memory. \
        `topic` words are sought in topics, `content` words anywhere; any word matches, the best come first; without words the newest. \
        Do not use for links between things (`query_graph`) or past changes (`history`). \
        Returns at most `limit` (default 20, max 200); for more pass `next_cursor` as `cursor`.";
    const EFFECT: Effect = Effect::Reads;
    const HAS_NOTE: bool = true;
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
        ("confidence", "number"),
        ("valid_from", "datetime"),
        ("valid_to", "datetime"),
        ("status", "string"),
        ("pinned", "boolean"),
        ("follows", "string"),
        ("version", "integer"),
        ("recorded_at", "datetime"),
        ("updated_at", "datetime"),
        ("tx_id", "integer"),
    ];
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Output, Stop> {
        let scope = ctx.scope_name(input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        let asked = Asked {
            scope: input.scope.map(|scope| scope.0),
            topic: input.topic.map(|topic| topic.0),
            content: input.content.map(|content| content.0),
            tags: input.tags.map(|tags| tags.0).unwrap_or_default(),
            at: input.as_of_tx_id.map(|tx| TxId(tx.0)),
            suppressed_too: input.include_suppressed.unwrap_or(false),
        };
        let (at, suppressed_too) = (asked.at, asked.suppressed_too);
        let words = [asked.topic.as_deref(), asked.content.as_deref()];
        let listing = ctx.listing(
            listing_name(&scope, words, &asked.tags, at, suppressed_too),
            input.limit.map_or(LIMIT_DEFAULT, |limit| limit.0),
            input.cursor.as_ref().map(|cursor| cursor.0.as_str()),
            at,
        )?;
        let sight = sight(&listing.snapshot, &scope)?;
        let question = Question {
            sight: &sight,
            topic: asked.topic.as_deref(),
            content: asked.content.as_deref(),
            tags: &asked.tags,
            visible_at: (!suppressed_too).then_some(listing.asked_at),
            by: By::WordsAndMeaning,
            known_words_only: false,
            explain: input.explain.unwrap_or(false),
        };
        let found = listing.snapshot.search(&question, listing.rows())?;
        let entries = entry_items(&listing.snapshot, found.hits.iter().map(|hit| &hit.stored))?;
        let explained = found.hits.into_iter().map(|hit| hit.explanation);
        let item = |(entry, why): (EntryItem, Option<Explanation>)| Item {
            explain: why.map(|why| Why::new(why, &entry)),
            entry,
        };
        let items = entries.into_iter().zip(explained).map(item).collect();
        let items = ctx.fitting(items, ROWS_EMBEDDED_BYTES_MAX, |item: Item| Item {
            entry: item.entry.cut_to_fit(),
            ..item
        });
        let list = listing.end(items, found.total)?;
        let set = list.next_cursor.as_ref().and_then(|_| ctx.set::<Self>(&listing, "Entries", found.total));
        Ok(Output { list: list.with(set), asked, is_degraded: found.is_degraded })
    }

    fn set(output: &Output) -> Option<Attached> {
        output.list.set.clone()
    }

    fn text(Output { list, asked, .. }: &Output) -> String {
        let total = counted(list.total_count as usize, "entry");
        let matching = asked.words();
        if list.items.is_empty() {
            let hint = match matching.is_empty() {
                true => " Keep something with `store`.",
                false => " Try other words, or leave them out to see the newest.",
            };
            return format!("Found {total}{matching}. As of transaction {}.{hint}", list.as_of_tx_id);
        }
        let excerpt = excerpt_bytes(list.items.len());
        let lines: Vec<String> = list.items.iter().map(|item| item.lines(excerpt)).collect();
        let more = more(list.items.len(), list.total_count, list.next_cursor.as_deref());
        let at = list.as_of_tx_id;
        format!("Found {total}{matching}. As of transaction {at}. {}{more}", as_data(&lines.join("\n")))
    }

    fn meta(output: &Output) -> Map<String, Value> {
        degraded(output.is_degraded)
    }

    fn resource(output: &Output) -> Option<String> {
        Some(output.asked.address())
    }
}

/// What a reply says when words alone decided.
pub(crate) fn degraded(is_degraded: bool) -> Map<String, Value> {
    let why = "by words only: vectors are still being made";
    is_degraded.then(|| ("io.kenning/degraded".to_owned(), why.into())).into_iter().collect()
}

impl Item {
    fn lines(&self, excerpt: usize) -> String {
        let Some(why) = &self.explain else { return entry_lines(&self.entry, excerpt) };
        let terms = one_line(&why.matched_terms.join(", "), excerpt / 4);
        let why = format!(
            "  (score {:.3}: words {:.3}, meaning {:.3}; matched: {terms})",
            why.total, why.lexical, why.dense
        );
        format!("{}\n{why}", entry_lines(&self.entry, excerpt.saturating_sub(why.len())))
    }
}

impl Why {
    fn new(explanation: Explanation, entry: &EntryItem) -> Why {
        // Six digits tell matches apart and stay readable.
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

/// The name of a listing of entries; the resource `knowledge://entries` uses it too, so a cursor goes on in either.
pub fn listing_name(
    scope: &ScopeName,
    [topic, content]: [Option<&str>; 2],
    tags: &[String],
    at: Option<TxId>,
    suppressed_too: bool,
) -> String {
    format!("entries {scope} {topic:?} {content:?} {tags:?} {at:?} {suppressed_too}")
}

impl Asked {
    /// Where the same listing can be read as a resource.
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

    /// ` matching "deployment" tagged "ops"`
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

/// How to go on when a page is not the whole list.
pub(crate) fn more(shown: usize, total: u64, next_cursor: Option<&str>) -> String {
    match next_cursor {
        Some(cursor) => format!("\n{shown} of {total} shown; for more pass `cursor`: \"{cursor}\"."),
        None => String::new(),
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
