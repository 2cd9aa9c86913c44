//! Checks that tasks get the rules that they need, on the seen part of the labelled organisations;
//! `-- --nocapture` prints the figures.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kenning_eval::{Organisation, RecallScores, evaluate_recall, evaluate_recall_hook};
use kenning_retrieval::lex;

/// The smallest share of the required rules that tasks must get, in every form of the queries.
const RECALL_MIN: f64 = 0.93;
/// The smallest share of the questions without a common word that must have their rule among the first five.
const FIRST_FIVE_MIN: f64 = 0.65;
/// The smallest share of the unrelated tasks without a common word that must get nothing.
const SILENT_MIN: f64 = 0.8;

fn organisation(name: &str) -> Organisation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recall").join(format!("{name}.json"));
    Organisation::read(&path).expect("an organisation")
}

fn scores(name: &str, others: usize) -> RecallScores {
    let scores = evaluate_recall(&organisation(name), false, others).expect("every call is answered");
    eprintln!("{name} beside {others} others: {scores:?}");
    scores
}

fn check(name: &str, scores: &RecallScores) {
    assert!(scores.tasks > 0 && scores.questions > 0, "{name}: there is something to ask");
    assert_eq!(scores.recall.len(), 5, "{name}: every form is asked");
    for (form, recall) in &scores.recall {
        assert!(*recall >= RECALL_MIN, "{name}, {form}: {recall:.3} of the rules come");
    }
    assert!(scores.silent_none >= SILENT_MIN, "{name}: {:.3} get nothing", scores.silent_none);
}

#[test]
fn tasks_get_the_rules_that_they_need() {
    let all = ["ferrant", "nordlys"].map(|name| (name, scores(name, 0)));
    for (name, scores) in &all {
        check(name, scores);
    }
    let questions: usize = all.iter().map(|(_, scores)| scores.questions).sum();
    let found: f64 = all.iter().map(|(_, scores)| scores.first_five * scores.questions as f64).sum();
    let first_five = found / questions as f64;
    assert!(first_five >= FIRST_FIVE_MIN, "{first_five:.3} of {questions} questions find their rule");
}

/// The smallest share of the required rules that must come beside the task's queries as a prompt, without a
/// call of the agent,
const HOOK_RECALL_MIN: f64 = 0.85;
/// and the smallest share of the unrelated prompts without a common word that must get an empty briefing.
const HOOK_SILENT_MIN: f64 = 0.95;

#[test]
fn a_prompt_alone_brings_the_rules_and_nothing_else_brings_any() {
    for name in ["ferrant", "nordlys"] {
        let scores = evaluate_recall_hook(&organisation(name), false).expect("every prompt is answered");
        eprintln!("{name}: {scores:?}");
        assert!(scores.by_queries >= HOOK_RECALL_MIN, "{name}: {:.3} of the rules come", scores.by_queries);
        assert!(scores.by_both >= HOOK_RECALL_MIN, "{name}: {:.3} with the request", scores.by_both);
        assert!(scores.silent_none >= HOOK_SILENT_MIN, "{name}: {:.3} are silent", scores.silent_none);
        assert!(scores.chars_max <= 1_500, "{name}: {} characters", scores.chars_max);
    }
}

/// Entries in another namespace change no figure.
#[test]
fn what_others_have_stored_changes_no_figure() {
    let (alone, beside) = (scores("ferrant", 0), scores("ferrant", 1_000));
    check("ferrant", &beside);
    assert_eq!(beside.recall, alone.recall);
    assert_eq!(beside.first_five, alone.first_five);
    assert_eq!(beside.in_context, alone.in_context);
    assert_eq!(beside.silent_none, alone.silent_none);
    assert_eq!(beside.silent_some, alone.silent_some);
}

/// A question with a word of its rule would measure how words are found, and not how meaning is. Nobody may
/// look at some of the questions, so the failure shows only the rule and the words.
#[test]
fn no_question_has_a_word_of_the_rule_that_it_needs() {
    let mut shared = Vec::new();
    for name in ["ferrant", "nordlys", "halden", "speicher"] {
        let organisation = organisation(name);
        for asked in &organisation.questions {
            let rule = organisation.rule(asked).unwrap_or_else(|| panic!("{name} has no {}", asked.rule));
            let texts = [&rule.topic, &rule.content, &rule.context].into_iter().chain(&rule.tags);
            let known: BTreeSet<Arc<str>> = texts.flat_map(|text| lex::terms(text)).collect();
            let common: Vec<Arc<str>> =
                lex::terms(&asked.question).into_iter().filter(|term| known.contains(term)).collect();
            if !common.is_empty() {
                shared.push(format!("{name}: a question for {} has {common:?}", asked.rule));
            }
        }
    }
    assert!(shared.is_empty(), "{}", shared.join("\n"));
}
