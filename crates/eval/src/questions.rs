//! Questions about real trees of documentation, each with a pattern that a good answer matches, asked as an
//! agent would ask.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kenning_engine::{Embedder, Format};
use kenning_presentation::{Block, Reply};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::library::{Library, quoted};
use crate::set::lines;

/// One line of a file of questions.
#[derive(Clone, Deserialize)]
pub struct TreeQuestion {
    pub question: String,
    /// A regular expression that the answer matches without regard to case; `None` for a question that is off
    /// topic.
    #[serde(default)]
    pub pattern: Option<String>,
    pub tree: String,
    /// Whether the question is kept back until the end, so that nothing is fitted to it.
    #[serde(default)]
    pub unseen: bool,
    /// Whether the tree does not answer the question, so that the reply should say so.
    #[serde(default)]
    pub off_topic: bool,
}

impl TreeQuestion {
    pub fn read(file: &Path) -> anyhow::Result<Vec<TreeQuestion>> {
        lines(file)
    }
}

/// Shares of the questions, and the tokens of a reply's text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    pub questions: usize,
    pub off_topic: usize,
    pub in_quotes: f64,
    /// The share with the answer in the quotes, or in the text around the best quote, which takes a second
    /// call.
    pub in_two_calls: f64,
    /// The share of all questions for which the first hit of `kb.search` has no preview.
    pub empty_first_hits: f64,
    pub text_tokens_p50: usize,
    /// The share of the off-topic questions for which the reply expresses doubt.
    pub off_topic_told: f64,
    /// The share of the answered questions for which the reply expresses doubt all the same.
    pub answered_doubted: f64,
    /// The number of hits of wide searches that only the graph led to, and the number of them that contain
    /// the answer.
    pub graph_hits: usize,
    pub graph_hits_answer: usize,
}

/// The judged reply to one question.
pub struct JudgedReply {
    pub question: String,
    pub is_off_topic: bool,
    pub in_quotes: bool,
    pub in_two_calls: bool,
    pub is_doubted: bool,
    pub is_empty_first: bool,
    pub graph_hits: usize,
    pub graph_hits_answer: usize,
    pub text: String,
}

/// The number of hits requested to see what the graph adds.
const WIDE: usize = 10;

/// Ingests a tree and asks the questions.
pub fn ask_tree(
    tree: &Path,
    questions: &[TreeQuestion],
    embedder: Embedder,
) -> anyhow::Result<Vec<JudgedReply>> {
    let library = Library::new(embedder);
    for file in files_below(tree)? {
        let path = file.strip_prefix(tree)?.to_string_lossy().replace('\\', "/");
        let bytes = fs::read(&file).with_context(|| format!("{} can't be read", file.display()))?;
        // As with `kenning ingest`, a file that can't be ingested does not keep the others out.
        if let Err(error) = library.take_in(&path, &String::from_utf8_lossy(&bytes)) {
            eprintln!("{path}: {error}");
        }
    }
    questions.iter().map(|labelled| ask(&library, labelled)).collect()
}

fn ask(library: &Library, labelled: &TreeQuestion) -> anyhow::Result<JudgedReply> {
    let question = &labelled.question;
    let pattern = labelled.pattern.as_deref().map(answer).transpose()?;
    let is_in = |text: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    let reply = library.call("kb.retrieve_evidence", json!({"question": question}))?;
    let in_quotes = quoted(&reply).into_iter().any(is_in);
    let mut in_two_calls = in_quotes;
    if let (false, Some(passage)) = (in_quotes, reply.structured["quotes"][0]["passage_id"].as_str()) {
        let more = library.call("kb.expand_excerpt", json!({"passage_id": passage}))?;
        in_two_calls = more.structured["excerpt"].as_str().is_some_and(is_in);
    }
    let found = library.call("kb.search", json!({"query": question}))?;
    let first = &found.structured["results"][0];
    let wide = json!({"query": question, "top_k": WIDE, "options": {"max_per_doc": 0}});
    let over_graph = over_graph(library, &library.call("kb.search", wide)?)?;
    Ok(JudgedReply {
        question: question.clone(),
        is_off_topic: labelled.off_topic,
        in_quotes,
        in_two_calls,
        is_doubted: reply.structured.get("doubt").is_some(),
        is_empty_first: first["preview"].as_str().is_some_and(|preview| preview.trim().is_empty()),
        // Nothing answers a question that is off topic.
        graph_hits: if labelled.off_topic { 0 } else { over_graph.len() },
        graph_hits_answer: over_graph.iter().filter(|text| is_in(text)).count(),
        text: text_of(&reply),
    })
}

/// The texts of the sections that only the graph led to.
fn over_graph(library: &Library, found: &Reply) -> anyhow::Result<Vec<String>> {
    let hits = found.structured["results"].as_array().into_iter().flatten();
    let hits = hits.filter(|hit| hit["source"] == "graph_expanded");
    hits.map(|hit| library.section_text(hit)).collect()
}

fn answer(pattern: &str) -> anyhow::Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .build()
        .with_context(|| format!("`{pattern}` is no regular expression"))
}

/// The text that a host without structured content shows.
fn text_of(reply: &Reply) -> String {
    let text = |block: &Block| match block {
        Block::Text(text) | Block::Markdown(text) | Block::Plain(text) | Block::Hint(text) => {
            Some(text.clone())
        }
        _ => None,
    };
    reply.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// All files whose names are those of documents, in the order of their paths.
pub(crate) fn files_below(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(directory).with_context(|| format!("{} can't be read", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())?),
            kind if kind.is_file() && Format::of(&entry.path()).is_some() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    Ok(files)
}

impl Figures {
    pub fn of(got: &[JudgedReply]) -> Figures {
        let (off_topic, asked): (Vec<&JudgedReply>, Vec<&JudgedReply>) =
            got.iter().partition(|got| got.is_off_topic);
        let answered: Vec<&JudgedReply> = asked.iter().copied().filter(|got| got.in_quotes).collect();
        let mut tokens: Vec<usize> = asked.iter().map(|got| got.text.len().div_ceil(4)).collect();
        tokens.sort_unstable();
        let all: Vec<&JudgedReply> = got.iter().collect();
        Figures {
            questions: asked.len(),
            off_topic: off_topic.len(),
            in_quotes: share(&asked, |got| got.in_quotes),
            in_two_calls: share(&asked, |got| got.in_two_calls),
            empty_first_hits: share(&all, |got| got.is_empty_first),
            text_tokens_p50: tokens.get(tokens.len() / 2).copied().unwrap_or_default(),
            off_topic_told: share(&off_topic, |got| got.is_doubted),
            answered_doubted: share(&answered, |got| got.is_doubted),
            graph_hits: asked.iter().map(|got| got.graph_hits).sum(),
            graph_hits_answer: asked.iter().map(|got| got.graph_hits_answer).sum(),
        }
    }
}

fn share(got: &[&JudgedReply], is: fn(&JudgedReply) -> bool) -> f64 {
    got.iter().filter(|got| is(got)).count() as f64 / got.len().max(1) as f64
}
