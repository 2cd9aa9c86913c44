//! Chooses the sentences that answer a question from the texts that a search found. It uses no model: the
//! same question and the same texts give the same quotes.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::lex;
use crate::unseen::Unseen;

/// The weight of a term that is not in the span but next to it, or in the title.
const BESIDE: f32 = 0.5;
/// The bonus of the first text; later texts get less.
const PRIOR: f32 = 0.15;
/// A span with this number of words gets its full score; a shorter one may be a fragment.
const WORDS_FULL: f32 = 16.0;

/// A text that a search found. Sources are given best first.
#[derive(Default)]
pub struct FoundText<'a> {
    pub title: &'a str,
    pub text: &'a str,
    /// How well its passages fit the question according to the search, from 0 to 1 for the best of all; empty
    /// if not known.
    pub fits: Vec<PassageScore>,
}

/// How well a part of a text fits a question.
#[derive(Clone, Debug)]
pub struct PassageScore {
    pub range: Range<usize>,
    pub score: f32,
}

impl<'a> FoundText<'a> {
    pub fn new(title: &'a str, text: &'a str) -> FoundText<'a> {
        FoundText { title, text, fits: Vec::new() }
    }
}

impl PassageScore {
    /// The share of the given range that lies within this one.
    pub(crate) fn share_of(&self, range: &Range<usize>) -> f32 {
        let common = self.range.end.min(range.end).saturating_sub(self.range.start.max(range.start));
        common as f32 / range.len().max(1) as f32
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// The number of the source, and the range in its text.
    pub source: usize,
    pub range: Range<usize>,
    pub score: f32,
    /// The share of the question that the quote covers, from 0 to 1.
    pub share: f32,
}

/// Upper bounds for what is quoted.
#[derive(Clone, Copy, Debug)]
pub struct QuoteLimits {
    pub quotes: usize,
    /// The most bytes in one quote.
    pub bytes: usize,
    /// The most sources that are quoted.
    pub sources: usize,
}

impl Default for QuoteLimits {
    /// Six quotes of 80 tokens of four bytes.
    fn default() -> QuoteLimits {
        QuoteLimits { quotes: 6, bytes: 320, sources: usize::MAX }
    }
}

/// A term of a question and how rare it is.
pub struct Rarity {
    pub term: Arc<str>,
    pub idf: f32,
}

/// The best spans of all sources, best first.
pub fn quotes(question: &[Rarity], sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let whole = question.iter().map(|rarity| rarity.idf).sum::<f32>().max(f32::MIN_POSITIVE);
    let mut quotes = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let title: HashSet<Arc<str>> = lex::terms(source.title).into_iter().collect();
        let ranges = spans(source.text, most.bytes);
        let terms: Vec<HashSet<Arc<str>>> = ranges
            .iter()
            .map(|range| lex::terms(&source.text[range.clone()]).into_iter().collect())
            .collect();
        for (at, range) in ranges.into_iter().enumerate() {
            let beside =
                [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| terms.get(at));
            let beside: Vec<&HashSet<Arc<str>>> = beside.chain([&title]).collect();
            let share = |rarity: &Rarity| match terms[at].contains(&rarity.term) {
                true => rarity.idf,
                false if beside.iter().any(|terms| terms.contains(&rarity.term)) => BESIDE * rarity.idf,
                false => 0.0,
            };
            let overlap = question.iter().map(share).sum::<f32>() / whole;
            let words = source.text[range.clone()].split_whitespace().count() as f32;
            let score = (overlap + PRIOR / (1 + number) as f32) * (0.5 + words / WORDS_FULL).min(1.0);
            quotes.push(Quote { source: number, range, score, share: overlap });
        }
    }
    best(quotes, sources, most.quotes)
}

/// The line above a position without which the text there can't be understood: the header of a table for its
/// rows, the line that ends in a colon for the items of a list, the term or directive for the text indented
/// below it.
pub fn lead(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let first = text[start..].lines().next().unwrap_or_default();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let is_row = |line: &str| line.trim_start().starts_with('|');
    let mut lead: Option<Range<usize>> = None;
    let mut end = start;
    while end > 0 {
        let from = text[..end - 1].rfind('\n').map_or(0, |at| at + 1);
        let line = &text[from..end - 1];
        let range = from + depth(line)..from + line.trim_end().len();
        end = from;
        if is_row(first) {
            if !is_row(line) {
                break;
            }
            lead = Some(range);
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let is_list = is_item(first.trim_start()) && depth(line) <= depth(first);
        if is_list && (is_item(line.trim_start()) || depth(line) > 0 && depth(line) >= depth(first)) {
            continue;
        }
        let leads = if is_list { line.trim_end().ends_with(':') } else { depth(line) < depth(first) };
        if leads || depth(line) <= depth(first) {
            return leads.then_some(range);
        }
    }
    lead
}

/// The overlap score, exactly as the specification defines it: how many of the question's words of three or
/// more letters occur in a span, each with the same weight, also as parts of other words. Of equal scores the
/// shorter span comes first, then the earlier.
pub fn overlapping(question: &str, sources: &[FoundText<'_>], most: QuoteLimits) -> Vec<Quote> {
    let question = question.to_lowercase();
    let words: HashSet<&str> = words(&question).filter(|word| word.chars().count() >= 3).collect();
    let mut quotes = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for range in plain_spans(source.text) {
            let span = source.text[range.clone()].to_lowercase();
            let has = words.iter().filter(|word| span.contains(**word)).count();
            let share = has as f32 / words.len().max(1) as f32;
            quotes.push(Quote { source: number, range, score: share, share });
        }
    }
    quotes.sort_by(|a, b| {
        let place = |quote: &Quote| (quote.range.len(), quote.source, quote.range.start);
        b.score.total_cmp(&a.score).then(place(a).cmp(&place(b)))
    });
    quotes.truncate(most.quotes);
    for quote in &mut quotes {
        let text = &sources[quote.source].text[quote.range.clone()];
        quote.range.end = quote.range.start + text.floor_char_boundary(most.bytes.min(text.len()));
    }
    quotes
}

/// The words of a text, as they are written.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

/// Fenced code as a whole; other text is cut at blank lines, bullets, and marks that end a sentence and are
/// followed by a blank.
fn plain_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut push = |range: Range<usize>| {
        let span = &text[range.clone()];
        let start = range.start + span.len() - span.trim_start().len();
        if !span.trim().is_empty() {
            spans.push(start..start + span.trim().len());
        }
    };
    let (mut start, mut line_start, mut is_code) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let (trimmed, line_end) = (line.trim_start(), line_start + line.len());
        let is_fence = trimmed.starts_with("```");
        if !is_code && (trimmed.is_empty() || is_fence || is_item(trimmed)) {
            push(start..line_start);
            start = line_start;
        }
        if is_fence && is_code {
            push(start..line_end);
            start = line_end;
        } else if !is_fence && !is_code {
            // The dot after the number of a numbered item is part of the bullet and ends no sentence.
            let bullet = line.len() - trimmed.len()
                + if is_item(trimmed) { trimmed.find(' ').unwrap_or(0) } else { 0 };
            let ends = line.char_indices().zip(line.chars().skip(1).chain(['\n']));
            for ((at, mark), next) in ends {
                if matches!(mark, '.' | '?' | '!') && next.is_whitespace() && at >= bullet {
                    push(start..line_start + at + 1);
                    start = line_start + at + 1;
                }
            }
        }
        is_code ^= is_fence;
        line_start = line_end;
    }
    push(start..text.len());
    spans
}

/// The best quotes, best first; of equal scores the shorter, then the earlier. A repetition of a better quote
/// is left out. Quotes that share nothing with the question are left out if any quote shares something.
fn best(mut quotes: Vec<Quote>, sources: &[FoundText<'_>], many: usize) -> Vec<Quote> {
    if quotes.iter().any(|quote| quote.share > 0.0) {
        quotes.retain(|quote| quote.share > 0.0);
    }
    quotes.sort_by(|a, b| {
        let (length, other) = (a.range.len(), b.range.len());
        b.score
            .total_cmp(&a.score)
            .then(length.cmp(&other))
            .then((a.source, a.range.start).cmp(&(b.source, b.range.start)))
    });
    let mut said: HashSet<String> = HashSet::new();
    let mut chosen = Vec::new();
    for quote in quotes {
        if chosen.len() == many {
            break;
        }
        let text = &sources[quote.source].text[quote.range.clone()];
        if said.insert(text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()) {
            chosen.push(quote);
        }
    }
    chosen
}

/// Sentences, list items, rows of tables, and code as a whole.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    spans(text, usize::MAX)
}

/// Sentences, list items, rows of tables, and code as a whole; each is cut so that it is no longer than a
/// quote may be.
pub(crate) fn spans(text: &str, bytes_max: usize) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    // The fence of the code that the line is in, if it is in code.
    let mut in_code: Option<Fence> = None;
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let line_end = line_start + line.len();
        let trimmed = line.trim_start();
        let fence = Fence::of(trimmed);
        let is_row = trimmed.starts_with('|');
        let begins_anew =
            trimmed.is_empty() || is_item(trimmed) || trimmed.starts_with('#') || is_row || fence.is_some();
        if begins_anew && in_code.is_none() {
            push(text, start..line_start, bytes_max, &mut spans);
            start = line_start;
        }
        let ends_code = in_code.is_some_and(|open| fence.is_some_and(|fence| fence.closes(&open)));
        match in_code {
            _ if ends_code => in_code = None,
            None => in_code = fence,
            Some(_) => {}
        }
        if ends_code || (is_row && in_code.is_none()) {
            push(text, start..line_end, bytes_max, &mut spans);
            start = line_end;
        } else if in_code.is_none() {
            for end in sentence_ends(line) {
                push(text, start..line_start + end, bytes_max, &mut spans);
                start = line_start + end;
            }
        }
        line_start = line_end;
    }
    push(text, start..text.len(), bytes_max, &mut spans);
    spans
}

/// What a reader of the text does not see.
pub fn unseen(text: &str) -> Unseen {
    let mut code: Vec<Range<usize>> = Vec::new();
    let mut open: Option<(usize, Fence)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match (open, Fence::of(line.trim_start())) {
            (None, Some(fence)) => open = Some((start, fence)),
            (Some((from, opening)), Some(fence)) if fence.closes(&opening) => {
                code.push(from..end);
                open = None;
            }
            _ => {}
        }
        start = end;
    }
    code.extend(open.map(|(from, _)| from..text.len()));
    Unseen::new(text, &code)
}

/// A line that begins or ends a block of code.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    marks: usize,
    /// Whether the line has nothing but the marks.
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Fence> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let marks = line.len() - rest.len();
        (marks >= 3).then(|| Fence { mark, marks, is_bare: rest.trim().is_empty() })
    }

    /// Whether this line ends the code that `open` began. A block of code may contain shorter fences.
    fn closes(&self, open: &Fence) -> bool {
        self.is_bare && self.mark == open.mark && self.marks >= open.marks
    }
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ ", "• "].iter().any(|bullet| line.starts_with(bullet))
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

/// The positions after marks that end a sentence. The dots in `4.2.1` are followed by no blank, and
/// `e.g. this` continues.
fn sentence_ends(line: &str) -> Vec<usize> {
    const GO_ON: [&str; 16] = [
        "e.g.", "i.e.", "etc.", "vs.", "cf.", "Mr.", "Mrs.", "Dr.", "St.", "No.", "Fig.", "al.", "approx.",
        "Inc.", "Ltd.", "U.S.",
    ];
    let mut ends = Vec::new();
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        if matches!(c, '。' | '！' | '？') {
            ends.push(end);
        }
        if !matches!(c, '.' | '?' | '!') {
            continue;
        }
        let closed = line[end..].trim_start_matches(['"', '\'', ')', ']', '”', '’']);
        // This is checked first, so that no word is read again for each of its marks.
        if !closed.starts_with(char::is_whitespace) {
            continue;
        }
        let word = line[..end].rsplit(char::is_whitespace).next().unwrap_or_default();
        let bare = word.trim_start_matches(['(', '"', '[']);
        let goes_on =
            GO_ON.iter().any(|known| known.eq_ignore_ascii_case(bare) && (*known != "No." || bare == *known))
                || (word.len() == 2 && word.starts_with(char::is_uppercase));
        if !goes_on {
            ends.push(line.len() - closed.len());
        }
    }
    ends
}

/// Adds a range without the blanks around it. A range that is too long is cut: after a comma, semicolon or
/// line break if there is one in the later part, else between words.
fn push(text: &str, range: Range<usize>, bytes_max: usize, spans: &mut Vec<Range<usize>>) {
    let blank = |side: &str| range.len() - side.len();
    let span = &text[range.clone()];
    let mut rest = range.start + blank(span.trim_start())..range.end - blank(span.trim_end());
    while rest.start < rest.end {
        let piece = &text[rest.clone()];
        let mut end = piece.len();
        if end > bytes_max {
            let first = piece.chars().next().map_or(1, char::len_utf8);
            let room = &piece[..piece.floor_char_boundary(bytes_max).max(first)];
            let cut = |marks: &[char]| room.rfind(marks).filter(|at| *at > bytes_max / 3).map(|at| at + 1);
            end = cut(&[';', ',', '\n']).or_else(|| cut(&[' '])).unwrap_or(room.len());
        }
        // A piece without letters or digits, such as a horizontal rule, is left out.
        if piece[..end].contains(char::is_alphanumeric) {
            spans.push(rest.start..rest.start + piece[..end].trim_end().len());
        }
        rest.start += end;
        rest.start += text[rest.clone()].len() - text[rest.clone()].trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<&str> {
        spans(text, QuoteLimits::default().bytes).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn texts_are_cut_where_a_reader_would() {
        let text = "Version 4.2.1 is out, e.g. for Linux. It runs!\n\n- one item\n- two items. More.\n```\nlet a = 1. ;\n\nb\n```\nEnd";
        assert_eq!(
            shown(text),
            [
                "Version 4.2.1 is out, e.g. for Linux.",
                "It runs!",
                "- one item",
                "- two items.",
                "More.",
                "```\nlet a = 1. ;\n\nb\n```",
                "End"
            ]
        );
        assert_eq!(
            shown(
                "See Fig. 3 of J. Smith et al. for more (approx. 3.5 s). Is `a.b()` enough? \"Yes.\" No. 5 is not."
            ),
            [
                "See Fig. 3 of J. Smith et al. for more (approx. 3.5 s).",
                "Is `a.b()` enough?",
                "\"Yes.\"",
                "No. 5 is not."
            ]
        );
        let table = "Limits. These hold:\n| name | what |\n|---|---|\n| `max` | 5. Larger ones are refused. |\nAfter it.";
        assert_eq!(
            shown(table),
            [
                "Limits.",
                "These hold:",
                "| name | what |",
                "| `max` | 5. Larger ones are refused. |",
                "After it."
            ]
        );
        let code = "Run it. Now.\n~~~sh\n# a comment. Two.\n```\n- no item\n| no row\n~~~\nDone. All.";
        assert_eq!(
            shown(code),
            ["Run it.", "Now.", "~~~sh\n# a comment. Two.\n```\n- no item\n| no row\n~~~", "Done.", "All."]
        );
        let nested = "Write:\n````md\n```sh\nrun. it.\n```\n````\nDone.";
        assert_eq!(shown(nested), ["Write:", "````md\n```sh\nrun. it.\n```\n````", "Done."]);
        assert_eq!(shown("Open.\n```\nnever. closed."), ["Open.", "```\nnever. closed."]);
        assert_eq!(
            shown("重启需要五分钟。请等待！好了吗？是的"),
            ["重启需要五分钟。", "请等待！", "好了吗？", "是的"]
        );
        let long = "many words, ".repeat(100);
        assert!(
            shown(&long).iter().all(|span| span.len() <= QuoteLimits::default().bytes && !span.is_empty())
        );
        assert!(shown(&"ü".repeat(1000)).concat() == "ü".repeat(1000));
        assert_eq!(shown(" \n\n "), Vec::<&str>::new());
    }

    #[test]
    fn the_sentence_that_answers_comes_first_wherever_it_stands() {
        let filler = "Deployments are described in the handbook. ".repeat(20);
        let text = format!("{filler}A rollback takes nine minutes on the old cluster.");
        let question: Vec<Rarity> = lex::question_terms("how long does a rollback take?")
            .into_iter()
            .map(|term| Rarity { term, idf: 2.0 })
            .collect();
        let sources = [FoundText::new("Deploying", &text)];
        let found = quotes(&question, &sources, QuoteLimits { quotes: 2, ..QuoteLimits::default() });
        assert!(text[found[0].range.clone()].starts_with("A rollback"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_was_said_already_and_what_has_nothing_of_the_question_is_left_out() {
        let sources = ["Ports are open. The port is 80.", "The  PORT is 80. It says so. Nothing here."]
            .map(|text| FoundText::new("", text));
        let question = [Rarity { term: "port".into(), idf: 1.0 }];
        let texts = |quotes: Vec<Quote>| -> Vec<String> {
            quotes.iter().map(|quote| sources[quote.source].text[quote.range.clone()].to_owned()).collect()
        };
        let mut said = texts(quotes(&question, &sources, QuoteLimits::default()));
        said.sort();
        assert_eq!(
            said,
            ["It says so.", "Ports are open.", "The port is 80."],
            "what is beside it may go on"
        );
    }

    #[test]
    fn the_plain_measure_is_that_of_the_specification() {
        let text =
            "E.g. a port. Is it open? Yes\n- the port is 80\n1. no. Ports!\n\n```\nport. 1.\n\nx\n```\nEnd";
        let spans: Vec<&str> = plain_spans(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(
            spans,
            [
                "E.g.",
                "a port.",
                "Is it open?",
                "Yes",
                "- the port is 80",
                "1. no.",
                "Ports!",
                "```\nport. 1.\n\nx\n```",
                "End"
            ]
        );
        let sources = [FoundText::new("", text)];
        let found = overlapping(
            "Which PORT is it?",
            &sources,
            QuoteLimits { quotes: 4, bytes: 10, ..QuoteLimits::default() },
        );
        let shown: Vec<(&str, f32)> =
            found.iter().map(|quote| (&text[quote.range.clone()], quote.share)).collect();
        assert_eq!(shown, [("Ports!", 0.5), ("a port.", 0.5), ("- the port", 0.5), ("```\nport. ", 0.5)]);
    }

    #[test]
    fn what_stands_alone_has_a_lead() {
        let text = "Rules:\n\n- one\n- two\n\n| size | time |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n.. confval:: cache\n\n   Default: 5\n\nPlain.";
        let lead_of =
            |words: &str| lead(text, text.find(words).expect("it is there")).map(|range| &text[range]);
        assert_eq!(lead_of("- two"), Some("Rules:"));
        assert_eq!(lead_of("| 3"), Some("| size | time |"));
        assert_eq!(lead_of("Default"), Some(".. confval:: cache"));
        assert_eq!(lead_of("Plain"), None);
        assert_eq!(lead_of("Rules"), None);
    }
}
