//! Questions about documentation: about Kenning's own, with its sections as entries; and about that and the
//! handbook of another product, as documents through the tools.

use std::collections::HashMap;
use std::path::Path;

use kenning_engine::Embedder;
use kenning_eval::{LabelledQuestion, Library, Set, Text, answers, evaluate, quoted};
use serde_json::{Value, json};

const PAGES: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/tools.md",
    "docs/errors.md",
    "docs/config.md",
    "docs/figures.md",
    "docs/retrieval-playbook.md",
];
const RECALL_5_MIN: f64 = 0.9;
const NDCG_MIN: f64 = 0.7;

/// The pages of `tests/handbook`.
const HANDBOOK: [&str; 7] = [
    "install.md",
    "configuration.md",
    "clients.md",
    "release-notes.md",
    "operations/backup.md",
    "operations/upgrade.md",
    "operations/troubleshooting.md",
];
const ANSWERED_MIN: f64 = 0.9;
const FIRST_MIN: f64 = 0.75;
/// The bound for the tokens of all calls for one question together.
const TOKENS_MAX: usize = 2_000;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sections of a page, each with its heading as the title.
fn sections(page: &str) -> Vec<Text> {
    let text = read(&Path::new("../..").join(page));
    let mut sections: Vec<Text> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#').trim();
        if line.starts_with('#') && !in_code {
            let id = format!("{page} > {heading}");
            let title = heading.to_owned();
            sections.push(Text { id, title, text: String::new(), scope: String::new(), doc: None });
        } else if let Some(section) = sections.last_mut() {
            section.text.push_str(line);
            section.text.push('\n');
        }
    }
    sections.retain(|section| !section.text.trim().is_empty());
    sections
}

#[test]
fn questions_about_kenning_find_the_section_that_answers() {
    let texts: Vec<Text> = PAGES.iter().flat_map(|page| sections(page)).collect();
    let questions = include_str!("questions.tsv").lines().map(|line| {
        let (text, section) = line.split_once('\t').expect("a question and its section");
        assert!(texts.iter().any(|text| text.id == section), "there is no section `{section}`");
        let relevant = HashMap::from([(section.to_owned(), 1.0)]);
        LabelledQuestion {
            id: text.to_owned(),
            text: text.to_owned(),
            scope: None,
            answers: Vec::new(),
            relevant,
        }
    });
    let questions = questions.collect();
    let scores = evaluate(&Set { texts, questions }, Embedder::default(), false).expect("it can be asked");
    eprintln!("own documentation: nDCG@10 {:.3}, recall@5 {:.3}", scores.ndcg, scores.recall_5);
    assert!(scores.recall_5 >= RECALL_5_MIN, "recall@5 is {:.3}", scores.recall_5);
    assert!(scores.ndcg >= NDCG_MIN, "nDCG@10 is {:.3}", scores.ndcg);
}

/// All documents that the questions are about, ingested as files.
fn library() -> Library {
    let library = Library::new(Embedder::default());
    let own = PAGES.iter().map(|page| (Path::new("../..").join(page), page.to_string()));
    let handbook =
        HANDBOOK.iter().map(|page| (Path::new("tests/handbook").join(page), format!("handbook/{page}")));
    for (file, path) in own.chain(handbook) {
        library.take_in(&path, &read(&file)).expect("it is taken in");
    }
    library
}

/// The judged replies to a question, and their cost.
struct JudgedReply {
    in_quotes: bool,
    in_two_calls: bool,
    is_first: bool,
    tokens: usize,
}

/// Asks for quotes; if they lack the answer, also for the text around the best of them, as an agent would.
fn ask(library: &Library, question: &str, path: &str, answer: &str) -> JudgedReply {
    let tokens = |structured: &Value| structured.to_string().len().div_ceil(4);
    let answer = [answer.to_owned()];
    let reply = library.call("kb.retrieve_evidence", json!({"question": question})).expect("a reply");
    let in_quotes = answers(&quoted(&reply), &answer);
    let quotes = &reply.structured["quotes"];
    let paths = library.paths(quotes).expect("quotes name their sections");
    let mut got = JudgedReply {
        in_quotes,
        in_two_calls: in_quotes,
        is_first: paths.first().is_some_and(|first| first == path),
        tokens: tokens(&reply.structured),
    };
    if let (false, Some(passage)) = (in_quotes, quotes[0]["passage_id"].as_str()) {
        let more = library.call("kb.expand_excerpt", json!({"passage_id": passage})).expect("a reply");
        let excerpt = more.structured["excerpt"].as_str().unwrap_or_default();
        got.in_two_calls = answers(&[excerpt], &answer);
        got.tokens += tokens(&more.structured);
    }
    got
}

#[test]
fn answers_come_in_two_calls_and_few_tokens() {
    let library = library();
    let mut all = Vec::new();
    for line in include_str!("answers.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [question, path, answer] = fields[..] else { panic!("`{line}`: question, document, answer") };
        let got = ask(&library, question, path, answer);
        assert!(got.tokens <= TOKENS_MAX, "{question}: {} tokens", got.tokens);
        if !got.in_quotes || !got.is_first {
            let JudgedReply { in_quotes, in_two_calls, is_first, .. } = got;
            eprintln!("{question}: in quotes {in_quotes}, in two calls {in_two_calls}, first {is_first}");
        }
        all.push(got);
    }
    let share =
        |is: fn(&JudgedReply) -> bool| all.iter().filter(|got| is(got)).count() as f64 / all.len() as f64;
    let (in_quotes, in_two_calls) = (share(|got| got.in_quotes), share(|got| got.in_two_calls));
    let first = share(|got| got.is_first);
    let mut tokens: Vec<usize> = all.iter().map(|got| got.tokens).collect();
    tokens.sort_unstable();
    eprintln!(
        "{} questions: answered by quotes {in_quotes:.3}, in two calls {in_two_calls:.3}; first quote from the right \
         document {first:.3}; tokens p50 {}, most {}",
        all.len(),
        tokens[tokens.len() / 2],
        tokens[tokens.len() - 1],
    );
    assert!(in_two_calls >= ANSWERED_MIN, "{in_two_calls:.3} are answered");
    assert!(first >= FIRST_MIN, "{first:.3} have the right document first");
}
