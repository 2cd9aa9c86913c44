//! Questions about Kenning, asked of its own documentation, section by section.

use std::collections::HashMap;
use std::path::Path;

use kenning_engine::Embedder;
use kenning_eval::{Asked, Set, Text, evaluate};

const PAGES: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "docs/tools.md", "docs/errors.md", "docs/config.md", "docs/figures.md"];
const RECALL_5_MIN: f64 = 0.9;
const NDCG_MIN: f64 = 0.75;

/// The sections of a page, each under the name of its heading.
fn sections(page: &str) -> Vec<Text> {
    let path = Path::new("../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
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
        Asked { id: text.to_owned(), text: text.to_owned(), scope: None, answers: Vec::new(), relevant }
    });
    let questions = questions.collect();
    let scores = evaluate(&Set { texts, questions }, Embedder::default(), false).expect("it can be asked");
    eprintln!("own documentation: nDCG@10 {:.3}, recall@5 {:.3}", scores.ndcg, scores.recall_5);
    assert!(scores.recall_5 >= RECALL_5_MIN, "recall@5 is {:.3}", scores.recall_5);
    assert!(scores.ndcg >= NDCG_MIN, "nDCG@10 is {:.3}", scores.ndcg);
}
