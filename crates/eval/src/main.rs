//! `kenning-eval [--evidence] [--documents each|joined] DIR… [--json FILE]`: how well search finds what it should.
//! `kenning-eval --questions FILE --tree DIR [--unseen] [--misses]`: how well documentation answers questions about itself.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use kenning_engine::Embedder;
use kenning_eval::{
    Conversations, Figures, Files, Organisation, Scores, Set, Specific, TreeQuestion, Unit, ask_catalogue,
    ask_tree, evaluate, evaluate_conversations, evaluate_documents, evaluate_recall, evaluate_recall_hook,
};
use serde_json::json;

/// Measure search on labelled sets (corpus.jsonl, queries.jsonl, qrels.tsv)
#[derive(Parser)]
struct Arguments {
    /// Folders, one set each
    #[arg(required_unless_present_any = ["questions", "catalogue", "recall", "conversations"])]
    sets: Vec<PathBuf>,
    /// Ask the questions of this file (JSON lines: question, pattern, tree) of the documents of a tree
    #[arg(long, requires = "tree", conflicts_with = "sets")]
    questions: Option<PathBuf>,
    /// Ask the questions of this file (JSON: question, ids) of the catalogue of patterns in a tree
    #[arg(long, requires = "tree", conflicts_with_all = ["sets", "questions"])]
    catalogue: Option<PathBuf>,
    /// The directory whose documents the questions are about; only questions of its name are asked
    #[arg(long)]
    tree: Option<PathBuf>,
    /// Ask only the questions that are kept back until the end
    #[arg(long)]
    unseen: bool,
    /// Print the replies that lack the answer, and what is doubted or not
    #[arg(long)]
    misses: bool,
    /// Ask for the tasks of these organisations (`crates/eval/recall/*.json`), and count the rules that come
    #[arg(long, value_name = "FILE", num_args = 1..)]
    recall: Vec<PathBuf>,
    /// With `--recall`: count what comes beside a prompt by the hook alone, without a call of the agent
    #[arg(long, requires = "recall")]
    recall_hook: bool,
    /// Store these conversations (`crates/eval/recall/conversations.json`) by turn, by six turns and by session, and count the
    /// answers that stand in the text
    #[arg(long, value_name = "FILE")]
    conversations: Option<PathBuf>,
    /// With `--recall`: how many entries other namespaces have
    #[arg(long, default_value_t = 0)]
    others: usize,
    /// Also measure whether the sentences that would be quoted have the answer in them
    #[arg(long)]
    evidence: bool,
    /// Take the texts in as files, and search and quote with the tools for documents
    #[arg(long, value_name = "FILES")]
    documents: Option<Files>,
    /// Also write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Judge meaning by the sentence encoder in this directory
    #[cfg(feature = "minilm")]
    #[arg(long)]
    model_dir: Option<PathBuf>,
}

impl Arguments {
    #[cfg(feature = "minilm")]
    fn embedder(&self) -> anyhow::Result<Embedder> {
        Ok(self.model_dir.as_deref().map(Embedder::minilm).transpose()?.unwrap_or_default())
    }

    #[cfg(not(feature = "minilm"))]
    fn embedder(&self) -> anyhow::Result<Embedder> {
        Ok(Embedder::default())
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let (Some(questions), Some(tree)) = (&arguments.questions, &arguments.tree) {
        return ask_questions(&arguments, questions, tree);
    }
    if let (Some(questions), Some(tree)) = (&arguments.catalogue, &arguments.tree) {
        return ask_patterns(&arguments, questions, tree);
    }
    if let Some(path) = &arguments.conversations {
        let set = Conversations::read(path)?;
        for (name, unit, follows) in [
            ("one turn", Unit::Turns(1), false),
            ("one turn, each follows the last", Unit::Turns(1), true),
            ("six turns", Unit::Turns(6), false),
            ("six turns, each follows the last", Unit::Turns(6), true),
            ("a session", Unit::Session, false),
        ] {
            let scores = evaluate_conversations(&set, unit, follows, arguments.unseen)?;
            println!("{name}: {}", serde_json::to_string(&scores)?);
        }
    }
    for path in &arguments.recall {
        let organisation = Organisation::read(path)?;
        if arguments.recall_hook {
            let scores = evaluate_recall_hook(&organisation, arguments.unseen)?;
            println!("{}: {}", organisation.name, serde_json::to_string(&scores)?);
            scores.missed.iter().filter(|_| arguments.misses).for_each(|missed| println!("  {missed}"));
            continue;
        }
        let scores = evaluate_recall(&organisation, arguments.unseen, arguments.others)?;
        println!("{}: {}", organisation.name, serde_json::to_string(&scores)?);
        scores.missed.iter().filter(|_| arguments.misses).for_each(|missed| println!("  {missed}"));
    }
    if arguments.sets.is_empty() {
        return Ok(());
    }
    let mut figures: BTreeMap<String, Scores> = BTreeMap::new();
    println!("set                     nDCG@10 [95 %]         R@5    R@10   MRR    p50 µs   p99 µs  evidence");
    for dir in &arguments.sets {
        let name = dir.file_name().context("a set is a folder")?.to_string_lossy().into_owned();
        let (set, embedder) = (Set::read(dir)?, arguments.embedder()?);
        let scores = match arguments.documents {
            Some(files) => evaluate_documents(&set, embedder, files)?,
            None => evaluate(&set, embedder, arguments.evidence)?,
        };
        let interval = scores.ndcg_interval;
        println!(
            "{name:<22}  {:.4} [{:.3}, {:.3}]  {:.4} {:.4} {:.4} {:>8.0} {:>8.0}  {}",
            scores.ndcg,
            interval.low,
            interval.high,
            scores.recall_5,
            scores.recall_10,
            scores.mrr,
            scores.p50_us,
            scores.p99_us,
            scores.evidence.map_or(String::new(), |share| format!("{share:.3}"))
        );
        figures.insert(name, scores);
    }
    if let Some(path) = arguments.json {
        let text = serde_json::to_string_pretty(&json!({"sets": figures}))?;
        std::fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}

fn ask_questions(arguments: &Arguments, questions: &Path, tree: &Path) -> anyhow::Result<()> {
    let name = tree.file_name().context("a tree is a folder")?.to_string_lossy().into_owned();
    let mut labelled = TreeQuestion::read(questions)?;
    labelled.retain(|labelled| labelled.tree == name && labelled.unseen == arguments.unseen);
    anyhow::ensure!(!labelled.is_empty(), "no question of {} is about `{name}`", questions.display());
    let got = ask_tree(tree, &labelled, arguments.embedder()?)?;
    for got in got.iter().filter(|_| arguments.misses) {
        match (got.is_off_topic, got.in_quotes, got.is_doubted) {
            (true, _, false) => println!("NOT TOLD: {}\n{}\n", got.question, got.text),
            (false, true, true) => println!("DOUBTED: {}\n{}\n", got.question, got.text),
            (false, false, _) => {
                println!("MISSED (two calls: {}): {}\n{}\n", got.in_two_calls, got.question, got.text);
            }
            _ => {}
        }
    }
    let figures = Figures::of(&got);
    println!(
        "{name}: {} questions, {} off topic: in quotes {:.3}, in two calls {:.3}, empty first hits {:.3}, tokens p50 {}, \
         off topic told {:.3}, answered doubted {:.3}, {} of {} hits over the graph answer",
        figures.questions,
        figures.off_topic,
        figures.in_quotes,
        figures.in_two_calls,
        figures.empty_first_hits,
        figures.text_tokens_p50,
        figures.off_topic_told,
        figures.answered_doubted,
        figures.graph_hits_answer,
        figures.graph_hits
    );
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&json!({"trees": {&*name: figures}}))?;
        std::fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}

fn ask_patterns(arguments: &Arguments, questions: &Path, tree: &Path) -> anyhow::Result<()> {
    let mut specific = Specific::read(questions)?;
    specific.retain(|specific| specific.unseen == arguments.unseen);
    let found = ask_catalogue(tree, &specific, arguments.embedder()?)?;
    for found in found.iter().filter(|found| arguments.misses && (found.is_too_broad || !found.is_right)) {
        let broad = if found.is_too_broad { "TOO BROAD" } else { "MISSED" };
        println!("{broad}: {} {:?}", found.question, found.first);
    }
    let share = |many: usize| many as f64 / found.len().max(1) as f64;
    println!(
        "{} questions: answered without \"too broad\" {:.3}, right among the first three {:.3}",
        found.len(),
        share(found.iter().filter(|found| !found.is_too_broad).count()),
        share(found.iter().filter(|found| found.is_right).count()),
    );
    Ok(())
}
