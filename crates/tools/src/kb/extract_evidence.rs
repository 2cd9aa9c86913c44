//! `kb.extract_evidence`: the sentences of some passages that answer a question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use kenning_engine::{FoundText, PassageScore, QuoteLimits, Scoring, Snapshot, Unseen};
use kenning_model::Id;
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_presentation::text::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expand_excerpt::TOKENS_DEFAULT;
use super::passage;
use super::read_excerpt::{TOKEN_BYTES, bytes_for};
use super::search::HowScored;
use crate::arguments::{CONTEXT_BYTES_MAX, NAME_BYTES_MAX, Text, Texts, Whole};
use crate::code::counted;
use crate::documents::Scope;
use crate::memory::item::{as_data, one_line};
use crate::scratch::Passage;
use crate::tool::{Effect, Tool, sight};
use crate::{Context, Stop};

pub(crate) struct ExtractEvidence;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    question: Text<CONTEXT_BYTES_MAX>,
    passage_ids: Texts<1, 20, NAME_BYTES_MAX>,
    max_quotes: Option<Whole<1, 12>>,
    max_quote_tokens: Option<Whole<1, 200>>,
    include_context_tokens: Option<Whole<0, 200>>,
    scope: Option<Scope>,
    options: Option<Options>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    scoring: Option<HowScored>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    quotes: Vec<Quote>,
    /// There only where the quotes most likely do not answer the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    doubt: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Quote {
    quote: String,
    passage_id: String,
    section_id: String,
    title: String,
    /// Of the document, below what was taken in.
    path: String,
    uri: String,
    /// How much of the question it has, 0 to 1.
    confidence: f64,
    context_before: String,
    context_after: String,
    /// For the text of the reply: an earlier line without which the quote can't be understood.
    #[serde(skip)]
    lead: Option<String>,
    /// The range in the text of the passage. It is longer than the quote where the text has parts that a reader does not
    /// see, such as the targets of links.
    #[serde(skip)]
    range: Range<usize>,
}

/// The sections that are quoted from, without duplicates.
pub(super) fn sections(quotes: &[Quote]) -> Vec<Id> {
    let mut sections: Vec<Id> = quotes.iter().filter_map(|quote| Id::parse(&quote.section_id)).collect();
    let mut known = HashSet::new();
    sections.retain(|id| known.insert(*id));
    sections
}

/// A quote with the details that are needed to find it again.
pub(crate) struct BriefQuote {
    pub(crate) quote: String,
    pub(crate) section_id: String,
    pub(crate) title: String,
    pub(crate) path: String,
}

impl Quote {
    pub(super) fn into_brief(self) -> BriefQuote {
        let Quote { quote, section_id, title, path, .. } = self;
        BriefQuote { quote, section_id, title, path }
    }
}

/// A passage that may be quoted from.
pub(super) struct Candidate {
    pub(super) handle: String,
    pub(super) kept: Arc<Passage>,
    /// How well the parts of the passage fit the question; empty if the caller chose the passage.
    pub(super) fits: Vec<PassageScore>,
}

impl Candidate {
    fn source(&self) -> FoundText<'_> {
        FoundText { title: &self.kept.title, text: &self.kept.text, fits: self.fits.clone() }
    }
}

/// The limits of a reply: how many quotes, how long, and from how many passages.
pub(super) struct Wanted {
    pub(super) max_quotes: usize,
    pub(super) max_quote_tokens: usize,
    pub(super) context_tokens: usize,
    pub(super) scoring: Scoring,
    /// The largest number of passages that are quoted from.
    pub(super) passages: usize,
}

const QUOTE_CHARS_MAX: usize = 500;
/// The line that leads to a quote may have this many bytes even if the call asks for less context.
const CONTEXT_BYTES_MIN: usize = 40;

impl Wanted {
    pub(super) fn new(
        max_quotes: Option<Whole<1, 12>>,
        max_quote_tokens: Option<Whole<1, 200>>,
        context_tokens: Option<Whole<0, 200>>,
        scoring: Option<HowScored>,
    ) -> Wanted {
        Wanted {
            max_quotes: max_quotes.map_or(6, |many| many.0 as usize),
            max_quote_tokens: max_quote_tokens.map_or(80, |many| many.0 as usize),
            context_tokens: context_tokens.map_or(20, |many| many.0 as usize),
            scoring: scoring.map(Scoring::from).unwrap_or_default(),
            passages: usize::MAX,
        }
    }
}

impl Tool for ExtractEvidence {
    const NAME: &'static str = "kb.extract_evidence";
    const ABOUT: &'static str = "Quote the sentences of found passages that answer a question. \
        Use after `kb_search` when you have chosen passages. Do not use without passages (`kb_retrieve_evidence` does both). \
        Returns at most `max_quotes` (default 6, max 12) quotes of `max_quote_tokens` (default 80, max 200) with citations; for more call `kb_expand_excerpt`.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let scope = input.scope.unwrap_or_default();
        let mut passages = Vec::new();
        for handle in input.passage_ids.0 {
            let (handle, kept) = passage::find(ctx, &handle, &scope)?;
            passages.push(Candidate { handle, kept, fits: Vec::new() });
        }
        let wanted = Wanted::new(
            input.max_quotes,
            input.max_quote_tokens,
            input.include_context_tokens,
            input.options.unwrap_or_default().scoring,
        );
        let (quotes, doubt) = quotes(ctx, &ctx.snapshot()?, &input.question.0, &passages, &wanted)?;
        ctx.record_shown(sections(&quotes));
        Ok(Answer::text(Output { quotes, doubt }, text))
    }
}

fn text(output: &Output) -> String {
    shown(&output.quotes, output.doubt)
}

/// The warning in a reply if none of the quotes is likely to answer the question.
const DOUBT: &str = "These most likely do not answer the question.";

/// Two quotes of a passage with a gap of at most this many bytes count as adjacent, since only blanks fit
/// between them.
const GAP_BYTES_MAX: usize = 4;

/// The text of the reply, with one citation for all quotes of a passage. It names sections and not passages,
/// because the tools accept both but a section's id stays valid in later sessions.
pub(super) fn shown(quotes: &[Quote], doubt: Option<&str>) -> String {
    if quotes.is_empty() {
        return "No sentence answers this. Try `kb_search` with other words.".to_owned();
    }
    let mut text = String::new();
    for (number, of_passage) in (1..).zip(by_passage(quotes)) {
        let first = of_passage[0];
        let (title, path) = (one_line(last_headings(&first.title), 200), one_line(&first.path, 200));
        text.push_str(&format!("{number}. {title} ({path}, section {})\n", first.section_id));
        let mut end = first.range.start;
        for quote in of_passage {
            match &quote.lead {
                Some(lead) => text.push_str(&format!(" {} […]\n", one_line(lead, 200))),
                None if quote.range.start > end + GAP_BYTES_MAX => text.push_str(" […]\n"),
                None => {}
            }
            end = quote.range.end;
            text.push_str(&format!(" {}\n", squeezed(&quote.quote).replace('\n', "\n ")));
        }
    }
    let doubt = doubt.map(|doubt| format!("{doubt} ")).unwrap_or_default();
    format!(
        "{doubt}Found {}. {}\nMore around one: `kb_expand_excerpt` with its section as `passage_id`.",
        counted(quotes.len(), "quote"),
        as_data(text.trim_end())
    )
}

/// A title in the text has the last of its headings that fit into this many bytes, and always the last one. The path
/// beside it tells the document, and `title` of the structured reply has all of them.
const TITLE_BYTES: usize = 45;

/// Example: of `Configuration > Builder options > Options for LaTeX output > latex_show_urls` the last two are left.
fn last_headings(title: &str) -> &str {
    const BETWEEN: &str = " > ";
    let starts = title.match_indices(BETWEEN).map(|(at, _)| at + BETWEEN.len());
    let fits = |start: &usize| title.len() - start <= TITLE_BYTES;
    let last = title.rfind(BETWEEN).map_or(0, |at| at + BETWEEN.len());
    &title[[0].into_iter().chain(starts).find(fits).unwrap_or(last)..]
}

/// The quotes grouped by passage: within a passage in the order of the text, the passages in the order of
/// their best quotes.
fn by_passage(quotes: &[Quote]) -> Vec<Vec<&Quote>> {
    let mut passages: Vec<Vec<&Quote>> = Vec::new();
    for quote in quotes {
        match passages.iter_mut().find(|of_passage| of_passage[0].passage_id == quote.passage_id) {
            Some(of_passage) => of_passage.push(quote),
            None => passages.push(vec![quote]),
        }
    }
    passages.iter_mut().for_each(|of_passage| of_passage.sort_by_key(|quote| quote.range.start));
    passages
}

/// Removes blank lines and the indentation that all lines but the first have in common.
fn squeezed(quote: &str) -> String {
    let lines: Vec<&str> = quote.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines.iter().skip(1).map(depth).min().unwrap_or_default();
    let line = |(at, line): (usize, &&str)| line[if at == 0 { 0 } else { shared }..].to_owned();
    lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The quotes, best first, and the warning if they most likely do not answer the question.
pub(super) fn quotes(
    ctx: &Context<'_>,
    snapshot: &Snapshot<'_>,
    question: &str,
    passages: &[Candidate],
    wanted: &Wanted,
) -> Result<(Vec<Quote>, Option<&'static str>), Stop> {
    let sources: Vec<FoundText<'_>> = passages.iter().map(|candidate| candidate.source()).collect();
    let bytes = (wanted.max_quote_tokens * TOKEN_BYTES).min(QUOTE_CHARS_MAX);
    let most = QuoteLimits { quotes: wanted.max_quotes, bytes, sources: wanted.passages };
    let sight = sight(snapshot, &ctx.scope_name(None)?)?;
    let found = snapshot.section_windows(&sight, question, &sources, most, wanted.scoring)?;
    let mut unseen: HashMap<usize, Unseen> = HashMap::new();
    for source in found.quotes.iter().map(|quote| quote.source) {
        // The specification of `overlap` quotes the text as it is.
        let of_source = || match wanted.scoring {
            Scoring::Weighted => kenning_engine::unseen(&passages[source].kept.text),
            Scoring::Overlap => Unseen::default(),
        };
        unseen.entry(source).or_insert_with(of_source);
    }
    for source in unseen.keys() {
        let of_source = found.quotes.iter().filter(|quote| quote.source == *source);
        passages[*source].kept.was_read(read_together(of_source.map(|quote| &quote.range)));
    }
    let quote = |found: &kenning_engine::Quote| {
        let Candidate { handle, kept, .. } = &passages[found.source];
        let shown = |range: Range<usize>| unseen[&found.source].shown(&kept.text, range);
        let context_bytes = wanted.context_tokens * TOKEN_BYTES;
        let (before, after) = around(&kept.text, &found.range, context_bytes);
        let lead = kenning_engine::lead(&kept.text, found.range.start).filter(|_| context_bytes > 0);
        let lead = lead.map(|range| cut(&shown(range), context_bytes.max(CONTEXT_BYTES_MIN)));
        Quote {
            range: found.range.clone(),
            quote: shown(found.range.clone()),
            passage_id: handle.clone(),
            section_id: kept.section_id.clone(),
            title: kept.title.clone(),
            path: kept.path.clone(),
            uri: passage::uri(ctx, handle),
            confidence: (f64::from(found.share.clamp(0.0, 1.0)) * 1e3).round() / 1e3,
            // A line that leads to the quote is its context, even if it stands far before it.
            context_before: lead.clone().unwrap_or_else(|| shown(before)),
            context_after: shown(after),
            lead,
        }
    };
    let quotes = take_rows(found.quotes.iter().map(quote).collect(), ROWS_BYTES_MAX, |row| row);
    Ok((quotes, found.is_doubtful.then_some(DOUBT)))
}

/// What `kb.expand_excerpt` grows after these quotes of one passage, of which the first is the best: the best quote, and
/// those that one expansion by default would reach from it or from each other.
fn read_together<'a>(mut quotes: impl Iterator<Item = &'a Range<usize>>) -> Range<usize> {
    let Some(mut read) = quotes.next().cloned() else { return 0..0 };
    let mut others: Vec<&Range<usize>> = quotes.collect();
    let reach = bytes_for(TOKENS_DEFAULT as usize);
    while let Some(at) =
        others.iter().position(|other| other.start <= read.end + reach && read.start <= other.end + reach)
    {
        let other = others.swap_remove(at);
        read = read.start.min(other.start)..read.end.max(other.end);
    }
    read
}

/// The whole words directly before and after a quote, within `bytes` on each side.
fn around(text: &str, range: &Range<usize>, bytes: usize) -> (Range<usize>, Range<usize>) {
    let from = text.ceil_char_boundary(range.start.saturating_sub(bytes));
    let to = text.floor_char_boundary((range.end + bytes).min(text.len()));
    let (before, after) = (&text[from..range.start], &text[range.end..to]);
    let cut_before = match from {
        0 => 0,
        _ => before.find(char::is_whitespace).unwrap_or(0),
    };
    let cut_after = match to == text.len() {
        true => after.len(),
        false => after.rfind(char::is_whitespace).unwrap_or(after.len()),
    };
    (trimmed(text, from + cut_before..range.start), trimmed(text, range.end..range.end + cut_after))
}

/// The range without the blanks around it.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + part.len() - part.trim_start().len();
    start..start + part.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_shown_by_its_last_headings() {
        let long = "Options that control how long the program waits";
        for (title, shown) in [
            ("", ""),
            ("Short > Title", "Short > Title"),
            ("A > Configuration of the builder > Options for output > urls", "Options for output > urls"),
            (&format!("Reference > {long}"), long),
        ] {
            assert_eq!(last_headings(title), shown);
        }
    }

    #[test]
    fn quotes_near_each_other_are_expanded_together() {
        let together = |quotes: &[Range<usize>]| read_together(quotes.iter());
        assert_eq!(together(&[5000..5200, 4000..4500, 3300..3500, 9000..9100]), 3300..5200);
        assert_eq!(together(&[5000..5200, 1000..1200]), 5000..5200, "the best alone");
    }
}
