//! The sentences that answer a question, out of the texts that were found. No model: the same question and the same
//! texts give the same quotes.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::lex;

/// What a term counts that stands not in the span but beside it, or in the title.
const BESIDE: f32 = 0.5;
/// What the first of the texts has before the others.
const PRIOR: f32 = 0.15;
/// A span of so many words is not taken for a scrap.
const WORDS_FULL: f32 = 16.0;

/// A text that was found, best first.
pub struct Source<'a> {
    pub title: &'a str,
    pub text: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// Which of the sources it is from, and where it stands there.
    pub source: usize,
    pub range: Range<usize>,
    pub score: f32,
    /// How much of the question it has, from 0 to 1.
    pub share: f32,
}

/// How much is quoted at most.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub quotes: usize,
    /// Of one quote.
    pub bytes: usize,
}

impl Default for Most {
    /// Six quotes of 80 tokens of four bytes.
    fn default() -> Most {
        Most { quotes: 6, bytes: 320 }
    }
}

/// A term of a question and how rare it is.
pub struct Rarity {
    pub term: Arc<str>,
    pub idf: f32,
}

/// The best spans of all sources, best first.
pub fn quotes(question: &[Rarity], sources: &[Source<'_>], most: Most) -> Vec<Quote> {
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

/// The plain measure: how many of the words of the question stand in a span, whatever they are worth. Words of three
/// letters or more, and part of another word counts too.
pub fn overlapping(question: &str, sources: &[Source<'_>], most: Most) -> Vec<Quote> {
    let question = question.to_lowercase();
    let words = question.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() >= 3);
    let words: HashSet<&str> = words.collect();
    let mut quotes = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for range in spans(source.text, most.bytes) {
            let span = source.text[range.clone()].to_lowercase();
            let has = words.iter().filter(|word| span.contains(**word)).count();
            let share = has as f32 / words.len().max(1) as f32;
            quotes.push(Quote { source: number, range, score: share, share });
        }
    }
    best(quotes, sources, most.quotes)
}

/// The best first, of equals the shorter, then the earlier. What says the same as a better one is left out, and so is what
/// has nothing of the question if there is one that has something.
fn best(mut quotes: Vec<Quote>, sources: &[Source<'_>], many: usize) -> Vec<Quote> {
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

/// Sentences, list items, rows of tables, and code as a whole, none longer than a quote may be.
fn spans(text: &str, bytes_max: usize) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    // What the code that a line stands in ends with.
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

/// A line that begins code, or ends it.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    marks: usize,
    /// Nothing else stands on the line.
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Fence> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let marks = line.len() - rest.len();
        (marks >= 3).then(|| Fence { mark, marks, is_bare: rest.trim().is_empty() })
    }

    /// Code may show fences that are shorter than its own.
    fn closes(&self, open: &Fence) -> bool {
        self.is_bare && self.mark == open.mark && self.marks >= open.marks
    }
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ ", "• "].iter().any(|bullet| line.starts_with(bullet))
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

/// Behind a mark that ends a sentence. `4.2.1` has no blank behind its dots, and `e.g. this` goes on.
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
        let word = line[..end].rsplit(char::is_whitespace).next().unwrap_or_default();
        let goes_on = GO_ON.contains(&word.trim_start_matches(['(', '"', '[']))
            || (word.len() == 2 && word.starts_with(char::is_uppercase));
        if closed.starts_with(char::is_whitespace) && !goes_on {
            ends.push(line.len() - closed.len());
        }
    }
    ends
}

/// Without blanks around it, and in pieces where it is too long: at commas and the like if there are any, else
/// between words.
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
        spans.push(rest.start..rest.start + piece[..end].trim_end().len());
        rest.start += end;
        rest.start += text[rest.clone()].len() - text[rest.clone()].trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<&str> {
        spans(text, Most::default().bytes).into_iter().map(|range| &text[range]).collect()
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
                "|---|---|",
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
        assert!(shown(&long).iter().all(|span| span.len() <= Most::default().bytes && !span.is_empty()));
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
        let sources = [Source { title: "Deploying", text: &text }];
        let found = quotes(&question, &sources, Most { quotes: 2, ..Most::default() });
        assert!(text[found[0].range.clone()].starts_with("A rollback"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_was_said_already_and_what_has_nothing_of_the_question_is_left_out() {
        let sources = ["Ports are open. The port is 80.", "The  PORT is 80. It says so. Nothing here."]
            .map(|text| Source { title: "", text });
        let question = [Rarity { term: "port".into(), idf: 1.0 }];
        let texts = |quotes: Vec<Quote>| -> Vec<String> {
            quotes.iter().map(|quote| sources[quote.source].text[quote.range.clone()].to_owned()).collect()
        };
        let mut said = texts(quotes(&question, &sources, Most::default()));
        said.sort();
        assert_eq!(
            said,
            ["It says so.", "Ports are open.", "The port is 80."],
            "what is beside it may go on"
        );
        let mut said = texts(overlapping("port", &sources, Most::default()));
        said.sort();
        assert_eq!(said, ["Ports are open.", "The port is 80."]);
    }
}
