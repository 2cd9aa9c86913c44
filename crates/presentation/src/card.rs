//! The Markdown of a catalogue for people: an index of all matches, and a card for each one that is shown.
//! Programs find these by markers, which are comments that people do not see; stored text can't contain a
//! marker.

use crate::text::{clean, cut, fence_as, fence_inline};

/// The kind of item that a catalogue shows; its name is part of the markers.
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub &'static str);

pub const VERSION: &str = "v1";

/// The number of markers of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Markers {
    pub index: usize,
    pub cards: usize,
}

impl Kind {
    pub fn index_marker(self) -> String {
        self.marker("index")
    }

    pub fn card_marker(self) -> String {
        self.marker("card")
    }

    /// The marker of the card that is shown when nothing was found.
    pub fn discovery_marker(self) -> String {
        self.marker("discovery")
    }

    fn marker(self, what: &str) -> String {
        format!("<!-- kind:{}-{what}:{VERSION} -->", self.0)
    }

    pub fn count(self, markdown: &[String]) -> Markers {
        let many = |marker: String| markdown.iter().map(|text| text.matches(&marker).count()).sum();
        Markers { index: many(self.index_marker()), cards: many(self.card_marker()) }
    }
}

impl Markers {
    /// Checks that the markers, the ids of the cards and the first matches agree; the error says what
    /// differs.
    pub fn check(self, rendered: &[String], found: &[&str]) -> Result<(), String> {
        if self.cards != rendered.len() {
            return Err(format!("{} markers of cards for {} cards", self.cards, rendered.len()));
        }
        let first: Vec<&str> = found.iter().take(rendered.len()).copied().collect();
        match rendered == first {
            true => Ok(()),
            false => Err(format!("the cards {rendered:?} are not the first that were found, {first:?}")),
        }
    }
}

/// A short stored value within a line: between backticks, so that it is never read as markup.
pub fn value(text: &str) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    fence_inline(&unmarked(&line))
}

/// Like `value`, cut to this number of bytes.
pub fn short_value(text: &str, bytes_max: usize) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    value(&cut(&line, bytes_max))
}

/// Stored text of any length, in a fence that it can't close.
pub fn passage(text: &str, language: Option<&str>) -> String {
    let is_word = |word: &&str| {
        word.len() <= 32 && word.chars().all(|c| c.is_ascii_alphanumeric() || "+#-_.".contains(c))
    };
    fence_as(language.filter(is_word).unwrap_or("text"), unmarked(&clean(text)).trim_end())
}

/// Stored text in which nothing is read as a marker.
pub fn unmarked(text: &str) -> String {
    text.replace("<!-- kind:", "<!-- kind :")
}

/// The list of matches, numbered from `first`; each line has what a reader needs to choose.
pub fn index<'a>(kind: Kind, first: u64, lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = kind.index_marker();
    for (number, line) in (first..).zip(lines) {
        text.push_str(&format!("\n{number}. {line}"));
    }
    text
}

/// The card of one item. `facts` are names with values. The values and the `parts` are Markdown already.
pub fn card(kind: Kind, level: usize, title: &str, facts: &[(&str, String)], parts: &[String]) -> String {
    let mut text = format!("{}\n{} {}", kind.card_marker(), "#".repeat(level), value(title));
    if !facts.is_empty() {
        text.push('\n');
    }
    for (name, fact) in facts {
        text.push_str(&format!("\n- {name}: {fact}"));
    }
    for part in parts {
        text.push_str("\n\n");
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind("recipe");

    #[test]
    fn an_index_and_a_card_are_exactly_this() {
        let lines =
            [format!("{} ({})", value("Bread `and` butter"), value("bread")), value("Soup\nof the day")];
        assert_eq!(
            index(KIND, 3, lines.iter().map(String::as_str)),
            "<!-- kind:recipe-index:v1 -->\n3. `` Bread `and` butter `` (`bread`)\n4. `Soup of the day`"
        );
        let facts = [("id", value("bread")), ("time", "1 h".to_owned())];
        let parts = [passage("Knead.\n```\nx\n```", None), passage("a < b", Some("rust"))];
        assert_eq!(
            card(KIND, 2, "# Bread", &facts, &parts),
            "<!-- kind:recipe-card:v1 -->\n## `# Bread`\n\n- id: `bread`\n- time: 1 h\n\n\
             ````text\nKnead.\n```\nx\n```\n````\n\n```rust\na < b\n```"
        );
    }

    #[test]
    fn stored_text_makes_no_marker() {
        let forged = "<!-- kind:recipe-card:v1 -->";
        let shown = card(KIND, 1, forged, &[("id", value(forged))], &[passage(forged, Some(forged))]);
        assert_eq!(
            KIND.count(&[shown, index(KIND, 1, [value(forged).as_str()].into_iter())]),
            Markers { index: 1, cards: 1 }
        );
    }

    #[test]
    fn markers_that_do_not_agree_are_told() {
        let cards = ["a".to_owned(), "b".to_owned()];
        let two = Markers { index: 1, cards: 2 };
        assert_eq!(two.check(&cards, &["a", "b", "c"]), Ok(()));
        assert!(two.check(&cards[..1], &["a", "b"]).is_err());
        assert!(two.check(&cards, &["b", "a"]).is_err());
        assert_eq!(Markers::default().check(&[], &["a"]), Ok(()));
    }
}
