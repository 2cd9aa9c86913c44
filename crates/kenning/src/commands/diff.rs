//! `kenning diff ID`: what differs between two versions of an entry, word by word.

use anyhow::bail;
use clap::Args;
use kenning_model::{EntityType, TxId};
use kenning_tools::memory::item::{EntryItem, entry_items};
use serde_json::{Value, json};
use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use super::refusal::Refused;
use super::show::to_the_second;
use super::store::Store;
use super::{Outcome, line, print};
use crate::config::Config;
use crate::terminal::{self, ADDED, BOLD, DIM, ID, PLAIN, REMOVED, Text, has_color};

#[derive(Args)]
#[command(after_help = "Examples:
  kenning diff K7H9M2PQX8
  kenning diff K7H9M2PQX8 --from 1 --to 4
  kenning diff K7H9M2PQX8 --json")]
pub struct Diff {
    /// Of the entry
    id: String,
    /// As it was at this transaction [default: before its last change]
    #[arg(long, value_name = "TX")]
    from: Option<u64>,
    /// As it was at this transaction [default: as it is, or was last]
    #[arg(long, value_name = "TX")]
    to: Option<u64>,
    /// Print both versions as JSON
    #[arg(long)]
    json: bool,
}

/// How many unchanged lines are shown before and after a change.
const AROUND: usize = 3;

pub fn run(config: &Config, diff: Diff) -> anyhow::Result<Outcome> {
    let store = Store::existing(config, None)?;
    let id = store.id(&diff.id)?;
    let snapshot = store.snapshot()?;
    let touched = snapshot.transactions_of(EntityType::Entry, id)?;
    let Some(last) = touched.last().copied() else { return Err(store.unknown("entry", &diff.id)) };
    let version_at = |tx: TxId| -> anyhow::Result<Option<EntryItem>> {
        let then = store.engine.snapshot_at(&store.caller.principal, Some(tx))?;
        let Some(stored) = then.entry(id)? else { return Ok(None) };
        let items = entry_items(&then, std::iter::once(&stored)).map_err(Refused::from)?;
        Ok(items.into_iter().next())
    };
    let to = diff.to.map_or(last, TxId);
    let changed = touched.iter().copied().rfind(|tx| *tx <= to);
    let from = match (diff.from, changed) {
        (Some(from), _) => TxId(from),
        (None, Some(changed)) => TxId(changed.0.saturating_sub(1)),
        (None, None) => bail!(Refused {
            outcome: Outcome::NotFound,
            message: format!(
                "`{id}` was not there yet as of transaction {to}; it was made by {}",
                touched[0]
            ),
        }),
    };
    let (before, after) = (version_at(from)?, version_at(to)?);
    if diff.json {
        let changed = match (&before, &after) {
            (Some(before), Some(after)) => {
                fields(before, after).into_iter().map(|(name, _, _)| name).collect()
            }
            _ => Vec::new(),
        };
        let shown = json!({"id": id.to_string(), "from": before, "to": after, "changed": changed});
        print(&shown.to_string())?;
        return Ok(Outcome::Done);
    }
    let shown = match (before, after) {
        (Some(before), Some(after)) => compared(&before, &after),
        (None, Some(after)) => one_sided(&after, "+", ADDED, "there was no version before"),
        (Some(before), None) => one_sided(&before, "-", REMOVED, "deleted"),
        (None, None) => {
            return Err(Refused::not_found(format!(
                "`{id}` was not there at transaction {from} nor at {to}"
            )));
        }
    };
    terminal::print(&shown)?;
    Ok(Outcome::Done)
}

fn version_line(sign: &str, style: anstyle::Style, item: &EntryItem) -> Text {
    let at = item.updated_at.as_ref().unwrap_or(&item.recorded_at);
    let at = to_the_second(at).replace('T', " ");
    let mut shown = Text::styled(style, format!("{sign} version {}", item.version));
    shown.push(
        DIM,
        format!("  transaction {}, {}, {}", item.tx_id, at.trim_end_matches('Z'), line(&item.actor)),
    );
    shown
}

fn heading(item: &EntryItem) -> Text {
    Text::styled(ID, &item.id).with(PLAIN, "  ").with(BOLD, line(&item.topic)).with(PLAIN, "\n")
}

fn one_sided(item: &EntryItem, sign: &str, style: anstyle::Style, why: &str) -> Text {
    let mut shown = heading(item);
    shown.append(version_line(sign, style, item));
    shown.push(DIM, format!(" ({why})\n"));
    for line in item.content.lines() {
        shown.push(style, format!("\n{sign} {line}"));
    }
    shown
}

/// The fields that differ between two versions, each with its old and its new value. The content is left out
/// because it gets a diff of its own, and so are the fields that every change sets anew.
fn fields(before: &EntryItem, after: &EntryItem) -> Vec<(String, String, String)> {
    const OF_EVERY_CHANGE: [&str; 5] = ["version", "updated_at", "recorded_at", "tx_id", "actor"];
    let [old, new] = [json!(before), json!(after)];
    let none = serde_json::Map::new();
    let [old, new] = [&old, &new].map(|version| version.as_object().unwrap_or(&none));
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let value = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => line(text),
        Some(Value::Array(values)) => {
            values.iter().map(|value| value.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    };
    names
        .into_iter()
        .filter(|name| !OF_EVERY_CHANGE.contains(&name.as_str()) && old.get(*name) != new.get(*name))
        .map(|name| (name.clone(), value(old.get(name)), value(new.get(name))))
        .collect()
}

fn compared(before: &EntryItem, after: &EntryItem) -> Text {
    let mut shown = heading(after);
    shown.append(version_line("-", REMOVED, before));
    shown.push(PLAIN, "\n");
    shown.append(version_line("+", ADDED, after));
    let others = fields(before, after);
    if others.is_empty() {
        shown.push(DIM, "\n\nThe two versions say the same.");
        return shown;
    }
    for (name, old, new) in others.iter().filter(|(name, _, _)| name != "content") {
        shown.push(PLAIN, format!("\n\n{name}"));
        let [old, new] = words(old, new);
        for (sign, style, text) in [("-", REMOVED, old), ("+", ADDED, new)] {
            if !text.is_empty() {
                shown.push(style, format!("\n{sign} "));
                shown.append(text);
            }
        }
    }
    if before.content != after.content {
        shown.push(PLAIN, "\n");
        shown.append(lines(&before.content, &after.content));
    }
    shown
}

/// A diff of the content: the lines that differ, with `AROUND` unchanged lines before and after each change.
fn lines(before: &str, after: &str) -> Text {
    let [old, new] = [before, after].map(|text| text.split('\n').collect::<Vec<&str>>());
    let mut shown = Text::new();
    for (number, group) in
        group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), AROUND).into_iter().enumerate()
    {
        if number > 0 {
            shown.push(DIM, "\n…");
        }
        for op in group {
            let [was, is] = [&old[op.old_range()], &new[op.new_range()]].map(|lines| lines.join("\n"));
            let parts = match op.tag() {
                DiffTag::Equal => vec![(" ", PLAIN, Text::plain(&was))],
                DiffTag::Delete => vec![("-", REMOVED, Text::styled(REMOVED, &was))],
                DiffTag::Insert => vec![("+", ADDED, Text::styled(ADDED, &is))],
                DiffTag::Replace => {
                    let [was, is] = words(&was, &is);
                    vec![("-", REMOVED, was), ("+", ADDED, is)]
                }
            };
            for (sign, style, text) in parts {
                for line in text.lines() {
                    shown.push(style, format!("\n{sign} "));
                    shown.append(line);
                }
            }
        }
    }
    shown
}

/// Both texts with the words marked that the other text does not have: by a style, or by `[-so-]` and
/// `{+so+}` if the output has no styles.
fn words(before: &str, after: &str) -> [Text; 2] {
    let [old, new] = [before, after].map(pieces);
    let mut shown = [Text::new(), Text::new()];
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let parts = [old[op.old_range()].concat(), new[op.new_range()].concat()];
        let is_other = op.tag() != DiffTag::Equal;
        for ((side, part), (style, open, close)) in
            shown.iter_mut().zip(parts).zip([(REMOVED, "[-", "-]"), (ADDED, "{+", "+}")])
        {
            match (is_other && !part.is_empty(), has_color()) {
                (false, _) => side.push(style, part),
                (true, true) => side.push(style.bold().underline(), part),
                (true, false) => side.push(style, format!("{open}{part}{close}")),
            }
        }
    }
    shown
}

/// Cuts a text into words and into the single characters between words.
fn pieces(text: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let kinds = text.char_indices().map(|(at, c)| (at, c.is_alphanumeric()));
    let pairs: Vec<(usize, bool)> = kinds.collect();
    cuts.extend(pairs.windows(2).filter(|pair| pair[0].1 != pair[1].1 || !pair[1].1).map(|pair| pair[1].0));
    cuts.push(text.len());
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_words_and_what_is_between() {
        assert_eq!(pieces("never on  Fridays!"), ["never", " ", "on", " ", " ", "Fridays", "!"]);
        assert_eq!(pieces("größer"), ["größer"]);
        assert_eq!(pieces(""), [""; 0]);
    }
}
