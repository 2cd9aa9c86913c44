//! `kenning add`: keep an entry.

use std::io::{IsTerminal, Read};

use anyhow::Context;
use clap::Args;
use kenning_tools::memory::item::one_line;
use serde_json::json;

use super::store::Store;
use super::{Outcome, print, usage};
use crate::config::Config;
use crate::terminal::{self, DIM, ID, Text};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning add --topic deployment --tag ops 'Blue-green; never on Fridays.'
  echo 'Tests run on port 5433.' | kenning add --topic tests
  kenning add --topic style --pin 'Comments say why.'")]
pub struct Add {
    /// What to keep; `-`, or nothing where stdin is piped, reads it from there
    text: Option<String>,
    /// What it is about, in a few words [default: the first words of the text]
    #[arg(long)]
    topic: Option<String>,
    /// A label to filter by; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Give it with every task
    #[arg(long)]
    pin: bool,
    /// Other words that someone may look for
    #[arg(long, value_name = "WORDS")]
    context: Option<String>,
    /// Where it comes from
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How many bytes of a text become its topic if none is given.
const TOPIC_BYTES: usize = 60;

pub fn run(config: &Config, add: Add) -> anyhow::Result<Outcome> {
    let text = match add.text.as_deref() {
        Some("-") => read_stdin()?,
        None if !std::io::stdin().is_terminal() => read_stdin()?,
        None => return Err(usage("there is nothing to keep; write it behind `kenning add`, or pipe it in")),
        Some(text) => text.to_owned(),
    };
    let store = Store::open(config)?;
    let topic = add.topic.unwrap_or_else(|| topic_of(&text));
    let arguments = json!({
        "topic": topic,
        "content": text,
        "tags": add.tag,
        "pinned": add.pin.then_some(true),
        "context": add.context,
        "source": add.source,
    });
    let reply = store.call(config, "store", arguments)?;
    if add.json {
        print(&reply.structured.to_string())?;
        return Ok(Outcome::Done);
    }
    let said = |name: &str| reply.structured[name].as_str().unwrap_or_default().to_owned();
    let (id, scope, tx) = (said("id"), said("scope"), &reply.structured["tx_id"]);
    let mut shown = Text::plain("Kept ").with(ID, id);
    shown.push(terminal::PLAIN, format!(" in {scope}"));
    shown.push(DIM, format!(" (transaction {tx}; `kenning undo {tx}` takes it back)"));
    for similar in reply.structured["similar"].as_array().into_iter().flatten() {
        let said = |name: &str| one_line(similar[name].as_str().unwrap_or_default(), 200);
        shown.push(terminal::PLAIN, "\nMuch like ");
        shown.push(ID, said("id"));
        shown.push(terminal::PLAIN, format!(" {}: {}", said("topic"), said("content")));
    }
    terminal::print(&shown)?;
    Ok(Outcome::Done)
}

fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("the text can't be read from stdin")?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// The first words of the first line that has any text besides Markdown signs.
fn topic_of(text: &str) -> String {
    let first =
        text.lines().map(|line| line.trim_matches(['#', ' ', '\t', '-', '*'])).find(|line| !line.is_empty());
    let first = first.unwrap_or_default();
    if first.len() <= TOPIC_BYTES {
        return first.to_owned();
    }
    let cut = &first[..first.floor_char_boundary(TOPIC_BYTES)];
    let words = cut.rsplit_once(' ').map_or(cut, |(words, _)| words);
    format!("{words}…")
}

#[cfg(test)]
mod tests {
    use super::topic_of;

    #[test]
    fn a_topic_is_the_first_words() {
        assert_eq!(topic_of("\n# Deploys\n\nBlue-green."), "Deploys");
        assert_eq!(topic_of("Never on Fridays."), "Never on Fridays.");
        let long = "We deploy blue-green and never on Fridays, because nobody is there on Saturdays.";
        assert_eq!(topic_of(long), "We deploy blue-green and never on Fridays, because nobody…");
        assert_eq!(topic_of(&"ü".repeat(100)).chars().count(), 31);
        assert_eq!(topic_of(" \n"), "");
    }
}
