//! Long sections: a search finds them by the passage that answers, and shows and quotes the sentence that
//! answers, wherever it stands.

use serde_json::{Value, json};

use crate::session::Session;

const FIRST: &str = "Nightly rotation of archives is described in this chapter.";
const LAST: &str = "The vault key is renewed by the quartermaster every ninth Tuesday.";
const QUESTION: &str = "who renews the vault key?";

/// A page with one section: a long text about one thing, and at its very end a sentence about another.
fn long_page() -> String {
    let filler: Vec<String> = (0..400)
        .map(|number| {
            format!("Archive {number} is rotated at night and copied to shelf {} after that.", number % 7)
        })
        .collect();
    format!("# Archives\n\n{FIRST} {} {LAST}", filler.join(" "))
}

fn short_page(number: u32) -> (String, String) {
    (
        format!("short-{number}.md"),
        format!("# Keys {number}\n\nA key is renewed now and then. Door {number} has one."),
    )
}

#[test]
fn a_long_section_is_found_by_its_best_passage() {
    let session = with_long_page();
    for (path, text) in (0..20).map(short_page) {
        session.take_in(&path, &text);
    }
    for scoring in ["weighted", "overlap"] {
        let asked = json!({"query": QUESTION, "options": {"max_per_doc": 0, "scoring": scoring}});
        found_once_by_its_end(&session.good("kb.search", asked));
    }
}

fn with_long_page() -> Session {
    let session = Session::new();
    session.take_in("long.md", &long_page());
    session
}

fn found_once_by_its_end(found: &Value) {
    let results = found["results"].as_array().expect("results");
    assert_eq!(results[0]["title"], "Archives", "{found}");
    // The section is one result, however many of its passages match.
    assert_eq!(results.iter().filter(|result| result["title"] == "Archives").count(), 1, "{found}");
    let preview = results[0]["preview"].as_str().expect("a preview");
    assert!(preview.contains(LAST) && !preview.contains(FIRST), "{preview}");
    assert_eq!(results[0]["size_bytes"], json!(long_page().len() - "# Archives\n\n".len()));
}

#[test]
fn what_is_expanded_after_a_quote_is_around_it() {
    let session = with_long_page();
    let quotes = session.good("kb.retrieve_evidence", json!({"question": QUESTION}));
    assert!(quotes["quotes"][0]["quote"].as_str().is_some_and(|quote| quote.ends_with(LAST)), "{quotes}");
    let passage = &quotes["quotes"][0]["passage_id"];
    let more = session.good("kb.expand_excerpt", json!({"passage_id": passage, "before_tokens": 40}));
    let excerpt = more["excerpt"].as_str().expect("an excerpt");
    assert!(excerpt.ends_with(LAST) && excerpt.contains("Archive 399"), "{excerpt}");
}

#[test]
fn a_section_that_was_rewritten_is_found_by_none_of_its_old_passages() {
    let session = with_long_page();
    assert_eq!(
        session.good("kb.search", json!({"query": "quartermaster"}))["results"][0]["title"],
        "Archives"
    );
    session.take_in("long.md", "# Archives\n\nNothing is rotated any more.");
    let none = json!([]);
    assert_eq!(session.good("kb.search", json!({"query": "quartermaster"}))["results"], none);
    session.engine.rebuild().expect("it can be made again");
    assert_eq!(session.good("kb.search", json!({"query": "quartermaster"}))["results"], none);
    assert_eq!(session.good("kb.search", json!({"query": "rotated"}))["results"][0]["title"], "Archives");
}
