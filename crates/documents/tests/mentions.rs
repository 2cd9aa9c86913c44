//! Compares the mentions found on a page with those that were marked by hand.

use std::collections::BTreeSet;

use kenning_documents::{Format, parse};

#[test]
fn most_of_what_is_marked_is_found_and_little_else() {
    let page = parse(Format::Markdown, "mentions.md", include_str!("mentions.md")).expect("a good page");
    let mentions = page.sections.iter().flat_map(|section| &section.mentions);
    let found: BTreeSet<String> = mentions.map(|mention| mention.name.to_lowercase()).collect();
    let marked = include_str!("mentions.tsv").lines().filter(|line| !line.starts_with('#'));
    let marked: BTreeSet<String> = marked.map(str::to_lowercase).collect();
    assert!(marked.len() >= 40, "{}", marked.len());
    let both = found.intersection(&marked).count() as f64;
    let (recall, precision) = (both / marked.len() as f64, both / found.len() as f64);
    eprintln!("recall {recall:.3}, precision {precision:.3}");
    let missed: Vec<&String> = marked.difference(&found).collect();
    let wrong: Vec<&String> = found.difference(&marked).collect();
    assert!(recall >= 1.0, "{recall:.3}; missed: {missed:?}");
    assert!(precision >= 0.97, "{precision:.3}; wrong: {wrong:?}");
}
