//! The same questions, asked about documents: the texts are ingested as files, and searched and quoted by the
//! tools that agents call.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use kenning_engine::Embedder;
use kenning_presentation::Reply;
use serde_json::json;

use crate::library::{Library, quoted};
use crate::measure::{self, Judged};
use crate::{DEPTH, LabelledQuestion, Scores, Set, Text};

/// What of a set is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Files {
    /// Every text
    Each,
    /// All texts of one document or title, one after the other and without headings between them
    Joined,
    /// The same with a heading above each text
    Sections,
}

/// Ingests the texts as files, asks with `kb.search` and `kb.retrieve_evidence` with their defaults, and
/// judges the replies.
pub fn evaluate_documents(set: &Set, embedder: Embedder, files: Files) -> anyhow::Result<Scores> {
    let library = Library::new(embedder);
    let names: HashMap<&str, String> =
        set.texts.iter().map(|text| (text.group(), name(text, files))).collect();
    for (name, text) in contents(&set.texts, files) {
        library.take_in(&name, &text)?;
    }
    // The first questions wait for the index; they are not timed.
    if let Some(asked) = set.questions.first() {
        while search(&library, asked)?.meta.contains_key("io.kenning/degraded") {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let mut judged = Vec::new();
    for asked in set.questions.iter().filter(|asked| !asked.relevant.is_empty()) {
        let since = Instant::now();
        let found = search(&library, asked)?;
        let took = since.elapsed();
        let paths = library.paths(&found.structured["results"])?;
        let ranking: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut relevant: HashMap<String, f64> = HashMap::new();
        for (group, gain) in &asked.relevant {
            let name = names.get(group.as_str()).context("what is relevant is in the set")?;
            let best = relevant.entry(name.clone()).or_default();
            *best = gain.max(*best);
        }
        let mut one = Judged::new(&ranking, &relevant, took);
        if !asked.answers.is_empty() {
            let reply = library.call("kb.retrieve_evidence", json!({"question": asked.text}))?;
            one.answered = Some(measure::answers(&quoted(&reply), &asked.answers));
        }
        judged.push(one);
    }
    Ok(Scores::of(&judged))
}

fn search(library: &Library, asked: &LabelledQuestion) -> anyhow::Result<Reply> {
    library.call("kb.search", json!({"query": asked.text, "top_k": DEPTH, "page_size": DEPTH}))
}

/// The text of each file, by its name.
fn contents(texts: &[Text], files: Files) -> BTreeMap<String, String> {
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    for text in texts {
        let content = contents.entry(name(text, files)).or_insert_with(|| match text.title.as_str() {
            "" => String::new(),
            title => format!("# {title}\n"),
        });
        if files == Files::Sections {
            content.push_str(&format!("\n## Part {}\n", content.matches("\n## Part ").count() + 1));
        }
        content.push('\n');
        content.push_str(&text.text);
        content.push('\n');
    }
    contents
}

/// The name of a text's file: a text with a heading is Markdown, one without is plain.
fn name(text: &Text, files: Files) -> String {
    let whole = match (text.title.as_str(), text.id.split_once(':')) {
        _ if files == Files::Each => text.group(),
        _ if text.doc.is_some() => text.group(),
        // Parts without a title of their own are named after the document and their position in it.
        ("", Some((document, _))) => document,
        ("", None) => text.group(),
        (title, _) => title,
    };
    let is_plain = text.title.is_empty() && files != Files::Sections;
    let ending = if is_plain { "txt" } else { "md" };
    format!("{}.{ending}", whole.replace(['/', '\\'], "-"))
}
