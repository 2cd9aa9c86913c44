//! Long sections: found by the passage that answers, shown and quoted by the sentence that does, wherever it stands.

use kenning_engine::{Engine, Format, Intake};
use kenning_model::ScopeId;
use kenning_testkit::TempStore;
use kenning_tools::{Access, Caller, dispatch, find};
use serde_json::{Value, json};

const FIRST: &str = "Nightly rotation of archives is described in this chapter.";
const LAST: &str = "The vault key is renewed by the quartermaster every ninth Tuesday.";
const QUESTION: &str = "who renews the vault key?";

struct Shelf {
    engine: Engine,
    caller: Caller,
    _store: TempStore,
}

impl Shelf {
    fn with(documents: &[(&str, String)]) -> Shelf {
        let store = TempStore::new();
        let (engine, caller) =
            (store.engine(), Caller::new(None, "tests".into(), "global:default".to_owned()));
        let shelf = Shelf { engine, caller, _store: store };
        documents.iter().for_each(|(path, text)| shelf.put(path, text));
        shelf
    }

    fn put(&self, path: &str, text: &str) {
        let name = || "tests".to_owned();
        let (actor, origin, source, doc_tag) = (name(), name(), name(), name());
        let intake = Intake { actor, origin, scope: ScopeId::GLOBAL_DEFAULT, source, doc_tag };
        let document =
            intake.prepare(&self.engine, path, Format::Markdown, text.into()).expect("a good document");
        intake.put(&self.engine, document.expect("a new one")).expect("it is taken in");
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let tool = find(tool).expect("a tool");
        let arguments = arguments.as_object().cloned().expect("an object");
        let reply = dispatch(&self.engine, &self.caller, Access::ReadOnly, tool, arguments);
        assert!(!reply.is_error, "{}", reply.structured);
        reply.structured
    }
}

/// A page of one section: much about one thing, and at the very end something else.
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
    let mut documents = vec![("long.md".to_owned(), long_page())];
    documents.extend((0..20).map(short_page));
    let documents: Vec<(&str, String)> =
        documents.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    let shelf = Shelf::with(&documents);
    let found = shelf.call("kb.search", json!({"query": QUESTION, "options": {"max_per_doc": 0}}));
    let results = found["results"].as_array().expect("results");
    assert_eq!(results[0]["title"], "Archives", "{found}");
    // It comes once, however many of its passages match.
    assert_eq!(results.iter().filter(|result| result["title"] == "Archives").count(), 1, "{found}");
    let preview = results[0]["preview"].as_str().expect("a preview");
    assert!(preview.contains(LAST) && !preview.contains(FIRST), "{preview}");
    assert_eq!(results[0]["size_bytes"], json!(long_page().len() - "# Archives\n\n".len()));
}

#[test]
fn what_is_expanded_after_a_quote_is_around_it() {
    let shelf = Shelf::with(&[("long.md", long_page())]);
    let quotes = shelf.call("kb.retrieve_evidence", json!({"question": QUESTION}));
    assert_eq!(quotes["quotes"][0]["quote"], LAST, "{quotes}");
    let passage = &quotes["quotes"][0]["passage_id"];
    let more = shelf.call("kb.expand_excerpt", json!({"passage_id": passage, "before_tokens": 40}));
    let excerpt = more["excerpt"].as_str().expect("an excerpt");
    assert!(excerpt.ends_with(LAST) && excerpt.contains("Archive 399"), "{excerpt}");
}

#[test]
fn a_section_that_was_rewritten_is_found_by_none_of_its_old_passages() {
    let shelf = Shelf::with(&[("long.md", long_page())]);
    assert_eq!(shelf.call("kb.search", json!({"query": "quartermaster"}))["results"][0]["title"], "Archives");
    shelf.put("long.md", "# Archives\n\nNothing is rotated any more.");
    let none = json!([]);
    assert_eq!(shelf.call("kb.search", json!({"query": "quartermaster"}))["results"], none);
    shelf.engine.rebuild().expect("it can be made again");
    assert_eq!(shelf.call("kb.search", json!({"query": "quartermaster"}))["results"], none);
    assert_eq!(shelf.call("kb.search", json!({"query": "rotated"}))["results"][0]["title"], "Archives");
}
