//! The tokenizer: the terms of stored texts and of questions. Identifiers give terms for the whole and for each part,
//! words are stemmed and in lower case, stop words are left out, and operators are terms where code is meant (`!=`,
//! "the ? operator").
//!
//! Example: `The getUserName call` gives the terms `getusernam get user name call`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use frostem::{Algorithm, Stemmer};
use rustc_hash::FxHashMap;

/// A longer identifier is a path or a hash, which nobody searches for as one word.
const JOINED_CHARS_MAX: usize = 40;
/// A longer run of letters is not a word of any language.
const WORD_BYTES_MAX: usize = 128;

/// Characters that join the parts of an identifier: `node.js`, `weka-fs`, `a::b`, `path/to`, `don't`.
const JOINERS: [char; 6] = ['.', '_', '-', '/', ':', '\''];

/// The characters of operators.
const SYMBOLS: &str = "!?=<>+-*/%&|^~@#$.:";
/// A longer run of symbols is a horizontal rule, or an arrow in a drawing.
const OPERATOR_CHARS_MAX: usize = 3;
/// Characters around code within a line.
const QUOTES: [char; 3] = ['`', '"', '\''];
/// Operators that count between blanks too. Other symbols between blanks are usually a dash, a bullet, a border or a sum.
const OPERATORS: [&str; 19] = [
    "?", "!=", "==", "===", "=>", "->", "<-", "&&", "||", "::", "..", "..=", "?.", "??", "+=", "<=", ">=",
    ":=", "|>",
];

const STOP_WORDS: &str = "a an and are as at be but by for if in into is it no not of on or such that the their then \
there these they this to was will with i me my we our you your he him his she her its them what which who whom whose am \
were been being have has had having do does did doing would should could can may might must shall from up down out off \
over under again further once here when where why how all any both each few more most other some only own same so than \
too very just about also because while during before after above below between through s t don d ll m re ve";

/// Stop words of German, French, Spanish, Italian, Portuguese and Dutch that are not English words. They are left out of
/// questions only: stored texts keep them, so that the content of an index does not depend on guessing a language.
const FOREIGN_STOP_WORDS: &str = "aber als auch auf aus bei beim bis damit das dass dem den der des doch dort durch ein eine \
einem einen einer eines für gegen haben ich ihr ihre ist jede jeder jedes kann kein keine können mehr müssen nach nicht noch \
nur oder ohne sehr sein seine sich sie sind soll sollen sollte über und uns unser unsere unter vom von vor wann warum was \
welche welchem welchen welcher welches wenn werden wie wieder wir wird wo wurde zu zum zur zwischen darf dürfen müssen muss \
à au aux avec ce ces cette dans du elle est et il ils je la le les leur lui mais même nous où ou par pas pour que quel \
quelle qui sa sans ses si sont sur une vous être comment quand el los las unos unas del al con sin para por como cómo cuál \
cuándo dónde qué está están hay más muy pero puede se su sus lo una un il lo gli dei delle della nel nella che di da con \
come quale quando dove perché non più sono è os um uma dos das em no na não como qual quando onde são é het een de van op \
te met voor niet zijn wordt hoe welke waar aan bij naar ook dan";
/// Stop words of these languages that are also English words. They are left out of a question only if it also has one of
/// the words above.
const FOREIGN_SHARED_WORDS: &str =
    "die war hat man mit so es am um an in hat bin gut son me per come una dare sole";

/// The terms of a text in order, without stop words.
pub fn terms(text: &str) -> Vec<Arc<str>> {
    let mut terms = Vec::with_capacity(text.len() / 6);
    each_run(text, |run| each_word(run, &mut |word| terms.extend(term(word))));
    terms
}

/// The stop words of a text, each once: a title may be made of nothing else ("The Who", "IT").
pub fn stop_words(text: &str) -> Vec<Arc<str>> {
    let mut found: Vec<Arc<str>> = Vec::new();
    each_run(text, |run| {
        each_word(run, &mut |word| {
            if is_stop_word(word) {
                found.push(stem(word));
            }
        });
    });
    found.sort();
    found.dedup();
    found
}

/// The terms of a question; see `question_words`.
pub fn question_terms(text: &str) -> Vec<Arc<str>> {
    question_words(text).into_iter().map(|word| word.term).collect()
}

/// A word of a question in lower case, and its term.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionWord {
    pub word: String,
    pub term: Arc<str>,
}

/// The words of a question in order, without stop words. A question that consists of stop words alone keeps them, and
/// finds titles.
pub fn question_words(text: &str) -> Vec<QuestionWord> {
    let (mut words, mut all) = (Vec::new(), Vec::new());
    each_run(text, |run| {
        each_word(run, &mut |word| match term(word) {
            Some(term) => words.push(QuestionWord { word: word.to_owned(), term }),
            None => all.push(QuestionWord { word: word.to_owned(), term: stem(word) }),
        });
    });
    leave_out_foreign(&mut words);
    if words.is_empty() { all } else { words }
}

/// Removes the stop words of other languages from a question, unless nothing else is left.
fn leave_out_foreign(words: &mut Vec<QuestionWord>) {
    static FOREIGN: LazyLock<[HashSet<&str>; 2]> = LazyLock::new(|| {
        [FOREIGN_STOP_WORDS, FOREIGN_SHARED_WORDS].map(|list| list.split_whitespace().collect())
    });
    let [foreign, shared] = &*FOREIGN;
    let is_foreign = words.iter().any(|word| foreign.contains(word.word.as_str()));
    let stays =
        |word: &QuestionWord| !foreign.contains(word.word.as_str()) && !shared.contains(word.word.as_str());
    if is_foreign && words.iter().any(stays) {
        words.retain(stays);
    }
}

/// The words for the vector of a question, in lower case and in order. Stop words are included, and identifiers are cut
/// at their joiners. Each word comes with its pieces, if it has any (`getUserName`: get, user, name).
pub(crate) fn meaning_words(text: &str) -> Vec<(String, Vec<String>)> {
    let mut words = Vec::new();
    each_run(text, |run| {
        if is_operator(run) {
            return;
        }
        for part in run.split(JOINERS).filter(|part| !part.is_empty()) {
            let pieces = pieces(part).iter().map(|piece| piece.to_lowercase()).collect();
            words.push((part.to_lowercase(), pieces));
        }
    });
    words
}

/// The term of a single word, whether or not it is a stop word.
pub fn term_of(word: &str) -> Arc<str> {
    stem(word)
}

pub(crate) fn is_stop(word: &str) -> bool {
    is_stop_word(word)
}

/// The words of a question that is meant as it is written: identifiers are kept as a whole.
pub fn written_words(text: &str) -> Vec<QuestionWord> {
    let mut written = Vec::new();
    each_run(text, |run| {
        let mut is_first = true;
        // The first word of a run is the whole run.
        each_word(run, &mut |word| {
            if std::mem::take(&mut is_first) || run.contains(is_unspaced) {
                written.push(QuestionWord { word: word.to_owned(), term: stem(word) });
            }
        });
    });
    written
}

/// The most words whose terms a thread caches. Ordinary texts of a language use fewer.
const KNOWN_MAX: usize = 100_000;

/// The term of a word; `None` for a stop word. The same words occur again and again, so their terms are
/// cached.
fn term(word: &str) -> Option<Arc<str>> {
    thread_local! {
        static KNOWN: RefCell<FxHashMap<String, Option<Arc<str>>>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(term) = known.get(word) {
            return term.clone();
        }
        let term = (!is_stop_word(word)).then(|| stem(word));
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(word.to_owned(), term.clone());
        term
    })
}

/// Passes each place of a text that has words to `found`, with those words. A place is a part of an
/// identifier, or the whole identifier with the words that none of its parts has by itself.
pub(crate) fn each_word_range(text: &str, mut found: impl FnMut(Range<usize>, &[String])) {
    let words_of = |run: &str| {
        let mut words = Vec::new();
        each_word(run, &mut |word| words.push(word.to_owned()));
        words
    };
    let place = |part: &str| {
        let start = part.as_ptr() as usize - text.as_ptr() as usize;
        start..start + part.len()
    };
    each_run(text, |run| {
        if run.contains(is_unspaced) {
            let mut places: Vec<(usize, usize, String)> = Vec::new();
            for word in words_of(run) {
                places.extend(run.match_indices(&word).map(|(at, _)| (at, at + word.len(), word.clone())));
            }
            places.sort();
            let start = place(run).start;
            for (from, to, word) in places {
                found(start + from..start + to, &[word]);
            }
            return;
        }
        if is_operator(run) {
            return found(place(run), &[run.to_owned()]);
        }
        let parts: Vec<&str> = run.split(JOINERS).filter(|part| !part.is_empty()).collect();
        let of_parts: Vec<Vec<String>> = parts.iter().map(|part| words_of(part)).collect();
        let whole: Vec<String> = words_of(run)
            .into_iter()
            .filter(|word| !of_parts.iter().flatten().any(|part| part == word))
            .collect();
        if !whole.is_empty() {
            found(place(run), &whole);
        }
        for (part, words) in parts.iter().zip(&of_parts) {
            found(place(part), words);
        }
    });
}

/// Passes each run to `found`: letters and digits with joiners inside, or an operator.
fn each_run(text: &str, mut found: impl FnMut(&str)) {
    let mut start = None;
    let mut end = 0;
    let mut last = '\n';
    for (at, c) in text.char_indices() {
        let before = std::mem::replace(&mut last, c);
        if SYMBOLS.contains(c) && (before == ' ' || QUOTES.contains(&before)) {
            if let Some(operator) = operator(text, at, before) {
                if let Some(from) = start.take() {
                    found(&text[from..end]);
                }
                found(operator);
            }
            continue;
        }
        if c.is_alphanumeric() {
            // One joiner continues the run, any other gap ends it.
            if let Some(from) = start
                && !is_joined(&text[end..at])
            {
                found(&text[from..end]);
                start = None;
            }
            start = start.or(Some(at));
            end = at + c.len_utf8();
        }
    }
    if let Some(from) = start {
        found(&text[from..end]);
    }
}

/// The operator that begins at `at`, after a blank or a quote. Between blanks an operator must have words on both sides in
/// its line.
fn operator(text: &str, at: usize, before: char) -> Option<&str> {
    let rest = &text[at..];
    let symbols = rest.bytes().take_while(|byte| SYMBOLS.as_bytes().contains(byte)).count();
    let operator = &rest[..symbols];
    let after = rest[symbols..].chars().next()?;
    if symbols > OPERATOR_CHARS_MAX {
        return None;
    }
    if before != ' ' {
        return (after == before).then_some(operator);
    }
    let is_in_line = || {
        let line_before = text[..at].trim_end_matches(' ');
        let line_after = rest[symbols..].trim_start_matches(' ');
        let is_end = |c: Option<char>| c.is_none_or(|c| c == '\n');
        !is_end(line_before.chars().next_back()) && !is_end(line_after.chars().next())
    };
    (after == ' ' && OPERATORS.contains(&operator) && is_in_line()).then_some(operator)
}

fn is_operator(run: &str) -> bool {
    run.starts_with(|c| SYMBOLS.contains(c))
}

fn is_joined(gap: &str) -> bool {
    // `a::b` is one identifier too.
    gap.is_empty() || gap == "::" || (gap.chars().count() == 1 && gap.starts_with(JOINERS))
}

/// Whether the character is of a script that is written without blanks between words.
pub(crate) fn is_unspaced(c: char) -> bool {
    // Thai to Khmer, Kana, Han, Hangul and the forms and extensions of Han.
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// In scripts without blanks between words, each pair of neighbouring characters is a word.
fn each_pair(run: &str, found: &mut dyn FnMut(&str)) {
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let is_pairs = is_unspaced(first);
        let end = rest.find(|c| is_unspaced(c) != is_pairs).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        if !is_pairs {
            each_word(piece.trim_matches(JOINERS), found);
            continue;
        }
        let starts: Vec<usize> = piece.char_indices().map(|(at, _)| at).chain([piece.len()]).collect();
        match starts.len() {
            2 => found(piece),
            _ => starts.windows(3).for_each(|pair| found(&piece[pair[0]..pair[2]])),
        }
    }
}

/// The words of a run in lower case, each once: the whole without its joiners, the parts between joiners, and the pieces
/// of the parts. Example: `my-HTTPServer` gives `myhttpserver`, `my`, `httpserver`, `http`, `server`.
fn each_word(run: &str, found: &mut dyn FnMut(&str)) {
    // The usual case: the run is a plain word.
    if run.bytes().all(|byte| byte.is_ascii_lowercase()) {
        if run.len() <= WORD_BYTES_MAX && !run.is_empty() {
            found(run);
        }
        return;
    }
    if is_operator(run) {
        return found(run);
    }
    if run.contains(is_unspaced) {
        return each_pair(run, found);
    }
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: String| {
        if !word.is_empty() && word.len() <= WORD_BYTES_MAX && !words.contains(&word) {
            words.push(word);
        }
    };
    let parts: Vec<&str> = run.split(JOINERS).filter(|part| !part.is_empty()).collect();
    if parts.len() > 1 && !run.contains('\'') {
        let joined = parts.concat();
        if joined.chars().count() <= JOINED_CHARS_MAX {
            add(joined.to_lowercase());
        }
    }
    for part in &parts {
        add(part.to_lowercase());
    }
    for part in parts {
        for piece in pieces(part) {
            if piece.chars().count() > 1 {
                add(piece.to_lowercase());
            }
        }
    }
    words.iter().for_each(|word| found(word));
}

/// Cuts `getUserName`, `HTTPServer` and `OAuth2` where letters change their case or digits begin; empty if nothing is cut.
fn pieces(part: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let chars: Vec<(usize, char)> = part.char_indices().collect();
    for (at, pair) in chars.windows(2).enumerate() {
        let ((_, before), (offset, after)) = (pair[0], pair[1]);
        let lower_to_upper = before.is_lowercase() && after.is_uppercase();
        let kind_changes = before.is_numeric() != after.is_numeric();
        // A single capital letter is not an acronym: `OAuth` is one word.
        let acronym_ends = before.is_uppercase()
            && after.is_uppercase()
            && at > 0
            && chars[at - 1].1.is_uppercase()
            && chars.get(at + 2).is_some_and(|(_, next)| next.is_lowercase());
        if lower_to_upper || kind_changes || acronym_ends {
            cuts.push(offset);
        }
    }
    if cuts.len() == 1 {
        return Vec::new();
    }
    cuts.push(part.len());
    cuts.windows(2).map(|cut| &part[cut[0]..cut[1]]).collect()
}

fn is_stop_word(word: &str) -> bool {
    static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
    STOP.contains(word)
}

fn stem(word: &str) -> Arc<str> {
    thread_local! {
        static STEMMER: Stemmer = Stemmer::new(Algorithm::English);
    }
    STEMMER.with(|stemmer| stemmer.stem(word).into())
}

#[cfg(test)]
mod tests {
    use super::{question_terms, terms};

    fn check(text: &str, expected: &str) {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }

    #[test]
    fn identifiers_are_found_by_whole_and_parts() {
        check("node.js", "nodej node js");
        check("weka-fs", "wekaf weka fs");
        check("getUserName", "getusernam get user name");
        check("OAuth2", "oauth2 oauth");
        check("HTTPServer", "httpserver http server");
        check("std::fs::read", "stdfsread std fs read");
        check("src/main.rs", "srcmainr src main rs");
    }

    #[test]
    fn case_endings_and_stop_words_do_not_matter() {
        check("The deployments were deployed", "deploy deploy");
        check("Don't deploy on Fridays.", "deploy friday");
        check("", "");
        check("… — !", "");
        assert_eq!(question_terms("what is it").join(" "), "what is it");
    }

    #[test]
    fn other_scripts_are_words_too() {
        check("Müller straße", "müller straße");
        check("версия 2", "версия 2");
        check("重启需要 Rust語 v2", "重启 启需 需要 rust 語 v2");
        check("ไทย한국어", "ไท ทย ย한 한국 국어");
    }

    #[test]
    fn operators_are_words_where_code_is_meant() {
        check("the ? operator", "? oper");
        check("What does `!=` mean, or \"->\"?", "!= mean ->");
        check("if a != b && c", "!= b && c");
        check("``|`` joins", "| join");
        // Marks in prose, lists, tables, rules and drawings are not operators.
        check("- one - two\n* three\n# four\n> five\n| six | seven |", "one two three four five six seven");
        check("really ? \nyes ?", "realli yes");
        check("a ==== b ----> c ... `x=1`", "b c x 1");
        check("Who's there? \"No!\" 'a'.", "");
    }
}
