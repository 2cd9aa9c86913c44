//! `kenning-eval [--evidence] [--documents each|joined] DIR… [--json FILE]`: how well search finds what it should.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use kenning_engine::Embedder;
use kenning_eval::{Files, Organisation, Scores, Set, evaluate, evaluate_documents, evaluate_recall};
use serde_json::json;

/// Measure search on labelled sets (corpus.jsonl, queries.jsonl, qrels.tsv)
#[derive(Parser)]
struct Arguments {
    /// Folders, one set each
    sets: Vec<PathBuf>,
    /// Ask for the tasks of these organisations (`crates/eval/recall/*.json`), and count the rules that come
    #[arg(long, value_name = "FILE", num_args = 1..)]
    recall: Vec<PathBuf>,
    /// With `--recall`: the part that was kept unseen
    #[arg(long)]
    unseen: bool,
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
    for path in &arguments.recall {
        let organisation = Organisation::read(path)?;
        let scores = evaluate_recall(&organisation, arguments.unseen, arguments.others)?;
        println!("{}: {}", organisation.name, serde_json::to_string(&scores)?);
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
