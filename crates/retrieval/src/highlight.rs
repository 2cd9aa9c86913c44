//! Finds the places in a text that match the words of a question.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::lex;

/// The ranges of a text that have a term of the question, in order and without overlap. Of an identifier only
/// the part with the term is marked, if a single part has it.
///
/// `blue-green deploys` for the question "deploying green things" gives `green` and `deploys`.
pub fn highlight(question: &str, text: &str) -> Vec<Range<usize>> {
    let terms: HashSet<Arc<str>> = lex::question_terms(question).into_iter().collect();
    let mut found: Vec<Range<usize>> = Vec::new();
    lex::each_word_range(text, |range, words| {
        if words.iter().any(|word| terms.contains(&lex::term_of(word))) {
            match found.last_mut().filter(|last| last.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => found.push(range),
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str, expected: &[&str]) {
        let found: Vec<&str> = highlight(question, text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{question}: {text}");
    }

    #[test]
    fn words_are_found_in_every_form() {
        check(
            "when do we deploy",
            "We deploy blue-green. Deployments on Fridays: never.",
            &["deploy", "Deployments"],
        );
        check("deploying green things", "blue-green deploys", &["green", "deploys"]);
        check("what is it", "nothing of that", &[]);
        check("größer", "Größer als GRÖSSER", &["Größer"]);
    }

    #[test]
    fn identifiers_are_found_whole_or_by_a_part() {
        check("node.js", "uses node.js, not node", &["node.js", "node"]);
        check("user name", "call getUserName()", &["getUserName"]);
        check("nodejs", "uses node.js", &["node.js"]);
    }

    #[test]
    fn scripts_without_blanks_are_found_too() {
        check("重启", "需要重启服务", &["重启"]);
    }
}
